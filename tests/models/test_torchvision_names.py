"""Models that torchvision has too: its names, shapes and numbers of parameters, both stems, and refusals."""

from __future__ import annotations

import math

import pytest

from intnet import models
from intnet.errors import ConfigError, ShapeError
from intnet.models.model import Model

# parameters of torchvision's, 1,000 classes, as its documentation gives them
COUNTS = {"alexnet": 61_100_840, "resnet18": 11_689_512, "resnet34": 21_797_672, "resnet50": 25_557_032}
ALEXNET = {  # out, in, kernel: of layer
    "features.0": (64, 3, 11, 11),
    "features.3": (192, 64, 5, 5),
    "features.6": (384, 192, 3, 3),
    "features.8": (256, 384, 3, 3),
    "features.10": (256, 256, 3, 3),
    "classifier.1": (4096, 9216),
    "classifier.4": (4096, 4096),
    "classifier.6": (1000, 4096),
}


def shapes(model: Model) -> dict[str, tuple[int, ...]]:
    return {name: parameter.shape for name, _, parameter in model.all_parameters()}


def residual(blocks: tuple[int, ...], bottleneck: bool) -> dict[str, tuple[int, ...]]:
    """Names and shapes by He et al.'s table 1 and torchvision's attributes."""
    found: dict[str, tuple[int, ...]] = {}

    def convolution(at: str, norm: str, *shape: int) -> None:
        found[f"{at}.weight"] = shape
        found.update({f"{norm}.{kind}": (shape[0],) for kind in ("weight", "bias")})

    convolution("conv1", "bn1", 64, 3, 7, 7)
    before = 64
    for stage, (wide, count) in enumerate(zip((64, 128, 256, 512), blocks, strict=True), start=1):
        out = wide * 4 if bottleneck else wide
        for k in range(count):
            at, parts = f"layer{stage}.{k}", [(wide, before, 3), (out, wide, 3)]
            if bottleneck:
                parts = [(wide, before, 1), (wide, wide, 3), (out, wide, 1)]
            for i, (o, c, side) in enumerate(parts, start=1):
                convolution(f"{at}.conv{i}", f"{at}.bn{i}", o, c, side, side)
            if before != out:
                convolution(f"{at}.downsample.0", f"{at}.downsample.1", out, before, 1, 1)
            before = out
    return found | {"fc.weight": (1000, before), "fc.bias": (1000,)}


@pytest.mark.parametrize(
    ("name", "blocks", "bottleneck"),
    [("resnet18", (2, 2, 2, 2), False), ("resnet34", (3, 4, 6, 3), False), ("resnet50", (3, 4, 6, 3), True)],
)
def test_residual_networks(name: str, blocks: tuple[int, ...], bottleneck: bool) -> None:
    got = shapes(models.make(name, (224, 224, 3), 1000))
    assert got == residual(blocks, bottleneck) and next(iter(got)) == "conv1.weight"
    assert sum(map(math.prod, got.values())) == COUNTS[name]


def test_alexnet() -> None:
    got = shapes(models.make("alexnet", (224, 224, 3), 1000))
    want = {f"{layer}.weight": shape for layer, shape in ALEXNET.items()}
    assert got == want | {f"{layer}.bias": shape[:1] for layer, shape in ALEXNET.items()}
    assert sum(map(math.prod, got.values())) == COUNTS["alexnet"]


@pytest.mark.parametrize("name", models.STEMMED)
def test_the_stem_is_by_size_or_by_name(name: str) -> None:
    def first(kind: str, side: int) -> tuple[int, ...]:
        model = models.make(kind, (side, side + 9, 3), 10)
        assert model.kind == kind
        return next(iter(shapes(model).values()))

    imagenet = 11 if name == "alexnet" else 7
    assert {side: first(name, side)[2] for side in (16, 63, 64)} == {16: 3, 63: 3, 64: imagenet}
    assert first(f"{name}-cifar", 64)[2] == 3
    assert first(f"{name}-imagenet", 63)[2] == imagenet


def test_bottlenecks_stride_on_their_3x3() -> None:
    layers = {layer.name: layer for layer in models.make("resnet50", (64, 64, 3), 10).all_layers()}
    strided = {name for name, layer in layers.items() if getattr(layer, "stride", (1,))[0] == 2}
    blocks = {f"layer{k}.0.{part}" for k in (2, 3, 4) for part in ("conv2", "downsample.0")}
    assert strided == blocks | {"conv1", "maxpool"}
    assert (layers["conv1"].edge, layers["fc"].edge) == ("first", "last")


def test_what_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"^alexnet-imagenet needs images of at least 63x63, not 62x80"):
        models.make("alexnet-imagenet", (62, 80, 3), 10)
    with pytest.raises(ConfigError, match=r"unknown model 'resnet20-imagenet'; did you mean 'resnet20'"):
        models.make("resnet20-imagenet", (64, 64, 3), 10)
    with pytest.raises(ConfigError, match=r"unknown model 'resnet50-mnist'"):
        models.make("resnet50-mnist", (64, 64, 3), 10)
    with pytest.raises(ConfigError, match="stem 'mnist': use one of cifar, imagenet"):
        models.resnet50((64, 64, 3), 10, stem="mnist")
