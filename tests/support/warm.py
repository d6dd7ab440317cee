"""Compile ahead of the tests: a few steps of every method, two processes side by side.

`python -m tests.support.warm` fills the cache that all tests and their child processes read. Without it two
workers, and every process that a test starts, compile the same kernels at the same time.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from time import perf_counter

# Half of the compiling each; what a later line needs too is read from the cache.
SHARES: tuple[tuple[tuple[str, str], ...], ...] = (
    (("wageubn", "resnet8"), ("dynasty", "resnet8"), ("muppet", "mlp"), ("dynasty", "mlp")),
    (("float32", "efficientnetv2"), ("adapt", "resnet8"), ("saved", "resnet8"), ("muppet", "resnet8")),
)


def compile_by(shares: Sequence[tuple[str, str]]) -> None:
    """Train two steps and test, of each (method, model)."""
    from intnet import datasets, methods, models
    from intnet.training.train import Run

    data = datasets.load("digits")
    for method, model in shares:
        built = models.MODELS[model](data.image_shape, data.classes)
        run = Run(built, methods.make(method), data, 32, 1)
        run.train(2)
        run.evaluate()
        run.digest()


def main() -> int:
    """Both shares, each in a process of its own; the time it took."""
    if len(sys.argv) == 2:
        compile_by(SHARES[int(sys.argv[1])])
        return 0
    print("compiling kernels (minutes the first time, seconds later) ..", flush=True)
    started = perf_counter()
    command = [sys.executable, "-m", "tests.support.warm"]
    running = [subprocess.Popen([*command, str(share)]) for share in range(len(SHARES))]
    failed = [process.wait() for process in running]
    print(f"kernels are there after {perf_counter() - started:.0f} s", flush=True)
    return max(failed)


if __name__ == "__main__":
    sys.exit(main())
