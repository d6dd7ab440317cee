"""cast: a quantizer on the way forward, another on the way back (straight-through estimator).

    forward:  y = quantize_value(x)          backward:  dx = quantize_gradient(dy)

Either may be the identity. This is how a method (`methods/`) puts its formats on a data path: the
derivative of rounding itself is taken as 1 (WAGEUBN Eq. 1).

Defined by `spec/nets.py: Rules`.
"""

from collections.abc import Callable
from typing import Any

from intnet.autograd import Op, Saved


def _cast(saved: Saved, x: Any, *, forward: Callable[[Any], Any], backward: Callable[[Any], Any]) -> Any:
    saved.backward = backward
    return forward(x)


def _cast_vjp(saved: Saved, gradient: Any) -> tuple[Any]:
    return (saved.backward(gradient),)


cast = Op("cast", _cast, _cast_vjp)
