"""Ports of a path in MX blocks (`packs/mx.py`): elements, scales, and how each came about.

What a device must give is L/x0 and L/x0.scale. Of the trail, beside floor, remainder, up and presat of each
element, L/x0.exponent is log2 of its step over its block's scale, L/x0.scale.top t of each block.
"""

import numpy as np

from intnet.exact.blocks.mx_blocks import Along
from intnet.exact.blocks.mx_loops import SIZE
from intnet.inspect.trail import mx_trail
from intnet.numbers.formats import FixedPoint
from intnet.packs import mx, ports
from intnet.packs.layers import worth
from intnet.packs.layers.blocks import Made, Path
from intnet.packs.ports import Json

OF_SCALE = "w of each block, by its greatest magnitude: its scale is 2^(w - 127)"
OF_TOP = "t, the greatest magnitude of each block"


def mx_blocks(path: Path) -> Made:
    """Elements, scales, the trail; `trail` where words are alike."""
    event, name, along, q = path.event, path.name, path.event.format, path.event.result
    assert isinstance(along, Along) and event.rounding is not None
    words = mx.words_of(q.codes, np.signbit(event.source), along)
    flags, explained = "exact", list[ports.Filled]()
    if worth.varied(words) and q.status.inexact:
        way = mx_trail(event.source, q, along, event.rounding, event.words)
        explained, flags = worth.trail_ports(name, way, path.axes), worth.flags(event, way)
    element, told = along.mx.element, mx.told(along, q.codes.ndim)
    of: Json = {"signed": False, "encoding": "minifloat", "meaning": path.formula}
    limits: Json = {"low": None, "high": None}
    if isinstance(element, FixedPoint):
        of |= {"signed": True, "encoding": "integer"}
        limits = {"low": element.lo, "high": element.hi}
    of |= {"exponent": f"{name}{mx.SCALE}", "rounding": path.rounding | limits | {mx.MX: told}}
    filled = [
        ports.whole_number(name, worth.direction(words), words, path.axes, along.bits, **of),
        *_scales(path, along, mx.scales_of(q, along), told),
    ]
    return Made([*explained, *filled], {port.name: flags for port, _ in filled if port.direction == "out"})


def _scales(path: Path, along: Along, scales: np.ndarray, told: Json) -> list[ports.Filled]:
    """Their words, and what they come from."""
    name, names = f"{path.name}{mx.SCALE}", path.axes.split(",")
    names[along.axis % len(names)] += f"/{SIZE}"
    axes, tops = ",".join(names), mx.tops_of(path.event.source, along)
    how = {"mode": "exact", "source": path.rounding["source"], mx.SCALED: told}
    of: Json = {"signed": False, "encoding": "e8m0", "meaning": OF_SCALE, "rounding": how}
    explains: Json = {"meaning": OF_TOP, "explains": name}
    return [
        ports.whole_number(name, worth.direction(scales), scales, axes, 8, **of),
        *ports.tensor(f"{name}.{mx.TOP}", "trail", tops, axes, **explains),
    ]
