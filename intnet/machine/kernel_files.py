"""Files of compiled kernels: one a kernel and signature, which tells what it was compiled for.

    KernelFiles(folder, name, stamp)     in the place of Numba's own: an index a function, files by number

Of two processes that compile two signatures of one function at the same time, both may take the same number:
until the slower one has written, Numba's index leads a third one to the other's code, which it runs on
operands of other types, in silence. Here a file's name follows from its key, and what is read counts only
where the key in it is the one asked for and its bytes are those that were written; else it is compiled again.
"""

import hashlib
import os
import pickle
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba.core.serialize import dumps

from intnet.machine.words import AMX

_DIGEST = 32  # bytes of SHA-256


class KernelFiles:
    """What Numba asks of `IndexDataCacheFile`: save, load and flush.

    name: of the function, its line and Python's version; stamp: of its source file
    """

    def __init__(self, folder: str, name: str, stamp: Any) -> None:
        self._folder, self._name, self._stamp = Path(folder), name, stamp

    def save(self, key: Any, data: Any) -> None:
        """Write compiled code and what it is of; whole, or, on a full disk, not at all."""
        told = dumps((self._stamp, key))
        body = len(told).to_bytes(8, "little") + told + dumps(data)
        path = self._path(key)
        own = path.with_name(f"{path.name}.tmp.{uuid.uuid4().hex[:16]}")
        with suppress(OSError):
            own.write_bytes(hashlib.sha256(body).digest() + body)
            os.replace(own, path)
        with suppress(OSError):
            own.unlink(missing_ok=True)

    def load(self, key: Any) -> Any:
        """The code of `key`; None where there is none, or a file that is damaged, or of another."""
        try:
            whole = self._path(key).read_bytes()
        except OSError:
            return None
        body = whole[_DIGEST:]
        if hashlib.sha256(body).digest() != whole[:_DIGEST]:
            return None
        end = 8 + int.from_bytes(body[:8], "little")
        stamp, known = pickle.loads(body[8:end])
        return pickle.loads(body[end:]) if (stamp, known) == (self._stamp, key) else None

    def flush(self) -> None:
        """Forget all signatures of the function."""
        for path in self._folder.glob(f"{self._name}.*"):
            with suppress(OSError):
                path.unlink()

    def _path(self, key: Any) -> Path:
        """By what types call themselves; what that leaves out is in the key that is compared."""
        return self._folder / f"{self._name}.{hashlib.sha256(repr(key).encode()).hexdigest()[:20]}.nbc"


def keep_by_key(kernel: Any) -> None:
    """Have a dispatcher of Numba's keep its code in `KernelFiles`; it has a cache from where it was made.

    One processor has AMX for one process and not for another, which its name does not tell.
    """
    cache = kernel._cache
    files = cache._cache_file
    name = files._index_name.removesuffix(".nbi") + "-amx" * AMX
    cache._cache_file = KernelFiles(cache.cache_path, name, files._source_stamp)
