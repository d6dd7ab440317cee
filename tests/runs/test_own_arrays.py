"""Runs on arrays at hand: their folder keeps the data, and every command and `intnet.load` read it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import intnet
from intnet import datasets, fit, methods, models
from intnet.cli.main import main
from intnet.errors import ConfigError, DataError
from intnet.models import Model
from intnet.runs import kept_data, run_folder
from intnet.training.train import Run

RNG = np.random.default_rng(5)
X = RNG.normal(size=(60, 6))
Y = (X[:, 1] > 0).astype(int)
IMAGES = RNG.integers(0, 256, (40, 8, 8), dtype=np.uint8)


def data(kind: str, test: float | None = 0.25) -> datasets.Dataset:
    if kind == "bytes":
        return datasets.from_arrays(IMAGES, np.arange(40) % 3, test=test, name="noise")
    return datasets.from_arrays(X, Y, test=test)


def trained(
    kind: str = "numbers", epochs: int = 2, method: str = "wageubn", test: float | None = 0.25
) -> Run:
    given = data(kind, test)
    model = models.make("mlp", given.image_shape, given.classes)
    return fit(model, methods.make(method), given, epochs=epochs, batch_size=16)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["numbers", "bytes"])
@pytest.mark.parametrize("test", [0.25, None])
def test_a_run_is_loaded_as_it_was_saved(tmp_path: Path, kind: str, test: float | None) -> None:
    """Digest, data, history, answers; and it goes on to the bits of one that was never saved."""
    run = trained(kind, test=test)
    run.train(run.step + 1)  # into the next epoch
    intnet.save(run, tmp_path / "run")
    again = intnet.load(tmp_path / "run")
    assert (again.digest(), again.step) == (run.digest(), run.step)
    assert again.history.records() == run.history.records()
    assert again.history.epochs == run.history.epochs
    asked = IMAGES[:5] if kind == "bytes" else X[:5]
    assert again.predict_proba(asked).tolist() == run.predict_proba(asked).tolist()
    whole = trained(kind, epochs=4, test=test)
    assert again.fit(4).digest() == whole.digest()
    assert again.history.records() == whole.history.records()


def test_parts_of_data_are_saved_so_that_they_are_read_again(tmp_path: Path) -> None:
    """The first images of numbers whose others are wide; a known set of which some classes were left out."""
    wide = X.copy()
    wide[30:] *= 100
    digits = datasets.load("digits")
    keep = digits.train_labels < 9
    parts = [
        datasets.from_arrays(wide, Y, exponent=-12).first(30),
        replace(digits, train_images=digits.train_images[keep], train_labels=digits.train_labels[keep]),
        replace(
            digits,
            train_images=np.concatenate([digits.train_images, digits.test_images]),
            train_labels=np.concatenate([digits.train_labels, digits.test_labels]),
        ),
    ]
    for k, part in enumerate(parts):
        model = models.make("mlp", part.image_shape, part.classes)
        run = Run(model, methods.make("float32"), part, 16)
        run.train(2)
        intnet.save(run, tmp_path / str(k))
        again = intnet.load(tmp_path / str(k))
        assert again.digest() == run.digest()
        assert again.data.train_labels.tolist() == part.train_labels.tolist()
    odd = replace(parts[0], train_images=parts[0].train_images.astype(np.int32))
    run = Run(models.make("mlp", odd.image_shape, odd.classes), methods.make("float32"), odd, 16)
    with pytest.raises(ConfigError, match="could not be opened again: its data are not as"):
        intnet.save(run, tmp_path / "odd")
    assert not (tmp_path / "odd").exists()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["numbers", "bytes"])
def test_every_command_works_on_it(tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    run, folder = trained(kind), str(tmp_path / "run")
    intnet.save(run, folder)
    first = sorted(path.name for path in Path(folder).iterdir() if path.name[0] != ".")
    assert first == ["checkpoint.npz", "config.json", "data.npz", "metrics.jsonl"]

    def told(*command: str) -> Any:
        assert main([*command, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    found = told("eval", folder)
    assert found["state_sha256"] == run.digest()
    assert found["test_accuracy"] == run.evaluate().accuracy == run.history["test_accuracy"][-1]
    told("verify", folder, "--elements", "20")
    told("verify", folder, "--inference", "--elements", "20")
    assert told("inspect", folder, "--layer", "fc1")["step"] == run.step + 1
    assert main(["golden", folder, "--layer", "fc2", "--out", str(tmp_path / "pack")]) == 0
    assert main(["check", str(tmp_path / "pack")]) == 0
    assert main(["check", str(tmp_path / "pack"), "--by", "spec"]) == 0
    capsys.readouterr()
    assert told("resume", folder, "--epochs", "3")["state_sha256"] == trained(kind, epochs=3).digest()
    assert main(["resume", folder]) == 0
    assert "test accuracy" in capsys.readouterr().out


@pytest.mark.slow
def test_a_file_of_arrays_is_trained_on_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """To the digest of `fit`; without a test part it says so."""
    np.savez(tmp_path / "mine.npz", X=X, y=Y)
    folder = str(tmp_path / "run")
    command = ["train", "--method", "wageubn", "--model", "mlp", "--data", f"arrays:{tmp_path}/mine.npz"]
    assert main([*command, "--batch-size", "16", "--epochs", "2", "--out", folder]) == 0
    out = capsys.readouterr().out
    assert "epoch 2: loss" in out and "test accuracy -" in out and "no test part" in out
    own = trained(test=None)
    assert out.splitlines()[-1] == f"state sha256: {own.digest()}"
    assert not (tmp_path / "run" / "data.npz").exists()
    again = intnet.load(folder)
    assert again.history.records() == own.history.records()
    assert main(["eval", folder]) == 2
    assert "has no test part: give it one" in capsys.readouterr().err
    np.savez(tmp_path / "other.npz", X=X[:9], y=Y[:9], X_test=X[9:], y_test=Y[9:])
    assert main(["eval", folder, "--data", f"arrays:{tmp_path}/other.npz"]) == 0
    np.savez(tmp_path / "mine.npz", X=X + 1, y=Y)
    with pytest.raises(DataError, match=r"is not the one that .* was trained on: its files changed"):
        intnet.load(folder)


def test_data_that_are_gone_or_changed(tmp_path: Path) -> None:
    intnet.save(trained(), tmp_path / "run")
    kept = tmp_path / "run" / "data.npz"
    content = kept.read_bytes()
    with np.load(kept) as found:
        np.savez(kept, **{**found, "X": found["X"] * 2})
    with pytest.raises(DataError, match="is not the one that"):
        intnet.load(tmp_path / "run")
    kept.write_bytes(content[:-40])
    with pytest.raises(DataError, match=r"data.npz: not arrays as numpy.savez writes them"):
        intnet.load(tmp_path / "run")
    kept.unlink()
    with pytest.raises(ConfigError, match=r"its data.npz is gone: put it back, or test on other data"):
        intnet.load(tmp_path / "run")
    other = intnet.load(tmp_path / "run", data=datasets.from_arrays(X[:9], Y[:9], X[9:], Y[9:]))
    assert other.evaluate().images == 51
    digest = other.digest()
    assert repr(other).endswith("to be tested on these data)") and "of other data" in repr(other.summary())
    for goes_on in (
        lambda: other.train(other.step + 1),
        lambda: other.fit(epochs=9, progress=False),
        lambda: other.evaluate(reestimate=1),
        lambda: intnet.save(other, tmp_path / "other"),
    ):
        with pytest.raises(ConfigError, match=r"loaded with other data, 'arrays', .* tested on alone"):
            goes_on()
    assert other.digest() == digest and not (tmp_path / "other").exists()


def test_data_that_are_too_large_are_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_data, "LARGEST", 60 * 6 * 4 + 60 * 8 + 15)  # of X and y; two numbers are 16
    with pytest.raises(ConfigError, match=r"the data are 1,936 bytes, and a run folder keeps up to 1,935"):
        intnet.save(trained(test=None), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_what_could_not_be_opened_again_is_not_saved(tmp_path: Path) -> None:
    class Mine(methods.Wageubn):
        name = "mine"

    class Own(models.MLP):
        pass

    given = data("numbers")
    shape = given.image_shape
    named = models.mlp(shape, 2)
    named.kind = "own"
    cases: list[tuple[Model, Any, str]] = [
        (
            models.mlp(shape, 2, hidden=8),
            methods.Wageubn(),
            r"makes another model than this one \(fc1 differs",
        ),
        (Own(shape, 2), methods.Wageubn(), r"makes another model than this one \(the model differs"),
        (named, methods.Wageubn(), "could not be opened again: unknown model 'own'"),
        (models.mlp(shape, 2), Mine(), r"methods.make\('mine'\) does not make a Mine: register it first"),
    ]
    for model, method, message in cases:
        with pytest.raises(ConfigError, match=message):
            intnet.save(Run(model, method, given, 16), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_folder_that_is_in_use_is_not_written_over(tmp_path: Path) -> None:
    run = trained()
    intnet.save(run, tmp_path / "run")
    with pytest.raises(ConfigError, match="holds a run already"):
        intnet.save(run, tmp_path / "run")
    (tmp_path / "own").mkdir()
    shutil.copy(tmp_path / "run" / "data.npz", tmp_path / "own")  # of somebody's, alone
    with pytest.raises(ConfigError, match=r"is not empty \(it holds data.npz\)"):
        intnet.save(run, tmp_path / "own")


def test_a_run_of_a_named_set_keeps_no_data(tmp_path: Path) -> None:
    digits = datasets.load("digits").first(64)
    run = fit(models.mlp(digits.image_shape, 10), methods.Float32(), digits, batch_size=32)
    intnet.save(run, tmp_path / "run")
    assert not (tmp_path / "run" / "data.npz").exists()
    assert run_folder.load(tmp_path / "run").digest() == run.digest()
