"""A layer's numbers on the page, a row a path, as the command's own table."""

from collections.abc import Sequence
from html import escape

from intnet.inspect.page.sections import Given, Section, Shown, to, wide
from intnet.inspect.text import numbers, over

COLUMNS = ("nominal", "used", "bound", "exponent", "range", "saturated", "zeros", "SQNR")


def section(given: Given, layer: str) -> Section:
    """The table of a layer."""
    return Section("", wide(_table(given.of(layer)), f"numbers of {layer}"))


def _table(shown: Sequence[Shown]) -> str:
    heads = "".join(f'<th scope="col">{name}</th>' for name in ("path", "formula", "format"))
    heads += "".join(f'<th scope="col" class="number">{name}</th>' for name in COLUMNS)
    lines, part = [], ""
    for one in shown:
        if one.part != part:
            part = one.part
            across = 3 + len(COLUMNS)
            lines.append(f'<tr class="part"><th scope="colgroup" colspan="{across}">{escape(part)}</th></tr>')
        texts = "".join(
            f'<td class="number{" over" if name == "used" and over(one.row) else ""}">{escape(text)}</td>'
            for name, text in zip(COLUMNS, numbers(one.row), strict=True)
        )
        link = f'<a href="{to(one.name)}">{escape(one.row.path)}</a>'
        about = f"<td>{escape(one.formula)}</td><td>{escape(one.row.format)}</td>"
        lines.append(f'<tr><th scope="row">{link}</th>{about}{texts}</tr>')
    body = "\n".join(lines)
    return f'<table class="paths"><thead><tr>{heads}</tr></thead><tbody>\n{body}\n</tbody></table>'
