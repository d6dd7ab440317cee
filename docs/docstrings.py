"""Docstrings for the reference: plain text, as they stand in the source, shown as it is meant.

Docstrings here are written to be read in an editor: paragraphs, lines that begin with a name and a colon,
tables made with blanks, code in backticks. Read as reStructuredText these would run together, and `*args`
would be a fault. `restructured` keeps them apart:

    a paragraph                    a paragraph; all but backticks stands as written
    name: what it is; other: ...   entries of a list, with the lines that go on with them
    a name   and what, aligned     as it is, in columns
      lines that are indented      as they are
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

NAMES = r"\*{0,2}[a-z][\w.*]*(?:, \*{0,2}[a-z]\w*)*"  # one, or several; a sentence begins with a capital
ENTRY = re.compile(rf"({NAMES}): +(?=\S)")
NEXT = re.compile(rf"; (?={NAMES}: )")
COLUMNS = re.compile(r"\S.*\S {2,}\S|\S {2,}\S")  # of a line that is not indented
WORD = re.compile(r"[^\W\d]\w*(?:\.\w+)*")


def restructured(text: str) -> str:
    """A docstring, its indentation removed, as reStructuredText."""
    first, *blocks = re.split(r"\n\s*\n", text.strip("\n"))
    shown = [prose(first)] if "\n" not in first else list(parts(first.split("\n")))
    return "\n\n".join([*shown, *(part for block in blocks for part in parts(block.split("\n")))])


def parts(lines: list[str]) -> Iterator[str]:
    """What one block without empty lines is made of."""
    if ENTRY.match(lines[0]):
        yield from entries(lines)
    elif any(COLUMNS.match(line) for line in lines):
        yield literal(lines)
    else:
        while lines:
            indented = lines[0].startswith(" ")
            end = next((i for i, line in enumerate(lines) if line.startswith(" ") != indented), len(lines))
            yield literal(lines[:end]) if indented else prose("\n".join(lines[:end]))
            lines = lines[end:]


def entries(lines: list[str]) -> Iterator[str]:
    """A list of names, and the paragraph after it, which begins with a capital."""
    told: list[str] = []
    while lines and (ENTRY.match(lines[0]) or not lines[0][:1].isupper()):
        line, *lines = lines
        if ENTRY.match(line):
            told.append(line)
        else:
            told[-1] += " " + line.strip()
    for entry in (entry for whole in told for entry in NEXT.split(whole)):
        name, _, what = entry.partition(":")
        yield f"- **{escaped(name)}**: {prose(what.strip())}"
    if lines:
        yield prose("\n".join(lines))


def literal(lines: list[str]) -> str:
    """Lines as they are."""
    return "::\n\n" + textwrap.indent(textwrap.dedent("\n".join(lines)), "    ")


def prose(text: str) -> str:
    """Text in which backticks alone mean something: code, which leads to its entry where it names one."""
    pieces = re.split(r"`([^`]+)`", text)
    return "".join(code(piece) if i % 2 else escaped(piece) for i, piece in enumerate(pieces))


def code(text: str) -> str:
    """A name as a reference, anything else as a literal; both stand apart from the letters around them."""
    text = " ".join(text.split())
    return rf"\ :py:obj:`{text}`\ " if WORD.fullmatch(text) else rf"\ ``{text}``\ "


def escaped(text: str) -> str:
    """Without any meaning that punctuation has in reStructuredText."""
    return re.sub(r"([^\w\s])", r"\\\1", text)


def process(_: Sphinx, __: str, ___: str, ____: object, _____: object, lines: list[str]) -> None:
    """As autodoc calls it, with the lines of one docstring, which it changes."""
    lines[:] = [*restructured("\n".join(lines)).split("\n"), ""]


def signature(
    _: Sphinx, __: str, ___: str, ____: object, _____: object, arguments: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """As autodoc calls it: a field's default that is made anew each time is shown as `...`."""
    return arguments and arguments.replace("<factory>", "..."), returned


def setup(app: Sphinx) -> dict[str, bool]:
    """As Sphinx calls it."""
    app.connect("autodoc-process-docstring", process)
    app.connect("autodoc-process-signature", signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
