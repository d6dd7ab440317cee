"""Runs that ranks train together, as jobs of `pipes.together`, and what one process makes of them."""

import math
from typing import Any

from intnet import models
from intnet.autograd import Tensor
from intnet.layers import Dropout, Flatten, Linear, ReLU, Sequential
from intnet.methods.method import Method
from intnet.methods.trace import PathTable
from intnet.runs import rank_messages, run_folder
from intnet.training.history import StepReport

# What stands here is small, and yet each batch has whole groups for some ranks and none for others.
LIMIT, BATCH, STEPS = 150, 96, 3


@models.register("dropped")
class Dropped(models.Model):
    """A linear layer, dropout of 0.3, another linear layer."""

    def __init__(self, image_shape: tuple[int, int, int], classes: int) -> None:
        super().__init__("dropped", image_shape, classes)
        self.stack = Sequential(
            Flatten(), Linear(math.prod(image_shape), 32), ReLU(), Dropout(0.3), Linear(32, classes)
        )
        self.finish()

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """Logits."""
        return self.stack(x, method)


def trained(
    method: str, model: str, options: dict[str, Any], augment: str | None = None, batch: int = BATCH
) -> dict[str, Any]:
    """Digest, losses, counts, data paths of the last step, test accuracy of a short run on digits.

    On a rank of its share.
    """
    run = run_folder.build(method, options, model, "digits", batch, 1, LIMIT, augment=augment)
    losses: list[float] = []

    def seen(step: StepReport) -> None:
        losses.extend([step.loss, step.accuracy, step.images])

    table = PathTable()
    run.train(STEPS - 1, seen)
    run.train(STEPS, seen, [table])  # as a report is made
    found = run.evaluate()
    counts = run.counts()
    epochs = [(epoch.loss, epoch.saturated) for epoch in run.history.epochs]
    return {
        "digest": run.digest(),
        "losses": losses,
        "counts": counts,
        "paths": list(rank_messages.path_table(table).rows.values()),
        "epochs": epochs,
        "accuracy": (found.accuracy, found.loss),
    }


def all_trained(cases: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """`trained` of each, one after the other."""
    return [trained(*case) for case in cases]
