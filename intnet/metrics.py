"""The log of a run, metrics.jsonl: reading it line by line, and cutting it back to a checkpoint.

Only the last line may be damaged, by a kill: it is then the beginning of a line. Anything else that
is wrong has another cause, and dropping the lines after it would lose what cannot be measured again.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Any

from intnet import files, records
from intnet.errors import CheckpointError

LINES: dict[str, dict[str, Any]] = {
    "step": {
        "step": int,
        "epoch": int,
        "loss": (float, NoneType),
        "accuracy": float,
        "seconds": float,
        "images_per_second": float,
    },
    "map": {"step": int, "epoch": int, "seconds": float, "layers": dict},
    "epoch": {"step": int, "epoch": int, "test_accuracy": float, "saturated": {str: int}},
    # of every step, for methods whose word lengths move: seconds that the switch took, and every weight
    # layer's <WL, FL> and non-zero weights; lb and r (lookback, resolution) where the method has them
    "precision": {
        "step": int,
        "seconds": float,
        "layers": {str: {"WL": int, "FL": int, "nonzero": int}},
    },
}


def read_metrics(path: Path) -> Iterator[dict[str, Any]]:
    """The lines, without a last one that a kill cut off; CheckpointError names a damaged line."""
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
    """One line, checked; None when a kill left only its beginning."""
    try:
        line = records.parse(text)
    except ValueError:
        if text.startswith(b"{") and text.isascii() and not text.endswith(b"\n"):
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
