"""DYNASTY's bit-width map as pure functions (DYNASTY, sections 3.2 and 3.3).

    r_i = 1/2 log2(S_i / T_i)                relative sensitivity of block i                         (3b)
    b_i = max(0, min(r_i - lambda, beta))    its width, beta = 8: least noise at a given mean        (3a)
    lambda                                   such that the mean of b is alpha: `tune`, Algorithm 1
    b   = gamma b_last + (1 - gamma) b_new   `smooth`, (4); in use are 0, 2, 4, 6, 8: `rounded`
    dL2 = 1/(3 N) sum_i S_i 2^(-2 b_i)       loss noise of N blocks of B = 16 values: `loss_noise`   (1)

S_i is the mean, over batches, of 2^(2 e_i)/16 times the sum of the block's squared gradients, T_i the
multiply-adds that read the block. (1) is printed with the noise of another format, 2/(3 N B): a mantissa of
b bits has steps of 2^(e-b+1), whose rounding has the mean square 2^(2e-2b)/3. All is float64 in one order
(`ops/kernels/bit_maps.py`). When a map is made, and of what: `dynasty.py`.

Defined by `spec/methods/dynasty_map.py: relative`, `spec/methods/dynasty_map.py: width`,
`spec/methods/dynasty_map.py: tune`, `spec/methods/dynasty_map.py: smoothed`,
`spec/methods/dynasty_map.py: in_use`.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from intnet.exact.blocks.block_float import WIDTHS
from intnet.numbers.fp32 import exp64
from intnet.ops.kernels import bit_maps

BETA = float(WIDTHS[-1])  # the widest
FIRST = 4.0  # bits of every block in the first epoch
ITERATIONS = 3  # L of Algorithm 1
_LN4 = float.fromhex("0x1.62e42fefa39efp+0")


def relative_sensitivity(sums: np.ndarray, batches: int, uses: np.ndarray) -> np.ndarray:
    """r of S = sums / batches and T = uses (int64), flat; -inf where S = 0 (3b).

    Defined by `spec/methods/dynasty_map.py: relative`.
    """
    assert sums.size == uses.size
    out = np.empty(sums.size)
    bit_maps.half_log2(sums.reshape(-1), uses.reshape(-1), batches, out)
    return out


def widths(r: np.ndarray, lam: float) -> np.ndarray:
    """b in real numbers (3a). Defined by `spec/methods/dynasty_map.py: width`."""
    return np.clip(r - lam, 0.0, BETA)


def mean_width(r: np.ndarray, lam: float, uses: np.ndarray | None = None) -> float:
    """The mean of `widths` over all blocks; with uses T that of (2b), sum(T b)/sum(T), its sum rounded once.

    Defined by `spec/methods/dynasty_map.py: mean_width`.
    """
    if uses is None:
        return bit_maps.clipped_sum(r, lam, BETA) / r.size
    return math.fsum((uses * widths(r, lam)).tolist()) / int(uses.sum())


def first_lambda(r: np.ndarray, alpha: float, uses: np.ndarray | None = None) -> float:
    """mean(r) - alpha over finite r: right where no width meets a bound (section 3.3.1); 0 without any.

    uses: T, whose weighted mean it then is

    Defined by `spec/methods/dynasty_map.py: first_lambda`.
    """
    finite = np.isfinite(r)
    count = int(np.count_nonzero(finite))
    if not count:
        return 0.0
    if uses is None:
        return bit_maps.finite_sum(r) / count - alpha
    return math.fsum((uses[finite] * r[finite]).tolist()) / int(uses[finite].sum()) - alpha


def tune(lam: float, r: np.ndarray, alpha: float, uses: np.ndarray | None = None) -> float:
    """Algorithm 1: lambda after L steps of linear interpolation towards a mean width of alpha.

    lambda_0 and lambda_1, from min(r) - alpha and max(r) - alpha (finite r), close in on it. Where many
    blocks have no sensitivity, the mean at lambda_0 is below alpha too: no step leads beyond it. uses: of
    `mean_width`

    Defined by `spec/methods/dynasty_map.py: tune`.
    """
    finite = r[np.isfinite(r)]
    if not finite.size:
        return lam
    lam0, lam1 = float(finite.min()) - alpha, float(finite.max()) - alpha
    for _ in range(ITERATIONS):
        mean = mean_width(r, lam, uses)
        above = mean > alpha
        other = mean_width(r, lam1 if above else lam0, uses)
        if mean == other:  # 0/0: the interval has no slope to follow
            break
        t = min(max((mean - alpha) / (mean - other), 0.0), 1.0)
        if above:
            lam0, lam = lam, (1 - t) * lam + t * lam1
        else:
            lam1, lam = lam, (1 - t) * lam + t * lam0
    return lam


def smooth(last: np.ndarray, new: np.ndarray, gamma: float) -> np.ndarray:
    """gamma b_last + (1 - gamma) b_new (4), float32 of float64.

    Defined by `spec/methods/dynasty_map.py: smoothed`.
    """
    return (gamma * last.astype(np.float64) + (1 - gamma) * new.astype(np.float64)).astype(np.float32)


def rounded(b: np.ndarray) -> np.ndarray:
    """uint8: the nearest of 0, 2, 4, 6, 8, a tie upward; in float64, where no sum is rounded.

    Defined by `spec/methods/dynasty_map.py: in_use`.
    """
    return (2 * np.floor(b.astype(np.float64) / 2 + 0.5)).astype(np.uint8)


def loss_noise(sums: np.ndarray, batches: int, bits: np.ndarray) -> float:
    """dL2 of a map `bits` (uint8), S = sums / batches (1)."""
    return 1 / (3 * sums.size) * (bit_maps.noise_sum(sums.reshape(-1), bits.reshape(-1)) / batches)


def uniform_noise(sums: np.ndarray, batches: int, width: float) -> float:
    """dL2 of `width` bits, any real number, in every block."""
    return loss_noise(sums, batches, np.zeros(sums.size, np.uint8)) * exp64(-width * _LN4)


# -- a map, and what is told of it ---------------------------------------------------------------


@dataclass(frozen=True)
class Given:
    """What a map is made of: arrays of one length, block after block of all layers.

    sums, uses: float64, int64 as above; last: float32, the smoothed widths before; new: before smoothing
    """

    sums: np.ndarray
    uses: np.ndarray
    last: np.ndarray
    new: np.ndarray


@dataclass(frozen=True)
class Map:
    """A map: lambda, r, widths before smoothing, smoothed (float32 both), and in use (uint8)."""

    lam: float
    r: np.ndarray
    new: np.ndarray
    smoothed: np.ndarray
    bits: np.ndarray


def make(given: Given, r: np.ndarray, lam: float, gamma: float) -> Map:
    """The map of the next epoch of blocks with these r.

    Defined by `spec/methods/dynasty.py: Step._new_map`.
    """
    new = widths(r, lam).astype(np.float32)
    smoothed = smooth(given.last, new, gamma)
    return Map(lam, r, new, smoothed, rounded(smoothed))


def summary(given: Given, batches: int, made: Map, alpha: float, estimate: float) -> dict[str, Any]:
    """What a map is and does: mean widths, share of multiply-adds skipped, loss noise.

    estimate: lambda before its first tuning
    """
    bits, total = made.bits.astype(np.int64), int(given.uses.sum())
    mean = int(bits.sum()) / bits.size
    return {
        "alpha": alpha,
        "lambda": made.lam,
        "mean": mean,
        "smoothed": float(made.smoothed.astype(np.float64).mean()),
        "exact": mean_width(made.r, made.lam),
        "untuned": mean_width(made.r, estimate),
        "mac_bits": int((given.uses * bits).sum()) / total,
        "skipped": int(given.uses[bits == 0].sum()) / total,
        "loss_noise": {
            "before": loss_noise(given.sums, batches, rounded(given.last)),
            "after": loss_noise(given.sums, batches, made.bits),
            "uniform": uniform_noise(given.sums, batches, mean),
        },
    }


def layer_record(given: Given, made: Map, part: slice) -> dict[str, Any]:
    """The same of one layer, the blocks `part`: how its widths and sensitivities are spread, and changed."""
    uses, r, bits = given.uses[part], made.r[part], made.bits[part].astype(np.int64)
    finite, macs = r[np.isfinite(r)], int(uses.sum())
    change = np.abs(bits - rounded(given.last[part]))
    change_new = np.abs(rounded(made.new[part]).astype(np.int64) - rounded(given.new[part]))
    return {
        "blocks": int(bits.size),
        "macs": macs,
        "mean": float(bits.mean()),
        "mac_bits": int((uses * bits).sum()) / macs,
        "skipped": int(uses[bits == 0].sum()) / macs,
        "counts": [int(np.count_nonzero(bits == width)) for width in WIDTHS],
        "r": np.quantile(finite, [0, 0.25, 0.5, 0.75, 1]).tolist() if finite.size else [],
        "infinite": int(r.size - finite.size),
        "change": float(change.mean()),
        "change_new": float(change_new.mean()),
    }


def fixed_record(uses: np.ndarray, bits: int) -> dict[str, Any]:
    """The same of a layer that has one width in all blocks, and no sensitivities."""
    read = uses[uses > 0]
    return {
        **{"blocks": int(read.size), "macs": int(read.sum()), "mean": float(bits), "mac_bits": float(bits)},
        **{"skipped": float(bits == 0), "counts": [int(read.size) * (bits == width) for width in WIDTHS]},
        **{"r": [], "infinite": 0, "change": 0.0, "change_new": 0.0},
    }


# -- multiply-adds -------------------------------------------------------------------------------


def cover(size: int, kernel: int, stride: int, padding: int) -> tuple[np.ndarray, np.ndarray]:
    """Along one axis: windows that read each pixel, int64[size]; windows each place reads, int64[kernel]."""
    starts = np.arange((size + 2 * padding - kernel) // stride + 1)[:, None] * stride - padding
    pixels = starts + np.arange(kernel)
    inside = (pixels >= 0) & (pixels < size)
    return np.bincount(pixels[inside], minlength=size), inside.sum(axis=0)


def _in_blocks(size: int) -> np.ndarray:
    """How many of `size` elements each block of 4 has."""
    return np.minimum(4, size - np.arange(0, size, 4))


def multiply_adds(
    x: tuple[int, ...], w: tuple[int, ...], stride: tuple[int, int], padding: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """T of the blocks of the weights and of the activations: multiply-adds of one product that read a block.

    x: (N, H, W, C) and w: (Cout, Cin/groups, kh, kw), or (N, C) and (Cout, C); padding is not counted

    Defined by `spec/methods/dynasty_map.py: work`.
    """
    points = len(x) == 2
    n, hw, c = x[0], (1, 1) if points else x[1:3], x[-1]
    kernel = (1, 1) if points else w[2:]
    (read_y, tap_y), (read_x, tap_x) = (cover(hw[a], kernel[a], stride[a], padding[a]) for a in (0, 1))
    outputs, inputs = _in_blocks(w[0]), _in_blocks(w[1])
    weights = np.multiply.outer(np.outer(outputs, inputs), n * np.outer(tap_y, tap_x))
    per_pixel = np.outer(read_y, read_x) * (w[0] * w[1] // c)
    activations = np.multiply.outer(np.multiply.outer(_in_blocks(n), per_pixel), _in_blocks(c))
    if points:
        return weights[:, :, 0, 0], activations[:, 0, 0, :]
    return weights, activations
