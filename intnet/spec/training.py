"""A whole run, from the seed to the state: what `intnet.fit` computes, in the definition's own arithmetic.

    state_0   first values by the seed (`initial`, and the method's `first`)
    step s    the batch s of the seed's order (`data`), forward, loss (`loss`), backward, update, end of step;
              after the last batch of an epoch its end

A step is a function of (state, seed, s) alone: `words` draws by name, step and index. `digest` of the
state is the SHA-256 that the run has.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from types import ModuleType
from typing import Any

from intnet.spec import data as batches
from intnet.spec.loss import cross_entropy, logits32
from intnet.spec.methods import METHODS
from intnet.spec.methods.step import Now, State, Step
from intnet.spec.models import Net, parameters
from intnet.spec.tensor import Tensor

Seen = Callable[[int, Fraction], None]


def first(net: Net, method: ModuleType, settings: Any, data: batches.Dataset, seed: int) -> State:
    """The state ahead of the first step."""
    found = parameters(net, data.shape)
    made: State = method.first(found, settings, seed, net)
    return made


def step(
    net: Net,
    method: ModuleType,
    settings: Any,
    state: State,
    data: batches.Dataset,
    now: Now,
    batch_size: int,
) -> tuple[Step, Fraction]:
    """(the step as it was taken, with the next state, the batch's mean loss)."""
    images, labels = batches.batch(data, now.seed, now.step, batch_size)
    run: Step = method.Step(net, settings, state, now)
    losses = []

    def judge(logits: Any) -> tuple[Fraction, Tensor]:
        made = cross_entropy(logits32(logits), labels, settings.label_smoothing)
        losses.append(made.loss)
        return made.loss, made.error

    run.take(images, judge)
    return run, losses[0]


def train(
    net: Net, method: str, data: batches.Dataset, seed: int = 1, steps: int = 1, batch_size: int = 64,
    options: dict[str, Any] | None = None, seen: Seen = lambda step, loss: None,
) -> State:  # fmt: skip
    """The state after so many steps from the seed; seen: told of every step, from 1, and its mean loss."""
    module = METHODS[method]
    settings = module.Settings.from_options(options or {})
    state = first(net, module, settings, data, seed)
    per_epoch = batches.steps_per_epoch(len(data.train_labels), batch_size)
    for number in range(steps):
        run, loss = step(net, module, settings, state, data, Now(seed, number, per_epoch), batch_size)
        state = run.state
        seen(number + 1, loss)
    return state
