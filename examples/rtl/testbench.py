"""The self-checking testbench of a unit, and the hex files it reads. One template serves every unit.

Files: one word a line, lower case, exactly ceil(bits/4) digits, LF, final newline. The simulators exit 0 on
a short or missing file, so the testbench counts the words and folds them into a guard, s = rotl(s, 1) ^ word
on 64 bits; both must be what the plusargs say. Bubbles with inverted data stand between the beats.

Plusargs: +tb=LABEL where several testbenches are built into one program: the others stay idle
          +dir=DIR  +beats=N  +results=N  +guard_PORT=HEX for every port
          +out=DIR writes what the unit gave
Prints the first mismatches, then `PASS n=<words compared>` or `FAIL ...`.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from examples.rtl.units import Port, Unit

DEPTH = 1 << 16  # words a file may have
MASK = (1 << 64) - 1
SHOWN = 8  # mismatches before it stops


def guard(words: Iterable[int]) -> int:
    """s = rotl64(s, 1) ^ word over all words, from 0."""
    s = 0
    for word in words:
        s = (((s << 1) | (s >> 63)) & MASK) ^ word
    return s


def write_hex(path: Path, words: Sequence[int], bits: int) -> None:
    """Signed or unsigned `words`, masked to `bits`."""
    mask, digits = (1 << bits) - 1, (bits + 3) // 4
    path.write_text("".join(f"{word & mask:0{digits}x}\n" for word in words), newline="\n")


def write_vectors(folder: Path, unit: Unit, columns: Mapping[str, Sequence[int]]) -> list[str]:
    """One file a port; the plusargs that go with them."""
    folder.mkdir(parents=True, exist_ok=True)
    arguments = [f"+tb={unit.label}", f"+dir={folder}", f"+beats={len(columns[unit.inputs[0].name])}"]
    arguments.append(f"+results={len(columns[unit.outputs[0].name])}")
    for port in unit.inputs + unit.outputs:
        words = columns[port.name]
        if port.bits > 64 or len(words) > DEPTH:
            raise ValueError(f"{unit.name}.{port.name}: {len(words)} words of {port.bits} bits are too many")
        write_hex(folder / f"{port.name}.hex", words, port.bits)
        arguments.append(f"+guard_{port.name}={guard(word & ((1 << port.bits) - 1) for word in words):016x}")
    return arguments


def _load(port: Port, count: str) -> str:
    return f"""
    file = $fopen({{dir, "/{port.name}.hex"}}, "r");
    if (!$value$plusargs("guard_{port.name}=%h", want)) want = 64'hx;
    s = 0;
    at = 0;
    got = file == 0 ? 0 : $fscanf(file, "%h\\n", {port.name}_word);
    while (got == 1 && at < DEPTH) begin
      {port.name}_words[at] = {port.name}_word;
      s = {{s[62:0], s[63]}} ^ 64'({port.name}_word);
      at = at + 1;
      got = $fscanf(file, "%h\\n", {port.name}_word);
    end
    if (at != {count} || s !== want) begin
      $display("FAIL load {port.name}.hex: %0d words of %0d, guard %h of %h", at, {count}, s, want);
      bad = bad + 1;
    end
    if (file != 0) $fclose(file);"""


def _compare(port: Port) -> str:
    return f"""
          if ({port.name} !== {port.name}_words[done]) begin
            wrong = wrong + 1;
            $display("{port.name}[%0d]: got %h want %h", done, {port.name}, {port.name}_words[done]);
          end
          if (dump) $fdisplay({port.name}_file, "%h", {port.name});"""


def _declare(unit: Unit) -> str:
    lines = []
    for port in unit.inputs + unit.outputs:
        kind = "logic" if port in unit.inputs else "wire "
        span = f"[{port.bits - 1}:0]"
        lines.append(f"  {kind} {span} {port.name};")
        lines.append(f"  logic {span} {port.name}_word, {port.name}_words[0:DEPTH];")
    lines += [f"  integer {port.name}_file;" for port in unit.outputs]
    return "\n".join(lines)


def _run(unit: Unit) -> str:
    """The loop over clocks: beats with gaps go in, results are due `latency` clocks later and compared."""
    drive = "".join(
        f"\n        {p.name} = in_valid ? {p.name}_words[at] : ~{p.name}_words[at];" for p in unit.inputs
    )
    return f"""\
    while (bad == 0 && wrong < {SHOWN} && (at < beats || due != 0)) begin
        noise = {{noise[14:0], ^(noise & 16'hb400)}};
        in_valid = at < beats && noise[1:0] != 0;{drive}
        due = {{due[{unit.latency - 1}:0], in_valid{" && last" if unit.per_vector else ""}}};
        if (in_valid) at = at + 1;
        #5 clk = 1;
        #5 clk = 0;
        if (out_valid !== due[{unit.latency - 1}]) begin
          wrong = wrong + 1;
          $display("out_valid: got %b want %b at result %0d", out_valid, due[{unit.latency - 1}], done);
        end
        if (due[{unit.latency - 1}] && done < results) begin{"".join(map(_compare, unit.outputs))}
          done = done + 1;
        end else if (due[{unit.latency - 1}]) begin
          wrong = wrong + 1;
          $display("more results than the %0d expected", results);
        end
        due[{unit.latency}] = 0;
    end"""


def testbench(unit: Unit) -> str:
    """The SystemVerilog text of module tb_LABEL."""
    ins, outs = [p.name for p in unit.inputs], [p.name for p in unit.outputs]
    ports = ("clk", "rst", "in_valid", *ins, "out_valid", *outs)
    setting = ", ".join(f".{name}({value})" for name, value in unit.parameters.items())
    wiring = ", ".join(f".{name}({name})" for name in ports)
    opened = "".join(f'\n      {p.name}_file = $fopen({{out, "/{p.name}.hex"}}, "w");' for p in unit.outputs)
    closed = "".join(f"\n      $fclose({p.name}_file);" for p in unit.outputs)
    counts = [(p, "beats") for p in unit.inputs] + [(p, "results") for p in unit.outputs]
    loads = "".join(_load(port, count) for port, count in counts)
    cleared = "".join(f"\n    {p.name} = '0;" for p in unit.inputs)
    return f"""// Generated for {unit.label}: do not edit. Plusargs and output are described in testbench.py.
`timescale 1ns / 1ps
module tb_{unit.label};
  localparam int DEPTH = {DEPTH};
  logic clk, rst, in_valid;
  wire out_valid;
{_declare(unit)}

  {unit.name} #({setting}) dut ({wiring});

  string only, dir, out;
  integer beats, results, at, done, file, got, bad, wrong;
  logic dump;
  logic [63:0] s, want;
  logic [15:0] noise;
  logic [{unit.latency}:0] due;  // due[i]: a result entered i clocks ago

  initial if (!$value$plusargs("tb=%s", only) || only == "{unit.label}") begin
    clk = 0;
    rst = 1;
    in_valid = 0;
    bad = 0;
    wrong = 0;{cleared}
    if (!$value$plusargs("dir=%s", dir)) dir = ".";
    if (!$value$plusargs("beats=%d", beats)) beats = -1;
    if (!$value$plusargs("results=%d", results)) results = -1;
    dump = $value$plusargs("out=%s", out);{loads}
    if (dump) begin{opened}
    end
    repeat (3) begin
      #5 clk = 1;
      #5 clk = 0;
    end
    rst = 0;
    at = 0;
    done = 0;
    due = '0;
    noise = 16'hace1;
{_run(unit)}
    if (dump) begin{closed}
    end
    if (bad == 0 && wrong == 0 && done == results && done > 0)
      $display("PASS n=%0d", done * {len(unit.outputs)});
    else $display("FAIL bad files %0d, mismatches %0d, results %0d of %0d", bad, wrong, done, results);
    $finish;
  end
endmodule
"""
