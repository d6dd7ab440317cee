"""Pieces of SystemVerilog that both testbenches are made of: names, and how a hex file is read."""

import re
from collections.abc import Sequence
from typing import Any

PIECE = 64  # bits of a word that the load guard takes at a time


def identifier(text: str) -> str:
    """A SystemVerilog identifier: 'layer1.0.conv1/x0' is 'layer1_0_conv1_x0'."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", text)
    return name if re.match(r"[A-Za-z_]", name) else f"p{name}"


def names_of(ports: Sequence[dict[str, Any]]) -> list[str]:
    """An identifier for every port of a manifest, no two alike."""
    out: dict[str, None] = {}
    for entry in ports:
        base = identifier(entry["name"])
        others = (f"{base}_{k}" for k in range(2, len(ports) + 2))
        out[next(name for name in (base, *others) if name not in out)] = None
    return list(out)


def widest(manifest: dict[str, Any]) -> int:
    """Bits that hold every word of a pack, in whole pieces."""
    return max(-(-entry["word_bits"] // PIECE) for entry in manifest["ports"]) * PIECE


def reader(manifest: dict[str, Any]) -> str:
    """Tasks that read a hex file: character by character, since Verilator's `%h` takes x and z for 0."""
    bits = widest(manifest)
    return f"""\
  // The next line of a file: status 1 and its word, 0 at the end of the file, -1 where it is no word of so
  // many bits: exactly so many hex digits, and the end of the line.
  task automatic read_word(input integer fd, input integer size, output integer status,
                           output logic [{bits - 1}:0] value);
    integer char, count;
    value = 0;
    count = 0;
    char = fd == 0 ? -1 : $fgetc(fd);
    status = char < 0 ? 0 : 1;
    while (status == 1 && char >= 0 && char != 10) begin
      if (char >= 48 && char <= 57) value = {{value[{bits - 5}:0], 4'(char - 48)}};
      else if (char >= 97 && char <= 102) value = {{value[{bits - 5}:0], 4'(char - 87)}};
      else status = -1;
      count = count + 1;
      char = $fgetc(fd);
    end
    if (status == 1 && (count != (size + 3) / 4 || char < 0)) status = -1;
  endtask

  // The load guard: rotl64(sum, 1) ^ piece over the pieces of 64 bits of a word, least significant first.
  task automatic fold(input integer size, input logic [{bits - 1}:0] value, inout logic [63:0] sum);
    for (integer k = 0; k < size; k = k + {PIECE}) sum = {{sum[62:0], sum[63]}} ^ value[k+:{PIECE}];
  endtask
"""
