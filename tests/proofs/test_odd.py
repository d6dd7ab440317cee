"""Rounding to odd (`intnet/instructions.py: fma32`, `intnet/ops/blocks.py: _odd_sum`), and quotients.

The functions run on IEEE floats of p and of 2p + 2 bits: p = 24 and 50 <= 53 for float32 and float64, fewer here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import z3

from intnet import bucket_loops, instructions
from intnet.ops import blocks
from tests.proofs.floats import EVEN, Float, Scalar, names
from tests.proofs.machine import TIMEOUT, Bit, assume, counterexample, prove, _runs
from tests.proofs.rules import on_terms, with_fault

Claim = Callable[[], Any]


def any_float(name: str, sort: Any) -> Any:
    """Any finite float."""
    term = z3.FP(name, sort)
    _runs[-1].variables[name] = z3.fpToIEEEBV(term), None
    assume(z3.Not(z3.Or(z3.fpIsInf(term), z3.fpIsNaN(term))))
    return term


def same(a: Any, b: Any) -> Bit:
    """Equal, zeros of either sign too."""
    return Bit(z3.Or(z3.fpEQ(a, b), a == b))


def fused(bits: int) -> Callable[[Any], Claim]:
    """fma32 is the multiply-add of IEEE, rounded once, over all finite operands, subnormal results too."""
    narrow, wide = z3.FPSort(3, bits), z3.FPSort(6, 2 * bits + 2)

    def of(f: Any) -> Claim:
        def claim() -> Any:
            a, b, c = (any_float(name, narrow) for name in "abc")
            got = on_terms(f, names(narrow, wide))(Float(a), Float(b), Float(c))
            return same(got.term, z3.fpFMA(EVEN, a, b, c))

        return claim

    return of


if __name__ == "__main__":
    import time

    for bits in (3, 4, 5):
        t = time.process_time()
        prove(fused(bits)(instructions.fma32))
        print(bits, time.process_time() - t, flush=True)
