"""The RTL units of examples/rtl in real simulators: vectors pass, mutants are killed or proven equal."""

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from examples.rtl import kill_table, simulate, vectors
from examples.rtl.testbench import guard, write_vectors
from examples.rtl.units import EQUIVALENT, MAIN, SMALL, Unit

LABELS = {unit.label: unit for unit in MAIN + SMALL}
LEAST_MUTANTS = 45
icarus_only = pytest.mark.skipif(bool(simulate.missing("icarus")), reason=simulate.missing("icarus"))
verilator_only = pytest.mark.skipif(bool(simulate.missing("verilator")), reason=simulate.missing("verilator"))
directed = cache(vectors.directed)


def label(unit: Unit) -> str:
    return unit.label


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Unit], list[str]]:
    """Writes a unit's directed and corner vectors once; the plusargs."""
    folder = tmp_path_factory.mktemp("vectors")
    return cache(lambda unit: write_vectors(folder / unit.label, unit, directed(unit)))


@pytest.fixture(scope="module")
def verilated(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """All units in one program, built once, without a warning under -Wall."""
    return simulate.verilator(MAIN + SMALL, tmp_path_factory.mktemp("verilator"))


def passed_words(text: str) -> int:
    found = re.search(r"^PASS n=(\d+)$", text, re.M)
    return int(found[1]) if found else 0


def result_words(unit: Unit, columns: vectors.Columns) -> int:
    return sum(len(columns[port.name]) for port in unit.outputs)


@icarus_only
@pytest.mark.parametrize("unit", MAIN + SMALL, ids=label)
def test_units_pass_in_icarus(unit: Unit, written: Callable[[Unit], list[str]], tmp_path: Path) -> None:
    passed, text = simulate.run(simulate.icarus(unit, tmp_path), written(unit))
    assert passed, text
    assert passed_words(text) == result_words(unit, directed(unit))


@verilator_only
@pytest.mark.parametrize("unit", MAIN + SMALL, ids=label)
def test_units_pass_in_verilator(
    unit: Unit, written: Callable[[Unit], list[str]], verilated: list[str], tmp_path: Path
) -> None:
    passed, text = simulate.run(verilated, written(unit))
    assert passed, text
    assert passed_words(text) == result_words(unit, directed(unit))
    uniform = vectors.uniform(unit, 2000)
    passed, text = simulate.run(verilated, write_vectors(tmp_path, unit, uniform))
    assert passed, text
    assert passed_words(text) == result_words(unit, uniform)


@icarus_only
@pytest.mark.parametrize("unit", MAIN, ids=lambda unit: unit.name)
def test_every_mutant_is_killed_or_proven(
    unit: Unit, written: Callable[[Unit], list[str]], tmp_path: Path
) -> None:
    survivors = [
        n for n in unit.mutants() if simulate.run(simulate.icarus(unit, tmp_path, n), written(unit))[0]
    ]
    assert survivors == [n for name, n in EQUIVALENT if name == unit.name]


@icarus_only
@pytest.mark.parametrize("small", ["quantize_flag_W10_EXm40_NB8", "r_exponent_W8_EX3_NB8"])
def test_proven_mutants_pass_every_input_of_a_small_unit(
    small: str, written: Callable[[Unit], list[str]], tmp_path: Path
) -> None:
    """The proofs stand in `EQUIVALENT`; here all codes under every R that 10 and 8 bits can have."""
    unit, name = LABELS[small], LABELS[small].name
    for mutant in (n for unit_name, n in EQUIVALENT if unit_name == name):
        assert simulate.run(simulate.icarus(unit, tmp_path, mutant), written(unit))[0]


def test_mutants_are_numbered_as_their_lines_say() -> None:
    """One line each: `MUT_IS(n) and the comment `// MUT n` stand on the same line, n from 1 without a gap."""
    for unit in MAIN:
        for line in unit.source.read_text().splitlines():
            used, said = re.findall(r"`MUT_IS\((\d+)\)", line), re.findall(r"// MUT (\d+):", line)
            assert used == said, f"{unit.source.name}: {line.strip()}"
        assert sorted(unit.mutants()) == list(range(1, len(unit.mutants()) + 1))
    assert sum(len(unit.mutants()) for unit in MAIN) >= LEAST_MUTANTS
    assert all(n in next(unit for unit in MAIN if unit.name == name).mutants() for name, n in EQUIVALENT)


def test_the_table_on_file_is_of_these_mutants() -> None:
    rows = json.loads(kill_table.RESULT.read_text())["units"]
    assert {row["unit"]: row["mutants"] for row in rows} == {unit.name: len(unit.mutants()) for unit in MAIN}
    for row, unit in zip(rows, MAIN, strict=True):
        assert not row["missed directed"]
        assert row["killed directed"] + len(row["equivalent"]) == row["mutants"]
        assert row["killed uniform"] <= row["killed directed"]
        assert row["missed uniform"].items() <= {str(n): text for n, text in unit.mutants().items()}.items()


@pytest.mark.parametrize("unit", MAIN, ids=lambda unit: unit.name)
def test_expected_words_vary(unit: Unit) -> None:
    for port in unit.outputs:
        assert len(set(directed(unit)[port.name])) > 1


def test_the_guard_is_a_rotation_and_an_xor() -> None:
    assert guard([]) == 0
    assert guard([1, 0, 0x80]) == 0x84
    assert guard([1] + [0] * 64) == 1
    assert guard([1, 2]) != guard([2, 1])


FAULTS: dict[str, Callable[[str], str]] = {
    "a word missing": lambda text: text.split("\n", 1)[1],
    "a word too many": lambda text: text + "0\n",
    "a bit": lambda text: ("1" if text[0] == "0" else "0") + text[1:],
    "two words exchanged": lambda text: "\n".join([*text.split("\n")[3::-1], *text.split("\n")[4:]]),
    "an x": lambda text: "x" + text[1:],
    "empty": lambda text: "",
}


@icarus_only
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("file", ["x.hex", "q.hex"])
def test_a_damaged_file_fails_on_load(fault: str, file: str, tmp_path: Path) -> None:
    unit = LABELS["quantize_q_W8_S1"]
    arguments = write_vectors(tmp_path, unit, directed(unit))
    command = simulate.icarus(unit, tmp_path)
    path = tmp_path / file
    path.write_text(FAULTS[fault](path.read_text()))
    passed, text = simulate.run(command, arguments)
    assert not passed
    assert f"FAIL load {file}" in text
    path.unlink()
    assert f"FAIL load {file}" in simulate.run(command, arguments)[1]


@verilator_only
def test_a_damaged_file_fails_on_load_in_verilator(verilated: list[str], tmp_path: Path) -> None:
    unit = LABELS["quantize_q_W8_S1"]
    arguments = write_vectors(tmp_path, unit, directed(unit))
    path = tmp_path / "q.hex"
    path.write_text(path.read_text()[:-4])
    passed, text = simulate.run(verilated, arguments)
    assert not passed and "FAIL load q.hex" in text


@icarus_only
def test_what_the_unit_gave_can_be_written(written: Callable[[Unit], list[str]], tmp_path: Path) -> None:
    """+out=DIR: the files are those expected, byte for byte, and a wrong word is named."""
    unit = LABELS["quantize_sq_W10_EXm40_NB8_K4"]
    command = simulate.icarus(unit, tmp_path)
    arguments = write_vectors(tmp_path / "good", unit, directed(unit))
    (tmp_path / "out").mkdir()
    assert simulate.run(command, [*arguments, f"+out={tmp_path / 'out'}"])[0]
    for port in unit.outputs:
        name = f"{port.name}.hex"
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "good" / name).read_bytes()
    columns = {name: list(words) for name, words in directed(unit).items()}
    columns["q"][100] ^= 1
    passed, text = simulate.run(command, write_vectors(tmp_path / "wrong", unit, columns))
    assert not passed and "q[100]: got" in text
