"""ResNet-20 for ONNX Runtime, in float32 and quantized to int8 by its own tool. Imported only where it is."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numba
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import quantization

INT8, FLOAT = "ONNX Runtime int8", "ONNX Runtime float32"
STAGES = ((16, 1), (32, 2), (64, 2))  # channels, stride of the first block


class _Net:
    """Nodes and weights of ResNet-20 as ONNX; weights at random, which do not change the time."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.rng = np.random.default_rng(1)

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """The output of one node more."""
        out = f"y{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [out], **attributes))
        return out

    def weight(self, *shape: int) -> str:
        """A weight of N(0, 2/fan in)."""
        name, fan_in = f"w{len(self.weights)}", max(1, int(np.prod(shape[1:])))
        values = self.rng.normal(0, (2 / fan_in) ** 0.5, shape).astype(np.float32)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def conv(self, x: str, depth: int, channels: int, stride: int = 1, kernel: int = 3) -> str:
        """A convolution with the bias of its folded batch norm."""
        weights = self.weight(channels, depth, kernel, kernel), self.weight(channels)
        return self.add("Conv", x, *weights, strides=[stride] * 2, pads=[kernel // 2] * 4)

    def block(self, x: str, depth: int, channels: int, stride: int) -> str:
        """A basic block."""
        y = self.add("Relu", self.conv(x, depth, channels, stride))
        y = self.conv(y, channels, channels)
        joined = x if depth == channels else self.conv(x, depth, channels, stride, 1)
        return self.add("Relu", self.add("Add", y, joined))

    def model(self) -> Any:
        """The whole network, images NCHW."""
        y, depth = self.add("Relu", self.conv("x", 1, 16)), 16
        for channels, first in STAGES:
            for stride in (first, 1, 1):
                y, depth = self.block(y, depth, channels, stride), channels
        y = self.add("Flatten", self.add("GlobalAveragePool", y))
        self.add("Gemm", y, self.weight(10, depth), self.weight(10), transB=1)
        shapes = {"x": (1, 28, 28), self.nodes[-1].output[0]: (10,)}
        ends = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", *s]) for name, s in shapes.items()
        ]
        graph = helper.make_graph(self.nodes, "resnet20", ends[:1], ends[1:], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class _Calibration:
    """One batch of images, as ONNX Runtime's tool reads them."""

    def __init__(self, images: np.ndarray) -> None:
        self.batches: Iterator[dict[str, np.ndarray]] = iter([{"x": images}])

    def get_next(self) -> dict[str, np.ndarray] | None:
        """The next batch, or None."""
        return next(self.batches, None)


def sessions(images: np.ndarray) -> dict[str, Callable[[], Any]]:
    """Calls that classify the images, by name."""
    x = np.ascontiguousarray(images.transpose(0, 3, 1, 2), np.float32) / 255
    with TemporaryDirectory() as folder:
        plain, quantized = Path(folder, "float32.onnx"), Path(folder, "int8.onnx")
        onnx.save(_Net().model(), plain)
        kinds = quantization.QuantType
        quantization.quantize_static(
            plain, quantized, _Calibration(x), per_channel=True, activation_type=kinds.QUInt8,
            weight_type=kinds.QInt8,
        )  # fmt: skip
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]  # numba sets it
        made = {
            name: onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            for name, path in ((INT8, quantized), (FLOAT, plain))
        }
    return {name: partial(session.run, None, {"x": x}) for name, session in made.items()}
