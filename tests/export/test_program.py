"""Programs: their logits are the definition's, what is proven of values holds, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet.errors import ConfigError, ShapeError
from intnet.export import batch, interpret, writing
from intnet.export import program as p
from intnet.export.program import Program
from intnet.export.values import CODES, FLOAT32
from intnet.methods.method import to_float32
from intnet.models.resnet import BasicBlock, ResNet
from intnet.numbers.qtensor import QTensor
from intnet.spec import models as spec_models
from intnet.training.train import Run
from tests.support.exporting import (
    FEWEST_FIRST,
    INTEGER,
    NETS,
    by_c,
    by_the_definition,
    program_of,
    trained,
    wanted,
)


@pytest.fixture(scope="module", params=FEWEST_FIRST)
def net(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.slow
@pytest.mark.parametrize(("method", "options"), INTEGER, ids=str)
def test_logits_are_those_of_the_definition(net: str, method: str, options: dict[str, Any]) -> None:
    """In plain integers and by the batch, one image at a time: a logit does not depend on the others."""
    run, program = program_of(net, method, options)
    images = run.data.test_images
    made = [interpret.outputs(program, image.reshape(-1).tolist())[-1] for image in images]
    codes, exponents = batch.outputs(program, images)
    assert codes.tolist() == [one.codes for one in made]
    assert exponents.tolist() == [[one.exponent] for one in made]
    given = codes if program.logits.form == FLOAT32 else to_float32(QTensor(codes, exponents))
    some = 8  # as codes and as these they are the same; each takes the definition's time
    wanted = by_the_definition(run, net, images[:some])
    assert [Fraction(float(v)) for v in given[:some].reshape(-1)] == wanted


@pytest.mark.slow
@pytest.mark.parametrize(("method", "options"), INTEGER, ids=str)
def test_what_is_proven_of_values_holds(net: str, method: str, options: dict[str, Any]) -> None:
    """Of black, white and random images, with the shapes that are told."""
    run, program = program_of(net, method, options)
    some = run.data.test_images[:3]
    for image in (*some, np.zeros_like(some[0]), np.full_like(some[0], 255)):
        made = interpret.outputs(program, image.reshape(-1).tolist())
        for (codes, exponent), value in zip(made, program.values, strict=True):
            assert len(codes) == int(np.prod(value.shape))
            if value.form == CODES:
                assert value.lo <= min(codes) and max(codes) <= value.hi
            else:  # multiples of what is told
                assert all((code / Fraction(2) ** value.exponent).denominator == 1 for code in codes)
            assert value.peak < 1 << 63
            assert max(map(abs, codes)) * Fraction(2) ** exponent <= value.reach


@pytest.mark.slow
@pytest.mark.parametrize(("method", "options"), INTEGER, ids=str)
def test_a_mean_over_one_place(
    method: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What a residual network's last stage leaves of small images."""
    shape, widths, blocks = (2, 2, 1), (4, 8), (1, 1)
    net = spec_models.resnet(shape, 3, widths, blocks)
    model = partial(ResNet, "one-place", BasicBlock, widths, blocks, "cifar", shape, 3)
    monkeypatch.setitem(NETS, "one-place", (net, model))
    run = trained("one-place", method, options)
    program, images = writing.of_run(run), run.data.test_images[:4]
    codes, exponents = batch.outputs(program, images)
    given = codes if program.logits.form == FLOAT32 else to_float32(QTensor(codes, exponents))
    assert [Fraction(float(v)) for v in given.reshape(-1)] == by_the_definition(run, "one-place", images)
    assert by_c(program, images, tmp_path, "gcc") == wanted(program, images)


def small(*ops: p.Op, lo: int = -20, hi: int = 20, shape: tuple[int, ...] = (3,)) -> Program:
    return Program((p.Images("images", (), shape, 0, lo, hi), *ops))


@given(
    st.lists(st.integers(-300, 300), min_size=3, max_size=3),
    st.integers(1, 8),
    st.lists(st.integers(1, 30), min_size=3, max_size=3),
    st.none() | st.integers(1, 40),
)
def test_a_round_is_the_exact_quotient_s(x: list[int], num: int, den: list[int], limit: int | None) -> None:
    """The rule in fractions, written out: floor, then up where above the half, or on it and odd."""
    limits = (None, None) if limit is None else (-limit, limit)
    program = small(p.Round("r", (0,), num, np.array(den), 0, *limits), lo=-300, hi=300)
    wanted = []
    for v, d in zip(x, den, strict=True):
        floor, rest = divmod(v * num, d)
        code = floor + (2 * rest > d or (2 * rest == d and floor % 2 == 1))
        wanted.append(code if limit is None else max(-limit, min(limit, code)))
    assert interpret.logits(program, x) == wanted
    assert batch.logits(program, np.array([x])).tolist() == [wanted]
    assert program.logits.lo <= min(wanted) and max(wanted) <= program.logits.hi


@given(st.data())
def test_intervals_are_met_at_their_ends(data: st.DataObject) -> None:
    """A product and an affine reach the interval that is proven of them, with the image that does it."""
    weights = data.draw(st.lists(st.integers(-9, 9), min_size=3, max_size=3))
    a, b = data.draw(st.integers(-5, 5)), data.draw(st.integers(-50, 50))
    ops = (
        p.Product("w", (0,), np.array([weights]), 0),
        p.Affine("a", (1,), np.array([a]), np.array([b]), 0),
    )
    program = small(*ops, lo=-20, hi=20)
    ends = []
    for up in (True, False):
        image = [20 if (w > 0) == up else -20 for w in weights]
        ends += interpret.logits(program, image)
    assert (min(ends), max(ends)) == (program.logits.lo, program.logits.hi)


def test_pools_and_groups() -> None:
    """Padding never wins a maximum and counts 0 in a sum; a group reads its own channels."""
    image = [-5, 7, -3, 2, -8, 1, -9, 4]  # 2 x 2 pixels of 2 channels
    window = ((2, 2), (2, 2), (1, 1))
    greatest = small(p.MaxPool("m", (0,), *window), shape=(2, 2, 2))
    assert interpret.logits(greatest, image) == image
    total = small(p.SumPool("s", (0,), (2, 2), (1, 1), (0, 0)), shape=(2, 2, 2))
    assert interpret.logits(total, image) == [-25, 14]
    weight = np.array([[[[2]]], [[[3]]]])
    grouped = small(p.Product("g", (0,), weight, 0, groups=2), shape=(2, 2, 2))
    assert interpret.logits(grouped, image) == [v * (2, 3)[i % 2] for i, v in enumerate(image)]
    for program in (greatest, total, grouped):
        got = batch.logits(program, np.array([image]).reshape(1, 2, 2, 2))
        assert got.reshape(-1).tolist() == interpret.logits(program, image)


def test_sums_beyond_float64_stay_exact() -> None:
    """2^53 + 1 is no float64."""
    program = small(p.Product("w", (0,), np.array([[1 << 40, 1, 0]]), 0), lo=0, hi=1 << 14)
    image = [1 << 13, 1, 0]
    assert batch.logits(program, np.array([image])).tolist() == [[(1 << 53) + 1]]


def test_what_does_not_fit_is_refused() -> None:
    wide = p.Product("fc1/x1", (0,), np.array([[1 << 40, 1, 1]]), 0)
    with pytest.raises(ConfigError, match=r"fc1/x1: it may need 7\d bits.*saturate"):
        small(wide, lo=-(1 << 31), hi=1 << 31)
    with pytest.raises(ShapeError, match="fc1/x1: weights"):
        small(p.Product("fc1/x1", (0,), np.ones((2, 4), np.int64), 0))
    with pytest.raises(ShapeError, match="not made ahead"):
        small(p.Relu("r", (1,)))


@pytest.mark.parametrize(
    ("method", "options", "line"),
    [
        ("wageubn", {}, r"fc1/x0: wageubn computes it in float32: train it with --set edges=fixed16"),
        ("wageubn", {"edges": "fixed16", "r_a": "to_neg"}, "fc1/x0: it rounds by to_neg, and an exported"),
        ("wageubn", {"edges": "fixed16", "statistics": "batch"}, r"bn1: batch_norm: statistics=batch reads"),
        ("adapt", {"statistics": "batch"}, r"bn1: batch_norm: statistics=batch reads"),
        ("muppet", {"statistics": "batch"}, r"bn1: batch_norm: statistics=batch reads"),
        ("dynasty", {"statistics": "batch"}, r"bn1: batch_norm: statistics=batch reads"),
        ("float32", {}, r"fc1/x0: float32 computes it in float32: export a run of wageubn"),
    ],
)
def test_a_run_without_integers_is_refused(method: str, options: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        writing.of_run(trained("mlp", method, options))


def test_a_program_of_other_logits_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault in one operation, and the run is refused."""
    run: Run = trained("mlp", *INTEGER[0])
    broken = {**batch.RULES, p.Relu: lambda op, out, x: x}
    monkeypatch.setattr(batch, "RULES", broken)
    with pytest.raises(ConfigError, match="other logits than the run"):
        writing.of_run(run)
