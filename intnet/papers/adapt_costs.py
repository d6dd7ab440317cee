"""AdaPT's cost tables: what can be recomputed of SU, MEM and SZ from what is printed.

The word lengths that AdaPT chose are drawn (figures 3 to 5), not listed, so its tables cannot be computed
from their inputs. Three things can:

    means       the abstract's averages from the tables' rows
    one width   where all layers were alike, MEM gives the mean of sp*WL, and with it SU without overhead
                (8); SZ gives it for the final model, and with it the speed-up of inference
    overhead    (6), (7), (9) for real networks, at that mean width and at the ends of lookback

The gap between `one width` and the paper is what the layers' differences and the overhead come to.
"""

from functools import partial
from typing import Any

from intnet import models
from intnet.costs import adapt_costs
from intnet.papers.check import Check, Result, Task, agrees
from intnet.show.tables import Column, Table, numbers

# first version, tables 3, 4 (training: MEM, SU^1), 6 (inference: SZ, SU), 5 (final sparsity), CIFAR
FIRST: dict[str, tuple[float, float, float, float, float]] = {
    "AlexNet, CIFAR-10": (1.47, 1.42, 0.54, 3.56, 0.26),
    "ResNet-20, CIFAR-10": (1.63, 1.20, 0.60, 1.63, 0.07),
    "AlexNet, CIFAR-100": (1.41, 1.32, 0.36, 2.60, 0.44),
    "ResNet-20, CIFAR-100": (1.66, 1.13, 0.57, 1.52, 0.07),
}
# peer-reviewed version: rows that only it has, table 4 (SZ, SU), table 3 (final sparsity)
LATER = {
    "AlexNet, EMNIST": (0.35, 2.98, 0.21),
    "ResNet-20, EMNIST": (0.62, 1.46, 0.06),
    "LeNet-5, MNIST": (0.52, 2.18, 0.08),
}
GAINS = (1.4, 0.5, 1.1, 0.9)  # first version, tables 1, 2: accuracy over float32, in the order of FIRST
# first version, abstract
AVERAGES = {"SU, training": 1.27, "accuracy, points": 0.98, "SU, inference": 2.33, "SZ": 0.52}

# sec. 4.1.1 and the peer-reviewed version's sec. 4.1
BATCH, LOOKBACK, RESOLUTION = 512, (25, 100), 50
NETS = ("resnet20", "alexnet")
WIDTHS = {"resnet20": "ResNet-20, CIFAR-10", "alexnet": "AlexNet, CIFAR-10"}


def run(task: Task) -> Result:
    """All tables."""
    means = _averages()
    return Result(
        "published figures of AdaPT, and what follows from them",
        [means, _training(), _inference(), _overheads()],
        REMARKS,
        all(map(partial(agrees, digits=2), means.column("of the tables"), means.column("abstract"))),
    )


REMARKS = (
    "Not published, so not recomputed: WL, FL, sparsity, lookback and resolution of every layer and step, "
    "and the accumulation steps of each experiment; with them `intnet costs RUN` computes SU, SZ and MEM.",
    "SU above that of one width: the layers with many multiply-adds had shorter words, or gradients were "
    "accumulated (accs > 1). Below it: longer words there, or overhead.",
    "SZ and MEM count every layer as equally large; SU weighs layers by their multiply-adds.",
    "The peer-reviewed version lists other values under MEM (1.94, 2.26, 1.82 where the first has 1.47, "
    "1.63, 1.41) with the same SU; by (8) MEM 1.94 would leave SU at 1.03, so it counts something more.",
    "As printed, (9) is multiplied by the batch size: every image pays for the switch of its step. With "
    "batch 512 and accs 1, AlexNet's training would be 3 to 11 times slower than float32's, and its 1.42 "
    "cannot come out of that; counted once a step the overhead is 1 to 3 % of AlexNet's training.",
    "The versions differ in ResNet-20 on CIFAR-100: SU 1.13 in the first, 1.26 in the later one.",
)


def _averages() -> Table:
    _, su, sz, inference, _ = zip(*FIRST.values(), strict=True)
    columns = (Column("average"), Column("of the tables", ".4f"), Column("abstract", ".2f"))
    rows = [
        (name, sum(values) / len(values), printed)
        for (name, printed), values in zip(AVERAGES.items(), (su, GAINS, inference, sz), strict=True)
    ]
    return Table("averages of the abstract", columns, rows)


def _training() -> Table:
    rows = [(name, mem, 32 * (mem - 1), 2 / mem, su) for name, (mem, su, *_) in FIRST.items()]
    names = ("MEM, paper", "mean sp*WL", "SU of one width", "SU, paper")
    columns = (Column("run"), *numbers(*names, spec=".2f"))
    return Table("training, had all layers been alike (tables 3, 4)", columns, rows)


def _inference() -> Table:
    published = {name: last for name, (_, _, *last) in FIRST.items()} | LATER
    rows = [
        (name, sz, zeros, 32 * sz, 32 * sz / (1 - zeros), 1 / sz, su)
        for name, (sz, su, zeros) in published.items()
    ]
    names = ("SZ, paper", "zeros, paper", "mean sp*WL", "mean WL", "SU of one width", "SU, paper")
    columns = (Column("final model"), *numbers(*names, spec=".2f"))
    return Table("inference, had all layers been alike (tables 5, 6; later 3, 4)", columns, rows)


def _overheads() -> Table:
    rows: list[tuple[Any, ...]] = []
    for net in NETS:
        sizes = adapt_costs.layer_sizes(models.make(net, (32, 32, 3), 10))
        mem, su, *_ = FIRST[WIDTHS[net]]
        width = round(32 * (mem - 1))
        for lookback in LOOKBACK:
            history = adapt_costs.dense(sizes, [(1, width)], BATCH, switch=(lookback, RESOLUTION))
            own = adapt_costs.summary(history, adapt_costs.float32(sizes, 1, BATCH))
            names = ("speedup_without_overhead", "speedup", "speedup_per_image")
            figures = (own[name] for name in names)
            rows.append((net, width, lookback, *figures, su))
    columns = (
        *map(Column, ("network", "WL", "lookback")),
        *numbers("SU, no overhead", "once a step", "as printed", spec=".3f"),
        Column("paper", ".2f"),
    )
    return Table(
        f"the precision switch by (6), (7), (9): r = {RESOLUTION}, batch {BATCH}, accs 1, dense, 32x32x3, "
        "WL the mean sp*WL above",
        columns,
        rows,
    )


CHECK = Check(
    "what follows from AdaPT's published speed-ups and sizes",
    "AdaPT, first version, abstract, section 4.1.2, tables 1 to 6; peer-reviewed version, tables 2 to 4",
    "seconds",
    run,
)
