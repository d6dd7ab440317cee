"""Runs under mpirun: folders, metrics and reports as one process writes them, resumes, losses, refusals."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.command import afresh, last_line
from tests.support.mpi import command, mpirun, needs_mpi, settings

pytestmark = [pytest.mark.slow, needs_mpi]

RUN = ("--model", "mlp", "--data", "digits", "--limit", "400", "--batch-size", "112", "--seed", "3")
UNLIKE = ("seconds", "images_per_second", "process", "tape", "saved")  # of a report or a line: times, memory


def train(method: str, out: Path, *more: str) -> list[str]:
    return ["train", "--method", method, *RUN, *more, "--out", str(out)]


def lines(run: Path) -> list[dict[str, Any]]:
    """metrics.jsonl without times."""
    text = (run / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k not in UNLIKE} for line in text]


def report(run: Path) -> dict[str, Any]:
    return {k: v for k, v in json.loads((run / "report.json").read_text()).items() if k not in UNLIKE}


def told(folder: Path, *arguments: object) -> str:
    """What a command that ends well prints in this process, run in a folder."""
    status, out, err = afresh(folder, *map(str, arguments))
    assert status == 0, err
    return out


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[Path, str]]:
    """Trains a run in this process, once: (method, options of the command) -> (its folder, its last line)."""

    @cache
    def trained(method: str, *more: str) -> tuple[Path, str]:
        folder = tmp_path_factory.mktemp("alone") / "one"
        return folder, last_line(told(folder.parent, *train(method, folder, *more)))

    return trained


@pytest.mark.parametrize(("ranks", "threads"), [(2, 2), (3, 1)])
@pytest.mark.parametrize("method", ["wageubn", "float32"])
def test_a_folder_is_that_of_one_process(
    method: str, ranks: int, threads: int, tmp_path: Path, alone: Callable[..., tuple[Path, str]]
) -> None:
    one, last = alone(method, "--epochs", "2")
    found = mpirun(ranks, *train(method, tmp_path / "many", "--epochs", "2"), threads=threads)
    assert found.returncode == 0, found.stderr
    assert last_line(found.stdout) == last
    assert f"{ranks} ranks; rank 0 gave" in found.stderr
    assert lines(tmp_path / "many") == lines(one)
    assert report(tmp_path / "many") == report(one)
    assert told(tmp_path, "eval", "many") == told(one.parent, "eval", "one")


def test_a_run_goes_on_with_another_number_of_ranks(
    tmp_path: Path, alone: Callable[..., tuple[Path, str]]
) -> None:
    """Six steps on three ranks, inside an epoch; then on two, then alone."""
    one, last = alone("wageubn", "--steps", "11")
    assert mpirun(3, *train("wageubn", tmp_path / "many", "--steps", "6")).returncode == 0
    found = mpirun(2, "resume", str(tmp_path / "many"), "--steps", "9")
    assert found.returncode == 0, found.stderr
    assert last_line(told(tmp_path, "resume", "many", "--steps", "11")) == last
    assert lines(tmp_path / "many") == lines(one)


def ranks_of(process: subprocess.Popen[str]) -> Iterator[psutil.Process]:
    for child in psutil.Process(process.pid).children(recursive=True):
        if "intnet" in child.cmdline() and "mpirun" not in child.cmdline()[0]:
            yield child


@pytest.mark.parametrize("moment", [2, 5])
def test_a_killed_rank_ends_all_and_nothing_is_lost(
    moment: int, tmp_path: Path, alone: Callable[..., tuple[Path, str]]
) -> None:
    run = tmp_path / "run"
    more = ("--steps", "60", "--checkpoint-every", "1")
    process = subprocess.Popen(
        command(2, *train("float32", run, *more)),
        env=settings(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (run / "metrics.jsonl").exists() or (run / "metrics.jsonl").read_text().count("\n") < moment:
        assert process.poll() is None
        time.sleep(0.01)
    last = max(ranks_of(process), key=lambda child: int(child.environ()["OMPI_COMM_WORLD_RANK"]))
    os.kill(last.pid, signal.SIGKILL)
    _, said = process.communicate(timeout=60)
    assert process.returncode != 0
    assert f"go on with: intnet resume {run}" in said
    found = mpirun(3, "resume", str(run))
    assert found.returncode == 0, found.stderr
    assert last_line(found.stdout) == alone("float32", "--steps", "60")[1]


def test_ranks_with_other_settings_are_refused(tmp_path: Path) -> None:
    """One whose data lie elsewhere, and are fewer, is named before a step is made."""
    one = command(1, *train("wageubn", tmp_path / "run", "--steps", "2"), each=[{}])
    other = command(1, *train("wageubn", tmp_path / "run", "--steps", "2", "--limit", "200"), each=[{}])
    both = [*one, ":", *other[other.index("-n") :]]
    found = subprocess.run(both, env=settings(), capture_output=True, text=True, check=False)
    assert found.returncode != 0
    assert "rank 1 is not to train what rank 0 is" in found.stderr
    assert "limit is 200, not 400" in found.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "each",
    [
        [{}, {"NUMBA_DISABLE_JIT": "1"}],
        [{"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": ""} for name in ("haswell", "x86-64")],
    ],
    ids=["not compiled", "haswell beside x86-64"],
)
def test_ranks_on_other_processors_have_the_same_bits(
    each: list[dict[str, str]], tmp_path: Path, alone: Callable[..., tuple[Path, str]]
) -> None:
    found = mpirun(2, *train("wageubn", tmp_path / "many", "--steps", "3"), each=each)
    assert found.returncode == 0, found.stderr
    assert last_line(found.stdout) == alone("wageubn", "--steps", "3")[1]


def test_other_commands_are_refused(tmp_path: Path) -> None:
    found = mpirun(2, "list")
    assert found.returncode != 0
    assert "run `intnet list` without it" in found.stderr
