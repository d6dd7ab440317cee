"""The one trace: every value that a method rounds or passes on, seen by observers.

A method emits an `Event` for each data path (layer, path) it handles, but only while somebody
observes: without an observer a step costs nothing. `Recorder` keeps the values of chosen paths
(for reading them as QTensors), `PathTable` the widths, bounds and counts of a report.
"""

import fnmatch
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from intnet.exact.blocks.buckets import Codec, Mix, Packed
from intnet.exact.blocks.mx_blocks import Along
from intnet.exact.expressions import Exact
from intnet.exact.sources import FloatExact, Root
from intnet.numbers.formats import BlockFloat, FixedPoint, Flag, Format, Levels
from intnet.numbers.microscaling import Microscaling
from intnet.numbers.qtensor import QTensor, max_abs
from intnet.numbers.small_floats import Float
from intnet.show.tables import Column, Shown, Table, numbers


@dataclass(frozen=True)
class Event:
    """One value on a data path.

    source: what was given (a QTensor, a float32 array or an exact expression)
    result: what readers get: a QTensor in `format`, packed codes, or `source` where the path is exact or
            float; small floats are measured and explained, and no method's path yet
    words:  uint32 random words where rounding is stochastic, of which the top `word_bits` count
    operands: the sum that `source` already holds the codes of, where one was added up before
    mix:    what chose the widths of a codec's buckets
    mean_bits: of an element, where the blocks of one format differ in width
    """

    layer: str
    path: str
    step: int
    source: Any
    result: Any
    format: Format | Codec | Along | Float | Microscaling | None = None
    rounding: str | None = None
    words: np.ndarray | None = None
    word_bits: int = 32
    operands: Exact | None = None
    mix: Mix | None = None
    mean_bits: float | None = None

    @property
    def name(self) -> str:
        """'layer/path'."""
        return f"{self.layer}/{self.path}"


Observer = Callable[[Event], None]


def handed_on(events: Sequence[Event], value: Any) -> bool:
    """Whether a hook that showed `events` returned what one of them has: itself, or an equal in float32.

    What is neither codes, floats nor an expression (packed codes, blocks of small floats) is not compared.
    """
    return not events or any(_equal(event.result, value) for event in events)


def _equal(shown: Any, value: Any) -> bool:
    if shown is value:
        return True
    if isinstance(shown, QTensor) and isinstance(value, QTensor):
        same = np.array_equal(shown.codes, value.codes)
        return same and np.array_equal(shown.exponent, value.exponent)
    both = _floats(shown), _floats(value)
    return any(part is None for part in both) or np.array_equal(*both)  # type: ignore[arg-type]


def _floats(value: Any) -> np.ndarray | None:
    if isinstance(value, np.ndarray):
        return value
    return value.to_float32() if isinstance(value, QTensor | Exact | FloatExact) else None


class Recorder(Shown):
    """Keeps the last event of every path that matches 'layer/path' patterns (shell wildcards)."""

    def __init__(self, *patterns: str) -> None:
        self.patterns = patterns or ("*",)
        self.events: dict[str, Event] = {}
        self.passed: dict[str, None] = {}  # names of all that went by, kept or not

    def __call__(self, event: Event) -> None:
        """Observe one event."""
        self.passed[event.name] = None
        if any(fnmatch.fnmatchcase(event.name, pattern) for pattern in self.patterns):
            self.events[event.name] = event

    def __getitem__(self, name: str) -> Any:
        """The value of 'layer/path': a QTensor, or a float32 array on a float path."""
        if name not in self.events:
            layer = name.rpartition("/")[0]
            paths = [other[len(layer) + 1 :] for other in self.passed if other.rpartition("/")[0] == layer]
            raise KeyError(
                f"no value of {name!r} was recorded; there are {', '.join(sorted(self.events)) or 'none'}"
                + (f"; paths of {layer} are {', '.join(sorted(paths))}" if paths else "")
            )
        result = self.events[name].result
        return (
            result.to_qtensor(name)
            if isinstance(result, Exact) and np.all(np.asarray(result.den) == 1)
            else result
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def __repr__(self) -> str:
        names = ", ".join(list(self.events)[:4]) + ", ..." * (len(self) > 4)
        return f"Recorder({', '.join(self.patterns)}: {len(self)} values" + (f": {names})" if names else ")")

    def summary(self) -> Table:
        """Every value that was kept: format, shape, bits that its codes need, how many were limited."""
        rows: list[Sequence[Any]] = []
        for name in self:
            value = self[name]
            codes = isinstance(value, QTensor)
            limited = value.status.saturated if codes and value.status is not None else None
            format = str(self.events[name].format or "exact") if codes else type(value).__name__
            shape = "x".join(map(str, getattr(value, "shape", ())))
            rows.append((name, format, shape, value.width if codes else None, limited))
        columns = [Column(name, right=False) for name in ("path", "format", "shape")]
        return Table("", [*columns, *numbers("bits used", "saturated", spec=",")], rows)


@dataclass
class PathRow:
    """What one data path of one layer needed, over all observed steps; its format in the last of them.

    short:     the format as narrow tables write it
    nominal:   bits that the format names, of a mix of two widths the wider one
    exponents: the least and the greatest; where there are many, of codes that are not 0 (None: all are)
    integer:   whether it holds codes; signed: of both signs
    mean:      bits an element that the format names, of blocks and buckets of several widths the mean; of a
               path that hands codes on, those of their format; None where codes have none
    """

    layer: str
    path: str
    format: str
    nominal: int | None
    used: int = 0
    bound: int = 0
    exponents: tuple[int, int] | None = None
    elements: int = 0
    saturated: int = 0
    zeros: int = 0
    integer: bool = False
    signed: bool = True
    short: str = ""
    mean: float | None = None

    @property
    def fraction_bits(self) -> float:
        """log2 of the number of codes in the used range, e.g. 10.7 bits for codes within +-820."""
        codes = (1 + self.signed) * self.peak + 1
        return float(np.log2(codes))

    peak: int = 0

    def to_dict(self) -> dict[str, Any]:
        """As JSON; None where a float path has no such number."""
        return {
            "layer": self.layer,
            "path": self.path,
            "format": self.format,
            "format_short": self.short,
            "nominal_bits": self.nominal,
            "mean_bits": self.mean,
            "used_bits": self.used if self.integer else None,
            "range_bits": round(self.fraction_bits, 1) if self.integer else None,
            "bound_bits": self.bound or None,
            "exponents": list(self.exponents) if self.exponents else None,
            "elements": self.elements,
            "saturated": self.saturated if self.integer else None,
            "zeros": self.zeros if self.integer else None,
        }


class PathTable:
    """Collects a PathRow a data path: nominal and really used bits, proven bounds, saturation."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], PathRow] = {}

    def __call__(self, event: Event) -> None:
        """Observe one event."""
        key = (event.layer, event.path)
        nominal = event.format.bits if event.format else None
        if isinstance(event.format, Codec):
            nominal = max(event.format.widths)
        kind = str(event.format) if event.format else "exact"
        if not isinstance(event.result, QTensor | Exact | Packed):
            kind = "float32" if isinstance(event.result, np.ndarray) else "exact quotient"
        row = self.rows.setdefault(key, PathRow(event.layer, event.path, kind, nominal))
        row.format, row.nominal = kind, nominal
        row.short = event.format.short if isinstance(event.format, Codec) else kind
        row.mean = _mean_bits(event)
        row.bound = max(row.bound, _bound_bits(event))
        result = event.result
        if isinstance(result, Exact) and np.all(np.asarray(result.den) == 1):
            result = result.to_qtensor(event.name)
        row.elements += int(np.prod(result.shape))
        if isinstance(result, QTensor):
            self._count(row, result, event.format)
        elif isinstance(result, Packed):
            self._count_packed(row, result)

    @staticmethod
    def _count(row: PathRow, q: QTensor, format: Any) -> None:
        peak, width = max_abs(q.codes), q.width
        if isinstance(q.format, FixedPoint) and not q.format.signed:
            row.signed, width = False, peak.bit_length()
        if isinstance(format, Along):  # elements are not equidistant: their words count
            peak = format.number(peak)
            width = peak.bit_length() + 1
        if isinstance(q.format, BlockFloat):
            width = min(width, q.format.b)  # 0 where no block keeps bits
        if isinstance(q.format, Flag):  # one flag bit picks the grid, so the stored magnitude is shorter
            peak = _flag_magnitude(q.codes, q.format)
            width = peak.bit_length() + 2
        if isinstance(q.format, Levels):
            numbers = q.format.numbers(q.codes)
            peak, width = max_abs(numbers), QTensor(numbers, 0).width
        row.integer = True
        row.used, row.peak = max(row.used, width), max(row.peak, peak)
        row.zeros += int(np.count_nonzero(q.codes == 0))
        row.saturated += q.status.saturated if q.status else 0
        exponents = np.asarray(q.exponent)
        if exponents.ndim:  # a block of zeros has an exponent too, which says nothing
            exponents = np.broadcast_to(exponents, q.shape)[q.codes != 0]
        if exponents.size:
            ends = (int(exponents.min()), int(exponents.max()), *(row.exponents or ()))
            row.exponents = (min(ends), max(ends))

    @staticmethod
    def _count_packed(row: PathRow, packed: Packed) -> None:
        """Codes are counts of the bucket's step from its least value, or of levels with a sign.

        Zeros are values of 0: code 0 is a bucket's least value, whatever that is.
        """
        codes = packed.codes()
        peak = max_abs(codes)
        row.integer, row.signed = True, not packed.codec.has_zero
        row.used = max(row.used, peak.bit_length() + row.signed)
        row.peak = max(row.peak, peak)
        row.zeros += packed.elements - int(np.count_nonzero(packed.load()))
        row.saturated += packed.clipped


def _mean_bits(event: Event) -> float | None:
    result = event.result
    if event.mean_bits is not None:
        return event.mean_bits
    if isinstance(result, Packed):
        widths = np.repeat(result.widths, result.codec.size(result.elements))[: result.elements]
        return int(widths.sum(dtype=np.int64)) / widths.size if widths.size else None
    format = result.format if isinstance(result, QTensor) else None
    return None if format is None else float(format.bits)


def _flag_magnitude(codes: np.ndarray, format: Flag) -> int:
    """The largest magnitude that is stored: in units of its own grid, coarse or fine."""
    magnitude = np.abs(codes.astype(np.int64))
    return int(np.where(magnitude >= 1 << format.fine, magnitude >> format.fine, magnitude).max(initial=0))


def _bound_bits(event: Event) -> int:
    """Bits that the accumulator behind this value is proven to fit; 0 for float values."""
    if isinstance(event.source, QTensor):
        return event.source.bound.bit_length() + 1
    if isinstance(event.source, Exact) and isinstance(event.result, QTensor):  # as scaled to its grid
        return event.source.bits() + max(event.source.exponent - int(event.result.exponent), 0)
    return event.source.bits() if isinstance(event.source, Exact | Root) else 0
