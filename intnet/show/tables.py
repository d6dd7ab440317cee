"""Numbers as text, and the one table: on a terminal, in a file, in Markdown.

    text(0.98765, ".1%") == "98.8%"        None is '-', whatever the spec
    show(Table("title", [Column("layer"), Column("bits", ".2f")], [("fc1", 4.25)]))

A cell is a raw value; how it is written is the column's matter, so the same rows serve `--json`. A cell
that has a style is a rich `Text`.
"""

import html
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Rich
    from rich.text import Text

Cell: TypeAlias = "str | float | Text | None"
Get = tuple[str, str, Any]  # of a column of records: heading, spec, its key or what gets it
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


@dataclass(frozen=True, repr=False)
class Table:
    """A title ('' for none), columns, rows of as many cells; at a prompt and in a notebook as a table."""

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

    def lines(self) -> list[str]:
        """Its lines as plain text, without the title."""
        texts = self._texts()
        widths = [max(map(len, cells)) for cells in zip(*texts, strict=True)]
        made = [
            "  ".join(
                cell.rjust(width) if right else cell.ljust(width)
                for cell, width, right in zip(cells, widths, self.right(), strict=True)
            )
            for cells in texts
        ]
        return [line.rstrip() for line in made]

    def _texts(self) -> list[list[str]]:
        """The headings, unless all are '', and the cells of every row."""
        names = [column.name for column in self.columns]
        rows = [[c.text(cell) for c, cell in zip(self.columns, row, strict=True)] for row in self.rows]
        return [names] * any(names) + rows

    def __repr__(self) -> str:
        return "\n".join([self.title] * bool(self.title) + self.lines())

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        sides = ["right" if right else "left" for right in self.right()]
        rows = []
        for k, cells in enumerate(self._texts()):
            tag = "th" if k == 0 and self.columns[0].name else "td"
            parts = zip(cells, sides, strict=True)
            made = [f'<{tag} style="text-align: {side}">{html.escape(cell)}</{tag}>' for cell, side in parts]
            rows.append(f"<tr>{''.join(made)}</tr>")
        title = f"<caption>{html.escape(self.title)}</caption>" if self.title else ""
        return f"<table>{title}{''.join(rows)}</table>"


def facts(title: str, pairs: Iterable[tuple[str, Cell]]) -> Table:
    """A table of (what, value)."""
    return Table(title, [Column("", right=False), Column("", right=False)], [list(pair) for pair in pairs])


class Shown:
    """What has a `summary()`: a notebook shows it."""

    __slots__ = ()

    def summary(self) -> Table:
        """What it is, as a table."""
        raise NotImplementedError(f"{type(self).__name__} has no summary")

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return self.summary()._repr_html_()


def of(title: str, records: Sequence[Any], columns: Sequence[Get], left: int = 1) -> Table:
    """Of each record so many names, then numbers: (heading, how it is written, its key or what gets it)."""
    rows = [[get(one) if callable(get) else one[get] for _, _, get in columns] for one in records]
    made = [Column(name, spec, right=k >= left) for k, (name, spec, _) in enumerate(columns)]
    return Table(title, made, rows)


def show(table: Table, console: "Console | None" = None) -> None:
    """Print it: to a file whole and without the blanks that fill its lines, to a terminal in parts that fit.

    A part has the leading columns of names again; nothing is cut, and a cell that fits no line runs over it.
    """
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False) if console is None else console
    if table.title:
        console.print(Text(f"\n{table.title}", "bold"), soft_wrap=True)
    if not console.is_terminal:
        whole = Console(highlight=False, width=WHOLE, file=io.StringIO())
        whole.print(_drawn(table, range(len(table.columns))))
        assert isinstance(whole.file, io.StringIO)
        print("\n".join(line.rstrip() for line in whole.file.getvalue().splitlines()))
        return
    like: dict[str, Any] = {"file": console.file, "color_system": console.color_system}
    wide = Console(force_terminal=True, width=WHOLE, highlight=False, **like)
    for k, part in enumerate(parts(table, console.width)):
        if k:
            console.print()
        fits = _width(table, part) <= console.width  # else the terminal breaks its lines
        (console if fits else wide).print(_drawn(table, part))


def parts(table: Table, width: int) -> list[list[int]]:
    """The columns in parts as wide as a line, each with the leading columns of names."""
    count = len(table.columns)
    names = list(range(next((k for k, right in enumerate(table.right()) if right), 1)))
    if _width(table, range(count)) <= width:
        return [list(range(count))]
    found: list[list[int]] = []
    for k in range(len(names), count):
        if not found or _width(table, [*found[-1], k]) > width:
            found.append(list(names))
        found[-1].append(k)
    return found or [names]


def _width(table: Table, which: Sequence[int]) -> int:
    """Characters of a line of these columns; of one that may be broken at least its longest word's."""
    from rich.cells import cell_len

    columns = list(zip(*table._texts(), strict=True))
    widths = [
        max(
            cell_len(piece)
            for cell in columns[k]
            for piece in (cell.split() if table.columns[k].wraps else [cell]) or [""]
        )
        for k in which
    ]
    return sum(widths) + 2 * (len(widths) - 1)


def _drawn(table: Table, which: Sequence[int]) -> "Rich":
    """Some of its columns, as rich prints them."""
    from rich.table import Table as Rich
    from rich.text import Text

    made, sides = Rich(box=None, pad_edge=False), table.right()
    for k in which:
        column = table.columns[k]
        made.add_column(column.name, justify="right" if sides[k] else "left", no_wrap=not column.wraps)
    for row in table.rows:
        cells = ((table.columns[k], row[k]) for k in which)
        made.add_row(*(cell if isinstance(cell, Text) else Text(column.text(cell)) for column, cell in cells))
    return made
