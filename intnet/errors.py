"""Errors a person can act on: what was wrong, where (layer, data path, file), what to do.

All derive from `IntnetError`, which is a `ValueError`; the command line prints them as one line
and exits with status 2.
"""

import difflib
from collections.abc import Sequence


class IntnetError(ValueError):
    """Base of every error that intnet raises on purpose."""

    def line(self) -> str:
        """What it says, in one line; blanks within a line stay, for names may hold two."""
        return " ".join(filter(None, map(str.strip, str(self).splitlines())))


class FormatError(IntnetError):
    """A number format, rounding mode or bit width that does not exist or does not fit."""


class ContainerError(IntnetError):
    """A proven bound that no container (int32, int64, two limbs) holds."""


class NumberError(IntnetError):
    """A NaN, an infinity, an empty tensor, or a value that has no exact form where one is needed."""


class ShapeError(IntnetError):
    """Tensors whose shapes do not belong together."""


class DataError(IntnetError):
    """A data set or data file that is missing, damaged or not what it says it is."""


class ConfigError(IntnetError):
    """An unknown method, model, data set or key, or a value a key does not take."""


class InUseError(ConfigError):
    """A folder that another process works in."""


class CheckpointError(IntnetError):
    """A checkpoint that is truncated, altered or not one of ours."""


class PackError(IntnetError):
    """A golden pack or a file of one that is missing, altered, or not written as packs are."""


def unknown(kind: str, name: str, known: Sequence[str]) -> ConfigError:
    """'unknown KIND NAME; did you mean ...? there are ...'."""
    close = difflib.get_close_matches(name, known, n=1)
    hint = f" did you mean {close[0]!r}?" if close else ""
    return ConfigError(f"unknown {kind} {name!r};{hint} there are {', '.join(known) or 'none'}")
