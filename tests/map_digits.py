"""DYNASTY's sensitivities, work and bit-width maps, one block at a time, with 50 digits. Used by `dynasty`.

r is None for -infinity. A width b is smoothed and stored in float32; in use are 0, 2, 4, 6 and 8 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

from intnet.spec import block_float, nets
from intnet.spec.block_float import Blocks, Index, places
from intnet.spec.geometry import conv_shape, forward_terms
from intnet.spec.tensor import Tensor

DIGITS = Context(prec=50)
BETA = Decimal(8)
LN2 = DIGITS.ln(Decimal(2))

Map = dict[Index, Any]


def decimal(x: Fraction | float | int) -> Decimal:
    """50 digits."""
    x = Fraction(x)
    return DIGITS.divide(Decimal(x.numerator), Decimal(x.denominator))


# -- sensitivity and work --------------------------------------------------------------------------


def sensitivity(gradients: Tensor, q: Blocks, zero: Iterable[Index]) -> dict[Index, float]:
    """S = 2^(2e)/16 sum of g^2 of every block, added in float64 row by row; 0 of a block that is zero."""
    values = dict(zip(places(gradients.shape), gradients.values, strict=True))
    dead = set(zero)
    out = {}
    for block, e in q.exponents.items():
        s = 0.0
        for place in block_float.members(block, q.axes):
            g = float(values.get(place, 0))
            s += g * g
        out[block] = 0.0 if block in dead else s * 2.0 ** (2 * e - 4)
    return out


def zero_blocks(x: Tensor, axes: tuple[int, int]) -> list[Index]:
    """The blocks that are zero: all of their numbers are, or are below 2^-129."""
    inside: Map = {block: [] for block in block_float.blocks(x.shape, axes)}
    for place, value in zip(places(x.shape), x.values, strict=True):
        inside[block_float.block_of(place, axes)].append(value)
    return [block for block, xs in inside.items() if block_float.exponent(xs) is None]


@cache
def work(
    layer: nets.Layer, x: tuple[int, ...], w: tuple[int, ...]
) -> tuple[dict[Index, int], dict[Index, int]]:
    """Multiply-adds of one product, counted one by one: of every block of the weights, and of the input."""
    if layer.kind == "linear":
        x, w = (x[0], 1, 1, x[1]), (*w, 1, 1)
    shape = conv_shape(x, w, layer.stride, layer.padding)
    xs, ws = places(x), places(w)
    weights = {block: 0 for block in block_float.blocks(w, (0, 1))}
    inputs = {block: 0 for block in block_float.blocks(x, (0, 3))}
    for terms in forward_terms(shape):
        for i, j in terms:
            if i >= 0 and j >= 0:
                weights[block_float.block_of(ws[j], (0, 1))] += 1
                inputs[block_float.block_of(xs[i], (0, 3))] += 1
    if layer.kind == "linear":
        return {b[:2]: t for b, t in weights.items()}, {(b[0], b[3]): t for b, t in inputs.items()}
    return weights, inputs


# -- the map ---------------------------------------------------------------------------------------


def relative(s: float | Fraction, t: int) -> Decimal | None:
    """r = log2(S/T)/2; None for -infinity."""
    if not s:
        return None
    return DIGITS.divide(DIGITS.ln(decimal(Fraction(s) / t)), 2 * LN2)


def width(r: Decimal | None, lam: Decimal) -> Decimal:
    """b = r - lambda within 0 .. 8."""
    return Decimal(0) if r is None else max(min(DIGITS.subtract(r, lam), BETA), Decimal(0))


def mean(xs: Sequence[Decimal]) -> Decimal:
    """Their mean."""
    total = Decimal(0)
    for x in xs:
        total = DIGITS.add(total, x)
    return DIGITS.divide(total, Decimal(len(xs)))


def first_lambda(rs: Sequence[Decimal | None], alpha: Decimal) -> Decimal:
    """mean(r) - alpha of all finite r, 0 where there are none."""
    finite = [r for r in rs if r is not None]
    return DIGITS.subtract(mean(finite), alpha) if finite else Decimal(0)


def tune(rs: Sequence[Decimal | None], lam: Decimal, alpha: Decimal, rounds: int = 3) -> Decimal:
    """Algorithm 1: `rounds` interpolations between the least and the greatest finite r, and none beyond."""
    finite = [r for r in rs if r is not None]
    if not finite:
        return lam
    low, high = DIGITS.subtract(min(finite), alpha), DIGITS.subtract(max(finite), alpha)
    for _ in range(rounds):
        at_low, at_high, now = (mean([width(r, v) for r in rs]) for v in (low, high, lam))
        up = now > alpha
        end, at_end = (high, at_high) if up else (low, at_low)
        if now == at_end:
            return lam
        t = DIGITS.divide(DIGITS.subtract(now, alpha), DIGITS.subtract(now, at_end))
        t = max(min(t, Decimal(1)), Decimal(0))
        moved = DIGITS.add(DIGITS.multiply(DIGITS.subtract(1, t), lam), DIGITS.multiply(t, end))
        low, high, lam = (lam, high, moved) if up else (low, lam, moved)
    return lam


def smoothed(last: Decimal, new: Decimal, gamma: float = 0.5) -> Decimal:
    """gamma b_last + (1 - gamma) b_new."""
    g = decimal(gamma)
    return DIGITS.add(DIGITS.multiply(g, last), DIGITS.multiply(DIGITS.subtract(1, g), new))


def in_use(b: Fraction | Decimal) -> int:
    """The nearest of 0, 2, 4, 6, 8; an odd number upward."""
    return min((0, 2, 4, 6, 8), key=lambda w: (abs(Fraction(b) - w), -w))


def loss_noise(sensitivities: Sequence[Fraction | float], bits: Sequence[float | int]) -> float:
    """2/(3 N B) sum of S 2^(-2b), B = 16."""
    terms = [
        DIGITS.multiply(decimal(s), DIGITS.power(Decimal(2), DIGITS.multiply(-2, decimal(b))))
        for s, b in zip(sensitivities, bits, strict=True)
    ]
    return float(DIGITS.multiply(mean(terms), DIGITS.divide(Decimal(2), Decimal(48))))


# -- what is told of a map -------------------------------------------------------------------------


class Entry(NamedTuple):
    """A block at the end of an epoch: mean S, T, r; widths before and after, smoothed and not."""

    layer: str
    s: Fraction
    t: int
    r: Decimal | None
    last: Fraction
    last_new: Fraction
    smoothed: Fraction
    new: Fraction


def ratio(entries: Sequence[Entry], value: Callable[[Entry], int]) -> float:
    """The T-weighted mean of a number."""
    return float(Fraction(sum(e.t * value(e) for e in entries), sum(e.t for e in entries)))


def average(values: Sequence[Fraction | int]) -> float:
    """Their mean."""
    return float(Fraction(sum(values)) / len(values))


def summary(entries: Sequence[Entry], lam: Decimal, alpha: Decimal) -> dict[str, Any]:
    """Of all blocks of a kind."""
    rs, s = [e.r for e in entries], [e.s for e in entries]
    bits = [in_use(e.smoothed) for e in entries]
    noise = {
        "before": [in_use(e.last) for e in entries],
        "after": bits,
        "uniform": [average(bits)] * len(bits),
    }
    return {
        "alpha": float(alpha),
        "lambda": float(lam),
        "mean": average(bits),
        "smoothed": average([e.smoothed for e in entries]),
        "exact": float(mean([width(r, lam) for r in rs])),
        "untuned": float(mean([width(r, first_lambda(rs, alpha)) for r in rs])),
        "mac_bits": ratio(entries, lambda e: in_use(e.smoothed)),
        "skipped": ratio(entries, lambda e: int(in_use(e.smoothed) == 0)),
        "loss_noise": {name: loss_noise(s, widths) for name, widths in noise.items()},
    }


def layer_record(entries: Sequence[Entry]) -> dict[str, Any]:
    """Of the blocks of one layer; quartiles between two blocks are interpolated."""
    rs = sorted(e.r for e in entries if e.r is not None)
    bits = [in_use(e.smoothed) for e in entries]
    quartiles = []
    for quarter in range(5) if rs else ():
        place = Fraction(quarter * (len(rs) - 1), 4)
        low = int(place)
        high = min(low + 1, len(rs) - 1)
        share = decimal(place - low)
        quartiles.append(float(rs[low] + DIGITS.multiply(share, DIGITS.subtract(rs[high], rs[low]))))
    return {
        "blocks": len(entries),
        "macs": sum(e.t for e in entries),
        "mean": average(bits),
        "mac_bits": ratio(entries, lambda e: in_use(e.smoothed)),
        "skipped": ratio(entries, lambda e: int(in_use(e.smoothed) == 0)),
        "counts": [bits.count(b) for b in (0, 2, 4, 6, 8)],
        "r": quartiles,
        "infinite": sum(e.r is None for e in entries),
        "change": average([abs(in_use(e.smoothed) - in_use(e.last)) for e in entries]),
        "change_new": average([abs(in_use(e.new) - in_use(e.last_new)) for e in entries]),
    }
