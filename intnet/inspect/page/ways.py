"""A path's elements on the page: what `explorer.js` starts from, and what it cannot do itself.

The scripts do an element's way from what the page holds (`embed.py`); of an element beyond that, and where
only Python can tell (a curve, a rule of one's own), the ways of those worth reading are told here.
"""

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from intnet.inspect.elements import interesting
from intnet.inspect.explain import Explanation
from intnet.inspect.page.embed import Data
from intnet.inspect.page.sections import Given, Shown
from intnet.inspect.text import stations

Found = Mapping[str, Sequence[tuple[str, Explanation]]]


def found(given: Given) -> Found:
    """Of each path the elements worth reading."""
    return {one.name: interesting(one.event, given.operands, given.index) for one in given.shown}


def as_json(data: Data, found: Found) -> str:
    """All that the scripts read; '<' is written so that no text can end the element."""
    told = {name: [_element(data, name, *one) for one in elements] for name, elements in found.items()}
    made = data.to_dict() | {"elements": told}
    return json.dumps(made, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _element(data: Data, name: str, label: str, one: Explanation) -> dict[str, Any]:
    """Where it is and why it is worth reading; its stations where the scripts do not make them."""
    shape = data.steps[-1]["paths"][name]["shape"]
    flat = int(np.ravel_multi_index(one.index, shape)) if shape else 0
    made: dict[str, Any] = {"is": label, "index": one.index}
    return made if data.holds(name, flat) else made | {"stations": stations(one)}


def elements(one: Shown, chosen: Sequence[tuple[str, Explanation]]) -> str:
    """The explorer of a path, which its script fills; until then the first element's way."""
    if not chosen:
        return "<p>It has no element.</p>"
    index, name = ",".join(map(str, chosen[0][1].index)), escape(one.name)
    rows = "".join(
        f'<tr><th scope="row">{escape(station)}</th><td>{escape(value)}</td></tr>'
        for station, value in stations(chosen[0][1])
    )
    first = f'<p class="quiet">element [{index}]</p><table class="way"><tbody>{rows}</tbody></table>'
    return f'<div class="explorer" data-path="{name}">{first}</div>'
