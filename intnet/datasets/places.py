"""Where files of a data set are looked for: a given folder, $INTNET_DATA, the cache, the system.

`find` is what the modules of sets call; `places` is the list of folders that it goes through.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from intnet.errors import DataError
from intnet.machine.folders import user_cache


def below(path: str, data_dir: Path | None) -> Path:
    """Where 'folder:PATH' and 'arrays:PATH' lie: PATH is relative to data_dir, if one is given."""
    return Path(os.path.abspath((data_dir or Path()) / os.path.expanduser(path)))


def without_folder(name: str) -> str:
    """A set's name for files that others read: 'arrays:mine.npz' of 'arrays:/home/me/mine.npz'."""
    kind, colon, path = name.partition(":")
    return f"{kind}:{Path(path).name}" if colon else name


def places(
    folder: str, data_dir: Path | None, inside: Sequence[str] = (), system: Sequence[Path] = ()
) -> list[Path]:
    """The folders to look in, first to last.

    A given data_dir is the only one: other data than asked for would be worse than an error. In each place
    the sub-folder comes first, because mnist and fashion-mnist have the same file names.
    inside: further folders of each place, as archives unpack them; system: of the system's packages
    """
    if data_dir is not None:
        roots = [data_dir]
    else:
        own, cache = os.environ.get("INTNET_DATA", ""), user_cache()
        roots = ([Path(os.path.expanduser(own))] if own else []) + ([cache] if cache else [])
    found = [place / below for root in roots for place in (root / folder, root) for below in ("", *inside)]
    return found if data_dir is not None else [*found, *system]


def find(
    name: str,
    folder: str,
    data_dir: Path | None,
    ways: Sequence[Sequence[Sequence[str]]],
    needed: str,
    advice: str,
    owner: Callable[[Sequence[Path]], str] = lambda paths: "",
    **further: Sequence[Any],
) -> list[Path]:
    """The paths of a way's parts, of the first folder of `places` that has them all.

    name: of the set; folder, further: as `places` takes them
    ways: each a list of parts, a part its names, of which the first that is there counts
    owner: the other set whose files these are known to be, '' for none: their folder is passed over
    DataError when there is none: which files (`needed`), where they were looked for, how to get them
    (`advice`).
    """
    looked = []
    for place in places(folder, data_dir, **further):
        paths = _whole(place, ways)
        others = owner(paths) if paths else ""
        if paths and not others:
            return paths
        looked.append(f"{place} ({f'has those of {others}' if others else _lacks(place, ways[0])})")
    only = " (only there, because this data folder was given)" if data_dir is not None else ""
    raise DataError(
        f"{name}: data files not found. Needed, in one folder{needed}. "
        f"Looked in: {'; '.join(looked)}{only}. {advice}"
    )


def _whole(folder: Path, ways: Sequence[Sequence[Sequence[str]]]) -> list[Path]:
    """The paths of the first way of which a folder has every part; [] where it has none whole."""
    for way in ways:
        paths = [path for part in way if (path := _first(folder, part)) is not None]
        if len(paths) == len(way):
            return paths
    return []


def _first(folder: Path, part: Sequence[str]) -> Path | None:
    return next((folder / name for name in part if os.path.exists(folder / name)), None)


def _lacks(folder: Path, way: Sequence[Sequence[str]]) -> str:
    """Why a folder was passed over."""
    lacking = [part[0] for part in way if _first(folder, part) is None]
    if not folder.is_dir():
        return "no such folder"
    return "has none of them" if len(lacking) == len(way) else f"lacks {', '.join(lacking)}"
