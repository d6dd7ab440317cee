"""Oracle and data of the float32 tests: plain integers, one rounding, no code of intnet.

A float32 is held as the integer value * 2**149, so every product and sum is exact and the only
rounding is `round32`. Convolutions spell out the defined order of their terms.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
Pair = tuple[int, int]

UNIT = 149  # the last place of a float32 subnormal is 2**-149
INFINITE = 1 << (128 + UNIT)
CHUNK = 1024
GROUP = 16

# --- the oracle ---------------------------------------------------------------------------------


def scaled(x: Any) -> int:
    """A finite float32 as the integer x * 2**149."""
    value = Fraction(float(x)) * 2**UNIT
    assert value.denominator == 1
    return int(value.numerator)


def round32(numerator: int, shift: int) -> int:
    """numerator / 2**shift, in units of 2**-149, rounded to float32: nearest, ties to even."""
    size = abs(numerator)
    drop = max(shift, size.bit_length() - 24)  # 24 bits of precision, never finer than the unit
    if drop > 0:
        kept, rest = size >> drop, size & ((1 << drop) - 1)
        half = 1 << (drop - 1)
        kept += rest > half or (rest == half and kept & 1)
        size = kept << (drop - shift)
    size = min(size, INFINITE)
    return size if numerator >= 0 else -size


def fma_oracle(a: int, b: int, c: int) -> int:
    return round32(a * b + (c << UNIT), UNIT)


def add_oracle(a: int, b: int) -> int:
    return round32(a + b, 0)


def to_float(n: int) -> float:
    return float("inf") * (1 if n > 0 else -1) if abs(n) == INFINITE else float(Fraction(n, 2**UNIT))


def chunked(terms: Sequence[tuple[int, int]], size: int = CHUNK) -> int:
    """The contract: fma from 0 in chunks, then the chunk sums added in order."""
    total = 0
    for start in range(0, max(len(terms), 1), size):
        acc = 0
        for a, b in terms[start : start + size]:
            acc = fma_oracle(a, b, acc)
        total = acc if start == 0 else add_oracle(total, acc)
    return total


def batched(terms: Sequence[tuple[int, int]], per_image: int = 1, size: int = GROUP) -> int:
    """The contract of sums over a batch: `chunked` of each group of images, met in a tree by group number."""
    groups = [chunked(terms[at : at + size * per_image]) for at in range(0, len(terms), size * per_image)]

    def node(first: int, count: int) -> int:
        """Groups first .. first + count - 1, `count` a power of two; those that there are."""
        if count == 1:
            return groups[first]
        left = node(first, count // 2)
        middle = first + count // 2
        return add_oracle(left, node(middle, count // 2)) if middle < len(groups) else left

    return node(0, 1 << len(groups).bit_length()) if groups else 0


def ints(x: F32) -> NDArray[np.object_]:
    out = np.empty(x.shape, object)
    for index in np.ndindex(x.shape):
        out[index] = scaled(x[index])
    return out


def floats(shape: Sequence[int], of: Callable[..., int]) -> F32:
    """An array whose element at (i, j, ...) is of(i, j, ...)."""
    out = np.empty(tuple(shape), np.float32)
    for index in np.ndindex(out.shape):
        out[index] = np.float32(to_float(of(*index)))
    return out


def pixel(x: NDArray[np.object_], n: int, h: int, w: int, c: int) -> int:
    inside = 0 <= h < x.shape[1] and 0 <= w < x.shape[2]
    return int(x[n, h, w, c]) if inside else 0


def conv2d_oracle(x: F32, w: F32, stride: Pair, padding: Pair, groups: int) -> F32:
    co, depth, kh, kw = w.shape
    xi, wi = ints(x), ints(w)
    height = (x.shape[1] + 2 * padding[0] - kh) // stride[0] + 1
    width = (x.shape[2] + 2 * padding[1] - kw) // stride[1] + 1

    def one(n: int, p: int, q: int, o: int) -> int:
        base, top, left = o // (co // groups) * depth, p * stride[0] - padding[0], q * stride[1] - padding[1]
        order = product(range(kh), range(kw), range(depth))
        return chunked(
            [(pixel(xi, n, top + ky, left + kx, base + c), wi[o, c, ky, kx]) for ky, kx, c in order]
        )

    return floats((x.shape[0], height, width, co), one)


def input_grad_oracle(e: F32, w: F32, hw: Pair, stride: Pair, padding: Pair, groups: int) -> F32:
    co, depth, kh, kw = w.shape
    per_group = co // groups
    ei, wi = ints(e), ints(w)

    def error(n: int, y: int, x: int, o: int) -> int:
        hole = y % stride[0] or x % stride[1]
        return 0 if hole else pixel(ei, n, y // stride[0], x // stride[1], o)

    def one(n: int, y: int, x: int, i: int) -> int:
        bottom, right = y + padding[0], x + padding[1]
        outputs = range(i // depth * per_group, (i // depth + 1) * per_group)
        order = product(range(kh), range(kw), outputs)
        return chunked(
            [(error(n, bottom - ky, right - kx, o), wi[o, i % depth, ky, kx]) for ky, kx, o in order]
        )

    return floats((e.shape[0], *hw, depth * groups), one)


def weight_grad_oracle(e: F32, x: F32, kernel: Pair, stride: Pair, padding: Pair, groups: int) -> F32:
    batch, height, width, co = e.shape
    depth = x.shape[3] // groups
    ei, xi = ints(e), ints(x)

    def one(o: int, i: int, ky: int, kx: int) -> int:
        c, top, left = o // (co // groups) * depth + i, ky - padding[0], kx - padding[1]
        order = product(range(batch), range(height), range(width))
        terms = [
            (pixel(xi, n, p * stride[0] + top, q * stride[1] + left, c), ei[n, p, q, o]) for n, p, q in order
        ]
        return batched(terms, height * width)

    return floats((co, depth, *kernel), one)


# --- data ---------------------------------------------------------------------------------------


def draw(seed: int, *shape: int) -> F32:
    """Values over many binades, some zero, some large and cancelling."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) * 2.0 ** rng.integers(-6, 7, shape)
    return np.where(rng.random(shape) < 0.1, 0.0, x).astype(np.float32)


def same(got: F32, expected: F32) -> None:
    """Equal bit by bit, the sign of zero included."""
    assert got.dtype == np.float32 and got.flags.c_contiguous
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got.view(np.uint32), expected.view(np.uint32))


def from_hex(words: str) -> F32:
    """float32 from their bit patterns."""
    return np.array([int(word, 16) for word in words.split()], np.uint32).view(np.float32)


CORNERS = from_hex(
    "0 1 2 3 7FFFFF 800000 800001 FFFFFF 1F800000 33800000 34000000 3F7FFFFF 3F800000 3F800001 3F800002 "
    "3FFFFFFF 4B7FFFFF 4B800000 4B800001 7F000000 7F7FFFFF"
)


def fma_cases() -> tuple[F32, F32, F32]:
    """Corner triples with signs, random bit patterns, exact ties, near-total cancellation, subnormal sums."""
    signed = np.concatenate([CORNERS, -CORNERS])
    grid = np.stack(np.meshgrid(CORNERS, signed, signed, indexing="ij")).reshape(3, -1)
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 2**32, (3, 4000), dtype=np.uint64).astype(np.uint32)
    bits = np.where(bits >> 23 & 0xFF == 0xFF, bits & 0x807FFFFF, bits)  # finite
    near = draw(6, 2, 2000)
    negative = (-(near[0] * near[1])).astype(np.float32)
    ties = (1 + rng.integers(0, 4096, (2, 2000)) * 2.0**-12).astype(np.float32)
    tie_addends = (rng.choice([-1, 1], 2000) * 2.0 ** rng.integers(-110, 30, 2000)).astype(np.float32)
    # (1 + x)(1 - x) 2**-150 is half of the least step less what float64 drops beside an addend in steps
    tiny = 2.0 ** rng.integers(-23, -14, 400)
    halves = np.array([(1 + tiny) * 2.0**-75, (1 - tiny) * rng.choice([-1, 1], 400) * 2.0**-75])
    steps = rng.integers(1 << 20, 1 << 23, 400) * 2.0**-149
    random = bits.view(np.float32)
    subnormal = np.concatenate([halves, steps[None]]).astype(np.float32)
    a, b, c = np.concatenate(
        [grid, random, np.stack([*near, negative]), np.stack([*ties, tie_addends]), subnormal], axis=1
    )
    return a, b, c


def float32_patterns(seed: int, low: float, high: float) -> F32:
    """Float32 of all binades with low <= x <= high, corners included."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2**32, 4000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    usual = rng.uniform(max(low, -90), min(high, 90), 1500).astype(np.float32)
    x = np.concatenate([bits, CORNERS, -CORNERS, usual])
    with np.errstate(invalid="ignore"):
        return np.asarray(x[(x >= low) & (x <= high)])


def normal_words() -> NDArray[np.uint32]:
    rng = np.random.default_rng(2)
    near = [int(2**32 * p) + d for p in (0.075, 0.925, 0.5, 0.25) for d in range(-3, 4)]  # 0.075: the branch
    return np.array([0, 1, 2, 2**32 - 1, *near, *rng.integers(0, 2**32, 3000)]).astype(np.uint32)
