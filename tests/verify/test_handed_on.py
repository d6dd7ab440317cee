"""What readers of a path get is what it holds, number by number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet import datasets, methods, models
from intnet.methods import symbols
from intnet.methods.float32 import Float32
from intnet.methods.method import to_float32
from intnet.numbers.formats import Shift
from intnet.training.train import Run
from intnet.verify import taken, text
from intnet.verify.row import DIFFERS, Options
from intnet.verify.tasks import Step
from tests.support.command import forgotten


def test_all_numbers_that_are_handed_on_otherwise_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What readers get is half of what the path holds: wherever that is not 0."""
    with forgotten(tmp_path):

        @methods.register("halved")
        class Halved(Float32):
            SYMBOLS = symbols.FLOAT32 | {"gWq": symbols.Symbol("backward", "gW q", ("gW",))}

            def gradient(self, layer: Any, parameter: Any, value: Any) -> Any:
                g = super().gradient(layer, parameter, value)
                if layer.edge or parameter.symbol != "W":
                    return g
                return to_float32(self.store(layer, "gWq", g, Shift(8))) * np.float32(0.5)

        run = Run(models.mlp((8, 8, 1), 10), Halved(), datasets.load("digits").first(64), 16, 1)
        found = taken.take(run, 1, lambda run, steps: run.train(steps))
        event = next(one for one in found.record.events if (one.layer, one.path) == ("fc2", "gWq"))
        held = np.count_nonzero(event.result.codes)
        row = next(
            row for row in Step(found, Options(40)).rows("fc2") if row.path == "gWq" and row.state == DIFFERS
        )
        assert row.differing == held > 3
        text._difference([row])
        told = capsys.readouterr().out
        assert (
            f"first: fc2/gWq: {held:,} " in told
            and "what readers get (stored) is not what the path holds" in told
        )
