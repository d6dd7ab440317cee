"""The one map from the fast code's formats and numbers to those of the definition (`intnet.spec`).

    format_of(Shift(8))        formats.Shift(k=8)
    grid(Shift(8), source)     what the whole tensor decides, from its exact extremes
    fixed(q), floats(array)    codes, or float32, in the definition's containers

For what explains, checks or verifies; nothing that trains imports it. A format that has no entry in `FORMATS`
is refused by its name: where it rounds is not defined.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from intnet.errors import FormatError
from intnet.exact.expressions import Exact, Expression
from intnet.exact.sources import FloatExact
from intnet.numbers import formats as fast
from intnet.numbers.qtensor import QTensor
from intnet.spec import formats as spec
from intnet.spec.curves import curve_bounds, tanh_bounds
from intnet.spec.tensor import Fixed, Tensor, power

FORMATS: dict[type, Callable[[Any], spec.Format]] = {
    fast.FixedPoint: lambda f: spec.FixedPoint(f.wl, f.fl, f.overflow, f.signed),
    fast.Direct: lambda f: spec.Direct(f.k, lsb=f.lsb),
    fast.Shift: lambda f: spec.Shift(f.k),
    fast.Flag: lambda f: spec.Flag(f.k),
    fast.Constant: lambda f: spec.Constant(f.dr, f.k),
    fast.Scaled: lambda f: spec.Scaled(f.wl),
}
DIGITS = 210  # bits of an enclosure of a curve
OF_R = (spec.Shift, spec.Flag, spec.Constant)  # whose grid is log2 R(x)


def format_of(format: fast.Format) -> spec.Format:
    """The definition of a format; FormatError for one without, as block float, whose blocks decide."""
    if type(format) not in FORMATS:
        raise FormatError(f"where the format {format} rounds is not told here")
    return FORMATS[type(format)](format)


def grid(format: spec.Format, source: Expression) -> int:
    """What a whole tensor decides: by the definition, from exact extremes that the fast code looked for."""
    if isinstance(format, spec.FixedPoint | spec.Direct):
        return format.grid_of(0, 0)
    if not isinstance(source, Exact | FloatExact):  # a root or a curve, whose maximum is no rational
        if isinstance(format, OF_R):
            return source.log2_max()
        raise FormatError(f"a root or a curve has no exact extremes, by which {format} could scale it")
    if isinstance(format, OF_R):
        top = source.max()
        return format.grid_of(-top, top)
    greatest, least = source.extremes()
    return format.grid_of(least, greatest)


def fixed(q: QTensor) -> Fixed:
    """The codes of a tensor of one exponent."""
    if isinstance(q.exponent, np.ndarray):
        raise FormatError(f"a tensor of shape {q.shape} has many exponents: read it by `values`")
    return Fixed(tuple(q.shape), q.codes.reshape(-1).tolist(), int(q.exponent))


def floats(array: np.ndarray) -> Tensor:
    """float32 values; ValueError for NaN and infinity, which have no exact value."""
    return Tensor(tuple(array.shape), [Fraction(value) for value in array.reshape(-1).tolist()])


def values(value: QTensor | np.ndarray | Exact) -> Tensor:
    """The exact values of codes of one or many exponents, of float32, of an expression."""
    if isinstance(value, np.ndarray):
        return floats(value)
    if isinstance(value, Exact):
        return Tensor(tuple(value.shape), list(value.fractions().reshape(-1)))
    exponents = np.broadcast_to(value.exponent, value.shape).reshape(-1).tolist()
    codes = value.codes.reshape(-1).tolist()
    return Tensor(tuple(value.shape), [c * power(e) for c, e in zip(codes, exponents, strict=True)])


def curve(name: str, x: Fraction) -> Fraction:
    """tanh, sigmoid, silu or silu's slope at x, which is irrational but at 0: within 2^-200."""
    if x == 0:
        return Fraction(int(name in ("sigmoid", "slope")), 2)
    if name == "tanh":
        size = tanh_bounds(abs(x), DIGITS)[0]
        return size if x > 0 else -size
    return curve_bounds(name, x, DIGITS)[0]


def log2(step: Fraction) -> int:
    """The exponent of a power of two, as every step of a grid is."""
    return step.numerator.bit_length() - step.denominator.bit_length()
