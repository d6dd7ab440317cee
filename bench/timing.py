"""Median time of a call after a warm-up."""

import statistics
from collections.abc import Callable
from time import perf_counter
from typing import Any


def median_seconds(call: Callable[[], Any], repeats: int = 5) -> float:
    """Seconds of one call: the median of `repeats`, after one that does not count."""
    call()
    times = []
    for _ in range(repeats):
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    return statistics.median(times)
