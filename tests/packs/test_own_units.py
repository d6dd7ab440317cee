"""A unit of one's own: packed, judged, and refused where ports, vectors or names do not go together."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet.errors import ConfigError, PackError
from intnet.packs import check, pack, units
from intnet.packs.hdl import drive
from intnet.packs.hdl.names import KEYWORDS, TESTBENCH, beside, check_apart, check_name
from intnet.packs.ports import Draft, Port
from intnet.packs.units.listing import UNITS
from intnet.packs.units.signals import Group, Range, Unit, column, marks, signal
from intnet.spec.wires import Circuit


def words_of(draft: Draft) -> dict[str, list[Any]]:
    return {port.name: codes.tolist() for port, codes in draft.ports}


def to_odd(c: Circuit, p: Mapping[str, Any]) -> None:
    """A shift that rounds to odd: not one of the library's."""
    x = c.read("x", p["W"])
    c.give("q", c.wire("floor", x >> p["S"]) | c.wire("lost", x & (1 << p["S"]) - 1).differs(0))


def ports_of_own(p: Mapping[str, Any], scale: Mapping[str, int]) -> tuple[Port, ...]:
    return signal("x", p["W"], "a code"), signal("q", p["W"] - p["S"], "to odd", direction="out")


OWN = Unit("to_odd", "rounds to odd", {"W": Range(8, 4, 12), "S": Range(3, 1, 4)}, ports_of_own)
ALL = [Group("every-x", "sticky", {"x": column(range(-128, 128))})]


def test_a_unit_of_ones_own_is_packed_and_judged(tmp_path: Path) -> None:
    draft = units.own(OWN, to_odd, ALL)
    words = words_of(draft)
    assert words["q"] == [x // 8 if x % 8 == 0 else x // 8 | 1 for x in range(-128, 128)]
    assert words["q.wire.floor"] == [x // 8 for x in range(-128, 128)] and draft.about["coverage"]["complete"]
    folder = pack.write(draft, tmp_path / "pack")
    device = tmp_path / "dut"
    device.mkdir()
    (device / "q.hex").write_bytes((folder / "exp" / "q.hex").read_bytes())
    assert check.check_dut(pack.read(folder), device).exit_status == 0
    lines = (folder / "exp" / "q.hex").read_text().splitlines()
    lines[5] = f"{int(lines[5], 16) ^ 1:02x}"
    (device / "q.hex").write_text("\n".join(lines) + "\n")
    assert check.check_dut(pack.read(folder), device).exit_status == 1
    with pytest.raises(PackError, match="its maker's own"):
        check.recompute(pack.read(folder))


def test_a_unit_of_ones_own_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="is a unit of the library"):
        units.own(units.UNITS["shift"], to_odd, ALL)
    with pytest.raises(PackError, match=r"its out ports are \['q'\], its circuit's \['q', 'y'\]"):
        units.own(OWN, lambda c, p: (to_odd(c, p), c.give("y", 1))[0], ALL)
    with pytest.raises(ConfigError, match="give a number from 1 to 4"):
        units.own(OWN, to_odd, ALL, {"S": 9})


def twice(c: Circuit, p: Mapping[str, Any]) -> None:
    c.give("q", c.read("x[0]", 8) + c.read("x[1]", 8))


@pytest.mark.parametrize(
    ("port", "build", "says"),
    [
        (
            signal("x", 8, "a code", signed=False), to_odd,
            "to_odd: x has 8 bits, unsigned: 0..255; its circuit reads -128..127",
        ),
        (signal("x", 9, "a code"), to_odd, "x has 9 bits, signed: -256..255; its circuit reads -128..127"),
        (signal("x", 8, "a code"), twice, "to_odd: lanes of x: 1, its circuit reads 2"),
        (signal("x", 8, "a code", lanes=2), to_odd, "to_odd: lanes of x: 2, its circuit reads 1"),
    ],
)  # fmt: skip
def test_a_circuit_reads_the_numbers_that_its_ports_have(
    port: Port, build: Callable[[Circuit, Mapping[str, Any]], None], says: str
) -> None:
    ports = (port, signal("q", 8, "to odd", direction="out"))
    with pytest.raises(PackError, match=re.escape(says)):
        units.own(replace(OWN, signals=lambda p, scale: ports), build, ALL)


# -- vectors -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        ([], "to_odd: no vectors: give a Group of them"),
        ([{}], "to_odd, group g: columns []; its in ports are ['x']"),
        ([{"x": column([1, 2]), "y": column([1, 2])}], "columns ['x', 'y']; its in ports are ['x']"),
        ([{"x": np.array([1.5, 2])}], "column x holds no whole numbers: make it by `signals.column`"),
        ([{"x": [1, 2]}], "column x holds no whole numbers"),
        ([{"x": column([])}], "columns of shapes {'x': (0,)}; wanted, all of as many beats: x: (beats,)"),
        ([{"x": column(5)}], "columns of shapes {'x': ()}"),
        ([{"x": column([1, 2])}, {"x": column([[1], [2]])}], "columns of shapes {'x': (2, 1)}"),
    ],
)
def test_vectors_that_do_not_go_into_the_ports_are_named(groups: list[Any], says: str) -> None:
    with pytest.raises(PackError, match=re.escape(says)):
        units.own(OWN, to_odd, [Group("g", "f", columns) for columns in groups])


@pytest.mark.parametrize("steps", [(-1, -1), (0, 1), (1, -1), (2, 1)])
def test_a_chain_has_groups_of_steps(steps: tuple[int, int]) -> None:
    made = [Group("g", "f", {"x": column([k, 9, 50])}) for k in (1, 2)]
    groups = [replace(group, step=step) for group, step in zip(made, steps, strict=True)]
    with pytest.raises(PackError, match=rf"of the steps \[{steps[0]}, {steps[1]}\]"):
        units.own(OWN, to_odd, groups, level="L4")
    chain = units.own(OWN, to_odd, [replace(group, step=3) for group in made], level="L4").about["chain"]
    assert [(one["step"], one["first"], one["last"]) for one in chain] == [(3, 0, 5)]


def test_columns_of_one_group_are_as_long() -> None:
    unit = replace(OWN, signals=lambda p, s: (signal("a", 8, ""), signal("b", 8, ""), result(9)))

    def build(c: Circuit, p: Mapping[str, Any]) -> None:
        c.give("q", c.read("a", 8) + c.read("b", 8))

    with pytest.raises(PackError, match=r"shapes \{'a': \(3,\), 'b': \(2,\)\}"):
        units.own(unit, build, [Group("g", "f", {"a": column([1, 2, 3]), "b": column([1, 2])})])


@pytest.mark.parametrize("wrong", [1.7, True, "3", None, 1 << 63, -(1 << 63) - 1, 1 << 70])
def test_a_word_is_a_whole_number(wrong: object) -> None:
    if wrong is True:
        assert column([5, wrong]).tolist() == [5, 1]  # as NumPy has it: a bit
        return
    with pytest.raises(PackError, match=re.escape(f"not {wrong!r}")):
        column([5, wrong])


def test_settings_are_whole_numbers_and_levels_are_known() -> None:
    for unit in ("quantize_sq", "requantize"):
        with pytest.raises(ConfigError, match=r"=2\.5 is not a whole number"):
            units.draft(unit, "L0", {next(iter(UNITS[unit].parameters)): 2.5})  # type: ignore[dict-item]
    with pytest.raises(ConfigError, match="unknown level 'L9'"):
        units.own(OWN, to_odd, ALL, level="L9")


# -- what a circuit is built of ------------------------------------------------------------------


@pytest.mark.parametrize("value", [0.5, True, "1", None, np.float32(2)])
def test_a_circuit_computes_in_whole_numbers(value: Any) -> None:
    circuit = Circuit()
    x = circuit.read("x", 8)
    with pytest.raises(TypeError, match="whole numbers and wires"):
        _ = x + value
    assert (x + np.int64(3)).range == (-125, 130)


def test_wires_are_compared_by_name() -> None:
    circuit = Circuit()
    x = circuit.read("x", 8)
    for compare in (lambda: x == 3, lambda: x != 3, lambda: x == 3):
        with pytest.raises(TypeError, match="`equals` and `differs`"):
            compare()
    with pytest.raises(TypeError, match="select chooses by a wire, not by True"):
        circuit.select(True, 1, x)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="x is read twice"):
        circuit.read("x", 8)
    for name in ("", "*/ evil", "a\nb", "é", "3x"):
        with pytest.raises(ValueError, match="a wire has a name of letters, digits and _"):
            circuit.wire(name, x)


# -- results -----------------------------------------------------------------------------------


def result(bits: int) -> Port:
    return signal("q", bits, "the result", direction="out")


def test_a_single_result_that_never_changes_is_named(tmp_path: Path) -> None:
    draft = units.own(OWN, to_odd, [Group("g", "f", {"x": column([9, 9, 9])})])
    with pytest.raises(PackError, match="expected words of q are constant"):
        pack.write(draft, tmp_path / "pack")


def test_a_trail_is_of_a_port_that_there_is(tmp_path: Path) -> None:
    ports = (signal("x", 8, ""), signal("none", 1, "", signed=False, direction="out"), result(5))

    def build(c: Circuit, p: Mapping[str, Any]) -> None:
        c.give("none", 0)
        to_odd(c, p)

    draft = units.own(replace(OWN, signals=lambda p, s: ports), build, ALL)
    read = pack.read(pack.write(draft, tmp_path / "pack"))
    assert "none" not in read.ports and read.ports["q.wire.floor"].explains == "q"


@pytest.mark.parametrize(
    ("bits", "more"), [(8, {"signed": False}), (1, {}), (1, {"signed": False, "direction": "out"})]
)
def test_last_is_the_mark_of_a_vectors_end(bits: int, more: dict[str, Any]) -> None:
    last = signal("last", bits, "", **more)
    unit = replace(OWN, signals=lambda p, s: (signal("x", 8, ""), last, result(9)))

    def build(c: Circuit, p: Mapping[str, Any]) -> None:
        given = c.give("last", 0) if last.direction == "out" else c.read("last", bits, last.signed)
        c.give("q", c.read("x", 8) - given)

    with pytest.raises(PackError, match="`last` marks the beat that ends a vector"):
        units.own(unit, build, [Group("g", "f", {"x": column([1, 2]), "last": column([0, 1])})])


# -- names -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["out", "s", "done", "clk", "reg", "a.b", "a/b", "", "3x", "double", "W", "to_odd"]
)
def test_a_port_with_a_name_that_is_taken_is_refused(name: str) -> None:
    unit = replace(OWN, signals=lambda p, s: (signal(name, 8, ""), result(5)))
    with pytest.raises(PackError, match=re.escape(f", {name}" if name in ("W", "to_odd") else repr(name))):
        units.own(unit, to_odd, ALL)


@pytest.mark.parametrize(
    "change",
    [{"name": "module"}, {"name": "a b"}, {"name": "../z"}, {"parameters": {"wire": Range(8, 4, 12)}}],
)
def test_a_unit_or_a_parameter_is_a_name_too(change: dict[str, Any]) -> None:
    with pytest.raises(PackError, match=r"take another name|a name is letters"):
        units.own(
            replace(OWN, signals=lambda p, s: ports_of_own({"W": 8, "S": 3}, s), **change),
            lambda c, p: to_odd(c, {"W": 8, "S": 3}),
            ALL,
        )


def test_all_that_a_testbench_declares_is_kept_from_ports(tmp_path: Path) -> None:
    """With a clock of latency, ready and resets, of vectors and of single beats, it declares most."""
    ports = (
        signal("first", 1, "", signed=False),
        signal("last", 1, "", signed=False),
        signal("x", 8, ""),
        result(8),
    )
    last = marks([2, 3, 1])

    def build(c: Circuit, p: Mapping[str, Any]) -> None:
        first, _, x = c.read("first", 1, False), c.read("last", 1, False), c.read("x", 8)
        held = c.register("held", 8)
        now = c.cut("now", c.select(first, 0, held) + x, 8, True)
        c.keep(held, now)
        c.give("q", now)

    vectors = [Group("g", "f", last | {"x": column([1, 2, 3, 4, 5, 6])})]
    unit = replace(OWN, name="adds", parameters={}, signals=lambda p, s: ports)
    streamed = units.own(unit, build, vectors, {"latency": 2, "ready": 1, "reset": 1})
    for made in (streamed, units.own(OWN, to_odd, ALL)):
        text = drive.text(pack.read(pack.write(made, tmp_path / made.name)).manifest)
        kinds = r"^ *(?:wire|logic|integer|string|localparam int|task automatic) +(?:\[.*?\] *)?([^;=(]+)"
        names = {
            re.sub(r"\[.*|\W", "", one) for found in re.findall(kinds, text, re.M) for one in found.split(",")
        }
        own = {name for port, _ in made.ports for name in (port.name, *beside(port.name))}
        assert names - own <= TESTBENCH and len(names - own) > 15, names - own - TESTBENCH
    assert not KEYWORDS & TESTBENCH


@pytest.mark.parametrize("name", ["x_words", "x_WORD_BITS", "x_file", "q_kept", "unused_q", "x_WORD"])
def test_what_is_declared_for_a_port_is_no_other_name(name: str) -> None:
    ports = (signal("x", 8, ""), signal(name, 8, ""), result(5))
    with pytest.raises(PackError, match=rf"the testbench declares a \w+ for port \w+.*{name}"):
        units.own(replace(OWN, signals=lambda p, s: ports), to_odd, ALL)


@pytest.mark.parametrize("name", ["holds", "v0", "low12", "size3", "size3_0", "high1_2"])
def test_names_of_the_definition_in_systemverilog_are_its_own(name: str) -> None:
    with pytest.raises(PackError, match=f"the definition in SystemVerilog has a {name} of its own"):
        check_name(name, "a port of adds")
    check_name(f"my_{name}", "a port of adds")


def test_the_library_keeps_to_it() -> None:
    for unit in UNITS.values():
        ports = [port.name for port in unit.signals(unit.defaults, {})]
        for name in (unit.name, *unit.parameters, *ports):
            check_name(name, unit.name)
        check_apart(unit.name, unit.parameters, ports)
