"""Windows' `msvcrt.locking`, by what POSIX has: a byte at the file's position, locked for this process."""

import errno
import fcntl
import os

LK_NBLCK = 2


def locking(handle: int, mode: int, count: int) -> None:
    """PermissionError where another process has locked one of the bytes, as on Windows."""
    assert mode == LK_NBLCK
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, count, os.lseek(handle, 0, os.SEEK_CUR))
    except OSError:
        raise PermissionError(errno.EACCES, "Permission denied") from None
