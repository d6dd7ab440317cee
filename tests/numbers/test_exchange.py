"""Arrays of other packages, in and out without loss: ml_dtypes, and DLPack."""

from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest

from intnet import (
    E2M1,
    E4M3,
    MXFP4,
    MXFP8_E4M3,
    BlockScaled,
    FixedPoint,
    FloatTensor,
    QTensor,
    datasets,
    quantize,
)
from intnet.errors import FormatError, NumberError
from intnet.numbers.exact_values import _ML_FLOATS, _ML_INTEGERS
from intnet.numbers.microscaling import Microscaling
from intnet.numbers.small_floats import _DTYPES, Float

ml_dtypes = pytest.importorskip("ml_dtypes")
REAL = [
    name for name in dir(ml_dtypes)
    if isinstance(getattr(ml_dtypes, name), type) and hasattr(getattr(ml_dtypes, name), "dtype")
    and "complex" not in name
]  # fmt: skip


def every(name: str) -> np.ndarray:
    """All values of a type."""
    dtype = np.dtype(getattr(ml_dtypes, name))
    if "int" in name:
        limits = ml_dtypes.iinfo(dtype)
        return np.arange(limits.min, limits.max + 1).astype(dtype)
    bits = ml_dtypes.finfo(dtype).bits
    return np.arange(1 << bits, dtype=np.uint16 if bits > 8 else np.uint8).view(dtype)


def values(array: np.ndarray) -> list[float]:
    """By ml_dtypes' own conversion of one element at a time."""
    return [float(x) for x in array]


def test_no_type_is_left_out() -> None:
    assert {*REAL} == {*_ML_FLOATS, *_ML_INTEGERS}


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_every_value_of_every_type_is_taken_as_it_is(name: str) -> None:
    array = every(name)
    told = values(array)
    finite = array[np.isfinite(told)]
    numbers = [F(x) for x in told if np.isfinite(x)]
    for format in (FixedPoint(8, 4), E4M3.to("nan")):
        want = quantize(np.array([x for x in told if np.isfinite(x)]), format)
        assert quantize(finite, format).raw().tolist() == want.raw().tolist()
        assert quantize(finite, format).status == want.status
    exponent = {"bfloat16": -133, "float8_e8m0fnu": -127}.get(name, 0 if "int" in name else -20)
    kept = finite[[abs(x) < F(2) ** (exponent + 62) for x in numbers]]
    q = QTensor.from_float(kept, exponent)
    assert q.size and q.fractions().tolist() == [F(x) for x in values(kept)]
    assert np.all(q == kept) and np.all(kept == q)
    if name in _DTYPES.values():
        whole = FloatTensor.from_array(array)
        assert whole.to_array().dtype == array.dtype and np.array_equal(
            whole.to_array().view(np.uint8), array.view(np.uint8)
        )
        same = [
            a == b or (np.isnan(a) and np.isnan(b))
            for a, b in zip(whole.to_float64().tolist(), told, strict=True)
        ]
        assert all(same) and np.array_equal(whole == array, ~np.isnan(told))


def test_comparing_looks_at_values_whatever_the_type() -> None:
    q = QTensor(np.array([4, -6, 0, 1], np.int8), -2)
    e = quantize([1.0, -1.5, 0.0, 0.25], E4M3)
    for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        array = np.array([1, -1.5, 0, 0.5], dtype)
        for tensor in (q, e):
            assert (tensor == array).tolist() == (array == tensor).tolist() == [True, True, True, False]
            assert (tensor != array).tolist() == [False, False, False, True]
    assert (q < np.array([1, 1, 1, 1], ml_dtypes.int4)).tolist() == [False, True, True, True]


def test_codes_and_blocks_go_out_and_come_back() -> None:
    codes = quantize(np.arange(-8, 8) / 4, FixedPoint(4, 2)).codes.astype(ml_dtypes.int4)
    assert QTensor.from_float(codes, 0).codes.tolist() == list(range(-8, 8))
    x = np.linspace(-3, 7, 128).reshape(2, 64)
    q = quantize(x, MXFP8_E4M3)
    assert isinstance(q.elements, FloatTensor)
    elements, scales = q.elements.to_array(), q.scales.view(ml_dtypes.float8_e8m0fnu)
    told = elements.astype(np.float64) * np.repeat(scales.astype(np.float64), 32, axis=1)
    assert np.array_equal(told, q.to_float64())
    back = BlockScaled(FloatTensor.from_array(elements), scales.view(np.uint8), MXFP8_E4M3)
    assert np.array_equal(back, q) and back.format == q.format
    for name in ("float8_e4m3b11fnuz", "float8_e4m3fnuz", "int4"):
        with pytest.raises(FormatError, match=f"no format has the words of {name}"):
            FloatTensor.from_array(np.zeros(2, getattr(ml_dtypes, name)))
    with pytest.raises(FormatError, match=r"list has none: quantize\(x, format\)"):
        FloatTensor.from_array([1.0])  # type: ignore[arg-type]
    assert np.asarray(q.elements, ml_dtypes.bfloat16).dtype == ml_dtypes.bfloat16
    with pytest.raises(NumberError, match="not every value is exactly a float4"):
        np.asarray(quantize([0.3], E4M3), ml_dtypes.float4_e2m1fn)


# -- DLPack ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("q", [
    QTensor(np.arange(-6, 6, dtype=np.int8).reshape(3, 4).T, -3), QTensor(np.array(5, np.int64), 2),
    QTensor(np.arange(4, dtype=np.int32), np.array([1, 2, 3, 4])),
    quantize([[0.3, -1.5], [9.0, -0.0]], E4M3), quantize([0.5, 3], E2M1), quantize([0.1], Float(8, 23)),
])  # fmt: skip
def test_integers_are_exported_where_they_are(q: Any) -> None:
    made = np.from_dlpack(q)
    assert (
        made.dtype == q.raw().dtype and made.tolist() == q.raw().tolist() and made.strides == q.raw().strides
    )
    assert np.shares_memory(made, q.raw()) and not made.flags.writeable
    assert q.__dlpack_device__() == (1, 0)  # the processor's memory


def test_what_is_not_exported() -> None:
    q = QTensor(np.arange(3, dtype=np.int8), 0)
    with pytest.raises(BufferError, match=r"knows no read-only arrays; give it a copy, of q.raw\(\)"):
        q.__dlpack__()  # a reader of before DLPack 1.0
    for format in (MXFP4, Microscaling(FixedPoint(4, 2), 2)):
        with pytest.raises(BufferError, match=r"two arrays: export q.elements and q.scales"):
            np.from_dlpack(quantize(np.ones(4), format))
        assert np.from_dlpack(quantize(np.ones(4), format).elements).dtype in (np.uint8, np.int8)


def test_pytorch_reads_them() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'intnet[torch]'")
    q = QTensor(np.arange(-6, 6, dtype=np.int16).reshape(3, 4).T, -3)
    made = torch.from_dlpack(q)
    assert made.dtype == torch.int16 and made.tolist() == q.codes.tolist()
    assert made.data_ptr() == q.codes.ctypes.data
    assert torch.from_dlpack(quantize([0.3, 9.0], E4M3)).view(torch.float8_e4m3fn).float().tolist() == [
        0.3125,
        9.0,
    ]


def test_a_data_set_takes_bfloat16_as_the_numbers_that_it_holds() -> None:
    X = np.array([[0.5, -1.25], [3.0, 0.0]], np.float32)
    made, plain = (datasets.from_arrays(x, [0, 1]) for x in (X.astype(ml_dtypes.bfloat16), X))
    assert np.array_equal(made.train_images, plain.train_images) and made.exponent == plain.exponent
