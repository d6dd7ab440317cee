"""The ports of captured layers: one a data path, the trail of what was rounded, the state before and after.

    made = Maker(method, generator); made.add(captured); made.draft()

`layers.py` says what the ports are; `expressions.py` writes what entered each rounding. Three passes over a
step: what the layers produce gets its names, then what they were given, then every event gets its ports.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from intnet import hexfiles
from intnet.errors import ContainerError
from intnet.exact import Exact, exact
from intnet.methods.method import Method
from intnet.operands import Operands
from intnet.packs import ports
from intnet.packs.layers.capture import Captured
from intnet.packs.layers.expressions import Dump, Json, Labels, Names, array_of
from intnet.packs.ports import Case, Draft
from intnet.packs.trail import REMAINDER_BITS, grid, limits, trail
from intnet.qtensor import QTensor
from intnet.trace import Event

HALF = 1 << REMAINDER_BITS - 1  # the remainder of a tie
PARAMETER_AXES = {4: "Cout,Cin,kh,kw", 2: "Cout,Cin", 1: "C"}
DATA_AXES = {4: "N,H,W,C", 2: "N,C", 1: "C"}
WORDS = (
    "random words of stream {stream}: Philox4x32-10, key (seed low, high), counter (i//4 low, high, "
    "first 4 bytes of SHA-256 of the stream's name, step - 1), word i % 4 for element i in C order"
)


class Maker:
    """Collects the ports of one step after another."""

    def __init__(self, method: Method, generator: Mapping[str, Any]) -> None:
        self.method, self.generator = method, generator
        self.names = Names()
        self.cases: list[Case] = []
        self.replay: list[Json] = []
        self.aliases: dict[str, str] = {}
        self.chain: list[Json] = []
        self.skipped: dict[str, str] = {}

    def add(self, captured: Sequence[Captured], step: int, epoch: int) -> None:
        """What layers did in a step, counted from 1."""
        first = len(self.names.ports)
        self.prefix = f"step{step}/" if self.generator["steps"] > 1 else ""
        operands = Operands(
            {f"{e.layer}/{e.path}": e for c in captured for e in c.events}, self.method.SYMBOLS
        )
        for one in captured:
            self._name_products(one)
        layers = [self._given(one, operands) for one in captured]
        for one in captured:
            self._bring_words(one)
            for event in one.events:
                self._event(one, event, operands)
            self._after(one)
        self.replay.append({"step": step, "epoch": epoch, "layers": layers})
        self.chain.append({"step": step, "sha256": _digest(self.names.ports[first:])})

    def draft(self) -> Draft:
        """All steps so far as a pack."""
        made, steps = self.generator, self.generator["steps"]
        about: dict[str, Any] = {"replay": self.replay, "aliases": self.aliases, "not written": self.skipped}
        if steps > 1:
            about["chain"] = self.chain
        layers = "+".join(made["layers"])
        name = f"{made['method']}-{made['model']}-{made['data']}-{layers}-step{made['step']}"
        name += f"-to-{made['step'] + steps - 1}" if steps > 1 else ""
        return Draft(name, "L4" if steps > 1 else "L3", made, self.names.ports, self.cases, about)

    def _name(self, event: Event) -> str:
        return f"{self.prefix}{event.layer}/{event.path}"

    # -- what a step was given ----------------------------------------------------------------

    def _name_products(self, one: Captured) -> None:
        """The arrays that a layer made are ports by the name of their path."""
        outside = {id(array) for value in _given(one) if value is not None for array in _arrays(value)}
        for event in one.events:
            array = array_of(event.result)
            if array is not None and id(array) not in outside:
                self.names.produce(array, self._name(event))

    def _given(self, one: Captured, operands: Operands) -> Json:
        """Its entry of `replay`; what no layer of the pack made becomes `in` ports."""
        out: Json = {"layer": one.layer, "wanted": one.wanted}
        for key, value, name in (("value", one.value, "x"), ("gradient", one.gradient, "e")):
            event = _reader(one, value)
            base = f"{self.prefix}{one.layer}/{event.path if event else name}"
            if event is not None and array_of(value) is not array_of(event.result):
                base += ".source" * (array_of(value) is not None)
            labels = _labels(event, operands) if event else Labels()
            out[key] = None if value is None else self._dump(one, DATA_AXES)(value, base, "in", labels)
        out["before"] = {
            key: self._dump(one, PARAMETER_AXES)(
                _as_stored(one, key, value), f"{self.prefix}{one.layer}/{_state(key)}.old", "in"
            )
            for key, value in one.before.items()
        }
        return out

    def _dump(self, one: Captured, axes: dict[int, str]) -> Dump:
        return Dump(self.names, one.layer, axes)

    def _bring_words(self, one: Captured) -> None:
        """Random words are ports, never drawn again by a device."""
        for stream, words in one.words.items():
            name = f"{self.prefix}{one.layer}/{stream}.words"
            meaning = WORDS.format(stream=f"{one.layer}/{stream}")
            fields = {"signed": False, "meaning": meaning}
            self.names.ports.append(ports.whole_number(name, "rnd", words, "element", 32, **fields))
            self.names.bring(one.layer, words, name)

    # -- what it did --------------------------------------------------------------------------

    def _event(self, one: Captured, event: Event, operands: Operands) -> None:
        name, array = self._name(event), array_of(event.result)
        found = None if array is None else self.names.find(one.layer, array)
        if (
            array is not None
            and found is not None
            and (found != name or self.names.brought(one.layer, array))
        ):
            if found != name:
                self.aliases[name] = found
            return
        result = event.result
        formula = operands.symbol(event.path).formula
        if isinstance(result, Exact):
            try:
                result = result.to_qtensor(name) if _whole(result) else self._numerators(result, name)
            except ContainerError as error:
                self.skipped[name] = str(error)
                return
            if not _whole(event.result):
                formula = f"numerator of {formula}: value = code * 2^exponent / {name}.denominator"
        direction = "in" if _constant_copy(one, event) else "out"
        axes = (DATA_AXES if event.path[0] in "xem" else PARAMETER_AXES)[len(result.shape)]
        rounding: Json = {}
        flags = "exact"
        if event.format is not None:
            rounding, flags = self._rounding(one, event, operands, direction, axes)
        kind = {"meaning": formula, "rounding": rounding}
        self.names.ports += ports.tensor(name, direction, result, axes, **kind)
        if direction == "out":
            self.cases.append(Case(0, name, "L4" if self.prefix else "L3", flags, 0))

    def _numerators(self, value: Exact, name: str) -> QTensor:
        """The codes of a quotient before it is divided; what divides it is a port of its own."""
        den = np.atleast_1d(np.asarray(value.den, np.int64))
        bits, meaning = QTensor(den, 0).width, f"divides the codes of {name}"
        self.names.ports.append(
            ports.whole_number(f"{name}.denominator", "trail", den, "C", bits, meaning=meaning, explains=name)
        )
        return Exact(value.terms, value.exponent, value.offset, 1, value.relu, value.shifts).to_qtensor(name)

    def _rounding(
        self, one: Captured, event: Event, operands: Operands, direction: str, axes: str
    ) -> tuple[Json, str]:
        """(the port's `rounding`, its case's flags); its trail becomes ports where anything was rounded."""
        assert event.format is not None and event.rounding is not None
        name = self._name(event)
        entered = event.operands if event.operands is not None else event.source
        source = self._dump(one, DATA_AXES if event.path[0] in "xem" else PARAMETER_AXES)(
            entered, name, "trail", _labels(event, operands)
        )
        value = exact(event.source, name)
        low, high, overflow = limits(event.format)
        words = None if event.words is None else self.names.find(one.layer, event.words)
        rounding: Json = {"mode": event.rounding, "grid": grid(value, event.format), "low": low, "high": high}
        rounding |= {"overflow": overflow, "words": words, "word_bits": event.word_bits, "source": source}
        status = event.result.status
        if direction == "in" or not (status.inexact or status.saturated):
            return rounding, "exact"
        way = trail(value, event.format, event.rounding, event.words, event.word_bits)
        self.names.ports += _trail_ports(name, way, axes)
        ties = int(np.count_nonzero(way.remainder == HALF))
        flags = [event.rounding, f"rounded:{status.inexact}"]
        flags += [f"ties:{ties}"] * bool(ties) + [f"saturated:{status.saturated}"] * bool(status.saturated)
        return rounding | {"lift": way.lift}, " ".join(flags)

    # -- and left -----------------------------------------------------------------------------

    def _after(self, one: Captured) -> None:
        """The state after the step: mostly paths that were rounded; the rest becomes ports."""
        made = {port.name: codes for port, codes in self.names.ports}
        for key, value in one.after.items():
            array = array_of(value)
            assert array is not None, key
            if self.names.find(one.layer, array) is not None:
                continue
            name = f"{self.prefix}{one.layer}/{_state(key)}"
            name += ".new" * (name in self.aliases)  # a float layer's forward copy has the name
            if name not in made:
                kind = {"meaning": "state after the step"}
                self.names.ports += ports.tensor(name, "out", value, PARAMETER_AXES[array.ndim], **kind)
                self.cases.append(Case(0, name, "L4" if self.prefix else "L3", "state", 0))
            elif not np.array_equal(made[name], array):
                raise AssertionError(f"{name}: what is kept is not what was stored")
            self.names.produce(array, name)


def _given(one: Captured) -> list[Any]:
    return [one.value, one.gradient, *one.before.values()]


def _arrays(value: Any) -> list[np.ndarray]:
    """Every code or float array of a value."""
    if isinstance(value, Exact):
        return [term.codes for term, _ in value.terms]
    array = array_of(value)
    return [] if array is None else [array]


def _whole(value: Exact) -> bool:
    return not np.any(np.asarray(value.den) != 1)


def _state(key: str) -> str:
    """'W', 'Accq', 'Accq_gamma', 'running_mean' of the keys of `capture.state`."""
    symbol, _, slot = key.partition(":")
    return symbol if not slot else slot if symbol in ("W", "") else f"{slot}_{symbol}"


def _as_stored(one: Captured, key: str, value: Any) -> Any:
    """A state tensor in the format that the step stores it in: a checkpoint keeps codes, not formats."""
    formats = [event.format for event in one.events if event.path == _state(key)]
    if not formats or not isinstance(value, QTensor):
        return value
    return QTensor(value.codes, value.exponent, formats[0], value.bound)


def _reader(one: Captured, value: Any) -> Event | None:
    """The first event that handed on or rounded just this value."""
    array = array_of(value)
    for event in one.events:
        same = event.source is value or event.result is value
        if same or (array is not None and array_of(event.source) is array):
            return event
    return None


def _labels(event: Event, operands: Operands) -> Labels:
    """What the paper calls the parts of what entered."""
    entered = event.operands if event.operands is not None else event.source
    if not isinstance(entered, Exact):
        return Labels()
    symbol = operands.symbol(event.path)
    terms = tuple(operands.name(event, term, k) for k, (term, _) in enumerate(entered.terms))
    return Labels(terms, symbol.coefficients, symbol.offset, symbol.denominator)


def _constant_copy(one: Captured, event: Event) -> bool:
    """Whether it is the forward copy of a parameter, and all alike."""
    array = array_of(event.source)
    if event.format is None or array is None or not isinstance(event.result, QTensor):
        return False
    copied = any(array is array_of(value) for value in one.before.values())
    return copied and bool(np.all(event.result.codes == event.result.codes.flat[0]))


def _trail_ports(name: str, way: Any, axes: str) -> list[ports.Filled]:
    """floor, remainder, up, presat, and of Flag-Q coarse."""
    bits = max(QTensor(part, 0).width for part in (way.floor, way.presat))
    parts = [
        ("floor", way.floor, bits, True, "floor of the value in steps of the grid"),
        ("remainder", way.remainder, REMAINDER_BITS, False, "32 bits of the fraction, then a sticky bit"),
        ("up", way.up, 1, False, "1 where floor + 1 was taken"),
        ("presat", way.presat, bits, True, "floor + up, before the limits"),
    ]
    if way.coarse is not None:
        parts.append(("coarse", way.coarse.astype(np.int64), 1, False, "1 on the coarse grid"))
    return [
        ports.whole_number(
            f"{name}.{part}", "trail", codes, axes, width, signed=signed, meaning=meaning, explains=name
        )
        for part, codes, width, signed, meaning in parts
    ]


def _digest(filled: Sequence[ports.Filled]) -> str:
    """SHA-256 of the texts of the out ports, in the order of their files' names."""
    sha = hashlib.sha256()
    for port, codes in sorted(filled, key=lambda one: one[0].file):
        if port.direction == "out":
            sha.update(hexfiles.encode(codes, port.layout)[0])
    return sha.hexdigest()
