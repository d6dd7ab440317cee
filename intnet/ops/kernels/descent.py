"""Steps of float32 masters by their gradients: SGD with momentum and AdamW, each in one pass over memory.

    g' = scale g                       the gradient, clipped
    g' = fma(l1, sign(W), g')          where l1 is not 0
    g' = fma(l2, W, g')                where l2 is not 0

    sgd      Acc <- fma(momentum, Acc, g')                    W <- fma(-rate, Acc, W)

    adamw    m <- fma(beta1, m, (1 - beta1) g')
             v <- fma(beta2, v, ((1 - beta2) g') g')
             W <- fma(-rate, m / fma(root, sqrt(v), eps), fma(-decay, W, W))

All numbers are float32; every product, fma, quotient and root rounds once, to nearest. What rate, root and
decay are: `methods/float_master.py`. Elements are independent, so no number of threads changes a bit.
New arrays take the results: those that observers and the tape hold stay as they are.
"""

import numpy as np

from intnet.errors import ShapeError
from intnet.machine.buffers import empty
from intnet.machine.instructions import fma32
from intnet.machine.jit import pjit, prange, rule

PART = 1 << 14  # elements whose overflows are counted together


@rule
def _whole_gradient(
    g: np.float32, w: np.float32, scale: np.float32, l1: np.float32, l2: np.float32
) -> np.float32:
    """g' of the module; the branches keep the sign of a zero.

    Defined by `spec/methods/float_master.py: with_penalties`.
    """
    g = np.float32(scale * g)
    if l1 != np.float32(0):
        sign = np.float32(1) if w > np.float32(0) else np.float32(-1) if w < np.float32(0) else np.float32(0)
        g = fma32(l1, sign, g)
    if l2 != np.float32(0):
        g = fma32(l2, w, g)
    return g


@pjit
def _sgd(
    team: int, numbers: np.ndarray, w: np.ndarray, g: np.ndarray, acc: np.ndarray,
    new_w: np.ndarray, new_acc: np.ndarray,
) -> None:  # fmt: skip
    scale, l1, l2, momentum, rate = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
    for i in prange(team, w.size):
        moved = fma32(momentum, acc[i], _whole_gradient(g[i], w[i], scale, l1, l2))
        new_acc[i] = moved
        new_w[i] = fma32(-rate, moved, w[i])


@pjit
def _adamw(
    team: int, numbers: np.ndarray, w: np.ndarray, g: np.ndarray, m: np.ndarray, v: np.ndarray,
    new_w: np.ndarray, new_m: np.ndarray, new_v: np.ndarray, beyond: np.ndarray,
) -> None:  # fmt: skip
    """beyond: of each part of PART elements, how many second moments are beyond float32"""
    scale, l1, l2 = numbers[0], numbers[1], numbers[2]
    beta1, rest1, beta2, rest2 = numbers[3], numbers[4], numbers[5], numbers[6]
    root, eps, rate, decay = numbers[7], numbers[8], numbers[9], numbers[10]
    for k in prange(team, beyond.size):
        count = 0
        for i in range(k * PART, min((k + 1) * PART, w.size)):
            x = _whole_gradient(g[i], w[i], scale, l1, l2)
            mean = fma32(beta1, m[i], np.float32(rest1 * x))
            square = fma32(beta2, v[i], np.float32(np.float32(rest2 * x) * x))
            count += not square < np.float32(np.inf)
            new_m[i], new_v[i] = mean, square
            step = np.float32(mean / fma32(root, np.sqrt(square), eps))
            new_w[i] = fma32(-rate, step, fma32(-decay, w[i], w[i]))
        beyond[k] = count


Moments = tuple[np.ndarray, np.ndarray]


def _row(array: np.ndarray | None, w: np.ndarray) -> np.ndarray:
    """An array, or zeros for None, as one row in C order; ShapeError unless it has the shape of `w`."""
    if array is None:
        return np.zeros(w.size, np.float32)
    if array.shape != w.shape:
        raise ShapeError(f"a parameter of shape {w.shape} with a gradient or slot of shape {array.shape}")
    return array.reshape(-1)


def sgd(
    w: np.ndarray, g: np.ndarray, acc: np.ndarray | None, momentum: float, rate: float,
    scale: float = 1.0, penalties: tuple[float, float] = (0.0, 0.0),
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """(W, Acc) after the module's sgd; float32 arrays of one shape, acc None at the start.

    penalties: l1, l2. Each number is rounded to float32 once.

    Defined by `spec/methods/float_master.py: sgd`.
    """
    new_w, new_acc = empty((w.size,), np.float32), empty((w.size,), np.float32)
    numbers = np.array([scale, *penalties, momentum, rate], np.float32)
    _sgd(numbers, _row(w, w), _row(g, w), _row(acc, w), new_w, new_acc)
    return new_w.reshape(w.shape), new_acc.reshape(w.shape)


def adamw(
    w: np.ndarray, g: np.ndarray, moments: Moments | None, betas: tuple[float, float],
    root: float, eps: float, rate: float, decay: float,
    scale: float = 1.0, penalties: tuple[float, float] = (0.0, 0.0),
) -> tuple[np.ndarray, Moments, int]:  # fmt: skip
    """(W, (m, v), elements of v beyond float32) after the module's adamw; moments None at the start.

    penalties: l1, l2. Each number is rounded to float32 once, 1 - beta from the float64 difference.

    Defined by `spec/methods/float_master.py: adamw`.
    """
    m, v = moments or (None, None)
    new = [empty((w.size,), np.float32) for _ in range(3)]
    shares = [x for beta in betas for x in (beta, 1 - beta)]
    numbers = np.array([scale, *penalties, *shares, root, eps, rate, decay], np.float32)
    beyond = np.zeros(-(-w.size // PART), np.int64)
    _adamw(numbers, _row(w, w), _row(g, w), _row(m, w), _row(v, w), *new, beyond)
    new_w, new_m, new_v = (array.reshape(w.shape) for array in new)
    return new_w, (new_m, new_v), int(beyond.sum())
