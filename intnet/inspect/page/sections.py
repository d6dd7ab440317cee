"""What sections of the page are made from, and what they are: a heading and HTML."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import Any
from urllib.parse import quote

import intnet
from intnet.inspect.explain_rules import Index
from intnet.inspect.gradient_error import Compared
from intnet.inspect.measure import Measured
from intnet.inspect.operands import Operands
from intnet.inspect.width_log import Log
from intnet.layers import Layer
from intnet.methods.trace import Event
from intnet.models import Model


@dataclass(frozen=True)
class Section:
    """A part of the page; title: its heading, '' where it needs none; html: '' for no section at all.

    kind: its class, by which `style.css` sets it beside others
    """

    title: str
    html: str
    kind: str = "whole"

    def text(self, level: int) -> str:
        """As it stands on the page, its heading of this level."""
        if not self.html:
            return ""
        head = f"<h{level}>{escape(self.title)}</h{level}>" if self.title else ""
        return f'<section class="part-of {self.kind}">{head}{self.html}</section>'


@dataclass(frozen=True)
class Shown:
    """A path on the page."""

    name: str  # layer/path
    event: Event
    row: Measured
    part: str
    formula: str


@dataclass(frozen=True)
class Given:
    """What the page is about.

    step: what `--json` says of run and step; options: of the method, where they are not its defaults
    index: of an element that is asked for
    model: whose layers they are; log: of widths that moved, if they did
    links: what is linked beside the page, as 'docs/methods/adapt.md' -> where it lies from there
    pages: of a folder of pages, layer -> file; compared: layer -> its gradient errors, once they are found
    """

    step: Mapping[str, Any]
    options: Mapping[str, Any]
    events: Sequence[Event]
    rows: Sequence[Measured]
    operands: Operands
    index: Index | None
    model: Model
    log: Log
    links: Mapping[str, str]
    pages: Mapping[str, str] = field(default_factory=dict)
    compared: dict[str, list[Compared]] = field(default_factory=dict)

    def facts(self) -> str:
        """Seed, options that are not as without a word, folder, version."""
        told = [f"seed {self.step['seed']}"]
        told += [f"{key}={'off' if value is None else value}" for key, value in self.options.items()]
        if self.step["run"] is not None:
            told.append(f"run {self.step['run']}")
        return ", ".join([*told, f"intnet {intnet.__version__}"])

    @cached_property
    def shown(self) -> list[Shown]:
        """The paths in their order."""
        found = []
        for event, row in zip(self.events, self.rows, strict=True):
            symbol = self.operands.symbol(event)
            formula = self.operands.formula(event)
            found.append(Shown(event.name, event, row, symbol.part, formula))
        return found

    @cached_property
    def names(self) -> set[str]:
        """Of all paths, 'layer/path'."""
        return {one.name for one in self.shown}

    @cached_property
    def layers(self) -> list[str]:
        """Their layers in their order."""
        return list(dict.fromkeys(event.layer for event in self.events))

    def of(self, layer: str) -> list[Shown]:
        """The paths of a layer."""
        return [one for one in self.shown if one.event.layer == layer]

    def layer(self, name: str) -> Layer:
        """The layer itself."""
        return next(one for one in self.model.all_layers() if one.name == name)


def to(name: str) -> str:
    """A link to the layer or path `name` of this page."""
    return f"#{quote(name)}"


def table(kind: str, heads: Sequence[str], rows: str, words: int = 99) -> str:
    """Rows under headings, the first so many of words; on a narrow page a row is a stack of lines."""
    marks = ["" if k < words else ' class="number"' for k in range(len(heads))]
    cells = "".join(f'<th scope="col"{mark}>{name}</th>' for name, mark in zip(heads, marks, strict=True))
    return f'<table class="{kind} stacked"><thead><tr>{cells}</tr></thead><tbody>{rows}</tbody></table>'


def wide(content: str, label: str) -> str:
    """Scrolls on its own where the screen is narrow, with the keyboard too."""
    return f'<div class="wide" tabindex="0" role="region" aria-label="{escape(label)}">{content}</div>'
