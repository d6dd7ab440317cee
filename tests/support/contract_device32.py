"""The device of `contract_device` for float32 packs: also from CONTRACT.md alone, also in plain Python.

A binary32 is a Python float that is one. One operation of two of them, done in binary64 and rounded again, is
rounded right; a fused multiply-add is not, so its binary64 sum is rounded to odd first.

    Device32(pack, fused=False).run(folder)     a device that rounds each product ahead of its addition
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from tests.support.contract_device import size_out
from tests.support.contract_page import Page

CHUNK, GROUP = 1024, 16
Fault = Callable[[list[float]], list[float]]


class F(NamedTuple):
    """binary32 in C order."""

    shape: tuple[int, ...]
    values: list[float]


def single(x: float) -> float:
    """To nearest, ties to even."""
    return float(struct.unpack("<f", struct.pack("<f", x))[0])


def pattern(x: float) -> int:
    """32 bits."""
    return int(struct.unpack("<I", struct.pack("<f", x))[0])


def number(bits: int) -> float:
    """Their value."""
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def fma(a: float, b: float, c: float) -> float:
    """a * b + c, rounded once: the product is exact in binary64, its sum is rounded to odd there."""
    p = a * b
    s = p + c
    back = s - p
    lost = (p - (s - back)) + (c - back)
    if lost:
        odd = struct.unpack("<Q", struct.pack("<d", s))[0] & 1
        if not odd:
            s = math.nextafter(s, math.inf if lost > 0 else -math.inf)
    return single(s)


class Sums:
    """The page's order of sums."""

    def __init__(self, fused: bool = True, backwards: bool = False) -> None:
        self.fused, self.backwards = fused, backwards

    def chain(self, pairs: Sequence[tuple[float, float]]) -> float:
        """fma in chunks of 1024; the chunks' sums in order."""
        total = 0.0
        terms = list(pairs)[::-1] if self.backwards else pairs
        for at in range(0, len(terms), CHUNK):
            acc = 0.0
            for a, b in terms[at : at + CHUNK]:
                acc = fma(a, b, acc) if self.fused else single(acc + single(a * b))
            total = single(total + acc)
        return total

    def batch(self, images: Sequence[Sequence[tuple[float, float]]]) -> float:
        """Groups of 16 images, each a chain; the groups in a tree."""
        groups = [
            self.chain([pair for image in images[k : k + GROUP] for pair in image])
            for k in range(0, len(images), GROUP)
        ]
        while len(groups) > 1:
            pairs = [groups[i : i + 2] for i in range(0, len(groups), 2)]
            groups = [single(p[0] + p[1]) if len(p) == 2 else p[0] for p in pairs]
        return groups[0]


class Device32:
    """One step of conv, norm and relu layers in binary32."""

    def __init__(
        self, pack: Path, products: Sums | None = None, faults: dict[str, Fault] | None = None
    ) -> None:
        self.pack, self.products, self.sums = pack, products or Sums(), Sums()
        self.text = (pack / "CONTRACT.md").read_text()
        self.page, self.faults = Page(self.text), faults or {}
        self.words: dict[str, list[int]] = {}
        self.held: dict[str, F] = {}
        self.x: dict[str, F] = {}
        self.y: dict[str, F] = {}
        self.handed: dict[str, F] = {}
        self.on_the_way_forward = {"conv": self.conv, "norm": self.norm, "relu": self.relu}
        self.on_the_way_back = {"conv": self.conv_back, "norm": self.norm_back, "relu": self.relu_back}

    def run(self, folder: Path) -> None:
        """Forward, back, update; the files."""
        layers = list(self.page.graph)
        for layer in layers:
            self.x[layer] = x = self.source(self.page.graph[layer][1])
            self.y[layer] = self.on_the_way_forward[self.kind(layer)](layer, x)
        for layer in reversed(layers):
            e = self.source(self.page.graph[layer][2])
            self.handed[layer] = self.on_the_way_back[self.kind(layer)](layer, e)
        for layer in layers:
            self.update(layer)
        folder.mkdir()
        for name, codes in self.words.items():
            port = self.page.ports[name]
            lines = []
            for at in range(0, len(codes), port.lanes):
                row = codes[at : at + port.lanes]
                word = sum(code << lane * port.bits for lane, code in enumerate(row))
                lines.append(f"{word:0{-(-port.bits * port.lanes // 4)}x}\n")
            (folder / f"{name.replace('/', '.')}.hex").write_text("".join(lines))

    def kind(self, layer: str) -> str:
        return self.page.graph[layer][0].split(",")[0]

    def given(self, name: str) -> F:
        """An input."""
        port, out = self.page.ports[name], []
        assert port.way == "in", f"a device does not read {name}"
        for line in (self.pack / "in" / f"{name.replace('/', '.')}.hex").read_text().splitlines():
            word = int(line, 16)
            out += [number(word >> 32 * lane & 0xFFFFFFFF) for lane in range(port.lanes)]
        return F(port.shape, out)

    def keep(self, name: str, value: F) -> F:
        """A value under its port's name."""
        own, name = name, self.page.twice.get(name, name)
        port = self.page.ports.get(name)
        if port is not None and port.way == "exp" and name not in self.words:
            value = F(value.shape, self.faults.get(name, list)(value.values))
            self.words[name] = [pattern(v) for v in value.values]
        self.held[name] = self.held[own] = value
        return value

    def source(self, cell: str) -> F:
        """Another layer's output or error, two of them added, or an input."""
        kinds = {"the output of": self.y, "what is handed on by": self.handed, "what is read by": self.x}
        found = []
        for words, held in kinds.items():
            found += [held[layer] for layer in re.findall(rf"{words} `([^`]+)`", cell)]
        if not found:
            return self.given(cell.strip("`"))
        total = found[0]
        for other in found[1:]:
            total = F(total.shape, [single(a + b) for a, b in zip(total.values, other.values, strict=True)])
        return total

    def window(self, layer: str) -> dict[str, int]:
        return {name: int(n) for name, n in re.findall(r"(\w+) (\d+)", self.page.graph[layer][0])}

    # -- conv --------------------------------------------------------------------------------

    def conv(self, layer: str, x: F) -> F:
        x0, w = self.keep(f"{layer}/x0", x), self.given(f"{layer}/W.old")
        return self.keep(f"{layer}/x1", self.forward(x0, w, self.window(layer)))

    def forward(self, x0: F, w: F, at: dict[str, int]) -> F:
        """x1."""
        shape = size_out(x0.shape, w.shape, at)
        out = []
        for n, y, column, o in product(*map(range, shape)):
            terms = []
            for i, j, c in product(*map(range, (w.shape[2], w.shape[3], w.shape[1]))):
                row, col = y * at["sh"] + i - at["top"], column * at["sw"] + j - at["left"]
                terms.append((self.pixel(x0, n, row, col, c), self.tap(w, o, c, i, j)))
            out.append(self.products.chain(terms))
        return F(shape, out)

    @staticmethod
    def pixel(x: F, n: int, row: int, col: int, c: int) -> float:
        """0 outside."""
        _, height, width, channels = x.shape
        if not (0 <= row < height and 0 <= col < width):
            return 0.0
        return x.values[((n * height + row) * width + col) * channels + c]

    @staticmethod
    def tap(w: F, o: int, c: int, i: int, j: int) -> float:
        _, cg, kh, kw = w.shape
        return w.values[((o * cg + c) * kh + i) * kw + j]

    def conv_back(self, layer: str, e: F) -> F:
        e3, at = self.keep(f"{layer}/e3", e), self.window(layer)
        x0, w = self.held[f"{layer}/x0"], self.given(f"{layer}/W.old")
        self.keep(f"{layer}/gW", self.gradient(e3, x0, w.shape, at))
        return self.keep(f"{layer}/e4", self.input_error(e3, w, x0.shape, at))

    def input_error(self, e3: F, w: F, shape: tuple[int, ...], at: dict[str, int]) -> F:
        """e4."""
        out = []
        for n, y, column, c in product(*map(range, shape)):
            terms = []
            for i, j, o in product(*map(range, (w.shape[2], w.shape[3], w.shape[0]))):
                (row, odd), (col, off) = (
                    divmod(y + at["top"] - i, at["sh"]), divmod(column + at["left"] - j, at["sw"])
                )  # fmt: skip
                error = 0.0 if odd or off else self.pixel(e3, n, row, col, o)
                terms.append((error, self.tap(w, o, c, i, j)))
            out.append(self.products.chain(terms))
        return F(shape, out)

    def gradient(self, e3: F, x0: F, shape: tuple[int, ...], at: dict[str, int]) -> F:
        """gW."""
        grads = []
        for o, c, i, j in product(*map(range, shape)):
            images = []
            for n in range(x0.shape[0]):
                places = product(range(e3.shape[1]), range(e3.shape[2]))
                images.append([
                    (
                        self.pixel(x0, n, y * at["sh"] + i - at["top"], x * at["sw"] + j - at["left"], c),
                        self.pixel(e3, n, y, x, o),
                    )
                    for y, x in places
                ])  # fmt: skip
            grads.append(self.products.batch(images))
        return F(shape, grads)

    # -- norm and relu -----------------------------------------------------------------------

    def images(
        self, x: F, c: int, of: Callable[[float, int], tuple[float, float]]
    ) -> list[list[tuple[float, float]]]:
        """The terms of channel c, image by image; of: an element and its place."""
        channels, size = x.shape[-1], len(x.values) // x.shape[0]
        return [
            [of(x.values[k], k) for k in range(n * size + c, (n + 1) * size, channels)]
            for n in range(x.shape[0])
        ]

    def norm(self, layer: str, x: F) -> F:
        x1, c = self.keep(f"{layer}/x1", x), x.shape[-1]
        n = float(len(x.values) // c)
        mu = [single(self.sums.batch(self.images(x1, k, lambda v, _: (v, 1.0))) / n) for k in range(c)]
        mu = self.keep(f"{layer}/mu", F((c,), mu)).values
        var = []
        for k in range(c):
            centred = F(x1.shape, [single(v - mu[k]) for v in x1.values])
            var.append(single(self.sums.batch(self.images(centred, k, lambda v, _: (v, v))) / n))
        var = self.keep(f"{layer}/var", F((c,), var)).values
        eps = number(int(re.findall(r"eps = (0x[0-9a-f]{8})", self.text)[0], 16))
        r = [single(1.0 / single(math.sqrt(single(v + eps)))) for v in var]
        x2 = [single(single(v - mu[i % c]) * r[i % c]) for i, v in enumerate(x1.values)]
        gamma, beta = (self.given(f"{layer}/{name}.old").values for name in ("gamma", "beta"))
        self.held[f"{layer}/x2"], self.held[f"{layer}/r"] = F(x1.shape, x2), F((c,), r)
        for name, new in (("running_mean", mu), ("running_var", var)):
            old = self.given(f"{layer}/{name}.old").values
            moved = [single(a + single(single(v - a) * 0.125)) for a, v in zip(old, new, strict=True)]
            self.keep(f"{layer}/{name}", F((c,), moved))
        x3 = [single(single(v * gamma[i % c]) + beta[i % c]) for i, v in enumerate(x2)]
        return self.keep(f"{layer}/x3", F(x1.shape, x3))

    def norm_back(self, layer: str, e: F) -> F:
        e1, c = self.keep(f"{layer}/e1", e), e.shape[-1]
        x2, r = self.held[f"{layer}/x2"].values, self.held[f"{layer}/r"].values
        gamma, n = self.given(f"{layer}/gamma.old").values, float(len(e.values) // c)
        gbeta = [self.sums.batch(self.images(e1, k, lambda v, _: (v, 1.0))) for k in range(c)]
        ggamma = [self.sums.batch(self.images(e1, k, lambda v, at: (v, x2[at]))) for k in range(c)]
        gbeta = self.keep(f"{layer}/gbeta", F((c,), gbeta)).values
        ggamma = self.keep(f"{layer}/ggamma", F((c,), ggamma)).values
        m1, m2 = [single(v / n) for v in gbeta], [single(v / n) for v in ggamma]
        slope = [single(g * s) for g, s in zip(gamma, r, strict=True)]
        out = []
        for i, (v, w) in enumerate(zip(e1.values, x2, strict=True)):
            k = i % c
            out.append(single(single(single(v - m1[k]) - single(w * m2[k])) * slope[k]))
        return F(e.shape, out)

    def relu(self, layer: str, x: F) -> F:
        return self.keep(f"{layer}/x4", F(x.shape, [v if v > 0 else 0.0 for v in x.values]))

    def relu_back(self, layer: str, e: F) -> F:
        e0 = self.keep(f"{layer}/e0", e)
        pairs = zip(e0.values, self.held[f"{layer}/x4"].values, strict=True)
        return self.keep(f"{layer}/e1", F(e.shape, [v * (1.0 if x > 0 else 0.0) for v, x in pairs]))

    # -- update ------------------------------------------------------------------------------

    def update(self, layer: str) -> None:
        """Acc = fma(momentum, Acc, g), p = fma(-lr, Acc, p), of the numbers on the page."""
        if self.kind(layer) == "relu":
            return
        lines = self.text.split(f"### {layer}\n")[1].split("###")[0]
        momentum, lr = (number(int(n, 16)) for n in re.findall(r"fma\(-?(0x[0-9a-f]{8})", lines))
        for p, slot in (("W", "Acc"), ("gamma", "Acc_gamma"), ("beta", "Acc_beta")):
            if f"{layer}/{p}.old" not in self.page.ports:
                continue
            old, before = self.given(f"{layer}/{slot}.old").values, self.given(f"{layer}/{p}.old")
            g = self.held[f"{layer}/g{p}"].values
            acc = [fma(momentum, a, v) for a, v in zip(old, g, strict=True)]
            acc = self.keep(f"{layer}/Acc{p}", F(before.shape, acc)).values
            moved = [fma(-lr, a, v) for a, v in zip(acc, before.values, strict=True)]
            new = f"{layer}/{p}.new"
            self.keep(new if new in self.page.ports else f"{layer}/{p}", F(before.shape, moved))
