"""Seeded faults: how one is put in, and whether a sweep of comparisons sees it.

A table FAULTS has name -> (fault, ..., names of the sweeps that must see it); `pairs` makes a test of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

Patch = pytest.MonkeyPatch
Fault = Callable[[Patch], None]


def caught(sweep: Callable[[], None]) -> bool:
    """Whether a sweep raises AssertionError."""
    try:
        sweep()
    except AssertionError:
        return True
    return False


def replace(owner: Any, name: str, change: Callable[..., Any]) -> Fault:
    """`change(original, *arguments)` in place of a function or method."""

    def seed(patch: Patch) -> None:
        original = getattr(owner, name)
        patch.setattr(owner, name, lambda *args, **more: change(original, *args, **more))

    return seed


def pairs(faults: Mapping[str, tuple[Any, ...]]) -> pytest.MarkDecorator:
    """A test with arguments `fault` and `sweep` for every fault and each sweep that must see it."""
    found = [(fault, sweep) for fault, (*_, sweeps) in faults.items() for sweep in sweeps]
    ids = [f"{fault}-{sweep}".replace(" ", "_") for fault, sweep in found]
    return pytest.mark.parametrize(("fault", "sweep"), found, ids=ids)
