"""Products in accumulators of one's choice: against the definition, and against sums that others compute."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet import QTensor, matmul, quantize
from intnet.errors import ContainerError, FormatError, NumberError, ShapeError
from intnet.exact import dots
from intnet.numbers.accumulators import ORDERS, Narrow, Once, Stepped, Window
from intnet.numbers.formats import FixedPoint
from intnet.numbers.microscaling import MXFP4, MXFP8_E4M3, MXINT8, Microscaling
from intnet.numbers.small_floats import BF16, E2M1, E4M3, E5M2, FP16, FP32, Float, FloatTensor
from intnet.spec import accumulators as spec
from intnet.spec.float32 import dot32
from tests.support.faults import Patch, caught, run_from_source
from tests.support.small_floats import MODES, defined

RNG = np.random.default_rng


def values(q: Any) -> np.ndarray:
    """Exact ones: Fractions."""
    return q.fractions()


def told(a: Any, b: Any, accumulator: Any) -> list[Any]:
    """The definition's sums, in C order: codes of Narrow, else values."""
    if isinstance(accumulator, Narrow):
        x, y = a.codes.astype(object), b.codes.astype(object)
        how = accumulator.bits, accumulator.overflow, accumulator.order
        return [spec.narrow(list(row), list(col), *how) for row in x for col in y.T]
    x, y, format = values(a), values(b), defined(accumulator.format)
    pairs = [(list(row), list(col)) for row in x for col in y.T]
    if isinstance(accumulator, Once):
        return [spec.once(*pair, format, accumulator.rounding) for pair in pairs]
    if isinstance(accumulator, Stepped):
        return [spec.stepped(*pair, format, accumulator.rounding, accumulator.order) for pair in pairs]
    operands = tuple(defined(q.format) if isinstance(q, FloatTensor) else None for q in (a, b))
    how = accumulator.group, accumulator.guard, accumulator.rounding
    return [spec.windowed(*pair, operands, format, *how) for pair in pairs]


def sweep(a: Any, b: Any, accumulator: Any) -> None:
    """AssertionError where a sum is not the definition's."""
    made = matmul(a, b, accumulator)
    found = made.codes if isinstance(made, QTensor) else made.fractions()
    assert found.reshape(-1).tolist() == told(a, b, accumulator), accumulator
    if isinstance(made, FloatTensor):
        assert not np.signbit(made.to_float64()[made.to_float64() == 0]).any()


def words(format: Float, shape: tuple[int, ...], seed: int) -> FloatTensor:
    """Every finite word as likely as any other: all exponents, subnormals, zeros."""
    drawn = RNG(seed).integers(0, format.greatest + 1, shape)
    return FloatTensor.from_words(drawn | RNG(seed + 1).integers(0, 2, shape) << (format.bits - 1), format)


def codes(shape: tuple[int, ...], bits: int, seed: int) -> QTensor:
    edge = 1 << (bits - 1)
    return QTensor(RNG(seed).integers(-edge, edge, shape), -3)


# -- integers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("overflow", ["wrap", "saturate"])
@pytest.mark.parametrize("bits", [1, 7, 8, 13, 32])
def test_narrow_sums_are_as_defined(bits: int, overflow: str, order: str) -> None:
    for terms in (0, 1, 2, 3, 5, 8, 13):
        sweep(codes((3, terms), 5, terms), codes((terms, 4), 4, terms + 50), Narrow(bits, overflow, order))
    sweep(codes((2, 9), 17, 1), codes((9, 2), 17, 2), Narrow(bits, overflow, order))


def test_chunks_begin_anew() -> None:
    """Within a chunk of 1024 the sum saturates at 127; the sums of chunks then do."""
    a, b = np.full((1, 1030), 1), np.full((1030, 1), 1)
    a[0, 200:1024] = -1
    found = {
        order: matmul(QTensor(a, 0), QTensor(b, 0), Narrow(8, "saturate", order)).codes.item()
        for order in ORDERS
    }
    assert found["ascending"] == found["chunks"] == -128 + 6
    a[0, 1024:] = 1
    a[0, 1023] = 1
    sweep(QTensor(a, 0), QTensor(b, 0), Narrow(8, "saturate", "chunks"))
    sweep(QTensor(a, 0), QTensor(b, 0), Narrow(8, "saturate", "tree"))


def test_a_wrapped_sum_does_not_hang_on_its_order() -> None:
    a, b = codes((4, 40), 8, 3), codes((40, 4), 8, 4)
    first, *others = (matmul(a, b, Narrow(9, "wrap", order)).codes.tolist() for order in ORDERS)
    assert all(other == first for other in others)
    exact = a.codes.astype(int) @ b.codes.astype(int)
    assert first == ((exact + 256) % 512 - 256).tolist()


# -- floats --------------------------------------------------------------------------------------------

OPERANDS = [E2M1, E4M3, E5M2, BF16, FP32]


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("operand", OPERANDS, ids=str)
def test_sums_rounded_once_are_as_defined(operand: Float, mode: str) -> None:
    a, b = words(operand, (4, 7), 1), words(operand, (7, 4), 2)
    for format in (FP32, BF16, FP16, E4M3):
        sweep(a, b, Once(format.to("saturate"), mode))


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("operand", OPERANDS, ids=str)
def test_sums_rounded_at_each_step_are_as_defined(operand: Float, mode: str, order: str) -> None:
    """Words of all exponents, and of few, whose sums cancel."""
    a, b = words(operand, (3, 7), 3), words(operand, (7, 3), 4)
    for format in (FP32, BF16, E5M2):
        sweep(a, b, Stepped(format.to("saturate"), mode, order))
    near = quantize(RNG(5).normal(size=(3, 9)), operand), quantize(RNG(6).normal(size=(9, 3)), operand)
    sweep(*near, Stepped(FP16.to("saturate"), mode, order))


@pytest.mark.slow
@pytest.mark.parametrize("guard", [-10, 0, 1, 3, 24])
@pytest.mark.parametrize("group", [1, 4, 16])
@pytest.mark.parametrize("operand", [E4M3, E5M2, FP16, BF16], ids=str)
def test_windows_are_as_defined(operand: Float, group: int, guard: int) -> None:
    a, b = words(operand, (3, 9), 7), words(operand, (9, 3), 8)
    for mode in ("to_zero", "ties_even"):
        sweep(a, b, Window(FP32.to("saturate"), group, guard, mode))
    near = quantize(RNG(9).normal(size=(3, 9)), operand), quantize(RNG(10).normal(size=(9, 3)), operand)
    sweep(*near, Window(FP32, group, guard))


@pytest.mark.slow
@pytest.mark.parametrize("format", [MXFP8_E4M3, MXFP4, MXINT8], ids=str)
def test_blocks_of_32_meet_along_the_sum(format: Microscaling) -> None:
    """The exact sum is that of scales 2^(k + l) times sums of elements; steps go over all terms."""
    x, y = RNG(11).normal(size=(3, 70)), RNG(13).normal(size=(70, 2))
    x *= 2.0 ** RNG(12).integers(-30, 30, x.shape)
    a, b = quantize(x, format), quantize(y, Microscaling(format.element, (32, 1)))
    for accumulator in (
        Once(),
        Once(BF16, "to_neg"),
        Stepped(),
        Stepped(BF16, order="tree"),
        Window(group=16, guard=2),
    ):
        sweep(a, b, accumulator)


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1), st.sampled_from(OPERANDS), st.sampled_from(MODES), st.sampled_from(ORDERS))
def test_any_words_are_summed_as_defined(seed: int, operand: Float, mode: str, order: str) -> None:
    terms = seed % 9
    a, b = words(operand, (2, terms), seed), words(E5M2, (terms, 2), seed + 2)
    for format in (FP32.to("saturate"), Float(8, 10)):
        sweep(a, b, Stepped(format, mode, order))
        sweep(a, b, Once(format, mode))


@pytest.mark.slow
def test_chunks_of_float32_are_the_library_s_own_order() -> None:
    """`ops.linear` of float32 adds so: fused, in chunks of 1024, whose sums are added."""
    x, y = (RNG(seed).normal(size=2050).astype(np.float32) for seed in (14, 15))
    a, b = quantize(x.reshape(1, -1), FP32), quantize(y.reshape(-1, 1), FP32)
    expected = dot32([Fraction(float(v)) for v in x], [Fraction(float(v)) for v in y])
    assert matmul(a, b, Stepped(order="chunks")).fractions().item() == expected


def test_float16_products_added_in_float32_are_numpy_s() -> None:
    """A product of two float16 is exact in float32, so one rounded addition a step is what NumPy computes."""
    x, y = (RNG(seed).normal(size=50).astype(np.float16) for seed in (16, 17))
    acc = np.float32(0)
    for p, q in zip(x.astype(np.float32), y.astype(np.float32), strict=True):
        acc = acc + p * q
    made = matmul(quantize(x.reshape(1, -1), FP16), quantize(y.reshape(-1, 1), FP16), Stepped())
    assert made.to_float32().item() == acc


def test_a_window_by_hand() -> None:
    """1 and 2^-11 three times: with m = 10 and no guard bit the small ones are cut, with one kept."""
    a = quantize([[1.0, 2.0**-11, 2.0**-11, 2.0**-11]], FP16)
    b = quantize([[1.0]] * 4, FP16)
    assert matmul(a, b, Window(FP16, 4, 0)).fractions().item() == 1
    assert matmul(a, b, Window(FP16, 4, 1)).fractions().item() == 1 + Fraction(1, 1024)
    assert matmul(a, b, Window(FP16, 1, 1, "ties_even")).fractions().item() == 1


# -- what is refused -----------------------------------------------------------------------------------

Q, F = QTensor(np.ones((2, 2), np.int8), 0), quantize(np.ones((2, 2)), E4M3)


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: matmul(F, F, Narrow(8)), FormatError, "adds codes of QTensors of one exponent"),
        (lambda: matmul(F, quantize([[1.0]], E4M3), Once()), ShapeError, r"shapes \(2, 2\) and \(1, 1\)"),
        (lambda: matmul(F, quantize([[np.nan] * 2] * 2, E4M3), Once()), NumberError, r"nan at \(0, 0\)"),
        (lambda: matmul(*[quantize([[448.0]], E4M3)] * 2, Once(FP16)), NumberError, "beyond FP16"),
        (lambda: matmul(*[QTensor(np.array([[1 << 24]]), 0)] * 2, Once()), ContainerError, "take 24"),
        (
            lambda: matmul(QTensor(Q.codes, np.array([2**59, 0])), Q, Once()),
            ContainerError, "576,460,752,303,423,488 apart; sums of 65,536 bits are made",
        ),
        (lambda: matmul(F, F, Window(FP32, 1 << 40, 24)), ContainerError, "adds more bits than an int64"),
        (lambda: matmul(Q, Q, "narrow"), FormatError, "accumulator = 'narrow': use Narrow, Once, Stepped or"),
        (lambda: matmul(F, F, Once), FormatError, "use Narrow, Once, Stepped or Window"),
        (lambda: matmul(F, np.ones((2, 2)), Once()), FormatError, r"a ndarray has no format: quantize\(x, f"),
        (lambda: matmul([[1]], Q, Narrow(8)), FormatError, "a list has no format"),
        (lambda: Narrow(0), FormatError, "Narrow bits = 0"),
        (lambda: Narrow(8, "clip"), FormatError, "use wrap or saturate"),
        (lambda: Narrow(8, order="random"), FormatError, "use one of ascending, chunks, tree"),
        (lambda: Stepped(FP32, "stochastic"), FormatError, "it has no words"),
        (lambda: Once(FixedPoint(8, 4)), FormatError, "an accumulator of floats is a Float"),
        (lambda: Window(group=0), FormatError, "Window group = 0"),
        (lambda: Window(guard=30), FormatError, "from -22 to 24"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_name(make: Callable[[], Any], error: type, said: str) -> None:
    with pytest.raises(error, match=said):
        make()


FAULTS = {
    "saturated at the end only": ("np.clip(x + y, -edge, edge - 1)", "x + y"),
    "wrapped a bit too wide": ("codes + edge) & (2 * edge - 1)", "codes + edge) & (4 * edge - 1)"),
    "a lost bit is forgotten": ("size >> down | (size & ((ONE << down) - ONE) != 0)", "size >> down"),
    "the tree is a chain": ("range(joins(k, k == terms - 1))", "waiting[1:]"),
    "the window forgets the accumulator": ("acc.size == 0, _FAR, lead", "acc.size >= 0, -500, lead"),
    "a window floors": ("part.negative, -cut, cut", "part.negative, -cut - 1, cut"),
    "big sums lose their tail": (">> drop | (abs(value) & ((1 << drop) - 1) != 0)", ">> drop"),
}  # fmt: skip


def sweeps() -> None:
    sweep(codes((3, 13), 5, 1), codes((13, 3), 5, 2), Narrow(8, "saturate", "tree"))
    sweep(codes((3, 13), 5, 1), codes((13, 3), 5, 2), Narrow(8, "saturate"))
    sweep(codes((3, 13), 5, 1), codes((13, 3), 5, 2), Narrow(6))
    wide = words(BF16, (4, 9), 1), words(BF16, (9, 4), 2)
    for mode in ("to_pos", "to_neg"):
        sweep(*wide, Stepped(FP32.to("saturate"), mode))
        sweep(*wide, Once(FP32.to("saturate"), mode))
    tail = quantize([[1.0, 2.0**-60]], BF16), quantize([[1.0], [2.0**-60]], BF16)
    sweep(*tail, Once(FP32, "to_pos"))
    sweep(*wide, Stepped(FP32.to("saturate"), "to_zero", "tree"))
    sweep(*wide, Window(FP32.to("saturate"), 4, 1))


def test_without_a_fault_the_sweeps_pass() -> None:
    assert not caught(sweeps)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_seen(fault: str, monkeypatch: Patch) -> None:
    run_from_source(monkeypatch, dots, *FAULTS[fault])
    monkeypatch.setitem(globals(), "matmul", dots.matmul)
    assert caught(sweeps)
