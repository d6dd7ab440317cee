"""What this process takes of the machine, as far as the machine tells: memory, threads.

Measured, not computed: these figures differ from run to run and are no part of any digest.
"""

from pathlib import Path

import numba

_STATUS = Path("/proc/self/status")
_KIBI = 1024


def memory() -> tuple[int, int] | None:
    """(bytes resident now, the most that ever were), as Linux counts them; None where it is not Linux.

    The most is the process's own (VmHWM): `ru_maxrss` begins with what its parent had when it forked.
    """
    try:
        lines = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
        now, most = (int(lines[key].split()[0]) * _KIBI for key in ("VmRSS", "VmHWM"))
    except (OSError, KeyError, ValueError):
        return None
    return now, most


def taken(before: int | None, beside: int) -> dict[str, int | None]:
    """For a report: threads of kernels, runs at a time, bytes ahead of the first step and at most."""
    most = memory()
    return {
        "threads": int(numba.get_num_threads()),
        "beside": beside,
        "before": before,
        "peak": most and most[1],
    }
