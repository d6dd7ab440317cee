"""Damaged files of a run: one line that names the file and says what to do, and nothing is lost by it."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import intnet
from intnet.errors import CheckpointError
from intnet.runs import checkpoint, files, records, run_folder
from tests.support.command import ROOT, environment, here, refused

STEPS = 4
DEEP = b'{"run": ' + b"[" * 100_000


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of two epochs."""
    run = run_folder.build("wageubn", {}, "mlp", "digits", 32, limit=64)
    with run_folder.create(tmp_path_factory.mktemp("runs") / "whole", run, STEPS, checkpoint_every=1) as work:
        work.train()
    return work.folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "run"))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != files.LOCK}


def refused_unchanged(capsys: pytest.CaptureFixture[str], folder: Path, command: str = "resume") -> str:
    before = contents(folder)
    line = refused(capsys, command, folder)
    assert "internal error" not in line and contents(folder) == before
    return line


# -- metrics.jsonl -----------------------------------------------------------------------------

LINES = [
    (b"5", "it is 5"),
    (b"{}", "it has no 'kind'"),
    (b"[" * 100_000, "it is nested too deeply"),
    (b"\xff\xfe{}", "'utf-8' codec can't decode byte 0xff"),
    (b'{"kind": "step", "st', "Invalid control character"),
    (b"", "Expecting value"),
    (b'{"kind": "stop"}', "kind 'stop' is none of step, epoch, precision"),
    (b'{"kind": ["step"]}', "it['kind'] is ['step']"),
    (b'{"kind": "step", "step": 2, "epoch": 0, "loss": 1, "accuracy": 1}', "it has no 'seconds'"),
    (b'{"kind": "epoch", "step": 2, "epoch": 0, "test_accuracy": NaN}', "it has no 'saturated'"),
    (b'{"kind": "epoch", "step": 2, "epoch": 0, "test_accuracy": NaN, "saturated": {}}', "is nan"),
    (
        b'{"kind": "epoch", "step": 2, "epoch": 0, "test_accuracy": 1, "saturated": {"a": "b"}}',
        "it['saturated']['a'] is 'b'",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("text", "message"), LINES, ids=range(len(LINES)))
@pytest.mark.parametrize("number", [1, 3, 7])
def test_a_damaged_line(
    text: bytes, message: str, number: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the middle it would take the lines after it along; as a whole last line it is not from a kill."""
    path = folder / "metrics.jsonl"
    lines = path.read_bytes().splitlines()
    lines.insert(number - 1, text)
    path.write_bytes(b"\n".join(lines) + b"\n")
    line = refused_unchanged(capsys, folder)
    assert f"{path}, line {number}: damaged ({message}" in line or f"{message})" in line
    assert "mend that line or delete it" in line
    path.write_bytes(b"\n".join(lines[: number - 1] + lines[number:]) + b"\n")  # the advice helps
    assert here(capsys, "resume", folder)[0] == 0


@pytest.mark.parametrize("text", [b"5", b"{}", b"\xff", b'{"kind": "st\xff', b"\0\0\n", b"\0{"])
def test_a_last_line_that_no_kill_leaves(
    text: bytes, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open(folder / "metrics.jsonl", "ab") as stream:
        stream.write(text)
    assert "metrics.jsonl, line 7: damaged" in refused_unchanged(capsys, folder)


def test_a_last_line_cut_anywhere_is_dropped(folder: Path) -> None:
    path = folder / "metrics.jsonl"
    content = path.read_bytes()
    last = content.splitlines()[-1]
    for end in range(len(last)):
        path.write_bytes(content + last[:end])
        assert len(list(run_folder.read_metrics(path))) == 6
    for zeros in (last[:9] + bytes(30), bytes(3)):  # a file grown ahead of its bytes, where power was lost
        path.write_bytes(content + zeros)
        assert len(list(run_folder.read_metrics(path))) == 6
    path.write_bytes(content + last)  # all but its newline
    assert len(list(run_folder.read_metrics(path))) == 7


@pytest.mark.parametrize(
    ("kept", "lost"), [([], "epoch 1 to 2"), ([0, 1, 2], "epoch 2"), ([3, 4, 5], "epoch 1")]
)
def test_a_log_that_lost_lines_is_told(
    kept: list[int], lost: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "metrics.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[k] for k in kept))
    with pytest.warns(
        RuntimeWarning, match=f"metrics.jsonl lacks {lost} of the way to the checkpoint, step 4"
    ):
        assert len(intnet.load(folder).history) == len(kept) // 3
    path.unlink()
    with pytest.warns(RuntimeWarning, match="lacks epoch 1 to 2"):
        assert here(capsys, "resume", folder)[0] == 0


@pytest.mark.slow
def test_a_command_tells_it_in_a_line(folder: Path) -> None:
    (folder / "metrics.jsonl").unlink()
    own = [sys.executable, "-m", "intnet", "resume", str(folder)]  # as of users: a warning is no error
    done = subprocess.run(own, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr.startswith(f"intnet: warning: {folder}/metrics.jsonl lacks epoch 1 to 2 of the way")
    assert done.stderr.splitlines()[0].endswith("Copy the whole file back where you have it")


def test_a_log_that_lost_a_step_of_the_epoch_under_way_is_told(tmp_path: Path) -> None:
    run = run_folder.build("wageubn", {}, "mlp", "digits", 16, limit=64)
    with run_folder.create(tmp_path / "run", run, 7) as work:
        work.train()
    whole = intnet.load(tmp_path / "run").history  # no warning, which would be an error here
    assert [one.step for one in whole.steps] == [5, 6, 7]
    path = tmp_path / "run" / "metrics.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines if not line.startswith(b'{"kind": "step", "step": 6')))
    with pytest.warns(RuntimeWarning, match="lacks step 6 of the way to the checkpoint, step 7"):
        again = intnet.load(tmp_path / "run")
    assert [one.step for one in again.history.steps] == [5, 7] and again.step == 7


# -- config.json -------------------------------------------------------------------------------

CONFIGS: list[tuple[Any, str]] = [
    ({"run": []}, "run is []"),
    ({"run": "wageubn"}, "run is 'wageubn'"),
    ({"run": {}}, "run has no 'method'"),
    ({"run": {"seed": 1.0}}, "run['seed'] is 1.0"),
    ({"run": {"batch_size": True}}, "run['batch_size'] is True"),
    ({"run": {"options": {"lr": [[]]}}}, "run['options']['lr'] is [[]]"),
    ({"run": {"image_shape": [8, "8", 1]}}, "run['image_shape'][1] is '8'"),
    ({"plan": {"steps": 4, "data_dir": 7}}, "data_dir = 7: give the path of a folder, or none"),
    ({"plan": {"steps": True}}, "steps = True: give a whole number of at least 1"),
    ({"plan": 5}, "damaged (TypeError"),
    ({"plan": {"steps": 4, "other": 1}}, "unexpected keyword argument 'other'"),
]


@pytest.mark.parametrize("command", ["resume", "eval"])
@pytest.mark.parametrize(("changes", "message"), CONFIGS, ids=range(len(CONFIGS)))
def test_a_config_that_is_no_config(
    changes: Any, message: str, command: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    if isinstance(changes.get("run"), dict) and changes["run"]:
        changes = {"run": config["run"] | changes["run"]}
    path.write_text(json.dumps(config | changes))
    line = refused_unchanged(capsys, folder, command)
    assert f"{path}: " in line and message in line


@pytest.mark.parametrize("command", ["resume", "eval"])
@pytest.mark.parametrize("key", run_folder.IDENTITY)
def test_a_config_without_a_key(
    key: str, command: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    del config["run"][key]
    path.write_text(json.dumps(config))
    line = refused_unchanged(capsys, folder, command)
    assert f"{path}: damaged (ValueError: run has no {key!r}): mend it, or train again" in line


@pytest.mark.parametrize("text", [DEEP, b"\xff", b"", b"7", b'{"format": ' + b"9" * 5000 + b"}"])
def test_a_config_that_is_not_json(text: bytes, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "config.json").write_bytes(text)
    assert f"{folder / 'config.json'}: damaged (" in refused_unchanged(capsys, folder)


@pytest.mark.parametrize("meta", [5, {}, {"run": []}, {"run": None, "step": 1, "saturated": {}}])
def test_a_checkpoint_of_something_else(meta: Any, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "checkpoint.npz"
    checkpoint.save(path, checkpoint.load(path)[0], meta)
    assert f"{path}: not of a run of this intnet (meta" in refused_unchanged(capsys, folder)


# -- report.json -------------------------------------------------------------------------------

REPORTS: list[tuple[bytes | dict[str, Any], str]] = [
    (b'{"steps": 4}', "it has no 'intnet'"),
    (b"{}", "it has no 'intnet'"),
    (b"[]", "it is []"),
    (b"\xff", "'utf-8' codec"),
    (b'{"steps": 4', "Expecting ',' delimiter"),
    (DEEP, "it is nested too deeply"),
    ({"paths": 5}, "it['paths'] is 5"),
    ({"paths": [5]}, "it['paths'][0] is 5"),
    ({"paths": [{"layer": "fc1"}]}, "it['paths'][0] is {'layer': 'fc1'}"),
    ({"run": {}}, "it is of another run"),
    ({"test_accuracy": None}, "it['test_accuracy'] is None"),
    ({"seconds": 10**400}, "it['seconds'] is 1000"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("change", "message"), REPORTS, ids=range(len(REPORTS)))
def test_a_damaged_report(
    change: bytes | dict[str, Any], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "report.json"
    if isinstance(change, dict):
        change = json.dumps(json.loads(path.read_text()) | change).encode()
    path.write_bytes(change)
    line = refused_unchanged(capsys, folder)
    assert f"{path}: damaged ({message}" in line and "delete it and resume, which makes it again" in line
    path.unlink()
    assert here(capsys, "resume", folder)[0] == 0 and path.exists()


def test_a_damaged_report_of_fewer_steps_does_not_stop_training(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "report.json").write_bytes(b"{}")
    assert here(capsys, "resume", folder, "--steps", STEPS + 1)[0] == 0
    assert json.loads((folder / "report.json").read_text())["steps"] == STEPS + 1


# -- the checker -------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [True, "1", None, float("nan"), float("inf"), 10**400, [], {}])
def test_what_is_no_number(value: Any) -> None:
    for shape in (int, float, (int, float)):
        with pytest.raises(ValueError, match=r"^it is "):
            records.check(value, shape)
    assert [records.check(1, int), records.check(1, float), records.check(1.5, float)] == [1, 1, 1.5]
    with pytest.raises(ValueError, match=r"it is 1\.5"):
        records.check(1.5, int)


def test_a_refused_log_leaves_the_plan_alone(folder: Path) -> None:
    (folder / "metrics.jsonl").write_bytes(b"5\n")
    before = contents(folder)
    with pytest.raises(CheckpointError, match="line 1: damaged"):
        run_folder.resume(folder, steps=50)
    assert contents(folder) == before
