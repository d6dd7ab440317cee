// One element's way from what entered to its code, as `inspect/explain.py` goes it, by the lab's arithmetic.
const way = {
  // {stations: [name, text] .., value: what was rounded, rounded: how} of an element of a path
  of(path, index) {
    const flat = data.flat(index, path.shape);
    if (path.source === null) throw new NotHeld("this path is told by Python alone");
    const value = way.value(path, flat);
    const rounded = path.rounding && way.rounded(path, index, flat, value);
    const stations = [];
    if (path.formula) stations.push(["formula", path.formula]);
    if (path.product) stations.push(["products", way.product(path.product)]);
    stations.push(...way.operands(value, path.format), ...way.exact(value));
    if (rounded) stations.push(...rounded.stations);
    const stored = way.stored(path, flat, value, rounded);
    return {stations: [...stations, ...stored.stations], value: value.value, rounded, agrees: stored.agrees};
  },
  product({factors, terms, bound}) {
    return `${factors.join(" * ")}: a sum of up to ${tell.commas(terms)}${bound === "0" ? "" : `, |code| <= ${tell.commas(bound)}`}`;
  },

  // -- the exact value: {terms, offset, den, .., value} or {square} ------------------------------------
  value(path, flat) {
    const {source} = path;
    if (source.kind === "float") {
      const number = data.at(source.array, flat);
      if (!Number.isFinite(number)) throw new Error(`the value is ${number}: it has no exact value`);
      const den = BigInt(source.den);
      return {source, terms: [], offset: 0n, den, number, exponent: 0, value: exact.over(exact.fromNumber(number), {n: den, d: 1n})};
    }
    if (source.kind === "root") {
      const [n, den] = [BigInt(source.numerators[flat]), BigInt(source.den)];
      const terms = [{name: source.term, code: n, coefficient: 1n, coefficientName: "", shift: 0}];
      const square = exact.times(exact.ratio(n, den), exact.power(2 * source.exponent));
      return {source, terms, offset: 0n, den, exponent: source.exponent, value: null, square};
    }
    const terms = source.terms.map((term) => ({...term, code: data.integer(term.array, flat), coefficient: data.part(term.coefficient, flat)}));
    const [offset, den] = [data.part(source.offset, flat), data.part(source.den, flat)];
    const exponent = source.exponents === null ? source.exponent : data.at(source.exponents, flat);
    const sum = terms.reduce((all, t) => all + ((t.code * t.coefficient) << BigInt(t.shift)), offset);
    const kept = source.relu && sum < 0n ? 0n : sum;
    return {source, terms, offset, den, exponent, sum, value: exact.times(exact.ratio(kept, den), exact.power(exponent))};
  },
  named: (name) => (name ? ` (${name})` : ""),
  operands(value, format) {
    const rows = [];
    if (value.number !== undefined) rows.push([format ? "operand" : "value", `float32 ${tell.double(value.number)}`]);
    for (const t of value.terms) {
      if (!t.name && value.terms.length === 1 && t.coefficient === 1n && value.den === 1n) continue;
      const factor = t.coefficient !== 1n || t.coefficientName ? `, times ${tell.commas(t.coefficient)}${way.named(t.coefficientName)}` : "";
      rows.push(["operand", `${t.name || "code"} = ${tell.commas(t.code)}${factor}${t.shift ? `, shifted left by ${t.shift}` : ""}`]);
    }
    const {offsetName = "", denName = "", relu} = value.source;
    if (value.offset || offsetName) rows.push(["offset", tell.commas(value.offset) + way.named(offsetName)]);
    if (value.den !== 1n || denName) rows.push(["denominator", tell.commas(value.den) + way.named(denName)]);
    if (relu) rows.push(["before relu", tell.commas(value.sum)]);
    return rows;
  },
  exact(value) {
    const unit = value.exponent ? ` * 2^${value.exponent}` : "";
    if (value.value === null)
      return [["exact value", `sqrt(${tell.commas(value.terms[0].code)}/${tell.commas(value.den)})${unit} = ${tell.root(value.square)}`]];
    const rows = [["exact value", tell.both(value.value)]];
    if (value.terms.length && !(value.den === 1n && value.terms.length === 1))
      rows.unshift(["sum", tell.fraction(exact.over(value.value, exact.power(value.exponent))) + unit]);
    return rows;
  },

  // -- rounding: {stations, code, kept, ..} -----------------------------------------------------------
  rounded(path, index, flat, value) {
    const r = path.rounding;
    if (r.kind === "bucket") return codec.rounded(r, flat, value);
    const word = r.words === null ? null : data.integer(r.words, flat) >> BigInt(32 - r.bits);
    if (r.kind === "block") return block.rounded(path, index, flat, value);
    if (r.kind === "mx") return mx.rounded(path, index, flat, value, word);
    const format = FORMATS[r.name];
    const made = value.value === null ? way.root(format, r, value.square) : format.way(value.value, r.grid, r.o, r.mode, word ?? 0n, r.bits);
    const grid = exact.bits(made.step.n) - exact.bits(made.step.d);
    let by = ["sq", "flag", "cq"].includes(r.name) ? `, R(x) = 2^${r.grid}` : "";
    if (r.name === "scaled") by = `, s = ${-grid} by the tensor's extremes`;
    const stations = [["rounded to", `${path.format}, ${r.mode}, steps of 2^${grid}${by}`]];
    stations.push(["scaled", value.value === null ? tell.root(exact.over(value.square, exact.times(made.step, made.step))) : tell.both(exact.over(value.value, made.step))]);
    stations.push(...way.decided(made, r, word));
    const lift = exact.bits(made.lift) - 1;
    if (lift) stations.push(["flag", `coarse grid: code = ${made.kept} * 2^${lift}`]);
    return {stations, code: made.code, made};
  },
  // floor, remainder, word, decision, saturation
  decided(made, r, word) {
    const {decision} = made;
    const rows = [["floor", tell.commas(decision.floor)]];
    if (!made.standIn) rows.push(["remainder", tell.both(decision.fraction)]);
    return [...rows, ...way.limited(made, r.mode, word, r.bits, "remainder")];
  },
  limited(made, mode, word, bits, part) {
    const {decision, limits} = made;
    const rows = [];
    if (decision.threshold !== null)
      rows.push(["random word", `${word} (${bits} bits)`], ["threshold", `${decision.threshold} = floor(${part} * 2^${bits})`]);
    rows.push(["decision", way.rule(mode, decision, word)], ["before saturation", tell.commas(decision.rounded)]);
    const told = limits ? `limits ${tell.commas(limits[0])}..${tell.commas(limits[1])}` : "no limits";
    rows.push(["saturation", made.saturated ? `${tell.commas(decision.rounded)} -> ${tell.commas(made.kept)} (${told}, ${limits[2]})` : `no (${told})`]);
    return rows;
  },
  rule(mode, made, word) {
    if (made.fraction.n === 0n) return "on the grid: nothing to round";
    const sign = made.floor < 0n ? "negative" : "positive";
    const why = {
      stochastic: () => `random word ${word} ${made.up ? "<" : ">="} ${made.threshold}`,
      to_neg: () => "always down", to_pos: () => "always up", to_zero: () => `towards zero, ${sign}`,
    }[mode] ?? (() => (!made.tie ? `nearest, remainder ${exact.less(HALF, made.fraction) ? "above" : "below"} 1/2` : {
      ties_even: `tie to even, floor ${made.floor} is ${made.floor & 1n ? "odd" : "even"}`,
      ties_away: `tie away from zero, ${sign}`, ties_pos: "tie towards +infinity"}[mode]));
    return `${why()}: ${made.up ? "up" : "down"} to ${made.rounded}`;
  },
  // a root is rounded by comparing squares: its fraction is only a stand-in, but for 0 and 1/2
  root(format, r, square) {
    const {step, limits} = format.way({n: 0n, d: 1n}, r.grid, r.o, r.mode);
    const v = exact.over(square, exact.times(step, step));
    const floor = tell.isqrt(exact.floor(v));
    const [whole, double] = [exact.equal({n: floor * floor, d: 1n}, v), (2n * floor + 1n) ** 2n];
    const four = exact.times(v, {n: 4n, d: 1n});
    const side = exact.less(four, {n: double, d: 1n}) ? 1n : exact.equal(four, {n: double, d: 1n}) ? 2n : 3n;
    const decision = rounding.decision(whole ? {n: floor, d: 1n} : exact.ratio(4n * floor + side, 4n), r.mode);
    const kept = rounding.overflow(decision.rounded, limits);
    return {step, decision, limits, kept, code: kept, lift: 1n, saturated: kept !== decision.rounded, standIn: !whole && side !== 2n};
  },

  // -- the code, and whether it is the one that the library stored ------------------------------------
  stored(path, flat, value, rounded) {
    const {result} = path;
    if (result.kind === "packed") return codec.stored(path, flat, rounded);
    if (result.kind === "float") {
      if (!result.bits) return {stations: [["passed on", "a quotient: its reader rounds it"]], agrees: true};
      const bits = new Uint32Array(new Float32Array([data.at(result.array, flat)]).buffer)[0];
      return {stations: [["passed on", `float32 bits ${bits.toString(16).padStart(8, "0")}`]], agrees: true};
    }
    let [code, width, e, flag] = [null, null, value.exponent, ""];
    if (result.kind === "exact") {
      const units = exact.over(value.value, exact.power(value.exponent));
      if (!result.whole || units.d !== 1n) return {stations: [["passed on", "a quotient: its reader rounds it"]], agrees: true};
      [code, width] = [units.n, exact.bits(units.n) + 1];
    } else {
      code = data.integer(result.array, flat);
      width = rounded?.width ?? result.width;
      e = result.exponents === null ? result.exponent : data.at(result.exponents, flat);
      if (result.flag !== null) flag = FORMATS.flag.bits(code, {k: result.flag});
    }
    const word = width ? ` = 0b${tell.word(code, width)} = 0x${tell.hex(code, width)} (${width} bits)` : ", without bits";
    const stations = [["code", tell.commas(code) + word]];
    if (flag) stations.push(["stored word", `${flag[0]} ${flag[1]} ${flag.slice(2)} (flag, sign, magnitude)`]);
    if (rounded?.element) stations.push(["element", `${rounded.element} (sign, exponent, fraction), times the scale`]);
    stations.push(["stands for", `${tell.commas(code)} * 2^${e} = ${tell.both(exact.times({n: code, d: 1n}, exact.power(e)))}`]);
    return {stations, agrees: !rounded || rounded.code === code};
  },
};
