"""Block float by the image: what `program.Scaled` and `program.Norm` make, in NumPy and for all writers.

    codes, exponents = RULES[type(op)](op, values, exponents, x, ..)      int64 (N, ..), int64 (N,)

A scale is found without logarithms: step(top, low) is the least j with top <= (2^wl - 1) den 2^j and
-low <= (2^wl + 1) den 2^j, so that a step is den 2^(j+1) (`LIMITS`). Two terms meet at the lesser exponent.
Where these are further apart than 64 bits hold (`program.Scaled.rooms`), the finer term counts in units of
which a step still has four or more, and what is cut off makes it odd: every comparison with a limit or a tie,
which are even numbers of them, comes out as of the exact sum.

Tested against `interpret.py`, which adds fractions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from intnet.export import program as p
from intnet.export.values import Op, Value

INT = 63  # bits of an int64 beside its sign
EXPONENTS = range(-320, 321)  # of the powers of two that float32 and its scales meet; below, all is 0


class Limits(NamedTuple):
    """Which extremes a step of 2^exponent allows: top up to `above`, -low up to `below`, ascending."""

    exponents: np.ndarray
    above: np.ndarray
    below: np.ndarray


def limits(op: p.Scaled | p.Norm) -> Limits:
    """Of integers, floor((2^wl - 1) den 2^j), j = exponent - 1; of `Norm`, the same in float64."""
    if isinstance(op, p.Norm):
        each = np.array(EXPONENTS[1:-1])
        ends = (np.ldexp(np.float64((1 << op.wl) + sign), each - 1) for sign in (-1, 1))
        return Limits(each, *ends)
    bits = (((1 << op.wl) + 1) * op.den).bit_length()
    js, most = range(-bits, INT - bits + 3), (1 << INT) - 1
    above, below = (
        [min((((1 << op.wl) + sign) * op.den << INT + j) >> INT, most) for j in js] for sign in (-1, 1)
    )
    return Limits(np.array(js) + 1, np.array(above, np.int64), np.array(below, np.int64))


def steps(table: Limits, top: np.ndarray, low: np.ndarray) -> np.ndarray:
    """int64 (N,): log2 of the step over den, of the extremes of each image."""
    places = np.maximum(np.searchsorted(table.above, top), np.searchsorted(table.below, -low))
    return np.asarray(table.exponents[places], np.int64)


def divided(n: np.ndarray, d: np.ndarray) -> np.ndarray:
    """n / d to nearest, ties to even, of d above 0."""
    floor, rest = np.divmod(n, d)
    above = d - rest  # 2 rest against d, without doubling
    return np.asarray(floor + ((rest > above) | ((rest == above) & (floor % 2 == 1))))


def raised(x: np.ndarray, by: np.ndarray) -> np.ndarray:
    """x 2^by; of by < 0 its floor, made odd where that is not exact. by: (N,)."""
    by = _each(by, x)
    floor, rest = np.divmod(x << np.maximum(by, 0), np.int64(1) << np.minimum(np.maximum(-by, 0), INT - 1))
    return np.asarray(floor | (rest != 0))


def meeting(
    e: Sequence[np.ndarray], rooms: Sequence[int], live: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(by how much x is raised, and y, their exponent then), each (N,); live: where a term is not all 0."""
    apart = np.where(live[0] & live[1], e[0] - e[1], 0)
    up = np.clip(apart, -rooms[1], rooms[0])
    x, y = np.where(apart > 0, up, apart - up), np.where(apart > 0, up - apart, -up)
    return x, y, np.where(live[0], e[0] - x, e[1] - y)


def _scaled(
    op: p.Scaled, values: Sequence[Value], e: Sequence[np.ndarray], *read: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    terms, exponents = list(read), list(e)
    if op.b is not None:
        terms.append(np.broadcast_to(op.b, read[0].shape))
        exponents.append(np.full(len(read[0]), op.exponent))
    total, exponent = terms[0], exponents[0]
    if len(terms) == 2:
        live = [_of_image(np.any, term) for term in terms]
        *raises, exponent = meeting(exponents, op.rooms(*values), live)
        total = raised(terms[0], raises[0]) + raised(terms[1], raises[1])
    if op.rectified:
        total = np.maximum(total, 0)
    top, low = _extremes(total)
    step = steps(limits(op), top, low)
    by = _each(step, total)
    codes = divided(total << np.maximum(-by, 0), np.int64(op.den) << np.maximum(by, 0))
    return _within(codes, op.wl), np.where((top > 0) | (low < 0), exponent + step, 2 - op.wl)


def _norm(
    op: p.Norm, values: Sequence[Value], e: Sequence[np.ndarray], x: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    centred = np.ldexp(x.astype(np.float64), _each(e[0], x)).astype(np.float32) - op.mean
    made = (centred * op.r * op.gamma + op.beta).astype(np.float64)
    top, low = _extremes(made)
    step = steps(limits(op), top, low)
    codes = np.rint(np.ldexp(made, -_each(step, x))).astype(np.int64)
    return _within(codes, op.wl), np.where((top > 0) | (low < 0), step, 2 - op.wl)


def _within(codes: np.ndarray, wl: int) -> np.ndarray:
    return np.clip(codes, -(1 << wl - 1), (1 << wl - 1) - 1)


def _extremes(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The greatest and the least of every image, 0 among them."""
    return np.maximum(_of_image(np.max, x), 0), np.minimum(_of_image(np.min, x), 0)


def _of_image(reduce: Callable[..., Any], x: np.ndarray) -> np.ndarray:
    return np.asarray(reduce(x.reshape(len(x), -1), axis=1))


def _each(v: np.ndarray, x: np.ndarray) -> np.ndarray:
    """(N,) against the elements of x."""
    return v.reshape(-1, *[1] * (x.ndim - 1))


RULES: dict[type[Op], Callable[..., tuple[np.ndarray, np.ndarray]]] = {p.Scaled: _scaled, p.Norm: _norm}
