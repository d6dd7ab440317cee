"""How the loop of a kernel is handed out to threads: every thread runs the kernel on its part of the loop.

A kernel takes a `team` first and shares out one loop by `prange(team, n)`:

    team = T > 0  T threads call this very kernel, each with its own negative team, and run their parts
                  of range(n); what is left for the caller, when all are done, is an empty one
    team < 0      one of them: member t of T is -(t * 2**16 + T)

So what stands before the loop is done by each thread (keep it short), and what stands after it belongs
under `if team > 0:`. Parts are neighbouring iterations, the same for the same T; no result depends on T.

Numba's own `prange` compiles a loop four times (its body, two wrappers, the function around them) and
analyses arrays on the way; this takes half of the compiling time of a step away. The threads are
Numba's: `numba_parallel_for`, the C function of its threading layers, is what its own loops call.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import callconv, cgutils
from numba.extending import intrinsic, overload

__all__ = ["prange"]

_BITS = 16  # of the number of threads
_BYTES, _SIZE, _STATUS = ir.IntType(8).as_pointer(), ir.IntType(64), ir.IntType(32)
_LOOP = ir.FunctionType(ir.VoidType(), [_BYTES.as_pointer(), _SIZE.as_pointer(), _SIZE.as_pointer(), _BYTES])
_PARALLEL_FOR = ir.FunctionType(ir.VoidType(), [_BYTES] * 5 + [_SIZE] * 3)


def prange(team: int, n: int) -> range:
    """The iterations of range(n) that are this call's; without the compiler, all of them."""
    return range(n)


def _member(name: str, kernel: ir.Function, frame: ir.LiteralStructType) -> ir.Function:
    """A C function that Numba's threads call: `kernel` with the arguments of `frame`, as one or more members.

    The frame holds T, a flag that is set where a member failed, then all arguments but the first. The
    members are those from args[0] on, dims[0] of them.
    """
    function = ir.Function(kernel.module, _LOOP, name=name)
    function.linkage = "internal"
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    args, dims, _, data = function.args
    held = builder.bitcast(data, frame.as_pointer())
    fields = [builder.load(cgutils.gep_inbounds(builder, held, 0, i)) for i in range(len(frame.elements))]
    result, error = (builder.alloca(kernel.args[i].type.pointee) for i in range(2))
    first = builder.ptrtoint(builder.load(args), _SIZE)
    with cgutils.for_range(builder, builder.load(dims)) as loop:
        number = builder.shl(builder.add(first, loop.index), _SIZE(_BITS))
        member = builder.neg(builder.or_(number, fields[0]))
        status = builder.call(kernel, [result, error, member, *fields[2:]])
        fine = [
            builder.icmp_signed("==", status, code) for code in (callconv.RETCODE_OK, callconv.RETCODE_NONE)
        ]
        with builder.if_then(builder.not_(builder.or_(*fine)), likely=False):
            builder.store(_STATUS(1), cgutils.gep_inbounds(builder, held, 0, 1))
    builder.ret_void()
    return function


def _uncounted(given: list[Any]) -> list[Any]:
    """Arguments of a kernel, arrays without their reference counts: the caller holds them.

    Counting is two locked instructions around every call that takes an array, on a counter that all
    threads share. An array is a run of arguments that starts with its counter, its owner, the numbers of
    elements and of bytes of one, and a pointer to the first.
    """
    kinds = [arg.type for arg in given]
    begins = [_BYTES, _BYTES, _SIZE, _SIZE]
    arrays = {i for i in range(len(given)) if kinds[i : i + 4] == begins and kinds[i + 4].is_pointer}
    return [_BYTES(None) if i in arrays else arg for i, arg in enumerate(given)]


def _hand_out(context: Any, builder: Any, team: Any) -> None:
    """Code that runs the function being compiled once for each member of `team` and waits for all."""
    kernel = builder.function
    kernel.attributes.add("noinline")
    given = kernel.args[3:]  # after the result's place, the exception's and the team
    frame = ir.LiteralStructType([_SIZE, _STATUS, *(arg.type for arg in given)])
    member = _member(f"{kernel.name}.member", kernel, frame)
    held = cgutils.alloca_once(builder, frame)
    for i, value in enumerate([team, _STATUS(0), *_uncounted(given)]):
        builder.store(value, cgutils.gep_inbounds(builder, held, 0, i))
    # one "array" of T "elements" of one byte at address 0: the address that a thread is given is its number
    base, dims, steps = (cgutils.alloca_once_value(builder, x) for x in (_BYTES(None), team, _SIZE(1)))
    data = builder.bitcast(held, _BYTES)
    with builder.if_else(builder.icmp_signed("==", team, _SIZE(1))) as (alone, together):
        with alone:
            builder.call(member, [base, dims, steps, data])
        with together:
            call = cgutils.get_or_insert_function(builder.module, _PARALLEL_FOR, "numba_parallel_for")
            pointers = [builder.bitcast(x, _BYTES) for x in (member, base, dims, steps)]
            builder.call(call, [*pointers, data, _SIZE(1), _SIZE(1), team])
    failed = builder.load(cgutils.gep_inbounds(builder, held, 0, 1))
    with builder.if_then(cgutils.is_true(builder, failed), likely=False):
        context.call_conv.return_user_exc(builder, MemoryError, ("a kernel found no memory on a thread",))


def _typed_part(ctx: Any, team: Any, n: Any) -> Any:
    """first, last of this call's part; `team` must be the kernel's own first argument."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        team, n = args
        first, last = (cgutils.alloca_once_value(builder, x) for x in (_SIZE(0), n))
        with builder.if_then(builder.icmp_signed(">", team, _SIZE(0))):
            _hand_out(context, builder, team)
            builder.store(_SIZE(0), last)
        with builder.if_then(builder.icmp_signed("<", team, _SIZE(0))):
            code = builder.neg(team)
            number, members = builder.lshr(code, _SIZE(_BITS)), builder.and_(code, _SIZE((1 << _BITS) - 1))
            for place, t in (first, number), (last, builder.add(number, _SIZE(1))):
                builder.store(builder.sdiv(builder.mul(n, t), members), place)
        first, last = builder.load(first), builder.load(last)
        return context.make_tuple(builder, signature.return_type, [first, last])

    return types.UniTuple(types.uint64, 2)(types.int64, types.int64), codegen


_part: Any = intrinsic(_typed_part)


@overload(prange, inline="always")
def _prange_in_kernels(team: Any, n: Any) -> Callable[..., Any]:
    def part(team: Any, n: Any) -> Any:
        first, last = _part(team, n)
        return range(first, last)

    return part
