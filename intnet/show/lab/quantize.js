// A tensor through a format or a codec: what every element became, and what it cost.
const quantize = {
  // tensor: rationals; o: the choices of the page. -> elements, and facts of the whole
  all(tensor, o) {
    if (CODECS[o.format]) o = {...o, bits: 32};  // theirs are whole words
    const drawn = words.draw(tensor.length, o.seed).map((word) => BigInt(word) >> BigInt(32 - o.bits));
    if (o.word !== "" && tensor.length) drawn[Math.min(o.index, tensor.length - 1)] = quantize.word(o);
    return FORMATS[o.format] ? quantize.formatted(tensor, o, drawn) : quantize.coded(tensor, o, drawn);
  },
  word(o) {
    const word = exact.parse(o.word);
    if (word.d !== 1n || word.n < 0n || word.n >> BigInt(o.bits)) throw new Error(`a word has ${o.bits} bits: 0 to ${2 ** o.bits - 1}, or 0x..`);
    return word.n;
  },
  formatted(tensor, o, drawn) {
    const format = FORMATS[o.format];
    const grid = format.grid(tensor, o);
    return tensor.map((x, index) => {
      const own = format.at ? format.at(grid, index, o) : grid;
      const way = format.way(x, own, o, o.mode, drawn[index], o.bits);
      const value = exact.times({n: way.code, d: 1n}, exact.power(format.exponent(own, o)));
      const there = exact.times({n: way.code, d: 1n}, quantize.stands(format, own, o));
      return {x, value, there, way, grid: own, word: drawn[index], code: way.code, saturated: way.saturated,
        bits: format.bits(way.code, o, x), error: exact.minus(there, x)};
    });
  },
  // what code 1 stands for beside x: its value, but of CQ, whose value gives up the magnitude of x
  stands: (format, grid, o) => (format.stands ? format.stands(grid, o) : exact.power(format.exponent(grid, o))),
  coded(tensor, o, drawn) {
    const codec = CODECS[o.format];
    const values = tensor.map(float32.of);
    const size = codec.whole ? values.length : o.size;
    return values.map((a, index) => {
      const start = Math.floor(index / size) * size;
      const state = codec.state(values.slice(start, start + size), o.b);
      const made = codec.way(a, state, o.b, codec.words ? drawn[index] : null);
      const value = exact.fromNumber(made.value);
      const width = o.format === "levels" ? o.b + 2 : o.b;
      return {x: tensor[index], value, there: value, state, made, word: drawn[index], code: BigInt(made.code), a,
        saturated: made.saturated, bits: rules.twos(BigInt(made.code), width), error: exact.minus(value, tensor[index])};
    });
  },
  // doubles, for people: nothing of this is a bit
  facts(elements) {
    const n = elements.length;
    const [xs, errors] = [elements.map((e) => exact.number(e.x)), elements.map((e) => exact.number(e.error))];
    const sum = (list) => list.reduce((a, b) => a + b, 0);
    const [signal, noise] = [sum(xs.map((x) => x * x)), sum(errors.map((e) => e * e))];
    const mean = sum(errors) / n;
    return {
      n,
      zeros: elements.filter((e) => e.x.n !== 0n && e.value.n === 0n).length,
      saturated: elements.filter((e) => e.saturated).length,
      codes: new Set(elements.map((e) => e.code)).size,
      sqnr: noise ? 10 * Math.log10(signal / noise) : Infinity,
      worst: Math.max(...errors.map(Math.abs)),
      mean,
      variance: noise / n - mean * mean,
    };
  },
  // over all words, each as likely: the mean of the error, and its variance; both exact
  chances(x, format, grid, o) {
    const low = format.way(x, grid, o, "to_neg");
    const high = format.way(x, grid, o, "to_pos");
    if (low.zero) return null;
    const unit = quantize.stands(format, grid, o);
    const [a, b] = [low, high].map((way) => exact.times({n: way.code, d: 1n}, unit));
    const made = format.way(x, grid, o, "stochastic", 0n, o.bits).decision;
    const p = exact.ratio(made.threshold, 1n << BigInt(o.bits));
    const gap = exact.minus(b, a);
    const mean = exact.add(a, exact.times(p, gap));
    const variance = exact.times(exact.times(p, exact.minus({n: 1n, d: 1n}, p)), exact.times(gap, gap));
    return {a, b, p, bias: exact.minus(mean, x), variance};
  },
};
