"""Circuits of the units put to use: run fast, as C, as Verilog; faults, and vectors that show them."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from examples.rtl import fault_table, prove, random_words, simulate
from examples.rtl.mutants import HERE, mutants, proven, source
from intnet.errors import ConfigError, PackError
from intnet.packs import units
from intnet.packs.circuits import c_model, coverage, fast, faults
from intnet.packs.units import drafts, models, words
from intnet.packs.units.signals import joined
from intnet.packs.units.words import Ran
from intnet.spec import units as definition
from intnet.spec.wires import Circuit, run
from tests.support.simulators import library, verilator_only
from tests.support.testbench_packs import SMALL, Settings, label

CASES = [(name, Settings()) for name in units.UNITS]
CASES += [(name, settings) for name, settings in SMALL if "lfsr" not in settings]
yosys_only = pytest.mark.skipif(bool(prove.missing()), reason=prove.missing())


def of(name: str, settings: Settings) -> tuple[Circuit, Settings]:
    parameters = units.UNITS[name].defaults | settings
    return definition.circuit(name, parameters), parameters


@cache
def directed(name: str, settings: tuple[tuple[str, Any], ...] = ()) -> Ran:
    parameters = units.UNITS[name].defaults | dict(settings)
    return words.run(name, parameters, joined(drafts.STIMULI[name]["L1"](parameters)))


def some_beats(ran: Ran, count: int) -> dict[str, list[int]]:
    """The first vectors, whole."""
    stop = min(count, len(next(iter(ran.reads.values()))))
    return {name: column[:stop] for name, column in ran.reads.items()}


# -- fast ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("name", "settings"), CASES, ids=label)
def test_fast_is_the_definition(name: str, settings: Settings) -> None:
    ran = directed(name, tuple(settings.items()))
    reads = some_beats(ran, 400)
    want = run(
        ran.circuit, [dict(zip(reads, beat, strict=True)) for beat in zip(*reads.values(), strict=True)]
    )
    got = fast.columns(ran.circuit, reads, ran.circuit.wires | ran.circuit.gives)
    assert {wire: list(map(int, column)) for wire, column in got.items()} == {
        wire: [row[wire] for row in want] for wire in got
    }


# -- coverage and faults ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", units.UNITS)
def test_directed_vectors_reach_all_that_is_declared(name: str) -> None:
    said = units.draft(name, "L1").about["coverage"]
    assert said["complete"] and said["missing"] == []
    for part in ("bits", "bins", "narrower"):
        assert said[part]["reached"] == said[part]["of"] > 0


def test_coverage_names_what_is_not_reached() -> None:
    ran = directed("shift")
    reads = {"x": [v for v in ran.reads["x"] if 0 <= v < 1 << 20]}
    columns = fast.columns(ran.circuit, reads, coverage.outputs(ran.circuit))
    found = coverage.measure(ran.circuit, reads, columns)
    assert not found.complete
    assert {"x[23] = 1", "under = 1", "tie above an odd floor, negative"} <= {
        name.replace("under[0]", "under") for name in found.missing
    }
    assert "floor: one bit narrower" in found.missing


def test_a_level_with_gaps_says_so() -> None:
    said = units.draft("mac_requant", "L2").about["coverage"]
    assert not said["complete"] and "tie above an odd floor, positive" in said["missing"]
    wide = units.draft("mac_requant", "L1", {"ACC": 48}).about["coverage"]
    assert not wide["complete"] and any(name.startswith("after") for name in wide["missing"])


@pytest.mark.slow
@pytest.mark.parametrize("name", units.UNITS)
def test_faults_are_shown_or_proven_equal(name: str) -> None:
    """L1 and L2 show every fault but those on file as equal by proof (`fault_table.py`)."""
    row = next(row for row in json.loads(fault_table.RESULT.read_text()) if row["unit"] == name)
    made = fault_table.circuits(name)
    left = {level: fault_table.missed(name, level, made) for level in fault_table.LEVELS}
    assert {level: len(made) - len(names) for level, names in left.items()} == {
        level: row["killed"][level] for level in fault_table.LEVELS
    }
    assert [fault for fault in left["L1"] if fault in left["L2"]] == row["equal"]
    assert row["survived"] == [] and row["faults"] == len(made)


def test_the_readme_has_the_table_of_faults() -> None:
    rows = json.loads(fault_table.RESULT.read_text())
    assert fault_table.table(rows) in (HERE / "README.md").read_text()


def test_a_fault_is_one_change() -> None:
    circuit, _ = of("quantize_sq", {})
    reads = directed("quantize_sq").reads
    names = [fault.name for fault in faults.faults(circuit)]
    assert len(set(names)) == len(names) > 60
    narrow = next(fault for fault in faults.faults(circuit) if fault.name == "left: one bit narrower")
    other = faults.changed(circuit, narrow)
    one, two = (fast.columns(c, reads, c.wires | c.gives) for c in (circuit, other))
    assert [v & 7 for v in one["left"]] == two["left"] and one["right"] == two["right"]
    assert one["q"] != two["q"]


# -- as C ----------------------------------------------------------------------------------------

STRICT = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1")
SANITIZED = ("-fsanitize=undefined,address", "-fno-sanitize-recover=all")


def built(compiler: str, name: str, settings: Settings, folder: Path) -> Path:
    circuit, parameters = of(name, settings)
    for file, text in c_model.files(name, circuit, parameters, ["a formula"]).items():
        (folder / file).write_text(text)
    program = folder / f"{name}-{compiler}"
    sources = [folder / f"{name}_model.c", folder / f"{name}_run.c"]
    command = [compiler, *STRICT, *SANITIZED, "-o", program, *sources]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return program


def fed(program: Path, circuit: Circuit, reads: dict[str, list[int]]) -> list[list[int]]:
    lines = "\n".join(
        " ".join(map(str, beat)) for beat in zip(*(reads[name] for name in circuit.reads), strict=True)
    )
    done = subprocess.run([program], input=lines + "\n", capture_output=True, text=True, check=True)
    return [[int(word) for word in line.split()] for line in done.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize(("name", "settings"), CASES, ids=label)
def test_the_c_model_gives_every_word(name: str, settings: Settings, compiler: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} here")
    ran = directed(name, tuple(settings.items()))
    got = fed(built(compiler, name, settings, tmp_path), ran.circuit, ran.reads)
    want = [
        list(map(int, beat)) for beat in zip(*(ran.wires[port] for port in ran.circuit.gives), strict=True)
    ]
    last = ran.reads.get("last", [1] * len(want))
    assert len(got) == len(want)
    assert all(a == b for a, b, end in zip(got, want, last, strict=True) if end)


# -- proofs --------------------------------------------------------------------------------------


LONG = ["block_dot"]  # whose accumulator of 539 bits takes the prover half a minute and more


@pytest.mark.slow
@yosys_only
@pytest.mark.parametrize("name", [name for name in units.UNITS if name not in LONG])
def test_a_unit_is_its_definition_for_every_input(name: str) -> None:
    assert prove.of(name, {}).equal


@pytest.mark.digests
@yosys_only
@pytest.mark.parametrize("name", LONG)
def test_a_unit_of_a_long_proof_is_its_definition_for_every_input(name: str) -> None:
    assert prove.of(name, {}).equal


@pytest.mark.slow
@yosys_only
@pytest.mark.parametrize("name", ["quantize_q", "quantize_sq", "quantize_flag", "r_exponent", "mac_requant"])
def test_a_proof_refutes_every_mutant(name: str) -> None:
    """Of the other units `prove.py --mutants` does."""
    proofs = prove.of_mutants(name, {})
    assert list(proofs) == list(mutants(name))
    assert [n for n, proof in proofs.items() if proof.equal] == proven(name)


@pytest.mark.slow
@yosys_only
def test_a_difference_is_one_in_the_definition() -> None:
    """Ties to even and ties away from zero differ at a tie."""
    parameters = units.UNITS["shift"].defaults | {"W": 8, "S": 3, "OUT": 4}
    circuit = definition.circuit("shift", parameters | {"MODE": "ties_away"})
    proof = prove.prove(source("shift"), units.UNITS["shift"], circuit, parameters)
    assert not proof.equal and proof.told["x"] % 8 == 4 and proof.told["in_valid"] == 1


@pytest.mark.slow
@yosys_only
def test_a_port_of_another_width_is_no_match() -> None:
    unit = units.UNITS["shift"]
    narrow = definition.circuit("shift", unit.defaults | {"W": 20})
    with pytest.raises(RuntimeError, match="Resizing cell port"):
        prove.prove(source("shift"), unit, narrow, unit.defaults)


@pytest.mark.slow
@yosys_only
def test_an_out_port_is_compared_to_its_top_bit(tmp_path: Path) -> None:
    """n of r_exponent needs 5 of its 8 bits: the top one wrong is a difference."""
    unit, wrong = units.UNITS["r_exponent"], tmp_path / "r_exponent.sv"
    text = source("r_exponent").read_text()
    assert text.count("exponent[NB-1:0];") == 1
    wrong.write_text(text.replace("exponent[NB-1:0];", "{1'b0, exponent[NB-2:0]};"))
    circuit = definition.circuit("r_exponent", unit.defaults)
    assert not prove.prove(wrong, unit, circuit, unit.defaults).equal


# -- random words, in Verilator against the C model ------------------------------------------------


@pytest.mark.slow
@verilator_only
@pytest.mark.parametrize("name", ["quantize_cq", "mac_requant", "block_dot", "mx_dot", "requantize"])
def test_random_words_agree_with_the_model(
    name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """And a unit with a bug does not, where it has mutants."""
    folder = models.write(name, {}, tmp_path / "model")
    kept = library(tmp_path_factory)
    passed, said = simulate.random_words(folder, name, tmp_path, beats=30_000, library=kept)
    assert passed, said
    if mutants(name):
        passed, _ = simulate.random_words(folder, name, tmp_path, beats=30_000, mutant=1, library=kept)
        assert not passed


@pytest.mark.slow
@pytest.mark.parametrize("name", units.UNITS)
def test_random_words_are_the_same_in_c_fast_and_plain(name: str, tmp_path: Path) -> None:
    found = random_words.unit(name, 3_000, 300, models.write(name, {}, tmp_path / "model"))
    assert not found.wrong and found.results > 300, found.first


def test_random_words_name_a_model_that_is_wrong(tmp_path: Path) -> None:
    """A slip that shows at ties alone."""
    folder = models.write("shift", {}, tmp_path / "model")
    path = folder / "shift_model.c"
    text = path.read_text()
    slip = text.replace("INT64_C(128) < v", "INT64_C(128) <= v")
    assert text.count("INT64_C(128) < v") == 1
    path.write_text(slip)
    found = random_words.unit("shift", 30_000, 0, folder)
    assert found.wrong and re.match(r"q is -?\d+ in C, -?\d+ fast: {'x': ", found.first)


def test_a_model_is_written_whole_and_refuses_what_it_has_not(tmp_path: Path) -> None:
    folder = models.write("quantize_cq", {"W": "20"}, tmp_path / "model")
    assert sorted(path.name for path in folder.iterdir()) == [
        "quantize_cq_dpi.c",
        "quantize_cq_dpi.svh",
        "quantize_cq_model.c",
        "quantize_cq_model.h",
        "quantize_cq_random_tb.sv",
        "quantize_cq_run.c",
    ]
    assert "W=20" in (folder / "quantize_cq_model.c").read_text()
    for settings, message in (({"lfsr": 1}, "none of the model"), ({"K": 3}, "unknown setting")):
        with pytest.raises(ConfigError, match=message):
            models.files("quantize_cq", settings)
    with pytest.raises(ConfigError, match="did you mean 'quantize_cq'"):
        models.files("quantize_c")


# -- the C model of a unit of one's own ------------------------------------------------------------


def of_wide_sums(c: Circuit) -> None:
    """Beyond 64 bits within, a promise of 40, a register that wraps at 63."""
    x, y = c.read("x", 50), c.read("y", 63, False)
    total = c.register("total", 63)
    kept = c.cut("kept", total + x * 3 + y * y, 63)
    c.keep(total, kept)
    c.give("kept", kept)
    c.give("promised", c.wire("promised", x * y >> 30, 40))
    c.give("high", x * y >> 60)


OF_HOLDS = """
#include <inttypes.h>
#include <stdio.h>
#include "wide_model.h"
int main(void) {
  struct wide_in in;
  struct wide_out out;
  wide_reset(0);
  while (scanf("%" SCNd64 " %" SCNd64, &in.x, &in.y) == 2) {
    wide_beat(0, &in, &out);
    printf("%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\\n", out.kept, out.promised, out.high, out.holds);
  }
}
"""


@pytest.mark.slow
def test_a_c_model_holds_wide_sums_and_says_where_a_promise_does_not(tmp_path: Path) -> None:
    circuit = Circuit()
    of_wide_sums(circuit)
    draw = random.Random(3)
    ends = [(x, y) for x in (-(2**49), -1, 0, 2**40, 2**49 - 1) for y in (0, 1, 2**40, 2**63 - 1)]
    drawn = [(draw.randrange(-(2**49), 2**49), draw.randrange(50), draw.randrange(2**63)) for _ in ends * 9]
    beats = ends + [(x >> by, y) for x, by, y in drawn]
    total, wanted = 0, []
    for x, y in beats:
        total = (total + 3 * x + y * y + 2**62) % 2**63 - 2**62
        promised = x * y >> 30
        wanted.append((total, promised, x * y >> 60, int(-(2**39) <= promised < 2**39)))
    for name, text in c_model.files("wide", circuit, {}, ["a test"]).items():
        (tmp_path / name).write_text(text)
    (tmp_path / "run.c").write_text(OF_HOLDS)
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined", "-fno-sanitize-recover=all"]
    sources = [tmp_path / "wide_model.c", tmp_path / "run.c"]
    subprocess.run(["gcc", *strict, "-o", tmp_path / "run", *sources], check=True)
    text = "".join(f"{x} {y}\n" for x, y in beats)
    out = subprocess.run([tmp_path / "run"], input=text, capture_output=True, text=True, check=True).stdout
    got = [tuple(map(int, line.split())) for line in out.splitlines()]
    assert {one[3] for one in wanted} == {0, 1} and len(got) == len(wanted)
    for a, b in zip(got, wanted, strict=True):
        assert (a[0], a[2], a[3]) == (b[0], b[2], b[3]) and (a[1] == b[1] or not b[3])


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda c: c.give("q", c.read("x", 40) * c.read("y", 40)),
         "port q holds -.*: the C model's are int64"),
        (lambda c: c.give("q", c.read("x", 70) >> 60), "port x holds"),
        (lambda c: c.give("q", c.cut("t", c.read("x", 60) * 99, 64) >> 9),
         "t wraps at 64 bits: .* at most 63"),
        (lambda c: c.give("q", c.lanes("x", 2, 4)[0] + c.read("x_0", 4)), "x_0' *$|'x_0'"),
        (lambda c: (c.give("q", c.read("x", 4)), c.give("q_", c.read("y", 4))), "as many of C's: 'q'"),
        (lambda c: c.give("holds", c.read("x", 4)), "'holds'"),
        (lambda c: c.give("q", c.read("int", 4)), "'int'"),
    ],
)  # fmt: skip
def test_what_does_not_go_into_c_is_refused(build: Callable[[Circuit], object], says: str) -> None:
    circuit = Circuit()
    build(circuit)
    with pytest.raises(PackError, match=says):
        c_model.files("own", circuit, {}, ["a test"])
