"""The hdl folder of a pack: `pack.svh`, a SystemVerilog package of sizes, and a self-checking testbench.

    files(manifest) -> {"hdl/pack.svh": ..., "hdl/tb_NAME.sv": ...}        from PACK.json alone

A unit's pack has a testbench that drives the unit (`drive.py`); the pack of layers has one that loads every
file and compares what a device wrote (`compare.py`). What both need is in `text.py`. Icarus 11 and Verilator
5.006 take both, the latter without a warning under -Wall. The simulators finish with status 0 on a short or
missing file, and on `$error`: only a line `PASS n=...` means that the test has passed.
"""

import re
from collections.abc import Sequence
from typing import Any

from intnet.packs.hdl import compare, drive
from intnet.packs.hdl.text import names_of, package_of

__all__ = ["files"]


def files(manifest: dict[str, Any]) -> dict[str, str]:
    """Path inside the pack -> text, of a PACK.json."""
    bench = drive if manifest["about"].get("unit") else compare
    return {"hdl/pack.svh": header(manifest), f"hdl/{bench.module(manifest)}.sv": bench.text(manifest)}


_LAID_OUT = {
    False: [],
    True: [f"// {'':15} of a row, where a word is no row: a row takes several words, the lowest bits first"],
}


def header(manifest: dict[str, Any]) -> str:
    """pack.svh: parameters of the unit; words, widths, load guard and exponent of every port."""
    package, unit = package_of(manifest), manifest["about"].get("unit")
    guard = f"INTNET_{package.upper()}_SVH"
    lines = [
        f"// Generated from PACK.json of {manifest['name']} {manifest['version']}: do not edit.",
        f"// {'PORT_WORDS':15} lines of the port's file",
        f"// {'PORT_BITS':15} of an element, two's complement where PORT_SIGNED is 1",
        f"// {'PORT_LANES':15} elements a word, lane 0 the least significant; PORT_WORD_BITS of all",
        *_LAID_OUT[manifest["about"].get("layout") is not None],
        f"// {'PORT_GUARD':15} s = rotl64(s, 1) ^ piece over the 64-bit pieces of all words, from s = 0",
        f"// {'PORT_EXPONENT':15} log2 of the value of code 1, where it is one for all",
        f"`ifndef {guard}",
        f"`define {guard}",
        "// verilator lint_off DECLFILENAME",  # of one program with several packs
        "// verilator lint_off UNUSEDPARAM",
        f"package {package};",
    ]
    if unit:
        lines += [f"  localparam int {name} = {value};" for name, value in unit["generics"].items()]
    ports: Sequence[dict[str, Any]] = manifest["ports"]
    for entry, name in zip(ports, names_of(ports), strict=True):
        lines += ["", f"  // {entry['file']}: {entry['name']}, {_ascii(entry['meaning'])}"]
        lines += [f"  localparam int {name}_{key} = {value};" for key, value in _sizes(entry)]
        lines.append(f"  localparam logic [63:0] {name}_GUARD = 64'h{entry['guard']};")
    return "\n".join(
        [
            *lines,
            "endpackage",
            "// verilator lint_on UNUSEDPARAM",
            "// verilator lint_on DECLFILENAME",
            "`endif",
            "",
        ]
    )


def _sizes(entry: dict[str, Any]) -> list[tuple[str, int]]:
    exponent = entry["exponent"]
    return [
        ("WORDS", entry["words"]),
        ("BITS", entry["bits"]),
        ("SIGNED", int(entry["signed"])),
        ("LANES", entry["lanes"]),
        ("WORD_BITS", entry["word_bits"]),
        *([("EXPONENT", exponent)] if isinstance(exponent, int) else []),
    ]


def _ascii(text: str) -> str:
    """A meaning on one line of a comment."""
    return re.sub(r"[^ -~]+", " ", text).replace("\\", "/")
