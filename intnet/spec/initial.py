"""First values: random weights by the counter generator, all else ones or zeros.

    normal     w_i = float32(z(word_i) * (sqrt(s) / sqrt(n)))    z the inverse normal distribution, `normal64`
    tnvs       w_i = float32(z(inside(word_i)) * sqrt(s / n))    the same, cut at +-sqrt(3 s/n)
    uniform    w_i = float32((2 word_i + 1 - 2^32) / 2^32 * sqrt(3 s / n))

n is the fan_in and s a factor, 1 unless an option says otherwise: variance s/n (the cut leaves 0.66 of it),
so that a sum of n products with numbers of unit size has unit size. Word i is that of element i (C order) of
the stream 'layer/init_W' at step 0. Product, quotient and root are rounded in binary64, then the product to
float32: intnet's own. A method makes of it what it stores: WAGEUBN (9) codes at 2^-23. Truncated normal
variance scaling is AdaPT's.

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

TAIL = 178_809_188  # P(z < -sqrt 3) 2^32, to nearest


def scaled_normal(drawn: int, deviation: float) -> Fraction:
    """The float32 of z(word) * deviation, for a 32-bit word."""
    return to_float32(Fraction(normal64(drawn) * deviation))


def scaled(drawn: int, fan_in: int, kind: str = "normal", scale: float = 1.0) -> Fraction:
    """The weight of a 32-bit word, by the module's kinds."""
    n = float(fan_in)
    if kind == "normal":
        return scaled_normal(drawn, sqrt(scale) / sqrt(n))
    if kind == "tnvs":
        inside = TAIL + (drawn * (2**32 - 2 * TAIL) >> 32)
        return scaled_normal(inside, sqrt(scale / n))
    return to_float32(Fraction((2 * drawn + 1 - 2**32) / 2**32 * sqrt(3 * scale / n)))


def first_value(
    seed: int,
    layer: str,
    symbol: str,
    shape: Sequence[int],
    start: str,
    fan_in: int = 1,
    kind: str = "normal",
    scale: float = 1.0,
) -> Tensor:
    """The first float32 values of a parameter: start 'normal', drawn as `kind` says, 'ones' or 'zeros'.

    symbol: 'W', 'b', 'gamma' or 'beta'; fan_in: inputs of an output, C kh kw of a convolution
    """
    size = prod(shape)
    if start == "normal":
        name = f"{layer}/init_{symbol}"
        drawn = (word(seed, 0, name, i) for i in range(size))
        return Tensor(tuple(shape), [scaled(one, fan_in, kind, scale) for one in drawn])
    return Tensor(tuple(shape), [Fraction({"ones": 1, "zeros": 0}[start])] * size)
