"""The quick lane of `exact/expressions.py`: whether an expression may take it, and its four readers.

`prepare` proves that every numerator fits 51 bits and makes a `Lane`; `round_codes`, `peaks`,
`positive` and `to_float32` read one: they choose threads and containers and run the kernels of
`exact/rows.py`. An expression that gets no lane takes the loops of `exact/loops.py`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from intnet.exact import rows as kernels
from intnet.exact import stages
from intnet.exact.loops import blocks_for
from intnet.machine.buffers import empty
from intnet.machine.jit import SMALL
from intnet.numbers.qtensor import CODE_TYPES, Status, max_abs
from intnet.numbers.rounding import STOCHASTIC, TIES_EVEN, Rounding

LIMIT = 1 << 51  # of |numerator|: `machine/instructions.py` says why
FAR = 700  # powers of two between a value and its unit, beyond which float64 might underflow
_ENDS = tuple((dtype, 1 << (8 * dtype.itemsize - 1)) for dtype in CODE_TYPES[:3])  # the first code beyond
_MOST_BLOCKS = 32  # as many threads can share the work
NARROW_WIDTH = 2 * kernels.WIDTH  # elements a row of int32

Words = tuple[np.ndarray, bool, int, np.uint64, np.uint64]  # as the kernels take them

NO_SIGNS = np.empty(0, np.bool_)
_NO_CODES = np.empty(0, np.uint8)
_NO_WORDS = (np.empty(0, np.uint32), False, 0, np.uint64(0), np.uint64(0))
_UNUSED = (0.0, 0.0, 0, 0.0, _NO_WORDS, 0, _NO_CODES)  # of the kernels' arguments, by tasks but rounding


class Lane(NamedTuple):
    """An expression made ready.

    args:     what the kernels call a lane
    elements: how many there are
    tile:     float64[5, width] or int32[3, width]; positions j and j + channels belong to one channel
    top:      a bound on |value|, infinite where it is not known
    powers:   whether every denominator is a power of two
    drop:     of an int32 lane: value = numerator / 2**drop
    """

    args: tuple[Any, ...]
    elements: int
    tile: np.ndarray
    channels: int
    top: float
    powers: bool
    drop: np.int32


def prepare(
    vectors: np.ndarray, codes: Sequence[np.ndarray], tops: Sequence[float], shift: int, relu: bool = False
) -> Lane | None:
    """The lane of value = num/den * 2**shift, or None where it is not proven to be exact.

    vectors: int64[4, C] = offset, cu, cv, den
    codes:   those of one or two terms, of one shape, any integer type; or one float32 tensor
    tops:    bounds on their magnitudes; infinity for float32 that nobody has looked at
    """
    if abs(shift) > FAR:
        return None
    tile = _tile(vectors, codes[0].size, 5, kernels.WIDTH, np.float64)
    floats, v_top = codes[0].dtype == np.float32, tops[1] if len(tops) > 1 else 0.0
    exact, top, powers = stages.fill_tile(vectors, tops[0], v_top, 2.0**shift, float(LIMIT), tile)
    if not exact and not (floats and powers):  # a float32 over a power of two is exact at any size
        return None
    args = (*_operands(codes), codes[0].size, 0.0 if relu else -np.inf, tile)
    return Lane(args, codes[0].size, tile, vectors.shape[1], top, powers, np.int32(0))


def prepare_narrow(
    vectors: np.ndarray,
    codes: Sequence[np.ndarray],
    tops: Sequence[float],
    shift: int | None,
    relu: bool,
    known: float,
    most: int = 30,
) -> Lane | None:
    """As `prepare`, in int32: for large tensors of small numerators.

    shift: None where nothing is rounded; else there must be one denominator, a power of two
    known: a bound on |num| that does not come from the parts, or infinity
    most:  how many bits may be rounded off
    What has nothing to round off is counted in halves of a unit, of which none is odd.
    """
    if codes[0].size < SMALL:
        return None
    den, up = int(vectors[3, 0]), 0
    drop = 0 if shift is None else den.bit_length() - 1 - shift
    if shift is not None:
        if den & (den - 1) or not -29 <= drop <= min(most, 30):
            return None
        up = max(0, 1 - drop)
    if up:
        if max_abs(vectors[:3]) > stages.NARROW:
            return None
        vectors, known, drop = np.append(vectors[:3] << up, vectors[3:], axis=0), known * 2.0**up, 1
    tile = _tile(vectors, codes[0].size, 3, NARROW_WIDTH, np.int32)
    v_top = tops[1] if len(tops) > 1 else 0.0
    bound, alike = stages.fill_narrow(vectors, tops[0], v_top, known, tile)
    if not (shift is None or alike) or bound + 2.0 ** (drop - 1) > stages.NARROW:
        return None
    args = (*_operands(codes), codes[0].size, 0 if relu else -stages.NARROW, tile)
    return Lane(args, codes[0].size, tile, vectors.shape[1], bound / 2.0**drop, True, np.int32(drop))


def _tile(vectors: np.ndarray, elements: int, rows: int, width: int, dtype: Any) -> np.ndarray:
    """An empty tile: as many times the channels as fit the width, at least once."""
    channels = vectors.shape[1]
    return np.empty((rows, channels * max(1, min(width, elements) // channels)), dtype)


def _operands(codes: Sequence[np.ndarray]) -> tuple[np.ndarray, int, np.ndarray, int]:
    """The codes as the kernels read them: bytes, and the size of an element, of both terms."""
    (u, u_size), (v, v_size) = _bytes(codes[0]), _bytes(codes[1]) if len(codes) > 1 else (_NO_CODES, 1)
    return u, u_size, v, v_size


def _bytes(codes: np.ndarray) -> tuple[np.ndarray, int]:
    size = stages.FLOAT32 if codes.dtype == np.float32 else codes.itemsize
    return codes.ravel().view(np.uint8), size


def rounds(lane: Lane, rounding: Rounding) -> bool:
    """Whether `round_codes` knows the mode: ties to even, or stochastic of integers or by powers of two.

    And the limits: they are clipped to as float64, and 0 lies between them.
    """
    known = rounding.mode == TIES_EVEN or lane.powers or lane.args[1] != stages.FLOAT32
    return known and _rounds(rounding, lane.elements)


def _rounds(rounding: Rounding, elements: int) -> bool:
    """`rounds`, whatever the denominators are."""
    mode, lo, hi = rounding.mode, rounding.low, rounding.high
    if not (float(lo) == lo <= 0 <= hi == float(hi)):
        return False
    drawn = rounding.draw is not None or rounding.words.size == elements
    return mode == TIES_EVEN or (mode == STOCHASTIC and drawn and elements > 0)


def _words(rounding: Rounding) -> Words:
    """What the kernels call words. ConfigError for a draw that no counter has."""
    draw = rounding.draw
    if rounding.mode != STOCHASTIC:
        return _NO_WORDS
    if draw is None:
        return (rounding.words, False, 0, np.uint64(0), np.uint64(0))
    return (_NO_WORDS[0], True, draw.start, *draw.counters(rounding.where))


def round_few(
    vectors: np.ndarray,
    codes: Sequence[np.ndarray],
    tops: Sequence[float],
    shift: int,
    rounding: Rounding,
    fine: int,
    relu: bool = False,
    signs: np.ndarray = NO_SIGNS,
) -> tuple[np.ndarray, Status] | None:
    """`prepare` and `round_codes` in one call of a kernel, for fewer than SMALL elements.

    None where that is not proven to be exact, where a value is NaN or infinite, and for other modes.

    Defined by `spec/rounding.py: round_fraction`.
    """
    lo, hi, elements = rounding.low, rounding.high, codes[0].size
    if abs(shift) > FAR or not _rounds(rounding, elements):
        return None
    out = np.empty(elements, code_type(lo, hi, max(-lo, hi)))
    done, saturated, inexact, peak = kernels.round_few(
        vectors,
        (*_operands(codes), elements, 0.0 if relu else -np.inf),
        tops[0],
        tops[1] if len(tops) > 1 else 0.0,
        2.0**shift,
        float(LIMIT),
        float(lo),
        float(hi),
        fine,
        _words(rounding),
        rounding.bits,
        signs.view(np.uint8),
        out.view(np.uint8),
        out.itemsize,
    )
    if not done:
        return None
    status = Status(int(saturated), int(inexact), elements, int(peak))
    return out.astype(code_type(lo, hi, int(peak)), copy=False), status


def round_codes(
    lane: Lane, rounding: Rounding, fine: int, signs: np.ndarray = NO_SIGNS
) -> tuple[np.ndarray, Status] | None:
    """Flat codes of the values, in a mode that `rounds` lets pass; None where one is NaN or infinite.

    They are written in the smallest type that is proven to hold them, and copied to a smaller one
    where their actual maximum allows it. A lane of int32 does not know `fine`.
    signs: a flat bool array that gets value > 0 on the way, or an empty one

    Defined by `spec/rounding.py: round_fraction`.
    """
    lo, hi = rounding.low, rounding.high
    limit = max(-lo, hi)
    dtype = code_type(lo, hi, limit if lane.top >= limit else int(lane.top) + 2 + (1 << fine))
    out = empty((lane.elements,), dtype)
    words, bits = _words(rounding), rounding.bits
    unit = 0.0 if fine else _float32_unit(lane, limit, dtype)
    if unit > 0.0:
        counts = _quantize_floats(lane, out, unit, lo, hi, words, bits)
    else:
        random = rounding.mode == STOCHASTIC
        task = kernels.QUOTIENTS if random and not lane.powers else kernels.ROUND
        counts = _read(task, lane, out, 4, float(lo), float(hi), fine, 0.0, words, bits, signs.view(np.uint8))
    saturated, inexact, peak, misfit = counts.tolist()
    if misfit:
        return None
    status = Status(int(saturated), int(inexact), lane.elements, int(peak))
    smaller = code_type(lo, hi, int(peak))
    return out if smaller == dtype else out.astype(smaller), status


def code_type(lo: int, hi: int, peak: int) -> np.dtype[Any]:
    """The smallest type that holds codes up to +-peak, or all from lo to hi."""
    for dtype, end in _ENDS:
        if peak < end or (-end <= lo and hi < end):
            return dtype
    return CODE_TYPES[3]


def _float32_unit(lane: Lane, limit: int, dtype: np.dtype[Any]) -> float:
    """The factor of float32 codes where float32 itself is exact: no underflow, limits that it holds."""
    held = limit <= 1 << 24 or limit >= 1 << 62
    if lane.args[1] != stages.FLOAT32 or not lane.powers or dtype.itemsize > 4 or not held:
        return 0.0
    unit = float(lane.tile[stages.INVERSE, 0])
    return unit if 1 <= unit <= 2.0**126 else 0.0


def _results(lane: Lane, columns: int) -> np.ndarray:
    """A line of zeros for each part of a lane that is worth a thread."""
    return np.zeros((min(_MOST_BLOCKS, blocks_for(lane.elements)), columns))


def _quantize_floats(
    lane: Lane, out: np.ndarray, unit: float, lo: int, hi: int, words: Words, bits: int
) -> np.ndarray:
    """The results of `_read` for codes of float32 * unit."""
    results, target = _results(lane, 4), out.view(np.uint8)
    kernels.quantize_floats(
        lane.args[0], unit, float(lo), float(hi), words, bits, target, out.itemsize, results
    )
    return results[0]


def _read(task: int, lane: Lane, out: np.ndarray, columns: int, *rest: Any) -> np.ndarray:
    """Run a kernel on one thread, or on all; its results.

    rest: lo, hi, fine, unit, words, bits, signs of the kernel
    """
    target, size, narrow = out.view(np.uint8), out.itemsize, lane.tile.dtype == np.int32
    if narrow or lane.elements >= SMALL:
        results = _results(lane, columns)
        if narrow:
            low, high, _, _, words, _, signs = rest
            lo, hi = int(max(low, -stages.NARROW)), int(min(high, stages.NARROW))
            with np.errstate(over="ignore"):  # sums may wrap on the way
                kernels.narrow_all(task, lane.args, lo, hi, lane.drop, words, signs, target, size, results)
        else:
            kernels.read_all(task, lane.args, *rest, target, size, results)
    else:
        results, scratch = np.zeros((1, columns)), np.empty((3, lane.tile.shape[1]))
        kernels.read_part(task, lane.args, 0, lane.elements, *rest, target, size, results[0], scratch)
    return results[0]


def peaks(lane: Lane) -> np.ndarray:
    """float64: max |numerator| of each channel."""
    # nothing is written: the codes stand in for an output, so that `pjit` sees how large the operand is
    return _read(kernels.PEAKS, lane, lane.args[0], lane.channels, *_UNUSED)


def positive(lane: Lane) -> np.ndarray:
    """Flat bool array: value > 0."""
    signs = empty((lane.elements,), np.bool_)
    _read(kernels.SIGNS, lane, _NO_CODES, 1, *_UNUSED[:-1], signs.view(np.uint8))
    return signs


def to_float32(lane: Lane, exponent: int) -> np.ndarray | None:
    """Flat float32 array: values * 2**exponent, correctly rounded; None where one is beyond float32.

    Defined by `spec/float32.py: to_float32`.
    """
    out, unit = empty((lane.elements,), np.float32), 2.0**exponent
    if _bare(lane) and -126 <= exponent <= 96:
        kernels.scale_codes(lane.args[0], lane.args[1], unit, out.view(np.uint8))
        return out
    task = kernels.POWERS if lane.powers else kernels.FLOATS
    with np.errstate(over="ignore"):
        top = _read(task, lane, out, 1, 0.0, 0.0, 0, unit, _NO_WORDS, 0, _NO_CODES)
    return None if top[0] >= stages.NOT_FINITE else out


def _bare(lane: Lane) -> bool:
    """Whether the values are one term's codes, of four bytes at most, as they are."""
    _, size, v, _, _, least, tile = lane.args
    plain = lane.channels == 1 and tile[:, 0].tolist() == [0.0, 1.0, 0.0, 1.0, 1.0]
    return plain and size in (1, 2, 4) and v.size == 0 and least == -np.inf


def top_float32(values: np.ndarray) -> float:
    """max |value| of a float32 tensor; infinity or NaN where one is not finite."""
    tops = np.zeros(blocks_for(values.size), np.int32)
    kernels.top_patterns(_bytes(values)[0], tops)
    return float(tops.max().view(np.float32))
