"""`record`: values and statistics of chosen paths every n-th step, as they are when one step is looked at."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import intnet
from intnet import QTensor, datasets, methods, models
from intnet.errors import ConfigError
from intnet.inspect.over_steps import logged
from intnet.methods.trace import Recorder
from intnet.training.train import Run
from tests.support.command import here, refused

METHODS = ["wageubn", "adapt", "muppet", "dynasty", "saved", "float32"]
PATHS = ("fc1/*", "bn1/x?", "fc2/W*")


def new(method: str = "wageubn") -> Run:
    data = datasets.load("digits")
    return Run(models.make("mlp", data.image_shape, data.classes), methods.make(method), data)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_values_are_those_of_each_step_alone(method: str, tmp_path: Path) -> None:
    """A second run that shows one step at a time has the same; what is kept is not written over."""
    run, other = new(method), new(method)
    with intnet.record(run, *PATHS, every=2) as seen:
        run.train(4)
        run.evaluate()
    run.train(6)  # nobody looks any more
    for step in (2, 4):
        alone = Recorder(*PATHS)
        other.train(step, observe_last=[alone])
        assert alone.events.keys() == seen.values.keys()
        for name, steps in seen.values.items():
            assert list(steps) == [2, 4]
            value, own = alone[name], steps[step]
            if isinstance(value, QTensor):
                assert np.array_equal(own.codes, value.codes) and np.all(own.exponent == value.exponent)
                assert own.format == value.format
            elif isinstance(value, np.ndarray):
                assert own.dtype == value.dtype and np.array_equal(own, value)
            else:
                assert isinstance(own, np.ndarray)  # packed, or a quotient
    other.train(6)
    assert run.digest() == other.digest()
    check_files(seen, tmp_path)


def check_files(seen: Any, folder: Path) -> None:
    """Statistics counted from the values themselves; the files hold both."""
    seen.save(folder / "seen.npz")
    seen.write(folder / "seen.jsonl")
    lines = [json.loads(line) for line in (folder / "seen.jsonl").read_text().splitlines()]
    assert lines == seen.records() and {line["step"] for line in lines} == {2, 4}
    with np.load(folder / "seen.npz") as arrays:
        for line in lines:
            name = f"{line['layer']}/{line['path']}"
            value, stored = seen[name][line["step"]], arrays[f"{name}@{line['step']}"]
            if isinstance(value, QTensor):
                assert np.array_equal(arrays[f"{name}@{line['step']}.exponent"], value.exponent)
            numbers = value.codes if isinstance(value, QTensor) else value
            assert np.array_equal(stored, numbers) and line["elements"] == numbers.size
            if line["format"].startswith(("<", "Q", "SQ", "CQ", "BF(")) or line["format"] == "float32":
                assert line["zeros"] == numbers.size - np.count_nonzero(numbers)
                assert (line["least"], line["greatest"]) == (numbers.min(), numbers.max())


def test_statistics_alone_keep_no_values() -> None:
    run = new()
    with intnet.record(run, "fc2/Wq", values=False) as seen:
        run.train(3)
    assert [row["step"] for row in seen.records()] == [1, 2, 3] and not seen.values
    assert all(type(row[key]) in (int, float, str, type(None)) for row in seen.records() for key in row)
    with pytest.raises(KeyError, match="nothing of 'fc2/Wq' is kept"):
        seen["fc2/Wq"]
    assert not run.method.observers
    (told,) = seen.summary().records()
    row = seen.records()[-1]
    assert told == {
        "path": "fc2/Wq",
        "last step": 3,
        "format": row["format"],
        "bits used": row["used_bits"],
        "saturated": row["saturated"],
        "SQNR": row["sqnr_db"],
    }
    assert seen._repr_html_() == seen.summary()._repr_html_()


def test_what_names_nothing_is_refused() -> None:
    run = new()
    lines = {
        "fc9/*": r"no layer has such a name; there are .*fc1",
        "Wq": "write 'layer/path'",
        "fc1": r"as 'fc1/\*'",
        ("fc1/x0",): "patterns stand one by one",
    }
    for pattern, message in lines.items():
        with pytest.raises(ConfigError, match=message), intnet.record(run, pattern):  # type: ignore[arg-type]
            pass
    with intnet.record(run, "*", every=2, values=False) as every_path:
        run.train(run.step + 2)
    assert {"fc1", "fc2"} <= {row["layer"] for row in every_path.records()}
    nothing = pytest.raises(ConfigError, match="fc2/zz: nothing stood on such a path in 1 steps")
    with nothing, intnet.record(run, "fc2/zz", "fc2/x0", every=2) as seen:
        run.train(run.step + 2)
    assert repr(seen) == f"Recording(fc2/zz, fc2/x0: 1 paths, steps {run.step} to {run.step}, every 2)"
    for every in (0, -1, 2.0, True):
        with pytest.raises(ConfigError, match="every="), intnet.record(run, every=every):  # type: ignore[arg-type]
            pass


@pytest.mark.slow
def test_the_command_writes_the_same_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of train and of resume; a file that is there is left alone; the run's bits are the same."""
    base = ("train", "--method", "wageubn", "--model", "mlp", "--data", "digits", "--steps", 4, "--json")
    first, later = tmp_path / "first.jsonl", tmp_path / "later.jsonl"
    status, out, _ = here(capsys, *base, "--out", tmp_path / "a", "--stats", first, "--stats-every", 2)
    run = new()
    with intnet.record(run, every=2, values=False) as seen:
        run.train(6)
    lines = [json.loads(line) for line in first.read_text().splitlines()]
    assert status == 0 and lines == [row for row in seen.records() if row["step"] <= 4]
    alone = here(capsys, *base, "--out", tmp_path / "b")[1]
    assert json.loads(out)["state_sha256"] == json.loads(alone)["state_sha256"]
    again = ("resume", tmp_path / "a", "--steps", 6, "--stats-every", 2, "--stats")
    assert "first.jsonl is there already" in refused(capsys, *again, first)
    assert "there is no folder" in refused(
        capsys, *base, "--out", tmp_path / "c", "--stats", tmp_path / "d/e"
    )
    assert not (tmp_path / "c").exists() and here(capsys, *again, later)[0] == 0
    assert lines + [json.loads(line) for line in later.read_text().splitlines()] == seen.records()


def test_what_cannot_be_written_names_its_file(tmp_path: Path) -> None:
    """A limit of the process's files, which the first step's lines pass, for a full disk."""
    resource = pytest.importorskip("resource")
    run, file = new(), tmp_path / "stats.jsonl"
    run.train(1)  # kernels are compiled, and kept, without the limit
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.raises(OSError) as caught, logged(run, file, 1):
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
            run.train(2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.filename == str(file)
    assert file.stat().st_size == 4096


def events(file: Path) -> list[bytes]:
    """The records of a TFRecord file: length, CRC, bytes, CRC."""
    data, found = file.read_bytes(), []
    while data:
        (size,) = struct.unpack("<Q", data[:8])
        found.append(data[12 : 12 + size])
        data = data[16 + size :]
    return found


def test_tensorboards_format(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    from tensorboardX.proto.event_pb2 import Event

    run = new()
    with intnet.record(run, "fc2/Wq", values=False) as seen:
        run.train(2)
    seen.tensorboard(tmp_path / "board")
    (file,) = (tmp_path / "board").iterdir()
    read = {}
    for event in map(Event.FromString, events(file)):
        for value in event.summary.value:
            read[value.tag, event.step] = value.simple_value
    want = {
        (f"{key}/fc2/Wq", row["step"]): np.float32(value)
        for row in seen.records()
        for key, value in row.items()
        if key != "step" and isinstance(value, int | float)
    }
    assert len(want) > 10 and read == want


def test_without_its_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tensorboardX", None)
    run = new()
    with intnet.record(run) as seen:
        pass
    with pytest.raises(ConfigError, match=r"pip install 'intnet\[tensorboard\]'"):
        seen.tensorboard(tmp_path)
