"""The tile, the heart of every product: LLVM code behind a plain twin that gives the same bits.

    multiply_tile(vectors, out, ...)        a tile of ROWS x LANES (or 2*LANES) sums
    multiply_groups(vectors, out, ...)      the same of groups of words, whose sums meet in a tree
    line_zeros(size, element)               memory for what a tile reads and writes by vectors

What a word is and what a multiply-add of two words means is `machine/words.py`'s.
Every sum is a chain of its own in the order of the twin, so neither the vector's width nor the
instruction changes a bit. What `machine/instructions.py` says of its pieces holds here too, but for the one
instruction that LLVM does not find by itself: see `machine/words.py`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from intnet.machine.jit import njit
from intnet.machine.words import INT32, LANES, LLVM, REAL, ROWS, add_product, emit_add_product

__all__ = ["LANES", "ROWS", "line_zeros", "multiply_groups", "multiply_tile"]

Generated = tuple[Any, Callable[..., Any]]  # a signature and the code behind it

Flat = np.ndarray
I64 = NDArray[np.int64]


_INDEX = ir.IntType(64)


@njit
def line_zeros(size: int, element: Flat) -> Flat:
    """Zeros [size] of the type of `element`, from an address that is a multiple of 64.

    No vector of a tile then lies across two cache lines: such a vector costs two reads, and to read one
    that was just written costs a wait, which made sums of groups on a stack a third slower.
    """
    memory = np.zeros(size + 64 // element.itemsize, element.dtype)
    first = -np.int64(memory.ctypes.data) % 64 // element.itemsize
    return memory[first : first + size]


def multiply_tile(
    vectors: int, out: Flat, at: int, stride: int, a: Flat, rows: I64, row0: int, base: int, step: int,
    runs: I64, run0: int, run1: int, b: Flat, b_at: int,
) -> None:  # fmt: skip
    """out[at + r*stride + j] = sum of a-word * b-word over the words of runs run0 .. run1-1, ascending.

    Run i is runs[3i] (offset), runs[3i + 1] (length >= 1) and runs[3i + 2] (place in b); its word k of row r
    is a[base + rows[row0 + r] + offset + k*step], that of column j b[b_at + (place + k)*width + j] with
    width = vectors*LANES. j < width, r < ROWS; 1 or 2 vectors, at least one run. Sums of four 8-bit
    products start at the int32 before b_at: that of column j at b[b_at - width + j].
    """
    ends, none = np.array([run1]), np.zeros(1, np.int64)
    multiply_groups(
        vectors, out, at, stride, a, rows, row0, base, step, runs[3 * run0 :], 0, 1, b, b_at, ends - run0,
        none, out,
    )  # fmt: skip


def multiply_groups(
    vectors: int, out: Flat, at: int, stride: int, a: Flat, rows: I64, row0: int, base: int, step: int,
    runs: I64, group0: int, group1: int, b: Flat, b_at: int, ends: I64, met: I64, stack: Flat,
) -> None:  # fmt: skip
    """out[at + r*stride + j] = such sums of groups group0 .. group1-1 of runs, one after another on a stack.

    Group g ends with run ends[g] - 1; then the two sums on top meet met[g] times, and after the last group
    one is left. One call for all groups of a tile: that they end costs little more than their meetings, and
    what a tile needs is made ready once. stack: scratch of tiles, as many as there are sums at a time.
    Sums of four 8-bit products start at the int32 of group g before b_at, b[b_at - (g + 1)*width + j].
    """
    width = vectors * LANES
    starts = base + rows[row0 : row0 + ROWS]
    sums: list[np.ndarray] = []
    for group in range(group0, group1):
        tile = np.zeros((ROWS, width), out.dtype)
        if b.dtype == np.uint32:
            tile += b[b_at - (group + 1) * width : b_at - group * width].view(np.int32)
        for run in range(ends[group - 1] if group else 0, ends[group]):
            offset, length, place = map(int, runs[3 * run : 3 * run + 3])
            for k in range(length):
                left = a[starts + offset + k * step][:, None]
                right = b[b_at + (place + k) * width : b_at + (place + k + 1) * width][None, :]
                tile = add_product(left, right, tile)
        if out.dtype == np.float32:
            tile += np.float32(0)  # -0, which only an underflow leaves, becomes +0
        for _ in range(met[group]):
            tile = sums.pop() + tile
        sums.append(tile)
    for r in range(ROWS):
        out[at + r * stride : at + r * stride + width] = sums[-1][r]


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
    vectors, element = len(sums.nodes[0]), LLVM[word]
    vector = ir.VectorType(element, LANES)
    blank, all_first = ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(INT32, LANES), None)
    offset, pointer = b
    right = [_load(builder, pointer, _INDEX(v * LANES), vector) for v in range(vectors)]
    new = []
    for row, nodes in zip(pointers, sums.nodes, strict=True):
        factor = builder.insert_element(blank, _load(builder, row, offset, element), INT32(0))
        factor = builder.shuffle_vector(factor, blank, all_first)
        new.append([emit_add_product(builder, word, factor, right[v], nodes[v]) for v in range(vectors)])
    return new, builder.add(offset, step)


def _never_unroll(module: Any, branch: Any) -> None:
    """Keep the loop that `branch` closes as it is: two turns of vpdpbusd do not fit the registers."""
    off = module.add_metadata([ir.MetaDataString(module, "llvm.loop.unroll.disable")])
    name = ir.MDValue(module, [off], name=str(len(module.metadata)))
    name.operands = (name, off)  # what names a loop names itself first
    branch.set_metadata("llvm.loop", name)


def _emit_tile(builder: Any, pointers: Any, step: Any, runs: Any, run0: Any, run1: Any, b: Any, word: Any,
               starts: Any) -> Any:  # fmt: skip
    """The two loops, over runs and over the words of a run; returns the sums [row][vector].

    starts: what the sums of a row start at, [vector]
    """
    total, vectors, entry = starts[0].type, len(starts), builder.block
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
    again = builder.cbranch(builder.icmp_signed(">", rest, _INDEX(0)), word_block, next_run)
    if word == types.uint32:
        _never_unroll(builder.module, again)
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
    run_sums.comes([starts] * ROWS, entry)
    run_sums.comes(new, next_run)

    builder.position_at_end(end)
    return new


def _emit_store(builder: Any, sums: Any, place: Any, stride: Any) -> None:
    """The sums [row][vector] to `place`, rows `stride` apart."""
    for r, row in enumerate(sums):
        start = builder.gep(place, [builder.mul(stride, _INDEX(r))])
        for v, value in enumerate(row):
            _store(builder, value, start, _INDEX(v * LANES))


def _emit_meeting(builder: Any, sums: Any, met: Any, place: Any) -> tuple[Any, Any]:
    """The sums plus those of `met` tiles of scratch before `place`; (the totals, the place of the last)."""
    kind, width = sums[0][0].type, len(sums[0]) * LANES
    add = builder.fadd if kind.element in REAL.values() else builder.add
    entry = builder.block
    meet, body, end = map(builder.append_basic_block, ("tile.meet", "tile.met", "tile.total"))
    builder.branch(meet)

    builder.position_at_end(meet)
    left, here = builder.phi(_INDEX), builder.phi(place.type)
    totals = _Sums(builder, kind, len(sums[0]))
    builder.cbranch(builder.icmp_signed(">", left, _INDEX(0)), body, end)

    builder.position_at_end(body)
    before = builder.gep(here, [_INDEX(-ROWS * width)])
    new = [
        [add(_load(builder, before, _INDEX(r * width + v * LANES), kind), x) for v, x in enumerate(row)]
        for r, row in enumerate(totals.nodes)
    ]
    less = builder.sub(left, _INDEX(1))
    builder.branch(meet)
    for node, start, again in ((left, met, less), (here, place, before)):
        node.add_incoming(start, entry)
        node.add_incoming(again, body)
    totals.comes(sums, entry)
    totals.comes(new, body)

    builder.position_at_end(end)
    return totals.nodes, here


def _emit_groups(builder: Any, ends: Any, met: Any, groups: Any, stack: Any, chain: Any) -> Any:
    """The loop over groups; `chain` emits the sums of runs run0 .. run1-1 of one. Returns the last."""
    (first, last), entry = groups, builder.block
    before = builder.select(
        builder.icmp_signed(">", first, _INDEX(0)), builder.sub(first, _INDEX(1)), _INDEX(0)
    )
    before = builder.load(builder.gep(ends, [before]))
    run0 = builder.select(builder.icmp_signed(">", first, _INDEX(0)), before, _INDEX(0))
    names = "tile.group", "tile.keep", "tile.root"
    group_block, keep, end = map(builder.append_basic_block, names)
    builder.branch(group_block)

    builder.position_at_end(group_block)
    group, run, place = builder.phi(_INDEX), builder.phi(_INDEX), builder.phi(stack.type)
    run1 = builder.load(builder.gep(ends, [group]))
    sums, here = _emit_meeting(
        builder, chain(group, run, run1), builder.load(builder.gep(met, [group])), place
    )
    after, width = builder.add(group, _INDEX(1)), len(sums[0]) * LANES
    builder.cbranch(builder.icmp_signed("<", after, last), keep, end)

    builder.position_at_end(keep)
    _emit_store(builder, sums, here, _INDEX(width))
    above = builder.gep(here, [_INDEX(ROWS * width)])
    builder.branch(group_block)
    for node, start, again in ((group, first, after), (run, run0, run1), (place, stack, above)):
        node.add_incoming(start, entry)
        node.add_incoming(again, keep)

    builder.position_at_end(end)
    return sums


def _emit_product(context: Any, builder: Any, kinds: Any, args: Any, vectors: int) -> None:
    """The body of `multiply_tile`, or, where arguments follow b_at, of `multiply_groups`."""
    word, total = kinds[3].dtype, ir.VectorType(LLVM[kinds[0].dtype], LANES)
    result, left, right = (
        _pointer(context, builder, kinds[i], args[i], args[j]) for i, j in ((0, 1), (3, 6), (11, 12))
    )
    first_row = _pointer(context, builder, kinds[4], args[4], args[5])
    offsets = [builder.load(builder.gep(first_row, [_INDEX(r)])) for r in range(ROWS)]
    pointers = [builder.gep(left, [offset]) for offset in offsets]
    runs = _pointer(context, builder, kinds[8], args[8], _INDEX(0))

    def chain(group: Any, run0: Any, run1: Any) -> Any:
        starts = [ir.Constant(total, None)] * vectors
        if word == types.uint32:
            line = builder.mul(builder.not_(group), _INDEX(vectors * LANES))  # ~group is -(group + 1)
            starts = [
                _load(builder, right, builder.add(line, _INDEX(v * LANES)), total) for v in range(vectors)
            ]
        return _emit_tile(builder, pointers, args[7], runs, run0, run1, right, word, starts)

    if len(args) > 13:
        ends, met, stack = (_pointer(context, builder, kinds[i], args[i], _INDEX(0)) for i in (13, 14, 15))
        sums = _emit_groups(builder, ends, met, args[9:11], stack, chain)
    else:
        sums = chain(_INDEX(0), args[9], args[10])
    if total.element in REAL.values():
        # -0 becomes +0. Once is enough: a sum of groups is the same with either zero unless all are zero
        sums = [[builder.fadd(value, ir.Constant(total, None)) for value in row] for row in sums]
    _emit_store(builder, sums, result, args[2])


def _tile_code(vectors: int) -> Any:
    """The intrinsic behind `multiply_tile`."""

    def typed(ctx: Any, out: Any, at: Any, stride: Any, a: Any, rows: Any, row0: Any, base: Any, step: Any,
              runs: Any, run0: Any, run1: Any, b: Any, b_at: Any) -> Any:  # fmt: skip
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            _emit_product(context, builder, signature.args, args, vectors)
            return context.get_dummy_value()

        n = types.int64
        return types.void(out, n, n, a, rows, n, n, n, runs, n, n, b, n), codegen

    return intrinsic(typed)


def _groups_code(vectors: int) -> Any:
    """The intrinsic behind `multiply_groups`."""

    def typed(ctx: Any, out: Any, at: Any, stride: Any, a: Any, rows: Any, row0: Any, base: Any, step: Any,
              runs: Any, group0: Any, group1: Any, b: Any, b_at: Any, ends: Any, met: Any,
              stack: Any) -> Any:  # fmt: skip
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            _emit_product(context, builder, signature.args, args, vectors)
            return context.get_dummy_value()

        n = types.int64
        return types.void(out, n, n, a, rows, n, n, n, runs, n, n, b, n, ends, met, stack), codegen

    return intrinsic(typed)


_tile1, _tile2 = map(_tile_code, (1, 2))
_groups1, _groups2 = map(_groups_code, (1, 2))


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

    return code if _flat(tuple(LLVM), out, a, b) and _flat((types.int64,), rows, runs) else None


@overload(multiply_groups, inline="always")
def _groups_in_kernels(vectors: Any, out: Any, at: Any, stride: Any, a: Any, rows: Any, row0: Any, base: Any,
                       step: Any, runs: Any, group0: Any, group1: Any, b: Any, b_at: Any, ends: Any,
                       met: Any, stack: Any) -> Any:  # fmt: skip
    def code(vectors: Any, out: Any, at: Any, stride: Any, a: Any, rows: Any, row0: Any, base: Any,
             step: Any, runs: Any, group0: Any, group1: Any, b: Any, b_at: Any, ends: Any, met: Any,
             stack: Any) -> None:  # fmt: skip
        if vectors == 1:
            _groups1(
                out, at, stride, a, rows, row0, base, step, runs, group0, group1, b, b_at, ends, met, stack
            )
        else:
            _groups2(
                out, at, stride, a, rows, row0, base, step, runs, group0, group1, b, b_at, ends, met, stack
            )

    same = _flat((getattr(out, "dtype", None),), stack) and _flat((types.int64,), rows, runs, ends, met)
    return code if _flat(tuple(LLVM), out, a, b) and same else None
