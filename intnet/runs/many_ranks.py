"""A run on many ranks: rank 0 keeps its folder, the others train beside it and write nothing.

    with create("RUN", run, steps=60) as work:      on every rank; alone it is `run_folder.create`
        work.train()

All that a folder holds is what one process writes, and `rank_messages.SENT`: so every other command reads it
as any run's, and `resume` goes on on another number of ranks. What ranks ask of each other:
`rank_messages.py`.
"""

import dataclasses
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from intnet.machine.ranks import World, current
from intnet.methods.trace import PathTable
from intnet.runs import config, files, kept_data, rank_messages, report, run_folder
from intnet.runs.archive import PathLike
from intnet.runs.config import CHECKPOINT_EVERY, Plan
from intnet.runs.identity import identity
from intnet.runs.kept import CHECKPOINT, CONFIG
from intnet.runs.run_folder import RunFolder
from intnet.training.tape import Tape
from intnet.training.train import Run

COPIED = (CONFIG, CHECKPOINT, kept_data.DATA)  # of a folder that is gone on with


class OtherRank(RunFolder):
    """The same training on a rank that has no folder: it takes part in all that rank 0 asks of every rank."""

    writes = False

    def __init__(self, folder: Path, run: Run, own: dict[str, Any], plan: Plan, world: World) -> None:
        self.folder, self.run, self.identity, self.plan = folder, run, own, plan
        self.world: World = world
        self.sent = None  # rank 0 tells
        self.at_a_time, self._before = 1, None

    def close(self) -> None:
        """Nothing is open."""

    def log(self, line: dict[str, Any]) -> None:
        """Rank 0 does."""

    def checkpoint(self) -> None:
        """Its part of the counts and of the state."""
        self.run.counts()
        rank_messages.check_same(self.world, self.run.state(), self.run.step)

    def _again(self, on_test: Callable[[int], None] | None) -> dict[str, Any]:
        return self._report(PathTable(), self._accuracy(on_test)) if self._any(False) else {}

    def _report(self, table: PathTable, accuracy: float | None, held: Tape | None = None) -> dict[str, Any]:
        return report.make(self.run, self.identity, rank_messages.path_table(table), accuracy, [])


def create(
    folder: PathLike,
    run: Run,
    steps: int,
    checkpoint_every: int = CHECKPOINT_EVERY,
    data_dir: PathLike | None = None,
) -> RunFolder:
    """As `run_folder.create`, on all ranks; ConfigError where they are not to train the same."""
    world = current()
    if world is None:
        return run_folder.create(folder, run, steps, checkpoint_every, data_dir)
    own = identity(run)
    rank_messages.agree(world, own, steps)
    if world.rank == 0:
        return run_folder.create(folder, run, steps, checkpoint_every, data_dir)
    work = OtherRank(Path(folder), run, own, Plan(steps, checkpoint_every), world)
    work.checkpoint()  # as rank 0 begins
    return work


def resume(
    folder: PathLike, steps: int | None = None, epochs: int | None = None, data_dir: PathLike | None = None
) -> RunFolder:
    """As `run_folder.resume`, on all ranks: rank 0 reads the folder, the others a copy of what they need."""
    world = current()
    if world is None:
        return run_folder.resume(folder, steps, epochs, data_dir)
    with tempfile.TemporaryDirectory() as copy:
        for name in COPIED:
            path = Path(folder) / name
            sent = world.messages(path.read_bytes() if world.rank == 0 and path.exists() else b"")[0]
            if world.rank and sent:
                files.replace(Path(copy) / name, sent)
        if world.rank == 0:  # all make their runs at a time: compiling, rank 0 is waited for
            work = run_folder.resume(folder, steps, epochs, data_dir)
        else:
            own, plan = config.read(Path(copy))
            run = run_folder.load(copy, data_dir=data_dir)
            run.method.set(saturated={})  # counts so far are rank 0's
            work = OtherRank(Path(folder), run, own, plan, world)
    planned = int(world.messages(b"%d" % work.plan.steps)[0])
    work.plan = dataclasses.replace(work.plan, steps=planned)
    rank_messages.agree(world, identity(work.run), planned)
    return work
