"""tanh, sigmoid and SiLU in programs, the definition's codes as stairs; adaptive pools of even windows."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet import methods, models
from intnet.autograd import Tensor
from intnet.datasets import Dataset
from intnet.errors import CheckpointError, ConfigError, ShapeError
from intnet.export import batch, c_source, curves, interpret, memories, model_file, onnx_model, writing
from intnet.export import program as p
from intnet.export.program import Program
from intnet.layers import AdaptiveAvgPool2d, Conv2d, Flatten, Linear, Sigmoid, SiLU
from intnet.methods.method import Method
from intnet.models.model import Model
from intnet.numbers.rounding import Rounding
from intnet.ops.curves import Silu
from intnet.runs import archive
from intnet.spec.curves import curve_round
from intnet.training.inference import all_logits
from intnet.training.train import Run
from tests.support.exporting import by_c, by_runtime, images_for, wanted

FIXED = {"edges": "fixed16", "saturate": 0}


class Curved(Model):
    """Sigmoid, SiLU, and a pool of 2x2 means whatever the image's size."""

    def __init__(self, side: int = 8) -> None:
        super().__init__("curved", (side, side, 1), 10)
        self.conv1, self.sigmoid1 = Conv2d(1, 2, 3, padding=1, bias=True), Sigmoid()
        self.pool1 = AdaptiveAvgPool2d(2)
        self.fc1, self.silu1 = Linear(8, 6), SiLU()
        self.fc2, self.flatten = Linear(6, 10), Flatten()
        self.finish()

    def forward(self, x: Tensor, method: Method) -> Tensor:
        x = self.pool1(self.sigmoid1(self.conv1(x, method), method), method)
        x = self.silu1(self.fc1(self.flatten(x, method), method), method)
        return self.fc2(x, method)


def trained(model: Model, method: str, options: dict[str, Any]) -> Run:
    labels = np.arange(12) % 10
    images, others = images_for(model, 12), images_for(model, 9, 5)
    data = Dataset("random bytes", images, labels, others, labels[:9], -8, 10)
    run = Run(model, methods.make(method, **options), data, 6, 5)
    run.train(2)
    return run


def lenet5_tanh() -> Model:
    return models.make("lenet5-tanh", (12, 12, 1), 10)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("net", "method", "options"),
    [(lenet5_tanh, "wageubn", FIXED), (lenet5_tanh, "adapt", {}), (Curved, "wageubn", FIXED)],
)
def test_every_logit(net: Any, method: str, options: dict[str, Any], tmp_path: Path) -> None:
    """Of the run, of the reference, of C and of the packed file."""
    run = trained(net(), method, options)
    program, images = writing.of_run(run), run.data.test_images
    assert any(isinstance(op, p.Curve) for op in program.ops)
    got = batch.logits32(program, images)
    assert np.array_equal(got, all_logits(run.model, run.method, images, run.data.exponent))
    assert (
        interpret.logits(program, images[0].reshape(-1).tolist()) == batch.logits(program, images)[0].tolist()
    )
    assert by_c(program, images, tmp_path, "gcc") == wanted(program, images)
    model_file.save(tmp_path / "m.npz", program)
    assert np.array_equal(
        batch.logits(model_file.load(tmp_path / "m.npz")[0], images), batch.logits(program, images)
    )
    names = [name for name, _ in memories.files(program)]
    assert any("steps" in name for name in names) and len(set(names)) == len(names)


def test_tabulating_leaves_no_trace() -> None:
    """What a table saturates is not the run's."""
    run = trained(lenet5_tanh(), "adapt", {})
    before = dict(run.method.saturated), run.digest()
    writing.of_run(run)
    seen = {name: count for name, count in run.method.saturated.items() if name.startswith("tanh")}
    assert seen == {name: count for name, count in before[0].items() if name.startswith("tanh")}
    assert run.digest() == before[1]


def stairs(exponent: int, lo: int, hi: int) -> Program:
    """tanh at 2^exponent, to codes of 7 bits after the point, halved."""

    def at(x: np.ndarray) -> np.ndarray:
        return np.array(
            [curve_round("tanh", Fraction(int(v)) * Fraction(2) ** exponent, -7) for v in x], np.int64
        )

    few, curves.FEW = curves.FEW, 0
    try:
        steps, codes = curves.staircase(lo, hi, at, True, "tanh")
    finally:
        curves.FEW = few
    images = p.Images("images", (), (1, 1, 1), exponent, lo, hi)
    return Program((images, p.Flatten("flat", (0,)), p.Curve("t", (1,), steps, codes, -7)))


def test_halving_finds_every_step() -> None:
    """Against the definition at every code; the coarse curve skips codes."""
    for exponent, lo, hi in ((-6, -300, 290), (-3, -40, 33), (-6, 7, 7), (-6, 900, 950)):
        program = stairs(exponent, lo, hi)
        for code in range(lo, hi + 1):
            right = curve_round("tanh", Fraction(code) * Fraction(2) ** exponent, -7)
            assert interpret.logits(program, [code]) == [right]


@pytest.mark.slow
def test_wide_codes_beside_every_step(tmp_path: Path) -> None:
    """33 bits: at a step and one below, by the definition, in NumPy and in C."""
    program = stairs(-24, -(1 << 30) + 1, (1 << 30) - 1)
    curve = program.ops[2]
    assert isinstance(curve, p.Curve) and curve.steps.size == 256 and program.logits.lo == -128
    codes = np.unique(np.concatenate([curve.steps, curve.steps - 1]))
    right = [[curve_round("tanh", Fraction(int(v)) / (1 << 24), -7)] for v in codes]
    images = codes.astype(np.int32).reshape(-1, 1, 1, 1)
    assert batch.logits(program, images).tolist() == right
    assert by_c(program, images, tmp_path, "gcc") == right


@pytest.mark.slow
@pytest.mark.parametrize("hi", [900, 1 << 20])
def test_onnx_by_table_and_by_halves(hi: int) -> None:
    program = stairs(-6, -300, hi)
    images = np.arange(-300, 900).astype(np.int16 if hi == 900 else np.int32).reshape(-1, 1, 1, 1)
    codes, nodes = by_runtime(program, images)
    assert codes.tolist() == batch.logits(program, images).tolist()
    assert ("GreaterOrEqual" in nodes) == (hi > onnx_model.TABLE)


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 7, 8, 255, 256, 65536])
def test_onnx_finds_every_step_by_halves(count: int) -> None:
    """At each step and one below, by counting; 65,536 steps would be gigabytes if they were counted there."""
    rng = np.random.default_rng(count)
    steps = np.unique(rng.integers(-(1 << 29), 1 << 29, 2 * count))[:count].astype(np.int64)
    levels = rng.integers(-99, 99, count + 1)
    ends = -(1 << 30) + 1, (1 << 30) - 1
    curve = p.Curve("s", (1,), steps, levels, -5)
    program = Program((p.Images("images", (), (1, 1, 1), -6, *ends), p.Flatten("flat", (0,)), curve))
    codes = np.unique(np.concatenate([steps, steps - 1, ends]))
    found, nodes = by_runtime(program, codes.astype(np.int32).reshape(-1, 1, 1, 1))
    assert found.reshape(-1).tolist() == [int(levels[np.sum(steps <= v)]) for v in codes]
    assert nodes["GreaterOrEqual"] == max(count.bit_length(), 1)


def test_silu_falls_and_rises() -> None:
    at = curves.rounded("silu", lambda curve: curve, -6)(np.arange(-500, 400))
    assert isinstance(at, Silu)
    codes, _ = at.round_to(-5, Rounding(where="silu"))
    steps, levels = curves.staircase(-500, 399, lambda x: codes[x + 500].astype(np.int64), False, "silu")
    assert np.any(np.diff(levels) < 0) and np.any(np.diff(levels) > 0)
    curve = p.Curve("s", (0,), steps, levels, -5)
    program = Program((p.Images("images", (), (1,), -6, -500, 399), curve))
    right = [curve_round("silu", Fraction(v, 64), -5) for v in range(-500, 400, 7)]
    assert [interpret.logits(program, [v])[0] for v in range(-500, 400, 7)] == right


@pytest.mark.parametrize(
    ("net", "method", "options", "line"),
    [
        (lenet5_tanh, "muppet", {}, r"tanh1/x4: tanh of codes whose scale follows the image"),
        (lenet5_tanh, "dynasty", {}, r"tanh1/x4: dynasty computes it in float32: its products are"),
        (lambda: Curved(7), "adapt", {}, r"windows of 7x7 into 2x2 differ in size"),
    ],
)
def test_what_has_no_table_is_refused(net: Any, method: str, options: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        writing.of_run(trained(net(), method, options))


def test_too_wide_a_curve_is_refused() -> None:
    """Where nothing says that it rises, and where it reaches too many codes."""
    with pytest.raises(ConfigError, match=r"silu1/x4: a curve of 2,097,152 codes, too many for a table"):
        curves.staircase(-(1 << 20), (1 << 20) - 1, lambda x: x // (1 << 19), False, "silu1/x4")
    with pytest.raises(ConfigError, match="too many for a table"):
        curves.staircase(-(1 << 20), (1 << 20) - 1, lambda x: x // 8, True, "tanh1/x4")


def test_forged_steps_are_named(tmp_path: Path) -> None:
    program = stairs(-6, -300, 290)
    model_file.save(tmp_path / "m.npz", Program(program.ops, {**ABOUT}))
    arrays, description = archive.load(tmp_path / "m.npz", model_file.KIND)
    description["ops"][2]["tensors"]["steps"]["shape"] = [3]
    archive.save(tmp_path / "m.npz", model_file.KIND, arrays, description)
    with pytest.raises(CheckpointError, match="--to npz"):
        model_file.load(tmp_path / "m.npz")
    with pytest.raises(ShapeError, match="ascending steps"):
        Program((*program.ops[:2], p.Curve("t", (1,), np.array([3, 3]), np.array([1, 2, 3]), 0)))


ABOUT = {"model": "m", "data": "d", "classes": 1, "steps": 0, "state_sha256": "", "batch_norm": None}


def test_a_fault_in_the_search_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = stairs(-6, -300, 290)
    images = np.arange(-300, 291).astype(np.int16).reshape(-1, 1, 1, 1)
    assert by_c(program, images, tmp_path, "gcc") == wanted(program, images)
    source = c_source.source

    def faulty(given: Program) -> Any:
        text, sizes = source(given)
        assert "[middle] <= v" in text
        return text.replace("[middle] <= v", "[middle] < v"), sizes

    monkeypatch.setattr(c_source, "source", faulty)
    assert by_c(program, images, tmp_path, "gcc") != wanted(program, images)
