"""Units with latency, valid and ready, and resets: right ones pass in both simulators, faults are named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from examples.rtl import simulate, stream
from examples.rtl.mutants import HERE, mutants, source
from intnet.errors import ConfigError, PackError
from intnet.packs import check, contract, pack, units
from intnet.packs.by_spec import recompute as by_spec
from intnet.packs.layouts import Choice, laid_out
from intnet.packs.units.signals import Group, Range, Unit, column, signal
from intnet.spec.wires import Circuit
from tests.support.simulators import SAYS, check_passed, icarus_only, library, verilator_only
from tests.support.testbench_packs import STREAMED, Settings, label, made

WAYS: list[Settings] = [{"latency": 4}, {"ready": 1}, {"latency": 2, "reset": 1}, {"latency": 9, "ready": 1}]
BOTH = ("quantize_sq", "mac_requant")  # a result a beat, and a vector


def written(place: Path, name: str, level: str, settings: Settings) -> Path:
    return pack.write(made(name, level, settings), place / f"{name}-{label(settings)}")


def told(folder: Path, name: str, place: Path, mutant: int = 0, *plusargs: str) -> str:
    """What Icarus prints."""
    return simulate.run([*simulate.icarus(folder, name, place, mutant), *plusargs])[1]


def told_of(text: str, folder: Path, place: Path, *plusargs: str) -> str:
    """The same of SystemVerilog given as text."""
    (place / "unit.sv").write_text(text)
    top, program = simulate.bench(folder), place / "unit.vvp"
    folders = ["-I", folder / "hdl", "-I", HERE]
    simulate.command(["iverilog", "-g2012", *folders, "-s", top.stem, "-o", program, top, place / "unit.sv"])
    return simulate.run(["vvp", "-n", str(program), f"+pack={folder}", *plusargs])[1]


# -- right ones ------------------------------------------------------------------------------------


@pytest.mark.slow
@icarus_only
@pytest.mark.parametrize("name", units.UNITS)
def test_every_unit_streams_in_icarus(name: str, tmp_path: Path) -> None:
    folder = written(tmp_path, name, "L1", STREAMED)
    text = check_passed(simulate.icarus(folder, name, tmp_path), folder)
    found = re.search(r"beats for (\d+) clocks, results for (\d+)\nresets: (\d+), (\d+)", text)
    assert found and all(int(count) > 5 for count in found.groups())


@pytest.mark.slow
@verilator_only
def test_every_unit_streams_in_verilator(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Without a warning under -Wall, with the same words held back and the same resets as in Icarus."""
    packs = [(written(tmp_path, name, "L0", STREAMED), name) for name in units.UNITS]
    program = simulate.verilator(packs, tmp_path / "verilator", library(tmp_path_factory))
    for folder, name in packs:
        lines = check_passed(simulate.chosen(program, folder), folder).splitlines()
        assert told(folder, name, tmp_path).splitlines() == [line for line in lines if "$finish" not in line]


@pytest.mark.slow
@icarus_only
@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("settings", WAYS, ids=label)
def test_each_way_alone(name: str, settings: Settings, tmp_path: Path) -> None:
    folder = written(tmp_path, name, "L0", settings)
    check_passed(simulate.icarus(folder, name, tmp_path), folder)


@icarus_only
@pytest.mark.parametrize("name", BOTH)
def test_a_layout_streams_too(name: str, tmp_path: Path) -> None:
    """Beats of several words, and what the unit gave is written as the pack has it."""
    folder = pack.write(laid_out(made(name, "L0", STREAMED), Choice("nhwc", 1, 12)), tmp_path / "pack")
    (tmp_path / "dut").mkdir()
    assert "PASS n=" in told(folder, name, tmp_path, 0, f"+out={tmp_path / 'dut'}")
    assert check.check_dut(pack.read(folder), tmp_path / "dut").exit_status == 0


STALLED = """
module quantize_q #(parameter int W = 24, parameter int S = 16) (
    input wire clk, input wire rst, input wire in_valid, output wire in_ready, input wire [W-1:0] x,
    output wire out_valid, input wire out_ready, output reg [W-S:0] q
);
  reg [1:0] valid;
  reg [W-S:0] first;
  wire moves = !valid[1] || out_ready;  // all of it or nothing: in_ready follows out_ready at once
  assign in_ready = moves;
  assign out_valid = valid[1];
  wire [W-S:0] floor = {x[W-1], x[W-1:S]};
  wire up = x[S-1] && (x[S] || x[S-2:0] != 0);
  always @(posedge clk)
    if (rst) valid <= 0;
    else if (moves) begin
      valid <= {valid[0], in_valid};
      first <= floor + (W - S + 1)'(up);
      q <= first;
    end
endmodule
"""


@icarus_only
def test_a_pipeline_that_stalls_as_a_whole_is_right_too(tmp_path: Path) -> None:
    settings = {"W": 10, "S": 4, "latency": 2, "ready": 1, "reset": 1}
    folder = written(tmp_path, "quantize_q", "L1", settings)
    text = told_of(STALLED, folder, tmp_path)
    assert "PASS n=1024" in text, text
    for fault in (
        ("assign in_ready = moves", "assign in_ready = 1'b1"),
        ("if (rst) valid <= 0;\n    else ", ""),
    ):
        assert fault[0] in STALLED
        said = told_of(STALLED.replace(*fault), folder, tmp_path)
        assert "PASS" not in said and "FAIL bad files 0, mismatches" in said, said


# -- what a pack says of it --------------------------------------------------------------------------


def test_a_pack_says_how_its_unit_is_connected(tmp_path: Path) -> None:
    draft = made("mac_requant", "L0", STREAMED)
    folder = pack.write(draft, tmp_path / "pack")
    held = pack.read(folder)
    unit = held.manifest["about"]["unit"]
    assert (unit["latency"], unit["ready"], unit["reset"]) == (3, True, True)
    page = " ".join((folder / "CONTRACT.md").read_text().split())
    for line in (
        "at which in_valid and in_ready are 1 and rst is 0",
        "with the last beat of its vector taken at edge k, a result stands at the outputs",
        "out_valid 1, at edge k + 3 at the earliest",
        "it must not wait for out_ready",
        "up to 32 times, 0 to 4 clocks behind a beat",
        "`first` is 0 there",
    ):
        assert line in page
    assert check.recompute(held).exit_status == 0 and by_spec.recompute(held).exit_status == 0
    plain = made("mac_requant", "L0")
    assert not {"ready", "reset"} & plain.about["unit"].keys() and plain.about["unit"]["latency"] == 1
    assert [case.id for case in plain.cases] == [case.id for case in draft.cases]  # the same vectors
    assert "### Timing" not in contract.text(pack.read(pack.write(plain, tmp_path / "plain")).manifest)


@pytest.mark.parametrize(
    "settings", [{"latency": 0}, {"latency": 65}, {"ready": 2}, {"reset": "yes"}], ids=label
)
def test_a_setting_that_is_none(settings: Settings) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        units.draft("shift", "L0", settings)


def test_a_unit_that_remembers_beats_without_vectors_has_no_resets() -> None:
    """After a reset its results are others: there is no beat from which to go on."""

    def build(c: Circuit, p: Settings) -> None:
        x, last = c.read("x", p["W"]), c.register("before", p["W"])
        c.keep(last, x)
        c.give("q", x - last)

    def ports(p: Settings, scale: object) -> tuple[object, ...]:
        return signal("x", p["W"], "a code"), signal(
            "q", p["W"] + 1, "x less the one before", direction="out"
        )

    unit = Unit("difference", "x less the one before", {"W": Range(6, 2, 9)}, ports)  # type: ignore[arg-type]
    groups = [Group("all", "a", {"x": column(list(range(-32, 32)))})]
    assert units.own(unit, build, groups, {"ready": 1}).about["unit"]["ready"]
    with pytest.raises(PackError, match="has no port `last`"):
        units.own(unit, build, groups, {"reset": 1})


# -- faults ------------------------------------------------------------------------------------------


def test_every_mutant_of_the_wrapper_is_told() -> None:
    assert list(mutants("stream")) == list(SAYS)


@pytest.mark.slow
@icarus_only
@pytest.mark.parametrize("name", BOTH)
def test_mutants_of_the_wrapper_are_killed_and_named(name: str, tmp_path: Path) -> None:
    folder = written(tmp_path, name, "L0", STREAMED)
    assert "PASS n=" in told(folder, name, tmp_path)
    for mutant, says in SAYS.items():
        if (name, mutant) == ("quantize_sq", 105):
            continue  # it has no sum
        text = told(folder, name, tmp_path, mutant)
        assert "PASS" not in text and "FAIL" in text, (mutant, text)
        assert re.search(says, text), (mutant, text)


@icarus_only
def test_a_unit_that_forgets_to_clear_its_sum(tmp_path: Path) -> None:
    """The unit as it is, without ready: a pack without resets does not see it."""
    text = source("mac_requant").read_text()
    forgets = text.replace("if (rst) sum <= '0;\n    else if", "if")
    assert forgets != text
    small = {"LANES": 1, "A": 4, "B": 4, "ACC": 12, "S": 1, "OUT": 4}
    folders = {reset: written(tmp_path, "mac_requant", "L1", small | {"reset": reset}) for reset in (0, 1)}
    assert "PASS n=" in told_of(text, folders[1], tmp_path)
    assert "PASS n=" in told_of(forgets, folders[0], tmp_path)
    said = told_of(forgets, folders[1], tmp_path)
    assert "PASS" not in said and "it is the first one behind a reset: is all cleared, sums too?" in said


@icarus_only
@pytest.mark.parametrize("name", BOTH)
def test_a_unit_that_takes_nothing(name: str, tmp_path: Path) -> None:
    folder = written(tmp_path, name, "L0", {"ready": 1})
    unit = pack.read(folder).manifest["about"]["unit"]
    dead = stream.wrapped(unit).replace(".in_ready(in_ready)", ".in_ready()")
    dead = dead.replace(".in_valid(in_valid), .in_last", ".in_valid(1'b0), .in_last")
    dead = dead.replace("  stream #(", "  assign in_ready = 0;\n  stream #(")
    said = told_of(dead, folder, tmp_path)
    assert re.search(r"FAIL timeout: beat 0 of \d+ was not taken, in_ready is 0 for 1002 clocks", said), said


@icarus_only
def test_a_lost_word_is_found_by_check(tmp_path: Path) -> None:
    """With +out= the testbench goes on to the end, and what is missing is named by its place."""
    folder = written(tmp_path, "quantize_sq", "L2", {"W": 8, "EX": -3, "K": 4, "ready": 1})
    unit = pack.read(folder).manifest["about"]["unit"]
    text = stream.wrapped(unit).replace(".unit_done(unit_done)", ".unit_done(unit_done && !lost)")
    count = "  integer given = 0;\n  wire lost = unit_done && given == 40;\n"
    count += "  always @(posedge clk) if (unit_done) given <= given + 1;\n"
    text = text.replace("  stream #(", f"{count}  stream #(")
    (tmp_path / "dut").mkdir()
    said = told_of(text, folder, tmp_path, f"+out={tmp_path / 'dut'}")
    assert "FAIL timeout" in said
    result = check.check_dut(pack.read(folder), tmp_path / "dut", "q")
    assert result.exit_status == 2 and "missing" in result.ports[0].problem, result.ports[0].problem
