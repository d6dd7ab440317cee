"""The runs of a sweep on the workers of a Dask cluster: `run(tasks, client)` yields how each one ended.

Workers need the same intnet and the sweep's folder by the same path. A run whose worker dies is given to
another one, by Dask, which goes on from the checkpoint; so often as `distributed.scheduler.allowed-failures`
of Dask's configuration says (3). A worker trains one run at a time, with the threads of its own
NUMBA_NUM_THREADS: `dask worker --nthreads 1` fits. Where a run is a job of ranks, a worker starts it.

distributed is not needed otherwise: it is the extra `cluster`, and imported only here.
"""

import importlib.util
import logging
import queue
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from intnet.errors import ConfigError
from intnet.runs import run_folder
from intnet.sweeps import processes, work
from intnet.sweeps.processes import TICK
from intnet.sweeps.work import FAILED, Outcome

if TYPE_CHECKING:
    from distributed import Client, Future

PATIENCE = 15  # seconds until a scheduler must have answered


@contextmanager
def connected(address: str) -> "Iterator[Client]":
    """A client of the scheduler at 'tcp://HOST:PORT'; ConfigError where none answers."""
    if importlib.util.find_spec("distributed") is None:
        raise ConfigError("--cluster needs Dask: pip install distributed")
    if not re.fullmatch(r"\w+://.+:\d+", address):
        raise ConfigError(f"--cluster {address}: write tcp://HOST:PORT, as the scheduler shows it")
    from distributed import Client

    try:
        client = Client(address, timeout=PATIENCE, set_as_default=False)
    except OSError as error:
        what = " ".join(f"{error}".split()) or type(error).__name__
        raise ConfigError(f"--cluster {address}: no scheduler of Dask answers there ({what})") from None
    with client, _quiet("distributed.client"):
        # a function of Python's own: one of intnet's ends the worker that cannot import it
        found = client.run(importlib.util.find_spec, "intnet")
        lacking = sorted(worker for worker, spec in found.items() if spec is None)
        if lacking:
            raise ConfigError(f"workers without intnet: {', '.join(lacking)}: install the same version there")
        yield client


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """A logger that says nothing: of a scheduler that dies Dask prints a traceback, `_outcome` a line."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


def run(
    tasks: Sequence[dict[str, Any]], client: "Client", launch: Sequence[str] = ()
) -> Generator[Outcome | None, None, None]:
    """Outcomes as tasks end; None in between, every TICK seconds at least: a caller can look around."""
    ended: queue.SimpleQueue[tuple[str, Future]] = queue.SimpleQueue()
    futures = []
    for task in tasks:
        name = task["name"]
        job = (processes.train, task, launch) if launch else (work.train, task)
        future = client.submit(*job, key=f"{name}-{task['session']}", pure=False)
        future.add_done_callback(lambda future, name=name: ended.put((name, future)))
        futures.append(future)
    over, left = work.Ended(tasks[0]) if tasks else run_folder.never, {future.key for future in futures}
    while left:
        yield None
        try:
            name, future = ended.get(timeout=TICK)
        except queue.Empty:
            if over() and not any(left.intersection(keys) for keys in client.processing().values()):
                return  # what no worker has begun: it waits for one
            continue
        left.discard(future.key)
        yield _outcome(name, future)


def _outcome(name: str, future: "Future") -> Outcome:
    """What became of a task."""
    from distributed import KilledWorker

    if future.status == "finished":
        outcome: Outcome = future.result()
        return outcome
    if future.status != "error":  # cancelled, lost
        return Outcome(name, FAILED, f"the cluster lost it ({future.status}): is its scheduler still there?")
    error = future.exception()
    if isinstance(error, KilledWorker):
        return Outcome(name, FAILED, "workers that trained it died, again and again (out of memory?)")
    return Outcome(name, FAILED, " ".join(f"{type(error).__name__}: {error}".split()))
