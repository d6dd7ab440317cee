"""Checkpoint files: what was saved comes back, and nothing else is ever taken for it."""

import hashlib
import io
import json
import os
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet.errors import CheckpointError
from intnet.numbers.qtensor import QTensor
from intnet.runs import checkpoint, files
from intnet.training.state import State, digest

META = {"step": 7, "options": {"lr": "26", "saturate": None}, "name": "Grüße"}


def some_state() -> State:
    """Every kind of tensor: all code types, extremes, a scalar, no elements, exponents a channel."""
    per_channel = np.array([[-7], [3]], np.int32)
    return {
        "fc1.weight": QTensor(np.array([[-128, 127, 0], [1, -1, 5]], np.int8), -7),
        "fc1.weight.Accq": QTensor(np.array([-32768, 32767], np.int16), -12, bound=1 << 20),
        "bn.weight": QTensor(np.array([2**31 - 1, -(2**31)], np.int32), -23),
        "bn.running_var": QTensor(np.array([2**62, -(2**62)], np.int64), -31),
        "blocks": QTensor(np.arange(6, dtype=np.int16).reshape(2, 3), per_channel),
        "none": QTensor(np.zeros((0, 2), np.int32), 4),
        "scale": np.array(-0.0, np.float32),
        "fc2.weight": np.array([[1e-45, 3.4e38], [-1.5, 0.1]], np.float32).T,
    }


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "checkpoint.npz"
    checkpoint.save(path, some_state(), META)
    return path


def rejected(path: Path) -> str:
    """The message, which names the file and fits one line."""
    with pytest.raises(CheckpointError) as error:
        checkpoint.load(path)
    message = str(error.value)
    assert message.startswith(f"{path}: ") and "\n" not in message
    return message


def rewrite(path: Path, change: dict[str, np.ndarray | None], seal: bool = True, **fields: Any) -> None:
    """The same file with other arrays and other fields of meta.json; `seal`: with a right sha256."""
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive}
    description = json.loads(arrays.pop("meta.json").tobytes()) | fields
    arrays = {name: value for name, value in (arrays | change).items() if value is not None}
    if seal:
        del description["sha256"]
        description["sha256"] = independent_sha256(arrays, description)
    text = np.frombuffer(json.dumps(description).encode(), np.uint8)
    write_npz(path, {"meta.json": text, **arrays})


def write_npz(path: Path, arrays: dict[str, np.ndarray]) -> None:
    with open(path, "wb") as stream:
        np.savez(stream, allow_pickle=True, **arrays)


def independent_sha256(arrays: dict[str, np.ndarray], description: dict[str, Any]) -> str:
    """The documented hash: 'name type shape' and bytes of each array, then the JSON with sorted keys."""
    text = json.dumps(description, sort_keys=True, ensure_ascii=False)
    parts = [
        f"{n} {arrays[n].dtype.str} {[*arrays[n].shape]}\n".encode() + arrays[n].tobytes()
        for n in sorted(arrays)
    ]
    return hashlib.sha256(b"".join(parts) + text.encode()).hexdigest()


# -- what comes back ---------------------------------------------------------------------------


def test_state_and_meta_come_back(saved: Path) -> None:
    state, meta = checkpoint.load(saved)
    expected = some_state()
    assert meta == META and state.keys() == expected.keys() and digest(state) == digest(expected)
    for name, value in expected.items():
        array, other = (v.codes if isinstance(v, QTensor) else v for v in (value, state[name]))
        assert (array.dtype, array.shape, array.tobytes()) == (other.dtype, other.shape, other.tobytes())
        assert other.flags.writeable and other.dtype.isnative
        if isinstance(value, QTensor):
            assert state[name].bound == value.bound
            assert np.array_equal(state[name].exponent, value.exponent)
            assert type(state[name].exponent) is type(value.exponent)


def test_plain_numpy_reads_it(saved: Path) -> None:
    with np.load(saved, allow_pickle=False) as archive:
        assert archive["state/fc1.weight"].tolist() == [[-128, 127, 0], [1, -1, 5]]
        assert archive["exponent/blocks"].tolist() == [[-7], [3]]
        description = json.loads(archive["meta.json"].tobytes())
        arrays = {name: archive[name] for name in archive if name != "meta.json"}
    assert (description["format"], description["version"]) == ("intnet checkpoint", 1)
    assert description["meta"] == META and description["state_sha256"] == digest(some_state())
    assert description.pop("sha256") == independent_sha256(arrays, description)


def test_equal_states_are_equal_files(saved: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.npz"
    checkpoint.save(other, dict(reversed(some_state().items())), META)
    assert other.read_bytes() == saved.read_bytes()


def test_the_digest_sees_type_shape_exponent_and_sign() -> None:
    codes = np.array([1, 2], np.int32)
    states: list[State] = [
        {"w": QTensor(codes, -3)},
        {"w": QTensor(codes, -4)},
        {"w": QTensor(codes.astype(np.int16), -3)},
        {"w": QTensor(codes.reshape(2, 1), -3)},
        {"w": QTensor(codes, np.array([-3, -3]))},
        {"w": QTensor(codes, np.array([-3]))},
        {"v": QTensor(codes, -3)},
        {"w": np.array([0.0, 1.0], np.float32)},
        {"w": np.array([-0.0, 1.0], np.float32)},
        {},
    ]
    assert len({digest(state) for state in states}) == len(states)


def test_float16_is_not_a_state(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="w: a state holds QTensors, float32 and float64, not float16"):
        checkpoint.save(tmp_path / "x.npz", {"w": np.zeros(2, np.float16)}, {})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("more", [b"\0", b"\n", b"PK\5\6" + bytes(30), bytes(1 << 17)])
def test_bytes_behind_the_end_or_ahead_of_the_start_are_refused(more: bytes, saved: Path) -> None:
    content = saved.read_bytes()
    for changed, where in ((content + more, "after its end"), (more + content, "ahead of its first array")):
        saved.write_bytes(changed)
        with pytest.raises(CheckpointError, match=f"bytes {where}|truncated, damaged or not a checkpoint"):
            checkpoint.load(saved)
    saved.write_bytes(content + b"\0")
    with pytest.raises(CheckpointError, match="bytes after its end"):
        checkpoint.load(saved)
    saved.write_bytes(content)
    assert checkpoint.load(saved)[1] == META


# -- writes are atomic -------------------------------------------------------------------------


def test_a_failed_write_leaves_the_old_file(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = saved.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*checkpoint\.npz'"):
        checkpoint.save(saved, {}, {})
    assert saved.read_bytes() == before and [path.name for path in tmp_path.iterdir()] == ["checkpoint.npz"]


def test_leftovers_of_a_killed_write_change_nothing(saved: Path, tmp_path: Path) -> None:
    before = saved.read_bytes()
    ended = subprocess.Popen(["true"])
    ended.wait()
    for pid in (os.getpid(), ended.pid):
        (tmp_path / f".checkpoint.npz.{pid}.partial").write_bytes(before[:100])
    assert checkpoint.load(saved)[1] == META
    checkpoint.save(saved, some_state(), META)
    assert saved.read_bytes() == before
    files.remove_partial(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.npz"]


# -- what is refused ---------------------------------------------------------------------------


def test_missing_empty_and_unreadable(tmp_path: Path) -> None:
    assert "there is no such checkpoint" in rejected(tmp_path / "none.npz")
    empty = tmp_path / "empty.npz"
    empty.touch()
    assert "the file is empty" in rejected(empty)
    assert "cannot be read (Is a directory)" in rejected(tmp_path)


def test_every_truncation(saved: Path) -> None:
    content = saved.read_bytes()
    for length in range(1, len(content), 13):
        saved.write_bytes(content[:length])
        assert "truncated, damaged or not a checkpoint" in rejected(saved)


@pytest.mark.slow
def test_every_altered_byte_is_refused_or_means_nothing(saved: Path) -> None:
    """A byte of an array or of meta.json is always seen; some of the zip's own (dates) mean nothing."""
    content = saved.read_bytes()
    harmless = 0
    for i in range(0, len(content), 3):
        saved.write_bytes(content[:i] + bytes([content[i] ^ 1 << i % 8]) + content[i + 1 :])
        try:
            state, meta = checkpoint.load(saved)
        except CheckpointError as error:
            assert "\n" not in str(error)
        else:
            harmless += 1
            assert meta == META and digest(state) == digest(some_state())
    assert harmless < len(content) // 3 * 0.5


def test_other_files(tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_text("just text")
    assert "truncated, damaged or not a checkpoint" in rejected(path)
    with open(path, "wb") as stream:
        np.savez(stream, a=np.arange(3))
    assert "not a checkpoint of intnet but another .npz or zip file" in rejected(path)
    with open(path, "wb") as stream:
        np.savez_compressed(stream, allow_pickle=True, **{"meta.json": np.zeros(9, np.uint8)})
    assert "another .npz or zip file" in rejected(path)
    write_npz(path, {"meta.json": np.frombuffer(b'{"format": "somebody", "version": 1}', np.uint8)})
    assert "not a checkpoint of intnet: its format is 'somebody'" in rejected(path)


def test_pickles_are_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "evil.npz"
    write_npz(path, {"meta.json": np.array([{"a": 1}], dtype=object)})
    assert "ValueError" in rejected(path)


def test_a_header_cannot_ask_for_memory(tmp_path: Path) -> None:
    path, entry = tmp_path / "huge.npz", io.BytesIO()
    np.lib.format.write_array_header_1_0(entry, {"descr": "|u1", "fortran_order": False, "shape": (1 << 50,)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("meta.json.npy", entry.getvalue())
    assert "ValueError" in rejected(path)


def test_another_version(saved: Path) -> None:
    rewrite(saved, {}, version=2)
    assert "a checkpoint of version 2, this intnet reads version 1: use the intnet that wrote it" in rejected(
        saved
    )


@pytest.mark.parametrize(("found", "told"), [(1, "(1)"), (None, "(none was written yet)"), (True, "(True)")])
def test_another_definition(found: Any, told: str, saved: Path) -> None:
    rewrite(saved, {}, definition=found)
    line = rejected(saved)
    assert f"a checkpoint of another version of the definition {told}; this intnet computes version 3" in line
    assert line.endswith("other bits: make it anew, or use the intnet that wrote it")


def test_altered_arrays_and_descriptions(saved: Path) -> None:
    weight = np.array([[-128, 127, 0], [1, -1, 4]], np.int8)
    rewrite(saved, {"state/fc1.weight": weight}, seal=False)
    assert "altered: its SHA-256 is not the one it was saved with" in rejected(saved)
    checkpoint.save(saved, some_state(), META)
    rewrite(saved, {}, seal=False, meta={"step": 8})
    assert "altered" in rejected(saved)


def test_a_sealed_file_with_another_digest(saved: Path) -> None:
    rewrite(saved, {"state/fc1.weight": np.zeros((2, 3), np.int8)})
    assert "the digest of its state is not the one it names" in rejected(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (np.zeros((2, 3), np.int16), "fc1.weight should be int8 [2, 3], it is int16 [2, 3]"),
        (np.zeros((3, 2), np.int8), "fc1.weight should be int8 [2, 3], it is int8 [3, 2]"),
        (None, "fc1.weight should be int8 [2, 3], it is missing"),
    ],
)
def test_a_sealed_file_with_other_tensors(saved: Path, change: np.ndarray | None, message: str) -> None:
    rewrite(saved, {"state/fc1.weight": change})
    assert message in rejected(saved)


def test_a_sealed_file_with_wrong_types_bounds_or_extra_arrays(saved: Path) -> None:
    def sealed(array: np.ndarray, entry: dict[str, int] | None) -> str:
        checkpoint.save(saved, {}, {})
        described = {"dtype": array.dtype.name, "shape": list(array.shape)}
        rewrite(saved, {"state/w": array}, tensors={} if entry is None else {"w": described | entry})
        return rejected(saved)

    assert "w is float16 without an exponent" in sealed(np.zeros(2, np.float16), {})
    assert "w: its float32 codes do not fit" in sealed(np.zeros(2, np.float32), {"exponent": 3, "bound": 9})
    assert "w: its int8 codes do not fit" in sealed(np.full(2, 9, np.int8), {"exponent": 3, "bound": 8})
    assert "holds arrays that belong to no tensor" in sealed(np.zeros(2, np.int8), None)
