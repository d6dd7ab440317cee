// Block float: `intnet.spec.block_float`. e: the least with max|x| < 2^e of the block, within a signed byte.
const blocks = {
  exponent(xs) {
    const top = exact.greatest(xs.map(exact.size));
    if (!exact.less(top, exact.power(127))) throw new Error("a block's exponent is beyond 127");
    if (exact.less(top, exact.power(-129))) return null;
    let e = Math.max(exact.bits(top.n) - exact.bits(top.d), -128);
    while (!exact.less(top, exact.power(e))) e += 1;
    return e;
  },
  // the way of an element; in a zero block, and without bits, its code is 0
  way(x, e, b, ...how) {
    if (e === null || b === 0) return {zero: true, code: 0n, saturated: false, step: exact.power(0)};
    const limit = spread(b);
    return rules.way(x, exact.power(e - b + 1), [-limit, limit, "saturate"], how);
  },
};

// As the other formats, but a grid is a list of e, one a block of `size` elements in their order.
FORMATS.block = {
  title: "block float: DYNASTY",
  formula: "e: the least with max|x| < 2^e of the block; code = clip(round(x / 2^(e-b+1)), ±(2^(b-1) - 1))",
  fields: {b: ["b, bits of a mantissa", 0, 16, 4], size: ["elements a block", 1, 256, 16]},
  hint: "DYNASTY has blocks of 4x4 = 16, to nearest",
  grid: (xs, o) => Array.from({length: Math.ceil(xs.length / o.size)},
    (_, k) => blocks.exponent(xs.slice(k * o.size, (k + 1) * o.size))),
  at: (grid, index, o) => grid[Math.floor(index / o.size)],
  exponent: (e, o) => (e === null || o.b === 0 ? 0 : e - o.b + 1),
  way: (x, e, o, ...how) => blocks.way(x, e, o.b, ...how),
  bits: (code, o) => (o.b ? rules.twos(code, o.b) : ""),
};
