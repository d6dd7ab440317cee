"""Small networks behind a few steps of training, for tests of what leaves the house."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from intnet import methods, models
from intnet.datasets import Dataset
from intnet.export import writing
from intnet.export.program import Program
from intnet.models.model import Model
from intnet.spec import data, inference
from intnet.spec import models as spec_models
from intnet.spec.methods import METHODS
from intnet.spec.methods.step import Now
from intnet.spec.nets import Net
from intnet.training.train import Run
from tests.support import moving
from tests.support.cases import random_codes
from tests.support.states import state_of
from tests.support.stepping import TinyResNet

INTEGER: list[tuple[str, dict[str, Any]]] = [
    ("wageubn", {"edges": "fixed16", "saturate": 0}),
    ("wageubn", {"edges": "fixed16"}),
    ("adapt", {}),
    ("muppet", {}),
    ("dynasty", {"bits": 3.0}),
]
NETS: dict[str, tuple[Net, Any]] = {
    "mlp": (spec_models.mlp((8, 8, 1), 10, hidden=12), lambda: models.MLP((8, 8, 1), 10, hidden=12)),
    "lenet": (moving.NETS["lenet"], moving.TinyLeNet),
    "resnet": (moving.NETS["resnet"], TinyResNet),
}


def images_for(model: Model, n: int, seed: int = 3) -> np.ndarray:
    """Random bytes."""
    size = n * int(np.prod(model.image_shape))
    return np.array(random_codes(seed, size, 0, 255), np.uint8).reshape(n, *model.image_shape)


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
        given = data.Fixed(shape, image.reshape(-1).tolist(), run.data.exponent)
        found += inference.logits(NETS[net][0], module, settings, state, given, now).values
    return found


def program_of(net: str, method: str, options: dict[str, Any]) -> tuple[Run, Program]:
    """A run and its program."""
    run = trained(net, method, options)
    return run, writing.of_run(run)
