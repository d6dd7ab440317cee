"""For the tests of operations: random operands, one forward and backward, and the oracle's view of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from math import prod
from typing import Any

import numba
import numpy as np
import pytest

from intnet import spec as oracle
from intnet.autograd import Op, backward, leaf
from intnet.exact.expressions import Exact, add
from intnet.machine import jit
from intnet.numbers import fp32
from intnet.numbers.qtensor import QTensor
from intnet.spec.float32 import add32, batch_sum32, fma32, to_float32
from tests.support import cases

TYPES = (np.int8, np.int16, np.int32, np.int64)


def codes_of_bits(seed: int, n: int, bits: int, limits: bool) -> list[int]:
    """`n` codes of a signed word: both its limits in random order, or magnitudes of every length."""
    if not limits:
        return cases.random_magnitudes(seed, n, bits)
    ends = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return [ends[v] for v in cases.random_codes(seed, n, 0, 1)]


def integer(
    seed: int, shape: Sequence[int], bits: int = 8, exponent: int = -7, limits: bool = False
) -> QTensor:
    """A QTensor in the narrowest container of `bits` bits."""
    dtype = next(t for t in TYPES if np.iinfo(t).bits >= bits)
    codes = codes_of_bits(seed, prod(shape), bits, limits)
    return QTensor(np.array(codes, dtype).reshape(shape), exponent)


def floating(seed: int, shape: Sequence[int], exponent: int = 0) -> np.ndarray:
    """A float32 array whose magnitudes lie within a few powers of two below 2^exponent."""
    values = cases.random_float32(seed, prod(shape), exponent)
    return np.array([float(v) for v in values], np.float32).reshape(shape)


def fixed(q: QTensor) -> oracle.Fixed:
    """The oracle's view of a QTensor."""
    return oracle.Fixed(q.shape, [int(code) for code in q.codes.reshape(-1)], int(q.exponent))


def stored(t: oracle.Tensor, format: oracle.formats.Format) -> oracle.Fixed:
    """A tensor in a format, by the oracle."""
    q = oracle.formats.quantize(t.values, format)
    return oracle.Fixed(t.shape, q.codes, q.exponent)


def tensor(x: np.ndarray) -> oracle.Tensor:
    """The oracle's view of a float32 array."""
    assert x.dtype == np.float32
    return oracle.Tensor(x.shape, [Fraction(float(v)) for v in x.reshape(-1)])


def values(x: Any) -> list[Fraction]:
    """The exact values, in C order, of whatever an operation takes or gives."""
    if isinstance(x, np.ndarray):
        return tensor(x).values
    return [Fraction(v) for v in x.fractions().reshape(-1)]


def scaled(t: oracle.Tensor, exponent: int) -> list[Fraction]:
    """Integers of the oracle as values at an exponent."""
    return [v * oracle.power(exponent) for v in t.values]


def run(
    op: Op, *operands: Any, error: Any | Callable[[Any], Any] = None, **attributes: Any
) -> tuple[Any, list[Any]]:
    """(output, one gradient an operand); `error` is the output's gradient, or makes it from the output."""
    leaves = [leaf(x) for x in operands]
    output = op(*leaves, **attributes)
    if error is None:
        return output.value, []
    found = backward(output, error(output.value) if callable(error) else error, add)
    return output.value, [found[x.node] for x in leaves if x.node is not None]


def road(a: QTensor, b: QTensor, terms: int) -> str:
    """What must hold a sum of `terms` products: 'int32', 'int64', 'limbs' or 'none'."""
    x, y = a.bound, b.bound
    if x * y * terms < 2**31:
        return "int32"
    if x * y * terms < 2**62:
        return "int64"
    return "limbs" if max((x >> 16) + 1, 2**16 - 1) * y * terms < 2**62 else "none"


def road_taken(result: Any) -> str:
    """The road that a result came by."""
    if isinstance(result, Exact):
        assert [coefficient for _, coefficient in result.terms] == [2**16, 1]
        return "limbs"
    return str(result.codes.dtype)


@contextmanager
def threads(n: int) -> Iterator[None]:
    """All compiled loops on n threads (or as many as the machine has), small ones too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jit, "SMALL", 0)
        before = numba.get_num_threads()
        most: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]  # numba sets it from a table
        numba.set_num_threads(min(n, most))
        try:
            yield
        finally:
            numba.set_num_threads(before)


def _one(x: np.ndarray) -> Fraction:
    return Fraction(float(x[0]))


def expected_loss(
    logits: np.ndarray, labels: list[int], smoothing: float = 0.0
) -> tuple[Fraction, list[Fraction]]:
    """The loss and (p - t)/N in the order of the formulas; exp and log are `fp32`'s (judged elsewhere)."""
    n, classes = logits.shape
    share = to_float32(Fraction(smoothing))
    on, off = add32(1, -share), to_float32(share / classes)
    losses: list[Fraction] = []
    errors = []
    for i, label in enumerate(labels):
        row = tensor(logits[i]).values
        shifted = [add32(v, -max(row)) for v in row]
        powers = [_one(fp32.exp(np.array([float(v)], np.float32))) for v in shifted]
        denominator = Fraction(0)
        for v in powers:
            denominator = add32(denominator, v)
        log = _one(fp32.log(np.array([float(denominator)], np.float32)))
        surprise = Fraction(0)
        if smoothing:
            for v in shifted:
                surprise = fma32(off, add32(log, -v), surprise)
        losses.append(fma32(on, add32(log, -shifted[label]), surprise))
        shares = [add32(to_float32(v / denominator), -off) for v in powers]
        shares[label] = add32(shares[label], -on)
        errors += [to_float32(v / n) for v in shares]
    assert len(errors) == n * classes
    return to_float32(batch_sum32(losses) / n), errors
