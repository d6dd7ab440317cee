// Number formats: `intnet.spec.formats`. A grid is what a whole tensor decides; `way` is what one element does.
const spread = (k) => (1n << BigInt(k - 1)) - 1n;
const R_RULE = "R(x) = 2^n, n = round(log2 max|x|) of the whole tensor";

const rules = {
  // round(log2(largest)): 2^(2n-1) <= largest^2 < 2^(2n+1)
  log2R(largest) {
    if (largest.n === 0n) return 0;
    const square = exact.times(largest, largest);
    let n = Math.floor((exact.bits(square.n) - exact.bits(square.d)) / 2);
    while (!exact.less(square, exact.power(2 * n + 1))) n += 1;
    while (exact.less(square, exact.power(2 * n - 1))) n -= 1;
    return n;
  },
  scale: (xs) => rules.log2R(exact.greatest(xs.map(exact.size))),
  // one rounding in units of `step`, then the limits; how: [mode, word, bits] of the rounding; lift: codes a step
  way(x, step, limits, how, lift = 1n) {
    const made = rounding.decision(exact.over(x, step), ...how);
    const kept = rounding.overflow(made.rounded, limits);
    return {step, decision: made, limits, lift, kept, saturated: kept !== made.rounded, code: kept * lift};
  },
  twos(code, width) {
    return BigInt.asUintN(width, code).toString(2).padStart(width, "0");
  },
  // bits of a signed code
  needed: (code) => exact.bits(code < 0n ? -code - 1n : code) + 1,
};

// name -> fields (key: [what, least, most, first]), formula, grid(xs, o), exponent(grid, o), way(x, grid, o, ..), bits(code, o, x)
const FORMATS = {
  fixed: {
    title: "fixed point <WL,FL>",
    formula: "code = round(x · 2^FL), in WL bits",
    fields: {wl: ["WL, bits with the sign", 1, 32, 8], fl: ["FL, bits after the point", -8, 32, 4]},
    choices: {overflow: ["saturate", "saturate_symmetric", "wrap"], signed: ["signed", "unsigned"]},
    grid: () => 0,
    exponent: (grid, o) => -o.fl,
    way(x, grid, o, ...how) {
      const edge = spread(o.wl);
      const limits = o.signed === "unsigned"
        ? [0n, (1n << BigInt(o.wl)) - 1n, o.overflow === "wrap" ? "wrap" : "saturate"]
        : [-edge - (o.overflow === "saturate_symmetric" ? 0n : 1n), edge, o.overflow];
      return rules.way(x, exact.power(-o.fl), limits, how);
    },
    bits: (code, o) => rules.twos(code, o.wl),
  },
  q: {
    title: "Q(·, k): WAGEUBN (6)",
    formula: "Q(x, k) = round(x · 2^(k-1)) / 2^(k-1), no range",
    fields: {k: ["k, bits of the resolution", 1, 32, 8]},
    grid: () => 0,
    exponent: (grid, o) => 1 - o.k,
    way: (x, grid, o, ...how) => rules.way(x, exact.power(1 - o.k), null, how),
    bits: (code, o) => rules.twos(code, Math.max(o.k, rules.needed(code))),
  },
  sq: {
    title: "SQ(·, k): WAGEUBN (8)",
    formula: `SQ(x, k) = R · clip(Q(x / R, k), -1 + d, 1 - d), d = 2^-(k-1); ${R_RULE}`,
    fields: {k: ["k, bits with the sign", 2, 32, 8]},
    grid: rules.scale,
    exponent: (grid, o) => grid + 1 - o.k,
    way: (x, grid, o, ...how) =>
      rules.way(x, exact.power(grid + 1 - o.k), [-spread(o.k), spread(o.k), "saturate"], how),
    bits: (code, o) => rules.twos(code, o.k),
  },
  cq: {
    title: "CQ: WAGEUBN (7)",
    formula: `CQ(x) = clip(Sr(dr · x / R), -dr + 1, dr - 1) / 2^(kGC-1); ${R_RULE}, which the code gives up`,
    fields: {k: ["kGC", 2, 32, 15], log_dr: ["log2 dr", 1, 15, 7]},
    mode: "stochastic",
    hint: "the magnitude is given up on purpose: code / dr stands for x / R, and the value is not near x; errors are those of code · R / dr",
    grid: rules.scale,
    exponent: (grid, o) => 1 - o.k,
    stands: (grid, o) => exact.power(grid - o.log_dr),
    way(x, grid, o, ...how) {
      const top = (1n << BigInt(o.log_dr)) - 1n;
      return rules.way(x, exact.power(grid - o.log_dr), [-top, top, "saturate"], how);
    },
    bits: (code, o) => rules.twos(code, o.log_dr + 1),
  },
  flag: {
    title: "Flag-Q: WAGEUBN (17)",
    formula: `Sc = R / 2^(k-1); |x| ≥ Sc: Sc · clip(round(x / Sc)); below: round(x / Sc · 2^(k-1)) · Sc / 2^(k-1); ${R_RULE}`,
    fields: {k: ["k, bits without the flag", 2, 16, 8]},
    grid: rules.scale,
    exponent: (grid, o) => grid - 2 * (o.k - 1),
    way(x, grid, o, ...how) {
      const top = 1n << BigInt(o.k - 1);
      const fine = exact.power(grid - 2 * (o.k - 1));
      const coarse = exact.power(grid - (o.k - 1));
      return exact.less(exact.size(x), coarse)
        ? rules.way(x, fine, [-top, top, "saturate"], how)
        : rules.way(x, coarse, [1n - top, top - 1n, "saturate"], how, top);
    },
    // flag, sign, magnitude; +-2^(k-1) is flag 1, magnitude 1
    bits(code, o) {
      const [top, size] = [1n << BigInt(o.k - 1), code < 0n ? -code : code];
      const [flag, magnitude] = size < top ? ["0", size] : ["1", size / top];
      return flag + (code < 0n ? "1" : "0") + magnitude.toString(2).padStart(o.k - 1, "0");
    },
    parts: ["flag", "sign", "magnitude"],
  },
  scaled: {
    title: "BF(·, WL): MuPPET",
    formula: "code = clip(round(x · 2^s), -2^(WL-1), 2^(WL-1) - 1); s is the greatest that keeps max and min",
    fields: {wl: ["WL, bits with the sign", 2, 32, 8]},
    grid(xs, o) {
      const [ub, lb] = [{n: 2n * spread(o.wl) + 1n, d: 2n}, {n: -2n * spread(o.wl) - 3n, d: 2n}];
      const [high, low] = [exact.greatest(xs), exact.least(xs)];
      const ratios = [];
      if (high.n > 0n) ratios.push(exact.over(ub, high));
      if (low.n < 0n) ratios.push(exact.over(lb, low));
      const bound = ratios.length ? exact.least(ratios) : ub;
      let s = exact.bits(bound.n) - exact.bits(bound.d) - 1;
      while (!exact.less(bound, exact.power(s + 1))) s += 1;
      return s;
    },
    exponent: (grid) => -grid,
    way: (x, grid, o, ...how) =>
      rules.way(x, exact.power(-grid), [-spread(o.wl) - 1n, spread(o.wl), "saturate"], how),
    bits: (code, o) => rules.twos(code, o.wl),
  },
};
