"""A unit of examples/rtl with the latency, valid and ready of a pack: `stream.sv` around it, one file.

    python examples/rtl/stream.py PACK > build/quantize_sq.sv

The module has the unit's name, as the pack's testbench asks; the unit in it is NAME_core. A simulator needs
`-I examples/rtl`. Next: `simulate`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from examples.rtl.mutants import source
from intnet.errors import IntnetError
from intnet.packs import pack

Port = tuple[str, str]  # the range of its bits, and its name


def ports(text: str) -> dict[str, list[Port]]:
    """'input' and 'output' -> the ports of a module, in order."""
    head = text[text.index("module ") : text.index(");", text.index("module "))]
    found: dict[str, list[Port]] = {"input": [], "output": []}
    for way, bits, name in re.findall(r"(input|output) +(?:wire|logic) *(\[[^]]+\])? *(\w+)", head):
        found[way].append((bits, name))
    return found


def wrapped(unit: dict[str, Any]) -> str:
    """The file of a unit, as `about.unit` of PACK.json has it."""
    name = unit["name"]
    text = source(name).read_text()
    sides, parameters = ports(text), re.search(r"#\((.*?)\n\)", text, re.S)
    assert parameters is not None
    shared = {"clk", "rst", "in_valid", "out_valid"}
    outs = [one for one in sides["output"] if one[1] not in shared]
    own = [f"    {way:6} wire {bits} {port}" for way, both in sides.items() for bits, port in both]
    ready = ["    output wire in_ready", "    input  wire out_ready"] if unit.get("ready") else []
    inside = (
        "" if ready else "  wire in_ready;\n  wire out_ready = 1'b1;\n  wire unused = &{1'b0, in_ready};\n"
    )
    listed = ",\n".join(own + ready)
    wires = "".join(f"  wire {bits} unit_{port};\n" for bits, port in outs)
    core = {port: port for _, port in sides["input"]} | {"rst": "unit_rst", "in_valid": "unit_valid"}
    core |= {"out_valid": "unit_done"} | {port: f"unit_{port}" for _, port in outs}
    given = ", ".join(f".{key}({value})" for key, value in core.items())
    word, results = (", ".join(f"{start}{port}" for _, port in outs) for start in ("unit_", ""))
    width = " + ".join(_width(bits) for bits, _ in outs)
    chosen = ", ".join(f".{key}({key})" for key in re.findall(r"parameter int (\w+)", text))
    core_head = f"// verilator lint_off DECLFILENAME\nmodule {name}_core"
    renamed = re.sub(rf"^module {name}\b", core_head, text, flags=re.M)
    return f"""\
{renamed}
`include "stream.sv"
module {name} #({parameters[1]}
) (
{listed}
);
  wire unit_rst, unit_valid, unit_done;
{inside}{wires}  {name}_core #({chosen}) core ({given});
  stream #(.BITS({width}), .LATENCY({unit["latency"]})) around (
      .clk(clk), .rst(rst), .in_valid(in_valid), .in_last({"last" if unit["per_vector"] else "1'b1"}),
      .in_ready(in_ready), .unit_rst(unit_rst), .unit_valid(unit_valid), .unit_done(unit_done),
      .unit_word({{{word}}}), .out_valid(out_valid), .out_ready(out_ready), .out_word({{{results}}}));
endmodule
// verilator lint_on DECLFILENAME
"""


def _width(bits: str) -> str:
    """Of a range as '[OUT-1:0]'. `$bits` of a wire is none that Icarus knows when it sets parameters."""
    high, _, low = bits.strip("[]").partition(":")
    return f"({high}) - ({low}) + 1" if bits else "1"


def main() -> None:
    """Print the file for the pack that is named."""
    if len(sys.argv) != 2:
        sys.exit("write: python examples/rtl/stream.py PACK > NAME.sv")
    try:
        unit = pack.read(sys.argv[1]).manifest["about"].get("unit")
    except IntnetError as error:
        sys.exit(str(error))
    if unit is None or not source(unit["name"]).exists():
        sys.exit(f"{sys.argv[1]} is no pack of a unit of examples/rtl")
    print(wrapped(unit), end="")


if __name__ == "__main__":
    main()
