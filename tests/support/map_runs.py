"""Runs with maps of widths for `intnet costs`: float32's arithmetic stands in, the maps are `map_lines`'s."""

from __future__ import annotations

import dataclasses
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet.methods.float32 import Float32
from intnet.runs import run_folder
from tests.support import map_lines
from tests.support.command import here

NAMES = ["conv1", "conv2", "fc1", "fc2", "fc3"]
PER_EPOCH, STEPS, BATCH = 2, 7, 8
BLOCKS = [map_lines.made_up(NAMES, k) for k in range(STEPS // PER_EPOCH)]
IN_FORCE = [map_lines.at(BLOCKS[0], 4), *BLOCKS]
RUN = list(zip(IN_FORCE, [Fraction(1)] * 3 + [Fraction(1, 2)], strict=True))
ACTIVATIONS = {"conv2": (2, 4, 4, 2), "fc1": (2, 25), "fc2": (2, 30), "fc3": (2, 21)}  # any will do
# multiply-adds of an image of digits: taps of 5x5 windows that lie inside, along 8 and 4 pixels 5n - 2(1 + 2)
MACS = {"conv1": 34**2 * 6, "conv2": 14**2 * 6 * 16, "fc1": 64 * 120, "fc2": 120 * 84, "fc3": 840}


class StandIn(Float32):
    """float32 with a map that no product reads, drawn once."""

    name = "dynasty"

    @dataclasses.dataclass(frozen=True)
    class Options(Float32.Options):
        """forward_dynamic: as the real one's."""

        forward_dynamic: str = "activation"

    def initialize(self, layer: Any, parameter: Any, value: np.ndarray) -> None:
        super().initialize(layer, parameter, value)
        if parameter.symbol == "W":
            draw = np.random.default_rng(len(layer.name))
            shape = (-(-value.shape[0] // 4), -(-value.shape[1] // 4), *value.shape[2:])
            parameter.slots["b"] = draw.uniform(0, 8, shape).astype(np.float32)
            if layer.name in ACTIVATIONS:
                layer.buffers["b"] = draw.uniform(0, 8, ACTIVATIONS[layer.name]).astype(np.float32)


def train(
    folder: Path, method: str = "dynasty", steps: int = STEPS, model: str = "lenet5", **options: Any
) -> Path:
    """A run of digits in a folder."""
    run = run_folder.build(method, options, model, "digits", BATCH, seed=1, limit=PER_EPOCH * BATCH)
    with run_folder.create(folder, run, steps) as work:
        work.train()
    return folder


def write(folder: Path, lines: list[dict[str, Any]]) -> Path:
    """Lines after those of a run's log."""
    with open(folder / "metrics.jsonl", "a") as stream:
        stream.writelines(json.dumps(line) + "\n" for line in lines)
    return folder


def made_lines() -> list[dict[str, Any]]:
    """The lines of kind 'map' of BLOCKS."""
    return [map_lines.line(blocks, k, PER_EPOCH) for k, blocks in enumerate(BLOCKS)]


def shown(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    """What `intnet costs` tells as JSON."""
    status, out, err = here(capsys, "costs", *arguments, "--json")
    assert (status, err, out.count("\n")) == (0, "", 1)
    result: dict[str, Any] = json.loads(out)
    return result


def close(value: Fraction | float) -> object:
    """Equal but for float64's last digits."""
    return pytest.approx(float(value), rel=1e-12)


def after_epochs(folder: Path) -> list[float]:
    """Accuracy after every epoch."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line["test_accuracy"] for line in lines if line["kind"] == "epoch"]
