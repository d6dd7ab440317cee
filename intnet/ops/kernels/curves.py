"""Passes over whole tensors of the curves sigmoid, silu, silu's derivative and, of integers, tanh.

    t = e**-|x|, r = 1/(1 + t)          `fp32.decay64`: float64, 0 < t <= 1
    s = r or t*r, q = t*r or r          sigmoid(x) and sigmoid(-x), for x >= 0 or x < 0: nothing cancels
    silu = x*s                          derivative = s + silu*q          tanh(x) = 2*sigmoid(2x) - 1

All is float64 in the order written, so that a result in float32 is rounded once but for the last bits of
float64. `round_curve` makes integer codes where float64 is proven to decide; the others are its caller's
(`ops/curves.py`). Infinities and NaN are the caller's to refuse.
"""

import numpy as np

from intnet.machine.buffers import empty
from intnet.machine.jit import inlined, pjit, prange, rule
from intnet.numbers.fp32 import decay64
from intnet.numbers.rounding import NEAREST, round_up

Parts = tuple[float, float, float, float]  # (a, b, c, d) of the curve a*s + (b + c*q) * x*s + d

SIGMOID: Parts = (1.0, 0.0, 0.0, 0.0)
SILU: Parts = (0.0, 1.0, 0.0, 0.0)
SLOPE: Parts = (1.0, 0.0, 1.0, 0.0)
TANH: Parts = (2.0, 0.0, 0.0, -1.0)  # of 2x
RELATIVE = 2.0**-44  # of the magnitudes added up: above all errors of float64 (see `round_curve`)


# --- scalar rules -------------------------------------------------------------------------------


@inlined
def sigmoid64(x: float) -> float:
    """1/(1 + e**-x). Defined by `spec/elementary.py: sigmoid64`."""
    t = decay64(x)
    r = 1.0 / (1.0 + t)
    y: float = r if x >= 0.0 else t * r
    return y


@inlined
def silu64(x: float) -> float:
    """x * sigmoid(x). Defined by `spec/elementary.py: silu64`."""
    return x * sigmoid64(x)


@inlined
def slope64(x: float) -> float:
    """The derivative of silu: s + x*s*(1 - s), s = sigmoid(x). Defined by `spec/elementary.py: slope64`."""
    t = decay64(x)
    r = 1.0 / (1.0 + t)
    s = r if x >= 0.0 else t * r
    q = t * r if x >= 0.0 else r
    return s + (x * s) * q


# --- float32 ------------------------------------------------------------------------------------


@pjit
def sigmoid(team: int, x: np.ndarray, out: np.ndarray) -> None:
    """out = sigmoid(x), flat. Defined by `spec/elementary.py: sigmoid32`."""
    for i in prange(team, x.size):
        out[i] = np.float32(sigmoid64(np.float64(x[i])))


@pjit
def sigmoid_error(team: int, e: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
    """out = e * (y * (1 - y)), flat: float32 operations. Defined by `spec/elementary.py: sigmoid_error32`."""
    for i in prange(team, e.size):
        out[i] = e[i] * (y[i] * (np.float32(1) - y[i]))


@pjit
def silu(team: int, x: np.ndarray, out: np.ndarray) -> None:
    """out = silu(x), flat. Defined by `spec/elementary.py: silu32`."""
    for i in prange(team, x.size):
        out[i] = np.float32(silu64(np.float64(x[i])))


@pjit
def silu_slope(team: int, x: np.ndarray, out: np.ndarray) -> None:
    """out = the derivative of silu at x, flat. Defined by `spec/elementary.py: slope32`."""
    for i in prange(team, x.size):
        out[i] = np.float32(slope64(np.float64(x[i])))


@pjit
def silu_error(team: int, e: np.ndarray, x: np.ndarray, out: np.ndarray) -> None:
    """out = e * the derivative of silu at x, flat: rounded once.

    Defined by `spec/elementary.py: silu_error32`.
    """
    for i in prange(team, e.size):
        out[i] = np.float32(np.float64(e[i]) * slope64(np.float64(x[i])))


# --- integers -----------------------------------------------------------------------------------


@inlined
def _value(parts: Parts, x: float) -> tuple[float, float]:
    """(the curve of these parts at x, more than the magnitudes that were added up for it)."""
    t = decay64(x)
    r = 1.0 / (1.0 + t)
    s = r if x >= 0.0 else t * r
    q = t * r if x >= 0.0 else r
    y = x * s
    return parts[0] * s + (parts[1] + parts[2] * q) * y + parts[3], s + abs(y) + abs(parts[3])


@rule
def _rounded(q: float, mode: int) -> float:
    """q, |q| < 2**51, rounded to an integer: a remainder counts by the quarter that it is in."""
    floor = np.floor(q)
    part = q - floor
    quarters = 0 if part == 0.0 else 1 if part < 0.5 else 2 if part == 0.5 else 3
    return floor + (1.0 if round_up(mode, int(floor), quarters, 4, 0, 0) else 0.0)


@pjit
def nearest(
    team: int,
    codes: np.ndarray,
    parts: Parts,
    unit: float,
    scale: float,
    far: float,
    out: np.ndarray,
    left: np.ndarray,
) -> None:
    """`round_curve` to nearest, whatever the tie: no tie is ever met."""
    for i in prange(team, codes.size):
        x = np.float64(codes[i]) * unit
        y, magnitude = _value(parts, x)
        q = y * scale
        near = np.rint(q)
        left[i] = not (abs(x) < far and abs(q - near) + magnitude * RELATIVE * scale < 0.5)
        out[i] = out.dtype.type(near) if abs(x) < far else 0


@pjit
def directed(
    team: int, codes: np.ndarray, parts: Parts, unit: float, scale: float, mode: int, far: float,
    out: np.ndarray, left: np.ndarray,
) -> None:  # fmt: skip
    """`round_curve` by any deterministic mode: both ends of the error must round to one integer."""
    for i in prange(team, codes.size):
        x = np.float64(codes[i]) * unit
        out[i] = 0
        left[i] = True
        if abs(x) < far:
            y, magnitude = _value(parts, x)
            error = magnitude * RELATIVE * scale
            low, high = _rounded(y * scale - error, mode), _rounded(y * scale + error, mode)
            if low == high:
                out[i] = out.dtype.type(low)
                left[i] = False


def round_curve(
    codes: np.ndarray, parts: Parts, unit: float, scale: float, mode: int, far: float, out: np.ndarray
) -> np.ndarray:
    """out = curve(code * unit) * scale rounded by `mode`; bool array: where that is not decided here.

    unit, scale: powers of two; mode: deterministic; far: at most 128. Left over are codes with |x| >= far,
    and those within the error of float64 of where the rounding changes. That error: x itself is off by
    2**-53, relatively (codes beyond 53 bits), so e**-|x| by 2**-46; the rest is a few units of 2**-52.

    Defined by `spec/curves.py: curve_round`.
    """
    left = empty(codes.shape, np.bool_)
    if mode in NEAREST:
        nearest(codes, parts, unit, scale, far, out, left)
    else:
        directed(codes, parts, unit, scale, mode, far, out, left)
    return left
