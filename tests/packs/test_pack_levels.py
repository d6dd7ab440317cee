"""Packs of a format whose codes are no equidistant numbers: the words, the page, and both judges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet import datasets, fit, formats, methods, models
from intnet.methods import symbols
from intnet.methods.float_master import FloatMaster
from intnet.methods.method import to_float32
from intnet.methods.symbols import Symbol
from intnet.packs import check, layers, pack
from intnet.packs.by_spec.recompute import recompute
from intnet.spec import values
from intnet.spec.methods import float32
from intnet.training.train import Run

LEVELS = (-20, -6, 0, 1, 3, 4, 9)


@dataclass(frozen=True)
class Uneven(formats.Levels):
    """-20 -6 0 1 3 4 9, in steps of 2^e."""

    e: int = -4

    def grid_of(self, least: Any, greatest: Any) -> int:
        return self.e

    def levels(self) -> tuple[int, ...]:
        return LEVELS


class Definition:
    """What the method's definition names."""

    Settings = float32.Settings
    first = staticmethod(float32.first)

    class Step(float32.Step):
        """W in Uneven ahead of the products."""

        def format_of(self, layer: Any, path: str) -> Any:
            return Uneven() if path == "Wq" else super().format_of(layer, path)

        def weight(self, layer: Any, symbol: str) -> Any:
            if symbol != "W":
                return super().weight(layer, symbol)
            return values.to_float(self.stored(layer, "Wq", self.parameter(layer.name, "W")))


class UnevenWeights(FloatMaster):
    """Weights in Uneven."""

    name = "uneven_weights"
    spec = Definition
    SYMBOLS = symbols.FLOAT32 | {"Wq": Symbol("forward", "W, uneven", ("W",))}

    def weight(self, layer: Any, parameter: Any) -> Any:
        if parameter.symbol != "W":
            return super().weight(layer, parameter)
        return to_float32(self.store(layer, "Wq", parameter.value, Uneven()))


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    formats.register("uneven")(Uneven)
    methods.register("uneven_weights")(UnevenWeights)
    yield
    for registry, name in ((formats.FORMATS, "uneven"), (methods.METHODS, "uneven_weights")):
        del registry[name], registry.origins[name]


def trained(images: int) -> Run:
    data = datasets.load("digits").first(images)
    model = models.make("mlp", data.image_shape, data.classes)
    return fit(model, UnevenWeights(), data, batch_size=16, epochs=1, progress=False)


def nearest(value: Fraction) -> int:
    """The level whose number is nearest, in parts of the distance of two neighbours; ties to even numbers."""
    zero = LEVELS.index(0)
    if value <= LEVELS[0] or value >= LEVELS[-1]:
        return LEVELS[0] if value < 0 else LEVELS[-1]
    below = max(k for k, level in enumerate(LEVELS) if level <= value)
    part = (value - LEVELS[below]) / (LEVELS[below + 1] - LEVELS[below])
    up = part > Fraction(1, 2) or (part == Fraction(1, 2) and (below - zero) % 2 == 1)
    return LEVELS[below + up]


@pytest.mark.slow
def test_words_are_levels_and_both_judges_hold_them(tmp_path: Path) -> None:
    made = pack.read(pack.write(layers.draft(trained(64), ["fc2"]), tmp_path / "pack"))
    words, given = made.codes("fc2/Wq"), made.codes("fc2/W.old").reshape(-1)
    weights = given.astype(np.uint32).view(np.float32)
    expected = [nearest(Fraction(float(w)) * 16) for w in weights]
    assert words.reshape(-1).tolist() == expected
    assert len(set(expected)) > 4
    port = made.ports["fc2/Wq"]
    assert (port.bits, port.exponent, port.encoding) == (6, -4, "integer")
    assert port.rounding["levels"] == list(LEVELS) and (port.rounding["low"], port.rounding["high"]) == (
        -20,
        9,
    )
    page = (tmp_path / "pack" / "CONTRACT.md").read_text()
    assert "levels -20, -6, 0, 1, 3, 4, 9" in page and "The mode rounds n + (s - a) / (b - a)" in page
    assert check.recompute(made).exit_status == 0
    result = recompute(made)
    assert result.exit_status == 0 and "fc2/Wq" in {one.port.name for one in result.ports}, result.problems


@pytest.mark.slow
def test_wrong_levels_are_seen_by_the_definition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fast code that rounds down, in whose pack the words and the mode are wrong."""
    right = UnevenWeights.store
    monkeypatch.setattr(UnevenWeights, "store", lambda self, *given: right(self, *given, rounding="to_neg"))
    made = pack.read(pack.write(layers.draft(trained(32), ["fc2"]), tmp_path / "pack"))
    wrong = {one.port.name for one in recompute(made).ports if one.wrong}
    assert "fc2/Wq" in wrong
