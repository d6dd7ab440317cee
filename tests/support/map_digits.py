"""DYNASTY's maps with 50 digits: what float64 comes near, and what is told of a map.

r is None for -infinity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from intnet.spec.methods import dynasty
from intnet.spec.methods.dynasty_map import in_use, sensitivity, work, zero_blocks

DIGITS = Context(prec=50)
BETA = Decimal(8)
LN2 = DIGITS.ln(Decimal(2))


def decimal(x: Fraction | float | int) -> Decimal:
    """50 digits."""
    x = Fraction(x)
    return DIGITS.divide(Decimal(x.numerator), Decimal(x.denominator))


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


def loss_noise(sensitivities: Sequence[Fraction | float], bits: Sequence[float | int]) -> float:
    """1/(3 N) sum of S 2^(-2b)."""
    terms = [
        DIGITS.multiply(decimal(s), DIGITS.power(Decimal(2), DIGITS.multiply(-2, decimal(b))))
        for s, b in zip(sensitivities, bits, strict=True)
    ]
    return float(DIGITS.multiply(mean(terms), DIGITS.divide(Decimal(1), Decimal(3))))


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
    noise: dict[str, list[Any]] = {
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


def told(step: dynasty.Step) -> dict[str, Any]:
    """What the log has of the maps that a step made; of a step that made none, nothing."""
    if not step.entries:
        return {}
    layers: dict[str, Any] = {layer.name: {} for layer in step.weighted}
    out: dict[str, Any] = {"layers": layers}
    for kind, name in (("W", "weights"), ("A", "activations")):
        made = step.entries[kind]
        entries = entries_of(step, kind, made)
        out[name] = summary(entries, decimal(made["lambda"]), decimal(step.settings.alpha(kind)))
        for layer in made["S"]:
            layers[layer][name] = layer_record([e for e in entries if e.layer == layer])
    return out


def entries_of(step: dynasty.Step, kind: str, made: dict[str, Any]) -> list[Entry]:
    """Every block that a product reads; its widths are those of the step's state before and after."""
    out = []
    for layer, sums in made["S"].items():
        names = [step.kept(layer, kind, slot) for slot in ("b", "b_new")]
        (old, old_new), (b, b_new) = (
            [dynasty.table(s[name]) for name in names] for s in (made["before"], step.state)
        )
        for block, total in sums.items():
            t, mean_s = made["T"][layer][block], Fraction(total) / made["batches"]
            if t:
                r = relative(mean_s, t)
                out.append(Entry(layer, mean_s, t, r, old[block], old_new[block], b[block], b_new[block]))
    return out


__all__ = ["Entry", "decimal", "in_use", "sensitivity", "told", "work", "zero_blocks"]
