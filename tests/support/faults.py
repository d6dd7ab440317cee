"""Seeded faults: how one is put in, in place of a function or in its source, and whether a sweep sees it.

A table FAULTS has name -> (fault, ..., names of the sweeps that must see it); `pairs` makes a test of each.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
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


COMPILED = re.compile(r"from intnet\.machine\.jit import .*\n")
UNCOMPILED = """from intnet.machine.jit import SMALL
inlined = njit = rule = lambda f: f
pjit = lambda f: lambda *args: f(1, *args)
prange = lambda team, n: range(n)
"""


def plain(kernel: Any) -> Callable[..., Any]:
    """A kernel or a rule without compilation, so that a patched rule inside it is seen."""
    if hasattr(kernel, "compiled"):
        return partial(kernel.__wrapped__, 1)
    return getattr(kernel, "py_func", kernel)


def run_from_source(
    patch: Patch, module: ModuleType, old: str = "", new: str = "", users: Iterable[ModuleType] = ()
) -> None:
    """What `module` defines, from its source with `old` changed, uncompiled: there and in its users."""
    source = Path(str(module.__file__)).read_text()
    assert not old or source.count(old) == 1, f"{module.__name__} has {source.count(old)} times: {old}"
    source = COMPILED.sub(UNCOMPILED, source.replace(old, new) if old else source)
    other = ModuleType(module.__name__)
    patch.setitem(sys.modules, module.__name__, other)  # where dataclasses look
    exec(compile(source, str(module.__file__), "exec"), other.__dict__)
    patch.setitem(sys.modules, module.__name__, module)
    for name, before in list(vars(module).items()):
        after = getattr(other, name, before)
        if name.startswith("__") or after is before:
            continue
        for owner in (module, *users):
            if getattr(owner, name, None) is before:
                patch.setattr(owner, name, after)


def pairs(faults: Mapping[str, tuple[Any, ...]]) -> pytest.MarkDecorator:
    """A test with arguments `fault` and `sweep` for every fault and each sweep that must see it."""
    found = [(fault, sweep) for fault, (*_, sweeps) in faults.items() for sweep in sweeps]
    ids = [f"{fault}-{sweep}".replace(" ", "_") for fault, sweep in found]
    return pytest.mark.parametrize(("fault", "sweep"), found, ids=ids)
