"""Reading ahead changes no bit, is bounded, ends with its owner, and tells an error where it belongs."""

import gc
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from intnet import datasets
from intnet.datasets import Ahead, Augment, batches, image_files
from intnet.errors import DataError
from intnet.numbers import rng
from intnet.runs import checkpoint, run_folder
from tests.support.command import here, last_line, refused, signalled
from tests.support.image_world import encoded, folder, pixels, put
from tests.support.plain_bytes import idx


def readers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("intnet-reader")}


def soon(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.002)


# ---- reading ahead ----


def test_values_and_how_far_ahead() -> None:
    made: list[int] = []

    def make(k: int) -> int:
        made.append(k)
        return k * k

    ahead = Ahead(make, end=20)
    assert [ahead(k) for k in range(7)] == [k * k for k in range(7)]
    soon(lambda: len(made) == 11)
    time.sleep(0.02)
    assert sorted(made) == list(range(11))  # 4 ahead of the last one that was asked for, none twice
    assert [ahead(k) for k in (16, 17, 18, 19, 0)] == [256, 289, 324, 361, 0]
    assert max(made) == 19


def test_an_error_comes_where_it_is_asked_for_and_again() -> None:
    bad = {3}

    def make(k: int) -> int:
        if k in bad:
            raise DataError(f"file {k}")
        return k

    ahead = Ahead(make)
    assert [ahead(k) for k in range(3)] == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(DataError, match="file 3"):
            ahead(3)
    bad.clear()
    assert ahead(3) == 3


@pytest.mark.slow
def test_threads_end_with_their_owner() -> None:
    """Only threads that begin here count: those of an earlier test may be ending meanwhile."""
    before = readers()
    ahead = Ahead(lambda k: k)
    assert not readers() - before
    ahead(0)
    assert 1 <= len(readers() - before) <= batches.READERS
    del ahead
    gc.collect()
    soon(lambda: not readers() - before)
    run = run_folder.build("float32", {}, "mlp", "digits", 32)
    run.train(2)
    assert readers() - before
    run.evaluate()
    del run
    gc.collect()
    soon(lambda: not readers() - before)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2, 7])
def test_any_number_of_readers(threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The images, and with them the run, are those that are read one after another."""
    monkeypatch.setattr(batches, "READERS", threads)
    data = datasets.load(f"folder:{folder(tmp_path, train=9)}")
    alone = datasets.Batches(data, 4, 3, Augment(1, True))
    ahead = Ahead(datasets.Batches(data, 4, 3, Augment(1, True)))
    for step in (*range(12), 3, 40, 41):  # over ends of epochs, back, and on
        images, labels = ahead(step)
        expected, own = alone(step)
        assert images.tolist() == expected.tolist() and labels.tolist() == own.tolist()


# ---- runs ----

IMAGES, LABELS = "images-idx3-ubyte", "labels-idx1-ubyte"


def as_both(root: Path, images: np.ndarray, labels: np.ndarray, test: int) -> None:
    """The same images as PNG in root/png and as IDX files in root/mnist; the last `test` of them to test on.

    Labels must go 0, 1, 2, ..., 0, 1, ..., which is the order in which a folder is read.
    """
    many = len(images) - test
    for part, name, span in (("train", "train", slice(0, many)), ("test", "t10k", slice(many, None))):
        shown, own = images[span], labels[span]
        put(root / "mnist" / f"{name}-{IMAGES}", idx(shown.ravel().tolist(), *shown.shape))
        put(root / "mnist" / f"{name}-{LABELS}", idx(own.tolist(), len(own)))
        for i, (image, label) in enumerate(zip(shown, own, strict=True)):
            put(root / "png" / part / str(label) / f"{i:05}.png", encoded(image[..., None]))


@pytest.mark.slow
@pytest.mark.skipif(not datasets.available("fashion-mnist"), reason="no Fashion-MNIST here")
@pytest.mark.parametrize("augment", [None, "crop=3,flip"])
def test_fashion_mnist_as_png_and_as_idx(augment: str | None, tmp_path: Path) -> None:
    real = datasets.load("fashion-mnist")
    firsts = [np.flatnonzero(real.train_labels == label)[:25] for label in range(10)]
    chosen = np.stack(firsts, axis=1).ravel()
    as_both(tmp_path, real.train_images[chosen][..., 0], real.train_labels[chosen], test=50)
    digests, accuracies = [], []
    for data in ("mnist", "folder:png"):
        run = run_folder.build("wageubn", {}, "mlp", data, 32, data_dir=tmp_path, augment=augment)
        run.train(9)
        digests.append(run.digest())
        accuracies.append(run.evaluate().accuracy)
    assert digests[0] == digests[1] and accuracies[0] == accuracies[1]


@pytest.mark.slow
@pytest.mark.skipif(not datasets.available("fashion-mnist"), reason="no Fashion-MNIST here")
def test_fashion_mnist_as_before_there_was_a_stream() -> None:
    run = run_folder.build("wageubn", {}, "mlp", "fashion-mnist", 128)
    run.train(3)
    assert run.digest() == "795d66282ff48375b4b1d7e2b37e6d1a97dea84329f3d3805e629c13f1ec0ec8"
    assert (
        run_folder.identity(run)["data_sha256"]
        == "17a3ed798e5ddaa3d635af0ed4079992a74069601b96d91ec7251f92d7533fc7"
    )


NEW = ("--method", "float32", "--model", "mlp", "--batch-size", 4, "--checkpoint-every", 2, "--steps", 40)


def test_readers_hand_out_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads that do end the process where Numba has no OpenMP, only its layer `workqueue`."""

    def shared(*_: object) -> None:
        raise AssertionError("a loop on all threads, in a reader")

    monkeypatch.setattr(rng, "_fill_parts", shared)
    draw = np.random.default_rng(2)
    images, labels = draw.integers(0, 256, (70_000, 2, 2, 1)).astype(np.uint8), np.zeros(70_000, np.int64)
    data = datasets.from_arrays(images, labels, images[:1], labels[:1], 1)
    got, _ = datasets.Batches(data, 70_000, 1, Augment(crop=1, flip=True))(0)
    assert got.shape == images.shape and got.any()
    with pytest.raises(AssertionError):
        rng.words(1, 0, 1, 70_000)


@pytest.mark.slow
def test_a_file_that_breaks_in_the_middle(tmp_path: Path) -> None:
    """The run stops with its name; mended, it goes on to the state of an unbroken run."""
    root = folder(tmp_path / "images", train=10)

    def build() -> run_folder.Run:
        return run_folder.build("float32", {}, "mlp", f"folder:{root}", 4)

    with run_folder.create(tmp_path / "whole", build(), 12) as work:
        work.train()
        digest = work.run.digest()
    path = root / "train" / "b" / "007.png"
    content = path.read_bytes()
    with (
        run_folder.create(tmp_path / "broken", build(), 12, checkpoint_every=1) as work,
        pytest.raises(DataError, match=f"{path}: the file is not what it was"),
    ):
        # after step 1 no more than the rest of the first epoch, 4 steps, can have been read
        work.train(on_step=lambda step: step.step == 1 and put(path, content[:-5]))
    assert 1 <= checkpoint.load(tmp_path / "broken" / "checkpoint.npz")[1]["step"] < 10
    with pytest.raises(DataError, match=rf"{path}: damaged"):
        run_folder.resume(tmp_path / "broken")
    put(path, encoded(pixels(3)))
    with pytest.raises(DataError, match=r"is not the one that .* was trained on: its files changed"):
        run_folder.resume(tmp_path / "broken")
    put(path, content)
    with run_folder.resume(tmp_path / "broken") as work:
        work.train()
        assert work.run.digest() == digest


@pytest.mark.slow
def test_commands_on_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Train, interrupt, kill, move the images, resume, test: a JPEG among them, and several sizes."""
    sets = tmp_path / "sets"
    folder(sets / "mine", train=10, channels=3)
    put(sets / "mine" / "train" / "a" / "j.jpg", encoded(pixels(1, 20, 30, 3), "JPEG"))
    train = ("train", *NEW, "--data", "folder:mine", "--data-dir", sets, "--image-size", 8)
    status, out, err = here(capsys, *train, "--out", tmp_path / "whole")
    assert (status, err) == (0, "")
    run = tmp_path / "run"
    assert signalled(signal.SIGINT, run, 5, *train, "--out", run)[0] == 130
    assert signalled(signal.SIGKILL, run, 20, "resume", run)[0] == -signal.SIGKILL
    shutil.move(sets, tmp_path / "moved")
    assert "there is no folder" in refused(capsys, "resume", run)
    resumed = here(capsys, "resume", run, "--data-dir", tmp_path / "moved")[1]
    assert last_line(resumed) == last_line(out)
    own = run_folder.identity(run_folder.load(run))
    assert own["image_size"] == 8 and own["decoder"].startswith("Pillow ") and own["data"] == "folder:mine"
    status, out, _ = here(capsys, "eval", run)
    assert status == 0 and last_line(out) == last_line(resumed)
    other = folder(tmp_path / "other", train=1, test=3, channels=3)
    status, out, _ = here(capsys, "eval", run, "--data", f"folder:{other}")
    assert status == 0 and "of 6 images" in out
    put(other / "test" / "a" / "wide.png", encoded(pixels(1, 8, 11, 3)))
    assert "--image-size S" in refused(capsys, "eval", run, "--data", f"folder:{other}")
    status, out, _ = here(capsys, "eval", run, "--data", f"folder:{other}", "--image-size", 8)
    assert status == 0 and "of 7 images" in out
    line = refused(capsys, "eval", run, "--data", f"folder:{other}", "--image-size", 9)
    assert "trained on images (H, W, C) = (8, 8, 3) of 2 classes; " in line


def test_another_decoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = folder(tmp_path / "images")
    data = f"folder:{root}"
    for name in ("png", "jpeg"):
        if name == "jpeg":
            put(root / "train" / "a" / "j.jpg", encoded(pixels(1), "JPEG"))
        run_folder.create(tmp_path / name, run_folder.build("float32", {}, "mlp", data, 4), 2).close()
    (root / "train" / "a" / "j.jpg").rename(root / "j.jpg")
    monkeypatch.setattr(image_files, "decoder", lambda: "Pillow 1.0, libjpeg 2")
    run_folder.load(tmp_path / "png")  # of PNGs every decoder makes the same
    (root / "j.jpg").rename(root / "train" / "a" / "j.jpg")
    with pytest.raises(
        DataError, match=r"had its images from Pillow .*, here they are from Pillow 1\.0, lib"
    ):
        run_folder.load(tmp_path / "jpeg")


def test_a_batch_larger_than_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = folder(tmp_path / "images", train=1)
    line = refused(capsys, "train", *NEW, "--data", f"folder:{root}", "--out", tmp_path / "run")
    assert "batch size 4: the data set has 2 training images" in line
