"""The float32 products and convolutions against their oracle, bit by bit.

The last test runs the same work on other instruction sets, with one thread, and without compilation.
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet.errors import FormatError, ShapeError
from intnet.numbers import fp32
from intnet.ops.kernels import float_products as kernels
from intnet.ops.kernels import tiles
from tests.support.float_oracle import (
    UNIT,
    Pair,
    batched,
    chunked,
    conv2d_oracle,
    draw,
    float32_patterns,
    floats,
    input_grad_oracle,
    ints,
    normal_words,
    round32,
    same,
    scaled,
    weight_grad_oracle,
)
from tests.support.machines import float32_passes, machines, uses_fma_instruction

# --- products and convolutions ------------------------------------------------------------------


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("shape", [*PRODUCTS, (4, 0, 3), (0, 3, 2)])
def test_matmul(shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    rows, terms, columns = shape
    a, b = draw(11, rows, terms), draw(12, terms, columns)
    ai, bi = ints(a), ints(b)
    expected = floats((rows, columns), lambda i, j: chunked([(ai[i, k], bi[k, j]) for k in range(terms)]))
    same(kernels.matmul(a, b), expected)
    same(kernels.matmul_nt(a, np.ascontiguousarray(b.T)), expected)
    summed = floats((rows, columns), lambda i, j: batched([(ai[i, k], bi[k, j]) for k in range(terms)]))
    same(kernels.matmul_tn(np.ascontiguousarray(a.T), b), summed)
    monkeypatch.setattr(tiles, "SMALL", 0)  # weights that are read as they lie, however few
    same(kernels.matmul(a, b), expected)
    same(kernels.matmul_tn(np.ascontiguousarray(a.T), b), summed)


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


@pytest.mark.slow
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
    monkeypatch.setattr(kernels, "_HELD_WORDS", 1)
    same(kernels.conv2d_weight_grad(e, x, (3, 3), (1, 1), (1, 1)), whole)


def test_a_zero_result_is_positive() -> None:
    """An underflow to -0 must not show, or skipping a zero term would."""
    tiny = np.full((1, 1), 1e-40, np.float32)
    same(kernels.matmul(tiny, -tiny), np.zeros((1, 1), np.float32))
    image, kernel = tiny.reshape(1, 1, 1, 1), -tiny.reshape(1, 1, 1, 1)
    same(kernels.conv2d(image, kernel), np.zeros((1, 1, 1, 1), np.float32))
    same(kernels.conv2d_weight_grad(-image, image, (1, 1)), np.zeros((1, 1, 1, 1), np.float32))
    pair, kernels_of_pair = np.repeat(image, 2, axis=3), np.repeat(kernel, 2, axis=0)
    same(kernels.conv2d(pair, kernels_of_pair, groups=2), np.zeros((1, 1, 1, 2), np.float32))


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
    for passed in float32_passes(a, a[::-1]):
        sha.update(passed.tobytes())
    for rule in (fp32.exp, fp32.tanh, fp32.sqrt, fp32.log):
        sha.update(rule(np.abs(a)).tobytes())
    sha.update(fp32.exp(float32_patterns(7, -103.9, 88.7)).tobytes())
    sha.update(fp32.normal(normal_words()).tobytes())
    return sha.hexdigest()


@pytest.mark.slow
def test_every_machine_gives_the_same_bits() -> None:
    root = Path(__file__).parents[2]
    code = (
        f"import sys; sys.path.insert(0, {str(root)!r})\n"
        "from numba import config\nfrom tests.ops.test_float32_kernels import digest\n"
        "from tests.support.machines import uses_fma_instruction\n"
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
    if "x86-64" in answers and uses_fma_instruction():  # then the runs really differed in their instructions
        assert (answers["one thread"][1], answers["x86-64"][1]) == ("True", "False")
