"""A pack's vectors as other files, for tools that read no hex files; the pack stays as it is.

    write(read("packs/fc2"), "mif", "fc2-mif")

    mem     $readmemh with an address, and what a port is in comments      a file a port     memories.py
    mif     Intel's memory initialization file                             a file a port     memories.py
    coe     AMD's, for block memories                                      a file a port     memories.py
    c       pack.h and pack.c: an array of codes a port, its exponent      one pair          c_arrays.py
    npz     NumPy: an array of codes a port, of its shape; floats as such  one file          arrays.py
    image   image.mem: one memory, and its map as text and JSON            three files       image.py

Words are those of the pack's files, in their order; arrays of C too, arrays of NumPy stand in C order.
A folder is written whole or not at all. `KINDS` is the list.
"""

from functools import partial
from pathlib import Path

from intnet.errors import ConfigError, PackError, unknown
from intnet.numbers.hexfiles import MOST_BITS
from intnet.packs.export import arrays, c_arrays, image, memories
from intnet.packs.pack import Pack, refused
from intnet.runs import files
from intnet.runs.archive import PathLike

KINDS = {kind: partial(memories.files, kind) for kind in memories.TEXTS} | {
    "c": c_arrays.files, "npz": arrays.files
}  # fmt: skip
IMAGE = "image"


def write(pack: Pack, kind: str, folder: PathLike, word: int | None = None) -> list[str]:
    """Write the pack's ports as files of `kind` to a new folder; their names.

    word: bits of a word of an image (32). ConfigError, PackError say what cannot be.
    """
    if kind not in (*KINDS, IMAGE):
        raise unknown("kind of file", kind, [*KINDS, IMAGE])
    if word is not None and kind != IMAGE:
        raise ConfigError(f"--word with --as {kind}: words are the pack's; only an image has its own")
    if word is not None and not 1 <= word <= MOST_BITS:
        raise ConfigError(f"--word {word}: give a number from 1 to {MOST_BITS}")
    target = Path(folder)
    if target.exists():
        raise PackError(f"{target} is there already: give a folder that is not")
    made = image.files(pack, word or image.WORD) if kind == IMAGE else KINDS[kind](pack)
    try:
        return files.write_folder(target, made)
    except OSError as error:
        raise refused(target, error) from None
