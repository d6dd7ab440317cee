"""AdaPT and MuPPET by the library and by the definition: what is trained, and from which state.

Used by `test_adapt_step`, `test_muppet` and, with faults seeded into the library, by
`test_seeded_faults_moving`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from intnet import methods
from intnet.numbers.qtensor import QTensor
from intnet.spec.methods.step import Now, value_of
from intnet.training.train import Run
from tests.support import two_worlds
from tests.support.opcheck import floating
from tests.support.two_worlds import Result, begun, numbers, unsettle


@dataclass(frozen=True)
class Case:
    """`options` of the method; `start` sets state: of AdaPT's layers '<layer>/window' and '<layer>/precision'
    ('*' for all), a factor of random 'G' and their 'norms', of the whole net by name. `per_epoch`: steps an
    epoch. `lr`: of the first epoch, then.
    """

    method: str
    net: str = "mlp"
    seed: int = 1
    batch: int = 3
    first_step: int = 4
    per_epoch: int = 1
    lr: tuple[float, float] = (0.1, 0.03)
    options: dict[str, Any] = field(default_factory=dict)
    start: dict[str, Any] = field(default_factory=dict)
    images: str = "digits"

    def __str__(self) -> str:
        return f"{self.method}-{self.net}-{self.seed}"

    def given(self) -> dict[str, Any]:
        """The options in both worlds, whatever the method's own defaults are."""
        usual = {"eps": 0.0, "l1": 1e-8, "l2": 1e-4} if self.method == "adapt" else {"weight_decay": 1e-4}
        rates = f"{self.lr[0]},{self.lr[1]}@{self.first_step // self.per_epoch + 1}"
        return {"lr": rates} | usual | self.options


def prepared(case: Case) -> Run:
    """A run whose biases, gammas and betas are not what they start with, at the case's step and state."""
    method, black = methods.make(case.method, **case.given()), case.images == "black"
    run = begun(case.net, method, case.seed, case.batch, case.batch * case.per_epoch, black)
    if not black:
        unsettle(run)
    for i, (_, _, parameter) in enumerate(run.model.all_parameters()):
        if parameter.symbol == "W" and "G" in case.start:
            parameter.slots["G"] = np.float32(case.start["G"]) * floating(i, parameter.shape, -2)
        if parameter.symbol == "W" and "norms" in case.start:
            parameter.slots["norms"] = np.array([case.start["norms"]], np.float32)
    for layer in run.model.all_layers():
        for key in ("window", "precision"):
            value = case.start.get(f"{layer.name}/{key}", case.start.get(f"*/{key}"))
            if value is not None and key in layer.buffers:
                layer.buffers[key] = QTensor(np.array(value, np.int32), 0)
    for name in method.state:
        if name in case.start:
            value, old = case.start[name], method.state[name]
            method.state[name] = (
                QTensor(np.array([value], np.int32), 0)
                if isinstance(old, QTensor)
                else np.array(value, np.float32)
            )
    method.set(step=case.first_step, epoch=case.first_step // case.per_epoch)
    return run


def run_case(case: Case, steps: int = 1) -> list[Result]:
    """`steps` consecutive steps; each world goes on from its own state."""
    now = Now(case.seed, case.first_step, case.per_epoch)
    return list(two_worlds.steps(prepared(case), case.net, case.given(), now, steps))


def kept(result: Result) -> dict[str, list[Fraction]]:
    """The numbers of the library's state."""
    return {name: numbers(value_of(value)) for name, value in result.state.items()}
