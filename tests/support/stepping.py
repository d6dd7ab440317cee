"""WAGEUBN on a small residual net, by the library and by the definition: images, state, options.

Used by `test_wageubn_step` and, with faults seeded into the library, by `test_seeded_faults_ops`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from intnet import methods
from intnet import spec as oracle
from intnet.datasets import Dataset
from intnet.exact.expressions import Exact
from intnet.numbers.qtensor import QTensor
from intnet.spec.methods.step import NAMES, Now, store
from intnet.spec.values import elements, to_float, with_elements
from intnet.training.train import Run
from tests.support import cases, two_worlds
from tests.support.two_worlds import Result
from tests.support.zoo import CLASSES, RESNET, SHAPE, TinyResNet

State = dict[str, Any]

JOINS = {"layer1.0": "relu1/x4", "layer2.0": "layer2.0.downsample.1/x3"}  # block -> what its branch joins


@dataclass(frozen=True)
class Case:
    """One comparison: images, state, method options; the schedules have other values in the second step."""

    seed: int = 1
    batch: int = 3
    first_step: int = 4
    e2: str = "flag8"
    edges: str = "float32"
    first: str = "layer"
    images: str = "random"
    weights: str = "random"
    lr: tuple[int, int] = (26, 13)
    dr: tuple[int, int] = (128, 64)

    def options(self) -> dict[str, Any]:
        lr, dr = (f"{first},{second}@{self.first_step + 1}" for first, second in (self.lr, self.dr))
        return {"e2": self.e2, "edges": self.edges, "first": self.first, "lr": lr, "dr": dr}

    def method(self) -> methods.Wageubn:
        return methods.Wageubn(**self.options())

    def dataset(self) -> Dataset:
        """A data set of one batch: an epoch is a step."""
        shape = (self.batch, *SHAPE)
        top = {"random": 255, "zero": 0, "faint": 1}[self.images]
        codes = cases.random_codes(self.seed + 100, int(np.prod(shape)), 0, top)
        images = np.array(codes, np.uint8).reshape(shape)
        labels = np.array(cases.random_codes(self.seed + 101, self.batch, 0, CLASSES - 1), np.int64)
        return Dataset("one batch", images, labels, images, labels, -8, CLASSES)

    def state(self) -> State:
        state = cases.net_state(RESNET, SHAPE, self.seed)
        if self.edges == "fixed16":
            state = dict(_fixed_edge(self.seed + i, *item) for i, item in enumerate(state.items()))
        if self.first == "block":
            state = dict(_float_norm(*item) for item in state.items())
        change = {"random": _same, "extreme": _extreme, "ties": _ties, "dead": _dead}[self.weights]
        return {name: change(name, value) for name, value in state.items()}


def _fixed_edge(seed: int, name: str, value: Any) -> tuple[str, Any]:
    """An edge layer's float32 parameter or momentum as one in fixed point, like a hidden layer's."""
    if isinstance(value, oracle.Fixed):
        return name, value
    momentum = "/Acc" in name
    spread, exponent = (40, -12) if momentum else (2**22, -23)
    codes = cases.random_codes(seed, len(value.values), -spread, spread)
    return name.replace("/Acc", "/Accq"), oracle.Fixed(value.shape, codes, exponent)


def _float_norm(name: str, value: Any) -> tuple[str, Any]:
    """A parameter or momentum of the first batch norm, rounded to float32."""
    if not name.startswith("bn1/"):
        return name, value
    return name.replace("/Accq", "/Acc"), to_float(value)


def _same(name: str, value: Any) -> Any:
    return value


def _extreme(name: str, value: Any) -> Any:
    """Weights at the limits of 24 bits, momenta that push them outwards, gammas up to 64."""
    if not isinstance(value, oracle.Fixed):
        return value
    sign = [1 if code % 2 else -1 for code in value.codes]
    size = {"W": 2**23 - 1, "Accq": -(2**14), "gamma": 2**29, "beta": 2**27}.get(name.split("/")[1])
    return value if size is None else value._replace(codes=[size * s for s in sign])


def _ties(name: str, value: Any) -> Any:
    """Weights, gammas and betas that are exact ties of the 8-bit grid; momenta that are ties of 13 bits."""
    if not isinstance(value, oracle.Fixed):
        return value
    step = 2 if "Accq" in name else 2**15
    small = 3 if name.endswith("/W") else 64
    return value._replace(codes=[step * (2 * (code % small) - small + 1 | 1) for code in value.codes])


def _dead(name: str, value: Any) -> Any:
    """No beta and no momentum: with black images every activation and every hidden error is zero."""
    zero = name.endswith(("/beta", "/Accq", "/Accq_beta", "/Accq_gamma", "/Acc_beta", "/Acc_gamma"))
    return with_elements(value, value.shape, [0] * len(elements(value))) if zero else value


# -- between the two worlds ---------------------------------------------------------------------


def array(value: Any) -> Any:
    """The library's value of an oracle `Fixed` or float32 `Tensor`."""
    if isinstance(value, oracle.Fixed):
        return QTensor(np.array(value.codes, np.int32).reshape(value.shape), value.exponent)
    return np.array([float(v) for v in value.values], np.float32).reshape(value.shape)


def named(state: State) -> State:
    """A state by a checkpoint's names."""
    out = {}
    for name, value in state.items():
        layer, path = name.split("/")
        slot, _, symbol = path.partition("_")
        if slot in ("Acc", "Accq"):
            out[f"{layer}.{NAMES[symbol or 'W']}.{slot}"] = value
        else:
            out[f"{layer}.{NAMES[path]}"] = value
    return out


def unrectified(event: Any) -> QTensor:
    """x3 that a ReLU read: the source of its x4, before max(., 0)."""
    source = event.source
    assert source.relu
    return Exact(source.terms, source.exponent, source.offset, source.den).to_qtensor()


# -- steps in both worlds -----------------------------------------------------------------------


def run_case(case: Case, steps: int = 1) -> list[Result]:
    """`steps` consecutive steps; each world goes on from its own state."""
    run = Run(TinyResNet(), case.method(), case.dataset(), case.batch, case.seed)
    first = named(case.state())
    run.restore({name: array(value) for name, value in first.items()}, case.first_step)
    state = {name: store(value) for name, value in first.items()}
    now, results = Now(case.seed, case.first_step), []
    for result in two_worlds.steps(run, "resnet", case.options(), now, steps, state):
        tensors = result.expected.tensors
        for block, shortcut in JOINS.items():
            name = f"{block}.relu2/x3"
            result.values[name] = unrectified(result.events[f"{block}.relu2/x4"])
            tensors[name] = oracle.add_fixed(tensors[f"{block}.bn2/x3"], tensors[shortcut])
        results.append(result)
    return results
