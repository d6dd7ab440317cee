"""alexnet: its shapes, and a step of it under the methods that were published with it."""

import numpy as np
import pytest

from intnet import methods, models
from intnet.autograd import Tensor
from intnet.datasets import Dataset
from intnet.errors import ShapeError
from intnet.training.inference import as_codes
from intnet.training.train import Run

# (name, weights): 64, 192, 384, 256, 256 kernels of 3x3; 4096, 4096 and 10 outputs; 32x32 leaves 2x2 of 256
WEIGHTS = {
    "features.0": 64 * 3 * 9,
    "features.3": 192 * 64 * 9,
    "features.6": 384 * 192 * 9,
    "features.8": 256 * 384 * 9,
    "features.10": 256 * 256 * 9,
    "classifier.1": 4096 * 256 * 4,
    "classifier.4": 4096 * 4096,
    "classifier.6": 10 * 4096,
}


def images(n: int, side: int) -> Dataset:
    """Random bytes of two classes."""
    draw = np.random.default_rng(7)
    pixels = draw.integers(0, 256, (2 * n, side, side, 3)).astype(np.uint8)
    labels = draw.integers(0, 2, 2 * n)
    return Dataset("noise", pixels[:n], labels[:n], pixels[n:], labels[n:], -8, 2)


def test_shapes() -> None:
    model = models.make("alexnet", (32, 32, 3), 10)
    sizes = {layer.name: int(np.prod(p.shape)) for _, layer, p in model.all_parameters() if p.symbol == "W"}
    assert sizes == WEIGHTS
    assert (model.features.layers[0].edge, model.classifier.layers[-1].edge) == ("first", "last")
    with pytest.raises(ShapeError, match="at least 16x16, not 8x8"):
        models.make("alexnet", (8, 8, 1), 10)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "side"), [("adapt", 16), ("muppet", 18)])
def test_a_step(name: str, side: int) -> None:
    data = images(2, side)
    run = Run(models.make("alexnet", data.image_shape, 2), methods.make(name), data, batch_size=2)
    before = run.model.classifier.layers[-1].weight.value.copy()
    report = run.train_step()
    assert np.isfinite(report.loss) and set(report.widths) == set(WEIGHTS)
    assert all(entry["WL"] == 8 for entry in report.widths.values())
    assert not np.array_equal(before, run.model.classifier.layers[-1].weight.value)
    run.method.set(training=False)
    logits = run.model(Tensor(as_codes(data.test_images, -8)), run.method).value
    assert logits.shape == (2, 2)
