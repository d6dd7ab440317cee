"""One run of a sweep, from a task: what every executor calls, in a process on any machine.

`train(task)` takes the run up where its folder says that it stands, trains it and says how it ended. It may
be called again at any time, by another process too, after one that was killed: the folder's lock tells
whether someone is at work, its checkpoint where to go on.

A sweep's command that is at work keeps a session: a file with a token in the sweep's folder, which stands in
its tasks too. Who trains stops after the step when it is gone or another one: so a command that was stopped,
or killed and given again, meets no run that goes on behind its back, on whatever machine.

Where many ranks train a run (`runs/many_ranks.py`), all call `train`; rank 0 alone looks at the sweep's
folder.
"""

import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import intnet
from intnet import plugins
from intnet.errors import ConfigError, IntnetError, InUseError
from intnet.machine.ranks import current
from intnet.runs import files, kept, many_ranks, run_folder
from intnet.runs.identity import check_same_data
from intnet.sweeps import plan

SESSION = ".intnet.session"
LOOK = 0.25  # seconds between two looks at the session
WAIT = 120.0  # seconds for which a run in use is waited for: the step of an earlier session's worker, or NFS
DONE, STOPPED, FAILED = "done", "stopped", "failed"
BEGIN, GO_ON, OVER = b"begin", b"go on", b"over"  # what to do with a run

_ONE = threading.Lock()  # a run at a time in a process: its kernels and buffers are the process's


@dataclass(frozen=True)
class Outcome:
    """How a task ended: DONE (its report is in the folder), STOPPED or FAILED; why: one line."""

    name: str
    state: str
    why: str = ""


def begin(folder: Path) -> str:
    """A new session in a sweep's folder, which ends any other."""
    token = uuid.uuid4().hex
    files.replace(folder / SESSION, token.encode())
    return token


def end(folder: Path) -> None:
    """No session: whoever trains stops after the step."""
    (folder / SESSION).unlink(missing_ok=True)


class Ended:
    """Whether the session of a task is over; looks at its file now and then."""

    def __init__(self, task: dict[str, Any]) -> None:
        self._file, self._token = Path(task["sweep"]) / SESSION, task["session"]
        self._next, self._is = 0.0, False

    def __call__(self) -> bool:
        """Once over, it is over."""
        now = monotonic()
        if not self._is and now >= self._next:
            self._next = now + LOOK
            try:
                self._is = self._file.read_text() != self._token
            except FileNotFoundError:
                self._is = True
        return self._is


def train(task: dict[str, Any], stop: Callable[[], bool] = run_folder.never) -> Outcome:
    """Train the task's run to its end, or until its session is over or `stop` says so after a step."""
    ended = Ended(task)
    with _ONE:
        try:
            done = _train(task, lambda: ended() or stop())
        except Exception as error:  # whatever it is, the other runs go on
            return Outcome(task["name"], FAILED, _line(error))
    return Outcome(task["name"], DONE if done else STOPPED)


def _check_place(task: dict[str, Any]) -> None:
    """ConfigError where this machine does not see the sweep, or has another intnet."""
    if not (Path(task["sweep"]) / plan.PLAN).exists():
        raise ConfigError(f"{task['sweep']} is not there: workers must see the sweep by the same path")
    if intnet.__version__ != task["intnet"]:
        raise ConfigError(f"the worker has intnet {intnet.__version__}, the sweep's command {task['intnet']}")


def _train(task: dict[str, Any], stop: Callable[[], bool]) -> bool:
    """Whether the run is at its end."""
    world = current()
    watches = world is None or world.rank == 0
    way = _way(task, stop) if watches else b""
    if world is not None:
        way = world.messages(way)[0]
    if way == OVER:
        return False
    with _open(task, way) as work:
        work.at_a_time = task["jobs"]
        return work.train(stop=stop if watches else run_folder.never) is not None


def _way(task: dict[str, Any], stop: Callable[[], bool]) -> bytes:
    """What to do with the task's run, once nobody else is at work on it; OVER where `stop` says so."""
    _check_place(task)
    until = monotonic() + WAIT
    while not stop():
        folder = Path(task["folder"])
        try:
            if (folder / files.LOCK).exists():
                files.lock(folder).close()
            return GO_ON if (folder / kept.CONFIG).exists() else BEGIN
        except InUseError:
            if monotonic() > until:
                raise
            sleep(LOOK)
    return OVER


def _open(task: dict[str, Any], way: bytes) -> run_folder.RunFolder:
    """The task's run, begun or gone on with; ConfigError or DataError where it is another one."""
    folder, own = Path(task["folder"]), task["run"]
    plugins.need(own.get("plugins", {}), task["imports"], "the sweep")
    if way == GO_ON:
        work = many_ranks.resume(folder, steps=task["steps"], data_dir=task["data_dir"])
        if work.identity != own:
            work.close()
            raise ConfigError(f"{folder} holds a run that is not of this sweep: remove it")
        return work
    run = run_folder.build_again(own, task["settings"], task["data_dir"])
    check_same_data(own, run, "the sweep")
    return many_ranks.create(folder, run, task["steps"], task["checkpoint_every"], task["data_dir"])


def _line(error: Exception) -> str:
    """What went wrong, in one line."""
    if isinstance(error, IntnetError):
        return error.line()
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'the folder of the run'}: {error.strerror}"
    if isinstance(error, MemoryError):
        return "out of memory: use a smaller batch size or model"
    return " ".join(f"{type(error).__name__}: {error}".split())
