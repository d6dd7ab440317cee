"""AdaPT's performance model, one layer and step at a time, in exact fractions but for log2(24).

Written from equations (6) to (9) and the text of section 4.1.2 alone. A run is a list of steps, a step a
list of layers, a layer a dict: dims, ops, WL, nonzero and, for AdaPT, lb and r.
"""

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

LOG2_24 = Fraction(math.log2(24))  # the double, exactly

Layer = dict[str, Any]
Step = Sequence[Layer]


def product(dims: Iterable[int]) -> int:
    """Elements of a tensor."""
    result = 1
    for dim in dims:
        result *= dim
    return result


def sp(layer: Layer) -> Fraction:
    """Share of non-zero elements."""
    return Fraction(layer["nonzero"], product(layer["dims"]))


def training(step: Step, accs: int) -> Fraction:
    """Equation (8) of one step."""
    return Fraction(sum(layer["ops"] * (sp(layer) * layer["WL"] + Fraction(32, accs)) for layer in step))


def overhead(step: Step, accs: int) -> Fraction:
    """Equation (9) of one step; none without lookback."""
    total = Fraction(0)
    for layer in step:
        if "lb" in layer:
            down = 2 * LOG2_24 * layer["r"] * 3 * product(layer["dims"])
            up = (layer["lb"] + 1) * product(layer["dims"]) + 1
            total += 32 * (sp(layer) * down + up) / Fraction(accs * layer["lb"])
    return total


def float32(step: Step) -> list[Layer]:
    """The same step of the baseline."""
    return [e | {"WL": 32, "nonzero": product(e["dims"])} for e in step]


def speedup(
    run: Sequence[Step],
    batch: int,
    accs: int,
    base_steps: int,
    base_batch: int,
    overheads: int = 1,
    base_accs: int | None = None,
) -> Fraction:
    """bs_other * costs_other / (bs * costs), each step's overhead counted `overheads` times."""
    other = sum(training(float32(run[0]), base_accs or accs) for _ in range(base_steps))
    own = sum(training(step, accs) + overheads * overhead(step, accs) for step in run)
    return Fraction(base_batch) * other / (batch * own)


def size(run: Sequence[Step]) -> Fraction:
    """sum sp WL of the final model, over 32 a layer."""
    return Fraction(sum(sp(layer) * layer["WL"] for layer in run[-1])) / (32 * len(run[-1]))


def memory(run: Sequence[Step]) -> Fraction:
    """The mean over steps of sum (sp WL + 32), over 32 a layer."""
    total = Fraction(sum(sp(layer) * layer["WL"] + 32 for step in run for layer in step))
    return total / (len(run) * 32 * len(run[0]))


def inference(run: Sequence[Step]) -> Fraction | None:
    """float32's forward pass over the final model's; None where that has no cost."""
    own = sum(layer["ops"] * sp(layer) * layer["WL"] for layer in run[-1])
    return Fraction(32 * sum(layer["ops"] for layer in run[-1])) / own if own else None


def sparsity(step: Step) -> Fraction:
    """Share of zeros among all weights."""
    weights = sum(product(layer["dims"]) for layer in step)
    return 1 - Fraction(sum(layer["nonzero"] for layer in step), weights)
