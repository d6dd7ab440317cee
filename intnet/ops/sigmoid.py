"""sigmoid, tanh and silu: functions of one element.

    sigmoid  y = 1/(1 + e^-x)       dx = dy * y * (1 - y), y the stored (quantized) output
    tanh     y = tanh(x)            dx = dy * (1 - y^2)
    silu     y = x * sigmoid(x)     dx = dy * d, d = s + x*s*(1 - s) with s = sigmoid(x)

Integers: y is the correctly rounded curve (`curves.py`), stored by the quantizer that is handed in; so is d,
which no stored value gives exactly, and gradients are exact products of stored operands. float32: the
sequences of `kernels/curves.py` and `fp32.tanh`, d computed again from the saved x.

Defined by `spec/curves.py: curve_round`, `spec/elementwise.py: sigmoid_grad_at`,
`spec/elementwise.py: tanh_grad_at`, `spec/elementary.py: sigmoid32`, `spec/elementary.py: tanh32`,
`spec/elementary.py: silu32`, `spec/elementary.py: sigmoid_error32`, `spec/elementary.py: tanh_error32`,
`spec/elementary.py: silu_error32`, `spec/nets.py: Walk._silu_back`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from intnet.autograd import Keep, Op, Saved, as_it_is, loaded
from intnet.errors import ContainerError
from intnet.machine.buffers import empty
from intnet.numbers.qtensor import INT64_BOUND, QTensor
from intnet.ops.curves import Curve, Sigmoid, Silu, Slope, Tanh, over_floats
from intnet.ops.elementwise import codes_of
from intnet.ops.kernels import channels, curves
from intnet.ops.products import float_operands

Quantizer = Callable[[Any], Any]


def _as_floats(e: Any) -> np.ndarray:
    """float32 of an error of codes or floats."""
    (floats,) = float_operands(np.empty(0, np.float32), e)
    return floats


def _times(e: Any, d: Any, what: str) -> Any:
    """e * d of one shape: of integers exact, of floats rounded once; an integer beside a float is one.

    Defined by `spec/values.py: times`.
    """
    if isinstance(d, np.ndarray):
        e = _as_floats(e)
    (d,) = float_operands(e, d)
    if isinstance(e, np.ndarray):
        return over_floats(channels.multiply, e, d)
    bound = e.bound * d.bound
    if bound >= INT64_BOUND:
        raise ContainerError(f"{what}: the error's product with the derivative is beyond int64")
    out = empty((e.size,), np.int32 if bound < 1 << 31 else np.int64)
    channels.multiply(*channels.alike(out.dtype, e.codes.reshape(-1), d.codes.reshape(-1)), out)
    return QTensor(out.reshape(e.shape), int(e.exponent) + int(d.exponent), bound=bound)


def _rising(saved: Saved, kind: type[Curve], x: Any, quantize: Quantizer, keep: Keep) -> Any:
    """`quantize` makes the stored output, which the derivative uses; `keep`: what the tape holds of it."""
    y = quantize(kind.of_floats(x) if isinstance(x, np.ndarray) else kind(codes_of(x)))
    if saved.needs[0]:
        saved.y = keep(y)
    return y


def _sigmoid(saved: Saved, x: Any, *, quantize: Quantizer, keep: Keep = as_it_is) -> Any:
    return _rising(saved, Sigmoid, x, quantize, keep)


def _tanh(saved: Saved, x: Any, *, quantize: Quantizer, keep: Keep = as_it_is) -> Any:
    return _rising(saved, Tanh, x, quantize, keep)


def _stored(y: QTensor, what: str) -> tuple[np.ndarray, int]:
    """int64 codes of a stored output, and the code of 1; ContainerError unless int64 holds their squares."""
    one = 1 << max(-int(y.exponent), 0)
    if max(one, y.bound) ** 2 >= INT64_BOUND or y.exponent > 0:
        raise ContainerError(f"{what}: an output at exponent {y.exponent} leaves no exact derivative")
    return y.codes.astype(np.int64), one


def _sigmoid_vjp(saved: Saved, e: Any) -> tuple[Any]:
    (y,), e = float_operands(e, loaded(saved.y)), codes_of(e)
    if isinstance(y, np.ndarray):
        return (over_floats(curves.sigmoid_error, _as_floats(e), y),)
    codes, one = _stored(y, "sigmoid")
    return (_times(e, QTensor(codes * (one - codes), 2 * int(y.exponent)), "sigmoid"),)


def _tanh_vjp(saved: Saved, e: Any) -> tuple[Any]:
    (y,), e = float_operands(e, loaded(saved.y)), codes_of(e)
    if isinstance(y, np.ndarray):
        return (_as_floats(e) * (np.float32(1) - y * y),)
    codes, one = _stored(y, "tanh")
    return (_times(e, QTensor(one * one - codes * codes, 2 * int(y.exponent)), "tanh"),)


def _silu(saved: Saved, x: Any, *, quantize: Quantizer, derivative: Quantizer, keep: Keep = as_it_is) -> Any:
    """`quantize` makes the stored output, `derivative` the stored slope of an integer x.

    keep: what the tape holds of a float32 x
    """
    saved.floating = isinstance(x, np.ndarray)
    if saved.floating:
        if saved.needs[0]:
            saved.x = keep(x)
        return quantize(Silu.of_floats(x))
    x = codes_of(x)
    if saved.needs[0]:
        saved.slope = derivative(Slope(x))
    return quantize(Silu(x))


def _silu_vjp(saved: Saved, e: Any) -> tuple[Any]:
    if saved.floating:
        x = loaded(saved.x)
        return (over_floats(curves.silu_error, _as_floats(e), x),)
    return (_times(codes_of(e), saved.slope, "silu"),)


sigmoid = Op("sigmoid", _sigmoid, _sigmoid_vjp)
tanh = Op("tanh", _tanh, _tanh_vjp)
silu = Op("silu", _silu, _silu_vjp)
