"""Ranks train together: bits, losses, counts and tests are those of one process, under every method."""

from typing import Any

import numpy as np
import pytest

from intnet.machine.ranks import current
from intnet.methods.trace import PathRow, PathTable
from intnet.numbers import shares
from intnet.runs import rank_messages
from tests.support.pipes import together
from tests.support.shared_run import all_trained, trained

PLAIN: list[tuple[Any, ...]] = [("wageubn", "mlp", {}), ("float32", "mlp", {})]
FEW: list[tuple[Any, ...]] = [
    *(("float32", "dropped", {}, "crop=1,flip", batch) for batch in (96, 16)),
    ("wageubn", "dropped", {}, None, 96),
    ("wageubn", "mlp", {}, "flip", 16),
]
METHODS = ("wageubn", "float32", "adapt", "muppet", "dynasty", "saved", "banner", "mx")
EVERY: list[tuple[Any, ...]] = [
    *((method, "resnet8", {}) for method in METHODS),
    ("wageubn", "resnet8", {"edges": "fixed16", "saved.bits": "4"}, "crop=1,flip"),
    ("float32", "resnet8", {"optimizer": "adamw", "clip": 1.0, "statistics": "batch", "accs": 2}),
    ("adapt", "mlp", {"lookback": "2-3", "rop": 1}),
    ("muppet", "mlp", {"resolution": 1, "patience": 1, "saved.bits": "4"}),
    ("saved", "resnet8", {"bits": "2/4", "bucket": 100}),  # buckets reach over from rank to rank
    ("saved", "resnet8", {"codec": "levels", "norm": "l2", "bucket": 100}),
    ("saved", "resnet8", {"codec": "levels", "norm": "l2", "bucket": "tensor"}),
    ("saved", "resnet8", {"codec": "symmetric", "storage": "on_backward"}),
    ("mx", "resnet8", {"format": "MXFP4/ceil/stochastic"}),  # 32 images of a block, on two ranks
]


@pytest.fixture(scope="module")
def alone() -> list[dict[str, Any]]:
    """What this process makes of EVERY."""
    return all_trained(EVERY)


def check(ranks: int, cases: list[tuple[Any, ...]], alone: list[dict[str, Any]]) -> None:
    for found in together(ranks, all_trained, cases):
        for case, one, mine in zip(cases, alone, found, strict=True):
            assert mine == one, f"{case} on {ranks} ranks"


@pytest.mark.slow
def test_two_ranks_train_what_one_process_trains() -> None:
    """Three steps, the second of 54 images: groups of 3 and 3, then 2 and 2."""
    check(2, PLAIN, all_trained(PLAIN))


@pytest.mark.slow
def test_dropout_and_a_batch_of_one_group() -> None:
    """Masks are by an element's number in the batch; of one group two ranks of three are idle."""
    check(3, FEW, all_trained(FEW))


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [3, 7])
def test_any_number_of_ranks_under_every_method(ranks: int, alone: list[dict[str, Any]]) -> None:
    """Of seven ranks some have no images: batches have six groups, and four."""
    check(ranks, EVERY, alone)


def labelled(widths: list[tuple[int, int]]) -> dict[str, Any]:
    """What a report tells of a tensor in blocks, of which this rank has `elements` of `width` bits."""
    world = current()
    assert world is not None
    table = PathTable()
    total, size = sum(w * n for w, n in widths[world.rank :: 3]), sum(n for _, n in widths[world.rank :: 3])
    widest = max(w for w, _ in widths[world.rank :: 3])
    row = PathRow("fc1", "x0", f"BFP({widest})", widest, mean=total / size, elements=size)
    table.rows["fc1", "x0"] = row
    (found,) = rank_messages.path_table(table).rows.values()
    return {"format": found.format, "nominal": found.nominal, "mean": found.mean}


@pytest.mark.slow
def test_blocks_of_several_widths_are_told_as_of_one_process() -> None:
    """The format of the widest, the mean width by one division; as 4.065 is not by two."""
    widths = [(4, 30000), (6, 1000), (4, 20003), (3, 9997), (4, 10013), (6, 5787)]
    total, size = sum(w * n for w, n in widths), sum(n for _, n in widths)
    for found in together(3, labelled, widths):
        assert found == {"format": "BFP(6)", "nominal": 6, "mean": total / size}


def chained(*case: Any) -> dict[str, Any]:
    """`trained`, where float32 sums of ranks are added one after another: not the tree of the definition."""
    shares.tree = lambda sums, groups: np.sum([sums[node] for node in sorted(sums)][::-1], axis=0)
    return trained(*case)


@pytest.mark.slow
def test_ranks_that_add_in_another_order_are_found() -> None:
    case = ("float32", "resnet8", {})
    assert {found["digest"] for found in together(6, chained, *case)} != {trained(*case)["digest"]}
