"""linear and conv2d in narrow accumulators, against the definition in its order of terms."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from intnet import Narrow, QTensor, ops, quantize
from intnet.autograd import Saved
from intnet.errors import FormatError
from intnet.numbers.accumulators import ORDERS
from intnet.numbers.microscaling import MXINT8
from intnet.spec import accumulators, convolution
from intnet.spec.tensor import Tensor as Defined

RNG = np.random.default_rng(4)


def codes(*shape: int) -> QTensor:
    return QTensor(RNG.integers(-8, 8, shape).astype(np.int8), -2)


def defined(q: QTensor) -> Defined:
    return Defined(q.shape, q.codes.reshape(-1).tolist())


def dot(accumulator: Narrow) -> Any:
    return partial(
        accumulators.narrow, bits=accumulator.bits, policy=accumulator.overflow, order=accumulator.order
    )


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("overflow", ["wrap", "saturate"])
def test_linear_is_as_defined(overflow: str, order: str) -> None:
    x, w, accumulator = codes(3, 11), codes(4, 11), Narrow(7, overflow, order)
    made = ops.linear(x, w, accumulator=accumulator).value
    told = [
        dot(accumulator)(row, col)
        for row in x.codes.astype(int).tolist()
        for col in w.codes.astype(int).tolist()
    ]
    assert made.codes.reshape(-1).tolist() == told
    assert made.exponent == -4 and made.bound == 64


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("stride", "padding", "groups"), [((1, 1), (0, 0), 1), ((2, 1), (1, 2), 1), ((1, 2), (1, 1), 2)]
)
def test_conv2d_is_as_defined(stride: Any, padding: Any, groups: int, order: str) -> None:
    x, w, accumulator = codes(2, 5, 6, 4), codes(6, 4 // groups, 3, 2), Narrow(8, "saturate", order)
    window = {"stride": stride, "padding": padding, "groups": groups}
    made = ops.conv2d(x, w, accumulator=accumulator, **window).value
    told = convolution.conv2d(defined(x), defined(w), dot=dot(accumulator), **window)
    assert made.shape == told.shape
    assert made.codes.reshape(-1).tolist() == told.values
    assert made.codes.max() == 127 or made.codes.min() == -128


def test_where_nothing_overflows_it_is_the_exact_product_and_gradients_are_the_same() -> None:
    x, w, error = codes(2, 4, 4, 3), codes(5, 3, 3, 3), codes(2, 2, 2, 5)
    found = []
    for accumulator in (None, Narrow(20, "saturate", "tree"), Narrow(20)):
        saved = Saved((True, True))
        made = ops.conv2d.forward(saved, x, w, accumulator=accumulator)
        results = (made, *ops.conv2d.vjp(saved, error))
        found.append([one.codes.astype(int).tolist() for one in results])
    assert found[0] == found[1] == found[2]


def test_what_has_no_codes_is_refused() -> None:
    blocks = quantize(np.ones((2, 32)), MXINT8).to_qtensor()
    with pytest.raises(FormatError, match="codes of QTensors of one exponent"):
        ops.linear(blocks, blocks, accumulator=Narrow(8))
    with pytest.raises(FormatError, match="layers take Narrow"):
        ops.linear(codes(2, 3), codes(2, 3), accumulator=8, where="fc1")
