"""What the page holds of a step, so that its scripts can do every element again: operands, words, geometry.

    data = Data(limit, steps)
    data.step(number, events, operands, layers)     once a step, as long as its arrays stand
    data.to_dict()                for `data.js`: arrays as base64 of narrow little-endian numbers

An array that takes more than `limit` bytes, of all steps together, is held by its first images (or outputs)
alone, in fours, as blocks lie. What no script here can do, a curve or a rule of one's own, is told by Python.
"""

import base64
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import log2, prod
from typing import Any

import numpy as np

from intnet.errors import FormatError
from intnet.exact.blocks.block_loops import SIDE
from intnet.exact.blocks.buckets import Codec, Packed, reach_of
from intnet.exact.blocks.mx_blocks import Along
from intnet.exact.blocks.mx_loops import SIZE
from intnet.exact.expressions import Exact, Expression, exact
from intnet.exact.sources import FloatExact, Root
from intnet.inspect import as_spec
from intnet.inspect.operands import Operands
from intnet.layers import Layer
from intnet.methods.trace import Event
from intnet.numbers import formats
from intnet.numbers.formats import BlockFloat
from intnet.numbers.microscaling import MXS
from intnet.numbers.qtensor import QTensor
from intnet.numbers.rounding import HLS_ALIASES
from intnet.spec import buckets as spec
from intnet.spec.rounding import MODES

ELEMENTS = {mx.element: name for name, mx in MXS.items()}  # of MX blocks, as the lab calls them
NARROW = (np.int8, np.int16, np.int32, np.int64)
# format -> the lab's name of it, and of each of its fields the format's own
LAB: dict[type, tuple[str, dict[str, str]]] = {
    formats.FixedPoint: ("fixed", {"wl": "wl", "fl": "fl", "signed": "signed", "overflow": "overflow"}),
    formats.Direct: ("q", {"k": "k", "lsb": "lsb"}),
    formats.Shift: ("sq", {"k": "k"}),
    formats.Flag: ("flag", {"k": "k"}),
    formats.Constant: ("cq", {"k": "k", "log_dr": "dr"}),
    formats.Scaled: ("scaled", {"wl": "wl"}),
}
SUMS = ("x1", "e4", "gW", "gb", "ggamma", "gbeta")  # paths that open into their products
_NAME = re.compile(r"[A-Za-z]\w*")
_SUM = re.compile(r"sum\(\w+\)")


class Data:
    """Arrays, each once, and of each step its paths."""

    def __init__(self, limit: int, steps: int = 1) -> None:
        self.limit, self.share = limit, limit // steps
        self.arrays: list[dict[str, Any]] = []
        self.steps: list[dict[str, Any]] = []
        self._known: dict[int, tuple[np.ndarray, int]] = {}
        self._results: dict[int, tuple[object, dict[str, Any]]] = {}
        self._factors: dict[str, dict[str, Any]] = {}

    def step(
        self, number: int, events: Sequence[Event], operands: Operands, layers: Mapping[str, Layer]
    ) -> None:
        """The paths of step `number`; their arrays are copied."""
        self._known, self._results, self._factors = {}, {}, {}
        paths = {one.name: self._path(one, operands, layers) for one in events}
        self.steps.append({"step": number, "paths": paths, "factors": self._factors})
        self._known, self._results = {}, {}

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"limit": self.limit, "arrays": self.arrays, "steps": self.steps}

    def told(self) -> str:
        """What it holds, for the command's output."""
        paths = self.steps[-1]["paths"]
        partly = [name for name, path in paths.items() if path["held"] < prod(path["shape"])]
        limit = f"up to {self.limit // 1024:,} KiB a tensor (--embed)"
        if not partly:
            return f"it holds all, {limit}"
        names = ", ".join(partly[:6]) + ", .." * (len(partly) > 6)
        return f"it holds {limit}: the first part alone of {len(partly)} of {len(paths)} paths, {names}"

    def holds(self, name: str, flat: int) -> bool:
        """Whether the last step's path has all that the scripts need for an element."""
        path = self.steps[-1]["paths"][name]
        return path["source"] is not None and flat < path["held"]

    # -- arrays ---------------------------------------------------------------------------------

    def _array(self, values: np.ndarray, shape: tuple[int, ...] | None = None) -> int:
        """The number of an array, which is held once; shape: where it is kept flat."""
        known = self._known.get(id(values))
        if known is not None:
            return known[1]
        shown = values if shape is None else values.reshape(shape)
        kind = _type(shown)
        held = rows_held(shown.shape, np.dtype(kind).itemsize, self.share)
        small = np.dtype(kind).newbyteorder("<")
        part: np.ndarray = np.ascontiguousarray(shown[:held] if shown.ndim else shown).astype(small)
        text = base64.b64encode(part.tobytes()).decode()
        one = {"type": small.str[1:], "held": part.size, "shape": list(shown.shape), "base64": text}
        self.arrays.append(one)
        self._known[id(values)] = (values, len(self.arrays) - 1)
        return len(self.arrays) - 1

    def _number(self, value: int | np.ndarray) -> str | dict[str, int]:
        """An integer as a text, or an array of them as {array}."""
        if isinstance(value, np.ndarray) and value.ndim:
            return {"array": self._array(value)}
        return str(int(value))

    # -- a path ---------------------------------------------------------------------------------

    def _path(self, event: Event, operands: Operands, layers: Mapping[str, Layer]) -> dict[str, Any]:
        result = event.result
        source = _source(event)
        rounding = self._rounding(event, source)
        told = rounding == {} or not isinstance(source, Exact | FloatExact | Root)
        product = operands.product(event)
        made: dict[str, Any] = {
            "layer": event.layer,
            "path": event.path,
            "shape": list(result.shape),
            "formula": operands.formula(event),
            "format": str(event.format) if event.format else None,
            "source": None if told else self._entered(event, source, operands),
            "rounding": None if told else rounding,
            "result": self._result(result),
            "product": None,
            "sum": self._sum(event, operands, layers),
        }
        if product is not None:
            made["product"] = {
                "factors": list(product.factors), "terms": product.terms, "bound": str(product.bound)
            }  # fmt: skip
        made["extremes"] = None if told else _extremes(source)
        held = min((one["held"] for one in self._full(made)), default=prod(result.shape))
        made["held"] = _in_whole_blocks(event, held)
        return made

    def _full(self, made: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The arrays of the path's own shape."""
        numbers = [made["result"].get("array"), made["result"].get("exponents")]
        numbers += [(made["rounding"] or {}).get("words")]
        numbers += [(made["source"] or {}).get("array")]
        numbers += [term["array"] for term in (made["source"] or {}).get("terms", ())]
        return [self.arrays[k] for k in numbers if k is not None and self.arrays[k]["shape"] == made["shape"]]

    def _entered(self, event: Event, source: Expression, operands: Operands) -> dict[str, Any]:
        symbol = operands.symbol(event)
        if isinstance(source, Root):
            return {
                "kind": "root", "numerators": [str(n) for n in source.numerators], "den": str(source.den),
                "exponent": source.exponent, "term": "".join(symbol.terms[:1]), "denName": symbol.denominator,
            }  # fmt: skip
        if isinstance(source, FloatExact):
            shape = tuple(event.result.shape)
            return {"kind": "float", "array": self._array(source.values, shape), "den": str(source.den)}
        terms = [
            {
                "name": name, "array": self._array(term.codes),
                "coefficient": self._number(coefficient), "coefficientName": named, "shift": shift,
            }
            for term, coefficient, shift, name, named in operands.parts(event, source)
        ]  # fmt: skip
        given = event.source
        exponents = isinstance(given, QTensor) and isinstance(given.exponent, np.ndarray)
        return {
            "kind": "sum", "terms": terms, "offset": self._number(source.offset),
            "offsetName": symbol.offset if isinstance(source.offset, np.ndarray) else "",
            "den": self._number(source.den), "denName": symbol.denominator, "relu": bool(source.relu),
            "exponent": source.exponent,
            "exponents": self._array(np.broadcast_to(given.exponent, given.shape)) if exponents else None,
        }  # fmt: skip

    def _rounding(self, event: Event, source: Expression) -> dict[str, Any] | None:
        """How its elements are rounded; None for an exact path, {} where only Python can tell."""
        if event.format is None:
            return None
        mode = HLS_ALIASES.get(event.rounding or "", event.rounding or "")
        made: dict[str, Any] = {"mode": mode, "bits": event.word_bits, "words": None}
        if event.words is not None:
            made["words"] = self._array(event.words, tuple(event.result.shape))
        if isinstance(event.format, Codec):
            return self._codec(event, event.format, made)
        made |= _rule(event, mode, source)
        return made if "kind" in made else {}

    def _codec(self, event: Event, codec: Codec, made: dict[str, Any]) -> dict[str, Any]:
        packed: Packed = event.result
        if codec.by_norm or not packed.scales.size:
            return {}
        flat = event.source.reshape(-1)
        size = codec.size(flat.size)
        starts = np.arange(0, flat.size, size)
        widths = packed.widths.astype(np.int64)
        ahead = np.cumsum([0, *(spec.words_of(codec.kind, size, int(b)) for b in widths[:-1])])
        made |= {
            "kind": "bucket", "codec": codec.kind, "name": str(codec), "size": size, "elements": flat.size,
            "buckets": starts.size, "reach": float(reach_of(flat)) if codec.kind == "symmetric" else None,
            "widths": self._array(widths), "ahead": self._array(ahead),
            "least": self._array(np.minimum.reduceat(flat, starts)),
            "greatest": self._array(np.maximum.reduceat(flat, starts)), "mix": None,
        }  # fmt: skip
        if event.mix is not None:
            made["mix"] = {"words": self._array(event.mix.words), "share": float(event.mix.probability)}
        return made

    def _result(self, result: object) -> dict[str, Any]:
        if id(result) not in self._results:
            self._results[id(result)] = result, self._stored(result)
        return self._results[id(result)][1]

    def _stored(self, result: object) -> dict[str, Any]:
        if isinstance(result, Packed):
            codes = result.codes().reshape(result.shape)
            values = result.load()
            return {"kind": "packed", "array": self._array(values), "codes": self._array(codes)}
        if isinstance(result, QTensor):
            made: dict[str, Any] = {"kind": "codes", "array": self._array(result.codes)}
            made["width"] = result.word_bits()
            made["flag"] = result.format.k if isinstance(result.format, formats.Flag) else None
            each = isinstance(result.exponent, np.ndarray)
            whole = np.broadcast_to(np.asarray(result.exponent), result.shape) if each else None
            made["exponents"] = None if whole is None else self._array(whole)
            made["exponent"] = None if each else int(result.exponent)
            return made
        if isinstance(result, np.ndarray):
            return {"kind": "float", "array": self._array(result), "bits": result.dtype == np.float32}
        quotient = not isinstance(result, Exact) or bool(np.any(np.asarray(result.den) != 1))
        return {"kind": "exact", "whole": not quotient}

    # -- products -------------------------------------------------------------------------------

    def _sum(self, event: Event, operands: Operands, layers: Mapping[str, Layer]) -> dict[str, Any] | None:
        """The factors' names in this step's `factors`, and how they meet; None for no sum of products."""
        if event.path not in SUMS:
            return None
        symbol = operands.symbol(event)
        names = symbol.factors
        if not names and (event.path in ("e4", "gW") or _SUM.fullmatch(symbol.formula)):
            said = _NAME.findall(symbol.formula)
            names = tuple(name for name in said if f"{event.layer}/{name}" in operands.events)
        factors = [operands.events.get(f"{event.layer}/{name}") for name in names]
        if not factors or None in factors or (event.path in ("x1", "e4", "gW") and len(factors) != 2):
            return None
        layer = layers[event.layer]
        geometry: dict[str, Any] = {
            name: getattr(layer, name, None) for name in ("stride", "padding", "groups")
        }
        bias = next((n for n in ("bq", "b") if f"{event.layer}/{n}" in operands.events), None)
        made = {"factors": [self._factor(one) for one in factors if one], "bias": None, **geometry}
        if event.path == "x1" and bias is not None and len(layer.parameters) > 1:
            made["bias"] = self._factor(operands.events[f"{event.layer}/{bias}"])
        return made

    def _factor(self, event: Event) -> str:
        name = event.name
        if name not in self._factors:
            self._factors[name] = {"path": event.path, "shape": list(event.result.shape)}
            self._factors[name] |= self._result(event.result)
        return name


def _type(values: np.ndarray) -> type:
    """The narrowest type of integers that holds all, floats as they are."""
    if values.dtype.kind == "f":
        return np.float64 if values.dtype == np.float64 else np.float32
    if values.dtype == np.uint32:
        return np.uint32
    least, greatest = (int(values.min()), int(values.max())) if values.size else (0, 0)
    return next(kind for kind in NARROW if np.iinfo(kind).min <= least and greatest <= np.iinfo(kind).max)


def rows_held(shape: tuple[int, ...], itemsize: int, limit: int) -> int:
    """Of an array's first axis: all where it is within `limit` bytes, else as many sides of blocks as fit."""
    if not shape:
        return 1
    row = prod(shape[1:]) * itemsize
    return shape[0] if shape[0] * row <= limit else limit // max(row, 1) // SIDE * SIDE


def _in_whole_blocks(event: Event, held: int) -> int:
    """Of `held` elements those ahead of the first MX block that is not held whole."""
    format, shape = event.format, event.result.shape
    if not isinstance(format, Along) or format.axis % len(shape):
        return held
    row = max(prod(shape[1:]), 1)
    rows = held // row
    return (rows - rows % (shape[0] // format.groups) % SIZE) * row


def _source(event: Event) -> Expression:
    """What `explain` reads of an element, as an expression."""
    if isinstance(event.operands, Exact):
        return event.operands
    given = event.source
    if isinstance(given, QTensor) and isinstance(given.exponent, np.ndarray):
        return Exact([(given, 1)], 0)
    return exact(given, event.name)


def _rule(event: Event, mode: str, source: Expression) -> dict[str, Any]:
    """Kind, format and grid as the lab has them; nothing where it has not."""
    format = event.format
    if isinstance(format, BlockFloat) and mode in MODES:
        return {"kind": "block", "axis": format.axis, "b": format.b}
    if isinstance(format, Along) and format.mx.element in ELEMENTS and mode in MODES:
        return {
            "kind": "mx", "axis": format.axis % len(event.result.shape), "groups": format.groups,
            "o": {"element": ELEMENTS[format.mx.element], "rule": format.mx.scale, "size": SIZE},
        }  # fmt: skip
    if type(format) not in LAB or mode not in MODES:
        return {}
    name, fields = LAB[type(format)]
    o: dict[str, Any] = {field: getattr(format, own) for field, own in fields.items()}
    if name == "fixed":
        o["signed"] = "signed" if o["signed"] else "unsigned"
    elif name == "q" and o["lsb"] is not None:
        o["k"] = 1 - o["lsb"]
    elif name == "cq":
        o["log_dr"] = round(log2(o["log_dr"]))
    try:
        grid = as_spec.grid(as_spec.format_of(format), source)  # type: ignore[arg-type]  # LAB has it
    except FormatError:  # a root or a curve has no extremes
        return {}
    return {"kind": "format", "name": name, "o": o, "grid": grid}


def _extremes(source: Expression) -> list[str] | None:
    """[least, greatest] as exact texts 'p/q', for formats that scale a whole tensor; None for a root."""
    if isinstance(source, Root):
        return None
    greatest, least = source.extremes()
    return [f"{Fraction(one).numerator}/{Fraction(one).denominator}" for one in (least, greatest)]
