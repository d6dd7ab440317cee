"""Layers: structure and parameters, with PyTorch's names. How numbers are stored is the method's.

    layer(x, method) -> Tensor

A layer asks the method's hooks (`methods/method.py`) for the forward copy of its parameters and puts
the method's quantizers on its data paths with `ops.cast`. Paths of a layer, in WAGEUBN's symbols:

    Conv2d, Linear   x0 input, Wq, x1 output; e3 error at the output, e4 at the input; gW
    BatchNorm2d      gammaq betaq mu sigma x2 x3; e1 error at x3, e2 m1 m2; ggamma gbeta
    ReLU, Tanh       x4 output; e0 error at the output, e1 after the activation
    Sigmoid, SiLU    the same; of SiLU dx4, the derivative of an integer input, and e1q for e1
    pools, Dropout   x4, e0 where they round
    Join, Scale      x4, e0, in `layers/joints.py`: layers that read two tensors
"""

from intnet.layers.activations import ReLU, Sigmoid, SiLU, Tanh
from intnet.layers.base import Layer, pair
from intnet.layers.joints import Join, Scale, Squeeze, SqueezeExcitation
from intnet.layers.norm import BatchNorm2d
from intnet.layers.pools import AdaptiveAvgPool2d, AvgPool2d, GlobalAvgPool, MaxPool2d
from intnet.layers.products import Conv2d, Linear
from intnet.layers.shapes import Dropout, Flatten, Sequential

__all__ = [
    "AdaptiveAvgPool2d",
    "AvgPool2d",
    "BatchNorm2d",
    "Conv2d",
    "Dropout",
    "Flatten",
    "GlobalAvgPool",
    "Join",
    "Layer",
    "Linear",
    "MaxPool2d",
    "ReLU",
    "Scale",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Squeeze",
    "SqueezeExcitation",
    "Tanh",
    "pair",
]
