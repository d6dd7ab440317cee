"""Every public function of NumPy, of QTensors, small floats and blocks: exact as of Fractions, or refused."""

import re
from collections.abc import Callable
from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest

from intnet import E2M1, E4M3, MXFP4, BlockScaled, FloatTensor, QTensor, quantize
from intnet.errors import IntnetError, NumberError
from intnet.numbers import numpy_functions

MODULES = (np, np.linalg, np.fft)
DISPATCHER = type(np.sum)
A = QTensor(np.array([[3, -5, 7, 0], [0, 1, -8, 127], [2, -1, 4, -128]], np.int8), -3)
B = QTensor(np.array([[1, 0, -2], [5, -7, 9], [3, 3, -3], [1, 2, 4]], np.int16), 2)
V = QTensor(np.array([4, -2, 0, 4, -9, 1]), -1)
E = quantize([[0.3, -1.5, 448.0, -0.0], [1.0, 2.0, -9.0, 2**-9]], E4M3)
M = quantize(np.linspace(-2, 5, 64).reshape(2, 32), MXFP4)


def public(kind: Any) -> dict[str, Any]:
    """'linalg.norm' -> function, of every public name."""
    found = {}
    for module in MODULES:
        head = "" if module is np else f"{module.__name__.split('.')[-1]}."
        names = getattr(module, "__all__", dir(module))
        found |= {head + n: f for n in names if isinstance(f := getattr(module, n, None), kind)}
    return found


FUNCTIONS, UFUNCS = public(DISPATCHER), public(np.ufunc)

# function of tensors -> the same of arrays of Fractions, by NumPy on objects
MOVES: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda q: np.reshape(q, (4, -1)), "ravel": lambda q: np.ravel(q, "F"),
    "transpose": lambda q: np.transpose(q, (1, 0)), "permute_dims": lambda q: np.permute_dims(q, (1, 0)),
    "matrix_transpose": np.matrix_transpose, "swapaxes": lambda q: np.swapaxes(q, 0, 1),
    "moveaxis": lambda q: np.moveaxis(q, 0, 1), "rollaxis": lambda q: np.rollaxis(q, 1),
    "squeeze": np.squeeze, "expand_dims": lambda q: np.expand_dims(q, 1),
    "atleast_1d": np.atleast_1d, "atleast_2d": np.atleast_2d,
    "atleast_3d": np.atleast_3d, "flip": lambda q: np.flip(q, 1),
    "flipud": np.flipud, "fliplr": np.fliplr, "rot90": lambda q: np.rot90(q, 3),
    "roll": lambda q: np.roll(q, 2, axis=1), "diagonal": lambda q: np.diagonal(q, 1),
    "diag": np.diag, "diagflat": np.diagflat, "tril": np.tril,
    "triu": lambda q: np.triu(q, 1), "take": lambda q: np.take(q, [1, 0, 1], 1),
    "repeat": lambda q: np.repeat(q, 2, 0), "tile": lambda q: np.tile(q, (2, 2)),
    "broadcast_to": lambda q: np.broadcast_to(q, (3, *np.shape(q))), "resize": lambda q: np.resize(q, (2, 7)),
    "delete": lambda q: np.delete(q, 1, 1), "copy": np.copy,
    "linalg.diagonal": np.linalg.diagonal,
    "linalg.matrix_transpose": np.linalg.matrix_transpose,
    "fft.fftshift": np.fft.fftshift, "fft.ifftshift": np.fft.ifftshift,
    "concatenate": lambda q: np.concatenate([q, q], 1), "concat": lambda q: np.concat((q, q)),
    "stack": lambda q: np.stack([q, q], 2), "vstack": lambda q: np.vstack([q, q]),
    "hstack": lambda q: np.hstack([q, q]), "dstack": lambda q: np.dstack([q, q]),
    "column_stack": lambda q: np.column_stack([q, q]),
    "split": lambda q: np.split(q, 2, 1), "array_split": lambda q: np.array_split(q, 3, 1),
    "hsplit": lambda q: np.hsplit(q, 2), "vsplit": lambda q: np.vsplit(q, [1]),
    "dsplit": lambda q: np.dsplit(np.expand_dims(q, 0), 2),
}  # fmt: skip
OF_CODES: dict[str, Callable[[Any], Any]] = {
    "max": lambda q: np.max(q, 0), "min": np.min, "amax": lambda q: np.amax(q, axis=1),
    "amin": lambda q: np.amin(q, 0, keepdims=True), "sort": lambda q: np.sort(q, 0),
    "partition": lambda q: np.sort(np.partition(q, 2, 1)[:, :2], 1),
    "sum": lambda q: np.sum(q, 0), "cumsum": lambda q: np.cumsum(q, 1), "trace": np.trace,
}  # fmt: skip
OF_TWO: dict[str, Callable[[Any, Any, Any], Any]] = {
    "tensordot": lambda a, b, v: np.tensordot(a, b, ([1], [0])),
    "einsum": lambda a, b, v: np.einsum("ij,ji->i", a, b),
    "dot": lambda a, b, v: np.dot(a, b), "vdot": lambda a, b, v: np.vdot(v, v),
    "inner": lambda a, b, v: np.inner(v, v), "outer": lambda a, b, v: np.outer(v, a),
    "kron": lambda a, b, v: np.kron(a, b), "convolve": lambda a, b, v: np.convolve(v, a[0], "same"),
    "correlate": lambda a, b, v: np.correlate(v, a[1], "valid"),
}  # fmt: skip
PLACES = ("argmax", "argmin", "argsort", "nonzero", "flatnonzero", "argwhere", "count_nonzero", "any", "all")
OTHERS = ("shape", "ndim", "size", "array_equal", "argpartition")


def fractions(made: Any) -> Any:
    """As lists, of whatever a function gave."""
    if isinstance(made, list | tuple):
        return [fractions(part) for part in made]
    made = made.fractions() if isinstance(made, QTensor | FloatTensor) else made
    return np.asarray(made, object).tolist()


@pytest.mark.parametrize("name", [*MOVES, *OF_CODES])
def test_of_one_tensor_as_of_its_fractions(name: str) -> None:
    call = {**MOVES, **OF_CODES}[name]
    assert fractions(call(A)) == fractions(call(A.fractions()))
    if name in MOVES:
        made = call(E)
        assert all(part.format == E4M3 for part in (made if isinstance(made, list) else [made]))
        assert fractions(made) == fractions(call(E.fractions()))


@pytest.mark.parametrize("name", OF_TWO)
def test_of_two_tensors_as_of_their_fractions(name: str) -> None:
    assert fractions(OF_TWO[name](A, B, V)) == fractions(
        OF_TWO[name](A.fractions(), B.fractions(), V.fractions())
    )


@pytest.mark.parametrize("name", PLACES)
def test_places_are_those_of_the_values(name: str) -> None:
    call = FUNCTIONS[name]
    for q in (V, QTensor(np.array([5, 0, -3], np.int8), 7), QTensor(np.zeros(3, np.int8), 1)):
        want, made = call(np.array(q.fractions().tolist(), float)), call(q)
        assert np.array_equal(np.asarray(made), np.asarray(want)) and not isinstance(made, QTensor)
    assert sorted(V.codes[np.argpartition(V, 2)[:2]]) == sorted(V.codes)[:2]


def test_minus_zero_keeps_its_sign_where_it_is_moved() -> None:
    assert np.ravel(E).words.tolist() == E.words.ravel().tolist() and 0x80 in np.flip(E).words
    assert np.tril(E).words[0, 3] == 0


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b,
    "less": lambda a, b: a < b, "less_equal": lambda a, b: a <= b, "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b, "equal": lambda a, b: a == b, "not_equal": lambda a, b: a != b,
}  # fmt: skip
ONE_OPERAND = ("negative", "positive", "isfinite", "isnan", "isinf")


@pytest.mark.parametrize("name", OPERATORS)
def test_ufuncs_that_are_operators(name: str) -> None:
    ufunc, rule = UFUNCS[name], OPERATORS[name]
    c = QTensor(np.array([[1, -5, 2, 0]]), -2)
    x, y = A.fractions(), np.broadcast_to(c.fractions(), A.shape)
    for left, right, of in ((A, c, (x, y)), (c, A, (y, x))):
        assert fractions(ufunc(left, right)) == rule(*of).tolist()
    for number in (0.375, np.float64(0.375), np.int64(3), np.float32(-1.5)):
        exact = F(float(number))
        assert fractions(ufunc(A, number)) == rule(x, exact).tolist()
        assert fractions(ufunc(number, A)) == rule(exact, x).tolist()
        assert fractions(rule(number, A)) == rule(exact, x).tolist()
    if name in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"):
        array = np.array([[0.375, -0.625, 8, 0]])
        assert ufunc(array, A).tolist() == rule(array, np.asarray(A)).tolist()
        assert ufunc(A, array).tolist() == rule(np.asarray(A), array).tolist()


def test_matmul_and_ufuncs_of_one_operand() -> None:
    assert fractions(np.matmul(A, B)) == (A.fractions() @ B.fractions()).tolist()
    assert fractions(np.negative(A)) == (-A.fractions()).tolist() and np.positive(A) is A
    for name in ("isfinite", "isnan", "isinf"):
        floats = quantize([1.0, np.inf, np.nan, 0.0], E4M3.to("nan"))
        for q in (A, E, M, floats):
            assert np.array_equal(UFUNCS[name](q), UFUNCS[name](np.asarray(q)))


def test_small_floats_and_blocks_compare() -> None:
    for q in (E, M):
        values = np.asarray(q)
        for other in (q, values, values[0], 1.0):
            assert np.array_equal(np.equal(q, other), np.equal(values, np.asarray(other)))
            assert np.array_equal(np.not_equal(other, q), np.not_equal(np.asarray(other), values))
        assert np.array_equal(q, q) and np.array_equal(values, q) and not np.array_equal(q, values[0])
        assert (np.shape(q), np.size(q), np.ndim(q)) == (q.shape, q.size, 2)


# -- completeness ----------------------------------------------------------------------------------

SAYS = re.compile(r"np\.asarray\(q\)|np\.sum\(q\)|quantize\(|QTensor\.from_float|q\.elements")


def refused(call: Callable[[], Any], name: str) -> bool:
    """Whether it is refused, by its name and with what to call in its place."""
    try:
        call()
    except NumberError as error:
        assert f"np.{name}" in str(error) or name in ("divide", "true_divide"), (name, error)
        assert SAYS.search(str(error)), (name, error)
        return True
    except (TypeError, IndexError, IntnetError):  # other arguments than it takes, but it would answer
        return False
    return False


def test_every_function_answers_or_says_what_to_call() -> None:
    """Each that dispatches, called with tensors; those that answer are the ones that are tested above."""
    tested = {*MOVES, *OF_CODES, *OF_TWO, *PLACES, *OTHERS}
    assert len(FUNCTIONS) > 200 and tested <= FUNCTIONS.keys()
    of_words, sizes = {FUNCTIONS[name] for name in MOVES}, {FUNCTIONS[name] for name in OTHERS[:4]}
    answers = {FUNCTIONS[name] for name in tested}
    for name, function in FUNCTIONS.items():
        inside = name.partition(".")[0] + "." if function.__module__ != "numpy" else ""
        for q, known in ((A, answers), (E, of_words | sizes), (M, sizes)):
            args = ([q, q],) if function in numpy_functions._JOINS else (q, q)
            call = lambda args=args, q=q, f=function: q.__array_function__(f, (type(q),), args, {})  # noqa: E731
            said = refused(call, inside + function.__name__)
            assert said != (function in known), (name, type(q).__name__)


def test_every_ufunc_answers_or_says_what_to_call() -> None:
    assert len(UFUNCS) > 90
    answers = {UFUNCS[name] for name in (*OPERATORS, *ONE_OPERAND, "matmul")}
    floats = {UFUNCS[name] for name in ("equal", "not_equal", "isfinite", "isnan", "isinf")}
    square = QTensor(A.codes[:, :3], -3)
    for ufunc in UFUNCS.values():
        for q, known in ((square, answers), (E, floats), (M, floats)):
            call = lambda q=q, u=ufunc: u(*[q] * u.nin)  # noqa: E731
            assert refused(call, ufunc.__name__) != (ufunc in known), (ufunc, type(q).__name__)


CONVERT = (
    "array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "asarray_chkfinite", "require",
)  # fmt: skip


def test_what_does_not_dispatch_converts_exactly_or_takes_no_tensor() -> None:
    """So nothing computes in float64 unasked: `__array__` is exact, or refuses."""
    functions = {
        name: f for name, f in vars(np).items()
        if name in np.__all__ and callable(f) and not isinstance(f, type | DISPATCHER | np.ufunc)
    }  # fmt: skip
    wide = QTensor(np.array([[2**53 + 1]]), 0)
    for name in CONVERT:
        for q in (A, E, M):
            assert np.array_equal(np.asarray(functions[name](q)), q.to_float64())
        with pytest.raises(NumberError, match="not every value is exactly a float64"):
            functions[name](wide)
    deprecated = ("asmatrix", "bmat", "row_stack")
    for name in functions.keys() - {*CONVERT, *deprecated, "info", "test", "show_config", "show_runtime"}:
        try:
            made = functions[name](A)
        except Exception:
            continue
        assert not (isinstance(made, np.ndarray) and made.dtype.kind == "f"), name


def test_blocks_are_not_moved() -> None:
    for call in (lambda: np.transpose(M), lambda: np.split(M, 2), lambda: np.ravel(M)):
        with pytest.raises(NumberError, match="would take elements out of their blocks"):
            call()
    with pytest.raises(NumberError, match=r"np\.stack: a list of QTensors"):
        np.stack([M, M])
    with pytest.raises(NumberError, match="of FloatTensors of one format"):
        np.concatenate([E, quantize(np.ones((2, 4)), E2M1)])
    assert isinstance(M, BlockScaled)
