"""A second, slow, independent implementation in int and Fraction; it judges the library with ==.

It shares no code with the library. Read `rounding` and `tensor` first, then `quantizers`, `floats`,
`block_float`, `buckets`, `ops`, `norm`, `layers`, and last `wageubn`, the whole step; for methods in which
widths move `float_norm`, `nets`, `adapt_switch`, `adapt`, `muppet`, `dynasty_map` and `dynasty`;
`optimizers` for the steps of float masters, and `saved`; `augment` is of images.
"""
from tests.oracle import (
    adapt,
    adapt_switch,
    augment,
    block_float,
    buckets,
    dynasty,
    dynasty_map,
    float_norm,
    floats,
    functions,
    geometry,
    layers,
    muppet,
    nets,
    norm,
    ops,
    optimizers,
    quantizers,
    random,
    rounding,
    saved,
    wageubn,
)
from tests.oracle.functions import tanh_round
from tests.oracle.rounding import overflow, round_fraction, round_sqrt
from tests.oracle.tensor import Fixed, Tensor, add_fixed, power, reshape, tensor

__all__ = [
    "Fixed",
    "Tensor",
    "adapt",
    "adapt_switch",
    "add_fixed",
    "augment",
    "block_float",
    "buckets",
    "dynasty",
    "dynasty_map",
    "float_norm",
    "floats",
    "functions",
    "geometry",
    "layers",
    "muppet",
    "nets",
    "norm",
    "ops",
    "optimizers",
    "overflow",
    "power",
    "quantizers",
    "random",
    "reshape",
    "round_fraction",
    "round_sqrt",
    "rounding",
    "saved",
    "tanh_round",
    "tensor",
    "wageubn",
]
