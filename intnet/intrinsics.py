"""Instructions that kernels ask for by name, each behind a plain twin that gives the same codes.

The bodies below are the twins, which also run under NUMBA_DISABLE_JIT=1; inside a kernel the same
names are a few instructions.

    quotient(num, den, 1/den), residual(num, den, q)     exact decisions without a division
    get(data, i, like), put(data, i, value)              elements of any type in an array of bytes
    wide_vectors()                                       vectors of 512 bits
    borrowed(array)                                      an array that nobody counts references to

A quotient of |num| <= 2**51 and den, both integers or that times a power of two, lies on the same side
of every multiple of 1/2 as num/den does, and is exactly that multiple where num/den is one. So its
floor, what it rounds to with every tie, and whether it is an integer are those of num/den. Why: inside
a kernel q = fl(Q') with Q' within 2**-102 of Q = num/den, relatively (a Newton step on a quotient that
is right to 2**-51). Q, unless it is a multiple h of 1/2 itself, is at least 1/(2 den) = |Q|/(2 |num|)
>= |Q| * 2**-52 away from h, and fl reaches h only from within |h| * 2**-53. Where Q is h, fl(Q') is h
too, for h has no more than 52 bits. The twin, one IEEE division, errs by less.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from numba import types
from numba.extending import intrinsic, overload

__all__ = ["borrowed", "get", "put", "quotient", "residual", "wide_vectors"]

Generated = tuple[Any, Callable[..., Any]]  # a signature and the code behind it


# -- division --------------------------------------------------------------------------------


def quotient(num: Any, den: Any, inverse: Any) -> Any:
    """num / den as the module says; `inverse` is the float64 nearest 1/den."""
    return num / den


def residual(num: Any, den: Any, q: Any) -> Any:
    """num - q * den, rounded once: its sign is exact."""
    return float(Fraction(num) - Fraction(q) * Fraction(den))


def _fma_code(ctx: Any, a: Any, b: Any, c: Any) -> Generated:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return types.float64(types.float64, types.float64, types.float64), codegen


_fma: Any = intrinsic(_fma_code)


@overload(quotient, inline="always")
def _quotient_in_kernels(num: Any, den: Any, inverse: Any) -> Any:
    def fused(num: Any, den: Any, inverse: Any) -> Any:
        first = num * inverse
        return _fma(_fma(-first, den, num), inverse, first)

    return fused


@overload(residual, inline="always")
def _residual_in_kernels(num: Any, den: Any, q: Any) -> Any:
    def fused(num: Any, den: Any, q: Any) -> Any:
        return _fma(-q, den, num)

    return fused


# -- typed bytes -----------------------------------------------------------------------------


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


_load: Any = intrinsic(_load_code)
_store: Any = intrinsic(_store_code)


@overload(get, inline="always")
def _get_in_kernels(data: Any, index: Any, like: Any) -> Any:
    def load(data: Any, index: Any, like: Any) -> Any:
        return _load(data, index, like)

    return load


@overload(put, inline="always")
def _put_in_kernels(data: Any, index: Any, value: Any) -> Any:
    def store(data: Any, index: Any, value: Any) -> None:
        _store(data, index, value)

    return store


# -- vectors ---------------------------------------------------------------------------------


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


@overload(wide_vectors, inline="always")
def _wide_vectors_in_kernels() -> Any:
    def attribute() -> None:
        _attribute()

    return attribute


# -- arrays ----------------------------------------------------------------------------------


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


@overload(borrowed, inline="always")
def _borrowed_in_kernels(array: Any) -> Any:
    def borrow(array: Any) -> Any:
        return _borrowed(array)

    return borrow
