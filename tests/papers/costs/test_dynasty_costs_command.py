"""`intnet costs` of a real run of dynasty: the log that it writes, the state that it saves."""

from __future__ import annotations

from pathlib import Path

import pytest

from intnet.cli.main import main
from intnet.papers.costs import plots
from intnet.runs import run_folder
from tests.support.map_runs import MACS, close, shown


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """lenet5, two epochs of 8, 8 and 4 images, and a step of the third."""
    run = run_folder.build(
        "dynasty", {"bits": 3.0, "weight_bits": 5.0}, "lenet5", "digits", 8, seed=1, limit=20
    )
    folder = tmp_path_factory.mktemp("real") / "run"
    with run_folder.create(folder, run, 7) as work:
        work.train()
    return folder


@pytest.mark.slow
def test_a_run_of_the_method(capsys: pytest.CaptureFixture[str], real: Path) -> None:
    got = shown(capsys, real, "--accuracy", 0)
    assert [line["epoch"] for line in got["maps"]] == [1, 2]
    assert [line["share"] for line in got["epochs"]] == [1, 1, pytest.approx(1 / 3)]
    assert {kind: got["maps"][0][kind]["alpha"] for kind in ("weights", "activations")} == {
        "weights": 5, "activations": 3,
    }  # fmt: skip
    first = got["epochs"][0]
    assert (first["weights"], first["activations"], first["stages"]["backward"]) == (4, 4, 0.5)
    inner = sum(macs for name, macs in MACS.items() if name != "conv1")
    assert first["stages"]["forward"] == close((inner / 2 + MACS["conv1"]) / (inner + MACS["conv1"]))
    for layer in got["layers"]:
        for operand in ("weights", "activations"):
            if layer[operand] is not None:
                assert layer[operand]["macs"] == 8 * MACS[layer["layer"]], layer
    assert got["summary"]["iso"]["equal"] == first["time"]


def test_the_drawn_map_is_the_one_that_the_log_tells(capsys: pytest.CaptureFixture[str], real: Path) -> None:
    run, layers = run_folder.load(real), shown(capsys, real)["layers"]
    for layer in layers:
        drawn = plots.maps_of(run, layer["layer"])
        for operand, bits in zip(("weights", "activations"), drawn, strict=True):
            assert (bits is None) == (layer[operand] is None)
            if bits is not None:
                counts = [int((bits == width).sum()) for width in (0, 2, 4, 6, 8)]
                assert counts == layer[operand]["counts"]
    assert plots.maps_of(run, "conv2")[0].shape == (4, 2, 5, 5)


def test_a_uniform_map_has_nothing_to_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = {"map": "uniform", "bits": 6, "weight_bits": 2}
    run = run_folder.build("dynasty", options, "mlp", "digits", 16, limit=32)
    with run_folder.create(tmp_path / "run", run, 2) as work:
        work.train()
    assert main(["costs", str(tmp_path / "run")]) == 2
    assert "uniform and never moves: weights of 2 bits, activations of 6" in capsys.readouterr().err
