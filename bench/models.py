"""Does every model train under every method, and is a step the same with one thread and with two?

Two processes, one with each number of threads, take a step of every pair on small random images: the digest
of the state after it is compared. Seconds are those of a second step, once everything is compiled. Models
with two stems are there twice: 64x64 images have ImageNet's.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter

from bench.summary import Row, at_least
from intnet import methods, models

QUESTION = "a training step of every model under every method, batch 4"
SMALL, LARGE, BATCH = (16, 16, 3), (64, 64, 3), 4
CASES = [(name, SMALL) for name in models.MODELS] + [(name, LARGE) for name in models.STEMMED]
CHILD = "from bench import models\nmodels.child()"


def child() -> None:
    """A line of JSON a pair: digest of the state after the first step, seconds of the second."""
    from bench.training import run

    for model, image in CASES:
        for name in methods.METHODS:
            made = run(methods.make(name), model, image, BATCH)
            made.train_step()
            digest, start = made.digest(), perf_counter()
            made.train_step()
            print(json.dumps([digest, perf_counter() - start]), flush=True)


def _under(threads: int) -> list[tuple[str, float]]:
    done = subprocess.run(
        [sys.executable, "-c", CHILD], check=True, capture_output=True, text=True,
        cwd=Path(__file__).parent.parent, env={**os.environ, "NUMBA_NUM_THREADS": str(threads)},
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines()]


def rows() -> list[Row]:
    cases = [(f"{model} {image[0]}x{image[1]}", name) for model, image in CASES for name in methods.METHODS]
    return [
        {
            "model": model, "method": name, "1 thread, s": one, "2 threads, s": two, "same": first == second,
            "state sha256": first,
        }
        for (model, name), (first, one), (second, two) in zip(cases, _under(1), _under(2), strict=True)
    ]  # fmt: skip


def targets(rows: list[Row]) -> list[Row]:
    same = sum(row["same"] for row in rows)
    return [at_least(len(rows), "steps with one digest for 1 and 2 threads, of every pair", same)]
