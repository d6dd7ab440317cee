"""Widths over time and what moved them, as a run's log has them (`runs/metrics.py`)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Moved:
    """A decision; before: (WL, FL) in the step that made it; layer: 'net' where one WL is for all.

    found: the log's numbers (`Method.moves`)
    """

    step: int
    layer: str
    before: tuple[int, int] | None
    found: Mapping[str, Any]

    @property
    def after(self) -> tuple[int, int | None]:
        """(WL, FL) from the next step on; of MuPPET no FL, its scales follow each tensor."""
        return self.found["WL"], self.found.get("FL")

    @property
    def width_moved(self) -> bool:
        """Whether WL is another one."""
        return self.before is not None and self.before[0] != self.found["WL"]


@dataclass
class Log:
    """widths: layer -> [(step, WL)], a pair where it changes; moves: all decisions; steps: of the log."""

    widths: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    moves: list[Moved] = field(default_factory=list)
    steps: int = 0


def read(lines: Iterable[Mapping[str, Any]]) -> Log:
    """What lines of metrics.jsonl say of widths."""
    log = Log()
    now: dict[str, tuple[int, int]] = {}
    for line in lines:
        step = line["step"]
        log.steps = max(log.steps, step)
        if line["kind"] == "precision":
            for layer, used in line["layers"].items():
                if layer not in now or now[layer][0] != used["WL"]:
                    log.widths.setdefault(layer, []).append((step, used["WL"]))
                now[layer] = used["WL"], used["FL"]
        elif line["kind"] == "decision":
            for layer, found in line["of"].items():
                before = next(iter(now.values()), None) if layer == "net" else now.get(layer)
                log.moves.append(Moved(step, layer, before, found))
    return log
