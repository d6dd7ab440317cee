"""What the figures of a run say against the targets, and that as Markdown.

A target is a dict: what, the target as text, the figure got (None where a peer is missing) and
whether it is met. A missed one is shown as missed.
"""

import statistics
from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]


def ratio(peer: float | None, ours: float | None) -> float | None:
    """How many times faster ours is, from seconds; None where one was not measured."""
    return None if peer is None or ours is None else peer / ours


def column(rows: Iterable[Row], key: str) -> list[float]:
    """The measured values of a column."""
    return [row[key] for row in rows if row.get(key) is not None]


def geomean(values: list[float]) -> float | None:
    """Geometric mean; None of nothing."""
    return statistics.geometric_mean(values) if values else None


def at_least(goal: float, what: str, got: float | None) -> Row:
    """The target that `got` is `goal` or more."""
    return {"what": what, "target": f">= {goal:g}", "got": got, "met": None if got is None else got >= goal}


def at_most(goal: float, what: str, got: float | None) -> Row:
    """The target that `got` is `goal` or less."""
    return {"what": what, "target": f"<= {goal:g}", "got": got, "met": None if got is None else got <= goal}


def show(value: Any) -> str:
    """A cell of a table."""
    if isinstance(value, bool):
        return "yes" if value else "MISSED"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def markdown(targets: Iterable[Row]) -> str:
    """The targets as a Markdown table."""
    lines = ["| what | target | got | met |", "|---|---|---|---|"]
    return "\n".join(lines + ["| " + " | ".join(map(show, row.values())) + " |" for row in targets])
