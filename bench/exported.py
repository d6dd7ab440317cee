"""What does an image cost in an exported lenet5, beside ONNX Runtime's int8?

Images of 28x28x1, one at a time and on one thread, as a device has them: what `intnet export` writes, the C
file compiled by `cc -O3 -march=native` and the ONNX model in ONNX Runtime, after one training step. The peer
is the same network with batch norms folded, quantized by ONNX Runtime's own tool (as in `inference.py`).
"""

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from bench import peers
from bench.summary import Row, ratio
from bench.timing import medians
from bench.training import run
from intnet import methods
from intnet.export import c_source, onnx_graph, onnx_model, writing
from intnet.export.program import Program

IMAGES = 16
QUESTION = "an image through an exported lenet5, 28x28x1, one at a time, one thread"
METHODS: dict[str, dict[str, Any]] = {
    "wageubn": {"edges": "fixed16", "saturate": 0}, "adapt": {}, "muppet": {}, "dynasty": {},
}  # fmt: skip
PEER = "ONNX Runtime int8"
COMPILE = ("cc", "-std=c99", "-O3", "-march=native", "-shared", "-fPIC")


def compiled(program: Program, images: np.ndarray, folder: str) -> Callable[[], Any]:
    """A call of the C file for every image."""
    source, library = Path(folder, "model.c"), Path(folder, "model.so")
    source.write_text(c_source.source(program)[0], "ascii")
    subprocess.run([*COMPILE, source, "-o", library], check=True)
    call = ctypes.CDLL(str(library)).intnet_run
    logits = (ctypes.c_int64 * int(np.prod(program.logits.shape)))()
    given = [np.ascontiguousarray(image) for image in images]
    return lambda: [call(ctypes.c_void_p(image.ctypes.data), logits) for image in given]


def rows() -> list[Row]:
    images = np.random.default_rng(0).integers(0, 256, (IMAGES, 28, 28, 1)).astype(np.uint8)
    calls = dict[str, Callable[[], Any]]()
    for name, options in METHODS.items():
        trained = run(methods.make(name, **options), "lenet5")
        trained.train_step()
        program = writing.of_run(trained)
        with TemporaryDirectory() as folder:
            calls[f"{name}, C"] = compiled(program, images, folder)
        if peers.onnx_runtime():
            from bench import onnx_nets

            session = onnx_nets.session(onnx_model.model(program).SerializeToString(), threads=1)
            calls[f"{name}, ONNX"] = onnx_nets.in_turn(session, onnx_graph.IMAGES, images, 1)
    if peers.onnx_runtime():
        from bench import onnx_nets

        calls |= onnx_nets.sessions(images, onnx_nets.Net.lenet5, threads=1, batch=1)
    seconds = medians(calls)
    return [
        {"what": name, "us an image": value / IMAGES * 1e6, f"x {PEER}": ratio(seconds.get(PEER), value)}
        for name, value in seconds.items()
    ]


def targets(rows: list[Row]) -> list[Row]:
    """None is set: what is exported is compiled for no processor."""
    return []
