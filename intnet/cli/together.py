"""Commands that `mpirun` started many times: one world of ranks, one of which speaks."""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from typing import TYPE_CHECKING

from intnet.errors import ConfigError

if TYPE_CHECKING:
    from intnet.cli.stopping import Asked
    from intnet.machine.mpi import MpiWorld

FOLDERS = {"train": "out", "resume": "folder"}  # the commands that there are, and what names their run

_world: "MpiWorld | None" = None
_asked: "Asked | None" = None


@contextmanager
def ranks(args: argparse.Namespace) -> Iterator[None]:
    """Inside the block this process is one of those that `mpirun` started, if it did; rank 0 alone prints."""
    global _world, _asked  # noqa: PLW0603 (MPI joins a process once)
    from intnet.machine.mpi import MpiWorld, launched

    if launched() == 1:
        yield
        return
    from intnet.cli.stopping import listen
    from intnet.machine.ranks import joined

    if args.command in FOLDERS:
        _asked = listen(getattr(args, FOLDERS[args.command]))
    if _world is None:
        _world = MpiWorld()
    if args.command not in FOLDERS:
        raise ConfigError(f"mpirun trains: {' and '.join(FOLDERS)}; run `intnet {args.command}` without it")
    if getattr(args, "stats", None) is not None:
        raise ConfigError("--stats sees one process's values: leave it out under mpirun")
    with open(os.devnull, "w", encoding="utf-8", errors="backslashreplace") as nowhere:
        speaking = redirect_stdout(nowhere) if _world.rank else nullcontext()
        with joined(_world), speaking:
            yield


def writes() -> bool:
    """Whether this process has the run's folder."""
    return _world is None or _world.rank == 0


def ahead_of_error() -> str:
    """'rank 2: ' for the line of an error, which the caller is about to print.

    Whoever listens for signals says nothing more from here on. A rank other than 0 waits `mpi.WAIT`: an error
    that all ranks meet is said by rank 0 before.
    """
    if _world is None:
        return ""
    from intnet.machine.mpi import WAIT

    if _asked is not None:
        _asked.over = True
    if _world.rank:
        time.sleep(WAIT)
    return f"rank {_world.rank}: "


def leave(status: int) -> None:
    """The end of a rank's process, when all are there; of another one nothing.

    At once: Python takes longer to go than MPI, and of a rank that is killed meanwhile none would say a word.
    """
    if _world is None:
        return
    if status and _asked is not None:
        _asked.over = True  # rank 0 has said so, and mpirun ends those that leave a little later
    sys.stderr.flush()
    _world.leave()
    os._exit(status)


def ended(status: int) -> int:
    """The exit status of a rank that cannot go on; the others, which would wait for it, end too."""
    if _world is not None:
        _world.abort(status)
    return status
