"""WAGEUBN, figure 8: accuracy over batch size, of the full 8-bit version and of float32.

Every batch size sees the same images, so the smaller ones take more steps; learning rates and momentum stay
(26 * 2^-9, in the last epoch 6 * 2^-9; 3 * 2^-2), of float32 too. The paper's are of ResNet18 on ImageNet.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from intnet.methods.method import Method
from intnet.methods.wageubn import Wageubn
from intnet.papers import training
from intnet.papers.check import Check, Result, Sizes, Task
from intnet.papers.single_path import SinglePath
from intnet.papers.training import Arm
from intnet.show.pictures import picture, wrapped
from intnet.show.tables import Column, Table, numbers

BATCHES = (128, 64, 32, 16)  # figure 8 runs from 128 to 16


def run(task: Task) -> Result:
    """Train both at every size."""
    epochs = task.training.epochs
    methods: dict[str, Callable[[], Method]] = {
        "float32": partial(SinglePath, lr=training.lr_codes(epochs, training.LR_UNIT)),
        "wageubn": partial(Wageubn, lr=training.lr_codes(epochs)),
    }
    arms = [Arm(f"{name}-batch{size}", make, size) for name, make in methods.items() for size in BATCHES]
    found = training.train(task, arms)
    rows: list[tuple[Any, ...]] = []
    for size in BATCHES:
        told = [training.means(found[f"{name}-batch{size}"]) for name in methods]
        steps = epochs * -(-task.training.limit // size)
        (plain, low, high, _), (full, least, most, _) = told
        gap = None if plain is None or full is None else 100 * (full - plain)
        rows.append((size, steps, plain, low, high, full, least, most, gap))
    names = ("float32", "its least", "its most", "wageubn", "least", "most")
    ends = numbers("steps", spec=","), numbers("difference", spec="+.2f")
    columns = (Column("batch"), *ends[0], *numbers(*names, spec=".2%"), *ends[1])
    seeds = task.training.seeds
    return Result(
        training.about_arms(task.training, None),
        [Table("accuracy over batch size (figure 8)", columns, rows)],
        [*training.broken_off(found, seeds), *_remarks(rows)],
    )


def _remarks(rows: list[tuple[Any, ...]]) -> list[str]:
    told = [
        "Figure 8 is drawn; of its numbers the text has none that can be placed. In words: from 128 to 16 "
        "float32 hardly falls, full 8 bits fall clearly, and only at 16.",
    ]
    ends = [rows[0][2], rows[-1][2], rows[0][5], rows[-1][5]]
    if None not in ends:
        float_change, own_change = 100 * (ends[1] - ends[0]), 100 * (ends[3] - ends[2])
        told.append(
            f"Here, from {BATCHES[0]} to {BATCHES[-1]}: float32 {float_change:+.2f} points, wageubn "
            f"{own_change:+.2f}. So short a training gains by more steps, which hides what small batches "
            "cost; what can be compared is the difference in a row."
        )
    return told


def draw(stream: BinaryIO, file: Path, source: str, result: Result) -> None:
    """Figure 8: accuracy over batch size, with the range of the seeds."""
    (table,) = result.tables
    with picture(stream, file, (6.5, 4.5)) as figure:
        axis = figure.subplots()
        axis.set_title(wrapped(f"{source}: {result.setting}", 90), fontsize=8)
        batches = table.column("batch")
        columns = (("float32", "its least", "its most"), ("wageubn", "least", "most"))
        for names, mark in zip(columns, ("o", "s"), strict=True):
            at = [i for i, mean in enumerate(table.column(names[0])) if mean is not None]
            mean, low, high = ([100 * table.column(name)[i] for i in at] for name in names)
            below = [m - x for m, x in zip(mean, low, strict=True)]
            above = [x - m for m, x in zip(mean, high, strict=True)]
            axis.errorbar(at, mean, (below, above), marker=mark, capsize=3, label=names[0])
        axis.set_xticks(range(len(batches)), [str(size) for size in batches])
        axis.set_xlabel("batch size")
        axis.set_ylabel("test accuracy, %")
        axis.grid(alpha=0.3)
        axis.legend()


CHECK = Check(
    "accuracy over batch size, full 8 bits beside float32",
    "WAGEUBN, section IV-D, figure 8",
    "6 minutes",
    run,
    Sizes("resnet20", "fashion-mnist", 10000, 4),
    many_runs=True,
    draw=draw,
)
