"""A layer's data flow on the page: a box a path, what enters from elsewhere, the legend."""

from collections.abc import Sequence

from intnet.exact.blocks.buckets import TENSOR
from intnet.exact.blocks.mx_blocks import Along
from intnet.inspect import flow
from intnet.inspect.operands import Input, Operands
from intnet.inspect.page.sections import Given, Section, Shown, to, wide
from intnet.inspect.text import numbers

HEAD = '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
LEGEND = (
    ("rounded", "rounded here"),
    ("exact", "exact, handed on as it is"),
    ("float", "float32"),
    ("outer", "another layer's, or the word before the step"),
)


def section(given: Given, layer: str) -> Section:
    """The drawing of a layer."""
    boxes, links = graph(given.of(layer), given.operands, given.names)
    return Section("", wide(flow.draw(layer, boxes, links), f"data flow of {layer}"), "drawn")


def legend() -> str:
    """The kinds of boxes; with them the arrows' head, which all diagrams share."""
    items = []
    for kind, text in LEGEND:
        corner = 6 if kind == "rounded" else 2
        box = f'<g class="box {kind}"><rect x="2" y="2" width="30" height="16" rx="{corner}"/></g>'
        items.append(f'<li><svg width="34" height="20" aria-hidden="true">{box}</svg>{text}</li>')
    head = f'<defs>{HEAD}<path class="head" d="M0 0L8 4L0 8z"/></marker></defs>'
    return (
        f'<ul class="legend">{"".join(items)}</ul><svg width="0" height="0" aria-hidden="true">{head}</svg>'
    )


def graph(
    shown: Sequence[Shown], operands: Operands, names: set[str]
) -> tuple[list[flow.Box], list[flow.Link]]:
    """(boxes, links) of a layer: its shown paths, and in every lane what enters from elsewhere."""
    whole = all(one.part for one in shown)
    own = {one.name for one in shown}
    boxes: dict[str, flow.Box] = {}
    links: list[flow.Link] = []
    for one in shown:
        lane = one.part if whole else ""
        for entering in operands.inputs(one.event):
            name = f"{entering.layer}/{entering.path}"
            key = name
            if entering.before or name not in own:
                key = f"{name} {'before' if entering.before else 'into'} {lane}"
                boxes.setdefault(key, _outer(key, lane, entering, name in names))
            links.append((key, one.name))
        boxes[one.name] = _box(one, lane)
    return list(boxes.values()), links


def _box(one: Shown, lane: str) -> flow.Box:
    row = one.row
    nominal, used = (text.partition(",")[0] for text in numbers(row)[:2])
    # the table beside it says that all of a tensor is one bucket, and how blocks lie; here it would not fit
    format = one.event.format
    short = f"MX {format.mx.element}" if isinstance(format, Along) else row.short.removesuffix(f" /{TENSOR}")
    lines: tuple[str, ...] = (short, f"{nominal}/{used} bits")
    kind = "rounded" if one.event.format is not None else "exact"
    if row.format == "float32":
        kind, lines = "float", (row.format,)
    title = f"{row.path} = {one.formula}" if one.formula else ""
    return flow.Box(one.name, lane, row.path, lines, kind, title, to(one.name))


def _outer(key: str, lane: str, entering: Input, on_page: bool) -> flow.Box:
    name = f"{entering.layer}/{entering.path}"
    where = "before the step" if entering.before else entering.layer
    return flow.Box(key, lane, entering.path, (where,), "outer", name, to(name) if on_page else "")
