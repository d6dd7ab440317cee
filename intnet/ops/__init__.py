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

OPS: dict[str, Op] = {
    "adaptive_avg_pool2d": adaptive_avg_pool2d,
    "add": add,
    "add_bias": add_bias,
    "avg_pool2d": avg_pool2d,
    "batch_norm": batch_norm,
    "cast": cast,
    "conv2d": conv2d,
    "dropout": dropout,
    "flatten": flatten,
    "global_avg_pool": global_avg_pool,
    "linear": linear,
    "max_pool2d": max_pool2d,
    "range_norm": range_norm,
    "relu": relu,
    "scale": scale,
    "sigmoid": sigmoid,
    "silu": silu,
    "softmax_cross_entropy": softmax_cross_entropy,
    "tanh": tanh,
}
