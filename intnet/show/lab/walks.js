// Two that go on for many steps: an update smaller than half a step, and a sum that outgrows its register.
const walks = {
  // W <- round(W + u), to nearest and by words, in <WL,FL>
  update(o) {
    const [w, u] = [exact.parse(o.w), exact.parse(o.u)];
    const made = {overflow: "saturate", signed: "signed", wl: 32, fl: o.ufl};
    const step = (x, mode, word) => exact.times({n: FORMATS.fixed.way(x, 0, made, mode, word, 32).code, d: 1n}, exact.power(-o.ufl));
    const runs = {nearest: [["ties_even", 0]], stochastic: [1, 2, 3].map((seed) => ["stochastic", seed])};
    const first = step(w, "ties_even", 0n);
    const curves = {exact: [[]]};
    for (let k = 0; k <= o.n; k++) curves.exact[0].push([k, exact.number(exact.add(w, exact.times(u, {n: BigInt(k), d: 1n})))]);
    for (const [name, each] of Object.entries(runs))
      curves[name] = each.map(([mode, seed]) => {
        const drawn = words.draw(o.n, o.seed + seed, 4);
        const curve = [[0, exact.number(first)]];
        let now = first;
        for (let k = 0; k < o.n; k++) curve.push([k + 1, exact.number((now = step(exact.add(now, u), mode, BigInt(drawn[k]))))]);
        return curve;
      });
    const all = Object.values(curves).flat(2).map(([, y]) => y);
    const chart = new Chart([0, o.n], [Math.min(...all), Math.max(...all)], "a weight over many updates");
    chart.axes("updates", "W");
    for (const [name, each] of Object.entries(curves)) each.forEach((curve) => chart.line(curve, name));
    const limit = 2 ** (31 - o.ufl);
    const limited = all.some((y) => Math.abs(y) >= limit) ? [["limited", `W is <32,${o.ufl}>: within ±${limit}`]] : [];
    const end = (name) => curves[name].map((curve) => show.short(curve.at(-1)[1])).join(", ");
    show.put("update-chart", chart.svg, show.table([
      ["the update, in steps of 2^-FL", element.both(exact.over(u, exact.power(-o.ufl)))],
      ["W at the end, exact", end("exact")], ["rounded to nearest", end("nearest")], ["stochastic, three seeds", end("stochastic")], ...limited]));
  },
  // a sum of n products in a register of `acc` bits
  dot(o) {
    const [a, b] = [5, 6].map((stream) => words.draw(o.terms, o.seed, stream));
    const code = (word, width) => BigInt.asIntN(width, BigInt(word));
    const [low, high] = [-(1n << BigInt(o.acc - 1)), (1n << BigInt(o.acc - 1)) - 1n];
    let [whole, kept, most, first] = [0n, 0n, 1, null];
    const [truth, register, widths] = [[[0, 0]], [[0, 0]], [[0, 1]]];
    for (let k = 0; k < o.terms; k++) {
      let product = code(a[k], o.ka) * code(b[k], o.kb);
      if (o.operands === "all at the limit") product = 1n << BigInt(o.ka + o.kb - 2);
      whole += product;
      kept = rounding.overflow(kept + product, [low, high, o.register]);
      if (first === null && kept !== whole) first = k + 1;
      most = Math.max(most, rules.needed(whole));
      truth.push([k + 1, Number(whole)]);
      register.push([k + 1, Number(kept)]);
      widths.push([k + 1, rules.needed(whole)]);
    }
    const bound = rules.needed(BigInt(o.terms) << BigInt(o.ka + o.kb - 2));
    const ys = [...truth, ...register].map(([, y]) => y);
    const chart = new Chart([0, o.terms], [Math.min(...ys), Math.max(...ys)], "a sum of products, term by term");
    chart.axes("terms", "sum");
    chart.line(truth, "exact");
    chart.line(register, "stochastic");
    const width = new Chart([0, o.terms], [0, Math.max(bound, o.acc)], "bits that the sum needs", {height: 140});
    width.axes("terms", "bits");
    width.line(widths, "nearest");
    width.line([[0, o.acc], [o.terms, o.acc]], "stochastic");
    show.put("dot-chart", show.make("div", {}, chart.svg, width.svg), show.table([
      ["exact sum", `${whole}`], [`register of ${o.acc} bits`, `${kept}`],
      ["first wrong", first === null ? "never" : `at term ${first}`],
      ["bits that were needed", `${most}`], ["that always suffice", `${bound}`]]));
  },
};
