"""Mistakes that devices make in MX blocks, beside those of any rounding: of subnormals, zeros and scales."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from intnet.numbers.microscaling import SCALES
from intnet.packs import mx
from intnet.packs.mistakes import Variant, Words


def _flushed(w: Words) -> np.ndarray:
    """Elements below the least normal one become a zero of their sign."""
    sign = 1 << w.port.bits - 1
    return np.where(w.want % sign >> w.along.digits, w.want, w.want & sign)


def _by_rule(rule: str) -> Variant:
    """Scales by another rule."""
    return lambda w: mx.scales_by(
        w.way["top"].astype(np.uint32).view(np.float32), replace(w.along, mx=replace(w.along.mx, scale=rule))
    )


def in_mx(w: Words) -> Iterator[tuple[str, Variant]]:
    """Those that this port could have; none where it has nothing of MX blocks."""
    if w.port.encoding == "minifloat":
        yield "subnormal elements become zero", _flushed
        yield "a zero that has lost its sign", lambda w: np.where(w.want == 1 << w.port.bits - 1, 0, w.want)
    if w.port.encoding == "e8m0":
        rules = [rule for rule in SCALES if rule != w.along.mx.scale] if mx.TOP in w.way else []
        yield from ((f"a scale by rule {rule}", _by_rule(rule)) for rule in rules)
        yield "a scale twice as large", lambda w: np.minimum(w.want + 1, 255)
        yield "a scale half as large", lambda w: np.maximum(w.want - 1, 0)
