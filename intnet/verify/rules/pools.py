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

    def windows(self, call: Call) -> Windows:
        """Of the operation's input."""
        named = call.attributes
        return pooling.windows_of(
            shape_of(call.operands[0]), named["kernel"], named["stride"], named.get("padding", 0)
        )

    def specs(self, what: Call | Back, k: int) -> tuple[str, ...]:
        """By what is averaged."""
        forward = isinstance(what, Call)
        floats = is_float(what.result if isinstance(what, Call) else what.results[k])
        return (f"pooling.avg{'32' if floats else ''}{'' if forward else '_grad'}_at",)

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

    def near_forward(self, values: Values, call: Call) -> Near:
        """In float64."""
        windows, made = self.windows(call), []
        for given in values.near(call.operands[0]):
            x, parts = given.reshape(windows.shape), []
            for rows in windows.rows:
                for columns in windows.columns:
                    part = x[:, rows.start : rows.stop, columns.start : columns.stop]
                    parts.append(part.sum(axis=(1, 2)))
            sizes = self._sizes(windows)
            found = np.stack(parts, axis=1) / sizes[None, :, None]
            made.append(found.reshape(shape_of(call.result)))
        return made[0], made[1]

    @staticmethod
    def _sizes(windows: Windows) -> np.ndarray:
        counts = range(len(windows.rows)), range(len(windows.columns))
        return np.array([windows.size(y, x) for y in counts[0] for x in counts[1]], np.float64)

    def near_back(self, values: Values, back: Back, k: int) -> Near:
        """In float64."""
        windows = self.windows(back.call)
        sizes, made = self._sizes(windows), []
        for given in values.near(back.gradient):
            shares = given.reshape(windows.shape[0], len(sizes), -1) / sizes[None, :, None]
            spread = np.zeros(windows.shape)
            for at, share in enumerate(shares.transpose(1, 0, 2)):
                rows, columns = (
                    windows.rows[at // len(windows.columns)],
                    windows.columns[at % len(windows.columns)],
                )
                spread[:, rows.start : rows.stop, columns.start : columns.stop] += share[:, None, None, :]
            made.append(spread)
        return made[0], made[1]


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

    def specs(self, what: Call | Back, k: int) -> tuple[str, ...]:
        """The same of codes and of float32."""
        return ("pooling.max_at" if isinstance(what, Call) else "pooling.max_grad_at",)

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
        x = values.near(back.call.operands[0])[0].reshape(windows.shape)
        spreads = [np.zeros(windows.shape), np.zeros(windows.shape)]
        images, channels = np.ogrid[:n, :c]
        errors = [given.reshape(n, -1, c) for given in values.near(back.gradient)]
        spans = [(rows, columns) for rows in windows.rows for columns in windows.columns]
        for at, (rows, columns) in enumerate(spans):
            part = x[:, rows.start : rows.stop, columns.start : columns.stop].reshape(n, -1, c)
            best = part.argmax(axis=1)
            y, z = rows.start + best // len(columns), columns.start + best % len(columns)
            for spread, error in zip(spreads, errors, strict=True):
                np.add.at(spread, (images, y, z, channels), error[:, at])
        return spreads[0], spreads[1]
