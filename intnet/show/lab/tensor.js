// The whole tensor: a histogram before and after, each element's error, and what was lost.
const BINS = 48;
const tensor = {
  SHAPES: {
    normal: (n, seed) => words.normal(n, seed),
    uniform: (n, seed) => words.uniform(n, seed, 1).map((u) => 2 * u - 1),
    laplace: (n, seed) => words.uniform(n, seed, 1).map((u) => (u < 0.5 ? Math.log(2 * u) : -Math.log(2 - 2 * u))),
    "heavy tails": (n, seed) => words.normal(n, seed).map((x) => x * Math.exp(2 * Math.abs(x) - 2)),
    "behind ReLU": (n, seed) => words.normal(n, seed).map((x) => Math.max(x, 0)),
  },
  drawn: (shape, n, seed, scale) => tensor.SHAPES[shape](n, seed).map((x) => exact.fromNumber(Math.round(x * scale * 4096) / 4096)),
  draw(elements, o) {
    const facts = quantize.facts(elements);
    show.put("tensor-facts", show.table([
      ["elements", facts.n.toLocaleString("en")],
      ["SQNR", Number.isFinite(facts.sqnr) ? `${facts.sqnr.toFixed(2)} dB` : "nothing is lost"],
      ["greatest error", show.short(facts.worst)],
      ["mean of the errors (bias)", show.short(facts.mean)],
      ["their variance", show.short(facts.variance)],
      ["became 0", `${facts.zeros} that were not`],
      ["limited", `${facts.saturated}`],
      ["codes in use", `${facts.codes}`],
    ]));
    show.put("histograms", tensor.histogram(elements, "x", "before"), tensor.histogram(elements, "value", "after"));
    show.put("errors", tensor.errors(elements, o));
  },
  histogram(elements, key, name) {
    const all = elements.flatMap((e) => [exact.number(e.x), exact.number(e.value)]);
    const values = elements.map((e) => exact.number(e[key]));
    const [low, high] = [Math.min(...all), Math.max(...all)];
    const width = (high - low) / BINS || 1;
    const counts = new Array(BINS).fill(0);
    for (const value of values) counts[Math.min(Math.floor((value - low) / width), BINS - 1)] += 1;
    const chart = new Chart([low, low + BINS * width], [0, Math.max(...counts)], `histogram ${name}`, {width: 400, height: 150, left: 36});
    chart.axes(name === "before" ? "x" : "value", "");
    chart.bars(counts, (k) => low + k * width, width, name);
    return show.make("figure", {}, show.make("figcaption", {}, name === "before" ? "Before" : "After"), chart.svg);
  },
  // error over x, in a color by what happened; a click chooses
  errors(elements, o) {
    const [xs, errors] = [elements.map((e) => exact.number(e.x)), elements.map((e) => exact.number(e.error))];
    const chart = new Chart([Math.min(...xs), Math.max(...xs)], [Math.min(...errors, 0), Math.max(...errors, 0)], "error of each element");
    chart.axes("x", "error");
    elements.forEach((e, k) => {
      const kind = e.saturated ? "limited" : e.x.n !== 0n && e.value.n === 0n ? "vanished" : "after";
      const dot = chart.add("circle", {class: `${kind}${k === o.index ? " chosen" : ""}`, cx: chart.across(xs[k]).toFixed(1), cy: chart.up(errors[k]).toFixed(1), r: k === o.index ? 6 : 3.5},
        show.make("title", {}, `element ${k}: ${show.short(xs[k])} became ${show.short(exact.number(e.value))}`));
      dot.addEventListener("click", () => page.choose(k));
    });
    return chart.svg;
  },
};
