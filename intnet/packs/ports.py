"""A pack before it is written and after it is read: ports, cases, and the tensors behind them.

A `Port` says what one hex file holds; `Draft` is all that a builder (`layers/`, `units/`) hands to
`pack.write`. Builders fill files in C order; who asked for another layout gets it from `layouts.py`.

    direction  in     what the device reads: operands and stored state       in/NAME.hex
               rnd    random words, one an element of the path they round    rnd/NAME.hex
               out    what it must give                                      exp/NAME.hex
               trail  what explains a result (`inspect/trail.py`)            trail/NAME.hex

    encoding   integer  codes; value = code * 2**exponent
               flag     stored words of Flag-Q: flag, sign, magnitude (`quantize.flag_words`)
               float32  bit patterns of IEEE binary32
               float64  of binary64, as signed integers
               minifloat  words of a small float in MX blocks, and e8m0 of their scales (`mx.py`)

Next: `pack.py` writes and reads them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from intnet.exact.quantize import flag_words
from intnet.numbers.formats import Flag, Format, Levels
from intnet.numbers.hexfiles import MOST_BITS, Layout
from intnet.numbers.qtensor import QTensor, container, max_abs
from intnet.packs.order import file_shape

Json = dict[str, Any]  # of PACK.json
FOLDERS = {"in": "in", "rnd": "rnd", "out": "exp", "trail": "trail"}
ENCODINGS = ("integer", "flag", "float32", "float64", "minifloat", "e8m0")
FLOAT_BITS = 32
LAYERS, NETWORK, INFERENCE = "layers", "network", "inference"  # generator.kind of packs of layers
OF_LAYERS = (LAYERS, NETWORK, INFERENCE)
LOSS, CLASSES = "loss", "classes"  # what ends a network, in such packs a layer (`layers/heads.py`)
HEADS = (LOSS, CLASSES)


@dataclass(frozen=True)
class Port:
    """One hex file of a pack.

    name:     'x' of a unit, 'fc2/x0' of a layer, 'fc2/e3.floor' of a trail
    shape:    of the elements, in C order; axes names its dimensions: 'N,H,W,C'
    bits:     of an element; lanes: elements a row, lane 0 the least significant; a row is a word
    order:    of the elements in the file (`order.py`); '': C order
    word:     bits of a word, where they are not those of a row: a row takes as many words as it needs, the
              least significant first, and bits above it are 0; 0: a row is a word
    exponent: log2 of the value of code 1; the name of a port that holds one a block; None: no number
              of block float the port of e, where log2 is e - b + 1: b is `rounding`'s bits, or their port
              of MX blocks the port of the scales' words
    meaning:  one line: the formula, or what the bits say
    explains: of a trail: the port whose results it explains
    rounding: of a rounded result, as JSON: mode, low, high, overflow, words (a port), word_bits, ...
    """

    name: str
    direction: str
    shape: tuple[int, ...]
    axes: str
    bits: int
    signed: bool = True
    lanes: int = 1
    exponent: int | str | None = None
    encoding: str = "integer"
    format: Format | None = None
    meaning: str = ""
    explains: str = ""
    rounding: Mapping[str, Any] = field(default_factory=dict)
    order: str = ""
    word: int = 0

    @property
    def layout(self) -> Layout:
        """How its elements become words, of a port whose words are rows."""
        return Layout(self.bits, self.lanes, self.signed)

    @property
    def row_bits(self) -> int:
        """Bits of a row."""
        return self.lanes * self.bits

    @property
    def word_bits(self) -> int:
        """Bits of a word."""
        return self.word or self.row_bits

    @property
    def digits(self) -> int:
        """Hex digits of a word."""
        return -(-self.word_bits // 4)

    @property
    def row_words(self) -> int:
        """Words a row."""
        return -(-self.row_bits // self.word_bits)

    @property
    def file_shape(self) -> tuple[int, ...]:
        """Of the cells of the file (`order.py`)."""
        return file_shape(self.axes, self.shape, self.order)

    @property
    def words(self) -> int:
        """Words, one a line."""
        return -(-prod(self.file_shape) // self.lanes) * self.row_words

    @property
    def file(self) -> str:
        """Its path inside the pack."""
        return f"{FOLDERS[self.direction]}/{self.name.replace('/', '.')}.hex"


Filled = tuple[Port, np.ndarray]  # a port and the integers of its elements, of the port's shape


@dataclass(frozen=True)
class Case:
    """A named group of vectors, from its first word on to the next case's.

    index: its first word in the out ports; beat: its first word in the in ports
    level: 'L0' ... 'L4'; flags: the bugs it hunts, separated by spaces
    """

    index: int
    id: str
    level: str
    flags: str
    beat: int


@dataclass(frozen=True)
class Draft:
    """A pack in memory.

    name:      as in NAME-VERSION
    generator: what makes it again: the arguments of its builder, as JSON
    about:     further keys of PACK.json, as JSON: what a builder wants kept
    """

    name: str
    level: str
    generator: Mapping[str, Any]
    ports: Sequence[Filled]
    cases: Sequence[Case]
    about: Mapping[str, Any] = field(default_factory=dict)


def lanes_of(shape: tuple[int, ...], bits: int, most_bits: int = MOST_BITS) -> int:
    """The most lanes that divide the last axis and keep a word within its limit."""
    size = shape[-1] if shape else 1
    most = max(1, min(size, most_bits // bits))
    return next(lanes for lanes in range(most, 0, -1) if size % lanes == 0)


def step_prefix(step: int, generator: Mapping[str, Any]) -> str:
    """What the names of a step's ports begin with: "step7/" in a chain, nothing in a pack of one step."""
    return f"step{step}/" if generator["steps"] > 1 else ""


def whole_number(name: str, direction: str, codes: np.ndarray, axes: str, bits: int, **more: Any) -> Filled:
    """A port of integers that are `bits` wide; `more` are fields of Port."""
    return Port(name, direction, codes.shape, axes, bits, lanes=lanes_of(codes.shape, bits), **more), codes


def tensor(name: str, direction: str, value: QTensor | np.ndarray, axes: str, **more: Any) -> list[Filled]:
    """The ports of a QTensor or a float array: its own, and one of its exponents where they are many.

    An element has the bits that its format names, or more where the codes need more.
    """
    shape = value.shape
    if isinstance(value, np.ndarray) and value.dtype == np.float64:
        return [whole_number(name, direction, value.view(np.int64), axes, 64, encoding="float64", **more)]
    if isinstance(value, np.ndarray):
        patterns = np.ascontiguousarray(value, np.float32).view(np.uint32)
        kind = {"signed": False, "encoding": "float32"} | more
        return [whole_number(name, direction, patterns, axes, FLOAT_BITS, **kind)]
    out: list[Filled] = []
    exponent: int | str
    if isinstance(value.exponent, np.ndarray):
        exponent = f"{name}.exponent"
        bits = QTensor(value.exponent.astype(np.int64), 0).width
        of_blocks = value.exponent.reshape((1,) * (len(shape) - value.exponent.ndim) + value.exponent.shape)
        meaning = f"exponents of {name}"
        out = [whole_number(exponent, direction, of_blocks, axes, max(8, bits), meaning=meaning)]
    else:
        exponent = value.exponent
    fields = {"exponent": exponent, "format": value.format} | more
    if isinstance(value.format, Flag):
        words = flag_words(value)
        fields |= {"signed": False, "encoding": "flag"}
        return [whole_number(name, direction, words, axes, value.format.bits, **fields), *out]
    bits = max(value.format.bits if value.format else 1, value.width)
    if isinstance(value.format, Levels):  # words are levels, not their numbers, so that a word is its value
        bits = QTensor(np.array(value.format.table[0], np.int64), 0).width
    return [whole_number(name, direction, value.codes, axes, bits, **fields), *out]


def flag_codes(words: np.ndarray, format: Flag) -> np.ndarray:
    """The codes of stored words: the inverse of `quantize.flag_words`, int64."""
    magnitude = words & ((1 << format.fine) - 1)
    size = np.where(words >> (format.fine + 1) & 1, magnitude << format.fine, magnitude)
    return np.where(words >> format.fine & 1, -size, size)


def as_tensor(port: Port, codes: np.ndarray, exponents: np.ndarray | None) -> QTensor | np.ndarray:
    """The QTensor, or the float array, that int64 `codes` of a port stand for; the inverse of `tensor`."""
    codes = codes.reshape(port.shape)
    if port.encoding == "float32":
        return codes.astype(np.uint32).view(np.float32)
    if port.encoding == "float64":
        return codes.view(np.float64)
    if isinstance(port.format, Flag) and port.encoding == "flag":
        codes = flag_codes(codes, port.format)
    exponent: Any = port.exponent if exponents is None else exponents
    bound = max_abs(codes)  # of a device's words, which may be outside of the format
    return QTensor(codes.astype(container(bound)), 0 if exponent is None else exponent, port.format, bound)
