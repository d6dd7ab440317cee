"""How fast are convolutions, forward and both gradients, beside PyTorch's float32?

Layers of ResNet-20 (28x28 images, batch 128) and of ResNet-18 (224x224 images, batch 16). Codes as
training has them: activations in int16 within +-2047, weights in int8 within +-127, errors in int16
(the flag format) within +-16,256, normally distributed with a mean magnitude of 1,200, which decides
how many products an int32 sum holds (10 steps of ResNet-20 on digits left 750 to 2,400). PyTorch's
gradients are `aten::convolution_backward` with one gradient wanted, which is what its autograd calls;
its default layout (NCHW) is the peer of the ratios, channels_last stands beside it. A product counts
once, holes and padding too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.peers import torch
from bench.summary import Row, at_least, column, geomean
from bench.timing import medians
from intnet.numbers.qtensor import QTensor
from intnet.ops.kernels import float_products as float32
from intnet.ops.kernels import int_products as conv
from intnet.ops.kernels.int_products import Plan, plan

QUESTION = "convolutions, GMAC/s; ratios to PyTorch float32 in its default layout"
ACTIVATION, WEIGHT, ERROR = 2047, 127, 16256
SPREAD = 1500  # standard deviation of the errors
PASSES = ("forward", "input gradient", "weight gradient")


@dataclass(frozen=True)
class Layer:
    """A square convolution without groups; padding keeps the size."""

    net: str
    batch: int
    cin: int
    cout: int
    size: int
    stride: int = 1
    kernel: int = 3

    @property
    def out_size(self) -> int:
        """Output rows and columns."""
        return (self.size - 1) // self.stride + 1

    @property
    def padding(self) -> int:
        """Zeros on each side."""
        return self.kernel // 2

    def __str__(self) -> str:
        stride = f", stride {self.stride}" if self.stride > 1 else ""
        return f"{self.net} {self.cin}->{self.cout} {self.kernel}x{self.kernel} at {self.size}{stride}"


def _layers() -> list[Layer]:
    small = [(16, 16, 28), (16, 32, 28, 2), (32, 32, 14), (32, 64, 14, 2), (64, 64, 7)]
    shortcuts = [(16, 32, 28, 2, 1), (32, 64, 14, 2, 1)]
    large = [
        (64, 64, 56), (64, 128, 56, 2), (128, 128, 28), (128, 256, 28, 2), (256, 256, 14), (256, 512, 14, 2),
        (512, 512, 7),
    ]  # fmt: skip
    return [Layer("resnet20", 128, *layer) for layer in small + shortcuts] + [
        Layer("resnet18", 16, *layer) for layer in large
    ]


Calls = dict[str, Callable[[], Any]]
Tensors = tuple[np.ndarray, np.ndarray, np.ndarray]  # x, w, e


def tensors(layer: Layer) -> Tensors:
    """Random codes (x, w, e) of a layer, within the bounds above."""
    rng = np.random.default_rng(0)
    x = rng.integers(-ACTIVATION, ACTIVATION + 1, (layer.batch, layer.size, layer.size, layer.cin))
    w = rng.integers(-WEIGHT, WEIGHT + 1, (layer.cout, layer.cin, layer.kernel, layer.kernel))
    e = rng.normal(0, SPREAD, (layer.batch, layer.out_size, layer.out_size, layer.cout))
    return x.astype(np.int16), w.astype(np.int8), np.clip(np.rint(e), -ERROR, ERROR).astype(np.int16)


def integer_calls(layer: Layer, codes: Tensors) -> Calls:
    """The three passes of intnet's integers."""
    x, w, e = codes
    window = ((layer.stride,) * 2, (layer.padding,) * 2, 1)
    taps = layer.kernel**2

    def how(a: np.ndarray, a_bound: int, b: np.ndarray, b_bound: int, terms: int) -> Plan:
        return plan(QTensor(a, 0, bound=a_bound), QTensor(b, 0, bound=b_bound), terms)

    forward = how(x, ACTIVATION, w, WEIGHT, taps * layer.cin)
    inputs = how(e, ERROR, w, WEIGHT, taps * layer.cout)
    weights = how(e, ERROR, x, ACTIVATION, e.size // layer.cout)
    return {
        "forward": lambda: conv.forward(x, w, forward, window),
        "input gradient": lambda: conv.input_grad(e, w, inputs, window, x.shape[1:3]),
        "weight gradient": lambda: conv.weight_grad(e, x, weights, window, w.shape[2:]),
    }


def float_calls(layer: Layer, codes: Tensors) -> Calls:
    """The three passes of intnet's float32."""
    x, w, e = (array.astype(np.float32) for array in codes)
    window = ((layer.stride,) * 2, (layer.padding,) * 2, 1)
    return {
        "forward": lambda: float32.conv2d(x, w, *window),
        "input gradient": lambda: float32.conv2d_input_grad(e, w, x.shape[1:3], *window),
        "weight gradient": lambda: float32.conv2d_weight_grad(e, x, w.shape[2:], *window),
    }


def torch_calls(layer: Layer, codes: Tensors, layout: Any) -> Calls:
    """The three passes of PyTorch's float32 in a memory layout."""
    x, w, e = (torch.from_numpy(array.astype(np.float32)) for array in codes)
    x, e = (tensor.permute(0, 3, 1, 2) for tensor in (x, e))
    x, w, e = (tensor.contiguous(memory_format=layout) for tensor in (x, w, e))
    stride, padding = [layer.stride] * 2, [layer.padding] * 2

    def gradient(*wanted: bool) -> Any:
        return torch.ops.aten.convolution_backward(
            e, x, w, None, stride, padding, [1, 1], False, [0, 0], 1, [*wanted, False]
        )

    return {
        "forward": lambda: torch.nn.functional.conv2d(x, w, None, stride, padding),
        "input gradient": lambda: gradient(True, False),
        "weight gradient": lambda: gradient(False, True),
    }


def rows() -> list[Row]:
    table = []
    for layer in _layers():
        codes = tensors(layer)
        sides = {"integer": integer_calls(layer, codes), "float32": float_calls(layer, codes)}
        if torch is not None:
            sides["torch"] = torch_calls(layer, codes, torch.contiguous_format)
            sides["torch channels_last"] = torch_calls(layer, codes, torch.channels_last)
        products = codes[2].size * layer.cin * layer.kernel**2
        for name in PASSES:
            seconds = medians({side: calls[name] for side, calls in sides.items()})
            row: Row = {"layer": str(layer), "pass": name}
            row |= {side: products / value / 1e9 for side, value in seconds.items()}
            if torch is not None:
                row |= {f"{side} x torch": row[side] / row["torch"] for side in ("integer", "float32")}
            table.append(row)
    return table


def targets(rows: list[Row]) -> list[Row]:
    return [
        at_least(
            1.2,
            f"integer convolution, {name}, times PyTorch float32, geometric mean",
            geomean(column([row for row in rows if row["pass"] == name], "integer x torch")),
        )
        for name in PASSES
    ]
