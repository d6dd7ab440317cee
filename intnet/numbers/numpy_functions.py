"""NumPy's functions of QTensors: the exact answer, or an error that says what to use; never float64 unasked.

Exact are those that move elements (np.transpose), that pick one (np.max), that compare (np.array_equal), and
sums of products (np.dot, np.einsum, np.sum): in int64, at the sum of the operands' exponents, refused where a
sum could leave 62 bits. Their time is NumPy's for integers; `ops.linear` and `ops.conv2d` are quick.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from intnet.errors import ContainerError, NumberError, ShapeError
from intnet.numbers.qtensor import INT64_BOUND, QTensor, container, max_abs

_SIZES = (np.shape, np.ndim, np.size)
_MOVES = (
    np.reshape, np.ravel, np.transpose, np.swapaxes, np.moveaxis, np.squeeze, np.expand_dims, np.flip,
    np.roll, np.max, np.min, np.amax, np.amin,
)  # fmt: skip
_ALL, _FIRST, _TWO, _BEHIND = slice(None), slice(1), slice(2), slice(1, None)
_SUMS = {  # and which arguments are the operands
    np.sum: _FIRST, np.trace: _FIRST, np.tensordot: _TWO, np.einsum: _BEHIND,
    np.dot: _ALL, np.vdot: _ALL, np.inner: _ALL, np.outer: _ALL,
}  # fmt: skip
_LATER = {
    "out",
    "dtype",
    "where",
    "initial",
    "casting",
}  # keywords that would have it stored, or begun, elsewhere
_QUOTIENT = (
    "np.sum(q) is exact, and quantize(Exact([(total, 1)], total.exponent, den=count), format) rounds it once"
)
_GENERAL = (
    "np.asarray(q) is exact and float64, to go on with where its rounding is meant; q.fractions() is exact "
    "in Python; q.codes are the integers"
)


def answer(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What `function(*args, **kwargs)` is, exactly. NumberError where it has no exact form here."""
    name = f"np.{function.__name__}"
    if function is np.array_equal and not kwargs:
        return _array_equal(*args)
    if function in _SIZES:
        return function(*(_codes(arg) for arg in args), **kwargs)
    if not (function in _MOVES or function in _SUMS) or _LATER & kwargs.keys():
        instead = _QUOTIENT if function is np.mean else _GENERAL
        raise NumberError(f"{name} of a QTensor{_with(kwargs)} is not exact: {instead}")
    operands = args[_SUMS.get(function, _FIRST)]
    if not operands or not all(isinstance(q, QTensor) and isinstance(q.exponent, int) for q in operands):
        raise NumberError(
            f"{name}: every operand is a QTensor with one exponent, by position; QTensor.from_float(x, e) "
            "makes one of an array exactly, quantize(x, format) by rounding"
        )
    return _moved(function, args, kwargs) if function in _MOVES else _summed(function, operands, args, kwargs)


def of_words(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Of small floats and of blocks: their sizes; NumberError for what would compute in float64 unasked."""
    if function in _SIZES:
        return function(*(np.broadcast_to(np.int8(0), arg.shape) for arg in args[:1]), *args[1:], **kwargs)
    raise NumberError(
        f"np.{function.__name__} of small floats would round as float64 does: np.asarray(q) is exact and "
        "float64, to go on with where that is meant; matmul(a, b, accumulator) adds products as you say"
    )


def _codes(arg: Any) -> Any:
    return arg.codes if isinstance(arg, QTensor) else arg


def _with(kwargs: Mapping[str, Any]) -> str:
    later = sorted(_LATER & kwargs.keys())
    return f" with {', '.join(later)}" if later else ""


def _array_equal(a: Any, b: Any) -> bool:
    a, b = (a, b) if isinstance(a, QTensor) else (b, a)
    return bool(np.shape(a) == np.shape(b) and np.all(a == b))


def _moved(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> QTensor:
    """Elements of the first operand, elsewhere."""
    first = args[0]
    codes = np.asarray(function(first.codes, *args[1:], **kwargs))
    return QTensor(codes, first.exponent, first.format, first.bound)


def _summed(
    function: Callable[..., Any], operands: Sequence[QTensor], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> QTensor:
    """Sums of products of operands' elements: one function of every operand's codes, linear in each."""

    def of(convert: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        parts = [convert(arg.codes) if isinstance(arg, QTensor) else arg for arg in args]
        try:
            return np.asarray(function(*parts, **kwargs))
        except (ValueError, TypeError) as error:
            raise ShapeError(f"np.{function.__name__}: {error}") from None

    # what the magnitudes come to bounds every partial sum; float64 has it to far better than a factor of two
    greatest = of(lambda codes: np.abs(codes.astype(np.float64))).max(initial=0.0)
    if greatest >= INT64_BOUND:
        raise ContainerError(
            f"np.{function.__name__}: sums up to {greatest:.3g} are beyond int64; q.fractions() has no bound"
        )
    codes = of(lambda codes: codes.astype(np.int64))
    if codes.dtype != np.int64:
        raise NumberError(f"np.{function.__name__}: {_GENERAL}")  # another type or a place was asked for
    return QTensor(codes.astype(container(max_abs(codes))), sum(int(q.exponent) for q in operands))
