"""One word times another: the multiply-add under every product, as plain code and as LLVM code.

A *word* is one element of an operand array; what a multiply-add of two words means depends on their type:

    float32          sum = fma(a, b, sum)
    uint32           words are four uint8 (a) or int8 (b): sum = sum + a.0 * b.0 + .. + a.3 * b.3
    int32 to int32   words are two int16 in one: sum = sum + a.low * b.low + a.high * b.high
    to int64         words are int32 or int64:   sum = sum + a * b
    float64          words are integers in it:   sum = sum + a * b, exact where no sum passes 2**53

Sums of int32 wrap modulo 2**32. Four products of 8 bits are one instruction, `vpdpbusd`, which FOURS says
that the processor has. A sum of all a.i * b.i with a.i signed is one of (a.i + OFFSET) * b.i that starts at
-OFFSET times the sum of all b.i: what the two add cancels modulo 2**32, so int32 holds the sum itself
wherever it fits, whatever wrapped on the way. Where AMX says so, sixteen words of a row are one instruction.
"""

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.core.registry import cpu_target

from intnet.machine.instructions import fma32

__all__ = [
    "AMX", "FOURS", "INT32", "LANES", "LLVM", "OFFSET", "REAL", "ROWS", "add_product", "emit_add_product",
]  # fmt: skip

INT32 = ir.IntType(32)
REAL = {types.float32: ir.FloatType(), types.float64: ir.DoubleType()}
LLVM = {**REAL, types.int32: INT32, types.uint32: INT32, types.int64: ir.IntType(64)}
OFFSET = 128  # what makes every int8 a uint8
_LOST, _MIDDLE = (1 << 29) - 1, 1 << 28  # the bits of a float64 that float32 has no room for; half of a step
_NORMAL = 2.0**-126  # the least normal float32


# --- the plain twin -----------------------------------------------------------------------------


def _fused(left: np.ndarray, right: np.ndarray, total: np.ndarray) -> np.ndarray:
    """fma32 of arrays, by float64 where that is the same.

    A sum rounded to float64 and then to float32 is rounded otherwise than once only if float64 has it in
    the middle between two float32: at 29 bits 10..0, or below the normal float32, where more are gone.
    """
    with np.errstate(all="ignore"):
        wide = np.multiply(left, right, dtype=np.float64) + total
        out = wide.astype(np.float32)
    doubtful = (wide.view(np.int64) & _LOST == _MIDDLE) | (np.abs(wide) < _NORMAL) & (wide != 0)
    if doubtful.any():
        left, right = np.broadcast_arrays(left, right)
        out[doubtful] = [
            fma32(*each) for each in zip(left[doubtful], right[doubtful], total[doubtful], strict=True)
        ]
    return out


def add_product(left: np.ndarray, right: np.ndarray, total: np.ndarray) -> np.ndarray:
    """total[r, j] + left[r, 0] * right[0, j] for every r and j, in the type of `total`."""
    if total.dtype == np.float32:
        return _fused(left, right, total)
    if total.dtype == np.int32:
        fours = left.dtype == np.uint32
        kinds = (np.uint8, np.int8) if fours else (np.int16, np.int16)
        a, b = (np.ascontiguousarray(x).view(k) for x, k in zip((left, right), kinds, strict=True))
        a, b = (x.reshape(-1, 4 if fours else 2).astype(np.int32) for x in (a, b))
        return total + a @ b.T
    return total + left.astype(total.dtype) * right.astype(total.dtype)


# --- LLVM code ----------------------------------------------------------------------------------


def _call(builder: Any, name: str, kind: Any, args: list[Any]) -> Any:
    """The intrinsic `name` of three vectors of one kind."""
    insert: Any = cgutils.get_or_insert_function
    return builder.call(insert(builder.module, ir.FunctionType(kind, [kind] * 3), name), args)


def _fma(builder: Any, a: Any, b: Any, c: Any) -> Any:
    # integers in float64 are exact with and without a fused instruction: LLVM may take two without it
    name = "fma.v%df32" if isinstance(c.type.element, ir.FloatType) else "fmuladd.v%df64"
    return _call(builder, f"llvm.{name % c.type.count}", c.type, [a, b, c])


def _pair_sums(builder: Any, a: Any, b: Any) -> Any:
    """a.low*b.low + a.high*b.high a lane, written so that LLVM sees one instruction in it."""
    halves = ir.VectorType(ir.IntType(16), 2 * LANES)
    wide = ir.VectorType(INT32, 2 * LANES)
    products = builder.mul(*(builder.sext(builder.bitcast(x, halves), wide) for x in (a, b)))
    parts = []
    for first in (0, 1):
        mask = ir.Constant(ir.VectorType(INT32, LANES), [2 * i + first for i in range(LANES)])
        parts.append(builder.shuffle_vector(products, ir.Constant(wide, ir.Undefined), mask))
    return builder.add(*parts)


def emit_add_product(builder: Any, word: Any, a: Any, b: Any, total: Any) -> Any:
    """total + a * b a lane, of vectors of words of the Numba type `word`."""
    kind = total.type.element
    if word == types.uint32:
        return _call(builder, f"llvm.x86.avx512.vpdpbusd.{32 * LANES}", total.type, [total, a, b])
    if kind in REAL.values():
        return _fma(builder, a, b, total)
    if kind == INT32:
        return builder.add(total, _pair_sums(builder, a, b))
    a, b = (x if x.type == total.type else builder.sext(x, total.type) for x in (a, b))
    return builder.add(total, builder.mul(a, b))


# --- the processor ------------------------------------------------------------------------------


def _assembly(lane: Any, lanes: int, emit: Callable[..., Any]) -> str:
    """What LLVM makes of emit(builder, a, b, c) for the processor that kernels are compiled for."""
    triple, cpu, features = cpu_target.target_context.codegen().magic_tuple()
    module, kind = ir.Module(), ir.VectorType(lane, lanes)
    module.triple = triple
    function = ir.Function(module, ir.FunctionType(kind, [kind] * 3), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    builder.ret(emit(builder, *function.args))
    target = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features)
    return target.emit_assembly(llvm.parse_assembly(str(module)))


def _has_512_bits() -> bool:
    """Whether the processor has registers of 512 bits (AVX-512)."""
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return True
    return "zmm" in _assembly(ir.FloatType(), 16, lambda builder, a, b, c: builder.fadd(a, b))


def _has_fours() -> bool:
    """Whether it has vpdpbusd on vectors of LANES words (AVX-512 VNNI, AVX-VNNI).

    LLVM stops the process where it meets an instruction that the processor lacks, so ask for the sister of
    two int16, which comes with it in every processor and which LLVM takes for pairs by itself.
    """
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return False
    pairs = _assembly(INT32, LANES, lambda builder, *abc: emit_add_product(builder, types.int32, *abc))
    return "vpdpwssd" in pairs


def _has_amx() -> bool:
    """Whether it has AMX, registers of sixteen lines and products of fours in them, for this process.

    Linux lends them to a process that asks, for it has to save them: a stack that the process gives signals
    from then on has to have room for them.
    """
    if config.DISABLE_JIT or not sys.platform.startswith("linux"):  # type: ignore[attr-defined]
        return False
    features = cpu_target.target_context.codegen().magic_tuple()[2].split(",")
    if not {"+amx-tile", "+amx-int8"} <= set(features):
        return False
    arch_prctl, to_lend, registers = 158, 0x1023, 18
    return ctypes.CDLL(None).syscall(arch_prctl, to_lend, registers) == 0


# 12 x 2 vectors of sums fill 24 of the 32 registers of AVX-512, and 12 row pointers leave room for
# the loop's own in 16 general registers; 6 x 2 vectors of half the width fill the 16 of AVX2.
ROWS, LANES = (12, 16) if _has_512_bits() else (6, 8)
# The rows of a tile of `vectors_of` vectors: 8 x 3 of AVX-512, 4 x 3 of AVX2
OUTPUTS = 8 if LANES == 16 else 4
FOURS = _has_fours()
AMX = FOURS and LANES == 16 and _has_amx()  # whose lines are vectors of sixteen words


def vectors_of(sums: Any) -> int:
    """Vectors a row of a tile of OUTPUTS rows, whose sums are of this type of NumPy.

    Products of int32 words, which no instruction adds, take a register of their own: the 16 of AVX2 hold
    4 x 2 sums of them, where 4 x 3 would leave for the stack and come back at every word.
    """
    if sums.itemsize != 4:
        return 1
    return 2 if sums.kind == "i" and LANES == 8 else 3
