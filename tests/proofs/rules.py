"""Functions of intnet that run on terms: their code objects, with other things behind their names."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from tests.proofs.machine import NUMPY, Bit, Num, Type, Whole, if_

TYPES: dict[Any, Type] = {kind: type for type, kind in NUMPY.items()}


def shares_out(function: Any) -> bool:
    """Whether it is a kernel that hands a loop out to a team, its first argument."""
    return isinstance(function, FunctionType) and hasattr(function, "__wrapped__")


def alone(kernel: FunctionType) -> Callable[..., Any]:
    """It, called as from Python: without a team."""

    @wraps(kernel)
    def run(*args: Any, **more: Any) -> Any:
        return kernel(1, *args, **more)

    return run


def plain(function: Any) -> FunctionType:
    """The Python function behind a compiled one."""
    function = function.__wrapped__ if shares_out(function) else function
    found = getattr(function, "py_func", function)
    assert isinstance(found, FunctionType)
    return found


class Kind:
    """np.int64 and the like: a cast."""

    def __init__(self, type: Type) -> None:
        self.type = type

    def __call__(self, value: Any) -> Any:
        return value.cast(self.type) if hasattr(value, "cast") else Num(int(value), self.type)


class Names:
    """What stands behind `np`: casts, and what a proof adds."""

    def __init__(self, more: dict[str, Any]) -> None:
        for kind, type in TYPES.items():
            setattr(self, kind.__name__, Kind(type))
        self.bool = lambda value: value if isinstance(value, (Bit, bool)) else value != 0
        self.errstate = lambda **_: nullcontext()
        self.__dict__.update(more)


def greatest(*values: Any) -> Any:
    """Python's max of terms, without a fork."""
    top = values[0]
    for value in values[1:]:
        top = if_(value > top, value, top)
    return top


def least(*values: Any) -> Any:
    """Python's min of terms, without a fork."""
    low = values[0]
    for value in values[1:]:
        low = if_(value < low, value, low)
    return low


def _steps(*limits: Any) -> range:
    return range(*(int(limit.__index__()) for limit in limits))


BUILTINS: dict[str, Any] = {
    "min": least, "max": greatest, "range": _steps, "prange": lambda team, n: _steps(n)
}  # fmt: skip
QUIET: dict[str, Any] = {"wide_vectors": lambda: None, "borrowed": lambda array: array}


class _Module:
    """A module whose functions run on terms."""

    def __init__(self, module: ModuleType, lookup: Callable[[Any, str], Any]) -> None:
        self._module, self._lookup = module, lookup

    def __getattr__(self, name: str) -> Any:
        return self._lookup(getattr(self._module, name), name)


def on_terms(function: Any, numpy: dict[str, Any] | None = None, **instead: Any) -> Callable[..., Any]:
    """The function with casts for `np`, terms for constants, and the same of all that it calls.

    numpy: more names of `np`; instead: what other names stand for: a contract that was proven, a fault
    """
    names, done = Names(numpy or {}), dict[int, Any]()
    given = {**BUILTINS, **QUIET, **instead}

    def lookup(value: Any, name: str) -> Any:
        if name in given:
            return given[name]
        if value is np:
            return names
        if isinstance(value, ModuleType):
            return _Module(value, lookup)
        if type(value) in TYPES:
            return Num(int(value), TYPES[type(value)])
        if isinstance(value, FunctionType) or hasattr(value, "py_func"):
            return build(plain(value))
        return value

    def build(source: FunctionType) -> Any:
        if id(source) not in done:
            space: dict[str, Any] = {"__builtins__": __builtins__, **given}
            done[id(source)] = FunctionType(source.__code__, space, source.__name__, source.__defaults__)
            for name in source.__code__.co_names:
                if name in source.__globals__:
                    space[name] = lookup(source.__globals__[name], name)
        return done[id(source)]

    built = build(plain(function))
    return alone(built) if shares_out(function) else built


def on_numbers(function: Any, **instead: Any) -> Callable[..., Any]:
    """The function as Python runs it on NumPy's numbers, and all that it calls: nothing is compiled."""
    done = dict[int, Any]()

    def build(source: FunctionType) -> Any:
        if id(source) not in done:
            space = dict(source.__globals__)
            done[id(source)] = FunctionType(source.__code__, space, source.__name__, source.__defaults__)
            for name in source.__code__.co_names:
                value = instead.get(name, space.get(name))
                if hasattr(value, "py_func"):
                    space[name] = build(plain(value))
                elif name in instead:
                    space[name] = value
        return done[id(source)]

    built = build(plain(function))
    return alone(built) if shares_out(function) else built


def with_fault(function: Any, right: str, wrong: str) -> Callable[..., Any]:
    """The function with one piece of its source, which stands there once, replaced."""
    source = plain(function)
    lines = textwrap.dedent(inspect.getsource(source)).splitlines()
    text = "\n".join(lines[next(i for i, line in enumerate(lines) if line.startswith("def ")) :])
    assert text.count(right) == 1, f"{source.__name__} has {right!r} {text.count(right)} times"
    space = dict(source.__globals__)
    exec(compile(text.replace(right, wrong), f"<{source.__name__} with a fault>", "exec"), space)
    found = space[source.__name__]
    assert isinstance(found, FunctionType)
    found.__dict__["text"] = text.replace(right, wrong)
    return alone(found) if shares_out(function) else found


def source_of(function: Any) -> str:
    """The text of a function, or of one that `with_fault` made."""
    made = plain(function)
    return str(made.__dict__.get("text") or textwrap.dedent(inspect.getsource(made)))


def unlimited(value: Whole) -> Whole:
    """The same integer, of a definition."""
    return Whole(value.term)


def named(case: Any) -> str:
    """A name of a case for pytest, the same in every process: addresses of functions would differ."""
    return str(getattr(case, "__name__", case))[:24]
