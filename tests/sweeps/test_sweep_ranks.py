"""Runs of a sweep that many ranks train each: digests of one process, and jobs that fail."""

import dataclasses
import os
from pathlib import Path

import pytest

from intnet.runs import run_folder
from intnet.sweeps import plan as plans
from intnet.sweeps import work
from intnet.sweeps.plan import Asked, Part
from tests.support.cluster import local_cluster
from tests.support.command import here, last_line
from tests.support.mpi import MPIRUN, needs_mpi, settings
from tests.support.pipes import together

ASKED = Asked([Part("wageubn")], "mlp", "digits", batch_size=96, limit=150, steps=3)
GRID: tuple[object, ...] = (
    "--method", "float32", "--model", "mlp", "--data", "digits", "--limit", "150", "--batch-size", "96",
    "--steps", "3",
)  # fmt: skip
# The method of a file that is there for all ranks but one.
FILE = """\
import os
from intnet.methods import Float32, register

if os.environ.get("OMPI_COMM_WORLD_RANK") == "1":
    raise RuntimeError("not on this rank")

@register("mine")
class Mine(Float32):
    pass
"""


@pytest.mark.slow
def test_ranks_train_a_task_begun_and_gone_on_with(tmp_path: Path) -> None:
    """Three steps on three ranks, then two more on two; over pipes. Only rank 0's session counts."""
    folder, plan = tmp_path / "sweep", plans.make(ASKED)
    longer = dataclasses.replace(plan, steps=5)
    (run,) = plan.runs()
    with plans.opened(folder, plan):
        task = plans.task(folder, plan, *run, work.begin(folder), None)
        name = task["name"]
        assert together(3, work.train, task) == [work.Outcome(name, work.DONE)] * 3
        grown = plans.task(folder, longer, *run, work.begin(folder), None)
        assert together(2, work.train, task) == [work.Outcome(name, work.STOPPED)] * 2
        assert together(2, work.train, grown) == [work.Outcome(name, work.DONE)] * 2
    alone = run_folder.build("wageubn", {}, "mlp", "digits", 96, 1, 150)
    alone.train(5)
    assert run_folder.load(Path(task["folder"])).digest() == alone.digest()


@pytest.fixture
def launch(monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in settings().items():
        monkeypatch.setenv(name, value)
    return f"{MPIRUN} --bind-to none -n 2"


@pytest.mark.slow
def test_what_a_launcher_prints_is_no_outcome(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ahead of the worker's line, on it, and in its place."""
    speaks, silent = tmp_path / "speaks", tmp_path / "silent"
    speaks.write_text('#!/bin/sh\necho starting\necho "[1, 2]"\nprintf "[1,0]<stdout>: "\nexec "$@"\n')
    silent.write_text("#!/bin/sh\necho starting\n")
    for path in (speaks, silent):
        path.chmod(0o755)
    found = [
        here(capsys, "sweep", *GRID, "--vary", "lr=0.02,0.01", *more, "--out", tmp_path / f"{len(more)}")
        for more in ((), ("--launch", str(speaks)), ("--launch", str(silent), "--jobs", "2"))
    ]
    assert [status for status, *_ in found] == [0, 0, 1]
    assert last_line(found[0][1]) == last_line(found[1][1])
    assert "its process died" in found[2][1]


@pytest.mark.slow
@needs_mpi
def test_a_job_that_fails_leaves_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], launch: str
) -> None:
    """Of the table of one process all but the speed; the job that diverges says why, as one process does."""
    grid = (*GRID, "--vary", "lr=0.02,1e30", "--json")
    found = [
        here(capsys, "sweep", *grid, *more, "--out", tmp_path / f"{len(more)}")[:2]
        for more in ((), ("--launch", launch, "--jobs", "2"))
    ]
    assert [status for status, _ in found] == [1, 1]
    reports = [
        sorted(
            (path.parent.name, run_folder.load(path.parent).digest()) for path in folder.glob("runs/*/*.md")
        )
        for folder in (tmp_path / "0", tmp_path / "4")
    ]
    assert reports[0] == reports[1] and len(reports[0]) == 1
    for _, out in found:
        assert "the logits hold a NaN or infinity" in out and "rank" not in out.partition("rows")[2]


@pytest.mark.slow
@needs_mpi
def test_a_worker_of_a_cluster_starts_ranks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], launch: str
) -> None:
    """Each run on two ranks of a worker of its own: the sweep's digest is that of processes here."""
    grid = (*GRID, "--vary", "lr=0.02,0.1")
    with local_cluster(1) as cluster:
        more = ("--cluster", cluster.scheduler_address, "--launch", launch)
        found = [
            here(capsys, "sweep", *grid, *how, "--out", tmp_path / f"{len(how)}")[:2] for how in ((), more)
        ]
    assert [status for status, _ in found] == [0, 0]
    assert last_line(found[0][1]) == last_line(found[1][1])
    assert len([*(tmp_path / "4").glob("runs/*/sent.json")]) == 2


@pytest.mark.slow
@needs_mpi
def test_a_rank_that_fails_alone_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], launch: str
) -> None:
    file = tmp_path / "own.py"
    file.write_text(FILE)
    status, out, _ = here(
        capsys, "sweep", "--import", file, "--method", "mine", *GRID[2:], "--launch", launch, "--out",
        tmp_path / "sweep",
    )  # fmt: skip
    assert status == 1
    assert f"failed: mine, seed 1: rank 1: {file}" in out.replace(f"RuntimeError{os.sep}", "")
    assert "not on this rank" in out and "sweep sha256" in last_line(out)
