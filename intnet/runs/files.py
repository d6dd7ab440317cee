"""Files that are whole or not there: the one way intnet writes what it must not lose.

A writer fills a temporary file in the same folder; only when that is on the disk does it take the
file's name. A process killed at any moment leaves the old content or the new one, and perhaps a
`.NAME.PID.partial`, which nobody reads. A folder's lock keeps a second process from writing into it;
the system gives it free when the process ends, however that happens.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO

from intnet.errors import ConfigError, InUseError

PARTIAL, LOCK = ".partial", ".intnet.lock"
_LONGEST = 200  # bytes of a name that has room for a number and the ending
_FAR = (
    1 << 30
)  # the byte that Windows locks: nobody can read a locked byte, and who holds the lock stands first


def replace(path: Path, content: bytes | Callable[[BinaryIO], None]) -> None:
    """Write `content` (bytes, or a function that writes them) to `path`, atomically and durably.

    Through a link into its file. ConfigError for what is there and is no file, as /dev/stdout is none.
    """
    path = place(path)
    if path.exists() and not path.is_file():
        raise ConfigError(f"{path} is there, and is no file: name another")
    partial = _partial(path)
    try:
        with naming(path), open(partial, "wb") as stream:
            if callable(content):
                content(stream)
            else:
                stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, path)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename == str(partial):
            error.filename = str(path)  # the name that was given
        partial.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def place(path: Path) -> Path:
    """The file behind a link; ConfigError for links that lead to themselves."""
    try:
        return path.resolve() if path.is_symlink() else path
    except (OSError, RuntimeError):
        raise ConfigError(f"{path} is a link that leads to itself: name another") from None


def leads_nowhere(path: Path) -> bool:
    """Whether it is a link to what is not there: no folder can be made of it."""
    return path.is_symlink() and not path.exists()


def _partial(path: Path) -> Path:
    """What a path is called until it is whole; systems take names of 255 bytes."""
    name = os.fsencode(path.name)
    short = path.name if len(name) <= _LONGEST else hashlib.sha256(name).hexdigest()
    return path.with_name(f".{short}.{os.getpid()}{PARTIAL}")


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A folder to fill, which becomes `target` after the last file; nothing is left where that fails.

    The folders above it are made; `target` must not be there.
    """
    partial = _partial(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.mkdir()
        yield partial
        os.replace(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def write_folder(target: Path, contents: Iterable[tuple[str, bytes]]) -> list[str]:
    """A new folder of files, each its path in the folder and its content; their paths."""
    names = []
    with new_folder(target) as partial:
        for name, content in contents:
            path = partial / name
            path.parent.mkdir(exist_ok=True)
            with naming(path):
                path.write_bytes(content)
            names.append(name)
    return names


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors of the system name `path` where they name no file, as those of a full disk do."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


def _sync_folder(folder: Path) -> None:
    """The new name is durable only when the folder is on the disk too. Windows opens no folders."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_partial(folder: Path) -> None:
    """Delete what killed writers left in `folder`; only for whoever holds the folder's lock.

    What another process of this machine still writes, as a pack into the folder of its run, stays.
    """
    import psutil  # which hardly ever is needed, and takes long to load

    for path in folder.glob(f".*{PARTIAL}"):
        writer = path.name.removesuffix(PARTIAL).rpartition(".")[2]
        if writer.isdecimal() and int(writer) != os.getpid() and psutil.pid_exists(int(writer)):
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def content(folder: Path, what: str) -> list[str]:
    """Names in a folder that may hold a `what` ('run'), but for locks and what killed writers left.

    Empty where there is no folder; ConfigError where it is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file; a {what} needs a folder: name another --out")
    if leads_nowhere(folder):
        raise ConfigError(f"{folder} is a link that leads nowhere: name another --out")
    names = sorted(path.name for path in folder.glob("*"))
    return [name for name in names if name != LOCK and not name.endswith(PARTIAL)]


def shown(names: list[str]) -> str:
    """The first three."""
    return ", ".join(names[:3]) + ", ..." * (len(names) > 3)


def lock(folder: Path) -> IO[str]:
    """The folder's lock, held until closed or until the process ends; InUseError when it is taken."""
    stream = open(folder / LOCK, "a+", encoding="ascii")  # noqa: SIM115 (the caller closes it)
    try:
        _take(stream)
    except (BlockingIOError, PermissionError):
        stream.seek(0)
        process = stream.read().strip()
        stream.close()
        raise InUseError(f"{folder} is in use by a running intnet (process {process})") from None
    try:
        with naming(folder / LOCK):
            stream.truncate(0)
            stream.write(f"{os.getpid()}\n")
            stream.flush()
    except OSError:
        with suppress(OSError):
            stream.close()
        raise
    return stream


def _take(stream: IO[str]) -> None:
    """Lock a file for this open stream alone, or raise what the system raises when another one has it."""
    try:
        import fcntl
    except ImportError:
        _take_byte(stream.fileno())
    else:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _take_byte(handle: int) -> None:
    """The same on Windows, which locks bytes."""
    import msvcrt

    os.lseek(handle, _FAR, os.SEEK_SET)
    try:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    finally:
        os.lseek(handle, 0, os.SEEK_SET)
