"""A tensor in which MX blocks have all that they can, and the event of its rounding."""

from __future__ import annotations

from typing import Any

import numpy as np

from intnet.exact.blocks.mx_blocks import Along, quantize_along
from intnet.methods.trace import Event
from intnet.numbers.rounding import how

SHAPE = (2, 70, 3)  # along its second axis two blocks of 32 and one of 6, or of two groups 32 and 3


def numbers(seed: int) -> np.ndarray:
    """Every size in every block, zeros of both signs, a block of zeros, one of subnormal float32."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(SHAPE) * 2.0 ** rng.integers(-12, 3, SHAPE)
    x[rng.random(SHAPE) < 0.1] = -0.0
    x[0, :32, 1] = 0.0
    x[1, :32, 1] *= 2.0**-140
    x[1, 32:64, 0] *= 2.0 ** rng.integers(-60, 60, 32)
    x[0, 33:40, 0] = [3.0, -2.5, 1.5, 1.75, -1.25, 2.0**-30, -(2.0**-30)]
    return x.astype(np.float32)


def event_of(x: np.ndarray, form: Along, mode: str, seed: int = 1) -> tuple[Event, Any]:
    """A trace's event of x rounded in blocks, and the blocks."""
    words = np.random.default_rng(seed).integers(0, 2**32, x.size, dtype=np.uint32)
    drawn = words if mode == "stochastic" else None
    made = quantize_along(x, form, how(mode, drawn) if drawn is not None else how(mode))
    q = made.to_qtensor(x, int(made.limited.sum()))
    return Event("fc", "x0", 0, x, q, form, mode, drawn), made
