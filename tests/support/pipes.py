"""Ranks over pipes: a world of processes of this machine, without MPI, so that every test can have one.

together(3, job, *args)     job(*args) on three ranks; what each of them returned

Ranks are forked from a process that has imported intnet and started no thread.
"""

import multiprocessing
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from intnet.machine.ranks import World, joined


class PipeWorld(World):
    """Rank 0 hears all others, and tells each of them what all said."""

    def __init__(self, rank: int, size: int, others: Sequence[Connection]) -> None:
        super().__init__(rank, size)
        self.others = others  # of rank 0 a pipe to each other rank, of these one to rank 0

    def _gather(self, flat: np.ndarray, lengths: Sequence[int]) -> list[np.ndarray]:
        if self.rank:
            self.others[0].send(flat)
            found: list[np.ndarray] = self.others[0].recv()
        else:
            found = [flat, *(other.recv() for other in self.others)]
            for other in self.others:
                other.send(found)
        assert [part.shape for part in found] == [(n,) for n in lengths], "ranks differ in what they gather"
        assert len({part.dtype for part in found}) == 1, "ranks differ in the type that they gather"
        return found


def _rank(
    rank: int, size: int, others: Sequence[Connection], result: Connection, job: Callable[..., Any], args: Any
) -> None:
    with joined(PipeWorld(rank, size, others)):
        result.send(job(*args))


def together(size: int, job: Callable[..., Any], *args: Any) -> list[Any]:
    """What job(*args) returns on each of `size` ranks."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["tests.support.shared_run"])
    pairs = [server.Pipe() for _ in range(size - 1)]
    results = [server.Pipe() for _ in range(size)]
    ranks = []
    for rank in range(size):
        others = [pairs[rank - 1][1]] if rank else [one for one, _ in pairs]
        given = (rank, size, others, results[rank][1], job, args)
        ranks.append(server.Process(target=_rank, args=given))
        ranks[-1].start()
        results[rank][1].close()  # so that a rank that ends without a result is an EOFError here
    found = [mine.recv() for mine, _ in results]
    for process in ranks:
        process.join()
    return found
