"""How much faster are two threads than one? PyTorch's figures show what the machine allows.

One process: the number of threads is set ahead of each call, and the two take turns.
"""

from collections.abc import Callable
from typing import Any

import numba

from bench.gemm import product
from bench.peers import torch
from bench.summary import Row, at_least, column
from bench.timing import medians
from bench.training import BATCH, step

QUESTION = "two threads against one, seconds"


def _intnet() -> dict[str, Callable[[], Any]]:
    sizes = {f"int8 GEMM {n}x{n}x{n}": product((n, n, n), 127, 127) for n in (1024, 2048)}
    return sizes | {f"{name} step of resnet20": step(name) for name in ("wageubn", "float32")}


def _torch() -> dict[str, Callable[[], Any]]:
    from bench import torch_nets

    a = torch.rand(2048, 2048)
    return {
        "PyTorch sgemm 2048x2048x2048": lambda: torch.mm(a, a),
        "PyTorch float32 step of resnet20": torch_nets.float_step(BATCH),
    }


def _row(what: str, call: Callable[[], Any], set_threads: Callable[[int], None]) -> Row:
    def on(threads: int) -> Callable[[], None]:
        def run() -> None:
            set_threads(threads)
            call()

        return run

    seconds = medians({"1 thread": on(1), "2 threads": on(2)})
    return {"what": what, **seconds, "times": seconds["1 thread"] / seconds["2 threads"]}


def rows() -> list[Row]:
    most: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]  # numba sets it from a table
    if most < 2:
        return [{"what": "needs two cores", "times": None}]
    try:
        table = [_row(what, call, numba.set_num_threads) for what, call in _intnet().items()]
        if torch is not None:
            table += [_row(what, call, torch.set_num_threads) for what, call in _torch().items()]
    finally:
        numba.set_num_threads(most)
        if torch is not None:
            torch.set_num_threads(most)
    return table


def targets(rows: list[Row]) -> list[Row]:
    ours = column([row for row in rows if "PyTorch" not in row["what"]], "times")
    return [at_least(1.8, "two threads, times one, smallest", min(ours, default=None))]
