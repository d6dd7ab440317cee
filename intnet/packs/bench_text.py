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


def rotate(word: str) -> str:
    """The statement that folds a piece of 64 bits into the guard s."""
    return f"s = {{s[62:0], s[63]}} ^ {word};"
