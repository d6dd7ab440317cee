"""Seconds of calls that stand side by side: medians after a warm-up, taken in turns.

The calls take turns in rounds, A B C A B C, so that a machine that is busy for a while slows all of
them alike. Ahead of each turn all sleep a moment: a thread pool that waits spinning for more work
(PyTorch's does, for some milliseconds) would take a core from whoever comes next.
"""

import statistics
from collections.abc import Callable, Mapping
from time import perf_counter, sleep
from typing import Any

ROUNDS = 7
TURN = 0.1  # seconds a call is repeated in one turn; a longer one runs once
MOST = 100  # repetitions in one turn
PAUSE = 0.02


def seconds(call: Callable[[], Any]) -> float:
    """Seconds of one call."""
    start = perf_counter()
    call()
    return perf_counter() - start


def medians(calls: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """Median seconds of one call of each, by name."""
    repeats = {}
    for name, call in calls.items():
        call()
        repeats[name] = min(MOST, max(1, int(TURN / seconds(call))))
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            sleep(PAUSE)
            times[name] += [seconds(call) for _ in range(repeats[name])]
    return {name: statistics.median(values) for name, values in times.items()}
