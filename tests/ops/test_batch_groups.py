"""Sums over a batch: equal to the definition, and the same bits wherever whole groups of images are summed.

SUMS has every float32 sum over a batch as a function of images first .. end - 1, whose result is not divided
yet. A part of a batch is made by calling it on blocks that are nodes of the tree; the tree that joins them is
this file's own (`meet`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

from intnet import datasets, methods, models, spec
from intnet.exact.blocks import bucket_loops
from intnet.numbers import batch_sums
from intnet.ops.kernels import depthwise, float32_rows, position_sums, tiles
from intnet.ops.kernels import float_products as float32
from intnet.runs import definition
from intnet.spec import buckets
from intnet.spec import convolution as definition_of
from intnet.spec import float32 as exact
from intnet.training.train import Run
from tests.support.faults import Patch, caught, run_from_source
from tests.support.float_oracle import F32, add_oracle, chunked, draw, ints, same, scaled, to_float
from tests.support.opcheck import tensor, threads

loss = importlib.import_module("intnet.ops.loss")
GROUP = 16
BATCHES = (1, 15, 16, 17, 33, 48, 50, 80)
Range = tuple[int, int]


class Sum(NamedTuple):
    """fast(first, end): the sum of these images, flat; exact(): the definition's of all, as float32."""

    fast: Callable[[int, int], F32]
    exact: Callable[[], F32]


def as_float32(values: Sequence[Fraction]) -> F32:
    return np.array([float(v) for v in values], np.float32)


def convolution(batch: int, size: int, channels: int, outputs: int, kernel: int, groups: int) -> Sum:
    """The weight gradient of a convolution that keeps the size."""
    x, e = draw(1, batch, size, size, channels), draw(2, batch, size, size, outputs)
    shape, around = (outputs, channels // groups, kernel, kernel), kernel // 2

    def fast(first: int, end: int) -> F32:
        given = e[first:end], x[first:end], (kernel, kernel), (1, 1), (around, around), groups
        return float32.conv2d_weight_grad(*given).reshape(-1)

    def judge() -> F32:
        made = definition_of.conv32_weight_grad(tensor(e), tensor(x), shape, 1, around, groups)
        return as_float32(made.values)

    return Sum(fast, judge)


def linear(batch: int) -> Sum:
    e, x = draw(3, batch, 3), draw(4, batch, 5)
    return Sum(
        lambda first, end: float32.matmul_tn(e[first:end], x[first:end]).reshape(-1),
        lambda: as_float32(definition_of.conv32_weight_grad(tensor(e), tensor(x), (3, 5)).values),
    )


def columns(x: F32) -> list[list[Fraction]]:
    c = x.shape[-1]
    return [tensor(x).values[k::c] for k in range(c)]


def rows(batch: int, size: int, which: str) -> Sum:
    """Sums over rows of (batch, size, size, 3)."""
    x, e = draw(5, batch, size, size, 3), draw(6, batch, size, size, 3)
    mean, r = draw(7, 2, 3)

    def fast(first: int, end: int) -> F32:
        if which == "sum":
            return float32_rows.sum_rows(x[first:end])
        if which == "squares":
            return float32_rows.centred_squares(x[first:end], mean)
        return np.concatenate(float32_rows.error_sums(e[first:end], x[first:end], mean, r))

    def judge() -> F32:
        if which == "sum":
            return as_float32([exact.batch_sum32(v, size**2) for v in columns(x)])
        centred = columns(x - mean)
        if which == "squares":
            return as_float32([exact.batch_dot32(d, d, size**2) for d in centred])
        sums = [exact.batch_sum32(v, size**2) for v in columns(e)]
        pairs = zip(columns(e), columns((x - mean) * r), strict=True)
        return as_float32([*sums, *(exact.batch_dot32(v, d, size**2) for v, d in pairs)])

    return Sum(fast, judge)


def losses(batch: int) -> Sum:
    logits, labels = draw(8, batch, 4), np.arange(batch) % 4
    one, zero = np.float32(1), np.float32(0)

    def fast(first: int, end: int) -> F32:
        stack = np.empty((8, 1), np.float32)
        p = np.empty((end - first, 4), np.float32)
        return np.array(
            [loss._softmax(logits[first:end], labels[first:end], one, zero, p, stack)], np.float32
        )

    def judge() -> F32:
        each = [fast(n, n + 1) for n in range(batch)]  # a row alone is judged in test_ops_loss
        return as_float32([exact.batch_sum32(tensor(np.concatenate(each)).values)])

    return Sum(fast, judge)


def squares(batch: int, elements: int) -> Sum:
    """The squares of a bucket that is the whole tensor."""
    x = draw(9, batch, elements)

    def fast(first: int, end: int) -> F32:
        piece = x[first:end].reshape(-1)
        made = bucket_loops.sum_of_squares(piece, first * elements, GROUP * elements)
        return np.array([made], np.float32)

    def judge() -> F32:
        units = [int(v * exact.ONE) for v in tensor(x).values]
        return as_float32([Fraction(buckets.sum_of_squares(units, 0, elements), exact.ONE)])

    return Sum(fast, judge)


SUMS: dict[str, Callable[[int], Sum]] = {
    "convolution of 1 position": lambda n: convolution(n, 1, 2, 3, 1, 1),
    "convolution": lambda n: convolution(n, 2, 2, 3, 3, 1),
    "grouped convolution": lambda n: convolution(n, 3, 4, 4, 3, 2),
    "depthwise": lambda n: convolution(n, 2, 3, 3, 3, 3),
    "linear": linear,
    "rows": lambda n: rows(n, 2, "sum"),
    "squares of rows": lambda n: rows(n, 1, "squares"),
    "errors of rows": lambda n: rows(n, 2, "errors"),
    "loss": losses,
    "squares of a bucket": lambda n: squares(n, 7),
}
LARGE: dict[str, Callable[[int], Sum]] = {  # 81 positions an image: 1,296 a group
    "convolution": lambda n: convolution(n, 9, 1, 2, 1, 1),
    "depthwise": lambda n: convolution(n, 9, 2, 2, 1, 2),
    "rows": lambda n: rows(n, 9, "sum"),
    "squares of rows": lambda n: rows(n, 9, "squares"),
    "errors of rows": lambda n: rows(n, 9, "errors"),
    "squares of a bucket": lambda n: squares(n, 81),
}
EVERY = [(name, made, batch) for name, made in SUMS.items() for batch in BATCHES]
EVERY += [(f"large {name}", made, batch) for name, made in LARGE.items() for batch in (16, 33, 50)]
every = pytest.mark.parametrize(
    ("made", "batch"), [e[1:] for e in EVERY], ids=[f"{e[0]}-{e[2]}" for e in EVERY]
)


# -- the tree, again ---------------------------------------------------------------------------------


def nodes_of(first: int, end: int) -> list[Range]:
    """Groups first .. end - 1 as the greatest nodes: (2^k groups, number of the node among its like)."""
    out = []
    while first < end:
        size = 1
        while first % (2 * size) == 0 and first + 2 * size <= end:
            size *= 2
        out.append((size, first // size))
        first += size
    return out


def meet(nodes: dict[Range, Any], groups: int, add: Callable[[Any, Any], Any]) -> Any:
    """The root of the tree over all groups."""

    def value(size: int, number: int) -> Any:
        if (size, number) in nodes:
            return nodes[size, number]
        left, middle = value(size // 2, 2 * number), (2 * number + 1) * (size // 2)
        return add(left, value(size // 2, 2 * number + 1)) if middle < groups else left

    return value(1 << (groups - 1).bit_length(), 0)


def in_parts(fast: Callable[[int, int], F32], batch: int, borders: Sequence[int]) -> F32:
    """The sum from parts that begin at groups `borders`, each of which makes its nodes alone."""
    groups, found = -(-batch // GROUP), {}
    for first, end in zip([0, *borders], [*borders, groups], strict=True):
        for size, number in nodes_of(first, end):
            found[size, number] = fast(size * number * GROUP, min(size * (number + 1) * GROUP, batch))
    with np.errstate(over="ignore"):
        return np.asarray(meet(found, groups, np.add), np.float32)


# -- sums --------------------------------------------------------------------------------------------


@pytest.mark.slow
@every
def test_a_sum_is_the_definitions(made: Callable[[int], Sum], batch: int) -> None:
    one = made(batch)
    same(one.fast(0, batch), one.exact())


@pytest.mark.slow
@every
def test_parts_and_threads_do_not_change_a_bit(made: Callable[[int], Sum], batch: int) -> None:
    fast, groups = made(batch).fast, -(-batch // GROUP)
    whole = fast(0, batch)
    for borders in ([], [groups // 2], [1], [1, groups - 1], list(range(1, groups))):
        if all(a < b for a, b in zip([0, *borders], [*borders, groups], strict=True)):
            same(in_parts(fast, batch, borders), whole)
    for n in (1, 2):
        with threads(n):
            same(fast(0, batch), whole)


@pytest.mark.parametrize("held", [1, 100, 1000])
def test_chunk_sums_held_in_turns_are_the_same(held: int, monkeypatch: Patch) -> None:
    """A part of a group at a time, one group, and several."""
    many = [convolution(batch, size, 3, 5, 3, 1) for batch, size in ((80, 9), (80, 8), (130, 3), (300, 1))]
    whole = [one.fast(0, len_) for one, len_ in zip(many, (80, 80, 130, 300), strict=True)]
    monkeypatch.setattr(float32, "_HELD_WORDS", held)
    for one, batch, want in zip(many, (80, 80, 130, 300), whole, strict=True):
        same(one.fast(0, batch), want)


def test_rows_of_large_batches() -> None:
    """Many groups, and the whole stack: 1,000 images of one row."""
    x = draw(1, 1000, 3)
    want = [exact.batch_sum32(v) for v in columns(x)]
    same(float32_rows.sum_rows(x), as_float32(want))
    same(float32.matmul_tn(np.ones((1000, 1), np.float32), x)[0], as_float32(want))


def other_orders(terms: list[tuple[int, int]], per_image: int) -> dict[str, int]:
    """The sum of five groups in the right order and in wrong ones."""

    def groups(size: int) -> list[int]:
        size *= per_image
        return [chunked(terms[k : k + size]) for k in range(0, len(terms), size)]

    def tree(sums: list[int]) -> int:
        return int(meet({(1, k): v for k, v in enumerate(sums)}, len(sums), add_oracle))

    of = groups(GROUP)
    chain = of[0]
    for v in of[1:]:
        chain = add_oracle(chain, v)
    early = add_oracle(add_oracle(of[0], of[1]), add_oracle(add_oracle(of[2], of[3]), of[4]))
    going_on = chunked(terms[: 3 * GROUP * per_image]), chunked(terms[3 * GROUP * per_image :])
    others = {f"groups of {size}": tree(groups(size)) for size in (8, 15, 17, 32)}
    made = {"right": tree(of), "chain": chain, "early": early, "one": chunked(terms)}
    return made | others | {"chunks that go on": add_oracle(*going_on)}


@pytest.mark.slow
def test_the_data_tells_other_orders_apart() -> None:
    """Other groups, a chain of groups, an odd last one that goes up early, and chunks that go on."""
    x, one = draw(11, 80, 9, 9, 8), scaled(np.float32(1))
    columns = [other_orders([(v, one) for v in column], 81) for column in ints(x).reshape(-1, 8).T]
    same(float32_rows.sum_rows(x), np.array([to_float(c["right"]) for c in columns], np.float32))
    for name in columns[0]:
        assert name == "right" or any(c[name] != c["right"] for c in columns), name


# -- a training --------------------------------------------------------------------------------------


def trained(method: str, model: str, steps: int = 2) -> str:
    data = datasets.load("digits")
    run = Run(models.make(model, data.image_shape, data.classes), methods.make(method), data, batch_size=80)
    run.train(steps)
    return run.digest()


def of_parts(function: Callable[..., Any], operands: int) -> Callable[..., Any]:
    """`function` of a batch in three parts; its first `operands` arguments have the batch on axis 0."""

    def made(*given: Any, **more: Any) -> Any:
        batch, several = len(given[0]), False
        if batch <= GROUP:
            return function(*given, **more)

        def fast(first: int, end: int) -> F32:
            nonlocal several
            result = function(*(x[first:end] for x in given[:operands]), *given[operands:], **more)
            several = isinstance(result, tuple)
            return np.stack(result) if several else result

        groups = -(-batch // GROUP)
        total = in_parts(fast, batch, [1, groups - 1] if groups > 2 else [1])
        return tuple(np.ascontiguousarray(line) for line in total) if several else total

    return made


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "model"),
    [("float32", "resnet8"), ("float32", "mlp"), ("adapt", "resnet8"), ("wageubn", "mlp")],
)
def test_a_training_whose_sums_are_made_in_parts(method: str, model: str, monkeypatch: Patch) -> None:
    want = trained(method, model)
    used = set()

    def patch(module: Any, name: str, operands: int) -> None:
        parts = of_parts(getattr(module, name), operands)

        def seen(*given: Any, **more: Any) -> Any:
            used.add(name)
            return parts(*given, **more)

        monkeypatch.setattr(module, name, seen)

    for name in ("conv2d_weight_grad", "matmul_tn"):
        patch(float32, name, 2)
    for name, operands in (("sum_rows", 1), ("centred_squares", 1), ("error_sums", 2)):
        patch(float32_rows, name, operands)
    softmax = loss._softmax

    def loss_of_parts(logits: F32, labels: Any, on: Any, off: Any, p: F32, stack: F32) -> Any:
        used.add("loss")
        return in_parts(
            lambda a, b: np.float32(softmax(logits[a:b], labels[a:b], on, off, p[a:b], stack)),
            len(logits),
            [1, 4],
        )

    monkeypatch.setattr(loss, "_softmax", loss_of_parts)
    assert trained(method, model) == want
    assert {"loss", "matmul_tn"} <= used


# -- seeded faults -----------------------------------------------------------------------------------

MODULES = (batch_sums, depthwise, float32_rows, tiles, position_sums, float32, loss, bucket_loops)
MET = "    met = 0\n"
CHUNK_ROWS = "return begin, min(begin + CHUNK, (group + 1) * size, rows)"
FAULTS: dict[str, tuple[Any, str, str, str]] = {
    "groups of 15": (batch_sums, "GROUP = 16 ", "GROUP = 15 ", "rows"),
    "groups of 32": (batch_sums, "GROUP = 16 ", "GROUP = 32 ", "linear"),
    "groups of 8 for the loss": (batch_sums, "GROUP = 16 ", "GROUP = 8 ", "loss"),
    "a chain of groups": (batch_sums, MET, f"    return min(group, 1)\n{MET}", "rows"),
    "a chain of tiles": (batch_sums, MET, f"    return min(group, 1)\n{MET}", "linear"),
    "a chain of squares": (
        batch_sums, MET, f"    return min(group, 1)\n{MET}", "squares of a bucket"),
    "an odd last one early": (
        batch_sums, "while group > 0 and (last or group & 1):",
        "group = group if last else group & 1\n    while group > 0 and (last or group & 1):", "rows"),
    "chunks that go on": (
        batch_sums, CHUNK_ROWS, "return chunk * CHUNK, min((chunk + 1) * CHUNK, rows)", "large rows"),
    "one chain of all chunk sums": (
        float32, "source, now, of_unit, levels", "source, now, now, levels", "large convolution"),
    "groups by the window, not the image": (
        position_sums, "(n + 1) % GROUP == 0", "m % GROUP == 0", "convolution"),
    "squares by the bucket's own groups": (
        bucket_loops, "group, last = first // of_group,", "first = 0\n    group, last = first // of_group,",
        "bucket across a border"),
}  # fmt: skip


def across() -> None:
    """A bucket that begins and ends inside groups."""
    x = draw(9, 40, 7).reshape(-1)[100:300]
    made = np.array([bucket_loops.sum_of_squares(x, 100, GROUP * 7)], np.float32)
    units = [int(v * exact.ONE) for v in tensor(x).values]
    same(made, as_float32([Fraction(buckets.sum_of_squares(units, 100, 7), exact.ONE)]))


def sweep(name: str) -> Callable[[], None]:
    if name == "bucket across a border":
        return across
    made = LARGE[name.removeprefix("large ")] if name.startswith("large ") else SUMS[name]

    def run() -> None:
        for batch in (33, 80, 200):
            one = made(batch)
            same(one.fast(0, batch), one.exact())

    return run


def from_source(patch: Patch, changed: Any = None, old: str = "", new: str = "") -> None:
    """All these modules uncompiled, one of them changed."""
    for module in MODULES:
        run_from_source(patch, module, *((old, new) if module is changed else ("", "")), users=MODULES)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({fault[3] for fault in FAULTS.values()}))
def test_without_a_fault_every_sweep_passes(name: str, monkeypatch: Patch) -> None:
    from_source(monkeypatch)
    assert not caught(sweep(name))


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_caught(fault: str, monkeypatch: Patch) -> None:
    module, old, new, name = FAULTS[fault]
    from_source(monkeypatch, module, old, new)
    assert caught(sweep(name))


# -- one definition ----------------------------------------------------------------------------------


def test_both_rooms_have_one_version_and_one_group() -> None:
    assert definition.VERSION == spec.VERSION
    assert batch_sums.GROUP == exact.GROUP == GROUP
