"""What a run answers of new images, by `==` with the definition; what a batch may change of it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from intnet import datasets, fit, methods, models, spec
from intnet.errors import ConfigError, DataError, NumberError, ShapeError
from intnet.spec import data, inference
from intnet.spec import models as spec_models
from intnet.spec.loss import cross_entropy, loss_of, targets
from intnet.spec.methods import METHODS
from intnet.spec.methods.step import Now
from intnet.spec.tensor import Tensor
from intnet.training.train import Run
from tests.support.states import state_of

FEATURES, CLASSES, HIDDEN = 5, 3, 6
TOGETHER = ("muppet", "dynasty", "banner")  # scale by what a batch shares


def examples(n: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of both signs, some ten times as great as others, and their classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, FEATURES)) * [1, 10, 1, 0.1, 1]
    return X, (X[:, 0] > 0).astype(int) + (X[:, 2] > 0)


def trained(method: str, **options: Any) -> Run:
    model = models.MLP((1, 1, FEATURES), CLASSES, hidden=HIDDEN)
    return fit(model, methods.make(method, **options), examples(24), batch_size=8)


def defined(run: Run, X: np.ndarray) -> Tensor:
    """Logits by the definition, of codes by the definition, as one batch."""
    exponent = run.data.exponent
    codes = [data.number_code(Fraction(float(x)), exponent) for x in X.flat]
    module = METHODS[run.method.name]
    settings, now = module.Settings.from_options(run.method.settings()), Now(run.seed, run.step, 3)
    net = spec_models.mlp((1, 1, FEATURES), CLASSES, hidden=HIDDEN)
    images = data.Fixed((len(X), 1, 1, FEATURES), codes, exponent)
    return inference.logits(net, module, settings, state_of(run), images, now)


def fractions(values: np.ndarray) -> list[Fraction]:
    return [Fraction(float(v)) for v in values.reshape(-1)]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_classes_probabilities_and_scores_are_the_definition_s(method: str) -> None:
    run, (X, y) = trained(method), examples(20, 2)
    X[3] *= 50  # beyond all that was trained on: codes of more than 16 bits
    logits = defined(run, X)
    assert run.data.exponent == spec.data.number_exponent(
        max(abs(Fraction(float(x))) for x in examples(24)[0].flat)
    )
    assert run.predict(X).tolist() == inference.classes(logits)
    rows = [logits.values[CLASSES * i : CLASSES * (i + 1)] for i in range(len(X))]
    wanted = [p for row in rows for p in loss_of(row, 0, targets(0, CLASSES)).p]
    assert fractions(run.predict_proba(X)) == wanted
    found = run.evaluate(X, y)
    assert found.places.tolist() == inference.ranks(logits, y.tolist())
    assert Fraction(found.loss) == cross_entropy(logits, y.tolist()).loss
    assert found.images == 20 and found.top(CLASSES) == 1


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_batch_changes_no_bit_but_where_it_is_defined_to(method: str) -> None:
    """Methods that scale whole tensors: of each size what the definition has for batches of it."""
    run, (X, _) = trained(method), examples(20, 3)
    whole = run.predict_proba(X)
    for size in (1, 7, 20, 300):
        found = run.predict_proba(X, batch_size=size)
        if method not in TOGETHER:
            assert fractions(found) == fractions(whole), size
        parts = [X[k : k + size] for k in range(0, len(X), size)]
        classes = [c for part in parts for c in inference.classes(defined(run, part))]
        assert run.predict(X, batch_size=size).tolist() == classes, size


def test_what_is_asked_leaves_the_run_as_it_is() -> None:
    run, (X, y) = trained("wageubn"), examples(9, 4)
    before, counted = run.digest(), dict(run.method.saturated)
    run.predict(X)
    run.evaluate(X, y, reestimate=2)
    assert (run.digest(), run.method.saturated) == (before, counted)


def test_a_test_part_and_its_arrays_have_the_same_scores() -> None:
    digits = datasets.load("digits")
    run = fit(models.mlp(digits.image_shape, 10), methods.Float32(), digits)
    own, given = run.evaluate(), run.evaluate(digits.test_images, digits.test_labels)
    assert (own.loss, own.places.tolist()) == (given.loss, given.places.tolist())
    assert repr(own).startswith(f"Scores(accuracy {own.accuracy:.2%}, top-5 ")


def test_what_cannot_be_asked() -> None:
    run, (X, y) = trained("float32"), examples(9, 4)
    cases: list[tuple[Any, type[Exception], str]] = [
        (run.evaluate, ConfigError, "data set 'arrays' has no test part: give it one"),
        (lambda: run.evaluate(X), ConfigError, "or neither: the test part"),
        (lambda: run.evaluate(X, y[:3]), ShapeError, "9 images in X but 3 labels in y"),
        (lambda: run.evaluate(X, y + 1), DataError, "y: label 3 at index"),
        (lambda: run.predict(X[0]), DataError, "one example alone is X"),
        (lambda: run.predict(X[:, :4]), DataError, "the run's are of"),
        (lambda: run.predict(X, batch_size=0), ConfigError, "batch_size=0: a whole number of at least 1"),
    ]
    for asked, kind, message in cases:
        with pytest.raises(kind, match=message):
            asked()
    run.model.fc3.bias.value[:] = np.nan
    assert np.isnan(run.evaluate(X, y).loss)
    with pytest.raises(NumberError, match="the logits hold a NaN or infinity"):
        run.predict_proba(X)
