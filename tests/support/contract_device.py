"""A device in plain Python, written from CONTRACT.md alone: it imports nothing of intnet.

    Device(pack, faults).run(folder)      reads in/ and rnd/, writes one file for each expected port

It gives every word of steps of a conv, batch norm and a ReLU, in integers. What it knows of a pack it reads
from the page: bits, lanes, exponents and shapes of ports, formats and modes, the graph, the update's
formulas. What it does by itself is what the page says in words: rules, quantizers, rounding, how words lie
in a file.

A fault takes the place of a port's rounding: (scaled, mode, word, low, high) -> code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from itertools import product
from math import isqrt, prod
from pathlib import Path
from typing import NamedTuple

from tests.support.contract_page import Page, Port, Row

Round = Callable[..., int]
Numbers = list[Fraction]


class T(NamedTuple):
    """Exact numbers in C order."""

    shape: tuple[int, ...]
    values: Numbers


class Roots(NamedTuple):
    """The square roots of exact numbers."""

    shape: tuple[int, ...]
    squares: Numbers


# -- rounding ----------------------------------------------------------------------------------


def rounded(scaled: Fraction, mode: str, word: int, low: int | None, high: int | None) -> int:
    """As the page's table of modes, then the limits."""
    whole = scaled.denominator
    floor, f = divmod(scaled.numerator, whole)  # f in parts of `whole`
    if mode == "stochastic":
        up = word < (f << 32) // whole
    else:
        assert mode == "ties_even"
        up = 2 * f > whole or (2 * f == whole and floor % 2 == 1)
    return limited(floor + up, low, high)


def limited(code: int, low: int | None, high: int | None) -> int:
    """Saturated."""
    return code if low is None or high is None else max(low, min(high, code))


def root(square: Fraction) -> int:
    """A square root to nearest: never a tie that is no whole number's."""
    floor = isqrt(square.numerator // square.denominator)
    half = Fraction(2 * floor + 1, 2) ** 2
    return floor + (square > half or (square == half and floor % 2 == 1))


def log2_r(values: Numbers) -> int:
    """n of R(x): 2^(2n-1) <= max^2 < 2^(2n+1)."""
    top = max(abs(v) for v in values) ** 2
    if not top:
        return 0
    n = (top.numerator.bit_length() - top.denominator.bit_length()) // 2 - 1
    while top >= Fraction(2) ** (2 * n + 1):
        n += 1
    return n


# -- the device --------------------------------------------------------------------------------


class Device:
    """One step of the layers of a pack."""

    def __init__(self, pack: Path, faults: Mapping[str, Round] | None = None) -> None:
        self.pack, self.faults = pack, faults or {}
        self.page = Page((pack / "CONTRACT.md").read_text())
        self.words: dict[str, list[int]] = {}  # of expected ports
        self.held: dict[str, T] = {}  # values by the name of their port
        self.output: dict[str, T] = {}
        self.handed: dict[str, T] = {}
        self.to_factors: dict[str, T] = {}
        self.read: dict[str, T] = {}

    def run(self, folder: Path) -> None:
        """All layers forward, back and one update; the files."""
        for layer in self.page.graph:
            self.forward(layer)
        for layer in reversed(self.page.graph):
            self.backward(layer)
        for layer in self.page.graph:
            self.update(layer)
        folder.mkdir()
        for name, codes in self.words.items():
            self.write(name, codes, folder)

    # -- words and files ---------------------------------------------------------------------

    def codes(self, name: str) -> list[int]:
        """An input's elements."""
        port, out = self.page.ports[name], []
        assert port.way in ("in", "rnd"), f"a device does not read {name}"
        for line in (self.pack / port.way / f"{name.replace('/', '.')}.hex").read_text().splitlines():
            word = int(line, 16)
            for lane in range(port.lanes):
                code = word >> lane * port.bits & (1 << port.bits) - 1
                minus = port.kind == "signed" and code >> port.bits - 1
                out.append(code - (1 << port.bits) if minus else code)
        return out

    def given(self, name: str) -> T:
        """An input's values."""
        port = self.page.ports[name]
        if port.kind == "binary32:":
            return T(port.shape, [binary32(code) for code in self.codes(name)])
        unit = Fraction(2) ** port.exponent
        return T(port.shape, [code * unit for code in self.codes(name)])

    def write(self, name: str, codes: list[int], folder: Path) -> None:
        """A word a line, lane 0 lowest."""
        port = self.page.ports[name]
        digits, lines = -(-port.bits * port.lanes // 4), []
        for at in range(0, len(codes), port.lanes):
            word = 0
            for lane, code in enumerate(codes[at : at + port.lanes]):
                word |= (code & (1 << port.bits) - 1) << lane * port.bits
            lines.append(f"{word:0{digits}x}\n")
        (folder / f"{name.replace('/', '.')}.hex").write_text("".join(lines))

    # -- storing -----------------------------------------------------------------------------

    def keep(self, name: str, value: T | Roots) -> T:
        """A value as its port stores it; one without a port goes on as it is."""
        name = self.page.twice.get(name, name)
        if name in self.held:
            return self.held[name]
        port = self.page.ports.get(name)
        if port is None:
            assert isinstance(value, T)
            return value
        if port.way == "in":
            return self.given(name)
        codes, exponent = self.stored(name, port, value)
        unit = Fraction(2) ** exponent
        self.held[name] = T(value.shape, [code * unit for code in codes])
        return self.held[name]

    def stored(self, name: str, port: Port, value: T | Roots) -> tuple[list[int], int]:
        """(codes, their exponent) of an expected port; its words are kept."""
        row, judged = self.page.rows.get(name), port.way == "exp"
        fault = self.faults.get(name, rounded)
        if isinstance(value, Roots):
            unit = Fraction(4) ** port.exponent
            codes = [root(v / unit) for v in value.squares]
            if name in self.faults:
                scaled = [Fraction(isqrt(int(v / unit * 4**40)), 2**40) for v in value.squares]
                codes = [fault(v, "ties_even", 0, None, None) for v in scaled]
            self.note(name, judged, codes)
            return codes, port.exponent
        if row is not None and row.format.startswith("Flag"):
            return self.flagged(name, row, value)
        words, mode, low, high = [0] * len(value.values), "ties_even", None, None
        if row is not None and row.mode != "exact":
            mode = row.mode
            if ".." in row.limits:
                low, high = (int(n) for n in re.findall(r"-?\d+", row.limits)[:2])
            if row.words != "-":
                words = self.codes(row.words.split("`")[1])
        grid, exponent = self.grid(row, port, value)
        scale = Fraction(2) ** -grid
        codes = [fault(v * scale, mode, word, low, high) for v, word in zip(value.values, words, strict=True)]
        self.note(name, judged, codes)
        return codes, exponent

    def note(self, name: str, judged: bool, codes: list[int]) -> None:
        """Words of an expected port."""
        if judged:
            self.words[name] = codes

    def grid(self, row: Row | None, port: Port, value: T) -> tuple[int, int]:
        """(log2 of the step, exponent of a code) by the rule of the format."""
        name = "" if row is None else row.format
        if name.startswith("SQ"):
            n = log2_r(value.values) - int(re.findall(r"\d+", name)[-1]) + 1
            return n, n
        if name.startswith("CQ"):
            reach = int(re.findall(r"\d+", name)[0]) if re.findall(r"\d+", name) else 128
            return log2_r(value.values) - reach.bit_length() + 1, port.exponent
        return port.exponent, port.exponent

    def flagged(self, name: str, row: Row, value: T) -> tuple[list[int], int]:
        """Flag-Q(k+1): two grids."""
        k = self.page.ports[name].bits - 1
        fine = k - 1
        step = log2_r(value.values) - 2 * fine
        fault, limit = self.faults.get(name, rounded), (1 << fine) - 1
        scale, codes, words = Fraction(2) ** -step, [], []
        for v in value.values:
            scaled = v * scale
            if abs(scaled) >= 1 << fine:
                size = fault(scaled / (1 << fine), row.mode, 0, -limit, limit)
                flag = 1
            else:
                size, flag = fault(scaled, row.mode, 0, None, None), 0
                if abs(size) == 1 << fine:
                    size, flag = (1 if size > 0 else -1), 1
            codes.append(size << fine if flag else size)
            sign = size < 0
            words.append(flag << k | sign << k - 1 | abs(size) & limit)
        self.note(name, True, words)
        return codes, step

    # -- the graph ---------------------------------------------------------------------------

    def source(self, cell: str) -> T:
        """'the output of `a` + what is handed on by `b`', or a formula of inputs."""
        kinds = {
            "the output of": self.output, "what is handed on by": self.handed, "what is read by": self.read,
            "what is handed to the factors by": self.to_factors,
        }  # fmt: skip
        found = []
        for words, held in kinds.items():
            found += [held[layer] for layer in re.findall(rf"{words} `([^`]+)`", cell)]
        if not found:
            return self.formula(cell)
        total = found[0]
        for other in found[1:]:
            total = T(total.shape, [a + b for a, b in zip(total.values, other.values, strict=True)])
        return total

    def formula(self, text: str) -> T:
        """A formula of ports' codes: '(3 * `Accq.old` + `gWq`) * 2^-14'."""
        names = list(dict.fromkeys(re.findall(r"`([^`]+)`", text)))
        if text == f"`{names[0]}`":
            return self.value(names[0])
        columns = []
        for name in names:
            unit = Fraction(2) ** self.page.ports[name].exponent
            columns.append([v / unit for v in self.value(name).values])
            text = text.replace(f"`{name}`", f"c[{len(columns) - 1}][i % n[{len(columns) - 1}]]")
        powers = [Fraction(2) ** int(exponent) for exponent in re.findall(r"2\^(-?\d+)", text)]
        places = iter(range(len(powers)))
        text = re.sub(r"2\^-?\d+", lambda _: f"p[{next(places)}]", text)
        shape = max((self.value(name).shape for name in names), key=prod)
        scope = {"c": columns, "n": [len(c) for c in columns], "p": powers, "max": max, "all": prod(shape)}
        return T(shape, eval(f"[{text} for i in range(all)]", scope))

    def value(self, name: str) -> T:
        """A port that was stored, or an input."""
        name = self.page.twice.get(name, name)
        return self.held[name] if name in self.held else self.given(name)

    def window(self, layer: str) -> dict[str, int]:
        """'conv, groups 1, top 1, ...'"""
        return {name: int(n) for name, n in re.findall(r"(\w+) (\d+)", self.page.graph[layer][0])}

    def kind(self, layer: str) -> str:
        return self.page.graph[layer][0].split(",")[0]

    # -- forward -----------------------------------------------------------------------------

    def forward(self, layer: str) -> None:
        """The output of a layer."""
        self.read[layer] = x = self.source(self.page.graph[layer][1].split("; its factors s: ")[0])
        self.output[layer] = getattr(self, self.kind(layer))(layer, x)

    def conv(self, layer: str, x: T) -> T:
        x0 = self.keep(f"{layer}/x0", x)
        w = self.keep(f"{layer}/Wq", self.given(f"{layer}/W.old"))
        self.held[f"{layer}/x0"], self.held[f"{layer}/Wq"] = x0, w
        return self.keep(f"{layer}/x1", conv_forward(x0, w, self.window(layer)))

    def norm(self, layer: str, x: T) -> T:
        x1, c = self.keep(f"{layer}/x1", x), x.shape[-1]
        columns = [x1.values[k::c] for k in range(c)]
        means = [Fraction(sum(column)) / len(column) for column in columns]
        spread = [
            Fraction(sum((v - mean) ** 2 for v in column)) / len(column)
            for column, mean in zip(columns, means, strict=True)
        ]
        mu = self.keep(f"{layer}/mu", T((c,), means)).values
        sigma = self.keep(f"{layer}/sigma", Roots((c,), spread)).values
        eps = Fraction(1, 2**15)
        x2 = [(v - mu[i % c]) / (sigma[i % c] + eps) for i, v in enumerate(x1.values)]
        normed = self.keep(f"{layer}/x2", T(x1.shape, x2))
        gamma, beta = (self.copy(layer, name).values for name in ("gamma", "beta"))
        x3 = [gamma[i % c] * v + beta[i % c] for i, v in enumerate(normed.values)]
        for name, old, new in (("running_mean", 0, mu), ("running_var", 1, [s * s for s in sigma])):
            port = f"{layer}/{name}.old"
            before = self.given(port).values if port in self.page.ports else [Fraction(old)] * c
            self.keep(f"{layer}/{name}", T((c,), [r + (v - r) / 8 for r, v in zip(before, new, strict=True)]))
        return self.keep(f"{layer}/x3", T(x1.shape, x3))

    def copy(self, layer: str, name: str) -> T:
        """gammaq and betaq."""
        made = self.keep(f"{layer}/{name}q", self.given(f"{layer}/{name}.old"))
        self.held[f"{layer}/{name}q"] = made
        return made

    def relu(self, layer: str, x: T) -> T:
        return self.keep(f"{layer}/x4", T(x.shape, [max(v, Fraction(0)) for v in x.values]))

    # -- back --------------------------------------------------------------------------------

    def backward(self, layer: str) -> None:
        """What a layer hands on."""
        if self.page.graph[layer][2] != "none":
            e = self.source(self.page.graph[layer][2])
            self.handed[layer] = getattr(self, f"{self.kind(layer)}_back")(layer, e)

    def relu_back(self, layer: str, e: T) -> T:
        e0 = self.keep(f"{layer}/e0", e)
        pairs = zip(e0.values, self.read[layer].values, strict=True)
        return self.keep(f"{layer}/e1", T(e0.shape, [v if x > 0 else Fraction(0) for v, x in pairs]))

    def norm_back(self, layer: str, e: T) -> T:
        e1 = self.keep(f"{layer}/e1", e)
        c, x2 = e1.shape[-1], self.held[f"{layer}/x2"]
        sigma, gamma = self.held[f"{layer}/sigma"].values, self.held[f"{layer}/gammaq"].values
        self.keep(f"{layer}/gbeta", T((c,), [Fraction(sum(e1.values[k::c])) for k in range(c)]))
        products = [a * b for a, b in zip(e1.values, x2.values, strict=True)]
        self.keep(f"{layer}/ggamma", T((c,), [Fraction(sum(products[k::c])) for k in range(c)]))
        e2 = self.keep(f"{layer}/e2", T(e1.shape, [v * gamma[i % c] for i, v in enumerate(e1.values)]))
        n = len(e2.values) // c
        products = [a * b for a, b in zip(e2.values, x2.values, strict=True)]
        m1 = self.keep(f"{layer}/m1", T((c,), [Fraction(sum(e2.values[k::c])) / n for k in range(c)])).values
        m2 = self.keep(f"{layer}/m2", T((c,), [Fraction(sum(products[k::c])) / n for k in range(c)])).values
        eps = Fraction(1, 2**15)
        pairs = enumerate(zip(e2.values, x2.values, strict=True))
        handed = [(a - m1[i % c] - b * m2[i % c]) / (sigma[i % c] + eps) for i, (a, b) in pairs]
        return T(e1.shape, handed)

    def conv_back(self, layer: str, e: T) -> T:
        e3, window = self.keep(f"{layer}/e3", e), self.window(layer)
        x0, w = self.held[f"{layer}/x0"], self.held[f"{layer}/Wq"]
        self.keep(f"{layer}/gW", conv_weight(x0, e3, w.shape, window))
        return self.keep(f"{layer}/e4", conv_input(e3, w, x0.shape, window))

    # -- update ------------------------------------------------------------------------------

    def update(self, layer: str) -> None:
        """Each port by the formula of its row."""
        for p, slot in (("W", ""), ("b", "_b"), ("gamma", "_gamma"), ("beta", "_beta")):
            for name in (f"g{p}q", f"Acc{slot}", f"Accq{slot}", p):
                port = f"{layer}/{name}"
                if port in self.page.rows:
                    self.keep(port, self.formula(self.page.rows[port].source))


def binary32(bits: int) -> Fraction:
    """The value of a finite pattern."""
    exponent, fraction = bits >> 23 & 0xFF, bits & 0x7FFFFF
    size = (
        (fraction | 1 << 23) * Fraction(2) ** (exponent - 150) if exponent else fraction * Fraction(2) ** -149
    )
    return -size if bits >> 31 else size


# -- convolutions, by the page's indices ---------------------------------------------------------


def whole(t: T) -> tuple[list[int], Fraction]:
    """(whole numbers, what one of them is worth)."""
    unit = Fraction(1, max(v.denominator for v in t.values))
    return [int(v / unit) for v in t.values], unit


def taps(
    x: tuple[int, ...], w: tuple[int, ...], out: tuple[int, ...], at: dict[str, int]
) -> Iterator[tuple[int, int, int]]:
    """(flat input, flat weight, flat output) of every product that reads inside the image."""
    _, height, width, channels = x
    features, cg, kh, kw = w
    og = features // at["groups"]
    for n, y, column, o in product(*map(range, out)):
        group = o // og
        for i, j in product(range(kh), range(kw)):
            row, col = y * at["sh"] + i - at["top"], column * at["sw"] + j - at["left"]
            if not (0 <= row < height and 0 <= col < width):
                continue
            first = ((n * height + row) * width + col) * channels + group * cg
            here = ((n * out[1] + y) * out[2] + column) * features + o
            for c in range(cg):
                yield first + c, ((o * cg + c) * kh + i) * kw + j, here


def size_out(x: tuple[int, ...], w: tuple[int, ...], at: dict[str, int]) -> tuple[int, ...]:
    """(N, OH, OW, Cout)."""
    rows = (x[1] + at["top"] + at["bottom"] - w[2]) // at["sh"] + 1
    columns = (x[2] + at["left"] + at["right"] - w[3]) // at["sw"] + 1
    return x[0], rows, columns, w[0]


def conv_forward(x0: T, w: T, at: dict[str, int]) -> T:
    """x1."""
    shape = size_out(x0.shape, w.shape, at)
    (a, unit), (b, step), out = whole(x0), whole(w), [0] * prod(shape)
    for i, j, k in taps(x0.shape, w.shape, shape, at):
        out[k] += a[i] * b[j]
    return T(shape, [v * unit * step for v in out])


def conv_input(e3: T, w: T, shape: tuple[int, ...], at: dict[str, int]) -> T:
    """e4: every product of x1, the other way."""
    (e, unit), (b, step), out = whole(e3), whole(w), [0] * prod(shape)
    for i, j, k in taps(shape, w.shape, e3.shape, at):
        out[i] += e[k] * b[j]
    return T(shape, [v * unit * step for v in out])


def conv_weight(x0: T, e3: T, shape: tuple[int, ...], at: dict[str, int]) -> T:
    """gW."""
    (a, unit), (e, step), out = whole(x0), whole(e3), [0] * prod(shape)
    for i, j, k in taps(x0.shape, shape, e3.shape, at):
        out[j] += a[i] * e[k]
    return T(shape, [v * unit * step for v in out])
