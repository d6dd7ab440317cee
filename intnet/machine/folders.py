"""Folders of this user on this machine: the cache, and a temporary one where there is no other to write in.

Where the cache is, the platform says: $XDG_CACHE_HOME or ~/.cache on Linux, ~/Library/Caches on macOS,
%LOCALAPPDATA% on Windows; in each of them `intnet`.
"""

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

import platformdirs


def user_cache() -> Path | None:
    """The user's cache of intnet; None where the user has no home."""
    found = platformdirs.user_cache_dir("intnet", appauthor=False)
    given = os.environ.get("XDG_CACHE_HOME", "")
    if given and not os.path.isabs(given):  # XDG asks to ignore such a path
        found = "~/.cache/intnet"
    whole = os.path.expanduser(found)
    return Path(whole) if os.path.isabs(whole) else None


def writable(folder: Path) -> bool:
    """Whether files can be made in `folder`, which is made if need be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def temporary() -> Path:
    """A temporary folder of this user's alone, the same one each time.

    What is kept there is run, so a folder of that name which is another user's, or which others may write
    in, is not taken: then it is a new one of this process. OSError where nothing at all can be written.
    """
    user = os.getuid() if hasattr(os, "getuid") else None  # Windows: the folder around it is the user's own
    folder = Path(tempfile.gettempdir()) / ("intnet" if user is None else f"intnet-{user}")
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    about = folder.lstat()
    own = user is None or (about.st_uid == user and not about.st_mode & 0o077)
    if own and stat.S_ISDIR(about.st_mode) and writable(folder):
        return folder
    return Path(tempfile.mkdtemp(prefix="intnet-"))
