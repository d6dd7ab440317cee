"""Layers of a model as the definition's: structure only, class by class.

A class that has no entry in `KINDS` has no definition here: its ports are listed as not recomputed.
"""

from typing import Any

from intnet import layers
from intnet.layers import Layer, joints
from intnet.spec import nets as spec

KINDS: dict[type, str] = {
    layers.Linear: "linear",
    layers.Conv2d: "conv",
    layers.BatchNorm2d: "norm",
    layers.ReLU: "relu",
    layers.Tanh: "tanh",
    layers.Sigmoid: "sigmoid",
    layers.SiLU: "silu",
    layers.MaxPool2d: "max_pool",
    layers.AvgPool2d: "avg_pool",
    layers.GlobalAvgPool: "mean",
    layers.Flatten: "flatten",
    layers.Dropout: "dropout",
    joints.Join: "join",
    joints.Squeeze: "mean",
    joints.Scale: "scale",
}


def kind_of(layer: Layer) -> str:
    """The definition's kind, '' where it has none."""
    return KINDS.get(type(layer), "")


def layer_of(layer: Layer) -> spec.Layer:
    """A layer as data; one without a kind is a name only."""
    found: dict[str, Any] = {
        name: getattr(layer, name)
        for name in ("kernel", "stride", "padding", "groups", "keep")
        if hasattr(layer, name)
    }
    symbols = [parameter.symbol for parameter in layer.parameters]
    channels = layer.parameters[0].shape[0] if layer.takes_weight else 0
    return spec.Layer(kind_of(layer), layer.name, channels, bias="b" in symbols, **found)
