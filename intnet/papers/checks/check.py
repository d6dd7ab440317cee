"""What a check of a paper is: its name, what it needs, and the tables that it comes to.

    Check     a line about it, where in the paper, a function from `Task` to `Result`
    Task      the sizes of the training that a check may need, and whom it tells how far it is
    Result    tables of our numbers beside the published ones, remarks, and whether what is exact holds

Published numbers are literals in the check's own module, each with its table, figure or section.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from intnet.show.tables import Table

Progress = Callable[[str, int, int], None]  # what is under way, steps done, steps in all


@dataclass(frozen=True)
class Result:
    """What a check came to.

    setting: what was run or priced; remarks: what can and what cannot be said, a paragraph each
    holds: whether what is exact (constraints, printed figures of known inputs) holds; None: nothing is
    """

    setting: str
    tables: Sequence[Table]
    remarks: Sequence[str]
    holds: bool | None = None


@dataclass(frozen=True)
class Sizes:
    """The training that a check needs: names of model and data, images, epochs, seeds, most test images."""

    model: str
    data: str
    limit: int
    epochs: int
    seeds: tuple[int, ...] = (1,)
    tests: int = 2000


@dataclass(frozen=True)
class Task:
    """How to run a check; sizes: None where it trains nothing; out: folder of what is done already."""

    sizes: Sizes | None = None
    data_dir: str | None = None
    out: Path | None = None
    progress: Progress = lambda what, done, total: None

    @property
    def training(self) -> Sizes:
        """The sizes of a check that trains."""
        assert self.sizes is not None
        return self.sizes


@dataclass(frozen=True)
class Check:
    """A claim of a paper that can be computed here.

    about: one line; source: paper and place; time: roughly, on two idle cores
    sizes: defaults of what it trains, None where it trains nothing
    many_runs: whether it takes several seeds, and a folder to go on from
    draw: the paper's figure, draw(stream, file, source, result), in the format of the file's name
    """

    about: str
    source: str
    time: str
    run: Callable[[Task], Result]
    sizes: Sizes | None = None
    many_runs: bool = False
    draw: Callable[..., None] | None = None


def agrees(own: float, published: float, digits: int) -> bool:
    """Whether `published` is `own` to its printed digits: off by half a unit of the last one at most."""
    return abs(own - published) <= 0.5 * 10.0**-digits + 1e-9
