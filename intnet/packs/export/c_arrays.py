"""A pack as C: pack.h declares an array a port, pack.c fills them; C99, no warning under -Wall -Wextra.

    extern const int16_t fc2_x0[8][64];      the codes, along the file's own dimensions
    #define FC2_X0_EXPONENT (-7)             value = code * 2^exponent, where it is one number
    #define FC2_X0_BITS 10                   of an element

Codes stand in the order of the pack's file, 0 in the cells of a block that hold none. Floats are the bits of
their pattern, uint32_t or int64_t, so that none changes on the way. Names are those of `pack.svh`.
"""

from collections.abc import Iterator

import numpy as np

from intnet.packs import lines
from intnet.packs.export.arrays import width
from intnet.packs.export.memories import about
from intnet.packs.hdl.names import C_KEYWORDS
from intnet.packs.hdl.text import identifier, names_of
from intnet.packs.pack import Pack
from intnet.packs.ports import Port

A_LINE = 16  # codes
LEAST = -(1 << 63)  # C has no literal of it


def files(pack: Pack) -> Iterator[tuple[str, bytes]]:
    """pack.h and pack.c."""
    ports = list(zip(pack.ports.values(), names_of(pack.manifest["ports"]), strict=True))
    held = [(port, f"{name}_" if name in C_KEYWORDS else name) for port, name in ports if 0 not in port.shape]
    yield "pack.h", "\n".join(_header(pack, held)).encode("ascii")
    yield "pack.c", "\n".join(_source(pack, held)).encode("ascii")


def _header(pack: Pack, ports: list[tuple[Port, str]]) -> Iterator[str]:
    guard = f"INTNET_{identifier(pack.manifest['name']).upper()}_H"
    yield from (f"#ifndef {guard}", f"#define {guard}", "", "#include <stdint.h>")
    for port, name in ports:
        yield ""
        yield from (f"/* {line} */" for line in about(pack, port))
        if isinstance(port.exponent, int):
            yield f"#define {name.upper()}_EXPONENT ({port.exponent})"
        yield f"#define {name.upper()}_BITS {port.bits}"
        yield f"extern const {_type(port)} {name}{_extents(port)};"
    yield from ("", "#endif", "")


def _source(pack: Pack, ports: list[tuple[Port, str]]) -> Iterator[str]:
    yield '#include "pack.h"'
    for port, name in ports:
        cells = lines.cells_of(port, pack.codes(port.name)).reshape(_shape(port))
        yield ""
        yield f"const {_type(port)} {name}{_extents(port)} ="
        yield f"{_braced(cells, port)};"
    yield ""


def _type(port: Port) -> str:
    return f"{'int' if port.signed else 'uint'}{width(port)}_t"


def _shape(port: Port) -> tuple[int, ...]:
    return port.file_shape or (1,)


def _extents(port: Port) -> str:
    return "".join(f"[{size}]" for size in _shape(port))


def _braced(cells: np.ndarray, port: Port) -> str:
    """An initializer, in as many braces as there are dimensions."""
    if cells.ndim > 1:
        return "{" + ",\n".join(_braced(part, port) for part in cells) + "}"
    codes = [_literal(code, port) for code in cells.tolist()]
    return "{" + ",\n".join(", ".join(codes[i : i + A_LINE]) for i in range(0, len(codes), A_LINE)) + "}"


def _literal(code: int, port: Port) -> str:
    """A code as C reads it, of its array's type."""
    if width(port) < 64:
        return f"{code}" if port.signed else f"{code}U"
    if not port.signed:
        return f"UINT64_C({code & (1 << 64) - 1})"
    return "INT64_MIN" if code == LEAST else f"INT64_C({code})"
