// Codecs of saved activations: `intnet.spec.buckets`. All is binary32, one rounding an operation: `Math.fround`
// of a double's +, -, *, / of two binary32 numbers is that operation rounded once, as 53 >= 2 * 24 + 2.
const f32 = Math.fround;
const float32 = {
  // a rational, rounded once to binary32, ties to even
  of(x) {
    if (x.n === 0n) return 0;
    const size = exact.size(x);
    let e = exact.bits(size.n) - exact.bits(size.d);
    if (exact.less(size, exact.power(e))) e -= 1;
    const step = Math.max(e - 23, -149);
    const code = rounding.decision(exact.over(x, exact.power(step)), "ties_even").rounded;
    const value = Number(code) * 2 ** step;
    if (f32(value) !== value) throw new Error("a number beyond float32");
    return value;
  },
  // the whole number nearest to a binary32, ties to even
  nearest(u) {
    const floor = Math.floor(u);
    const part = u - floor;
    return floor + (part > 0.5 || (part === 0.5 && floor % 2 !== 0) ? 1 : 0);
  },
  // floor(u) and its fraction as a binary32, to nearest or by a word
  decided(u, word) {
    const floor = Math.floor(u);
    const part = f32(u - floor);
    if (word === null) return {floor, part, rounded: float32.nearest(u), threshold: null};
    const threshold = BigInt(Math.floor(part * 2 ** 32));
    return {floor, part, rounded: floor + (word < threshold ? 1 : 0), threshold};
  },
  finite(x) {
    if (!Number.isFinite(x)) throw new Error("a number beyond float32");
    return x;
  },
};
const clamp = (x, low, high) => Math.min(Math.max(x, low), high);

// name -> formula, state(values, b): what a bucket shares; way(a, state, b, word): {u, decision, code, value}
const CODECS = {
  affine: {
    title: "buckets, affine: to nearest",
    formula: "s = (max - min) / (2^b - 1), z = round(-min / s), q = clip(round(a / s + z), 0, 2^b - 1), ã = s · (q - z)",
    state(values, b) {
      const [least, most] = [Math.min(...values), Math.max(...values)];
      const s = f32(float32.finite(f32(most - least)) / f32(2 ** b - 1));
      return s === 0 ? {s, z: least} : {s, z: float32.nearest(float32.finite(f32(-least / s)))};
    },
    way(a, {s, z}, b, word) {
      if (s === 0) return {u: 0, decision: null, q: 0, code: 0, value: z, saturated: false};
      const u = float32.finite(f32(f32(a / s) + z));
      const decision = float32.decided(u, word);
      const q = clamp(decision.rounded, 0, 2 ** b - 1);
      return {u, decision, q, code: q, value: float32.finite(f32(s * f32(f32(q) - z))), saturated: q !== decision.rounded};
    },
  },
  levels: {
    title: "buckets, levels: stochastic",
    formula: "u = min(|a| / scale, 1) · 2^b, m = floor(u) + [word < frac(u) · 2^32], ã = sign(a) · m / 2^b · scale; scale = max|a|",
    words: true,
    state: (values) => ({scale: Math.max(f32(1e-8), ...values.map(Math.abs))}),
    way(a, {scale}, b, word) {
      const u = f32(Math.min(f32(Math.abs(a) / scale), 1) * 2 ** b);
      const decision = float32.decided(u, word);
      const m = decision.rounded;
      const size = f32(f32(m / 2 ** b) * scale);
      const code = 2 ** b + (a > 0 ? m : -m);
      return {u, decision, q: a > 0 ? m : -m, code, value: a > 0 ? size : -size || 0, saturated: false};
    },
  },
  symmetric: {
    title: "a tensor, symmetric: to nearest",
    formula: "T = the 99.999th percentile of |a|, s = T / 2^(b-1), q = clip(round(a / s), -2^(b-1), 2^(b-1) - 1), ã = s · q",
    whole: true,
    state(values, b) {
      const k = Math.floor(0.01 * 99.999 * values.length + 0.5);
      const sizes = values.map(Math.abs).sort((x, y) => x - y);
      return {s: f32(Math.max(sizes[k - 1], f32(1e-10)) / 2 ** (b - 1))};
    },
    way(a, {s}, b) {
      const end = s * 2 ** b;
      const u = f32(clamp(a, -end, end) / s);
      const decision = float32.decided(u, null);
      const q = clamp(decision.rounded, -(2 ** (b - 1)), 2 ** (b - 1) - 1);
      return {u, decision, q, code: 2 ** (b - 1) + q, value: f32(s * q), saturated: q !== decision.rounded};
    },
  },
};
CODECS.affine_stochastic = {...CODECS.affine, title: "buckets, affine: stochastic", words: true,
  formula: CODECS.affine.formula.replace("round(a / s + z)", "floor(u) + [word < frac(u) · 2^32]") + ", u = a / s + z"};
