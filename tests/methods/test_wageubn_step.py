"""A whole WAGEUBN step of a small residual net: every tensor of every layer equals the oracle's."""

from __future__ import annotations

import pytest

from tests.support.opcheck import threads
from tests.support.stepping import Case, run_case
from tests.support.two_worlds import differences

pytestmark = pytest.mark.slow

CASES = [
    Case(),
    Case(seed=2, batch=1, e2="16"),
    Case(seed=3, batch=5, images="faint", dr=(64, 128), lr=(1, 511)),
    Case(seed=4, e2="16", images="faint", weights="ties", lr=(511, 26), dr=(2, 1)),
    Case(seed=5, weights="ties"),
    Case(seed=6, weights="extreme", lr=(511, 511)),
    Case(seed=7, weights="extreme", e2="16", lr=(26, 3)),
    Case(seed=8, images="zero"),
    Case(seed=9, images="zero", e2="16", batch=2),
    Case(seed=10, images="zero", weights="dead"),
    Case(seed=11, images="zero", weights="dead", e2="16"),
    Case(seed=12, edges="fixed16"),
    Case(seed=13, edges="fixed16", e2="16", weights="extreme", lr=(511, 511)),
    Case(seed=14, edges="fixed16", images="zero", weights="dead", batch=1),
    Case(seed=2**63 + 12345, first_step=2**31 + 7, batch=2),
    Case(seed=15, first="block"),
    Case(seed=16, first="block", e2="16", batch=1),
    Case(seed=17, first="block", weights="extreme", lr=(511, 511)),
    Case(seed=18, first="block", weights="ties", images="faint", batch=5),
    Case(seed=19, first="block", weights="dead", images="zero"),
    Case(seed=20, first="block", batch=20),  # of two groups of images
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_two_steps_equal_the_oracle(case: Case) -> None:
    first, second = run_case(case, steps=2)
    assert differences(first) == []
    assert differences(second) == []


@pytest.mark.parametrize("first", ["layer", "block"])
@pytest.mark.parametrize("n", [1, 2])
def test_threads_do_not_change_a_bit(n: int, first: str) -> None:
    with threads(n):
        assert differences(run_case(Case(seed=21, first=first))[0]) == []
