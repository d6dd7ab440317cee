"""`intnet train --weights` and `intnet export`: what they say, what is recorded, and how a run goes on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.command import here, last_line, refused

MLP = (
    "train",
    "--method",
    "wageubn",
    "--model",
    "mlp",
    "--data",
    "digits",
    "--batch-size",
    "32",
    "--limit",
    "96",
)


@pytest.mark.slow
def test_out_in_and_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file is not needed again; resumed is unbroken; its hash is part of the run."""
    run, file = tmp_path / "run", tmp_path / "mlp.safetensors"
    assert here(capsys, *MLP, "--steps", 3, "--out", run)[0] == 0
    status, out, _ = here(capsys, "export", run, "--out", file)
    assert status == 0 and out.startswith(f"{file}: 12 tensors of mlp at step 3; ")
    assert "is there already" in refused(capsys, "export", run, "--out", file)
    assert "there is no folder" in refused(capsys, "export", run, "--out", tmp_path / "none" / "x.npz")
    assert "neither .npz nor .safetensors" in refused(capsys, "export", run, "--out", tmp_path / "x.pt")
    assert "asked for by --to onnx" in refused(capsys, "export", run, "--out", tmp_path / "x.onnx")
    assert "asked for by --to c" in refused(capsys, "export", run, "--out", tmp_path / "x.c")
    status, out, _ = here(capsys, *MLP, "--steps", 5, "--weights", file, "--out", tmp_path / "whole")
    assert f"first weights from {file}: 12 tensors, 9,354 numbers" in out and "are rounded, 0 limited" in out
    whole = last_line(out)
    assert here(capsys, *MLP, "--steps", 2, "--weights", file, "--out", tmp_path / "parts")[0] == 0
    kept = json.loads((tmp_path / "parts" / "config.json").read_text())["run"]["weights"]
    assert kept["left"] == {} and len(kept["sha256"]) == 64
    file.unlink()
    status, out, _ = here(capsys, "resume", tmp_path / "parts", "--steps", 5)
    assert (status, last_line(out)) == (0, whole) and f"its sha256 {kept['sha256']}" in out
    config = tmp_path / "parts" / "config.json"
    config.write_text(config.read_text().replace(kept["sha256"], "0" * 64))
    assert "not of the run that config.json describes: weights" in refused(
        capsys, "resume", tmp_path / "parts"
    )
    config.write_text(config.read_text().replace('"limited": 0', '"limited": "many"'))
    assert "run['weights']['limited'] is 'many'" in refused(capsys, "resume", tmp_path / "parts")


def test_golden_and_inspect_take_the_runs_own_images(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert here(capsys, *MLP, "--steps", 1, "--out", tmp_path / "run")[0] == 0
    for command in ("inspect", "golden"):
        more = ["--layer", "fc1"] + ["--out", tmp_path / "pack"] * (command == "golden")
        line = refused(capsys, command, tmp_path / "run", "--limit", 5, "--augment", "flip", *more)
        assert f"--limit, --augment: {tmp_path / 'run'} says that itself" in line
        line = refused(capsys, command, tmp_path / "run", "--seed", 0, "--batch-size", 5, *more)
        assert f"--seed, --batch-size: {tmp_path / 'run'} says that itself" in line


@pytest.mark.slow
def test_another_number_of_classes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mlp.npz"
    state = {"fc1.weight": np.zeros((64, 64)), "fc3.weight": np.zeros((99, 64)), "bn1.num_batches_tracked": 3}
    np.savez(file, **state)
    line = refused(capsys, *MLP, "--weights", file, "--out", tmp_path / "run")
    assert "of shape (99, 64), here (10, 64): fc3.weight; not in the file: bn1.weight, " in line
    assert not (tmp_path / "run").exists()
    assert "no --weights FILE" in refused(capsys, *MLP, "--weights-partial", "--out", tmp_path / "run")
    status, out, _ = here(
        capsys, *MLP, "--steps", 1, "--weights", file, "--weights-partial", "--out", tmp_path / "run"
    )
    assert status == 0
    assert "1 tensors, 4,096 numbers; as wageubn stores them 0 are rounded, 0 limited" in out
    assert "  left out: fc3.weight: of shape (99, 64), here (10, 64)\n" in out
    assert "  passed over: 1 num_batches_tracked" in out
    assert ", 11 did not fit; its sha256" in " ".join(out.split())
    assert json.loads((tmp_path / "run" / "report.json").read_text())["run"]["weights"]["tensors"] == 1
