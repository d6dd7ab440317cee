"""The runs of a sweep in processes of this machine: `run(tasks, jobs)` yields how each one ended.

    python -m intnet.sweeps.processes        a worker: a task a line on stdin, its outcome a line on stdout

Workers are new interpreters, each with its share of the threads; what they compute does not depend on it.
Each trains one run, so that the memory which a run's report tells is its own.
A worker that dies takes its run nowhere: the next one goes on from the checkpoint. A run in which ATTEMPTS
workers died is given up, the others go on.
"""

import dataclasses
import json
import os
import selectors
import signal
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Generator, Sequence
from types import TracebackType
from typing import Any

from intnet.sweeps import work
from intnet.sweeps.work import FAILED, STOPPED, Outcome

ATTEMPTS = 3
TICK = 0.25  # seconds between two looks of whoever waits for outcomes


class Worker:
    """A process that trains a task; use it in a `with` statement, which ends it."""

    def __init__(self, threads: int) -> None:
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "NUMBA_NUM_THREADS": str(threads), "PYTHONPATH": path},
        )
        self.task: dict[str, Any] | None = None

    def __enter__(self) -> "Worker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.task is not None:  # in the middle of one: it is saved up to its last checkpoint
            self.process.kill()
        self.process.__exit__(None, None, None)  # closes its stdin, at which it ends

    def give(self, task: dict[str, Any]) -> None:
        """Let it train a task; one that is dead already says so in `outcome`."""
        assert self.process.stdin is not None
        self.task = task
        try:
            self.process.stdin.write(json.dumps(task) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass

    def outcome(self) -> Outcome | None:
        """How its task ended, once its stdout can be read; None when the process died."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.endswith("\n"):
            self.process.kill()
            return None
        self.task = None
        return Outcome(**json.loads(line))


def threads(jobs: int) -> int:
    """Of each worker, where so many share this machine's."""
    given = os.environ.get("NUMBA_NUM_THREADS", "")
    total = int(given) if given.isdecimal() else len(os.sched_getaffinity(0))
    return max(1, total // jobs)


def run(tasks: Sequence[dict[str, Any]], jobs: int) -> Generator[Outcome | None, None, None]:
    """Outcomes as tasks end; None in between, every TICK seconds at least: a caller can look around."""
    waiting, died = deque(tasks), Counter[str]()
    share = threads(jobs)
    workers: list[Worker] = []
    try:
        for _ in range(min(jobs, len(tasks))):
            workers.append(Worker(share))
            workers[-1].give(waiting.popleft())
        while any(worker.task is not None for worker in workers):
            yield None
            for i in _readable(workers):
                worker = workers[i]
                task, outcome = worker.task, worker.outcome()
                assert task is not None
                status = _end(worker)
                if outcome is None:
                    outcome = _after_death(task, status, died)
                    if outcome is None:
                        waiting.appendleft(task)
                if waiting:
                    workers[i] = Worker(share)
                    workers[i].give(waiting.popleft())
                if outcome is not None:
                    yield outcome
    finally:
        for worker in workers:
            worker.__exit__(None, None, None)


def _readable(workers: list[Worker]) -> list[int]:
    """Numbers of workers that have said something, or died; waits up to TICK seconds for one."""
    with selectors.DefaultSelector() as selector:
        for i, worker in enumerate(workers):
            if worker.task is not None and worker.process.stdout is not None:
                selector.register(worker.process.stdout, selectors.EVENT_READ, i)
        return [key.data for key, _ in selector.select(TICK)]


def _end(worker: Worker) -> int:
    """The exit status of a worker that is done with its task, or dead; it has none any more."""
    worker.__exit__(None, None, None)
    worker.task = None
    return worker.process.returncode


def _after_death(task: dict[str, Any], status: int, died: Counter[str]) -> Outcome | None:
    """The outcome of a task whose worker died; None: another one shall go on with it."""
    name = task["name"]
    died[name] += 1
    if work.Ended(task)():
        return Outcome(name, STOPPED)
    if died[name] < ATTEMPTS:
        return None
    how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
    why = f"its process died {ATTEMPTS} times, the last time by {how}"
    return Outcome(name, FAILED, why + (" (out of memory?)" if status == -signal.SIGKILL else ""))


def main() -> None:
    """A worker."""
    # Signals of a terminal go to whole groups; who started this one stops it by the session's file.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    parent, answers = os.getppid(), os.dup(1)
    os.dup2(2, 1)  # what else is printed is no outcome
    for line in sys.stdin:
        outcome = work.train(json.loads(line), stop=lambda: os.getppid() != parent)
        try:
            os.write(answers, (json.dumps(dataclasses.asdict(outcome)) + "\n").encode())
        except BrokenPipeError:  # the command was killed: the folder of the run says it all
            return


if __name__ == "__main__":
    main()
