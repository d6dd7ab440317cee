"""Options of methods: from the texts of `--set KEY=VALUE` to the fields of a method's `Options`.

    bits=4                    a field
    bits@layer2.*=8           the same for the layers whose names match a shell pattern; of several patterns
                              that match, the last one given holds

Which keys may be set layer by layer is the method's `BY_LAYER`.
"""

import dataclasses
import fnmatch
import math
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from intnet.errors import ConfigError, unknown

P = ParamSpec("P")
Given = TypeVar("Given")


def takes(
    options: Callable[P, Any],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """Of a method's `__init__`: its keywords are the fields of `options`, which type checkers then know."""
    return lambda init: init


def parse_options(
    cls: type, given: Mapping[str, Any], owner: str, by_layer: Sequence[str] = ()
) -> tuple[Any, dict[str, Any]]:
    """(instance of the options dataclass, values by 'key@pattern') from values or texts.

    by_layer: keys that take a pattern. ConfigError names key and choices.
    """
    fields = {field.name: field for field in dataclasses.fields(cls)}
    hints = typing.get_type_hints(cls)
    values: dict[str, Any] = {}
    overrides: dict[str, Any] = {}
    for name, value in given.items():
        key, at, pattern = name.partition("@")
        if key not in fields:
            raise unknown(f"key of method {owner!r}", key, list(fields))
        if at and (key not in by_layer or not pattern):
            able = ", ".join(f"{one}@PATTERN" for one in by_layer) or "no key"
            shown = f", as in {by_layer[0]}@layer2.*=VALUE" if by_layer else ""
            whole = "" if key in by_layer else f"{key} holds for all layers alike; "
            raise ConfigError(f"{owner}: {name}: {whole}by layers one sets {able}{shown}")
        (overrides if at else values)[name] = _parse_value(hints[key], value, f"{owner}: {name}")
    return cls(**values), overrides


def check_patterns(
    overrides: Mapping[str, Any], layers: Sequence[Any], reads: Callable[[Any], Collection[str]], owner: str
) -> None:
    """ConfigError naming an override whose pattern matches no layer, or none that reads the key."""
    for name in overrides:
        key, _, pattern = name.partition("@")
        found = [layer for layer in layers if fnmatch.fnmatchcase(layer.name, pattern)]
        if not found:
            shown = ", ".join(layer.name for layer in layers)
            raise ConfigError(f"{owner}: {name}: no layer of this model has such a name; there are {shown}")
        if not any(key in reads(layer) for layer in found):
            first, able = found[0].name, [layer.name for layer in layers if key in reads(layer)]
            raise ConfigError(
                f"{owner}: {name}: no layer that it matches reads {key}, nothing would change; {first} reads "
                f"{', '.join(sorted(reads(found[0]))) or 'none of the options by layer'}; {key} is read by "
                f"{', '.join(able) or 'no layer of this model'}"
            )


def of_layer(options: Given, overrides: Mapping[str, Any], layer: str) -> Given:
    """The options as they hold for a layer: of each key that of the last pattern that matches its name.

    Defined by `spec/methods/step.py: of_layer`.
    """
    parts = [(*name.partition("@")[::2], value) for name, value in overrides.items()]
    own = {key: value for key, pattern, value in parts if fnmatch.fnmatchcase(layer, pattern)}
    return dataclasses.replace(options, **own) if own else options  # type: ignore[type-var]


_KINDS = {int: "a whole number", float: "a number", bool: "on or off"}
_SWITCHES = {"on": True, "True": True, "off": False, "False": False}


def _parse_value(hint: Any, value: Any, what: str) -> Any:
    if typing.get_origin(hint) is typing.Literal:
        choices = typing.get_args(hint)
        for choice in choices:
            if str(value) == str(choice):
                return choice
        raise ConfigError(f"{what}={value!r}: use one of {', '.join(map(str, choices))}")
    if typing.get_origin(hint) in (types.UnionType, typing.Union):  # int | None, int | Literal["tensor"]
        parts = typing.get_args(hint)
        if type(None) in parts and (value is None or str(value) in ("none", "off")):
            return None
        hint, *others = [part for part in parts if part is not type(None)]
        words = [word for part in others for word in typing.get_args(part)]
        if str(value) in words:
            return str(value)
    try:
        number = _SWITCHES[str(value)] if hint is bool else hint(value)
    except (TypeError, ValueError, KeyError, OverflowError):
        raise ConfigError(f"{what}={value!r} is not {_KINDS.get(hint, hint.__name__)}") from None
    if isinstance(number, float) and not math.isfinite(number):
        raise ConfigError(f"{what}={value!r} is not a finite number")
    if hint in (int, float) and not isinstance(value, str) and (isinstance(value, bool) or number != value):
        raise ConfigError(f"{what}={value!r} is not {_KINDS[hint]}")  # int(7.9) would be 7, float(True) 1
    return number
