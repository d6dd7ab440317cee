"""Where files of a data set are looked for: a given folder, $INTNET_DATA, the cache, the system.

`find` is what the modules of sets call; `places` is the list of folders that it goes through.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from intnet.errors import DataError
from intnet.machine.folders import user_cache


@dataclass(frozen=True)
class Wanted:
    """What is to be found, in one folder.

    name: of the set; folder: its sub-folder of every place
    ways: each a list of parts, a part its names, of which the first that is there counts; the first way
    whose parts are all there is taken
    needed: how an error lists them; advice: how to get them
    inside: further folders of each place to look in, as archives unpack them
    """

    name: str
    folder: str
    ways: Sequence[Sequence[Sequence[str]]]
    needed: str
    advice: str
    inside: Sequence[str] = ()
    system: Sequence[Path] = ()


def places(wanted: Wanted, data_dir: Path | None) -> list[Path]:
    """The folders to look in, first to last.

    A given data_dir is the only one: other data than asked for would be worse than an error. In each place
    the sub-folder comes first, because mnist and fashion-mnist have the same file names.
    """
    if data_dir is not None:
        roots = [data_dir]
    else:
        own, cache = os.environ.get("INTNET_DATA", ""), user_cache()
        roots = ([Path(os.path.expanduser(own))] if own else []) + ([cache] if cache else [])
    found = [
        place / inside
        for root in roots
        for place in (root / wanted.folder, root)
        for inside in ("", *wanted.inside)
    ]
    return found if data_dir is not None else [*found, *wanted.system]


def find(wanted: Wanted, data_dir: Path | None) -> list[Path]:
    """The paths of a way's parts, of the first folder that has them all.

    DataError when there is none: which files, where they were looked for, how to get them.
    """
    looked = []
    for folder in places(wanted, data_dir):
        for way in wanted.ways:
            found = [_first(folder, part) for part in way]
            paths = [path for path in found if path is not None]
            if len(paths) == len(way):
                return paths
        looked.append(f"{folder} ({_lacks(folder, wanted.ways[0])})")
    only = " (only there, because this data folder was given)" if data_dir is not None else ""
    raise DataError(
        f"{wanted.name}: data files not found. Needed, in one folder{wanted.needed}. "
        f"Looked in: {'; '.join(looked)}{only}. {wanted.advice}"
    )


def _first(folder: Path, part: Sequence[str]) -> Path | None:
    return next((folder / name for name in part if os.path.exists(folder / name)), None)


def _lacks(folder: Path, way: Sequence[Sequence[str]]) -> str:
    """Why a folder was passed over."""
    lacking = [part[0] for part in way if _first(folder, part) is None]
    if not folder.is_dir():
        return "no such folder"
    return "has none of them" if len(lacking) == len(way) else f"lacks {', '.join(lacking)}"
