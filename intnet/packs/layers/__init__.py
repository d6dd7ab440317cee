"""Packs of layers: every data path of one training step, or of a chain of steps, as ports.

    write(draft(run, ["fc2", "bn2"]), "packs/fc2")     the next step of `run`: forward, backward, update
    redraft(pack)                                      the same from the pack alone: no data, model or run

Ports of layer L: L/x0, L/e3, ... one a data path that the layer rounds or passes on, in the paper's symbols.
What it reads from outside the pack is `in`; of an expression that nobody rounded (the gradient at its output,
a quotient) these are its terms, coefficients, offset and denominator: L/e3.e1, L/e3.denominator. What another
layer of the pack made (`graph.py`) is no input: parts of such an expression are `trail`. State before the
step: L/W.old, L/Accq.old. In a chain the names of each step begin with step7/.

A step is a forward pass, a backward pass and an update. What a method does after it, at an epoch's end
(MuPPET's policy), is in no pack, but its results enter the next step.

A copy of a parameter that is constant (gammaq, as long as it is 1) judges nothing: it is `trail`, not `out`.
So is a gradient that stochastic rounding made zero everywhere.
PACK.json keeps under `about`: `replay`, what `redraft` runs the layers from; `aliases`, paths that are
another port's words; `chain`, a SHA-256 a step, of its expected files one after another, by name.

capture, heads (what a layer, and a network's end, saw in a step) -> graph, wiring (which layer made it),
expressions (what entered a rounding) -> worth, blocks, mx_blocks, paths (the ports) -> again (a pack's own
layers, for `redraft`) -> network (packs of whole ones)
"""

from collections.abc import Callable, Sequence
from typing import Any

from intnet.methods.trace import Observer
from intnet.packs.layers.again import Again
from intnet.packs.layers.capture import Captured, Taps, rates, remember, remembered, replay
from intnet.packs.layers.paths import Maker
from intnet.packs.pack import Pack
from intnet.packs.ports import Draft, Json
from intnet.runs.identity import identity
from intnet.training.train import Run

__all__ = ["draft", "redraft"]

Advance = Callable[[Run, int, Any], None]  # takes a run to a step; an observer sees the last one


def draft(run: Run, layers: Sequence[str], steps: int = 1, advance: Advance | None = None) -> Draft:
    """The next step of `run`, or the next `steps`, of the layers named.

    PackError where a layer has no data path, or runs twice; see `pack.check` for expected words.
    """
    chosen = [layer for layer in run.model.all_layers() if layer.name in layers]
    generator = {"kind": "layers", "layers": [layer.name for layer in chosen], "step": run.step + 1}
    made = Maker(run.method, generator | {"steps": steps} | identity(run))
    for _ in range(steps):
        taps = Taps(chosen, run.method)
        with taps:
            (advance or _advance)(run, run.step + 1, taps)
        epoch = (run.step - 1) // run.steps_per_epoch
        made.add(taps.captured(), run.step, epoch, taps.remembered, taps.rates)
    return made.draft()


def _advance(run: Run, step: int, observer: Observer) -> None:
    run.train(step, observe_last=[observer])


def redraft(pack: Pack) -> Draft:
    """The draft of a pack: every layer run again from its inputs and stored state, and from nothing else.

    Whatever PACK.json has wrong ends in an error of Python's (`check.recompute` turns it into a PackError).
    """
    again = Again(pack)
    for step in again.steps():
        told = step.get("method", {})
        captured = [_again(one, again, told) for one in step["layers"]]
        remember(again.method, told)
        now = remembered(again.method), rates(again.method)
        again.made.add(captured, step["step"], step["epoch"], *now)
    return again.made.draft()


def _again(given: Json, again: Again, told: Json) -> Captured:
    """A layer run again from what PACK.json keeps of it, and of what the method remembers."""
    layer, load = again.layers[given["layer"]], again.loads[given["layer"]]
    remember(again.method, told)
    captured = Captured(layer.name, value=load(given["value"]), wanted=given["wanted"])
    captured.gradient = None if given["gradient"] is None else load(given["gradient"])
    captured.factors = load(given["factors"]) if "factors" in given else None
    captured.before = {key: load(json) for key, json in given["before"].items()}
    return replay(layer, again.method, captured)
