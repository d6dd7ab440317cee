"""Blocks of four channels: sums at any exponents are rounded once, in NumPy, C and ONNX Runtime."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet import FixedPoint, methods, quantize
from intnet.errors import ConfigError, NumberError, ShapeError
from intnet.exact.blocks.block_float import quantize_blocks
from intnet.export import batch, c_blocks, digits, interpret, memories, writing
from intnet.export import program as p
from intnet.export.program import Program
from intnet.export.trace import block_product, trace
from intnet.methods.trace import Event
from tests.support.exporting import NETS, by_c, by_runtime, by_the_definition, trained, wanted
from tests.support.zoo import KINDS

BITS = (0, 2, 4, 6, 8)


def images_of(shape: tuple[int, ...], exponent: int, limit: int = 32767) -> p.Images:
    return p.Images("images", (), shape, exponent, -limit, limit)


def row(exponent: int, channels: int, *ops: p.Op) -> Program:
    """Of one pixel, as a row at place 1."""
    return Program((images_of((1, 1, channels), exponent), p.Flatten("flat", (0,)), *ops))


def everywhere(program: Program, images: np.ndarray, folder: Path | None = None) -> None:
    """In NumPy as in fractions, and with a folder in C and ONNX Runtime as in NumPy."""
    made = [interpret.outputs(program, image.reshape(-1).tolist())[-1].real() for image in images]
    got = batch.logits(program, images)
    assert [[Fraction(v) for v in line] for line in got.reshape(len(got), -1).tolist()] == made
    if folder is not None:
        assert by_c(program, images, folder, "gcc") == wanted(program, images)
        assert by_runtime(program, images)[0].tolist() == got.tolist()


def far_apart(seed: int, exponent: int) -> Program:
    """Weights of 12 outputs whose blocks are up to 220 bits apart, signs so that sums cancel."""
    rng = np.random.default_rng(seed)
    weight = rng.integers(-127, 128, (12, 10))
    weight[:, 1], weight[4:, 5] = -weight[:, 0], -weight[4:, 4]
    steps = rng.choice([0, 1, 9, 10, 40, 220 - seed], (3, 3)).astype(np.int64)
    steps[0, 0] = 0
    product = p.BlockProduct("fc/x1", (2,), weight, exponent, steps)
    return row(-8, 10, p.Blocks("fc/x0", (1,), np.array([8])), product)


def some_images(channels: int, seed: int = 4) -> np.ndarray:
    """Of magnitudes that differ from block to block; first two channels alike, zeros among them."""
    rng = np.random.default_rng(seed)
    images = rng.integers(-32767, 32768, (40, 1, 1, channels)) >> rng.integers(0, 16, (40, 1, 1, channels))
    images[..., 1] = images[..., 0]
    images[::7, ..., 4:] = 0
    images[5] = 0
    return images.astype(np.int16)


@pytest.mark.slow
@pytest.mark.parametrize("exponent", [-230, -180, -140, -115])
def test_sums_at_any_exponents(exponent: int) -> None:
    """Down to float32's subnormal numbers and zero."""
    for seed in range(4):
        everywhere(far_apart(seed, exponent if seed else exponent - 20), some_images(10, seed))


@pytest.mark.slow
@pytest.mark.parametrize("exponent", [-230, -180, -140])
def test_sums_at_any_exponents_elsewhere(exponent: int, tmp_path: Path) -> None:
    everywhere(far_apart(1, exponent), some_images(10), tmp_path)


def of_bits(bits: list[int], exponent: int, channels: int) -> Program:
    """The identity after blocks of so many bits."""
    one = np.eye(channels, dtype=np.int64)
    steps = np.zeros((-(-channels // 4),) * 2, np.int64)
    return row(
        exponent, channels, p.Blocks("x0", (1,), np.array(bits)), p.BlockProduct("x1", (2,), one, 0, steps)
    )


@pytest.mark.slow
@pytest.mark.parametrize("exponent", [-4, -136, -145])
def test_every_width_and_tie(exponent: int, tmp_path: Path) -> None:
    """At 2^-136 and below some blocks are zero, and e ends at -128; 18 channels leave a block of two."""
    images = np.array(
        [np.arange(k, k + 18) * (-1) ** k * 2 ** (k % 8) for k in range(-60, 60)], np.int16
    ).reshape(-1, 1, 1, 18)
    everywhere(of_bits(list(BITS), exponent, 18), images, tmp_path if exponent == -136 else None)


def test_the_blocks_are_those_of_training() -> None:
    """What `quantize_blocks` makes of a batch of one image, which the definition judges elsewhere."""
    x = (np.random.default_rng(2).standard_normal((1, 3, 3, 7)) * 40).astype(np.int16)
    bits = np.random.default_rng(3).choice(BITS, (3, 3, 2))
    given = quantize_blocks(x.astype(np.float32) / 16, bits[None].astype(np.uint8), (0, 3))
    images = images_of((3, 3, 7), -4)
    program = Program((images, p.Blocks("x0", (0,), bits)))
    assert np.array_equal(batch.logits(program, x), given.values)


# A sum 2^24 + 1 of units is a tie of float32, which what is far below decides.
TIE = [
    ([4096, 1, 0], 0, 2.0**24),
    ([4096, 1, 1], 0, 2.0**24 + 2),
    ([4096, 1, -1], 0, 2.0**24),
    ([-4096, -1, -1], 0, -(2.0**24) - 2),
    ([-4096, 4096, 1], 0, 2.0**-60),
]


def tied(codes: list[int]) -> tuple[Program, np.ndarray]:
    """64 2^6 2^12 + ..: 4096 codes count 4096, one in the next block 1, one in the last 2^-60."""
    image = np.zeros((1, 1, 1, 12), np.int16)
    weight = np.zeros((1, 12), np.int64)
    weight[0, [0, 1, 4, 8]] = 64, 64, 1, 1
    steps = np.array([[66, 60, 0]])
    if codes[1] == 4096:
        image[0, 0, 0, [0, 1]] = codes[:2]
    else:
        image[0, 0, 0, [0, 4]] = codes[:2]
    image[0, 0, 0, 8] = codes[2]
    return row(
        0, 12, p.Blocks("x0", (1,), np.array([8])), p.BlockProduct("x1", (2,), weight, -60, steps)
    ), image


@pytest.mark.slow
@pytest.mark.parametrize(("codes", "_", "sum_"), TIE)
def test_what_is_far_below_decides_ties(codes: list[int], _: int, sum_: float, tmp_path: Path) -> None:
    program, image = tied(codes)
    assert batch.logits(program, image).tolist() == [[sum_]]
    everywhere(program, image, tmp_path)


def windowed(groups: int) -> Program:
    """A convolution in groups whose blocks are cut anywhere, its greatest and its means, and a join."""
    rng = np.random.default_rng(groups)
    channels = 6
    weight = rng.integers(-127, 128, (channels, channels // groups, 3, 2))
    steps = rng.integers(0, 14, (2, -(-channels // groups // 4), 3, 2))
    steps[0] = 0
    b = rng.standard_normal(channels).astype(np.float32)
    ops = (
        images_of((5, 6, channels), -6, 900),
        p.Blocks("x0", (0,), rng.choice(BITS, (5, 6, 2))),
        p.BlockProduct("x1", (1,), weight, -12, steps, (1, 2), (1, 0), groups),
        p.Plus("x1", (2,), b),
        p.MaxPool("greatest", (3,), (3, 3), (1, 1), (1, 1)),
        p.MeanPool("means", (3,), (3, 3), (1, 1), (1, 1)),
        p.Plus("join", (4, 5)),
        p.Norm("bn/x3", (6,), b, abs(b) + 1, b + 1, -b, 0),
        p.Relu("relu", (7,)),
        p.Flatten("flat", (8,)),
    )
    return Program(ops)


@pytest.mark.slow
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_groups_pools_and_joins(groups: int, tmp_path: Path) -> None:
    images = np.random.default_rng(9).integers(-900, 901, (6, 5, 6, 6)).astype(np.int16)
    images[0] = -abs(images[0])
    everywhere(windowed(groups), images, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("bits", [[[[4, 2], [0, 8], [6, 4]]], [[[2, 6]]], [6]], ids=str)
def test_widths_of_maps_of_one_row(bits: Any, tmp_path: Path) -> None:
    """An image of one row, or of one pixel, has a width a block all the same."""
    widths, rng = np.array(bits), np.random.default_rng(2)
    pixels = widths.shape[1] if widths.ndim == 3 else 3
    images = rng.integers(-900, 901, (9, 1, pixels, 8)).astype(np.int16)
    one, steps = np.eye(8, dtype=np.int64).reshape(8, 8, 1, 1), np.zeros((2, 2, 1, 1), np.int64)
    ops = (
        images_of((1, pixels, 8), -6, 900),
        p.Blocks("x0", (0,), widths),
        p.BlockProduct("x1", (1,), one, 0, steps),
        p.Flatten("flat", (2,)),
    )
    program = Program(ops)
    everywhere(program, images, tmp_path)
    held = {one.told: one.codes.tolist() for one in memories.constants(program)}
    assert held.get("bits of x0") == (bits if widths.size > 1 else None)


@pytest.mark.slow
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize(
    "options",
    [{"bits": 1.0}, {"bits": 1.0, "forward_dynamic": "weight"}, {"map": "uniform", "bits": 0}],
    ids=str,
)
def test_maps(net: str, options: dict[str, Any], tmp_path: Path) -> None:
    """Of several epochs: widths that are mixed, of some blocks 0, of activations or of weights."""
    run = trained(net, "dynasty", options, steps=10)
    program, images = writing.of_run(run), run.data.test_images
    widths = {int(b) for op in program.ops if isinstance(op, p.Blocks) for b in op.bits.reshape(-1)}
    if options == {"bits": 1.0}:
        assert widths > {0, 2}
    got = batch.logits(program, images)
    some = [Fraction(v) for v in got[:4].reshape(-1).tolist()]
    assert some == by_the_definition(run, net, images[:4])
    assert by_c(program, images, tmp_path, "clang") == wanted(program, images)
    assert by_runtime(program, images)[0].tolist() == got.tolist()


@pytest.mark.slow
def test_depthwise(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Groups of one channel, of which blocks hold four, and means of an image."""
    monkeypatch.setitem(NETS, "grouped", KINDS["grouped"])
    run = trained("grouped", "dynasty", {"bits": 3.0})
    program, images = writing.of_run(run), run.data.test_images[:4]
    assert any(isinstance(op, p.BlockProduct) and op.groups == 36 for op in program.ops)
    got = batch.logits(program, images)
    assert [Fraction(v) for v in got.reshape(-1).tolist()] == by_the_definition(run, "grouped", images)
    assert by_c(program, images, tmp_path, "gcc") == wanted(program, images)
    assert by_runtime(program, images)[0].tolist() == got.tolist()


def test_memories_have_codes_steps_and_widths() -> None:
    program = writing.of_run(trained("lenet", "dynasty", {"bits": 1.0}, steps=10))
    held = {constant.told: constant for constant in memories.constants(program)}
    texts = {name: content.decode() for name, content in memories.files(program)}
    for place, op in enumerate(program.ops):
        if isinstance(op, p.BlockProduct):
            assert np.array_equal(held[f"weight of {op.name}"].codes, op.weight)
            assert np.array_equal(held[f"steps of {op.name}"].codes, op.steps)
        assert re.search(rf"^ *{place}  \w+\(.*\)  {re.escape(op.name)}", texts["program.txt"], re.MULTILINE)
    assert held["float32 b of fc/x1"].codes.dtype == np.int32
    assert any(told.startswith("bits of") for told in held)


def test_weights_in_blocks_are_their_values() -> None:
    """Of blocks without bits, too, whose exponent would be another."""
    rng = np.random.default_rng(1)
    w = (rng.standard_normal((6, 9)) * np.exp(rng.standard_normal((6, 1)) * 9)).astype(np.float32)
    w[:4, :4] = 0
    blocks = quantize_blocks(w, rng.choice(BITS, (2, 3)).astype(np.uint8), (0, 1))
    op = block_product("fc/x1", 0, blocks)
    back = np.ldexp(op.weight.astype(np.float64), op.exponent + op.each)
    assert np.array_equal(back, blocks.values) and int(op.steps.min()) == 0


def test_what_does_not_fit_is_refused() -> None:
    weight, steps = np.full((1, 4), 127), np.zeros((1, 1), np.int64)
    eight = p.Blocks("fc/x0", (1,), np.array([8]))
    with pytest.raises(ConfigError, match=r"fc/x1: its float32 may be beyond 2\^127"):
        row(0, 4, eight, p.BlockProduct("fc/x1", (2,), weight, 110, steps))
    with pytest.raises(ShapeError, match=r"fc/x1: it reads codes where blocks are wanted"):
        row(0, 4, p.BlockProduct("fc/x1", (1,), weight, 0, steps))
    with pytest.raises(ShapeError, match=r"fc/x1: it reads blocks where codes are wanted"):
        row(0, 4, eight, p.Product("fc/x1", (2,), weight, 0))
    with pytest.raises(ShapeError, match=r"fc/x0: bits \(2,\) up to 8 for a value of shape"):
        row(0, 4, p.Blocks("fc/x0", (1,), np.array([8, 8])))
    with pytest.raises(ConfigError, match=r"fc/x0: codes up to \d+, beyond those that float32"):
        Program((images_of((4,), 0, 1 << 25), p.Blocks("fc/x0", (0,), np.array([8]))))
    for step in (-1, 1 << 40):
        with pytest.raises(ShapeError, match=rf"x1: steps \(1, 1\) of {step}\.\.{step} for weights"):
            row(0, 4, eight, p.BlockProduct("x1", (2,), weight, 0, steps + step))
    wide = np.ones((1, (1 << 20) + 4), np.int64)
    with pytest.raises(ConfigError, match=r"fc/x1: 1,048,580 products of 8 bits a sum"):
        ops = p.Blocks("x0", (0,), np.array([8])), p.BlockProduct("fc/x1", (1,), wide, 0, wide[:, ::4] - 1)
        Program((images_of(wide.shape[1:], -9, 255), *ops))
    with pytest.raises(NumberError, match=r"b: NaN or infinity"):
        b = np.full(1, np.nan, np.float32)
        row(0, 4, eight, p.BlockProduct("x1", (2,), weight, 0, steps), p.Plus("b", (3,), b))


class Coarse(methods.Dynasty):
    """What stands between products is rounded to codes."""

    def activation(self, layer: Any, path: str, value: Any) -> Any:
        if path != "x3":
            return super().activation(layer, path, value)
        made = quantize(value, FixedPoint(8, 4))
        self.emit(Event(layer.name, path, self.step, value, made, made.format, "ties_even"))
        return made


def test_a_rounding_of_float32_is_refused() -> None:
    """Of a method of a user's own, which no operation of a program does."""
    run = trained("mlp", "dynasty", {}, steps=2)
    coarse = Coarse()
    coarse.state = run.method.state
    with pytest.raises(ConfigError, match=r"bn1/x3: dynasty computes it in float32"):
        trace(run.model, coarse, run.data.test_images, run.data.exponent)


# -- seeded faults ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("helper", "fault", "by"),
    [
        ("rounded(", "odd |= digits[k] != 0;", "odd |= 0;"),
        ("rounded(", "if (v > -268435456", "if (v > -1048576"),
        ("blocked(", "v > limit ? limit", "v > limit + 1 ? limit"),
        ("blocked(", "top >= power;", "top > power;"),
    ],
)
def test_a_fault_in_c_is_seen(
    helper: str, fault: str, by: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On a tie that what is below decides, of both signs, and on codes at their limit."""
    if helper == "rounded(":
        cases = [tied(codes) for codes in ([4096, 1, 1], [-4096, -1, -1])]
    else:
        full = np.array([255, 128, -255, 1], np.int16).reshape(1, 1, 1, 4)
        cases = [(of_bits([8], 0, 4), full), (of_bits([8], 0, 4), full // 2)]
    assert all(by_c(program, image, tmp_path, "gcc") == wanted(program, image) for program, image in cases)
    text = c_blocks.HELPERS[helper]
    assert fault in text
    monkeypatch.setitem(c_blocks.HELPERS, helper, text.replace(fault, by))
    assert any(by_c(program, image, tmp_path, "gcc") != wanted(program, image) for program, image in cases)


def test_too_few_bits_ahead_of_the_rounding_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digits, "ENOUGH", 1 << 12)
    program, image = tied([4096, 1, 1])
    assert batch.logits(program, image).tolist() != [[2.0**24 + 2]]
