"""WAGEUBN, table II: the accuracy that one quantized path costs, the rest and the update in float32.

Every path of `single_path.py` trains the same network on the same images for as long, and so do float32, the
method as a whole and its 16-bit E2 version, by learning rates 26 * 2^-9 and in the last two epochs 6 and
2 * 2^-9. The paper's figures are of ResNet18 on ImageNet.
"""

import itertools
from functools import partial
from typing import Any, Literal

from intnet.methods.wageubn import Wageubn
from intnet.papers.checks import training
from intnet.papers.checks.check import Check, Result, Sizes, Task
from intnet.papers.checks.single_path import SinglePath
from intnet.papers.checks.training import Arm, Outcome
from intnet.show.tables import Column, Table, numbers

# what is quantized -> (arm, top-1, top-5, where), top-1 and top-5 in per cent on ImageNet, ResNet18
PUBLISHED: dict[str, tuple[str, float | None, float | None, str]] = {
    "nothing": ("none", 68.70, 88.37, "table I"),
    "kW = 8": ("w", 67.98, 88.02, "table II"),
    "kBN = 8": ("bn", 68.01, 87.96, "table II"),
    "kA = 8": ("a", 67.74, 87.89, "table II"),
    "kGW = 8": ("gw", 67.88, 87.89, "table II"),
    "kE1 = 8": ("e1", 67.88, 87.92, "table II"),
    "kE2 = 8, flag": ("e2-flag8", 67.08, 87.44, "table II"),
    "kE2 = 16": ("e2-16", None, None, "not given"),
    "kE2 = 8, SQ": ("e2-8", None, None, "IV-E: fails"),
    "all, kE2 = 16": ("wageubn-e2-16", 67.40, 87.63, "table I"),
    "all, kE2 = 8, flag": ("wageubn", 64.79, 85.81, "table I"),
}
TABLE_2 = [what for what, (_, _, _, where) in PUBLISHED.items() if where == "table II"]
WHOLE: dict[str, Literal["flag8", "16"]] = {"wageubn-e2-16": "16", "wageubn": "flag8"}  # arm -> its e2


def arms(epochs: int) -> list[Arm]:
    """All rows, in order."""
    rates, codes = training.lr_codes(epochs, training.LR_UNIT), training.lr_codes(epochs)
    names = [arm for arm, _, _, _ in PUBLISHED.values()]
    paths = [Arm(name, partial(SinglePath, path=name, lr=rates)) for name in names if name not in WHOLE]
    return [*paths, *(Arm(name, partial(Wageubn, e2=e2, lr=codes)) for name, e2 in WHOLE.items())]


def run(task: Task) -> Result:
    """Train all arms."""
    found = training.train(task, arms(task.training.epochs))
    rows = [_row(what, found) for what in PUBLISHED]
    columns = (
        Column("quantized"),
        *numbers("accuracy", "top-5", spec=".2%"),
        *(Column("to float32", "+.2f"), Column("error", ".2f"), Column("last loss", ".4f")),
        *numbers("paper: top-1", "paper: top-5", spec=".2f"),
        Column("top-1 to float32", "+.2f"),
        Column("place"),
    )
    seeds = task.training.seeds
    table = Table("accuracy with one path quantized (table II)", columns, rows)
    remarks = [*training.broken_off(found, seeds), *_remarks(table, len(seeds))]
    return Result(training.about_arms(task.training), [table], remarks)


def _row(what: str, found: dict[str, list[Outcome]]) -> tuple[Any, ...]:
    arm, top_1, top_5, where = PUBLISHED[what]
    accuracy, _, _, loss = training.means(found[arm])
    fives = [one.top5 for one in found[arm] if one.top5 is not None]
    own_5 = training.mean(fives) if len(fives) == len(found[arm]) else None
    own, error = training.apart(found[arm], found["none"])
    theirs = None if top_1 is None else top_1 - (PUBLISHED["nothing"][1] or 0.0)
    return what, accuracy, own_5, own, error, loss, top_1, top_5, theirs, where


def _remarks(table: Table, seeds: int) -> list[str]:
    rows = table.column("quantized")
    ours, theirs = (dict(zip(rows, table.column(name), strict=True)) for name in ("accuracy", "paper: top-1"))
    known = [what for what in TABLE_2 if ours[what] is not None]
    told = [
        "accuracy, top-5: means over the seeds; to float32: points of accuracy from the first row; error: "
        "the standard error of those points over the seeds; last loss: mean training loss of the last epoch."
        + (" One seed: differences within a point are chance." if seeds == 1 else "")
    ]
    if len(known) == len(TABLE_2):
        here, there = (sorted(known, key=of.__getitem__) for of in (ours, theirs))
        pairs = [(a, b) for a, b in itertools.combinations(known, 2) if theirs[a] != theirs[b]]
        alike = sum((ours[a] - ours[b]) * (theirs[a] - theirs[b]) > 0 for a, b in pairs)
        told.append(
            f"Lowest of table II: {there[0]} in the paper, {here[0]} here. Highest: {there[-1]} there, "
            f"{here[-1]} here. In the paper's order: {alike} of {len(pairs)} pairs."
        )
    return [
        *told,
        "The paper: errors are the most sensitive data, e3 above all; 8-bit SQ at e3 keeps large networks "
        "from converging. Its differences are 0.7 to 1.6 points, of ImageNet.",
    ]


CHECK = Check(
    "accuracy with one data path quantized and the rest in float32",
    "WAGEUBN, section IV-D, table II",
    "10 minutes",
    run,
    Sizes("resnet20", "fashion-mnist", 10000, 4),
    many_runs=True,
)
