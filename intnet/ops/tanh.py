"""tanh, correctly rounded for integers.

    y = tanh(x)        dx = dy * (1 - y^2), y the stored (quantized) output

tanh is monotone and, but for 0, irrational at every rational x (Lindemann), so the rounded code is
the number of thresholds below x: code n starts at x = atanh((n - 1/2) / 2^f) for rounding to
nearest, at atanh(n / 2^f) for floor. Thresholds are decided in decimal arithmetic that is precise
enough to tell each from its neighbouring grid point; no tie ever occurs. float32: `fp32.tanh`.

Defined by `spec/curves.py: tanh_round`, `spec/elementwise.py: tanh_grad_at`, `spec/elementary.py: tanh32`,
`spec/elementary.py: tanh_error32`.
"""

from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from intnet.autograd import Op, Saved
from intnet.errors import ContainerError, FormatError
from intnet.exact.expressions import exact
from intnet.numbers import fp32
from intnet.numbers.qtensor import QTensor, Status, container, max_abs
from intnet.numbers.rounding import NEAREST, TO_NEG, TO_POS, TO_ZERO, Rounding
from intnet.ops.elementwise import codes_of
from intnet.ops.products import float_operands

_DIGITS = 80  # far more than 62-bit thresholds need; a tie would show as a fraction within 1e-40
_MAX_FRACTION = 16


@lru_cache(maxsize=32)
def _thresholds(fraction: int, half: bool, exponent: int) -> np.ndarray:
    """int64[2^fraction]: floor(t * 2^-exponent) of t = atanh((n - half/2) / 2^fraction), n = 1, 2, ..."""
    scale, out = 1 << (fraction + half), []
    with localcontext() as context:
        context.prec = _DIGITS
        for n in range(1, (1 << fraction) + half):
            p = (2 * n - 1) if half else n
            t = (Decimal(scale + p) / Decimal(scale - p)).ln() / 2 if p < scale else Decimal("Infinity")
            if not t.is_finite():
                break
            scaled = t * Decimal(2) ** -exponent
            whole = int(scaled)
            if min(scaled - whole, 1 - (scaled - whole)) < Decimal("1e-40"):
                raise ContainerError(f"tanh at exponent {exponent}: a threshold is too close to the grid")
            out.append(whole)
    return np.array(out, np.int64)


class Tanh:
    """The expression tanh(x), x an integer tensor; rounded by counting thresholds."""

    relu = False

    def __init__(self, x: QTensor) -> None:
        if int(x.exponent) < -56:
            raise ContainerError(f"tanh of codes at exponent {x.exponent}: thresholds pass int64 below -56")
        self.x = x

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return self.x.shape

    def to_float32(self) -> np.ndarray:
        """float32 tanh of the codes rounded to float32: for formats that integer tanh does not round to."""
        x = exact(self.x).to_float32()  # type: ignore[union-attr]
        return fp32.tanh(x)

    def log2_max(self) -> int:
        """Not defined here: tanh feeds fixed-resolution formats."""
        raise FormatError("tanh is quantized to a fixed resolution, not by its maximum")

    def fractions(self) -> np.ndarray:
        """Array of Fractions: tanh to 60 decimals, for inspection."""
        out = np.empty(self.shape, object)
        with localcontext() as context:
            context.prec = 60
            for index, x in np.ndenumerate(self.x.fractions()):
                power = (2 * Decimal(x.numerator) / Decimal(x.denominator)).exp()
                out[index] = Fraction((power - 1) / (power + 1))
        return out

    def round_to(self, exponent: int, rounding: Rounding, fine: int = 0) -> tuple[np.ndarray, Status]:
        """As `Exact.round_to`, for deterministic modes and 0..16 fraction bits.

        Defined by `spec/curves.py: tanh_round`.
        """
        mode = rounding.mode
        known = mode in (*NEAREST, TO_NEG, TO_POS, TO_ZERO)
        if not known or fine or not 0 <= -exponent <= _MAX_FRACTION:
            raise FormatError(
                f"{rounding.where or 'tanh'}: integer tanh rounds deterministically, to 0..{_MAX_FRACTION} "
                "fraction bits"
            )
        half = mode in NEAREST
        steps = _thresholds(-exponent, half, int(self.x.exponent))
        x = np.maximum(self.x.codes.astype(np.int64), 1 - (1 << 63))  # so that |x| is an int64
        codes = np.searchsorted(steps, np.abs(x), side="left")  # counts floor(t) < |x|, that is t < |x|
        codes = np.where(x < 0, -codes, codes)
        if mode == TO_NEG:
            codes -= x < 0
        elif mode == TO_POS:
            codes += x > 0
        kept = np.clip(codes, rounding.low, rounding.high)
        status = Status(int(np.count_nonzero(kept != codes)), int(np.count_nonzero(x)), x.size)
        return kept.astype(container(max_abs(kept))), status


def _tanh(saved: Saved, x: Any, *, quantize: Callable[[Any], Any]) -> Any:
    """`quantize` makes the stored output of the expression; the derivative uses that output."""
    if isinstance(x, np.ndarray):
        saved.y = quantize(fp32.tanh(x))
    else:
        saved.y = quantize(Tanh(codes_of(x)))
    return saved.y


def _tanh_vjp(saved: Saved, e: Any) -> tuple[Any]:
    (y,), e = float_operands(e, saved.y), codes_of(e)
    if isinstance(y, np.ndarray):
        return (e * (np.float32(1) - y * y),)
    one = 1 << (-2 * int(y.exponent))
    slope = one - y.codes.astype(np.int64) ** 2
    if max(one, y.bound**2) * e.bound >= 1 << 62:
        raise ContainerError("tanh: the gradient's product with 1 - y^2 is beyond int64")
    codes = e.codes.astype(np.int64) * slope
    return (QTensor(codes, int(e.exponent) + 2 * int(y.exponent), bound=max_abs(codes)),)


tanh = Op("tanh", _tanh, _tanh_vjp)
