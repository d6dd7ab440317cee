"""From a run to files: its program, held to the run's own logits, in one of `KINDS`.

program = of_run(run)
written = write(program, "c", "model.c")
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from intnet.datasets.places import without_folder
from intnet.errors import ConfigError, DataError
from intnet.export import batch, c_source, memories, model_file, onnx_model, qonnx_model
from intnet.export.block_ops import BlockProduct
from intnet.export.program import Program
from intnet.export.trace import trace
from intnet.runs import files
from intnet.runs.archive import PathLike
from intnet.training.inference import all_logits
from intnet.training.reestimate import norms_of
from intnet.training.train import Run

CHECKED = 16  # images whose logits are compared ahead of writing

Told = dict[str, Any]


def of_run(run: Run) -> Program:
    """The program of a run as it stands; ConfigError where one of its first images has other logits by it.

    Of a method whose scales follow a batch it is that of batches of one image.
    """
    data, model = run.data, run.model
    images = np.asarray((data.test_images if len(data.test_images) else data.train_images)[:CHECKED])
    program = trace(model, run.method, images, data.exponent)
    name = without_folder(data.name)
    title = f"{model.kind} on {name} by {run.method.name}, {run.step} steps of seed {run.seed}"
    about = {
        "title": title, "method": run.method.name, "model": model.kind, "data": name,
        "classes": model.classes, "steps": run.step, "seed": run.seed, "state_sha256": run.digest(),
        "batch_norm": "running" if norms_of(model) else None,
    }  # fmt: skip
    program = Program(program.ops, about)
    wanted = all_logits(model, run.method, images, data.exponent, batch_size=1)
    if not np.array_equal(batch.logits32(program, images), wanted):
        raise ConfigError(f"{title}: its program gives other logits than the run: please report this defect")
    return program


def write(program: Program, kind: str, out: PathLike) -> Told:
    """Write a new file, or of `mem` a new folder; what there is to tell of it."""
    return KINDS[kind](program, Path(out))


def _c(program: Program, out: Path) -> Told:
    text, sizes = c_source.source(program)
    files.replace(out, text.encode("ascii"))
    return {"constant_bytes": sizes.constants, "memory_bytes": sizes.memory}


def _onnx(program: Program, out: Path) -> Told:
    made = onnx_model.model(program)
    files.replace(out, made.SerializeToString())
    kinds = [node.op_type for node in made.graph.node]
    eight = sum(kinds.count(kind) for kind in ("ConvInteger", "MatMulInteger"))
    by_digits = any(isinstance(op, BlockProduct) for op in program.ops)
    wide = "products_of_digits" if by_digits else "products_of_32_or_64_bits"
    return {"nodes": len(kinds), "products_of_8_bits": eight, wide: kinds.count("MatMul")}


def _qonnx(program: Program, out: Path) -> Told:
    made = qonnx_model.model(program)
    files.replace(out, made.SerializeToString())
    kinds = [node.op_type for node in made.graph.node]
    return {
        "nodes": len(kinds),
        "quant": kinds.count("Quant"),
        "multi_threshold": kinds.count("MultiThreshold"),
    }


def _mem(program: Program, out: Path) -> Told:
    try:
        names = files.write_folder(out, memories.files(program))
    except OSError as error:
        raise DataError(f"{out}: {error.strerror or error}") from None
    return {"files": len(names), "words": sum(constant.words for constant in memories.constants(program))}


def _npz(program: Program, out: Path) -> Told:
    return {"packed_bytes": model_file.save(out, program)}


KINDS: dict[str, Callable[[Program, Path], Told]] = {
    "c": _c, "onnx": _onnx, "qonnx": _qonnx, "mem": _mem, "npz": _npz
}  # fmt: skip
