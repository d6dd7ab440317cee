"""A pack as plain Python integers and Fractions: PACK.json and the hex files, read as CONTRACT.md says.

    plain = Plain(pack)
    plain.codes("fc2/x0")        integers of the elements in C order
    plain.value("fc2/x0")        codes and exponent, float32 or exact numbers, as the definition has them
    plain.source(json)           what PACK.json says entered a rounding: exact values

Nothing of the fast code's arithmetic is used: no NumPy, no kernel. The files were found whole before
(`pack.read`). PackError where PACK.json says what cannot be.
"""

import struct
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from math import prod

from intnet.errors import PackError
from intnet.packs.by_spec import mx
from intnet.packs.pack import Pack
from intnet.packs.ports import OF_LAYERS, Json
from intnet.spec.block_float import block_of
from intnet.spec.formats import flag_decode, flag_encode
from intnet.spec.mx_blocks import Along
from intnet.spec.tensor import Fixed, Tensor, places, power
from intnet.spec.values import Quotient, Value, exact
from intnet.spec.wires import cut

KINDS = {32: ("<I", "<f"), 64: ("<q", "<d")}  # bits of a float -> its pattern, it


class Plain:
    """The ports of a pack; `ports` are PACK.json's entries by name."""

    def __init__(self, pack: Pack) -> None:
        self.pack, self.manifest, self.ports = pack, pack.manifest, pack.entries
        self._codes: dict[str, list[int]] = {}

    def port(self, name: str) -> Json:
        """An entry; PackError where there is none."""
        if name not in self.ports:
            raise PackError(f"{self.pack.folder}: PACK.json speaks of a port {name!r}, which there is not")
        return self.ports[name]

    def codes(self, name: str) -> list[int]:
        """Elements in C order: codes, stored words of the flag format, or bit patterns of floats."""
        if name not in self._codes:
            port = self.port(name)
            text = (self.pack.folder / port["file"]).read_text("ascii")
            cells = [code for row in rows([int(line, 16) for line in text.splitlines()], port)
                     for code in elements(row, port)]  # fmt: skip
            self._codes[name] = in_c_order(cells, port)
        return self._codes[name]

    def words(self, name: str) -> list[int]:
        """The same where zero has no sign, as in the definition of layers: -0 of a float is 0."""
        codes, layers = self.codes(name), self.manifest["generator"]["kind"] in OF_LAYERS
        port = self.port(name)
        if not layers or port["encoding"] not in ("float32", "minifloat"):
            return codes
        minus_zero = 1 << port["bits"] - 1
        return [0 if code == minus_zero else code for code in codes]

    def shape(self, name: str) -> tuple[int, ...]:
        """Of the elements."""
        return tuple(self.port(name)["shape"])

    def value(self, name: str) -> Value:
        """What a port stands for; codes of block float as exact numbers."""
        port, codes = self.port(name), self.codes(name)
        if port["encoding"] in ("float32", "float64"):
            return Tensor(self.shape(name), [floating(pattern, port["bits"]) for pattern in codes])
        if "mx" in port["rounding"]:
            form, scales = mx.form_of(port["rounding"]), self.codes(port["exponent"])
            return Tensor(self.shape(name), mx.values(codes, scales, self.shape(name), form))
        if port["encoding"] == "flag":
            codes = [flag_code(word, port["bits"] - 1) for word in codes]
        if isinstance(port["exponent"], str):
            units = self._units(port)
            return Quotient(self.shape(name), [code * power(e) for code, e in zip(codes, units, strict=True)])
        return Fixed(self.shape(name), codes, port["exponent"] or 0)

    def _units(self, port: Json) -> list[int]:
        """log2 of the value of code 1 of every element: of its block, or given one by one."""
        exponents, kind = self.codes(port["exponent"]), (port["format"] or {}).get("kind")
        if kind != "BlockFloat":
            return self.spread(port["exponent"], prod(port["shape"]))
        given, axes = port["rounding"]["bits"], (0, port["format"]["fields"]["axis"])
        bits = self.codes(given) if isinstance(given, str) else [given] * len(exponents)
        blocks = places(self.shape(port["exponent"]))
        unit = {at: e - max(b, 1) + 1 for at, e, b in zip(blocks, exponents, bits, strict=True)}
        return [unit[block_of(place, axes)] for place in places(port["shape"])]

    def scales(self, name: str, given: Tensor, form: Along) -> list[int]:
        """The scales on which the elements of a path in MX blocks are rounded: the definition's."""
        return mx.scales(given.values, given.shape, form)

    def spread(self, name: str, count: int) -> list[int]:
        """The codes of a port of one number a channel, or one an element, as `count` of them."""
        codes = self.codes(name)
        if not codes or count % len(codes):
            raise PackError(f"{self.pack.folder}: {name} has {len(codes)} numbers for {count} elements")
        return codes * (count // len(codes))

    # -- what entered a rounding ---------------------------------------------------------------

    def entered(self, json_: Json) -> Value:
        """A value as `replay` has it: codes where nothing is divided, else float32 or exact numbers."""
        if "terms" not in json_:
            value = self.value(json_["tensor"])
            den = json_.get("denominator", 1)
            return value if den == 1 else Quotient(value.shape, [v / den for v in exact(value)])
        numerators, dens = self._numerators(json_)
        shape = self.shape(json_["terms"][0]["port"])
        if set(dens) == {1}:
            return Fixed(shape, numerators, json_["exponent"])
        unit = power(json_["exponent"])
        return Quotient(shape, [Fraction(n, den) * unit for n, den in zip(numerators, dens, strict=True)])

    def source(self, json_: Json) -> list[Fraction]:
        """The exact values, in C order."""
        return exact(self.entered(json_))

    def denominators(self, json_: Json) -> list[int]:
        """What each element of a sum is divided by."""
        return self._numerators(json_)[1]

    def _numerators(self, json_: Json) -> tuple[list[int], list[int]]:
        count = prod(self.shape(json_["terms"][0]["port"]))
        total = list(self._part(json_["offset"], count))
        for term in json_["terms"]:
            value = self.value(term["port"])
            if not isinstance(value, Fixed):
                raise PackError(f"{self.pack.folder}: {term['port']} is a term of a sum, but holds no codes")
            factors, shift = self._part(term["factor"], count), term["shift"]
            pairs = zip(total, value.codes, factors, strict=True)
            total = [t + (code * factor << shift) for t, code, factor in pairs]
        dens = list(self._part(json_["denominator"], count))
        if min(dens, default=1) < 1:
            raise PackError(f"{self.pack.folder}: {json_!r}: a denominator is positive")
        return [max(n, 0) if json_["relu"] else n for n in total], dens

    def _part(self, part: int | str, count: int) -> Sequence[int]:
        return [part] * count if isinstance(part, int) else self.spread(part, count)


def rows(words: Sequence[int], port: Json) -> Iterator[int]:
    """Words put together to rows of lanes, the lowest first; mostly a row is a word."""
    size, width = port["word_bits"], port["lanes"] * port["bits"]
    each = -(-width // size)
    for at in range(0, len(words), each):
        yield sum(word << size * k for k, word in enumerate(words[at : at + each]))


def in_c_order(cells: Sequence[int], port: Json) -> list[int]:
    """The elements of a file's cells; after the last one, and in blocks that are not full, are none."""
    if "order" not in port:
        return list(cells[: prod(port["shape"])])
    sizes = dict(zip(port["axes"].split(","), port["shape"], strict=True))
    found: dict[tuple[int, ...], int] = {}
    for cell, place in zip(cells, product(*_walk(port["order"].split(","), sizes)), strict=False):
        index = dict.fromkeys(sizes, 0)
        for axis, step in place:
            index[axis] += step
        if all(index[axis] < size for axis, size in sizes.items()):
            found[tuple(index.values())] = cell
    return [found[place] for place in places(port["shape"])]


def _walk(order: Sequence[str], sizes: dict[str, int]) -> Iterator[list[tuple[str, int]]]:
    """Of each dimension of a file: its axis and what each step adds to the index."""
    for text in order:
        if text in sizes:
            yield [(text, i) for i in range(sizes[text])]
        elif "%" in text:
            axis, _, block = text.rpartition("%")
            yield [(axis, i) for i in range(int(block))]
        else:
            axis, _, block = text.rpartition("/")
            yield [(axis, i) for i in range(0, sizes[axis], int(block))]


def elements(word: int, port: Json) -> Iterator[int]:
    """The lanes of a row, lane 0 lowest; two's complement where the port is signed."""
    bits = port["bits"]
    for lane in range(port["lanes"]):
        yield cut(word >> lane * bits, bits, port["signed"])


def flag_code(word: int, k: int) -> int:
    """The code of a stored word: flag, sign, k - 1 bits of magnitude."""
    return flag_decode((word >> k, word >> k - 1 & 1, word & (1 << k - 1) - 1), k)


def flag_word(code: int, k: int) -> int:
    """Its inverse."""
    flag, sign, size = flag_encode(code, k)
    return flag << k | sign << k - 1 | size


def floating(pattern: int, bits: int) -> Fraction:
    """The value of 32 bits, or of 64 as a signed integer; ValueError for NaN and infinity."""
    code, number = KINDS[bits]
    return Fraction(struct.unpack(number, struct.pack(code, pattern))[0])


def pattern_of(value: float | Fraction, bits: int) -> int:
    """Its inverse; of zero +0."""
    code, number = KINDS[bits]
    found: int = struct.unpack(code, struct.pack(number, float(value)))[0]
    return found
