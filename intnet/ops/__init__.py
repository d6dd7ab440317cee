"""Differentiable operations: one family a file, each registered here once.

Every file goes in one order: equation, kernel or checked function, gradient, registration line. An
operation dispatches on what its operands are (integer or float32); it never chooses a quantizer.
Integer results are exact; where a family rounds inside (batch norm, tanh, sigmoid, silu) it calls the
quantizer that it was handed.
"""

from intnet.autograd import Op, cast
from intnet.ops.adaptive_pool import adaptive_avg_pool2d
from intnet.ops.elementwise import add, dropout, flatten, relu
from intnet.ops.loss import softmax_cross_entropy
from intnet.ops.norm import batch_norm
from intnet.ops.pool import avg_pool2d, global_avg_pool, max_pool2d
from intnet.ops.products import add_bias, conv2d, linear
from intnet.ops.range_norm import range_norm
from intnet.ops.scale import scale
from intnet.ops.sigmoid import sigmoid, silu, tanh

__all__ = [
    "OPS",
    "adaptive_avg_pool2d",
    "add",
    "add_bias",
    "avg_pool2d",
    "batch_norm",
    "cast",
    "conv2d",
    "dropout",
    "flatten",
    "global_avg_pool",
    "linear",
    "max_pool2d",
    "range_norm",
    "relu",
    "scale",
    "sigmoid",
    "silu",
    "softmax_cross_entropy",
    "tanh",
]

OPS: dict[str, Op] = {name: globals()[name] for name in __all__ if name != "OPS"}
