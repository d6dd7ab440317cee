"""A device of MX formats, from CONTRACT.md alone, in plain Python: copies in blocks ahead of every product.

    DeviceMX(pack).run(folder)                            what a pack's exp/ holds
    DeviceMX(pack, {"fc2/x0": {"rule": "ceil"}})          with another scale rule, mode or flush there

All else is `contract_device32`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from math import floor, prod
from pathlib import Path
from typing import Any

from tests.support.contract_device32 import Device32, F, Sums
from tests.support.contract_page import Blocks

SIZE = 32
STILL = {"top": 0, "bottom": 0, "left": 0, "right": 0, "sh": 1, "sw": 1}  # a linear layer's window
Fault = dict[str, Any]


def two(n: int) -> Fraction:
    """2^n."""
    return Fraction(2) ** n


def lead(x: Fraction) -> int:
    """floor(log2 x)."""
    n = 0
    while two(n) > x:
        n -= 1
    while two(n + 1) <= x:
        n += 1
    return n


def rounded(x: Fraction, mode: str, word: int) -> int:
    """By the page's table of modes."""
    low, f = floor(x), x - floor(x)
    half = Fraction(1, 2)
    up = {
        "ties_even": f > half or (f == half and low % 2 == 1),
        "ties_away": f > half or (f == half and low >= 0),
        "to_zero": f > 0 and low < 0,
        "to_neg": False,
        "stochastic": word < floor(f * 2**32),
    }[mode]
    return low + up


def scale(t: Fraction, form: Blocks, rule: str) -> int:
    """w of a block whose greatest magnitude is t."""
    edge, m, greatest = int(form.edge), int(form.m), Fraction(form.greatest)
    if not t:
        return 0
    if rule == "floor":
        k = lead(t) - edge
    elif rule == "ceil":
        k = lead(t) + (t != two(lead(t))) - edge
    elif rule == "round":
        step = two(lead(t) - m)
        k = lead(rounded(t / step, "ties_even", 0) * step) - edge
    else:
        k = lead(t) - edge - 1
        while t > greatest * two(k):
            k += 1
    return max(k, -127) + 127


def element(x: float, k: int, form: Blocks, mode: str, word: int) -> tuple[Fraction, int]:
    """(value, word) of an element."""
    least, m, edge = int(form.least), int(form.m), int(form.edge)
    y = Fraction(x) / two(k)
    step = two(min(max(lead(abs(y)), least), edge) - m) if y else two(least - m)
    made = rounded(y / step, mode, word) * step
    greatest = Fraction(form.greatest)
    made = max(-greatest, min(greatest, made))
    if form.element == "<8,6>":
        return made, int(made * 64) & 0xFF
    sign = int(str(x)[0] == "-") << int(form.bits) - 1
    size = abs(made)
    if size < two(least):
        return made, sign + int(size / two(least - m))
    f = lead(size) - least + 1
    return made, sign + (f << m) + int(size / two(lead(size) - m)) - (1 << m)


def members(shape: Sequence[int], axis: int, groups: int) -> Iterator[list[int]]:
    """Flat indices of the blocks, in the order of their scales."""
    part = shape[axis] // groups
    strides = [prod(shape[k + 1 :]) for k in range(len(shape))]
    starts = [g * part + i for g in range(groups) for i in range(0, part, SIZE)]
    ends = {at: min(at + SIZE, at // part * part + part) for at in starts}
    sizes = [starts if k == axis else range(n) for k, n in enumerate(shape)]
    for place in product(*sizes):
        first = sum(i * stride for i, stride in zip(place, strides, strict=True))
        yield [first + i * strides[axis] for i in range(ends[place[axis]] - place[axis])]


class DeviceMX(Device32):
    """One step of conv, linear, norm and relu layers."""

    def __init__(self, pack: Path, mistakes: dict[str, Fault] | None = None, **more: Any) -> None:
        super().__init__(pack, **more)
        self.mistakes = mistakes or {}
        self.on_the_way_forward["linear"], self.on_the_way_back["linear"] = self.conv, self.conv_back

    def random(self, name: str) -> list[int]:
        """The words that round a port's elements."""
        told = self.page.rows[name].words
        if told == "-":
            return []
        port, out = told.split("`")[1], list[int]()
        for line in (self.pack / "rnd" / f"{port.replace('/', '.')}.hex").read_text().splitlines():
            word = int(line, 16)
            out += [word >> 32 * lane & 0xFFFFFFFF for lane in range(self.page.ports[port].lanes)]
        return out

    def copy(self, name: str, x: F) -> F:
        """x in the blocks of a port, whose words are kept; as it is where it has none."""
        if name not in self.page.mx:
            return self.keep(name, x)
        form, fault, port = self.page.mx[name], self.mistakes.get(name, {}), self.page.ports[name]
        axis, mode = port.axes.index(form.along), fault.get("mode", self.page.rows[name].mode)
        words, drawn = [0] * len(x.values), self.random(name) or [0] * len(x.values)
        values, scales = [0.0] * len(x.values), []
        for block in members(port.shape, axis, int(form.groups)):
            top = max(abs(Fraction(x.values[i])) for i in block)
            scales.append(scale(top, form, fault.get("rule", form.rule)))
            k = scales[-1] - 127
            for i in block:
                value, words[i] = element(x.values[i], k, form, mode, drawn[i])
                if fault.get("flush") and abs(value) < two(int(form.least)):
                    value, words[i] = Fraction(0), words[i] & 1 << port.bits - 1
                values[i] = float(value * two(k))
        self.store(name, words)
        self.store(f"{name}.scale", scales)
        return F(x.shape, values)

    def store(self, name: str, words: list[int]) -> None:
        if self.page.ports[name].way == "exp":
            self.words[name] = words

    def old(self, layer: str) -> F:
        """W, of a linear layer with a kernel of 1x1."""
        w = self.given(f"{layer}/W.old")
        return F((*w.shape, 1, 1)[:4], w.values)

    def window(self, layer: str) -> dict[str, int]:
        return STILL | super().window(layer)

    def conv(self, layer: str, x: F) -> F:
        pixels = F((x.shape[0], 1, 1, x.shape[-1]) if len(x.shape) == 2 else x.shape, x.values)
        x0, w = self.copy(f"{layer}/x0", pixels), self.copy(f"{layer}/Wq", self.old(layer))
        self.held[f"{layer}/x0b"] = self.copy(f"{layer}/x0b", pixels)
        x1 = self.forward(x0, w, self.window(layer))
        return self.keep(
            f"{layer}/x1", F((*x.shape[:-1], x1.shape[-1]) if len(x.shape) == 2 else x1.shape, x1.values)
        )

    def conv_back(self, layer: str, e: F) -> F:
        pixels = F((e.shape[0], 1, 1, e.shape[-1]) if len(e.shape) == 2 else e.shape, e.values)
        e3w, e3 = self.copy(f"{layer}/e3w", pixels), self.copy(f"{layer}/e3", pixels)
        at, w, x0b = self.window(layer), self.old(layer), self.held[f"{layer}/x0b"]
        wb = self.copy(f"{layer}/Wb", w)
        self.keep(f"{layer}/gW", self.gradient(e3w, x0b, w.shape, at))
        e4 = self.input_error(e3, wb, x0b.shape, at)
        return self.keep(
            f"{layer}/e4", F((*e.shape[:-1], e4.shape[-1]) if len(e.shape) == 2 else e4.shape, e4.values)
        )


__all__ = ["DeviceMX", "Sums"]
