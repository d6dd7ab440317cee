"""The constants of a program as memories for hardware, with an address map.

    NAME.mem .mif .coe     one memory a tensor: a code a word, two's complement, in C order
    constants.mem          all as one memory of 32-bit words; a wider code takes two, its low half first
    constants.h            what each one is, as macros of C: address, words, bits, exponent, sizes
    constants_pkg.sv       the same as localparams of a SystemVerilog package
    program.txt            the operations in order: what they read, which constants, proven intervals

A tensor is a weight, the a or b of an affine, the steps of a curve and the codes between them, the
denominators of a round, the b of what is scaled by the image, the bits of a float32 constant, the steps of
blocks of weights, or the widths of blocks of activations; where one number serves all of them it stands in
program.txt alone. Texts of memories are those of golden packs (`packs/export/memories.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from intnet.export import program as p
from intnet.export.block_ops import BlockProduct, Blocks, Plus
from intnet.export.c_frame import identifiers
from intnet.export.program import Program, plain
from intnet.export.values import CODES, Op, bits_of
from intnet.numbers import hexfiles
from intnet.packs.export.memories import TEXTS

WORD = 32  # bits of a word of the one memory


class Constant(NamedTuple):
    """A tensor of constants; name: an identifier; told: what it is."""

    name: str
    codes: np.ndarray
    exponent: int | None
    told: str

    @property
    def bits(self) -> int:
        """Of its widest code, sign included."""
        return bits_of(self.codes)

    @property
    def words(self) -> int:
        """In the one memory."""
        return self.codes.size * -(-self.bits // WORD)


def files(program: Program) -> Iterator[tuple[str, bytes]]:
    """(name, content) of every file."""
    held = constants(program)
    for constant in held:
        text, _ = hexfiles.encode(constant.codes, hexfiles.Layout(bits=constant.bits))
        words = text.decode("ascii").splitlines()
        told = _about(program, constant)
        for kind, text_of in TEXTS.items():
            yield f"{constant.name}.{kind}", text_of(told, words, constant.bits).encode("ascii")
    addresses = np.cumsum([0, *(constant.words for constant in held)]).tolist()
    told = [program.title, f"{addresses[-1]} words of {WORD} bits; constants.h says what is where"]
    yield "constants.mem", TEXTS["mem"](told, [w for c in held for w in _words(c)], WORD).encode("ascii")
    rows = list(_rows(held, addresses))
    yield "constants.h", "\n".join(_header(program, rows)).encode("ascii")
    yield "constants_pkg.sv", "\n".join(_package(program, rows)).encode("ascii")
    yield "program.txt", "\n".join([program.title, "", *_listing(program), ""]).encode("ascii")


def constants(program: Program) -> list[Constant]:
    """Every tensor in order of its operation."""
    found: list[Constant] = []
    names: set[str] = set()
    for op in program.ops:
        for what, codes, exponent in _tensors(program, op):
            name = next(one for one in identifiers(f"{op.name}_{what}") if one.upper() not in names)
            names.add(name.upper())  # macros are upper case, and file names alike in some systems
            found.append(Constant(name, codes, exponent, f"{what} of {plain(op.name)}"))
    return found


def _tensors(program: Program, op: Op) -> Iterator[tuple[str, np.ndarray, int | None]]:
    if isinstance(op, p.Product | BlockProduct):
        yield "weight", op.weight, op.exponent
        if isinstance(op, BlockProduct):
            yield "steps", op.steps, None
    elif isinstance(op, Blocks) and op.bits.size > 1:
        yield "bits", op.bits, None
    elif isinstance(op, Plus) and op.b is not None:
        yield "float32 b", op.b.view(np.int32), None
    elif isinstance(op, p.Affine):
        (read,) = (program.values[k] for k in op.reads)
        pairs = (("a", op.a, op.exponent - read.exponent), ("b", op.b, op.exponent))
        yield from (one for one in pairs if _by_channel(one[1]))
    elif isinstance(op, p.Round) and _by_channel(op.den):
        yield "den", op.den, None
    elif isinstance(op, p.Scaled) and op.b is not None:
        yield "b", op.b, op.exponent
    elif isinstance(op, p.Curve):
        (read,) = (program.values[k] for k in op.reads)
        yield "codes", op.codes, op.exponent
        if op.steps.size:
            yield "steps", op.steps, read.exponent
    elif isinstance(op, p.Norm):
        yield from ((f"float32 {what}", codes.view(np.int32), None) for what, codes in op.constants.items())


def _by_channel(codes: np.ndarray) -> bool:
    return bool(np.any(codes != codes[0]))


def _about(program: Program, constant: Constant) -> list[str]:
    shape = " x ".join(map(str, constant.codes.shape))
    scale = [] if constant.exponent is None else [f"value = code * 2^({constant.exponent})"]
    return [program.title, f"{constant.told}: {shape} codes of {constant.bits} bits, signed", *scale]


def _words(constant: Constant) -> list[str]:
    """Of the one memory."""
    each = -(-constant.bits // WORD)
    mask = (1 << WORD) - 1
    codes = [int(v) for v in constant.codes.reshape(-1)]
    return [f"{code >> WORD * k & mask:0{WORD // 4}x}" for code in codes for k in range(each)]


def _rows(held: list[Constant], addresses: list[int]) -> Iterator[tuple[str, list[tuple[str, int]]]]:
    """(what it is, its numbers by name) of every tensor."""
    for constant, address in zip(held, addresses[:-1], strict=True):
        numbers = [("ADDRESS", address), ("WORDS", constant.words), ("CODES", constant.codes.size)]
        numbers += [("BITS", constant.bits)]
        if constant.exponent is not None:
            numbers.append(("EXPONENT", constant.exponent))
        numbers += [(f"SIZE_{k}", size) for k, size in enumerate(constant.codes.shape)]
        yield constant.told, [(f"{constant.name.upper()}_{what}", number) for what, number in numbers]


def _header(program: Program, rows: list[tuple[str, list[tuple[str, int]]]]) -> Iterator[str]:
    yield f"/* {program.title}"
    yield f"   Addresses count words of {WORD} bits of constants.mem. */"
    yield from ("#ifndef INTNET_CONSTANTS_H", "#define INTNET_CONSTANTS_H")
    for told, numbers in rows:
        yield from ("", f"/* {told} */", *(f"#define {name} ({number})" for name, number in numbers))
    yield from ("", "#endif", "")


def _package(program: Program, rows: list[tuple[str, list[tuple[str, int]]]]) -> Iterator[str]:
    yield f"// {program.title}"
    yield f"// Addresses count words of {WORD} bits of constants.mem."
    yield "package constants_pkg;"
    for told, numbers in rows:
        yield f"  // {told}"
        yield from (f"  localparam int {name} = {number};" for name, number in numbers)
    yield from ("endpackage", "")


def _listing(program: Program) -> Iterator[str]:
    """Two lines an operation: place, what it is, what it reads, its own numbers; what is proven of its value.

    ePLACE is the exponent that the operation of that place chose by the image.
    """
    for place, (op, value) in enumerate(zip(program.ops, program.values, strict=True)):
        kind = next(name for name, cls in p.OPS.items() if cls is type(op))
        shape = " x ".join(map(str, value.shape))
        reads = ", ".join(map(str, op.reads))
        yield f"{place:3}  {kind}({reads})  {plain(op.name)}{_numbers(op)}"
        if value.form == CODES:
            yield f"     {shape} codes, {value.lo}..{value.hi}, {value.bits} bits, * 2^({value.told('e')})"
        else:
            yield f"     {shape} {value.form}, multiples of 2^({value.exponent}) up to {float(value.top):.6g}"


def _numbers(op: Op) -> str:
    """What is no tensor."""
    if isinstance(op, p.Product) and op.weight.ndim == 4:
        return f": stride {op.stride}, padding {op.padding}, groups {op.groups}"
    if isinstance(op, p.Pool):
        return f": kernel {op.kernel}, stride {op.stride}, padding {op.padding}"
    if isinstance(op, p.Affine):
        told = [f"{what} = {c[0]}" for what, c in (("a", op.a), ("b", op.b)) if not _by_channel(c)]
        return f": {', '.join(told)}" if told else ""
    if isinstance(op, p.Round):
        den = "den" if _by_channel(op.den) else str(op.den[0])
        limits = "" if op.lo is None else f", within {op.lo}..{op.hi}"
        return f": x * {op.num} / {den} to nearest, ties to even{limits}"
    if isinstance(op, p.Curve):
        return ": codes[k] where k steps are at most x"
    return _by_image(op) if isinstance(op, p.Scaled | p.Norm) else _in_floats(op)


def _by_image(op: p.Scaled | p.Norm) -> str:
    if isinstance(op, p.Norm):
        total = "((x - mean) * r) * gamma + beta in float32"
    else:
        total = "x + y" if len(op.reads) == 2 else "x" if op.b is None else f"x + b * 2^({op.exponent})"
        total = f"({total}) / {op.den}" if op.den > 1 else total
        total = f"max({total}, 0)" if op.rectified else total
    return f": BF({op.wl}) of {total}" if op.wl else f": {total}"


def _in_floats(op: Op) -> str:
    """Of operations on float32 and blocks, and of joins."""
    if isinstance(op, BlockProduct):
        window = (
            f"; stride {op.stride}, padding {op.padding}, groups {op.groups}" if op.weight.ndim == 4 else ""
        )
        return f": weights in units of 2^({op.exponent} + steps), sums rounded to float32{window}"
    if isinstance(op, Blocks):
        b = "bits" if op.bits.size > 1 else op.bits.flat[0]
        return f": b = {b}, code * 2^(e - b + 1), e the least with max abs(x) < 2^e of four channels"
    if isinstance(op, p.Add):
        return f": x * 2^{op.shifts[0]} + y * 2^{op.shifts[1]}"
    return f": x + {'y' if op.b is None else 'b'} in float32" if isinstance(op, Plus) else ""
