"""CONTRACT.md's tables as a device reads them: imports nothing of intnet, opens no PACK.json."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple


class Port(NamedTuple):
    """A row of the tables of ports."""

    way: str
    bits: int
    kind: str
    lanes: int
    exponent: int
    shape: tuple[int, ...]
    axes: tuple[str, ...]


class Row(NamedTuple):
    """A row of 'Where they come from'."""

    format: str
    mode: str
    grid: str
    limits: str
    words: str
    source: str


class Blocks(NamedTuple):
    """A row of 'Microscaling', as text."""

    element: str
    bits: str
    least: str
    m: str
    edge: str
    greatest: str
    rule: str
    along: str
    groups: str


class Page:
    """CONTRACT.md's tables."""

    def __init__(self, text: str) -> None:
        self.text, self.ports = text, dict[str, Port]()
        ways = {"Inputs": "in", "Random": "rnd", "Expected": "exp", "Trail": "trail"}
        for part in text.split("\n## "):
            for cells in _rows(part, "port", "words"):
                name, _, element, in_word, value, shape, _ = cells
                lanes = re.search(r"i = 0\.\.(\d+)", in_word)
                bits = 1 + max(int(n) for n in re.findall(r"\[(\d+)", element))
                power = re.search(r"2\^(-?\d+)", value)
                sizes = tuple(int(n) for n in shape.split("=")[1].split(","))
                self.ports[name.strip("`")] = Port(
                    ways[part.split()[0].rstrip(":")], bits, element.split()[0],
                    int(lanes[1]) + 1 if lanes else 1, int(power[1]) if power else 0, sizes,
                    tuple(shape.split(" = ")[0].split(",")),
                )  # fmt: skip
        self.rows = {cells[0].strip("`"): Row(*cells[1:]) for cells in _rows(text, "port", "format")}
        found = _rows(text, "port", "element", "bits", "L")
        self.mx = {cells[0].strip("`"): Blocks(*cells[1:]) for cells in found}
        self.graph = {cells[0].strip("`"): cells[1:] for cells in _rows(text, "layer", "is")}
        self.twice = dict(re.findall(r"^- `(\S+)` is `(\S+)`$", text, re.MULTILINE))


def _rows(text: str, *heads: str) -> Iterator[list[str]]:
    """The cells of every row of the tables that begin with these headings."""
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line.startswith("|")]
        if lines and [cell.strip() for cell in lines[0].split("|")[1:]][: len(heads)] == list(heads):
            yield from ([cell.strip() for cell in line[1:-1].split(" | ")] for line in lines[2:])
