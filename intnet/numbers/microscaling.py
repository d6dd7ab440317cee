"""Microscaling (MX) as plain data, and its tensors: elements in blocks, a scale of E8M0 a block.

    Microscaling(E4M3)                     MXFP8: blocks of 32 along the last axis
    Microscaling(E2M1, block=(32, 1))      along the axis before it
    Microscaling(FixedPoint(4, 2), (4, 4)) block float of tiles of 4x4, mantissas of 4 bits

Rounding is in `exact/microscaling.py`, products are in `exact/dots.py`.

Defined by `spec/microscaling.py: quantize_block`, `spec/microscaling.py: decoded`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from intnet.errors import FormatError, NumberError, ShapeError
from intnet.numbers import exact_values, numpy_functions
from intnet.numbers.formats import FixedPoint
from intnet.numbers.qtensor import QTensor, Status
from intnet.numbers.small_floats import E2M1, E2M3, E3M2, E4M3, E5M2, Float, FloatTensor
from intnet.show.tables import Shown, Table, facts

SCALES = ("floor", "ceil", "round", "fit")
BIAS, NAN = 127, 255  # of the scales' words


@dataclass(frozen=True)
class Microscaling:
    """Elements of a narrow format, and a power of two for each block of them.

    element: a `Float` that saturates, or a signed `FixedPoint` that does
    block:   sizes along the last axes; one number: along the last
    scale:   from the greatest magnitude t of a block: floor (OCP) | ceil | round | fit (nothing saturates)

    Defined by `spec/microscaling.py: quantize_block`.
    """

    element: Float | FixedPoint
    block: int | tuple[int, ...] = 32
    scale: str = "floor"

    def __post_init__(self) -> None:
        if isinstance(self.element, Float):
            fits = self.element.overflow == "saturate"
        else:
            fixed = isinstance(self.element, FixedPoint) and self.element.signed
            fits = fixed and self.element.wl >= 2 and self.element.overflow.startswith("saturate")
        if not fits:
            raise FormatError(
                f"an element of a block is a Float that saturates, or a signed FixedPoint of 2 bits or more "
                f"that does, not {self.element!r}"
            )
        if not self.sizes or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in self.sizes):
            raise FormatError(f"block = {self.block!r}: sizes along the last axes, each at least 1")
        if self.scale not in SCALES:
            raise FormatError(f"unknown scale {self.scale!r}; use one of {', '.join(SCALES)}")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of a block, along the last axes."""
        return self.block if isinstance(self.block, tuple) else (self.block,)

    @property
    def bits(self) -> int:
        """Of an element, its share of the scale left out."""
        return self.element.bits

    def blocks(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """How many blocks a tensor has along each axis; ShapeError where it has fewer axes than a block."""
        if len(shape) < len(self.sizes):
            raise ShapeError(f"blocks of {self.sizes} in a tensor of shape {shape}: it has too few axes")
        sizes = (1,) * (len(shape) - len(self.sizes)) + self.sizes
        return tuple(-(-n // size) for n, size in zip(shape, sizes, strict=True))

    def spread(self, each: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """One number an element from one a block."""
        for axis, size in enumerate(self.sizes, len(shape) - len(self.sizes)):
            each = np.repeat(each, size, axis).take(range(shape[axis]), axis)
        return each

    def __str__(self) -> str:
        sizes = "x".join(map(str, self.sizes))
        return f"MX({self.element}, {sizes}" + ("" if self.scale == "floor" else f", {self.scale}") + ")"


MXFP8_E4M3, MXFP8_E5M2 = Microscaling(E4M3), Microscaling(E5M2)
MXFP6_E3M2, MXFP6_E2M3 = Microscaling(E3M2), Microscaling(E2M3)
MXFP4 = Microscaling(E2M1)
MXINT8 = Microscaling(FixedPoint(8, 6, overflow="saturate_symmetric"))
MXS = {
    "MXFP8_E4M3": MXFP8_E4M3,
    "MXFP8_E5M2": MXFP8_E5M2,
    "MXFP6_E3M2": MXFP6_E3M2,
    "MXFP6_E2M3": MXFP6_E2M3,
    "MXFP4": MXFP4,
    "MXINT8": MXINT8,
}


class BlockScaled(Shown):
    """elements (FloatTensor, or QTensor at one exponent), scales (uint8 words of E8M0, one a block), format.

    Defined by `spec/microscaling.py: decoded`.
    """

    __slots__ = ("elements", "format", "scales", "status")

    def __init__(
        self,
        elements: FloatTensor | QTensor,
        scales: np.ndarray,
        format: Microscaling,
        status: Status | None = None,
    ) -> None:
        if elements.format != format.element:
            raise FormatError(f"elements in {elements.format}, and {format} has {format.element}")
        if scales.dtype != np.uint8 or scales.shape != format.blocks(elements.shape):
            raise ShapeError(
                f"scales {scales.dtype} {scales.shape}: {format} of shape {elements.shape} has uint8 "
                f"{format.blocks(elements.shape)}"
            )
        self.elements, self.scales, self.format, self.status = elements, scales, format, status

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the elements."""
        return self.elements.shape

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.elements.size

    def raw(self) -> np.ndarray:
        """The elements' words, or codes: a read-only view."""
        return self.elements.raw()

    def hex(self) -> np.ndarray:
        """Array of strings: each element's word; `scales` are apart."""
        return self.elements.hex()

    def exponents(self) -> np.ndarray:
        """int64 log2 of the scale of each element; of a NaN scale 128."""
        return self.format.spread(self.scales.astype(np.int64) - BIAS, self.shape)

    def finite(self) -> np.ndarray:
        """bool array: neither the scale nor the element is NaN or infinity."""
        inside = self.elements.finite() if isinstance(self.elements, FloatTensor) else True
        return inside & self.format.spread(self.scales != NAN, self.shape)

    def to_float64(self) -> np.ndarray:
        """float64 array: exact, NaN where the scale is."""
        values = np.ldexp(self.elements.to_float64(), self.exponents().astype(np.int32))
        return np.where(self.format.spread(self.scales == NAN, self.shape), np.nan, values)

    def to_float32(self) -> np.ndarray:
        """float32 array, exact; NumberError where a value is beyond float32, or finer than it."""
        return np.asarray(self.__array__(np.float32))

    def to_qtensor(self) -> QTensor:
        """Significands with an exponent an element; NumberError for a NaN or an infinity."""
        if not np.all(self.finite()):
            at = tuple(int(i) for i in np.argwhere(~self.finite())[0])
            raise NumberError(f"{self.to_float64()[at]} at {at} has no code")
        q = self.elements if isinstance(self.elements, QTensor) else self.elements.to_qtensor()
        return QTensor(q.codes, np.asarray(q.exponent + self.exponents()), bound=q.bound)

    def fractions(self) -> np.ndarray:
        """Array of `fractions.Fraction`: the exact values; NumberError for a NaN or an infinity."""
        return self.to_qtensor().fractions()

    def packed_bits(self) -> int:
        """Bits of all elements and scales."""
        return self.size * self.format.bits + 8 * self.scales.size

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return exact_values.cast(self.to_float64(), dtype, copy)

    def __dlpack__(self, **how: Any) -> Any:
        raise BufferError("blocks with scales are two arrays: export q.elements and q.scales, one by one")

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.raw().__dlpack_device__()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return numpy_functions.computed(ufunc, method, inputs, kwargs)

    def __bool__(self) -> bool:
        return exact_values.truth(self.to_float64() != 0)

    def __eq__(self, other: object) -> Any:
        """Elementwise by value, as floats compare: a NaN equals nothing, -0 equals 0."""
        return exact_values.equal(self.to_float64(), other)

    def __ne__(self, other: object) -> Any:
        same = self.__eq__(other)
        return same if same is NotImplemented else ~same

    __hash__ = None  # type: ignore[assignment]

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return numpy_functions.of_words(function, args, kwargs)

    def summary(self) -> Table:
        """What it is, and what a quantizer did to it."""
        pairs: dict[str, Any] = {
            "shape": "x".join(map(str, self.shape)) or "scalar",
            "format": str(self.format),
            "blocks": f"{self.scales.size:,}, {int((self.scales == NAN).sum()):,} of them NaN",
            "bits": f"{self.packed_bits() / max(self.size, 1):.2f} an element, scales included",
        }
        if self.status is not None:
            pairs["saturated"] = f"{self.status.saturated:,} of {self.status.elements:,}"
            pairs["rounded"] = f"{self.status.inexact:,} of {self.status.elements:,}"
        return facts("", pairs.items())

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.shape)) or "scalar"
        values = " ".join(f"{value:g}" for value in self.to_float64().reshape(-1)[:6])
        more = " ..." if self.size > 6 else ""
        return f"BlockScaled({self.format} {shape}, {self.scales.size} scales, values [{values}{more}])"
