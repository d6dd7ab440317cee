"""The log of a run, metrics.jsonl: reading it line by line, and cutting it back to a checkpoint.

Only the last line may be damaged, by a kill: it is then the beginning of a line. Anything else that
is wrong has another cause, and dropping the lines after it would lose what cannot be measured again.
"""

import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np

from intnet.errors import CheckpointError
from intnet.machine.ranks import current
from intnet.runs import files, records
from intnet.training.history import Epoch, History, StepReport

_TAIL = 1 << 16  # bytes of a log in which its last line is looked for

_MAP = {  # of all layers: what was aimed at, mean widths, what is skipped, the noise that the loss sees
    "alpha": float,
    "lambda": float,
    "mean": float,
    "smoothed": float,
    "exact": float,
    "untuned": float,
    "mac_bits": float,
    "skipped": float,
    "loss_noise": {"before": float, "after": float, "uniform": float},
}
LAYER_MAP = {  # of one operand; counts: blocks of 0, 2, 4, 6, 8 bits; r: its least, quartiles, greatest
    "blocks": int,
    "macs": int,
    "mean": float,
    "mac_bits": float,
    "skipped": float,
    "counts": [int],
    "r": [float],
    "infinite": int,
    "change": float,
    "change_new": float,
}

LINES: dict[str, dict[str, Any]] = {
    "step": {
        "step": int,
        "epoch": int,
        "loss": (float, NoneType),
        "accuracy": float,
        "seconds": float,
        "images_per_second": float,
    },
    # test_accuracy: None of data without a test part; runs of old have no loss, accuracy, test_loss
    "epoch": {"step": int, "epoch": int, "test_accuracy": (float, NoneType), "saturated": {str: int}},
    # of every step, for methods whose word lengths move: seconds that the switch took, and every weight
    # layer's <WL, FL> and non-zero weights; lb and r (lookback, resolution) where the method has them
    "precision": {
        "step": int,
        "seconds": float,
        "layers": {str: {"WL": int, "FL": int, "nonzero": int}},
    },
    # of a step in which word lengths were decided anew: of each layer, or of 'net', what came of it and why
    "decision": {"step": int, "epoch": int, "of": {str: dict}},
    # at the end of every epoch, before its own line, for methods of a map of widths: the map made then in
    # so many seconds, which holds in the next; the first layer has no "activations"
    "map": {
        "step": int,
        "epoch": int,
        "seconds": float,
        "weights": _MAP,
        "activations": _MAP,
        "layers": {str: {"weights": LAYER_MAP}},
    },
}


def step_lines(step: StepReport) -> Iterator[dict[str, Any]]:
    """A step as lines of metrics.jsonl: itself, widths that moved in it, a map that it made."""
    yield {
        "kind": "step",
        "step": step.step,
        "epoch": step.epoch,
        "loss": step.loss if np.isfinite(step.loss) else None,
        "accuracy": step.accuracy,
        "seconds": round(step.seconds, 6),
        "images_per_second": round(step.images / step.seconds, 1),
    }
    if step.widths:
        seconds = round(step.overhead, 6)
        yield {"kind": "precision", "step": step.step, "seconds": seconds, "layers": step.widths}
    if step.moves:
        yield {"kind": "decision", "step": step.step, "epoch": step.epoch, "of": step.moves}
    if step.map:
        yield {"kind": "map", "step": step.step, "epoch": step.epoch, **step.map}


def epoch_line(epoch: Epoch) -> dict[str, Any]:
    """An epoch as a line of metrics.jsonl."""
    finite = {
        name: value if value is None or np.isfinite(value) else None
        for name, value in (
            ("loss", epoch.loss),
            ("accuracy", epoch.accuracy),
            ("test_loss", epoch.test_loss),
        )
    }
    line: dict[str, Any] = {"kind": "epoch", "step": epoch.step, "epoch": epoch.epoch - 1, **finite}
    line |= {"test_accuracy": epoch.test_accuracy, "saturated": epoch.saturated}
    return line | ({"widths": epoch.widths} if epoch.widths else {})


def history(path: Path, own: dict[str, Any], step: int) -> History:
    """That of the run of identity `own` after `step`, of its log; RuntimeWarning where that lacks lines.

    The log is on the disk before each checkpoint: what it lacks of a step was lost later.
    """
    made = History()
    for line in read_metrics(path):
        if line["step"] > step:
            break
        if line["kind"] == "step":
            loss = float("nan") if line["loss"] is None else line["loss"]
            report = line["step"], line["epoch"], loss, line["accuracy"], line["seconds"]
            # of an epoch under way: none of its steps is short
            made.saw(StepReport(*report, own["batch_size"]))
        elif line["kind"] == "epoch":
            loss, accuracy = line.get("loss"), line.get("accuracy")
            rest = line["saturated"], line.get("widths", {}), line.get("test_loss"), line["test_accuracy"]
            made.epochs.append(Epoch(line["epoch"] + 1, line["step"], loss, accuracy, *rest))
            made.steps = []
    world = current()
    if world is not None and world.rank:  # whose folder holds what it was sent, and no log
        return made
    lost = _lost(made, step, -(-own["limit"] // own["batch_size"]))
    if lost:
        warnings.warn(
            f"{path} lacks {lost} of the way to the checkpoint, step {step:,}. The state is whole and "
            "training goes on to the same bits; what is read from the log (history, intnet costs) is not. "
            "Copy the whole file back where you have it",
            RuntimeWarning,
            stacklevel=4,
        )
    return made


def _lost(made: History, step: int, steps_per_epoch: int) -> str:
    """Epochs that ended up to `step`, and steps of the one under way, that a history lacks; '' where none."""
    ended = step // steps_per_epoch
    epochs = set(range(1, ended + 1)) - {epoch.epoch for epoch in made.epochs}
    steps = set(range(ended * steps_per_epoch + 1, step + 1)) - {one.step for one in made.steps}
    lost = {what: numbers for what, numbers in (("epoch", epochs), ("step", steps)) if numbers}
    ends = {what: sorted({min(numbers), max(numbers)}) for what, numbers in lost.items()}
    return " and ".join(f"{what} {' to '.join(f'{n:,}' for n in of)}" for what, of in ends.items())


def read_metrics(path: Path) -> Iterator[dict[str, Any]]:
    """The lines, without a last one that a kill or a lost power cut off; CheckpointError names a bad one."""
    if not path.exists():
        return
    with open(path, "rb") as stream:
        for number, text in enumerate(stream, start=1):
            try:
                line = _line(text)
            except ValueError as error:
                raise CheckpointError(
                    f"{path}, line {number}: damaged ({error}): mend that line or delete it"
                ) from None
            if line is not None:
                yield line


def _line(text: bytes) -> dict[str, Any] | None:
    """One line, checked; None when a kill left only its beginning, or where power was lost zero bytes."""
    try:
        line = records.parse(text)
    except ValueError:
        begun = text.rstrip(b"\0")
        if not text.endswith(b"\n") and (not begun or (begun.startswith(b"{") and begun.isascii())):
            return None
        raise
    kind = records.check(line, {"kind": str})["kind"]
    if kind not in LINES:
        raise ValueError(f"kind {kind!r} is none of {', '.join(LINES)}")
    return records.check(line, LINES[kind])


def cut_metrics(path: Path, step: int) -> None:
    """Drop all that came after the checkpoint of `step`."""
    kept = [json.dumps(line) + "\n" for line in read_metrics(path) if line["step"] <= step]
    files.replace(path, "".join(kept).encode())


def last_step(path: Path) -> int:
    """The step of the last whole line, 0 where there is none; for looking at a run that is at work."""
    try:
        with open(path, "rb") as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - _TAIL))
            lines = stream.read().splitlines()
    except FileNotFoundError:
        return 0
    for text in reversed(lines):
        try:
            return int(records.check(records.parse(text), {"step": int})["step"])
        except ValueError:
            continue
    return 0
