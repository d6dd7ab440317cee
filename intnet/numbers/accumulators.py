"""Accumulators as plain data: in what a sum of products is added up, for `intnet.matmul`, `linear`, `conv2d`.

    Narrow(16, "saturate")          integers: two's complement of 16 bits, limited at each step
    Once(BF16)                      exact, rounded once
    Stepped(FP32, order="tree")     rounded at each step
    Window(FP32, group=8, guard=1)  aligned to the greatest exponent and cut, as accelerators do

Sums are in `exact/dots.py`.

Defined by `spec/accumulators.py: narrow`, `spec/accumulators.py: once`, `spec/accumulators.py: stepped`,
`spec/accumulators.py: windowed`.
"""

from dataclasses import dataclass

from intnet.errors import FormatError
from intnet.numbers.rounding import STOCHASTIC, mode
from intnet.numbers.small_floats import FP32, Float
from intnet.numbers.widths import check_bits

ORDERS = ("ascending", "chunks", "tree")


def _check(format: Float, rounding: str, order: str = "ascending") -> None:
    if not isinstance(format, Float):
        raise FormatError(f"an accumulator of floats is a Float, such as FP32, not {format!r}")
    found = mode(rounding)
    if not isinstance(found, int) or found == STOCHASTIC:
        raise FormatError(
            f"a sum is not rounded by {rounding!r}: it has no words, and takes no rule of your own"
        )
    _check_order(order)


def _check_order(order: str) -> None:
    if order not in ORDERS:
        raise FormatError(f"unknown order {order!r}; use one of {', '.join(ORDERS)}")


@dataclass(frozen=True)
class Narrow:
    """Integers in two's complement of `bits` bits, limited at each step.

    overflow: wrap | saturate
    order:    ascending | chunks | tree; of sums that wrap it does not matter

    Defined by `spec/accumulators.py: narrow`.
    """

    bits: int
    overflow: str = "wrap"
    order: str = "ascending"

    def __post_init__(self) -> None:
        check_bits(self.bits, "Narrow bits")
        if self.overflow not in ("wrap", "saturate"):
            raise FormatError(f"Narrow overflow = {self.overflow!r}: use wrap or saturate")
        _check_order(self.order)


@dataclass(frozen=True)
class Once:
    """The exact sum, rounded once to `format`.

    Defined by `spec/accumulators.py: once`.
    """

    format: Float = FP32
    rounding: str = "ties_even"

    def __post_init__(self) -> None:
        _check(self.format, self.rounding)


@dataclass(frozen=True)
class Stepped:
    """Rounded to `format` at each step; order: ascending | chunks (of 1024) | tree.

    Defined by `spec/accumulators.py: stepped`.
    """

    format: Float = FP32
    rounding: str = "ties_even"
    order: str = "ascending"

    def __post_init__(self) -> None:
        _check(self.format, self.rounding, self.order)


@dataclass(frozen=True)
class Window:
    """`group` products at a time, aligned to the greatest exponent, cut after m + guard bits, then rounded.

    guard: bits kept beyond the mantissa of `format`; fewer than none are a narrower window

    Defined by `spec/accumulators.py: windowed`.
    """

    format: Float = FP32
    group: int = 4
    guard: int = 0
    rounding: str = "to_zero"

    def __post_init__(self) -> None:
        _check(self.format, self.rounding)
        if isinstance(self.group, bool) or not isinstance(self.group, int) or self.group < 1:
            raise FormatError(f"Window group = {self.group!r}: so many products at a time, at least 1")
        if isinstance(self.guard, bool) or not isinstance(self.guard, int) or not -22 <= self.guard <= 24:
            raise FormatError(f"Window guard = {self.guard!r}: from -22 to 24 bits")


Accumulator = Narrow | Once | Stepped | Window
