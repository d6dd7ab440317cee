"""A batch in parts: who has which groups, which nodes of the tree they are, and how sums meet again."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet.machine.ranks import current
from intnet.numbers import shares
from intnet.numbers.batch_sums import GROUP
from intnet.numbers.qtensor import QTensor
from intnet.numbers.shares import Share, division, nodes, tree
from intnet.ops import elementwise
from intnet.ops.kernels import float32_rows
from intnet.spec import float32 as spec
from tests.support.pipes import together

IMAGES, RANKS = st.integers(1, 40 * GROUP), st.integers(1, 9)


@given(IMAGES, RANKS)
def test_every_group_is_one_rank_s(images: int, ranks: int) -> None:
    parts = division(images, ranks)
    groups = [group for begin, end in parts for group in range(begin, end)]
    assert groups == list(range(-(-images // GROUP)))
    sizes = [end - begin for begin, end in parts]
    assert max(sizes) - min(sizes) <= 1


@given(IMAGES, RANKS)
def test_nodes_are_blocks_of_the_tree(images: int, ranks: int) -> None:
    groups = -(-images // GROUP)
    for begin, end in division(images, ranks):
        covered: list[int] = []
        for first, span in nodes(begin, end, groups):
            assert span & (span - 1) == 0 and first % span == 0
            covered += range(first, min(first + span, groups))
        assert covered == list(range(begin, end))


@given(st.integers(1, 9 * GROUP), RANKS, st.integers(0, 2**32 - 1))
def test_parts_meet_as_the_definition_sums(images: int, ranks: int, seed: int) -> None:
    """Each node by the definition, as a batch of its own; the tree of them is the definition of the batch."""
    x = np.random.default_rng(seed).standard_normal(images).astype(np.float32)
    exact = [Fraction(float(value)) for value in x]
    groups, sums = -(-images // GROUP), {}
    for begin, end in division(images, ranks):
        for first, span in nodes(begin, end, groups):
            own = spec.batch_sum32(exact[first * GROUP : (first + span) * GROUP])
            sums[first, span] = np.array([float(own)], np.float32)
    assert Fraction(float(tree(sums, groups)[0])) == spec.batch_sum32(exact)


def test_another_order_is_another_sum() -> None:
    """Else the test above could not fail: a chain of the groups is not their tree."""
    x = (np.random.default_rng(1).standard_normal(64 * GROUP) * 1000).astype(np.float32)
    sums = [np.float32(spec.batch_sum32([Fraction(float(v)) for v in part])) for part in x.reshape(-1, GROUP)]
    chain = np.float32(0)
    for one in sums:
        chain += one
    whole = tree({(k, 1): np.array([one]) for k, one in enumerate(sums)}, len(sums))
    assert chain != whole[0]


# -- on ranks ----------------------------------------------------------------------------------


def batch(images: int) -> np.ndarray:
    return np.random.default_rng(images).standard_normal((images, 3, 5)).astype(np.float32)


def codes(images: int) -> np.ndarray:
    return np.random.default_rng(images).integers(-9, 10, (images, 4)).astype(np.int32)


def measured(images: int) -> dict[str, object]:
    """All that `shares` makes of a rank's part of the batches above."""
    world = current()
    assert world is not None
    share = Share(world, images)
    x, q = batch(images)[share.own], codes(images)[share.own]
    with shares.sharing(share):
        whole, ahead = shares.bordered(x, 7)
        (alike,) = shares.alike(QTensor(q, 0))
        first = shares.start(x.size)
        return {
            "sum": shares.folded(float32_rows.sum_rows, x),
            "integers": shares.totals(q.sum(axis=0, dtype=np.int32)),
            "rows": shares.rows(len(x)),
            "bound": alike.bound,
            "top": shares.greatest(x.max(axis=(0, 1))),
            "log2": shares.log2_max(3, False) if share.idle or share.first else shares.log2_max(-5, True),
            "nothing": shares.log2_max(3, False),
            "extremes": shares.extremes(Fraction(float(x.max())), Fraction(float(x.min()))),
            "largest": np.sort(shares.largest(np.abs(x).reshape(-1), 6)),
            "joined": shares.joined(x),
            "everywhere": shares.everywhere(bool(x.size)),
            "not": shares.everywhere(world.rank > 0),
            "borders": (whole, ahead, first, x.size),
            "idle": shares.idle(),
        }


@pytest.mark.slow
@pytest.mark.parametrize("images", [16, 41, 112])
def test_three_ranks_make_of_a_batch_what_one_process_makes(images: int) -> None:
    """Of 16 images two ranks have none, of 41 the groups are of 16, 16 and 9."""
    x, q = batch(images), codes(images)
    for found in together(3, measured, images):
        assert np.array_equal(found["sum"], float32_rows.sum_rows(x))
        assert np.array_equal(found["integers"], q.sum(axis=0))
        assert (found["rows"], found["bound"]) == (images, np.abs(q).max())
        assert np.array_equal(found["top"], x.max(axis=(0, 1)))
        assert (found["log2"], found["nothing"]) == (-5, 0)
        assert found["extremes"] == (Fraction(float(x.max())), Fraction(float(x.min())))
        assert np.array_equal(found["largest"], np.sort(np.abs(x).reshape(-1))[-6:])
        assert np.array_equal(found["joined"], x)
        assert (found["everywhere"], found["not"]) == (True, False)
        whole, ahead, first, size = found["borders"]
        begin = first // 7 * 7
        assert ahead == (first - begin if images > GROUP else 0)
        end = min(-(-(first + size) // 7) * 7, x.size)
        assert np.array_equal(whole.reshape(-1), x.reshape(-1)[begin:end])


def joined_bits(watched: bool) -> int:
    """Bits that a join is proven to fit, of branches whose greatest codes, 4 and 4, are on two ranks."""
    world = current()
    assert world is not None
    a = np.array([[3], [4]], np.int8)[world.rank :][:1].repeat(GROUP, axis=0)
    with shares.sharing(Share(world, 2 * GROUP, watched)):
        total = elementwise.join(QTensor(a, 0), QTensor(7 - a, 0))
        assert world.calls == (1 if watched else 0)
    bits: int = total.bits()
    return bits


@pytest.mark.slow
def test_the_bound_of_a_join_is_of_all_ranks_where_it_is_watched() -> None:
    """3 + 4 and 4 + 3 are below 8, the branches' greatest are not; unwatched nothing is sent."""
    assert together(2, joined_bits, True) == [(4 + 4).bit_length() + 1] * 2
    assert together(2, joined_bits, False) == [(3 + 4).bit_length() + 1] * 2


def test_alone_nothing_changes() -> None:
    x = batch(20)
    assert shares.joined(x) is x and shares.greatest(x) is x and shares.totals(x) is x
    assert shares.summed(float32_rows.sum_rows) is float32_rows.sum_rows
    assert (shares.rows(20), shares.start(20), shares.first_image(), shares.idle()) == (20, 0, 0, False)
    assert shares.bordered(x, 7) == (x, 0)
