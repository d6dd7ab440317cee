"""A layer's numbers on the page, a row a path, as the command's own table."""

from html import escape

from intnet.inspect.gradient_error import values
from intnet.inspect.page.sections import Given, Section, Shown, table, to
from intnet.inspect.text import numbers, over

ABOUT = ("path", "formula", "format")
COLUMNS = ("nominal", "used", "bound", "exponent", "codes", "values", "saturated", "zeros", "SQNR")


def section(given: Given, layer: str) -> Section:
    """The table of a layer."""
    lines, part = [], ""
    for one in given.of(layer):
        if one.part != part:
            part = one.part
            across = len(ABOUT) + len(COLUMNS)
            lines.append(f'<tr class="part"><th scope="colgroup" colspan="{across}">{escape(part)}</th></tr>')
        lines.append(_row(one))
    body = "\n".join(lines)
    return Section("", table("paths", (*ABOUT, *COLUMNS), f"\n{body}\n", words=len(ABOUT)))


def _row(one: Shown) -> str:
    """What there is none of is a dash, which a narrow page leaves out."""
    nominal, used, bound, exponent, span, *others = numbers(one.row)
    codes = span if one.row.exponent or one.row.buckets else "-"
    texts = ""
    for name, text in zip(
        COLUMNS, (nominal, used, bound, exponent, codes, _values(one), *others), strict=True
    ):
        kinds = ["number"] + ["over"] * (name == "used" and over(one.row)) + ["none"] * (text == "-")
        texts += f'<td class="{" ".join(kinds)}" data-is="{name}">{escape(text)}</td>'
    link = f'<a href="{to(one.name)}">{escape(one.row.path)}</a>'
    about = f'<td class="about">{escape(one.formula)}</td><td data-is="format">{escape(one.row.format)}</td>'
    return f'<tr><th scope="row">{link}</th>{about}{texts}</tr>'


def _values(one: Shown) -> str:
    """The least and the greatest value that readers get."""
    found = values(one.event)
    return f"{found.min():.3g}..{found.max():.3g}" if found.size else "-"
