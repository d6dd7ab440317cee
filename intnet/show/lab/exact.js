// Exact rationals, as `fractions.Fraction`: {n, d} of BigInts, d > 0, without a common factor.
const exact = {
  ratio(n, d = 1n) {
    if (d < 0n) [n, d] = [-n, -d];
    let [a, b] = [n < 0n ? -n : n, d];
    while (b) [a, b] = [b, a % b];
    return a > 1n ? {n: n / a, d: d / a} : {n, d};
  },
  // 2^e
  power: (e) => (e < 0 ? {n: 1n, d: 1n << BigInt(-e)} : {n: 1n << BigInt(e), d: 1n}),
  add: (a, b) => exact.ratio(a.n * b.d + b.n * a.d, a.d * b.d),
  minus: (a, b) => exact.ratio(a.n * b.d - b.n * a.d, a.d * b.d),
  times: (a, b) => exact.ratio(a.n * b.n, a.d * b.d),
  over: (a, b) => exact.ratio(a.n * b.d, a.d * b.n),
  less: (a, b) => a.n * b.d < b.n * a.d,
  equal: (a, b) => a.n * b.d === b.n * a.d,
  size: (a) => (a.n < 0n ? {n: -a.n, d: a.d} : a),
  // the greatest integer not above n / d, d > 0
  floor: (a) => (a.n >= 0n ? a.n / a.d : -((-a.n + a.d - 1n) / a.d)),
  bits: (n) => (n === 0n ? 0 : (n < 0n ? -n : n).toString(2).length),
  greatest: (xs) => xs.reduce((a, b) => (exact.less(a, b) ? b : a)),
  least: (xs) => xs.reduce((a, b) => (exact.less(b, a) ? b : a)),
  // the nearest double, for drawing: never for arithmetic
  number(a) {
    if (a.n === 0n) return 0;
    const shift = exact.bits(a.n) - exact.bits(a.d) - 64;
    const [n, d] = shift < 0 ? [a.n << BigInt(-shift), a.d] : [a.n, a.d << BigInt(shift)];
    return Number(n / d) * 2 ** shift;
  },
  // the exact value of a double
  fromNumber(x) {
    if (!Number.isFinite(x)) throw new Error("a number is finite");
    let e = 0;
    while (!Number.isInteger(x)) [x, e] = [x * 2, e - 1];
    return exact.times({n: BigInt(x), d: 1n}, exact.power(e));
  },
  // what a person types: 0.3, -1e-5, 3/8, 5 * 2^-7, 0x1f
  parse(text) {
    const plain = text.trim().replace(/\s+/g, "");
    let found = /^([+-]?)0x([0-9a-f]+)$/i.exec(plain);
    if (found) return exact.ratio(BigInt(found[1] + "1") * BigInt("0x" + found[2]));
    found = /^([+-]?\d+)\/(\d+)$/.exec(plain);
    if (found && BigInt(found[2])) return exact.ratio(BigInt(found[1]), BigInt(found[2]));
    found = /^(?:(.+)[*·×])?2\^([+-]?\d{1,4})$/.exec(plain);
    if (found) return exact.times(found[1] ? exact.parse(found[1]) : {n: 1n, d: 1n}, exact.power(Number(found[2])));
    found = /^([+-]?)(\d*)\.?(\d*)(?:e([+-]?\d{1,3}))?$/i.exec(plain);
    if (!found || !(found[2] + found[3])) throw new Error(`“${text.trim()}” is no number: try 0.3, 3/8, 5*2^-7`);
    const e = Number(found[4] ?? 0) - found[3].length;
    const n = BigInt(found[2] + found[3]) * (found[1] === "-" ? -1n : 1n);
    return e < 0 ? exact.ratio(n, 10n ** BigInt(-e)) : exact.ratio(n * 10n ** BigInt(e));
  },
  // whole where it is short, else n / 2^k, else n / d
  text(a) {
    if (a.d === 1n) return `${a.n}`;
    const k = exact.bits(a.d) - 1;
    if (1n << BigInt(k) === a.d && k > 6) return `${a.n} · 2^-${k}`;
    return `${a.n}/${a.d}`;
  },
};
