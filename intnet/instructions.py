"""Instructions: all code below the level of Python, each piece behind a plain twin that gives the same bits.

The bodies of the public functions are the twins, which also run under NUMBA_DISABLE_JIT=1; inside a
kernel the same names are LLVM code. It names no instruction of a processor: LLVM picks what the one at
hand has (pmaddwd, or vpdpwssd where there is VNNI; vpmuldq; fma), and `NUMBA_CPU_NAME` with
`NUMBA_CPU_FEATURES` chooses for another. Nothing is checked here.

    fma32(a, b, c)                                       float32(a * b + c), rounded once
    quotient(num, den, 1/den), residual(num, den, q)     exact decisions without a division
    get(data, i, like), put(data, i, value)              elements of any type in an array of bytes
    wide_vectors(), borrowed(array)                      vectors of 512 bits; no reference counts
    multiply_tile(vectors, out, ...)                     a tile of ROWS x LANES (or 2*LANES) sums

The tile is the heart of every product (`ops/kernels/products.py`). A *word* is one element of an operand
array; what a multiply-add of two words means depends on the type of the sums:

    float32   words are float32:            sum = fma(a, b, sum)
    int32     words are two int16 in one:   sum = sum + a.low * b.low + a.high * b.high
    int64     words are int32 or int64:     sum = sum + a * b
    float64   words are integers in it:     sum = sum + a * b, exact where no sum passes 2**53

Every sum is a chain of its own in the order of the twin, so neither the vector's width nor the
instruction changes a bit.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

__all__ = [
    "LANES", "ROWS", "borrowed", "fma32", "get", "multiply_tile", "put", "quotient", "residual",
    "wide_vectors",
]  # fmt: skip

# ruff: noqa: PLW0108 - Numba wants a Python function around an intrinsic
Generated = tuple[Any, Callable[..., Any]]  # a signature and the code behind it


# --- fused multiply-add, and division -----------------------------------------------------------


def fma32(a: Any, b: Any, c: Any) -> Any:
    """float32(a * b + c), rounded once (ties to even); operands are float32 scalars or arrays.

    This body is the plain twin, which also runs under NUMBA_DISABLE_JIT=1. Inside a kernel the
    same name is the instruction `llvm.fma.f32`, on scalars only; where the processor has no such
    instruction LLVM calls the correctly rounded C function fmaf.

    The product of two float32 is exact in float64. TwoSum gives the sum and its exact error; the
    sum is then rounded to odd, and a second rounding to float32 cannot go wrong (53 >= 2 * 24 + 2).
    """
    with np.errstate(all="ignore"):
        product = np.multiply(a, b, dtype=np.float64)
        addend = np.asarray(c, dtype=np.float64)
        total = np.asarray(product + addend)
        part = total - product
        error = (product - (total - part)) + (addend - part)
        bits = total.view(np.int64)
        inexact = np.isfinite(total) & (error != 0.0) & (bits & 1 == 0)
        outward = (error > 0.0) == (total > 0.0)
        odd = bits + np.where(inexact, np.where(outward, 1, -1), 0)
        return odd.view(np.float64).astype(np.float32)[()]


def _fma_of(kind: Any) -> Any:
    """The instruction a * b + c of three scalars, rounded once."""

    def typed(ctx: Any, a: Any, b: Any, c: Any) -> Generated:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.fma(*args)

        return kind(kind, kind, kind), codegen

    return intrinsic(typed)


_fma32_instruction: Any = _fma_of(types.float32)
_fma64: Any = _fma_of(types.float64)


# A kernel that mixes widths would round twice: a typing error.
overload(fma32, inline="always")(
    lambda a, b, c: (lambda a, b, c: _fma32_instruction(a, b, c)) if a == b == c == types.float32 else None
)


def quotient(num: Any, den: Any, inverse: Any) -> Any:
    """num / den for decisions; `inverse` is the float64 nearest 1/den.

    For |num| <= 2**51 and den, both integers or that times a power of two, it lies on the same side of
    every multiple of 1/2 as num/den does, and is exactly that multiple where num/den is one. So its
    floor, what it rounds to with every tie, and whether it is an integer are those of num/den. Why:
    inside a kernel q = fl(Q') with Q' within 2**-102 of Q = num/den, relatively (a Newton step on a
    quotient that is right to 2**-51). Q, unless it is a multiple h of 1/2 itself, is at least 1/(2 den) =
    |Q|/(2 |num|) >= |Q| * 2**-52 away from h, and fl reaches h only from within |h| * 2**-53 (and 0 not at
    all, as long as nothing underflows). Where Q is h, fl(Q') is h too, for h has no more than 52 bits.
    The twin, one IEEE division, errs by less.
    """
    return num / den


def residual(num: Any, den: Any, q: Any) -> Any:
    """num - q * den, rounded once: its sign is exact."""
    return float(Fraction(num) - Fraction(q) * Fraction(den))


@overload(quotient, inline="always")
def _quotient_in_kernels(num: Any, den: Any, inverse: Any) -> Any:
    def fused(num: Any, den: Any, inverse: Any) -> Any:
        first = num * inverse
        return _fma64(_fma64(-first, den, num), inverse, first)

    return fused


overload(residual, inline="always")(lambda num, den, q: lambda num, den, q: _fma64(-q, den, num))


# --- typed bytes --------------------------------------------------------------------------------


def get(data: Any, index: Any, like: Any) -> Any:
    """Element `index` of the array whose bytes `data` are, of the type of the scalar `like`."""
    return data.view(type(like))[index]


def put(data: Any, index: Any, value: Any) -> None:
    """Set element `index` of the array whose bytes `data` are, of the type of the scalar `value`."""
    data.view(type(value))[index] = value


def _element(context: Any, builder: Any, array: Any, args: Any, scalar: Any) -> Any:
    """A pointer to element args[1] of the array args[0], taken as an array of scalars."""
    pointer = context.make_array(array)(context, builder, args[0]).data
    typed = builder.bitcast(pointer, context.get_value_type(scalar).as_pointer())
    return builder.gep(typed, [args[1]])


def _load_code(ctx: Any, data: Any, index: Any, like: Any) -> Generated:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_element(context, builder, signature.args[0], args, like))

    return like(data, index, like), codegen


def _store_code(ctx: Any, data: Any, index: Any, value: Any) -> Generated:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _element(context, builder, signature.args[0], args, value))
        return context.get_dummy_value()

    return types.void(data, index, value), codegen


_get: Any = intrinsic(_load_code)
_put: Any = intrinsic(_store_code)
overload(get, inline="always")(lambda data, index, like: lambda data, index, like: _get(data, index, like))
overload(put, inline="always")(lambda data, index, value: lambda data, index, value: _put(data, index, value))


# --- vectors and arrays -------------------------------------------------------------------------


def wide_vectors() -> None:
    """The loops of this kernel may use vectors of 512 bits, and it is not merged into its callers.

    LLVM takes 256 bits on most processors that have more. Here, where loops are short of instructions
    and not of memory, the wider ones save a fifth of the time. A merged loop would lose them again.
    """


def _attribute_code(ctx: Any) -> Generated:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        attributes = builder.function.attributes
        attributes.add("noinline")
        set.add(attributes, '"prefer-vector-width"="512"')  # llvmlite's own `add` knows no such name
        return context.get_dummy_value()

    return types.void(), codegen


_attribute: Any = intrinsic(_attribute_code)
overload(wide_vectors, inline="always")(lambda: lambda: _attribute())


def borrowed(array: Any) -> Any:
    """The same array without its reference count, for use while the caller holds it.

    Numba counts a reference up and down around every call that takes an array: two locked instructions,
    on a counter that all threads share. A kernel that hands rows on some thousand times asks here first.
    """
    return array


def _borrowed_code(ctx: Any, array: Any) -> Generated:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = context.make_array(array)(context, builder, args[0])
        view.meminfo = context.get_constant_null(types.MemInfoPointer(types.voidptr))
        return view._getvalue()

    return array(array), codegen


_borrowed: Any = intrinsic(_borrowed_code)
overload(borrowed, inline="always")(lambda array: lambda array: _borrowed(array))


# --- the tile -----------------------------------------------------------------------------------

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
    runs: I64, run0: int, run1: int, b: Flat, b_at: int,
) -> None:  # fmt: skip
    """out[at + r*stride + j] = sum of a-word * b-word over the words of runs run0 .. run1-1, ascending.

    Run i is runs[3i] (offset), runs[3i + 1] (length >= 1) and runs[3i + 2] (place in b); its word k of row r
    is a[base + rows[row0 + r] + offset + k*step], that of column j b[b_at + (place + k)*width + j] with
    width = vectors*LANES. j < width, r < ROWS; 1 or 2 vectors, at least one run.
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
    for r in range(ROWS):
        out[at + r * stride : at + r * stride + width] = tile[r]


# --- the tile: LLVM code -------------------------------------------------------------------------


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


def _tile_code(vectors: int) -> Any:
    """The intrinsic behind `multiply_tile`."""

    def typed(ctx: Any, out: Any, at: Any, stride: Any, a: Any, rows: Any, row0: Any, base: Any, step: Any,
              runs: Any, run0: Any, run1: Any, b: Any, b_at: Any) -> Any:  # fmt: skip
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
            for r, row in enumerate(sums):
                start = builder.gep(result, [builder.mul(args[2], _INDEX(r))])
                for v, value in enumerate(row):
                    positive = builder.fadd(value, zero) if real else value  # -0 becomes +0
                    _store(builder, positive, start, _INDEX(v * LANES))
            return context.get_dummy_value()

        n = types.int64
        return types.void(out, n, n, a, rows, n, n, n, runs, n, n, b, n), codegen

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
                     step: Any, runs: Any, run0: Any, run1: Any, b: Any, b_at: Any) -> Any:  # fmt: skip
    def code(vectors: Any, out: Any, at: Any, stride: Any, a: Any, rows: Any, row0: Any, base: Any,
             step: Any, runs: Any, run0: Any, run1: Any, b: Any, b_at: Any) -> None:  # fmt: skip
        if vectors == 1:
            _tile1(out, at, stride, a, rows, row0, base, step, runs, run0, run1, b, b_at)
        else:
            _tile2(out, at, stride, a, rows, row0, base, step, runs, run0, run1, b, b_at)

    return code if _flat(tuple(_LLVM), out, a, b) and _flat((types.int64,), rows, runs) else None
