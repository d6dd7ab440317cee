"""Values that change by epoch, written as text: '26,13@30,3@60' is 26, from epoch 30 on 13, from 60 on 3.

Epochs count from 0. Used for learning rates (codes or floats), dr of CQ, and probabilities.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeVar

from intnet.errors import ConfigError

T = TypeVar("T", int, float)


@dataclass(frozen=True)
class Schedule(Generic[T]):
    """Steps (first epoch, value), ascending, the first at epoch 0."""

    steps: tuple[tuple[int, T], ...]

    def at(self, epoch: int) -> T:
        """The value that holds in `epoch`."""
        return next(value for first, value in reversed(self.steps) if first <= epoch)


def parse(text: str, number: Callable[[str], T], what: str) -> Schedule[T]:
    """A Schedule from 'VALUE[,VALUE@EPOCH]...'; ConfigError naming `what` where it is not one."""
    steps: list[tuple[int, T]] = []
    for part in str(text).split(","):
        value, _, epoch = part.strip().partition("@")
        try:
            steps.append((int(epoch) if epoch else 0, number(value)))
        except ValueError:
            raise ConfigError(
                f"{what}={text!r}: {part!r} is not VALUE or VALUE@EPOCH, as in '26,13@30'"
            ) from None
    if steps[0][0] != 0 or any(b[0] <= a[0] for a, b in pairwise(steps)):
        raise ConfigError(
            f"{what}={text!r}: the first value takes no epoch, later ones rising epochs, as in '26,13@30'"
        )
    return Schedule(tuple(steps))


def rates(text: str, what: str) -> Schedule[float]:
    """Learning rates as `parse` reads them; ConfigError unless each is a positive number."""
    schedule = parse(text, float, what)
    if not all(0 < rate < float("inf") for _, rate in schedule.steps):
        raise ConfigError(f"{what}={text!r}: a learning rate is a positive number")
    return schedule


def shares(text: str | float, what: str) -> Schedule[float]:
    """Probabilities as `parse` reads them; ConfigError unless each is from 0 to 1."""
    schedule = parse(str(text), float, what)
    if not all(0 <= share <= 1 for _, share in schedule.steps):
        raise ConfigError(f"{what}={text!r}: a probability is from 0 to 1")
    return schedule
