"""`intnet export --to`: what is written and told, what `eval` makes of it, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command import here, last_line, refused

RUN = ("train", "--model", "mlp", "--data", "digits", "--limit", "96", "--steps", 3)
WAGEUBN = (*RUN, "--method", "wageubn", "--set", "edges=fixed16", "--set", "saturate=0")


@pytest.mark.slow
def test_every_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    status, out, _ = here(capsys, *WAGEUBN, "--out", run)
    assert status == 0
    digest = last_line(out)
    status, out, _ = here(capsys, "export", run, "--to", "c", "--out", tmp_path / "model.c")
    lines = out.splitlines()
    assert (status, lines[0]) == (0, f"{tmp_path / 'model.c'}: mlp on digits by wageubn, 3 steps of seed 1")
    assert lines[1].endswith("logits are codes * 2^(-30)") and "memory bytes" in lines[2]
    status, out, _ = here(capsys, "export", run, "--to", "mem", "--out", tmp_path / "mem", "--json")
    told = json.loads(out)
    assert (told["to"], told["logits_exponent"], told["step"]) == ("mem", -30, 3)
    assert (told["image_shape"], told["image_exponent"]) == ([8, 8, 1], -4)
    assert told["files"] == len(list((tmp_path / "mem").iterdir()))
    model = tmp_path / "model.npz"
    status, out, _ = here(capsys, "export", run, "--to", "npz", "--out", model, "--json")
    size = json.loads(out)["packed_bytes"]
    by_run, by_model = (json.loads(here(capsys, "eval", source, "--json")[1]) for source in (run, model))
    for key in ("test_accuracy", "test_top5", "test_images", "batch_norm", "state_sha256", "step"):
        assert by_run[key] == by_model[key]
    assert (by_model["bytes"], f"state sha256: {by_model['state_sha256']}") == (size, digest)
    assert "integer model, mlp on digits, trained for 3 steps" in here(capsys, "eval", model)[1]
    assert "holds batch norm as constants" in refused(capsys, "eval", model, "--reestimate", 2)


def test_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, out = tmp_path / "run", tmp_path / "model.c"
    assert here(capsys, *RUN, "--method", "wageubn", "--out", run)[0] == 0
    line = refused(capsys, "export", run, "--to", "c", "--out", out)
    assert "fc1/x0: wageubn computes it in float32" in line and "--set edges=fixed16" in line
    assert not out.exists()
    assert "ends in .onnx" in refused(capsys, "export", run, "--to", "onnx", "--out", out)
    out.write_text("")
    assert "is there already" in refused(capsys, "export", run, "--to", "c", "--out", out)
    lost = tmp_path / "none" / "model.c"
    assert "there is no folder" in refused(capsys, "export", run, "--to", "c", "--out", lost)
    assert "--to npz" in refused(capsys, "eval", tmp_path / "lost.npz")
