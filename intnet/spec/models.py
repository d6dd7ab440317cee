"""Nets as data: layers, models by name, and the shapes of their parameters, computed from an image's shape.

    mlp              784-64-64-10 where images have 28x28 pixels: linear, batch norm, ReLU twice, linear
    lenet5           two 5x5 convolutions with max pooling, three linear layers (LeCun et al. 1998)
    lenet5-tanh      the same with tanh, average pooling and biases, without batch norm
    resnet8, resnet20   He et al. 2016, sec. 4.2: 16, 32, 64 channels, 1 and 3 basic blocks a stage

Layers have PyTorch's names. Shapes are (Cout, Cin/groups, kh, kw) of convolutions, (Cout, Cin) of linear
layers, (C,) of the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from math import prod
from typing import NamedTuple

from intnet.spec.geometry import Pair, both, pads

WEIGHTED = ("linear", "conv")


class Layer(NamedTuple):
    """One layer.

    kind:     linear, conv, norm, relu, tanh, sigmoid, silu, max_pool, avg_pool, adaptive_pool, mean, flatten,
              dropout, join, excite (squeeze and excitation), scale (its last part)
    channels: outputs of linear and conv; of excite those between its linear layers
    kernel:   of conv and pools, of adaptive_pool windows a side; stride, padding: of both; groups: of conv
    keep:     share of elements that dropout keeps
    """

    kind: str
    name: str
    channels: int = 0
    kernel: Pair = 1
    bias: bool = False
    stride: Pair = 1
    padding: Pair = 0
    groups: int = 1
    keep: Fraction = Fraction(1)


class Residual(NamedTuple):
    """Two branches that are added; no layers in the shortcut: the identity."""

    main: tuple[Layer, ...]
    shortcut: tuple[Layer, ...] = ()


Net = tuple[Layer | Residual, ...]


def layers_of(net: Net) -> list[Layer]:
    """All layers in order of definition; a shortcut's after the branch's, ahead of what follows the join."""
    return list(_layers(net))


def _layers(net: Net) -> Iterator[Layer]:
    for item in net:
        if isinstance(item, Residual):
            yield from (*_layers(item.main), *_layers(item.shortcut))
        elif item.kind == "excite":
            yield from (*squeezed(item), Layer("scale", f"{item.name}.scale"))
        else:
            yield item


def squeezed(layer: Layer) -> tuple[Layer, ...]:
    """The layers that make squeeze and excitation's factors, one a channel of an image."""
    name = layer.name
    return (
        Layer("mean", f"{name}.avgpool"),
        Layer("linear", f"{name}.fc1", layer.channels, bias=True),
        Layer("silu", f"{name}.activation"),
        Layer("linear", f"{name}.fc2", bias=True),
        Layer("sigmoid", f"{name}.scale_activation"),
    )


Shape = tuple[int, ...]


class Parameter(NamedTuple):
    """A parameter of a layer; start: 'normal', 'ones' or 'zeros'; fan_in: inputs of one output."""

    layer: str
    symbol: str
    shape: Shape
    start: str
    fan_in: int = 1


def parameters(net: Net, image_shape: Shape) -> list[Parameter]:
    """Every parameter, in order of definition, of a net for images (H, W, C)."""
    return list(_walk(net, image_shape))


def _walk(net: Sequence[Layer | Residual], shape: Shape) -> Iterator[Parameter]:
    for item in net:
        if isinstance(item, Residual):
            yield from _walk(item.main, shape)
            yield from _walk(item.shortcut, shape)
            for layer in item.main:
                shape = output_shape(layer, shape)
        else:
            yield from _own(item, shape)
            shape = output_shape(item, shape)


def _own(layer: Layer, shape: Shape) -> Iterator[Parameter]:
    name, c = layer.name, shape[-1]
    if layer.kind in ("linear", "conv"):
        kernel = both(layer.kernel) if layer.kind == "conv" else ()
        w = (layer.channels, c // layer.groups, *kernel)
        yield Parameter(name, "W", w, "normal", prod(w[1:]))
        if layer.bias:
            yield Parameter(name, "b", (layer.channels,), "zeros")
    elif layer.kind == "norm":
        yield Parameter(name, "gamma", (c,), "ones")
        yield Parameter(name, "beta", (c,), "zeros")
    elif layer.kind == "excite":
        _, fc1, _, fc2, _ = squeezed(layer)
        yield from _own(fc1, (c,))
        yield from _own(fc2._replace(channels=c), (layer.channels,))


def output_shape(layer: Layer, shape: Shape) -> Shape:
    """The shape of one image after a layer, from that ahead of it."""
    if layer.kind == "linear":
        return (layer.channels,)
    if layer.kind in ("conv", "max_pool", "avg_pool"):
        (kh, kw), (sh, sw) = both(layer.kernel), both(layer.stride)
        top, bottom, left, right = pads(layer.padding)
        c = layer.channels if layer.kind == "conv" else shape[2]
        return (shape[0] + top + bottom - kh) // sh + 1, (shape[1] + left + right - kw) // sw + 1, c
    if layer.kind == "adaptive_pool":
        return (*both(layer.kernel), shape[2])
    if layer.kind == "mean":
        return shape[-1:]
    return (prod(shape),) if layer.kind == "flatten" else shape


# -- nets ------------------------------------------------------------------------------------------


def mlp(image_shape: Shape, classes: int, hidden: int = 64) -> Net:
    """Linear-BN-ReLU twice, then linear."""
    return (
        Layer("flatten", "flatten"),
        *_dense("fc1", "bn1", "relu1", hidden),
        *_dense("fc2", "bn2", "relu2", hidden),
        Layer("linear", "fc3", classes, bias=True),
    )


def _dense(linear: str, norm: str, relu: str, channels: int) -> tuple[Layer, ...]:
    return Layer("linear", linear, channels), Layer("norm", norm), Layer("relu", relu)


def lenet5(image_shape: Shape, classes: int) -> Net:
    """6 and 16 channels, then 120, 84 and the classes."""
    return (
        *_conv_pool(1, 6),
        *_conv_pool(2, 16),
        Layer("flatten", "flatten"),
        *_dense("fc1", "bn3", "relu3", 120),
        *_dense("fc2", "bn4", "relu4", 84),
        Layer("linear", "fc3", classes, bias=True),
    )


def _conv_pool(i: int, channels: int) -> tuple[Layer, ...]:
    return (
        Layer("conv", f"conv{i}", channels, 5, padding=2),
        Layer("norm", f"bn{i}"),
        Layer("relu", f"relu{i}"),
        Layer("max_pool", f"pool{i}", kernel=2, stride=2),
    )


def lenet5_tanh(image_shape: Shape, classes: int) -> Net:
    """6 and 16 channels, then 120, 84 and the classes, tanh between them."""
    net: list[Layer] = []
    for i, (channels, padding) in enumerate(((6, 2), (16, 0)), start=1):
        net += [
            Layer("conv", f"conv{i}", channels, 5, bias=True, padding=padding),
            Layer("tanh", f"tanh{i}"),
            Layer("avg_pool", f"pool{i}", kernel=2, stride=2),
        ]
    net += [Layer("flatten", "flatten")]
    for i, channels in enumerate((120, 84), start=1):
        net += [Layer("linear", f"fc{i}", channels, bias=True), Layer("tanh", f"tanh{i + 2}")]
    return (*net, Layer("linear", "fc3", classes, bias=True))


def resnet(image_shape: Shape, classes: int, channels: Sequence[int], blocks: Sequence[int]) -> Net:
    """A 3x3 convolution, stages of basic blocks, the mean, a linear layer; all stages but the first halve."""
    net: list[Layer | Residual] = [*_conv_norm("conv1", "bn1", channels[0], 3), Layer("relu", "relu1")]
    before = channels[0]
    for stage, (width, count) in enumerate(zip(channels, blocks, strict=True)):
        for i in range(count):
            stride = 2 if stage and i == 0 else 1
            net += basic_block(f"layer{stage + 1}.{i}", before, width, stride)
            before = width
    return (*net, Layer("mean", "avgpool"), Layer("linear", "fc", classes, bias=True))


def _conv_norm(conv: str, norm: str, channels: int, kernel: int, stride: int = 1) -> tuple[Layer, ...]:
    padding = kernel // 2
    return Layer("conv", conv, channels, kernel, stride=stride, padding=padding), Layer("norm", norm)


def basic_block(name: str, before: int, channels: int, stride: int) -> tuple[Layer | Residual, ...]:
    """conv-bn-relu-conv-bn, joined with the shortcut, relu; 1x1 and batch norm where the shape changes."""
    main = (
        *_conv_norm(f"{name}.conv1", f"{name}.bn1", channels, 3, stride),
        Layer("relu", f"{name}.relu1"),
        *_conv_norm(f"{name}.conv2", f"{name}.bn2", channels, 3),
    )
    same = stride == 1 and before == channels
    names = f"{name}.downsample.0", f"{name}.downsample.1"
    shortcut = () if same else _conv_norm(*names, channels, 1, stride)
    return Residual(main, shortcut), Layer("relu", f"{name}.relu2")


def resnet8(image_shape: Shape, classes: int) -> Net:
    """1 block a stage."""
    return resnet(image_shape, classes, (16, 32, 64), (1, 1, 1))


def resnet20(image_shape: Shape, classes: int) -> Net:
    """3 blocks a stage."""
    return resnet(image_shape, classes, (16, 32, 64), (3, 3, 3))


MODELS: dict[str, Callable[[Shape, int], Net]] = {
    "mlp": mlp,
    "lenet5": lenet5,
    "lenet5-tanh": lenet5_tanh,
    "resnet8": resnet8,
    "resnet20": resnet20,
}
