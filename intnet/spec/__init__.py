"""The definition: what every bit of intnet is, in plain Python integers and fractions.

Slow, complete, without NumPy, and sharing no code with the rest of the package, which it judges with ==.

    value of a number       tensor, rounding, formats, block_float, buckets, words
    float32 and functions   float32, elementary, curves
    operations              geometry, operations, batch_norm, float_batch_norm, loss
    before a step           initial, data
    a whole net             nets, models, methods (one paper a module), training, digest
"""

from intnet.spec import (
    augment,
    batch_norm,
    block_float,
    buckets,
    curves,
    float32,
    float_batch_norm,
    formats,
    geometry,
    methods,
    nets,
    operations,
    rounding,
    words,
)
from intnet.spec.rounding import overflow, round_fraction, round_sqrt
from intnet.spec.tensor import Fixed, Tensor, add_fixed, power, reshape, tensor

VERSION = 2  # of the definition; a run, pack or checkpoint of another one is refused

__all__ = [
    "VERSION",
    "Fixed",
    "Tensor",
    "add_fixed",
    "augment",
    "batch_norm",
    "block_float",
    "buckets",
    "curves",
    "float32",
    "float_batch_norm",
    "formats",
    "geometry",
    "methods",
    "nets",
    "operations",
    "overflow",
    "power",
    "reshape",
    "round_fraction",
    "round_sqrt",
    "rounding",
    "tensor",
    "words",
]
