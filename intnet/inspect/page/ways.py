"""A path's elements on the page: each one's way from its operands to its code."""

import json
from collections.abc import Mapping, Sequence
from html import escape

from intnet.inspect.elements import interesting
from intnet.inspect.explain import Explanation
from intnet.inspect.page.sections import Given
from intnet.inspect.text import stations

Found = Mapping[str, Sequence[tuple[str, Explanation]]]


def found(given: Given) -> Found:
    """Of each path the elements worth reading."""
    return {one.name: interesting(one.event, given.operands, given.index) for one in given.shown}


def as_json(found: Found) -> str:
    """Every element's stations and explanation; '<' is written so that no text can end the script."""
    data = {
        name: [
            {"is": label, "stations": stations(one), "explanation": one.to_dict()} for label, one in elements
        ]
        for name, elements in found.items()
    }
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def elements(name: str, chosen: Sequence[tuple[str, Explanation]]) -> str:
    """The first element's way, and the choice of another."""
    if not chosen:
        return "<p>It has no element.</p>"
    places = [",".join(map(str, one.index)) for _, one in chosen]
    choices = "".join(
        f"<option>[{place}] {escape(label)}</option>"
        for place, (label, _) in zip(places, chosen, strict=True)
    )
    rows = "".join(
        f'<tr><th scope="row">{escape(station)}</th><td>{escape(value)}</td></tr>'
        for station, value in stations(chosen[0][1])
    )
    key = escape(name)
    return (
        f'<p class="choose"><label for="{key}--element">element</label>'
        f'<select id="{key}--element" data-path="{key}" autocomplete="off">{choices}</select></p>'
        f'<table class="way" aria-live="polite"><tbody>{rows}</tbody></table>'
        "<details><summary>as JSON</summary><pre></pre></details>"
    )
