"""Floats as the exact numbers that the definition computes with."""

from fractions import Fraction

import numpy as np


def fractions(array: np.ndarray) -> list[Fraction]:
    """Of float32 or float64 numbers."""
    return [Fraction(*number.as_integer_ratio()) for number in array.astype(np.float64).reshape(-1).tolist()]


def units(array: np.ndarray) -> list[int]:
    """Of float32 numbers, the whole numbers of 2^-149 that they are."""
    bits = np.ascontiguousarray(array, np.float32).reshape(-1).view(np.uint32).astype(np.int64)
    exponents = bits >> 23 & 0xFF
    wholes = (bits & 0x7FFFFF) | np.where(exponents > 0, 1 << 23, 0)
    wholes = np.where(bits >> 31 == 1, -wholes, wholes)
    shifts = np.maximum(exponents - 1, 0)
    return [whole << shift for whole, shift in zip(wholes.tolist(), shifts.tolist(), strict=True)]
