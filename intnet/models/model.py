"""Model: the root of a tree of layers. Structure only; the method is an argument of every call.

    logits = model(Tensor(images), method)

Building one names every layer by its dotted path (PyTorch's names) and marks the first and the last
weight layer as `edge`, the first one and what belongs to it as `first_block`, which some methods treat apart.
"""

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from intnet.autograd import Tensor
from intnet.errors import ConfigError, ShapeError
from intnet.layers import Layer
from intnet.methods.method import Method, Parameter


class Model(Layer):
    """A network of a known input shape.

    kind: its name in `MODELS`; image_shape: (H, W, C) of one image; classes: logits of one image
    blocks: the parts that a table of memory has rows for: row -> name of the layer whose output
    (`Layer.output_shape`) it counts. The layers at the top, where a model does not say
    """

    def __init__(self, kind: str, image_shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        self.kind, self.image_shape, self.classes = kind, image_shape, classes
        self.blocks: dict[str, str] = {}
        self.taken = False  # by a run
        self._layers: tuple[Layer, ...] = ()

    def finish(self) -> None:
        """Name the layers and mark the edges; the last line of every model's constructor."""
        weighted = []
        for name, layer in self.walk():
            layer.check_children(name)
            layer.name = name
            if layer.takes_weight:
                weighted.append(layer)
        if not weighted:
            raise ConfigError(
                f"model {self.kind!r} has no layer with weights: set its layers as attributes ahead of "
                "self.finish()"
            )
        self.blocks = self.blocks or {name: name for name, _ in self.children()}
        weighted[0].edge, weighted[-1].edge = "first", "last"
        self._layers = tuple(layer for _, layer in self.walk() if layer.name and not any(layer.children()))
        block = first_block(self._layers)
        for layer in self._layers:
            layer.first_block = layer in block

    def __call__(self, x: Tensor, method: Method) -> Tensor:  # type: ignore[override]  # one tensor alone
        """Logits of a batch; ShapeError where the images are not of the model's shape."""
        if not isinstance(x, Tensor):
            raise ConfigError(
                f"model(x, method) reads a Tensor, not a {type(x).__name__}; to classify arrays it is "
                "run.predict(X), of a run that `fit` gives"
            )
        if x.value.shape[1:] != self.image_shape:
            raise ShapeError(
                f"model {self.kind!r} was built for images (H, W, C) = {self.image_shape}, "
                f"got {x.value.shape[1:]}: build it for the data's shape"
            )
        layers = self.all_layers()
        for layer in layers:
            layer.reads = layer.calls = 0
        method.begin_pass(layers)
        logits = self.forward(x, method)
        for layer in layers:
            if layer.parameters and layer.reads != 1:
                raise ShapeError(
                    f"layer {layer.name} ran {layer.reads} times in one pass of the model; each layer with "
                    "parameters runs once: make a layer of its own for every use, remove unused ones"
                )
            if layer.stores and layer.calls > 1:  # two tensors of one name, two masks of the same words
                raise ShapeError(
                    f"layer {layer.name} ran {layer.calls} times in one pass of the model, and what it "
                    "stores and draws goes by its name: make a layer of its own for every use"
                )
        return logits

    def check_names(self) -> None:
        """ConfigError for a layer without a name, with another than it is found by, or a shared parameter."""
        self.all_layers()
        for name, layer in self.walk():
            if layer.name != name:
                raise ConfigError(
                    f"model {self.kind!r}: layer {name} was set after self.finish(), or stands in two "
                    "places: make self.finish() the last line of the constructor, each layer an attribute"
                )
        owners: dict[int, str] = {}
        for name, layer, parameter in self.all_parameters():
            first = owners.setdefault(id(parameter), name)
            if first != name:
                raise ConfigError(
                    f"model {self.kind!r}: {first} and {name} are one parameter: what is stored, and each "
                    f"update, goes by layer; give {layer.name} its own"
                )

    def all_layers(self) -> tuple[Layer, ...]:
        """Every layer that is not just a container, in order of definition."""
        if not self._layers:
            raise ConfigError(
                f"model {self.kind!r}: its layers have no names yet: make self.finish() the last line of the "
                "model's constructor"
            )
        return self._layers

    def all_parameters(self) -> Iterator[tuple[str, Layer, Parameter]]:
        """('layer1.0.conv1.weight', layer, parameter) of every parameter."""
        for layer in self.all_layers():
            for parameter in layer.parameters:
                yield f"{layer.name}.{parameter.name}", layer, parameter

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.image_shape))
        count = sum(prod(p.shape) for layer in self._layers for p in layer.parameters)
        return (
            f"{type(self).__name__}({self.kind!r}: {shape} to {self.classes} classes, {count:,} parameters)"
        )

    def state_dict(self) -> dict[str, Any]:
        """Name -> QTensor or float32 array: parameters, optimizer words, running statistics."""
        state = {}
        for name, _, parameter in self.all_parameters():
            state[name] = parameter.value
            state |= {f"{name}.{slot}": value for slot, value in parameter.slots.items()}
        for layer in self.all_layers():
            for key, value in layer.buffers.items():
                name = f"{layer.name}.{key}"
                if name in state or "." in key:
                    raise ShapeError(
                        f"buffer {key!r} of layer {layer.name}: a name without a dot, no parameter's"
                    )
                state[name] = value
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Set everything that `state_dict` gives; ShapeError names what is missing, extra or misshapen."""
        left = dict(state)
        for name, _, parameter in self.all_parameters():
            value = left.pop(name, None)
            if value is None or value.shape != parameter.shape:
                have = "missing" if value is None else f"of shape {value.shape}"
                raise ShapeError(f"parameter {name} {parameter.shape} is {have} in the state")
            parameter.value = value
            slots = [key for key in left if key.startswith(f"{name}.")]
            parameter.slots = {key.removeprefix(f"{name}."): left.pop(key) for key in slots}
        for layer in self.all_layers():
            keys = [key for key in left if key.rpartition(".")[0] == layer.name]
            layer.buffers = {key.removeprefix(f"{layer.name}."): left.pop(key) for key in keys}
        if left:
            raise ShapeError(f"the state holds tensors that this model has not: {', '.join(sorted(left))}")


def first_block(layers: Sequence[Layer]) -> Sequence[Layer]:
    """The first weight layer, the batch norm after it, where one is, and the activation after them.

    Empty where no activation stands there, in the order of definition.

    Defined by `spec/methods/wageubn.py: first_block`.
    """
    start = next((k for k, layer in enumerate(layers) if layer.takes_weight), len(layers))
    size = 2 + any(layer.normalizes for layer in layers[start + 1 : start + 2])
    block = layers[start : start + size]
    return block if block and block[-1].derivative else ()
