"""The instruction-level code of the float32 kernels: multiply-add a tile, multiply-add or copy a run.

Each function as written here is the plain twin, which runs under NUMBA_DISABLE_JIT=1; inside a
kernel the same name is LLVM code on vectors of LANES floats, which LLVM cuts to the processor's
width. Every lane does the same fused multiply-adds in the same order as the twin, whatever that
width, so the bits are the same. Nothing is checked, all arrays are flat: callers pad their buffers.
Read next: `float32_loops.py`, which cuts products and convolutions into tiles.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from intnet.fp32 import fma32

__all__ = ["LANES", "ROWS", "copy_run", "fma_run", "fma_tile"]

F32 = NDArray[np.float32]

# 8 rows of 16 lanes: eight AVX-512 registers, enough sums in flight to hide the FMA latency.
ROWS = 8
LANES = 16

_INDEX = ir.IntType(64)
_REAL = ir.FloatType()
_VECTOR = ir.VectorType(_REAL, LANES)


# --- plain twins --------------------------------------------------------------------------------


def fma_tile(
    acc: F32, acc_at: int, a: F32, a_at: int, a_row: int, a_step: int, b: F32, b_at: int, count: int
) -> None:
    """Add `count` terms, k ascending, to a tile of ROWS x LANES sums in place.

    The tile is acc[acc_at + r * LANES + j]; term k multiplies a[a_at + r * a_row + k * a_step]
    with b[b_at + k * LANES + j]. Whole tiles are read and written.
    """
    tile = acc[acc_at : acc_at + ROWS * LANES].reshape(ROWS, LANES)
    rows = a_at + a_row * np.arange(ROWS)
    for k in range(count):
        lanes = b[b_at + k * LANES : b_at + (k + 1) * LANES]
        tile[:] = fma32(a[rows + k * a_step][:, None], lanes[None, :], tile)


def fma_run(acc: F32, acc_at: int, a: F32, a_at: int, b: F32, b_at: int, count: int) -> None:
    """acc[acc_at + i] = fma32(a[a_at + i], b[b_at + i], acc[acc_at + i]) for i < count; no overlaps."""
    here = slice(acc_at, acc_at + count)
    acc[here] = fma32(a[a_at : a_at + count], b[b_at : b_at + count], acc[here])


def copy_run(out: F32, out_at: int, source: F32, source_at: int, count: int) -> None:
    """out[out_at + i] = source[source_at + i] for i < count; no overlaps."""
    out[out_at : out_at + count] = source[source_at : source_at + count]


# --- LLVM code ----------------------------------------------------------------------------------


def _pointer(context: Any, builder: Any, kind: Any, array: Any, offset: Any) -> Any:
    """Pointer to element `offset` of a flat array."""
    return builder.gep(context.make_array(kind)(context, builder, array).data, [offset])


def _load(builder: Any, pointer: Any, offset: Any, kind: Any) -> Any:
    """The float or vector at pointer[offset]."""
    value = builder.load(builder.bitcast(builder.gep(pointer, [offset]), kind.as_pointer()))
    value.align = 4
    return value


def _store(builder: Any, value: Any, pointer: Any, offset: Any) -> None:
    builder.store(value, builder.bitcast(builder.gep(pointer, [offset]), value.type.as_pointer())).align = 4


def _fma(builder: Any, kind: Any, a: Any, b: Any, c: Any) -> Any:
    name = "llvm.fma.f32" if kind is _REAL else f"llvm.fma.v{LANES}f32"
    insert: Any = cgutils.get_or_insert_function
    return builder.call(insert(builder.module, ir.FunctionType(kind, [kind] * 3), name), [a, b, c])


def _emit_tile(builder: Any, acc: Any, a: Any, a_row: Any, a_step: Any, b: Any, count: Any) -> None:
    """The loop of `fma_tile`; acc, a and b point to the tile, the first a and the first b."""
    blank, first = ir.Constant(_VECTOR, ir.Undefined), ir.Constant(ir.IntType(32), 0)
    to_all_lanes = ir.Constant(ir.VectorType(ir.IntType(32), LANES), None)
    start = [_load(builder, acc, _INDEX(r * LANES), _VECTOR) for r in range(ROWS)]
    row_offsets = [builder.mul(a_row, _INDEX(r)) for r in range(ROWS)]
    before = builder.block
    loop, after = builder.append_basic_block("tile.k"), builder.append_basic_block("tile.end")
    builder.cbranch(builder.icmp_signed(">", count, _INDEX(0)), loop, after)

    builder.position_at_end(loop)
    k = builder.phi(_INDEX)
    sums = [builder.phi(_VECTOR) for _ in range(ROWS)]
    lanes = _load(builder, b, builder.mul(k, _INDEX(LANES)), _VECTOR)
    column = builder.gep(a, [builder.mul(k, a_step)])
    terms = []
    for r in range(ROWS):
        factor = builder.insert_element(blank, _load(builder, column, row_offsets[r], _REAL), first)
        factor = builder.shuffle_vector(factor, blank, to_all_lanes)
        terms.append(_fma(builder, _VECTOR, factor, lanes, sums[r]))
    following = builder.add(k, _INDEX(1))
    k.add_incoming(_INDEX(0), before)
    k.add_incoming(following, loop)
    for r in range(ROWS):
        sums[r].add_incoming(start[r], before)
        sums[r].add_incoming(terms[r], loop)
    builder.cbranch(builder.icmp_signed("<", following, count), loop, after)

    builder.position_at_end(after)
    results = [builder.phi(_VECTOR) for _ in range(ROWS)]
    for r in range(ROWS):
        results[r].add_incoming(start[r], before)
        results[r].add_incoming(terms[r], loop)
    for r in range(ROWS):
        _store(builder, results[r], acc, _INDEX(r * LANES))


def _emit_run(builder: Any, count: Any, step: Callable[[Any, Any], None]) -> None:
    """Call step(offset, type) in a loop over whole vectors, then in a loop over the floats left."""
    whole = builder.and_(count, _INDEX(-LANES))
    with cgutils.for_range_slice(builder, _INDEX(0), whole, _INDEX(LANES), _INDEX, inc=True) as (offset, _):
        step(offset, _VECTOR)
    with cgutils.for_range_slice(builder, whole, count, _INDEX(1), _INDEX, inc=True) as (offset, _):
        step(offset, _REAL)


def _tile_code(
    ctx: Any, acc: Any, acc_at: Any, a: Any, a_at: Any, a_row: Any, a_step: Any, b: Any, b_at: Any, count: Any
) -> Any:
    n = types.int64

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        acc, a, b = (_pointer(context, builder, signature.args[i], args[i], args[i + 1]) for i in (0, 2, 6))
        _emit_tile(builder, acc, a, args[4], args[5], b, args[8])
        return context.get_dummy_value()

    return types.void(acc, n, a, n, n, n, b, n, n), codegen


def _fma_run_code(ctx: Any, acc: Any, acc_at: Any, a: Any, a_at: Any, b: Any, b_at: Any, count: Any) -> Any:
    n = types.int64

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        acc, a, b = (_pointer(context, builder, signature.args[i], args[i], args[i + 1]) for i in (0, 2, 4))

        def step(offset: Any, kind: Any) -> None:
            operands = [_load(builder, pointer, offset, kind) for pointer in (a, b, acc)]
            _store(builder, _fma(builder, kind, *operands), acc, offset)

        _emit_run(builder, args[6], step)
        return context.get_dummy_value()

    return types.void(acc, n, a, n, b, n, n), codegen


def _copy_run_code(ctx: Any, out: Any, out_at: Any, source: Any, source_at: Any, count: Any) -> Any:
    n = types.int64

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        out, source = (_pointer(context, builder, signature.args[i], args[i], args[i + 1]) for i in (0, 2))

        def step(offset: Any, kind: Any) -> None:
            _store(builder, _load(builder, source, offset, kind), out, offset)

        _emit_run(builder, args[4], step)
        return context.get_dummy_value()

    return types.void(out, n, source, n, n), codegen


_tile_instructions: Any = intrinsic(_tile_code)
_fma_run_instructions: Any = intrinsic(_fma_run_code)
_copy_run_instructions: Any = intrinsic(_copy_run_code)


# --- the same names inside kernels --------------------------------------------------------------


def _flat_float32(*arrays: Any) -> bool:
    """Whether these are types of contiguous 1-D float32 arrays; anything else is a typing error."""
    return all(
        isinstance(x, types.Array) and (x.dtype, x.ndim, x.layout) == (types.float32, 1, "C") for x in arrays
    )


@overload(fma_tile, inline="always")
def _fma_tile_in_kernels(
    acc: Any, acc_at: Any, a: Any, a_at: Any, a_row: Any, a_step: Any, b: Any, b_at: Any, count: Any
) -> Any:
    def code(
        acc: Any, acc_at: Any, a: Any, a_at: Any, a_row: Any, a_step: Any, b: Any, b_at: Any, count: Any
    ) -> Any:
        return _tile_instructions(acc, acc_at, a, a_at, a_row, a_step, b, b_at, count)

    return code if _flat_float32(acc, a, b) else None


@overload(fma_run, inline="always")
def _fma_run_in_kernels(acc: Any, acc_at: Any, a: Any, a_at: Any, b: Any, b_at: Any, count: Any) -> Any:
    def code(acc: Any, acc_at: Any, a: Any, a_at: Any, b: Any, b_at: Any, count: Any) -> Any:
        return _fma_run_instructions(acc, acc_at, a, a_at, b, b_at, count)

    return code if _flat_float32(acc, a, b) else None


@overload(copy_run, inline="always")
def _copy_run_in_kernels(out: Any, out_at: Any, source: Any, source_at: Any, count: Any) -> Any:
    def code(out: Any, out_at: Any, source: Any, source_at: Any, count: Any) -> Any:
        return _copy_run_instructions(out, out_at, source, source_at, count)

    return code if _flat_float32(out, source) else None
