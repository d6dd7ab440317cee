"""tanh: correctly rounded codes for integers, judged by rational enclosures; the float32 path by `fp32`."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet import spec as oracle
from intnet.autograd import Tensor
from intnet.errors import ContainerError, FormatError
from intnet.exact.expressions import Exact
from intnet.exact.quantize import quantize
from intnet.numbers import fp32
from intnet.numbers.formats import Direct, FixedPoint, Shift
from intnet.numbers.qtensor import QTensor
from intnet.ops import tanh
from intnet.ops.curves import Tanh
from intnet.spec.float32 import add32, mul32
from tests.support import cases
from tests.support.opcheck import fixed, floating, integer, run, values

DETERMINISTIC = [mode for mode in oracle.rounding.MODES if mode != "stochastic"]


def rounded(x: Fraction, exponent: int, mode: str = "ties_even") -> int:
    """The oracle's code; from 64 on tanh is within 2^-184 of 1, so 64 stands for all of them."""
    return oracle.curves.curve_round("tanh", max(min(x, Fraction(64)), Fraction(-64)), exponent, mode)


def dense(bits: int, fraction: int) -> tuple[list[int], int]:
    """Codes at exponent -fraction around every place where an output of `bits` bits changes.

    The places are atanh((n + 1/2) / 2^(bits-1)) and atanh(n / 2^(bits-1)), computed in decimals; two codes on
    either side, so that the oracle sees each output with each neighbour under every mode.
    """
    scale, found = 1 << bits, {0, 1, -1, 1 << 40, -(1 << 40)}
    with localcontext() as context:
        context.prec = 40
        for n in range(1, scale):
            place = (Decimal(scale + n) / Decimal(scale - n)).ln() / 2
            code = int(place * (1 << fraction))
            found.update(sign * (code + d) for d in range(-1, 3) for sign in (1, -1))
    return sorted(found), -fraction


@pytest.mark.slow
@pytest.mark.parametrize("mode", DETERMINISTIC)
def test_every_8_bit_output_and_both_its_borders(mode: str) -> None:
    codes, exponent = dense(8, 22)
    got = quantize(Tanh(QTensor(np.array(codes), exponent)), Direct(8), rounding=mode)
    assert set(range(-126, 127)) < set(got.codes.tolist())
    assert got.codes.tolist() == [rounded(code * oracle.power(exponent), -7, mode) for code in codes]


@pytest.mark.slow
def test_16_bit_outputs() -> None:
    x = QTensor(np.array(cases.random_magnitudes(1, 200, 26)), -22)
    got = quantize(Tanh(x), Direct(16))
    assert got.codes.tolist() == [rounded(v, -15) for v in values(x)]


def test_status_and_range() -> None:
    """A format with a range is applied after rounding, and counted."""
    x = QTensor(np.array([0, 1, 1 << 20, 1 << 26, -(1 << 26)]), -22)
    got = quantize(Tanh(x), FixedPoint(8, 7))
    assert got.codes.tolist() == [0, 0, 31, 127, -128]
    assert got.status is not None
    assert (got.status.saturated, got.status.inexact, got.status.elements) == (1, 4, 5)
    symmetric = quantize(Tanh(x), FixedPoint(8, 7, overflow="saturate_symmetric"))
    assert symmetric.codes.tolist() == [0, 0, 31, 127, -127]


@pytest.mark.slow
@given(seed=st.integers(0, 2**32), e_bits=st.sampled_from([8, 16, 40]))
def test_the_gradient_reads_the_stored_output(seed: int, e_bits: int) -> None:
    x, e = integer(seed, (3, 5), 24, -20), integer(seed + 1, (3, 5), e_bits, -33)
    got, (dx,) = run(tanh, x, error=e, quantize=lambda v: quantize(v, Direct(8)))
    assert fixed(got) == oracle.Fixed((3, 5), [rounded(v, -7) for v in values(x)], -7)
    slopes = [1 - v**2 for v in values(got)]
    assert values(dx) == [v * s for v, s in zip(values(e), slopes, strict=True)]


def test_tanh_of_an_exact_value() -> None:
    x = Exact([(integer(1, (4, 3), 16), np.array([3, -7, 1]))], -22, np.array([5, -(2**20), 2**21]))
    got, _ = run(tanh, x, quantize=lambda v: quantize(v, Direct(8)))
    assert got.codes.reshape(-1).tolist() == [rounded(v, -7) for v in values(x)]


def test_the_most_negative_code() -> None:
    x = QTensor(np.array([-(2**63), 2**63 - 1]), -56)
    assert quantize(Tanh(x), Direct(8)).codes.tolist() == [-128, 128]


def test_float_tanh_and_its_gradient() -> None:
    x, e = floating(1, (4, 5), 2), floating(2, (4, 5))
    got, (dx,) = run(tanh, x, error=e, quantize=lambda v: v)
    assert got.tobytes() == fp32.tanh(x).tobytes()
    slopes = [add32(1, -mul32(v, v)) for v in values(got)]
    assert values(dx) == [mul32(v, s) for v, s in zip(values(e), slopes, strict=True)]


def test_what_tanh_refuses() -> None:
    x = integer(1, (3,), 8, -20)
    for call in (
        lambda: quantize(Tanh(x), Direct(8), rounding="stochastic", words=np.zeros(3, np.uint32)),
        lambda: quantize(Tanh(x), Direct(8, lsb=-33)),
    ):
        with pytest.raises(FormatError, match=r"deterministic.* at most 32 fraction bits"):
            call()
    with pytest.raises(FormatError, match="not by its maximum"):
        quantize(Tanh(x), Shift(8))
    with pytest.raises(ContainerError, match=r"beyond \+-500"):
        tanh(Tensor(integer(1, (3,), 8, -501)), quantize=lambda v: v)


def test_a_gradient_beyond_int64_is_refused() -> None:
    x, e = integer(1, (3,), 8), QTensor(np.full((3,), 2**50), 0)

    def store(v: Any) -> QTensor:
        return quantize(v, Direct(8))

    with pytest.raises(
        ContainerError, match=r"tanh: the error's product with the derivative is beyond int64"
    ):
        run(tanh, x, error=e, quantize=store)
    with pytest.raises(ContainerError, match=r"tanh: an output at exponent -46 leaves no exact derivative"):
        run(tanh, x, error=integer(2, (3,), 8), quantize=lambda v: QTensor(np.array([1, 2, 3]), -46))


def test_an_error_of_codes_meets_a_float_output() -> None:
    """As after an own method whose activations are float32 and whose errors are integers."""
    x, e = floating(1, (4, 5), 2), integer(2, (4, 5), 8, -6)
    got, (dx,) = run(tanh, x, error=e, quantize=lambda v: v)
    slopes = [add32(1, -mul32(v, v)) for v in values(got)]
    assert values(dx) == [mul32(v, s) for v, s in zip(values(e), slopes, strict=True)]
