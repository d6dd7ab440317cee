"""MuPPET's training speed-up and memory, as AdaPT's papers list them, by AdaPT's performance model.

AdaPT's authors priced MuPPET by their own model (`papers/costs/adapt_costs.py`) from the epochs at which it
switches: of AlexNet on CIFAR-10 those that MuPPET's paper prints, of ResNet-20 those in the analytics that
AdaPT's authors published with their program. For a dense network of one word length, trained as long as its
baseline, (8) with accs = 1 and MEM depend on the mean WL over epochs alone:

    SU = 64 / (mean WL + 32)        MEM = (mean WL + 32) / 32        SU * MEM = 2

whatever the network is. So one published figure gives the mean WL, and the other one tests it.
"""

from collections.abc import Sequence
from typing import Any

from intnet import models
from intnet.papers.checks.check import Check, Result, Task, agrees
from intnet.papers.costs import adapt_costs
from intnet.show.tables import Cell, Column, Table, numbers

SCHEDULES = {  # on CIFAR-10: (epochs, WL)
    "AlexNet": ((16, 8), (10, 12), (14, 14), (14, 16), (45, 32)),
    "ResNet-20": ((22, 8), (22, 12), (10, 14), (15, 16), (45, 32)),
}
# first version, table 3, columns MEM and SU^3, rows of MuPPET; epochs trained: table 2, superscripts
PUBLISHED = {"AlexNet": (1.66, 1.20, 99), "ResNet-20": (1.61, 1.25, 114)}
BASELINE_EPOCHS = 150  # first version, table 2: of MuPPET's own float32 runs
# the same table: AdaPT over MuPPET's baseline, SU^3; the mean of its ratio to MuPPET's is printed in
# sec. 4.2.1 of the peer-reviewed version only
ADAPT_SU3 = {"AlexNet": 6.42, "ResNet-20": 4.01}
MEAN_RATIO = 4.26
NETS = {"AlexNet": "alexnet", "ResNet-20": "resnet20"}
HALF = 0.005  # of the last printed digit


def run(task: Task) -> Result:
    """Price the schedule; solve the published figures for the mean word length."""
    priced = _priced()
    told = (
        f"{net}: " + ", ".join(f"{epochs} at {wl} bits" for epochs, wl in schedule)
        for net, schedule in SCHEDULES.items()
    )
    return Result(
        "epochs on CIFAR-10: " + "; ".join(told),
        [priced, _solved(), _ratios()],
        REMARKS,
        agrees(priced.column("intnet")[0], PUBLISHED["AlexNet"][1], 2),
    )


REMARKS = (
    "AlexNet's MEM of 1.6654 rounds to 1.67 where 1.66 is printed. ResNet-20's schedule has a mean WL of "
    "19.82; its printed figures need one from 19.36 to 19.41.",
    "The published SU needs a baseline that trains as long as MuPPET does; over MuPPET's own 150 epochs it "
    "would be 1.82 and 1.62. (8) takes the backward pass as 32 bits, MuPPET's quantized gradients too.",
    "MEM of the peer-reviewed version, 3.64 and 3.44, is 1 + 4 mean(WL)/32: `adapt-costs` has it.",
    "Not published, so not recomputed: MuPPET's own speed-ups, which come from a model that is not public. "
    "SU^3 of AdaPT, over MuPPET's baseline: `adapt-costs` has it.",
)


def _priced() -> Table:
    rows: list[Sequence[Cell]] = []
    for net, model in NETS.items():
        mem, su, epochs = PUBLISHED[net]
        sizes = adapt_costs.layer_sizes(models.make(model, (32, 32, 3), 10))
        history = adapt_costs.dense(sizes, SCHEDULES[net])
        own = adapt_costs.summary(history, adapt_costs.float32(sizes, history.steps))
        longer = adapt_costs.summary(history, adapt_costs.float32(sizes, BASELINE_EPOCHS))
        rows += [
            (net, "SU", own["speedup"], su, epochs),
            (net, "SU, 150 epochs", longer["speedup"], None, BASELINE_EPOCHS),
            (net, "MEM", own["memory"], mem, epochs),
        ]
    names = map(Column, ("network", "figure"))
    columns = (*names, Column("intnet", ".4f"), Column("paper", ".2f"), Column("baseline epochs"))
    return Table("the published schedules, priced (table 3; the layers cancel out)", columns, rows)


def _solved() -> Table:
    rows: list[Sequence[Cell]] = []
    for net, (mem, su, epochs) in PUBLISHED.items():
        by_mem = [32 * (mem + sign * HALF) - 32 for sign in (-1, 1)]
        by_su = [64 / (su - sign * HALF) - 32 for sign in (-1, 1)]
        both = max(by_mem[0], by_su[0]), min(by_mem[1], by_su[1])
        rows.append((net, epochs, *sorted(by_mem), *sorted(by_su), both[0] <= both[1]))
    columns = (
        *map(Column, ("network", "epochs")),
        *numbers("by MEM, from", "to", "by SU, from", "up to", spec=".2f"),
        Column("overlap"),
    )
    return Table("mean WL that the published figures, +-0.005, imply", columns, rows)


def _ratios() -> Table:
    ratios = [ADAPT_SU3[net] / su for net, (_, su, _) in PUBLISHED.items()]
    rows: list[tuple[Any, ...]] = [
        (net, ADAPT_SU3[net], PUBLISHED[net][1], r) for net, r in zip(PUBLISHED, ratios, strict=True)
    ]
    adapt, muppet = (sum(row[i] for row in rows) / len(rows) for i in (1, 2))
    rows += [
        ("mean of the ratios", None, None, sum(ratios) / len(ratios)),
        ("ratio of the means", adapt, muppet, adapt / muppet),
        ("mean, as printed", None, None, MEAN_RATIO),
    ]
    columns = (Column("network"), *numbers("AdaPT SU^3", "MuPPET SU^3", "ratio", spec=".2f"))
    return Table("AdaPT over MuPPET, both as published", columns, rows)


CHECK = Check(
    "speed-up and memory of MuPPET by AdaPT's performance model",
    "AdaPT, first version, section 4.1.2, table 3 (MuPPET's rows); peer-reviewed, section 4.2.1, table 2",
    "seconds",
    run,
)
