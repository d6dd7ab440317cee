"""A second, slow, independent implementation in int and Fraction; it judges the library with ==.

It shares no code with the library. Read `rounding` and `tensor` first, then `quantizers`, `floats`,
`block_float`, `ops`, `norm`, `layers`, and last `wageubn`, the whole step.
"""
from tests.oracle import (
    block_float,
    floats,
    functions,
    geometry,
    layers,
    norm,
    ops,
    quantizers,
    random,
    rounding,
    wageubn,
)
from tests.oracle.functions import tanh_round
from tests.oracle.rounding import overflow, round_fraction, round_sqrt
from tests.oracle.tensor import Fixed, Tensor, add_fixed, power, reshape, tensor

__all__ = [
    "Fixed",
    "Tensor",
    "add_fixed",
    "block_float",
    "floats",
    "functions",
    "geometry",
    "layers",
    "norm",
    "ops",
    "overflow",
    "power",
    "quantizers",
    "random",
    "reshape",
    "round_fraction",
    "round_sqrt",
    "rounding",
    "tanh_round",
    "tensor",
    "wageubn",
]
