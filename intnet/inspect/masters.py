"""The masters after a step: every parameter's new value, where its method's trace does not end with it.

    with_masters(run, events) -> (events, symbols): those of the step, and of each such parameter one more

A parameter that the forward pass read under its own name (float32, saved) is there as W' after the update.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from intnet.methods import symbols
from intnet.methods.symbols import Symbol
from intnet.methods.trace import Event

if TYPE_CHECKING:
    from intnet.training.train import Run


def with_masters(run: "Run", events: Mapping[str, Event]) -> tuple[dict[str, Event], dict[str, Symbol]]:
    """Of a run after the step whose events these are."""
    made, table = dict(events), dict(run.method.SYMBOLS)
    for layer in run.model.all_layers():
        for parameter in layer.parameters:
            p = parameter.symbol
            ends = table.get(p, symbols.Symbol("", "")).part == "update"
            if ends and f"{layer.name}/{p}" in made:
                continue
            path = p if ends else f"{p}'"
            table.setdefault(path, _symbol(p, run.method.settings().get("optimizer", "sgd")))
            name = f"{layer.name}/{path}"
            made[name] = Event(layer.name, path, run.step - 1, parameter.value, parameter.value)
    return made, table


def _symbol(p: str, optimizer: str) -> Symbol:
    symbol = Symbol("update", f"{p} - lr*Acc{p}")
    return symbols.with_adamw({p: symbol})[p] if optimizer == "adamw" else symbol
