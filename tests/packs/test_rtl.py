"""The RTL units of examples/rtl in real simulators: their packs pass, mutants are killed or proven equal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest

from examples.rtl import kill_table, simulate, uniform
from examples.rtl.mutants import EQUIVALENT, mutants, proven, source
from intnet.packs import pack, units
from intnet.packs.units import drafts
from tests.support.simulators import check_passed, icarus_only, library, once, verilator_only
from tests.support.testbench_packs import EVERY, SMALL, Settings, label, made

LEAST_MUTANTS = 147
MAIN = [case for case in EVERY if not case[2]]
SMALL_L1 = [(name, "L1", settings) for name, settings in SMALL]
Write = Callable[..., Path]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Write:
    """Writes the pack of a unit once; its folder."""
    folder = tmp_path_factory.mktemp("packs")

    def write(name: str, level: str, settings: Settings | None = None) -> Path:
        draft = made(name, level, settings)
        place = folder / draft.name
        return place if place.exists() else pack.write(draft, place)

    return write


@pytest.fixture(scope="module")
def verilated(written: Write, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """All testbenches in one program, built once of all workers, without a warning under -Wall."""

    def build(place: Path) -> list[str]:
        packs = [(written(name, level, s), name) for name, level, s in MAIN + SMALL_L1]
        return simulate.verilator(packs, place, library(tmp_path_factory))

    return once(tmp_path_factory, "verilator-units", build)


@pytest.mark.slow
@icarus_only
@pytest.mark.parametrize(("name", "level", "settings"), MAIN + SMALL_L1, ids=label)
def test_units_pass_in_icarus(
    name: str, level: str, settings: Settings, written: Write, tmp_path: Path
) -> None:
    folder = written(name, level, settings)
    check_passed(simulate.icarus(folder, name, tmp_path), folder)


@pytest.mark.slow
@verilator_only
@pytest.mark.parametrize(("name", "level", "settings"), MAIN + SMALL_L1, ids=label)
def test_units_pass_in_verilator(
    name: str, level: str, settings: Settings, written: Write, verilated: list[str]
) -> None:
    folder = written(name, level, settings)
    check_passed(simulate.chosen(verilated, folder), folder)


@pytest.mark.slow
@icarus_only
@pytest.mark.parametrize("name", kill_table.WITH_MUTANTS)
def test_every_mutant_is_killed_or_proven(name: str, written: Write, tmp_path: Path) -> None:
    """By corner vectors, which are few; by directed vectors those that are left."""

    def survives(mutant: int, level: str) -> bool:
        return simulate.run(simulate.icarus(written(name, level), name, tmp_path, mutant))[0]

    survivors = [n for n in mutants(name) if survives(n, "L2") and survives(n, "L1")]
    assert survivors == proven(name)


@pytest.mark.slow
@icarus_only
@pytest.mark.parametrize(("name", "settings"), [("r_exponent", {"W": 8, "EX": 3})])
def test_proven_mutants_pass_every_input_of_a_small_unit(
    name: str, settings: Settings, written: Write, tmp_path: Path
) -> None:
    """The proofs stand in `EQUIVALENT`; here all codes of 8 bits."""
    folder = written(name, "L1", settings)
    for mutant in proven(name):
        assert simulate.run(simulate.icarus(folder, name, tmp_path, mutant))[0]


def test_mutants_are_numbered_as_their_lines_say() -> None:
    """One line each: `MUT_IS(n) and the comment `// MUT n` stand on the same line, n from 1 without a gap."""
    for name in units.UNITS:
        for line in source(name).read_text().splitlines():
            used, said = re.findall(r"`MUT_IS\((\d+)\)", line), re.findall(r"// MUT (\d+):", line)
            assert used == said, f"{name}: {line.strip()}"
        assert sorted(mutants(name)) == list(range(1, len(mutants(name)) + 1))
    assert sum(len(mutants(name)) for name in units.UNITS) >= LEAST_MUTANTS
    assert all(n in mutants(name) for name, n in EQUIVALENT)


def test_modules_have_the_parameters_of_the_packs() -> None:
    for name, unit in units.UNITS.items():
        found = re.findall(r"parameter int (\w+) *= *(-?\d+)", source(name).read_text())
        assert {key: int(value) for key, value in found} == unit.generics(unit.defaults)


@pytest.mark.parametrize("name", kill_table.WITH_MUTANTS)
def test_a_unit_with_mutants_has_uniform_vectors(name: str) -> None:
    assert kill_table.beats_of(uniform.draft(name, 8)) >= 8


# -- the measured table ----------------------------------------------------------------------------


def test_the_table_on_file_is_of_these_mutants() -> None:
    rows = json.loads(kill_table.RESULT.read_text())["units"]
    assert {row["unit"]: row["mutants"] for row in rows} == {
        n: len(mutants(n)) for n in kill_table.WITH_MUTANTS
    }
    for row in rows:
        killed, missed = row["killed"], row["missed"]
        assert not missed[kill_table.BOTH]
        assert killed[kill_table.BOTH] + len(row["equivalent"]) == row["mutants"]
        assert killed[f"uniform {kill_table.BOTH}"] <= killed[kill_table.BOTH]
        for key, texts in missed.items():
            assert texts.items() <= {str(n): text for n, text in mutants(row["unit"]).items()}.items()
            assert killed[key] + len(texts) + len(row["equivalent"]) == row["mutants"]


@pytest.mark.slow
@pytest.mark.parametrize("level", kill_table.LEVELS)
@pytest.mark.parametrize("name", kill_table.WITH_MUTANTS)
def test_a_pack_says_how_much_it_was_measured_to_kill(name: str, level: str) -> None:
    row = next(r for r in json.loads(kill_table.RESULT.read_text())["units"] if r["unit"] == name)
    draft = made(name, level)
    said = draft.about["detection"]
    assert said["mutants"] == len(mutants(name)) and said["equivalent"] == len(proven(name))
    assert said["killed"] == row["killed"][level] and said["simulator"].startswith("Icarus")
    assert said["uniform_killed"] == row["killed"][f"uniform {level}"]
    assert row["beats"][level] == kill_table.beats_of(draft)


@pytest.mark.slow
def test_only_the_words_measured_have_a_measure() -> None:
    draft = made("quantize_sq", "L1")
    port, codes = draft.ports[0]
    changed = codes.copy()
    changed[5] ^= 1
    assert drafts.detection(draft.name, draft.ports) is not None
    assert drafts.detection(draft.name, [(port, changed), *draft.ports[1:]]) is None
    assert "detection" not in made("quantize_sq", "L1", {"W": 12, "EX": 9}).about
    packs = json.loads((files("intnet.packs.units") / drafts.DETECTION).read_text("utf-8"))["packs"]
    assert set(packs) == {f"{n}-{level}" for n in kill_table.WITH_MUTANTS for level in kill_table.LEVELS}


def test_the_readme_has_the_measured_table() -> None:
    rows = json.loads(kill_table.RESULT.read_text())["units"]
    assert kill_table.table(rows) in (kill_table.HERE / "README.md").read_text()
