"""What `verify` shows: one row a path, totals, the first difference."""

from typing import Any

from rich.console import Console
from rich.text import Text

from intnet.show import tables
from intnet.show.tables import Cell, Column, Table
from intnet.training.train import Run
from intnet.verify.row import DIFFERS, EQUAL, UNSPECIFIED, Row
from intnet.verify.work import Totals

WRAPPED = ("equation", "verified against")


def grouped(rows: list[Row]) -> list[list[Row]]:
    """Rows of one path, equation, definition and state together, in the order of the first of each."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault((row.path, row.equation, tuple(row.specs), row.state), []).append(row)
    return list(groups.values())


def show(run: Run, step: int, batch: int | None, rows: list[Row], found: Totals) -> None:
    """Heading, table, what is not specified, totals, and the first difference; batch: of inference."""
    console = Console(highlight=False)
    when = f"step {step:,}" if batch is None else f"test batch {batch} after step {step:,}"
    what = f"{run.method.name}, {run.model.kind} on {run.data.name}, seed {run.seed}, {when}"
    console.print(f"[bold]{what}[/bold]: every data path by intnet.spec", soft_wrap=True)
    tables.show(_table(rows), console)
    for row in rows:
        if row.state == UNSPECIFIED:
            print(f"not specified: {row.name}: {row.why}")
    _totals(found)
    wrong = [row for row in rows if row.state == DIFFERS]
    if wrong:
        _difference(wrong)


def _table(rows: list[Row]) -> Table:
    columns = [Column("path", right=False), *(Column(name, right=False, wraps=True) for name in WRAPPED)]
    columns += [*tables.numbers("layers"), *tables.numbers("elements", "verified", spec=",")]
    lines: list[list[Cell]] = []
    for group in grouped(rows):
        one, state = group[0], group[0].state
        chained = sum(row.chained for row in group)
        by = f"{chained:,}, {sum(row.definition for row in group)}" if chained else ""
        numbers: list[Cell] = [
            len(group),
            sum(row.elements for row in group),
            sum(row.checked for row in group),
            by,
        ]
        texts = [one.path, one.equation, ", ".join(dict.fromkeys(one.specs))]
        style = {EQUAL: "", DIFFERS: "bold red", UNSPECIFIED: "yellow"}[state]
        lines.append([*texts, *numbers, Text(state, style)])
    return Table("", [*columns, *tables.numbers("by NumPy", "state")], lines)


def _totals(found: Totals) -> None:
    parts = [f"{found.checked:,} of {found.elements:,} elements ({found.share:.2%})"]
    parts += [f"{found.sums:,} sums over a batch", f"{found.words:,} random words"]
    state = "no difference" if not found.differing else f"{found.differing} paths differ"
    if found.unspecified:
        state += f", {found.unspecified} not specified"
    print(f"verified {found.paths:,} paths in {found.seconds:,.0f} s: {', '.join(parts)}: {state}")


def _difference(wrong: list[Row]) -> None:
    """The paths that differ, and the first one's trail."""
    names = list(dict.fromkeys(row.name for row in wrong))
    print(f"differs: {', '.join(names)}")
    row = min(wrong, key=lambda row: row.order if row.layer not in ("data", "step") else 1 << 60)
    share = f" of {row.checked:,} verified elements" if row.checked else " elements"
    print(f"first: {row.name}: {row.differing:,}{share}")
    if row.difference is None:
        print(f"  {row.why}")
        return
    by = f", by {', '.join(row.specs)}" if row.specs else ""
    why = f": {row.why}" if row.why else ""
    print(f"  index {','.join(map(str, row.difference.index)) or '-'}{by}{why}")
    print(f"  expected {row.difference.expected}")
    print(f"  stored   {row.difference.stored}")
    for line in row.difference.trail:
        print(f"  {line}")
