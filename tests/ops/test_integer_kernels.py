"""Integer products and convolutions of many blocks, panels and chunks, against plain int64 sums.

The oracle's cases in `test_ops_linear_conv.py` are small; here one call takes every path of the loops.
The expected values are NumPy int64 sums over shifted slices: no code and no tiling of intnet.
"""

import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from intnet.errors import ContainerError
from intnet.machine import words
from intnet.machine.jit import njit
from intnet.numbers.qtensor import QTensor
from intnet.ops.kernels import int_products as conv
from intnet.ops.kernels import position_sums, tiles
from intnet.ops.kernels.int_products import gemm, plan
from intnet.ops.kernels.tiles import FOURS, PAIRS
from tests.support.command import ROOT, environment
from tests.support.fences import fenced
from tests.support.machines import machines
from tests.support.opcheck import threads

Pair = tuple[int, int]
Codes = Callable[..., np.ndarray]


def integers(seed: int, limit: int, *shape: int) -> np.ndarray:
    """Codes within +-limit in their smallest type, both limits among them; of 128, all of int8."""
    codes = np.random.default_rng(seed).integers(-limit, limit + 1, shape)
    codes.flat[0], codes.flat[-1] = limit, -limit
    if limit == 128:
        return codes.clip(-128, 127).astype(np.int8)
    kind = next(t for t in (np.int8, np.int16, np.int32, np.int64) if limit <= np.iinfo(t).max)
    return codes.astype(kind)


def constant(seed: int, value: int, *shape: int) -> np.ndarray:
    """int8 codes that are all the same."""
    return np.full(shape, value, np.int8)


def padded(x: np.ndarray, padding: Pair) -> np.ndarray:
    (ph, pw) = padding
    return np.pad(x.astype(np.int64), ((0, 0), (ph, ph), (pw, pw), (0, 0)))


def slices(ky: int, kx: int, rows: int, cols: int, stride: Pair) -> tuple[slice, ...]:
    """What kernel place (ky, kx) reads of a padded batch."""
    return (
        slice(None),
        slice(ky, ky + (rows - 1) * stride[0] + 1, stride[0]),
        slice(kx, kx + (cols - 1) * stride[1] + 1, stride[1]),
    )


def check_convolution(
    batch: int, hw: Pair, ci: int, co: int, kernel: Pair, stride: Pair, padding: Pair, groups: int,
    limits: tuple[int, int, int], codes: Codes = integers,
) -> None:  # fmt: skip
    """Forward and both gradients of one convolution; limits of x, w and e."""
    x, w = codes(1, limits[0], batch, *hw, ci), codes(2, limits[1], co, ci // groups, *kernel)
    rows, cols = ((hw[a] + 2 * padding[a] - kernel[a]) // stride[a] + 1 for a in (0, 1))
    e = codes(3, limits[2], batch, rows, cols, co)
    y, dx = np.zeros(e.shape, np.int64), padded(np.zeros_like(x), padding)
    dw = np.zeros(w.shape, np.int64)
    xs, es, ws = padded(x, padding), e.astype(np.int64), w.astype(np.int64)
    for g in range(groups):
        c = slice(g * ci // groups, (g + 1) * ci // groups)
        o = slice(g * co // groups, (g + 1) * co // groups)
        for ky, kx in np.ndindex(kernel):
            at = (*slices(ky, kx, rows, cols, stride), c)
            y[..., o] += xs[at] @ ws[o, :, ky, kx].T
            dx[at] += es[..., o] @ ws[o, :, ky, kx]
            dw[o, :, ky, kx] = np.tensordot(es[..., o], xs[at], ((0, 1, 2), (0, 1, 2)))
    area = kernel[0] * kernel[1]
    q = {name: QTensor(codes, 0) for name, codes in (("x", x), ("w", w), ("e", e))}
    window = stride, padding, groups
    got = conv.forward(x, w, plan(q["x"], q["w"], area * ci // groups), window)
    assert np.array_equal(got, y)
    how = plan(q["e"], q["w"], area * co // groups)
    inside = dx[:, padding[0] : padding[0] + hw[0], padding[1] : padding[1] + hw[1]]
    assert np.array_equal(conv.input_grad(e, w, how, window, hw), inside)
    how = plan(q["e"], q["x"], batch * rows * cols)
    assert np.array_equal(conv.weight_grad(e, x, how, window, kernel), dw)


PLAIN = ((3, 3), (1, 1), (1, 1), 1)
POINT = ((1, 1), (0, 0), 1)
CONVOLUTIONS = [
    (9, (28, 28), 16, 16, *PLAIN),  # many blocks of one image, one panel of one vector
    (33, (7, 7), 64, 64, *PLAIN),  # blocks of several images, two panels of two vectors
    (5, (14, 14), 33, 65, *PLAIN),  # an odd channel, a panel of one column
    (1, (40, 41), 3, 17, (5, 3), (2, 3), (2, 1), 1),
    (13, (6, 5), 6, 9, (3, 3), (1, 2), (1, 1), 3),
    (6, (8, 8), 24, 24, (3, 3), (2, 2), (1, 1), 24),  # depthwise
    (7, (9, 9), 20, 40, (1, 1), (2, 2), (0, 0), 1),
    (2, (5, 5), 8, 4, (2, 2), (4, 4), (0, 0), 1),  # pixels that no window reads
    (3, (4, 6), 130, 35, (3, 3), (1, 1), (0, 2), 1),
]


@pytest.mark.slow
@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize(
    "limits",
    [
        (127, 127, 127), (128, 128, 128), (2047, 127, 16256), (32767, 15, 32767), (32767, 32767, 32767),
        (1 << 20, 127, 1 << 17), (1 << 25, 1 << 24, 1 << 23), (1 << 33, 1 << 14, 1 << 13),
    ],
    ids=str,
)  # fmt: skip
def test_convolutions(
    case: tuple[int, Pair, int, int, Pair, Pair, Pair, int], limits: tuple[int, int, int]
) -> None:
    """int8, WAGEUBN's codes, an int32 sum of few terms, sums in float64, and codes that need int64."""
    check_convolution(*case, limits)


@pytest.mark.parametrize("shape", [(1, 1, 1), (13, 2, 33), (500, 7, 16), (97, 300, 70), (3, 2000, 200)])
@pytest.mark.parametrize(
    "limits",
    [
        (127, 127), (32767, 32767), (16256, 2047), (1 << 22, 127), (1 << 40, 63), (1 << 30, 1 << 20),
        (1 << 44, 63),
    ],
)  # fmt: skip
def test_matrix_products(shape: tuple[int, int, int], limits: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    m, k, n = shape
    a, b = integers(4, limits[0], m, k), integers(5, limits[1], n, k)
    want = a.astype(np.int64) @ b.T.astype(np.int64)
    how = plan(QTensor(a, 0), QTensor(b, 0), k)
    assert np.array_equal(gemm(a, b, how), want)
    assert np.array_equal(gemm(np.asfortranarray(a), b[:, ::-1][:, ::-1], how), want)  # any memory order
    monkeypatch.setattr(tiles, "SMALL", 0)  # weights that are read as they lie, however few
    right, left = np.ascontiguousarray(b.T), np.ascontiguousarray(a.T)
    assert np.array_equal(conv.gemm_nn(a, right, how), want)
    assert np.array_equal(conv.gemm_tn(left, right, how), want)


@pytest.mark.parametrize("arithmetic", [FOURS, PAIRS, tiles.SINGLES, tiles.LONG, tiles.DOUBLES, tiles.FLOATS])
@pytest.mark.parametrize("n", [1, 2])
def test_weights_read_as_they_lie_are_the_words_of_turned_ones(
    arithmetic: tiles.Arithmetic, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also four to a word, with their starts, where the processor lacks the product of these."""
    lanes = 2 * words.LANES
    for terms, columns in itertools.product((1, 2, 3, 4, 5, 7, 300), (1, lanes - 1, lanes, lanes + 1, 997)):
        w = integers(1, 128, terms, columns).astype(arithmetic.codes)[None, None].transpose(0, 3, 1, 2)
        depth = -(-terms // arithmetic.per_word)
        cut = depth // 2  # two chunks, the first perhaps of no word
        runs, ends = np.array([0, cut, 0, cut, depth - cut, cut]), np.array([1, 2])
        given = (np.zeros(1, np.int64), arithmetic, lanes, runs, ends)
        with threads(n):
            monkeypatch.setattr(tiles, "SMALL", w.size + 1)
            turned = tiles.pack_panels(w, *given).copy()
            monkeypatch.setattr(tiles, "SMALL", w.size)
            assert tiles.pack_panels(w, *given).tobytes() == turned.tobytes(), (terms, columns)


@pytest.mark.parametrize("sign", [1, -1])
def test_sums_at_the_limit_of_int32(sign: int) -> None:
    """All products at their limit: each chunk fills int32 to the last term, and one more would wrap."""
    a, b = np.full((14, 3000), 2047, np.int16), np.full((5, 3000), sign * 2047, np.int16)
    how = plan(QTensor(a, 0), QTensor(b, 0), 3000)
    assert how.chunk * 2047**2 < 1 << 31 <= (how.chunk + 1) * 2047**2 and how.result == np.int64
    assert np.all(gemm(a, b, how) == sign * 3000 * 2047**2)
    x, e = np.full((8, 20, 20, 2), 32767, np.int16), np.full((8, 20, 20, 3), sign * 1024, np.int16)
    e[::2, ::3] = sign  # pieces of many magnitudes
    how = plan(QTensor(e, 0), QTensor(x, 0), 3200)
    want = 32767 * e.sum(axis=(0, 1, 2), dtype=np.int64)
    got = conv.weight_grad(e, x, how, POINT, (1, 1))
    assert np.array_equal(got, np.broadcast_to(want[:, None, None, None], (3, 2, 1, 1)))


def test_pieces_join_while_their_magnitudes_fit() -> None:
    ends = np.zeros(6, np.int64)
    magnitudes = np.array([4, 6, 1, 10, 10, 0])
    chunks = njit(position_sums._chunk_ends)(ends, magnitudes, 6, 10)
    assert ends[:chunks].tolist() == [2, 3, 4, 6]


def test_empty_operands() -> None:
    x, w, e = (np.zeros(s, np.int8) for s in ((0, 5, 5, 3), (4, 3, 3, 3), (0, 3, 3, 4)))
    how = plan(QTensor(x, 0), QTensor(w, 0), 27)
    assert conv.forward(x, w, how, POINT).shape == (0, 3, 3, 4)
    assert conv.input_grad(e, w, how, POINT, (5, 5)).shape == (0, 5, 5, 3)
    assert not conv.weight_grad(e, x, how, POINT, (3, 3)).any()
    assert not gemm(np.zeros((2, 0), np.int8), np.zeros((3, 0), np.int8), how).any()


def test_products_beyond_every_container_are_refused() -> None:
    wide = QTensor(np.array([[1 << 40]]), 0)
    with pytest.raises(ContainerError, match="layer9: 1 products of codes up to 1099511627776"):
        plan(wide, wide, 1, "layer9")


# --- 8 bits, four to a word where the processor multiplies them so ------------------------------

SIGNS = [(-128, -128), (-128, 127), (127, -128), (127, 127)]
SMALL = [
    (batch, (5, 4), ci, co, kernel, stride, padding, groups)
    for batch in (1, 3, 4, 5)
    for ci, co, groups in ((1, 1, 1), (3, 17, 1), (6, 10, 2))
    for kernel, stride, padding in (
        ((1, 1), (1, 1), (0, 0)),
        ((3, 3), (1, 1), (1, 1)),
        ((3, 2), (2, 1), (2, 1)),
    )
]


def check_int8() -> None:
    """Matrices of all small depths, chunks of all small sizes and small convolutions, random and extreme."""
    for terms in (1, 2, 3, 4, 5, 7, 8, 9, 31, 33, 64, 65):
        for m, n in ((1, 1), (11, 15), (12, 16), (13, 17), (25, 33)):
            for left, right, codes in ((128, 128, integers), *((*pair, constant) for pair in SIGNS)):
                a, b = codes(6, left, m, terms), codes(7, right, n, terms)
                want = a.astype(np.int64) @ b.T.astype(np.int64)
                how = plan(QTensor(a, 0), QTensor(b, 0), terms)
                assert np.array_equal(gemm(a, b, how), want), (terms, m, n, left, right)
                for chunk in (1, 4, 8, 11):
                    cut = replace(how, chunk=chunk, result=np.dtype(np.int64))
                    assert np.array_equal(gemm(a, b, cut), want), (terms, m, n, left, right, chunk)
    for case in SMALL:
        check_convolution(*case, (128, 128, 128))
        for left, right in SIGNS:
            check_convolution(*case, (left, right, left), constant)


def check_int8_at_the_limit() -> None:
    """131,071 products of -128 and -128 fit int32, one more does not."""
    for terms in (131067, 131068, 131069, 131070, 131071, 131072, 131073):
        for left, right in SIGNS:
            a, b = constant(0, left, 2, terms), constant(0, right, 3, terms)
            how = plan(QTensor(a, 0, bound=128), QTensor(b, 0, bound=128), terms)
            assert how.result == (np.int32 if terms < 131072 else np.int64)
            assert np.all(gemm(a, b, how) == left * right * terms), (terms, left, right)
    for height in (181, 182):  # 4 images of 181 x 181 positions fit, of 182 x 182 do not
        x, e = constant(0, -128, 5, height, height, 1), constant(0, -128, 5, height, height, 2)
        how = plan(QTensor(e, 0), QTensor(x, 0), 5 * height * height)
        assert np.all(conv.weight_grad(e, x, how, ((1, 1), (0, 0), 1), (1, 1)) == 5 * height**2 << 14)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2])
def test_products_of_int8(n: int) -> None:
    with threads(n):
        check_int8()
        check_int8_at_the_limit()


def test_nothing_is_read_behind_panels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "LEAST", 0)
    monkeypatch.setattr(tiles, "empty", fenced)
    for terms, columns in ((1, 1), (61, 16), (64, 17), (65, 33), (130, 64)):
        a, b = integers(6, 128, 13, terms), integers(7, 128, columns, terms)
        how = plan(QTensor(a, 0), QTensor(b, 0), terms)
        assert np.array_equal(gemm(a, b, how), a.astype(np.int64) @ b.T.astype(np.int64))


def test_which_operands_go_four_to_a_word() -> None:
    """int8 codes, and wider ones that a bound proves to be as small."""
    small, whole, wide = (
        QTensor(np.zeros(1, kind), 0, bound=bound)
        for kind, bound in ((np.int32, 127), (np.int8, 128), (np.int16, 128))
    )
    eight = FOURS if words.FOURS else PAIRS
    for a, b, arithmetic in (
        (small, whole, eight),
        (whole, small, eight),
        (whole, wide, PAIRS),
        (wide, whole, PAIRS),
    ):
        assert plan(a, b, 9).arithmetic is arithmetic
    assert plan(small, small, 9).operand(small.codes).dtype == (np.int8 if words.FOURS else np.int16)


@pytest.mark.slow
@pytest.mark.skipif(not words.FOURS, reason="the processor has no vpdpbusd")
def test_int8_faults_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums without their starts; zeros around an image that are laid out as 0, not as 0 + OFFSET."""
    case = (3, (5, 4), 3, 17, *PLAIN, (128, 128, 128))
    pack = tiles._pack_panels

    def without_starts(*args: Any) -> None:
        _, _, lanes, page, _, ends, out = args
        pack(*args)
        out.reshape(-1, page)[:, : ends.size * lanes] = 0

    check_convolution(*case)
    with monkeypatch.context() as patch, pytest.raises(AssertionError):
        patch.setattr(tiles, "_pack_panels", without_starts)
        check_convolution(*case)
    FOURS.element[0] = 0
    try:
        with pytest.raises(AssertionError):
            check_convolution(*case)
    finally:
        FOURS.element[0] = words.OFFSET


@pytest.mark.slow
@pytest.mark.skipif(not words.FOURS or words.LANES < 16, reason="the processor has no AVX-512 VNNI")
@pytest.mark.parametrize(("cpu", "fours"), [("skylake-avx512", False), ("cascadelake", True)])
def test_int8_where_the_processor_lacks_the_instruction(cpu: str, fours: bool) -> None:
    """Neither `vpdpbusd` nor AMX; the one without the other."""
    code = (
        "from intnet.machine import words\n"
        f"assert (words.FOURS, words.AMX, words.LANES) == ({fours}, False, 16)\n"
        "from tests.ops import test_integer_kernels as t; t.check_int8(); t.check_int8_at_the_limit()\n"
        "print('same')"
    )
    variables = environment(NUMBA_CPU_NAME=cpu, NUMBA_CPU_FEATURES="")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=variables, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("same\n", "")


# --- the same bits on every machine -------------------------------------------------------------

EVERYWHERE = """
from tests.ops.test_integer_kernels import CONVOLUTIONS, check_convolution
for case in CONVOLUTIONS[2:]:
    check_convolution(min(case[0], 3), *case[1:], (2047, 127, 16256))
    check_convolution(min(case[0], 3), *case[1:], (128, 128, 128))
check_convolution(3, (4, 4), 3, 5, (3, 3), (1, 1), (1, 1), 1, (1 << 20, 127, 1 << 17))
print("same")
"""


@pytest.mark.slow
@pytest.mark.parametrize("machine", [name for name in machines() if name != "not compiled"])
def test_other_instruction_sets(machine: str) -> None:
    variables = {**os.environ, **machines()[machine]}
    command = [sys.executable, "-c", EVERYWHERE]
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("same\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2])
def test_any_number_of_threads(n: int) -> None:
    with threads(n):
        check_convolution(*CONVOLUTIONS[1], (2047, 127, 16256))
        check_convolution(*CONVOLUTIONS[1], (128, 128, 128))
        check_convolution(2, (7, 7), 64, 200, *PLAIN, (2047, 127, 16256))  # fewer blocks than threads


@pytest.mark.parametrize(("terms", "kind"), [(31, np.float64), (32, np.float64), (33, np.int64)])
def test_sums_at_the_limit_of_float64(terms: int, kind: type) -> None:
    """32 products of 2**24 and 2**24 make the greatest sum that is proven to be exact, to its last bit."""
    a, b = np.full((14, terms), 1 << 24, np.int32), np.full((5, terms), -(1 << 24), np.int32)
    a[3, -1] -= 1
    b[:, -1] += 1
    how = plan(QTensor(a, 0), QTensor(b, 0), terms)
    assert how.arithmetic.sum.dtype == kind and how.bound == terms << 48
    want = a.astype(object) @ b.T.astype(object)
    assert np.array_equal(gemm(a, b, how).astype(object), want)
    e, x = b.T[:, :1].reshape(1, 1, terms, 1), a[3].reshape(1, 1, terms, 1)
    assert int(conv.weight_grad(e, x, how, POINT, (1, 1)).item()) == want[3, 0]
