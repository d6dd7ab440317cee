"""Which kernels the first steps of each method call: `python -m bench.kernels` writes the list in `machine`.

Each group is a process with an empty cache, which gives the seconds that each kernel took to compile, and
another with a full one, which gives those that are called from Python: eight minutes on an idle machine.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from time import perf_counter
from typing import Any

from numba.core import event
from numba.core.registry import CPUDispatcher

from intnet import datasets, methods, models
from intnet.machine import ahead
from intnet.training.train import Run

MODELS = {"convolutions": "resnet20", "dense": "mlp"}


class _Seconds(event.Listener):
    """How long each compilation took that a call from Python started."""

    def __init__(self) -> None:
        self.found = dict[str, float]()
        self._depth, self._started = 0, 0.0

    def on_start(self, event: Any) -> None:
        if self._depth == 0:
            self._started = perf_counter()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            key = _key(event.data["dispatcher"], event.data["args"])
            self.found[key] = round(perf_counter() - self._started, 1)


def _key(kernel: CPUDispatcher, kinds: Iterable[Any]) -> str:
    function = kernel.py_func
    name = f"{function.__module__.removeprefix('intnet.')}.{function.__qualname__}"
    return json.dumps([name, [ahead.described(kind) for kind in kinds]])


def used(method: str, model: str) -> dict[str, float]:
    """Kernels that this process holds after some steps, and the seconds of those that it compiled itself.

    Where the cache had all, they are just those that are called from Python.
    """
    seconds = _Seconds()
    event.register("numba:compile", seconds)
    data = datasets.load("digits")
    for batch_size in (64, 16):  # sums of more positions are wider
        built = models.MODELS[model](data.image_shape, data.classes)
        run = Run(built, methods.make(method), data, batch_size, 1)
        run.train(2)
    run.evaluate()
    kernels = [kernel for kernel in gc.get_objects() if isinstance(kernel, CPUDispatcher)]
    ours = [kernel for kernel in kernels if kernel.py_func.__module__.startswith("intnet.")]
    keys = [_key(kernel, kinds) for kernel in ours for kinds in kernel.signatures]
    return {key: seconds.found.get(key, 0.0) for key in sorted(keys) if "<locals>" not in key}


def _group(method: str, model: str) -> list[list[Any]]:
    """The entries of a group."""
    command = [sys.executable, "-m", "bench.kernels", method, model]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        cold, warm = (
            json.loads(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)
            for _ in range(2)
        )
    return [[name, cold[key], kinds] for key in warm for name, kinds in [json.loads(key)]]


def main() -> int:
    """All groups, each in a process of its own, into the file."""
    if len(sys.argv) == 3:
        print(json.dumps(used(*sys.argv[1:])))
        return 0
    ahead.LIST.write_text('{"kernels": [], "groups": {}}')  # so that nothing is compiled ahead
    kernels: dict[str, list[Any]] = {}
    groups: dict[str, list[str]] = {}
    for method in methods.METHODS:
        for kind, model in MODELS.items():
            name = ahead.group(method, kind == "convolutions")
            groups[name] = []
            for entry in _group(method, model):
                key = json.dumps([entry[0], entry[2]])
                known = kernels.setdefault(key, entry)
                known[1] = max(known[1], entry[1])
                groups[name].append(key)
            print(f"{name}: {len(groups[name])} kernels", flush=True)
    place = {key: i for i, key in enumerate(kernels)}
    lines = ",\n".join(f"  {json.dumps(entry)}" for entry in kernels.values())
    lists = ",\n".join(f'  "{name}": {[place[key] for key in keys]}' for name, keys in groups.items())
    ahead.LIST.write_text(f'{{"kernels": [\n{lines}\n],\n"groups": {{\n{lists}\n}}}}\n')
    return 0


if __name__ == "__main__":
    sys.exit(main())
