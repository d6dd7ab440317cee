"""Cores and memory, as Linux, macOS and Windows tell them."""

import mmap
import os
import resource
import sys
from types import SimpleNamespace

import psutil
import pytest

from intnet.runs import process


def test_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda of: {0, 5, 7}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert process.cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    assert process.cores() == 8
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert process.cores() == 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="as Linux counts")
def test_memory_grows_with_what_is_written_and_its_most_stays() -> None:
    before = process.memory()
    block = mmap.mmap(-1, 64 << 20)  # pages of the system: an array may take what the process holds free
    block[:: mmap.PAGESIZE] = b"1" * (len(block) // mmap.PAGESIZE)
    during = process.memory()
    assert before is not None and during is not None
    assert 60 << 20 < during[0] - before[0] < 68 << 20
    block.close()
    after = process.memory()
    assert after is not None and during[0] - after[0] > 60 << 20 and after[1] >= during[0] - (1 << 20)


def test_memory_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    told = SimpleNamespace(rss=1000, peak_wset=3000)
    monkeypatch.setattr(psutil.Process, "memory_info", lambda self: told)
    assert process.memory() == (1000, 3000)  # Windows
    del told.peak_wset
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(resource, "getrusage", lambda of: SimpleNamespace(ru_maxrss=2000))  # bytes there
    assert process.memory() == (1000, 2000)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(process, "_STATUS", process._STATUS / "none")
    assert process.memory() is None
    assert process.taken(None, 1)["peak"] is None
