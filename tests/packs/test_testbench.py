"""Generated testbenches: a damaged file fails on load, a device's words are compared one by one."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from examples.rtl import simulate
from intnet.packs import hdl, pack
from intnet.packs.hdl.text import identifier, names_of
from intnet.packs.layouts import Choice, laid_out
from intnet.packs.ports import Draft
from tests.support.hex_words import FORMS
from tests.support.simulators import icarus_only, library, verilator_only
from tests.support.testbench_packs import made, many_kinds

FAULTS: dict[str, Callable[[str], str]] = {
    "a word missing": lambda text: text.split("\n", 1)[1],
    "a word too many": lambda text: text + text[: text.index("\n") + 1],
    "a bit": lambda text: ("1" if text[0] == "0" else "0") + text[1:],
    "two words exchanged": lambda text: "\n".join([*text.split("\n")[3::-1], *text.split("\n")[4:]]),
    "an x": lambda text: re.sub("[1-9a-f]", "x", text, count=1),
    "a z": lambda text: re.sub("[1-9a-f](?=\n)", "z", text, count=1),
    "a word that is none": lambda text: text[:-2] + "g\n",
    "empty": lambda text: "",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack.write(many_kinds(), tmp_path_factory.mktemp("layers") / "pack")


@pytest.fixture(scope="module")
def programs(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The layers' testbench and a unit's, in each simulator that is here; the command up to its plusargs."""
    place, out = tmp_path_factory.mktemp("programs"), {}
    unit = pack.write(made("quantize_q", "L1", {"W": 8, "S": 1}), place / "unit")
    if not simulate.missing("icarus"):
        out["icarus"] = simulate.icarus(folder, "", place)[:-1]
        out["icarus unit"] = simulate.icarus(unit, "quantize_q", place)[:-1]
    if not simulate.missing("verilator"):
        packs = [(folder, ""), (unit, "quantize_q")]
        out["verilator"] = simulate.verilator(packs, place / "verilator", library(tmp_path_factory))
    return out


SIMULATORS = [pytest.param("icarus", marks=icarus_only), pytest.param("verilator", marks=verilator_only)]
every_simulator = pytest.mark.parametrize("simulator", SIMULATORS)


def text_of(programs: dict[str, list[str]], simulator: str, folder: Path, *plusargs: str) -> str:
    """What a testbench prints; in Verilator's program of two the layers' one needs no choice, but is."""
    unit = "quantize_q" in next((folder / "hdl").glob("tb_*")).name
    command = programs["icarus unit" if unit and simulator == "icarus" else simulator]
    choice = [f"+tb={simulate.bench(folder).stem}"]
    return simulate.run([*command, *choice, f"+pack={folder}", *plusargs])[1]


@pytest.mark.slow
@every_simulator
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("file", ["in/x.hex", "exp/q.hex"])
def test_a_damaged_file_of_a_unit_fails_on_load(
    file: str, fault: str, simulator: str, programs: dict[str, list[str]], tmp_path: Path
) -> None:
    copy = pack.write(made("quantize_q", "L1", {"W": 8, "S": 1}), tmp_path / "unit")
    path = copy / file
    assert "PASS n=256" in text_of(programs, simulator, copy)
    path.write_text(FAULTS[fault](path.read_text()))
    text = text_of(programs, simulator, copy)
    assert "PASS" not in text and f"FAIL load {file}" in text
    path.unlink()
    assert f"FAIL load {file}" in text_of(programs, simulator, copy)


@pytest.mark.slow
@every_simulator
def test_the_layers_testbench_loads_every_file(
    simulator: str, folder: Path, programs: dict[str, list[str]], tmp_path: Path
) -> None:
    total = sum(port.words for port in pack.read(folder).ports.values())
    assert f"PASS load n={total}\n" in text_of(programs, simulator, folder)
    copy = shutil.copytree(folder, tmp_path / "copy")
    for path in sorted(copy.glob("*/*.hex")):
        before = path.read_text()
        for fault in ("a bit", "a word missing", "a word too many", "empty"):
            path.write_text(FAULTS[fault](before))
            text = text_of(programs, simulator, copy)
            assert "PASS" not in text and f"FAIL load {path.relative_to(copy)}" in text
        path.write_text(before)
    assert "PASS load" in text_of(programs, simulator, copy)


@pytest.mark.slow
@every_simulator
def test_a_device_is_compared_word_by_word(
    simulator: str, folder: Path, programs: dict[str, list[str]], tmp_path: Path
) -> None:
    dut = shutil.copytree(folder / "exp", tmp_path / "dut")
    total = sum(port.words for port in pack.read(folder).ports.values() if port.direction == "out")
    assert f"PASS n={total}\n" in text_of(programs, simulator, folder, f"+dut={dut}")
    for path in sorted(dut.iterdir()):
        before = path.read_text()
        for fault, change in FAULTS.items():
            path.write_text(change(before))
            text = text_of(programs, simulator, folder, f"+dut={dut}")
            if change(before).split() != before.split():
                assert "PASS" not in text and f"FAIL {path.name}" in text, (path.name, fault)
        path.write_text(before.replace("0", "z"))  # which Verilator's %h would take for 0
        assert f"FAIL {path.name}" in text_of(programs, simulator, folder, f"+dut={dut}")
        path.unlink()
        assert f"FAIL {path.name}" in text_of(programs, simulator, folder, f"+dut={dut}")
        path.write_text(before)
    wrong = dut / "fc2.q.hex"
    lines = wrong.read_text().splitlines()
    lines[5] = "f" * len(lines[5])
    wrong.write_text("\n".join(lines) + "\n")
    text = text_of(programs, simulator, folder, f"+dut={dut}")
    assert f"fc2.q.hex[5]: got {lines[5]} want" in text and "1 of 8 words differ" in text


@pytest.mark.slow
@every_simulator
def test_what_a_device_wrote_is_read_as_check_reads_it(
    simulator: str, folder: Path, programs: dict[str, list[str]], tmp_path: Path
) -> None:
    """In every form that `check` takes, but for comments in a line; what it refuses is refused."""
    total = sum(port.words for port in pack.read(folder).ports.values() if port.direction == "out")
    for form, write in FORMS.items():
        dut = tmp_path / identifier(form)
        dut.mkdir()
        for path in sorted((folder / "exp").iterdir()):
            words = path.read_text().split()
            comment = form == "addresses, comments"
            text = f"// 0x00000000\n@0\n{chr(10).join(words)}\n// end" if comment else write(words)
            (dut / path.name).write_bytes(text.encode())
        assert f"PASS n={total}\n" in text_of(programs, simulator, folder, f"+dut={dut}"), form
    words = (folder / "exp" / "fc2.q.hex").read_text().split()
    rest = "\n".join(words[1:])
    one, end = words[0], words[0][2:]
    bad = ["", "_", "0x", f"0{end}", f"{one}0", f"@1 {one}", f"@0 {one}\n@2", "@g", f"0x{one}", f"0x{end}"]
    for first in (*bad, "8'hff", "/ x", f"{one} /* c */", "-1", "x1"):
        (dut / "fc2.q.hex").write_text(f"{first}\n{rest}\n")
        said = text_of(programs, simulator, folder, f"+dut={dut}")
        assert "PASS" not in said and "FAIL fc2.q.hex" in said, first
    assert "fc2.q.hex[0]: no word of 16 hex digits, 64 bits; a row has 8 lanes of 8 bits" in said


@pytest.mark.slow
@icarus_only
def test_what_the_unit_gave_can_be_written(tmp_path: Path) -> None:
    """+out=DIR: the files are those expected, byte for byte, and a wrong word is named."""
    draft = made("quantize_sq", "L1", {"W": 10, "EX": -40, "K": 4})
    good = pack.write(draft, tmp_path / "good")
    (tmp_path / "out").mkdir()
    assert simulate.run([*simulate.icarus(good, "quantize_sq", tmp_path), f"+out={tmp_path / 'out'}"])[0]
    for name in ("q.hex", "saturated.hex"):
        assert (tmp_path / "out" / name).read_bytes() == (good / "exp" / name).read_bytes()
    changed = [(port, codes.copy()) for port, codes in draft.ports]
    next(codes for port, codes in changed if port.name == "q")[100] ^= 1
    bad = pack.write(Draft("wrong", "L1", {}, changed, draft.cases, draft.about), tmp_path / "wrong")
    passed, text = simulate.run(simulate.icarus(bad, "quantize_sq", tmp_path))
    assert not passed and "q[100]: got" in text
    mutant = simulate.icarus(good, "quantize_sq", tmp_path, 9)  # to the end, for the checker to explain
    passed, text = simulate.run([*mutant, f"+out={tmp_path / 'out'}"])
    assert not passed and text.count(": got") == 8
    for name in ("q.hex", "saturated.hex"):
        lines = [(place / name).read_text().splitlines() for place in (tmp_path / "out", good / "exp")]
        assert len(lines[0]) == len(lines[1])


LAID_OUT = [
    ("mac_requant", Choice("nhwc", 1, 32)),  # a beat of 32 bits in four words of 32
    ("mac_requant", Choice("nhwc", 2, 12)),
    ("block_dot", Choice("nhwc", None, 3)),
    ("quantize_cq", Choice("nhwc", None, 64)),
]


@pytest.mark.slow
@every_simulator
def test_beats_are_put_together_from_words_of_any_layout(
    simulator: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The unit passes; a wrong word is named; what it gave is written as the pack has it."""
    packs = []
    for number, (unit, choice) in enumerate(LAID_OUT):
        packs.append((pack.write(laid_out(made(unit, "L0", {}), choice), tmp_path / str(number)), unit))
    if simulator == "verilator":
        program = simulate.verilator(packs, tmp_path / "verilator", library(tmp_path_factory))
        commands = [simulate.chosen(program, folder) for folder, _ in packs]
    else:
        commands = [simulate.icarus(folder, unit, tmp_path) for folder, unit in packs]
    for (folder, _), command in zip(packs, commands, strict=True):
        out = tmp_path / f"{folder.name}-dut"
        out.mkdir()
        passed, text = simulate.run([*command, f"+out={out}"])
        assert passed, text
        for path in sorted((folder / "exp").iterdir()):
            assert (out / path.name).read_bytes() == path.read_bytes(), path
        path = folder / "in" / "x.hex" if (folder / "in" / "x.hex").exists() else folder / "in" / "xm.hex"
        before = path.read_text()
        path.write_text(f"{before[:-2]}{int(before[-2], 16) ^ 1:x}\n")
        assert f"FAIL load in/{path.name}" in simulate.run(command)[1]


@pytest.mark.slow
@every_simulator
def test_a_laid_out_pack_of_layers_is_loaded_and_compared(
    simulator: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = pack.write(laid_out(many_kinds(), Choice("nc/5hw5", 3, 32)), tmp_path / "pack")
    words = sum(port.words for port in pack.read(folder).ports.values() if port.direction == "out")
    if simulator == "verilator":
        command = simulate.verilator([(folder, "")], tmp_path / "verilator", library(tmp_path_factory))
    else:
        command = simulate.icarus(folder, "", tmp_path)[:-1]
    dut = shutil.copytree(folder / "exp", tmp_path / "dut")
    assert f"PASS n={words}\n" in simulate.run([*command, f"+pack={folder}", f"+dut={dut}"])[1]


@pytest.mark.slow
@verilator_only
def test_a_wrapper_of_another_file_s_name_is_no_error(tmp_path: Path) -> None:
    """The usage that the testbench tells, with the unit in a file that is not called as its module."""
    folder = pack.write(made("quantize_q", "L0", {}), tmp_path / "pack")
    bench = simulate.bench(folder)
    usage = re.search(r"verilator (.*?)\n//\n", bench.read_text().replace("\\\n//", ""), re.S)
    assert usage is not None
    words = usage[1].split("\n")[0].replace("PACK", str(folder)).split()
    mine = tmp_path / "wrapper.sv"
    mine.write_text((simulate.HERE / "quantize_q.sv").read_text())
    place = [str(mine) if word == "quantize_q.sv" else word for word in words]
    lint = [word for word in place if word not in ("--binary",)]
    simulate.command(["verilator", "--lint-only", f"-I{simulate.HERE}", *lint])
    with pytest.raises(RuntimeError, match="DECLFILENAME"):
        bare = [word for word in lint if word != "-Wno-DECLFILENAME"]
        simulate.command(["verilator", "--lint-only", f"-I{simulate.HERE}", *bare])


def test_the_package_of_a_layer_keeps_its_name_in_another_step(folder: Path) -> None:
    manifest = pack.read(folder).manifest
    texts = []
    for step, name in ((2, "m-d-fc2+bn2-step2-0123abcd"), (7, "m-d-fc2+bn2-step7-89ab4567")):
        generator = {"kind": "layers", "layers": ["layer1.0.fc2", "bn2"], "step": step}
        texts.append(hdl.files(manifest | {"name": name, "generator": generator})["hdl/pack.svh"])
    assert all("package pack_layer1_0_fc2_bn2;\n" in text for text in texts)
    assert texts[0].splitlines()[1:] == texts[1].splitlines()[1:]


@pytest.mark.slow
@icarus_only
def test_words_of_1024_bits_go_through_a_unit(tmp_path: Path) -> None:
    settings = {"LANES": 64, "A": 16, "B": 8, "ACC": 36}
    wide = pack.write(made("mac_requant", "L1", settings), tmp_path / "wide")
    passed, text = simulate.run(simulate.icarus(wide, "mac_requant", tmp_path))
    assert passed, text


def test_the_package_has_what_the_manifest_says(folder: Path) -> None:
    held = pack.read(folder)
    text = hdl.files(held.manifest)["hdl/pack.svh"]
    assert text == (folder / "hdl" / "pack.svh").read_text() and text.isascii()
    values = dict(re.findall(r"(\w+) = ([^;]+);", text))
    assert values["fc2_x0_WORDS"] == "6" and values["fc2_x0_LANES"] == "64"
    assert values["fc2_x0_EXPONENT"] == "-7" and "fc2_e3_EXPONENT" not in values
    assert values["p1_bit_WORD_BITS"] == "5" and values["fc2_gW_words_SIGNED"] == "0"
    for name, entry in held.entries.items():
        assert f"64'h{entry['guard']}" in text, name


def test_names_never_meet() -> None:
    """'a/b' and 'a.b' would be one identifier."""
    names = [{"name": text} for text in ("a/b", "a.b", "a_b_2", "a b", "9", "ü")]
    assert names_of(names) == ["a_b", "a_b_2", "a_b_2_2", "a_b_3", "p9", "_"]
