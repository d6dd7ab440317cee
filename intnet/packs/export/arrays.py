"""A pack as one .npz, which `numpy.load` reads without pickle.

pack.npz     an array a port, by the port's name, of its shape and in C order: codes in the smallest type
             that holds the port's bits, float32 and float64 as such; PACK.json as the bytes of its text
"""

import io
from collections.abc import Iterator

import numpy as np

from intnet.packs.pack import MANIFEST, Pack
from intnet.packs.ports import Port, as_tensor
from intnet.runs.archive import write_npz

FILE = "pack.npz"


def files(pack: Pack) -> Iterator[tuple[str, bytes]]:
    """The one file."""
    arrays = {MANIFEST: np.frombuffer((pack.folder / MANIFEST).read_bytes(), np.uint8)}
    for name, port in pack.ports.items():
        arrays[name] = typed(port, pack.codes(name))
    stream = io.BytesIO()
    write_npz(stream, arrays)
    yield FILE, stream.getvalue()


def width(port: Port) -> int:
    """8, 16, 32 or 64: the fewest that hold an element."""
    return next(bits for bits in (8, 16, 32, 64) if port.bits <= bits)


def typed(port: Port, codes: np.ndarray) -> np.ndarray:
    """Codes in the smallest type; floats as floats."""
    if port.encoding in ("float32", "float64"):
        return np.asarray(as_tensor(port, codes, None))
    return codes.astype(f"{'i' if port.signed else 'u'}{width(port) // 8}")
