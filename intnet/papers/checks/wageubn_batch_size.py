"""WAGEUBN, figure 8: accuracy over batch size, of the full 8-bit version and of float32.

Every batch size sees the same images, so the smaller ones take more steps; learning rates and momentum stay
(26 * 2^-9, in the last two epochs 6 and 2 * 2^-9; 3 * 2^-2), of float32 too. The paper's are of ResNet18 on
ImageNet.

The paper's integers have no running statistics, its float32 has: one reason that it gives for the fall at 16.
So every net is tested twice: by running statistics, and by the test batch's own, in batches as large as
training's. No training differs by that, as none reads running statistics.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from intnet.methods.method import Method
from intnet.methods.wageubn import Wageubn
from intnet.papers.checks import training
from intnet.papers.checks.check import Check, Result, Sizes, Task
from intnet.papers.checks.single_path import SinglePath
from intnet.papers.checks.training import Arm, Outcome
from intnet.show.pictures import picture, wrapped
from intnet.show.tables import Column, Table, numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BATCHES = (128, 64, 32, 16)  # figure 8 runs from 128 to 16


RUNNING, OWN = "by running statistics", "by the test batch's own, of the training's size"


def run(task: Task) -> Result:
    """Train both at every size."""
    epochs = task.training.epochs
    methods: dict[str, Callable[[], Method]] = {
        "float32": partial(SinglePath, lr=training.lr_codes(epochs, training.LR_UNIT)),
        "wageubn": partial(Wageubn, lr=training.lr_codes(epochs)),
    }
    arms = [
        Arm(f"{name}-batch{size}", make, size, own_statistics=True)
        for name, make in methods.items()
        for size in BATCHES
    ]
    found = training.train(task, arms)
    own = {name: [replace(one, accuracy=one.own_accuracy) for one in each] for name, each in found.items()}
    tables = [_table(task, how, made) for how, made in ((RUNNING, found), (OWN, own))]
    return Result(
        training.about_arms(task.training, None),
        tables,
        [*training.broken_off(found, task.training.seeds), *_remarks(tables)],
    )


def _table(task: Task, how: str, found: dict[str, list[Outcome]]) -> Table:
    """Accuracy over batch size by one kind of statistics."""
    rows: list[tuple[Any, ...]] = []
    for size in BATCHES:
        both = [found[f"{name}-batch{size}"] for name in ("float32", "wageubn")]
        steps = task.training.epochs * -(-task.training.limit // size)
        (plain, low, high, _), (full, least, most, _) = map(training.means, both)
        rows.append((size, steps, plain, low, high, full, least, most, *training.apart(both[1], both[0])))
    names = ("float32", "its least", "its most", "wageubn", "least", "most")
    ends = Column("difference", "+.2f"), Column("its error", ".2f")
    columns = (Column("batch"), Column("steps", ","), *numbers(*names, spec=".2%"), *ends)
    return Table(f"accuracy over batch size (figure 8), {how}", columns, rows)


def _remarks(tables: list[Table]) -> list[str]:
    told = [
        "Figure 8 is drawn; of its numbers the text has none that can be placed. In words: from 128 to 16 "
        "float32 hardly falls, full 8 bits fall clearly, and only at 16; one reason is said to be that they "
        "have no running statistics.",
    ]
    pair = tables[0].column("float32"), tables[1].column("wageubn")
    if None not in (*pair[0], *pair[1]):
        gaps = (f"{100 * (own - theirs):+.2f}" for theirs, own in zip(*pair, strict=True))
        told.append(
            "As the paper has it, float32 by running statistics and wageubn by the batch's own, they differ "
            f"by {', '.join(gaps)} points from {BATCHES[0]} down to {BATCHES[-1]}."
        )
    for how, table in zip((RUNNING, OWN), tables, strict=True):
        ends: list[Any] = [
            *table.column("float32")[:: len(BATCHES) - 1],
            *table.column("wageubn")[:: len(BATCHES) - 1],
        ]
        if None not in ends:
            told.append(
                f"Here, {how}, from {BATCHES[0]} to {BATCHES[-1]}: float32 {100 * (ends[1] - ends[0]):+.2f} "
                f"points, wageubn {100 * (ends[3] - ends[2]):+.2f}."
            )
    if len(told) > 1:
        told.append(
            "So short a training gains by more steps, which hides what small batches cost; what can be "
            "compared is the difference in a row, and a row of one table with that of the other."
        )
    return told


def draw(stream: BinaryIO, file: Path, source: str, result: Result) -> None:
    """Figure 8: accuracy over batch size, with the range of the seeds; a panel a table."""
    with picture(stream, file, (11.0, 4.5)) as figure:
        figure.suptitle(wrapped(f"{source}: {result.setting}", 150), fontsize=8)
        panels = figure.subplots(1, 2, sharey=True)
        for axis, how, table in zip(panels, (RUNNING, OWN), result.tables, strict=True):
            axis.set_title(how, fontsize=9)
            _lines(axis, table)
        panels[0].set_ylabel("test accuracy, %")


def _lines(axis: "Axes", table: Table) -> None:
    """Both methods, a mark a size."""
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
