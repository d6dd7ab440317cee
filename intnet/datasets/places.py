"""Where files of a data set are looked for: a given folder, $INTNET_DATA, the cache, the system."""

import os
from pathlib import Path


def places(name: str, data_dir: Path | None, system: tuple[Path, ...]) -> list[Path]:
    """The folders to look in, first to last.

    A given data_dir is the only one: other data than asked for would be worse than an error. In each place
    the sub-folder comes first, because mnist and fashion-mnist have the same file names.
    """
    if data_dir is not None:
        roots = [data_dir]
    else:
        # XDG asks to ignore a relative $XDG_CACHE_HOME.
        cache = os.environ.get("XDG_CACHE_HOME", "")
        cache = cache if os.path.isabs(cache) else os.path.expanduser("~/.cache")
        own = os.environ.get("INTNET_DATA", "")
        roots = ([Path(os.path.expanduser(own))] if own else []) + [Path(cache) / "intnet"]
    places = [folder for root in roots for folder in (root / name, root)]
    return places if data_dir is not None else [*places, *system]
