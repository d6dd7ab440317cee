"""One run of a sweep or a comparison whose log is not whole: the others stand, and what to do is said."""

import shutil
from pathlib import Path

import pytest

import intnet as library
from tests.support.command import here


@pytest.fixture(scope="module", params=["sweep", "compare"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Two runs of three epochs."""
    out, sizes = tmp_path_factory.mktemp("logs") / "s", {"limit": 64, "batch_size": 32, "epochs": 3}
    if request.param == "sweep":
        library.sweep("saved", "mlp", "digits", out, vary={"bits": [2]}, seeds=[1, 2], quiet=True, **sizes)
    else:
        library.compare({"saved": {"bits": 2}}, "mlp", "digits", out, seeds=[1, 2], quiet=True, **sizes)
    return request.param, out


@pytest.mark.slow
@pytest.mark.parametrize("cut", [None, -1, 0])
def test_a_log_of_a_run_that_is_done_has_all_its_epochs(
    cut: int | None, made: tuple[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Gone (None), without its last epoch, or empty."""
    command, whole = made
    folder = tmp_path / "s"
    shutil.copytree(whole, folder)
    (log,) = folder.glob("runs/*seed=2/metrics.jsonl")
    lines = log.read_text().splitlines(keepends=True)
    last = max(k for k, line in enumerate(lines) if '"kind": "epoch"' in line)
    log.unlink() if cut is None else log.write_text("".join(lines[: last if cut else 0]))
    status, out, err = here(capsys, command, "--show", folder)
    assert (status, err) == (1, "") and "1 of 2 runs are done" in out and "1/2 failed" in out
    assert f"{log}: it has {2 if cut else 0} lines of epochs, and the run did 3: remove {log.parent}" in out
    shutil.rmtree(log.parent)
    assert here(capsys, command, "--show", folder)[0] == 0  # trained again by the same command
