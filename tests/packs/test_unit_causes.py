"""What is told of faulty units that nobody here wrote, in plain Python from public descriptions.

Requantization as gemmlowp describes it (`fixedpoint.h`), converters that add half and shift, an accumulator
into which a zero point is added too narrowly, units of one's own.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet.errors import PackError
from intnet.packs import check, pack, unit_causes, units
from intnet.packs.circuits import stages, written
from intnet.packs.units.signals import Group, Range, Unit, column, signal
from intnet.spec import units as definition
from intnet.spec.rounding import round_fraction
from intnet.spec.wires import Circuit, run
from tests.support.command import here
from tests.support.forging import seal

Words = dict[str, list[int]]
Device = Callable[[Mapping[str, list[int]]], Words]
Read = Callable[..., pack.Pack]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Read:
    """A pack of a unit, of level 1 if no other is asked for, written once."""
    root, held = tmp_path_factory.mktemp("units"), dict[str, pack.Pack]()

    def read(name: str, level: str = "L1", **settings: Any) -> pack.Pack:
        key = f"{name}{level}{settings}"
        if key not in held:
            held[key] = pack.read(pack.write(units.draft(name, level, settings), root / str(len(held))))
        return held[key]

    return read


def judged(read: pack.Pack, device: Device, folder: Path) -> dict[str, check.PortResult]:
    """The ports by name, of what a device gave of the pack's inputs."""
    ins = {
        port.name: read.codes(port.name).tolist() for port in read.ports.values() if port.direction == "in"
    }
    folder.mkdir()
    for name, codes in device(ins).items():
        port, mask = read.ports[name], (1 << read.ports[name].bits) - 1
        (folder / Path(port.file).name).write_text(
            "".join(f"{int(v) & mask:0{port.digits}x}\n" for v in codes)
        )
    result = check.check_dut(read, folder)
    result = unit_causes.trace(read, result) if unit_causes.worth_it(result) else result
    return {one.port.name: one for one in result.ports}


def first(port: check.PortResult) -> str:
    return port.verdicts[0].name if port.verdicts and port.verdicts[0].whole else ""


def limited(values: list[int]) -> Words:
    kept = [max(-128, min(127, v)) for v in values]
    return {"q": kept, "saturated": [int(a != b) for a, b in zip(values, kept, strict=True)]}


def cut(v: int, bits: int) -> int:
    return (v + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def ties_even(x: int, bits: int) -> int:
    return (x + (1 << bits - 1) - 1 + (x >> bits & 1)) >> bits


# -- converters ------------------------------------------------------------------------------------


def with_zero_point(bits: int) -> Device:
    """Rounds as it has to, adds the zero point in a register of so many bits, then saturates."""
    return lambda ins: limited([cut(ties_even(x, 8) + 5, bits) for x in ins["x"]])


def adds(constant: int) -> Device:
    return lambda ins: limited([(x + constant) >> 8 for x in ins["x"]])


def unsigned(ins: Mapping[str, list[int]]) -> Words:
    return limited([ties_even(x & 0xFFFFFF, 8) + 5 for x in ins["x"]])


def flag_at_limits(ins: Mapping[str, list[int]]) -> Words:
    made = limited([ties_even(x, 8) + 5 for x in ins["x"]])
    return made | {"saturated": [int(v in (-128, 127)) for v in made["q"]]}


def flag_of_the_top(ins: Mapping[str, list[int]], zero: int = 5) -> Words:
    values = [ties_even(x, 8) + zero for x in ins["x"]]
    return limited(values) | {"saturated": [int(v > 127) for v in values]}


def two_faults(ins: Mapping[str, list[int]]) -> Words:
    """Truncates, and its flag knows only the upper limit: of what it truncated."""
    values = [(x >> 8) + 5 for x in ins["x"]]
    return limited(values) | {"saturated": [int(v > 127) for v in values]}


SHIFTS: dict[str, tuple[dict[str, Any], Device, str, str]] = {  # settings, device, of q, of saturated
    "the zero point's adder wraps": ({"ZQ": 5}, with_zero_point(9), "placed wraps at 9 bits", ""),
    "half less one": (
        {"MODE": "ties_pos"}, adds(127), "tie down (towards -infinity), as a constant of half less one", ""
    ),
    "half and one": ({"MODE": "ties_pos"}, adds(129), "presat: a rounding constant of half and one", ""),
    "the flag is set at the limits": (
        {"ZQ": 5}, flag_at_limits, "right", "saturated: <= in place of <, twice"
    ),
    "the flag knows one limit": ({"ZQ": 5}, flag_of_the_top, "right", "saturated: without under"),
    "an operand without its sign": ({"ZQ": 5}, unsigned, "x read as unsigned", ""),
    "two faults": ({"ZQ": 5}, two_faults, "truncation (floor)", "saturated: without under"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", SHIFTS)
def test_converters(case: str, packed: Read, tmp_path: Path) -> None:
    settings, device, of_q, of_flag = SHIFTS[case]
    found = judged(packed("shift", **settings), device, tmp_path / "dut")
    q, flag = found["q"], found["saturated"]
    if of_q == "right":
        assert q.status == "pass" and flag.own is None
    else:
        assert first(q) == of_q and q.own == q.wrong and not q.follows
    if of_flag:
        assert first(flag) == of_flag and flag.wrong
    else:
        assert flag.wrong and flag.own == 0 and flag.follows == ("q",)
    if case == "two faults":
        assert flag.own and flag.follows == (("q",) if flag.own < flag.wrong else ())


def test_a_mistake_that_few_words_show(packed: Read, tmp_path: Path) -> None:
    """Every wrong word of a flag is one wrong bit: that is told, then what in the circuit gives it."""
    found = judged(packed("shift", "L0", ZQ=0), lambda ins: flag_of_the_top(ins, 0), tmp_path / "dut")
    flag = found["saturated"]
    assert found["q"].status == "pass" and 0 < flag.wrong <= 4
    assert flag.verdicts[0].lone and all(one.whole for one in flag.verdicts)
    told = [one.name for one in flag.verdicts[1:]]
    assert "saturated: without under" in told and not [name for name in told if "latency" in name]


def test_a_right_unit_has_no_cause(packed: Read, tmp_path: Path) -> None:
    found = judged(
        packed("shift"), lambda ins: limited([ties_even(x, 8) for x in ins["x"]]), tmp_path / "dut"
    )
    assert all(one.status == "pass" for one in found.values())


# -- requantization ----------------------------------------------------------------------------------

Parts = tuple[Callable[[int], int], Callable[[int, int], int]]


def toward_zero(v: int, bits: int) -> int:
    return -(-v >> bits) if v < 0 else v >> bits


def nudge(v: int) -> int:
    return 1 << 30 if v >= 0 else 1 - (1 << 30)


def high_mul(v: int) -> int:
    """SaturatingRoundingDoublingHighMul's (a * b + nudge) / 2^31."""
    return toward_zero(v + nudge(v), 31)


def by_pot(v: int, n: int) -> int:
    """RoundingDivideByPOT."""
    mask = (1 << n) - 1
    return (v >> n) + ((v & mask) > (mask >> 1) + (v < 0))


def requantizes(high: Callable[[int], int] = high_mul, pot: Callable[[int, int], int] = by_pot) -> Device:
    def device(ins: Mapping[str, list[int]]) -> Words:
        rows = zip(ins["acc"], ins["multiplier"], ins["n"], ins["zero_point"], strict=True)
        return limited(
            [pot(high((a << max(0, min(8, -n))) * m), max(0, min(24, n))) + z for a, m, n, z in rows]
        )

    return device


GEMMLOWP: dict[str, Device] = {
    "high: the sign's nudge (half, or 1 - half below 0), then a shift in place of a division": requantizes(
        high=lambda v: (v + nudge(v)) >> 31
    ),
    "nudged: always the second choice": requantizes(high=lambda v: toward_zero(v + (1 << 30), 31)),
    "high: tie down (towards -infinity), as a constant of half less one": requantizes(
        high=lambda v: toward_zero(v + nudge(v) - 1, 31)
    ),
    "tie up (towards +infinity)": requantizes(pot=lambda v, n: (v + ((1 << n) >> 1)) >> n),
}


@pytest.mark.slow
@pytest.mark.parametrize("cause", GEMMLOWP)
def test_gemmlowps_requantization(cause: str, packed: Read, tmp_path: Path) -> None:
    found = judged(packed("requantize", TWICE=1, MODE="ties_away"), GEMMLOWP[cause], tmp_path / "dut")
    assert first(found["q"]) == cause
    assert found["saturated"].own == 0 and found["saturated"].follows == ("q",)


def test_gemmlowps_requantization_passes(packed: Read, tmp_path: Path) -> None:
    found = judged(packed("requantize", TWICE=1, MODE="ties_away"), requantizes(), tmp_path / "dut")
    assert all(one.status == "pass" for one in found.values())


def test_an_accumulator_that_wraps_where_it_has_to_saturate(packed: Read, tmp_path: Path) -> None:
    settings = {"LANES": 1, "ACC": 18, "SUMS": "saturate", "S": 4, "OVERFLOW": "saturate"}
    read = packed("mac_requant", **settings)

    def device(ins: Mapping[str, list[Any]]) -> Words:
        total, out = 0, []
        for f, last, x, w, bias in zip(*(ins[k] for k in ("first", "last", "x", "w", "bias")), strict=True):
            product = int(np.ravel(x)[0]) * int(np.ravel(w)[0])
            total = cut((0 if f else total) + product, 18)
            if last:
                out.append(ties_even(max(-(1 << 17), min((1 << 17) - 1, total + bias)), 4))
        return limited(out)

    found = judged(read, device, tmp_path / "dut")
    assert first(found["q"]) == "after wraps where it has to saturate"


# -- units of one's own --------------------------------------------------------------------------------


def ports(p: Mapping[str, Any], scale: Any) -> tuple[Any, ...]:
    return (
        signal("x", 12, "a code"),
        signal("q", 6, "x / 2^4, half added, limited", direction="out"),
        signal("met", 1, "1 where a limit was met", signed=False, direction="out"),
    )


def half_up(c: Circuit, p: Mapping[str, Any]) -> None:
    """Half is added ahead of the shift: no wire holds what is lost."""
    sum_ = c.wire("sum", c.read("x", 12) + 8)
    rounded = c.wire("rounded", sum_ >> 4)
    over, under = rounded > 31, rounded < -31
    c.give("q", c.select(over, 31, c.select(under, -31, rounded)))
    c.give("met", over | under)


OWN = Unit("half_up", "a converter", {"W": Range(12, 12, 12)}, ports)


def own_limited(values: list[int]) -> Words:
    kept = [max(-31, min(31, v)) for v in values]
    return {"q": kept, "met": [int(a != b) for a, b in zip(values, kept, strict=True)]}


OWNS: dict[str, Device] = {
    "rounded: tie down (towards -infinity), as a constant of half less one": lambda ins: own_limited(
        [(x + 7) >> 4 for x in ins["x"]]
    ),
    "rounded: a rounding constant of half and one": lambda ins: own_limited([(x + 9) >> 4 for x in ins["x"]]),
    "rounded: tie to even": lambda ins: own_limited([ties_even(x, 4) for x in ins["x"]]),
    "rounded: tie away from zero": lambda ins: own_limited([(x + 8 - (x < 0)) >> 4 for x in ins["x"]]),
    "rounded: truncation (floor)": lambda ins: own_limited([x >> 4 for x in ins["x"]]),
    "rounded: truncation towards zero": lambda ins: own_limited([toward_zero(x, 4) for x in ins["x"]]),
    "sum wraps at 12 bits": lambda ins: own_limited([cut(x + 8, 12) >> 4 for x in ins["x"]]),
}


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> pack.Pack:
    every = [Group("every-x", "tie", {"x": column(range(-2048, 2048))})]
    return pack.read(pack.write(units.own(OWN, half_up, every), tmp_path_factory.mktemp("own") / "pack"))


@pytest.mark.slow
@pytest.mark.parametrize("cause", OWNS)
def test_roundings_of_own_units_have_names(cause: str, mine: pack.Pack, tmp_path: Path) -> None:
    found = judged(mine, OWNS[cause], tmp_path / "dut")
    assert first(found["q"]) == cause
    assert found["met"].status == "pass" or found["met"].own == 0


def test_the_flag_of_an_own_unit(mine: pack.Pack, tmp_path: Path) -> None:
    found = judged(mine, lambda ins: own_limited([(x + 8) >> 4 for x in ins["x"]])
                   | {"met": [int(abs((x + 8) >> 4) >= 31) for x in ins["x"]]}, tmp_path / "dut")  # fmt: skip
    assert first(found["met"]) == "met: <= in place of <, twice"


def test_on_the_command_line(mine: pack.Pack, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judged(mine, lambda ins: own_limited([(x + 7) >> 4 for x in ins["x"]]), tmp_path / "dut")
    status, out, _ = here(capsys, "check", mine.folder, "--dut", tmp_path / "dut")
    assert status == 1
    assert "diagnosis: rounded: tie down (towards -infinity), as a constant of half less one: explains" in out
    assert "\nmet: " in out and "elements differ: follows from q" in out


HALF = Fraction(1, 2)
BY_FRACTIONS: dict[str, Callable[[Fraction, int], int]] = {  # of y / 2^n and n
    "tie to even": lambda v, n: round_fraction(v),
    "tie away from zero": lambda v, n: round_fraction(v, "ties_away"),
    "tie up (towards +infinity)": lambda v, n: (v + HALF).__floor__(),
    "tie down (towards -infinity), as a constant of half less one": lambda v, n: (v - HALF).__ceil__(),
    "tie towards zero": lambda v, n: (v - HALF).__ceil__() if v > 0 else (v + HALF).__floor__(),
    "tie to odd": lambda v, n: (
        round_fraction(v + 1) - 1 if (v + HALF).denominator == 1 else round_fraction(v)
    ),
    "truncation (floor)": lambda v, n: v.__floor__(),
    "truncation towards zero": lambda v, n: v.__trunc__(),
    "rounded up always (ceiling)": lambda v, n: v.__ceil__(),
    "a rounding constant of half and one": lambda v, n: (
        v + (HALF + Fraction(1, 2**n) if n else 0)
    ).__floor__(),
    "the sign's nudge (half, or 1 - half below 0), then a shift in place of a division": lambda v, n: (
        v + (0 if not n else HALF if v >= 0 else Fraction(1, 2**n) - HALF)
    ).__floor__(),
}


@pytest.mark.parametrize("name", stages.UPS)
def test_a_rounding_is_what_its_name_says(name: str) -> None:
    """Every 8-bit number, shifted by 0 to 7."""
    c = Circuit()
    y, n = c.read("y", 8), c.read("n", 3, False)
    floor, unit = y >> n, c.value(1) << n
    lost = y - (floor << n)
    c.give("q", floor + stages.UPS[name](c, y, floor, lost, lost << 1, unit))
    beats = [{"y": v, "n": by} for v in range(-128, 128) for by in range(8)]
    want = [BY_FRACTIONS[name](Fraction(beat["y"], 2 ** beat["n"]), beat["n"]) for beat in beats]
    assert [row["q"] for row in run(c, beats)] == want


# -- circuits in packs -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", units.UNITS)
def test_a_circuit_comes_back_from_json(name: str) -> None:
    circuit = definition.circuit(name, units.UNITS[name].defaults)
    again = written.of_json(json.loads(json.dumps(written.to_json(circuit))))
    told = [(n.kind, n.at, n.range, n.name, [a.place for a in n.args]) for n in circuit.nodes]
    assert [(n.kind, n.at, n.range, n.name, [a.place for a in n.args]) for n in again.nodes] == told
    beat = {read: min(wire.high, 3) for read, wire in circuit.reads.items()}
    assert run(again, [beat]) == run(circuit, [beat])


DAMAGED: dict[str, Callable[[Any], Any]] = {
    "code for a name": lambda c: c["nodes"][0].__setitem__(1, "x = 1\nimport os"),
    "code for a number": lambda c: c["nodes"][1].__setitem__(1, "__import__('os')"),
    "no operation": lambda c: c["nodes"][2].__setitem__(1, "+ 0 or print"),
    "a later node": lambda c: c["nodes"][2].__setitem__(2, 99),
    "too wide a shift": lambda c: c["nodes"].append(["op", "<<", 0, 0]),
    "too many bits": lambda c: c["nodes"][0].__setitem__(2, 1 << 20),
    "no nodes": lambda c: c.pop("nodes"),
    "no such out port": lambda c: c["gives"].pop("q"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DAMAGED)
def test_a_circuit_that_is_none_is_refused(name: str, mine: pack.Pack, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(mine.folder, tmp_path / "forged"))
    manifest = json.loads((folder / "PACK.json").read_text())
    DAMAGED[name](manifest["about"]["circuit"])
    (folder / "PACK.json").write_text(json.dumps(manifest))
    seal(folder)
    device: Device = lambda ins: own_limited([(x + 7) >> 4 for x in ins["x"]])  # noqa: E731
    with pytest.raises(PackError, match="has no circuit that its ports fit"):
        judged(pack.read(folder), device, tmp_path / "dut")
