"""scale: every channel of an image by a factor of its own, as squeeze and excitation does.

    y[n, h, w, c] = x[n, h, w, c] * s[n, c]
    dx = dy * s        ds[n, c] = sum over h, w of dy * x

Integers: exact products and sums, exponents add. float32: one rounding a product, sums by `fma32` in
row-major order (`kernels/channels.py`).

Defined by `spec/nets.py: Walk.scaled`, `spec/nets.py: Walk.scaled_back`, `spec/values.py: times`,
`spec/elementwise.py: scale_grad_at`.
"""

from typing import Any

import numpy as np

from intnet.autograd import Keep, Op, Saved, as_it_is, loaded
from intnet.errors import ContainerError, ShapeError
from intnet.machine.buffers import empty
from intnet.numbers.qtensor import INT64_BOUND, QTensor
from intnet.ops.elementwise import codes_of
from intnet.ops.kernels import channels
from intnet.ops.products import float_operands, operands


def _rows(x: np.ndarray) -> np.ndarray:
    """[N, positions, C] of (N, H, W, C)."""
    return np.ascontiguousarray(x).reshape(x.shape[0], -1, x.shape[-1])


def _container(a: QTensor, b: QTensor, terms: int, where: str) -> tuple[np.dtype, int]:
    """(type of the codes, bound) of a sum of `terms` products."""
    bound = a.bound * b.bound * terms
    if bound >= INT64_BOUND:
        raise ContainerError(
            f"{where}: {terms} products of codes up to {a.bound} and {b.bound} need {bound.bit_length() + 1} "
            "bits; use narrower operands"
        )
    return np.dtype(np.int32 if bound < 1 << 31 else np.int64), bound


def _scaled(x: Any, s: Any, where: str) -> Any:
    if isinstance(x, np.ndarray):
        out = empty(_rows(x).shape, np.float32)
        channels.scale(_rows(x), np.ascontiguousarray(s), out)
        return out.reshape(x.shape)
    kind, bound = _container(x, s, 1, where)
    (rows,) = channels.alike(kind, _rows(x.codes))
    out = empty(rows.shape, kind)
    channels.scale(rows, np.ascontiguousarray(s.codes, kind), out)
    return QTensor(out.reshape(x.shape), int(x.exponent) + int(s.exponent), bound=bound)


def _summed(e: Any, x: Any, where: str) -> Any:
    shape = (x.shape[0], x.shape[-1])
    if isinstance(x, np.ndarray):
        out = np.zeros(shape, np.float32)
        channels.dots(_rows(e), _rows(x), out)
        return out
    kind, bound = _container(e, x, x.shape[1] * x.shape[2], where)
    codes = np.zeros(shape, kind)
    channels.dots(*channels.alike(kind, _rows(e.codes), _rows(x.codes)), codes)
    return QTensor(codes, int(e.exponent) + int(x.exponent), bound=bound)


def _scale(saved: Saved, x: Any, s: Any, *, keep: Keep = as_it_is, where: str = "") -> Any:
    """keep: what the tape holds of x."""
    x, s, where = codes_of(x), codes_of(s), where or "scale"
    if len(x.shape) != 4 or s.shape != (x.shape[0], x.shape[-1]):
        raise ShapeError(f"{where}: needs (N, H, W, C) and (N, C), got {x.shape} and {s.shape}")
    operands(x, s, f"{where}: scale")
    saved.where, saved.s = where, s
    if saved.needs[1]:
        saved.x = keep(x)
    return _scaled(x, s, where)


def _scale_vjp(saved: Saved, e: Any) -> tuple[Any, Any]:
    e, where = codes_of(e), saved.where
    (s,) = float_operands(e, saved.s)
    dx = ds = None
    if saved.needs[0]:
        operands(e, s, f"{where}: gradient of scale")
        dx = _scaled(e, s, where)
    if saved.needs[1]:
        (x,) = float_operands(e, loaded(saved.x))
        operands(e, x, f"{where}: gradient of scale")
        ds = _summed(e, x, where)
    return dx, ds


scale = Op("scale", _scale, _scale_vjp)
