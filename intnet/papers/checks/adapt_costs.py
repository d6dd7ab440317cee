"""AdaPT's cost tables: what can be recomputed of SU, MEM and SZ from what is printed.

The word lengths that AdaPT chose are drawn (figures 3 to 5), not listed, so its tables cannot be computed
from their inputs. Five things can:

    means       the abstracts' averages from the tables' rows
    MEM         the peer-reviewed version's from the first one's: MEM = 1 + k mean(sp WL)/32, k = 2 of AdaPT,
                whose copy and accumulated gradient are counted, 4 of MuPPET; the first version has k = 1
    one width   where all layers were alike, MEM gives the mean of sp*WL, and with it SU without overhead
                (8); SZ gives it for the final model, and with it the speed-up of inference
    SU^3        over MuPPET's baseline, from SU^1: with q the cost of the quantized passes and switches, f of
                one float32 pass, SU^1 = 2f / (q + f), and SU^3 = (150/100) 2f / (q + f (128/512) / accs), by
                the authors' analytics; accs are those of the configurations that the paper refers to
    overhead    (6), (7), (9) for real networks, at that mean width and at the ends of lookback

The gap between `one width` and the paper is what the layers' differences and the overhead come to.
"""

from collections.abc import Sequence
from functools import partial

from intnet import models
from intnet.papers.checks.check import Check, Result, Task, agrees
from intnet.papers.costs import adapt_costs
from intnet.show.tables import Cell, Column, Table, numbers

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
# peer-reviewed version: SU^1, SU^2, accuracy over float32 (tables 1, 2), in the order of FIRST and LATER
AGAIN = (
    (1.42, 1.20, 1.32, 1.26, 1.49, 1.22, 1.42),
    (2.37, 1.49, 1.57, 1.62, 8.24, 9.79, 8.22),
    (1.9, 0.5, 1.1, 0.9, 1.2, 0.1, 0.0),
)
# its abstract; 0.51 is printed as a size reduction of 'up to 51 %'
AVERAGES_AGAIN = {"SU, training": 1.31, "SU, iso-accuracy": 4.76, "accuracy, points": 0.74}
AVERAGES_AGAIN |= {"SU, inference": 2.28, "SZ": 0.51}
# MEM of the first version (table 3, 4) and of the peer-reviewed one (table 2), k
MEMORY = {
    "AlexNet, CIFAR-10": (1.47, 1.94, 2),
    "ResNet-20, CIFAR-10": (1.63, 2.26, 2),
    "AlexNet, CIFAR-100": (1.41, 1.82, 2),
    "ResNet-20, CIFAR-100": (1.66, 1.66, 2),
    "MuPPET, AlexNet, CIFAR-10": (1.66, 3.64, 4),
    "MuPPET, ResNet-20, CIFAR-10": (1.61, 3.44, 4),
}

# SU^3 of both versions, in the order of FIRST, and ACCUMULATION_STEPS of the configurations in the authors'
# repository (configs/image_recognition/*_msgd_fp_cifar*.ini)
THIRD, ACCS = (6.42, 4.01, 5.23, 3.36), (4, 4, 4, 2)
EPOCHS, MUPPET_EPOCHS, MUPPET_BATCH = 100, 150, 128

# sec. 4.1.1 and the peer-reviewed version's sec. 4.1
BATCH, LOOKBACK, RESOLUTION = 512, (25, 100), 50
NETS = ("resnet20", "alexnet")
WIDTHS = {"resnet20": "ResNet-20, CIFAR-10", "alexnet": "AlexNet, CIFAR-10"}


def run(task: Task) -> Result:
    """All tables."""
    means = _averages()
    return Result(
        "published figures of AdaPT, and what follows from them",
        [means, _averages_again(), _memory(), _training(), _third(), _inference(), _overheads()],
        REMARKS,
        all(map(partial(agrees, digits=2), means.column("of the tables"), means.column("abstract"))),
    )


REMARKS = (
    "Not published, so not recomputed: WL, FL, sparsity, lookback and resolution of every layer and step; "
    "with them `intnet costs RUN` computes SU, SZ and MEM.",
    "SU above that of one width: the layers with many multiply-adds had shorter words. Below it: longer "
    "words there, or overhead. (8) divides the backward pass by accs; the authors' analytics do not in SU^1.",
    "SZ and MEM count every layer as equally large; SU weighs layers by their multiply-adds.",
    "The peer-reviewed version's MEM is the first one's with k = 2 or 4 copies of the quantized tensors; of "
    "ResNet-20 on CIFAR-100 it still prints the first version's 1.66, where its own rule gives 2.32.",
    "Its abstract takes ResNet-20's SU on CIFAR-100 (1.13, printed 1.26) and AlexNet's gain on CIFAR-10 "
    "(1.4, printed 1.9) from the first version: with them 1.31 and 0.74 come out, else 1.33 and 0.81.",
    "SU^3 compares 100 epochs of batches of 512 with MuPPET's 150 of 128 (first version, tables 1, 2). By "
    "the authors' analytics it follows from SU^1 and accs: of both AlexNets and of ResNet-20 on CIFAR-100 "
    "with the first version's SU^1; the later one's 1.26 and ResNet-20 on CIFAR-10 do not fit it.",
    "As printed, (9) is multiplied by the batch size: every image pays for the switch of its step. With "
    "batch 512 and accs 1, AlexNet's training would be 3 to 11 times slower than float32's, and its 1.42 "
    "cannot come out of that; counted once a step the overhead is 1 to 3 % of AlexNet's training. So it is "
    "where prod(dim) is all of a layer's weights; the authors' analytics leave input channels out, take the "
    "elements that enter a linear layer, and do not multiply by the batch.",
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


def _averages_again() -> Table:
    su, iso, gains = AGAIN
    _, _, sz, inference, _ = zip(*FIRST.values(), strict=True)
    inference = (*inference, *(row[1] for row in LATER.values()))
    sz = (*sz, *(row[0] for row in LATER.values()))
    own = (su, iso, gains, inference, sz)
    first = ((*su[:3], FIRST["ResNet-20, CIFAR-100"][1], *su[4:]), None, (GAINS[0], *gains[1:]), None, None)
    rows = [
        (name, sum(row) / len(row), None if other is None else sum(other) / len(other), printed)
        for (name, printed), row, other in zip(AVERAGES_AGAIN.items(), own, first, strict=True)
    ]
    names = ("of its tables", "with the first version's row")
    columns = (Column("average"), *numbers(*names, spec=".4f"), Column("abstract", ".2f"))
    return Table("averages of the peer-reviewed version's abstract", columns, rows)


def _memory() -> Table:
    rows = [
        (name, mem, 32 * (mem - 1), k, 1 + k * (mem - 1), later) for name, (mem, later, k) in MEMORY.items()
    ]
    columns = (
        Column("run"),
        *numbers("MEM, first version", "mean sp*WL", spec=".2f"),
        Column("k"),
        *numbers("1 + k mean(sp*WL)/32", "MEM, later", spec=".2f"),
    )
    return Table("memory, from one version to the other (tables 3, 4; later 2)", columns, rows)


def _training() -> Table:
    rows = [(name, mem, 32 * (mem - 1), 2 / mem, su) for name, (mem, su, *_) in FIRST.items()]
    names = ("MEM, paper", "mean sp*WL", "SU of one width", "SU, paper")
    columns = (Column("run"), *numbers(*names, spec=".2f"))
    return Table("training, had all layers been alike (tables 3, 4)", columns, rows)


def _third() -> Table:
    """At both ends of the printed, rounded SU^1, and where the versions print two, of both."""
    rows = []
    for (name, (_, first, *_)), later, accs, printed in zip(
        FIRST.items(), AGAIN[0][: len(FIRST)], ACCS, THIRD, strict=True
    ):
        share = MUPPET_BATCH / BATCH / accs
        for su, which in {first: "", later: ", later" * (later != first)}.items():
            low, high = (
                MUPPET_EPOCHS / EPOCHS * 2 / (2 / (su + half) - 1 + share) for half in (-0.005, 0.005)
            )
            rows.append((name + which, su, accs, low, high, printed, low <= printed <= high))
    columns = (
        *(Column("run"), Column("SU^1, paper", ".2f"), Column("accs")),
        *numbers("SU^3, least", "greatest", "SU^3, paper", spec=".2f"),
        Column("fits"),
    )
    return Table("SU^3, training over MuPPET's baseline, from SU^1 (tables 3, 4; later 2)", columns, rows)


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
    rows: list[Sequence[Cell]] = []
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
