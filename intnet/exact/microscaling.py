"""Blocks with a scale of E8M0: a power of two from each block's greatest magnitude, then one rounding an
element.

Magnitudes are compared as float64, which holds every value that comes in; the scale is read off by `frexp`,
which is exact, and no value is divided: its exponent moves.

Defined by `spec/microscaling.py: quantize_block`, `spec/microscaling.py: scale_of`.
"""

from functools import cache
from math import frexp

import numpy as np

from intnet.errors import NumberError
from intnet.exact import small_floats
from intnet.exact.parts import Parts, fixed_codes
from intnet.numbers.formats import FixedPoint
from intnet.numbers.microscaling import BIAS, NAN, BlockScaled, Microscaling
from intnet.numbers.qtensor import QTensor, Status, container
from intnet.numbers.rounding import Rounding
from intnet.numbers.small_floats import Float, FloatTensor


def quantize(x: Parts, format: Microscaling, rounding: Rounding) -> BlockScaled:
    """`x` in blocks; a block with a NaN or an infinity has a NaN for its scale, and zeros.

    Defined by `spec/microscaling.py: quantize_block`.
    """
    shape, where = x.size.shape, rounding.where or "quantize"
    scales = _scales(x, format, where)
    k = format.spread(scales.astype(np.int64) - BIAS, shape)
    lost = format.spread(scales == NAN, shape)
    zero, none = np.where(lost, np.uint64(0), x.size), np.zeros(shape, np.int8)
    moved = Parts(x.negative & ~lost, zero, x.exponent - k, none)
    elements: FloatTensor | QTensor
    if isinstance(format.element, Float):
        words, saturated, inexact = small_floats.encode(moved, format.element, rounding)
        status = Status(saturated, inexact, words.size)
        elements = FloatTensor(words.reshape(shape), format.element)
    else:
        codes, status = fixed_codes(moved, format.element, rounding)
        low, high = format.element.lo, format.element.hi
        codes = codes.astype(container(max(-low - 1, high)))
        elements = QTensor(codes, format.element.exponent, format.element, max(-low, high))
    return BlockScaled(elements, scales, format, status)


def _scales(x: Parts, format: Microscaling, where: str) -> np.ndarray:
    """uint8 words, one a block. Defined by `spec/microscaling.py: scale_of`."""
    exponent = np.clip(x.exponent, -(1 << 20), 1 << 20).astype(np.int32)
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.ldexp(x.size.astype(np.float64), exponent)
        back = np.ldexp(values, -exponent)
        whole = back < 2.0**64
        kept = (whole & (np.where(whole, back, 0).astype(np.uint64) == x.size)) | (x.special != 0)
    if not kept.all():
        at = tuple(int(i) for i in np.argwhere(~kept)[0])
        raise NumberError(f"{where}: the value at {at} is no float64, in which blocks are compared")
    values = np.where(x.special == 0, values, np.inf)
    format.blocks(values.shape)  # or too few axes
    for axis, size in enumerate(format.sizes, values.ndim - len(format.sizes)):
        starts = np.arange(0, values.shape[axis], size)
        values = np.maximum.reduceat(values, starts, axis) if starts.size else values
    part, power = np.frexp(np.where(np.isfinite(values), values, 0))  # part * 2**power, part in [1/2, 1)
    k = power.astype(np.int64) - _edge(format.element) + _lift(part, format)
    words = np.where(values == 0, 0, np.clip(k, -BIAS, BIAS) + BIAS)
    return np.where(~np.isfinite(values) | (k > BIAS), NAN, words).astype(np.uint8)


def _edge(element: Float | FixedPoint) -> int:
    """1 + floor(log2 g) of the greatest element g. Defined by `spec/microscaling.py: greatest`."""
    return frexp(greatest(element))[1]


@cache
def greatest(element: Float | FixedPoint) -> float:
    """g, which is a float64. Defined by `spec/microscaling.py: greatest`."""
    if isinstance(element, FixedPoint):
        return element.hi * 2.0**element.exponent
    return float(FloatTensor(np.array(element.greatest, element.dtype), element).to_float64())


def _lift(part: np.ndarray, format: Microscaling) -> np.ndarray | int:
    """What is added to floor(log2 t) - floor(log2 g) for t = part * 2^n, by rule."""
    element = format.element
    if format.scale == "floor":
        return 0
    if format.scale == "ceil":
        return part > 0.5
    if format.scale == "round":  # up to the next power of two from half a step below it on
        digits = element.m if isinstance(element, Float) else element.wl - 2
        return part >= 1 - 2.0 ** -(digits + 2)
    return part > frexp(greatest(element))[0]
