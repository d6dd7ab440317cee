"""efficientnetv2: the numbers of the thesis's table, torchvision's names, what a stage is made of; a step."""

from __future__ import annotations

from collections import Counter
from math import prod

import numpy as np
import pytest

from intnet import methods, models
from intnet.autograd import Tensor
from intnet.datasets import Dataset
from intnet.errors import ShapeError
from intnet.layers import Conv2d, SiLU
from intnet.methods import Float32
from intnet.training.inference import as_codes
from intnet.training.train import Run

BATCH = 128
ELEMENTS = {  # J. Li (2025), table 4.1: 32x32 images, a batch of 128
    "Stem": 3_145_728,
    "MB1": 3_145_728,
    "MB2": 1_572_864,
    "MB3": 655_360,
    "MB4": 327_680,
    "MB5": 557_056,
    "MB6": 786_432,
    "Head": 2_621_440,
    "Classifier": 163_840,
}


@pytest.mark.slow
def test_the_outputs_of_the_blocks_are_those_of_the_table() -> None:
    model, method = models.make("efficientnetv2", (32, 32, 3), 10), Float32()
    for _, _, parameter in model.all_parameters():
        parameter.value = np.zeros(parameter.shape, np.float32)
    model(Tensor(np.zeros((1, 32, 32, 3), np.float32)), method)
    layers = dict(model.walk())
    shapes = {row: layers[name].output_shape for row, name in model.blocks.items()}
    assert {row: BATCH * prod(shape) for row, shape in shapes.items()} == ELEMENTS
    assert sum(ELEMENTS.values()) == 12_976_128
    assert shapes["Stem"] == (1, 32, 32, 24) and shapes["MB6"] == (1, 4, 4, 384)


def test_blocks_have_torchvisions_names_and_shapes() -> None:
    """Of one block of each kind: Fused-MBConv without and with expansion, MBConv."""
    model = models.make("efficientnetv2", (32, 32, 3), 10)
    shapes = {name: parameter.shape for name, _, parameter in model.all_parameters()}
    assert shapes["features.0.0.weight"] == (24, 3, 3, 3) and shapes["features.0.1.bias"] == (24,)
    assert shapes["features.1.0.block.0.0.weight"] == (24, 24, 3, 3)
    assert shapes["features.2.0.block.0.0.weight"] == (96, 24, 3, 3)
    assert shapes["features.2.0.block.1.0.weight"] == (48, 96, 1, 1)
    parts = {
        key.removeprefix("features.5.1.block."): s for key, s in shapes.items() if "features.5.1." in key
    }
    weights = {name: shape for name, shape in parts.items() if len(shape) > 1}
    assert weights == {
        "0.0.weight": (1632, 272, 1, 1),
        "1.0.weight": (1632, 1, 3, 3),
        "2.fc1.weight": (68, 1632),  # torchvision's have two axes of 1 more
        "2.fc2.weight": (1632, 68),
        "3.0.weight": (272, 1632, 1, 1),
    }
    assert {name for name in parts if ".fc" in name} == {
        f"2.fc{k}.{p}" for k in (1, 2) for p in ("weight", "bias")
    }
    assert shapes["features.7.0.weight"] == (1280, 384, 1, 1) and shapes["classifier.weight"] == (10, 1280)
    blocks = Counter(name.split(".")[1] for name, _ in model.walk() if name.endswith(".block"))
    assert blocks == {"1": 1, "2": 2, "3": 2, "4": 3, "5": 3, "6": 4} and sum(blocks.values()) == 15


def test_strides_edges_and_activations() -> None:
    layers = dict(models.make("efficientnetv2", (8, 8, 1), 10).walk())
    halves = {name for name, layer in layers.items() if isinstance(layer, Conv2d) and layer.stride == (2, 2)}
    assert halves == {"features.2.0.block.0.0", "features.3.0.block.0.0", "features.4.0.block.1.0"}
    assert (layers["features.0.0"].edge, layers["classifier"].edge) == ("first", "last")
    linear = {
        name for name in layers if name.endswith(".block.1.2")
    }  # of a Fused-MBConv: no activation there
    assert all(isinstance(layers[name], SiLU) and name[9] in "456" for name in linear)


def test_smaller_images_are_refused() -> None:
    with pytest.raises(ShapeError, match="efficientnetv2 needs images of at least 8x8, not 8x7"):
        models.make("efficientnetv2", (8, 7, 1), 10)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["float32", "wageubn"])
def test_a_step(name: str) -> None:
    draw = np.random.default_rng(3)
    pixels, labels = draw.integers(0, 256, (4, 9, 8, 2)).astype(np.uint8), np.array([0, 1, 1, 0])
    data = Dataset("noise", pixels, labels, pixels, labels, -8, 2)
    run = Run(models.make("efficientnetv2", data.image_shape, 2), methods.make(name), data, batch_size=4)
    assert np.isfinite(run.train_step().loss)
    run.method.set(training=False)
    assert run.model(Tensor(as_codes(pixels, -8)), run.method).value.shape == (4, 2)
