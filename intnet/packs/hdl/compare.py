"""The testbench of a pack of layers: loads every file, and compares what a device wrote with what it must be.

A device of layers has no ports that all agree on, so this module has none: it reads files. Both files of a
comparison are read side by side, a word at a time: a pack may be longer than a simulator's memory.
"""

from typing import Any

from intnet.packs.hdl.text import fold, names_of, package_of, widest

SHOWN = 8  # mismatches of a port that it shows


def module(manifest: dict[str, Any]) -> str:
    """The testbench's name, and that of its file."""
    return "tb_pack"


def text(manifest: dict[str, Any]) -> str:
    """The SystemVerilog text."""
    ports = list(zip(manifest["ports"], names_of(manifest["ports"]), strict=True))
    loads = "\n".join(
        f'    load("{entry["file"]}", {name}_WORDS, {name}_WORD_BITS, {name}_GUARD);' for entry, name in ports
    )
    compares = "\n".join(
        f'      compare("{entry["file"]}", "{entry["file"].split("/")[1]}", {name}_WORDS, {name}_WORD_BITS,\n'
        f"              {name}_LANES, {name}_BITS);"
        for entry, name in ports
        if entry["direction"] == "out"
    )
    tasks = "\n".join(task(widest(manifest)) for task in (fold, _load_task, _read_task, _compare_task))
    return f"""{_usage(manifest)}
`timescale 1ns / 1ps
`include "pack.svh"
module tb_pack;
  import {package_of(manifest)}::*;

  string only, pack, dut;
  integer loaded, compared, bad, form;

{tasks}
  initial if (!$value$plusargs("tb=%s", only) || only == "tb_pack") begin
    loaded = 0;
    compared = 0;
    bad = 0;
    if (!$value$plusargs("pack=%s", pack)) pack = ".";
{loads}
    if ($value$plusargs("dut=%s", dut)) begin
{compares}
      if (bad == 0 && compared > 0) $display("PASS n=%0d", compared);
      else $display("FAIL %0d faults, %0d words compared", bad, compared);
    end else if (bad == 0 && loaded > 0) $display("PASS load n=%0d", loaded);
    else $display("FAIL %0d faults, %0d words loaded", bad, loaded);
    $finish;
  end
endmodule
"""


def _usage(manifest: dict[str, Any]) -> str:
    return f"""\
// Generated from PACK.json of {manifest["name"]} {manifest["version"]}: do not edit.
// With PACK the pack's folder:
//
//   $ iverilog -g2012 -I PACK/hdl -s tb_pack -o tb_pack.vvp PACK/hdl/tb_pack.sv
//   $ vvp -n tb_pack.vvp +pack=PACK +dut=DIR
//
//   $ verilator --binary --timing -Wall -Wno-DECLFILENAME -IPACK/hdl --top-module tb_pack PACK/hdl/tb_pack.sv
//   $ obj_dir/Vtb_pack +pack=PACK +dut=DIR
//
// DIR holds what the device wrote, one file a file of PACK/exp, of the same name, with its words in hex: by
// $writememh, $fdisplay(file, "%h", word), %0h, with 0x before every word. Passed is what prints
// `PASS n=<words compared>`; without +dut only the pack's own files are loaded: `PASS load n=<words>`. The
// simulators finish with status 0 on a failure too. `intnet check PACK --dut DIR` explains what differs.
// +tb=tb_pack where several testbenches are built into one program: the others stay idle."""


def _load_task(width: int) -> str:
    return f"""\
  // Every word of a file of the pack: as many, and with the load guard, as pack.svh says.
  task automatic load(input string name, input integer words, input integer bits, input logic [63:0] guard);
    integer file, got, at;
    logic [63:0] s;
    logic [{width - 1}:0] word;
    s = 0;
    at = 0;
    file = $fopen({{pack, "/", name}}, "r");
    got = file == 0 ? 0 : $fscanf(file, "%h\\n", word);
    while (got == 1) begin
      fold(bits, word, s);
      at = at + 1;
      got = $fscanf(file, "%h\\n", word);
    end
    if (at != words || s !== guard) begin
      $display("FAIL load %s: %0d words of %0d, guard %h of %h", name, at, words, s, guard);
      bad = bad + 1;
    end
    if (file != 0) $fclose(file);
    loaded = loaded + at;
  endtask
"""


def _read_task(width: int) -> str:
    return f"""\
  // The next word of what a device wrote, character by character, since Verilator's %h takes x and z for 0:
  // status 1 and its value, 0 at the end of the file, -1 where it is no word or could be two. Read are upper
  // case, `_`, blanks, CRLF, comments from // on, addresses in order, words without leading zeros, and 0x
  // before every word. form: 0 ahead of the first word, then 2 where words have 0x, 1 where they have not.
  task automatic read_word(input integer fd, input integer digits, input integer at, output integer status,
                           output logic [{width - 1}:0] value);
    integer char, digit, count, kind;  // kind: 0 between words, 1 a word, 2 an address, 3 a comment
    logic zero, prefix;
    value = 0;
    count = 0;
    kind = 0;
    zero = 0;
    prefix = 0;
    status = fd == 0 ? 0 : 2;
    while (status == 2) begin
      char = $fgetc(fd);
      digit = char >= 48 && char <= 57 ? char - 48 : char >= 97 && char <= 102 ? char - 87 :
              char >= 65 && char <= 70 ? char - 55 : -1;
      if (kind == 3) begin
        if (char < 0 || char == 10) kind = 0;
      end else if (char < 0 || char == 9 || char == 10 || char == 13 || char == 32) begin
        if (kind == 1) status = 1;
        else if (kind == 2) begin
          if (count == 0 || value[31:0] != at) status = -1;
          kind = 0;
          value = 0;
          count = 0;
        end else if (char < 0) status = 0;
      end else if (kind == 0 && char == 47) begin
        kind = 3;
        if ($fgetc(fd) != 47) status = -1;
      end else if (kind == 0 && char == 64) kind = 2;
      else begin
        if (kind == 0) kind = 1;
        if (kind == 1 && (char == 120 || char == 88) && count == 1 && zero && !prefix) begin
          prefix = 1;
          count = 0;
        end else if (digit >= 0) begin
          if (count == 0) zero = digit == 0;
          value = {{value[{width - 5}:0], 4'(digit)}};
          count = count + 1;
        end else if (char != 95) status = -1;
      end
    end
    if (status == 1) begin
      if (form == 0) form = prefix ? 2 : 1;
      if (form != (prefix ? 2 : 1) || count == 0 || count > digits) status = -1;
      if (count < digits && zero && count != 1) status = -1;
      if (prefix && count + 2 == digits) status = -1;  // the x could be a digit
    end
  endtask
"""


def _compare_task(width: int) -> str:
    return f"""\
  // Both files side by side; a file that is missing, short, long, or has anything else in it is a fault.
  task automatic compare(input string name, input string given, input integer words, input integer bits,
                         input integer lanes, input integer each);
    integer file, mine, got, want, at, wrong;
    logic [{width - 1}:0] a, b;
    at = 0;
    wrong = 0;
    form = 0;
    file = $fopen({{pack, "/", name}}, "r");
    mine = $fopen({{dut, "/", given}}, "r");
    want = file == 0 ? 0 : $fscanf(file, "%h\\n", b);
    read_word(mine, (bits + 3) / 4, at, got, a);
    while (want == 1 && got == 1) begin
      if (a !== b) begin
        if (wrong < {SHOWN}) $display("%s[%0d]: got %0h want %0h", given, at, a, b);
        wrong = wrong + 1;
      end
      at = at + 1;
      want = $fscanf(file, "%h\\n", b);
      read_word(mine, (bits + 3) / 4, at, got, a);
    end
    if (at != words || want == 1 || got != 0 || mine == 0) begin
      if (mine == 0) $display("FAIL %s: there is no such file", given);
      else if (got < 0)
        $display("FAIL %s[%0d]: no word of %0d hex digits, %0d bits; a row has %0d lanes of %0d bits",
                 given, at, (bits + 3) / 4, bits, lanes, each);
      else if (got == 0) $display("FAIL %s: ends after %0d words of %0d", given, at, words);
      else $display("FAIL %s: goes on after %0d words", given, at);
      bad = bad + 1;
    end
    if (wrong != 0) begin
      $display("FAIL %s: %0d of %0d words differ", given, wrong, words);
      bad = bad + 1;
    end
    if (file != 0) $fclose(file);
    if (mine != 0) $fclose(mine);
    compared = compared + at;
  endtask
"""
