"""Sweeps end in the same table and digests however they are trained: in processes, on a cluster, killed."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from intnet.runs import run_folder
from intnet.sweeps import work
from tests.support.cluster import local_cluster
from tests.support.command import PYTHON, ROOT, environment, here, last_line

pytestmark = pytest.mark.slow

SETTINGS = [("0.9", 1), ("0.5", 1), ("0.9", 2), ("0.5", 2)]  # momentum, seed
STEPS, BATCH = 200, 16
SMALL: tuple[object, ...] = ("--method", "float32", "--model", "mlp", "--data", "digits", "--seeds", "1,2")
GRID: tuple[object, ...] = (
    *SMALL, "--batch-size", BATCH, "--steps", STEPS, "--checkpoint-every", 20,
    "--set", "lr=0.02,0.01@1", "--vary", "momentum=0.9,0.5",
)  # fmt: skip
# A worker, told by Python's own start, dies of the task of seed 1.
DIES = """\
import io, os, signal, sys

class Stdin(io.TextIOWrapper):
    def __next__(self):
        line = super().__next__()
        if "seed=1" in line:
            os.kill(os.getpid(), signal.SIGKILL)
        return line

sys.stdin = Stdin(sys.stdin.buffer)
"""
# Every process of it starts without what Windows lacks, and can wait at no pipe but by reading it.
LACKS = """\
import os, select, signal, subprocess, sys
from tests.support import fake_msvcrt

def no_select(*arguments):
    raise OSError("an operation was attempted on something that is not a socket")

sys.modules["msvcrt"], sys.modules["fcntl"] = fake_msvcrt, None
for name in ("sched_getaffinity", "O_DIRECTORY", "O_NONBLOCK", "getuid"):
    delattr(os, name)
select.select = select.poll = select.epoll = no_select
"""
TIMED = ("seconds", "images_per_second", "process")


def name(momentum: str, seed: int) -> str:
    return f"float32+lr=0.02,0.01@1+momentum={momentum}+seed={seed}"


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The reports that `intnet train` writes for the same settings, by the run's name."""
    found = {}
    for momentum, seed in SETTINGS:
        folder = tmp_path_factory.mktemp("train") / "run"
        options = {"lr": "0.02,0.01@1", "momentum": momentum}
        with run_folder.create(
            folder, run_folder.build("float32", options, "mlp", "digits", BATCH, seed), STEPS
        ) as run:
            run.train()
        found[name(momentum, seed)] = json.loads((folder / "report.json").read_text())
    return found


def check(folder: Path, expected: dict[str, dict[str, Any]]) -> None:
    """All runs are there, with the reports of single runs; the table is made of them."""
    assert sorted(path.name for path in (folder / "runs").iterdir()) == sorted(expected)
    table = json.loads((folder / "table.json").read_text())
    assert (table["runs"], table["done"], len(table["rows"])) == (4, 4, 2)
    for row in table["rows"]:
        momentum = row["settings"]["momentum"]
        own = [expected[name(momentum, seed)] for seed in (1, 2)]
        accuracies = [report["test_accuracy"] for report in own]
        assert row["test_accuracy"]["mean"] == sum(accuracies) / 2
        assert row["test_accuracy"]["least"] == min(accuracies)
        assert row["test_accuracy"]["greatest"] == max(accuracies)
        digests = [row["runs"][seed]["state_sha256"] for seed in ("1", "2")]
        assert digests == [report["state_sha256"] for report in own]
    for run, report in expected.items():
        got = json.loads((folder / "runs" / run / "report.json").read_text())
        assert {k: v for k, v in got.items() if k not in TIMED} == {
            k: v for k, v in report.items() if k not in TIMED
        }
    assert not (folder / work.SESSION).exists()


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    """(folder, process) of a sweep in two processes, which is ended after the test."""
    folder = tmp_path / "sweep"
    process = start(folder, "--jobs", 2)
    yield folder, process
    process.kill()
    process.communicate()


def start(folder: Path, *more: object) -> subprocess.Popen[str]:
    command = [*PYTHON, "-m", "intnet", "sweep", *map(str, (*GRID, *more)), "--out", str(folder)]
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=ROOT, env=environment(), **streams)


def half_way(folder: Path, process: subprocess.Popen[str] | None = None) -> int:
    """The process that trains a run of the sweep, once one is half-way."""
    while True:
        for log in (folder / "runs").glob("*/metrics.jsonl"):
            if STEPS // 2 <= log.read_bytes().count(b"\n") < STEPS - 40:
                return int((log.parent / ".intnet.lock").read_text())
        assert process is None or process.poll() is None, f"it ended: {process.communicate()}"
        time.sleep(0.002)


# -- processes ---------------------------------------------------------------------------------


def test_one_process(
    tmp_path: Path, expected: dict[str, dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """And the same command again trains nothing, and shows the same."""
    folder = tmp_path / "sweep"
    status, out, err = here(capsys, "sweep", *GRID, "--out", folder)
    assert (status, err) == (0, "")
    check(folder, expected)
    before = {path: path.stat().st_mtime_ns for path in (folder / "runs").glob("*/*.*")}
    status, again, _ = here(capsys, "sweep", *GRID, "--out", folder)
    assert status == 0 and "2 points, 4 runs, 4 done already" in again
    assert {path: path.stat().st_mtime_ns for path in (folder / "runs").glob("*/*.*")} == before
    assert again[again.index("\n\n") :] == out[out.index("\n\n") :]
    assert last_line(here(capsys, "sweep", "--show", folder)[1]) == last_line(out)


def test_a_worker_is_killed(
    begun: tuple[Path, subprocess.Popen[str]], expected: dict[str, dict[str, Any]]
) -> None:
    folder, process = begun
    worker = half_way(folder, process)
    assert worker != process.pid
    os.kill(worker, signal.SIGKILL)
    out, err = process.communicate()
    assert (process.returncode, err) == (0, ""), (out, err)
    check(folder, expected)


def test_the_command_is_killed(
    begun: tuple[Path, subprocess.Popen[str]],
    expected: dict[str, dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its workers notice and end; the same command goes on, here with another number of them."""
    folder, process = begun
    worker = half_way(folder, process)
    process.kill()
    process.communicate()
    while Path(f"/proc/{worker}").exists() and not defunct(worker):
        time.sleep(0.01)
    status, _, err = here(capsys, "sweep", *GRID, "--out", folder)
    assert (status, err) == (0, "")
    check(folder, expected)


def defunct(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_interrupted(
    begun: tuple[Path, subprocess.Popen[str]],
    expected: dict[str, dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, process = begun
    half_way(folder, process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130 and "Traceback" not in err
    assert re.search(rf"stopped: \d of 4 runs in {re.escape(str(folder))} are done, the others saved;", err)
    assert (folder / "table.md").exists() and "sha256" not in out
    # a worker of a sweep that is over does nothing
    task = {"sweep": str(folder), "session": "another", "name": "x", "intnet": run_folder.intnet.__version__}
    assert work.train(task) == work.Outcome("x", "stopped")
    assert here(capsys, "sweep", *GRID, "--jobs", 2, "--out", folder)[0] == 0
    check(folder, expected)


def test_a_process_that_dies_again_and_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two runs kills its process at once; the other one is trained, and the first one told."""
    path = tmp_path / "path"
    path.mkdir()
    (path / "sitecustomize.py").write_text(DIES)
    monkeypatch.syspath_prepend(path)
    folder = tmp_path / "sweep"
    status, out, err = here(capsys, "sweep", *SMALL, "--steps", 2, "--jobs", 2, "--out", folder)
    assert (status, err) == (1, ""), (out, err)
    why = "its process died 3 times, the last time by SIGKILL (out of memory?)"
    assert out.count(f"failed: float32, seed 1: {why}") == 2 and "1 of 2 runs are done" in out
    assert json.loads((folder / "table.json").read_text())["rows"][0]["failed"] == {"1": why}
    monkeypatch.undo()
    assert here(capsys, "sweep", *SMALL, "--steps", 2, "--out", folder)[0] == 0


def test_where_much_is_absent(tmp_path: Path, expected: dict[str, dict[str, Any]]) -> None:
    """Two workers, and one that is killed, on a system that lacks what Windows lacks."""
    path = tmp_path / "path"
    path.mkdir()
    (path / "sitecustomize.py").write_text(LACKS)
    own = environment(PYTHONPATH=f"{path}{os.pathsep}{ROOT}")
    folder = tmp_path / "sweep"
    command = [*PYTHON, "-m", "intnet", "sweep", *map(str, GRID), "--jobs", "2", "--out", str(folder)]
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, env=own, **streams) as process:
        os.kill(half_way(folder, process), signal.SIGKILL)
        out, err = process.communicate()
    assert (process.returncode, err) == (0, ""), (out, err)
    check(folder, expected)


# -- a cluster ---------------------------------------------------------------------------------


def test_a_worker_of_a_cluster_is_killed(tmp_path: Path, expected: dict[str, dict[str, Any]]) -> None:
    folder = tmp_path / "sweep"
    with local_cluster(2) as cluster:
        process = start(folder, "--cluster", cluster.scheduler_address)
        worker = half_way(folder, process)
        os.kill(worker, signal.SIGKILL)
        out, err = process.communicate()
    assert (process.returncode, err) == (0, ""), (out, err)
    check(folder, expected)
