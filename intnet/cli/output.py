"""Files that a command is asked to write: checked before the work starts."""

import importlib.util
from pathlib import Path

from intnet.errors import ConfigError
from intnet.show.pictures import METADATA


def check_file(option: str, file: Path) -> None:
    """ConfigError where the file cannot be written."""
    if not file.parent.is_dir():
        raise ConfigError(f"{option} {file}: there is no folder {file.parent}")
    if file.is_dir():
        raise ConfigError(f"{option} {file}: that is a folder; name a file")


def check_picture(option: str, file: Path) -> None:
    """ConfigError where the picture cannot be drawn or written."""
    check_file(option, file)
    if file.suffix not in METADATA:
        raise ConfigError(f"{option} {file}: end the name in {', '.join(METADATA)}")
    if importlib.util.find_spec("matplotlib") is None:
        raise ConfigError(f"{option} needs matplotlib: pip install matplotlib")
