"""Residual networks: PyTorch's names and shapes, and a step of the wide one on tiny images."""

from __future__ import annotations

import numpy as np
import pytest

from intnet import methods, models
from intnet.autograd import Tensor
from intnet.datasets import Dataset
from intnet.training.inference import as_codes
from intnet.training.train import Run

CHANNELS = (64, 128, 256, 512)


def torch_names() -> list[str]:
    """Parameters of torchvision's resnet18, in its order, with batch norm's as there."""
    names = ["conv1.weight", "bn1.weight", "bn1.bias"]
    for stage in range(1, 5):
        for block in range(2):
            at = f"layer{stage}.{block}"
            for k in (1, 2):
                names += [f"{at}.conv{k}.weight", f"{at}.bn{k}.weight", f"{at}.bn{k}.bias"]
            if stage > 1 and block == 0:
                names += [f"{at}.downsample.{part}" for part in ("0.weight", "1.weight", "1.bias")]
    return [*names, "fc.weight", "fc.bias"]


def test_resnet18_has_pytorchs_names_and_shapes() -> None:
    model = models.make("resnet18", (32, 32, 3), 100)
    shapes = {name: parameter.shape for name, _, parameter in model.all_parameters()}
    assert list(shapes) == torch_names()
    assert shapes["conv1.weight"] == (64, 3, 3, 3)
    assert shapes["fc.weight"] == (100, 512)
    for stage, channels in enumerate(CHANNELS, start=1):
        before = CHANNELS[max(stage - 2, 0)]
        assert shapes[f"layer{stage}.0.conv1.weight"] == (channels, before, 3, 3)
        assert shapes[f"layer{stage}.1.conv2.weight"] == (channels, channels, 3, 3)
        if stage > 1:
            assert shapes[f"layer{stage}.0.downsample.0.weight"] == (channels, before, 1, 1)
    # torchvision's has 11,689,512 with its stem of 7x7 and 1,000 classes
    stem, classes = 64 * 3 * (49 - 9), 900 * 513
    assert sum(int(np.prod(shape)) for shape in shapes.values()) == 11_689_512 - stem - classes


def test_strides_and_edges() -> None:
    layers = {layer.name: layer for layer in models.make("resnet18", (8, 8, 1), 10).all_layers()}
    strides = {name: layer.stride[0] for name, layer in layers.items() if hasattr(layer, "stride")}
    halves = {f"layer{k}.0.{part}" for k in (2, 3, 4) for part in ("conv1", "downsample.0")}
    assert {name for name, stride in strides.items() if stride == 2} == halves
    assert (layers["conv1"].edge, layers["fc"].edge) == ("first", "last")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["float32", "wageubn"])
def test_a_step_of_resnet18(name: str) -> None:
    draw = np.random.default_rng(3)
    pixels, labels = draw.integers(0, 256, (4, 8, 8, 1)).astype(np.uint8), np.array([0, 1, 1, 0])
    data = Dataset("noise", pixels, labels, pixels, labels, -8, 2)
    run = Run(models.make("resnet18", data.image_shape, 2), methods.make(name), data, batch_size=4)
    assert np.isfinite(run.train_step().loss)
    run.method.set(training=False)
    assert run.model(Tensor(as_codes(pixels, -8)), run.method).value.shape == (4, 2)
