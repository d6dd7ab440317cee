"""The reverse walk under every operation: order, sums, what is kept, and what is refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from intnet.autograd import Later, Op, Saved, Tensor, backward, leaf
from intnet.errors import FormatError, ShapeError
from intnet.exact.expressions import add as join
from intnet.exact.quantize import quantize
from intnet.numbers.formats import Direct
from intnet.numbers.qtensor import QTensor
from intnet.ops import OPS, batch_norm, conv2d, flatten, global_avg_pool, linear, max_pool2d, relu
from tests.support.opcheck import floating, integer, run, values


def plus(a: Any, b: Any) -> Any:
    return a + b


def scale(saved: Saved, x: int, *, by: int) -> int:
    saved.by = by
    return by * x


def scale_vjp(saved: Saved, e: int) -> tuple[int]:
    return (saved.by * e,)


SCALE = Op("scale", scale, scale_vjp)
PRODUCT = Op("product", lambda saved, a, b: (setattr(saved, "ab", (a, b)), a * b)[1],
             lambda saved, e: (e * saved.ab[1], e * saved.ab[0]))  # fmt: skip
SUM = Op("sum", lambda saved, a, b: a + b, lambda saved, e: (e, e))
COUNT = Op("count", lambda saved, x: int(x > 0), None)


def test_an_operation_without_gradient_is_named() -> None:
    x = leaf(3)
    with pytest.raises(NotImplementedError, match="operation 'count' has no gradient"):
        backward(SCALE(COUNT(x), by=2), 1, plus)


def test_a_graph_used_twice_is_refused() -> None:
    x, w = leaf(integer(1, (2, 3))), leaf(integer(2, (4, 3)))
    y, e = linear(x, w), integer(3, (2, 4))
    backward(y, e, join)
    with pytest.raises(ValueError, match=r"the graph was used up already \(at 'linear'\)"):
        backward(y, e, join)
    shared, e = relu(x), integer(3, (2, 3))
    backward(flatten(shared), e, join)
    with pytest.raises(ValueError, match=r"used up already \(at 'relu'\)"):
        backward(flatten(shared), e, join)


@pytest.mark.parametrize("given", [integer, floating])
@pytest.mark.parametrize("shape", [(3, 2, 2, 4), (1, 2, 2, 4), (2, 1, 1, 4), (2, 3, 3, 4), (2, 2, 2, 5)])
def test_a_gradient_of_another_shape_is_refused(given: Any, shape: tuple[int, ...]) -> None:
    """Kernels read as far as the output says."""
    x, w = leaf(given(1, (2, 4, 4, 3))), leaf(given(2, (4, 3, 3, 3)))
    y = conv2d(x, w, where="conv1")
    told = rf"conv1: conv2d: a gradient of shape \({', '.join(map(str, shape))}\) came back"
    with pytest.raises(ShapeError, match=told + r" to a value of shape \(2, 2, 2, 4\)"):
        backward(y, given(3, shape), join)


@pytest.mark.parametrize("late", [False, True])
def test_an_own_operation_that_gives_a_gradient_of_another_shape_is_named(late: bool) -> None:
    def cut(saved: Saved, e: Any) -> tuple[Any]:
        return (Later(lambda: e[:1]) if late else e[:1],)

    same = Op("same", lambda saved, x: x, cut)
    x, w = leaf(integer(1, (4, 3))), leaf(integer(2, (2, 3)))
    for within, name in ((linear(x, w), "linear"), (relu(x), "relu"), (same(x), "same")):
        error = integer(3, within.value.shape)
        with pytest.raises(ShapeError, match=rf"^{name}: a gradient of shape \(1, \d\) came back"):
            backward(same(within), error, join)
    with pytest.raises(ShapeError, match=r"^a leaf: a gradient of shape \(1, 3\) came back to a value of"):
        backward(Op("same", same.forward, lambda saved, e: (e[:1],))(x), integer(3, (4, 3)), join)


def test_a_constant_has_no_gradient() -> None:
    with pytest.raises(ValueError, match="depends on no parameter"):
        backward(SCALE(Tensor(3), by=2), 1, plus)
    y = PRODUCT(leaf(3), Tensor(5))
    assert list(backward(y, 1, plus).values()) == [5]


def test_values_that_are_read_often_are_walked_once() -> None:
    """2^40 paths: every node is visited once, after all its readers."""
    x = leaf(1)
    y = x
    for _ in range(40):
        y = SUM(y, y)
    assert backward(y, 1, plus)[x.node] == 2**40


def test_leaves_of_one_parameter_add_up() -> None:
    a, b = leaf(integer(1, (2, 3)), of="p"), leaf(integer(2, (2, 3)), of="p")
    one = QTensor(np.ones((2, 3), np.int8), 0)
    gradients = backward(OPS["add"](OPS["add"](a, b), a), one, join)
    assert list(gradients) == ["p"] and values(gradients["p"]) == [3] * 6


def test_sums_are_joined_from_the_newest_reader_to_the_oldest() -> None:
    x, order = leaf(1), []

    def note(a: Any, b: Any) -> Any:
        order.append((a, b))
        return a + b

    readers = [SCALE(x, by=by) for by in (1, 10, 100)]
    total = Op("all", lambda saved, *v: sum(v), lambda saved, e: (e, e, e))(*readers)
    assert backward(total, 1, note)[x.node] == 111
    assert order == [(100, 10), (110, 1)]


def late(told: list[str]) -> Op:
    """A product whose first gradient is on its way; the second one's, which is there, is told of."""

    def vjp(saved: Saved, e: int) -> tuple[Any, int]:
        a, b = saved.ab
        told.append(f"walked {b}")
        return Later(lambda: (told.append(f"came {a}"), e * b)[1]), e * a

    return Op("late", PRODUCT.forward, vjp)


def test_a_gradient_on_its_way_is_waited_for_at_the_end() -> None:
    """After another operation of one operand too: that waits with it."""
    told: list[str] = []
    product, x, v, w = late(told), leaf(2), leaf(3), leaf(5)
    y = product(SCALE(w, by=10), product(v, x))  # 50 * (3 * 2)
    found = backward(y, 7, plus)
    assert [found[leaf.node] for leaf in (x, v, w)] == [7 * 50 * 3, 7 * 50 * 2, 7 * 6 * 10]
    assert told == ["walked 6", "walked 2", "came 50", "came 3"]


def test_a_gradient_on_its_way_is_waited_for_where_it_is_added_or_used() -> None:
    told: list[str] = []
    product, w = late(told), leaf(5)
    y = SUM(product(w, 4), product(w, 6))
    assert backward(y, 7, plus) == {w.node: 7 * (4 + 6)}
    assert told == ["walked 6", "walked 4", "came 5", "came 5"]
    a, b, told[:] = leaf(2), leaf(3), []
    found = backward(product(PRODUCT(a, b), SCALE(leaf(4), by=1)), 7, plus)
    assert (found[a.node], found[b.node]) == (7 * 4 * 3, 7 * 4 * 2)


def test_a_deep_graph_needs_no_recursion() -> None:
    x = leaf(1)
    y = x
    for _ in range(5000):
        y = SCALE(y, by=1)
    assert backward(y, 7, plus)[x.node] == 7


def test_what_was_not_saved_is_named() -> None:
    forgetful = Op("forgetful", lambda saved, x: x, lambda saved, e: (saved.mask * e,))
    with pytest.raises(AttributeError, match="the forward pass saved no 'mask'; it has"):
        backward(forgetful(leaf(1)), 1, plus)


def test_a_wrong_gradient_count_is_caught() -> None:
    twice = Op("twice", lambda saved, x: x, lambda saved, e: (e, e))
    with pytest.raises(TypeError, match="the vjp of 'twice' gave 2 gradients: a tuple of 1 is wanted"):
        backward(twice(leaf(1)), 1, plus)


def test_tensors_tell_where_they_are_from() -> None:
    assert repr(leaf(1)) == "Tensor(1, from leaf)"
    assert repr(Tensor(1)) == "Tensor(1, from constant)"
    assert repr(SCALE(leaf(1), by=2)) == "Tensor(2, from scale)"


def test_every_operation_is_listed_under_its_name() -> None:
    assert {name: op.name for name, op in OPS.items()} == {name: name for name in OPS}


# -- a float error that meets an integer forward pass ---------------------------------------------


@pytest.mark.slow
def test_a_float_error_reaches_a_max_pool_through_a_global_mean() -> None:
    """Separate windows: the exact quotient goes to each winner."""
    x, e = integer(1, (2, 4, 4, 3)), floating(2, (2, 3), -9)
    source = leaf(x)
    y = global_avg_pool(max_pool2d(source, kernel=(2, 2), stride=(2, 2)))
    got = values(backward(y, e, join)[source.node])
    ones = QTensor(np.ones((2, 2, 2, 3), np.int8), 0)
    _, (winners,) = run(max_pool2d, x, error=ones, kernel=(2, 2), stride=(2, 2))
    errors = [v / 4 for v in values(np.broadcast_to(e[:, None, None, :], (2, 4, 4, 3)).copy())]
    assert got == [v * w for v, w in zip(errors, values(winners), strict=True)]


def store(path: str, value: Any) -> QTensor:
    return quantize(value, Direct(16))


def test_a_float_error_at_an_integer_batch_norm_is_refused() -> None:
    x, g = integer(1, (4, 3)), integer(2, (3,))
    with pytest.raises(FormatError, match=r"batch_norm: a float error .* quantize it first"):
        run(batch_norm, x, g, g, error=floating(3, (4, 3)), act=store, err=store)
