"""The definition: what every bit of intnet is, in plain Python integers and fractions.

Slow, complete, without NumPy, and importing nothing of the rest of the package, which it judges with ==.
Every function names the equation of its paper, or says that it is intnet's own contract.

    value of a number       tensor, rounding, formats, ap_fixed, small_floats, microscaling, mx_blocks,
                            arithmetic, accumulators, block_float, buckets, words
    float32 and functions   float32, float64, elementary, curves
    operations              geometry, convolution, elementwise, pooling, batch_norm, float_batch_norm, loss
    before a step           initial, data
    a whole net             values, products, nets, models, methods (one paper a module), training,
                            inference, digest

What a tensor decides and what an element does stand apart everywhere: rules that end in `_at`, and
`Format.code`, make one element out of flat lists, so that any element of any stored tensor can be computed
again; whole tensors are comprehensions over them.
"""

from intnet.spec import (
    accumulators,
    ap_fixed,
    arithmetic,
    batch_norm,
    block_float,
    buckets,
    convolution,
    curves,
    data,
    digest,
    elementary,
    elementwise,
    float32,
    float64,
    float_batch_norm,
    formats,
    geometry,
    initial,
    loss,
    microscaling,
    pooling,
    rounding,
    small_floats,
    words,
)
from intnet.spec.rounding import overflow, round_fraction, round_sqrt
from intnet.spec.tensor import Fixed, Tensor, add_fixed, power, reshape, tensor

VERSION = 3  # of the definition; a run, pack or checkpoint of another one is refused

__all__ = [
    "VERSION",
    "Fixed",
    "Tensor",
    "accumulators",
    "add_fixed",
    "ap_fixed",
    "arithmetic",
    "batch_norm",
    "block_float",
    "buckets",
    "convolution",
    "curves",
    "data",
    "digest",
    "elementary",
    "elementwise",
    "float32",
    "float64",
    "float_batch_norm",
    "formats",
    "geometry",
    "initial",
    "loss",
    "microscaling",
    "overflow",
    "pooling",
    "power",
    "reshape",
    "round_fraction",
    "round_sqrt",
    "rounding",
    "small_floats",
    "tensor",
    "words",
]
