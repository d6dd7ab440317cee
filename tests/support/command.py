"""Running the command line in tests: as a process of its own, or in this one."""

import importlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from intnet import plugins
from intnet.cli.main import main

ROOT = Path(__file__).parents[2]
MLP = ("--method", "wageubn", "--model", "mlp", "--data", "digits", "--batch-size", "32", "--seed", "3")
PYTHON = (sys.executable, "-W", "error")  # a warning is an error in subprocesses too
TIMED = ("seconds", "images_per_second", "process")


def environment(**changes: str) -> dict[str, str]:
    """This process's, with the repository on the path and `changes`."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **changes}


def intnet(*arguments: object, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """`python -m intnet ...` to its end."""
    command = [*PYTHON, "-m", "intnet", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=environment(), capture_output=True, text=True, check=False)


def here(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """(exit status, stdout, stderr) of a command run in this process."""
    try:
        status = main([str(argument) for argument in arguments])
    except SystemExit as exit:
        assert isinstance(exit.code, int)
        status = exit.code
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@contextmanager
def forgotten(folder: Path) -> Iterator[None]:
    """What is registered meanwhile is forgotten after it, with the modules that stand in the folder."""
    before = {kind: (dict(one), dict(one.origins)) for kind, one in plugins._REGISTRIES.items()}
    loaded, path = dict(plugins._LOADED), list(sys.path)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        for kind, registry in plugins._REGISTRIES.items():
            own = {name: made for name, made in registry.items() if name not in registry.origins}
            known, origins = before.get(kind, (own, {}))  # its module was imported only now: intnet's own
            registry.clear()
            registry.update(known)
            registry.origins = origins
        plugins._LOADED.clear()
        plugins._LOADED.update(loaded)
        sys.path[:] = path
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None)).startswith(f"{folder}{os.sep}"):
                del sys.modules[name]


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """`forgotten`, where no part of a user's own is known, whatever has been registered ahead of it."""
    with forgotten(folder):
        plugins._LOADED.clear()
        for registry in plugins._REGISTRIES.values():
            for name in registry.origins:
                del registry[name]
            registry.origins = {}
        yield


def afresh(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """(exit status, stdout, stderr) of a command run in a folder, in this process, which has started already.

    It knows no part of a user's own, whatever has been registered ahead of it, and leaves none.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))  # as pipes are
    before = Path.cwd()
    with alone(folder), redirect_stdout(out), redirect_stderr(err):
        os.chdir(folder)
        try:
            status = main(list(arguments))
        except SystemExit as exit:
            assert isinstance(exit.code, int)
            status = exit.code
        finally:
            os.chdir(before)
    out.seek(0)
    err.seek(0)
    return status, out.read(), err.read()


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line on stderr with which a command ends in status 2, printing nothing else."""
    status, out, err = here(capsys, *arguments)
    assert (status, out, err.count("\n"), err[-1:]) == (2, "", 1, "\n"), (status, out, err)
    assert err.startswith(("intnet: ", "intnet ")) and "Traceback" not in err
    return err


def train_arguments(**changes: Any) -> list[Any]:
    """A right `train` with other options; None leaves one out."""
    right = {"method": "wageubn", "model": "mlp", "data": "digits", "steps": 2, "out": "unused"} | changes
    return [
        "train",
        *(
            x
            for key, value in right.items()
            if value is not None
            for x in ("--" + key.replace("_", "-"), value)
        ),
    ]


def signalled(number: signal.Signals, folder: Path, lines: int, *arguments: object) -> tuple[int, str]:
    """Send a signal to `intnet ...` once RUN/metrics.jsonl has so many lines; (exit status, stderr)."""
    command = [*PYTHON, "-m", "intnet", *map(str, arguments)]
    metrics = folder / "metrics.jsonl"
    streams: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, env=environment(), **streams) as process:
        while not metrics.exists() or metrics.read_bytes().count(b"\n") < lines:
            assert process.poll() is None, f"it ended before the signal: {process.communicate()[1]}"
            time.sleep(0.002)
        process.send_signal(number)
        err = process.communicate()[1]
    return process.returncode, err


def last_line(text: str) -> str:
    return text.rstrip("\n").split("\n")[-1]


def resumed(capsys: pytest.CaptureFixture[str], folder: Path, *given: object) -> Path:
    """A run of four steps, `folder`/run, which is to the bit one of two that is resumed."""
    whole, part = folder / "run", folder / "part"
    status, out, err = here(capsys, "train", *given, "--steps", 4, "--out", whole)
    assert status == 0, err
    here(capsys, "train", *given, "--steps", 2, "--out", part)
    status, again, _ = here(capsys, "resume", part, "--steps", 4)
    assert (status, last_line(again)) == (0, last_line(out))
    assert (whole / "checkpoint.npz").read_bytes() == (part / "checkpoint.npz").read_bytes()
    return whole


def tour(
    capsys: pytest.CaptureFixture[str], folder: Path, *given: object, path: str, layers: str = "fc2"
) -> str:
    """Train, resume, eval, verify, golden to `folder`/pack, check by both ways; what inspect told of fc2."""
    run, pack = resumed(capsys, folder, *given), folder / "pack"
    assert here(capsys, "eval", run)[0] == 0
    status, out, _ = here(capsys, "verify", run, "--elements", 50)
    assert status == 0 and "no difference" in out
    assert here(capsys, "golden", run, "--layer", layers, "--out", pack)[0] == 0
    assert here(capsys, "check", pack)[0] == 0
    status, out, _ = here(capsys, "check", pack, "--by", "spec")
    assert status == 0 and "PASS" in out and "not recomputed" not in out
    status, out, err = here(capsys, "inspect", run, "--layer", "fc2", "--path", path, "--index", "0,0")
    assert status == 0, err
    return out


def metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl without the measured times."""
    texts = (folder / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(text).items() if k not in TIMED} for text in texts]


def read_report(folder: Path) -> dict[str, Any]:
    """report.json without the measured times."""
    return {k: v for k, v in json.loads((folder / "report.json").read_text()).items() if k not in TIMED}
