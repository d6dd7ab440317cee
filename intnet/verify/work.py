"""The checks of a step on all cores, layer by layer, kept in a file as they are done.

Workers are forks of the process that took the step: they read its arrays, each on one thread. What each layer
came to is written to the file at once, so a verification that was stopped goes on. The file names what it is
of: the definition, the package's sources, the run, the state after the step, the options; where one of these
is another, it starts anew.
"""

import dataclasses
import fnmatch
import json
import multiprocessing
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from time import perf_counter
from typing import Any

import numba

from intnet import plugins, spec
from intnet.errors import ConfigError, IntnetError
from intnet.runs import definition, files
from intnet.runs.process import cores
from intnet.verify import inputs, wiring
from intnet.verify.judge import Judge
from intnet.verify.row import DIFFERS, EQUAL, Options, Row
from intnet.verify.taken import Taken
from intnet.verify.tasks import Step

FORMAT = "intnet verification"

Progress = Callable[[str, int, int], None]  # layer, elements' worth of work done, in all

_STEP: list[Step] = []  # of this process, for the forks of it


def heading(taken: Taken, options: Options, own: dict[str, Any]) -> dict[str, Any]:
    """What a file of results is of."""
    return {
        "format": FORMAT,
        "definition": spec.VERSION,
        "sources": definition.sources(plugins.loaded()),  # another program is another verification
        "run": own,
        "step": taken.step + 1,
        "inference": None if taken.inference is None else taken.inference.batch,
        "state": taken.digest,
        "options": dataclasses.asdict(options),
    }


def read(path: Path | None, head: dict[str, Any]) -> dict[str, list[Row]]:
    """Layer -> its rows, of a file that has the same heading; else nothing. ConfigError: no such file."""
    if path is None or not path.exists():
        return {}
    try:
        told = json.loads(path.read_bytes())
        kept = told.pop("layers")
        if told["format"] != FORMAT:
            raise ValueError(told["format"])
        if told != json.loads(json.dumps(head)):
            return {}
        return {layer: [Row.from_dict(row) for row in rows] for layer, rows in kept.items() if rows}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ConfigError(f"{path}: this is no verification: name another --out, or delete it") from None


def write(path: Path, head: dict[str, Any], done: dict[str, list[Row]]) -> None:
    """The file, whole or not at all."""
    kept = {layer: [row.to_dict() for row in rows] for layer, rows in done.items()}
    files.replace(path, (json.dumps(head | {"layers": kept}) + "\n").encode())


def _make(layer: str) -> tuple[str, list[Row]]:
    return layer, _STEP[-1].rows(layer)


def verify(
    taken: Taken,
    options: Options,
    pattern: str | None,
    path: Path | None,
    own: dict[str, Any],
    progress: Progress,
) -> list[Row]:
    """Every row of the layers that match; `path` keeps what is done, and `own` says of which run."""
    head = heading(taken, options, own)
    done = read(path, head)
    step = Step(taken, options)
    layers = [layer for layer in step.layers() if pattern is None or fnmatch.fnmatchcase(layer, pattern)]
    if not layers:
        raise ConfigError(f"no layer matches {pattern!r}; there are {', '.join(step.layers())}")
    waiting = sorted((layer for layer in layers if layer not in done), key=lambda layer: -step.cost(layer))
    total = sum(map(step.cost, layers))
    seen = sum(step.cost(layer) for layer in layers if layer in done)
    progress("", seen, total)
    _STEP.append(step)
    try:
        for layer, made in _all(waiting):
            done[layer] = made
            seen += step.cost(layer)
            progress(layer, seen, total)
            if path is not None:
                write(path, head, done)
    finally:
        _STEP.pop()
    rows = [row for layer in layers for row in done[layer]]
    return [*first_rows(taken, options, pattern), *rows]


def first_rows(taken: Taken, options: Options, pattern: str | None) -> list[Row]:
    """What belongs to no layer: that the step ends alike where nobody watches, its wiring; of all, images."""
    row = Row("step", "digest", "the state after the step, watched and as in training", ["state.digest"])
    row.elements = row.checked = len(taken.after)
    if taken.digest != taken.unwatched:
        row.differs(f"{taken.digest} watched, {taken.unwatched} as in training")
    if taken.inference is not None:
        row.equation = "the state after inference, which moves nothing"
    wires = wiring.check(taken, Judge(taken))
    if pattern is not None:
        return [row, wires]
    first = inputs.check(taken, options) if taken.inference is None else inputs.check_inference(taken)
    return [first, row, wires]


def _all(layers: list[str]) -> Iterator[tuple[str, list[Row]]]:
    """(layer, its rows) as they are done, the most work first."""
    jobs = min(cores(), len(layers))
    # macOS has forks, but its own libraries do not outlive one.
    if jobs < 2 or sys.platform == "darwin" or "fork" not in multiprocessing.get_all_start_methods():
        yield from map(_make, layers)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads, which rest
        context = multiprocessing.get_context("fork")
        with futures.ProcessPoolExecutor(jobs, mp_context=context, initializer=_alone) as pool:
            waiting = [pool.submit(_make, layer) for layer in layers]
            try:
                for one in futures.as_completed(waiting):
                    yield one.result()
            except futures.process.BrokenProcessPool:
                raise IntnetError("a process died (out of memory?): call it again") from None
            finally:
                pool.shutdown(cancel_futures=True)  # waits: else the exit finds pipes closed


def _alone() -> None:
    """Kernels, of which values of blocks are made, stay on a fork's own thread.

    GNU OpenMP, which the process that took the step has begun, ends a fork that asks it for more.
    """
    numba.set_num_threads(1)


@dataclasses.dataclass(frozen=True)
class Totals:
    """What all rows came to."""

    elements: int
    checked: int
    sums: int
    words: int
    paths: int
    differing: int
    unspecified: int
    seconds: float

    @property
    def share(self) -> float:
        """Of all elements, those recomputed."""
        return self.checked / self.elements if self.elements else 1.0


def totals(rows: list[Row], started: float) -> Totals:
    """Of rows; started: by perf_counter."""
    return Totals(
        sum(row.elements for row in rows),
        sum(row.checked for row in rows),
        sum(row.sums for row in rows),
        sum(row.words for row in rows),
        len(rows),
        sum(row.state == DIFFERS for row in rows),
        sum(row.state not in (EQUAL, DIFFERS) for row in rows),
        perf_counter() - started,
    )
