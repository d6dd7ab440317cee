"""Method `saved` as a whole: what the tape holds, which options say so, and that the bits are defined.

Its steps, tensor by tensor: `test_saved_step.py`; the codecs: `test_bucket_codec.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from intnet import datasets, methods, models
from intnet.errors import ConfigError, NumberError
from intnet.exact.blocks.buckets import Packed
from intnet.exact.blocks.signs import Signs
from intnet.methods.packing import Unrounded
from intnet.training.train import Run
from tests.support.opcheck import threads

STEPS = 3
OPTIONS: list[dict[str, Any]] = [
    {"codec": "affine", "bits": 4},
    {"codec": "affine-stochastic", "bits": 2, "bucket": 64},
    {"codec": "affine-stochastic", "bits": "2/4"},
    {"codec": "affine-stochastic", "bits": "2/4", "bucket": "tensor"},
    {"codec": "levels", "bits": "3/6", "norm": "l2", "bucket": 128},
    {"codec": "levels", "bits": 12},
]


def a_run(model: str = "resnet8", name: str = "saved", seed: int = 1, **options: Any) -> Run:
    rng = np.random.default_rng(5)
    images = rng.integers(0, 17, (24, 8, 8, 1)).astype(np.uint8)
    data = datasets.from_arrays(images, rng.integers(0, 10, 24), images[:8], np.zeros(8, np.int64), 10)
    return Run(
        models.make(model, data.image_shape, 10), methods.make(name, **options), data, batch_size=8, seed=seed
    )


def digest(**options: Any) -> str:
    run = a_run(**options)
    run.train(STEPS)
    return run.digest()


@pytest.mark.slow
@pytest.mark.parametrize("model", ["mlp", "resnet8", "efficientnetv2"])
def test_without_a_codec_the_bits_are_those_of_float32(model: str) -> None:
    assert digest(model=model, bits="off") == digest(model=model, name="float32")


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_rounding_late_gives_the_same_bits(options: dict[str, Any]) -> None:
    now = digest(**options)
    assert now != digest(bits="off")
    assert now == digest(**options, storage="on_backward")


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_threads_do_not_change_a_bit(options: dict[str, Any]) -> None:
    found = []
    for n in (1, 2):
        with threads(n):
            found.append(digest(model="resnet20", **options))
    assert found[0] == found[1]


@pytest.mark.slow
def test_silu_may_be_packed_too() -> None:
    options = {"model": "efficientnetv2", "codec": "affine", "bits": 6, "lr": "0.001"}
    now = digest(**options, silu="packed")
    assert now == digest(**options, silu="packed", storage="on_backward")
    assert now != digest(**options)


def test_seeds_and_steps_draw_other_words() -> None:
    run = a_run(bits=2)
    run.train(1)
    value = np.linspace(-1, 1, 1000, dtype=np.float32)
    layer = next(layer for layer in run.model.all_layers() if layer.takes_weight)
    packed = [run.method.save(layer, "x0", value)]
    run.method.set(step=run.step + 1)
    packed.append(run.method.save(layer, "x0", value))
    run.method.set(seed=run.seed + 1)
    packed.append(run.method.save(layer, "x0", value))
    codes = [one.codes().tolist() for one in packed]
    assert codes[0] != codes[1] and codes[1] != codes[2]


@pytest.mark.slow
def test_the_same_widths_mixed_with_certainty_are_one_width() -> None:
    """A share of 0 is the base's codes, a share of 1 the wider ones': the words of elements do not change."""
    assert digest(bits="2/4", mix_prob="0") == digest(bits="2")
    assert digest(bits="2/4", mix_prob="1") == digest(bits="4")


@pytest.mark.slow
def test_the_share_of_a_mix_follows_its_schedule() -> None:
    run = a_run(bits="2/4", mix_prob="1,0@1")
    shares = []
    for _ in range(2 * run.steps_per_epoch):
        run.train(run.step + 1)
        nominal = {bits for one in kept(run).values() for bits in one.widths.tolist()}
        shares.append((run.method.epoch, nominal))
    assert shares == [(0, {4})] * 3 + [(1, {2})] * 3


def kept(run: Run) -> dict[str, Packed]:
    """What one more forward pass gives to the tape."""
    from intnet.autograd import Tensor

    found: dict[str, Packed] = {}
    before = run.method.save

    def save(layer: Any, path: str, value: Any) -> Any:
        one = before(layer, path, value)
        if isinstance(one, Packed):
            found[f"{layer.name}/{path}"] = one
        return one

    run.method.save = save  # type: ignore[method-assign]
    try:
        run.method.set(training=True)
        run.method.set(epoch=(run.step - 1) // run.steps_per_epoch)
        run.model(Tensor(run.batch(0)[0]), run.method)
    finally:
        del run.method.save  # type: ignore[attr-defined]
    return found


# -- what is held --------------------------------------------------------------------------------


def test_what_the_tape_holds() -> None:
    """resnet8, 8 images of 8x8: elements by hand; masks a bit each; codes and metadata counted."""
    run = a_run(bits=2)
    run.train(1)
    held = run.method.held
    assert {name for name in held if name.startswith("layer1")} == {
        f"layer1.0.{name}"
        for name in ("conv1/x0", "bn1/x1", "relu1/mask", "conv2/x0", "bn2/x1", "relu2/mask")
    }
    n = 8 * 8 * 8 * 16
    assert held["layer1.0.conv1/x0"][:2] == (n, n * 2 // 8 + n // 512 * 8)
    assert held["layer1.0.relu1/mask"] == (n, n // 8, None)
    assert held["fc/x0"][:2] == (8 * 64, 8 * 64 * 2 // 8 + 8)
    off = a_run(bits="off")
    off.train(1)
    assert {one.nbytes for name, one in off.method.held.items() if name.startswith("layer1")} == {4 * n}


@pytest.mark.slow
def test_the_tape_lets_go_of_float32() -> None:
    """Nothing that the graph holds is a float32 tensor of the batch but weights' and what SiLU reads."""
    from intnet import ops
    from intnet.autograd import Tensor, reachable

    for silu, floats in (("float32", True), ("packed", False)):
        run = a_run("efficientnetv2", bits=4, silu=silu)
        images, labels = run.batch(0)
        loss = ops.softmax_cross_entropy(run.model(Tensor(images), run.method), labels=labels)
        assert loss.node is not None
        saved = [node.saved for node in reachable(loss.node) if node.saved is not None]
        values = [value for one in saved for value in vars(one).values()]
        arrays = [v for v in values if isinstance(v, np.ndarray) and v.ndim == 4 and v.shape[0] == 8]
        assert bool(arrays) == floats
        assert sum(isinstance(value, Packed) for value in values) > 50


def test_relu_keeps_a_bit_of_each_element() -> None:
    x = np.array([[-1.0, 0.0, -0.0, 1e-45, 2.0] * 30], np.float32)
    signs = Signs(x)
    assert signs.load().tolist() == [[0, 0, 0, 1, 1] * 30]
    assert signs.nbytes == 24  # 150 bits in words of 64


def test_storage_on_backward_holds_float32() -> None:
    run = a_run(bits=2, storage="on_backward")
    run.train(1)
    assert run.method.held["layer1.0.conv1/x0"] == (8 * 8 * 8 * 16, 4 * 8 * 8 * 8 * 16, None)
    layer = run.model.all_layers()[0]
    assert isinstance(run.method.save(layer, "x0", np.ones(8, np.float32)), Unrounded)


# -- options -------------------------------------------------------------------------------------


def test_options_by_layer() -> None:
    patterns = {"bits@layer2.*": "8", "bits@layer2.0.bn?": "off", "codec@*.conv1": "affine", "bits@fc": "2/4"}
    run = a_run(bits=2, **patterns)
    run.train(1)
    held = {name: one.codec for name, one in run.method.held.items() if not name.endswith("mask")}
    assert held["layer2.0.bn1/x1"] is None  # the last pattern that matches holds
    assert {name: (codec.kind, codec.widths) for name, codec in held.items() if codec} | {} == {
        "conv1/x0": ("affine-stochastic", (2,)),
        "bn1/x1": ("affine-stochastic", (2,)),
        "layer1.0.conv1/x0": ("affine", (2,)),
        "layer1.0.bn1/x1": ("affine-stochastic", (2,)),
        "layer1.0.conv2/x0": ("affine-stochastic", (2,)),
        "layer1.0.bn2/x1": ("affine-stochastic", (2,)),
        "layer2.0.conv1/x0": ("affine", (8,)),
        "layer2.0.conv2/x0": ("affine-stochastic", (8,)),
        "layer2.0.downsample.0/x0": ("affine-stochastic", (8,)),
        "layer2.0.downsample.1/x1": ("affine-stochastic", (8,)),
        "layer3.0.conv1/x0": ("affine", (2,)),
        "layer3.0.bn1/x1": ("affine-stochastic", (2,)),
        "layer3.0.conv2/x0": ("affine-stochastic", (2,)),
        "layer3.0.bn2/x1": ("affine-stochastic", (2,)),
        "layer3.0.downsample.0/x0": ("affine-stochastic", (2,)),
        "layer3.0.downsample.1/x1": ("affine-stochastic", (2,)),
        "fc/x0": ("affine-stochastic", (2, 4)),
    }
    assert methods.make("saved", **run.method.settings()).settings() == run.method.settings()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bits": "33"}, "bits"),
        ({"bits": "0"}, "bits"),
        ({"bits": "two"}, "is not B, B/C or off"),
        ({"bits": "2/4/8"}, "is not B, B/C or off"),
        ({"bits": "2/5"}, "needs mix_prob=P"),
        ({"bits": "4/2", "mix_prob": "0.5"}, "bits=4/2: the second width is the wider one"),
        ({"bits": "2/2", "mix_prob": "0.5"}, "bits=2/2: the second width is the wider one"),
        ({"bits": "4", "mix_prob": "0.5"}, "mix_prob=0.5: no layer mixes widths"),
        ({"bits": "4", "mix_prob@fc": "0.5"}, "mix_prob@fc=0.5: no layer mixes widths"),
        ({"bits": "33", "codec": "levels"}, "from 1 to 32"),
        ({"levels": "4"}, "levels=4 goes with codec=levels, not affine-stochastic"),
        ({"levels": "0", "codec": "levels"}, r"0 levels: there are from 1 to 2\^24"),
        ({"levels": "3/5", "codec": "levels"}, "levels=3/5 needs mix_prob=P, the share of 5 levels"),
        ({"levels": "5/3", "codec": "levels"}, "levels=5/3: the second width is the wider one"),
        ({"levels": "many", "codec": "levels"}, "is not L, L/M or off"),
        ({"saved.bits": "4"}, "its options have no 'saved.' ahead"),
        ({"bits": "2/4", "mix_prob": "1.5"}, "from 0 to 1"),
        ({"bits": "2/4", "mix_prob": "often"}, "VALUE@EPOCH"),
        ({"bucket": "0"}, "a whole number from 1 on, or tensor"),
        ({"bucket": "half"}, "is not a whole number"),
        ({"codec": "affin"}, "use one of affine, affine-stochastic, levels"),
        ({"bits@layr2.*": "4"}, "no layer of this model has such a name; there are conv1, bn1"),
        ({"lr@layer2.*": "4"}, "by layers one sets codec@PATTERN, bits@PATTERN"),
        ({"bits@": "4"}, "by layers one sets"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said_before_the_first_step(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        a_run(**options)


def test_other_methods_take_no_patterns() -> None:
    with pytest.raises(ConfigError, match="by layers one sets no key"):
        methods.make("float32", **{"lr@fc": "1"})


def test_a_value_that_no_codec_holds_is_named() -> None:
    run = a_run(bits=4)
    layer = next(layer for layer in run.model.all_layers() if layer.name == "layer1.0.conv1")
    x = np.ones((2, 3), np.float32)
    x[1, 2] = np.nan
    with pytest.raises(NumberError, match=r"layer1.0.conv1/x0: NaN or infinity at index \(1, 2\)"):
        run.method.save(layer, "x0", x)


def test_clipped_codes_are_counted() -> None:
    """Buckets whose zero point is rounded may clip an end: such codes are told, for they are not unbiased."""
    run = a_run(bits=2)
    run.train(1)
    assert any(name.endswith("/x1s") for name in run.method.saturated)
    run.method.start(run.model.all_layers(), seed=1)  # which counts anew
    assert not run.method.saturated
