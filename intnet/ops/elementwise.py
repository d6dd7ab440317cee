"""add (a join of branches), relu, dropout, flatten.

add      y = a + b, integers exactly, exponents aligned       da = db = dy
relu     y = max(x, 0)                                         dx = dy where x > 0, else 0
dropout  y = x * mask / keep, mask from random words           dx = dy * mask / keep
flatten  (N, ...) -> (N, rest) in C order

Defined by `spec/values.py: joined`, `spec/elementwise.py: relu_at`, `spec/elementwise.py: relu_grad_at`,
`spec/elementwise.py: dropout_at`, `spec/elementwise.py: dropout32_at`,
`spec/values.py: reshaped`.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from intnet.autograd import Keep, Op, Saved, as_it_is, loaded
from intnet.errors import FormatError, ShapeError
from intnet.exact import expressions
from intnet.exact.blocks.signs import Signs
from intnet.exact.expressions import Exact, exact
from intnet.exact.sources import FloatExact
from intnet.machine.buffers import empty
from intnet.machine.jit import pjit, prange
from intnet.numbers import shares
from intnet.numbers.qtensor import QTensor
from intnet.ops.kernels import float32_rows


def codes_of(value: Any) -> Any:
    """An exact expression without a denominator as a QTensor; a QTensor or array as it is."""
    if isinstance(value, QTensor | np.ndarray):
        return value
    if not isinstance(value, Exact):
        raise FormatError(f"a {type(value).__name__} has no exact codes; quantize it first")
    return value.to_qtensor()


def moved(value: Any, move: Callable[[np.ndarray], np.ndarray]) -> Any:
    """`value` with its elements dropped or rearranged by `move`; a quotient keeps its denominator."""
    if isinstance(value, np.ndarray):
        return move(value)
    if isinstance(value, FloatExact):
        return FloatExact(move(value.values), value.den)
    if isinstance(value, Exact) and np.any(np.asarray(value.den) != 1):
        return value.moved(move)
    q = codes_of(value)
    return QTensor(move(q.codes), q.exponent, q.format, q.bound)


def join(a: Any, b: Any) -> Any:
    """a + b: of integers the exact expression, of float32 arrays one addition an element.

    Defined by `spec/values.py: joined`.
    """
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return float32_rows.add(a, b)
    total = expressions.add(a, b)
    if not (shares.watched() and isinstance(total, Exact)):
        return total
    # a report's bound of a join is that of one process: of the branches' greatest, on whatever rank each is
    terms = zip(shares.alike(*(term for term, _ in total.terms)), (c for _, c in total.terms), strict=True)
    return Exact([*terms], total.exponent, total.offset, total.den, total.relu, total.shifts, total.tops)


def _add(saved: Saved, a: Any, b: Any) -> Any:
    if a.shape != b.shape:
        raise ShapeError(f"add: branches of shapes {a.shape} and {b.shape} do not join")
    return join(a, b)


def _add_vjp(saved: Saved, e: Any) -> tuple[Any, Any]:
    return e, e


@pjit
def _keep(team: int, codes: np.ndarray, mask: np.ndarray, out: np.ndarray) -> None:
    zero = codes.dtype.type(0)
    for i in prange(team, codes.size):
        code = codes[i]  # read whatever the mask says: else it is a branch, which AVX2 takes a code at a time
        out[i] = code if mask[i] else zero


@pjit
def _keep_floats(team: int, x: np.ndarray, mask: np.ndarray, out: np.ndarray) -> None:
    for i in prange(team, x.size):
        out[i] = x[i] * np.float32(mask[i])


def _masked(e: Any, mask: np.ndarray) -> Any:
    """e where mask, else 0 (a float times 0, which keeps its sign).

    Defined by `spec/elementwise.py: relu_grad_at`.
    """

    def masked(x: np.ndarray) -> np.ndarray:
        flat = np.ascontiguousarray(x).reshape(-1)
        out = empty(flat.shape, flat.dtype)
        keep = _keep_floats if x.dtype == np.float32 else _keep
        keep(flat, mask.reshape(-1), out)
        return out.reshape(x.shape)

    return moved(e, masked)


def _relu(saved: Saved, x: Any, *, keep: Keep = as_it_is) -> Any:
    saved.floating = isinstance(x, np.ndarray)
    if saved.floating:
        y = float32_rows.rectify(x)
        if saved.needs[0]:
            saved.y = keep(y)
        return y
    value = exact(x)
    if not isinstance(value, Exact):
        raise FormatError("relu takes an integer value or a float32 array")
    saved.value = value.rectified()  # knows its mask once it is rounded
    return saved.value


def _relu_vjp(saved: Saved, e: Any) -> tuple[Any]:
    if not saved.floating:
        return (_masked(e, saved.value.positive()),)
    if isinstance(e, np.ndarray) and isinstance(saved.y, Signs):
        return (saved.y.times(e),)
    y = loaded(saved.y)
    if isinstance(e, np.ndarray):
        return (float32_rows.rectify_error(e, y),)
    return (_masked(e, y > 0),)  # codes: a layer that is float32 may store its error in integers


def _dropout(saved: Saved, x: Any, *, words: np.ndarray, keep: Fraction) -> Any:
    """An element stays where word * q < p * 2^32, keep = p/q: decided without rounding keep.

    Defined by `spec/elementwise.py: stays`, `spec/elementwise.py: dropout_at`,
    `spec/elementwise.py: dropout32_at`.
    """
    p, q = keep.numerator, keep.denominator
    if not 0 < keep <= 1 or q >= 1 << 31:
        raise FormatError(f"dropout keeps a share in (0, 1] with a denominator below 2^31, not {keep}")
    if words.size != int(np.prod(x.shape)):
        raise ShapeError(f"dropout: {words.size} random words for an input of shape {x.shape}")
    saved.mask = words.astype(np.uint64) * np.uint64(q) < np.uint64(p << 32)
    saved.keep = keep
    return _scaled(_masked(x, saved.mask), keep)


def _scaled(x: Any, keep: Fraction) -> Any:
    if isinstance(x, np.ndarray):
        return x * np.float32(1 / keep)
    value = exact(x)
    if not isinstance(value, Exact):
        raise FormatError("dropout takes an integer value or a float32 array")
    terms = [(term, coef * keep.denominator) for term, coef in value.terms]
    offset, den = value.offset * keep.denominator, value.den * keep.numerator
    return Exact(terms, value.exponent, offset, den, value.relu, value.shifts)


def _dropout_vjp(saved: Saved, e: Any) -> tuple[Any]:
    return (_scaled(_masked(e, saved.mask), saved.keep),)


def _flatten(saved: Saved, x: Any) -> Any:
    saved.shape = x.shape
    shape = (x.shape[0], int(np.prod(x.shape[1:])))
    return moved(x, lambda codes: codes.reshape(shape))


def _flatten_vjp(saved: Saved, e: Any) -> tuple[Any]:
    return (moved(e, lambda codes: codes.reshape(saved.shape)),)


add = Op("add", _add, _add_vjp)
relu = Op("relu", _relu, _relu_vjp)
dropout = Op("dropout", _dropout, _dropout_vjp)
flatten = Op("flatten", _flatten, _flatten_vjp)
