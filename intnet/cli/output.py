"""Files that a command is asked to write: checked before the work starts; pictures, written whole or not."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

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


def write_picture(file: Path | None, draw: Callable[[BinaryIO, Path], None] | None) -> None:
    """What was asked for with --plot, if it was; `draw` writes into a stream, in the format of the name."""
    if file is not None:
        from intnet.runs import files

        assert draw is not None, "a picture of what has none is refused before"
        files.replace(file, lambda stream: draw(stream, file))
