"""Compile ahead of the tests: a few steps of every method.

`python -m tests.support.warm` fills the cache that all tests and their child processes read. Without it two
workers, and every process that a test starts, compile the same kernels at the same time.
"""

from __future__ import annotations

import sys
from time import perf_counter

from intnet import datasets, methods, models
from intnet.machine.ahead import compile_kernels, group
from intnet.training.train import Run

WHAT = [(method, model) for method in methods.METHODS for model in ("resnet8", "mlp")]
WHAT += [("float32", "efficientnetv2")]


def main() -> int:
    """Train two steps and test, of each (method, model); the time it took."""
    print("compiling kernels (minutes the first time, seconds later) ..", flush=True)
    started, data = perf_counter(), datasets.load("digits")
    compile_kernels(*(group(method, convolves) for method in methods.METHODS for convolves in (True, False)))
    for method, model in WHAT:
        built = models.MODELS[model](data.image_shape, data.classes)
        run = Run(built, methods.make(method), data, 32, 1)
        run.train(2)
        run.evaluate()
        run.digest()
    print(f"kernels are there after {perf_counter() - started:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
