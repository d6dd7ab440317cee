"""Prove a unit equal to its definition for every input, or find the input that tells them apart.

    python examples/rtl/prove.py quantize_sq                 one, at its default parameters
    python examples/rtl/prove.py shift W=12 MODE=ties_away

Yosys (Debian: `apt-get install yosys`) reads the unit and the definition as SystemVerilog
(`intnet.packs.circuits.verilog`) and cuts the unit at its registers; ABC, which comes with it, looks for
words and values of the registers at which they differ: of the words that registers hold after a clock, with
and without in_valid and rst, of out_valid, and of the results, as numbers, where a beat gives one. None means
equality for every input, beat after beat. Where the definition promises that a wire fits (an exact sum), only
inputs that keep the promise count.

One's own unit: `prove(Path("mine.sv"), unit, circuit, parameters)` with a circuit of its own, and the ports
and registers named alike.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from examples.rtl.mutants import HERE, mutants, source
from intnet.cli import options
from intnet.errors import IntnetError, unknown
from intnet.packs.circuits import verilog
from intnet.packs.circuits.c_model import c_name
from intnet.packs.units import drafts
from intnet.packs.units.listing import UNITS
from intnet.packs.units.signals import Unit
from intnet.spec import units as definition
from intnet.spec.wires import Circuit

TIMEOUT = 600  # seconds
TOOLS = ("yosys", "yosys-abc")
# The miter's gates as they stand: ABC finds what both sides have in common, if nothing rewrites it before.
GATES = (
    "hierarchy -top miter; proc; flatten; opt_expr; opt_clean; wreduce; opt_expr; opt_merge; opt_clean; "
    "check -assert; simplemap; techmap"
)
# SAT sweeping merges equal gates from the inputs on, and so both multipliers. -r turns rewriting off,
# which can trip over an assertion of ABC.
SWEEP, SEARCH = "ifraig; iprove -r", "iprove -r -N 1"


class Proof(NamedTuple):
    """Whether two are equal, the in ports and registers at which they are not, and the seconds."""

    equal: bool
    told: dict[str, int]
    seconds: float


def missing() -> str:
    """Why nothing can be proven here; '' where it can."""
    left = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"proofs need {' and '.join(left)} on the path (Debian: yosys)" if left else ""


class Undecided(Exception):
    """Neither equal nor a difference: in the time that there was, or for ABC at all."""


def _run(command: list[str], until: float) -> str:
    """What a tool prints. Undecided where it has not ended by then, RuntimeError where it fails."""
    left = max(0.0, until - time.monotonic())
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=left)
    except subprocess.TimeoutExpired as late:
        raise Undecided(f"not decided in {TIMEOUT} s") from late
    if done.returncode:
        raise RuntimeError(
            f"{command[0]} gave {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return done.stdout


def _decide(script: str, folder: Path, count: int = 1, unlike: bool = False) -> list[Proof]:
    """Whether each output of the module miter, which a script for Yosys makes, is 0 whatever its inputs are.

    unlike: a difference is expected, and looked for ahead of what both sides have in common
    """
    begin, gates, path = time.monotonic(), folder / "miter.blif", folder / "script.ys"
    until = begin + TIMEOUT * count
    path.write_text(f"{script}\n{GATES}\nwrite_blif {gates}\n")
    # An input or a register of another width than the definition's is no match.
    _run(["yosys", "-q", "-e", "Resizing cell port", "-s", str(path)], until)
    proofs: dict[int, Proof] = {}
    for tactic in (SEARCH, SWEEP) if unlike else (SWEEP,):
        left = [k for k in range(count) if k not in proofs]
        each = "; ".join(
            f"echo output {k}:; cone -O {k}; {tactic}; write_cex -n {folder}/{k}; restore" for k in left
        )
        said = _run(["yosys-abc", "-c", f"read_blif {gates}; strash; backup; {each}"], until)
        for k, answer in re.findall(r"^output (\d+):\s+(SAT|UNSAT)ISFIABLE", said, re.M):
            told = _words((folder / k).read_text()) if answer == "SAT" else {}
            proofs[int(k)] = Proof(answer == "UNSAT", told, time.monotonic() - begin)
        if len(proofs) == count:
            return [proofs[k] for k in range(count)]
    raise Undecided(f"yosys-abc did not decide:\n{said[-2000:]}")


def _words(told: str) -> dict[str, int]:
    """Numbers of the bits that ABC writes: a line NAME[3]@0=1 each."""
    words: dict[str, int] = {}
    for name, bit, value in re.findall(r"(\w+)(?:\[(\d+)\])?@0=([01])", told):
        words[name] = words.get(name, 0) | int(value) << int(bit or 0)
    return words


def _declared(circuit: Circuit) -> tuple[list[str], list[str]]:
    """The miter's inputs, registers too, and the connections of both sides' in ports."""
    inputs = [*verilog.inputs(circuit), "input wire in_valid", "input wire rst"]
    for register, (before, _) in circuit.registers.items():
        inputs.append(f"input wire [{before.bits - 1}:0] state_{c_name(register)}")
    return inputs, [f".{name}({name})" for name in verilog.ports_of(circuit)]


def _definition(name: str, circuit: Circuit, prefix: str, ports: list[str], like: Circuit) -> list[str]:
    """An instance of the definition, its results as wide as those of `like`."""
    lines, wiring = [f"wire {prefix}_holds;"], [*ports, f".holds({prefix}_holds)"]
    for port, wire in like.gives.items():
        lines.append(f"wire [{wire.bits - 1}:0] {prefix}_{c_name(port)};")
        wiring.append(f".{c_name(port)}({prefix}_{c_name(port)})")
    for register, (before, _) in circuit.registers.items():
        kept = c_name(register)
        lines.append(f"wire [{before.bits - 1}:0] {prefix}_next_{kept};")
        wiring += [f".state_{kept}(state_{kept})", f".next_{kept}({prefix}_next_{kept})"]
    return [*lines, f"{name} {prefix}({', '.join(wiring)});"]


def _unit(
    unit: Unit, circuit: Circuit, parameters: Mapping[str, Any], ports: list[str], prefix: str
) -> list[str]:
    """An instance of the unit, cut at its registers: .q of each is what it holds, .d what it will."""
    lines, wiring = [f"wire {prefix}_valid;"], [*ports, ".in_valid(in_valid)", ".rst(rst)"]
    wiring.append(f".\\out_valid.d ({prefix}_valid)")
    for port in unit.signals(parameters, {}):
        if port.direction == "out":
            lines.append(f"wire [{port.bits - 1}:0] {prefix}_{port.name};")
            wiring.append(f".\\{port.name}.d ({prefix}_{port.name})")
    for register, (before, _) in circuit.registers.items():
        lines.append(f"wire [{before.bits - 1}:0] {prefix}_next_{register};")
        wiring += [f".\\{register}.q (state_{register})", f".\\{register}.d ({prefix}_next_{register})"]
    return [*lines, f"{prefix}_evert {prefix}({', '.join(wiring)});"]


def _number(name: str, signed: bool) -> str:
    """A wire as the number that it stands for."""
    return f"$signed({name})" if signed else f"$signed({{1'b0, {name}}})"


def _agree(unit: Unit, circuit: Circuit, parameters: Mapping[str, Any], prefix: str) -> str:
    """That a clock leaves an instance as the definition has it: out_valid, results, registers."""
    gives = "in_valid && !rst && last" if "last" in circuit.reads else "in_valid && !rst"
    signed = {port.name: port.signed for port in unit.signals(parameters, {}) if port.direction == "out"}
    results = [
        f"{_number(f'{prefix}_{port}', signed[port])} == {_number(f'def_{port}', wire.signed)}"
        for port, wire in circuit.gives.items()
    ]
    clauses = [f"{prefix}_valid == ({gives})", f"!({gives} && def_holds) || ({' && '.join(results)})"]
    for r in circuit.registers:
        clauses.append(f"!rst || {prefix}_next_{r} == 0")
        clauses.append(f"rst || in_valid || {prefix}_next_{r} == state_{r}")
        clauses.append(f"rst || !in_valid || !def_holds || {prefix}_next_{r} == def_next_{r}")
    return " && ".join(f"({clause})" for clause in clauses)


def _miter(inputs: list[str], body: list[str], agree: list[str]) -> str:
    """An output for each agreement: 1 where it is none."""
    return (
        "module miter(\n  "
        + ",\n  ".join([*inputs, *(f"output wire differ_{k}" for k in range(len(agree)))])
        + "\n);\n  "
        + "\n  ".join([*body, *(f"assign differ_{k} = !({one});" for k, one in enumerate(agree))])
        + "\nendmodule\n"
    )


def prove(rtl: Path, unit: Unit, circuit: Circuit, parameters: Mapping[str, Any]) -> Proof:
    """A unit in SystemVerilog against its circuit.

    Undecided where that takes too long, RuntimeError where the two cannot be compared.
    """
    return _each(rtl, unit, circuit, parameters, [0])[0]


def _each(
    rtl: Path, unit: Unit, circuit: Circuit, parameters: Mapping[str, Any], which: Sequence[int]
) -> list[Proof]:
    """The unit (0) or mutants of it, each against the circuit, side by side in one design."""
    inputs, ports = _declared(circuit)
    body, agree, script = _definition(f"{unit.name}_spec", circuit, "def", ports, circuit), [], []
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        (here / rtl.name).write_text(_set(rtl.read_text(), unit.generics(parameters)))
        (here / "spec.sv").write_text(verilog.text(unit.name, circuit))
        for n in which:
            side, define = f"unit{n}", f"-DMUT={n}" if n else ""
            body += _unit(unit, circuit, parameters, ports, side)
            agree.append(_agree(unit, circuit, parameters, side))
            script.append(f"""\
read_verilog -sv {define} -I{HERE} -I{rtl.parent} {here / rtl.name}
hierarchy -top {unit.name}
proc; flatten; opt_clean
expose -dff -evert-dff
rename -top {side}_evert
design -stash {side}""")
        script += [f"design -copy-from unit{n} unit{n}_evert" for n in which]
        script += [f"read_verilog -sv {here / 'spec.sv'} {here / 'miter.sv'}"]
        (here / "miter.sv").write_text(_miter(inputs, body, agree))
        return _decide("\n".join(script), here, len(which), unlike=0 not in which)


def _set(text: str, generics: Mapping[str, int]) -> str:
    """A module with other defaults of its parameters."""
    for key, value in generics.items():
        text = re.sub(rf"(parameter int {key} *= *)-?\d+", rf"\g<1>{value}", text)
    return text


def same(name: str, circuit: Circuit, changed: Circuit) -> Proof:
    """A circuit against one with a fault: equal wherever the right one keeps its promises."""
    inputs, ports = _declared(circuit)
    body = _definition(f"{name}_spec", circuit, "def", ports, circuit)
    body += _definition("bad_spec", changed, "bad", ports, circuit)
    results = " && ".join(f"bad_{port} == def_{port}" for port in map(c_name, circuit.gives))
    if "last" in circuit.reads:
        results = f"(!last || ({results}))"
    kept = [f"bad_next_{r} == def_next_{r}" for r in map(c_name, circuit.registers)]
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        (here / "specs.sv").write_text(verilog.text(name, circuit) + verilog.text("bad", changed, circuit))
        agree = f"!def_holds || ({' && '.join([results, *kept])})"
        (here / "miter.sv").write_text(_miter(inputs, body, [agree]))
        return _decide(f"read_verilog -sv {here / 'specs.sv'} {here / 'miter.sv'}", here)[0]


def of(name: str, settings: Mapping[str, Any]) -> Proof:
    """A unit of `examples/rtl`, at some settings and defaults."""
    unit = UNITS[name]
    parameters = unit.defaults | dict(settings)
    return prove(source(name), unit, definition.circuit(name, parameters), parameters)


def of_mutants(name: str, settings: Mapping[str, Any]) -> dict[int, Proof]:
    """Each mutant of a unit against its definition."""
    unit, which = UNITS[name], list(mutants(name))
    parameters = unit.defaults | dict(settings)
    proofs = _each(source(name), unit, definition.circuit(name, parameters), parameters, which)
    return dict(zip(which, proofs, strict=True))


def main() -> None:
    """Prove one unit, or all."""
    parser = argparse.ArgumentParser(
        prog="python examples/rtl/prove.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("unit", nargs="?", help="default: all")
    parser.add_argument("settings", nargs="*", help="NAME=VALUE")
    parser.add_argument("--mutants", action="store_true", help="which of its mutants the proof refutes, too")
    args = parser.parse_args()
    if reason := missing():
        sys.exit(reason)
    names, failed = [args.unit] if args.unit else list(UNITS), False
    try:
        if names[0] not in UNITS:
            raise unknown("unit", names[0], list(UNITS))
        settings = options.settings(args.settings, "NAME=VALUE")
        asked = {name: drafts.parse(UNITS[name], settings) for name in names}
    except IntnetError as error:
        parser.error(str(error))
    for name, given in asked.items():
        try:
            proof = of(name, given)
            tried = of_mutants(name, given) if args.mutants and mutants(name) else {}
        except Undecided as why:
            print(f"{name}: {why}", flush=True)
            failed = True
            continue
        verdict = "equal for every input" if proof.equal else f"different at {proof.told}"
        refuted = sum(not one.equal for one in tried.values())
        also = f"; {refuted} of {len(tried)} mutants refuted" if args.mutants else ""
        print(f"{name}: {verdict} ({proof.seconds:.1f} s){also}", flush=True)
        failed = failed or not proof.equal
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
