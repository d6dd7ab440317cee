"""How a signal stops `train` and `resume`: after a step, on one process or on all that `mpirun` started.

Of what loads at once, for ranks listen ahead of all else.
"""

import os
import signal
import threading
import time
from types import FrameType

import psutil

from intnet.runs import kept
from intnet.training.stop import Stop

MOMENT = 0.5  # seconds; mpirun kills a second or so after its SIGTERM
# what Open MPI tells a rank: which it is, of all and of those on its machine, and of which mpirun
RANK, LOCAL, JOB = "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "PMIX_NAMESPACE"


class Asked(Stop):
    """A stop after a step on all ranks: the first SIGINT or SIGUSR1 of any of them asks for it.

    SIGTERM, by which mpirun ends all when a rank or itself was stopped, leaves a moment for it: a step that
    waits for a rank that is gone never ends. A second signal leaves as much. Ahead of that moment, for mpirun
    soon hands on nothing that ranks say, rank 0 says what is kept, or rank 1 where rank 0 is gone; so it is
    from a process's start, ahead of MPI's, to its end. over: what there is to say is said
    """

    def __init__(self, folder: str) -> None:
        super().__init__(signal.SIGINT, signal.SIGUSR1, signal.SIGTERM)
        self.folder, self.over = folder, False
        # a handler would wait for the main thread, which waits for the other ranks
        heard, told = os.pipe()
        os.set_blocking(told, False)
        threading.Thread(target=self._listen, args=[heard], daemon=True).start()
        for number in self.signals:
            signal.signal(number, self._on_signal)
        signal.set_wakeup_fd(told)

    def __enter__(self) -> "Asked":
        return self

    def __exit__(self, *error: object) -> None:
        """It goes on."""

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        """`_listen` has heard it."""

    def _listen(self, heard: int) -> None:
        while told := os.read(heard, 1):
            again, self.signal = self.signal, told[0]
            if again or self.signal == signal.SIGTERM:
                try:
                    if not self.over and _speaks():
                        line = f"all ranks end, one of them or mpirun was stopped: {kept.told(self.folder)}"
                        os.write(2, f"intnet: {line}\n".encode())
                    time.sleep(MOMENT)
                finally:
                    os._exit(128 + self.signal)
            if os.environ.get(RANK) == "0":
                os.write(2, b"\nstopping after this step (once more: at once)\n")


def _speaks() -> bool:
    """Whether this is rank 0, or rank 1 on the machine of a rank 0 that is gone."""
    if os.environ.get(RANK) != "1":
        return os.environ.get(RANK) == "0"
    return os.environ.get(LOCAL) == "1" and not any(map(_first, psutil.process_iter()))


def _first(process: psutil.Process) -> bool:
    """Whether it is rank 0 of this mpirun."""
    try:
        given = process.environ()
        return given.get(RANK) == "0" and given.get(JOB) == os.environ.get(JOB)
    except psutil.Error:  # another user's, or gone
        return False


_heard: Asked | None = None


def listen(folder: str) -> Asked:
    """From now on this process, a rank, hears signals; folder: of its run."""
    global _heard  # noqa: PLW0603 (signals are a process's)
    if _heard is None:
        _heard = Asked(folder)
    _heard.folder = folder
    return _heard


def stop() -> Stop:
    """What lets a run stop after a step, and on ranks says what is kept where it cannot."""
    return _heard or Stop(signal.SIGINT, signal.SIGTERM)
