"""Nodes of ONNX as they are added: what `onnx_model.py` and its parts build a graph of.

Between operations a value is int64, of blocks float64, images channels first. A constant is kept once for all
that are alike; `qonnx_model.py` adds nodes of its own kind and shares the names.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from intnet.errors import ConfigError
from intnet.export.program import Program
from intnet.export.values import Value

if TYPE_CHECKING:
    import onnx

OPSET, IR = 17, 8
IMAGES, LOGITS, EXPONENTS = "images", "logits", "exponents"
CHANNELS_FIRST, CHANNELS_LAST = [0, 3, 1, 2], [0, 2, 3, 1]


def installed(kind: str) -> ModuleType:
    """The package onnx; ConfigError where it is not installed, for what is to be written."""
    try:
        import onnx
    except ImportError:
        raise ConfigError(f"--to {kind} needs the package onnx: pip install 'intnet[onnx]'") from None
    return onnx


def modelled(package: ModuleType, graph: onnx.GraphProto, program: Program, *domains: str) -> onnx.ModelProto:
    """A program's graph as a model; domains: of operators, in version 1, beside ONNX's own."""
    make_opset = package.helper.make_opsetid
    return package.helper.make_model(
        graph,
        opset_imports=[make_opset("", OPSET), *(make_opset(domain, 1) for domain in domains)],
        ir_version=IR,
        producer_name="intnet",
        doc_string=program.title,
    )


class Graph:
    """The nodes so far."""

    def __init__(self, package: ModuleType) -> None:
        self.onnx = package
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self.initializers: list[onnx.TensorProto] = []
        self.exponents: dict[int, str] = {}  # of what chose a scale, by place

    def node(self, kind: str, reads: list[str], out: str = "", **attributes: Any) -> str:
        """A node more; the name of what it gives."""
        number = len(self.nodes) + 1
        name = out or f"v{number}"
        self.nodes.append(self.onnx.helper.make_node(kind, reads, [name], f"{kind}_{number}", **attributes))
        return name

    def constant(self, codes: ArrayLike, kind: DTypeLike = np.int64) -> str:
        """The name of a tensor, one for all that are alike."""
        array = np.asarray(codes, kind)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self.constants:
            self.constants[key] = f"c{len(self.constants)}"
            self.initializers.append(self.onnx.numpy_helper.from_array(array, self.constants[key]))
        return self.constants[key]

    def cast(self, x: str, kind: DTypeLike) -> str:
        """x as another type."""
        return self.node("Cast", [x], to=int(self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))))

    def channel(self, codes: np.ndarray, value: Value, kind: DTypeLike = np.int64) -> str:
        """Constants by channel, which broadcast over an image or a row."""
        images = len(value.shape) == 3 and len(codes) > 1
        return self.constant(codes.reshape(-1, 1, 1) if images else codes, kind)

    def divided(self, x: str, den: str) -> str:
        """x / den: up where 2 rest > den, or 2 rest = den and the floor is odd, without doubling."""
        rest = self.node("Mod", [x, den])
        floor = self.node("Div", [self.node("Sub", [x, rest]), den])
        above = self.node("Sub", [den, rest])
        odd = self.node("Equal", [self.node("Mod", [floor, self.constant([2])]), self.constant([1])])
        tie = self.node("And", [self.node("Equal", [rest, above]), odd])
        up = self.node("Or", [self.node("Greater", [rest, above]), tie])
        return self.node("Add", [floor, self.cast(up, np.int64)])

    def exponent(self, value: Value) -> str:
        """Of every image, (N,) or (1,)."""
        own = self.constant([value.exponent])
        return own if value.scale is None else self.node("Add", [self.exponents[value.scale], own])
