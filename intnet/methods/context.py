"""What is true while a method's hooks run: which step of which run, training or inference, who observes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from intnet.trace import Observer


@dataclass(frozen=True)
class Context:
    """Of one pass through a model, and of the update behind it.

    seed, step, epoch: from which random words are drawn and schedules read; steps and epochs from 0
    training:          False: inference, which draws no words for activations and moves nothing
    observers:         told of every value that is stored or passed on
    saturated:         'layer/path' -> values that a range changed; the hooks count in it
    """

    seed: int = 0
    step: int = 0
    epoch: int = 0
    training: bool = True
    observers: Sequence[Observer] = ()
    saturated: dict[str, int] = field(default_factory=dict)
