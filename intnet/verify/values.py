"""Exact values of a recorded step, element by element: stored ones are read, expressions made again.

    values.at(value, flat)      the exact values at flat indices, as Fractions
    values.near(value)          float64 of all elements, which knows how far off they are at most (`Near`)

A QTensor, a float32 array, blocks, affine codes and packed buckets are stored: they hold what they say, and
checks of their own say whether that is right. Any other value is an expression of the fast code's, which is
not believed: the operation that made it is done again by its rule (`rules`), down to what is stored.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any, TypeVar

import numpy as np

from intnet.exact.blocks.affine import AffineTensor
from intnet.exact.blocks.block_float import BlockTensor
from intnet.exact.blocks.buckets import Packed
from intnet.numbers.qtensor import QTensor
from intnet.ops.products import Copies
from intnet.spec import words
from intnet.spec.float32 import fma32
from intnet.spec.tensor import Tensor, power
from intnet.verify.floats import fractions
from intnet.verify.judge import Judge
from intnet.verify.record import What
from intnet.verify.row import NotSpecified, Options, Row
from intnet.verify.taken import Taken

FEW = 8  # elements of each kind that decides
MARGIN = 2.0**-36  # of a magnitude: more than 2^16 operations of float64 are off

T = TypeVar("T")


@dataclass(frozen=True)
class Decayed:
    """gW + 2^-s W, WAGEUBN's weight decay: exact, of float32 one fused multiply-add."""

    gradient: Any
    w: Any
    s: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the weight."""
        return shape_of(self.w)


@dataclass(frozen=True, eq=False)
class Near:
    """float64 numbers, each off by at most MARGIN times its magnitude `size`; also an equation's operands."""

    value: np.ndarray
    size: np.ndarray

    @classmethod
    def of(cls, other: Any) -> "Near":
        """A number of an equation, or itself."""
        return other if isinstance(other, cls) else cls(np.array(float(other)), np.array(abs(float(other))))

    def __add__(self, other: Any) -> "Near":
        other = Near.of(other)
        return Near(self.value + other.value, self.size + other.size)

    def __sub__(self, other: Any) -> "Near":
        return self + -1 * Near.of(other)

    def __mul__(self, other: Any) -> "Near":
        other = Near.of(other)
        return Near(self.value * other.value, self.size * other.size)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> "Near":
        other = Near.of(other)
        return Near(self.value / other.value, self.size * other.size / other.value**2)

    def map(self, move: Callable[[np.ndarray], np.ndarray]) -> "Near":
        """Both moved or added up alike."""
        return Near(move(self.value), move(self.size))


def is_float(value: Any) -> bool:
    """Whether a value is a float32 array."""
    return isinstance(value, np.ndarray)


def is_stored(value: Any) -> bool:
    """Whether a value is held as codes or floats, not as an expression."""
    return isinstance(value, QTensor | np.ndarray | BlockTensor | AffineTensor | Packed)


def forward_copy(value: Any) -> Any:
    """Of two copies of an operand the one that the forward pass reads."""
    return value.forward if isinstance(value, Copies) else value


def backward_copy(value: Any) -> Any:
    """The one that the gradients read."""
    return value.backward if isinstance(value, Copies) else value


def shape_of(value: Any) -> tuple[int, ...]:
    """Of any value; of a number none."""
    return tuple(getattr(forward_copy(value), "shape", ()))


def codes_at(q: QTensor, flat: np.ndarray) -> list[Fraction]:
    """code * 2^exponent."""
    codes = q.codes.reshape(-1)[flat].tolist()
    if isinstance(q.exponent, int):
        unit = power(q.exponent)
        return [code * unit for code in codes]
    exponents = np.broadcast_to(q.exponent, q.shape).reshape(-1)[flat].tolist()
    return [code * power(exponent) for code, exponent in zip(codes, exponents, strict=True)]


def as_float64(value: Any) -> np.ndarray:
    """float64 of a stored value; of codes beyond 53 bits rounded."""
    if isinstance(value, QTensor):
        return np.ldexp(value.codes.astype(np.float64), value.exponent)
    if isinstance(value, BlockTensor | AffineTensor):
        return value.values.astype(np.float64)
    if isinstance(value, Packed):
        return decoded(value).astype(np.float64)
    return value.astype(np.float64)


_DECODED: dict[int, tuple[Packed, np.ndarray]] = {}  # by identity, which holding them keeps
ALIKE: dict[int, tuple[Packed, Any]] = {}  # so too: what came back of them as words or blocks


def decoded(packed: Packed) -> np.ndarray:
    """float32 a~ of every element; held to the definition bucket by bucket where the path is checked.

    `tasks.Step` has all of them read ahead, once for all forks.
    """
    if id(packed) not in _DECODED:
        _DECODED[id(packed)] = packed, packed.load()
    return _DECODED[id(packed)][1]


def forget() -> None:
    """Let go of what was read of packed tensors."""
    _DECODED.clear()
    ALIKE.clear()


def floats_of(value: Any) -> np.ndarray:
    """float32 of a stored value: of codes rounded once, as beside a float32 error."""
    if isinstance(value, QTensor):
        return as_float64(value).astype(np.float32)
    if isinstance(value, BlockTensor | AffineTensor):
        return value.values
    return decoded(value) if isinstance(value, Packed) else value


class Values:
    """The values of a recorded step, and what they are held to.

    rules: by the name of an operation, `rules.RULES`; judge: the definition of the method
    """

    def __init__(self, taken: Taken, judge: Judge, options: Options, rules: dict[str, Any]) -> None:
        self.taken, self.record, self.judge, self.options = taken, taken.record, judge, options
        self.rules = rules
        self._cache: dict[Any, Any] = {}

    def once(self, key: tuple[str, int], make: Callable[[], T]) -> T:
        """What is made once for a whole tensor, by a name and its identity."""
        if key not in self._cache:
            self._cache[key] = make()
        made: T = self._cache[key]
        return made

    def drawn(self, name: str, elements: int, result: Any = None, few: int | None = None) -> np.ndarray:
        """Flat indices that are verified, by a name: drawn, and those that tell most of a stored result.

        few: how many are drawn in place of `options.elements`, unless all are asked for
        """
        count = self.options.elements
        flat = drawn(f"{self.options.seed}/{name}", elements, count and (few or count))
        return flat if count is None or result is None else np.union1d(flat, telling(result, None))

    def words(self, stream: str, flat: np.ndarray, row: Row) -> list[int]:
        """The random words of a stream at flat indices, made again by the definition; the row counts them."""
        row.words += len(flat)
        return [words.word(self.judge.seed, self.judge.now.step, stream, i) for i in flat.tolist()]

    def whole(self, value: Any) -> tuple[np.ndarray, int]:
        """(integers, exponent) of every element of an integer value, exact; NotSpecified beyond 52 bits."""
        if isinstance(value, QTensor):
            return value.codes, int(value.exponent)
        near, exponent = self.near(value), int(value.exponent)
        scaled = np.ldexp(near.value, -exponent)
        if np.ldexp(near.size, -exponent).max(initial=0) >= 1 << 52 or not np.all(scaled == np.rint(scaled)):
            raise NotSpecified(f"a {type(value).__name__} whose integers float64 does not hold")
        return scaled.astype(np.int64), exponent

    def rule(self, what: What) -> Any:
        """The rule of an operation; NotSpecified where there is none."""
        op = what.op
        found = self.rules.get(op.name) if op.spec is None else self.rules["a user's own"](op.spec)
        if found is None:
            raise NotSpecified(f"operation {op.name!r} names no spec")
        return found

    def origin(self, value: Any) -> tuple[What, int]:
        """What made an expression, and which of its results it is; NotSpecified where nothing did."""
        made = self.record.origin(value)
        if made is None:
            raise NotSpecified(f"a {type(value).__name__} that no operation made")
        return made

    def at(self, value: Any, flat: np.ndarray) -> list[Fraction]:
        """The exact values at flat indices."""
        value = forward_copy(value)
        if isinstance(value, QTensor):
            return codes_at(value, flat)
        if is_stored(value):
            return fractions(floats_of(value).reshape(-1)[flat])
        if isinstance(value, Decayed):
            pairs = zip(self.at(value.gradient, flat), self.at(value.w, flat), strict=True)
            share, floats = power(-value.s), is_float(value.gradient)
            return [fma32(share, w, g) if floats else g + share * w for g, w in pairs]
        return self.made(*self.origin(value), flat)

    def tensor(self, value: Any) -> Tensor:
        """The exact values of all elements."""
        shape = shape_of(value)
        return Tensor(shape, self.at(value, np.arange(int(np.prod(shape)))))

    def beside(self, value: Any, flat: np.ndarray) -> list[Fraction]:
        """Those of a value of the same elements, or of one number a channel."""
        return self.at(value, flat % int(np.prod(shape_of(value))))

    def made(self, what: What, k: int, flat: np.ndarray) -> list[Fraction]:
        """Result k of an operation at flat indices, by its rule."""
        found: list[Fraction] = self.rule(what).at(self, what, k, flat)
        return found

    def near(self, value: Any) -> Near:
        """All elements in float64."""
        value = forward_copy(value)
        if is_stored(value):
            stored = as_float64(value)
            return Near(stored, np.abs(stored))
        if isinstance(value, Decayed):
            return self.near(value.gradient) + self.near(value.w) * 2.0**-value.s
        what, k = self.origin(value)
        found: Near = self.rule(what).near(self, what, k)
        return found


# -- which elements are verified --------------------------------------------------------------------


def drawn(name: str, elements: int, count: int | None) -> np.ndarray:
    """Sorted flat indices, `count` of them (None, or no more than that: all), by a name and nothing else."""
    if count is None or elements <= count:
        return np.arange(elements)
    return np.array(sorted(Random(name).sample(range(elements), count)), np.int64)


def telling(result: Any, limits: tuple[int, int] | None) -> np.ndarray:
    """Flat indices of the greatest and the least number of a stored tensor, of zeros, of codes at a limit."""
    numbers = (result.codes if isinstance(result, QTensor) else result).reshape(-1)
    if numbers.size == 0:
        return np.zeros(0, np.int64)
    found = [np.array([numbers.argmax(), numbers.argmin()])]
    found.append(np.flatnonzero(numbers == 0)[:FEW])
    for limit in limits or ():
        found.append(np.flatnonzero(numbers == limit)[:FEW])
    return np.unique(np.concatenate(found))


def close(scaled: np.ndarray, words: np.ndarray | None) -> np.ndarray:
    """Flat indices of values nearest to what decides a rounding: a half, or the fraction that a word means.

    scaled: float64, in steps of the grid. Ties are among them, where there are any.
    """
    flat = scaled.reshape(-1)
    fraction = flat - np.floor(flat)
    border = np.full(1, 0.5) if words is None else words.reshape(-1).astype(np.float64) / 2.0**32
    far = np.abs(fraction - border)
    if words is not None:
        far = np.where(fraction == 0, 1.0, far)  # what is on the grid takes no decision
    count = min(FEW, far.size)
    return np.argpartition(far, count - 1)[:count] if count else np.zeros(0, np.int64)
