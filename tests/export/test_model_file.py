"""model.npz of a program: what is read is what was written; damage and forgery are named."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet.errors import CheckpointError, ConfigError
from intnet.export import batch, model_file
from intnet.export import program as p
from intnet.export.program import Program
from intnet.runs import archive
from tests.support.exporting import INTEGER, NETS, program_of
from tests.support.plain_bytes import as_bytes


@pytest.mark.slow
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize(("method", "options"), INTEGER, ids=str)
def test_back_as_it_was(net: str, method: str, options: dict[str, Any], tmp_path: Path) -> None:
    run, program = program_of(net, method, options)
    size = model_file.save(tmp_path / "model.npz", program)
    back, told = model_file.load(tmp_path / "model.npz")
    assert told == size and back.about == program.about and back.values == program.values
    for op, other in zip(program.ops, back.ops, strict=True):
        assert type(op) is type(other)
        for field in dataclasses.fields(op):
            a, b = getattr(op, field.name), getattr(other, field.name)
            assert np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b, (op.name, field.name)
    images = run.data.test_images
    assert np.array_equal(batch.logits(back, images), batch.logits(program, images))
    assert batch.evaluate(back, run.data).accuracy == run.evaluate(batch_size=1).accuracy


def test_words_are_packed(tmp_path: Path) -> None:
    """Each of its own width, in two's complement; beyond 32 bits int64."""
    a, b = np.array([3, -4]), np.array([1 << 40, 0])
    ops = (p.Images("images", (), (1, 1, 2), 0, 0, 255), p.Affine("x", (0,), a, b, 0))
    assert model_file.save(tmp_path / "m.npz", Program(ops)) == 1 + 16
    arrays, _ = archive.load(tmp_path / "m.npz", model_file.KIND)
    assert arrays["words/1/a"].tobytes() == as_bytes([3, -4], 3)
    assert arrays["words/1/b"].tolist() == b.tolist()


def test_a_curve_without_a_step_comes_back(tmp_path: Path) -> None:
    """A sigmoid of values that are all next to 0."""
    images = p.Images("images", (), (1, 1, 2), -20, 0, 255)
    curve = p.Curve("s", (0,), np.array([], np.int64), np.array([64]), -7)
    about = {"model": "m", "data": "d", "classes": 2, "steps": 0, "state_sha256": "", "batch_norm": None}
    program = Program((images, curve), about)
    model_file.save(tmp_path / "m.npz", program)
    back, _ = model_file.load(tmp_path / "m.npz")
    codes = np.array([[[[0, 255]]]])
    assert batch.logits(back, codes).tolist() == batch.logits(program, codes).tolist() == [[[[64, 64]]]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda d: d["ops"][3].update(kind="exec"), "exec"),
        (lambda d: d["ops"][3]["fields"].update(reads=[7]), "not made ahead"),
        (lambda d: d["ops"][2]["tensors"]["weight"].update(shape=[1, 1]), "bytes"),
        (lambda d: d["ops"][2]["tensors"]["weight"].update(bits="8"), "bits"),
        (lambda d: d["ops"][2]["fields"].update(exponent=1.5), "exponent"),
        (lambda d: d["about"].pop("state_sha256"), "state_sha256"),
        (lambda d: d.pop("ops"), "ops"),
    ],
)
def test_forged_descriptions_are_named(change: Any, line: str, tmp_path: Path) -> None:
    """With a hash that holds."""
    path = tmp_path / "m.npz"
    model_file.save(path, program_of("lenet", *INTEGER[0])[1])
    arrays, description = archive.load(path, model_file.KIND)
    change(description)
    archive.save(path, model_file.KIND, arrays, description)
    with pytest.raises(CheckpointError, match=line):
        model_file.load(path)


def test_a_flipped_byte_is_found(tmp_path: Path) -> None:
    path = tmp_path / "m.npz"
    model_file.save(path, program_of("mlp", *INTEGER[0])[1])
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="--to npz"):
        model_file.load(path)


def test_other_codes_are_refused() -> None:
    run, program = program_of("mlp", *INTEGER[0])
    with pytest.raises(ConfigError, match="scaled as those it was trained on"):
        batch.evaluate(program, dataclasses.replace(run.data, exponent=-4))
