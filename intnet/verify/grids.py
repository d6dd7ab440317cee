"""The grid that a whole tensor decides, from its extremes; float64 bounds those that are not stored."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from intnet.numbers.qtensor import QTensor
from intnet.spec.formats import Direct, FixedPoint, Format
from intnet.verify.values import MARGIN, Near, Values, forward_copy, is_stored

MANY = 20_000  # candidates for an extreme that are evaluated exactly


def grid_of(values: Values, form: Format, value: Any) -> int:
    """`form.grid_of` the exact extremes of a value.

    Of an expression float64 gives bounds of both; a grid grows with them, so where the bounds' grids agree,
    that is the grid. Else every element that may be an extreme is evaluated exactly.
    """
    if isinstance(form, FixedPoint | Direct):
        return form.grid_of(0, 0)
    value = forward_copy(value)
    if is_stored(value) and not (isinstance(value, QTensor) and isinstance(value.exponent, np.ndarray)):
        flat = value.codes.reshape(-1) if isinstance(value, QTensor) else np.asarray(value).reshape(-1)
        least, greatest = values.at(value, np.array([flat.argmin(), flat.argmax()]))
        return form.grid_of(least, greatest)
    return decided(form, values.near(value), lambda flat: values.at(value, flat))


def decided(form: Format, near: Near, exact_at: Callable[[np.ndarray], list[Fraction]]) -> int:
    """The same of float64 numbers, and of what makes the exact ones at flat indices."""
    off = MARGIN * near.size
    low, high = (near.value - off).reshape(-1), (near.value + off).reshape(-1)
    inner = form.grid_of(Fraction(min(high.min(), 0.0)), Fraction(max(low.max(), 0.0)))
    outer = form.grid_of(Fraction(min(low.min(), 0.0)), Fraction(max(high.max(), 0.0)))
    nonzero = high.min() < 0 or low.max() > 0
    if nonzero and inner == outer:
        return outer
    may = np.flatnonzero((low <= high.min()) | (high >= low.max()))
    assert may.size <= MANY, f"{may.size} elements may be the greatest"
    exact = exact_at(may)
    return form.grid_of(min(exact), max(exact))
