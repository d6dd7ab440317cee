"""Commands that `mpirun` started many times: one world of ranks, one of which speaks."""

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from typing import TYPE_CHECKING

from intnet.errors import ConfigError

if TYPE_CHECKING:
    from intnet.machine.mpi import MpiWorld

COMMANDS = ("train", "resume")

_world: "MpiWorld | None" = None


@contextmanager
def ranks(args: argparse.Namespace) -> Iterator[None]:
    """Inside the block this process is one of those that `mpirun` started, if it did; rank 0 alone prints."""
    global _world  # noqa: PLW0603 (MPI joins a process once)
    from intnet.machine.mpi import MpiWorld, launched

    if launched() == 1:
        yield
        return
    from intnet.machine.ranks import joined

    _world = MpiWorld()
    if args.command not in COMMANDS:
        raise ConfigError(f"mpirun trains: {' and '.join(COMMANDS)}; run `intnet {args.command}` without it")
    if getattr(args, "stats", None) is not None:
        raise ConfigError("--stats sees one process's values: leave it out under mpirun")
    with open(os.devnull, "w") as nowhere:
        speaking = redirect_stdout(nowhere) if _world.rank else nullcontext()
        with joined(_world), speaking:
            yield


def writes() -> bool:
    """Whether this process has the run's folder."""
    return _world is None or _world.rank == 0


def where() -> str:
    """'rank 2: ' of an error."""
    if _world is None:
        return ""
    from intnet.machine.mpi import WAIT

    if _world.rank:
        time.sleep(WAIT)
    return f"rank {_world.rank}: "


def ended(status: int) -> int:
    """The exit status of a rank that cannot go on; the others, which would wait for it, end too."""
    if _world is not None:
        _world.abort(status)
    return status
