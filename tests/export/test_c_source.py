"""The C file: compiled with every warning an error and with sanitizers, its logits are the program's."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet.export import batch, c_source
from intnet.export import program as p
from intnet.export.program import Program
from tests.support.exporting import FEWEST_FIRST, INTEGER, NETS, by_c, program_of, wanted


@pytest.mark.slow
@pytest.mark.parametrize("net", FEWEST_FIRST)
@pytest.mark.parametrize(("method", "options"), [INTEGER[0], *INTEGER[2:]], ids=str)
def test_every_logit_under_gcc(net: str, method: str, options: dict[str, Any], tmp_path: Path) -> None:
    run, program = program_of(net, method, options)
    images = run.data.test_images
    assert by_c(program, images, tmp_path, "gcc") == wanted(program, images)


@pytest.mark.slow
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize(("method", "options"), [INTEGER[1], INTEGER[4]], ids=str)
def test_every_logit_under_clang(net: str, method: str, options: dict[str, Any], tmp_path: Path) -> None:
    """Of unlimited activations, which need wider words, and of float32."""
    run, program = program_of(net, method, options)
    images = run.data.test_images
    assert by_c(program, images, tmp_path, "clang") == batch.logits(program, images).tolist()


def test_signed_images_at_the_ends_of_64_bits(tmp_path: Path) -> None:
    """Codes of 16 bits, a factor, an offset and denominators that leave no bit of int64."""
    half = 1 << 47
    ops = (
        p.Images("images", (), (2, 2, 1), 0, -(1 << 15) + 1, (1 << 15) - 1),
        p.Flatten("flat", (0,)),
        p.Affine("wide", (1,), np.array([half, -half, half - 1, 3]), np.array([5, half, -half, 0]), 0),
        p.Round("even", (2,), 1, np.array([half, 3, (1 << 61) + 1, 2]), 0),
    )
    program = Program(ops)
    ends = [(1 << 15) - 1, -(1 << 15) + 1, 0, 1, -1, 7, -32766, 300]
    images = np.array([np.roll(ends, k)[:4] for k in range(8)], np.int16).reshape(8, 2, 2, 1)
    assert by_c(program, images, tmp_path, "gcc") == batch.logits(program, images).tolist()


def test_no_float_and_the_memory_that_is_told() -> None:
    """Static arrays hold just the bytes that the header states."""
    _, program = program_of("resnet", *INTEGER[0])
    text, sizes = c_source.source(program)
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    assert not re.search(r"float|double|malloc|\d\.|\.\d", code) and "v = divide(v" in code
    assert f"{sizes.memory} bytes of static memory beside {sizes.constants} bytes of constants" in text
    held = constants = 0
    for line in text.splitlines():
        if line.startswith("static ") and "[" in line and "(" not in line:
            kind, _, rest = line.removeprefix("static ").removeprefix("const ").partition(" ")
            size = int(rest[rest.index("[") + 1 : rest.index("]")]) * int(kind.strip("uint_")) // 8
            if line.startswith("static const"):
                constants += size
            else:
                held += size
    assert (held, constants) == (sizes.memory, sizes.constants)


def test_no_name_leaves_its_comment(tmp_path: Path) -> None:
    """Data sets have the names of files; a comment in a comment is a warning."""
    ops = (p.Images("images", (), (1, 1, 1), 0, 0, 255), p.Relu("r", (0,)))
    program = Program(ops, {"title": "mlp on arrays:/tmp/*.npz */ int x; \u00e9"})
    assert by_c(program, np.full((1, 1, 1, 1), 7, np.uint8), tmp_path, "gcc") == [[7]]


def test_what_is_taken_for_granted_is_checked(tmp_path: Path) -> None:
    """And the codes that sums are proven for are told."""
    _, program = program_of("mlp", *INTEGER[0])
    text, _ = c_source.source(program)
    assert "codes of 0..255 (rows, columns, channels)" in text
    (tmp_path / "model.c").write_text(text.replace("#include <limits.h>", "#define INT_MAX 32767"), "ascii")
    done = subprocess.run(["gcc", "-c", "model.c"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "int of 32 bits is wanted" in done.stderr


def test_a_short_file_of_images_is_an_error(tmp_path: Path) -> None:
    run, program = program_of("mlp", *INTEGER[0])
    assert by_c(program, run.data.test_images[:0], tmp_path, "gcc") == []
    half = run.data.test_images[0].tobytes()[:-1]
    assert subprocess.run([tmp_path / "model"], input=half, capture_output=True, check=False).returncode == 1


def test_a_fault_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ties that go up in place of to even give another logit."""
    ops = (p.Images("images", (), (1, 1, 1), 0, 0, 255), p.Round("half", (0,), 1, np.array([2]), 0))
    program, images = Program(ops), np.array([1, 3, 5], np.uint8).reshape(3, 1, 1, 1)
    assert by_c(program, images, tmp_path, "gcc") == [[0], [2], [2]]
    monkeypatch.setattr(c_source, "DIVIDE", c_source.DIVIDE.replace(" && q % 2 != 0", ""))
    assert by_c(program, images, tmp_path, "gcc") == [[1], [2], [3]]
