"""What a hardware unit is, as data: parameters with their ranges, and the ports that follow from them.

`listing.UNITS` is the list; a `Unit` has no arithmetic. A `Group` is a handful of vectors that hunt the same
bugs: its columns become words of the in ports, and a case of the pack; `Source` draws random ones. Next:
`words.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from intnet.errors import PackError
from intnet.numbers import rng
from intnet.packs.ports import Port

T = TypeVar("T")
_AT_ONCE = 1024  # words drawn
FAR = 1 << 63  # above int64
_SPARE = 64  # bits above a span, which make the remainder as good as uniform

Parameters = Mapping[str, Any]  # whole numbers, and of a Choice its name
Columns = dict[str, np.ndarray]  # int64 words of a port: (beats,), or (beats, lanes)


@dataclass(frozen=True)
class Range:
    """A parameter of the SystemVerilog module: its default and the least and greatest value it takes."""

    default: int
    least: int
    most: int


@dataclass(frozen=True)
class Choice:
    """A parameter with names; the module takes a name's place in the list."""

    default: str
    names: tuple[str, ...]


Setting = Range | Choice


def signal(name: str, bits: int, meaning: str, direction: str = "in", **more: Any) -> Port:
    """A data port of a unit, without the words of a pack; `more` are fields of Port."""
    return Port(name, direction, (), "", bits, meaning=meaning, **more)


Scale = Mapping[str, int]  # exponents of ports that no parameter says, where they are not 0


@dataclass(frozen=True)
class Unit:
    """A reference unit.

    parameters: in the order of the module
    signals:    (parameters, exponents) -> data ports in the order of the module
    wrong:      parameters -> why these together are impossible, or ''
    latency:    clocks from the beat that completes a result to the result
    """

    name: str
    summary: str
    parameters: Mapping[str, Setting]
    signals: Callable[[Parameters, Scale], tuple[Port, ...]]
    wrong: Callable[[Parameters], str] = lambda p: ""
    latency: int = 1

    @property
    def defaults(self) -> dict[str, Any]:
        """The settings of the papers' data paths."""
        return {name: setting.default for name, setting in self.parameters.items()}

    def generics(self, parameters: Parameters) -> dict[str, int]:
        """The parameters as the module takes them: of a choice its place in the list."""
        return {
            name: setting.names.index(parameters[name]) if isinstance(setting, Choice) else parameters[name]
            for name, setting in self.parameters.items()
        }

    @property
    def per_vector(self) -> bool:
        """Whether a result follows the last beat of a vector only."""
        return any(port.name == "last" for port in self.signals(self.defaults, {}))


@dataclass(frozen=True)
class Group:
    """Vectors that stand together: `columns` of all in and rnd ports, `step` the training step or -1."""

    name: str
    flags: str
    columns: Columns
    step: int = -1


def joined(groups: list[Group]) -> Columns:
    """The columns of all groups, one behind the other."""
    return {name: np.concatenate([g.columns[name] for g in groups]) for name in groups[0].columns}


def marks(sizes: list[int]) -> Columns:
    """The columns first and last of vectors of so many beats."""
    last = np.cumsum(sizes) - 1
    first = last - np.array(sizes) + 1
    made = np.zeros((2, int(last[-1]) + 1), np.int64)
    made[0, first], made[1, last] = 1, 1
    return {"first": made[0], "last": made[1]}


def of_rows(name: str, flags: str, ports: Sequence[str], rows: Sequence[Sequence[Any]]) -> Group:
    """A group of rows, a word for every port."""
    columns = zip(ports, zip(*rows, strict=True), strict=True)
    return Group(name, flags, {port: column(words) for port, words in columns})


def column(values: Any) -> np.ndarray:
    """int64 words; PackError for what is no whole number, or beyond int64."""
    made = np.asarray(values)
    if made.size and (made.dtype.kind not in "iub" or int(made.max()) >= FAR):
        each = np.asarray(values, object).reshape(-1).tolist()
        wrong = next(x for x in each if type(x) is not int or not -FAR <= x < FAR)
        raise PackError(f"a word is a whole number within int64, not {wrong!r}")
    return made.astype(np.int64)


class Source:
    """The numbers of one seed, in order: Philox words (`numbers/rng.py`), so every Python draws the same."""

    def __init__(self, seed: int) -> None:
        self.seed, self._drawn, self._left = seed, 0, list[int]()

    def bits(self, count: int) -> int:
        """A number of so many bits."""
        value = 0
        for place in range(0, count, 32):
            if not self._left:
                words = rng.words(self.seed, 0, rng.stream("units/vectors"), _AT_ONCE, self._drawn)
                self._left, self._drawn = words.tolist()[::-1], self._drawn + _AT_ONCE
            value |= self._left.pop() << place
        return value & ((1 << count) - 1)

    def below(self, span: int) -> int:
        """0 .. span - 1."""
        return self.bits(span.bit_length() + _SPARE) % span

    def within(self, low: int, high: int) -> int:
        """low .. high, both included."""
        return low + self.below(high - low + 1)

    def one_of(self, values: Sequence[T]) -> T:
        """One of them."""
        return values[self.below(len(values))]

    def some_of(self, values: Sequence[T], count: int) -> list[T]:
        """`count` of them, none twice, in the order drawn."""
        left = list(values)
        return [left.pop(self.below(len(left))) for _ in range(count)]
