"""The whole network on a page: a row a layer, which leads to the layer's own page.

overview(given) -> the page; `given.pages` is layer -> file of its page
"""

from collections.abc import Sequence
from html import escape
from urllib.parse import quote

from intnet.inspect.gradient_error import Compared
from intnet.inspect.page import errors, glossary, widths
from intnet.inspect.page.sections import Given, Section, Shown, table
from intnet.inspect.text import over
from intnet.runs import report
from intnet.show import web

HEADS = (
    "layer",
    "kind",
    "widths",
    "least SQNR",
    "limited",
    "too narrow",
    "cosine of the gradient",
    "mean error",
)
OF_GRADIENT = ("gW", "ggamma")  # of these the last stage stands for a layer

HOW = """\
<p>Each layer leads to its own page: its data flow, every path's numbers, histograms and single elements.
Widths: of the weights and activations that are rounded in this layer; <i>mean</i> where blocks differ. Least
SQNR: of the path that rounding changed most. Limited: values that a range changed in this step. Too narrow:
paths whose codes needed more bits than their format names. Cosine and mean error: of the gradient as it
leaves its last quantizer, against the exact one of unrounded operands.</p>"""


def overview(given: Given) -> str:
    """Of all layers of `given`."""
    title = f"{report.title(dict(given.step))}, step {given.step['step']:,}: the whole network"
    parts = [
        Section("Layers", _table(given)),
        widths.picture(given.log, width=widths.WIDE),
        widths.reasons(given.log, given.options),
        glossary.section(given),
    ]
    body = "\n".join(part.text(2) for part in parts)
    head = f"<header><h1>{escape(title)}</h1><p>{escape(given.facts())}</p></header>"
    read = f"<details><summary>How to read this page</summary>{HOW}</details>"
    style = web.text(__package__, "style.css")
    return web.document(title, f"{head}<main>{read}{body}</main>", style, "", "")


def _table(given: Given) -> str:
    rows = "".join(_row(given, layer, given.pages[layer]) for layer in given.layers)
    return table("layers", HEADS, rows)


def _row(given: Given, layer: str, page: str) -> str:
    shown = given.of(layer)
    ratios = [(one.row.sqnr_db, one.row.path) for one in shown if one.row.sqnr_db is not None]
    least = f"{min(ratios)[0]:.1f} dB, {min(ratios)[1]}" if ratios else "-"
    limited = sum(one.row.saturated or 0 for one in shown)
    narrow = ", ".join(one.row.path for one in shown if over(one.row))
    gradient = _gradient(errors.compared(given, layer))
    cosine = "-" if gradient is None else f"{errors.cosine(gradient.cosine)} ({gradient.path})"
    bias = "-" if gradient is None or gradient.mean_error is None else f"{gradient.mean_error:+.2g}"
    cells = (
        type(given.layer(layer)).__name__,
        _widths(shown),
        least,
        f"{limited:,}" if limited else "-",
        narrow or "-",
        cosine,
        bias,
    )
    texts = "".join(
        f'<td class="{"none" if text == "-" else "some"}" data-is="{name}">{escape(text)}</td>'
        for name, text in zip(HEADS[1:], cells, strict=True)
    )
    return f'<tr><th scope="row"><a href="{quote(page)}">{escape(layer)}</a></th>{texts}</tr>'


def _gradient(lines: Sequence[Compared]) -> Compared | None:
    """The gradient as the update takes it."""
    found = [line for line in lines if line.path.startswith(OF_GRADIENT)]
    return found[-1] if found else None


def _widths(shown: Sequence[Shown]) -> str:
    """'Wq <8,7>, x4 Q(., 8)': of weights and activations that are rounded here."""
    told = []
    for one in shown:
        if one.event.format is None or one.part != "forward" or one.row.path[0] not in "Wx":
            continue
        mixed = one.row.mean_bits is not None and one.row.mean_bits != one.row.nominal_bits
        told.append(f"{one.row.path} {one.row.short}" + (f" mean {one.row.mean_bits:.3g}" if mixed else ""))
    return ", ".join(told) or "-"
