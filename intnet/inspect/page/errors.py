"""How wrong a layer's gradients are, as a table: `inspect/gradient_error.py`."""

from html import escape

from intnet.inspect import gradient_error
from intnet.inspect.gradient_error import Compared
from intnet.inspect.page.sections import Given, Section, table

TITLE = "How wrong are these gradients?"
HEADS = ("path", "against the exact", "cosine", "mean error", "length")
FAR = 0.9  # a cosine below it is marked


def section(given: Given, layer: str) -> Section:
    """Of a layer; none where it has none."""
    lines = compared(given, layer)
    if not lines:
        return Section("", "")
    rows = "".join(_row(line) for line in lines)
    told = (
        '<p class="quiet">Against the exact sum of what float32 would multiply. Cosine 1: the same '
        "direction. Mean error: both at the same length, over the exact one's root mean square. Length: over "
        "the exact one's; CQ, and AdaPT's gWn, set it themselves.</p>"
    )
    return Section(TITLE, table("errors", HEADS, rows, words=2) + told, "beside")


def compared(given: Given, layer: str) -> list[Compared]:
    """The lines of a layer, found once."""
    if layer not in given.compared:
        found = gradient_error.found(given.layer(layer), given.operands.events, given.operands)
        given.compared[layer] = found
    return given.compared[layer]


def cosine(value: float | None) -> str:
    """To as many digits as say how far it is from 1."""
    if value is None:
        return "-"
    return f"{value:.4f}" if value < 0.99995 else f"1 - {1 - value:.1g}" if value < 1 else "1"


def _row(line: Compared) -> str:
    far = " over" if line.cosine is not None and line.cosine < FAR else ""
    length = "-" if line.length is None else f"{line.length:.4g}"
    bias = "-" if line.mean_error is None else f"{line.mean_error:+.2g}"
    some = f"; {line.elements:,} of its {line.of:,} elements" if line.elements < line.of else ""
    cells = [("cosine", cosine(line.cosine), far), ("mean error", bias, ""), ("length", length, "")]
    texts = "".join(f'<td class="number{mark}" data-is="{name}">{text}</td>' for name, text, mark in cells)
    about = f'<td class="about">{escape(line.made_of)}{some}</td>'
    return f'<tr><th scope="row">{escape(line.path)}</th>{about}{texts}</tr>'
