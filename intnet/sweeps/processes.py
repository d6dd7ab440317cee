"""The runs of a sweep in processes of this machine: `run(tasks, jobs)` yields how each one ended.

    python -m intnet.sweeps.processes        a worker: a task as a line on stdin, its outcome a line on stdout

Workers are new interpreters, each with its share of the threads; what they compute does not depend on it.
Each trains one run, so that the memory which a run's report tells is its own. Started by a command such as
`mpirun -n 4`, a worker is that many processes, the ranks of one run: rank 0 has stdin, and speaks for all but
for a rank that fails alone. Threads wait at the pipes: here
for outcomes, in a worker for the end of its stdin. Not every system can wait for several pipes at once.
A worker that dies takes its run nowhere: the next one goes on from the checkpoint. A run in which ATTEMPTS
workers died is given up, the others go on.
"""

import dataclasses
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Generator, Sequence
from contextlib import suppress
from typing import Any

from intnet.machine.mpi import WAIT, MpiWorld, launched
from intnet.machine.ranks import joined
from intnet.runs.process import cores
from intnet.sweeps import work
from intnet.sweeps.work import FAILED, STOPPED, Outcome

ATTEMPTS = 3
TICK = 0.25  # seconds between two looks of whoever waits for outcomes


class Worker:
    """A process that trains a task and puts itself into `heard` when it has said how, or died.

    launch: the command that starts it, as many times as there are ranks; how many threads each has is its
    business
    """

    def __init__(self, threads: int, heard: "queue.SimpleQueue[Worker]", launch: Sequence[str] = ()) -> None:
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        own = {} if launch else {"NUMBA_NUM_THREADS": str(threads)}
        self.process = subprocess.Popen(
            [*launch, sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **own, "PYTHONPATH": path},
            start_new_session=bool(launch),  # mpirun would end its ranks at a Ctrl-C, amid a step
        )
        self.task: dict[str, Any] | None = None
        self._said: Outcome | None = None
        self._listener = threading.Thread(target=self._listen, args=(heard,), daemon=True)
        self._listener.start()

    def _listen(self, heard: "queue.SimpleQueue[Worker]") -> None:
        """To the line that says how its task ended; what a launcher prints beside it is none."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._said = _outcome(line)
            if self._said is not None:
                break
        heard.put(self)

    def end(self) -> int:
        """The exit status of the process, which is killed where it has not said how its task ended."""
        if self.task is not None:  # saved up to its last checkpoint
            self.process.kill()
        self.task = None
        assert self.process.stdin is not None
        with suppress(OSError):  # there is nobody at the other end of a dead one's
            self.process.stdin.close()  # at which a live one ends
        self._listener.join()
        self.process.__exit__(None, None, None)
        return self.process.returncode

    def give(self, task: dict[str, Any]) -> None:
        """Let it train a task; one that is dead already says so in `outcome`."""
        assert self.process.stdin is not None
        self.task = task
        with suppress(OSError):
            self.process.stdin.write(json.dumps(task) + "\n")
            self.process.stdin.flush()

    def outcome(self) -> Outcome | None:
        """How its task ended, once it is in `heard`; None when the process died."""
        if self._said is not None:
            self.task = None
        return self._said


def _outcome(line: str) -> Outcome | None:
    """How a task ended, of a worker's line, which a launcher may have put a tag before; None of any other."""
    try:
        return Outcome(**json.loads(line[line.find("{") :]))
    except (ValueError, TypeError):
        return None


def threads(jobs: int) -> int:
    """Of each worker, where so many share this machine's."""
    given = os.environ.get("NUMBA_NUM_THREADS", "")
    total = int(given) if given.isdecimal() else cores()
    return max(1, total // jobs)


def run(
    tasks: Sequence[dict[str, Any]], jobs: int, launch: Sequence[str] = ()
) -> Generator[Outcome | None, None, None]:
    """Outcomes as tasks end; None in between, every TICK seconds at least: a caller can look around."""
    waiting, died = deque(tasks), Counter[str]()
    share = threads(jobs)
    workers: list[Worker] = []
    heard: queue.SimpleQueue[Worker] = queue.SimpleQueue()
    try:
        for _ in range(min(jobs, len(tasks))):
            workers.append(Worker(share, heard, launch))
            workers[-1].give(waiting.popleft())
        while any(worker.task is not None for worker in workers):
            yield None
            try:
                worker = heard.get(timeout=TICK)
            except queue.Empty:
                continue
            task, outcome = worker.task, worker.outcome()
            assert task is not None
            status = worker.end()
            if outcome is None:
                outcome = _after_death(task, status, died)
                if outcome is None:
                    waiting.appendleft(task)
            if waiting:
                workers[workers.index(worker)] = following = Worker(share, heard, launch)
                following.give(waiting.popleft())
            if outcome is not None:
                yield outcome
    finally:
        for worker in workers:
            worker.end()


def train(task: dict[str, Any], launch: Sequence[str]) -> Outcome:
    """`work.train` by ranks that `launch` starts."""
    return next(outcome for outcome in run([task], 1, launch) if outcome is not None)


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
    return Outcome(name, FAILED, why + (" (out of memory?)" if how == "SIGKILL" else ""))


def main() -> None:
    """A worker, or a rank of one."""
    # Signals of a terminal go to whole groups; who started this one stops it by the session's file.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    answers = os.dup(1)
    os.dup2(2, 1)  # what else is printed is no outcome
    world = MpiWorld() if launched() > 1 else None
    speaks, ended = world is None or world.rank == 0, threading.Event()
    line = next(sys.stdin, "") if speaks else ""
    if world is not None:
        line = world.messages(line.encode())[0].decode()
    if not line:
        return

    def listen() -> None:
        os.read(0, 1)  # the end, which mpirun does not hand on
        ended.set()

    if speaks:
        threading.Thread(target=listen, daemon=True).start()
    with joined(world):
        outcome = work.train(json.loads(line), stop=ended.is_set)
    failed = outcome.state == FAILED
    if world is not None and world.rank:
        if not failed:
            return
        time.sleep(WAIT)
        outcome = dataclasses.replace(outcome, why=f"rank {world.rank}: {outcome.why}")
    with suppress(OSError):  # the command was killed: the folder of the run says it all
        os.write(answers, (json.dumps(dataclasses.asdict(outcome)) + "\n").encode())
    if world is not None and failed:
        world.abort(1)


if __name__ == "__main__":
    main()
