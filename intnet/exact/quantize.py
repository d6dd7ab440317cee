"""Quantizers: one exact expression, one format, one rounding -> QTensor.

    quantize(x, format, rounding=None, words=None, seed=None, word_bits=32, where="") -> QTensor

`x` is anything `exact.expressions.exact` takes: a QTensor, numbers (0.3, a list, an array), or an
expression such as a quotient.
The order is always: scale exactly, round once (`numbers/rounding.py`), then limit the range. The result
carries counts (`QTensor.status`). One function a format below, each with its equation; the table at the end
lists the formats of a whole tensor; `BlockFloat` has an exponent a block: `block_float.quantize_blocks`.
Equation numbers are WAGEUBN's (Yang et al. 2020), where there are any.

Defined by `spec/formats.py: quantize`.
"""

from collections.abc import Callable
from fractions import Fraction
from math import prod
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from intnet.errors import ConfigError, FormatError, NumberError, ShapeError
from intnet.exact import ap_fixed, microscaling, small_floats
from intnet.exact.expressions import Exact, Expression, exact
from intnet.exact.own import quantize as own
from intnet.exact.parts import Parts, parts
from intnet.exact.sources import FloatExact, Root, floor_log2
from intnet.numbers import rng, shares
from intnet.numbers.ap_fixed import ApFixed
from intnet.numbers.formats import (
    Constant,
    Direct,
    FixedPoint,
    Flag,
    Format,
    OwnFormat,
    Scaled,
    Shift,
    check_bits,
    kind_of,
)
from intnet.numbers.microscaling import BlockScaled, Microscaling
from intnet.numbers.qtensor import QTensor, container, max_abs
from intnet.numbers.rounding import STOCHASTIC, Rounding, how, mode_code
from intnet.numbers.small_floats import Float, FloatTensor


@overload
def quantize(
    x: Any, format: Float, *, rounding: str | None = ..., words: np.ndarray | rng.Draw | None = ...,
    seed: int | None = ..., word_bits: int = ..., where: str = ...,
) -> FloatTensor: ...  # fmt: skip


@overload
def quantize(
    x: Any, format: Microscaling, *, rounding: str | None = ..., words: np.ndarray | rng.Draw | None = ...,
    seed: int | None = ..., word_bits: int = ..., where: str = ...,
) -> BlockScaled: ...  # fmt: skip


@overload
def quantize(
    x: "QTensor | ArrayLike | Expression", format: Format, *, rounding: str | None = ...,
    words: np.ndarray | rng.Draw | None = ..., seed: int | None = ..., word_bits: int = ..., where: str = ...,
    of_batch: bool = ...,
) -> QTensor: ...  # fmt: skip


def quantize(
    x: "QTensor | ArrayLike | Expression",
    format: Format | Float | Microscaling,
    *,
    rounding: str | None = None,
    words: np.ndarray | rng.Draw | None = None,
    seed: int | None = None,
    word_bits: int = 32,
    where: str = "",
    of_batch: bool = False,
) -> QTensor | FloatTensor | BlockScaled:
    """`x` in `format`: the correctly rounded codes of its exact value, then the format's range.

    x:         float16, float32, float64 and integers of int64 are rounded once, from what they are
    rounding:  a name of `rounding.MODES`; `stochastic` needs `words` or `seed`. None: `ties_even`, and
               of `ApFixed` its own, beside which it takes no other
    words:     uint32, one an element in C order, of which the top `word_bits` are used, or the `rng.Draw` of
               these, which are drawn where they are needed; read by no other mode
    seed:      instead: the words of this seed, always the same ones (`spec/words.py: seeded`)
    where:     'layer/path' for error messages
    of_batch:  x is this rank's part of a batch: its maxima are those of all parts (`numbers/shares.py`)
    A small float makes a `FloatTensor`, blocks with scales a `BlockScaled`, anything else a `QTensor`.
    Raises NumberError (NaN, infinity, an empty tensor where a maximum is needed), FormatError,
    ContainerError (a bound that no container holds).

    Defined by `spec/formats.py: quantize`, `spec/words.py: seeded`, `spec/small_floats.py: encode`,
    `spec/microscaling.py: quantize_block`, `spec/ap_fixed.py: code`.
    """
    if isinstance(format, ApFixed) and rounding is not None:
        raise ConfigError(f"{where or 'quantize'}: {format} has its rounding in it; leave rounding= out")
    rounding = "ties_even" if rounding is None else rounding
    mode = mode_code(rounding)
    if isinstance(format, Float | Microscaling | ApFixed):
        source = parts(x, where)
        if isinstance(words, rng.Draw):
            words = words.words(prod(source.size.shape))
        words = words_of(source.size.shape, mode, words, seed, word_bits, where)
        return _SCALED[type(format)](source, format, how(rounding, words, word_bits, where))
    made = _QUANTIZERS.get(type(format), own)
    if made is own and not isinstance(format, OwnFormat):
        kind_of(format)
        raise FormatError(
            f"{where or 'quantize'}: {format} is no format of a whole tensor; block float is made by "
            "block_float.quantize_blocks"
        )
    expression = exact(x, where)
    if mode == STOCHASTIC or seed is not None:
        words = words_of(expression.shape, mode, words, seed, word_bits, where)
    return made(expression, format, how(rounding, words, word_bits, where, of_batch))


def words_of(
    shape: tuple[int, ...], mode: int, words: np.ndarray | rng.Draw | None, seed: int | None, bits: int,
    where: str,
) -> np.ndarray | rng.Draw | None:  # fmt: skip
    """The words of stochastic rounding, one an element, or where from; ShapeError for others."""
    if seed is not None:
        words = _seeded(seed, prod(shape), mode, words)
    if mode == STOCHASTIC:
        check_bits(bits, f"{where or 'stochastic rounding'}: word_bits")
        if isinstance(words, rng.Draw):
            return words
        if not isinstance(words, np.ndarray) or words.dtype != np.uint32 or words.size != prod(shape):
            have = "none: give seed=N, or words=" if words is None else f"a {type(words).__name__}"
            if isinstance(words, np.ndarray):
                have = f"{words.size} of {words.dtype}"
            raise ShapeError(
                f"{where or 'stochastic rounding'}: needs one uint32 word an element "
                f"({prod(shape)}), got {have}"
            )
    return words


def _seeded(seed: int, count: int, mode: int, words: Any) -> np.ndarray:
    """The words of a seed alone. Defined by `spec/words.py: seeded`."""
    if mode != STOCHASTIC or words is not None:
        raise ConfigError("seed= is for rounding='stochastic', in the place of words=")
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool):
        raise ConfigError(f"seed={seed!r}: a whole number")
    return rng.words(seed, 0, rng.stream("quantize"), count)


def _log2_max(x: Expression, rounding: Rounding) -> int:
    """log2 of R(x), which an empty tensor does not have. Defined by `spec/formats.py: exponent_of`."""
    if 0 in x.shape:
        raise NumberError(f"{rounding.where or 'tensor'}: an empty tensor of shape {x.shape} has no maximum")
    n = x.log2_max()
    if rounding.of_batch and not isinstance(x, Root):
        return shares.log2_max(n, n or x.max())
    return n


def _fixed(x: Expression, format: FixedPoint, rounding: Rounding) -> QTensor:
    """<WL,FL>: round(x * 2^FL), then `format.overflow`. Defined by `spec/formats.py: FixedPoint`."""
    if format.overflow.startswith("saturate"):
        codes, status = x.round_to(format.exponent, rounding.within(format.lo, format.hi))
        return QTensor(codes, format.exponent, format, max(-format.lo, format.hi), status)
    codes, status = x.round_to(format.exponent, rounding)
    if format.overflow == "wrap":
        span = 1 << format.wl
        wide = codes.astype(np.int64)
        codes = wide - span * ((wide - format.lo) // span)
        codes = codes.astype(container(max_abs(codes)))
    elif codes.size and (int(codes.min()) < format.lo or int(codes.max()) > format.hi):
        index = tuple(int(i) for i in np.argwhere((codes < format.lo) | (codes > format.hi))[0])
        raise NumberError(
            f"{rounding.where or 'tensor'}: code {int(codes[index])} at {index} is outside "
            f"{format} ({format.lo}..{format.hi}) and its overflow is 'error'"
        )
    return QTensor(codes, format.exponent, format, max(-format.lo, format.hi), status)


def _direct(x: Expression, format: Direct, rounding: Rounding) -> QTensor:
    """(6): Q(x, k) = round(x * 2^(k-1)) / 2^(k-1); the range is not limited.

    Defined by `spec/formats.py: Direct`.
    """
    codes, status = x.round_to(format.exponent, rounding)
    return QTensor(codes, format.exponent, format, status.peak, status)


def _shift(x: Expression, format: Shift, rounding: Rounding) -> QTensor:
    """(8): SQ(x, k) = R(x) * clip(Q(x/R(x), k), -1 + d, 1 - d). Defined by `spec/formats.py: Shift`."""
    exponent = _log2_max(x, rounding) - (format.k - 1)
    codes, status = x.round_to(exponent, rounding.within(-format.hi, format.hi))
    return QTensor(codes, exponent, format, format.hi, status)


def _flag(x: Expression, format: Flag, rounding: Rounding) -> QTensor:
    """(17): on the grid Sc where |x/Sc| >= 1, else on the grid Sc/2^(k-1); Sc = R(x)/2^(k-1).

    Defined by `spec/formats.py: Flag`.
    """
    if rounding.mode == STOCHASTIC:
        where = rounding.where or "Flag"
        raise FormatError(f"{where}: the flag format rounds to nearest, not stochastically")
    exponent = _log2_max(x, rounding) - 2 * format.fine
    codes, status = x.round_to(exponent, rounding.within(-format.hi, format.hi), format.fine)
    return QTensor(codes, exponent, format, format.hi, status)


def _constant(x: Expression, format: Constant, rounding: Rounding) -> QTensor:
    """(7): CQ(x) = clip(Sr(dr * x/R(x)), -dr+1, dr-1) / 2^(k-1). The magnitude of x is given up.

    Defined by `spec/formats.py: Constant`.
    """
    exponent = _log2_max(x, rounding) - (format.dr.bit_length() - 1)
    codes, status = x.round_to(exponent, rounding.within(-format.hi, format.hi))
    return QTensor(codes, format.exponent, format, format.hi, status)


def _scaled(x: Expression, format: Scaled, rounding: Rounding) -> QTensor:
    """BF(x, wl) of MuPPET: clip(round(x * 2^s), LB, UB) with the largest s at which all of x comes near.

    Defined by `spec/formats.py: Scaled`.
    """
    exponent = -scale(x, format, rounding.where, rounding.of_batch)
    codes, status = x.round_to(exponent, rounding.within(format.lo, format.hi))
    return QTensor(codes, exponent, format, -format.lo, status)


def scale(x: Expression, format: Scaled, where: str = "", of_batch: bool = False) -> int:
    """The largest s with max x * 2^s <= UB + 1/2 and min x * 2^s >= LB - 1/2, decided exactly.

    The greatest magnitude alone decides, unless it falls between the two limits. Zeros scale as a 1 does.

    Defined by `spec/formats.py: Scaled.grid_of`.
    """
    if 0 in x.shape or not isinstance(x, Exact | FloatExact):
        raise NumberError(
            f"{where or 'tensor'}: an empty tensor, a root or a tanh has no exact extremes (shape {x.shape})"
        )
    above, below = Fraction(2 * format.hi + 1, 2), Fraction(1 - 2 * format.lo, 2)
    top = x.max()
    if of_batch:
        top, _ = shares.extremes(top, top)
    s = floor_log2(above / (top or 1))
    if not top or s == floor_log2(below / top):
        return s
    greatest, least = x.extremes()
    if of_batch:
        greatest, least = shares.extremes(greatest, least)
    if greatest <= 0:
        return floor_log2(below / -least)
    return min(floor_log2(above / greatest), floor_log2(below / -least)) if least < 0 else s


def flag_words(q: QTensor) -> np.ndarray:
    """The stored words of a Flag tensor: flag, sign, k-1 bits of magnitude (figure 4).

    uint16 where the k+1 bits fit (k = 8 stores 9), else uint32 or uint64.

    Defined by `spec/formats.py: flag_encode`.
    """
    if not isinstance(q.format, Flag):
        raise FormatError(f"flag_words needs a tensor in Flag format, not {q.format}")
    fine = q.format.fine
    magnitude = np.abs(q.codes.astype(np.int64))
    flag = magnitude >= 1 << fine
    magnitude = np.where(flag, magnitude >> fine, magnitude)
    words = (flag.astype(np.int64) << (fine + 1)) | ((q.codes < 0).astype(np.int64) << fine) | magnitude
    bits = q.format.bits
    return words.astype(np.uint16 if bits <= 16 else np.uint32 if bits <= 32 else np.uint64)


_QUANTIZERS: dict[type, Callable[[Any, Any, Rounding], QTensor]] = {
    FixedPoint: _fixed,
    Direct: _direct,
    Shift: _shift,
    Flag: _flag,
    Constant: _constant,
    Scaled: _scaled,
}

_SCALED: dict[type, Callable[[Parts, Any, Rounding], QTensor | FloatTensor | BlockScaled]] = {
    ApFixed: ap_fixed.quantize,
    Float: small_floats.quantize,
    Microscaling: microscaling.quantize,
}

__all__ = ["Exact", "flag_words", "quantize"]
