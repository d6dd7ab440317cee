"""The QONNX model: every logit is the program's, by QONNX's operators as documented, and by its package."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from intnet.errors import ConfigError
from intnet.export import batch, qonnx_model
from intnet.export import program as p
from intnet.export.program import Program
from tests.support.exporting import NETS, program_of

WHY = "needs the package onnx: pip install -e '.[test]'"


def quant(x: np.ndarray, scale: np.ndarray, zero: np.ndarray, bits: np.ndarray, **how: Any) -> np.ndarray:
    """Quant of QONNX, version 1: limits, then rounding, half to even."""
    assert how["rounding_mode"] == "ROUND"
    signed, narrow, width = how["signed"], how["narrow"], int(bits)
    least = -(2 ** (width - 1)) + narrow if signed else 0
    most = 2 ** (width - 1) - 1 if signed else 2**width - 1 - narrow
    codes = np.round(np.clip(x / scale + zero, np.float32(least), np.float32(most)))
    made: np.ndarray = (codes - zero) * scale
    assert made.dtype == np.float32
    return made


def multi_threshold(x: np.ndarray, thresholds: np.ndarray, **how: Any) -> np.ndarray:
    """MultiThreshold of QONNX, channels first: how many thresholds of its channel are at most x."""
    assert how["data_layout"] == "NCHW"[: x.ndim] and how["out_dtype"].lstrip("U").startswith("INT")
    by_channel = thresholds.reshape(1, len(thresholds), *[1] * (x.ndim - 2), -1)
    count = (x[..., None] >= by_channel).sum(-1).astype(np.float32)
    return count * np.float32(how["out_scale"]) + np.float32(how["out_bias"])


def by_the_reference(program: Program, images: np.ndarray) -> list[Any]:
    """Values of the logits by onnx's own reference implementation and the two operators above."""
    pytest.importorskip("onnx", reason=WHY)
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun

    class Quant(OpRun):  # type: ignore[misc]
        op_domain = qonnx_model.DOMAIN

        def _run(self, *reads: np.ndarray, **how: Any) -> tuple[np.ndarray]:
            return (quant(*reads, **how),)

    class MultiThreshold(OpRun):  # type: ignore[misc]
        op_domain = qonnx_model.DOMAIN

        def _run(self, *reads: np.ndarray, **how: Any) -> tuple[np.ndarray]:
            return (multi_threshold(*reads, **how),)

    session = ReferenceEvaluator(qonnx_model.model(program), new_ops=[Quant, MultiThreshold])
    return [session.run(None, {"images": one[None]})[0][0].tolist() for one in values(program, images)]


def values(program: Program, images: np.ndarray) -> np.ndarray:
    """float32, channels first, that the codes of images stand for."""
    real = np.ldexp(images.astype(np.float64), program.images.exponent)
    return np.ascontiguousarray(np.moveaxis(real, -1, 1).astype(np.float32))


def wanted(program: Program, images: np.ndarray) -> list[Any]:
    """The values of the program's logits."""
    return np.ldexp(batch.logits(program, images).astype(np.float64), program.logits.exponent).tolist()  # type: ignore[no-any-return]


@pytest.mark.slow
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("options", [{}, {"start": "6,3"}], ids=str)
def test_every_logit(net: str, options: dict[str, Any]) -> None:
    run, program = program_of(net, "adapt", options)
    images = run.data.test_images
    assert by_the_reference(program, images) == wanted(program, images)


@pytest.mark.slow
@pytest.mark.parametrize("net", NETS)
def test_every_logit_in_qonnx(net: str) -> None:
    pytest.importorskip("qonnx", reason="needs the package qonnx: pip install qonnx")
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.core.onnx_exec import execute_onnx

    run, program = program_of(net, "adapt", {})
    images, made = run.data.test_images, ModelWrapper(qonnx_model.model(program))
    codes = [execute_onnx(made, {"images": one[None]})["logits"][0] for one in values(program, images)]
    assert [row.tolist() for row in codes] == wanted(program, images)


@pytest.mark.slow
@pytest.mark.parametrize("codes", [(-1, 0), (0, 1), (-1, 1), (-2, 1), (0, 0)])
def test_weights_of_a_bit_in_qonnx(codes: tuple[int, int]) -> None:
    pytest.importorskip("qonnx", reason="needs the package qonnx: pip install qonnx")
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.core.onnx_exec import execute_onnx

    weight = np.array([codes, codes[::-1], (codes[0], codes[0])])
    images = p.Images("images", (), (1, 1, 2), -3, 0, 9)
    program = Program((images, p.Flatten("flat", (0,)), p.Product("fc", (1,), weight, -2)))
    batch_of = np.array([[3, 5], [9, 0], [0, 7]]).reshape(3, 1, 1, 2)
    made = ModelWrapper(qonnx_model.model(program))
    found = [execute_onnx(made, {"images": one[None]})["logits"][0] for one in values(program, batch_of)]
    assert [one.tolist() for one in found] == wanted(program, batch_of)


def chain(rng: np.random.Generator, lo: int, hi: int, channels: int) -> Program:
    """Operations by channel, some of which fall: what batch norm and the rounding after it are."""
    a, b = rng.integers(-(1 << 24), 1 << 24, (2, channels))
    den = rng.integers(1 << 20, 1 << 25, channels)
    return Program(
        (
            p.Images("images", (), (1, 1, channels), -3, lo, hi),
            p.Affine("scaled", (0,), a, b, -30),
            p.Round("rounded", (1,), 3, den, -9, -500, 700),
            p.Affine("moved", (2,), rng.integers(1, 5, 1), rng.integers(-9, 9, 1), -9),
            p.Relu("rectified", (3,)),
            p.Round("codes", (4,), 1, np.array([rng.integers(3, 9)]), -6, 0, 100),
        )
    )


def test_staircases_at_every_code() -> None:
    """How many thresholds a code has reached is the chain's result, for each code of each channel."""
    rng, kinds = np.random.default_rng(7), set[int]()
    for _ in range(20):
        lo = int(rng.integers(-300, 100))
        hi, channels = lo + int(rng.integers(0, 400)), int(rng.integers(1, 6))
        program = chain(rng, lo, hi, channels)
        steps = qonnx_model.staircases(program.ops[1:], program.values[0], program.logits)
        codes = np.repeat(np.arange(lo, hi + 1)[:, None], channels, 1)
        reached = (codes * steps.signs)[..., None] >= steps.thresholds
        right = batch.logits(program, codes[:, None, None, :]).reshape(codes.shape)
        assert np.array_equal(program.logits.lo + reached.sum(-1), right)
        kinds |= set((steps.signs * np.ptp(right, axis=0)).tolist())
    assert min(kinds) < -20 and max(kinds) > 20  # falls and rises of many steps were among them


def test_what_falls_as_if_it_rose_is_found() -> None:
    program = chain(np.random.default_rng(0), -100, 100, 4)
    steps = qonnx_model.staircases(program.ops[1:], program.values[0], program.logits)
    assert set(steps.signs.tolist()) == {1, -1}
    codes = np.repeat(np.arange(-100, 101)[:, None], 4, 1)
    reached = codes[..., None] >= steps.thresholds
    right = batch.logits(program, codes[:, None, None, :]).reshape(codes.shape)
    assert not np.array_equal(program.logits.lo + reached.sum(-1), right)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lo", "hi"),
    [
        (None, None),
        (-8, 7),
        (-7, 7),
        (0, 7),
        (-128, 127),
        (0, 1),
        (-1, 0),
        (-3, 5),
        (2, 6),
        (0, 6),
        (-300, 300),
    ],
)
@pytest.mark.parametrize(("num", "den"), [(1, 1), (1, 8), (4, 1), (3, 8), (1, 5)])
def test_roundings_at_every_code(lo: int | None, hi: int | None, num: int, den: int) -> None:
    """Ties, both signs, limits that a word has and others, shifts up and down, and what is no shift."""
    codes = np.arange(-61, 61)
    by = {(1, 1): 0, (1, 8): 3, (4, 1): -2}.get((num, den), 3)
    ops = (
        p.Images("images", (), (1, 1, 1), -5, -61, 60),
        p.Flatten("flat", (0,)),
        p.Round("round", (1,), num, np.array([den]), -5 + by, lo, hi),
    )
    program, images = Program(ops), codes.reshape(-1, 1, 1, 1)
    assert by_the_reference(program, images) == wanted(program, images)


@pytest.mark.slow
def test_windows_groups_and_joins() -> None:
    rng = np.random.default_rng(4)
    ops = (
        p.Images("images", (), (5, 6, 4), -8, -20, 25),
        p.Product("conv", (0,), rng.integers(-9, 9, (6, 2, 3, 2)), -3, (1, 2), (1, 0), groups=2),
        p.Affine("bias", (1,), np.array([1]), rng.integers(-99, 99, 6), -11),
        p.MaxPool("greatest", (2,), (3, 3), (1, 1), (1, 1)),
        p.SumPool("sum", (2,), (3, 3), (1, 1), (1, 1)),
        p.Affine("third", (4,), np.array([3]), np.array([0]), -12),
        p.Add("join", (3, 5), (1, 0)),
        p.Flatten("flat", (6,)),
        p.Product("fc", (7,), rng.integers(-1, 2, (3, 90)), 2),
    )
    program, images = Program(ops), rng.integers(-20, 26, (7, 5, 6, 4))
    assert by_the_reference(program, images) == wanted(program, images)


@pytest.mark.parametrize(
    ("method", "options", "said"),
    [
        ("wageubn", {"edges": "fixed16"}, "fc1/x1: it may need 34 bits, and .* export to onnx or c"),
        ("muppet", {}, "fc1/x0: QONNX has numbers of one scale"),
        ("dynasty", {}, "fc1/x0: QONNX has numbers of one scale"),
    ],
)
def test_refused(method: str, options: dict[str, Any], said: str) -> None:
    pytest.importorskip("onnx", reason=WHY)
    with pytest.raises(ConfigError, match=said):
        qonnx_model.model(program_of("mlp", method, options)[1])


def test_refused_where_float32_has_no_room() -> None:
    """A sum one beyond 2^24, and a rounding to more codes than thresholds are made for."""
    pytest.importorskip("onnx", reason=WHY)

    def made(weight: int) -> Program:
        images = p.Images("images", (), (1, 1, 2), 0, 0, 1 << 12)
        return Program((images, p.Flatten("flat", (0,)), p.Product("fc", (1,), np.array([[weight, 1]]), 0)))

    fits = made((1 << 12) - 1)
    assert fits.logits.hi == 1 << 24
    qonnx_model.model(fits)
    with pytest.raises(ConfigError, match="fc: it may need 26 bits"):
        qonnx_model.model(made(1 << 12))
    images, thirds = p.Images("images", (), (1, 1, 1), 0, 0, 1 << 14), np.array([3])
    with pytest.raises(ConfigError, match="round: it may need"):
        qonnx_model.model(Program((images, p.Round("round", (0,), 1, thirds, 0))))


def test_words() -> None:
    """The least word of every interval, and its ends."""
    for lo in range(-20, 20):
        for hi in range(lo, 20):
            word = qonnx_model._word(lo, hi)
            least, most = qonnx_model._ends(word)
            assert least <= lo and hi <= most and word.signed == (lo < 0)
            assert word.bits > word.signed, "a signed bit is -1 and +1 in QONNX"
            if word.bits > 1 + word.signed:
                smaller = qonnx_model._ends(word._replace(bits=word.bits - 1, narrow=False))
                assert lo < smaller[0] or hi > smaller[1]
