"""A program as one self-contained C99 file: integers alone, static memory, no library.

    #include <stdint.h>
    void intnet_run(const uint8_t image[784], int64_t logits[10]);     codes * 2^(INTNET_EXPONENT)
    int intnet_run(...);                                        where images have exponents of their own
    void intnet_run(const uint8_t image[784], float logits[10]);       where they are float32

A loop an operation that gathers (a product, a pool, a join), and in it, element by element, those that
follow and have no other reader: what is stored are their results, in the smallest type that holds the
proven interval. A product adds to the sums of all channels at once, which compilers make vectors of. Stored
values share arrays where one is read for the last time before the other is made. What has a scale by the
image goes over its operand twice (`c_block_float.py`), and where batch norm is float32 it is float32 here, as
are values between products of blocks (`c_blocks.py`). Nothing overflows, as every interval is proven; nothing
shifts negative numbers; division rounds by its remainder. What stands around it all: `c_frame.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from intnet.export import c_block_float, c_blocks, c_frame
from intnet.export import program as p
from intnet.export.block_ops import BlockProduct, Blocks, Plus, blocks_of
from intnet.export.c_block_float import Source
from intnet.export.program import Program, plain
from intnet.export.values import BLOCKS, FLOAT32, Op, Value, bits_of

SIZES = (8, 16, 32, 64)
A_LINE = 16  # constants
ELEMENTWISE = (p.Affine, p.Round, p.Relu, p.Curve)
DIVIDE = """\
/* n / d to nearest, ties to even, of d above 0. */
static int64_t divide(int64_t n, int64_t d) {
  int64_t q = n / d, r = n % d;
  if (r < 0) {
    r += d;
    q -= 1;
  }
  return q + (r > d - r || (r == d - r && q % 2 != 0));
}
"""


class Sizes(NamedTuple):
    """Bytes of constants, and of the memory that an image takes beside them."""

    constants: int
    memory: int


def source(program: Program) -> tuple[str, Sizes]:
    """The text of the file, ASCII, and what it takes."""
    made = Writer(program)
    body = made.body()
    slots = [*made.slots, *made.sums.values()]
    sizes = Sizes(made.constant_bytes, sum(slot.size * slot.bits // 8 for slot in slots))
    arrays = [f"static {slot.kind} {slot.name}[{slot.size}];" for slot in slots]
    image = f"const {made.image.kind} image[{prod(program.images.shape)}]"
    used: list[str] = []
    for call, text in reversed({"divide(": DIVIDE, **c_block_float.HELPERS, **c_blocks.HELPERS}.items()):
        used = [text, *used] if any(call in line for line in (*body, *used)) else used
    own = program.logits.scale is not None
    run = f"{'int' if own else 'void'} intnet_run({image}, {made.logits} logits[INTNET_CLASSES])"
    body += [f"  return {program.logits.told('e_')};"] if own else []
    head = c_frame.header(program, *sizes)
    lines = [*head, f"{run};", "", *made.constants, "", *arrays, "", *used, f"{run} {{", *body, "}", ""]
    return "\n".join([*lines, c_frame.main(program, made.image.kind, made.image.bits, made.logits)]), sizes


@dataclass
class Slot:
    """A static array: of elements of a type, as many as the greatest of the values that share it."""

    name: str
    kind: str
    bits: int
    size: int = 0
    until: int = -1  # the last group that reads what it holds


def _container(value: Value) -> tuple[str, int]:
    """(type, its bits): float, or the smallest that holds all codes."""
    if value.form == FLOAT32:
        return "float", 32
    signed = value.lo < 0 or value.form == BLOCKS
    bits = next(bits for bits in SIZES if value.bits <= bits + (not signed))
    return f"{'' if signed else 'u'}int{bits}_t", bits


def _elementwise(op: Op) -> bool:
    floats = (isinstance(op, p.Norm) and op.wl == 0) or (isinstance(op, Plus) and op.b is not None)
    return floats or isinstance(op, ELEMENTWISE)


class Writer:
    """The pieces of the file: constants, arrays, statements."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.constants: list[str] = []
        self.constant_bytes = 0
        self.slots: list[Slot] = []
        self.sums: dict[int, Slot] = {}  # of a product's channels, by their bits
        self.image = Slot("image", *_container(program.values[0]))
        self.logits = "float" if program.logits.form == FLOAT32 else "int64_t"
        self._units: dict[int, Slot] = {}  # of blocks, by place
        self._names: set[str] = set()
        self._slot: dict[int, Slot] = {0: self.image}
        self.groups = _groups(program)
        self._last = {k: i for i, group in enumerate(self.groups) for k in self._sources(group)}

    def _sources(self, group: list[int]) -> list[int]:
        """The places of stored values that a group reads: flattened ones are those that they come from."""
        return [self._stored(k) for k in self.program.ops[group[0]].reads]

    def _stored(self, place: int) -> int:
        while isinstance(self.program.ops[place], p.Flatten):
            (place,) = self.program.ops[place].reads
        return place

    def body(self) -> list[str]:
        """The statements of intnet_run."""
        lines: list[str] = []
        for i, group in enumerate(self.groups):
            place = group[-1]
            value, size = self.program.values[place], prod(self.program.values[place].shape)
            if i < len(self.groups) - 1:
                self._slot[place] = self._take(i, place, *_container(value), size)
            else:
                self._slot[place] = Slot("logits", self.logits, 64)
            if value.form == BLOCKS:
                count = prod(blocks_of(value.shape))
                self._units[place] = self._take(i, place, "int16_t", 16, count)
            lines += self._loop(group, self._slot[place])
        return lines

    def _take(self, i: int, place: int, kind: str, bits: int, size: int) -> Slot:
        """An array of the type that holds nothing any more, or a new one."""
        free = [s for s in self.slots if s.kind == kind and s.until < i]
        if not free:
            self.slots.append(Slot(f"held_{len(self.slots)}", kind, bits))
        slot = max(free, key=lambda s: s.size) if free else self.slots[-1]
        slot.size, slot.until = max(slot.size, size), self._last.get(place, i)
        return slot

    def _array(self, name: str, codes: np.ndarray) -> str:
        """A static array of constants, integers or float32; its name, which no other one has."""
        flat = codes.reshape(-1).tolist()
        if codes.dtype == np.float32:
            bits, kind, texts = 32, "float", [f"{v.hex()}f" for v in flat]
        else:
            bits = self._bits(codes)
            kind, texts = f"int{bits}_t", [_literal(v, bits) for v in flat]
        name = next(one for one in c_frame.identifiers(name) if one not in self._names)
        self._names.add(name)
        rows = [", ".join(texts[k : k + A_LINE]) for k in range(0, len(texts), A_LINE)]
        self.constants.append(f"static const {kind} {name}[{len(flat)}] = {{\n  " + ",\n  ".join(rows) + "};")
        self.constant_bytes += len(flat) * bits // 8
        return name

    # -- loops -----------------------------------------------------------------------------------

    def _loop(self, group: list[int], out: Slot) -> list[str]:
        place = group[0]
        op, value = self.program.ops[place], self.program.values[place]
        if isinstance(op, p.Scaled | p.Norm) and value.scale == place:
            return [self._named(group), *self._scaled(op, group, out)]
        if isinstance(op, Blocks):
            return [self._named(group), *self._blocks(op, value, out, self._units[place])]
        at = "i" if len(value.shape) == 1 else f"(y * {value.shape[1]} + x) * {value.shape[2]} + i"
        tail = [line for k in group[1:] for line in self._element(k)]
        if _elementwise(op):
            tail = [*self._element(place), *tail]
        stored = [*self._gather(op, value, at), *tail, f"{out.name}[{at}] = ({out.kind})v;"]
        names = ["i"] if len(value.shape) == 1 else ["y", "x", "i"]
        ahead = self._sums(op, value) if isinstance(op, p.Product) and op.groups == 1 else []
        lines = [self._named(group)]
        for name, size in zip(names, value.shape, strict=True):
            lines += [f"    {line}" for line in ahead] if name == "i" else []
            lines.append(f"  for (int {name} = 0; {name} < {size}; {name}++) {{")
        return [*lines, *(f"    {line}" for line in stored), "  " + "}" * len(names)]

    def _sums(self, op: p.Product, value: Value) -> list[str]:
        """Statements that set the sums of all channels, at one place of an image or of a row."""
        (read,), bits = (self.program.values[k] for k in op.reads), 32 if value.peak < 1 << 31 else 64
        source, outs = self._slot[self._stored(op.reads[0])], len(op.weight)
        held = self.sums.setdefault(bits, Slot(f"sums_{bits}", f"int{bits}_t", bits))
        held.size = max(held.size, outs)
        codes = op.weight.transpose(*range(2, op.weight.ndim), 1, 0)  # [ky, kx,] input, output
        w, wide, ins = self._array(f"w_{op.name}", codes), f"int{bits}_t", op.weight.shape[1]

        def added(x: str, by: str) -> list[str]:
            return [
                f"for (int c = 0; c < {ins}; c++) {{",
                f"  const {wide} a = {x}[c];",
                f"  for (int i = 0; i < {outs}; i++) {held.name}[i] += a * ({wide}){by}[c * {outs} + i];",
                "}",
            ]

        zeros = f"for (int i = 0; i < {outs}; i++) {held.name}[i] = 0;"
        if op.weight.ndim == 2:
            return [zeros, *added(source.name, w)]
        return [
            zeros,
            *_window(op, read),
            f"    const {source.kind} *at = &{source.name}[(r * {read.shape[1]} + s) * {read.shape[2]}];",
            f"    const int{self._bits(op.weight)}_t *by = &{w}[(ky * {op.kernel[1]} + kx) * {ins * outs}];",
            *(f"    {line}" for line in added("at", "by")),
            "  }",
        ]

    def _named(self, group: list[int]) -> str:
        return f"  /* {plain(' -> '.join(self.program.ops[k].name for k in group))} */"

    def _blocks(self, op: Blocks, value: Value, out: Slot, units: Slot) -> list[str]:
        """Codes and units of what is float32, or becomes it."""
        (read,) = (self.program.values[k] for k in op.reads)
        bits = str(op.bits.flat[0]) if op.bits.size == 1 else f"{self._array(f'bits_{op.name}', op.bits)}[k]"
        source = self._slot[self._stored(op.reads[0])].name
        return c_blocks.blocks(value, read, source, bits, out.name, units.name)

    def _block_product(self, op: BlockProduct, value: Value) -> list[str]:
        """Of one channel, with the digits of its sum."""
        (read,), place = (self.program.values[k] for k in op.reads), self._stored(op.reads[0])
        last = (0, *range(2, op.weight.ndim), 1)  # channels last, as values have them
        arrays = self._slot[place].name, self._units[place].name
        codes, steps = (
            self._array(f"{what}_{op.name}", v.transpose(last))
            for what, v in (("w", op.weight), ("steps", op.steps))
        )
        wide = self._bits(op.steps)
        window = _window(op, read) if op.weight.ndim == 4 else []
        return c_blocks.product(op, value, read, (*arrays, codes, steps), wide, window)

    def _scaled(self, op: p.Scaled | p.Norm, group: list[int], out: Slot) -> list[str]:
        """Of a value in C order, whatever its axes."""
        place, read = group[0], [self.program.values[k] for k in op.reads]
        size = prod(read[0].shape)
        terms = [
            Source(self._slot[self._stored(k)].name, size, value.told("e_"))
            for k, value in zip(op.reads, read, strict=True)
        ]
        store = [
            *(line for k in group[1:] for line in self._element(k)),
            f"{out.name}[i] = ({out.kind})v;",
        ]
        if isinstance(op, p.Norm):
            return c_block_float.norm(op, place, size, terms[0], self._constants(op), store)
        if op.b is not None:
            terms.append(Source(self._array(f"b_{op.name}", op.b), len(op.b), str(op.exponent)))
        return c_block_float.scaled(op, place, read, size, terms, store)

    def _constants(self, op: p.Norm) -> list[str]:
        """Names of the arrays of a batch norm in float32."""
        return [self._array(f"{what}_{op.name}", values) for what, values in op.constants.items()]

    def _gather(self, op: Op, value: Value, at: str) -> list[str]:
        """Statements that set v, an int64_t or a float."""
        sources = [self._slot[self._stored(k)].name for k in op.reads]
        if isinstance(op, p.Product):
            return self._product(op, value, sources[0])
        if isinstance(op, BlockProduct):
            return self._block_product(op, value)
        if isinstance(op, p.Pool):
            return self._pool(op, sources[0])
        if isinstance(op, p.Add):
            terms = [
                f"(int64_t){name}[{at}] * {_int64(1 << s)}"
                for name, s in zip(sources, op.shifts, strict=True)
            ]
            return [f"int64_t v = {' + '.join(terms)};"]
        kind = "float" if value.form == FLOAT32 else "int64_t"
        return [f"{kind} v = {' + '.join(f'{name}[{at}]' for name in sources)};"]

    def _product(self, op: p.Product, value: Value, source: str) -> list[str]:
        """Of one channel: of groups by itself, else a sum that is there by then."""
        wide = "int32_t" if value.peak < 1 << 31 else "int64_t"
        if op.groups == 1:
            return [f"int64_t v = sums_{wide[3:5]}[i];"]
        (read,) = (self.program.values[k] for k in op.reads)
        w = self._array(f"w_{op.name}", op.weight.transpose(0, 2, 3, 1))  # channels last, as values have them
        outs, ins, kh, kw = op.weight.shape
        row = f"&{source}[(r * {read.shape[1]} + s) * {read.shape[2]} + i / {outs // op.groups} * {ins}]"
        return [
            f"{wide} sum = 0;",
            *_window(op, read),
            f"    const {self._slot[self._stored(op.reads[0])].kind} *at = {row};",
            f"    const int{self._bits(op.weight)}_t *by = &{w}[((i * {kh} + ky) * {kw} + kx) * {ins}];",
            f"    for (int c = 0; c < {ins}; c++) sum += ({wide})at[c] * ({wide})by[c];",
            "  }",
            "int64_t v = sum;",
        ]

    @staticmethod
    def _bits(codes: np.ndarray) -> int:
        return next(bits for bits in SIZES if bits_of(codes) <= bits)

    def _pool(self, op: p.Pool, source: str) -> list[str]:
        (read,) = (self.program.values[k] for k in op.reads)
        kind, first = "int64_t", _int64(read.lo)
        if read.form == FLOAT32:
            kind, first = "float", "-FLT_MAX"
        element = f"{source}[(r * {read.shape[1]} + s) * {read.shape[2]} + i]"
        window = _window(op, read)
        if isinstance(op, p.MaxPool):
            step = [f"    {kind} e = {element};", "    if (e > v) v = e;", "  }"]
            return [f"{kind} v = {first};", *window, *step]
        mean = [f"v /= {prod(op.kernel)};"] if isinstance(op, p.MeanPool) else []
        return [f"{kind} v = 0;", *window, f"    v += {element};", "  }", *mean]

    # -- element by element ----------------------------------------------------------------------

    def _element(self, place: int) -> list[str]:
        op = self.program.ops[place]
        if isinstance(op, p.Relu):
            return ["if (v < 0) v = 0;"]
        if isinstance(op, p.Affine):
            a, b = self._channel(op.name, "a", op.a), self._channel(op.name, "b", op.b)
            return [f"v = v * {a} + {b};"]
        if isinstance(op, p.Curve):
            return self._curve(op)
        if isinstance(op, Plus) and op.b is not None:
            return [f"v += {self._array(f'b_{op.name}', op.b)}[i];"]
        if isinstance(op, p.Norm):
            return [f"v = normed(v, {', '.join(f'{name}[i]' for name in self._constants(op))});"]
        assert isinstance(op, p.Round)
        lines = [] if op.num == 1 else [f"v *= {_int64(op.num)};"]
        if np.any(op.den != 1):
            lines.append(f"v = divide(v, {self._channel(op.name, 'den', op.den)});")
        if op.lo is not None and op.hi is not None:
            lines += [
                f"if (v < {_int64(op.lo)}) v = {_int64(op.lo)};",
                f"if (v > {_int64(op.hi)}) v = {_int64(op.hi)};",
            ]
        return lines

    def _curve(self, op: p.Curve) -> list[str]:
        """How many steps are at most v, by halves."""
        if not op.steps.size:
            return [f"v = {_int64(int(op.codes[0]))};"]
        steps, codes = self._array(f"steps_{op.name}", op.steps), self._array(f"codes_{op.name}", op.codes)
        return [
            "{",
            f"  int first = 0, last = {op.steps.size};",
            "  while (first < last) {",
            "    const int middle = first + (last - first) / 2;",
            f"    if ({steps}[middle] <= v) first = middle + 1;",
            "    else last = middle;",
            "  }",
            f"  v = {codes}[first];",
            "}",
        ]

    def _channel(self, name: str, what: str, codes: np.ndarray) -> str:
        """A constant, or that of the channel."""
        if np.all(codes == codes[0]):
            return _int64(int(codes[0]))
        return f"{self._array(f'{what}_{name}', codes)}[i]"


def _window(op: p.Windowed, read: Value) -> list[str]:
    """Loops over the places (r, s) that a window reads; their braces end by one line."""
    rows, cols = read.shape[:2]
    return [
        f"for (int ky = 0; ky < {op.kernel[0]}; ky++)",
        f"  for (int kx = 0; kx < {op.kernel[1]}; kx++) {{",
        f"    int r = y * {op.stride[0]} + ky - {op.padding[0]};",
        f"    int s = x * {op.stride[1]} + kx - {op.padding[1]};",
        f"    if (r < 0 || r >= {rows} || s < 0 || s >= {cols}) continue;",
    ]


def _groups(program: Program) -> list[list[int]]:
    """Places of what one loop computes: an operation, then elementwise ones, each the only reader.

    The last one's value is what is stored.
    """
    readers, found = program.readers(), list[list[int]]()
    for place, op in enumerate(program.ops):
        if isinstance(op, p.Images | p.Flatten):
            continue
        joins = _elementwise(op) and found and op.reads == (found[-1][-1],)
        if joins and readers[found[-1][-1]] == 1:
            found[-1].append(place)
        else:
            found.append([place])
    return found


def _literal(code: int, bits: int) -> str:
    """As a constant of so many bits; of the least of 32 and of 64 bits C has no literal."""
    if bits < 32:
        return str(code)
    return f"INT{bits}_MIN" if code == -(1 << bits - 1) else f"INT{bits}_C({code})"


def _int64(code: int) -> str:
    return _literal(code, 64)
