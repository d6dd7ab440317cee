"""Errors a person can act on: what was wrong, where (layer, data path, file), what to do.

All derive from `IntnetError`, which is a `ValueError`; the command line prints them as one line
and exits with status 2.
"""


class IntnetError(ValueError):
    """Base of every error that intnet raises on purpose."""


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
