"""ResNet-20 and LeNet-5 for ONNX Runtime, in float32 and quantized to int8 by its own tool.

Imported only where it is.
"""

from collections.abc import Callable, Iterator
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


class Net:
    """Nodes and weights as ONNX; weights at random, which do not change the time."""

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

    def lenet5(self) -> Any:
        """As `models/lenet.py` has it, images NCHW."""
        y, side = "x", 28
        for depth, channels in ((1, 6), (6, 16)):
            y = self.add("Relu", self.conv(y, depth, channels, kernel=5))
            y, side = self.add("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2]), side // 2
        y, depth = self.add("Flatten", y), 16 * side**2
        for channels in (120, 84):
            y = self.add("Relu", self.linear(y, depth, channels))
            depth = channels
        self.linear(y, depth, 10)
        return self.model()

    def linear(self, x: str, depth: int, channels: int) -> str:
        """A linear layer with a bias."""
        return self.add("Gemm", x, self.weight(channels, depth), self.weight(channels), transB=1)

    def resnet20(self) -> Any:
        """As `models/resnet.py` has it, images NCHW."""
        y, depth = self.add("Relu", self.conv("x", 1, 16)), 16
        for channels, first in STAGES:
            for stride in (first, 1, 1):
                y, depth = self.block(y, depth, channels, stride), channels
        y = self.add("Flatten", self.add("GlobalAveragePool", y))
        self.linear(y, depth, 10)
        return self.model()

    def model(self) -> Any:
        """All nodes so far."""
        shapes = {"x": (1, 28, 28), self.nodes[-1].output[0]: (10,)}
        ends = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", *s]) for name, s in shapes.items()
        ]
        graph = helper.make_graph(self.nodes, "net", ends[:1], ends[1:], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class _Calibration:
    """One batch of images, as ONNX Runtime's tool reads them."""

    def __init__(self, images: np.ndarray) -> None:
        self.batches: Iterator[dict[str, np.ndarray]] = iter([{"x": images}])

    def get_next(self) -> dict[str, np.ndarray] | None:
        """The next batch, or None."""
        return next(self.batches, None)


def sessions(
    images: np.ndarray, net: Callable[[Net], Any] = Net.resnet20, threads: int = 0, batch: int = 0
) -> dict[str, Callable[[], Any]]:
    """Calls that classify the images, all at once or `batch` at a time, by name; threads: 0 for all."""
    x = np.ascontiguousarray(images.transpose(0, 3, 1, 2), np.float32) / 255
    with TemporaryDirectory() as folder:
        plain, quantized = Path(folder, "float32.onnx"), Path(folder, "int8.onnx")
        onnx.save(net(Net()), plain)
        kinds = quantization.QuantType
        quantization.quantize_static(
            plain, quantized, _Calibration(x), per_channel=True, activation_type=kinds.QUInt8,
            weight_type=kinds.QInt8,
        )  # fmt: skip
        made = {name: session(path, threads) for name, path in ((INT8, quantized), (FLOAT, plain))}
    return {name: in_turn(one, "x", x, batch or len(x)) for name, one in made.items()}


def session(model: Any, threads: int = 0) -> onnxruntime.InferenceSession:
    """Of a file, or of a model's bytes."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]  # numba sets it
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def in_turn(session: onnxruntime.InferenceSession, name: str, x: np.ndarray, batch: int) -> Callable[[], Any]:
    """A call that runs so many images at a time."""
    parts = [x[k : k + batch] for k in range(0, len(x), batch)]
    return lambda: [session.run(None, {name: part}) for part in parts]
