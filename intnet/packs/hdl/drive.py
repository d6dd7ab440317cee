"""The testbench of a unit's pack: drives the unit with every beat, compares every result.

Bubbles with inverted data stand between the beats; out_valid must come exactly when a result is due. It
ends in `PASS n=<words compared>` or `FAIL ...` and shows the first mismatches. Where a pack's words are no
beats (`layouts.py`), a beat is put together from its words, and taken apart where it is written. A unit of
latency above 1, with ready or resets, is driven by the loop of `stream.py`.
"""

from math import prod
from typing import Any

from intnet.packs.hdl import stream
from intnet.packs.hdl.text import fold, identifier, package_of, widest

SHOWN = 8  # mismatches; then it stops, but where it writes what the unit gave

Entry = dict[str, Any]


def module(manifest: dict[str, Any]) -> str:
    """The testbench's name, and that of its file."""
    return f"tb_{identifier(manifest['name'])}"


def text(manifest: dict[str, Any]) -> str:
    """The SystemVerilog text."""
    unit = manifest["about"]["unit"]
    entries = {entry["name"]: entry for entry in manifest["ports"]}
    ins, outs = ([entries[name] for name in unit[way]] for way in ("inputs", "outputs"))
    name, package = module(manifest), package_of(manifest)
    return f"""{_usage(manifest, name, unit["name"])}
`timescale 1ns / 1ps
`include "pack.svh"
module {name};
  import {package}::*;
  localparam int BEATS = {_count(ins[0])};
  localparam int RESULTS = {_count(outs[0])};

  logic clk, rst, in_valid;
  wire out_valid;
{_declare(ins, outs, unit["ignored"])}

  {_instance(unit)}

  string only, pack, out;
  integer at, done, file, got, bad, wrong;
  logic dump;
  logic [63:0] s;
  logic [{widest(manifest) - 1}:0] line_word;
{_counted(unit, outs)}

{fold(widest(manifest))}
{_initial(name, unit, ins, outs)}endmodule
"""


def _counted(unit: dict[str, Any], outs: list[Entry]) -> str:
    """What the loop needs beside what all have."""
    if stream.streams(unit):
        return stream.declared(unit, {entry["name"]: span_of(entry) for entry in outs})
    return f"""\
  logic [15:0] noise;
  logic [{unit["latency"]}:0] due;  // due[i]: a result entered i clocks ago"""


def _started(unit: dict[str, Any]) -> str:
    if stream.streams(unit):
        return stream.started(unit)
    return """\
    at = 0;
    done = 0;
    due = '0;
    noise = 16'hace1;"""


def _initial(name: str, unit: dict[str, Any], ins: list[Entry], outs: list[Entry]) -> str:
    """Loads the files, resets the unit, runs it, and says how it went."""
    cleared = _each(ins, "\n    {0} = '0;") + "\n    out_ready = 0;" * bool(unit.get("ready"))
    opened = _each(outs, '\n      {0}_file = $fopen({{out, "/{0}.hex"}}, "w");')
    opened += _each(outs, "\n      if ({0}_file == 0) bad = bad + 1;")
    opened += '\n      if (bad != 0) $display("FAIL +out=%s: no folder to write to, or a bad file", out);'
    closed = _each(outs, "\n      $fclose({0}_file);")
    return f"""\
  initial if (!$value$plusargs("tb=%s", only) || only == "{name}") begin
    clk = 0;
    rst = 1;
    in_valid = 0;
    bad = 0;
    wrong = 0;{cleared}
    if (!$value$plusargs("pack=%s", pack)) pack = ".";
    dump = $value$plusargs("out=%s", out);{"".join(map(_load, ins + outs))}
    if (dump) begin{opened}
    end
    repeat (3) begin
      #5 clk = 1;
      #5 clk = 0;
    end
    rst = 0;
{_started(unit)}
{_run(unit, ins, outs)}
    if (dump) begin{closed}
    end
    if (bad == 0 && wrong == 0{" && !timeout" * stream.streams(unit)} && done == RESULTS && done > 0)
      $display("PASS n=%0d", done * {len(outs)});
    else $display("FAIL bad files %0d, mismatches %0d, results %0d of %0d", bad, wrong, done, RESULTS);
    $finish;
  end
"""


def _usage(manifest: dict[str, Any], name: str, unit: str) -> str:
    return f"""\
// Generated from PACK.json of {manifest["name"]} {manifest["version"]}: do not edit.
// With PACK the pack's folder ({unit}.sv may need a -I of its own):
//
//   $ iverilog -g2012 -I PACK/hdl -s {name} -o {name}.vvp PACK/hdl/{name}.sv {unit}.sv
//   $ vvp -n {name}.vvp +pack=PACK
//
//   $ verilator --binary --timing -Wall -Wno-DECLFILENAME -IPACK/hdl \\
//       --top-module {name} PACK/hdl/{name}.sv {unit}.sv
//   $ obj_dir/V{name} +pack=PACK
//
// Passed is what prints a line `PASS n=<words compared>`, and nothing else: the simulators finish with status
// 0 on a failure too. A mismatch is shown as port[line of its file, from 0]; cases.csv says what the vector
// hunts. +out=DIR writes what the unit gave, for `intnet check PACK --dut DIR`. +tb={name}
// where several testbenches are built into one program: the others stay idle."""


def _each(entries: list[Entry], template: str) -> str:
    return "".join(template.format(entry["name"]) for entry in entries)


def _declare(ins: list[Entry], outs: list[Entry], ignored: list[Entry]) -> str:
    lines = []
    for entry in ins + outs:
        name, kind = entry["name"], "logic" if entry in ins else "wire "
        if assembled(entry):
            lines.append(f"  localparam int {name}_BEAT_BITS = {_beat_bits(entry)};")
        span = span_of(entry)
        lines.append(f"  {kind} {span} {name};")
        lines.append(f"  logic {span} {name}_words[0:{_count(entry)}-1];")
    lines += [f"  integer {entry['name']}_file;" for entry in outs]
    for entry in ignored:  # it never changes in this pack, so it has no file
        lines.append(f"  wire [{entry['bits'] - 1}:0] {entry['name']};")
        lines.append(f"  wire unused_{entry['name']} = &{{1'b0, {entry['name']}}};")
    return "\n".join(lines)


def span_of(entry: Entry) -> str:
    """The range of a beat's bits."""
    return f"[{entry['name']}_{'BEAT' if assembled(entry) else 'WORD'}_BITS-1:0]"


def _instance(unit: dict[str, Any]) -> str:
    ignored = [entry["name"] for entry in unit["ignored"]]
    ready = ["in_ready", "out_ready"] if unit.get("ready") else []
    ports = ("clk", "rst", "in_valid", *unit["inputs"], "out_valid", *unit["outputs"], *ignored, *ready)
    setting = ", ".join(f".{name}({name})" for name in unit["parameters"])
    wiring = ", ".join(f".{name}({name})" for name in ports)
    return f"{unit['name']} #({setting}) dut ({wiring});"


def _load(entry: Entry) -> str:
    """Every word of a file into its memory; the count and the guard must be the manifest's."""
    name, path = entry["name"], entry["file"]
    return f"""
    file = $fopen({{pack, "/{path}"}}, "r");
    s = 0;
    at = 0;
    got = file == 0 ? 0 : $fscanf(file, "%h\\n", line_word);
    while (got == 1) begin
      if (at < {name}_WORDS) {_stored(entry)};
      fold({name}_WORD_BITS, line_word, s);
      at = at + 1;
      got = $fscanf(file, "%h\\n", line_word);
    end
    if (at != {name}_WORDS || s !== {name}_GUARD) begin
      $display("FAIL load {path}: %0d words of %0d, guard %h of %h", at, {name}_WORDS, s, {name}_GUARD);
      bad = bad + 1;
    end
    if (file != 0) $fclose(file);"""


def _compare(entry: Entry) -> str:
    name = entry["name"]
    return f"""
          if ({name} !== {name}_words[done]) begin
            wrong = wrong + 1;
            if (wrong <= {SHOWN}) $display("{name}[%0d]: got %h want %h", done, {name}, {name}_words[done]);
          end
          if (dump) {_written(entry)}"""


# -- beats of several words ------------------------------------------------------------------------


def assembled(entry: Entry) -> bool:
    """Whether a beat is no word: it is several, or words are wider than it."""
    return {entry["lanes"] * entry["bits"], entry["word_bits"]} != {_beat_bits(entry)}


def _beat_bits(entry: Entry) -> int:
    return prod(entry["shape"][1:]) * int(entry["bits"])


def _count(entry: Entry) -> str:
    """Beats of a file."""
    return str(entry["shape"][0]) if assembled(entry) else f"{entry['name']}_WORDS"


def _words(entry: Entry) -> tuple[int, int, int, int]:
    """(words a beat, words a row of lanes, bits of a row, of a word)."""
    row, word = entry["lanes"] * entry["bits"], entry["word_bits"]
    each = -(-row // word)
    return prod(entry["shape"][1:]) // entry["lanes"] * each, each, row, word


def _from_bit(entry: Entry, word: str) -> str:
    """Where the bits of a word begin in its beat."""
    beat, row, bits, size = _words(entry)
    return f"({word} % {beat}) / {row} * {bits} + {word} % {row} * {size}"


def _stored(entry: Entry) -> str:
    name = entry["name"]
    if not assembled(entry):
        return f"{name}_words[at] = line_word[{name}_WORD_BITS-1:0]"
    beat = _words(entry)[0]
    return (
        f"{name}_words[at / {beat}] = (at % {beat} == 0 ? '0 : {name}_words[at / {beat}])\n"
        f"          | ({name}_BEAT_BITS'(line_word) << ({_from_bit(entry, 'at')}))"
    )


def _written(entry: Entry) -> str:
    """Every word of a result; 0 stands above what is not filled."""
    name = entry["name"]
    if not assembled(entry):
        return f'$fdisplay({name}_file, "%h", {name});'
    beat, row, bits, size = _words(entry)
    starts = [(k // row * bits + k % row * size, k // row * bits + bits) for k in range(beat)]
    spans = [f"[{min(first + size, end) - 1}:{first}]" for first, end in starts]
    lines = [f"""            $fdisplay({name}_file, "%h", {size}'({name}{span}));""" for span in spans]
    return "\n".join(["begin", *lines, "          end"])


def _run(unit: dict[str, Any], ins: list[Entry], outs: list[Entry]) -> str:
    """The loop over clocks: beats with gaps go in, results are due `latency` clocks later and compared."""
    if stream.streams(unit):
        return stream.loop(unit, ins, outs, "".join(map(_compare, outs)).removeprefix("\n"))
    latency = unit["latency"]
    drive = _each(ins, "\n        {0} = in_valid ? {0}_words[at] : ~{0}_words[at < BEATS ? at : 0];")
    return f"""\
    while (bad == 0 && (dump || wrong < {SHOWN}) && (at < BEATS || due != 0)) begin
        noise = {{noise[14:0], ^(noise & 16'hb400)}};
        in_valid = at < BEATS && noise[1:0] != 0;{drive}
        due = {{due[{latency - 1}:0], in_valid{" && last" if unit["per_vector"] else ""}}};
        if (in_valid) at = at + 1;
        #5 clk = 1;
        #5 clk = 0;
        if (out_valid !== due[{latency - 1}]) begin
          wrong = wrong + 1;
          if (wrong <= {SHOWN})
            $display("out_valid: got %b want %b at result %0d", out_valid, due[{latency - 1}], done);
        end
        if (due[{latency - 1}] && done < RESULTS) begin{"".join(map(_compare, outs))}
          done = done + 1;
        end else if (due[{latency - 1}]) begin
          wrong = wrong + 1;
          if (wrong <= {SHOWN}) $display("more results than the %0d expected", RESULTS);
        end
        due[{latency}] = 0;
    end"""
