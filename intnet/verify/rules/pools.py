"""Rules of the pools: max, mean of windows, adaptive and global mean."""

from fractions import Fraction
from typing import Any

import numpy as np

from intnet.spec import pooling
from intnet.spec.float32 import chain32
from intnet.spec.pooling import Windows
from intnet.spec.tensor import place_of
from intnet.verify.record import Back, Call
from intnet.verify.rules.rule import Rule
from intnet.verify.values import Near, Values, is_float, shape_of


class Flat:
    """A value as the flat list that the definition's rules read; only what is read is made."""

    def __init__(self, values: Values, value: Any) -> None:
        self.values, self.value = values, value

    def __getitem__(self, index: int) -> Fraction:
        return self.values.at(self.value, np.array([index]))[0]


class Mean(Rule):
    """avg_pool2d: y = sum of the window / its size, padding counts as 0; dx = sum of its windows' e/size."""

    exact = ("pooling.avg_at", "pooling.avg_grad_at")
    floats: tuple[str, ...] = ("pooling.avg32_at", "pooling.avg32_grad_at")

    def windows(self, call: Call) -> Windows:
        """Of the operation's input."""
        named = call.attributes
        return pooling.windows_of(
            shape_of(call.operands[0]), named["kernel"], named["stride"], named.get("padding", 0)
        )

    def forward(self, values: Values, call: Call, flat: np.ndarray) -> list[Fraction]:
        """The means."""
        windows = self.windows(call)
        x: Any = Flat(values, call.operands[0])
        rule = pooling.avg32_at if is_float(call.result) else pooling.avg_at
        return [rule(x, windows, place_of(i, windows.output)) for i in flat.tolist()]

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """The errors of the windows that read a position, over their sizes."""
        windows = self.windows(back.call)
        e: Any = Flat(values, back.gradient)
        rule = pooling.avg32_grad_at if is_float(back.results[k]) else pooling.avg_grad_at
        return [rule(e, windows, place_of(i, windows.shape)) for i in flat.tolist()]

    @staticmethod
    def _spans(windows: Windows) -> list[tuple[slice, slice, float]]:
        """Rows, columns and size of every window."""
        return [
            (slice(rows.start, rows.stop), slice(columns.start, columns.stop), float(windows.size(y, x)))
            for y, rows in enumerate(windows.rows)
            for x, columns in enumerate(windows.columns)
        ]

    def near_forward(self, values: Values, call: Call) -> Near:
        """In float64."""
        windows = self.windows(call)

        def mean(given: np.ndarray) -> np.ndarray:
            x = given.reshape(windows.shape)
            parts = [x[:, rows, columns].sum(axis=(1, 2)) / n for rows, columns, n in self._spans(windows)]
            return np.stack(parts, axis=1).reshape(shape_of(call.result))

        return values.near(call.operands[0]).map(mean)

    def near_back(self, values: Values, back: Back, k: int) -> Near:
        """In float64."""
        windows = self.windows(back.call)

        def shares(given: np.ndarray) -> np.ndarray:
            spread, spans = np.zeros(windows.shape), self._spans(windows)
            errors = given.reshape(windows.shape[0], len(spans), -1).transpose(1, 0, 2)
            for (rows, columns, n), error in zip(spans, errors, strict=True):
                spread[:, rows, columns] += error[:, None, None, :] / n
            return spread

        return values.near(back.gradient).map(shares)


class GlobalMean(Mean):
    """global_avg_pool: one window, the image."""

    def windows(self, call: Call) -> Windows:
        """The image."""
        shape = shape_of(call.operands[0])
        return pooling.windows_of(shape, shape[1:3], shape[1:3])


class AdaptiveMean(Mean):
    """adaptive_avg_pool2d: window i of m over a side of H is floor(i*H/m) .. ceil((i + 1)*H/m) - 1."""

    def windows(self, call: Call) -> Windows:
        """As many as are asked for."""
        return pooling.adaptive_windows(shape_of(call.operands[0]), call.attributes["output"])


class Max(Mean):
    """max_pool2d: the maximum; the first in row-major order gets the error."""

    exact, floats = ("pooling.max_at", "pooling.max_grad_at"), ()

    def forward(self, values: Values, call: Call, flat: np.ndarray) -> list[Fraction]:
        """The maxima."""
        windows = self.windows(call)
        x: Any = Flat(values, call.operands[0])
        return [x[pooling.max_at(x, windows, place_of(i, windows.output))] for i in flat.tolist()]

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """The errors of the windows that a position won."""
        windows, floats = self.windows(back.call), is_float(back.results[k])
        e, x = (Flat(values, v) for v in (back.gradient, back.call.operands[0]))
        out = []
        for i in flat.tolist():
            won: Any = pooling.max_grad_at(e, x, windows, place_of(i, windows.shape))  # type: ignore[arg-type]
            out.append(chain32(won) if floats else sum(won, Fraction(0)))
        return out

    def near_back(self, values: Values, back: Back, k: int) -> Near:
        """In float64: every error at the place that won it."""
        windows = self.windows(back.call)
        n, _, _, c = windows.shape
        x = values.near(back.call.operands[0]).value.reshape(windows.shape)
        images, channels = np.ogrid[:n, :c]

        def won(given: np.ndarray) -> np.ndarray:
            spread, spans = np.zeros(windows.shape), self._spans(windows)
            for (rows, columns, _), error in zip(spans, given.reshape(n, -1, c).swapaxes(0, 1), strict=True):
                best = x[:, rows, columns].reshape(n, -1, c).argmax(axis=1)
                y, z = np.divmod(best, columns.stop - columns.start)
                np.add.at(spread, (images, rows.start + y, columns.start + z, channels), error)
            return spread

        return values.near(back.gradient).map(won)
