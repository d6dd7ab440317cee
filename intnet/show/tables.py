"""Numbers as text, and the one table: on a terminal, in a file, in Markdown.

    text(0.98765, ".1%") == "98.8%"        None is '-', whatever the spec
    show(Table("title", [Column("layer"), Column("bits", ".2f")], [("fc1", 4.25)]))

A cell is a raw value; how it is written is the column's matter, so the same rows serve `--json`. A cell
that has a style is a rich `Text`.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

Cell: TypeAlias = "str | float | Text | None"
WHOLE = 2000  # characters of a line of a file, above those of any table


def text(value: Cell, spec: str = "") -> str:
    """'-' for None, 'yes' or 'no', a text as it is, a number by the format's spec."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return format(value, spec) if isinstance(value, int | float) else str(value)


@dataclass(frozen=True)
class Column:
    """A heading and how numbers under it are written: '.2f', '.1%', ','. Texts stay; None is '-'.

    right: where its cells stand; None: to the left if all of them are texts
    wraps: whether a narrow terminal may break its cells
    """

    name: str
    spec: str = ""
    right: bool | None = None
    wraps: bool = False

    def text(self, cell: Cell) -> str:
        """The cell as it is printed."""
        return text(cell, self.spec)


def numbers(*names: str, spec: str = "") -> list[Column]:
    """Columns of numbers, all written in one way."""
    return [Column(name, spec, right=True) for name in names]


@dataclass(frozen=True)
class Table:
    """A title ('' for none), columns, rows of as many cells."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]

    def column(self, name: str) -> list[Any]:
        """The cells under a heading."""
        at = [column.name for column in self.columns].index(name)
        return [row[at] for row in self.rows]

    def records(self) -> list[dict[str, Any]]:
        """A dictionary a row; no two columns may have one name."""
        names = [column.name for column in self.columns]
        assert len(set(names)) == len(names), f"two columns of one name: {names}"
        return [dict(zip(names, row, strict=True)) for row in self.rows]

    def right(self) -> list[bool]:
        """Which columns stand to the right."""
        texts = [all(isinstance(row[k], str) for row in self.rows) for k in range(len(self.columns))]
        pairs = zip(self.columns, texts, strict=True)
        return [not told if column.right is None else column.right for column, told in pairs]

    def markdown(self) -> list[str]:
        """Its lines in Markdown, without the title."""
        rules = ["---:" if right else "---" for right in self.right()]
        texts = [[c.text(cell) for c, cell in zip(self.columns, row, strict=True)] for row in self.rows]
        lines = [
            f"| {' | '.join(part.replace('|', chr(92) + '|') for part in parts)} |"
            for parts in ([column.name for column in self.columns], *texts)
        ]
        return [lines[0], f"|{'|'.join(rules)}|", *lines[1:]]


def of(title: str, records: Sequence[Any], columns: Sequence[tuple[str, str, Any]], left: int = 1) -> Table:
    """Of each record so many names, then numbers: (heading, how it is written, its key or what gets it)."""
    rows = [[get(one) if callable(get) else one[get] for _, _, get in columns] for one in records]
    made = [Column(name, spec, right=k >= left) for k, (name, spec, _) in enumerate(columns)]
    return Table(title, made, rows)


def show(table: Table, console: "Console | None" = None) -> None:
    """Print it: to a terminal as it fits, to a file whole and without the blanks that fill its lines."""
    from rich.console import Console
    from rich.table import Table as Rich
    from rich.text import Text

    console = Console(highlight=False) if console is None else console
    if table.title:
        console.print(Text(f"\n{table.title}", "bold"), soft_wrap=True)
    made = Rich(box=None, pad_edge=False)
    for column, right in zip(table.columns, table.right(), strict=True):
        made.add_column(column.name, justify="right" if right else "left", no_wrap=not column.wraps)
    for row in table.rows:
        cells = zip(table.columns, row, strict=True)
        made.add_row(*(cell if isinstance(cell, Text) else Text(column.text(cell)) for column, cell in cells))
    if console.is_terminal:
        console.print(made)
        return
    whole = Console(highlight=False, width=WHOLE, file=io.StringIO())
    whole.print(made)
    assert isinstance(whole.file, io.StringIO)
    print("\n".join(line.rstrip() for line in whole.file.getvalue().splitlines()))
