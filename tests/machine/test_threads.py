"""How a kernel's loop is handed out: every iteration once, whatever runs it, and failures that are told."""

from __future__ import annotations

import threading

import numba
import numpy as np
import pytest

from intnet.machine.jit import SMALL, pjit, prange

MOST = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]


@pjit
def _count(team: int, n: int, seen: np.ndarray, ends: np.ndarray, large: np.ndarray) -> None:
    """seen[i] rises by 1 in iteration i; ends[0] once, after the loop."""
    for i in prange(team, n):
        seen[i] += i + 1
    if team > 0:
        ends[0] += 1


@pjit
def _wasteful(team: int, n: int, lines: int, out: np.ndarray) -> None:
    for i in prange(team, out.size):
        out[i] = np.zeros((lines, n)).shape[0]


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> object:
    """As many threads as there are, up to the number."""
    before = numba.get_num_threads()
    numba.set_num_threads(min(request.param, MOST))
    yield request.param
    numba.set_num_threads(before)


LARGE = np.zeros(SMALL)


@pytest.mark.parametrize("large", [LARGE, LARGE[1:]], ids=["shared out", "alone"])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 1000, 12345])
def test_every_iteration_runs_once(threads: int, n: int, large: np.ndarray) -> None:
    seen, ends = np.zeros(12345, np.int64), np.zeros(1, np.int64)
    _count(n, seen, ends, large)
    assert seen.tolist() == [i + 1 if i < n else 0 for i in range(seen.size)]
    assert ends.tolist() == [1]


def test_iterations_and_members_are_whole_for_any_team() -> None:
    """The compiled kernel itself, asked for each member of teams that no machine here has."""
    kernel = _count.__closure__[0].cell_contents  # type: ignore[attr-defined]
    for members in (1, 2, 3, 7, 64):
        for n in (0, 1, 5, 64, 1000):
            seen, ends = np.zeros(1000, np.int64), np.zeros(1, np.int64)
            for member in range(members):
                kernel(-(member * 2**16 + members), n, seen, ends, LARGE)
            assert seen.tolist() == [i + 1 if i < n else 0 for i in range(1000)]
            assert ends.tolist() == [0]


def test_memory_that_is_not_there_is_told(threads: int) -> None:
    with pytest.raises(MemoryError, match="no memory"):
        _wasteful(1 << 40, 1 << 10, LARGE)
    out = np.zeros(SMALL)
    _wasteful(2, 3, out)
    assert set(out.tolist()) == {3.0}


def test_arrays_keep_their_reference_counts() -> None:
    """Members work on arrays that are not counted; the caller's counts are as before."""
    import sys

    seen, ends = np.zeros(8, np.int64), np.zeros(1, np.int64)
    before = sys.getrefcount(seen)
    for _ in range(100):
        _count(8, seen, ends, LARGE)
    assert sys.getrefcount(seen) == before
    assert ends.tolist() == [100]


def test_the_caller_may_be_any_thread() -> None:
    seen, ends = np.zeros(1000, np.int64), np.zeros(1, np.int64)
    worker = threading.Thread(target=_count, args=(1000, seen, ends, LARGE))
    worker.start()
    worker.join()
    assert seen.tolist() == list(range(1, 1001))
