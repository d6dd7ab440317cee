// One element: the grid around it, the way to its code, bits, and what a thousand draws come to.
const element = {
  draw(elements, o) {
    const one = elements[o.index];
    const format = FORMATS[o.format];
    show.put("grid-line", element.line(one, elements, o));
    show.put("bits", ...element.cells(one, format, o));
    show.put("way", show.table(format ? element.way(one, format, o) : element.codec(one, o)));
    show.put("draws", ...element.draws(one, format, o));
  },
  way(one, format, o) {
    const {way} = one;
    const rows = [["exact value x", element.both(one.x)]];
    if (way.zero) return [...rows, ["block", "no bits, or all of it below 2^-129: every code is 0"], ["code", "0"]];
    if (["sq", "cq", "flag"].includes(o.format)) rows.push(["of the whole tensor", `n = ${one.grid}, R = 2^${one.grid}`]);
    if (o.format === "scaled") rows.push(["of the whole tensor", `s = ${one.grid}`]);
    if (o.format === "block") rows.push(["of its block", `e = ${one.grid}`]);
    if (o.format === "mx") rows.push(["of its block", `k = ${one.grid}, as a word of E8M0 ${one.grid + 127}`]);
    if (o.format === "flag") rows.push(["grid", way.lift > 1n ? "|x| ≥ Sc: coarse, steps of Sc" : "|x| < Sc: fine, steps of Sc / 2^(k-1)"]);
    const {decision} = way;
    rows.push(["one step", element.both(way.step)]);
    rows.push(["x / step", `${decision.floor} + ${exact.text(decision.fraction)}${decision.tie ? ": a tie" : ""}`]);
    if (decision.threshold !== null)
      rows.push(["random word", `${one.word} ${decision.up ? "<" : "≥"} ${decision.threshold} = ⌊fraction · 2^${o.bits}⌋`]);
    rows.push([MODES[o.mode], decision.up ? `up: ${decision.rounded}` : `down: ${decision.rounded}`]);
    if (way.limits) rows.push([`limits ${way.limits[0]} .. ${way.limits[1]}`, way.saturated ? `${way.limits[2] === "wrap" ? "wraps" : "clips"} to ${way.kept}` : "inside"]);
    if (o.format === "mx" && way.lift > 1n) rows.push(["binade", `code = ${way.kept} · ${way.lift}, in the block's least steps`]);
    return [...rows, ...element.end(one, `2^${format.exponent(one.grid, o)}`, format.stands ? "code · step" : "value")];
  },
  codec(one, o) {
    const {made, state} = one;
    const rows = [["exact value x", element.both(one.x)], ["as float32: a", show.short(one.a, 9)]];
    rows.push(["of the bucket", Object.entries(state).map(([key, value]) => `${key} = ${show.short(value, 9)}`).join(", ")]);
    if (!made.decision) return [...rows, ["all alike", "s = 0: the bucket keeps its one value"], ["code", "0"]];
    rows.push(["u, in float32", show.short(made.u, 9)]);
    rows.push(["floor, fraction", `${made.decision.floor} + ${show.short(made.decision.part, 9)}`]);
    if (made.decision.threshold !== null)
      rows.push(["random word", `${one.word} ${one.word < made.decision.threshold ? "<" : "≥"} ${made.decision.threshold}`]);
    rows.push(["rounded", `${made.decision.rounded}${made.saturated ? `, clipped to ${made.q}` : ""}`]);
    return [...rows, ...element.end(one, null)];
  },
  end(one, unit, stands = "value") {
    const relative = one.x.n === 0n ? "" : ` (${show.short(100 * Math.abs(exact.number(exact.over(one.error, one.x))), 3)} % of x)`;
    return [["code", `${one.code}`], [unit ? `value = code · ${unit}` : "value ã", element.both(one.value)],
      [`error, ${stands} - x`, element.both(one.error) + relative]];
  },
  both(a) {
    const decimal = show.short(exact.number(a), 7);
    return exact.text(a) === decimal ? decimal : `${exact.text(a)} ≈ ${decimal}`;
  },
  cells(one, format, o) {
    const bits = [...one.bits];
    const names = o.format === "flag" ? (k) => (k === 0 ? "flag" : k === 1 ? "sign" : "magnitude")
      : o.format === "mx" && o.element !== "MXINT8" ? (k) => (k === 0 ? "sign" : k < bits.length - MX[o.element].m ? "exponent" : "fraction")
      : format && o.signed !== "unsigned" ? (k) => (k === 0 ? "sign" : "") : () => "";
    return bits.map((bit, k) => show.make("span", {class: `bit ${names(k)}`, title: names(k) || `2^${bits.length - 1 - k}`}, bit));
  },
  // codes near x, x itself, and where it went; x can be dragged
  line(one, elements, o) {
    const step = one.way && !one.way.zero ? exact.number(one.way.step) : Math.abs(exact.number(one.error)) * 4 || 1;
    const [x, there] = [exact.number(one.x), exact.number(one.there)];
    const reach = Math.max((document.documentElement.clientWidth < 600 ? 1.8 : 3.5) * step, 1.2 * Math.abs(there - x));
    const chart = new Chart([x - reach, x + reach], [0, 1], "the codes near x, and the one that is taken", {width: 900, height: 112, left: 14, bottom: 46});
    chart.add("line", {class: "axis", x1: 14, x2: chart.width - 14, y1: chart.up(0), y2: chart.up(0)});
    if (one.way && !one.way.zero) {
      const first = exact.floor(exact.over(one.x, one.way.step)) - 4n;
      for (let k = 0n; k < 10n; k++) {
        const code = first + k;
        const kept = rounding.overflow(code, one.way.limits) === code;
        const at = exact.number(exact.times({n: code, d: 1n}, one.way.step));
        if (Math.abs(at - x) > reach) continue;
        chart.add("line", {class: kept ? "tick" : "tick out", x1: chart.across(at), x2: chart.across(at), y1: chart.up(0) - 10, y2: chart.up(0)});
        chart.add("text", {x: chart.across(at), y: chart.up(0) + 14, "text-anchor": "middle", class: kept ? "" : "out"}, `${code * one.way.lift}`);
      }
    }
    chart.add("path", {class: "arrow", d: `M${chart.across(x)} 34Q${(chart.across(x) + chart.across(there)) / 2} 6 ${chart.across(there)} ${chart.up(0) - 12}`});
    chart.add("circle", {class: "after", cx: chart.across(there), cy: chart.up(0) - 5, r: 5});
    const dot = chart.add("circle", {class: "before drag", cx: chart.across(x), cy: 34, r: 8, tabindex: 0, role: "slider",
      "aria-label": "x", "aria-valuenow": x, "aria-valuetext": show.short(x)});
    chart.add("text", {x: chart.across(x) + 12, y: 38}, `x = ${show.short(x, 6)}`);
    chart.add("text", {x: chart.width / 2, y: 106, "text-anchor": "middle"}, "codes; drag x, or step it with the arrow keys");
    element.drag(chart, dot, step, x);
    return chart.svg;
  },
  drag(chart, dot, step, x) {
    const grain = 2 ** Math.floor(Math.log2(step) - 6);  // so that what is dragged to is short
    const move = (to) => page.set(exact.fromNumber(Math.round(to / grain) * grain));
    dot.addEventListener("pointerdown", (down) => {
      down.preventDefault();
      const box = chart.svg.getBoundingClientRect();
      const go = (event) => move(chart.back((event.clientX - box.left) / box.width * chart.width));
      const stop = () => { removeEventListener("pointermove", go); removeEventListener("pointerup", stop); };
      addEventListener("pointermove", go);
      addEventListener("pointerup", stop);
    });
    dot.addEventListener("keydown", (event) => {
      const way = {ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1}[event.key];
      if (!way) return;
      event.preventDefault();
      move(x + way * step / 8);
      document.querySelector("#grid-line .drag").focus();
    });
  },
  // a thousand words: how often each code, and the running mean
  draws(one, format, o) {
    const chances = format && quantize.chances(one.x, format, one.grid, o);
    if (!chances) return [show.make("p", {class: "quiet"}, "Draws are shown for formats that round one value on a grid of its own.")];
    const drawn = words.draw(1000, o.seed, 3).map((word) => BigInt(word) >> BigInt(32 - o.bits));
    const made = drawn.map((word) => format.way(one.x, one.grid, o, "stochastic", word, o.bits));
    const unit = quantize.stands(format, one.grid, o);
    let sum = 0;
    const means = made.map((way, k) => [k + 1, (sum += exact.number(exact.times({n: way.code, d: 1n}, unit))) / (k + 1)]);
    const [low, high] = [exact.number(chances.a), exact.number(chances.b)];
    const chart = new Chart([0, 1000], [low, high], "running mean of stochastic draws", {height: 160});
    const x = exact.number(one.x);
    chart.axes("draws", "mean");
    if (x >= low && x <= high) chart.line([[0, x], [1000, x]], "exact");
    chart.line(means, "stochastic");
    const ups = made.filter((way) => way.decision.up).length;
    return [show.table([
      ["goes up", `${ups} of 1,000 draws; with probability ${element.both(chances.p)}`],
      ["bias of stochastic", element.both(chances.bias)],
      ["its variance", element.both(chances.variance)],
      [`error of “${MODES[o.mode]}” now`, show.short(exact.number(one.error), 6)],
    ]), chart.svg];
  },
};
