"""Rounding to odd (`intnet/instructions.py: fma32`, `intnet/ops/blocks.py: _odd_sum`), and quotients.

The function runs on IEEE floats of p and of 2p + 2 bits: 24 and 50 <= 53 are those of float32 and float64,
here they are fewer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import z3

from intnet import instructions
from tests.proofs import search
from tests.proofs.floats import EVEN, Float, names
from tests.proofs.machine import Bit, assume, counterexample, prove
from tests.proofs.rules import on_terms, with_fault

Claim = Callable[[], Any]


def any_float(name: str, sort: Any) -> Any:
    """Any finite float."""
    term = z3.FP(name, sort)
    search.current().variables[name] = z3.fpToIEEEBV(term), None
    assume(z3.Not(z3.Or(z3.fpIsInf(term), z3.fpIsNaN(term))))
    return term


def same(a: Any, b: Any) -> Bit:
    """Equal, zeros of either sign too."""
    return Bit(z3.Or(z3.fpEQ(a, b), a == b))


def fused(bits: int) -> Callable[[Any], Claim]:
    """fma32 is the multiply-add of IEEE, rounded once, over all finite operands, subnormal results too."""
    narrow, wide = z3.FPSort(2, bits), z3.FPSort(5, 2 * bits + 2)

    def of(f: Any) -> Claim:
        def claim() -> Any:
            a, b, c = (any_float(name, narrow) for name in "abc")
            got = on_terms(f, names(narrow, wide))(Float(a), Float(b), Float(c))
            return same(got.term, z3.fpFMA(EVEN, a, b, c))

        return claim

    return of


@pytest.mark.parametrize("bits", [3])
def test_fused_multiply_add(bits: int) -> None:
    prove(fused(bits)(instructions.fma32))


FAULTS = [
    ("(error > 0.0) == (total > 0.0)", "error > 0.0"),
    ("bits & 1 == 0", "bits & 1 == 1"),
    ("(product - (total - part)) + (addend - part)", "(product - (total - part))"),
    ("np.where(outward, 1, -1)", "np.where(outward, -1, 1)"),
]


@pytest.mark.parametrize(("right", "wrong"), FAULTS)
def test_a_fault_has_a_counterexample(right: str, wrong: str) -> None:
    assert counterexample(fused(3)(with_fault(instructions.fma32, right, wrong))) is not None
