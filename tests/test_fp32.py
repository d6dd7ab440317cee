"""fp32 and the float32 kernels against an oracle of plain integers, bit by bit.

The oracle holds a float32 as the integer value * 2**149, so every product and sum is exact and the
only rounding is `round32` below. exp, log and tanh are judged by `decimal` with 60 digits.
The last tests run the same work on other instruction sets, one thread, and without compilation.
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product
from pathlib import Path
from statistics import NormalDist
from typing import Any

import llvmlite.binding
import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from intnet import fp32
from intnet.errors import FormatError, ShapeError
from intnet.ops.kernels import float32 as kernels

F32 = NDArray[np.float32]
Pair = tuple[int, int]

UNIT = 149  # the last place of a float32 subnormal is 2**-149
INFINITE = 1 << (128 + UNIT)
CHUNK = 1024

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
        return chunked(
            [
                (pixel(xi, n, p * stride[0] + top, q * stride[1] + left, c), ei[n, p, q, o])
                for n, p, q in order
            ]
        )

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
    """All corner triples with signs, random bit patterns, exact ties and near-total cancellation."""
    signed = np.concatenate([CORNERS, -CORNERS])
    grid = np.stack(np.meshgrid(CORNERS, signed, signed, indexing="ij")).reshape(3, -1)
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 2**32, (3, 4000), dtype=np.uint64).astype(np.uint32)
    bits = np.where(bits >> 23 & 0xFF == 0xFF, bits & 0x807FFFFF, bits)  # finite
    near = draw(6, 2, 2000)
    negative = (-(near[0] * near[1])).astype(np.float32)
    ties = (1 + rng.integers(0, 4096, (2, 2000)) * 2.0**-12).astype(np.float32)
    tie_addends = (rng.choice([-1, 1], 2000) * 2.0 ** rng.integers(-110, 30, 2000)).astype(np.float32)
    random = bits.view(np.float32)
    a, b, c = np.concatenate(
        [grid, random, np.stack([*near, negative]), np.stack([*ties, tie_addends])], axis=1
    )
    return a, b, c


def fma_loop(a: F32, b: F32, c: F32) -> F32:
    out = np.empty_like(a)
    for i in range(a.size):
        out[i] = fp32.fma32(a[i], b[i], c[i])
    return out


fma_in_kernel: Any = numba.njit(fma_loop)


# --- fma32 --------------------------------------------------------------------------------------


def test_round32_of_the_oracle_is_the_hardware_rounding() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal(3000) * 2.0 ** rng.integers(-151, 128, 3000)
    x = np.concatenate([x, [2.0**-150, 3 * 2.0**-150, 1 + 2.0**-24, 1 + 3 * 2.0**-24, 2.0**128 - 2.0**103]])
    for value in x:
        exact = Fraction(float(value)) * 2 ** (UNIT + 1074)
        with np.errstate(over="ignore", under="ignore"):
            assert to_float(round32(exact.numerator, 1074)) == float(np.float32(value))


def test_fma32_of_kernels_and_plain_twin_round_once() -> None:
    a, b, c = fma_cases()
    exact = [fma_oracle(*map(scaled, triple)) for triple in zip(a, b, c, strict=True)]
    kernel, twin = fma_in_kernel(a, b, c), fp32.fma32(a, b, c)
    assert np.array_equal(kernel, np.array([to_float(x) for x in exact], np.float32))
    same(kernel, twin)
    scalars = [fp32.fma32(*triple) for triple in zip(a[::97], b[::97], c[::97], strict=True)]
    assert {type(x) for x in scalars} == {np.float32}
    same(np.array(scalars), kernel[::97])


def test_fma32_cases_tell_one_rounding_from_two() -> None:
    a, b, c = fma_cases()
    with np.errstate(all="ignore"):
        in_float32 = a * b + c
        in_float64 = (a.astype(np.float64) * b + c).astype(np.float32)
    fused = fp32.fma32(a, b, c)
    assert np.sum(in_float32 != fused) > 1000
    assert np.sum(in_float64 != fused) > 10


def test_fma32_of_infinities_and_nan() -> None:
    inf, one = np.float32(np.inf), np.float32(1)
    for a, b, c in [(inf, one, one), (one, one, -inf), (inf, one, -inf), (inf, np.float32(0), one)]:
        got = fma_in_kernel(*(np.array([x]) for x in (a, b, c)))[0]
        np.testing.assert_equal(got, fp32.fma32(a, b, c))
        with np.errstate(invalid="ignore"):
            np.testing.assert_equal(got, a * b + c)


# --- exp, log, tanh, sqrt, normal ---------------------------------------------------------------


def exact_tanh(x: Decimal) -> Decimal:
    if abs(x) < Decimal("1e-8"):
        return x - x**3 / 3 + 2 * x**5 / 15
    e = (2 * x).exp()
    return (e - 1) / (e + 1)


def float32_patterns(seed: int, low: float, high: float) -> F32:
    """Float32 of all binades with low <= x <= high, corners included."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2**32, 4000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    usual = rng.uniform(max(low, -90), min(high, 90), 1500).astype(np.float32)
    x = np.concatenate([bits, CORNERS, -CORNERS, usual])
    with np.errstate(invalid="ignore"):
        return np.asarray(x[(x >= low) & (x <= high)])


@pytest.mark.parametrize(
    ("rule", "exact", "low", "high"),
    [
        (fp32.exp, Decimal.exp, -103.9, 88.7228),
        (fp32.log, Decimal.ln, 1e-45, 3.4e38),
        (fp32.tanh, exact_tanh, -40.0, 40.0),
    ],
)
def test_transcendentals_are_within_one_unit_in_the_last_place(
    rule: Callable[[F32], F32], exact: Callable[[Decimal], Decimal], low: float, high: float
) -> None:
    x = float32_patterns(7, low, high)
    got = rule(x)
    worst = Decimal(0)
    with localcontext(prec=60):
        for value, result in zip(x, got, strict=True):
            truth = exact(Decimal(float(value)))
            _, exponent = np.frexp(float(truth))
            unit = Decimal(2) ** max(int(exponent) - 24, -149)
            worst = max(worst, abs(Decimal(float(result)) - truth) / unit)
    assert worst <= Decimal("0.50001")


@pytest.mark.parametrize(
    ("rule", "exact", "points"),
    [
        (fp32.exp64, Decimal.exp, [*np.linspace(-700.0, 709.7, 997), 1e-300, -1e-20]),
        (fp32.log64, Decimal.ln, [*np.geomspace(5e-324, 1.7e308, 997), *np.linspace(0.6, 1.6, 302)]),
        (fp32.tanh64, exact_tanh, [*np.linspace(-21.0, 21.0, 998), *np.geomspace(1e-300, 1.0, 300)]),
    ],
)
def test_float64_rules_are_accurate_far_beyond_float32(
    rule: Callable[[float], float], exact: Callable[[Decimal], Decimal], points: list[float]
) -> None:
    with localcontext(prec=60):
        for point in map(float, points):
            truth = exact(Decimal(point))
            assert abs(Decimal(float(rule(point))) - truth) <= abs(truth) * Decimal("1.5e-15")


def test_exp_log_tanh_sqrt_known_bits() -> None:
    """Correctly rounded values, computed once with 60 digits."""
    same(fp32.exp(from_hex(EXP_KNOWN[0])), from_hex(EXP_KNOWN[1]))
    same(fp32.log(from_hex(LOG_KNOWN[0])), from_hex(LOG_KNOWN[1]))
    same(fp32.tanh(from_hex(TANH_KNOWN[0])), from_hex(TANH_KNOWN[1]))
    same(fp32.sqrt(np.array([0.0, -0.0, 2.0, 0.25, 1e-45, 3.0], np.float32)), from_hex(SQRT_KNOWN))


# x = 0, 1, -1, 0.5, 10, -20, 88, -87, -100, 1e-10
EXP_KNOWN = (
    "00000000 3F800000 BF800000 3F000000 41200000 C1A00000 42B00000 C2AE0000 C2C80000 2EDBE6FF",
    "3F800000 402DF854 3EBC5AB2 3FD3094C 46AC14EE 310DA433 7EF882B7 00B33687 0000001B 3F800000",
)
# x = 1, 2, 10, 0.5, 0.1, 1e-45, 3.4e38, 1 - 2**-24, 1 + 2**-23
LOG_KNOWN = (
    "3F800000 40000000 41200000 3F000000 3DCCCCCD 00000001 7F7FC99E 3F7FFFFF 3F800001",
    "00000000 3F317218 40135D8E BF317218 C0135D8E C2CE8ED0 42B171AB B3800000 33FFFFFF",
)
# x = 0, -0.0, 0.5, -0.5, 1, 0.1, 3, 9, -10, 1e-30
TANH_KNOWN = (
    "00000000 80000000 3F000000 BF000000 3F800000 3DCCCCCD 40400000 41100000 C1200000 0DA24260",
    "00000000 80000000 3EEC9A9F BEEC9A9F 3F42F7D6 3DCC1EBC 3F7EBBE9 3F7FFFFF BF800000 0DA24260",
)
SQRT_KNOWN = "00000000 80000000 3FB504F3 3F000000 1A3504F3 3FDDB3D7"


def test_transcendentals_at_the_ends_of_the_range() -> None:
    inf, nan = np.inf, np.nan
    ends = np.array([inf, -inf, nan, 3e38, -3e38, 88.72284, 88.72283], np.float32)
    got = fp32.exp(ends)
    np.testing.assert_array_equal(got[:6], np.array([inf, 0, nan, inf, 0, inf], np.float32))
    assert np.isfinite(got[6])
    logs = fp32.log(np.array([0.0, -0.0, -1.0, inf, nan], np.float32))
    np.testing.assert_array_equal(logs, np.array([-inf, -inf, nan, inf, nan], np.float32))
    tanhs = fp32.tanh(np.array([inf, -inf, nan, 30], np.float32))
    np.testing.assert_array_equal(tanhs, np.array([1, -1, nan, 1], np.float32))
    assert np.isnan(fp32.sqrt(np.array([-1.0], np.float32))[0])
    assert fp32.exp64(710.0) == inf and fp32.exp64(-746.0) == 0.0 and fp32.exp64(-745.0) == 5e-324


def test_array_functions_keep_shapes_and_refuse_other_types() -> None:
    x = draw(3, 3, 4, 5)
    for rule in (fp32.exp, fp32.tanh, fp32.sqrt, fp32.log):
        got = rule(np.abs(x).transpose(2, 0, 1))
        assert got.shape == (5, 3, 4)
        same(got, rule(np.ascontiguousarray(np.abs(x).transpose(2, 0, 1))))
        assert rule(np.zeros((0, 2), np.float32)).shape == (0, 2)
        with pytest.raises(FormatError, match="float64"):
            rule(x.astype(np.float64))
    with pytest.raises(FormatError, match="uint32"):
        fp32.normal(np.zeros(3, np.int64))


def normal_words() -> NDArray[np.uint32]:
    rng = np.random.default_rng(2)
    near = [int(2**32 * p) + d for p in (0.075, 0.925, 0.5, 0.25) for d in range(-3, 4)]  # 0.075: the branch
    return np.array([0, 1, 2, 2**32 - 1, *near, *rng.integers(0, 2**32, 3000)]).astype(np.uint32)


def test_normal_is_the_inverse_distribution() -> None:
    words = normal_words()
    exact = NormalDist()
    expected = np.array([exact.inv_cdf((int(w) + 0.5) / 2**32) for w in words])
    np.testing.assert_allclose(fp32.normal(words), expected, rtol=1e-9, atol=0)


def test_normal_is_exactly_antisymmetric() -> None:
    words = normal_words()
    assert np.array_equal(fp32.normal(words), -fp32.normal(~words))


def test_normal_has_the_moments_of_a_normal() -> None:
    z = fp32.normal((np.arange(2**16, dtype=np.uint32) << np.uint32(16)) + np.uint32(2**15))
    assert abs(z.mean()) < 1e-8 and abs(z.var() - 1) < 1e-3 and z.dtype == np.float64


# --- products and convolutions ------------------------------------------------------------------


def test_the_data_tells_other_orders_apart() -> None:
    """Descending k, another chunk size, and unfused terms must all change some result."""
    rows = [list(zip(ints(draw(i, 1500)), ints(draw(i + 9, 1500)), strict=True)) for i in range(6)]

    def unfused(terms: Sequence[tuple[int, int]]) -> int:
        return chunked([(round32(a * b, UNIT), scaled(1.0)) for a, b in terms])

    right = [chunked(row) for row in rows]
    assert right != [chunked(row[::-1]) for row in rows]
    assert right != [unfused(row) for row in rows]
    for other_size in (512, 1023, 1025, 4096):
        assert right != [chunked(row, other_size) for row in rows]


PRODUCTS = [(1, 1, 1), (3, 5, 7), (9, 33, 17), (2, 1024, 3), (2, 1025, 3), (33, 70, 35), (1, 2500, 18)]


@pytest.mark.parametrize("shape", [*PRODUCTS, (4, 0, 3), (0, 3, 2)])
def test_matmul(shape: tuple[int, int, int]) -> None:
    rows, terms, columns = shape
    a, b = draw(11, rows, terms), draw(12, terms, columns)
    ai, bi = ints(a), ints(b)
    expected = floats((rows, columns), lambda i, j: chunked([(ai[i, k], bi[k, j]) for k in range(terms)]))
    same(kernels.matmul(a, b), expected)
    same(kernels.matmul_nt(a, np.ascontiguousarray(b.T)), expected)
    same(kernels.matmul_tn(np.ascontiguousarray(a.T), b), expected)


# batch, (H, W), Ci, Co, kernel, stride, padding, groups
CONVOLUTIONS: list[tuple[int, Pair, int, int, Pair, Pair, Pair, int]] = [
    (1, (1, 1), 1, 1, (1, 1), (1, 1), (0, 0), 1),
    (2, (5, 7), 3, 5, (3, 3), (1, 1), (1, 1), 1),
    (2, (6, 5), 2, 17, (3, 2), (2, 1), (1, 0), 1),
    (1, (9, 8), 17, 3, (2, 3), (3, 2), (0, 2), 1),
    (2, (7, 7), 4, 6, (1, 1), (2, 2), (0, 0), 1),
    (1, (8, 10), 3, 2, (5, 4), (3, 3), (2, 2), 1),
    (1, (4, 4), 2, 2, (2, 2), (3, 3), (0, 0), 1),  # pixels no window covers
    (2, (5, 6), 6, 9, (3, 3), (1, 2), (1, 1), 3),
    (1, (6, 7), 4, 4, (3, 3), (1, 1), (1, 1), 4),  # depthwise
    (2, (7, 6), 19, 19, (3, 2), (2, 2), (1, 1), 19),
    (1, (5, 5), 3, 6, (3, 3), (2, 1), (1, 2), 3),  # two outputs a channel
    (3, (4, 9), 1, 1, (3, 3), (2, 3), (2, 2), 1),
    (1, (3, 4), 130, 3, (3, 3), (1, 1), (1, 1), 1),  # forward chunks: 1170 terms
    (1, (4, 3), 3, 150, (3, 3), (2, 2), (1, 1), 1),  # input gradient chunks, cut inside a tap
    (1, (3, 2), 2, 260, (3, 3), (2, 1), (1, 1), 2),
    (2, (25, 31), 2, 3, (2, 3), (1, 1), (0, 1), 1),  # weight gradient chunks: 1488 positions
    (1, (34, 33), 3, 3, (2, 1), (1, 1), (1, 0), 3),
    (1, (2, 3), 2, 2, (33, 32), (2, 2), (16, 16), 2),  # depthwise with 1056 taps
    (1, (3, 2), 1, 2, (33, 33), (2, 1), (16, 17), 1),
]


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_convolutions(case: tuple[int, Pair, int, int, Pair, Pair, Pair, int]) -> None:
    batch, hw, ci, co, kernel, stride, padding, groups = case
    x, w = draw(21, batch, *hw, ci), draw(22, co, ci // groups, *kernel)
    y = kernels.conv2d(x, w, stride, padding, groups)
    same(y, conv2d_oracle(x, w, stride, padding, groups))
    e = draw(23, *y.shape)
    same(
        kernels.conv2d_input_grad(e, w, hw, stride, padding, groups),
        input_grad_oracle(e, w, hw, stride, padding, groups),
    )
    same(
        kernels.conv2d_weight_grad(e, x, kernel, stride, padding, groups),
        weight_grad_oracle(e, x, kernel, stride, padding, groups),
    )


def test_weight_gradient_in_waves_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many chunks are summed in several passes when their sums would take too much memory."""
    x, e = draw(31, 1, 70, 90, 2), draw(32, 1, 70, 90, 3)
    whole = kernels.conv2d_weight_grad(e, x, (3, 3), (1, 1), (1, 1))
    monkeypatch.setattr(kernels, "_TASKS", 2)
    monkeypatch.setattr(kernels, "_HELD_WORDS", 1)
    same(kernels.conv2d_weight_grad(e, x, (3, 3), (1, 1), (1, 1)), whole)


def test_a_zero_result_is_positive() -> None:
    """An underflow to -0 must not show, or skipping a zero term would."""
    tiny = np.full((1, 1), 1e-40, np.float32)
    same(kernels.matmul(tiny, -tiny), np.zeros((1, 1), np.float32))
    same(kernels.dot_rows(tiny, -tiny), np.zeros(1, np.float32))
    image, kernel = tiny.reshape(1, 1, 1, 1), -tiny.reshape(1, 1, 1, 1)
    same(kernels.conv2d(image, kernel), np.zeros((1, 1, 1, 1), np.float32))
    same(kernels.conv2d_weight_grad(-image, image, (1, 1)), np.zeros((1, 1, 1, 1), np.float32))
    pair, kernels_of_pair = np.repeat(image, 2, axis=3), np.repeat(kernel, 2, axis=0)
    same(kernels.conv2d(pair, kernels_of_pair, groups=2), np.zeros((1, 1, 1, 2), np.float32))


@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (1023, 2), (1024, 2), (1025, 17), (2500, 3), (0, 4)])
def test_sum_rows_and_dot_rows(shape: Pair) -> None:
    x, y = draw(41, *shape), draw(42, *shape)
    xi, yi = ints(x), ints(y)
    one = scaled(np.float32(1))
    rows, columns = shape
    sums = floats((columns,), lambda c: chunked([(xi[m, c], one) for m in range(rows)]))
    dots = floats((columns,), lambda c: chunked([(xi[m, c], yi[m, c]) for m in range(rows)]))
    same(kernels.sum_rows(x), sums)
    same(kernels.dot_rows(x, y), dots)


def test_strided_operands_and_empty_batches() -> None:
    a, b = draw(51, 6, 10)[:, ::2], draw(52, 5, 8)[:, ::3]
    same(kernels.matmul(a, b), kernels.matmul(a.copy(), b.copy()))
    w = draw(53, 4, 3, 3, 3)
    x, e = np.zeros((0, 5, 5, 3), np.float32), np.zeros((0, 3, 3, 4), np.float32)
    assert kernels.conv2d(x, w).shape == (0, 3, 3, 4)
    assert kernels.conv2d_input_grad(e, w, (5, 5)).shape == (0, 5, 5, 3)
    same(kernels.conv2d_weight_grad(e, x, (3, 3)), np.zeros((4, 3, 3, 3), np.float32))


def test_wrong_shapes_and_types_are_refused() -> None:
    x, w = np.zeros((1, 4, 4, 3), np.float32), np.zeros((2, 3, 3, 3), np.float32)
    e = np.zeros((1, 2, 2, 2), np.float32)
    wrong: list[Callable[[], Any]] = [
        lambda: kernels.matmul(x[0, 0], x[0, 0]),
        lambda: kernels.matmul(x, x),
        lambda: kernels.conv2d(x, w[:, :2]),
        lambda: kernels.conv2d(x, w, (0, 1)),
        lambda: kernels.conv2d(x, w, padding=(-1, 0)),
        lambda: kernels.conv2d(x[:, :2], w),
        lambda: kernels.conv2d(x, np.zeros((2, 1, 3, 3), np.float32), groups=3),
        lambda: kernels.conv2d_input_grad(e, w, (5, 4)),
        lambda: kernels.conv2d_weight_grad(e, x, (2, 3)),
        lambda: kernels.dot_rows(x[0, 0], x[0, 0, :3]),
    ]
    for call in wrong:
        with pytest.raises(ShapeError):
            call()
    with pytest.raises(FormatError):
        kernels.matmul(np.zeros((2, 2)), np.zeros((2, 2)))  # type: ignore[arg-type]


# --- the same bits on every machine -------------------------------------------------------------


def digest() -> str:
    """SHA-256 over results of every function, tiny enough to run without compilation too."""
    sha = hashlib.sha256()
    for i in (1, 2, 9, 12, 13, 15):
        batch, hw, ci, co, kernel, stride, padding, groups = CONVOLUTIONS[i]
        x, w = draw(21, batch, *hw, ci), draw(22, co, ci // groups, *kernel)
        y = kernels.conv2d(x, w, stride, padding, groups)
        e = draw(23, *y.shape)
        sha.update(y.tobytes())
        sha.update(kernels.conv2d_input_grad(e, w, hw, stride, padding, groups).tobytes())
        sha.update(kernels.conv2d_weight_grad(e, x, kernel, stride, padding, groups).tobytes())
    a = draw(61, 1100, 5)
    sha.update(kernels.matmul_tn(a, a).tobytes())
    sha.update(kernels.sum_rows(a).tobytes() + kernels.dot_rows(a, a[::-1]).tobytes())
    for rule in (fp32.exp, fp32.tanh, fp32.sqrt, fp32.log):
        sha.update(rule(np.abs(a)).tobytes())
    sha.update(fp32.exp(float32_patterns(7, -103.9, 88.7)).tobytes())
    sha.update(fp32.normal(normal_words()).tobytes())
    return sha.hexdigest()


def uses_fma_instruction() -> bool:
    one = np.ones(1, np.float32)
    fma_in_kernel(one, one, one)
    return "vfmadd" in "".join(fma_in_kernel.inspect_asm().values())


def machines() -> dict[str, dict[str, str]]:
    """Environments to compare. NUMBA_CPU_NAME alone would keep the host's features."""
    runs = {"one thread": {"NUMBA_NUM_THREADS": "1"}, "not compiled": {"NUMBA_DISABLE_JIT": "1"}}
    features = llvmlite.binding.get_host_cpu_features()
    names = ["generic"]
    if "avx2" in features:  # an x86 processor
        names = ["x86-64", "haswell"] if features["avx2"] and features["fma"] else ["x86-64"]
    return runs | {name: {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": ""} for name in names}


def test_every_machine_gives_the_same_bits() -> None:
    root = Path(__file__).parents[1]
    code = (
        f"import sys; sys.path.insert(0, {str(root)!r})\n"
        "from numba import config\nfrom tests.test_fp32 import digest, uses_fma_instruction\n"
        "print(digest(), not config.DISABLE_JIT and uses_fma_instruction())"
    )
    changed = ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_DISABLE_JIT", "NUMBA_NUM_THREADS")
    inherited = {key: value for key, value in os.environ.items() if key not in changed}
    started = {
        name: subprocess.Popen(
            [sys.executable, "-c", code],
            env=inherited | extra,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name, extra in machines().items()
    }
    answers = {name: process.communicate()[0].split() for name, process in started.items()}
    assert {name: answer[:1] for name, answer in answers.items()} == {name: [digest()] for name in answers}
    if "haswell" in answers:  # then the runs really differed in their instructions
        assert (answers["haswell"][1], answers["x86-64"][1]) == ("True", "False")
