"""How a signal stops `train` and `resume`: behind a step, on one process or on all that `mpirun` started."""

import os
import platform
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import psutil

from intnet.machine.ranks import World, current
from intnet.training.epochs import Stop

MOMENT = 0.5  # seconds; mpirun kills a second or so behind its SIGTERM


class Asked(Stop):
    """A stop behind a step on all ranks: the first SIGINT or SIGUSR1 of any of them asks for it.

    SIGTERM, by which mpirun ends all when a rank or itself was stopped, leaves a moment for it: a step that
    waits for a rank that is gone never ends. A second signal leaves as much. Ahead of that moment, for mpirun
    soon hands on nothing that ranks say, rank 0 says what is kept, or rank 1 where rank 0 is gone.
    """

    def __init__(self, kept: Callable[[], str], world: World) -> None:
        super().__init__(signal.SIGINT, signal.SIGUSR1, signal.SIGTERM)
        self._kept, self._world, self._over = kept, world, threading.Lock()
        said = world.messages(f"{platform.node()} {os.getpid()}".encode())[0].decode()
        self._first = said.rpartition(" ")  # machine and process of rank 0

    def __enter__(self) -> "Asked":
        # a handler would wait for the main thread, which waits for the other ranks
        heard, self._told = os.pipe()
        os.set_blocking(self._told, False)
        threading.Thread(target=self._listen, args=[heard], daemon=True).start()
        super().__enter__()
        signal.set_wakeup_fd(self._told)
        return self

    def __exit__(self, *error: Any) -> None:
        self._over.acquire()  # from here on nothing ends the process
        signal.set_wakeup_fd(-1)
        super().__exit__(*error)
        os.close(self._told)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        """`_listen` has heard it."""

    def _listen(self, heard: int) -> None:
        while told := os.read(heard, 1):
            again, self.signal = self.signal, told[0]
            if again or self.signal == signal.SIGTERM:
                if self._speaks():
                    line = f"all ranks end, one of them or mpirun was stopped: {self._kept()}"
                    os.write(2, f"intnet: {line}\n".encode())
                time.sleep(MOMENT)
                self._over.acquire()
                os._exit(128 + self.signal)
            if not self._world.rank:
                os.write(2, b"\nstopping after this step (once more: at once)\n")
        os.close(heard)

    def _speaks(self) -> bool:
        """Whether this is rank 0, or rank 1 on the machine of a rank 0 that is gone."""
        if self._world.rank != 1:
            return self._world.rank == 0
        machine, _, number = self._first
        try:
            gone = psutil.Process(int(number)).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            gone = True
        return gone and machine == platform.node()


def stop(kept: Callable[[], str]) -> Stop:
    """What lets a run stop behind a step, and on ranks says what is kept where it cannot."""
    world = current()
    return Stop(signal.SIGINT, signal.SIGTERM) if world is None else Asked(kept, world)
