"""What the units give that take vectors, and the trail of it: n of R, requantized sums, block float.

    first, last   mark the beats of a vector; one result a vector (`words.py` has the others)

A block float sum is exact, then rounded once to float32: in units of 2^exponent, the least bit that
float32 keeps of it, |sum| = floor + fraction. Next: `listing.py`.
"""

from collections.abc import Callable

import numpy as np

from intnet import ops
from intnet.errors import NumberError
from intnet.inspect.trail import FRACTION_BITS, REMAINDER_BITS
from intnet.numbers.qtensor import QTensor
from intnet.packs.units.signals import Columns, Parameters
from intnet.packs.units.words import QUANTIZERS, Results, Step, check_fits, log2_r, requantized

INFINITY, SIGN = 0x7F800000, 1 << 31
LEAST = -149  # log2 of the least float32
MANTISSA = 24  # bits of one
LOWEST = -256  # log2 of the least bit that a product of two blocks can have


def bounds(columns: Columns) -> list[tuple[int, int]]:
    """(first beat, beat behind the last) of every vector."""
    stops = (np.flatnonzero(columns["last"]) + 1).tolist()
    return list(zip([0, *stops[:-1]], stops, strict=True))


def _r_exponent(p: Parameters, columns: Columns) -> Results:
    parts = [columns["x"][start:stop] for start, stop in bounds(columns)]
    n = np.array([log2_r(part, p["EX"]) for part in parts], np.int64)
    top = np.array([max(int(part.max()), -int(part.min())) for part in parts], np.int64)
    return Results({"n": n}, [Step("max", top, "max|x| of the vector, in units of 2^EX", p["W"], False)])


def _mac_requant(p: Parameters, columns: Columns) -> Results:
    starts = [start for start, _ in bounds(columns)]
    products = (columns["x"] * columns["w"]).sum(axis=1)
    inside = np.add.reduceat(products, starts)
    sums = inside + columns["bias"][columns["last"] == 1]
    for some in (inside, sums):
        check_fits("mac_requant", some, p["ACC"])
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
        Step("sign", minus, "1 where the sum is negative", 1, False),
        Step("exponent", exponent, "log2 of the least bit that float32 keeps of the sum"),
        Step("floor", floor, "floor of |sum| in units of 2^exponent", MANTISSA, False),
        Step("remainder", remainder, "its fraction: 32 bits, then a sticky bit", REMAINDER_BITS, False),
        Step("up", ups, "1 where the fraction rounds up", 1, False),
        Step("presat", floor + ups, "floor + up, before infinity", MANTISSA + 1, False),
    ]
    return Results({"y": y, "overflow": overflows}, steps)


RESULTS: dict[str, Callable[[Parameters, Columns], Results]] = QUANTIZERS | {
    "r_exponent": _r_exponent,
    "mac_requant": _mac_requant,
    "block_dot": _block_dot,
}
