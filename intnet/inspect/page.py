"""`intnet inspect --html`: one self-contained page of the inspected layers' step.

    page(step, options, events, rows, operands, index) -> the page as text

`page.html` is the frame with the style and the script; here are a layer's diagram, its table, and of
each path the histograms and the elements' ways. Every number is made in Python; the script only shows
what the page holds as JSON.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from string import Template
from typing import Any
from urllib.parse import quote

import intnet
from intnet.inspect import flow
from intnet.inspect.elements import interesting
from intnet.inspect.explain import Explanation, Index
from intnet.inspect.measure import Measured
from intnet.inspect.operands import Input, Operands
from intnet.inspect.text import numbers, over, packed, stations, unit
from intnet.runs import report
from intnet.trace import Event

COLUMNS = ("nominal", "used", "bound", "exponent", "range", "saturated", "zeros", "SQNR")
HEAD = '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
LEGEND = (
    ("rounded", "rounded here"),
    ("exact", "exact, handed on as it is"),
    ("float", "float32"),
    ("outer", "another layer's, or the word before the step"),
)
CHART, LEFT, BOTTOM = (330, 130), 52, 30  # a histogram's size, room for its labels


@dataclass(frozen=True)
class Shown:
    """A path on the page."""

    name: str  # layer/path
    event: Event
    row: Measured
    part: str
    formula: str


def page(
    step: dict[str, Any],
    options: Mapping[str, Any],
    events: Sequence[Event],
    rows: Sequence[Measured],
    operands: Operands,
    index: Index | None,
) -> str:
    """The page of `events` and their measures; `step` is what `--json` says of run and step."""
    shown = []
    for event, row in zip(events, rows, strict=True):
        symbol = operands.symbol(event.path)
        shown.append(Shown(f"{event.layer}/{event.path}", event, row, symbol.part, symbol.formula))
    found = {one.name: interesting(one.event, operands, index) for one in shown}
    layers = list(dict.fromkeys(event.layer for event in events))
    names = {one.name for one in shown}
    frame = resources.files("intnet.inspect").joinpath("page.html").read_text(encoding="utf-8")
    return Template(frame).substitute(
        title=escape(f"{report.title(step)}, step {step['step']:,}"),
        facts=_facts(step, options),
        nav=_nav(layers),
        legend=_legend(),
        layers="\n".join(
            _layer(layer, [one for one in shown if one.event.layer == layer], operands, names, found)
            for layer in layers
        ),
        ways=_json(found),
    )


def _json(found: Mapping[str, Sequence[tuple[str, Explanation]]]) -> str:
    """Every element's stations and explanation; '<' is written so that no text can end the script."""
    data = {
        name: [
            {"is": label, "stations": stations(one), "explanation": one.to_dict()} for label, one in elements
        ]
        for name, elements in found.items()
    }
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def _facts(step: dict[str, Any], options: Mapping[str, Any]) -> str:
    facts = [f"seed {step['seed']}"]
    facts += [f"{key}={'off' if value is None else value}" for key, value in options.items()]
    if step["run"] is not None:
        facts.append(f"run {step['run']}")
    return escape(", ".join([*facts, f"intnet {intnet.__version__}"]))


def _nav(layers: Sequence[str]) -> str:
    links = "".join(f'<li><a href="{_to(layer)}">{escape(layer)}</a></li>' for layer in layers)
    return f'<nav aria-label="layers"><ul>{links}</ul></nav>'


def _to(name: str) -> str:
    """A link to the layer or path `name` of this page."""
    return f"#{quote(name)}"


def _legend() -> str:
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


def _layer(
    layer: str,
    shown: Sequence[Shown],
    operands: Operands,
    names: set[str],
    found: Mapping[str, Sequence[tuple[str, Explanation]]],
) -> str:
    boxes, links = graph(shown, operands, names)
    parts = [
        f'<section aria-labelledby="{escape(layer)}"><h2 id="{escape(layer)}">{escape(layer)}</h2>',
        _wide(flow.draw(layer, boxes, links), f"data flow of {layer}"),
        _wide(_table(shown), f"numbers of {layer}"),
        *(_path(one, found[one.name]) for one in shown),
        "</section>",
    ]
    return "\n".join(parts)


def _wide(content: str, label: str) -> str:
    """Scrolls on its own where the screen is narrow, with the keyboard too."""
    return f'<div class="wide" tabindex="0" role="region" aria-label="{escape(label)}">{content}</div>'


# -- the diagram --------------------------------------------------------------------------------


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
    nominal, used, *_ = numbers(row)
    lines: tuple[str, ...] = (row.short, f"{nominal}/{used} bits")
    kind = "rounded" if one.event.format is not None else "exact"
    if row.format == "float32":
        kind, lines = "float", (row.format,)
    title = f"{row.path} = {one.formula}" if one.formula else ""
    return flow.Box(one.name, lane, row.path, lines, kind, title, _to(one.name))


def _outer(key: str, lane: str, entering: Input, on_page: bool) -> flow.Box:
    name = f"{entering.layer}/{entering.path}"
    where = "before the step" if entering.before else entering.layer
    return flow.Box(key, lane, entering.path, (where,), "outer", name, _to(name) if on_page else "")


# -- the table ----------------------------------------------------------------------------------


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
        link = f'<a href="{_to(one.name)}">{escape(one.row.path)}</a>'
        about = f"<td>{escape(one.formula)}</td><td>{escape(one.row.format)}</td>"
        lines.append(f'<tr><th scope="row">{link}</th>{about}{texts}</tr>')
    body = "\n".join(lines)
    return f'<table class="paths"><thead><tr>{heads}</tr></thead><tbody>\n{body}\n</tbody></table>'


# -- a path -------------------------------------------------------------------------------------


def _path(one: Shown, elements: Sequence[tuple[str, Explanation]]) -> str:
    row, name = one.row, escape(one.name)
    formula = f'<p class="formula">{escape(one.formula)}</p>' if one.formula else ""
    shape = " x ".join(map(str, row.shape)) or "scalar"
    told = f'<p class="quiet">{escape(packed(row))}</p>' if row.buckets else ""
    head = f'<header><h3 id="{name}--head">{name}</h3>{formula}<p class="quiet">{shape}</p>{told}</header>'
    body = f'<div class="parts"><div>{_histograms(row)}</div><div>{_elements(one.name, elements)}</div></div>'
    return f'<section class="path" id="{name}" aria-labelledby="{name}--head">{head}{body}</section>'


def _elements(name: str, elements: Sequence[tuple[str, Explanation]]) -> str:
    """The first element's way, and the choice of another."""
    if not elements:
        return "<p>It has no element.</p>"
    places = [",".join(map(str, one.index)) for _, one in elements]
    choices = "".join(
        f"<option>[{place}] {escape(label)}</option>"
        for place, (label, _) in zip(places, elements, strict=True)
    )
    rows = "".join(
        f'<tr><th scope="row">{escape(station)}</th><td>{escape(value)}</td></tr>'
        for station, value in stations(elements[0][1])
    )
    key = escape(name)
    return (
        f'<p class="choose"><label for="{key}--element">element</label>'
        f'<select id="{key}--element" data-path="{key}" autocomplete="off">{choices}</select></p>'
        f'<table class="way" aria-live="polite"><tbody>{rows}</tbody></table>'
        "<details><summary>as JSON</summary><pre></pre></details>"
    )


def _histograms(row: Measured) -> str:
    """Before and after rounding, on one scale; of an exact or float path as it is."""
    if row.before is None:
        return _chart("after", "as handed on", row.after, max(row.after), row)
    top = max(*row.before, *row.after)
    before = _chart("before", "before rounding", row.before, top, row)
    return before + _chart("after", "after rounding", row.after, top, row)


def _chart(kind: str, title: str, counts: Sequence[int], top: int, row: Measured) -> str:
    """Bars of equal bins of [-edge, edge], `top` elements as high as the chart; none hides."""
    width, height = CHART
    right, ground = width - 8, height - BOTTOM
    step, middle = (right - LEFT) / len(counts), (LEFT + right) / 2
    tall = ground - 12  # room for half a line above
    edges = [_number(row.edges * (2 * k / len(counts) - 1)) for k in range(len(counts) + 1)]
    bars = []
    for k, count in enumerate(counts):
        high = max(1.5, tall * count / top) if count else 0
        place = f'x="{LEFT + k * step + 0.5:.1f}" y="{ground - high:.1f}"'
        size = f'width="{step - 1:.1f}" height="{high:.1f}"'
        bars.append(f"<rect {place} {size}><title>{edges[k]} to {edges[k + 1]}: {count:,}</title></rect>")
    labels = (
        (LEFT, ground + 13, "start", edges[0]),
        (middle, ground + 13, "middle", "0"),
        (right, ground + 13, "end", edges[-1]),
        (middle, height - 3, "middle", unit(row)),
        (LEFT - 4, ground - tall + 8, "end", f"{top:,}"),
        (LEFT - 4, ground, "end", "0"),
    )
    texts = "".join(
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>' for x, y, anchor, text in labels
    )
    axis = f'<path class="axis" d="M{LEFT} {ground - tall}V{ground}H{right}"/>'
    about = f"elements in {len(counts)} equal bins from {edges[0]} to {edges[-1]}, {title}"
    svg = f'<svg class="chart" viewBox="0 0 {width} {height}" role="img" aria-label="{about}">'
    counted = unit(row).partition(",")[0]
    caption = f"<figcaption>elements by {counted}, {title}</figcaption>"
    return f'<figure>{caption}{svg}<g class="{kind}">{"".join(bars)}</g>{axis}{texts}</svg></figure>'


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
