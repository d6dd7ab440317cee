"""How large the numbers of PACK.json may be, by what they say.

    within(manifest, "PACK.json")           ValueError names the first one beyond

A number is refused where it stands, before a model is built, an array taken or anything shifted by it.
"""

import math
from typing import Any

POWER = 1 << 12  # the most that an exponent or a shift is
CODE = 1 << 61  # a limit of a rounding is less, so that twice as much fits 64 bits
TAPS = 1 << 8  # of a window, on one side
RANGES: dict[str, tuple[int, int]] = {  # of the numbers under a key, those of its list too
    "exponent": (-POWER, POWER),
    "grid": (-POWER, POWER),
    "shift": (-POWER, POWER),
    "lift": (0, POWER),
    "low": (-CODE, 0),
    "high": (0, CODE),
    "kernel": (1, TAPS),
    "stride": (1, TAPS),
    "padding": (0, TAPS),
    "groups": (1, 1 << 16),
    "axis": (0, 1 << 6),
    "block": (1, 1 << 12),
    "image_shape": (1, 1 << 12),
    "classes": (1, 1 << 16),
    "batch_size": (1, 1 << 24),
}
MOST_PIXELS = 1 << 20  # elements of an image


def within(value: Any, name: str, key: str = "") -> None:
    """ValueError for a number out of its range, or one that 64 bits do not hold: no reader in C takes it."""
    if isinstance(value, dict):
        for k, part in value.items():
            within(part, f"{name}[{ascii(k)[:80]}]", str(k))
    elif isinstance(value, list):
        for i, part in enumerate(value):
            within(part, f"{name}[{i}]", key)
        if key == "image_shape" and math.prod(value) > MOST_PIXELS:
            raise ValueError(f"{name} is {value}: an image has at most {MOST_PIXELS:,} elements")
    elif isinstance(value, int):
        _whole(value, name, key)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name} is {value}: a number of a pack is finite")


def _whole(value: int, name: str, key: str) -> None:
    most = 1 << (64 if key == "seed" else 63)  # seeds have no sign, all others one
    if not -(1 << 63) <= value < most:
        shown = value if abs(value) < 1 << 80 else f"{value.bit_length()} bits wide"
        raise ValueError(f"{name} is {shown}: no number of a pack passes 64 bits")
    low, high = RANGES.get(key, (value, value))
    if not low <= value <= high:
        raise ValueError(f"{name} is {value}: it is a number from {low} to {high}")
