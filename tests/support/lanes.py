"""What the tests of the quick lane share: which kernel must run, and rounding in plain int64."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from intnet.exact import lane, loops, rows
from intnet.machine.jit import SMALL
from intnet.numbers import rng
from intnet.numbers.qtensor import QTensor, Status
from intnet.numbers.rounding import UNLIMITED

LANES = ("round_few", "read_part", "read_all", "narrow_all", "quantize_floats", "scale_codes")
MANY = SMALL + 1237  # elements: on all threads, no multiple of a row
OPEN = -UNLIMITED, UNLIMITED  # no range

F = Fraction


def replace_kernels(patch: pytest.MonkeyPatch, **others: Any) -> None:
    """Other kernels for `exact_lane`; `exact_quick` keeps its own, for a kernel compiles in what it calls."""
    patch.setattr(lane, "kernels", SimpleNamespace(**{**vars(lane.kernels), **others}))  # type: ignore[attr-defined]


@contextmanager
def taking(*names: str) -> Iterator[None]:
    """The block must run just these kernels of LANES, and no general loop."""
    ran: list[str] = []

    def recorded(name: str) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            ran.append(name)
            return getattr(rows, name)(*args)

        return run

    with pytest.MonkeyPatch.context() as patch:
        replace_kernels(patch, **{name: recorded(name) for name in LANES})
        for name in ("round_rows", "round_limbs", "round_floats", "limb_rows"):
            patch.setattr(loops, name, lambda *_, n=name: pytest.fail(f"{n} ran"))
        yield
    assert ran == list(names)


@contextmanager
def general() -> Iterator[None]:
    """Nothing is quick."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lane, "FAR", -1)
        patch.setattr(lane, "SMALL", 1 << 60)  # so that no lane of int32 is made either
        yield


def tensor(codes: Any, kind: Any = np.int32, bound: int | None = None) -> QTensor:
    return QTensor(np.asarray(codes).astype(kind), 0, bound=bound)


def nearest(num: np.ndarray, den: np.ndarray | int) -> tuple[np.ndarray, int]:
    """num/den in int64, ties to even, and how many are no integer."""
    floor, rest = num // den, num % den
    up = (2 * rest > den) | ((2 * rest == den) & (floor % 2 == 1))
    return floor + up, int(np.count_nonzero(rest))


def check(codes: np.ndarray, status: Status, num: np.ndarray, den: Any, lo: int, hi: int) -> None:
    """Codes, counts and peak are those of num/den in plain int64."""
    want, inexact = nearest(num, den)
    kept = np.clip(want, lo, hi)
    assert np.array_equal(codes, kept)
    assert (status.saturated, status.inexact) == (int(np.count_nonzero(kept != want)), inexact)
    assert (status.elements, status.peak) == (num.size, int(np.abs(kept).max()))


def greatest(num: np.ndarray, den: np.ndarray) -> Fraction:
    """max |num/den| of rows of channels."""
    return max(F(int(top), int(d)) for top, d in zip(np.abs(num).max(axis=0), den, strict=True))


def spread(bits: int, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """int64 of every length up to `bits`, both signs, zero and the greatest among them."""
    n = int(np.prod(shape))
    words = rng.words(7, seed, 1, 2 * n).astype(np.int64)
    codes = (words[:n] << 31 | words[n:] >> 1) >> (63 - bits + words[:n] % bits)
    codes[words[n:] % 2 == 0] *= -1
    codes[:3] = 0, 2**bits - 1, 1 - 2**bits
    return codes.reshape(shape)
