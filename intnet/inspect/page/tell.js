// Numbers as people read them, digit by digit as `inspect/text.py` writes them.
const tell = {
  DIGITS: 20,
  commas: (n) => `${n}`.replace(/\B(?=(\d{3})+(?!\d))/g, ","),
  // "p/q", a power of two below the line as such
  fraction(a) {
    if (a.d === 1n) return tell.commas(a.n);
    const k = exact.bits(a.d) - 1;
    return `${tell.commas(a.n)}/${a.d === 1n << BigInt(k) && a.d > 64n ? `2^${k}` : tell.commas(a.d)}`;
  },
  both: (a) => (a.d === 1n ? tell.fraction(a) : `${tell.fraction(a)} = ${tell.decimal(a)}`),
  // to 20 significant digits, half to even, with "..." where there are more
  decimal(a) {
    if (a.n === 0n) return "0";
    const size = exact.size(a);
    let e = `${size.n}`.length - `${size.d}`.length;  // of the first digit, or one more
    if (exact.less(size, tell.ten(e))) e -= 1;
    const scaled = exact.over(size, tell.ten(e - tell.DIGITS + 1));
    const made = rounding.decision(scaled, "ties_even");
    let [digits, last] = [made.rounded, e - tell.DIGITS + 1];
    const whole = made.fraction.n === 0n;
    if (digits === 10n ** BigInt(tell.DIGITS)) [digits, last, e] = [digits / 10n, last + 1, e + 1];
    if (whole) while (last < 0 && digits % 10n === 0n) [digits, last] = [digits / 10n, last + 1];
    return (a.n < 0n ? "-" : "") + tell.digits(`${digits}`, last, e) + (whole ? "" : "...");
  },
  ten: (e) => (e < 0 ? {n: 1n, d: 10n ** BigInt(-e)} : {n: 10n ** BigInt(e), d: 1n}),
  digits(text, last, e) {
    if (e < -8 || e >= tell.DIGITS) return `${text[0]}${text.length > 1 ? "." : ""}${text.slice(1)}E${e < 0 ? "" : "+"}${e}`;
    if (last >= 0) return text + "0".repeat(last);
    const padded = text.padStart(1 - last, "0");
    return `${padded.slice(0, last)}.${padded.slice(last)}`.replace(/\.?0+$/, "");
  },
  // the root of an exact square
  root(square) {
    const unit = 10n ** BigInt(tell.DIGITS);
    const root = exact.ratio(tell.isqrt((square.n * unit * unit) / square.d), unit);
    const text = tell.decimal(root);
    return text + (exact.equal(exact.times(root, root), square) || text.endsWith("...") ? "" : "...");
  },
  isqrt(n) {
    if (n < 2n) return n;
    let x = 1n << BigInt((exact.bits(n) + 1) >> 1);
    for (;;) {
      const y = (x + n / x) >> 1n;
      if (y >= x) return x;
      x = y;
    }
  },
  // a double as Python writes it: the same digits, but with an exponent below 1e-4 and from 1e16 on
  double(x) {
    if (x === 0) return Object.is(x, -0) ? "-0.0" : "0.0";
    const [, sign, left, right = "", power = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:e(.+))?$/.exec(`${x}`);
    const all = (left + right).replace(/^0+/, "");
    const e = all.length - right.length + Number(power) - 1;  // of the first digit
    const digits = all.replace(/0+$/, "");
    if (e < -4 || e >= 16) return `${sign}${digits[0]}${digits.length > 1 ? "." : ""}${digits.slice(1)}e${e < 0 ? "-" : "+"}${`${Math.abs(e)}`.padStart(2, "0")}`;
    if (e < 0) return `${sign}0.${"0".repeat(-e - 1)}${digits}`;
    return `${sign}${digits.slice(0, e + 1).padEnd(e + 1, "0")}.${digits.slice(e + 1) || "0"}`;
  },
  // "+0.125": three digits after the point, half to even
  share(a) {
    const n = rounding.decision(exact.times(a, {n: 1000n, d: 1n}), "ties_even").rounded;
    const text = `${n < 0n ? -n : n}`.padStart(4, "0");
    return `${n < 0n || (n === 0n && a.n < 0n) ? "-" : "+"}${text.slice(0, -3)}.${text.slice(-3)}`;
  },
  word: (code, width) => (width ? rules.twos(code, width) : ""),
  hex: (code, width) => (width ? BigInt.asUintN(width, code).toString(16).padStart((width + 3) >> 2, "0") : ""),
};
