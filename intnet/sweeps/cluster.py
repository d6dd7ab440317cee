"""The runs of a sweep on the workers of a Dask cluster: `run(tasks, client)` yields how each one ended.

Workers need the same intnet and the sweep's folder by the same path. A run whose worker dies is given to
another one, by Dask, which goes on from the checkpoint; so often as `distributed.scheduler.allowed-failures`
of Dask's configuration says (3). A worker trains one run at a time, with the threads of its own
NUMBA_NUM_THREADS: `dask worker --nthreads 1` fits.

distributed is not needed otherwise: it is the extra `cluster`, and imported only here.
"""

import importlib.util
import queue
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from intnet.errors import ConfigError
from intnet.sweeps import work
from intnet.sweeps.processes import TICK
from intnet.sweeps.work import FAILED, Outcome

if TYPE_CHECKING:
    from distributed import Client, Future

PATIENCE = 15  # seconds until a scheduler must have answered


def check() -> None:
    """ConfigError where distributed is missing."""
    if importlib.util.find_spec("distributed") is None:
        raise ConfigError("--cluster needs Dask: pip install 'intnet[cluster]'")


@contextmanager
def connected(address: str) -> "Iterator[Client]":
    """A client of the scheduler at 'tcp://HOST:PORT'; ConfigError where none answers."""
    check()
    from distributed import Client

    try:
        client = Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        what = " ".join(f"{error}".split()) or type(error).__name__
        raise ConfigError(f"--cluster {address}: no scheduler of Dask answers there ({what})") from None
    with client:
        yield client


def run(tasks: Sequence[dict[str, Any]], client: "Client") -> Generator[Outcome | None, None, None]:
    """Outcomes as tasks end; None in between, every TICK seconds at least: a caller can look around."""
    ended: queue.SimpleQueue[tuple[str, Future]] = queue.SimpleQueue()
    futures = []
    for task in tasks:
        name = task["name"]
        future = client.submit(work.train, task, key=f"{name}-{task['session']}", pure=False)
        future.add_done_callback(lambda future, name=name: ended.put((name, future)))
        futures.append(future)
    for _ in futures:
        while True:
            yield None
            try:
                name, future = ended.get(timeout=TICK)
                break
            except queue.Empty:
                continue
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
    if isinstance(error, ImportError):
        return Outcome(name, FAILED, f"its worker has no intnet ({error}): install the same version there")
    return Outcome(name, FAILED, " ".join(f"{type(error).__name__}: {error}".split()))
