"""Networks after a few steps of training, for tests of what leaves the house; its numbers in C and ONNX."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet import methods, models
from intnet.datasets import Dataset
from intnet.export import batch, c_source, onnx_graph, onnx_model, writing
from intnet.export.program import Program
from intnet.export.values import CODES
from intnet.models.model import Model
from intnet.spec import inference
from intnet.spec import models as spec_models
from intnet.spec.methods import METHODS
from intnet.spec.methods.step import Now
from intnet.spec.models import Net
from intnet.spec.tensor import Fixed
from intnet.training.train import Run
from tests.support.states import state_of
from tests.support.two_worlds import random_images
from tests.support.zoo import KINDS

INTEGER: list[tuple[str, dict[str, Any]]] = [
    ("wageubn", {"edges": "fixed16", "saturate": 0}),
    ("wageubn", {"edges": "fixed16"}),
    ("adapt", {}),
    ("muppet", {}),
    ("dynasty", {"bits": 3.0}),
]
NETS: dict[str, tuple[Net, Any]] = {
    "mlp": (spec_models.mlp((8, 8, 1), 10, hidden=12), lambda: models.MLP((8, 8, 1), 10, hidden=12)),
    "lenet": KINDS["lenet"],
    "resnet": KINDS["resnet"],
}

FEWEST_FIRST = ["mlp", *(pytest.param(net, marks=pytest.mark.slow) for net in NETS if net != "mlp")]
STRICT = ["-std=c99", "-O1", "-pedantic", "-Wall", "-Wextra", "-Werror", "-DINTNET_MAIN"]
SANITIZED = [*STRICT, "-fsanitize=undefined,address", "-fno-sanitize-recover=all"]
NEEDS_RUNTIME = "needs the packages onnx and onnxruntime: pip install -e '.[test]'"


def images_for(model: Model, n: int, seed: int = 3) -> np.ndarray:
    """Random bytes."""
    return np.asarray(random_images(model, n, seed)[0].test_images)


def trained(net: str, method: str, options: dict[str, Any], steps: int = 4) -> Run:
    """A few steps on random images; 20 others to test on."""
    model = NETS[net][1]()
    labels = np.arange(24) % model.classes
    images, others = images_for(model, 24), images_for(model, 20, 5)
    found = Dataset("random bytes", images, labels, others, labels[:20], -8, model.classes)
    run = Run(model, methods.make(method, **options), found, 12, 5)
    run.train(steps)
    return run


def by_the_definition(run: Run, net: str, images: np.ndarray) -> list[Fraction]:
    """Float32 logits of images, each a batch of its own."""
    module, state = METHODS[run.method.name], state_of(run)
    settings = module.Settings.from_options(run.method.settings())
    now, shape = Now(run.seed, run.step, run.steps_per_epoch), (1, *images.shape[1:])
    found = []
    for image in images:
        given = Fixed(shape, image.reshape(-1).tolist(), run.data.exponent)
        found += inference.logits(NETS[net][0], module, settings, state, given, now).values
    return found


def program_of(net: str, method: str, options: dict[str, Any]) -> tuple[Run, Program]:
    """A run and its program."""
    run = trained(net, method, options)
    return run, writing.of_run(run)


def wanted(program: Program, images: np.ndarray) -> list[list[int]]:
    """What the program of C prints of them."""
    codes, exponents = batch.outputs(program, images)
    return (codes if program.logits.scale is None else np.hstack([codes, exponents])).tolist()


def by_c(program: Program, images: np.ndarray, folder: Path, compiler: str) -> list[list[float]]:
    """Logits of images in the data's own type, codes or float32."""
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} here")
    (folder / "model.c").write_text(c_source.source(program)[0], "ascii")
    subprocess.run([compiler, *SANITIZED, "model.c", "-o", "model"], cwd=folder, check=True)
    little = images.astype(images.dtype.newbyteorder("<")).tobytes()
    done = subprocess.run([folder / "model"], input=little, capture_output=True, check=True)
    number = int if program.logits.form == CODES else lambda text: float(np.float32(text))
    return [[number(one) for one in line.split()] for line in done.stdout.splitlines()]


def by_runtime(program: Program, images: np.ndarray) -> tuple[np.ndarray, Counter[str]]:
    """Logits, whose exponents are found to be right, and how many nodes of each kind."""
    pytest.importorskip("onnx", reason=NEEDS_RUNTIME)
    runtime = pytest.importorskip("onnxruntime", reason=NEEDS_RUNTIME)
    made = onnx_model.model(program)
    props = {prop.key: prop.value for prop in made.metadata_props}
    own = program.logits.scale is not None
    plain = not own and program.logits.form == CODES
    assert props == ({"logits_exponent": str(program.logits.exponent)} if plain else {})
    session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    kind = images.dtype if images.dtype in (np.uint8, np.int16) else np.int32
    codes, *exponents = session.run(None, {onnx_graph.IMAGES: images.astype(kind)})
    assert [e.tolist() for e in exponents] == [batch.outputs(program, images)[1][:, 0].tolist()] * own
    return codes, Counter(node.op_type for node in made.graph.node)
