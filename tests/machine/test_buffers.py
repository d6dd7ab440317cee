"""Memory used again: arrays that live never share it, dead ones give it back, and idle memory is bounded."""

from __future__ import annotations

import gc
import random
import threading
from collections import deque

import numpy as np
import pytest

from intnet.machine import buffers
from intnet.machine.buffers import ALIGNMENT, LEAST, empty


@pytest.fixture(autouse=True)
def nothing_idle() -> None:
    buffers._idle.clear()


def address(x: np.ndarray) -> int:
    return x.__array_interface__["data"][0]


def idle() -> int:
    """Bytes of idle blocks."""
    return sum(block.memory.nbytes for shelf in buffers._idle.values() for block in shelf)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.float32, np.float64, np.bool_])
@pytest.mark.parametrize("shape", [(LEAST,), (3, 41, 7, 123), (0, 4), (5,), ()], ids=str)
def test_an_array_as_np_empty_makes_it(shape: tuple[int, ...], dtype: type) -> None:
    x = empty(shape, dtype)
    assert (x.shape, x.dtype, x.flags.c_contiguous, x.flags.writeable) == (shape, dtype, True, True)
    assert type(x) is np.ndarray
    assert x.nbytes < LEAST or address(x) % ALIGNMENT == 0
    x[...] = 1
    assert x.sum() == x.size


@pytest.mark.parametrize("size", [LEAST, LEAST + 1, 5 * LEAST - 1, 7 * LEAST, 7 * LEAST + 1, 1 << 22])
def test_the_last_byte_belongs_to_the_block(size: int) -> None:
    x = empty((size,), np.int8)
    block = x.base.block.memory
    assert address(block) <= address(x) and address(x) + size <= address(block) + block.nbytes
    assert block.nbytes <= 1.25 * size + ALIGNMENT


def test_memory_is_used_again_once_the_last_view_is_gone() -> None:
    x = empty((LEAST,), np.int32)
    at, view = address(x), x[5:].reshape(-1, 1).view(np.int8)
    del x
    other = empty((LEAST,), np.int32)
    assert address(other) != at
    del view
    assert address(empty((2 * LEAST,), np.int16)) == at
    assert idle() > 0


@pytest.mark.slow
def test_arrays_in_a_cycle_come_back_too() -> None:
    x = empty((LEAST,), np.int8)
    at, cycle = address(x), [x]
    cycle.append(cycle)  # type: ignore[arg-type]
    del x, cycle
    gc.collect()
    assert address(empty((LEAST,), np.int8)) == at


def churn(seed: int, rounds: int, failures: list[str]) -> None:
    """Makes, keeps and drops arrays at random; each holds its own number as long as it lives."""
    draw = random.Random(seed)
    live: list[tuple[int, np.ndarray]] = []
    for i in range(rounds):
        x = empty((LEAST + draw.randrange(3) * LEAST // 8,), np.int32)
        x.fill(seed * rounds + i)
        live.append((seed * rounds + i, x[draw.randrange(9) :]))
        if len(live) > 8 or draw.random() < 0.3:
            number, view = live.pop(draw.randrange(len(live)))
            if not (view == number).all():
                failures.append(f"{number} was overwritten")
    failures += [f"{number} was overwritten" for number, view in live if not (view == number).all()]


def test_live_arrays_share_nothing_in_any_thread() -> None:
    failures: list[str] = []
    workers = [threading.Thread(target=churn, args=(seed, 300, failures)) for seed in range(1, 5)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failures == []
    blocks = [address(block.memory) for shelf in buffers._idle.values() for block in shelf]
    assert len(set(blocks)) == len(blocks) < 4 * 12 * 3  # as many as lived at a time, not 1200


def test_idle_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits beyond KEPT goes when a new block is needed; what is in use is not touched."""
    monkeypatch.setattr(buffers, "KEPT", 6 * LEAST)
    held = [empty((LEAST,), np.int8) for _ in range(20)]
    kept = held[3]
    kept.fill(7)
    del held
    assert idle() > 18 * LEAST
    empty((3 * LEAST,), np.int8)
    assert idle() <= 6 * LEAST + 3 * LEAST + 10 * ALIGNMENT
    assert (kept == 7).all()


def test_another_thread_may_take_the_last_idle_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """While idle memory is let go, between one look at a shelf and the next."""

    class Robbed(deque):  # type: ignore[type-arg]
        def popleft(self) -> None:
            self.clear()
            raise IndexError

    monkeypatch.setattr(buffers, "KEPT", 0)
    held = empty((LEAST,), np.int8)
    room = next(iter(buffers._idle))
    del held
    buffers._idle[room] = Robbed(buffers._idle[room])
    assert empty((3 * LEAST,), np.int8).nbytes == 3 * LEAST
    assert not buffers._idle[room]
