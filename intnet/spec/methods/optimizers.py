"""Steps of a float32 parameter by SGD and AdamW, clipping, and rates that warm up and fall along cosines.

Tensors are lists of Fractions that are float32; what a step computes in float64 are Python's floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from intnet.spec.float32 import fma32, mul32, to_float32
from intnet.spec.methods.adapt import root64, sum64
from intnet.spec.rounding import round_sqrt
from intnet.spec.tensor import power

BITS = 300  # behind the point of the cosine's integers


@dataclass
class Settings:
    """`lr`: (first epoch, rate) ascending; `l1` and `l2` join the gradient, `decay` is decoupled."""

    lr: Sequence[tuple[int, float]] = ((0, 0.05),)
    warmup: Fraction = Fraction(0)
    cosine: Fraction | None = None
    adamw: bool = False
    momentum: float = 0.9
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    decay: float = 0.0
    l1: float = 0.0
    l2: float = 0.0
    clip: float | None = None


@dataclass
class Slots:
    """What a parameter keeps: Acc, or m, v and the updates so far."""

    first: list[Fraction] = field(default_factory=list)
    second: list[Fraction] = field(default_factory=list)
    updates: int = 0


# -- rates ----------------------------------------------------------------------------------------


def _arctan(inverse: int) -> int:
    """arctan(1/inverse) in units of 2^-BITS."""
    term = total = (1 << BITS) // inverse
    k = 1
    while term:
        term //= -(inverse**2)
        k += 2
        total += term // k
    return total


PI = 4 * (4 * _arctan(5) - _arctan(239))  # Machin's formula


def half_wave(u: Fraction) -> Fraction:
    """(1 + cos(pi u))/2 = cos(pi u/2)^2 within 2^-250: a series for a small angle, doubled sixteen times."""
    angle = PI * u.numerator // (u.denominator << 17)
    term = cosine = 1 << BITS
    for k in range(2, 60, 2):
        term = -((term * angle >> BITS) * angle >> BITS) // (k * (k - 1))
        cosine += term
    for _ in range(16):
        cosine = (cosine * cosine >> (BITS - 1)) - (1 << BITS)
    return Fraction(cosine, 1 << BITS) ** 2


def factor(s: Settings, step: int, steps_per_epoch: int) -> float:
    """The rise of the first steps, then half waves."""
    if step < s.warmup * steps_per_epoch:
        return float(min(Fraction(1), (step + 1) / (s.warmup * steps_per_epoch)))
    if s.cosine is None:
        return 1.0
    behind = step - s.warmup * steps_per_epoch
    while behind >= s.cosine * steps_per_epoch:
        behind -= s.cosine * steps_per_epoch
    return float(half_wave(behind / (s.cosine * steps_per_epoch)))


def rate(s: Settings, step: int, steps_per_epoch: int) -> float:
    """The epoch's rate, scaled."""
    epoch = step // steps_per_epoch
    return [value for first, value in s.lr if first <= epoch][-1] * factor(s, step, steps_per_epoch)


# -- updates --------------------------------------------------------------------------------------


def to_power(base: float, n: int) -> float:
    """base^n in float64: the squares base^(2^k) of n's bits, multiplied from the lowest up."""
    square, result = base, 1.0
    for bit in reversed(f"{n:b}"):
        if bit == "1":
            result = result * square
        square = square * square
    return result


def clipping(g: Sequence[Fraction], clip: float | None) -> Fraction:
    """The float32 that scales a gradient."""
    square = Fraction(sum64([v * v for v in g]))
    norm = float(root64(square)) if square else 0.0
    return to_float32(Fraction(clip / norm)) if clip is not None and norm > clip else Fraction(1)


def root32(x: Fraction) -> Fraction:
    """The float32 root of a float32: a float32 > 0 is m * 4^k, and its root needs no more than 24 bits."""
    if x == 0:
        return x
    exponent = 0
    while x >= power(2 * (exponent + 24)):
        exponent += 1
    while x < power(2 * (exponent + 23)):
        exponent -= 1
    return round_sqrt(x / power(2 * exponent)) * power(exponent)


def gradient(s: Settings, w: Sequence[Fraction], g: Sequence[Fraction], scale: Fraction) -> list[Fraction]:
    """Scaled, and with the gradients of the penalties."""
    l1, l2 = to_float32(Fraction(s.l1)), to_float32(Fraction(s.l2))
    out = [mul32(scale, v) for v in g]
    if s.l1:
        out = [fma32(l1, (v > 0) - (v < 0), a) for v, a in zip(w, out, strict=True)]
    return [fma32(l2, v, a) for v, a in zip(w, out, strict=True)] if s.l2 else out


def update(
    s: Settings, lr: float, w: Sequence[Fraction], g: Sequence[Fraction], slots: Slots, scale: Fraction
) -> list[Fraction]:
    """The next W; `slots` move with it."""
    g = gradient(s, w, g, scale)
    slots.updates += 1
    if s.adamw:
        return _adamw(s, lr, w, g, slots)
    momentum, rate32 = to_float32(Fraction(s.momentum)), to_float32(Fraction(lr))
    old = slots.first or [Fraction(0)] * len(g)
    slots.first = [fma32(momentum, a, v) for a, v in zip(old, g, strict=True)]
    return [fma32(-rate32, a, v) for a, v in zip(slots.first, w, strict=True)]


def _adamw(
    s: Settings, lr: float, w: Sequence[Fraction], g: Sequence[Fraction], slots: Slots
) -> list[Fraction]:
    b1, b2 = (to_float32(Fraction(beta)) for beta in s.betas)
    r1, r2 = (to_float32(Fraction(1 - beta)) for beta in s.betas)
    lost = [1 - to_power(beta, slots.updates) for beta in s.betas]
    root = to_float32(Fraction(1 / float(root64(Fraction(lost[1])))))
    eps, rate32 = to_float32(Fraction(s.eps)), to_float32(Fraction(lr / lost[0]))
    decay = to_float32(Fraction(lr * s.decay))
    zeros = [Fraction(0)] * len(g)
    slots.first = [fma32(b1, m, mul32(r1, x)) for m, x in zip(slots.first or zeros, g, strict=True)]
    slots.second = [
        fma32(b2, v, mul32(mul32(r2, x), x)) for v, x in zip(slots.second or zeros, g, strict=True)
    ]
    out = []
    for value, m, v in zip(w, slots.first, slots.second, strict=True):
        step = to_float32(m / fma32(root, root32(v), eps))
        out.append(fma32(-rate32, step, fma32(-decay, value, value)))
    return out
