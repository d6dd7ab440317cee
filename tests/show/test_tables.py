"""The one table: numbers as text, what stands left and right, in a file and in Markdown."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from intnet.show.tables import Column, Table, numbers, of, show, text


@pytest.mark.parametrize(
    ("value", "spec", "shown"),
    [
        (None, ".2f", "-"), (True, ".2f", "yes"), (False, "", "no"), ("8.1 (7)", ".2f", "8.1 (7)"),
        (0.98765, ".1%", "98.8%"), (12345, ",", "12,345"), (2.0, ".3f", "2.000"), (0, "", "0"),
    ],
)  # fmt: skip
def test_a_value_as_text(value: object, spec: str, shown: str) -> None:
    assert text(value, spec) == shown


MADE = Table("of [2] layers", [Column("layer"), *numbers("bits", "share", spec=".2f")], [("fc1", 4.25, None)])


def test_in_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    """Whole, without blanks at the end of lines; what looks like markup is text."""
    show(MADE)
    assert capsys.readouterr().out == "\nof [2] layers\nlayer  bits  share\nfc1    4.25      -\n"
    show(Table("", [Column("a"), Column("b" * 600)], [(1, "x"), (None, "[bold]")]))
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["a  " + "b" * 600, "1  x", "-  [bold]"]


def test_on_a_terminal() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=40, highlight=False, color_system="standard")
    show(Table("title", [Column("a"), Column("b", right=True)], [("x", Text("9", "red"))]), console)
    assert "\x1b[1mtitle\x1b[0m" in stream.getvalue() and "\x1b[31m9\x1b[0m" in stream.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("width", range(4, 60))
def test_no_terminal_is_too_narrow(width: int) -> None:
    """Every cell is printed whole, each part with the names; no line is longer than need be."""
    heads = ("codec", "bits", "test accuracy", "seconds")
    rows = [("affine", 4, 0.66302, 1234.5), ("levels", 2, 0.5, 17.25)]
    table = Table(
        "", [Column("method"), Column(heads[0]), *numbers(*heads[1:])], [("saved", *r) for r in rows]
    )
    stream = io.StringIO()
    show(table, Console(file=stream, force_terminal=True, width=width, highlight=False, color_system=None))
    lines = [line for line in stream.getvalue().splitlines() if line.strip()]
    texts = [["method", *heads], *([("saved"), *map(str, row)] for row in rows)]
    for k, cells in enumerate(texts):
        mine = " ".join(lines[k::3]).split()
        assert all(mine.count(word) >= 1 for cell in cells for word in cell.split())
        assert all(line.split()[:2] == cells[:2] for line in lines[k::3])
    least = len("saved   affine") + 2 + len("test accuracy")
    assert max(map(len, lines)) <= max(width, least + 1)
    assert len(lines) == 3 or width < max(map(len, table.lines()))


def test_columns_of_texts_stand_to_the_left() -> None:
    table = Table(
        "", [Column("a"), Column("b"), Column("c", right=True)], [("x", None, "y"), ("z", "2", "w")]
    )
    assert table.right() == [False, True, True]
    assert table.markdown() == ["| a | b | c |", "|---|---:|---:|", "| x | - | y |", "| z | 2 | w |"]
    assert Table("", [Column("a|b")], [("|",)]).markdown() == ["| a\\|b |", "|---|", "| \\| |"]


def test_of_records() -> None:
    table = of(
        "t", [{"name": "x", "n": 2}], (("name", "", "name"), ("twice", ".1f", lambda one: 2 * one["n"]))
    )
    assert table.rows == [["x", 4]] and table.right() == [False, True]
    assert table.column("twice") == [4] and table.records() == [{"name": "x", "twice": 4}]
    with pytest.raises(AssertionError, match="two columns of one name"):
        Table("", numbers("a", "a"), [(1, 2)]).records()
