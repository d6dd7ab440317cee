"""First values: weights N(0, 1/sqrt(fan_in)) by the counter generator, all else ones or zeros.

    w_i = float32(z(word_i) * (1 / sqrt(fan_in)))      z the inverse normal distribution, `normal64`

Word i is that of element i (C order) of the stream 'layer/init_W' at step 0. Product, quotient and root are
rounded in binary64, then the product to float32: intnet's own contract, so that a sum of fan_in products with
numbers of unit size has unit size. A method makes of it what it stores: WAGEUBN (9) codes at 2^-23; AdaPT
draws a normal of its own, cut at +-sqrt(3 s/n).

>>> first_value(seed=1, layer="bn1", symbol="gamma", shape=(2,), start="ones").values
[Fraction(1, 1), Fraction(1, 1)]
>>> float(scaled_normal(2**31, 1.0)) * 2**31 / 2.5066 < 1      # the middle of the words is next to 0
True
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import prod, sqrt

from intnet.spec.elementary import normal64
from intnet.spec.float32 import to_float32
from intnet.spec.tensor import Tensor
from intnet.spec.words import word


def scaled_normal(drawn: int, deviation: float) -> Fraction:
    """The float32 of z(word) * deviation, for a 32-bit word."""
    return to_float32(Fraction(normal64(drawn) * deviation))


def weight(seed: int, name: str, i: int, fan_in: int) -> Fraction:
    """The first value of element i of the weights of stream `name`, 'layer/init_W'."""
    return scaled_normal(word(seed, 0, name, i), 1.0 / sqrt(float(fan_in)))


def first_value(
    seed: int, layer: str, symbol: str, shape: Sequence[int], start: str, fan_in: int = 1
) -> Tensor:
    """The first float32 values of a parameter: 'normal', 'ones' or 'zeros'.

    symbol: 'W', 'b', 'gamma' or 'beta'; fan_in: inputs of an output, C kh kw of a convolution
    """
    size = prod(shape)
    if start == "normal":
        name = f"{layer}/init_{symbol}"
        return Tensor(tuple(shape), [weight(seed, name, i, fan_in) for i in range(size)])
    return Tensor(tuple(shape), [Fraction({"ones": 1, "zeros": 0}[start])] * size)
