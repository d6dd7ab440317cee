"""What the units give, and the trail of it: intnet's own quantizers on the words of the in ports.

    results(unit name, parameters, columns) -> Results       outs: a column a port; trails: what explains them

The quantizers take n, the exponent of R, as an input, so that a tensor can come word by word; here a
part of a tensor that shares n is rounded as `quantize` rounds the whole (`OfTensor`). An n far below the
tensor's own is legal too: from n = EX - 1 on every word but 0 saturates, so less than that changes nothing.

Of the units that take vectors, first and last mark the beats of one; a vector gives one result. A block float
sum is exact, then rounded once to float32: in units of 2^exponent, the least bit that float32 keeps of it,
|sum| = floor + fraction. Next: `listing.py`.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from intnet import ops
from intnet.errors import NumberError, PackError
from intnet.exact.expressions import Exact
from intnet.exact.quantize import flag_words, quantize
from intnet.inspect.trail import FRACTION_BITS, REMAINDER_BITS, Trail, trail
from intnet.numbers.formats import Constant, Direct, FixedPoint, Flag, Format, Shift
from intnet.numbers.qtensor import QTensor
from intnet.packs.ports import Filled, Port
from intnet.packs.units.signals import Columns, Parameters
from intnet.spec.tensor import power

K_Q = 8  # of Q(., k): the grid 2^-7, as of activations and of forward copies
K_GC = 15  # of CQ: its codes stand at exponent -14
FLAG = Flag(8)
INFINITY, SIGN = 0x7F800000, 1 << 31
LEAST = -149  # log2 of the least float32
MANTISSA = 24  # bits of one
LOWEST = -256  # log2 of the least bit that a product of two blocks can have


class Results(NamedTuple):
    """Columns of the out ports, and the steps that explain the first of them."""

    outs: Columns
    steps: list[Filled]


def step(name: str, codes: np.ndarray, meaning: str, bits: int = 0, signed: bool = True) -> Filled:
    """A trail port, one word a result, without its result's name; bits 0: as many as the codes need."""
    bits = bits or QTensor(codes, 0).width
    return Port(name, "trail", codes.shape, "result", bits, signed, meaning=meaning), codes


class OfTensor(Exact):
    """codes * 2**exponent, a part of a tensor whose R is 2**n."""

    def __init__(self, codes: np.ndarray, exponent: int, n: int) -> None:
        super().__init__([(QTensor(codes, exponent), 1)], exponent)
        self.n = n

    def log2_max(self) -> int:
        """n of the whole tensor."""
        return self.n

    def max(self) -> Fraction:
        """A greatest magnitude of which R is 2**n."""
        return power(self.n)


def log2_r(codes: np.ndarray, exponent: int) -> int:
    """n of R(x) = 2**n of a tensor of codes."""
    return Exact([(QTensor(codes.astype(np.int64), exponent), 1)], exponent).log2_max()


def steps_of(t: Trail, grid: str) -> list[Filled]:
    """floor, remainder, up and presat; `grid` says in which unit."""
    return [
        step("floor", t.floor, f"floor of the exact value in units of {grid}"),
        step("remainder", t.remainder, "its fraction: 32 bits, then a sticky bit", REMAINDER_BITS, False),
        step("up", t.up, "1 where the fraction rounds up", 1, False),
        step("presat", t.presat, f"floor + up, before any limit, in units of {grid}"),
    ]


def _scaled(
    x: np.ndarray, exponent: int, keys: np.ndarray, format: Callable[[int], Format], words: np.ndarray | None
) -> tuple[np.ndarray, Trail]:
    """(results, trail) of words that have their own n: the first column of `keys`; all of a row choose the
    format.
    """
    out, coarse = np.zeros((2, x.size), np.int64)
    floor, remainder, up, presat = parts = np.zeros((4, x.size), np.int64)
    mode = "ties_even" if words is None else "stochastic"
    for row in np.unique(keys, axis=0):
        at = np.flatnonzero(np.all(keys == row, axis=1))
        source = OfTensor(x[at], exponent, max(int(row[0]), exponent - 1))
        kind = format(int(row[-1]))
        drawn = None if words is None else words[at].astype(np.uint32)
        q = quantize(source, kind, rounding=mode, words=drawn)
        out[at] = flag_words(q).astype(np.int64) if isinstance(kind, Flag) else q.codes
        part = trail(source, kind, mode, drawn)
        parts[:, at] = part[:4]
        if part.coarse is not None:
            coarse[at] = part.coarse
    return out, Trail(floor, remainder, up, presat, coarse)


def _quantize_q(p: Parameters, columns: Columns) -> Results:
    source = QTensor(columns["x"], 1 - K_Q - p["S"])
    exact = Exact([(source, 1)], int(source.exponent))
    codes = quantize(source, Direct(K_Q)).codes.astype(np.int64)
    return Results({"q": codes}, steps_of(trail(exact, Direct(K_Q), "ties_even"), "code 1 of q"))


def _quantize_sq(p: Parameters, columns: Columns) -> Results:
    n, top = columns["n"], (1 << p["K"] - 1) - 1
    q, t = _scaled(columns["x"], p["EX"], n[:, None], lambda _: Shift(p["K"]), None)
    exponent = step("exponent", n - (p["K"] - 1), "log2 of the value of code 1")
    saturated = (np.abs(t.presat) > top).astype(np.int64)
    return Results({"q": q, "saturated": saturated}, [*steps_of(t, "code 1 of q"), exponent])


def _quantize_cq(p: Parameters, columns: Columns) -> Results:
    log_dr, words = columns["log_dr"], columns["word"]
    keys = np.stack([columns["n"], log_dr], axis=1)
    q, t = _scaled(columns["x"], p["EX"], keys, lambda log: Constant(K_GC, 1 << log), words)
    limit = (1 << log_dr) - 1
    steps = steps_of(t, "code 1 of q")
    if np.any(log_dr != log_dr[0]):
        steps.append(step("limit", limit, "dr - 1: q is within +-limit", p["DB"], False))
    return Results({"q": q, "saturated": (np.abs(t.presat) > limit).astype(np.int64)}, steps)


def _quantize_flag(p: Parameters, columns: Columns) -> Results:
    n = columns["n"]
    q, t = _scaled(columns["x"], p["EX"], n[:, None], lambda _: FLAG, None)
    coarse = t.coarse
    assert coarse is not None
    steps = [
        *steps_of(t, "Sc where coarse, else of Sc/2^7"),
        step("coarse", coarse, "1 where |x| >= Sc", 1, False),
        step("exponent", n - 2 * FLAG.fine, "log2 of the value of a fine magnitude of 1"),
    ]
    saturated = coarse & (np.abs(t.presat) >> FLAG.fine > 0)
    return Results({"q": q, "saturated": saturated}, steps)


def requantized(sums: np.ndarray, shift: int, bits: int) -> Results:
    """clip(round(sums / 2^shift)) to +-(2^(bits-1) - 1), and its trail."""
    source, format = QTensor(sums, 0), FixedPoint(bits, -shift, overflow="saturate_symmetric")
    q = quantize(source, format).codes.astype(np.int64)
    t = trail(Exact([(source, 1)], 0), format, "ties_even")
    steps = [step("acc", sums, "the exact sum, bias and all"), *steps_of(t, "code 1 of q")]
    return Results({"q": q, "saturated": (q != t.presat).astype(np.int64)}, steps)


# -- vectors: one result each, at its last beat --------------------------------------------------------


def bounds(columns: Columns) -> list[tuple[int, int]]:
    """(first beat, beat behind the last) of every vector."""
    stops = (np.flatnonzero(columns["last"]) + 1).tolist()
    return list(zip([0, *stops[:-1]], stops, strict=True))


def _r_exponent(p: Parameters, columns: Columns) -> Results:
    parts = [columns["x"][start:stop] for start, stop in bounds(columns)]
    n = np.array([log2_r(part, p["EX"]) for part in parts], np.int64)
    top = np.array([max(int(part.max()), -int(part.min())) for part in parts], np.int64)
    return Results({"n": n}, [step("max", top, "max|x| of the vector, in units of 2^EX", p["W"], False)])


def _mac_requant(p: Parameters, columns: Columns) -> Results:
    starts = [start for start, _ in bounds(columns)]
    products = (columns["x"] * columns["w"]).sum(axis=1)
    inside = np.add.reduceat(products, starts)
    sums = inside + columns["bias"][columns["last"] == 1]
    if any(max(int(some.max()), -int(some.min())) >= 1 << p["ACC"] - 1 for some in (inside, sums)):
        raise PackError(
            f"mac_requant: a sum of these vectors needs more than {p['ACC']} bits; give a wider ACC"
        )
    return requantized(sums, p["S"], p["OUT"])


def exact_sum(columns: Columns, start: int, stop: int) -> int:
    """The sum over blocks of 2^(xe + we) * sum of xm * wm, in units of 2^LOWEST."""
    total = 0
    for beat in range(start, stop):
        dot = int((columns["xm"][beat] * columns["wm"][beat]).sum())
        total += dot << int(columns["xe"][beat, 0]) + int(columns["we"][beat, 0]) - LOWEST
    return total


def _float_word(columns: Columns, start: int, stop: int, minus: bool) -> tuple[int, int]:
    """(float32 bits, overflow) of intnet's block float product, which stops beyond float32's range."""
    sides = []
    for mantissas, exponents in (("xm", "xe"), ("wm", "we")):
        codes = columns[mantissas][start:stop]
        each = np.broadcast_to(columns[exponents][start:stop], codes.shape)
        sides.append(QTensor(codes.astype(np.int8).reshape(1, -1), each.astype(np.int16).reshape(1, -1)))
    try:
        return int(ops.linear(*sides).value.view(np.uint32)[0, 0]), 0
    except NumberError:
        return INFINITY | SIGN * minus, 1


def _block_dot(p: Parameters, columns: Columns) -> Results:
    rows = []
    for start, stop in bounds(columns):
        total = exact_sum(columns, start, stop)
        word, overflow = _float_word(columns, start, stop, total < 0)
        size = abs(total)
        lsb = max(size.bit_length() - MANTISSA, LEAST - LOWEST)
        floor, rest = size >> lsb, size & (1 << lsb) - 1
        fraction = (rest << FRACTION_BITS) >> lsb
        sticky = (fraction << lsb) != rest << FRACTION_BITS
        up = int(2 * rest > 1 << lsb or (2 * rest == 1 << lsb and floor & 1 == 1))
        pattern = (lsb - (LEAST - LOWEST) << MANTISSA - 1) + floor + up
        assert min(pattern, INFINITY) == word & ~SIGN, "the trail leads to the library's result"
        rows.append((word, overflow, int(total < 0), lsb + LOWEST, floor, fraction << 1 | sticky, up))
    y, overflows, minus, exponent, floor, remainder, ups = np.array(rows, np.int64).T
    steps = [
        step("sign", minus, "1 where the sum is negative", 1, False),
        step("exponent", exponent, "log2 of the least bit that float32 keeps of the sum"),
        step("floor", floor, "floor of |sum| in units of 2^exponent", MANTISSA, False),
        step("remainder", remainder, "its fraction: 32 bits, then a sticky bit", REMAINDER_BITS, False),
        step("up", ups, "1 where the fraction rounds up", 1, False),
        step("presat", floor + ups, "floor + up, before infinity", MANTISSA + 1, False),
    ]
    return Results({"y": y, "overflow": overflows}, steps)


RESULTS: dict[str, Callable[[Parameters, Columns], Results]] = {
    "quantize_q": _quantize_q,
    "quantize_sq": _quantize_sq,
    "quantize_cq": _quantize_cq,
    "quantize_flag": _quantize_flag,
    "r_exponent": _r_exponent,
    "mac_requant": _mac_requant,
    "block_dot": _block_dot,
}
