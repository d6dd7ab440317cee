"""`intnet inspect --html`: one self-contained page of the inspected layers' step.

    page(Given(step, options, events, rows, operands), data) -> the page as text

Python makes sections, each a function of `Given` in a module of its own, listed here in their order:
of each layer, of each path; after the layers stands the glossary. Scripts make what answers:
`SCRIPTS` are the files beside this one, in the order of what they use, after the lab's arithmetic.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from html import escape
from string import Template
from typing import Any
from urllib.parse import quote

from intnet.inspect.page import block_map, charts, diagram, errors, glossary, overview, tables, ways, widths
from intnet.inspect.page.embed import Data
from intnet.inspect.page.sections import Given, Section, Shown, to
from intnet.inspect.text import packed
from intnet.runs import report
from intnet.show import lab, web

OF_LAYER: tuple[Callable[[Given, str], Section], ...] = (
    diagram.section,
    errors.section,
    lambda given, layer: widths.picture(given.log, layer),
    block_map.section,
    lambda given, layer: widths.reasons(given.log, given.options, layer),
    tables.section,
)
OF_PATH: tuple[Callable[[Given, Shown], Section], ...] = (charts.section,)  # beside its elements

ELEMENTS = ("data", "tell", "way", "groups", "products")  # what computes
SCRIPTS = (*ELEMENTS, "picture", "what_if", "explorer")
KINDS = ("drawn", "beside", "whole")  # of a layer's sections
INDEX = "index.html"  # of a folder of pages


def page(given: Given, data: Data) -> str:
    """The page; data: what it holds of the steps."""
    step = given.step
    title = f"{report.title(dict(step))}, step {step['step']:,}"
    found = ways.found(given)
    body = Template(web.text(__name__, "frame.html")).substitute(
        title=escape(title),
        facts=escape(given.facts()),
        nav=_nav(given),
        held=escape(f"This page needs no network. Of operands {data.told()}."),
        legend=diagram.legend(),
        layers="\n".join(_layer(given, layer, found) for layer in given.layers),
        behind=glossary.section(given).text(2),
    )
    json = f'<script type="application/json" id="data">{ways.as_json(data, found)}</script>'
    style = web.text(__name__, "style.css")
    scripts = lab.arithmetic(), lab.shown(), web.script(__name__, *SCRIPTS)
    return web.document(title, body, style, *scripts, data=json)


def folder(given: Given, data: Mapping[Any, Data]) -> dict[str, str]:
    """Pages by the name of their file: one a layer, and of the whole network, which leads to them."""
    pages = {layer: f"{layer}.html" for layer in given.layers}
    whole = replace(given, pages=pages)
    made = {INDEX: overview.overview(whole)}
    for layer, file in pages.items():
        own = [one for one in whole.shown if one.event.layer == layer]
        events, rows = [one.event for one in own], [one.row for one in own]
        made[file] = page(replace(whole, events=events, rows=rows), data[layer])
    return made


def _joined(sections: Iterable[Section], level: int = 2) -> str:
    return "\n".join(one.text(level) for one in sections)


def _nav(given: Given) -> str:
    targets = {layer: to(layer) for layer in given.layers}
    if given.pages:  # of a folder: the whole network, and every layer
        targets = {"the whole network": INDEX} | {name: quote(file) for name, file in given.pages.items()}
    links = "".join(f'<li><a href="{href}">{escape(name)}</a></li>' for name, href in targets.items())
    return f'<nav aria-label="layers"><ul>{links}</ul></nav>'


def _layer(given: Given, layer: str, found: ways.Found) -> str:
    name = escape(layer)
    parts = [
        f'<section class="layer" aria-labelledby="{name}"><h2 id="{name}">{name}</h2>',
        *_beside([make(given, layer) for make in OF_LAYER]),
        *(_path(given, one, found) for one in given.of(layer)),
        "</section>",
    ]
    return "\n".join(parts)


def _beside(sections: Sequence[Section]) -> list[str]:
    """The diagram, then in a column of their own all that stand beside it, then the others."""
    kinds = {kind: _joined((one for one in sections if one.kind == kind), 3) for kind in KINDS}
    column = kinds["beside"].strip()
    return [kinds["drawn"], f'<div class="beside">{column}</div>' if column else "", kinds["whole"]]


def _path(given: Given, one: Shown, found: ways.Found) -> str:
    row, name = one.row, escape(one.name)
    formula = f'<p class="formula">{escape(one.formula)}</p>' if one.formula else ""
    shape = " x ".join(map(str, row.shape)) or "scalar"
    told = f'<p class="quiet">{escape(packed(row))}</p>' if row.buckets else ""
    head = f'<header><h3 id="{name}--head">{name}</h3>{formula}<p class="quiet">{shape}</p>{told}</header>'
    charts = _joined((make(given, one) for make in OF_PATH), 4)
    elements = ways.elements(one, found[one.name])
    body = f'<div class="parts"><div>{charts}</div><div>{elements}</div></div>'
    return f'<section class="path" id="{name}" aria-labelledby="{name}--head">{head}{body}</section>'
