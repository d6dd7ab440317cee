"""intnet check: faults put into a device's files are found at their coordinates, with the right diagnosis.

Faulty devices are plain Python: the oracle's fractions, rounded or limited by another rule.
"""

import itertools
import random
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from intnet.packs import check, layers, pack, places, units
from intnet.packs.mistakes import Words
from intnet.packs.ports import Port
from intnet.runs import run_folder
from intnet.spec.rounding import overflow, round_fraction
from intnet.spec.tensor import power
from tests.support.devices import give, good, result_of, whole
from tests.support.plain_pack import Plain

Codes = list[int]


@pytest.fixture(scope="module")
def block(tmp_path_factory: pytest.TempPathFactory) -> pack.Pack:
    made = run_folder.build("wageubn", {}, "mlp", "digits", batch_size=16)
    made.train(2)
    folder = tmp_path_factory.mktemp("packs") / "block"
    return pack.read(pack.write(layers.draft(made, ["fc2", "bn2", "relu2"]), folder))


@pytest.fixture
def dut(block: pack.Pack, tmp_path: Path) -> Path:
    return good(block, tmp_path / "dut")


# -- places --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_one_bit_is_found_at_its_coordinates(seed: int, block: pack.Pack, dut: Path) -> None:
    source = random.Random(seed)
    name = source.choice([port.name for port in block.ports.values() if port.direction == "out"])
    port, codes = block.ports[name], Plain(block.folder).values(name)
    flat, bit = source.randrange(len(codes)), source.randrange(port.bits)
    codes[flat] ^= 1 << bit
    give(block, name, codes, dut)
    result = result_of(block, dut, name)
    (one,) = result.mismatches
    index = tuple(flat // int(np.prod(port.shape[k + 1 :])) % port.shape[k] for k in range(len(port.shape)))
    assert (result.wrong, one.index, one.word * port.lanes + one.lane) == (1, index, flat)
    assert (one.got ^ one.want) & ((1 << port.bits) - 1) == 1 << bit
    assert whole(result)[0] == f"bit {bit} of one element inverted"


@pytest.mark.slow
def test_a_missing_an_extra_and_no_word(block: pack.Pack, dut: Path) -> None:
    path = dut / "bn2.x2.hex"
    lines = path.read_text().splitlines()
    words = len(lines)
    path.write_text("\n".join(lines[:9] + lines[10:]))
    problem = result_of(block, dut, "bn2/x2").problem
    assert f"{words - 1} words where {words} are expected: word 9 is missing (N=4, C=32)" in problem
    path.write_text("\n".join(lines[:9] + ["0" * len(lines[0])] * 2 + lines[9:]))
    problem = result_of(block, dut, "bn2/x2").problem
    assert f"{words + 2} words where {words} are expected: words 9 to 10 are too many (N=4, C=32)" in problem
    path.write_text("\n".join(lines[:7] + lines[8:9] + lines[11:]))
    assert result_of(block, dut, "bn2/x2").problem.endswith(f"{words - 3} words where {words} are expected")
    path.write_text("\n".join(lines[:-1]))
    assert f"word {words - 1} is missing" in result_of(block, dut, "bn2/x2").problem
    for text in ("", "// nothing\n"):
        path.write_text(text)
        assert f"0 words where {words} are expected" in result_of(block, dut, "bn2/x2").problem
    path.unlink()
    assert "the device wrote no such file" in result_of(block, dut, "bn2/x2").problem
    path.write_text("hello\n")
    assert "'hello' is no word" in result_of(block, dut, "bn2/x2").problem
    assert check.check_dut(block, dut).exit_status == 2


@pytest.mark.parametrize("letter", ["x", "z", "X"])
def test_an_unknown_bit_is_found_in_its_lane(letter: str, block: pack.Pack, dut: Path) -> None:
    path, port = dut / "fc2.x1.hex", block.ports["fc2/x1"]
    lines = path.read_text().splitlines()
    digit = len(lines[5]) - 1 - 40 // 4  # bits 40 to 43
    lines[5] = lines[5][:digit] + letter + lines[5][digit + 1 :]
    path.write_text("\n".join(lines) + "\n")
    problem = result_of(block, dut, "fc2/x1").problem
    lane = 40 // port.bits
    n, c = divmod(5 * port.lanes + lane, port.shape[1])
    assert f"x or z in word 5 lane {lane} (N={n}, C={c})" in problem


def test_an_unknown_bit_does_not_hide_the_others(block: pack.Pack, dut: Path) -> None:
    """A wrong element ahead of an x is told with its diagnosis; a lost line is not, where an x may be it."""
    codes = Plain(block.folder).values("fc2/Acc")
    codes[0] ^= 4
    give(block, "fc2/Acc", codes, dut)
    lines = (dut / "fc2.Acc.hex").read_text().splitlines()
    (dut / "fc2.Acc.hex").write_text("\n".join([*lines[:-1], "x" + lines[-1][1:]]))
    result = result_of(block, dut, "fc2/Acc")
    assert "x or z in word" in result.problem and result.first_word == 0
    assert whole(result) == ["bit 2 of one element inverted"] and result.mismatches[0].index == (0, 0)
    lines = (dut / "fc2.Accq.hex").read_text().splitlines()
    (dut / "fc2.Accq.hex").write_text("\n".join(["x" + lines[0][1:], *lines[1:-1]]))
    (dut / "fc2.Acc.hex").write_text((block.folder / "exp" / "fc2.Acc.hex").read_text())
    assert result_of(block, dut, "fc2/Accq").problem.endswith(
        f"{len(lines) - 1} words where {len(lines)} are expected"
    )


def test_what_is_no_plain_file_is_not_read(block: pack.Pack, dut: Path) -> None:
    import os

    path = dut / "fc2.x1.hex"
    path.unlink()
    os.mkfifo(path)
    assert "the device wrote no such file" in result_of(block, dut, "fc2/x1").problem
    path.unlink()
    path.write_bytes(b"/" * (1 << 23))
    assert "bytes for" in result_of(block, dut, "fc2/x1").problem


def test_a_few_lone_bits_are_told_together(block: pack.Pack, dut: Path) -> None:
    codes = Plain(block.folder).values("fc2/gW")
    codes[5] ^= 1 << 7
    codes[900] ^= 1 << 3
    give(block, "fc2/gW", codes, dut)
    assert whole(result_of(block, dut, "fc2/gW"))[0] == "one bit inverted in each of 2 elements (bits 7, 3)"


# -- known mistakes of any port --------------------------------------------------------------------

ANYWHERE: dict[str, Callable[[Codes, int, int], Codes]] = {
    "lanes reversed": lambda c, lanes, bits: [
        x for i in range(0, len(c), lanes) for x in c[i : i + lanes][::-1]
    ],
    "one vector late (latency)": lambda c, lanes, bits: [0] * lanes + c[:-lanes],
    "one vector early (latency)": lambda c, lanes, bits: c[lanes:] + [1] * lanes,
    "shift by one, too far right": lambda c, lanes, bits: [x // 2 for x in c],
    "shift by one, too far left": lambda c, lanes, bits: [2 * x for x in c],
    "one too large": lambda c, lanes, bits: [x + 1 for x in c],
    "one too small": lambda c, lanes, bits: [x - 1 for x in c],
    "negated": lambda c, lanes, bits: [-x for x in c],
    "bit 3 stuck at 0": lambda c, lanes, bits: [x & ~8 for x in c],
    "bit 3 stuck at 1": lambda c, lanes, bits: [x | 8 for x in c],
    "bit 3 inverted": lambda c, lanes, bits: [x ^ 8 for x in c],
    "wraps at 12 bits": lambda c, lanes, bits: [overflow(x, -2048, 2047, "wrap") for x in c],
    "saturates at 12 bits": lambda c, lanes, bits: [overflow(x, -2048, 2047, "saturate") for x in c],
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", ANYWHERE)
@pytest.mark.parametrize("name", ["fc2/x1", "bn2/e2", "fc2/gW"])
def test_mistakes_of_any_port(mistake: str, name: str, block: pack.Pack, dut: Path) -> None:
    port, codes = block.ports[name], Plain(block.folder).values(name)
    give(block, name, ANYWHERE[mistake](codes, port.lanes, port.bits), dut)
    result = result_of(block, dut, name)
    assert whole(result) == [mistake]
    assert all(one.case.startswith(f"{name}#") for one in result.mismatches)


def test_elements_along_other_axes_are_told(block: pack.Pack, dut: Path) -> None:
    codes = Plain(block.folder).values("fc2/x1")
    images, channels = block.ports["fc2/x1"].shape
    turned = [codes[n * channels + c] for c in range(channels) for n in range(images)]
    give(block, "fc2/x1", turned, dut)
    assert whole(result_of(block, dut, "fc2/x1")) == ["axes in the order C,N"]


def test_every_order_of_four_axes_is_one_of_the_orders() -> None:
    rng = random.Random(5)
    codes, sizes = (
        [rng.randrange(-99, 99) for _ in range(2 * 3 * 4 * 5)],
        dict(zip("NHWC", (2, 3, 4, 5), strict=True)),
    )
    port = Port("x", "expected", (2, 3, 4, 5), "N,H,W,C", 8)
    words = Words(port, np.array(codes), np.array(codes), {})
    found = {name: make(words).tolist() for name, make in places.orders(words)}
    backwards = {name: found.pop(f"axis {name} backwards") for name in "NHWC"}
    for name in "NHWC":
        each = itertools.product(*(range(sizes[a])[:: -1 if a == name else 1] for a in "NHWC"))
        assert backwards[name] == [codes[((n * 3 + h) * 4 + w) * 5 + c] for n, h, w, c in each]
    assert len(found) == 23
    for axes in itertools.permutations("NHWC"):
        if axes != tuple("NHWC"):
            each = (
                dict(zip(axes, at, strict=True)) for at in itertools.product(*(range(sizes[a]) for a in axes))
            )
            wanted = [codes[((at["N"] * 3 + at["H"]) * 4 + at["W"]) * 5 + at["C"]] for at in each]
            assert found[f"axes in the order {','.join(axes)}"] == wanted


def test_what_no_known_mistake_explains_says_so(block: pack.Pack, dut: Path) -> None:
    codes = Plain(block.folder).values("fc2/x1")
    source = random.Random(4)
    give(block, "fc2/x1", [source.randrange(-30000, 30000) for _ in codes], dut)
    assert not whole(result_of(block, dut, "fc2/x1"))


def test_a_mistake_and_one_more_fault_is_named_with_its_share(block: pack.Pack, dut: Path) -> None:
    codes = [-code for code in Plain(block.folder).values("fc2/x1")]
    codes[7] += 1
    give(block, "fc2/x1", codes, dut)
    verdict = result_of(block, dut, "fc2/x1").verdicts[0]
    assert (verdict.name, verdict.whole, verdict.wrong - verdict.explained) == ("negated", False, 1)


# -- known mistakes of a rounding --------------------------------------------------------------------

Device = Callable[[Fraction, int, int], int]  # scaled value, greatest code, random word -> result


def limited(code: int, top: int) -> int:
    return overflow(code, -top, top, "saturate")


def by_mode(mode: str) -> Device:
    return lambda x, top, word: limited(round_fraction(x, mode), top)


def unlimited(x: Fraction, top: int, word: int) -> int:
    return overflow(round_fraction(x), -top - 1, top, "wrap")


def clipped_first(x: Fraction, top: int, word: int) -> int:
    floor = x.__floor__()
    return overflow(limited(floor, top) + round_fraction(x) - floor, -top - 1, top, "wrap")


def decided_first(x: Fraction, top: int, word: int) -> int:
    floor = x.__floor__()
    if abs(floor) > top:
        return top if floor > 0 else -top
    return overflow(round_fraction(x), -top - 1, top, "wrap")


SQ: dict[str, Device] = {
    "tie up (towards +infinity)": by_mode("ties_pos"),
    "tie away from zero": by_mode("ties_away"),
    "truncation (floor)": by_mode("to_neg"),
    "truncation towards zero": by_mode("to_zero"),
    "rounded up always (ceiling)": by_mode("to_pos"),
    "no saturation (wraps)": unlimited,
    "no saturation above (wraps)": lambda x, top, word: overflow(
        max(round_fraction(x), -top), -top - 1, top, "wrap"
    ),
    "no saturation below (wraps)": lambda x, top, word: overflow(
        min(round_fraction(x), top), -top - 1, top, "wrap"
    ),
    "saturation decided before rounding": decided_first,
    "the rounding's carry is dropped": lambda x, top, word: limited(
        x.__floor__() ^ (round_fraction(x) - x.__floor__()), top
    ),
    "limits one code too wide below": lambda x, top, word: overflow(
        round_fraction(x), -top - 1, top, "saturate"
    ),
    "limits before rounding": clipped_first,
    "shift by one, too far right": lambda x, top, word: limited(round_fraction(x / 2), top),
    "shift by one, too far left": lambda x, top, word: limited(round_fraction(2 * x), top),
}


def stochastic(change: Callable[[int, int], bool]) -> Device:
    def device(x: Fraction, top: int, word: int) -> int:
        floor = x.__floor__()
        return limited(floor + change(word, int((x - floor) * 2**32)), top)

    return device


CQ: dict[str, Device] = {
    "random word <= fraction in place of <": stochastic(lambda word, part: word <= part),
    "random word complemented": stochastic(lambda word, part: word ^ 0xFFFFFFFF < part),
    "truncation (floor)": by_mode("to_neg"),
    "tie to even": by_mode("ties_even"),
    "limits one code too wide below": lambda x, top, word: overflow(
        round_fraction(x, "stochastic", word), -top - 1, top, "saturate"
    ),
}


@pytest.fixture(scope="module")
def unit_pack(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], pack.Pack]:
    root = tmp_path_factory.mktemp("units")

    def make(name: str, level: str) -> pack.Pack:
        folder = root / f"{name}-{level}"
        return pack.read(folder if folder.exists() else pack.write(units.draft(name, level, {}), folder))

    return make


@pytest.mark.slow
@pytest.mark.parametrize("mistake", SQ)
def test_mistakes_of_sq(mistake: str, unit_pack: Callable[[str, str], pack.Pack], tmp_path: Path) -> None:
    read = unit_pack("quantize_sq", "L1")
    plain, folder = Plain(read.folder), good(read, tmp_path / "dut")
    (folder / "saturated.hex").unlink()
    setting = read.manifest["about"]["unit"]["parameters"]
    grids = [n - (setting["K"] - 1) - setting["EX"] for n in plain.values("n")]
    scaled = [x / power(grid) for x, grid in zip(plain.values("x"), grids, strict=True)]
    give(read, "q", [SQ[mistake](x, 127, 0) for x in scaled], folder)
    result = check.check_dut(read, folder, "q").ports[0]
    assert whole(result) == [mistake]
    assert all(one.case and one.flags for one in result.mismatches)


@pytest.mark.slow
@pytest.mark.parametrize("mistake", CQ)
def test_mistakes_of_cq(mistake: str, unit_pack: Callable[[str, str], pack.Pack], tmp_path: Path) -> None:
    read = unit_pack("quantize_cq", "L1")
    plain, folder = Plain(read.folder), good(read, tmp_path / "dut")
    setting = read.manifest["about"]["unit"]["parameters"]
    columns = zip(*(plain.values(name) for name in ("x", "n", "log_dr", "word")), strict=True)
    codes = [
        CQ[mistake](x / power(n - log_dr - setting["EX"]), 2**log_dr - 1, word)
        for x, n, log_dr, word in columns
    ]
    give(read, "q", codes, folder)
    assert mistake in whole(check.check_dut(read, folder, "q").ports[0])


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["ties_pos", "ties_away", "to_neg"])
def test_ties_of_a_layer(mode: str, block: pack.Pack, dut: Path) -> None:
    """Accq = Q(Acc, 13) drops two bits, so that every fourth value is a tie."""
    acc = Plain(block.folder).values("fc2/Acc")
    give(block, "fc2/Accq", [round_fraction(Fraction(code, 4), mode) for code in acc], dut)
    names = {
        "ties_pos": "tie up (towards +infinity)",
        "ties_away": "tie away from zero",
        "to_neg": "truncation (floor)",
    }
    result = result_of(block, dut, "fc2/Accq")
    assert whole(result)[0] == names[mode]
    for one in result.mismatches:
        exact = Fraction(acc[one.index[0] * 64 + one.index[1]], 4)
        assert one.way["floor"] == exact.__floor__()
        assert Fraction(one.way["remainder"] >> 1, 2**32) == exact - exact.__floor__()
        assert one.want == one.way["presat"] == round_fraction(exact)


# -- chains ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_first_bad_step_of_a_chain(tmp_path: Path, unit_pack: Callable[[str, str], pack.Pack]) -> None:
    made = run_folder.build("wageubn", {}, "mlp", "digits", batch_size=4)
    chain = pack.read(pack.write(layers.draft(made, ["fc2"], steps=3), tmp_path / "chain"))
    folder = good(chain, tmp_path / "dut")
    for name in ("step3/fc2/x1", "step2/fc2/W"):
        codes = Plain(chain.folder).values(name)
        give(chain, name, [codes[0] ^ 1, *codes[1:]], folder)
    result = check.check_dut(chain, folder)
    assert (result.first_step, result.exit_status) == (2, 1)
    read = unit_pack("quantize_sq", "L4")
    last = read.manifest["about"]["chain"][-1]["step"]
    for number, change in enumerate(
        (lambda lines: lines[:-1], lambda lines: [*lines[:-1], "x" * len(lines[0])])
    ):
        folder = good(read, tmp_path / f"last{number}")
        lines = (folder / "q.hex").read_text().splitlines()
        (folder / "q.hex").write_text("\n".join(change(lines)))
        assert check.check_dut(read, folder, "q").first_step == last
    (folder / "q.hex").unlink()
    assert check.check_dut(read, folder, "q").first_step is None
    read = unit_pack("quantize_q", "L4")
    folder = good(read, tmp_path / "unit")
    codes = Plain(read.folder).values("q")
    at = read.manifest["about"]["chain"][2]["first"] + 5
    codes[at] ^= 1
    give(read, "q", codes, folder)
    assert check.check_dut(read, folder, "q").first_step == read.manifest["about"]["chain"][2]["step"]
