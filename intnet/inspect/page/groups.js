// Elements that share a scale: blocks of DYNASTY (4 along two axes), of MX (along one), and buckets of a codec.
// The greatest magnitude of some elements, and the first that has it: {size, at}.
const greatest = (path, members) => members
  .map((at) => ({at, size: exact.size(data.rational(path.source.array, data.flat(at, path.shape)))}))
  .reduce((best, one) => (exact.less(best.size, one.size) ? one : best));
const counted = (members) => (members.length === 1 ? "1 value" : `${members.length} values`);
const block = {
  rounded(path, index, flat, value) {
    const r = path.rounding;
    const axes = [0, r.axis];
    const of = index.map((i, axis) => (axes.includes(axis) ? i >> 2 : i));
    const spans = path.shape.map((size, axis) =>
      axes.includes(axis) ? Array.from({length: Math.min(4, size - 4 * of[axis])}, (_, k) => 4 * of[axis] + k) : [index[axis]]);
    const members = spans.reduce((all, span) => all.flatMap((head) => span.map((i) => [...head, i])), [[]]);
    const top = greatest(path, members);
    const found = blocks.exponent([top.size]);
    const e = found ?? -128;
    let b = e - data.at(path.result.exponents, flat) + 1;
    if (b === 1) b = 0;
    const low = exact.less(top.size, exact.power(e - 1));
    const stations = [
      ["block", `[${of}], ${counted(members)}`],
      ["max of block", `${tell.both(top.size)} at [${top.at}]`],
      ["exponent e", `${e}, ${low ? "the least there is" : "the smallest with max < 2^e"}`],
      ["bits b", `${b}`],
    ];
    const tiny = top.size.n !== 0n && found === null;
    if (tiny || b === 0) {
      const why = tiny ? "the whole block is below 2^-129: a block of zeros" : "b = 0: a block of zeros";
      return {stations: [...stations, ["decision", why]], code: 0n, width: b, made: null};
    }
    const step = e - b + 1;
    const limit = spread(b);
    const made = rules.way(value.value, exact.power(step), [-limit, limit, "saturate"], [r.mode]);
    stations.push(["rounded to", `${b} bits, ${r.mode}, steps of 2^(e - b + 1) = 2^${step}`], ["scaled", tell.both(exact.over(value.value, made.step))]);
    return {stations: [...stations, ...way.decided(made, r, null)], code: made.code, width: b, made};
  },
};

const mx = {
  rounded(path, index, flat, value, word) {
    const {axis, groups, o, mode, bits} = path.rounding;
    const part = path.shape[axis] / groups;
    const inside = index[axis] % part;
    const first = inside - inside % o.size;
    const members = Array.from({length: Math.min(o.size, part - first)},
      (_, k) => index.map((i, of) => (of === axis ? i - inside + first + k : i)));
    const top = greatest(path, members);
    const k = scales.k(top.size, o);
    const least = FORMATS.mx.exponent(k, o);
    const stored = new Set(members.map((at) => data.at(path.result.exponents, data.flat(at, path.shape))));
    if (stored.size > 1 || !stored.has(least))
      throw new Error(`${path.layer}/${path.path} ${index}: its block has the scale 2^${k}, steps of 2^${least}, `
        + `stored are steps of 2^[${[...stored].sort((a, b) => a - b).join(", ")}]`);
    const made = FORMATS.mx.way(value.value, k, o, mode, word ?? 0n, bits);
    const step = scales.log2(made.step);
    const stations = [
      ["block", `${counted(members)} along axis ${axis}`],
      ["max of block", `${tell.both(top.size)} at [${top.at}]`],
      ["scale", `2^${k}, by rule ${o.rule} of the maximum`],
      ["rounded to", `${path.format}, ${mode}, steps of 2^${step}`],
      ["scaled", tell.both(exact.over(value.value, made.step))],
      ...way.decided(made, path.rounding, word),
    ];
    if (step > least) stations.push(["binade", `of the value: code = ${made.kept} * 2^${step - least}, in the block's least steps`]);
    return {stations, code: made.code, element: mx.element(made.code, o, data.at(path.source.array, flat)), made};
  },
  // its word, the fields apart; a zero has the sign of what was rounded to it
  element(code, o, source) {
    if (o.element === "MXINT8") return "";
    const {bits, m} = MX[o.element];
    const word = FORMATS.mx.bits(code, o, {n: source < 0 || Object.is(source, -0) ? -1n : 1n});
    return `${word[0]} ${word.slice(1, bits - m)} ${word.slice(bits - m)}`;
  },
};

// One binary32 operation: its exact result, and the float that it was rounded to; both rationals.
const operation = (name, formula, whole) => ({name, formula, exact: whole, value: exact.fromNumber(float32.of(whole))});
const given = (name, formula, value) => ({name, formula, exact: value, value});
const whole = (n) => ({n: BigInt(n), d: 1n});

const codec = {
  line(one) {
    const formula = one.formula === one.name ? "" : `${one.formula} = `;
    if (exact.equal(one.exact, one.value)) return [one.name, formula + tell.both(one.value)];
    return [one.name, `${formula}${tell.decimal(one.exact)}, in float32 ${tell.both(one.value)}`];
  },
  // an integer as a float32, worth a line only where it is none
  inexact: (one) => (exact.equal(one.exact, one.value) ? [] : [one]),
  nearest: (x) => whole(rounding.decision(x, "ties_even").rounded),
  offset: (kind, b) => (kind === "levels" ? 1n << BigInt(b) : kind === "counted" ? BigInt(b) : kind === "symmetric" ? 1n << BigInt(b - 1) : 0n),
  // {operations, scale, zero} of a bucket
  scaling(r, k, b) {
    const [least, greatest] = [data.rational(r.least, k), data.rational(r.greatest, k)];
    if (r.codec === "symmetric") {
      const reach = exact.fromNumber(r.reach);
      const s = operation("s", "T/2^(b-1)", exact.over(reach, exact.power(b - 1)));
      return {operations: [given("T", "the 99.999th percentile of |a|, at least 1e-10", reach), s], scale: s.value, zero: null};
    }
    if (r.codec === "levels" || r.codec === "counted") {
      const top = exact.greatest([exact.size(least), exact.size(greatest)]);
      const scale = exact.greatest([top, exact.fromNumber(f32(1e-8))]);
      return {operations: [given("max|a|", "the greater of -min and max", top), given("scale", "max(max|a|, 1e-8)", scale)], scale, zero: null};
    }
    const span = operation("max - min", "max - min", exact.minus(greatest, least));
    const steps = operation("2^b - 1", `2^${b} - 1`, whole((1n << BigInt(b)) - 1n));
    const s = operation("s", "(max - min)/(2^b - 1)", exact.over(span.value, steps.value));
    const operations = [span, ...codec.inexact(steps), s];
    if (s.value.n === 0n) return {operations, scale: s.value, zero: least};
    const start = operation("-min/s", "-min/s", exact.over(exact.minus(whole(0), least), s.value));
    const zero = codec.nearest(start.value);
    return {operations: [...operations, start, given("z", "round(-min/s), ties to even", zero)], scale: s.value, zero};
  },
  // to nearest, or by a word: {floor, fraction, ..}, the fraction a float32, which may come to 1
  decided(u, word) {
    const floor = exact.floor(u);
    const part = operation("fraction", "u - floor(u)", exact.minus(u, whole(floor)));
    if (word === null) return {part, ...rounding.decision(u, "ties_even")};
    const threshold = (part.value.n << 32n) / part.value.d;
    const up = word < threshold;
    return {part, floor, fraction: part.value, tie: exact.equal(part.value, HALF), threshold, up, rounded: floor + (up ? 1n : 0n)};
  },
  rounded(r, flat, value) {
    const k = Math.floor(flat / r.size);
    const last = Math.min((k + 1) * r.size, r.elements) - 1;
    const b = Number(data.at(r.widths, k));
    const word = r.words === null ? null : data.integer(r.words, flat);
    const [least, greatest] = [data.rational(r.least, k), data.rational(r.greatest, k)];
    const {operations, scale, zero} = codec.scaling(r, k, b);
    const stations = [["codec", r.name], ["bucket", `${tell.commas(k)} of 0..${tell.commas(r.buckets - 1)}: elements ${tell.commas(k * r.size)}..${tell.commas(last)} of the tensor, flat; in it element ${tell.commas(flat - k * r.size)}`]];
    stations.push(["bits b", `${b}${codec.promoted(r, k)}`], ["min of bucket", tell.both(least)], ["max of bucket", tell.both(greatest)]);
    stations.push(...operations.map(codec.line));
    const made = {k, b, scale, a: value.value, flat};
    if (scale.n === 0n) {
      const why = "a constant bucket (s = 0): its value is stored in the place of z, every code is 0";
      return {stations: [...stations, ["decision", why]], code: 0n, made: {...made, after: [], value: zero}};
    }
    const found = codec.KINDS[r.codec](value.value, scale, zero, b, word);
    stations.push(...found.before.map(codec.line), ["floor", tell.commas(found.decision.floor)]);
    stations.push(word === null ? ["fraction", tell.both(found.decision.fraction)] : codec.line(found.decision.part));
    const limited = {decision: found.decision, limits: [...found.limits, "saturate"], kept: found.kept, saturated: found.kept !== found.decision.rounded};
    stations.push(...way.limited(limited, word === null ? "ties_even" : "stochastic", word, 32, "fraction"));
    return {stations, code: found.code, made: {...made, ...found}};
  },
  promoted(r, k) {
    if (!r.mix) return "";
    const [word, threshold] = [data.integer(r.mix.words, k), exact.floor(exact.times(exact.fromNumber(r.mix.share), exact.power(32)))];
    const up = word < threshold;
    return `, ${up ? "promoted" : "not promoted"}: random word ${word} ${up ? "<" : ">="} ${threshold} = floor(${tell.double(r.mix.share)} * 2^32)`;
  },
  affine(a, s, z, b, word) {
    const ratio = operation("a/s", "a/s", exact.over(a, s));
    const u = operation("u", "a/s + z", exact.add(ratio.value, z));
    const decision = codec.decided(u.value, word);
    const limits = [0n, (1n << BigInt(b)) - 1n];
    const q = rounding.overflow(decision.rounded, [...limits, "saturate"]);
    const number = operation("q as float32", "q", whole(q));
    const share = operation("q - z", "q - z", exact.minus(number.value, z));
    const value = operation("a~", "s*(q - z)", exact.times(s, share.value));
    return {before: [ratio, u], decision, limits, kept: q, code: q, after: [...codec.inexact(number), share, value], value: value.value};
  },
  level(kind) {
    return (a, scale, zero, b, word) => {
      const count = codec.offset(kind, b);
      const ratio = operation("|a|/scale", "|a|/scale", exact.over(exact.size(a), scale));
      const ax = exact.least([ratio.value, whole(1)]);
      const u = operation("u", `ax*L, L = ${kind === "levels" ? "2^b" : "b"} = ${tell.commas(count)}`, exact.times(ax, whole(count)));
      const decision = codec.decided(u.value, word);
      const kept = rounding.overflow(decision.rounded, [0n, count, "saturate"]);
      const number = operation("m as float32", "m", whole(kept));
      const share = operation("m/L", "m/L", exact.over(number.value, whole(count)));
      const size = operation("|a~|", "m/L * scale", exact.times(share.value, scale));
      const value = a.n < 0n ? exact.minus(whole(0), size.value) : size.value;
      return {before: [ratio, given("ax", "min(|a|/scale, 1)", ax), u], decision, limits: [0n, count], kept, code: a.n < 0n ? -kept : kept,
        after: [...codec.inexact(number), share, size, given("a~", "sign(a) * |a~|", value)], value};
    };
  },
  symmetric(a, s, z, b) {
    const end = exact.times(s, exact.power(b));
    const within = exact.least([exact.greatest([a, exact.minus(whole(0), end)]), end]);
    const ratio = operation("a/s", "a/s, a within -2T..2T", exact.over(within, s));
    const decision = codec.decided(ratio.value, null);
    const half = 1n << BigInt(b - 1);
    const kept = rounding.overflow(decision.rounded, [-half, half - 1n, "saturate"]);
    const number = operation("q as float32", "q", whole(kept));
    const value = operation("a~", "s*q", exact.times(s, number.value));
    return {before: [ratio], decision, limits: [-half, half - 1n], kept, code: kept, after: [...codec.inexact(number), value], value: value.value};
  },
  // the code, where it is packed, and the value that gradients read
  stored(path, flat, rounded) {
    const r = path.rounding;
    const {k, b, scale, a, after, value} = rounded.made;
    const kind = r.codec;
    const levels = codec.offset(kind, b);
    const width = kind === "levels" || kind === "counted" ? exact.bits(2n * levels) : b;
    const at = 64 * Number(data.at(r.ahead, k)) + (flat - k * r.size) * width;
    const [word, bit] = [Math.floor(at / 64), at % 64];
    const packed = rounded.code + levels;
    const names = {levels: "2^b", symmetric: "2^(b-1)"};
    const sign = levels ? `, stored as code + ${names[kind] ?? "L"} = ${tell.commas(packed)}` : "";
    const end = bit + width - 1;
    const lies = end >= 64 ? `bits ${bit}..63 of 64-bit word ${tell.commas(word)}, 0..${end - 64} of the next` : `bits ${bit}..${end} of 64-bit word ${tell.commas(word)}`;
    const stations = [
      ["code", `${tell.commas(rounded.code)}${sign} = 0b${tell.word(packed, width)} = 0x${tell.hex(packed, width)} (${width} bits, unsigned)`],
      ["packed", `${lies}; from bit ${at % 8} of byte ${tell.commas(Math.floor(at / 8))}`],
    ];
    stations.push(...(after.length ? after.map(codec.line) : [["a~", tell.both(value)]]));
    const error = exact.minus(value, a);
    let told = tell.both(error);
    if (scale.n) {
      const unit = {levels: "scale/L", counted: "scale/L"}[kind] ?? "s";
      const step = unit === "s" ? scale : exact.over(scale, whole(levels));
      const bound = {affine: "at most s/2", symmetric: "at most s/2"}[kind] ?? `below ${unit}`;
      told += `: ${tell.share(exact.over(error, step))} ${unit} (${bound} in exact arithmetic, where nothing saturates)`;
    }
    stations.push(["error a~ - a", told]);
    return {stations, agrees: rounded.code === data.integer(path.result.codes, flat) && exact.equal(value, data.rational(path.result.array, flat))};
  },
};
codec.KINDS = {affine: codec.affine, "affine-stochastic": codec.affine, levels: codec.level("levels"), counted: codec.level("counted"), symmetric: codec.symmetric};
