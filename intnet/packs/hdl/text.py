"""Pieces of SystemVerilog that both testbenches are made of: names, widths, the load guard."""

import re
from collections.abc import Sequence
from itertools import chain
from typing import Any

from intnet.packs.ports import LAYERS, OF_LAYERS

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
        out[next(name for name in chain([base], others) if name not in out)] = None
    return list(out)


def widest(manifest: dict[str, Any]) -> int:
    """Bits that hold every word of a pack, in whole pieces."""
    return max(-(-entry["word_bits"] // PIECE) for entry in manifest["ports"]) * PIECE


def fold(width: int) -> str:
    """The task that folds a word of a file into the load guard."""
    return f"""\
  // The load guard: rotl64(sum, 1) ^ piece over the pieces of 64 bits of a word, least significant first.
  task automatic fold(input integer size, input logic [{width - 1}:0] value, inout logic [63:0] sum);
    for (integer k = 0; k < size; k = k + {PIECE}) sum = {{sum[62:0], sum[63]}} ^ value[k+:{PIECE}];
  endtask
"""


def package_of(manifest: dict[str, Any]) -> str:
    """The package's name: of the layers or the unit alone, so that a pack of another step keeps it."""
    given = manifest["generator"]
    kind = given.get("kind")
    if kind == LAYERS:
        whole = "+".join(given["layers"])
    else:
        whole = f"{given['model']}_{kind}" if kind in OF_LAYERS else manifest["name"]
    return f"pack_{identifier(whole)}"
