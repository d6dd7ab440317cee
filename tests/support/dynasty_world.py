"""DYNASTY by the library and by the definition: what is trained, its blocks and maps, and where they differ.

Used by `test_dynasty_step` and, with faults seeded into the library, by `test_seeded_faults_dynasty`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from intnet import methods
from intnet.exact.blocks.block_float import BlockTensor, quantize_blocks
from intnet.methods import dynasty as library
from intnet.spec.block_float import Blocks
from intnet.spec.methods.step import Now
from intnet.training.train import Run
from tests.support import blocks, map_digits, two_worlds
from tests.support.two_worlds import Result, begun, unsettle

CLOSE = 1e-6  # of what is told of a map, which comes from logarithms


@dataclass(frozen=True)
class Case:
    """`full` batches of `batch` images and one of `short`, an epoch; `options` of the method."""

    net: str = "mlp"
    seed: int = 1
    batch: int = 5
    full: int = 2
    short: int = 0
    epochs: int = 2
    lr: tuple[float, float] = (0.1, 0.03)
    options: dict[str, Any] = field(default_factory=dict)
    images: str = "digits"
    zero: str = ""  # a weight layer whose weights start at 0

    def __str__(self) -> str:
        more = ",".join(f"{key}={value}" for key, value in self.options.items())
        return f"{self.net}-{self.seed}-{self.batch}x{self.full}+{self.short}-{more}{self.images}{self.zero}"

    @property
    def steps_per_epoch(self) -> int:
        return self.full + bool(self.short)

    def given(self) -> dict[str, Any]:
        """The options in both worlds."""
        return {"lr": f"{self.lr[0]},{self.lr[1]}@1", "weight_decay": 1e-4} | self.options


def prepared(case: Case) -> Run:
    """A run whose biases, gammas and betas are not what they start with; some weights are zero."""
    n, black = case.batch * case.full + case.short, case.images == "black"
    run = begun(case.net, methods.Dynasty(**case.given()), case.seed, case.batch, n, black)
    if not black:
        unsettle(run)
    for _, layer, parameter in run.model.all_parameters():
        if parameter.symbol == "W":
            parameter.value = parameter.value.copy()
            parameter.value[4:8, :4] = 0  # a block of zeros where there are two
            parameter.value[:4, -1:] *= np.float32(2.0**-60)
            parameter.value *= np.float32(layer.name != case.zero)
    return run


# -- steps in both worlds --------------------------------------------------------------------------


@contextmanager
def recorded() -> Iterator[dict[str, BlockTensor]]:
    """Every block tensor that the method makes, by 'layer/path'."""
    made: dict[str, BlockTensor] = {}

    def note(x: np.ndarray, bits: int | np.ndarray, axes: tuple[int, int], where: str = "") -> BlockTensor:
        made[where] = quantize_blocks(x, bits, axes, where)
        return made[where]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "quantize_blocks", note)
        yield made


def run_case(case: Case) -> list[Result]:
    """All steps of a case's epochs."""
    return list(steps_of(case))


def steps_of(case: Case) -> Iterator[Result]:
    """The same, one by one."""
    now, count = Now(case.seed, 0, case.steps_per_epoch), case.epochs * case.steps_per_epoch
    taken = two_worlds.steps(prepared(case), case.net, case.given(), now, count)
    for _ in range(count):
        with recorded() as made:
            result = next(taken)
        result.blocks = made
        yield result


# -- where they differ -----------------------------------------------------------------------------


def differences(result: Result) -> list[str]:
    """The names of all that differ, or that one world lacks: blocks too, and what is told of a new map."""
    bad = two_worlds.differences(result)
    for name, want in result.expected.tensors.items():
        if isinstance(want, Blocks):
            got = result.blocks.get(name)
            bad += [f"{name} {part}" for part in (blocks.differences(got, want) if got else ["no blocks"])]
    told = dict(result.report.map)
    late = ["seconds"] * (told.pop("seconds", 0.0) < 0)
    return bad + _told("map", told, map_digits.told(result.expected)) + late


def _told(name: str, got: Any, want: Any) -> list[str]:
    """Where two records differ: numbers by more than CLOSE of them."""
    if isinstance(want, dict) and isinstance(got, dict) and got.keys() == want.keys():
        return [bad for key in want for bad in _told(f"{name} {key}", got[key], want[key])]
    if isinstance(want, list) and isinstance(got, list) and len(got) == len(want):
        pairs = enumerate(zip(got, want, strict=True))
        return [bad for i, (a, b) in pairs for bad in _told(f"{name} {i}", a, b)]
    same = type(got) is type(want) and not isinstance(want, dict | list)
    if same and (got == want or (isinstance(want, float) and abs(got - want) <= CLOSE * abs(want) + 1e-300)):
        return []
    return [f"{name}: {got} is not {want}"]
