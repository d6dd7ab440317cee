"""An integer inference program: the operations of one image in order, each with its constants.

    images     codes of a data set                  relu       max(x, 0)
    product    sums of W x over windows             max_pool   the greatest of a window; padding never wins
    affine     a x + b, by channel                  sum_pool   the sum of a window; padding counts 0
    add        x 2^s + y 2^t                        flatten    (H, W, C) in C order
    round      x num / den to nearest, ties to even, then limited
    curve      a function of codes, as the steps where it changes
    scaled     x, x + b or x + y as block float, at a scale by the greatest of the image
    norm       batch norm in float32, then the same where it has a width
    mean_pool  the mean of a window, of float32
    blocks, block_product, plus    `block_ops.py`

Nothing else is computed by what trains in integers: a bias is an affine, a mean a sum that a round divides,
batch norm an affine, a round by sigma + eps and another affine, or one affine where it is a scale and an
offset. Scaled and norm are MuPPET's, whose scales follow what is scaled and whose batch norm is float32
(`block_float.py`); what follows is DYNASTY's, which has integer products and float32 between them. A value is
code * 2^exponent; images are (H, W, C), codes without a denominator. Of every value an interval is proven
from the operands' (`Value`), partial sums of a product included, and so the container that each one needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from intnet.errors import ConfigError, ShapeError
from intnet.export.block_ops import BlockProduct, Blocks, Plus, check_constants, floats, unit_of
from intnet.export.values import (
    BITS,
    CODES,
    LEAST_FLOAT,
    ROOM,
    Op,
    Pair,
    Shape,
    Value,
    by_channel,
    fixed,
    floating,
    proven,
    sides,
    sums_shape,
    with_zero,
)


@dataclass(frozen=True, eq=False)
class Images(Op):
    """The codes of an image, lo..hi."""

    shape: Shape
    exponent: int
    lo: int
    hi: int

    def value(self, *read: Value) -> Value:
        """As it says."""
        return proven(self.shape, self.exponent, (self.lo, self.hi))


@dataclass(frozen=True, eq=False)
class Product(Op):
    """Sums of weights (Cout, Cin/groups, kh, kw) over windows of (H, W, Cin), or (Cout, Cin) over (Cin,)."""

    weight: np.ndarray
    exponent: int  # of the weights
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    groups: int = 1

    @property
    def kernel(self) -> Shape:
        """Rows and columns of a window; none of rows."""
        return self.weight.shape[2:]

    def value(self, *read: Value) -> Value:
        """Every partial sum lies in the interval too, as each term's has 0 in it."""
        (x,) = read
        w = self.weight
        shape = sums_shape(self.name, x, CODES, w, self.stride, self.padding, self.groups)
        lo, hi = with_zero(x)
        flat = w.reshape(len(w), -1)
        up, down = (np.where(sign * flat > 0, flat, 0).sum(1).tolist() for sign in (1, -1))
        ends = [e for p, n in zip(up, down, strict=True) for e in (p * lo + n * hi, p * hi + n * lo)]
        grows = max(p - n for p, n in zip(up, down, strict=True)) * Fraction(2) ** self.exponent
        return proven(shape, x.exponent + self.exponent, ends, like=x, grows=grows)


@dataclass(frozen=True, eq=False)
class Affine(Op):
    """a x + b; a and b int64, one or one a channel, in units of 2^exponent."""

    a: np.ndarray
    b: np.ndarray
    exponent: int

    def value(self, *read: Value) -> Value:
        """The interval over all channels."""
        x = fixed(read[0], self.name)
        a, b = (by_channel(v, x, self.name) for v in (self.a, self.b))
        channels = range(max(len(a), len(b)))
        products = [(a[k % len(a)] * x.lo, a[k % len(a)] * x.hi) for k in channels]
        ends = [e + b[k % len(b)] for k in channels for e in products[k]]
        return proven(x.shape, self.exponent, ends, max(abs(e) for both in products for e in both))


@dataclass(frozen=True, eq=False)
class Add(Op):
    """x 2^shifts[0] + y 2^shifts[1]."""

    shifts: Pair

    def value(self, *read: Value) -> Value:
        """At the exponent that both then have."""
        x, y = (fixed(one, self.name) for one in read)
        s, t = self.shifts
        if x.shape != y.shape or x.exponent - s != y.exponent - t or min(s, t) < 0:
            raise ShapeError(f"{self.name}: {x} and {y} do not join by shifts {self.shifts}")
        ends = ((x.lo << s) + (y.lo << t), (x.hi << s) + (y.hi << t))
        peak = max(abs(e) << by for by, v in ((s, x), (t, y)) for e in (v.lo, v.hi))
        return proven(x.shape, x.exponent - s, ends, peak)


@dataclass(frozen=True, eq=False)
class Round(Op):
    """x num / den to nearest, ties to even; then within lo..hi, where these are given."""

    num: int
    den: np.ndarray
    exponent: int
    lo: int | None = None
    hi: int | None = None

    def value(self, *read: Value) -> Value:
        """The division's operands have room in `peak`."""
        x = fixed(read[0], self.name)
        den = by_channel(self.den, x, self.name)
        if self.num < 1 or min(den) < 1:
            raise ShapeError(f"{self.name}: a fraction {self.num}/{min(den)} is not above 0")
        ends = [self._limited(round(Fraction(e * self.num, d))) for d in den for e in (x.lo, x.hi)]
        peak = max(abs(x.lo), abs(x.hi)) * self.num + max(den)
        return proven(x.shape, self.exponent, ends, peak)

    def _limited(self, code: int) -> int:
        if self.lo is None or self.hi is None:
            return code
        return max(self.lo, min(self.hi, code))


@dataclass(frozen=True, eq=False)
class Curve(Op):
    """A function of codes, as a staircase: codes[k] where k of the steps are at most x.

    steps: int64, ascending; codes: int64, one more, in units of 2^exponent
    """

    steps: np.ndarray
    codes: np.ndarray
    exponent: int

    def value(self, *read: Value) -> Value:
        """The interval of the codes that it reaches."""
        x = fixed(read[0], self.name)
        if self.codes.shape != (self.steps.size + 1,) or not np.all(np.diff(self.steps) > 0):
            raise ShapeError(f"{self.name}: {self.codes.shape} codes for {self.steps.shape} ascending steps")
        first, last = np.searchsorted(self.steps, [x.lo, x.hi], side="right").tolist()
        return proven(x.shape, self.exponent, self.codes[first : last + 1].tolist())


@dataclass(frozen=True, eq=False)
class Relu(Op):
    """max(x, 0)."""

    def value(self, *read: Value) -> Value:
        """Without what is below 0."""
        (x,) = read
        return proven(x.shape, x.exponent, (max(x.lo, 0), max(x.hi, 0)), like=x)


@dataclass(frozen=True, eq=False)
class Pool(Op):
    """Windows of an image."""

    kernel: Pair
    stride: Pair
    padding: Pair

    def _shape(self, x: Value) -> Shape:
        if len(x.shape) != 3:
            raise ShapeError(f"{self.name}: a pool reads an image, not {x.shape}")
        return (*sides(x.shape, self.kernel, self.stride, self.padding, self.name), x.shape[2])


@dataclass(frozen=True, eq=False)
class MaxPool(Pool):
    """The greatest of a window."""

    def value(self, *read: Value) -> Value:
        """As what it reads."""
        (x,) = read
        return proven(self._shape(x), x.exponent, (x.lo, x.hi), like=x)


@dataclass(frozen=True, eq=False)
class SumPool(Pool):
    """The sum of a window."""

    def value(self, *read: Value) -> Value:
        """As many times as a window has places."""
        (x,) = read
        size = prod(self.kernel)
        if x.form != CODES:
            raise ShapeError(f"{self.name}: it reads {x.form} where codes are wanted")
        return proven(self._shape(x), x.exponent, [size * end for end in with_zero(x)], like=x, grows=size)


@dataclass(frozen=True, eq=False)
class MeanPool(Pool):
    """The mean of a window in float32: additions in row-major order, then a division by all its places.

    Defined by `spec/pooling.py: avg32_at`.
    """

    def value(self, *read: Value) -> Value:
        """Its sum is proven, too."""
        x, size = floats(read[0], self.name), prod(self.kernel)
        total = floating(self._shape(x), x.exponent, x.reach * size, self.name, size)
        return floating(total.shape, LEAST_FLOAT, total.reach / size, self.name)


@dataclass(frozen=True, eq=False)
class Flatten(Op):
    """Codes in C order."""

    def value(self, *read: Value) -> Value:
        """One axis."""
        (x,) = read
        return x._replace(shape=(prod(x.shape),))


@dataclass(frozen=True, eq=False)
class Scaled(Op):
    """BF((x + b) / den) or BF((x + y) / den) of wl bits: to nearest, ties to even, LB..UB in steps 2^-s.

    s is the greatest with max 2^s <= UB + 1/2 and min 2^s >= LB - 1/2 over the image; of zeros s = wl - 2.
    b: int64, one a channel, in units of 2^exponent; rectified: sums below 0 are 0 ahead of all that.
    Defined by `spec/formats.py: Scaled`.
    """

    wl: int
    den: int = 1
    b: np.ndarray | None = None
    exponent: int = 0
    rectified: bool = False

    def terms(self, *read: Value) -> list[Value]:
        """What is added up: what it reads, and b as a value."""
        if self.b is None:
            return list(read)
        codes = by_channel(self.b, read[0], self.name)
        return [*read, proven((len(codes),), self.exponent, codes)]

    def rooms(self, *read: Value) -> list[int]:
        """By how many bits each term may be raised.

        Raised so far, beyond what the other needs, the greatest sum is so many units that limits and ties are
        even numbers of them (`block_float.py`). ConfigError where 64 bits hold no such sum.
        """
        bits = [term.greatest.bit_length() for term in self.terms(*read)]
        rooms = [ROOM - own for own in bits]
        for own, other in zip(rooms, reversed(bits), strict=True):
            if len(bits) == 2 and own < max(self.wl + 2 + self.den.bit_length(), other + 1):
                raise ConfigError(
                    f"{self.name}: sums of {bits[0]} and {bits[1]} bits, whose exponents follow the image, "
                    f"and {self.wl} bits of their sum: 64 bits are what there is: choose smaller layers"
                )
        return rooms

    def value(self, *read: Value) -> Value:
        """Its scale is set by `Program`."""
        terms = self.terms(*read)
        if not 1 <= len(read) <= len(terms) <= 2 or any(x.shape != read[0].shape for x in read):
            raise ShapeError(f"{self.name}: it adds one value and b, or two of one shape")
        if self.wl < 4 or self.den < 1:
            raise ShapeError(f"{self.name}: {self.wl} bits of x / {self.den}")
        self.rooms(*read)
        room = max(term.greatest for term in terms) if len(terms) == 1 else (1 << ROOM + 1) - 1
        positive = self.rectified or all(term.lo >= 0 for term in terms)
        least = 0 if positive else -(1 << self.wl - 1)
        reach = sum((term.reach for term in terms), Fraction(0)) / self.den
        return _scaled(read[0].shape, self.wl, least, max(room, ((1 << self.wl) + 1) * self.den), reach)


@dataclass(frozen=True, eq=False)
class Norm(Op):
    """BF(((x - mean) r) gamma + beta) of wl bits, of float32 with one rounding an operation; see `Scaled`.

    mean, r, gamma, beta: float32, one a channel; of wl = 0 it stays float32.
    Defined by `spec/float_batch_norm.py: x2_at`, `spec/float_batch_norm.py: x3_at`.
    """

    mean: np.ndarray
    r: np.ndarray
    gamma: np.ndarray
    beta: np.ndarray
    wl: int

    @property
    def constants(self) -> dict[str, np.ndarray]:
        """In the order in which they come to x, by name."""
        return {"mean": self.mean, "r": self.r, "gamma": self.gamma, "beta": self.beta}

    def value(self, *read: Value) -> Value:
        """ConfigError unless float32 is proven to hold all of it; its scale is set by `Program`."""
        (x,) = read
        constants = self.constants.values()
        check_constants(self.name, x.shape, *constants)
        mean, r, gamma, beta = (Fraction(float(np.abs(v).max())) for v in constants)
        centred = x.reach + mean
        parts = [centred, centred * r, centred * r * gamma, centred * r * gamma + beta]
        reach = parts[-1] * (1 + Fraction(1, 1 << 20)) + Fraction(1, 1 << 140)  # of four roundings
        made = floating(x.shape, LEAST_FLOAT, max(*parts, reach), self.name)._replace(top=reach)
        if self.wl == 0:
            floats(x, self.name)
            units = [unit_of(v) for v in constants]
            unit = min(min(x.exponent, units[0]) + units[1] + units[2], units[3])
            return made._replace(exponent=max(unit, LEAST_FLOAT))
        if x.form != CODES:
            raise ShapeError(f"{self.name}: it reads {x.form} where codes are wanted")
        return _scaled(x.shape, self.wl, -(1 << self.wl - 1), x.greatest, reach)


def _scaled(shape: Shape, wl: int, least: int, peak: int, reach: Fraction) -> Value:
    """Block float of values up to `reach`, beyond which half a step may round."""
    hi = (1 << wl - 1) - 1
    return proven(shape, 0, (least, hi), peak)._replace(top=reach * Fraction(2 * hi + 3, 2 * hi + 1))


Windowed = Product | BlockProduct | Pool

OPS: dict[str, type[Op]] = {
    "images": Images,
    "product": Product,
    "affine": Affine,
    "add": Add,
    "round": Round,
    "curve": Curve,
    "relu": Relu,
    "max_pool": MaxPool,
    "sum_pool": SumPool,
    "mean_pool": MeanPool,
    "flatten": Flatten,
    "scaled": Scaled,
    "norm": Norm,
    "blocks": Blocks,
    "block_product": BlockProduct,
    "plus": Plus,
}


def plain(text: str) -> str:
    """ASCII, which any comment may hold."""
    return ascii(text)[1:-1].replace("*/", "* /").replace("/*", "/ *")


def valued(op: Op, place: int, made: Sequence[Value]) -> Value:
    """The value of an operation at a place, of those made so far."""
    value = op.value(*(made[k] for k in op.reads))
    return value._replace(scale=place) if isinstance(op, Scaled | Norm) and value.form == CODES else value


@dataclass(frozen=True, eq=False)
class Program:
    """The operations in order: the first are the images, the last gives the logits.

    about: of what run; values: of every operation, derived from the operations alone
    """

    ops: tuple[Op, ...]
    about: dict[str, Any] = field(default_factory=dict)
    values: tuple[Value, ...] = ()

    def __post_init__(self) -> None:
        if not self.ops or not isinstance(self.ops[0], Images):
            raise ShapeError("a program begins with its images")
        made: list[Value] = []
        for place, op in enumerate(self.ops):
            if (isinstance(op, Images) != (place == 0)) or not all(0 <= k < place for k in op.reads):
                raise ShapeError(f"{op.name}: it reads what is not made ahead of it")
            value = valued(op, place, made)
            if value.peak.bit_length() > BITS:
                raise ConfigError(
                    f"{op.name}: it may need {value.peak.bit_length() + 1} bits, and 64 are what there is: "
                    "bound the activations ahead of it, of wageubn by training with --set saturate=0, 1, .."
                )
            made.append(value)
        object.__setattr__(self, "values", tuple(made))

    @property
    def images(self) -> Images:
        """What it reads."""
        first = self.ops[0]
        assert isinstance(first, Images)
        return first

    @property
    def logits(self) -> Value:
        """What it gives: codes * 2^exponent."""
        return self.values[-1]

    @property
    def title(self) -> str:
        """Of what run, in ASCII, which any comment may hold."""
        return plain(self.about.get("title", "a network"))

    def readers(self) -> Counter[int]:
        """Of every place, how many operations read what is made there."""
        return Counter(place for op in self.ops for place in op.reads)
