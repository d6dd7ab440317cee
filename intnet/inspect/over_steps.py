"""What data paths came to over many steps: statistics as a table, values as arrays.

    with record(run, "fc2/*", every=10) as seen:
        run.train(100)
    seen.records()              # a dict for each path of steps 10, 20, .., 100
    seen["fc2/Wq"][10]          # a QTensor, or a float array
    seen.save("fc2.npz")

Statistics are `measure.py`'s. No bit of the run depends on who watches it; it takes longer.
"""

import fnmatch
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from intnet.errors import ConfigError
from intnet.exact.blocks.buckets import Packed
from intnet.inspect.measure import codes_of, measure
from intnet.methods.trace import Event, Recorder
from intnet.numbers.qtensor import QTensor
from intnet.runs import archive, files
from intnet.show.tables import Column, Shown, Table, numbers
from intnet.training.train import Run

COLUMNS = (
    *("layer", "path", "format", "rounding", "nominal_bits", "used_bits", "range_bits", "bound_bits"),
    *("elements", "saturated", "inexact", "zeros", "sqnr_db"),
)  # of `Measured`


class Recording(Shown):
    """The chosen paths of every n-th training step; steps count from 1, as reports have them.

    values: whether what stood on the paths is kept too, not its statistics alone
    """

    def __init__(self, run: Run, patterns: Sequence[str], every: int, values: bool) -> None:
        self.run, self.patterns, self.every = run, patterns, every
        self.values: dict[str, dict[int, Any]] = {}
        self._keep = values
        self._rows: dict[tuple[int, str], dict[str, Any]] = {}

    def __call__(self, event: Event) -> None:
        """Observe one event."""
        step, name = event.step + 1, event.name
        if not _due(self.run, event, self.every):
            return
        if not any(fnmatch.fnmatchcase(name, pattern) for pattern in self.patterns):
            return
        self._rows[step, name] = statistics(event)
        if self._keep:
            last = Recorder()
            last(event)
            self.values.setdefault(name, {})[step] = _kept(last[name])

    def check(self, steps: int) -> None:
        """ConfigError for a pattern that no path of so many steps had."""
        names = sorted({name for _, name in self._rows})
        for pattern in self.patterns if steps else ():
            if not any(fnmatch.fnmatchcase(name, pattern) for name in names):
                raise ConfigError(
                    f"{pattern}: nothing stood on such a path in {steps} steps that were looked at"
                )

    def __repr__(self) -> str:
        steps = sorted({step for step, _ in self._rows})
        told = f"steps {steps[0]} to {steps[-1]}" if steps else "no step yet"
        paths = len({name for _, name in self._rows})
        return f"Recording({', '.join(self.patterns)}: {paths} paths, {told}, every {self.every})"

    def summary(self) -> Table:
        """The last step of each path: its format, bits that its codes need, how many were limited, SQNR."""
        last = {f"{row['layer']}/{row['path']}": row for row in self._rows.values()}
        keys = ("step", "format", "used_bits", "saturated", "sqnr_db")
        rows = [(name, *(row[key] for key in keys)) for name, row in last.items()]
        columns = [
            Column("path", right=False),
            *numbers("last step", spec=","),
            Column("format", right=False),
        ]
        columns += [*numbers("bits used", "saturated", spec=","), *numbers("SQNR", spec=".2f")]
        return Table("", columns, rows)

    def records(self) -> list[dict[str, Any]]:
        """A path and step a dict: as a table `pandas.DataFrame(seen.records())`.

        least, greatest: codes where there are some, else values; exponent: of blocks the least
        """
        return list(self._rows.values())

    def __getitem__(self, name: str) -> dict[int, Any]:
        """What stood on 'layer/path', by the step: QTensors or float arrays; quotients are float64 there.

        KeyError where none is kept.
        """
        if name not in self.values:
            known = ", ".join(sorted(self.values)) or "nothing"
            raise KeyError(f"nothing of {name!r} is kept; there is {known}")
        return self.values[name]

    def save(self, file: str | Path) -> None:
        """An .npz: 'layer/path@STEP' has codes or floats, 'layer/path@STEP.exponent' the codes' exponent."""
        arrays: dict[str, np.ndarray] = {}
        for name, steps in self.values.items():
            for step, value in steps.items():
                codes = value.codes if isinstance(value, QTensor) else value
                arrays[f"{name}@{step}"] = codes
                if isinstance(value, QTensor):
                    arrays[f"{name}@{step}.exponent"] = np.asarray(value.exponent, np.int64)
        files.replace(Path(file), lambda stream: archive.write_npz(stream, arrays))

    def write(self, file: str | Path) -> None:
        """`records` as JSON lines."""
        lines = "".join(map(_line, self.records()))
        files.replace(Path(file), lines.encode())

    def tensorboard(self, folder: str | Path) -> None:
        """The numbers of `records` as scalars 'NUMBER/layer/path', in TensorBoard's format."""
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise ConfigError("this needs tensorboardX: pip install 'intnet[tensorboard]'") from None
        with SummaryWriter(str(folder)) as writer:
            for row in self.records():
                name = f"{row['layer']}/{row['path']}"
                for key, value in row.items():
                    if key != "step" and isinstance(value, int | float):
                        writer.add_scalar(f"{key}/{name}", value, row["step"])


def statistics(event: Event) -> dict[str, Any]:
    """What `records` has of one event."""
    measured = measure(event)
    row = {"step": event.step + 1} | {key: getattr(measured, key) for key in COLUMNS}
    row["least"], row["greatest"] = measured.range or (None, None)
    row["exponent"] = measured.exponent[0] if measured.exponent else None
    return row


def _due(run: Run, event: Event, every: int) -> bool:
    """Whether it is of a training step that is looked at."""
    return run.method.context.training and (event.step + 1) % every == 0


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row) + "\n"


def _kept(value: object) -> QTensor | np.ndarray:
    """A copy, for a step may write over its arrays; of what is packed, what is read again."""
    if isinstance(value, QTensor):
        return QTensor(value.codes.copy(), value.exponent, value.format, value.bound, value.status)
    if isinstance(value, Packed):
        return value.load()
    return np.array(value if isinstance(value, np.ndarray) else codes_of(value))


@contextmanager
def record(run: Run, *patterns: str, every: int = 1, values: bool = True) -> Iterator[Recording]:
    """Inside the block: what stands on paths that match 'layer/path' patterns, each `every` steps of a run.

    patterns: with shell wildcards, as 'layer1.*/Wq'; none for all paths
    values:   False keeps statistics only
    """
    if isinstance(every, bool) or not isinstance(every, int) or every < 1:
        raise ConfigError(f"every={every!r}: a whole number of steps of at least 1")
    names = {layer.name for layer in run.model.all_layers()}
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise ConfigError(
                f"{pattern!r}: patterns stand one by one: record(run, 'fc1/x0', 'fc1/gW', every=10)"
            )
        if "/" not in pattern and pattern != "*":
            raise ConfigError(f"{pattern}: write 'layer/path', as '{pattern}/*'")
        layer = pattern.rpartition("/")[0] or pattern
        if not any(fnmatch.fnmatchcase(name, layer) for name in names):
            raise ConfigError(f"{pattern}: no layer has such a name; there are {', '.join(sorted(names))}")
    seen = Recording(run, patterns or ("*",), every, values)
    begun = run.step
    with run.method.within(observers=[*run.method.observers, seen]):
        yield seen
    seen.check(run.step // every - begun // every)


@contextmanager
def logged(run: Run, file: Path, every: int) -> Iterator[None]:
    """Inside the block: statistics of all paths, each `every` steps, as lines of a new file as they come."""
    with files.naming(file), open(file, "x", encoding="utf-8", newline="\n", buffering=1) as stream:

        def observe(event: Event) -> None:
            if _due(run, event, every):
                stream.write(_line(statistics(event)))

        with run.method.within(observers=[*run.method.observers, observe]):
            yield
