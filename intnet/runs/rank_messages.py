"""What ranks ask of each other around a run: whether they are to train the same one, what all of them saw.

Who asks: `many_ranks.py`, `run_folder.py`.
"""

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import intnet
from intnet.errors import ConfigError, NumberError
from intnet.machine.ranks import World, current
from intnet.methods.method import of_batch
from intnet.methods.trace import PathRow, PathTable
from intnet.runs import definition, files
from intnet.training.state import State, digest
from intnet.training.train import Run

SENT = "sent.json"


def anywhere(world: World, holds: bool) -> bool:
    """Whether it holds on any rank."""
    return any(said == b"1" for said in world.messages(b"1" if holds else b"0"))


def agree(world: World, own: dict[str, Any], steps: int) -> None:
    """ConfigError, on all ranks alike, unless all are to train the run of identity `own` to step `steps`."""
    mine = {"definition": definition.VERSION, "intnet": intnet.__version__, "steps": steps, **own}
    mine["sources"] = definition.sources()
    said = [json.loads(text) for text in world.messages(json.dumps(mine).encode())]
    for rank, other in enumerate(said):
        keys = [key for key in sorted({*said[0], *other}) if said[0].get(key) != other.get(key)]
        if keys:
            told = "; ".join(f"{key} is {other.get(key)!r}, not {said[0].get(key)!r}" for key in keys)
            raise ConfigError(f"rank {rank} is not to train what rank 0 is: {told}")


def check_same(world: World, state: State, step: int) -> None:
    """NumberError, on all ranks alike, unless all have the same state."""
    said = [text.decode() for text in world.messages(digest(state).encode())]
    other = [rank for rank, text in enumerate(said) if text != said[0]]
    if other:
        raise NumberError(
            f"after step {step:,} rank {other[0]} has another state than rank 0: a fault of its machine, or "
            "a method of one's own that sums over images without the other ranks; the last checkpoint stands"
        )


class Sent:
    """What this rank gave others to read in training steps, without tests and checkpoints (`World.sent`)."""

    def __init__(self, world: World) -> None:
        self.world, self.steps = world, 0
        self._bytes, self._messages = Counter[tuple[str, np.dtype]](), 0

    @contextmanager
    def step(self) -> Iterator[None]:
        """Inside the block a step is made."""
        given, calls = self.world.sent.copy(), self.world.calls
        yield
        self._bytes += self.world.sent - given
        self._messages += self.world.calls - calls
        self.steps += 1

    def told(self, run: Run) -> dict[str, Any]:
        """A step's means; float32_gradients: the bytes that an all-reduce of float32 gradients would take."""
        named = {f"{what} of {dtype}": count for (what, dtype), count in self._bytes.items()}
        kinds = {kind: round(count / self.steps, 1) for kind, count in sorted(named.items())}
        return {
            "ranks": self.world.size,
            "steps": self.steps,
            "messages": round(self._messages / self.steps, 1),
            "bytes": kinds,
            "all_bytes": round(self._bytes.total() / self.steps, 1),
            "float32_gradients": 4 * sum(int(np.prod(p.shape)) for _, _, p in run.model.all_parameters()),
        }

    def write(self, folder: Path, run: Run) -> None:
        """As JSON into the run's folder, of rank 0."""
        if self.steps:
            files.replace(folder / SENT, (json.dumps(self.told(run), indent=1) + "\n").encode())


# -- the table of data paths -------------------------------------------------------------------


def path_table(table: PathTable) -> PathTable:
    """What all ranks saw of the data paths, as one process would have seen it."""
    world = current()
    if world is None:
        return table
    own = json.dumps([dataclasses.asdict(row) for row in table.rows.values()]).encode()
    made = PathTable()
    # an idle rank, which sees no tensors of a batch, last: rows are in the order of one that has all
    for seen in sorted(map(json.loads, world.messages(own)), key=len, reverse=True):
        for found in seen:
            row = PathRow(**found)
            row.exponents = row.exponents and (row.exponents[0], row.exponents[1])
            before = made.rows.get((row.layer, row.path))
            made.rows[row.layer, row.path] = row if before is None else _together(before, row)
    return made


def _together(a: PathRow, b: PathRow) -> PathRow:
    """Two parts of a tensor of a batch; of any other tensor, which both ranks have, the one."""
    if not of_batch(a.path) or not b.elements:
        return a
    ends = [end for row in (a, b) for end in row.exponents or ()]
    mean = a.mean
    if a.mean is not None and b.mean is not None and a.mean != b.mean:
        # of widths of elements, whose sums are integers: one division, as of one process
        mean = (round(a.mean * a.elements) + round(b.mean * b.elements)) / (a.elements + b.elements)
    wider = max(a, b, key=lambda row: row.nominal or 0)  # where blocks differ, a format is that of the widest
    return dataclasses.replace(
        wider,
        used=max(a.used, b.used),
        bound=max(a.bound, b.bound),
        peak=max(a.peak, b.peak),
        elements=a.elements + b.elements,
        saturated=a.saturated + b.saturated,
        zeros=a.zeros + b.zeros,
        exponents=(min(ends), max(ends)) if ends else None,
        mean=mean,
    )
