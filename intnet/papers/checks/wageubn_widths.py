"""WAGEUBN, section IV-A and table I: the width of every data path, and the constraints (22) and (24).

    widths        published, nominal (of the format that a step stores) and used (by the codes of all steps)
    constraints   both sides of (22) and (24), and what a change of one width makes of them
    updates       words of Acc, Accq and W of every step, computed again here from the step's own inputs

The direct quantizer (6) sets a resolution and no range, so a nominal width says little of the codes: `used`
is log2(2 peak + 1), which tells how many bits a word needs. `holds` is about the constraints and the updates.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from intnet.datasets import Dataset
from intnet.errors import ConfigError
from intnet.methods.trace import Event, PathTable
from intnet.methods.wageubn import Wageubn
from intnet.methods.wageubn_widths import Widths
from intnet.numbers.qtensor import QTensor
from intnet.papers.checks import training
from intnet.papers.checks.check import Check, Result, Sizes, Task
from intnet.show.tables import Cell, Column, Table, numbers
from intnet.training.train import Run

# sec. IV-A, full 8-bit version: (symbol, width, what, path as a step calls it)
PUBLISHED: tuple[tuple[str, int, str, str], ...] = (
    ("kW", 8, "weights, forward", "Wq"),
    ("kA", 8, "activations", "x4"),
    ("kGW", 8, "gradients of weights", "gWq"),
    ("kE1", 8, "errors behind activations", "e0"),
    ("kE2", 8, "errors behind convolutions", "e3"),
    ("kgamma", 8, "gamma, forward", "gammaq"),
    ("kbeta", 8, "beta, forward", "betaq"),
    ("kBN", 16, "normalized values", "x2"),
    ("kmu", 16, "means", "mu"),
    ("ksigma", 16, "deviations", "sigma"),
    ("kGgamma", 15, "gradients of gamma", "ggammaq"),
    ("kGbeta", 15, "gradients of beta", "gbetaq"),
    ("kAcc", 13, "accumulators of weights", "Accq"),
    ("kAcc", 13, "of gamma", "Accq_gamma"),
    ("kAcc", 13, "of beta", "Accq_beta"),
    ("kWU", 24, "weights in memory", "W"),
    ("kgammaU", 24, "gamma in memory", "gamma"),
    ("kbetaU", 24, "beta in memory", "beta"),
)
PUBLISHED_E2 = 16  # table I, the version with 16-bit E2
KGC, KMOM, KACC, KLR, KWU = 15, 3, 13, 10, 24  # sec. IV-A; kGgamma, kGbeta are in the list
MOM = 3  # the code of Mom
VERSIONS: tuple[Literal["flag8", "16"], ...] = ("flag8", "16")  # e2: full 8 bits, and 16-bit E2
LR = 26  # code of the learning rate, of klr bits (sec. IV-B)

PATHS = {path for _, _, _, path in PUBLISHED}
SYMBOLS = {"W": "", "b": "_b", "gamma": "_gamma", "beta": "_beta"}  # parameter -> what its Acc ends in


def run(task: Task) -> Result:
    """Both versions of the method, every step observed."""
    sizes = task.training
    data = training.load(sizes, task.data_dir)
    watched: dict[str, Watch] = {e2: _watched(task, data, e2, k) for k, e2 in enumerate(VERSIONS)}
    tables = {e2: watch.table for e2, watch in watched.items()}
    updates = [(f"e2={e2}", *watch.counts()) for e2, watch in watched.items()]
    constraints = _constraints()
    exact = all(inexact == 0 and wrong == 0 for _, _, inexact, wrong, _ in updates)
    own = Widths()
    same = (own.k_gc, own.k_mom, own.k_acc, own.k_lr, own.k_wu) == (KGC, KMOM, KACC, KLR, KWU)
    holds = exact and same and all(row[4] for row in constraints[0].rows)
    return Result(
        f"{training.about(sizes)}; lr code {LR}",
        [_widths(tables), *constraints, _updates(updates)],
        REMARKS,
        holds,
    )


def _watched(task: Task, data: Dataset, e2: Literal["flag8", "16"], k: int) -> "Watch":
    """Train the k-th version of the method, every step observed."""
    trained = training.start(task.training, Wageubn(e2=e2), data)
    watch, steps = Watch(trained), task.training.epochs * trained.steps_per_epoch
    total = len(VERSIONS) * steps
    with trained.method.within(observers=[watch]):
        trained.train(steps, lambda step: task.progress(f"e2={e2}", k * steps + step.step, total))
    return watch


REMARKS = (
    "least, most: bits used, over the layers that have the path and all steps; fits: whether the widest "
    "word has no more bits than published. The direct quantizer (6) limits no range, so what is nominally 8 "
    "or 16 bits grows with the values; clipped paths (W, errors, gradients) keep their width.",
    "kE2 = 8 is stored in 9 bits, and so does not fit 8: figure 4 adds a flag to the 8 that are multiplied.",
    "wrong: words that differ from Acc = Mom*Accq + g and W = W - lr*Acc, computed again in integers. "
    "clipped: weights at +-(1 - 2^-23), the ends of their 24 bits; the paper names no limit there.",
)


# -- widths ------------------------------------------------------------------------------------


def _widths(tables: dict[str, PathTable]) -> Table:
    rows: list[Sequence[Cell]] = []
    for symbol, published, what, path in PUBLISHED:
        rows += _width(tables["flag8"], symbol, published, what, path)
        if symbol == "kE2":
            rows += _width(tables["16"], symbol, PUBLISHED_E2, "the same, 16-bit E2", path)
    rows += [_constant("kMom", "momentum", "Mom", KMOM, Widths().k_mom, MOM, 1 - KMOM)]
    rows += [_constant("klr", "learning rate", "lr", KLR, Widths().k_lr, LR, 1 - KLR)]
    names = ("symbol", "of", "path", "published", "format", "nominal", "layers")
    columns = (*map(Column, names), Column("least", ".1f"), Column("most", ".1f"), Column("fits"))
    return Table("widths in bits", columns, rows)


def _width(table: PathTable, symbol: str, published: int, what: str, path: str) -> list[Sequence[Cell]]:
    """A row over all layers that have the path in integers; none of a path that the model has not."""
    found = [row for (_, name), row in table.rows.items() if name == path and row.integer]
    if not found:
        return []
    used = [row.fraction_bits for row in found]
    nominal, format = found[0].nominal, found[0].format
    assert all((row.nominal, row.format) == (nominal, format) for row in found)
    fits = max(row.used for row in found) <= published
    return [(symbol, what, path, published, format, nominal, len(found), min(used), max(used), fits)]


def _constant(
    symbol: str, what: str, path: str, published: int, nominal: int, code: int, exponent: int
) -> Sequence[Cell]:
    """A number that the whole net shares: its code, with a sign."""
    used = math.log2(2 * code + 1)
    fits = code.bit_length() + 1 <= published
    return symbol, what, path, published, f"{code} * 2^{exponent}", nominal, None, used, used, fits


# -- constraints -------------------------------------------------------------------------------


def _constraints() -> tuple[Table, Table]:
    k = {symbol: width for symbol, width, _, _ in PUBLISHED} | {"kGC": KGC}
    sums = ("kGgamma", "kGbeta", "kGC")
    rows = [
        *(("(22)", f"{name} = kMom + kAcc - 1", k[name], KMOM + KACC - 1) for name in sums),
        ("(24)", "kWU = kMom + kAcc + klr - 2", KWU, KMOM + KACC + KLR - 2),
        *(("(24)", f"kWU = {name} + klr - 1", KWU, k[name] + KLR - 1) for name in ("kGC", *sums[:2])),
    ]
    columns = tuple(map(Column, ("equation", "constraint", "left", "right", "holds")))
    table = Table("constraints, by the published widths", columns, [(*row, row[2] == row[3]) for row in rows])
    changed = [({"k_acc": 12}, "kAcc = 12"), ({"k_lr": 9}, "klr = 9"), ({"k_wu": 23}, "kWU = 23")]
    columns = (Column("one width changed"), Column("intnet"))
    return table, Table("what intnet makes of another width", columns, [(t, _made(w)) for w, t in changed])


def _made(widths: dict[str, int]) -> str:
    try:
        Widths(**widths)
    except ConfigError as error:
        return f"refused: {error}"
    return "taken"


# -- updates -----------------------------------------------------------------------------------


class Watch:
    """An observer of whole steps: the table of widths, and every update computed again."""

    def __init__(self, run: Run) -> None:
        self.table = PathTable()
        self.words = self.inexact = self.wrong = self.clipped = 0
        self._layers = {layer.name: layer for layer in run.model.all_layers()}
        self._seen: dict[tuple[str, str], QTensor] = {}  # of this step

    def __call__(self, event: Event) -> None:
        """One event; an update is complete with the word that goes to memory."""
        if event.path in PATHS:
            self.table(event)
        self._seen[event.layer, event.path] = event.result
        if event.path in SYMBOLS and isinstance(event.result, QTensor):
            self._check(event.layer, event.path, event.result)

    def counts(self) -> tuple[int, int, int, int]:
        """Updates; words that a rounding changed; words that are wrong; weights that were clipped."""
        return self.words, self.inexact, self.wrong, self.clipped

    def _check(self, layer: str, symbol: str, stored: QTensor) -> None:
        """W, gamma or beta of a layer; the parameter still holds the word before."""
        end = SYMBOLS[symbol]
        acc, gradient = self._seen[layer, f"Acc{end}"], self._seen[layer, f"g{symbol}q"]
        before = next(p.value for p in self._layers[layer].parameters if p.symbol == symbol)
        self.words += stored.size
        limit = (1 << KWU - 1) - 1
        last = self._seen.get((layer, f"last{end}"))
        parts = [] if last is None else [(MOM, last, int(last.exponent) + 1 - KMOM)]
        parts.append((1, gradient, int(gradient.exponent)))
        wrong_acc = _on_grid(parts, int(acc.exponent)) != acc.codes
        moves = [(1, before, int(before.exponent)), (-LR, acc, int(acc.exponent) - (KLR - 1))]
        exact = _on_grid(moves, int(stored.exponent))
        if symbol == "W":
            self.clipped += int(np.count_nonzero(np.abs(exact) > limit))
            exact = np.clip(exact, -limit, limit)
        self.wrong += int(np.count_nonzero(wrong_acc | (exact != stored.codes)))
        self.inexact += sum(_finer(parts, int(acc.exponent))) + sum(_finer(moves, int(stored.exponent)))
        self._seen[layer, f"last{end}"] = self._seen[layer, f"Accq{end}"]


def _finer(parts: list[tuple[int, QTensor, int]], exponent: int) -> Iterator[int]:
    """How many words of each part have bits below the grid 2^exponent: they would have to be rounded."""
    for factor, q, own in parts:
        down = max(exponent - own, 0)
        yield int(np.count_nonzero(factor * q.codes.astype(np.int64) & ((1 << down) - 1)))


def _on_grid(parts: list[tuple[int, QTensor, int]], exponent: int) -> np.ndarray:
    """The sum of factor * codes * 2^own in units of 2^exponent, int64; bits below it are dropped."""
    return sum(  # type: ignore[return-value]
        (
            factor * q.codes.astype(np.int64) << own - exponent
            if own >= exponent
            else factor * q.codes.astype(np.int64) >> exponent - own
        )
        for factor, q, own in parts
    )


def _updates(counted: Sequence[Sequence[Cell]]) -> Table:
    columns = (Column("version"), *numbers("words updated", "rounded", "wrong", "clipped", spec=","))
    title = "updates (20), (23) of all steps: is anything rounded on the way to memory?"
    return Table(title, columns, counted)


CHECK = Check(
    "bit widths of all data paths, and that no update is rounded",
    "WAGEUBN, section IV-A, table I, equations (22), (24)",
    "10 seconds",
    run,
    Sizes("resnet8", "digits", 1438, 1),
)
