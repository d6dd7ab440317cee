"""What the words of a rounded path are worth: its trail as ports, what they hunt, whether they judge."""

from typing import Any

import numpy as np

from intnet.exact.sources import FloatExact
from intnet.inspect.trail import HALF, REMAINDER_BITS, Trail
from intnet.methods.trace import Event
from intnet.numbers.qtensor import QTensor
from intnet.packs import ports
from intnet.packs.layers.capture import Captured
from intnet.packs.layers.expressions import array_of


def flags(event: Event, way: Trail) -> str:
    """What the words of a rounded path hunt."""
    status, ties = event.result.status, int(np.count_nonzero(way.remainder == HALF))
    flags = [str(event.rounding), f"rounded:{status.inexact}"]
    flags += [f"ties:{ties}"] * bool(ties) + [f"saturated:{status.saturated}"] * bool(status.saturated)
    return " ".join(flags)


def varied(words: np.ndarray) -> bool:
    """Whether there are two that differ, so that a device that is stuck does not pass."""
    return bool(words.size and np.any(words != words.flat[0]))


def direction(words: np.ndarray) -> str:
    """Of a port of them: what is all alike judges nothing."""
    return "out" if varied(words) else "trail"


def constant_copy(one: Captured, event: Event) -> bool:
    """Whether it is the forward copy of a parameter, and all alike."""
    floats = isinstance(event.source, FloatExact) and event.source.den == 1
    array = event.source.values if floats else array_of(event.source)
    if event.format is None or array is None or not isinstance(event.result, QTensor):
        return False
    copied = any(array is array_of(value) for value in one.before.values())
    return copied and not varied(event.result.codes)


def lost_gradient(event: Event) -> bool:
    """Whether it is a gradient of which stochastic rounding left nothing, as coarse steps often do."""
    codes = getattr(event.result, "codes", None)
    return event.rounding == "stochastic" and event.path[0] == "g" and not np.any(codes)


def alike(result: Any) -> bool:
    """Whether all elements are the same; one alone: whether 0."""
    array = array_of(result)
    return array is not None and not (varied(array) if array.size > 1 else np.any(array))


def trail_ports(name: str, way: Trail, axes: str) -> list[ports.Filled]:
    """floor, remainder, up, presat, of Flag-Q coarse, of block float limit, in MX blocks exponent."""
    bits = max(QTensor(part, 0).width for part in (way.floor, way.presat))
    parts = [
        ("floor", way.floor, bits, True, "floor of the value in steps of the grid"),
        ("remainder", way.remainder, REMAINDER_BITS, False, "32 bits of the fraction, then a sticky bit"),
        ("up", way.up, 1, False, "1 where floor + 1 was taken"),
        ("presat", way.presat, bits, True, "floor + up, before the limits"),
    ]
    if way.coarse is not None:
        parts.append(("coarse", way.coarse.astype(np.int64), 1, False, "1 on the coarse grid"))
    if way.limit is not None:
        parts.append(("limit", way.limit.astype(np.int64), 7, False, "+- the limit of presat"))
    if way.exponent is not None:
        meaning = "log2 of the step of the grid, over the block's scale"
        parts.append(("exponent", way.exponent, QTensor(way.exponent, 0).width, True, meaning))
    return [
        ports.whole_number(
            f"{name}.{part}", "trail", codes, axes, width, signed=signed, meaning=meaning, explains=name
        )
        for part, codes, width, signed, meaning in parts
    ]
