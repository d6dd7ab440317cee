"""Arrays whose elements are terms: little-endian bytes, seen as integers of any type."""

from __future__ import annotations

from typing import Any

import z3

from tests.proofs.machine import U8, Bit, Num, Type, Whole, num
from tests.proofs.rules import Kind


class Array:
    """Elements first, first + step, ... of a type, in bytes that views share; flat."""

    def __init__(self, type: Type, data: list[Any], first: int = 0, size: int | None = None) -> None:
        self.type, self.data, self.first = type, data, first
        self.bytes = type.bits // 8
        self.size = (len(data) - first) // self.bytes if size is None else size
        self.shape = (self.size,)

    def _place(self, index: Any) -> int:
        at = index.__index__()
        if not 0 <= at < self.size:
            raise AssertionError(f"element {at} of {self.size}")
        return self.first + at * self.bytes

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            start, stop = index.start or 0, self.size if index.stop is None else index.stop
            start, stop = start.__index__(), min(stop.__index__(), self.size)
            return Array(self.type, self.data, self.first + start * self.bytes, stop - start)
        at = self._place(index)
        parts = self.data[at : at + self.bytes]
        bits = z3.simplify(z3.Concat(*reversed(parts)) if len(parts) > 1 else parts[0])
        known = z3.is_bv_value(bits)
        return Num(bits.as_long() if known else bits, self.type)

    def __setitem__(self, index: Any, value: Any) -> None:
        at, bits = self._place(index), num(value).cast(self.type).bv()
        for k in range(self.bytes):
            self.data[at + k] = z3.simplify(z3.Extract(8 * k + 7, 8 * k, bits))

    def view(self, kind: Kind | Any) -> Array:
        """The same bytes as another type."""
        return Array(kind.type, self.data, self.first, self.size * self.bytes // (kind.type.bits // 8))


def zeros(n: int, type: Type) -> Array:
    """An array of zeros."""
    return Array(type, [z3.BitVecVal(0, 8)] * (n * type.bits // 8))


def anything(name: str, n: int, type: Type) -> Array:
    """An array of which nothing is known: what a kernel leaves unwritten."""
    return Array(type, [z3.BitVec(f"{name}!{i}", 8) for i in range(n * type.bits // 8)])


def filled(values: list[Num], type: Type) -> Array:
    """An array of these."""
    array = zeros(len(values), type)
    for i, value in enumerate(values):
        array[i] = value
    return array


class Cells:
    """An array of terms of any kind, of one type: what a kernel reads and writes by element."""

    def __init__(self, values: list[Any], kind: Any = None) -> None:
        self.values, self.kind = values, kind
        self.size = len(values)
        self.shape: tuple[int, ...] = (self.size,)
        self.dtype = self

    @property
    def type(self) -> Any:
        """Of NumPy: what `num.dtype.type` casts with."""
        return self.kind or (lambda value: value)

    def __getitem__(self, index: Any) -> Any:
        return self.values[index.__index__()]

    def __setitem__(self, index: Any, value: Any) -> None:
        kind = self.kind
        self.values[index.__index__()] = value if kind is None else kind(value)


class Counts(Cells):
    """counts[block, column], of one block."""

    def __init__(self, columns: int) -> None:
        super().__init__([Num(0, Type(64, True)) for _ in range(columns)])
        self.shape = (1, columns)

    def __getitem__(self, index: Any) -> Any:
        return self.values[index[1].__index__()]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.values[index[1].__index__()] = value


__all__ = ["U8", "Array", "Bit", "Cells", "Counts", "Whole", "anything", "filled", "zeros"]
