"""Which elements the range of a format changed: of what `Status.saturated` counts, one bool an element.

    q = quantize(x, format, rounding="ties_even")
    changed = saturated(x, q, rounding="ties_even")     # changed.sum() == q.status.saturated

A straight-through gradient with clipping asks for it (`export/torch.py`). Kernels count and keep no mask, so
it is found again: x is rounded once more, with no range, where q is at an edge, and what comes out beyond
the edge was changed. Elsewhere a range that saturates has changed nothing; an ap_fixed that wraps is looked
at all over. As in `Status`, a `FixedPoint` that wraps counts nothing.

Defined by `spec/formats.py: Way.saturated`, `spec/small_floats.py: encode`,
`spec/microscaling.py: quantize_block`, `spec/ap_fixed.py: code`.
"""

from typing import Any, NamedTuple

import numpy as np

from intnet.errors import FormatError, ShapeError
from intnet.exact.ap_fixed import MODES as AP_MODES
from intnet.exact.expressions import exact
from intnet.exact.parts import bit_length, narrowed, parts, rounded
from intnet.exact.quantize import words_of
from intnet.exact.sources import FloatExact
from intnet.numbers.ap_fixed import ApFixed
from intnet.numbers.formats import Constant, Direct, FixedPoint, Flag, Levels, OwnFormat
from intnet.numbers.microscaling import BIAS, BlockScaled
from intnet.numbers.qtensor import QTensor
from intnet.numbers.rounding import HLS_ALIASES, STOCHASTIC, Rounding, how, mode_code
from intnet.numbers.small_floats import FloatTensor
from intnet.spec.rounding import round_fraction
from intnet.spec.tensor import power

AP_LEAVING = ("AP_SAT_ZERO", "AP_WRAP", "AP_WRAP_SM")  # what overflows is not at an edge then
Quantized = QTensor | FloatTensor | BlockScaled


class _Edges(NamedTuple):
    """Whole numbers of 2**exponent from low to high are within; `at`: which elements may be beyond, flat."""

    low: int
    high: int
    exponent: Any
    at: np.ndarray


def saturated(
    x: np.ndarray,
    q: Quantized,
    *,
    rounding: str | None = None,
    words: np.ndarray | None = None,
    seed: int | None = None,
    word_bits: int = 32,
) -> np.ndarray:
    """bool array of q's shape: which elements of `x` the range of q's format changed.

    x:  the array that `quantize` made q of, with this rounding and these words or this seed
    FormatError for what `quantize` did not make: codes without a format, or with an exponent a block.
    """
    x = np.asarray(x)
    if isinstance(q, QTensor) and (q.format is None or isinstance(q.exponent, np.ndarray)):
        raise FormatError(f"{q!r} was not made by quantize, whose formats have a range to look at")
    if x.shape != q.shape:
        raise ShapeError(f"q of shape {q.shape} was not made of x of shape {x.shape}")
    found = np.zeros(q.size, np.bool_)
    if isinstance(q, FloatTensor) and q.format.overflow != "infinity":
        found[:] = np.isinf(x).reshape(-1)
    name = "ties_even" if rounding is None else rounding
    drawn = words_of(q.shape, mode_code(name), words, seed, word_bits, "saturated")
    told = how(name, drawn, word_bits)
    if isinstance(q.format, ApFixed):
        told = Rounding(AP_MODES[q.format.q])
    if isinstance(q.format, Levels):
        found[:] = _beyond_levels(x, q.format, name, told)
    elif (edges := _edges(x, q)) is not None and edges.at.size:
        found[edges.at] = _beyond(x.reshape(-1)[edges.at], edges, told)
    return found.reshape(q.shape)


def _beyond(x: np.ndarray, edges: _Edges, rounding: Rounding) -> np.ndarray:
    """Whether each element, rounded to whole numbers of 2**exponent, is beyond low..high."""
    if rounding.rule is not None:
        exponents = np.broadcast_to(edges.exponent, x.shape).tolist()
        ways = zip(FloatExact(x).fractions(), exponents, strict=True)
        rounds = (round_fraction(value / power(e), rounding.rule) for value, e in ways)
        return np.array([not edges.low <= n <= edges.high for n in rounds], np.bool_)
    source = narrowed(parts(x))
    drop = edges.exponent - source.exponent
    words = np.zeros(0, np.uint64)
    if rounding.mode == STOCHASTIC:
        words = (rounding.words[edges.at] >> np.uint32(32 - rounding.bits)).astype(np.uint64)
    kept, _ = rounded(source.negative, source.size, drop, rounding, words)
    far = (source.size != 0) & (bit_length(source.size) - drop > 62)  # beyond what `kept` counts
    n = np.where(source.negative, -kept.astype(np.int64), kept.astype(np.int64))
    return far | (n < edges.low) | (n > edges.high)


def _beyond_levels(x: np.ndarray, format: Levels, name: str, rounding: Rounding) -> list[bool]:
    """By the rule itself, an element at a time, as it was made."""
    values = FloatExact(x).fractions().reshape(-1)
    grid, mode = format.grid(values.tolist()), rounding.rule or HLS_ALIASES.get(name, name)
    drawn = [None] * len(values)
    if rounding.mode == STOCHASTIC:
        drawn = (rounding.words >> np.uint32(32 - rounding.bits)).tolist()
    ways = zip(values, drawn, strict=True)
    return [format.way(value, grid, mode, word, rounding.bits).saturated for value, word in ways]


def _edges(x: np.ndarray, q: Quantized) -> _Edges | None:
    """Where to look; None where no range changes anything."""
    if isinstance(q, BlockScaled):
        inner = _of_words(q.elements) if isinstance(q.elements, FloatTensor) else _of_codes(q.elements)
        kept = inner.at[(q.exponents() <= BIAS).reshape(-1)[inner.at]]  # a NaN scale has zeros
        return inner._replace(at=kept, exponent=inner.exponent + q.exponents().reshape(-1)[kept])
    if isinstance(q, FloatTensor):
        edges = _of_words(q)
        return edges._replace(at=edges.at[np.isfinite(x.reshape(-1)[edges.at])])
    if isinstance(q.format, Constant):  # whose codes have lost the magnitude of x
        n = exact(x).log2_max() - (q.format.dr.bit_length() - 1)
        return _of_codes(q)._replace(exponent=n)
    unlimited = isinstance(q.format, OwnFormat) and q.format.limits() is None
    wraps = isinstance(q.format, FixedPoint) and q.format.overflow == "wrap"
    return None if unlimited or wraps or isinstance(q.format, Direct) else _of_codes(q)


def _of_words(q: FloatTensor) -> _Edges:
    """The greatest finite number, in units of its last bit; elements with it, and beyond."""
    greatest = FloatTensor(np.array(q.format.greatest, q.format.dtype), q.format).to_qtensor()
    edge = int(greatest.codes)
    size = q.words & q.format.dtype.type((1 << (q.format.bits - 1)) - 1)
    return _Edges(-edge, edge, int(greatest.exponent), np.flatnonzero(size >= q.format.greatest))


def _of_codes(q: QTensor) -> _Edges:
    """The format's range, in the steps that it has at its edges; elements there, or all."""
    format: Any = q.format
    if isinstance(format, OwnFormat):
        low, high, _ = format.limits() or (0, 0, "")
    else:
        low, high = getattr(format, "lo", -format.hi), format.hi
    leaves = isinstance(format, ApFixed) and format.o in AP_LEAVING
    at = np.arange(q.size) if leaves else np.flatnonzero((q.codes <= low) | (q.codes >= high))
    step = format.fine if isinstance(format, Flag) else 0
    return _Edges(-(-low >> step), high >> step, int(q.exponent) + step, at)
