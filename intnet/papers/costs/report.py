"""What a cost model says of a run, a schedule or a model: one shape for all three models."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from intnet.errors import ConfigError
from intnet.show import tables
from intnet.show.tables import Table


@dataclass(frozen=True)
class Report:
    """A title, what `--json` prints, tables and figures (what, value, what it means) for people.

    draw: into a stream, in the format of a file's name; None: there is no picture of it
    """

    title: str
    result: dict[str, Any]
    tables: Sequence[Table]
    figures: Sequence[tuple[str, str, str]] = ()
    draw: Callable[[BinaryIO, Path], None] | None = None

    def show(self) -> None:
        """All of it."""
        print(self.title)
        for table in self.tables:
            tables.show(table)
        if self.figures:
            print()
        for what, value, about in self.figures:
            print(f"{what:18} {value:>7}  {about}".rstrip())


def two_places(value: float | None) -> str:
    """'1.42'."""
    return tables.text(value, ".2f")


def percent(value: float | None) -> str:
    """'4.2%'."""
    return tables.text(value, ".1%")


def spaced(steps: int, count: int = 10) -> list[int]:
    """Indices of the first and the last of `steps` steps, and of up to `count` evenly between."""
    gaps = count + 1
    return sorted({(steps - 1) * k // gaps for k in range(gaps + 1)})


def check_same(
    which: str,
    own: dict[str, Any],
    theirs: dict[str, Any],
    keys: tuple[str, ...] = ("model", "data", "image_shape", "classes"),
    whose: str = "the run's",
) -> None:
    """ConfigError, which names `which`, unless both identities have the same keys; whose: `own`."""
    for key in keys:
        if theirs[key] != own[key]:
            raise ConfigError(f"{which}: its {key} is {theirs[key]}, {whose} is {own[key]}")
