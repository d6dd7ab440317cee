"""Random crops and mirror images: bits against the oracle, shares, texts, and runs that carry them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet import datasets
from intnet.datasets import Augment
from intnet.datasets.augment import offsets
from intnet.errors import ConfigError
from intnet.runs import run_folder
from intnet.spec import data as oracle
from tests.support.command import MLP, here, last_line, refused, signalled

SHAPES = [(5, 6, 4, 3), (3, 4, 4, 1), (1, 2, 7, 2)]


@pytest.mark.parametrize(("crop", "flip"), [(1, False), (0, True), (1, True)])
@pytest.mark.parametrize("seed", [0, 1, 2**63 + 5])
def test_bits(crop: int, flip: bool, seed: int) -> None:
    for step in (0, 1, 77, 2**32 - 1):
        for shape in SHAPES:
            images = np.arange(1, 1 + int(np.prod(shape)), dtype=np.uint8).reshape(shape)
            before = images.tobytes()
            made = Augment(crop, flip)(images, seed, step)
            assert made.dtype == np.uint8 and images.tobytes() == before
            assert made.tolist() == oracle.augmented(images.tolist(), seed, step, crop, flip)


def test_bits_of_wide_crops() -> None:
    images = np.arange(2 * 9 * 8 * 3, dtype=np.uint8).reshape(2, 9, 8, 3)
    for crop in (2, 3, 7):
        assert Augment(crop)(images, 3, 4).tolist() == oracle.augmented(images.tolist(), 3, 4, crop, False)


def test_offsets_reach_both_ends_and_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    ones, none = 2**32 - 1, 0
    low, high = (
        -(-(2**64) // 9) - 1,
        -(-(2**64) // 9),
    )  # the last number that is 0 of 0..8, the first that is 1
    texts = [none, none, ones, ones, low >> 32, low & ones, high >> 32, high & ones]
    monkeypatch.setattr("intnet.numbers.rng.words", lambda *_, **__: np.array(texts, np.uint32))
    assert offsets(4, 2, 0, 0).tolist() == [[0, 8], [0, 1]]
    large = 2**30
    assert offsets(large, 2, 0, 0)[0].tolist() == [0, 2 * large]
    assert [oracle.offset(none, none, 4), oracle.offset(ones, ones, 4)] == [0, 8]


@pytest.mark.slow
def test_shares() -> None:
    """Of 90,000 images each of 9 x 9 places gets 1,111 give or take; half are mirrored."""
    counts = np.zeros((9, 9), int)
    for y, x in offsets(4, 90_000, 5, 6):
        counts[y, x] += 1
    assert (np.abs(counts - 90_000 / 81) < 5 * (90_000 / 81) ** 0.5).all()
    pixels = np.tile(np.array([[[1], [2]]], np.uint8), (10_000, 1, 1, 1))
    assert abs(np.count_nonzero(Augment(flip=True)(pixels, 5, 6)[:, 0, 0, 0] == 2) - 5000) < 250


def test_texts() -> None:
    for text, augment in (
        ("crop=4,flip", Augment(4, True)),
        ("flip", Augment(0, True)),
        ("crop=12", Augment(12)),
    ):
        assert Augment.parse(text) == augment and str(augment) == text
    assert Augment.parse(" flip , crop=4 ") == Augment(4, True) and str(Augment()) == ""


@pytest.mark.parametrize(
    "text", ["", "crop", "crop=0", "crop=-1", "crop=x", "flip,flip", "flip=1", "mirror", "crop=4,", "crop=²"]
)
def test_bad_texts(text: str) -> None:
    with pytest.raises(ConfigError, match="write crop=P, flip, or both: crop=4,flip"):
        Augment.parse(text)


def test_a_batch_is_the_augmented_one_of_its_step() -> None:
    digits = datasets.load("digits").first(50)
    plain = datasets.Batches(digits, 20, 9, Augment())
    altered = datasets.Batches(digits, 20, 9, Augment(2, True))
    for step in (4, 0, 2):  # the third of an epoch is short
        images, labels = plain(step)
        expected = oracle.augmented(images.tolist(), 9, step, 2, True)
        assert altered(step)[0].tolist() == expected and altered(step)[1].tolist() == labels.tolist()


def test_a_crop_that_could_miss_the_image(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    line = refused(capsys, "train", *MLP, "--augment", "crop=8", "--out", tmp_path / "r")
    assert "crop=8: an image of 8x8 pixels would be cut off whole" in line
    assert not (tmp_path / "r").exists()


TRAIN = ("train", *MLP, "--checkpoint-every", 3, "--augment", "crop=1,flip")


@pytest.mark.slow
def test_kill_and_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = here(capsys, *TRAIN, "--steps", 61, "--out", tmp_path / "whole")
    assert status == 0
    signalled(9, tmp_path / "cut", 20, *TRAIN, "--steps", 61, "--out", tmp_path / "cut")  # type: ignore[arg-type]
    assert last_line(here(capsys, "resume", tmp_path / "cut")[1]) == last_line(out)
    _, plain, _ = here(capsys, *TRAIN[:-2], "--steps", 61, "--out", tmp_path / "plain")
    assert last_line(plain) != last_line(out)
    assert run_folder.load(tmp_path / "cut").augment == Augment(1, True)
    assert "augmented        crop=1,flip\n" in out and "augmented" not in plain
    assert "- augmented: crop=1,flip\n" in (tmp_path / "cut" / "report.md").read_text()
    own = run_folder.identity(run_folder.load(tmp_path / "plain"))
    assert "augment" not in own and "image_size" not in own and "decoder" not in own


@pytest.mark.slow
def test_inspect_and_sweep_carry_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new: tuple[Any, ...] = ("--method", "float32", "--model", "mlp", "--data", "digits", "--limit", 64)
    sweep = ("sweep", *new, "--steps", 3, "--vary", "lr=0.1,0.2", "--out", tmp_path / "sweep")
    assert here(capsys, *sweep, "--augment", "flip")[0] == 0
    run = tmp_path / "sweep" / "runs" / "float32+lr=0.1+seed=1"
    assert run_folder.load(run).augment == Augment(flip=True)
    assert "augment is flip there and none here" in refused(capsys, *sweep)
    layer = ("inspect", *new, "--layer", "fc3", "--json")
    outs = [here(capsys, *layer, *more)[1] for more in ((), ("--augment", "flip"))]
    assert outs[0] != outs[1]
    assert "--augment" in refused(capsys, "inspect", run, "--layer", "fc3", "--augment", "flip")
