"""Instructions: code below the level of Python, each piece behind a plain twin that gives the same bits.

The bodies of the public functions are the twins, which also run under NUMBA_DISABLE_JIT=1; inside a
kernel the same names are LLVM code. It names no instruction of a processor: LLVM picks what the one at
hand has (pmaddwd, or vpdpwssd where there is VNNI; vpmuldq; fma), and `NUMBA_CPU_NAME` with
`NUMBA_CPU_FEATURES` chooses for another. Nothing is checked here.

    fma32(a, b, c)                                       float32(a * b + c), rounded once
    quotient(num, den, 1/den), residual(num, den, q)     exact decisions without a division
    get(data, i, like), put(data, i, value)              elements of any type in an array of bytes
    above_zero(x, i), times_bits(x, i, bits, out)        sixteen float32 at once, and a bit of each
    wide_vectors(), borrowed(array)                      vectors of 512 bits; no reference counts
    shaped(array, shape)                                 the same elements under another shape
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic, overload
from numba.np import arrayobj

__all__ = [
    "SIXTEEN", "above_zero", "borrowed", "fma32", "get", "put", "quotient", "residual", "shaped",
    "times_bits", "wide_vectors",
]  # fmt: skip

SIXTEEN = 16  # float32 in the widest vector register
_BEYOND = 2.0**128 - 2.0**103  # what float32 rounds to an infinity

# ruff: noqa: PLW0108 - Numba wants a Python function around an intrinsic
Generated = tuple[Any, Callable[..., Any]]  # a signature and the code behind it


# --- fused multiply-add, and division -----------------------------------------------------------


def fma32(a: Any, b: Any, c: Any) -> Any:
    """float32(a * b + c), rounded once (ties to even), of float32 scalars.

    This body is the plain twin, which also runs under NUMBA_DISABLE_JIT=1. Inside a kernel the
    same name is the instruction `llvm.fma.f32`; where the processor has no such instruction LLVM
    calls the correctly rounded C function fmaf.

    The product of two float32 is exact in float64. TwoSum gives the sum and its exact error; the
    sum is then rounded to odd, and a second rounding to float32 cannot go wrong (53 >= 2 * 24 + 2).
    Where the sum is not finite its remainder is a NaN: it stays.

    Defined by `spec/float32.py: fma32`.
    """
    product, addend = float(a) * float(b), float(c)
    total = product + addend
    part = total - product
    error = (product - (total - part)) + (addend - part)
    if (error != 0) & (total % (2 * math.ulp(total)) == 0):
        total = math.nextafter(total, math.copysign(math.inf, error))
    if abs(total) >= _BEYOND:
        total = math.copysign(math.inf, total)
    return np.float32(total)


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


# --- sixteen float32 ----------------------------------------------------------------------------
# A loop over 64-bit words, a bit at a time, takes seven times as long: its lanes are as wide as the words.


def above_zero(x: Any, at: Any) -> Any:
    """uint16 of x[at] .. x[at + 15]: bit k is x[at + k] > 0."""
    return np.uint16(sum(1 << k for k in range(SIXTEEN) if x[at + k] > 0))


def times_bits(x: Any, at: Any, bits: Any, out: Any) -> None:
    """out[at + k] = x[at + k] * 1 where bit k is 1, else x[at + k] * 0, of 16 elements."""
    for k in range(SIXTEEN):
        out[at + k] = x[at + k] * np.float32(int(bits) >> k & 1)


_FLOATS, _BITS = ir.VectorType(ir.FloatType(), SIXTEEN), ir.VectorType(ir.IntType(1), SIXTEEN)


def _sixteen(context: Any, builder: Any, array: Any, args: Any) -> Any:
    """A pointer to the elements of the array args[0] from args[1] on, as a vector."""
    pointer = context.make_array(array)(context, builder, args[0]).data
    return builder.bitcast(builder.gep(pointer, [args[1]]), _FLOATS.as_pointer())


def _above_code(ctx: Any, x: Any, at: Any) -> Generated:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        floats = builder.load(_sixteen(context, builder, x, args), align=4)
        above = builder.fcmp_ordered(">", floats, ir.Constant(_FLOATS, [0.0] * SIXTEEN))
        return builder.bitcast(above, ir.IntType(SIXTEEN))

    return types.uint16(x, types.intp), codegen


def _times_code(ctx: Any, x: Any, at: Any, bits: Any, out: Any) -> Generated:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        floats = builder.load(_sixteen(context, builder, x, args), align=4)
        ones, zeros = (ir.Constant(_FLOATS, [value] * SIXTEEN) for value in (1.0, 0.0))
        factors = builder.select(builder.bitcast(args[2], _BITS), ones, zeros)
        target = _sixteen(context, builder, out, (args[3], args[1]))
        builder.store(builder.fmul(floats, factors), target, align=4)
        return context.get_dummy_value()

    return types.void(x, types.intp, types.uint16, out), codegen


_above: Any = intrinsic(_above_code)
_times: Any = intrinsic(_times_code)
overload(above_zero, inline="always")(lambda x, at: lambda x, at: _above(x, at))
overload(times_bits, inline="always")(
    lambda x, at, bits, out: lambda x, at, bits, out: _times(x, at, bits, out)
)


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


def shaped(array: Any, shape: Any) -> Any:
    """The elements of a contiguous array under `shape`, a tuple of int64 that holds as many.

    `reshape` in a kernel brings the text of its error with it, three seconds to compile.
    """
    return array.reshape(shape)


def _shaped_code(ctx: Any, array: Any, shape: Any) -> Generated:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        old = context.make_array(array)(context, builder, args[0])
        new = arrayobj.make_array(signature.return_type)(context, builder)
        sizes = cgutils.unpack_tuple(builder, args[1], len(shape))
        strides = [old.itemsize]
        for size in reversed(sizes[1:]):
            strides.insert(0, builder.mul(strides[0], size))
        arrayobj.populate_array(new, old.data, sizes, strides, old.itemsize, old.meminfo, old.parent)
        return impl_ret_borrowed(context, builder, signature.return_type, new._getvalue())

    assert array.layout == "C", f"shaped takes contiguous arrays, not {array}"
    return array.copy(ndim=len(shape))(array, shape), codegen


_shaped: Any = intrinsic(_shaped_code)
overload(shaped, inline="always")(lambda array, shape: lambda array, shape: _shaped(array, shape))
