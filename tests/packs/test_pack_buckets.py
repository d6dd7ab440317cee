"""Packs of method saved, read as text: scales, codes, widths, memory, a~ and gradients made again here."""

from __future__ import annotations

import shutil
from fractions import Fraction
from math import floor, prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet.exact.blocks.buckets import Codec, encode
from intnet.inspect.trail import bucket_trail
from intnet.numbers.rng import Draw
from intnet.packs import check, layers, pack
from intnet.runs import run_folder
from intnet.spec.convolution import conv32_weight_grad
from intnet.spec.tensor import Tensor
from intnet.spec.words import words as random_words
from tests.oracle import bucket_steps as oracle
from tests.support.devices import give, good
from tests.support.forging import forge
from tests.support.plain_pack import Plain

CONV, NORM = "layer1.0.conv1", "layer1.0.bn1"
OPTIONS: dict[str, dict[str, Any]] = {
    "stochastic": {"bits": "3"},
    "mixed": {"bits": "2/4", "codec": "affine", "bucket": 64},
    "levels": {"bits": "2", "codec": "levels", "norm": "l2", "storage": "on_backward"},
}
SEED = 3


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    out = {}
    for name, options in OPTIONS.items():
        run = run_folder.build("saved", options, "resnet8", "digits", batch_size=3, seed=SEED, limit=6)
        run.train(1)
        out[name] = pack.write(layers.draft(run, [CONV, NORM]), tmp_path_factory.mktemp("buckets") / name)
    return out


def bucket_words(plain: Plain, port: dict[str, Any], layer: str, count: int) -> list[int]:
    """b of each bucket, by the words of the stream 'layer/mix'."""
    codec = port["rounding"]["codec"]
    if codec["mix"] is None:
        return [codec["bits"]] * count
    drawn = random_words(SEED, 1, f"{layer}/mix", count)
    assert plain.values(codec["mix_words"]) == drawn and codec["probability"] == 0.5
    return [codec["mix"] if word < 2**31 else codec["bits"] for word in drawn]


@pytest.mark.slow
@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize(("layer", "path"), [(CONV, "x0"), (NORM, "x1")])
def test_all_ports_of_a_packed_path(kind: str, layer: str, path: str, folders: dict[str, Path]) -> None:
    plain, name = Plain(folders[kind]), f"{layer}/{path}s"
    port = plain.ports[f"{name}.code"]
    how, codec = port["rounding"], port["rounding"]["codec"]
    source = plain.reals(how["source"]["tensor"])
    size, levels = codec["bucket"], codec["kind"] == "levels"
    parts = [source[first : first + size] for first in range(0, len(source), size)]
    drawn = plain.values(how["words"]) if how["words"] else []
    if drawn:
        assert drawn == random_words(SEED, 1, f"{layer}/{path}", len(source))
    widths = bucket_words(plain, port, layer, len(parts))
    made = []
    for k, (inside, bits) in enumerate(zip(parts, widths, strict=True)):
        mine = drawn[k * size : (k + 1) * size]
        made.append(
            oracle.levels(inside, bits, mine, True, k * size, prod(port["shape"][1:]))
            if levels
            else oracle.affine(inside, bits, mine or None)
        )
    stored = [[code + 2**bits * levels for code in one.codes] for one, bits in zip(made, widths, strict=True)]
    assert plain.values(f"{name}.code") == [code for codes in stored for code in codes]
    assert not port["signed"] and port["bits"] == max(widths) + 2 * levels
    assert plain.reals(f"{name}.scale") == [one.scale for one in made]
    assert plain.reals(name) == [value for one in made for value in one.values]
    if levels:
        assert f"{name}.zero" not in plain.ports
    else:
        assert plain.reals(f"{name}.zero") == [one.zero for one in made]
        trail_of(plain, name, made)
    if codec["mix"]:
        assert plain.values(f"{name}.bits") == widths and set(widths) == {2, 4}
    memory, _ = oracle.packed([(c, b + 2 * levels) for c, b in zip(stored, widths, strict=True)])
    assert int.from_bytes(bytes(plain.values(f"{name}.packed")), "little") == memory
    assert plain.ports[f"{name}.packed"]["word_bits"] == 64


def trail_of(plain: Plain, name: str, made: list[oracle.Coded]) -> None:
    floors, up, presat, remainder = (
        plain.values(f"{name}.code.{part}") for part in ("floor", "up", "presat", "remainder")
    )
    values = [u for one in made for u in one.u]
    assert floors == [floor(u) for u in values]
    parts = [(u - floor(u)) * 2**32 for u in values]
    assert remainder == [2 * floor(part) + (part != floor(part)) for part in parts]
    assert presat == [a + b for a, b in zip(floors, up, strict=True)] and any(up)


@pytest.mark.slow
@pytest.mark.parametrize("kind", OPTIONS)
def test_gradients_read_what_was_packed(kind: str, folders: dict[str, Path]) -> None:
    plain = Plain(folders[kind])
    x, e = (
        Tensor(tuple(plain.ports[f"{CONV}/{path}"]["shape"]), plain.reals(f"{CONV}/{path}"))
        for path in ("x0s", "e3")
    )
    want = conv32_weight_grad(e, x, tuple(plain.ports[f"{CONV}/gW"]["shape"]), 1, 1)
    assert plain.reals(f"{CONV}/gW") == want.values


@pytest.mark.slow
@pytest.mark.parametrize("kind", OPTIONS)
def test_a_pack_is_recomputed_from_itself_alone(kind: str, folders: dict[str, Path]) -> None:
    read = pack.read(folders[kind])
    result = check.recompute(read)
    assert result.exit_status == 0 and not result.problems and len(result.ports) == len(read.ports)
    told = read.manifest["about"]["not written"]
    assert [name for name in told if name.endswith("code.floor")] == [
        f"{name}.code.floor" for name in (f"{CONV}/x0s", f"{NORM}/x1s") if kind == "levels"
    ]


@pytest.mark.slow
@pytest.mark.parametrize("part", ["x0s.code", "x0s.scale", "x0s", "x0s.packed", "gW"])
def test_an_altered_word_is_found(part: str, folders: dict[str, Path], tmp_path: Path) -> None:
    """In what a device wrote, and in the pack itself with all its hashes made to fit."""
    read, port = pack.read(folders["mixed"]), f"{CONV}/{part}"
    codes = read.codes(port).reshape(-1).tolist()
    at = next(k for k, code in enumerate(codes) if k > len(codes) // 2 and code)
    codes[at] ^= 1
    dut = good(read, tmp_path / "dut")
    assert check.check_dut(read, dut).exit_status == 0
    give(read, port, codes, dut)
    forged = Path(shutil.copytree(folders["mixed"], tmp_path / "forged"))
    forge(forged, port, codes)
    for result in (check.check_dut(read, dut), check.recompute(pack.read(forged))):
        bad = [one for one in result.ports if one.wrong]
        assert port in [one.port.name for one in bad] and result.exit_status == 1


def test_a_device_that_truncates_is_told(folders: dict[str, Path], tmp_path: Path) -> None:
    read, port = pack.read(folders["stochastic"]), f"{CONV}/x0s.code"
    floors = [min(max(code, 0), 7) for code in Plain(folders["stochastic"]).values(f"{port}.floor")]
    dut = good(read, tmp_path / "dut")
    give(read, port, floors, dut)
    (bad,) = [one for one in check.check_dut(read, dut).ports if one.wrong]
    assert "truncation (floor)" in [verdict.name for verdict in bad.verdicts if verdict.whole]


def test_the_contract_tells_the_codec(folders: dict[str, Path]) -> None:
    texts = {kind: (folder / "CONTRACT.md").read_text() for kind, folder in folders.items()}
    for text, words in (
        (texts["stochastic"], f"- `{CONV}/x0s.code`: affine-stochastic, b = 3, n = 512"),
        (texts["stochastic"], f"`{CONV}/x0.words`, top 32 bits"),
        (
            texts["mixed"],
            f"4 of a bucket whose word of `{CONV}/mix.words` is below floor(0.5 * 2^32), n = 64",
        ),
        (texts["mixed"], "0..2^b - 1"),
        (texts["levels"], "- levels, l2: scale = max(sqrt(sum a^2), 1e-8)"),
    ):
        assert words in text, words
    assert "affine" not in texts["levels"].split("## Codecs")[1].split("\n- ", 1)[1].split("##")[0]


def test_fractions_that_float32_rounds_to_one() -> None:
    """Just below 0: u - floor(u) is 1 in float32, so it goes up whatever the word, and the trail says 0."""
    x = np.zeros(64, np.float32)
    x[:2] = 1, -1e-12
    words = np.full(64, 2**32 - 1, np.uint32)
    way = bucket_trail(x, encode(x, Codec("affine-stochastic", 4, None, 64), Draw(1, 1, 1)), words)
    u = oracle.affine([Fraction(float(v)) for v in x], 4, words.tolist())
    assert u.u[1] < 0 and (way.floor[1], way.remainder[1], way.presat[1]) == (0, 0, 0) == (u.codes[1], 0, 0)
