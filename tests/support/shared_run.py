"""Runs that ranks train together, as jobs of `pipes.together`, and what one process makes of them."""

from typing import Any

from intnet.runs import run_folder

# What stands here is small, and yet each batch has whole groups for some ranks and none for others.
LIMIT, BATCH, STEPS = 150, 96, 3


def trained(method: str, model: str, options: dict[str, Any], augment: str | None = None) -> dict[str, Any]:
    """Digest, losses, counts and test accuracy of a short run on digits; on a rank of its share."""
    run = run_folder.build(method, options, model, "digits", BATCH, 1, LIMIT, augment=augment)
    losses: list[float] = []
    run.train(STEPS, lambda step: losses.extend([step.loss, step.accuracy, step.images]))
    found = run.evaluate()
    counts = run.counts()
    epochs = [(epoch.loss, epoch.saturated) for epoch in run.history.epochs]
    return {
        "digest": run.digest(),
        "losses": losses,
        "counts": counts,
        "epochs": epochs,
        "accuracy": (found.accuracy, found.loss),
    }


def all_trained(cases: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """`trained` of each, one after the other."""
    return [trained(*case) for case in cases]
