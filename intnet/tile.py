"""The tile, the heart of every product: LLVM code behind a plain twin that gives the same bits.

    multiply_tile(vectors, out, ...)        a tile of ROWS x LANES (or 2*LANES) sums

A *word* is one element of an operand array; what a multiply-add of two words means depends on the type of
the sums:

    float32   words are float32:            sum = fma(a, b, sum)
    int32     words are two int16 in one:   sum = sum + a.low * b.low + a.high * b.high
    int64     words are int32 or int64:     sum = sum + a * b
    float64   words are integers in it:     sum = sum + a * b, exact where no sum passes 2**53

Every sum is a chain of its own in the order of the twin, so neither the vector's width nor the
instruction changes a bit. What `instructions.py` says of its pieces holds here too.
"""

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from intnet.instructions import fma32

__all__ = ["LANES", "ROWS", "multiply_tile"]

Generated = tuple[Any, Callable[..., Any]]  # a signature and the code behind it

Flat = np.ndarray
I64 = NDArray[np.int64]


def _has_512_bits() -> bool:
    """Whether the processor that kernels are compiled for has registers of 512 bits (AVX-512)."""
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return True
    triple, cpu, features = cpu_target.target_context.codegen().magic_tuple()
    target = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features)
    vector = "<16 x float>"
    code = f"define {vector} @f({vector} %a) {{ %b = fadd {vector} %a, %a ret {vector} %b }}"
    module = llvm.parse_assembly(code)
    module.triple = triple
    return "zmm" in target.emit_assembly(module)


# 12 x 2 vectors of sums fill 24 of the 32 registers of AVX-512, and 12 row pointers leave room for
# the loop's own in 16 general registers; 6 x 2 vectors of half the width fill the 16 of AVX2.
ROWS, LANES = (12, 16) if _has_512_bits() else (6, 8)

_INDEX = ir.IntType(64)
_INT = ir.IntType(32)
_REAL = {types.float32: ir.FloatType(), types.float64: ir.DoubleType()}
_LLVM = {**_REAL, types.int32: _INT, types.int64: _INDEX}


def multiply_tile(
    vectors: int, out: Flat, at: int, stride: int, a: Flat, rows: I64, row0: int, base: int, step: int,
    runs: I64, run0: int, run1: int, b: Flat, b_at: int, met: int = 0,
) -> None:  # fmt: skip
    """out[at + r*stride + j] = sum of a-word * b-word over the words of runs run0 .. run1-1, ascending.

    Run i is runs[3i] (offset), runs[3i + 1] (length >= 1) and runs[3i + 2] (place in b); its word k of row r
    is a[base + rows[row0 + r] + offset + k*step], that of column j b[b_at + (place + k)*width + j] with
    width = vectors*LANES. j < width, r < ROWS; 1 or 2 vectors, at least one run. The sums of the `met`
    tiles before (a tile is ROWS*stride) are added one after another; the total goes to the first of them.
    """
    width = vectors * LANES
    starts = base + rows[row0 : row0 + ROWS]
    tile = np.zeros((ROWS, width), out.dtype)
    for run in range(run0, run1):
        offset, length, place = map(int, runs[3 * run : 3 * run + 3])
        for k in range(length):
            left = a[starts + offset + k * step][:, None]
            right = b[b_at + (place + k) * width : b_at + (place + k + 1) * width][None, :]
            if out.dtype == np.float32:
                tile = np.asarray(fma32(left, right, tile))
            elif out.dtype == np.int32:
                pairs = (np.ascontiguousarray(x).view(np.int16).astype(np.int32) for x in (left, right))
                low_high, weights = (p.reshape(-1, 2) for p in pairs)
                tile += low_high[:, :1] * weights[:, 0] + low_high[:, 1:] * weights[:, 1]
            else:
                tile += left.astype(out.dtype) * right.astype(out.dtype)
    if out.dtype == np.float32:
        tile += np.float32(0)  # -0, which only an underflow leaves, becomes +0
    for _ in range(met):
        at -= ROWS * stride
        tile += np.stack([out[at + r * stride : at + r * stride + width] for r in range(ROWS)])
    for r in range(ROWS):
        out[at + r * stride : at + r * stride + width] = tile[r]


# --- LLVM code ----------------------------------------------------------------------------------


def _pointer(context: Any, builder: Any, kind: Any, array: Any, offset: Any) -> Any:
    """Pointer to element `offset` of a flat array."""
    return builder.gep(context.make_array(kind)(context, builder, array).data, [offset])


def _load(builder: Any, pointer: Any, offset: Any, kind: Any) -> Any:
    """The word or vector at pointer[offset]."""
    value = builder.load(builder.bitcast(builder.gep(pointer, [offset]), kind.as_pointer()))
    value.align = 4
    return value


def _store(builder: Any, value: Any, pointer: Any, offset: Any) -> None:
    builder.store(value, builder.bitcast(builder.gep(pointer, [offset]), value.type.as_pointer())).align = 4


def _fma(builder: Any, a: Any, b: Any, c: Any) -> Any:
    kind = c.type
    # integers in float64 are exact with and without a fused instruction: LLVM may take two without it
    name = "fma.v%df32" if isinstance(kind.element, ir.FloatType) else "fmuladd.v%df64"
    insert: Any = cgutils.get_or_insert_function
    function = insert(builder.module, ir.FunctionType(kind, [kind] * 3), f"llvm.{name % kind.count}")
    return builder.call(function, [a, b, c])


def _pair_sums(builder: Any, a: Any, b: Any) -> Any:
    """a.low*b.low + a.high*b.high a lane, written so that LLVM sees one instruction in it."""
    halves = ir.VectorType(ir.IntType(16), 2 * LANES)
    wide = ir.VectorType(_INT, 2 * LANES)
    products = builder.mul(*(builder.sext(builder.bitcast(x, halves), wide) for x in (a, b)))
    parts = []
    for first in (0, 1):
        mask = ir.Constant(ir.VectorType(_INT, LANES), [2 * i + first for i in range(LANES)])
        parts.append(builder.shuffle_vector(products, ir.Constant(wide, ir.Undefined), mask))
    return builder.add(*parts)


def _multiply_add(builder: Any, a: Any, b: Any, total: Any) -> Any:
    kind = total.type.element
    if kind in _REAL.values():
        return _fma(builder, a, b, total)
    if kind == _INT:
        return builder.add(total, _pair_sums(builder, a, b))
    a, b = (x if x.type == total.type else builder.sext(x, total.type) for x in (a, b))
    return builder.add(total, builder.mul(a, b))


class _Sums:
    """The tile's sums as they enter one block of the loop: a phi node a row and vector."""

    def __init__(self, builder: Any, kind: Any, vectors: int) -> None:
        self.nodes = [[builder.phi(kind) for _ in range(vectors)] for _ in range(ROWS)]

    def comes(self, values: Any, block: Any) -> None:
        """The values that the sums have when control comes from `block`."""
        for nodes, row in zip(self.nodes, values, strict=True):
            for node, value in zip(nodes, row, strict=True):
                node.add_incoming(value, block)


def _emit_words(builder: Any, pointers: Any, step: Any, b: Any, word: Any, sums: Any) -> tuple[Any, Any]:
    """One word of every row times the vectors at b; the new sums and the offset of the next word."""
    vectors = len(sums.nodes[0])
    vector = ir.VectorType(word, LANES)
    blank, all_first = ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(_INT, LANES), None)
    offset, pointer = b
    right = [_load(builder, pointer, _INDEX(v * LANES), vector) for v in range(vectors)]
    new = []
    for row, nodes in zip(pointers, sums.nodes, strict=True):
        factor = builder.insert_element(blank, _load(builder, row, offset, word), _INT(0))
        factor = builder.shuffle_vector(factor, blank, all_first)
        new.append([_multiply_add(builder, factor, right[v], nodes[v]) for v in range(vectors)])
    return new, builder.add(offset, step)


def _emit_tile(builder: Any, pointers: Any, step: Any, runs: Any, run0: Any, run1: Any, b: Any, word: Any,
               total: Any, vectors: int) -> Any:  # fmt: skip
    """The two loops, over runs and over the words of a run; returns the sums [row][vector]."""
    zeros = [[ir.Constant(total, None)] * vectors] * ROWS
    entry = builder.block
    names = "tile.run", "tile.word", "tile.next", "tile.end"
    run_block, word_block, next_run, end = map(builder.append_basic_block, names)
    builder.branch(run_block)

    builder.position_at_end(run_block)
    run = builder.phi(_INDEX)
    run_sums = _Sums(builder, total, vectors)
    at = builder.mul(run, _INDEX(3))
    first, length, place = (builder.load(builder.gep(runs, [builder.add(at, _INDEX(i))])) for i in range(3))
    run_b = builder.gep(b, [builder.mul(place, _INDEX(vectors * LANES))])
    builder.branch(word_block)

    builder.position_at_end(word_block)
    offset, left, word_b = builder.phi(_INDEX), builder.phi(_INDEX), builder.phi(b.type)
    sums = _Sums(builder, total, vectors)
    new, following = _emit_words(builder, pointers, step, (offset, word_b), word, sums)
    rest, next_b = builder.sub(left, _INDEX(1)), builder.gep(word_b, [_INDEX(vectors * LANES)])
    builder.cbranch(builder.icmp_signed(">", rest, _INDEX(0)), word_block, next_run)
    for node, start, again in ((offset, first, following), (left, length, rest), (word_b, run_b, next_b)):
        node.add_incoming(start, run_block)
        node.add_incoming(again, word_block)
    sums.comes(run_sums.nodes, run_block)
    sums.comes(new, word_block)

    builder.position_at_end(next_run)
    after = builder.add(run, _INDEX(1))
    builder.cbranch(builder.icmp_signed("<", after, run1), run_block, end)
    run.add_incoming(run0, entry)
    run.add_incoming(after, next_run)
    run_sums.comes(zeros, entry)
    run_sums.comes(new, next_run)

    builder.position_at_end(end)
    return new


def _emit_meeting(builder: Any, sums: Any, met: Any, place: Any, tile: Any, stride: Any) -> tuple[Any, Any]:
    """The sums plus those of `met` tiles before `place`; (the totals, the place of the last tile)."""
    kind = sums[0][0].type
    add = builder.fadd if kind.element in _REAL.values() else builder.add
    entry = builder.block
    meet, body, end = map(builder.append_basic_block, ("tile.meet", "tile.met", "tile.total"))
    builder.branch(meet)

    builder.position_at_end(meet)
    left, here = builder.phi(_INDEX), builder.phi(place.type)
    totals = _Sums(builder, kind, len(sums[0]))
    builder.cbranch(builder.icmp_signed(">", left, _INDEX(0)), body, end)

    builder.position_at_end(body)
    before = builder.gep(here, [builder.neg(tile)])
    new = []
    for r, row in enumerate(totals.nodes):
        start = builder.gep(before, [builder.mul(stride, _INDEX(r))])
        new.append([add(_load(builder, start, _INDEX(v * LANES), kind), x) for v, x in enumerate(row)])
    less = builder.sub(left, _INDEX(1))
    builder.branch(meet)
    for node, start, again in ((left, met, less), (here, place, before)):
        node.add_incoming(start, entry)
        node.add_incoming(again, body)
    totals.comes(sums, entry)
    totals.comes(new, body)

    builder.position_at_end(end)
    return totals.nodes, here


def _tile_code(vectors: int) -> Any:
    """The intrinsic behind `multiply_tile`."""

    def typed(ctx: Any, out: Any, at: Any, stride: Any, a: Any, rows: Any, row0: Any, base: Any, step: Any,
              runs: Any, run0: Any, run1: Any, b: Any, b_at: Any, met: Any) -> Any:  # fmt: skip
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kinds = signature.args
            word, total = _LLVM[kinds[3].dtype], ir.VectorType(_LLVM[kinds[0].dtype], LANES)
            result, left, right = (
                _pointer(context, builder, kinds[i], args[i], args[j]) for i, j in ((0, 1), (3, 6), (11, 12))
            )
            first_row = _pointer(context, builder, kinds[4], args[4], args[5])
            offsets = [builder.load(builder.gep(first_row, [_INDEX(r)])) for r in range(ROWS)]
            pointers = [builder.gep(left, [offset]) for offset in offsets]
            runs = _pointer(context, builder, kinds[8], args[8], _INDEX(0))
            sums = _emit_tile(
                builder, pointers, args[7], runs, args[9], args[10], right, word, total, vectors
            )
            real, zero = total.element in _REAL.values(), ir.Constant(total, None)
            if real:
                sums = [[builder.fadd(value, zero) for value in row] for row in sums]  # -0 becomes +0
            tile = builder.mul(args[2], _INDEX(ROWS))
            sums, result = _emit_meeting(builder, sums, args[13], result, tile, args[2])
            for r, row in enumerate(sums):
                start = builder.gep(result, [builder.mul(args[2], _INDEX(r))])
                for v, value in enumerate(row):
                    _store(builder, value, start, _INDEX(v * LANES))
            return context.get_dummy_value()

        n = types.int64
        return types.void(out, n, n, a, rows, n, n, n, runs, n, n, b, n, n), codegen

    return intrinsic(typed)


_tile1: Any = _tile_code(1)
_tile2: Any = _tile_code(2)


def _flat(kinds: tuple[Any, ...], *arrays: Any) -> bool:
    """Whether these are types of contiguous 1-D arrays of `kinds`; anything else is a typing error."""
    return all(
        isinstance(x, types.Array) and (x.ndim, x.layout) == (1, "C") and x.dtype in kinds for x in arrays
    )


@overload(multiply_tile, inline="always")
def _tile_in_kernels(vectors: Any, out: Any, at: Any, stride: Any, a: Any, rows: Any, row0: Any, base: Any,
                     step: Any, runs: Any, run0: Any, run1: Any, b: Any, b_at: Any,
                     met: Any = 0) -> Any:  # fmt: skip
    def code(vectors: Any, out: Any, at: Any, stride: Any, a: Any, rows: Any, row0: Any, base: Any,
             step: Any, runs: Any, run0: Any, run1: Any, b: Any, b_at: Any,
             met: Any = 0) -> None:  # fmt: skip
        if vectors == 1:
            _tile1(out, at, stride, a, rows, row0, base, step, runs, run0, run1, b, b_at, met)
        else:
            _tile2(out, at, stride, a, rows, row0, base, step, runs, run0, run1, b, b_at, met)

    return code if _flat(tuple(_LLVM), out, a, b) and _flat((types.int64,), rows, runs) else None
