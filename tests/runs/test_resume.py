"""Runs that were killed, stopped or finished go on bit for bit; a run belongs to one process at a time."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from intnet.errors import ConfigError
from intnet.runs import checkpoint, files, run_folder
from tests.support.command import (
    MLP,
    PYTHON,
    ROOT,
    environment,
    here,
    intnet,
    last_line,
    metrics,
    read_report,
    refused,
    signalled,
)

STEPS = 240
TRAIN = ("train", *MLP, "--checkpoint-every", 3)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """(folder, digest line) of a run of STEPS steps: five epochs and a part."""
    folder = tmp_path_factory.mktemp("runs") / "unbroken"
    done = intnet(*TRAIN, "--steps", STEPS, "--out", folder)
    assert (done.returncode, done.stderr) == (0, "")
    return folder, last_line(done.stdout)


def same(folder: Path, unbroken: Path) -> None:
    """Two run folders agree in everything but measured times and the plan."""
    assert metrics(folder) == metrics(unbroken)
    assert read_report(folder) == read_report(unbroken)
    assert (folder / "checkpoint.npz").read_bytes() == (unbroken / "checkpoint.npz").read_bytes()
    assert not list(folder.glob(".*.partial"))


def saved_step(folder: Path) -> int:
    step: int = checkpoint.load(folder / "checkpoint.npz")[1]["step"]
    return step


# -- killed and stopped ------------------------------------------------------------------------


@pytest.mark.slow
def test_kill_9_again_and_again(
    unbroken: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "killed"
    command: tuple[object, ...] = (*TRAIN, "--steps", STEPS, "--out", folder)
    for lines in (2, 50, 101, 180):
        status, err = signalled(signal.SIGKILL, folder, lines, *command)
        assert (status, err) == (-signal.SIGKILL, "")
        logged = [line["step"] for line in run_folder.read_metrics(folder / "metrics.jsonl")][-1]
        assert saved_step(folder) in range(logged - 3, logged + 1)
        command = ("resume", folder)
    status, out, err = here(capsys, "resume", folder)
    assert (status, err, last_line(out)) == (0, "", unbroken[1])
    same(folder, unbroken[0])


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals(
    number: signal.Signals,
    status: int,
    unbroken: tuple[Path, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "stopped run"
    ended, err = signalled(number, folder, 60, *TRAIN, "--steps", STEPS, "--out", folder)
    step = saved_step(folder)
    assert ended == status and step == metrics(folder)[-1]["step"]  # no finished step is lost
    assert f"stopped: {folder} is saved at step {step} of 240; go on with: intnet resume '{folder}'\n" in err
    assert "Traceback" not in err
    assert last_line(here(capsys, "resume", folder)[1]) == unbroken[1]
    same(folder, unbroken[0])


@pytest.mark.slow
def test_the_second_signal_stops_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Here in the middle of a step, which is then lost, and nothing else."""
    folder = tmp_path / "run"

    def twice(_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(10)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_folder, "step_lines", twice)
        status, _, err = here(capsys, *TRAIN, "--steps", 5, "--out", folder)
    assert status == 130 and "is saved at step 0 of 5; go on with: intnet resume" in err
    assert here(capsys, "resume", folder)[0] == 0
    assert [line["step"] for line in metrics(folder)] == [1, 2, 3, 4, 5]


@pytest.mark.slow
def test_a_run_from_before_its_method_had_a_key(tmp_path: Path) -> None:
    """It goes on, and its folder keeps saying what it was started with."""
    identity, later = run_folder.identity, {"clip", "warmup", "optimizer"}

    def without(run: run_folder.Run) -> dict[str, Any]:
        own = identity(run)
        return own | {"options": {k: v for k, v in own["options"].items() if k not in later}}

    digests = []
    for name, first in (("old", 2), ("whole", 4)):
        run = run_folder.build("float32", {}, "mlp", "digits", 32, limit=96)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(run_folder, "identity", without)
            with run_folder.create(tmp_path / name, run, first) as work:
                work.train()
        for steps in range(first + 1, 5):
            with run_folder.resume(tmp_path / name, steps=steps) as work:
                work.train()
        digests.append(work.run.digest())
    assert digests[0] == digests[1]
    kept = json.loads((tmp_path / "old" / "config.json").read_text())["run"]["options"]
    assert "lr" in kept and later.isdisjoint(kept)


@pytest.mark.slow
@pytest.mark.parametrize("step", [5, 6])
def test_a_kill_between_any_two_writes(step: int, tmp_path: Path) -> None:
    """The process dies at every single write of step 5, and at those of the end of the run."""
    with run_folder.create(tmp_path / "whole", three_steps_an_epoch(), 6, checkpoint_every=5) as work:
        work.train()
    for death in range(40):
        folder = tmp_path / str(death)
        if not died_and_resumed(folder, step, death):
            break
        same(folder, tmp_path / "whole")
        shutil.rmtree(folder)
    assert death > 2


class Death(BaseException):
    """Stands for SIGKILL: nothing of ours catches it."""


def three_steps_an_epoch() -> run_folder.Run:
    return run_folder.build("wageubn", {}, "mlp", "digits", 32, limit=96)


def died_and_resumed(folder: Path, step: int, death: int) -> bool:
    """Train, die at write number `death` from step `step` on, resume; False when there was no such write."""
    writes = 0

    def dying() -> None:
        nonlocal writes
        writes += work.run.step >= step
        if writes > death:
            raise Death

    def around(write: Callable[..., None]) -> Callable[..., None]:
        def dies(*arguments: Any) -> None:
            dying()
            write(*arguments)
            dying()

        return dies

    write, log = files.replace, run_folder.RunFolder.log
    run = three_steps_an_epoch()
    with pytest.MonkeyPatch.context() as patch, run_folder.create(folder, run, 6, checkpoint_every=5) as work:
        patch.setattr(files, "replace", around(write))
        patch.setattr(run_folder.RunFolder, "log", around(log))
        try:
            work.train()
        except Death:
            pass
        else:
            return False
    with run_folder.resume(folder) as again:
        assert again.run.step < 6 or (folder / "report.json").exists()
        again.train()
    return True


# AdaPT's lookback of 25 steps, with an update every other step; MuPPET's diversity every 3 epochs of 4 steps,
# DYNASTY's map every epoch
MOVING: dict[str, dict[str, Any]] = {"adapt": {"accs": 2}, "muppet": {"patience": 1}, "dynasty": {"bits": 3}}


def moving(method: str) -> run_folder.Run:
    return run_folder.build(method, MOVING[method], "mlp", "digits", 32, seed=3, limit=128)


@pytest.mark.slow
@pytest.mark.parametrize("method", MOVING)
def test_kill_9_where_widths_move(method: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    options = [part for key, value in MOVING[method].items() for part in ("--set", f"{key}={value}")]
    status, err = signalled(
        signal.SIGKILL, folder, 30, "train", "--method", method, *options, *MLP[2:], "--limit", 128,
        "--checkpoint-every", 1, "--steps", 64, "--out", folder,
    )  # fmt: skip
    assert (status, err) == (-signal.SIGKILL, "")
    assert 0 < saved_step(folder) < 64
    with run_folder.resume(folder) as work:
        work.train()
        resumed = work.run.digest()
    whole = moving(method)
    whole.train(64)
    assert resumed == whole.digest()


WAITING = [("adapt", (1, 13, 26, 37)), ("muppet", (4, 8, 14, 21)), ("dynasty", (2, 4, 7, 13))]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "steps"), WAITING)
def test_resuming_where_something_waits(method: str, steps: tuple[int, ...], tmp_path: Path) -> None:
    """In a lookback, with a gradient that waits for an update, between two kept gradients, in an epoch.

    With half of an epoch's sensitivities, before and under a map.
    """
    whole = moving(method)
    whole.train(40)
    run = moving(method)
    waiting: set[str] = set()
    for step in steps:
        run.train(step)
        checkpoint.save(tmp_path / "state.npz", run.state(), {"step": run.step})
        run = moving(method)
        state, meta = checkpoint.load(tmp_path / "state.npz")
        waiting |= {
            name for name, value in state.items() if name.endswith((".sum", ".waiting", ".G", ".squares"))
        }
        waiting |= {name for name, value in state.items() if name.endswith((".S", ".b")) and value.any()}
        run.restore(state, meta["step"])
    run.train(40)
    assert run.digest() == whole.digest()
    kinds = {"adapt": {"waiting", "G"}, "muppet": {"sum", "squares"}, "dynasty": {"S", "b"}}[method]
    assert {name.rpartition(".")[2] for name in waiting} == kinds


SAVED = {"bits": "2/4", "mix_prob": "0.8,0.2@3", "bucket": 64, "codec@fc2": "levels"}


@pytest.mark.slow
def test_kill_9_under_saved_activations(tmp_path: Path) -> None:
    """In epochs of four steps, before and after the fall of the mix's share: same digest, same tape."""
    whole, folder = tmp_path / "whole", tmp_path / "run"
    options = [part for key, value in SAVED.items() for part in ("--set", f"{key}={value}")]
    command: tuple[object, ...] = (
        "train", "--method", "saved", *options, *MLP[2:], "--limit", 128, "--checkpoint-every", 1,
        "--steps", 50, "--out",
    )  # fmt: skip
    status, err = signalled(signal.SIGKILL, folder, 6, *command, folder)
    assert (status, err) == (-signal.SIGKILL, "")
    assert 0 < saved_step(folder) < 50
    run = run_folder.build("saved", SAVED, "mlp", "digits", 32, seed=3, limit=128)
    with run_folder.create(whole, run, 50, checkpoint_every=1) as work:
        work.train()
    with run_folder.resume(folder) as work:
        work.train()
        assert work.run.digest() == run.digest()
    same(folder, whole)
    with run_folder.resume(folder) as work:  # a finished one
        assert work.run.step == 50 and work.run.digest() == run.digest()
        work.train()
    same(folder, whole)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, 6, 10, 13])
@pytest.mark.parametrize(
    ("method", "options"), [("saved", SAVED), ("banner", {}), ("mx", {"g": "MXFP4/fit/stochastic"})]
)
def test_resuming_amid_an_epoch(method: str, options: dict[str, Any], steps: int, tmp_path: Path) -> None:
    runs = (run_folder.build(method, options, "mlp", "digits", 32, 3, limit=128) for _ in range(3))
    whole, first, again = runs
    whole.train(20)
    first.train(steps)
    checkpoint.save(tmp_path / "state.npz", first.state(), {"step": first.step})
    state, meta = checkpoint.load(tmp_path / "state.npz")
    again.restore(state, meta["step"])
    again.train(20)
    assert again.digest() == whole.digest() and again.method.held == whole.method.held


@pytest.mark.slow
def test_half_a_line_of_metrics_is_dropped(
    unbroken: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(unbroken[0], folder)
    with open(folder / "metrics.jsonl", "a") as stream:
        stream.write('{"kind": "step", "st')
    (folder / ".checkpoint.npz.99.partial").write_bytes(b"PK")
    assert last_line(here(capsys, "resume", folder)[1]) == unbroken[1]
    same(folder, unbroken[0])


# -- going on ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_more_steps_and_epochs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """2, then 5, then 2 epochs of 4 steps: the same as 8 steps at once."""
    small = ("train", *MLP, "--limit", 128)
    folder, whole = tmp_path / "parts", tmp_path / "whole"
    assert here(capsys, *small, "--epochs", 2, "--out", whole)[0] == 0
    assert here(capsys, *small, "--steps", 2, "--out", folder)[0] == 0
    assert here(capsys, "resume", folder, "--steps", 5)[0] == 0
    assert json.loads((folder / "config.json").read_text())["plan"]["steps"] == 5
    status, out, _ = here(capsys, "resume", folder, "--epochs", 2)
    assert status == 0 and "from step 5 to 8" in out
    same(folder, whole)
    line = refused(capsys, "resume", folder, "--steps", 7)
    assert f"{folder} has done 8 steps already: steps and epochs count from the run's start" in line


@pytest.mark.slow
def test_a_finished_run_shows_its_report_again(
    unbroken: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, digest = unbroken
    before = {path.name: path.read_bytes() for path in folder.glob("[!.]*")}
    status, out, err = here(capsys, "resume", folder)
    assert (status, err, last_line(out)) == (0, "", digest) and "from step 240 to 240" in out
    assert {path.name: path.read_bytes() for path in folder.glob("[!.]*")} == before


@pytest.mark.slow
def test_a_lost_report_is_made_again_without_a_table(
    unbroken: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(unbroken[0], folder)
    (folder / "report.json").unlink()
    assert last_line(here(capsys, "resume", folder)[1]) == unbroken[1]
    old, new = read_report(unbroken[0]), read_report(folder)
    assert new.pop("paths") == [] and old.pop("paths") and old.pop("tape") and new == old
    assert "No step was observed" in (folder / "report.md").read_text()


# -- one process at a time ---------------------------------------------------------------------


@pytest.mark.slow
def test_a_folder_in_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    command = [*PYTHON, "-m", "intnet", *map(str, (*TRAIN, "--steps", 100_000, "--out", folder))]
    with subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL) as process:
        while not (folder / "metrics.jsonl").exists() or not (folder / "metrics.jsonl").stat().st_size:
            assert process.poll() is None
            time.sleep(0.01)
        in_use = f"{folder} is in use by a running intnet (process {process.pid})"
        assert in_use in refused(capsys, "resume", folder)
        assert in_use in refused(capsys, *TRAIN, "--out", folder)
        process.kill()
    assert "holds a run already" in refused(capsys, *TRAIN, "--out", folder)
    with run_folder.resume(folder) as work:
        assert work.plan.steps == 100_000


def test_the_lock_is_given_free(tmp_path: Path) -> None:
    run = run_folder.build("wageubn", {}, "mlp", "digits", limit=64)
    with run_folder.create(tmp_path, run, 2), pytest.raises(ConfigError, match="in use"):
        run_folder.resume(tmp_path)
    run_folder.resume(tmp_path).close()
    with pytest.raises(ConfigError, match="holds a run already"):
        run_folder.create(tmp_path, run, 2)
    with pytest.raises(ConfigError, match="steps = 0"):
        run_folder.create(tmp_path / "other", run, 0)
