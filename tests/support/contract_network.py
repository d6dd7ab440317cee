"""The device of `contract_device` for a whole network: also from CONTRACT.md alone, also in plain Python.

    Network(pack, faults).run(folder)     a training step with its loss, or an inference with its classes

Beside convolution, batch norm and ReLU it has linear layers with biases, pools, flatten, the mean of images,
the loss in binary32 and its error, and batch norm by running statistics; squeeze and excitation with its
curves in integers, sums of branches, adaptive means.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product
from math import prod

from tests.support.contract_device import (
    Device,
    Roots,
    T,
    conv_forward,
    conv_input,
    conv_weight,
    size_out,
)
from tests.support.contract_device32 import Sums, fma, number, pattern, single

LN2_HI, LN2_LO = float.fromhex("0x1.62e42fee00000p-1"), float.fromhex("0x1.a39ef35793c76p-33")


def horner(coefficients: list[float], u: float) -> float:
    """((c0 * u + c1) * u + c2) * u + ..."""
    total = coefficients[0]
    for c in coefficients[1:]:
        total = total * u + c
    return total


def exp(x: float) -> float:
    """Of a binary32, rounded to binary32."""
    if x < -745.1332191019412:
        return 0.0
    t = 1.5 * 2.0**52
    k = (x * float.fromhex("0x1.71547652b82fep+0") + t) - t
    r = (x - k * LN2_HI) - k * LN2_LO
    h = horner([1 / math.factorial(n) for n in range(13, 1, -1)], r)
    p, whole = ((h * r) * r + r) + 1.0, int(k)
    a = whole // 2
    return single((p * 2.0**a) * 2.0 ** (whole - a))


def ln(x: float) -> float:
    """Of a binary32, rounded to binary32."""
    top, k = float.fromhex("0x1.6a09e667f3bcdp+0"), 0
    m = x
    while m > top:
        m, k = m / 2, k + 1
    while m <= top / 2:
        m, k = m * 2, k - 1
    s = (m - 1.0) / (m + 1.0)
    z, t = s * s, s + s
    h = horner([1.0 / n for n in range(23, 1, -2)], z)
    return single(k * LN2_HI + (k * LN2_LO + (t + t * (z * h))))


def sigmoid(x: Fraction) -> Fraction:
    """1 / (1 + exp(-x)) to 80 digits; only at 0 it is rational."""
    with localcontext() as context:
        context.prec = 80
        power = (Decimal(-x.numerator) / Decimal(x.denominator)).exp()
        return Fraction(1, 2) if x == 0 else Fraction(1 / (1 + power))


class Network(Device):
    """All layers of a pack, and what ends it."""

    def keep(self, name: str, value: T | Roots) -> T:
        """Also what a port of binary32 holds."""
        own, name = name, self.page.twice.get(name, name)
        port = self.page.ports.get(name)
        if port is None or port.kind != "binary32:" or name in self.held:
            kept = super().keep(own, value)
        else:
            assert isinstance(value, T)
            kept = T(value.shape, [Fraction(single(float(v))) for v in value.values])
            self.note(name, port.way == "exp", [pattern(float(v)) for v in kept.values])
            self.held[name] = kept
        self.held[own] = kept
        return kept

    def state(self, layer: str, name: str) -> T:
        """A parameter ahead of the step, or the one that inference reads."""
        old = f"{layer}/{name}.old"
        return self.given(old if old in self.page.ports else f"{layer}/{name}")

    @property
    def infers(self) -> bool:
        """Whether nothing goes back."""
        return "classes" in self.page.graph

    # -- products ------------------------------------------------------------------------------

    def conv(self, layer: str, x: T) -> T:
        x0, w = self.keep(f"{layer}/x0", x), self.keep(f"{layer}/Wq", self.state(layer, "W"))
        flat, floats = len(x0.shape) == 2, self.floats(layer)
        y = (conv_forward32 if floats else conv_forward)(_image(x0), _taps(w), self.window(layer))
        y = T((y.shape[0], y.shape[3]), y.values) if flat else y
        if f"{layer}/b.old" in self.page.ports or f"{layer}/b" in self.page.ports:
            b = self.keep(f"{layer}/bq", self.state(layer, "b")).values
            sums = [v + b[i % len(b)] for i, v in enumerate(y.values)]
            y = T(y.shape, [Fraction(single(float(v))) for v in sums] if floats else sums)
        return self.keep(f"{layer}/x1", y)

    def floats(self, layer: str) -> bool:
        """Whether the layer multiplies binary32."""
        name = f"{layer}/x0"
        return self.page.ports[self.page.twice.get(name, name)].kind == "binary32:"

    def conv_back(self, layer: str, e: T) -> T:
        e3, x0, w = self.keep(f"{layer}/e3", e), self.held[f"{layer}/x0"], self.held[f"{layer}/Wq"]
        window, c, floats = self.window(layer), e3.shape[-1], self.floats(layer)
        size = len(e3.values) // e3.shape[0]
        columns = [
            [e3.values[at + k : at + size : c] for at in range(0, len(e3.values), size)] for k in range(c)
        ]
        gb = [sum32(images) if floats else Fraction(sum(map(sum, images))) for images in columns]
        self.keep(f"{layer}/gb", T((c,), gb))
        g = (conv_weight32 if floats else conv_weight)(_image(x0), _image(e3), _taps(w).shape, window)
        self.keep(f"{layer}/gW", T(w.shape, g.values))
        if "hands nothing on" in self.page.graph[layer][0]:
            return e3
        back = (conv_input32 if floats else conv_input)(_image(e3), _taps(w), _image(x0).shape, window)
        return self.keep(f"{layer}/e4", T(x0.shape, back.values))

    def update(self, layer: str) -> None:
        """Of binary32 by the rule with its numbers, else each port by its row."""
        rules = self.page.text.split(f"### {layer}\n")[1].split("###")[0]
        found = re.findall(r"fma\((-?\d+) \* 2\^(-?\d+)", rules)
        if not found:
            super().update(layer)
            return
        momentum, rate = (int(code) * 2.0 ** int(power) for code, power in found)
        for p, slot in (("W", "Acc"), ("b", "Acc_b")):
            if f"{layer}/{p}.old" not in self.page.ports:
                continue
            g, old = self.held[f"{layer}/g{p}"].values, self.given(f"{layer}/{slot}.old").values
            acc = [Fraction(fma(momentum, float(a), float(v))) for a, v in zip(old, g, strict=True)]
            shape, before = self.given(f"{layer}/{p}.old").shape, self.given(f"{layer}/{p}.old").values
            self.keep(f"{layer}/{slot}", T(shape, acc))
            moved = [Fraction(fma(rate, float(a), float(v))) for a, v in zip(acc, before, strict=True)]
            self.keep(f"{layer}/{p}", T(shape, moved))

    linear, linear_back = conv, conv_back

    def window(self, layer: str) -> dict[str, int]:
        return {"groups": 1} | super().window(layer)

    # -- batch norm --------------------------------------------------------------------------------

    def norm(self, layer: str, x: T) -> T:
        if not self.infers:
            return super().norm(layer, x)
        x1, c = self.keep(f"{layer}/x1", x), x.shape[-1]
        mu = self.keep(f"{layer}/mu", self.state(layer, "running_mean")).values
        sigma = self.keep(f"{layer}/sigma", Roots((c,), self.state(layer, "running_var").values)).values
        eps = Fraction(1, 2**15)
        x2 = [(v - mu[i % c]) / (sigma[i % c] + eps) for i, v in enumerate(x1.values)]
        normed = self.keep(f"{layer}/x2", T(x1.shape, x2))
        gamma, beta = (self.copy(layer, name).values for name in ("gamma", "beta"))
        x3 = [gamma[i % c] * v + beta[i % c] for i, v in enumerate(normed.values)]
        return self.keep(f"{layer}/x3", T(x1.shape, x3))

    def copy(self, layer: str, name: str) -> T:
        return self.keep(f"{layer}/{name}q", self.state(layer, name))

    # -- pools ---------------------------------------------------------------------------------

    def places(self, layer: str, shape: tuple[int, ...]) -> tuple[tuple[int, ...], list[list[int]]]:
        """(shape of the output, the flat indices inside each window)."""
        at = self.window(layer)
        kh, kw = (int(n) for n in re.findall(r"kernel \[(\d+), (\d+)\]", self.page.graph[layer][0])[0])
        n, height, width, c = shape
        rows = (height + at["top"] + at["bottom"] - kh) // at["sh"] + 1
        columns = (width + at["left"] + at["right"] - kw) // at["sw"] + 1
        windows = []
        for image, y, x, k in product(range(n), range(rows), range(columns), range(c)):
            inside = []
            for i, j in product(range(kh), range(kw)):
                row, col = y * at["sh"] + i - at["top"], x * at["sw"] + j - at["left"]
                if 0 <= row < height and 0 <= col < width:
                    inside.append(((image * height + row) * width + col) * c + k)
            windows.append(inside)
        return (n, rows, columns, c), windows

    def max_pool(self, layer: str, x: T) -> T:
        shape, windows = self.places(layer, x.shape)
        self.won = getattr(self, "won", {})
        self.won[layer] = [max(window, key=lambda i: (x.values[i], -i)) for window in windows]
        return self.keep(f"{layer}/x4", T(shape, [x.values[i] for i in self.won[layer]]))

    def max_pool_back(self, layer: str, e: T) -> T:
        shape = self.read[layer].shape
        out = [Fraction(0)] * prod(shape)
        for i, v in zip(self.won[layer], e.values, strict=True):
            out[i] += v
        return T(shape, out)

    def mean(self, layer: str, x: T) -> T:
        n, height, width, c = x.shape
        size = height * width
        sums = [
            sum(x.values[(i * size) * c + k : (i + 1) * size * c : c]) for i in range(n) for k in range(c)
        ]
        return self.keep(f"{layer}/x4", T((n, c), [Fraction(v) / size for v in sums]))

    def mean_back(self, layer: str, e: T) -> T:
        n, height, width, c = shape = self.read[layer].shape
        size = height * width
        spread = [e.values[i // (size * c) * c + i % c] / size for i in range(n * size * c)]
        return self.keep(f"{layer}/e0", T(shape, spread))

    def adaptive(self, layer: str) -> tuple[tuple[int, ...], list[list[int]]]:
        """(shape of the output, the flat indices inside each window)."""
        (n, height, width, c), at = self.read[layer].shape, self.window(layer)
        oh, ow, windows = at["oh"], at["ow"], []
        for image, y, x, k in product(range(n), range(oh), range(ow), range(c)):
            rows = range(y * height // oh, -(-(y + 1) * height // oh))
            columns = range(x * width // ow, -(-(x + 1) * width // ow))
            windows.append([((image * height + r) * width + q) * c + k for r in rows for q in columns])
        return (n, oh, ow, c), windows

    def adaptive_pool(self, layer: str, x: T) -> T:
        shape, windows = self.adaptive(layer)
        means = [Fraction(sum(x.values[i] for i in window)) / len(window) for window in windows]
        return self.keep(f"{layer}/x4", T(shape, means))

    def adaptive_pool_back(self, layer: str, e: T) -> T:
        e0, shape = self.keep(f"{layer}/e0", e), self.read[layer].shape
        out = [Fraction(0)] * prod(shape)
        for window, v in zip(self.adaptive(layer)[1], e0.values, strict=True):
            for i in window:
                out[i] += v / len(window)
        return T(shape, out)

    # -- curves, squeeze and excitation, sums ----------------------------------------------------

    def silu(self, layer: str, x: T) -> T:
        slopes = [(s := sigmoid(v)) * (1 + v * (1 - s)) for v in x.values]
        self.held[f"{layer}/dx4"] = self.keep(f"{layer}/dx4", T(x.shape, slopes))
        return self.keep(f"{layer}/x4", T(x.shape, [v * sigmoid(v) for v in x.values]))

    def silu_back(self, layer: str, e: T) -> T:
        e0, slopes = self.keep(f"{layer}/e0", e), self.held[f"{layer}/dx4"]
        products = [v * slope for v, slope in zip(e0.values, slopes.values, strict=True)]
        return self.keep(f"{layer}/e1q", T(e0.shape, products))

    def sigmoid(self, layer: str, x: T) -> T:
        return self.keep(f"{layer}/x4", T(x.shape, [sigmoid(v) for v in x.values]))

    def sigmoid_back(self, layer: str, e: T) -> T:
        e0 = self.keep(f"{layer}/e0", e)
        pairs = zip(e0.values, self.output[layer].values, strict=True)
        return self.keep(f"{layer}/e1", T(e0.shape, [v * (y * (1 - y)) for v, y in pairs]))

    def scale(self, layer: str, x: T) -> T:
        return self.keep(f"{layer}/x4", self.by_factors(layer, x))

    def scale_back(self, layer: str, e: T) -> T:
        e0, x = self.keep(f"{layer}/e0", e), self.read[layer]
        n, height, width, c = x.shape
        size, products = height * width * c, [a * b for a, b in zip(e0.values, x.values, strict=True)]
        sums = [sum(products[i * size + k : (i + 1) * size : c]) for i in range(n) for k in range(c)]
        self.to_factors[layer] = T((n, c), [Fraction(v) for v in sums])
        return self.by_factors(layer, e0)

    def by_factors(self, layer: str, x: T) -> T:
        """Every element by the factor of its image and channel."""
        size, c = prod(x.shape[1:]), x.shape[3]
        s = self.source(self.page.graph[layer][1].split("; its factors s: ")[1]).values
        return T(x.shape, [v * s[i // size * c + i % c] for i, v in enumerate(x.values)])

    def join(self, layer: str, x: T) -> T:
        return self.keep(f"{layer}/x4", x)

    def join_back(self, layer: str, e: T) -> T:
        return self.keep(f"{layer}/e0", e)

    def flatten(self, layer: str, x: T) -> T:
        return self.keep(f"{layer}/x4", T((x.shape[0], prod(x.shape[1:])), x.values))

    def flatten_back(self, layer: str, e: T) -> T:
        return T(self.read[layer].shape, e.values)

    # -- the end -------------------------------------------------------------------------------------

    def classes(self, layer: str, x: T) -> T:
        logits, c = self.keep(f"{layer}/logits", x), x.shape[1]
        rows = [logits.values[i : i + c] for i in range(0, len(logits.values), c)]
        return self.keep(f"{layer}/class", T((len(rows),), [Fraction(row.index(max(row))) for row in rows]))

    def loss(self, layer: str, x: T) -> T:
        logits, (n, c) = self.keep(f"{layer}/logits", x), x.shape
        told = re.findall(r"on = (0x\w{8}), off = (0x\w{8})", self.page.text)[0]
        on, off = (number(int(bits, 16)) for bits in told)
        labels = [int(v) for v in self.given(f"{layer}/labels").values]
        p, losses = [], []
        for i, label in enumerate(labels):
            row = [float(v) for v in logits.values[i * c : (i + 1) * c]]
            d = [single(v - max(row)) for v in row]
            powers, total, t = [exp(v) for v in d], 0.0, 0.0
            for power in powers:
                total = single(total + power)
            for v in d if off else ():
                t = fma(off, single(ln(total) - v), t)
            p += [single(power / total) for power in powers]
            losses.append(fma(on, single(ln(total) - d[label]), t))
        p = [float(v) for v in self.keep(f"{layer}/p", T((n, c), list(map(Fraction, p)))).values]
        kept = self.keep(f"{layer}/losses", T((n,), list(map(Fraction, losses))))
        total = Sums().batch([[(float(v), 1.0)] for v in kept.values])
        self.keep(f"{layer}/loss", T((1,), [Fraction(single(total / n))]))
        e = [single(v - off) for v in p]
        e = [single(v - on) if labels[i // c] == i % c else v for i, v in enumerate(e)]
        self.handed[layer] = self.keep(f"{layer}/e", T((n, c), [Fraction(single(v / n)) for v in e]))
        return logits


# -- products of binary32, by the page's order of sums ---------------------------------------------


def sum32(images: list[list[Fraction]]) -> Fraction:
    """A plain sum over the batch."""
    return Fraction(Sums().batch([[(float(v), 1.0) for v in image] for image in images]))


def conv_forward32(x0: T, w: T, at: dict[str, int]) -> T:
    """x1, kernel row, kernel column, channel; one group."""
    shape, out = size_out(x0.shape, w.shape, at), []
    for n, y, column, o in product(*map(range, shape)):
        terms = []
        for i, j, c in product(*map(range, (w.shape[2], w.shape[3], w.shape[1]))):
            row, col = y * at["sh"] + i - at["top"], column * at["sw"] + j - at["left"]
            terms.append((_pixel(x0, n, row, col, c), _tap(w, o, c, i, j)))
        out.append(Fraction(Sums().chain(terms)))
    return T(shape, out)


def conv_input32(e3: T, w: T, shape: tuple[int, ...], at: dict[str, int]) -> T:
    """e4, kernel row, kernel column, channel of the output."""
    out = []
    for n, y, column, c in product(*map(range, shape)):
        terms = []
        for i, j, o in product(*map(range, (w.shape[2], w.shape[3], w.shape[0]))):
            (row, odd), (col, off) = (
                divmod(y + at["top"] - i, at["sh"]), divmod(column + at["left"] - j, at["sw"])
            )  # fmt: skip
            terms.append((0.0 if odd or off else _pixel(e3, n, row, col, o), _tap(w, o, c, i, j)))
        out.append(Fraction(Sums().chain(terms)))
    return T(shape, out)


def conv_weight32(x0: T, e3: T, shape: tuple[int, ...], at: dict[str, int]) -> T:
    """gW, image by image."""
    out = []
    for o, c, i, j in product(*map(range, shape)):
        images = []
        for n in range(x0.shape[0]):
            places = product(range(e3.shape[1]), range(e3.shape[2]))
            images.append([
                (
                    _pixel(x0, n, y * at["sh"] + i - at["top"], x * at["sw"] + j - at["left"], c),
                    _pixel(e3, n, y, x, o),
                )
                for y, x in places
            ])  # fmt: skip
        out.append(Fraction(Sums().batch(images)))
    return T(shape, out)


def _pixel(t: T, n: int, row: int, col: int, c: int) -> float:
    _, height, width, channels = t.shape
    inside = 0 <= row < height and 0 <= col < width
    return float(t.values[((n * height + row) * width + col) * channels + c]) if inside else 0.0


def _tap(w: T, o: int, c: int, i: int, j: int) -> float:
    _, cg, kh, kw = w.shape
    return float(w.values[((o * cg + c) * kh + i) * kw + j])


def _image(t: T) -> T:
    return t if len(t.shape) == 4 else T((t.shape[0], 1, 1, t.shape[1]), t.values)


def _taps(t: T) -> T:
    return t if len(t.shape) == 4 else T((*t.shape, 1, 1), t.values)
