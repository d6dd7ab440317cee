"""Packs of methods whose tape is packed (`saved.bits`): gradients from the words that the page names."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet.cli.main import main
from intnet.errors import PackError
from intnet.layers import SiLU
from intnet.packs import layers, pack, ports
from intnet.packs.ports import Case, Draft
from intnet.runs import run_folder
from intnet.spec.float32 import to_float32
from tests.support import weighed
from tests.support.contract_device32 import Sums, number, single
from tests.support.plain_pack import Plain

CONV, NORM, FC = "conv2", "bn2", "fc2"
METHODS: dict[str, dict[str, Any]] = {
    "saved": {"bits": "3"},
    "wageubn": {"saved.bits": "4"},
    "adapt": {"saved.bits": "4"},
    "muppet": {"saved.bits": "4"},
    "dynasty": {"saved.bits": "4"},
}


@pytest.fixture(scope="module", params=METHODS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = run_folder.build(request.param, METHODS[request.param], "lenet5", "digits", batch_size=4, limit=16)
    run.train(1)
    return pack.write(layers.draft(run, [CONV, NORM, FC]), tmp_path_factory.mktemp("tape") / request.param)


def rules(folder: Path, layer: str) -> str:
    return (
        (folder / "CONTRACT.md").read_text().split(f"### {layer}\n")[1].split("\n### ")[0].split("\n## ")[0]
    )


@pytest.mark.slow
def test_it_is_read_and_recomputed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of x0 that is no binary32 the page has what was packed under a name of its own."""
    assert main(["check", str(folder)]) == 0 and "PASS" in capsys.readouterr().out
    source = pack.read(folder).ports.get(f"{FC}/x0s.source")
    assert source is None or (source.direction, source.meaning) == ("trail", "what is packed: x0 in binary32")


def read_back(plain: Plain, text: str, a: list[Fraction]) -> list[Fraction]:
    """x0s as the page says that gW reads it."""
    (told,) = re.findall(r"`gW`.* e3\[n, o\](?:; (x0s[^\n]*?))?(?:; in binary32)?\n", text)
    if not told:
        return a
    if "at the exponent of x0" in told:
        unit = Fraction(2) ** plain.ports[f"{FC}/x0"]["exponent"]
        return [round(x / unit) * unit for x in a]
    assert told.startswith("x0s read in BF(wl), ties to even")
    half = Fraction(1, 2)
    top = 2 ** (plain.ports[f"{FC}/x0"]["format"]["fields"]["wl"] - 1)
    most, least = max(*a, Fraction(0)), min(*a, Fraction(0))
    s = next(s for s in range(60, -60, -1) if most * 2**s <= top - half and least * 2**s >= -top - half)
    unit = Fraction(2) ** -s
    return [max(-top, min(top - 1, round(x / unit))) * unit for x in a]


def block_of(shape: list[int], flat: int) -> int:
    """Blocks are 4x4, in C order."""
    row, column = divmod(flat, shape[1])
    return row // 4 * -(-shape[1] // 4) + column // 4


def widths(plain: Plain, name: str) -> list[int]:
    """b of each block."""
    bits = plain.ports[name]["rounding"]["bits"]
    return plain.values(bits) if isinstance(bits, str) else [bits] * len(plain.values(f"{name}.e"))


def in_blocks(plain: Plain, name: str) -> list[Fraction]:
    """The values of a port in blocks: code * 2^(e - b + 1)."""
    shape, e, b = plain.ports[name]["shape"], plain.values(f"{name}.e"), widths(plain, name)
    places = [block_of(shape, k) for k in range(shape[0] * shape[1])]
    return [
        code * Fraction(2) ** (e[at] - max(b[at], 1) + 1)
        for code, at in zip(plain.values(name), places, strict=True)
    ]


def blocks_again(shape: list[int], bits: list[int], a: list[Fraction]) -> list[Fraction]:
    """a~ in blocks of so many bits: e the smallest with max |a~| < 2^e, codes to nearest, limited."""
    out = [Fraction(0)] * len(a)
    for block, b in enumerate(bits):
        inside = [k for k in range(len(a)) if block_of(shape, k) == block]
        top = max(abs(a[k]) for k in inside)
        e = next(e for e in range(-128, 128) if top < Fraction(2) ** e)
        step, most = Fraction(2) ** (e - max(b, 1) + 1), 2 ** max(b - 1, 0) - 1
        for k in inside:
            out[k] = max(-most, min(most, round(a[k] / step))) * step
    return out


@pytest.mark.slow
def test_the_weights_gradient_reads_what_the_tape_held(folder: Path) -> None:
    """Of a linear layer, every element by the rule of the page; of blocks the exact sum is rounded once."""
    plain, text = Plain(folder), rules(folder, FC)
    assert "`gW`[o, c] = sum over n of x0s[n, c] * e3[n, o]" in text
    shape, outs = plain.ports[f"{FC}/x0s"]["shape"], plain.ports[f"{FC}/e3"]["shape"][1]
    (n, fan), g = shape, plain.reals(f"{FC}/gW")
    if folder.name == "dynasty":
        assert "x0s read in block float: blocks and b of x0, e of a~, ties to even" in text
        x = blocks_again(shape, widths(plain, f"{FC}/x0"), plain.reals(f"{FC}/x0s"))
        e = in_blocks(plain, f"{FC}/e3")
        for o in range(outs):
            for c in range(fan):
                total = sum((x[k * fan + c] * e[k * outs + o] for k in range(n)), Fraction(0))
                assert to_float32(total) == g[o * fan + c], (o, c)
        return
    x, e = read_back(plain, text, plain.reals(f"{FC}/x0s")), plain.reals(f"{FC}/e3")
    floats = plain.ports[f"{FC}/gW"]["encoding"] == "float32"
    assert floats == (folder.name in ("saved", "adapt"))
    for o in range(outs):
        for c in range(fan):
            pairs = [(x[k * fan + c], e[k * outs + o]) for k in range(n)]
            exact = sum((a * b for a, b in pairs), Fraction(0))
            if floats:
                exact = Fraction(Sums().batch([[(float(a), float(b))] for a, b in pairs]))
            assert exact == g[o * fan + c], (o, c)


@pytest.mark.slow
def test_batch_norms_way_back_reads_what_the_tape_held(folder: Path) -> None:
    """By the rule alone; WAGEUBN keeps x2, in integers."""
    plain, text = Plain(folder), rules(folder, NORM)
    if f"{NORM}/x1s" not in plain.ports:
        assert folder.name == "wageubn" and "`ggamma` = sum(e1 * x2)\n" in text
        return
    assert "`ggamma` = sum(e1 * x2s); x2s = (x1s - mu) * r; in binary32\n" in text
    assert "handed = ((e1 - m1) - x2s * m2)" in text
    (one,) = [one for one in plain.manifest["about"]["replay"][0]["layers"] if one["layer"] == NORM]
    x1s, mu, var, ggamma = (
        [float(value) for value in plain.reals(f"{NORM}/{path}")] for path in ("x1s", "mu", "var", "ggamma")
    )
    e1 = [float(value) for value in plain.expression(one["gradient"])]
    eps = number(0x3727C5AC)
    images, *_, channels = plain.ports[f"{NORM}/x1s"]["shape"]
    size = len(x1s) // images
    for k in range(channels):
        r = single(1.0 / single(single(var[k] + eps) ** 0.5))
        terms = [
            (e, single(single(x - mu[k]) * r)) for e, x in zip(e1[k::channels], x1s[k::channels], strict=True)
        ]
        rows = size // channels
        assert Sums().batch([terms[n * rows : (n + 1) * rows] for n in range(images)]) == ggamma[k]


@pytest.mark.slow
def test_the_slope_of_a_packed_silu_is_that_of_what_the_tape_held(tmp_path: Path) -> None:
    options = {"bits": "3", "silu": "packed"}
    run = run_folder.build("saved", options, weighed.NAME, "digits", batch_size=2, limit=4)
    name = next(layer.name for layer in run.model.all_layers() if isinstance(layer, SiLU))
    run.train(1)
    made = pack.write(layers.draft(run, [name]), tmp_path / "pack")
    assert "`e1q` = e0 * slope(x3s)" in rules(made, name) and f"{name}/x3s" in Plain(made).ports


@pytest.mark.slow
@pytest.mark.parametrize("method", ["saved", "wageubn"])
def test_the_factors_gradient_reads_what_the_tape_held(method: str, tmp_path: Path) -> None:
    run = run_folder.build(method, METHODS[method], weighed.NAME, "digits", batch_size=2, limit=4)
    run.train(1)
    text = rules(pack.write(layers.draft(run, ["excite.scale"]), tmp_path / "pack"), "excite.scale")
    (rule,) = re.findall(r"handed to the factors\[n, c\] = (.*)\n", text)
    assert rule.startswith("sum of e0[n, y, x, c] * x0s[n, y, x, c] over (y, x)")
    assert ("x0s read at the exponent of x0" in rule) == (method == "wageubn")


@pytest.mark.slow
def test_levels_that_are_counted_have_their_scale_and_no_limits_of_bits(tmp_path: Path) -> None:
    options = {"codec": "levels", "norm": "l2", "levels": "5", "bucket": "100"}
    run = run_folder.build("saved", options, "mlp", "digits", batch_size=8, limit=16)
    run.train(1)
    text = (pack.write(layers.draft(run, [FC]), tmp_path / "pack") / "CONTRACT.md").read_text()
    assert re.search(r"- counted, l2: .*scale", text) and f"- `{FC}/x0s.code`: counted, l2, " in text
    (row,) = re.findall(rf"\n\| `{FC}/x0s.code` \| -[^\n]*", text)
    assert "2^b" not in row


def test_two_ports_of_one_name_are_refused(tmp_path: Path) -> None:
    """In folders of their own, so that their files are two."""
    codes = np.arange(4)
    filled = [
        *ports.tensor("a", "trail", np.ones(4, np.float32), "C"),
        ports.whole_number("a", "out", codes, "C", 4),
    ]
    draft = Draft("pack", "L3", {"kind": "layers", "steps": 1}, filled, [Case(0, "a#0", "L3", "", 0)], {})
    with pytest.raises(PackError, match="two ports are called a"):
        pack.write(draft, tmp_path / "pack")
