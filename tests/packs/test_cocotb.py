"""`intnet.packs.cocotb` in Icarus: it plays units of every kind, catches faults, and says what they are."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from examples.rtl import simulate
from examples.rtl.mutants import HERE
from intnet.errors import ConfigError, PackError
from intnet.packs import check, pack
from intnet.packs import cocotb as intnet_cocotb
from intnet.packs.layouts import Choice, laid_out
from intnet.packs.play import Scoreboard
from tests.support.command import environment
from tests.support.docs_pages import DOCS, ROOT, blocks
from tests.support.simulators import SAYS
from tests.support.testbench_packs import STREAMED, Settings, made, many_kinds

NO_COCOTB = importlib.util.find_spec("cocotb_tools") is None
REASON = "cocotb is not installed: pip install 'cocotb>=2'" if NO_COCOTB else simulate.missing("icarus")
in_icarus = pytest.mark.skipif(bool(REASON), reason=REASON)
TIE_UP = 7  # a mutant of quantize_sq
TEST = """\
import cocotb
from intnet.packs.cocotb import play

@cocotb.test()
async def golden(dut):
    await play(dut, {pack!r}, out={out!r}, names={names!r})
"""


def played(
    folder: Path,
    place: Path,
    mutant: int = 0,
    out: Path | None = None,
    change: tuple[str, str] = ("", ""),
    names: dict[str, str] | None = None,
) -> tuple[bool, str]:
    """Whether the unit of a pack passed in cocotb, and the log; change: of the unit's text."""
    from cocotb_tools.runner import get_runner

    place.mkdir(exist_ok=True)
    unit = pack.read(folder).manifest["about"]["unit"]["name"]
    file = place / "circuit.sv"
    file.write_text(simulate.circuit(folder, unit, place).read_text().replace(*change))
    (place / "test_golden.py").write_text(
        TEST.format(pack=str(folder), out=str(out) if out else None, names=names)
    )
    runner = get_runner("icarus")
    runner.build(
        sources=[file], includes=[HERE], hdl_toplevel=unit, parameters=intnet_cocotb.generics(folder),
        defines={"MUT": mutant} if mutant else {}, build_dir=place / "build", timescale=("1ns", "1ps"),
        log_file=place / "build.log", always=True,
    )  # fmt: skip
    results, paths = place / "results.xml", [str(place), str(ROOT), os.environ.get("PYTHONPATH", "")]
    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(SystemExit):  # its way to say: failed
        patch.setenv("PYTHONPATH", os.pathsep.join(paths))
        patch.setenv("COCOTB_REWRITE_ASSERTION_FILES", "test_golden.py")  # not all that it imports
        runner.test(
            hdl_toplevel=unit, test_module="test_golden", build_dir=place / "build", test_dir=place,
            log_file=place / "test.log", results_xml=str(results),
        )  # fmt: skip
    log = (place / "test.log").read_text()
    cases = list(ET.parse(results).iter("testcase"))
    assert [case.get("name") for case in cases] == ["golden"], log
    return cases[0].find("failure") is None, log


def passes(folder: Path, place: Path) -> None:
    """The unit passes, and what was written are the expected files, byte for byte."""
    passed, log = played(folder, place, out=place / "dut")
    assert passed, log
    for path in sorted((folder / "exp").iterdir()):
        assert (place / "dut" / path.name).read_bytes() == path.read_bytes(), path


@pytest.mark.slow
@in_icarus
@pytest.mark.parametrize(
    ("name", "settings", "choice"),
    [
        ("quantize_sq", {}, Choice()),
        ("quantize_sq", STREAMED, Choice()),
        ("mac_requant", {}, Choice()),
        ("mac_requant", STREAMED, Choice("nhwc", 1, 12)),
        ("mac_requant", {"latency": 4}, Choice("nhwc", 2, 12)),
        ("block_dot", {"ready": 1}, Choice("nhwc", None, 3)),
        ("mx_dot", {"reset": 1}, Choice("nhwc", None, 3)),
        ("r_exponent", {"reset": 1}, Choice()),
        ("quantize_cq", {"latency": 2, "ready": 1}, Choice("nhwc", None, 64)),
    ],
    ids=str,
)
def test_units_of_every_kind_pass(name: str, settings: Settings, choice: Choice, tmp_path: Path) -> None:
    folder = pack.write(laid_out(made(name, "L0", settings), choice), tmp_path / "pack")
    passes(folder, tmp_path / "run")


@pytest.mark.slow
@in_icarus
def test_a_mutant_is_caught_told_and_diagnosed(tmp_path: Path) -> None:
    folder = pack.write(made("quantize_sq", "L2", {"W": 10, "EX": -40, "K": 4}), tmp_path / "pack")
    passed, log = played(folder, tmp_path / "run", TIE_UP, tmp_path / "dut")
    assert not passed
    assert re.search(r"q\[\d+\]: got \w \(-?\d\) want \w \(-?\d\), case \S+ \([^)]+\)", log), log
    result = check.check_dut(pack.read(folder), tmp_path / "dut", "q")
    assert result.ports[0].verdicts[0].name.startswith("tie up"), result.ports[0].verdicts


@pytest.mark.slow
@in_icarus
def test_faults_of_a_stream_are_caught_and_named(tmp_path: Path) -> None:
    folder = pack.write(made("mac_requant", "L0", STREAMED), tmp_path / "pack")
    for mutant in (101, 103, 105, 106, 107, 108, 112):
        says = SAYS[mutant]
        passed, log = played(folder, tmp_path / "run", mutant)
        assert not passed, mutant
        assert re.search(says.replace("FAIL ", "").replace("1004", r"\d+"), log), (mutant, log)


@pytest.mark.slow
@in_icarus
def test_signals_of_other_names(tmp_path: Path) -> None:
    folder = pack.write(made("quantize_q", "L0", {}), tmp_path / "pack")
    text = simulate.circuit(folder, "quantize_q", tmp_path).read_text()
    port = re.search(r"input +wire +\[W-1:0\] +x\b", text)
    assert port is not None
    body = text.replace(port[0], port[0][:-1] + "s_tdata").replace(
        ");\n", ");\n  wire [W-1:0] x = s_tdata;\n", 1
    )
    names = {"x": "s_tdata"}
    assert played(folder, tmp_path / "right", change=(text, body), names=names)[0]
    passed, log = played(folder, tmp_path / "none", change=(text, body), names={"x": "tdata"})
    assert not passed and "quantize_q has no signal 'tdata': give names={'x': 'ITS NAME'}" in log
    passed, log = played(folder, tmp_path / "odd", names={"y": "x"})
    assert not passed and "names={'y': ...}: the pack has only clk, rst" in log


@pytest.mark.slow
@in_icarus
def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    """Its two files, as they stand there, in a folder with the pack that they name."""
    files = dict(
        re.match(r"# (\S+\.py)\n(.*)", block.text, re.S).groups()  # type: ignore[union-attr]
        for block in blocks((DOCS / "how-to" / "verify-rtl.md").read_text())
        if block.kind == "py"
    )
    assert set(files) == {"test_sq.py", "run.py"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    folder = pack.write(made("quantize_sq", "L0", {}), tmp_path / "sq")
    done = subprocess.run(
        [sys.executable, "run.py"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "PASS=1 FAIL=0" in done.stdout, done.stdout + done.stderr
    assert check.check_dut(pack.read(folder), tmp_path / "dut").exit_status == 0


# -- without a simulator -----------------------------------------------------------------------------


def board(tmp_path: Path) -> Scoreboard:
    return Scoreboard(pack.write(made("quantize_sq", "L0", {}), tmp_path / "pack"))


def test_a_scoreboard_takes_what_is_right(tmp_path: Path) -> None:
    right = board(tmp_path)
    hexes = (right.pack.folder / "in" / "x.hex").read_text().split()
    assert [beat["x"] for beat in right.beats] == [int(word, 16) for word in hexes]
    for words in right.results:
        assert not right.give(words)
    right.finish()
    right.write(tmp_path / "dut")
    assert check.check_dut(right.pack, tmp_path / "dut").exit_status == 0


def test_a_scoreboard_names_what_is_wrong(tmp_path: Path) -> None:
    one = board(tmp_path)
    first, second = one.results[:2]
    fault = one.give(first | {"q": first["q"] ^ 1})
    assert len(fault) == 1 and re.match(r"q\[0\]: got \w\w \(.*\) want \w\w \(.*\), case \S+ \(", fault[0])
    bits = f"{second['q']:08b}"
    assert "got x" in one.give({"q": f"x{bits[1:]}", "saturated": second["saturated"]})[0]
    with pytest.raises(AssertionError, match=f"2 faults, 2 results of {len(one.results)}"):
        one.finish()
    one.write(tmp_path / "dut")
    assert (tmp_path / "dut" / "q.hex").read_text().splitlines()[1] == f"x{second['q'] & 15:x}"
    with pytest.raises(PackError, match="q has 3 bits, in the pack 8"):
        one.give({"q": "101", "saturated": "0"})


@pytest.mark.parametrize("number", [1 << 8, -129, 1793])
def test_a_number_that_a_port_cannot_hold_is_no_word_of_it(number: int, tmp_path: Path) -> None:
    one = board(tmp_path)
    with pytest.raises(PackError, match=f"q = {number}: a word of 8 bits does not hold it"):
        one.give({"q": number, "saturated": 0})
    with pytest.raises(PackError, match="saturated = 2: a word of 1 bits"):
        one.give({"q": 0, "saturated": 2})


def test_what_a_result_is_given_as(tmp_path: Path) -> None:
    one = board(tmp_path)
    for words in one.results[:2]:
        assert not one.give({name: np.int64(word) for name, word in words.items()})
    negative = next(k for k, words in enumerate(one.results) if words["q"] >> 7)
    other = Scoreboard(one.pack)
    for words in one.results[: negative + 1]:
        assert not other.give(words | {"q": words["q"] - (words["q"] >> 7 << 8)})  # as a signed number
    with pytest.raises(PackError, match=r"q = 1\.5: give bits, or the whole number that they are"):
        one.give({"q": 1.5, "saturated": 0})  # type: ignore[dict-item]
    with pytest.raises(PackError, match="a result without saturated: give all of"):
        one.give({"q": 5})


def test_a_word_that_is_lost_or_comes_twice_is_named(tmp_path: Path) -> None:
    folder = pack.write(made("quantize_sq", "L0", {"ready": 1}), tmp_path / "pack")
    results = Scoreboard(folder).results
    at = next(k for k in range(1, len(results) - 1) if results[k - 1] != results[k] != results[k + 1])
    for other, says in ((at + 1, "was one lost?"), (at - 1, "did it come twice?")):
        one = Scoreboard(folder)
        for words in results[:at]:
            one.give(words)
        assert one.give(results[other])[-1].endswith(f"the words of result {other}: {says}")


def test_what_cannot_be_played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PackError, match="a pack of layers; give that of a unit"):
        Scoreboard(pack.write(many_kinds(), tmp_path / "layers"))

    def absent(name: str) -> str:
        raise intnet_cocotb.PackageNotFoundError(name)

    monkeypatch.setattr(intnet_cocotb, "version", absent)
    with pytest.raises(ConfigError, match=r"needs cocotb 2 \(it is not installed\): pip install 'cocotb>=2'"):
        intnet_cocotb.check_cocotb()
    monkeypatch.setattr(intnet_cocotb, "version", lambda name: "1.9.2")
    with pytest.raises(ConfigError, match=r"\(found is 1.9.2\)"):
        intnet_cocotb.check_cocotb()
