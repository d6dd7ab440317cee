"""Files that a command is asked to write: checked before the work starts; pictures, which need matplotlib.

matplotlib is not needed otherwise: it is the extra `plot`, and imported only here and where axes are drawn.
"""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from intnet.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The times and versions that a file of each kind would hold: without them the same data give the same file.
METADATA: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


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


@contextmanager
def picture(stream: BinaryIO, file: Path, size: tuple[float, float]) -> "Iterator[Figure]":
    """A figure of so many inches to draw in, then written in the format that the file's name ends in."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "intnet", "font.size": 8}):
        figure = Figure(size, layout="constrained")
        yield figure
        _settle(figure)
        figure.savefig(stream, format=file.suffix[1:], metadata=METADATA[file.suffix])


def _settle(figure: "Figure") -> None:
    """Lay out once, places to 4 digits: the solver's last bits differ between two runs on the same data."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        left, bottom, width, height = (round(side, 4) for side in axes.get_position().bounds)
        axes.set_position((left, bottom, width, height))
