// Rounding and overflow: `intnet.spec.rounding`.
const HALF = {n: 1n, d: 2n};
const MODES = {
  ties_even: "to nearest, ties to even",
  ties_away: "to nearest, ties away from 0",
  ties_pos: "to nearest, ties up",
  to_neg: "down (floor)",
  to_pos: "up (ceiling)",
  to_zero: "towards 0 (truncate)",
  stochastic: "stochastic",
};
const rounding = {
  // floor and fraction of x, and whether `mode` goes up; word: of `bits` bits, for stochastic
  decision(x, mode, word = 0n, bits = 32) {
    const floor = exact.floor(x);
    const fraction = exact.minus(x, {n: floor, d: 1n});
    const [below, tie] = [exact.less(fraction, HALF), exact.equal(fraction, HALF)];
    const some = fraction.n > 0n;
    let threshold = null;
    let up = false;
    if (mode === "stochastic") {
      threshold = (fraction.n << BigInt(bits)) / fraction.d;
      up = word < threshold;
    } else if (mode === "ties_even") up = tie ? (floor & 1n) === 1n : !below;
    else if (mode === "ties_away") up = tie ? x.n > 0n : !below;
    else if (mode === "ties_pos") up = !below;
    else if (mode === "to_pos") up = some;
    else if (mode === "to_zero") up = some && x.n < 0n;
    else if (mode !== "to_neg") throw new Error(`no rounding mode ${mode}`);
    return {floor, fraction, tie, threshold, up, rounded: floor + (up ? 1n : 0n)};
  },
  // limits: [least, greatest, how] or null
  overflow(code, limits) {
    if (!limits) return code;
    const [low, high, how] = limits;
    const bottom = how === "saturate_symmetric" ? -high : low;
    if (how !== "wrap") return code < bottom ? bottom : code > high ? high : code;
    const span = high - low + 1n;
    return ((((code - low) % span) + span) % span) + low;
  },
};
