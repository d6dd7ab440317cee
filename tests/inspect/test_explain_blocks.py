"""Block float element by element, against blocks, exponents and codes made here in Fractions."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pytest

from intnet.exact.blocks.block_float import quantize_blocks
from intnet.exact.blocks.mx_blocks import Along
from intnet.inspect.explain import Disagreement, Explanation, Rounding, explain
from intnet.inspect.explain_blocks import Block
from intnet.inspect.operands import Operands
from intnet.methods.trace import Event, Recorder
from intnet.numbers.microscaling import MXS
from intnet.numbers.qtensor import QTensor
from intnet.numbers.small_floats import Float
from intnet.runs import run_folder
from intnet.spec.block_float import Index, block_of, places
from intnet.spec.rounding import round_fraction
from intnet.spec.tensor import power
from tests.support.mx_events import event_of, numbers

SAMPLES = 300
DATA = {"x0", "x0b", "e3"}
STATIC = {"Wq", "e3"}


def block_float(x: np.ndarray, bits: int | np.ndarray, axes: tuple[int, int]) -> Event:
    codes = quantize_blocks(x, bits, axes).to_qtensor(x)
    return Event("layer", "x0", 0, x, codes, codes.format, "ties_even")


def way(one: Explanation) -> tuple[Rounding, Block]:
    assert one.rounding is not None and one.rounding.block is not None
    return one.rounding, one.rounding.block


def members(shape: tuple[int, ...], block: Index, axes: tuple[int, ...]) -> list[Index]:
    return [place for place in places(shape) if block_of(place, axes) == block]


def exponent(greatest: Fraction) -> int:
    """The smallest e with greatest < 2^e that a signed byte holds, by trying."""
    return next(e for e in range(-128, 128) if greatest < power(e))


def check(event: Event, at: Index, axes: tuple[int, ...], b: int, of: list[Index]) -> None:
    """Every station of an element of the block with the places `of`."""
    one = explain(event, at)
    r, block = way(one)
    x = Fraction(float(event.source[at]))
    sizes = {place: abs(Fraction(float(event.source[place]))) for place in of}
    greatest = max(sizes.values())
    e = exponent(greatest)
    assert (block.index, block.elements, block.bits) == (block_of(at, axes), len(of), b)
    assert block.greatest == greatest == sizes[block.at] and block.exponent == e
    assert one.value.value == x
    if b == 0 or 0 < greatest < power(-129):
        assert (r.floor, r.rounded, r.kept, r.saturated, one.code, one.stored) == (0, 0, 0, False, 0, 0)
        assert r.scaled is r.remainder is None and r.rule.endswith("a block of zeros")
        return
    scaled, high = x / power(e - b + 1), 2 ** (b - 1) - 1
    assert (r.grid, r.low, r.high, one.exponent) == (e - b + 1, -high, high, e - b + 1)
    assert (r.scaled, r.floor, r.remainder) == (scaled, floor(scaled), scaled - floor(scaled))
    assert r.tie == (scaled - floor(scaled) == Fraction(1, 2))
    assert r.rounded == round_fraction(scaled, "ties_even") == r.floor + r.up
    code = max(-high, min(high, r.rounded))
    assert one.code == r.kept == code and r.saturated == (code != r.rounded)
    assert one.stored == code * power(e - b + 1)
    assert one.width == b and int(one.binary, 2) == code % 2**b


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "axes"), [((7, 9), (0, 1)), ((5, 2, 3, 6), (0, 3)), ((5, 6, 2, 3), (0, 1))]
)
def test_every_element_of_blocks_of_all_widths(shape: tuple[int, ...], axes: tuple[int, int]) -> None:
    """With edges, blocks of zeros, of subnormals, ties and saturation."""
    rng = np.random.default_rng(3)
    x = (rng.integers(-40, 41, shape) / 4 * 2.0 ** rng.integers(-6, 6, shape)).astype(np.float32)
    first = {place: block_of(place, axes) for place in places(shape)}
    blocks = list(dict.fromkeys(first.values()))
    b = {block: (0, 2, 4, 6, 8)[k % 5] for k, block in enumerate(blocks)}
    for place, block in first.items():
        if block == blocks[1]:
            x[place] = 0
        elif block == blocks[2]:
            x[place] = np.ldexp(x[place] / 1024, -129)
        elif block == blocks[3]:
            x[place] = np.ldexp(x[place], -133)
    bits = np.zeros([max(i) + 1 for i in zip(*blocks, strict=True)], np.uint8)
    for block, width in b.items():
        bits[block] = width
    event = block_float(x, bits, axes)
    for place, block in first.items():
        check(event, place, axes, b[block], members(shape, block, axes))


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"forward_dynamic": "weight"}])
def test_elements_of_a_training_step(options: dict[str, str]) -> None:
    """In the second epoch: the widths of the map that the first one ended with."""
    options |= {"bits": "2", "gamma": "0"}
    run = run_folder.build("dynasty", options, "resnet8", "digits", 32, 3, limit=64)
    run.train(2)
    stores: dict[str, tuple[Any, Any]] = {
        layer.name: (layer.weight.slots, layer.buffers)
        for layer in run.model.all_layers()
        if layer.takes_weight
    }
    kept = {name: tuple(dict(store) for store in both) for name, both in stores.items()}
    seen, chosen, widths = Recorder(), random.Random(5), set()
    run.train(3, observe_last=[seen])
    operands = Operands(seen.events, run.method.SYMBOLS)
    for name, event in seen.events.items():
        layer, path = name.split("/")
        shape = event.result.shape
        if event.format is None:
            assert not isinstance(event.result, QTensor)
            continue
        axes = (0, len(shape) - 1 if path in DATA else 1)
        dynamic = path in ("Wb", "x0b") or (path == "x0" and not options.get("forward_dynamic"))
        store = kept[layer][path[0] == "x"] if dynamic else {}
        for _ in range(SAMPLES // 8):
            at = tuple(chosen.randrange(size) for size in shape)
            block = block_of(at, axes)
            low = [4 * i if axis in axes else i for axis, i in enumerate(block)]
            near = [range(i, min(i + (4 if axis in axes else 1), shape[axis])) for axis, i in enumerate(low)]
            inside = [
                tuple(near[axis][k] for axis, k in enumerate(p)) for p in places([len(r) for r in near])
            ]
            b = 2 * floor(Fraction(float(store["b"][block])) / 2 + Fraction(1, 2)) if "b" in store else 8
            assert "b" in store or not dynamic or (layer == "conv1" and path == "x0")
            check(event, at, axes, b, inside)
            assert explain(event, at, operands).formula
            widths.add(b)
    assert widths == {0, 2, 4, 6, 8}


def test_codes_and_exponents_that_are_not_what_exact_arithmetic_reaches() -> None:
    x = np.arange(-8, 8, dtype=np.float32).reshape(4, 4) / 4
    event = block_float(x, 4, (0, 1))
    stored = event.result
    for codes, exponents in (
        (stored.codes + (np.arange(16).reshape(4, 4) == 5), stored.exponent),
        (stored.codes, stored.exponent + np.int16(1)),  # as of an odd b
        (stored.codes, stored.exponent - np.int16(2)),  # as of 6 bits, more than the format has
        (stored.codes, stored.exponent + np.int16(9)),
        (stored.codes, stored.exponent + (np.arange(16).reshape(4, 4) == 6).astype(np.int16)),
    ):
        wrong = QTensor(codes.astype(np.int8), exponents, stored.format, status=stored.status)
        with pytest.raises(Disagreement, match="layer/x0 1,1"):
            explain(replace(event, result=wrong), (1, 1))


@pytest.mark.parametrize("dynamic", ["activation", "weight"])
def test_products_of_block_float_name_their_factors(dynamic: str) -> None:
    run = run_folder.build("dynasty", {"forward_dynamic": dynamic}, "mlp", "digits", 8, limit=16)
    seen = Recorder()
    run.train(1, observe_last=[seen])
    operands = Operands(seen.events, run.method.SYMBOLS)
    rows, columns = seen["fc2/Wb"].shape
    w, x = ("Wq", "x0") if dynamic == "activation" else ("Wb", "x0b")
    for path, factors, terms in (
        ("x1", (w, "x0"), columns),
        ("e4", ("Wb", "e3"), rows),
        ("gW", ("e3", x), 8),
    ):
        product = operands.product(seen.events[f"fc2/{path}"])
        assert product is not None
        assert product.factors == tuple(f"fc2/{name}" for name in factors) and product.terms == terms


@pytest.mark.parametrize("name", [name for name, form in MXS.items() if isinstance(form.element, Float)])
def test_the_word_of_an_element_in_an_mx_block(name: str) -> None:
    """Read as its three fields say, times the scale, it is what is stored; a zero has its source's sign."""
    x, form = numbers(4), MXS[name]
    assert isinstance(form.element, Float)
    event, _ = event_of(x, Along(form, 1), "ties_even")
    zeros = set()
    for flat in range(0, x.size, 7):
        index = tuple(map(int, np.unravel_index(flat, x.shape)))
        one = explain(event, index)
        assert one.rounding is not None and one.rounding.shared is not None
        sign, exponent, fraction = (int(part, 2) for part in one.element.split())
        size = (exponent > 0) + Fraction(fraction, 1 << form.element.m)
        size *= power(max(exponent, 1) - (1 << form.element.e - 1) + 1 + one.rounding.shared.k)
        assert (-size if sign else size) == one.stored and sign == np.signbit(x[index])
        zeros |= {sign} if not size else set()
    assert zeros == {0, 1}
