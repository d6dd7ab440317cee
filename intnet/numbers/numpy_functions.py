"""NumPy's functions of tensors: the exact answer, or an error that says what to use; never float64 unasked.

Of QTensors exact are ufuncs that are operators (np.add), functions that move elements (np.transpose,
np.concatenate), that pick one (np.max), that say where they are (np.argmax), that compare (np.array_equal),
and sums of products (np.dot, np.einsum, np.sum): in int64, at the sum of the operands' exponents, refused
where a sum could leave 62 bits. Their time is NumPy's for integers; `ops.linear` and `ops.conv2d` are quick.
Words of small floats are moved and compared. Blocks with scales are compared: what moves leaves its block.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from intnet.errors import ContainerError, NumberError, ShapeError
from intnet.numbers import arithmetic
from intnet.numbers.qtensor import INT64_BOUND, QTensor, container, max_abs
from intnet.numbers.small_floats import FloatTensor

_SIZES = (np.shape, np.ndim, np.size)
_MOVES = (
    np.reshape, np.ravel, np.transpose, np.permute_dims, np.matrix_transpose, np.swapaxes, np.moveaxis,
    np.rollaxis, np.squeeze, np.expand_dims, np.atleast_1d, np.atleast_2d, np.atleast_3d, np.flip, np.flipud,
    np.fliplr, np.rot90, np.roll, np.diagonal, np.diag, np.diagflat, np.tril, np.triu, np.take, np.repeat,
    np.tile, np.broadcast_to, np.resize, np.delete, np.copy, np.linalg.diagonal, np.linalg.matrix_transpose,
    np.fft.fftshift, np.fft.ifftshift,
)  # fmt: skip
_PICKS = (np.max, np.min, np.amax, np.amin, np.sort, np.partition)  # by the order of values, which codes have
_PLACES = (
    np.argmax, np.argmin, np.argsort, np.argpartition, np.nonzero, np.flatnonzero, np.argwhere,
    np.count_nonzero, np.any, np.all,
)  # fmt: skip
_JOINS = (np.concatenate, np.concat, np.stack, np.vstack, np.hstack, np.dstack, np.column_stack)
_SPLITS = (np.split, np.array_split, np.hsplit, np.vsplit, np.dsplit)
_ALL, _FIRST, _TWO, _BEHIND = slice(None), slice(1), slice(2), slice(1, None)
_SUMS = {  # and which arguments are the operands
    np.sum: _FIRST, np.cumsum: _FIRST, np.trace: _FIRST, np.tensordot: _TWO, np.einsum: _BEHIND,
    np.dot: _ALL, np.vdot: _ALL, np.inner: _ALL, np.outer: _ALL, np.kron: _ALL,
    np.convolve: _TWO, np.correlate: _TWO,
}  # fmt: skip
_LATER = {  # keywords that would have it stored, or begun, elsewhere
    "out",
    "dtype",
    "where",
    "initial",
    "casting",
}
_OPERATORS: dict[Callable[..., Any], Callable[..., Any]] = {
    np.add: arithmetic.plus,
    np.subtract: arithmetic.minus,
    np.multiply: arithmetic.times,
    np.matmul: arithmetic.matmul,
    np.divide: arithmetic.over,
    np.negative: lambda q: -q,
    np.positive: lambda q: q,
}
_KINDS = (np.isfinite, np.isnan, np.isinf)
_COMPARED: dict[Callable[..., Any], tuple[str, str]] = {  # and with the operands in the other order
    np.equal: ("__eq__", "__eq__"),
    np.not_equal: ("__ne__", "__ne__"),
    np.less: ("__lt__", "__gt__"),
    np.less_equal: ("__le__", "__ge__"),
    np.greater: ("__gt__", "__lt__"),
    np.greater_equal: ("__ge__", "__le__"),
}
_QUOTIENT = (
    "np.sum(q) is exact, and quantize(Exact([(total, 1)], total.exponent, den=count), format) rounds it once"
)
_GENERAL = (
    "np.asarray(q) is exact and float64, to go on with where its rounding is meant; q.fractions() is exact "
    "in Python; q.codes are the integers"
)
_WORDS = (
    "np.asarray(q) is exact and float64, to go on with where that is meant; matmul(a, b, accumulator) adds "
    "products as you say"
)


def answer(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What `function(*args, **kwargs)` is, exactly. NumberError where it has no exact form here."""
    if function is np.array_equal and not kwargs:
        return _array_equal(*args)
    if function in _SIZES:
        return function(*map(_codes, args), **kwargs)
    later = _later(function, args, kwargs)
    if not _known(function) or later:
        instead = _QUOTIENT if function is np.mean else _GENERAL
        raise NumberError(f"{_name(function)} of a QTensor{_with(later)} has no exact answer here: {instead}")
    if function in _JOINS:
        return _joined(function, args, kwargs)
    operands = args[_SUMS.get(function, _FIRST)]
    if not operands or not all(isinstance(q, QTensor) and isinstance(q.exponent, int) for q in operands):
        raise NumberError(
            f"{_name(function)}: every operand is a QTensor with one exponent, by position; "
            "QTensor.from_float(x, e) makes one of an array exactly, quantize(x, format) by rounding"
        )
    if function in _PLACES:
        return _called(function, [operands[0].codes, *args[1:]], kwargs)
    return (
        _moved(function, args, kwargs) if function not in _SUMS else _summed(function, operands, args, kwargs)
    )


def _known(function: Callable[..., Any]) -> bool:
    """Whether it has an exact answer of QTensors of one exponent."""
    return any(function in kind for kind in (_MOVES, _PICKS, _PLACES, _JOINS, _SPLITS, _SUMS))


def of_words(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Of small floats and of blocks; NumberError for what would compute in float64 unasked."""
    if function is np.array_equal and not kwargs:
        return _array_equal(*args)
    if function in _SIZES:
        return function(*(np.broadcast_to(np.int8(0), arg.shape) for arg in args[:1]), *args[1:], **kwargs)
    later = _later(function, args, kwargs)
    if function in _JOINS and not later:
        return _joined(function, args, kwargs)
    if function in (*_MOVES, *_SPLITS) and not later:
        if args and isinstance(args[0], FloatTensor):
            return _moved(function, args, kwargs)
        raise NumberError(
            f"{_name(function)} would take elements out of their blocks: move x, and quantize it then; or "
            "q.elements, and q.scales as they then stand"
        )
    raise NumberError(f"{_name(function)} of small floats{_with(later)} has no exact answer here: {_WORDS}")


def computed(ufunc: np.ufunc, method: str, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What `ufunc(*inputs)` is, exactly: what the operator of that name says. NumberError for any other."""
    name = _name(ufunc)
    if method != "__call__" or kwargs:
        what = f"{name}.{method}" if method != "__call__" else f"{name} with {', '.join(sorted(kwargs))}"
        raise NumberError(f"{what} has no exact answer here: operators, without out=, and np.sum(q) have")
    first, floats = inputs[0], not any(isinstance(x, QTensor) for x in inputs)
    if ufunc in _COMPARED:
        mine = hasattr(first, "to_float64")
        tensor, other = inputs if mine else inputs[::-1]
        operator = _COMPARED[ufunc][0 if mine else 1]
        if operator in vars(type(tensor)):
            return getattr(tensor, operator)(other)
    if ufunc in _KINDS:
        return ufunc(first.to_float64()) if floats else np.full(first.shape, ufunc is np.isfinite)
    if floats:
        raise NumberError(f"{name} of small floats has no exact answer here: {_WORDS}")
    if ufunc not in _OPERATORS:
        raise NumberError(f"{name} of a QTensor has no exact answer here: {_GENERAL}")
    return _OPERATORS[ufunc](*inputs)


def _name(function: Any) -> str:
    """As users write it: np.sum, np.linalg.norm."""
    inside = getattr(function, "__module__", None) or ""
    part = next((f"{part}." for part in ("linalg", "fft") if inside == f"numpy.{part}"), "")
    return f"np.{part}{function.__name__}"


def _codes(arg: Any) -> Any:
    return arg.codes if isinstance(arg, QTensor) else arg


def _later(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str]:
    """Which of `_LATER` are given, by name or by position."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):  # no signature, as np.concatenate, or arguments that NumPy will refuse
        bound = {}
    told = {key for key in _LATER & bound.keys() if bound[key] is not None and bound[key] is not np._NoValue}
    return sorted(told | (_LATER & kwargs.keys()))


def _with(later: Sequence[str]) -> str:
    return f" with {', '.join(later)}" if later else ""


def _array_equal(a: Any, b: Any) -> bool:
    a, b = (a, b) if hasattr(a, "to_float64") else (b, a)
    return bool(np.shape(a) == np.shape(b) and np.all(a == b))


def _held(q: QTensor | FloatTensor) -> np.ndarray:
    return q.words if isinstance(q, FloatTensor) else q.codes


def _like(q: Any, elements: Any) -> Any:
    """A tensor of these codes, or words, in the format of q."""
    array = np.asarray(elements)
    if isinstance(q, FloatTensor):
        return FloatTensor(array, q.format)
    return QTensor(array, q.exponent, q.format, q.bound)


def _moved(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Elements of the first operand, elsewhere; of a split a list."""
    first = args[0]
    made = _called(function, [_held(first), *args[1:]], kwargs)
    if any(made is arg for arg in args[1:]):
        raise NumberError(f"{_name(function)} with out has no exact answer here: it keeps no exponent")
    if isinstance(made, list | tuple):
        return [_like(first, part) for part in made]
    return _like(first, made)


def _joined(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Several tensors one behind the other: of one format, and of QTensors one exponent."""
    operands = list(args[0]) if args and isinstance(args[0], list | tuple) else []
    first = operands[0] if operands else None
    alike = isinstance(first, QTensor | FloatTensor) and all(
        type(q) is type(first) and q.format == first.format for q in operands
    )
    if alike and isinstance(first, QTensor):
        alike = all(isinstance(q.exponent, int) and q.exponent == first.exponent for q in operands)
    if first is None or not alike:
        raise NumberError(
            f"{_name(function)}: a list of QTensors of one exponent and one format, or of FloatTensors of "
            "one format; quantize(q, format) makes them so"
        )
    made = _called(function, [list(map(_held, operands)), *args[1:]], kwargs)
    if isinstance(first, FloatTensor):
        return _like(first, made)
    return QTensor(made, first.exponent, first.format, max(q.bound for q in operands))


def _called(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """ShapeError where NumPy finds that arguments do not belong together."""
    try:
        return function(*args, **kwargs)
    except (ValueError, TypeError) as error:
        raise ShapeError(f"{_name(function)}: {error}") from None


def _summed(
    function: Callable[..., Any], operands: Sequence[QTensor], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> QTensor:
    """Sums of products of operands' elements: one function of every operand's codes, linear in each."""

    def of(convert: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        parts = [convert(arg.codes) if isinstance(arg, QTensor) else arg for arg in args]
        return np.asarray(_called(function, parts, kwargs))

    # what the magnitudes come to bounds every partial sum; float64 has it to far better than a factor of two
    greatest = of(lambda codes: np.abs(codes.astype(np.float64))).max(initial=0.0)
    if greatest >= INT64_BOUND:
        raise ContainerError(
            f"{_name(function)}: sums up to {greatest:.3g} are beyond int64; q.fractions() has no bound"
        )
    codes = of(lambda codes: codes.astype(np.int64))
    if codes.dtype != np.int64:
        raise NumberError(f"{_name(function)}: {_GENERAL}")  # another type or a place was asked for
    return QTensor(codes.astype(container(max_abs(codes))), sum(int(q.exponent) for q in operands))
