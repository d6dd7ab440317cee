"""A port's elements as the lines of its file, in the port's order, lanes and words, and back.

    text, guard = encode(port, codes)                   codes: integers of the port's shape
    codes, guard = decode(port, text, "in/x0.hex")      int64, flat, in C order

A file is a sequence of cells (`order.py`), `lanes` of them a row, a row one word or several. A cell after
the last element is 0, and so are the bits of a word above its row: `decode` takes nothing else.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from intnet.errors import PackError
from intnet.numbers import hexfiles
from intnet.numbers.hexfiles import Layout
from intnet.packs.order import cells
from intnet.packs.ports import Filled, Port

CODE_BITS = 64


def encode(port: Port, codes: np.ndarray) -> tuple[bytes, int]:
    """The text of a port's file, and its load guard; PackError where a code does not fit its lane."""
    lanes = rows(port, codes)
    if not port.word:
        return hexfiles.encode(lanes, port.layout)
    hexfiles.check(lanes.reshape(-1), Layout(port.bits, signed=port.signed))
    return hexfiles.encode(pieces(port, lanes).view(np.uint64), piece(port))


def decode(port: Port, text: bytes, where: str) -> tuple[np.ndarray, int]:
    """(int64 codes in C order, flat, and the load guard) of what `encode` wrote.

    PackError names `where` and the line of what is not as it should be.
    """
    if not port.word:
        lanes, guard = hexfiles.decode(text, port.layout, port.words, where)
        return elements(port, lanes, where), guard
    words, guard = hexfiles.decode(text, piece(port), port.words, where)
    return elements(port, from_pieces(port, words.reshape(port.words, -1), where), where), guard


def digest(filled: Iterable[Filled], results: slice = slice(None)) -> str:
    """SHA-256 of the texts of ports, one after another; of units those of some results."""
    sha = hashlib.sha256()
    for port, codes in filled:
        part = codes[results] if codes.ndim else codes
        sha.update(encode(replace(port, shape=part.shape), part)[0])
    return sha.hexdigest()


# -- cells and rows ------------------------------------------------------------------------------


def cells_of(port: Port, codes: np.ndarray) -> np.ndarray:
    """The cells of the file, flat, in its order; 0 where there is no element."""
    flat = np.ascontiguousarray(codes).reshape(-1)
    if not port.order or not flat.size:
        return flat
    at = cells(port.axes, port.shape, port.order)
    return np.where(at >= 0, flat[at], 0)


def rows(port: Port, codes: np.ndarray) -> np.ndarray:
    """The same up to whole rows of lanes, a row each."""
    flat = cells_of(port, codes)
    if gap := -flat.size % port.lanes:
        flat = np.concatenate([flat, np.zeros(gap, flat.dtype)])
    return flat.reshape(-1, port.lanes)


def elements(port: Port, lanes: np.ndarray, where: str) -> np.ndarray:
    """The inverse, flat in C order; PackError where a cell that holds no element is not 0."""
    if wrong := beyond(port, lanes, where):
        raise PackError(wrong)
    return held(port, lanes)


def beyond(port: Port, lanes: np.ndarray, where: str) -> str:
    """The first cell that holds no element and is not 0, as a line for people; '' where there is none."""
    at = _cells(port)
    found = np.empty(0, np.int64) if at is None else np.flatnonzero((at < 0) & (lanes.reshape(-1) != 0))
    if not found.size:
        return ""
    word, lane = _place(port, found[:1])
    return (
        f"{where}:{word[0] + 1}: lane {lane[0]} of word {word[0]:,} is not 0, but holds no element: "
        "what fills up a word or a block is 0"
    )


def held(port: Port, lanes: np.ndarray) -> np.ndarray:
    """The elements alone, flat in C order, whatever is in the other cells."""
    flat, at = lanes.reshape(-1), _cells(port)
    if at is None:
        return flat
    out = np.empty(int(np.count_nonzero(at >= 0)), flat.dtype)
    out[at[at >= 0]] = flat[at >= 0]
    return out


def places(port: Port, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(word, lane) of elements in C order: the word that holds a lane's lowest bit."""
    at = _cells(port)
    if at is None:
        return _place(port, flat)
    cell_of = np.empty(int(np.count_nonzero(at >= 0)), np.int64)
    cell_of[at[at >= 0]] = np.flatnonzero(at >= 0)
    return _place(port, cell_of[flat])


def element_of(port: Port, cell: int) -> int | None:
    """The element of a cell, in C order."""
    at = _cells(port)
    found = cell if at is None else int(at[cell])
    return found if found >= 0 else None


def element_at(port: Port, word: int) -> int | None:
    """The first element, in C order, of a word's row; None after the last one."""
    first, at = word // port.row_words * port.lanes, _cells(port)
    if at is None:
        return first if first < np.prod(port.shape) else None
    found = at[first : first + port.lanes]
    return next((int(flat) for flat in found if flat >= 0), None)


def _cells(port: Port) -> np.ndarray | None:
    """The element of every cell, -1 where there is none, up to whole rows; None where they are C order."""
    count = int(np.prod(port.shape, dtype=np.int64))
    if not port.order and count % port.lanes == 0:
        return None
    at = cells(port.axes, port.shape, port.order)
    return np.concatenate([at, np.full(-at.size % port.lanes, -1)])


def _place(port: Port, cell: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    row, lane = np.divmod(cell, port.lanes)
    return row * port.row_words + lane * port.bits // port.word_bits, lane


# -- rows and words ------------------------------------------------------------------------------


def piece(port: Port) -> Layout:
    """A word as equal unsigned pieces that 64 bits hold: its lanes, where it is a row."""
    if not port.word:
        return Layout(port.bits, port.lanes, signed=False)
    size = next(size for size in range(CODE_BITS, 0, -1) if port.word % size == 0)
    return Layout(size, port.word // size, signed=False)


def pieces(port: Port, lanes: np.ndarray) -> np.ndarray:
    """The words of rows, a row each, as `piece` cuts them."""
    if not port.word:
        return wrapped(lanes.astype(np.int64), port.bits, signed=False)
    bits = _bits(lanes.reshape(-1), port.bits).reshape(len(lanes), port.row_bits)
    filled = np.pad(bits, ((0, 0), (0, port.row_words * port.word - bits.shape[1])))
    cut = piece(port)
    return _numbers(filled.reshape(-1, cut.bits)).reshape(-1, cut.lanes)


def from_pieces(port: Port, words: np.ndarray, where: str) -> np.ndarray:
    """The inverse: rows of codes. PackError where a bit above a row is set."""
    if not port.word:
        return wrapped(words, port.bits, port.signed)
    bits = _bits(words.reshape(-1), piece(port).bits).reshape(-1, port.row_words * port.word)
    above = np.argwhere(bits[:, port.row_bits :])
    if above.size:
        row, bit = above[0]
        word = row * port.row_words + (bit + port.row_bits) // port.word
        raise PackError(
            f"{where}:{word + 1}: a bit of word {word:,} above {port.lanes} lanes of {port.bits} bits is set"
        )
    kept = bits[:, : port.row_bits].reshape(-1, port.bits)
    return wrapped(_numbers(kept).reshape(-1, port.lanes), port.bits, port.signed)


def wrapped(codes: np.ndarray, bits: int, signed: bool = True) -> np.ndarray:
    """The low bits of codes, as a device of `bits` bits keeps them."""
    if bits == CODE_BITS:
        return codes
    low = codes & (1 << bits) - 1
    return low - ((low >> bits - 1) << bits) if signed else low


def _bits(codes: np.ndarray, bits: int) -> np.ndarray:
    """uint8[n, bits]: the low bits of codes, lowest first."""
    raw = np.ascontiguousarray(codes.astype(np.int64), "<i8").view(np.uint8).reshape(-1, 8)
    return np.unpackbits(raw, axis=1, bitorder="little")[:, :bits]


def _numbers(bits: np.ndarray) -> np.ndarray:
    """Its inverse: int64[n], unsigned below 64 bits."""
    filled = np.pad(bits, ((0, 0), (0, CODE_BITS - bits.shape[1])))
    return np.packbits(filled, axis=1, bitorder="little").view("<i8").reshape(-1).astype(np.int64)
