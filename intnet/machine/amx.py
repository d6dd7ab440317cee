"""Tiles of four 8-bit products in AMX: sixteen words of all rows times those of sixteen columns at once.

A processor with AMX has registers of 16 lines of 64 bytes. Its product adds to every sum, for each of sixteen
words, what `vpdpbusd` adds for one (`machine/words.py`): sums modulo 2**32, the same in any order. Words of
`b` are read as panels have them, a line a word; those of `a` are copied side by side first, since the rows of
a tile lie anywhere. Zeros of `a` fill a run up to sixteen words: what of `b` lies behind it counts nothing.

    begin(), end()     give a thread's registers their shapes; give them back
    rows1, rows2       the bodies of `tile.multiply_rows`
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from intnet.machine.tile_code import INDEX, Given, everywhere, first_run, listed, rows_code
from intnet.machine.words import INT32, LANES, ROWS

__all__ = ["WORDS", "begin", "end", "rows1", "rows2"]

WORDS = 16  # of a row that one product takes

_BYTE = ir.IntType(8)
_LINE = ir.VectorType(INT32, WORDS)
_A, _B, _SUMS = 0, (1, 2), (3, 4)  # registers: of words of `a`, of `b` and of sums a vector
_LINES = {_A: ROWS, **dict.fromkeys(_B, WORDS), **dict.fromkeys(_SUMS, ROWS)}


def _shapes() -> bytearray:
    """What LDTILECFG reads: palette 1; from byte 16 the bytes of a line, from 48 the lines, a register."""
    shapes = bytearray(64)
    shapes[0] = 1
    for register, lines in _LINES.items():
        shapes[16 + 2 * register], shapes[48 + register] = 4 * WORDS, lines
    return shapes


def _instruct(builder: Any, name: str, *args: Any) -> Any:
    """The instruction `name`; integers are numbers of registers."""
    given = [ir.Constant(_BYTE, x) if isinstance(x, int) else x for x in args]
    insert: Any = cgutils.get_or_insert_function
    kind = ir.FunctionType(ir.VoidType(), [x.type for x in given])
    return builder.call(insert(builder.module, kind, f"llvm.x86.{name}"), given)


def _read(builder: Any, register: int, pointer: Any, line: Any) -> None:
    """A register from memory, whose lines lie `line` bytes apart."""
    _instruct(builder, "tileloadd64", register, builder.bitcast(pointer, _BYTE.as_pointer()), line)


def _copy(builder: Any, to: Any, pointers: list[Any], offset: Any, left: Any) -> None:
    """Words offset .. offset+15 of every row to lines of `to`; zeros for those that are not among `left`."""
    insert: Any = cgutils.get_or_insert_function
    zeros, count = ir.Constant(_LINE, None), everywhere(builder, builder.trunc(left, INT32))
    kept = builder.icmp_signed("<", ir.Constant(_LINE, list(range(WORDS))), count)
    kind = ir.FunctionType(_LINE, [_LINE.as_pointer(), INT32, kept.type, _LINE])
    load = insert(builder.module, kind, f"llvm.masked.load.v{WORDS}i32.p0")
    for r, pointer in enumerate(pointers):
        place = builder.bitcast(builder.gep(pointer, [offset]), _LINE.as_pointer())
        words = builder.call(load, [place, INT32(4), kept, zeros])
        builder.store(words, builder.gep(to, [INT32(0), INT32(r)]))


def _emit_by_rows(given: Given, vectors: int) -> None:
    """The body of `tile.multiply_rows` for one group of fours."""
    builder, width = given.builder, INDEX(vectors * LANES)
    a, b = given.pointer("a", "base"), given.pointer("b", "b_at")
    pointers = listed(builder, given.pointer("rows", "row0"), a, ROWS)
    ends, runs, group = given.pointer("ends"), given.pointer("runs"), given["group0"]
    run0, run1 = first_run(builder, ends, group), builder.load(builder.gep(ends, [group]))
    copied = cgutils.alloca_once(builder, ir.ArrayType(_LINE, ROWS))
    copied.align = 4 * WORDS

    starts = builder.gep(b, [builder.mul(builder.not_(group), width)])  # ~group is -(group + 1)
    for v in range(vectors):
        _read(builder, _SUMS[v], builder.gep(starts, [INDEX(v * LANES)]), INDEX(0))  # one line for all rows
    with cgutils.for_range_slice(builder, run0, run1, INDEX(1)) as (run, _):
        at = builder.mul(run, INDEX(3))
        first, length, place = (
            builder.load(builder.gep(runs, [builder.add(at, INDEX(i))])) for i in range(3)
        )
        with cgutils.for_range_slice(builder, INDEX(0), length, INDEX(WORDS)) as (word, _):
            _copy(builder, copied, pointers, builder.add(first, word), builder.sub(length, word))
            _read(builder, _A, copied, INDEX(4 * WORDS))
            line = builder.gep(b, [builder.mul(builder.add(place, word), width)])
            for v in range(vectors):
                _read(builder, _B[v], builder.gep(line, [INDEX(v * LANES)]), INDEX(4 * vectors * LANES))
                _instruct(builder, "tdpbusd", _SUMS[v], _A, _B[v])
    out, stride = given.pointer("out", "at"), builder.mul(given["stride"], INDEX(4))
    for v in range(vectors):
        place = builder.bitcast(builder.gep(out, [INDEX(v * LANES)]), _BYTE.as_pointer())
        _instruct(builder, "tilestored64", _SUMS[v], place, stride)


@intrinsic
def _begin(ctx: Any) -> Any:
    """Give the thread's registers the shapes that tiles of fours take."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        shapes = ir.Constant(ir.ArrayType(_BYTE, 64), _shapes())
        place = cgutils.global_constant(builder, "intnet.amx.shapes", shapes)
        _instruct(builder, "ldtilecfg", builder.bitcast(place, _BYTE.as_pointer()))
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def _end(ctx: Any) -> Any:
    """Give them back: a thread that waits for its turn has less to save."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _instruct(builder, "tilerelease")
        return context.get_dummy_value()

    return types.void(), codegen


begin: Any = _begin
end: Any = _end
rows1, rows2 = (rows_code(_emit_by_rows, vectors) for vectors in (1, 2))
