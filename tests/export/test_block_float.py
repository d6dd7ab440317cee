"""Scales by the image: of any terms at any distance the exact sum's, in NumPy, C and ONNX Runtime."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet.errors import ConfigError, NumberError, ShapeError
from intnet.export import batch, block_float, c_block_float, interpret, writing
from intnet.export import program as p
from intnet.export.program import Program
from intnet.methods.method import whole
from intnet.spec.formats import Scaled
from intnet.training.inference import all_logits
from tests.support.exporting import by_c, by_runtime, by_the_definition, trained, wanted

WIDTHS = (8, 12, 16)


def flat(exponent: int) -> tuple[p.Op, p.Op]:
    """Three codes."""
    return p.Images("images", (), (1, 1, 3), exponent, -32767, 32767), p.Flatten("flat", (0,))


def joined(wl: int, weights: list[int], far: int, b: list[int] | None, at: int, **more: Any) -> Program:
    """BF of three sums, at 2^far of their image, and b at 2^at; without b, of sums and the scaled image."""
    reads = (3,) if b is not None else (3, 2)
    bias = None if b is None else np.array(b)
    ops = (
        *flat(0),
        p.Scaled("x0", (1,), wl),
        p.Product("x1", (2,), np.diag(weights), far),
        p.Scaled("sum", reads, wl, b=bias, exponent=at if b is not None else 0, **more),
    )
    return Program(ops)


def same(program: Program, images: np.ndarray) -> None:
    """In NumPy as in fractions."""
    made = [interpret.outputs(program, image.reshape(-1).tolist())[-1] for image in images]
    codes, exponents = batch.outputs(program, images)
    assert codes.tolist() == [one.codes for one in made]
    assert exponents[:, 0].tolist() == [one.exponent for one in made]


small = st.lists(st.integers(-9, 9), min_size=3, max_size=3)
pixels = st.lists(st.integers(-300, 300) | st.just(0), min_size=3, max_size=3)


@given(
    st.sampled_from(WIDTHS), small, st.integers(-90, 90), st.none() | small, st.integers(-90, 90),
    st.integers(1, 6), st.booleans(), pixels,
)  # fmt: skip
def test_terms_at_any_distance(
    wl: int, weights: list[int], far: int, b: list[int] | None, at: int, den: int, up: bool, image: list[int]
) -> None:
    """Zeros among the terms, whole terms of zeros, sums below 0 and means too."""
    same(
        joined(wl, weights, far, b, at, den=den, rectified=up),
        np.array([image, [0, 0, 0]]).reshape(2, 1, 1, 3),
    )


@pytest.mark.slow
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("wl", "den"), list(product((8, 16), (1, 3))))
def test_the_least_room_is_enough(wl: int, den: int, bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Terms that are cut off as soon as ever they may be, at all distances where that matters.

    Of the image's greatest code nothing is read, so that sums are small for what is proven of them.
    """
    rng = np.random.default_rng(wl + den)
    for far in range(-3 * wl, 3 * wl):
        weights, b = rng.integers(-40, 41, 3).tolist(), rng.integers(-4 << wl, 4 << wl, 3).tolist()
        weights[0] = b[0] = 0
        images = rng.integers(-1, 2, (6, 1, 1, 3))
        images[..., 0] = 32767
        for room in range(8, p.ROOM):
            monkeypatch.setattr(p, "ROOM", room)
            try:
                program = joined(wl, weights, far, b if bias else None, 0, den=den)
            except ConfigError:
                continue
            break
        same(program, images)
        monkeypatch.undo()


# Sums 381, 2, 6 make steps of 4: 2 and 6 are ties, which what is far below decides.
TIES = [
    ([0, 0, 0], -200, [95, 0, 2]),
    ([0, 1, -1], -200, [95, 1, 1]),
    ([0, -1, 1], -200, [95, 0, 2]),
    ([0, 1, -1], -6, [95, 1, 1]),
]
IMAGE = np.array([127, 1, 1], np.int16).reshape(1, 1, 1, 3)


def of_tie(b: list[int], at: int) -> Program:
    return joined(8, [3, 2, 6], 0, b, at)


@pytest.mark.parametrize(("b", "at", "codes"), TIES)
def test_what_is_far_below_decides_ties(b: list[int], at: int, codes: list[int]) -> None:
    program = of_tie(b, at)
    assert interpret.logits(program, [127, 1, 1]) == codes
    assert [v.tolist() for v in batch.outputs(program, IMAGE)] == [[codes], [[2]]]


@pytest.mark.slow
def test_every_small_scale() -> None:
    """Steps by the tables, against the definition's s, of all extremes up to 70 and three denominators."""
    tops, lows = np.arange(71), -np.arange(71)
    for wl, den in product((4, 5), (1, 3, 4)):
        table = block_float.limits(p.Scaled("x", (0,), wl, den))
        for top in tops:
            some = lows if top else lows[1:]
            got = block_float.steps(table, np.full(len(some), top), some)
            ends = [(Fraction(int(low), den), Fraction(int(top), den)) for low in some]
            assert got.tolist() == [-Scaled(wl).grid_of(*end) for end in ends]


@pytest.mark.slow
@pytest.mark.parametrize("level", range(4))
def test_every_level(level: int) -> None:
    """8, 12, 14 and 16 bits: 12 hold an image's codes as they are."""
    run = trained("lenet", "muppet", {}, steps=1)
    run.method.state["level"] = whole(level)
    images = run.data.test_images[:3]
    got = batch.logits32(writing.of_run(run), images)
    assert [Fraction(float(v)) for v in got.reshape(-1)] == by_the_definition(run, "lenet", images)


def test_float32_is_refused() -> None:
    run = trained("mlp", "muppet", {}, steps=1)
    run.method.state["level"] = whole(4)
    with pytest.raises(ConfigError, match=r"fc1/x0: muppet computes it in float32: its last level"):
        writing.of_run(run)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["muppet", "dynasty"])
def test_a_logit_is_the_image_s_alone(method: str) -> None:
    """Those of the run with batches of one image; with whole batches it has others."""
    run = trained("resnet", method, {})
    data = run.data
    got = batch.logits32(writing.of_run(run), data.test_images)
    one, all_of_them = (
        all_logits(run.model, run.method, data.test_images, data.exponent, size) for size in (1, 20)
    )
    assert np.array_equal(got, one) and not np.array_equal(got, all_of_them)


FAR = [(8, 40), (8, -40), (12, 3), (16, 90), (16, -7)]


def some_images() -> np.ndarray:
    rng = np.random.default_rng(4)
    images = rng.integers(-300, 301, (40, 1, 1, 3)).astype(np.int16)
    images[::7, :, :, 0] = 0
    images[5] = 0
    return images


@pytest.mark.slow
@pytest.mark.parametrize("bias", [True, False])
def test_c_of_far_terms(bias: bool, tmp_path: Path) -> None:
    images = some_images()
    for wl, far in FAR:
        program = joined(wl, [3, -1, 2], far, [5, 0, -1] if bias else None, 1, den=3, rectified=wl == 12)
        same(program, images)
        assert by_c(program, images, tmp_path, "gcc") == wanted(program, images), (wl, far)


@pytest.mark.slow
@pytest.mark.parametrize("bias", [True, False])
def test_onnx_of_far_terms(bias: bool) -> None:
    images = some_images()
    for wl, far in FAR:
        program = joined(wl, [3, -1, 2], far, [5, 0, -1] if bias else None, 1, den=3, rectified=wl == 12)
        codes, _ = by_runtime(program, images)
        assert codes.tolist() == batch.logits(program, images).tolist(), (wl, far)


def normed(mean: float, r: float, gamma: float, beta: float) -> Program:
    constants = (np.full(3, v, np.float32) for v in (mean, r, gamma, beta))
    ops = (
        *flat(-3),
        p.Scaled("x0", (1,), 8),
        p.Norm("bn/x3", (2,), *constants, 8),
    )
    return Program(ops)


NORMS = [(0.1, 3.3, 1.7, -0.3), (1e-30, 1e-12, 1e-5, 1e-44), (0.0, 0.0, 1.0, 0.0), (5.0, 316.0, 1e30, 1e33)]


@pytest.mark.slow
@pytest.mark.parametrize("constants", NORMS)
def test_batch_norm_in_float32(constants: tuple[float, float, float, float], tmp_path: Path) -> None:
    """Of ordinary numbers, subnormal ones, zeros and great ones; a product and a sum round twice."""
    program, images = normed(*constants), some_images()
    same(program, images)
    assert by_c(program, images, tmp_path, "gcc") == wanted(program, images)


@pytest.mark.slow
@pytest.mark.parametrize("constants", NORMS)
def test_batch_norm_in_onnx(constants: tuple[float, float, float, float]) -> None:
    program, images = normed(*constants), some_images()
    codes, _ = by_runtime(program, images)
    assert codes.tolist() == batch.logits(program, images).tolist()


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(NumberError, match=r"bn/x3: NaN or infinity"):
        normed(0.0, float("inf"), 1.0, 0.0)
    with pytest.raises(ConfigError, match=r"bn/x3: its float32 may be beyond"):
        normed(0.0, 1e30, 1e30, 0.0)
    with pytest.raises(ConfigError, match=r"sum: sums of \d+ and \d+ bits, whose exponents follow the image"):
        joined(16, [1 << 40, 1, 1], 0, [1, 1, 1], 0)
    with pytest.raises(ShapeError, match=r"r: it reads a value whose exponent follows the image"):
        images = p.Images("images", (), (3,), 0, -300, 300)
        Program((images, p.Scaled("x0", (0,), 8), p.Round("r", (1,), 1, np.array([2]), 0)))


# -- seeded faults ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_fault_in_what_is_cut_off_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A floor that is not made odd: the tie of 2 in 4 goes to even."""
    b, at, codes = TIES[1]
    program = of_tie(b, at)
    assert by_c(program, IMAGE, tmp_path, "gcc") == [[*codes, 2]]
    helper = c_block_float.HELPERS["raised("]
    broken = helper.replace("return q + (v % d != 0 && q % 2 == 0);", "return q;")
    assert broken != helper
    monkeypatch.setitem(c_block_float.HELPERS, "raised(", broken)
    assert by_c(program, IMAGE, tmp_path, "gcc") != [[*codes, 2]]
    plain = lambda x, by: x << np.maximum(by, 0) >> np.maximum(-by, 0)  # noqa: E731
    monkeypatch.setattr(block_float, "raised", lambda x, by: plain(x, by.reshape(-1, 1)))
    assert batch.logits(program, IMAGE).tolist() != [codes]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "by"),
    [("a > 0 && (a - 1) >> j >= t", "a > 0 && a >> j >= t"), ("return j + 1;", "return j;")],
)
def test_a_fault_in_the_step_is_seen(
    fault: str, by: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A maximum just on its limit: 510 is 255 steps of 2 over 2."""
    program = joined(8, [510, 2, 6], 0, [0, 1, 0], -200)
    image = np.array([1, 0, 0], np.int16).reshape(1, 1, 1, 3)
    same(program, image)
    right = wanted(program, image)
    assert by_c(program, image, tmp_path, "gcc") == right
    helper = c_block_float.HELPERS["step_of("]
    assert fault in helper
    monkeypatch.setitem(c_block_float.HELPERS, "step_of(", helper.replace(fault, by))
    assert by_c(program, image, tmp_path, "gcc") != right


@pytest.mark.slow
def test_a_fused_batch_norm_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """(1 + 2^-12)^2 is a tie, which rounds to what beta takes away; joined with the sum it leaves 2^-24."""
    root = 1 + 2.0**-12
    program, image = normed(0.0, root, root, -1 - 2.0**-11), np.full((1, 1, 1, 3), 8, np.int16)
    same(program, image)
    assert by_c(program, image, tmp_path, "gcc") == wanted(program, image) == [[0, 0, 0, -6]]
    helper = c_block_float.HELPERS["normed("]
    sums = "return product + beta;"
    assert sums in helper
    joins = "return (float)((double)(((float)x - mean) * r) * gamma + (0 * product + beta));"
    monkeypatch.setitem(c_block_float.HELPERS, "normed(", helper.replace(sums, joins))
    assert by_c(program, image, tmp_path, "gcc") == [[64, 64, 64, -30]]
