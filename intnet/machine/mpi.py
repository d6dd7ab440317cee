"""A world of processes that `mpirun` started, over MPI; `pip install 'intnet[mpi]'` has what it needs.

    mpirun -n 4 intnet train ...

Without `mpirun` nothing of MPI is imported. How a user starts one: `docs/how-to/many-machines.md`.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from intnet.errors import ConfigError
from intnet.machine.ranks import World

WAIT = 0.5  # seconds that an error of another rank waits: what all ranks meet, rank 0 has said then
SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")  # what Open MPI, MPICH and their kin tell a process


def launched() -> int:
    """How many processes `mpirun` started, 1 where it started none."""
    return max((int(os.environ[name]) for name in SIZES if os.environ.get(name, "").isdecimal()), default=1)


class MpiWorld(World):
    """All processes of one `mpirun`. Reductions of integers are MPI's own: their sums have no order."""

    def __init__(self) -> None:
        try:
            from mpi4py import MPI
        except ImportError as error:
            raise ConfigError(
                f"mpirun started {launched()} processes, which train together over mpi4py; it is not here "
                f"({error}): pip install 'intnet[mpi]'"
            ) from None
        self._mpi: Any = MPI
        self._all: Any = MPI.COMM_WORLD
        super().__init__(self._all.Get_rank(), self._all.Get_size())
        if self.size != launched():
            raise ConfigError(
                f"mpirun started {launched()} processes, but mpi4py joins {self.size}: it was built for "
                "another MPI than this mpirun is of"
            )

    def _gather(self, flat: np.ndarray, lengths: Sequence[int]) -> list[np.ndarray]:
        out = np.empty(sum(lengths), flat.dtype)
        self._all.Allgatherv(np.ascontiguousarray(flat), [out, list(lengths)])
        return np.split(out, np.cumsum(lengths)[:-1])

    def _exchange(self, parts: Sequence[np.ndarray], lengths: Sequence[int]) -> list[np.ndarray]:
        out = np.empty(sum(lengths), parts[0].dtype)
        self._all.Alltoallv([np.concatenate(parts), [part.size for part in parts]], [out, list(lengths)])
        return np.split(out, np.cumsum(lengths)[:-1])

    def _reduced(self, array: np.ndarray, how: Any, what: str) -> np.ndarray:
        self._count(what, array)
        out = np.empty(array.shape, array.dtype)
        self._all.Allreduce(np.ascontiguousarray(array), out, how)
        return out

    def total(self, array: np.ndarray, what: str = "sums") -> np.ndarray:
        """As `World.total`."""
        assert array.dtype.kind == "i"
        return self._reduced(array, self._mpi.SUM, what)

    def begin_total(self, array: np.ndarray, what: str = "sums") -> Callable[[], np.ndarray]:
        """As `World.begin_total`: MPI takes it further whenever it is called for anything."""
        assert array.dtype.kind == "i"
        self._count(what, array)
        own, out = np.ascontiguousarray(array), np.empty(array.shape, array.dtype)
        request = self._all.Iallreduce(own, out, self._mpi.SUM)

        def wait(own: np.ndarray = own) -> np.ndarray:  # which MPI reads until then
            request.Wait()
            return out

        return wait

    def greatest(self, array: np.ndarray, what: str = "maxima") -> np.ndarray:
        """As `World.greatest`."""
        return self._reduced(array, self._mpi.MAX, what)

    def leave(self) -> None:
        """Wait until all ranks are done; MPI's own last call waits for none that is lost."""
        self._all.Barrier()
        self._mpi.Finalize()

    def abort(self, status: int) -> None:
        """End every rank: one of them cannot go on, and the others wait for it."""
        self._all.Abort(status)
