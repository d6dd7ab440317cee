"""Rules of the pools: max, mean of windows, adaptive and global mean."""

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from intnet.spec import float32 as f32
from intnet.spec.geometry import windows
from intnet.verify.record import Back, Call
from intnet.verify.rules.rule import Rule
from intnet.verify.values import Near, Values, is_float, shape_of


class Windows(NamedTuple):
    """The positions (row, column) of every window, in row-major order; what a sum is divided by."""

    places: list[list[tuple[int, int]]]
    divisors: list[int]
    shape: tuple[int, ...]


class Mean(Rule):
    """avg_pool2d: y = sum of the window / its size, padding counts as 0; dx = sum of e/size of its windows."""

    forward_spec, back_specs = "operations.avg_pool", ("operations.avg_pool_grad",)

    def windows(self, call: Call) -> Windows:
        """Of the operation's input."""
        n, h, w, c = shape_of(call.operands[0])
        kernel, padding = call.attributes["kernel"], call.attributes.get("padding", (0, 0))
        places = windows(h, w, kernel, call.attributes["stride"], padding)
        return Windows(places, [kernel[0] * kernel[1]] * len(places), (n, h, w, c))

    def forward(self, values: Values, call: Call, flat: np.ndarray) -> list[Fraction]:
        """The means."""
        found, out = self.windows(call), []
        (_, h, w, c), floats = found.shape, is_float(call.result)
        for i in flat.tolist():
            image, rest = divmod(i, len(found.places) * c)
            window, channel = divmod(rest, c)
            at = np.array([((image * h + y) * w + x) * c + channel for y, x in found.places[window]])
            terms, size = values.at(call.operands[0], at), found.divisors[window]
            if not floats:
                out.append(sum(terms, Fraction(0)) / size)
                continue
            total = Fraction(0)
            for term in terms:
                total = f32.add32(total, term)
            out.append(f32.to_float32(total / size))
        return out

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """The errors of the windows that read a position, over their sizes; windows in row-major order."""
        found, floats = self.windows(back.call), is_float(back.results[k])
        _, h, w, c = found.shape
        reading: dict[tuple[int, int], list[int]] = {}
        for window, places in enumerate(found.places):
            for place in places:
                reading.setdefault(place, []).append(window)
        out = []
        for i in flat.tolist():
            image, rest = divmod(i, h * w * c)
            y, x, channel = rest // (w * c), rest // c % w, rest % c
            readers = reading.get((y, x), [])
            at = np.array([(image * len(found.places) + window) * c + channel for window in readers], np.int64)
            total = Fraction(0)
            for e, window in zip(values.at(back.gradient, at), readers, strict=True):
                part = e / found.divisors[window]
                total = f32.add32(total, f32.to_float32(part)) if floats else total + part
            out.append(total)
        return out

    def _gathered(self, call: Call, x: np.ndarray) -> np.ndarray:
        """Sums of windows over sizes, of [n, h, w, c]."""
        found = self.windows(call)
        x = x.reshape(found.shape)
        parts = []
        for places, size in zip(found.places, found.divisors, strict=True):
            rows, columns = zip(*places, strict=True)
            parts.append(x[:, rows, columns, :].sum(axis=1) / size)
        return np.stack(parts, axis=1).reshape(shape_of(call.result))

    def near_forward(self, values: Values, call: Call) -> Near:
        """In float64."""
        x, size = values.near(call.operands[0])
        return self._gathered(call, x), self._gathered(call, size)

    def near_back(self, values: Values, back: Back, k: int) -> Near:
        """In float64."""
        found = self.windows(back.call)
        out = []
        for given in values.near(back.gradient):
            errors, spread = given.reshape(found.shape[0], len(found.places), -1), np.zeros(found.shape)
            for window, (places, size) in enumerate(zip(found.places, found.divisors, strict=True)):
                rows, columns = zip(*places, strict=True)
                spread[:, rows, columns, :] += errors[:, window, None, :] / size
            out.append(spread)
        return out[0], out[1]


class GlobalMean(Mean):
    """global_avg_pool: one window, the image."""

    forward_spec, back_specs = "operations.global_avg_pool", ("operations.global_avg_pool_grad",)

    def windows(self, call: Call) -> Windows:
        """The image."""
        n, h, w, c = shape_of(call.operands[0])
        return Windows([[(y, x) for y in range(h) for x in range(w)]], [h * w], (n, h, w, c))


class AdaptiveMean(Mean):
    """adaptive_avg_pool2d: window i of m over a side of H is floor(i*H/m) .. ceil((i + 1)*H/m) - 1."""

    def windows(self, call: Call) -> Windows:
        """As many as are asked for."""
        n, h, w, c = shape_of(call.operands[0])
        sides = [
            [range(i * size // m, -(-(i + 1) * size // m)) for i in range(m)]
            for size, m in zip((h, w), call.attributes["output"], strict=True)
        ]
        places = [[(y, x) for y in rows for x in columns] for rows in sides[0] for columns in sides[1]]
        return Windows(places, [len(place) for place in places], (n, h, w, c))


class Max(Mean):
    """max_pool2d: the maximum; the first in row-major order gets the error."""

    forward_spec, back_specs = "operations.max_pool", ("operations.max_pool_grad",)

    def _winner(self, values: Values, call: Call, found: Windows, i: int) -> tuple[int, Fraction]:
        """(flat input index that won output i, its value)."""
        _, h, w, c = found.shape
        image, rest = divmod(i, len(found.places) * c)
        window, channel = divmod(rest, c)
        at = [((image * h + y) * w + x) * c + channel for y, x in found.places[window]]
        terms = values.at(call.operands[0], np.array(at))
        best = max(range(len(at)), key=lambda k: (terms[k], -k))
        return at[best], terms[best]

    def forward(self, values: Values, call: Call, flat: np.ndarray) -> list[Fraction]:
        """The maxima."""
        found = self.windows(call)
        return [self._winner(values, call, found, i)[1] for i in flat.tolist()]

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """The errors of the windows that a position won."""
        found, floats = self.windows(back.call), is_float(back.results[k])
        _, h, w, c = found.shape
        reading: dict[tuple[int, int], list[int]] = {}
        for window, places in enumerate(found.places):
            for place in places:
                reading.setdefault(place, []).append(window)
        out = []
        for i in flat.tolist():
            image, rest = divmod(i, h * w * c)
            y, x, channel = rest // (w * c), rest // c % w, rest % c
            total = Fraction(0)
            for window in reading.get((y, x), []):
                output = (image * len(found.places) + window) * c + channel
                if self._winner(values, back.call, found, output)[0] == i:
                    e = values.at(back.gradient, np.array([output]))[0]
                    total = f32.add32(total, e) if floats else total + e
            out.append(total)
        return out

    def near_back(self, values: Values, back: Back, k: int) -> Near:
        """In float64: every element by its windows' winners, as the fast code's positions may be wrong."""
        found = self.windows(back.call)
        n, h, w, c = found.shape
        x = values.near(back.call.operands[0])[0].reshape(found.shape)
        spreads = [np.zeros(found.shape), np.zeros(found.shape)]
        images, channels = np.ogrid[:n, :c]
        errors = [given.reshape(n, len(found.places), c) for given in values.near(back.gradient)]
        for window, places in enumerate(found.places):
            rows, columns = (np.array(side) for side in zip(*places, strict=True))
            best = x[:, rows, columns, :].argmax(axis=1)
            for spread, error in zip(spreads, errors, strict=True):
                np.add.at(spread, (images, rows[best], columns[best], channels), error[:, window, :])
        return spreads[0], spreads[1]


