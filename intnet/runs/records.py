"""JSON that lay on a disk, checked before it is believed: what is damaged becomes one clear line.

A shape says what a value must be:

    str, bool, dict, NoneType   the type          int, float   a whole number, a finite number
    {"key": shape, ...}         these keys at least             {str: shape}   any keys
    [shape]                     a list                          (shape, shape) one of them
"""

import json
import reprlib
from typing import Any

_LARGE = 1e300  # numbers below it take part in any arithmetic of a report without an overflow


def parse(text: bytes) -> Any:
    """The value of UTF-8 JSON; ValueError says what is wrong, also of a key that stands twice."""
    try:
        return json.loads(text.decode(), object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these keys and values: of two values of a key, readers differ in which one counts."""
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {ascii(twice)[:80]} stands twice")
    return made


def check(value: Any, shape: Any, name: str = "it") -> Any:
    """`value`; ValueError names the first place that does not have the shape."""
    wrong = _misfit(value, shape, name)
    if wrong:
        raise ValueError(wrong)
    return value


def _misfit(value: Any, shape: Any, name: str) -> str:
    """What is wrong, '' for nothing; goes no deeper than the shape."""
    if not _fits(value, shape):
        return f"{name} is {reprlib.repr(value)}"
    if isinstance(shape, list):
        parts = [(entry, shape[0], f"{name}[{i}]") for i, entry in enumerate(value)]
    elif isinstance(shape, dict):
        keys = value if str in shape else shape
        missing = [key for key in keys if key not in value]
        if missing:
            return f"{name} has no {missing[0]!r}"
        parts = [(value[key], shape.get(str, shape.get(key)), f"{name}[{key!r}]") for key in keys]
    else:
        return ""
    return next((wrong for part in parts if (wrong := _misfit(*part))), "")


def _fits(value: Any, shape: Any) -> bool:
    """Whether the value itself, not what it holds, is of the shape; a bool is no number."""
    if isinstance(shape, tuple):
        return any(not _misfit(value, one, "") for one in shape)
    if shape in (int, float):
        return type(value) in (int, shape) and abs(value) < _LARGE
    return isinstance(value, shape if isinstance(shape, type) else type(shape))
