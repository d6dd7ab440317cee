"""A run's folder whose files do not belong together: another run's checkpoint, other data, a damaged file."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from intnet import datasets
from intnet.errors import CheckpointError, DataError
from intnet.runs import run_folder
from tests.support.command import refused


@pytest.fixture
def short(tmp_path: Path) -> Path:
    with run_folder.create(
        tmp_path / "short", run_folder.build("wageubn", {}, "mlp", "digits", limit=64), 1
    ) as work:
        work.train()
    return work.folder


def test_a_checkpoint_of_another_run(short: Path, tmp_path: Path) -> None:
    with run_folder.create(
        tmp_path / "b", run_folder.build("wageubn", {"e2": "16"}, "mlp", "digits", limit=64, seed=9), 1
    ):
        pass
    shutil.copy(tmp_path / "b" / "checkpoint.npz", short / "checkpoint.npz")
    with pytest.raises(CheckpointError) as error:
        run_folder.resume(short)
    message = str(error.value)
    assert f"{short / 'checkpoint.npz'}: not of the run that config.json describes" in message
    assert "seed is 9 there and 1 here" in message and "options is " in message and "model" not in message


def test_an_edited_config(short: Path) -> None:
    text = (short / "config.json").read_text()
    (short / "config.json").write_text(text.replace('"seed": 1', '"seed": 2'))
    with pytest.raises(CheckpointError, match="seed is 1 there and 2 here"):
        run_folder.load(short)


def test_other_data(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digits = datasets.load("digits")
    changed = dataclasses.replace(digits, train_images=digits.train_images ^ 1)
    monkeypatch.setitem(datasets.LOADERS, "digits", lambda _: changed)
    for use in (run_folder.resume, run_folder.load):
        with pytest.raises(DataError, match=r"data set 'digits' is not the one that .* was trained on"):
            use(short)


def test_a_missing_and_a_damaged_checkpoint(short: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = short / "checkpoint.npz"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    assert f"{path}: truncated, damaged or not a checkpoint" in refused(capsys, "resume", short)
    path.write_bytes(content.replace(b"wageubn", b"wagEubn"))
    assert f"{path}: truncated, damaged or not a checkpoint (BadZipFile" in refused(capsys, "resume", short)
    path.unlink()
    assert f"{path}: there is no such checkpoint" in refused(capsys, "resume", short)
    assert f"{path}: there is no such checkpoint" in refused(capsys, "eval", short)


def test_data_that_moved(tmp_path: Path) -> None:
    """The folder of the data is remembered as an absolute path, and may be given anew."""
    with run_folder.create(
        tmp_path, run_folder.build("wageubn", {}, "mlp", "digits", limit=64), 1, data_dir="here"
    ):
        pass
    with run_folder.resume(tmp_path) as work:
        assert work.plan.data_dir == str(Path.cwd() / "here")
    with run_folder.resume(tmp_path, data_dir="/there") as work:
        assert work.plan.data_dir == "/there"
    assert json.loads((tmp_path / "config.json").read_text())["plan"]["data_dir"] == "/there"
