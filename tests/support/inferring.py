"""Inference by the library and by the definition after a run's steps: logits, classes, ranks."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from intnet.autograd import Tensor as Value
from intnet.ops.loss import float_logits
from intnet.spec import inference
from intnet.spec.methods import METHODS
from intnet.spec.methods.step import Now
from intnet.spec.models import Net
from intnet.spec.tensor import Fixed
from intnet.training.inference import as_codes, classified, ranks
from intnet.training.train import Run
from tests.support.states import state_of


def agree(run: Run, net: Net, images: np.ndarray) -> None:
    """AssertionError where a number of the library is not the definition's."""
    codes = as_codes(images, run.data.exponent)
    module = METHODS[run.method.name]
    settings = module.Settings.from_options(run.method.settings())
    given = Fixed(images.shape, images.reshape(-1).tolist(), run.data.exponent)
    now = Now(run.seed, run.step, run.steps_per_epoch)
    want = inference.logits(net, module, settings, state_of(run), given, now)
    got = classified(run.model, run.method, images, run.data.exponent)
    with run.method.within(training=False):
        logits = float_logits(run.model(Value(codes), run.method).value)
    assert [Fraction(float(v)) for v in logits.reshape(-1)] == want.values
    assert got.tolist() == inference.classes(want)
    labels = np.arange(len(images)) % logits.shape[1]
    assert ranks(logits, labels).tolist() == inference.ranks(want, labels.tolist())
