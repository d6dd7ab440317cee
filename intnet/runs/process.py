"""What this process takes of the machine, as far as the machine tells: memory, threads.

Measured, not computed: these figures differ from run to run and are no part of any digest.
"""

import os
import sys
from pathlib import Path
from typing import Any

import numba
import psutil

_STATUS = Path("/proc/self/status")
_KIBI = 1024


def cores() -> int:
    """That this process may use; all of the machine where the system does not say (macOS, Windows)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory() -> tuple[int, int] | None:
    """(bytes resident now, the most that ever were); None where the system does not tell both."""
    now = psutil.Process().memory_info()
    most = _most(now)
    return None if most is None else (now.rss, most)


def _most(now: Any) -> int | None:
    """The most bytes that were resident: of this process, not what its parent had when it forked."""
    if hasattr(now, "peak_wset"):  # Windows
        return int(now.peak_wset)
    if sys.platform == "darwin":
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:  # on Linux `ru_maxrss` begins with the parent's
        lines = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) * _KIBI
    except (OSError, KeyError, ValueError):
        return None


def taken(before: int | None, beside: int) -> dict[str, int | None]:
    """For a report: threads of kernels, runs at a time, bytes ahead of the first step and at most."""
    most = memory()
    return {
        "threads": int(numba.get_num_threads()),
        "beside": beside,
        "before": before,
        "peak": most and most[1],
    }
