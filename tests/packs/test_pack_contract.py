"""CONTRACT.md says what is so: a reader of the page alone gets every element and what it was made of."""

import math
import re
import struct
from fractions import Fraction
from math import prod
from pathlib import Path

import pytest

from intnet.packs import layers, pack, units
from intnet.runs import run_folder
from intnet.spec.block_float import block_of, places
from intnet.spec.float32 import to_float32
from intnet.spec.rounding import round_fraction
from intnet.spec.tensor import power
from tests.support.plain_pack import Plain

Table = list[list[str]]


PACKS = ["layers", "adapt", "muppet", "dynasty", "quantize_flag", "mac_requant"]


@pytest.fixture(scope="module", params=PACKS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if request.param == "layers":
        run = run_folder.build("wageubn", {}, "resnet8", "digits", batch_size=3)
        run.train(1)
        made = layers.draft(run, ["layer2.0.conv1", "layer2.0.bn1"])
    elif request.param in ("adapt", "muppet", "dynasty"):
        few = {"bits": "1", "gamma": "0"} if request.param == "dynasty" else {}
        run = run_folder.build(request.param, few, "mlp", "digits", batch_size=6, limit=6)
        run.train(1)
        made = layers.draft(run, ["fc2", "bn2", "relu2", "fc3"])
    else:
        made = units.draft(request.param, "L0", {})
    return pack.write(made, tmp_path_factory.mktemp("packs") / request.param)


def tables(page: str, heading: str) -> Table:
    """The rows of every table whose headings begin so."""
    rows: Table = []
    for block in page.split("\n\n"):
        lines = [line for line in block.splitlines() if line.startswith("|")]
        if lines and lines[0].startswith(f"| {heading} |"):
            rows += [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]
    return rows


def lanes_of(word: int, element: str, in_word: str) -> list[int]:
    """The elements of a word by its bit slices."""
    spread = re.fullmatch(r"lane i: \[(\d+)?i(?:\+(\d+):(\d+)i)?\], i = 0\.\.(\d+)", in_word)
    width = 1 if element.endswith("[0]") else max(int(n) for n in re.findall(r"\[(\d+)", element)) + 1
    lanes = int(spread[4]) + 1 if spread else 1
    assert spread is None or int(spread[1] or 1) == width
    codes = [word >> lane * width & (1 << width) - 1 for lane in range(lanes)]
    if not element.startswith("signed"):
        return codes
    return [code - (1 << width) if code >> width - 1 else code for code in codes]


@pytest.mark.slow
def test_bits_and_words_are_those_of_the_files(folder: Path) -> None:
    plain, seen = Plain(folder), set()
    for name, words, element, in_word, _, shape, _ in tables(
        (folder / "CONTRACT.md").read_text(), "port | words"
    ):
        port = plain.ports[name.strip("`")]
        lines = (folder / port["file"]).read_text().splitlines()
        assert len(lines) == int(words.replace(",", ""))
        codes = [code for line in lines for code in lanes_of(int(line, 16), element, in_word)]
        assert codes == plain.values(name.strip("`"))
        assert shape == f"{port['axes']} = {', '.join(map(str, port['shape']))}"
        seen.add(name.strip("`"))
    assert seen == set(plain.ports)


@pytest.mark.slow
def test_values_are_codes_times_the_power_that_stands_there(folder: Path) -> None:
    plain = Plain(folder)
    for name, _, _, _, value, *_ in tables((folder / "CONTRACT.md").read_text(), "port | words"):
        found = re.fullmatch(r"code \* 2\^(-?\d+)", value)
        if found:
            assert int(found[1]) == plain[name.strip("`")].exponent


def evaluated(plain: Plain, formula: str) -> list[Fraction]:
    """A formula of ports, element by element; a shorter port has one number a channel."""
    names = re.findall(r"`([^`]+)`", formula)
    floats = {name for name in names if plain.ports[name]["encoding"] == "float32"}
    columns = {name: plain.reals(name) if name in floats else plain[name].codes for name in names}
    text = re.sub(r"2\^(-?\d+)", r"power(\1)", formula)
    for k, name in enumerate(dict.fromkeys(names)):
        text = text.replace(f"`{name}`", f"Fraction(c[{k}][i % len(c[{k}])])")
    lists = list(dict(columns).values())
    code = compile(text, "formula", "eval")
    size = max(map(len, lists))
    scope = {"power": power, "Fraction": Fraction, "c": lists, "max": max}
    return [eval(code, scope | {"i": i}) for i in range(size)]


def units_of(plain: Plain, shape: list[int], grid: str) -> list[Fraction]:
    """The step of every element: '2^-7', or of block float '2^(`x0.e` - `x0.bits` + 1)'."""
    found = re.fullmatch(r"2\^\(`(\S+)` - (?:(\d+)|`(\S+)`) \+ 1\)", grid)
    if found is None:
        return [power(int(grid.removeprefix("2^")))] * prod(shape)
    e = plain.values(found[1])
    bits = plain.values(found[3]) if found[3] else [int(found[2])] * len(e)
    named = plain.ports[found[1]]
    axes = [axis for axis, text in enumerate(named["axes"].split(",")) if text.endswith("/4")]
    of = {block: power(exponent - b + 1) for block, exponent, b in zip(
        places(named["shape"]), e, bits, strict=True)}  # fmt: skip
    assert found[3] is None or plain.ports[found[3]]["shape"] == named["shape"]
    return [of[block_of(place, axes)] for place in places(shape)]


@pytest.mark.slow
def test_results_come_from_where_the_page_says(folder: Path) -> None:
    """By the formula, the grid, the mode and the limits of its row, and the rule of its format."""
    plain, judged = Plain(folder), 0
    for cell, _, mode, grid, limits, words, formula in tables(
        (folder / "CONTRACT.md").read_text(), "port | format"
    ):
        name = cell.strip("`")
        if formula == "-" or plain.ports[name]["encoding"] == "flag":
            continue
        exact, port = evaluated(plain, formula), plain[name]
        if mode == "exact":
            unit = power(port.exponent)
            want = [value / unit for value in exact]
        else:
            drawn = plain.values(words.split("`")[1]) if "`" in words else [0] * len(exact)
            units = units_of(plain, plain.ports[name]["shape"], grid)
            want = [
                round_fraction(x / unit, mode, word)
                for x, unit, word in zip(exact, units, drawn, strict=True)
            ]
            if limits.startswith("+-"):
                most = plain.values(limits.removeprefix("+-").strip("`"))
                want = [max(-n, min(n, code)) for code, n in zip(want, most, strict=True)]
            if ".." in limits:
                low, high = map(int, limits.split(",")[0].split(".."))
                want = [max(low, min(high, code)) for code in want]
        assert port.codes == want, name
        judged += 1
    given = plain.manifest["generator"]  # of two layers dynasty rounds x0, Wq, Wb and e3
    assert judged >= (0 if given["kind"] != "layers" else 8 if given["method"] == "dynasty" else 10)


@pytest.mark.slow
def test_modes_go_up_as_the_page_says(folder: Path) -> None:
    """The table's own words, as Python, against the oracle."""
    for mode, rule in tables((folder / "CONTRACT.md").read_text(), "mode"):
        for name, text in zip(mode.split(", "), rule.split("; "), strict=True):
            if name == "stochastic":
                assert text == "word < floor(f * 2^bits)"
                continue
            words = (
                text.replace("never", "False").replace("f = ", "f == ").replace("floor is odd", "floor % 2")
            )
            words = words.replace(", or", " or").replace("1/2", "half")
            for quarters in range(-9, 10):
                x = Fraction(quarters, 4)
                scope = {"f": x - x.__floor__(), "floor": x.__floor__(), "half": Fraction(1, 2)}
                assert x.__floor__() + bool(eval(words, scope)) == round_fraction(x, name), (name, x)


def test_the_load_guard_is_told_as_it_is(folder: Path) -> None:
    page = (folder / "CONTRACT.md").read_text()
    assert "the least significant piece first: s = rotl64(s, 1) ^ piece, from s = 0" in page.replace(
        "\n", " "
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "options", "layer", "rates"),
    [("mx", {"warmup": "1"}, "fc2", 3), ("wageubn", {"lr": "26,13@1"}, "fc3", 2), ("muppet", {}, "fc2", 1)],
)
def test_each_step_of_a_chain_has_its_own_rate(
    method: str, options: dict[str, str], layer: str, rates: int, tmp_path: Path
) -> None:
    """The factor of the page is the one by which the pack's words move, step by step."""
    run = run_folder.build(method, options, "mlp", "digits", batch_size=8, limit=16 if rates == 2 else 64)
    run.train(1)
    read = pack.read(pack.write(layers.draft(run, [layer], 3), tmp_path / "pack"))
    told: dict[int, float] = {}
    for line in (read.folder / "CONTRACT.md").read_text().splitlines():
        found = re.match(r"- (?:in step ([\d, ]+): )?update of p = .*p = fma\(-(\S+) (\* 2\^-9)?", line)
        if found:
            pattern, code = found[2].startswith("0x"), found[3]
            rate = _float(int(found[2], 16)) if pattern else int(found[2]) / 512
            assert pattern or code
            told |= dict.fromkeys(map(int, found[1].split(", ") if found[1] else "234"), rate)
    assert sorted(told) == [2, 3, 4] and len(set(told.values())) == rates
    words = Plain(read.folder)
    names = {name.rpartition("/")[2]: name for name in read.ports if name.startswith(f"step2/{layer}/")}
    acc = "AccW" if "AccW" in names else "Acc"
    old = words.values(names["W.old"])
    for step, rate in told.items():
        new, gone = (words.values(f"step{step}/{layer}/{name}") for name in ("W", acc))
        for before, by, after in zip(old, gone, new, strict=True):  # p = fma(-rate, Acc, p.old)
            exact = Fraction(_float(before)) - Fraction(rate) * Fraction(_float(by))
            assert to_float32(exact) == Fraction(_float(after))
        old = new


@pytest.mark.slow
def test_a_chain_of_accumulated_gradients_says_what_each_step_does(tmp_path: Path) -> None:
    """With accs=3 from step 2 on: the second adds, the third moves p by the mean, the fourth begins again."""
    run = run_folder.build("float32", {"accs": 3, "momentum": 0.5}, "mlp", "digits", batch_size=8)
    run.train(1)
    read = pack.read(pack.write(layers.draft(run, ["fc2"], 3), tmp_path / "pack"))
    updates = re.findall(r"^- (.*update of p = .*)$", (read.folder / "CONTRACT.md").read_text(), re.M)
    adds, moves, begins = (line.partition("of W `gW`: ")[2] for line in updates)
    stays = "; p and what else is kept of it stay"
    assert adds == f"waiting of p = waiting.old of p + g{stays}" and begins == f"waiting of p = g{stays}"
    assert moves.startswith(
        "g = (waiting.old of p + g) / 3, the sum and the quotient rounded; Accp = fma(0x3f000000"
    )
    assert [line.partition(":")[0] for line in updates] == ["in step 2", "in step 3", "in step 4"]
    words = Plain(read.folder)
    first, g2, g3, sums, acc, old, new = (
        [_float(word) for word in words.values(name)]
        for name in (
            "step2/fc2/waiting.old", "step2/fc2/gW", "step3/fc2/gW", "step2/fc2/waiting", "step3/fc2/AccW",
            "step2/fc2/W.old", "step3/fc2/W.new",
        )
    )  # fmt: skip
    assert sums == [_float32(a + b) for a, b in zip(first, g2, strict=True)] and any(sums)
    means = [_float32(_float32(a + b) / 3) for a, b in zip(sums, g3, strict=True)]
    assert acc == means  # of the first update: nothing moved before
    rate = Fraction(_float(int(moves.rpartition("fma(-")[2].partition(" ")[0], 16)))
    assert new == [float(to_float32(Fraction(w) - rate * Fraction(a))) for w, a in zip(old, acc, strict=True)]


def _float(pattern: int) -> float:
    return struct.unpack("<f", struct.pack("<I", pattern & 0xFFFFFFFF))[0]


@pytest.mark.slow
def test_every_expected_port_of_adapts_switch_has_its_rule(tmp_path: Path) -> None:
    """Of steps ahead of a switch, with one and behind it: G and the window as the page says, by hand."""
    options = {"lookback": "2-4", "resolution": "8-16"}
    run = run_folder.build("adapt", options, "mlp", "digits", batch_size=8)
    run.train(1)
    read = pack.read(pack.write(layers.draft(run, ["fc2"], 4), tmp_path / "pack"))
    page, words = (read.folder / "CONTRACT.md").read_text(), Plain(read.folder)
    ruled = set(re.findall(r"^- `(\w+)`", page, re.M))
    for port in read.ports.values():
        if port.direction == "out" and not port.rounding:
            assert port.name.rpartition("/")[2] in ruled | {"W", "AccW", "b", "Accb"}, port.name
    lb, r, n = words.values("step2/fc2/window.old")
    seen: list[float] = []
    for step in (2, 3, 4, 5):
        g = [_float(word) for word in words.values(f"step{step}/fc2/gWn")]
        seen = [_float32(a + b) for a, b in zip(seen, g, strict=True)] if seen else g
        if n + 1 == lb:
            assert len(seen) > 1024
            chunks = [sum((v * v for v in seen[at : at + 1024]), 0.0) for at in range(0, len(seen), 1024)]
            d = (n + 1) / math.sqrt(sum(chunks, 0.0))
            new = min(max(math.ceil(Fraction(4) / Fraction(d)), 2), 4)
            lb = math.ceil(Fraction(33, 100) * new + Fraction(67, 100) * lb)
            r, n, seen = min(max(r + (lb == 4) - (lb == 2), 8), 16), 0, [0.0] * len(seen)
        else:
            n += 1
        if f"step{step}/fc2/window" in words.ports:
            assert words.values(f"step{step}/fc2/window") == [lb, r, n]
        if f"step{step}/fc2/G" in words.ports:
            assert [_float(word) for word in words.values(f"step{step}/fc2/G")] == seen


@pytest.mark.slow
def test_a_switch_that_leaves_no_port_of_G_still_says_what_it_reads(tmp_path: Path) -> None:
    """Behind a switch G is +0, which no device is judged by; the window's rule speaks of it all the same."""
    options = {"lookback": "1-3", "resolution": "2-5"}
    run = run_folder.build("adapt", options, "mlp", "digits", batch_size=8, limit=16)
    run.train(2)
    read = pack.read(pack.write(layers.draft(run, ["fc2"]), tmp_path / "pack"))
    page = (read.folder / "CONTRACT.md").read_text()
    assert "fc2/G" not in read.ports and "fc2/window" in read.ports
    assert "\n- G = G.old + g in binary32, g itself where there is no G.old; g is gWn" in page


def _float32(x: float) -> float:
    return struct.unpack("<f", struct.pack("<f", x))[0]
