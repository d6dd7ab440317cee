// MX: a scale 2^k a block, `intnet.spec.microscaling`, and elements as codes in their block's least steps, 2^(k + L - m),
// as `intnet.spec.mx_blocks` has them. m: bits after the leading one; least, most: the exponents L of the least normal
// element and E of the greatest, which is top * 2^(E - m).
const MX = {
  MXFP8_E4M3: {bits: 8, m: 3, least: -6, most: 8, top: 14n},
  MXFP8_E5M2: {bits: 8, m: 2, least: -14, most: 15, top: 7n},
  MXFP6_E3M2: {bits: 6, m: 2, least: -2, most: 4, top: 7n},
  MXFP6_E2M3: {bits: 6, m: 3, least: 0, most: 2, top: 15n},
  MXFP4: {bits: 4, m: 1, least: 0, most: 2, top: 3n},
  MXINT8: {bits: 8, m: 6, least: 0, most: 0, top: 127n},
};
const scales = {
  // the n with 2^n <= x < 2^(n+1), x > 0
  log2(x) {
    const n = exact.bits(x.n) - exact.bits(x.d);
    return exact.less(x, exact.power(n)) ? n - 1 : n;
  },
  // k by the greatest magnitude t, t > 0, not yet within the scales that there are
  RULES: {
    floor: (t, {most}) => scales.log2(t) - most,
    ceil: (t, {most}) => -scales.log2(exact.over(exact.power(0), t)) - most,
    round(t, {m, most}) {
      const unit = exact.power(scales.log2(t) - m);
      const near = rounding.decision(exact.over(t, unit), "ties_even").rounded;
      return scales.log2(exact.times({n: near, d: 1n}, unit)) - most;
    },
    fit: (t, {m, most, top}) => -scales.log2(exact.over(exact.times({n: top, d: 1n}, exact.power(most - m)), t)),
  },
  // k of a block whose greatest magnitude is t
  k(t, o) {
    const k = t.n === 0n ? -127 : scales.RULES[o.rule](t, MX[o.element]);
    if (k > 127) throw new Error("a block's scale is beyond 2^127");
    return Math.max(k, -127);
  },
};

// As block float, a grid is a list: of k, one a block.
FORMATS.mx = {
  title: "MX: OCP's microscaling",
  formula: "2^k of the block by its greatest magnitude t; element = x / 2^k to the digits of its binade, up to ±g; value = element · 2^k",
  fields: {size: ["elements a block", 1, 256, 32]},
  choices: {element: Object.keys(MX), rule: Object.keys(scales.RULES)},
  hint: "floor is OCP's rule: k = floor(log2 t) - floor(log2 g), g the greatest element; a code counts the block's least steps",
  grid: (xs, o) => Array.from({length: Math.ceil(xs.length / o.size)},
    (_, k) => scales.k(exact.greatest(xs.slice(k * o.size, (k + 1) * o.size).map(exact.size)), o)),
  at: FORMATS.block.at,
  exponent: (k, o) => k + MX[o.element].least - MX[o.element].m,
  // steps double with each binade of x / 2^k above the least one
  way(x, k, o, ...how) {
    const {m, least, most, top} = MX[o.element];
    const lead = x.n === 0n ? least : Math.min(Math.max(scales.log2(exact.size(x)) - k, least), most);
    const edge = top << BigInt(most - lead);
    return rules.way(x, exact.power(k + lead - m), [-edge, edge, "saturate"], how, 1n << BigInt(lead - least));
  },
  // the word of an element; of a zero the sign of x
  bits(code, o, x) {
    const {bits, m} = MX[o.element];
    if (o.element === "MXINT8") return rules.twos(code, bits);
    const size = code < 0n ? -code : code;
    const above = BigInt(Math.max(exact.bits(size) - 1 - m, 0));
    return (x.n < 0n ? "1" : "0") + rules.twos((above << BigInt(m)) + (size >> above), bits - 1);
  },
};
