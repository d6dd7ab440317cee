"""Packs of DYNASTY's layers, read as text: codes, exponents, products and sensitivities made again here."""

from __future__ import annotations

import shutil
import struct
from collections import defaultdict
from fractions import Fraction
from math import floor
from pathlib import Path

import numpy as np
import pytest

from intnet.exact.blocks.block_float import quantize_blocks
from intnet.inspect.trail import block_trail
from intnet.packs import check, layers, pack
from intnet.runs import run_folder
from intnet.spec import convolution as ops
from intnet.spec.block_float import Index, block_of, places
from intnet.spec.float32 import to_float32
from intnet.spec.rounding import round_fraction
from intnet.spec.tensor import Tensor, power
from tests.support.devices import give, good
from tests.support.forging import forge
from tests.support.plain_pack import Plain

CONV = ("layer2.0.conv1", "layer2.0.bn1", "layer2.0.relu1")
LAYERS = [("mlp", "fc2"), ("resnet8", CONV[0])]
OPTIONS = {"bits": "2", "gamma": "0"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The last step of the second epoch: a map is in use, and S has a batch."""
    out = {}
    for model, names in (("mlp", ("fc2", "bn2", "relu2")), ("resnet8", CONV)):
        run = run_folder.build("dynasty", OPTIONS, model, "digits", batch_size=5, limit=10)
        run.train(3)
        out[model] = pack.write(layers.draft(run, names), tmp_path_factory.mktemp("blocks") / model)
    return out


def axes_of(plain: Plain, name: str) -> list[int]:
    return [k for k, text in enumerate(plain.ports[f"{name}.e"]["axes"].split(",")) if text.endswith("/4")]


def by_block(plain: Plain, name: str) -> dict[Index, list[int]]:
    """Block -> where its elements are, in C order; blocks in the order of the port of e."""
    found: dict[Index, list[int]] = defaultdict(list)
    for k, place in enumerate(places(plain.ports[name]["shape"])):
        found[block_of(place, axes_of(plain, name))].append(k)
    return {block: found[block] for block in places(plain.ports[f"{name}.e"]["shape"])}


def bits_of(plain: Plain, name: str) -> list[int]:
    """b of the blocks."""
    bits = plain.ports[name]["rounding"]["bits"]
    return plain.values(bits) if isinstance(bits, str) else [bits] * len(plain.values(f"{name}.e"))


def real(plain: Plain, name: str) -> Tensor:
    """The exact values: code * 2^(e - b + 1)."""
    codes = plain.values(name)
    values = [Fraction(0)] * len(codes)
    told = zip(by_block(plain, name).values(), plain.values(f"{name}.e"), bits_of(plain, name), strict=True)
    for inside, e, b in told:
        for k in inside:
            values[k] = codes[k] * power(e - b + 1)
    return Tensor(tuple(plain.ports[name]["shape"]), values)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "layer"), LAYERS)
def test_codes_and_exponents_are_those_of_the_blocks(
    model: str, layer: str, folders: dict[str, Path]
) -> None:
    plain, seen = Plain(folders[model]), set()
    for path in ("x0", "Wq", "Wb", "e3"):
        name = f"{layer}/{path}"
        source = plain.expression(plain.ports[name]["rounding"]["source"])
        codes, exponents, bits = plain.values(name), plain.values(f"{name}.e"), bits_of(plain, name)
        for (block, inside), e, b in zip(by_block(plain, name).items(), exponents, bits, strict=True):
            top = max(abs(source[k]) for k in inside)
            assert e == next(e for e in range(-128, 128) if top < power(e)), (name, block)
            high = 2 ** (b - 1) - 1 if b else 0
            for k in inside:
                wanted = round_fraction(source[k] / power(e - b + 1), "ties_even")
                assert codes[k] == max(-high, min(high, wanted)), (name, block)
            seen.add(b)
        if path in ("x0", "Wb"):  # the map in use, from the smoothed widths
            b = plain.reals(f"{layer}/b_{path.replace('Wb', 'W')}.old")
            assert bits == [2 * floor(width / 2 + Fraction(1, 2)) for width in b]
        else:
            assert plain.ports[name]["rounding"]["bits"] == 8
    assert seen >= {0, 2, 4, 8}


@pytest.mark.slow
@pytest.mark.parametrize(("model", "layer"), LAYERS)
def test_products_are_exact_and_rounded_once(model: str, layer: str, folders: dict[str, Path]) -> None:
    """In integers, over the product of both operands' denominators."""
    plain = Plain(folders[model])
    reals = [real(plain, f"{layer}/{path}") for path in ("x0", "Wq", "Wb", "e3")]
    dens = [max(value.denominator for value in one.values) for one in reals]  # powers of two
    x, wq, wb, e = (
        Tensor(one.shape, [value.numerator * (den // value.denominator) for value in one.values])
        for one, den in zip(reals, dens, strict=True)
    )
    how = () if model == "mlp" else (2, 1)
    made = (
        ops.conv2d(x, wq, *how),
        ops.conv2d_weight_grad(e, x, wq.shape, *how),
        ops.conv2d_input_grad(e, wb, x.shape, *how),
    )
    products = (dens[0] * dens[1], dens[3] * dens[0], dens[3] * dens[2])
    for path, want, den in zip(("x1", "gW", "e4"), made, products, strict=True):
        wanted = [to_float32(Fraction(value, den)) for value in want.values]
        assert plain.reals(f"{layer}/{path}") == wanted, path


def doubles(plain: Plain, name: str) -> list[float]:
    return [struct.unpack("<d", struct.pack("<q", word))[0] for word in plain.values(name)]


@pytest.mark.slow
@pytest.mark.parametrize(("model", "layer"), LAYERS)
def test_sensitivities_grow(model: str, layer: str, folders: dict[str, Path]) -> None:
    plain = Plain(folders[model])
    for path, of, slope in (("Wb", "W", "gW"), ("x0", "x0", "e4")):
        g = [float(value) for value in plain.reals(f"{layer}/{slope}")]
        before, after = doubles(plain, f"{layer}/S_{of}.old"), doubles(plain, f"{layer}/S_{of}")
        blocks, exponents = by_block(plain, f"{layer}/{path}"), plain.values(f"{layer}/{path}.e")
        grown = 0
        for inside, e, old, new in zip(blocks.values(), exponents, before, after, strict=True):
            s = 0.0
            for k in inside:
                s += g[k] * g[k]
            assert new == (old if e == -128 else old + s * 2.0 ** (2 * e - 4))
            grown += new > old > 0
        assert grown > 5


@pytest.mark.slow
@pytest.mark.parametrize(("model", "layer"), LAYERS)
def test_a_pack_is_recomputed_from_itself_alone(model: str, layer: str, folders: dict[str, Path]) -> None:
    read = pack.read(folders[model])
    result = check.recompute(read)
    assert result.exit_status == 0 and not result.problems and len(result.ports) == len(read.ports)
    assert {f"{layer}/{path}" for path in ("x0", "x0.e", "x1", "S_W", "S_x0", "e3.e")} <= {
        port.port.name for port in result.ports if port.port.direction == "out"
    }


@pytest.mark.slow
@pytest.mark.parametrize(("name", "change"), [
    ("x0", 1), ("x0.e", -1), ("Wb.e", 1), ("e3", 2), ("S_x0", 1), ("S_W", 1), ("gW", 1),
])  # fmt: skip
def test_an_altered_word_is_found(name: str, change: int, folders: dict[str, Path], tmp_path: Path) -> None:
    """In what a device wrote, and in the pack itself with all its hashes made to fit."""
    read, port = pack.read(folders["resnet8"]), f"{CONV[0]}/{name}"
    shape, codes = read.ports[port].shape, read.codes(port).reshape(-1).tolist()
    at = next(k for k, code in enumerate(codes) if k > len(codes) // 2 and 0 < abs(code) < 1 << 62)
    codes[at] += change
    index = places(shape)[at]
    dut = good(read, tmp_path / "dut")
    assert check.check_dut(read, dut).exit_status == 0
    give(read, port, codes, dut)
    forged = Path(shutil.copytree(folders["resnet8"], tmp_path / "forged"))
    forge(forged, port, codes)
    for result in (check.check_dut(read, dut), check.recompute(pack.read(forged))):
        (bad,) = [one for one in result.ports if one.wrong]
        (wrong,) = bad.mismatches
        assert (bad.port.name, wrong.index, result.exit_status) == (port, index, 1)
        assert wrong.got == wrong.want + change


@pytest.mark.slow
def test_a_device_that_truncates_is_told(folders: dict[str, Path], tmp_path: Path) -> None:
    """Though the limits differ from block to block."""
    read, port = pack.read(folders["resnet8"]), f"{CONV[0]}/x0"
    plain, dut = Plain(folders["resnet8"]), good(read, tmp_path / "dut")
    limit, presat = plain.values(f"{port}.limit"), plain.values(f"{port}.presat")
    assert len(set(limit)) > 2 and any(abs(code) > most > 0 for code, most in zip(presat, limit, strict=True))
    floors = plain.values(f"{port}.floor")
    truncated = [max(-most, min(most, code)) for code, most in zip(floors, limit, strict=True)]
    give(read, port, truncated, dut)
    (bad,) = [one for one in check.check_dut(read, dut).ports if one.wrong]
    assert "truncation (floor)" in [verdict.name for verdict in bad.verdicts if verdict.whole]


@pytest.mark.parametrize("small", [False, True])
def test_the_trail_of_blocks_of_all_kinds(small: bool) -> None:
    """Widths from 0 to 8, a block of zeros, one of the least numbers: limits of presat give the code."""
    rng = np.random.default_rng(2)
    x = (rng.integers(-99, 100, (20, 4)) / 8).astype(np.float32)
    x[8:12] = 0
    if small:
        x[12:16] = np.ldexp(x[12:16], -140)
    bits = np.array([[0], [2], [4], [6], [8]], np.uint8)
    blocks = quantize_blocks(x, bits, (0, 1))
    way = block_trail(x, blocks)
    assert way.limit is not None and way.limit[::4, 0].tolist() == [
        0,
        1,
        0 if small else 7,
        0 if small else 31,
        127,
    ]
    codes = blocks.to_qtensor(x).codes
    for at, value in np.ndenumerate(x):
        block = x[at[0] // 4 * 4 :][:4]
        top = max(abs(Fraction(float(v))) for v in block.reshape(-1))
        e = next(e for e in range(-128, 128) if top < power(e))
        scaled = Fraction(float(value)) / power(e - max(int(bits[at[0] // 4, 0]), 1) + 1)
        part = scaled - floor(scaled)
        cut = floor(part * 2**32)
        assert way.floor[at] == floor(scaled) and way.presat[at] == round_fraction(scaled, "ties_even")
        assert way.remainder[at] == 2 * cut + (part * 2**32 != cut)
        assert way.up[at] == way.presat[at] - way.floor[at]
        assert codes[at] == max(-way.limit[at], min(way.limit[at], way.presat[at]))
