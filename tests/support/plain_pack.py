"""A pack as a hardware engineer reads it: PACK.json and the hex files in plain Python; no line of intnet's.

`Plain(folder)["fc2/x1"]` is an `oracle.tensor.Fixed`, `.values("fc2/x1")` the integers of its elements.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any

from intnet.spec.formats import flag_decode
from intnet.spec.tensor import Fixed, power


class Plain:
    """The ports of a pack."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = json.loads((folder / "PACK.json").read_text())
        self.ports = {port["name"]: port for port in self.manifest["ports"]}

    def values(self, name: str) -> list[int]:
        """Elements in C order, checked against words, width and load guard."""
        port = self.ports[name]
        text = (self.folder / port["file"]).read_text()
        assert text.endswith("\n")
        words = [int(line, 16) for line in text.splitlines()]
        assert len(words) == port["words"]
        assert f"{load_guard(words, port['word_bits']):016x}" == port["guard"]
        return values_of(words, port)

    def __getitem__(self, name: str) -> Fixed:
        port = self.ports[name]
        codes = self.values(name)
        if port["encoding"] == "flag":
            k = port["bits"] - 1
            codes = [
                flag_decode((word >> k, word >> k - 1 & 1, word & (1 << k - 1) - 1), k) for word in codes
            ]
        exponent = port["exponent"]
        return Fixed(tuple(port["shape"]), codes, 0 if exponent is None else exponent)

    def expression(self, json_: dict[str, Any]) -> list[Fraction]:
        """What PACK.json says entered a rounding, as exact values."""
        if "terms" not in json_:
            return [value / json_.get("denominator", 1) for value in self.reals(json_["tensor"])]
        channels = self._channels(json_)
        total = [Fraction(0)] * len(self.values(json_["terms"][0]["port"]))
        for term in json_["terms"]:
            factor = self._part(term["factor"], channels)
            codes = self[term["port"]].codes
            total = [
                t + code * factor[i % channels] * 2 ** term["shift"]
                for i, (t, code) in enumerate(zip(total, codes, strict=True))
            ]
        offset, den = (self._part(json_[key], channels) for key in ("offset", "denominator"))
        unit = power(json_["exponent"])
        out = [(t + offset[i % channels]) / den[i % channels] * unit for i, t in enumerate(total)]
        return [max(value, Fraction(0)) for value in out] if json_["relu"] else out

    def reals(self, name: str) -> list[Fraction]:
        """The exact values of a port's elements, of a float32 port too."""
        if self.ports[name]["encoding"] != "float32":
            return self[name].real().values
        patterns = self.values(name)
        packed = struct.pack(f"<{len(patterns)}I", *patterns)
        return [Fraction(value) for value in struct.unpack(f"<{len(patterns)}f", packed)]

    def _channels(self, json_: dict[str, Any]) -> int:
        shape = self.ports[json_["terms"][0]["port"]]["shape"]
        return int(shape[-1])

    def _part(self, part: int | str, channels: int) -> Sequence[Fraction]:
        values = [part] * channels if isinstance(part, int) else self.values(part)
        assert len(values) == channels
        return [Fraction(value) for value in values]


def values_of(words: Sequence[int], port: dict[str, Any]) -> list[int]:
    """The elements in C order; every bit and lane of the words that holds none is 0."""
    each = -(-port["lanes"] * port["bits"] // port["word_bits"])
    assert all(word >> port["word_bits"] == 0 for word in words) and len(words) % each == 0
    cells: list[int] = []
    for at in range(0, len(words), each):
        row = 0
        for word in reversed(words[at : at + each]):
            row = row << port["word_bits"] | word
        cells += elements(row, port)
    shape = port["shape"]
    out, held = [], set()
    for flat in range(prod(shape)):
        index = [flat // prod(shape[k + 1 :]) % size for k, size in enumerate(shape)]
        at = flat if "order" not in port else position(index, port)
        out.append(cells[at])
        held.add(at)
    assert len(held) == len(out) and not any(code for at, code in enumerate(cells) if at not in held)
    return out


def position(index: Sequence[int], port: dict[str, Any]) -> int:
    """The cell of an element by the port's order, as a number whose digits are the order's indices."""
    axes, at = port["axes"].split(","), 0
    for text in port["order"].split(","):
        if text in axes:
            digit, base = index[axes.index(text)], port["shape"][axes.index(text)]
        else:
            name, size = text.replace("%", "/").rsplit("/", 1)
            whole, one = port["shape"][axes.index(name)], index[axes.index(name)]
            digit, base = divmod(one, int(size))[::-1] if "%" in text else divmod(one, int(size))
            base = int(size) if "%" in text else -(-whole // int(size))
        at = at * base + digit
    return at


def elements(word: int, port: dict[str, Any]) -> Iterable[int]:
    """The lanes of a row, lane 0 lowest."""
    bits = port["bits"]
    assert word >> port["lanes"] * bits == 0
    for lane in range(port["lanes"]):
        code = word >> lane * bits & (1 << bits) - 1
        yield code - (1 << bits) if port["signed"] and code >> bits - 1 else code


def load_guard(words: Iterable[int], bits: int) -> int:
    """s = rotl64(s, 1) ^ piece over the 64-bit pieces of every word, the least significant first."""
    mask, s = (1 << 64) - 1, 0
    for word in words:
        for piece in range(-(-bits // 64)):
            s = ((s << 1 | s >> 63) & mask) ^ (word >> 64 * piece & mask)
    return s
