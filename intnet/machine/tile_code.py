"""The LLVM code of the tile: `tile.py` calls it, and defines it by plain twins.

Two loops around a multiply-add of every row and vector: over runs of words, and over the words of a run. Sums
start at zero, or of four 8-bit products at what `machine/words.py` says; where groups meet, theirs wait on a
stack. What `machine/instructions.py` says of its pieces holds here too, but for the one instruction that LLVM
does not find by itself: see `machine/words.py`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.numpy_support import as_dtype

from intnet.machine.words import (
    INT32,
    LANES,
    LLVM,
    OUTPUTS,
    REAL,
    ROWS,
    emit_add_product,
    vectors_of,
)

INDEX = ir.IntType(64)


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

    def __init__(self, builder: Any, kind: Any, rows: int, vectors: int) -> None:
        self.nodes = [[builder.phi(kind) for _ in range(vectors)] for _ in range(rows)]

    def comes(self, values: Any, block: Any) -> None:
        """The values that the sums have when control comes from `block`."""
        for nodes, row in zip(self.nodes, values, strict=True):
            for node, value in zip(nodes, row, strict=True):
                node.add_incoming(value, block)


class _Walk(NamedTuple):
    """Where the words of a product lie: `a` by runs, `b` by lines.

    pointers: into `a`, of each row, or of each vector; by_rows: which
    step: from one word of a run to the next; line: words of `b` from one line to the next
    """

    pointers: list[Any]
    by_rows: bool
    step: Any
    line: Any

    def emit(self, builder: Any, offset: Any, b: Any, word: Any, sums: _Sums) -> list[list[Any]]:
        """The sums plus one word of every row times one of every vector."""
        vector = ir.VectorType(LLVM[word], LANES)
        spaced = [builder.gep(pointer, [offset]) for pointer in self.pointers]
        count = len(sums.nodes[0] if self.by_rows else sums.nodes)
        beside = [builder.gep(b, [INDEX(i * (LANES if self.by_rows else 1))]) for i in range(count)]
        rows, vectors = (spaced, beside) if self.by_rows else (beside, spaced)
        loaded = [_load(builder, pointer, INDEX(0), vector) for pointer in vectors]
        new = []
        for row, nodes in zip(rows, sums.nodes, strict=True):
            factor = everywhere(builder, _load(builder, row, INDEX(0), LLVM[word]))
            pairs = [(factor, x) if self.by_rows else (x, factor) for x in loaded]  # `a` is uint8 of fours
            new.append(
                [emit_add_product(builder, word, *p, node) for p, node in zip(pairs, nodes, strict=True)]
            )
        return new

    def starts(self, builder: Any, first: Any, kind: Any, rows: int, vectors: int) -> list[list[Any]]:
        """What sums start at, [row][vector]: one line of `b`, from `first` on."""
        if self.by_rows:
            vector = ir.VectorType(kind, LANES)
            return [[_load(builder, first, INDEX(v * LANES), vector) for v in range(vectors)]] * rows
        values = [_load(builder, first, INDEX(r), kind) for r in range(rows)]
        return [[everywhere(builder, value)] * vectors for value in values]


def everywhere(builder: Any, value: Any) -> Any:
    """A vector of LANES times the value."""
    blank, all_first = (
        ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined),
        ir.Constant(ir.VectorType(INT32, LANES), None),
    )
    return builder.shuffle_vector(builder.insert_element(blank, value, INT32(0)), blank, all_first)


def _never_unroll(module: Any, branch: Any) -> None:
    """Keep the loop that `branch` closes as it is: two turns of vpdpbusd do not fit the registers."""
    off = module.add_metadata([ir.MetaDataString(module, "llvm.loop.unroll.disable")])
    name = ir.MDValue(module, [off], name=str(len(module.metadata)))
    name.operands = (name, off)  # what names a loop names itself first
    branch.set_metadata("llvm.loop", name)


def _emit_tile(builder: Any, walk: _Walk, runs: Any, run0: Any, run1: Any, b: Any, word: Any,
               starts: Any) -> Any:  # fmt: skip
    """The two loops, over runs and over the words of a run; returns the sums [row][vector].

    starts: what the sums start at, [row][vector]
    """
    total, shape, entry = starts[0][0].type, (len(starts), len(starts[0])), builder.block
    names = "tile.run", "tile.word", "tile.next", "tile.end"
    run_block, word_block, next_run, end = map(builder.append_basic_block, names)
    builder.branch(run_block)

    builder.position_at_end(run_block)
    run = builder.phi(INDEX)
    run_sums = _Sums(builder, total, *shape)
    at = builder.mul(run, INDEX(3))
    first, length, place = (builder.load(builder.gep(runs, [builder.add(at, INDEX(i))])) for i in range(3))
    run_b = builder.gep(b, [builder.mul(place, walk.line)])
    builder.branch(word_block)

    builder.position_at_end(word_block)
    offset, left, word_b = builder.phi(INDEX), builder.phi(INDEX), builder.phi(b.type)
    sums = _Sums(builder, total, *shape)
    new, following = walk.emit(builder, offset, word_b, word, sums), builder.add(offset, walk.step)
    rest, next_b = builder.sub(left, INDEX(1)), builder.gep(word_b, [walk.line])
    again = builder.cbranch(builder.icmp_signed(">", rest, INDEX(0)), word_block, next_run)
    if word == types.uint32:
        _never_unroll(builder.module, again)
    for node, start, again in ((offset, first, following), (left, length, rest), (word_b, run_b, next_b)):
        node.add_incoming(start, run_block)
        node.add_incoming(again, word_block)
    sums.comes(run_sums.nodes, run_block)
    sums.comes(new, word_block)

    builder.position_at_end(next_run)
    after = builder.add(run, INDEX(1))
    builder.cbranch(builder.icmp_signed("<", after, run1), run_block, end)
    run.add_incoming(run0, entry)
    run.add_incoming(after, next_run)
    run_sums.comes(starts, entry)
    run_sums.comes(new, next_run)

    builder.position_at_end(end)
    return new


def _emit_store(builder: Any, sums: Any, place: Any, stride: Any) -> None:
    """The sums [row][vector] to `place`, rows `stride` apart."""
    for r, row in enumerate(sums):
        start = builder.gep(place, [builder.mul(stride, INDEX(r))])
        for v, value in enumerate(row):
            _store(builder, value, start, INDEX(v * LANES))


def listed(builder: Any, table: Any, base: Any, count: int) -> list[Any]:
    """Pointers base + table[i]."""
    offsets = [builder.load(builder.gep(table, [INDEX(i)])) for i in range(count)]
    return [builder.gep(base, [offset]) for offset in offsets]


def _emit_meeting(builder: Any, sums: Any, met: Any, place: Any) -> tuple[Any, Any]:
    """The sums plus those of `met` tiles of scratch before `place`; (the totals, the place of the last)."""
    kind, rows, width = sums[0][0].type, len(sums), len(sums[0]) * LANES
    add = builder.fadd if kind.element in REAL.values() else builder.add
    entry = builder.block
    meet, body, end = map(builder.append_basic_block, ("tile.meet", "tile.met", "tile.total"))
    builder.branch(meet)

    builder.position_at_end(meet)
    left, here = builder.phi(INDEX), builder.phi(place.type)
    totals = _Sums(builder, kind, rows, len(sums[0]))
    builder.cbranch(builder.icmp_signed(">", left, INDEX(0)), body, end)

    builder.position_at_end(body)
    before = builder.gep(here, [INDEX(-rows * width)])
    new = [
        [add(_load(builder, before, INDEX(r * width + v * LANES), kind), x) for v, x in enumerate(row)]
        for r, row in enumerate(totals.nodes)
    ]
    less = builder.sub(left, INDEX(1))
    builder.branch(meet)
    for node, start, again in ((left, met, less), (here, place, before)):
        node.add_incoming(start, entry)
        node.add_incoming(again, body)
    totals.comes(sums, entry)
    totals.comes(new, body)

    builder.position_at_end(end)
    return totals.nodes, here


def first_run(builder: Any, ends: Any, group: Any) -> Any:
    """The run that a group begins with: the end of the one before it."""
    follows = builder.icmp_signed(">", group, INDEX(0))
    before = builder.select(follows, builder.sub(group, INDEX(1)), INDEX(0))
    return builder.select(follows, builder.load(builder.gep(ends, [before])), INDEX(0))


def _emit_groups(builder: Any, ends: Any, met: Any, groups: Any, stack: Any, chain: Any) -> Any:
    """The loop over groups; `chain` emits the sums of runs run0 .. run1-1 of one. Returns the last."""
    (first, last), entry = groups, builder.block
    run0 = first_run(builder, ends, first)
    names = "tile.group", "tile.keep", "tile.root"
    group_block, keep, end = map(builder.append_basic_block, names)
    builder.branch(group_block)

    builder.position_at_end(group_block)
    group, run, place = builder.phi(INDEX), builder.phi(INDEX), builder.phi(stack.type)
    run1 = builder.load(builder.gep(ends, [group]))
    sums, here = _emit_meeting(
        builder, chain(group, run, run1), builder.load(builder.gep(met, [group])), place
    )
    after, width = builder.add(group, INDEX(1)), len(sums[0]) * LANES
    builder.cbranch(builder.icmp_signed("<", after, last), keep, end)

    builder.position_at_end(keep)
    _emit_store(builder, sums, here, INDEX(width))
    above = builder.gep(here, [INDEX(len(sums) * width)])
    builder.branch(group_block)
    for node, start, again in ((group, first, after), (run, run0, run1), (place, stack, above)):
        node.add_incoming(start, entry)
        node.add_incoming(again, keep)

    builder.position_at_end(end)
    return sums


class Given:
    """The arguments of `tile.multiply_rows` or `tile.multiply_columns` by their names."""

    def __init__(self, context: Any, builder: Any, names: str, kinds: Any, values: Any) -> None:
        self.context, self.builder = context, builder
        self.kinds = dict(zip(names.split(), kinds, strict=True))
        self.values = dict(zip(names.split(), values, strict=True))

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def pointer(self, array: str, at: str = "") -> Any:
        """Where an array lies, or its element `at`."""
        offset = self[at] if at else INDEX(0)
        return _pointer(self.context, self.builder, self.kinds[array], self[array], offset)


def _emit_sums(given: Given, walk: _Walk, rows: int, vectors: int) -> Any:
    """The sums of all groups, [row][vector]."""
    builder, word, total = given.builder, given.kinds["a"].dtype, given.kinds["out"].dtype
    kind, runs, b = ir.VectorType(LLVM[total], LANES), given.pointer("runs"), given.pointer("b", "b_at")

    def chain(group: Any, run0: Any, run1: Any) -> Any:
        starts = [[ir.Constant(kind, None)] * vectors] * rows
        if word == types.uint32:
            first = builder.gep(b, [builder.mul(builder.not_(group), walk.line)])  # ~group is -(group + 1)
            starts = walk.starts(builder, first, LLVM[total], rows, vectors)
        return _emit_tile(builder, walk, runs, run0, run1, b, word, starts)

    ends, met, stack = map(given.pointer, ("ends", "met", "stack"))
    sums = _emit_groups(builder, ends, met, (given["group0"], given["group1"]), stack, chain)
    if total not in REAL:
        return sums
    # -0 becomes +0. Once is enough: a sum of groups is the same with either zero unless all are zero
    return [[builder.fadd(value, ir.Constant(kind, None)) for value in row] for row in sums]


def _emit_by_rows(given: Given, vectors: int) -> None:
    """The body of `multiply_rows`."""
    builder = given.builder
    pointers = listed(builder, given.pointer("rows", "row0"), given.pointer("a", "base"), ROWS)
    walk = _Walk(pointers, True, INDEX(1), INDEX(vectors * LANES))
    sums = _emit_sums(given, walk, ROWS, vectors)
    _emit_store(builder, sums, given.pointer("out", "at"), given["stride"])


def _emit_by_columns(given: Given) -> None:
    """The body of `multiply_columns`."""
    builder, vectors = given.builder, vectors_of(as_dtype(given.kinds["out"].dtype))
    pointers = listed(builder, given.pointer("columns", "column0"), given.pointer("a"), vectors)
    walk = _Walk(pointers, False, given["step"], given["line"])
    sums = _emit_sums(given, walk, OUTPUTS, vectors)
    _emit_store(builder, sums, given.pointer("out", "at"), given["stride"])


_NAMES_BY_ROWS = "out at stride a rows row0 base runs group0 group1 b b_at ends met stack"
_NAMES_BY_COLUMNS = "out at stride a columns column0 step runs group0 group1 b b_at line ends met stack"


def rows_code(emit: Callable[[Given, int], None], vectors: int) -> Any:
    """The intrinsic behind `multiply_rows`, whose body `emit` makes."""

    def typed(ctx: Any, out: Any, at: Any, stride: Any, a: Any, rows: Any, row0: Any, base: Any, runs: Any,
              group0: Any, group1: Any, b: Any, b_at: Any, ends: Any, met: Any,
              stack: Any) -> Any:  # fmt: skip
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            emit(Given(context, builder, _NAMES_BY_ROWS, signature.args, args), vectors)
            return context.get_dummy_value()

        n = types.int64
        return types.void(out, n, n, a, rows, n, n, runs, n, n, b, n, ends, met, stack), codegen

    return intrinsic(typed)


def _columns_typed(ctx: Any, out: Any, at: Any, stride: Any, a: Any, columns: Any, column0: Any, step: Any,
                   runs: Any, group0: Any, group1: Any, b: Any, b_at: Any, line: Any, ends: Any, met: Any,
                   stack: Any) -> Any:  # fmt: skip
    """The intrinsic behind `multiply_columns`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _emit_by_columns(Given(context, builder, _NAMES_BY_COLUMNS, signature.args, args))
        return context.get_dummy_value()

    n = types.int64
    return types.void(out, n, n, a, columns, n, n, runs, n, n, b, n, n, ends, met, stack), codegen


rows1, rows2 = (rows_code(_emit_by_rows, vectors) for vectors in (1, 2))
columns: Any = intrinsic(_columns_typed)
