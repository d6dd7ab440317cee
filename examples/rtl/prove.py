"""Prove a unit equal to its definition for every input, or find the input that tells them apart.

    python examples/rtl/prove.py quantize_sq                 one, at its default parameters
    python examples/rtl/prove.py shift W=12 MODE=ties_away

Yosys (Debian: `apt-get install yosys`) reads the unit and the definition as SystemVerilog
(`intnet.packs.circuits.verilog`), cuts the unit at its registers and asks its SAT solver for words, and
values of the registers, at which they differ: of the words that registers hold after the beat, and of the
results where a beat gives one. None means equality for every input, beat after beat. Where the definition
promises that a wire fits (an exact sum), only inputs that keep the promise count.

One's own unit: `prove(Path("mine.sv"), name, circuit, generics)` with a circuit of its own and the ports
named alike.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from examples.rtl.mutants import HERE, source
from intnet.packs.circuits import verilog
from intnet.packs.circuits.c_model import identifier
from intnet.packs.units import drafts
from intnet.packs.units.listing import UNITS
from intnet.spec import units as definition
from intnet.spec.wires import Circuit

TIMEOUT = 120  # seconds


class Proof(NamedTuple):
    """Whether two are equal, what Yosys said where they are not, and the seconds."""

    equal: bool
    told: str
    seconds: float


def missing() -> str:
    """Why nothing can be proven here; '' where it can."""
    return "" if shutil.which("yosys") else "proofs need yosys on the path (Debian: yosys)"


def _yosys(script: str, folder: Path) -> Proof:
    """A script that ends in a `sat -prove`."""
    begin = time.perf_counter()
    path = folder / "script.ys"
    path.write_text(script)
    done = subprocess.run(
        ["timeout", str(TIMEOUT), "yosys", "-s", str(path)], capture_output=True, text=True, check=False
    )
    if done.returncode == 124:  # timeout's own: it ends what Yosys started, too
        raise subprocess.TimeoutExpired("yosys", TIMEOUT)
    seconds = time.perf_counter() - begin
    if "SAT proof finished - no model found: SUCCESS!" in done.stdout:
        return Proof(True, "", seconds)
    if "model found: FAIL!" in done.stdout:
        return Proof(False, done.stdout[done.stdout.rindex("model found: FAIL!") :], seconds)
    raise RuntimeError(f"yosys gave {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


SAT = "sat -prove ok 1 -show-inputs miter"
SHARED = "wreduce; opt -full -share_all; opt_merge -share_all; "


def _gates(circuit: Circuit) -> str:
    """The commands that make gates of the miter; signed products of both sides become one ahead of that."""
    products = [node for node in circuit.nodes if node.kind == "op" and node.at == "*"]
    shared = SHARED if any(arg.signed for node in products for arg in node.args) else ""
    return (
        f"hierarchy -top miter; proc; flatten; opt -full; {shared}"
        "techmap; opt -full; abc -g AND,XOR,MUX; opt_clean"
    )


def _declared(circuit: Circuit) -> tuple[list[str], list[str]]:
    """The miter's inputs, registers too, and the connections of both sides' in ports."""
    ports = verilog.Ports(circuit)
    names = list(ports.lanes)
    inputs = ports.declared()
    for register, (before, _) in circuit.registers.items():
        inputs.append(f"input wire [{before.bits - 1}:0] state_{identifier(register)}")
    return inputs, [f".{name}({name})" for name in names]


def _agree(circuit: Circuit, one: str, two: str) -> str:
    """That both give the same results, where a beat gives one, and keep the same."""
    results = " && ".join(f"{one}_{identifier(port)} == {two}_{identifier(port)}" for port in circuit.gives)
    if "last" in circuit.reads:
        results = f"(!last || ({results}))"
    kept = [f"{one}_next_{identifier(r)} == {two}_next_{identifier(r)}" for r in circuit.registers]
    return " && ".join([results, *kept])


def _side(circuit: Circuit, prefix: str) -> list[str]:
    """Wires of the results and the kept words of one side."""
    lines = [f"wire [{w.bits - 1}:0] {prefix}_{identifier(port)};" for port, w in circuit.gives.items()]
    return lines + [
        f"wire [{before.bits - 1}:0] {prefix}_next_{identifier(r)};"
        for r, (before, _) in circuit.registers.items()
    ]


def _definition(name: str, circuit: Circuit, prefix: str, ports: list[str]) -> list[str]:
    """An instance of the definition."""
    wiring = [*ports, *(f".{identifier(port)}({prefix}_{identifier(port)})" for port in circuit.gives)]
    for register in map(identifier, circuit.registers):
        wiring += [f".state_{register}(state_{register})", f".next_{register}({prefix}_next_{register})"]
    lines = [*_side(circuit, prefix), f"wire {prefix}_holds;"]
    return [*lines, f"{name} {prefix}({', '.join([*wiring, f'.holds({prefix}_holds)'])});"]


def _miter(inputs: list[str], body: list[str]) -> str:
    return (
        "module miter(\n  "
        + ",\n  ".join([*inputs, "output wire ok"])
        + "\n);\n  "
        + "\n  ".join(body)
        + "\nendmodule\n"
    )


def prove(rtl: Path, name: str, circuit: Circuit, generics: Mapping[str, int], mutant: int = 0) -> Proof:
    """A unit in SystemVerilog, or a mutant of it, against a circuit. RuntimeError where Yosys cannot say."""
    inputs, ports = _declared(circuit)
    unit = [*_side(circuit, "unit")]
    wiring = [*ports, ".in_valid(1'b1)", ".rst(1'b0)"]
    wiring += [f".\\{port}.d (unit_{port})" for port in circuit.gives]
    for register in circuit.registers:
        wiring += [f".\\{register}.q (state_{register})", f".\\{register}.d (unit_next_{register})"]
    unit.append(f"evert the_unit({', '.join(wiring)});")
    agree = f"assign ok = !def_holds || ({_agree(circuit, 'unit', 'def')});"
    body = [*unit, *_definition(f"{name}_spec", circuit, "def", ports), agree]
    define = f"-DMUT={mutant}" if mutant else ""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        (here / rtl.name).write_text(_set(rtl.read_text(), generics))
        (here / "spec.sv").write_text(verilog.text(name, circuit))
        (here / "miter.sv").write_text(_miter(inputs, body))
        return _yosys(
            f"""\
read_verilog -sv {define} -I{HERE} -I{rtl.parent} {here / rtl.name}
hierarchy -top {name}
proc; flatten; opt -full -nodffe -nosdff
expose -dff -evert-dff
rename -top evert
read_verilog -sv {here / "spec.sv"}
read_verilog -sv {here / "miter.sv"}
{_gates(circuit)}
{SAT}
""",
            here,
        )


def _set(text: str, generics: Mapping[str, int]) -> str:
    """A module with other defaults of its parameters."""
    for key, value in generics.items():
        text = re.sub(rf"(parameter int {key} *= *)-?\d+", rf"\g<1>{value}", text)
    return text


def same(name: str, circuit: Circuit, changed: Circuit) -> Proof:
    """A circuit against one with a fault: equal wherever the right one keeps its promises."""
    inputs, ports = _declared(circuit)
    agree = f"assign ok = !def_holds || ({_agree(circuit, 'bad', 'def')});"
    body = [
        *_definition(f"{name}_spec", circuit, "def", ports),
        *_definition("bad_spec", changed, "bad", ports),
        agree,
    ]
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        (here / "specs.sv").write_text(verilog.text(name, circuit) + verilog.text("bad", changed, circuit))
        (here / "miter.sv").write_text(_miter(inputs, body))
        return _yosys(
            f"read_verilog -sv {here / 'specs.sv'} {here / 'miter.sv'}\n{_gates(circuit)}\n{SAT}\n", here
        )


def main() -> None:
    """Prove one unit, or all."""
    parser = argparse.ArgumentParser(
        prog="python examples/rtl/prove.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("unit", nargs="?", help="default: all but block_dot, whose sum is too wide")
    parser.add_argument("settings", nargs="*", help="NAME=VALUE")
    args = parser.parse_args()
    if reason := missing():
        sys.exit(reason)
    names = [args.unit] if args.unit else [name for name in UNITS if name != "block_dot"]
    failed = False
    for name in names:
        unit = UNITS[name]
        given = drafts.parse(unit, dict(text.split("=", 1) for text in args.settings))
        parameters = unit.defaults | given
        try:
            proof = prove(source(name), name, definition.circuit(name, parameters), unit.generics(parameters))
        except subprocess.TimeoutExpired:
            print(f"{name}: not decided in {TIMEOUT} s", flush=True)
            failed = True
            continue
        verdict = "equal for every input" if proof.equal else f"different\n{proof.told}"
        print(f"{name}: {verdict} ({proof.seconds:.1f} s)", flush=True)
        failed = failed or not proof.equal
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
