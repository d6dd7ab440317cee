"""Expressions as JSON and ports: what entered a rounding, written so that the very same can be built again.

    {"tensor": PORT}                                            a QTensor, or a float32 array
    {"terms": [{"port": PORT, "factor": 3, "shift": 0}, ...],   (sum of factor * codes * 2^shift + offset)
     "offset": 0, "denominator": PORT,                              / denominator * 2^exponent
     "exponent": -29, "relu": false}                            then max(., 0) where relu
    {"tensor": PORT, "denominator": 64}                         a float32 array over an integer

A factor, an offset or a denominator is a number, or the port of one a channel. `Names` knows in which port
an array is; `dump` adds a port for each array that is in none. `load` is the inverse.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from intnet.errors import PackError
from intnet.exact.expressions import Exact
from intnet.exact.sources import FloatExact
from intnet.numbers.qtensor import CODE_TYPES, QTensor
from intnet.packs import ports
from intnet.packs.ports import Filled, Json


class Names:
    """The ports that arrays are in, by identity: those a layer produces for all, the others for one layer."""

    def __init__(self) -> None:
        self.ports: list[Filled] = []
        self._produced: dict[int, str] = {}
        self._local: dict[tuple[str, int], str] = {}
        self._kept: list[np.ndarray] = []  # an array that is gone could leave its identity to another

    def produce(self, array: np.ndarray, name: str) -> None:
        """Every layer that reads `array` reads port `name`."""
        self._produced.setdefault(id(array), name)
        self._kept.append(array)

    def bring(self, layer: str, array: np.ndarray, name: str) -> None:
        """`layer` got `array` from port `name`."""
        self._local.setdefault((layer, id(array)), name)
        self._kept.append(array)

    def find(self, layer: str, array: np.ndarray) -> str | None:
        """The port of an array as `layer` sees it."""
        return self._local.get((layer, id(array))) or self._produced.get(id(array))

    def brought(self, layer: str, array: np.ndarray) -> bool:
        """Whether `layer` got it from outside."""
        return (layer, id(array)) in self._local


def array_of(value: Any) -> np.ndarray | None:
    """The array that readers of a value get: codes, floats, or the only codes of a plain expression."""
    if isinstance(value, QTensor):
        return value.codes
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, Exact) and len(value.terms) == 1 and not value.relu and not any(value.shifts):
        term, factor = value.terms[0]
        plain = _number(factor) == 1 and _number(value.den) == 1 and _number(value.offset) == 0
        return term.codes if plain else None
    return None


def _number(part: Any) -> int | None:
    """An int, or None for an array of channels."""
    return None if isinstance(part, np.ndarray) and part.ndim else int(part)


@dataclass(frozen=True)
class Labels:
    """What a paper calls the parts of an expression; '' where it has no name for one."""

    terms: tuple[str, ...] = ()
    factors: tuple[str, ...] = ()
    offset: str = ""
    denominator: str = ""


def _word(text: str) -> str:
    """A text as a part of a file's name: 'sum(e1*x2)' is 'sum_e1_x2'."""
    return re.sub(r"[^A-Za-z0-9_.]+", "_", text).strip("_")


def _part_name(texts: tuple[str, ...], k: int, default: str) -> str:
    return texts[k] if k < len(texts) and texts[k] else default


def _told(does: str, what: str) -> str:
    """What a part does, and what it is where a paper has a name for it."""
    return f"{does}: {what}" if what else does


UNNAMED = Labels()


class Dump:
    """Writes the expressions of one layer; new ports get `direction` and names that begin with `base`.

    axes: of a port, by its number of dimensions; explains: of the trail: the port that it is a part of
    """

    def __init__(self, names: Names, layer: str, axes: dict[int, str], explains: str = "") -> None:
        self.names, self.layer, self.axes, self.explains = names, layer, axes, explains

    def __call__(
        self, value: Any, base: str, direction: str, labels: Labels = UNNAMED, meaning: str = ""
    ) -> Json | None:
        """The JSON of a value; None of none, and of a root, which no port can hold."""
        if isinstance(value, FloatExact):
            tensor = self._tensor(value.values, f"{base}.source", direction)
            return tensor if value.den == 1 else tensor | {"denominator": value.den}
        if isinstance(value, QTensor | np.ndarray):
            return self._tensor(value, base, direction, meaning)
        return self._exact(value, base, direction, labels) if isinstance(value, Exact) else None

    def _tensor(self, value: QTensor | np.ndarray, name: str, direction: str, meaning: str = "") -> Json:
        array = value if isinstance(value, np.ndarray) else value.codes
        found = self.names.find(self.layer, array)
        if found is None:
            kind = {"meaning": meaning, "explains": self.explains}
            self.names.ports += ports.tensor(name, direction, value, self.axes[len(value.shape)], **kind)
            self.names.bring(self.layer, array, name)
            found = name
        return {"tensor": found, "type": array.dtype.name}

    def _exact(self, value: Exact, base: str, direction: str, labels: Labels) -> Json:
        terms = []
        for k, ((term, factor), shift) in enumerate(zip(value.terms, value.shifts, strict=True)):
            label = _part_name(labels.terms, k, f"term{k}")
            part = self._tensor(term, f"{base}.{_word(label)}", direction, label)
            means = _told(f"multiplies {label}", _part_name(labels.factors, k, ""))
            terms.append({
                "port": part["tensor"],
                "type": part["type"],
                "exponent": int(term.exponent),
                "factor": self._part(factor, f"{base}.{_word(label)}.factor", direction, means),
                "shift": shift,
            })  # fmt: skip
        return {
            "terms": terms,
            "offset": self._part(
                value.offset, f"{base}.offset", direction, _told("added to the products", labels.offset)
            ),
            "denominator": self._part(
                value.den, f"{base}.denominator", direction, _told("divides the sum", labels.denominator)
            ),
            "exponent": value.exponent,
            "relu": value.relu,
        }

    def _part(self, part: Any, name: str, direction: str, meaning: str) -> int | str:
        number = _number(part)
        if number is not None:
            return number
        found = self.names.find(self.layer, part)
        if found is None:
            codes = part.astype(np.int64)
            bits = QTensor(codes, 0).width
            kind = {"meaning": meaning, "explains": self.explains}
            self.names.ports.append(ports.whole_number(name, direction, codes, "C", bits, **kind))
            self.names.bring(self.layer, part, name)
            found = name
        return found


class Load:
    """Builds the expressions of one layer from the ports of a pack; one array a port, in all its steps."""

    def __init__(self, pack: Any, names: Names, layer: str) -> None:
        self.pack, self.names, self.layer = pack, names, layer
        self._arrays: dict[str, Any] = {}

    def __call__(self, json: Json) -> Any:
        """What `Dump` wrote as `json`."""
        try:
            return self._exact(json) if "terms" in json else self._tensor(json)
        except (KeyError, TypeError, AttributeError) as error:
            raise PackError(f"{self.pack.folder}: {json!r} is no expression ({error})") from None

    def _tensor(self, json: Json) -> Any:
        value = self._read(json["tensor"], json["type"])
        return FloatExact(value, json["denominator"]) if "denominator" in json else value

    def _read(self, name: str, kind: str) -> Any:
        if name not in self._arrays:
            value = self.pack[name]
            if isinstance(value, QTensor):
                dtype = np.dtype(kind)
                codes = value.codes.astype(dtype if dtype in CODE_TYPES else np.int8)
                if dtype not in CODE_TYPES or not np.array_equal(codes, value.codes):
                    raise PackError(f"{self.pack.folder}: port {name} does not fit {kind}")
                value = QTensor(codes, value.exponent, value.format, value.bound)
            self._bring(name, value.codes if isinstance(value, QTensor) else value)
            self._arrays[name] = value
        return self._arrays[name]

    def _part(self, part: int | str) -> Any:
        if isinstance(part, int):
            return part
        if part not in self._arrays:
            self._arrays[part] = self.pack.codes(part)
            self._bring(part, self._arrays[part])
        return self._arrays[part]

    def _bring(self, name: str, array: np.ndarray) -> None:
        """What another layer made keeps its name; what it was given, and parts of it, are described anew."""
        port = self.pack.ports[name]
        if port.direction == "out" or (port.direction == "trail" and not port.explains):
            self.names.bring(self.layer, array, name)

    def _exact(self, json: Json) -> Exact:
        terms = []
        for term in json["terms"]:
            q = self._read(term["port"], term["type"])
            tensor = QTensor(q.codes, term["exponent"], q.format, q.bound)
            terms.append((tensor, self._part(term["factor"])))
        shifts = [term["shift"] for term in json["terms"]]
        offset, den = self._part(json["offset"]), self._part(json["denominator"])
        if np.min(den) < 1 or min(shifts) < 0:
            raise PackError(f"{self.pack.folder}: {json!r}: a denominator is positive, a shift not negative")
        return Exact(terms, json["exponent"], offset, den, json["relu"], shifts)
