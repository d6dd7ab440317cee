"""The ports of captured layers: one a data path, the trail of what was rounded, the state before and after.

    made = Maker(method, generator); made.add(captured); made.draft()

The package says what the ports are; `expressions.py` writes what entered each rounding. Three passes over a
step: what the layers produce gets its names, then what they were given, then every event gets its ports.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from intnet.datasets.places import without_folder
from intnet.errors import ContainerError, FormatError, PackError
from intnet.exact.blocks.buckets import Codec
from intnet.exact.blocks.mx_blocks import Along
from intnet.exact.expressions import Exact, exact
from intnet.inspect.operands import Operands
from intnet.inspect.trail import grid, limits, trail
from intnet.methods.method import Method
from intnet.methods.trace import Event
from intnet.numbers.formats import BlockFloat, Format, Levels
from intnet.numbers.microscaling import Microscaling
from intnet.numbers.qtensor import QTensor
from intnet.numbers.small_floats import Float
from intnet.packs import lines, ports
from intnet.packs.layers import blocks, graph, heads, mx_blocks, worth
from intnet.packs.layers.capture import Captured
from intnet.packs.layers.expressions import Dump, Labels, Names, array_of
from intnet.packs.layers.wiring import Origin
from intnet.packs.ports import HEADS, INFERENCE, LAYERS, Case, Draft, Json
from intnet.spec import batch_norm, float_batch_norm

PARAMETER_AXES = {4: "Cout,Cin,kh,kw", 2: "Cout,Cin", 1: "C"}
DATA_AXES = {4: "N,H,W,C", 2: "N,C", 1: "C"}
IN_BLOCKS: dict[type, Callable[[blocks.Path], blocks.Made]] = {
    BlockFloat: blocks.block_float, Codec: blocks.buckets, Along: mx_blocks.mx_blocks
}  # fmt: skip
WORDS = (
    "random words of stream {stream}: Philox4x32-10, key (seed low, high), counter (i//4 low, high, first 4 "
    "bytes, big-endian, of SHA-256 of the stream's name, step - 1), word i % 4 for element i in C order"
)


class Maker:
    """Collects the ports of one step after another."""

    def __init__(self, method: Method, generator: Mapping[str, Any]) -> None:
        # a pack and its digest are the same wherever the data lay: data_sha256 tells which they are
        generator = {**generator, "data": without_folder(generator["data"])}
        self.method, self.generator = method, generator
        self.whole = generator["kind"] != LAYERS
        self.names = Names()
        self.cases: list[Case] = []
        self.replay: list[Json] = []
        self.aliases: dict[str, str] = {}
        self.chain: list[Json] = []
        self.skipped: dict[str, str] = {}
        told = json.dumps(dict(generator), sort_keys=True, default=str)
        self.digest = hashlib.sha256(told.encode()).hexdigest()[:8]  # tells apart what names do not

    def add(self, captured: Sequence[Captured], step: int, epoch: int, remembered: Json, rates: Json) -> None:
        """What layers did in a step, counted from 1, what the method remembered then, and its rates."""
        first = len(self.names.ports)
        self.prefix = ports.step_prefix(step, self.generator)
        symbols = {**self.method.SYMBOLS, **(heads.SYMBOLS if self.whole else {})}
        operands = Operands({f"{e.layer}/{e.path}": e for c in captured for e in c.events}, symbols)
        origins = {one.layer: graph.origins(one, captured) for one in captured}
        for one in captured:
            self._name_products(one)
        self._inside = {id(array_of(value)) for one in captured for value in _made_inside(one, origins)}
        for one in captured:
            self._name_handed(one)
        self._told_of = {one.layer: one for one in captured}
        layers = [self._given(one, operands, origins[one.layer]) for one in captured]
        for one in captured:
            self._bring_words(one)
            for event in one.events:
                self._event(one, event, operands)
            self._after(one)
        known: Json = {"step": step, "epoch": epoch}
        if self.method.moves_within_epochs:
            known["steps_per_epoch"] = self.method.steps_per_epoch
        if remembered:
            known["method"] = remembered
        if rates:
            known["rates"] = rates
        self.replay.append(known | {"layers": layers})
        outs = [filled for filled in self.names.ports[first:] if filled[0].direction == "out"]
        sha = lines.digest(sorted(outs, key=lambda one: one[0].file))
        self.chain.append({"step": step, "sha256": sha})

    def draft(self) -> Draft:
        """All steps so far as a pack."""
        made, steps = self.generator, self.generator["steps"]
        about: dict[str, Any] = {"replay": self.replay, "aliases": self.aliases, "not written": self.skipped}
        if steps > 1:
            about["chain"] = self.chain
        what = made["kind"] if self.whole else "+".join(made["layers"])
        name = f"{made['method']}-{made['model']}-{made['data']}-{what}-step{made['step']}"
        name += f"-to-{made['step'] + steps - 1}" if steps > 1 else ""
        name += f"-{self.digest}"
        return Draft(name, "L4" if steps > 1 else "L3", made, self.names.ports, self.cases, about)

    def _case(self, port: str, flags: str) -> None:
        self.cases.append(Case(0, f"{port}#{self.digest}", "L4" if self.prefix else "L3", flags, 0))

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

    def _name_handed(self, one: Captured) -> None:
        """What another layer gave and no path of its own has is a port of the layer that passes it on."""
        for event in one.events:
            array = array_of(event.result)
            if array is not None and id(array) in self._inside and self.names.find(one.layer, array) is None:
                self.names.produce(array, self._name(event))

    def _given(self, one: Captured, operands: Operands, origins: graph.Origins) -> Json:
        """Its entry of `replay`; what no layer of the pack made becomes `in` ports."""
        sources, errors, factors = origins
        out: Json = {"layer": one.layer, "kind": one.kind, "wanted": one.wanted, "window": one.window}
        out["sources"], out["errors"] = sources, errors
        read = [
            ("value", one.value, "x", "the layer's input", sources),
            ("gradient", one.gradient, "e", "the error at the layer's output", errors),
        ]
        if one.factors is not None:
            out["factor_sources"] = factors
            read.append(("factors", one.factors, "s", "the factors of the input's channels", factors))
        for key, value, name, meaning, origin in read:
            event = _reader(one, value)
            path = event.path if event else name
            base = of = f"{self.prefix}{one.layer}/{path}"
            if event is not None and array_of(value) is not array_of(event.result):
                base += ".source" * (array_of(value) is not None)
            told = event or self._maker(origin, value)
            labels = _labels(told, operands) if told else Labels()
            dump = Dump(self.names, one.layer, heads.axes(one) or DATA_AXES, of if origin else "")
            out[key] = dump(value, base, "trail" if origin else "in", labels, meaning)
        out["before"] = {}
        for key, value in one.before.items():
            kept, path = _as_stored(one, key, value), state_path(key)
            moves = one.kind not in HEADS and self.generator["kind"] != INFERENCE
            base = f"{self.prefix}{one.layer}/{path}" + ".old" * moves
            means = f"{path}{' before the step' * moves}{self._told(key)}"
            dump = Dump(self.names, one.layer, heads.axes(one) or _axes_of(key))
            out["before"][key] = dump(kept, base, "in", meaning=means)
        return out

    def _maker(self, origin: Origin, value: Any) -> Event | None:
        """The event in which another layer of the pack made just this value."""
        events = self._told_of[origin[0][1]].events if len(origin) == 1 else ()
        return next((event for event in events if graph.same(event.result, value)), None)

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
            and (found != name or (self.names.brought(one.layer, array) and id(array) not in self._inside))
        ):
            if found != name:
                self.aliases[name] = found
            return
        result = event.result
        formula = operands.symbol(event).formula
        if isinstance(result, Exact):
            try:
                x = result  # before it is divided
                result = Exact(x.terms, x.exponent, x.offset, 1, x.relu, x.shifts).to_qtensor(name)
            except ContainerError as error:
                self.skipped[name] = str(error)
                return
            if np.any(np.asarray(event.result.den) != 1):
                formula = f"numerator of {formula}; its denominator stands where it comes from"
        judges = not (worth.constant_copy(one, event) or worth.lost_gradient(event))
        judges &= not (self.whole and worth.alike(result))
        direction = "out" if judges else "trail"
        axes = _axes(one, event)[len(result.shape)]
        flags = "exact"
        if isinstance(event.format, BlockFloat | Codec | Along):
            self._in_blocks(one, event, operands, axes)
            return
        assert not isinstance(event.format, Float | Microscaling)  # no method's path has words of floats
        if event.format is not None:
            rounding, flags = self._rounding(one, event, event.format, operands, direction, axes)
        else:
            rounding = self._sum(one, event, operands)
        kind = {"meaning": formula, "rounding": rounding}
        self.names.ports += ports.tensor(name, direction, result, axes, **kind)
        if direction == "out":
            self._case(name, flags)

    def _sum(self, one: Captured, event: Event, operands: Operands) -> Json:
        """What an exact path adds up, where that is more than one tensor's codes."""
        entered = event.operands if event.operands is not None else event.result
        if not isinstance(entered, Exact) or array_of(entered) is not None:
            return {}
        return {"mode": "exact", "source": self._source(one, event, entered, operands)}

    def _source(self, one: Captured, event: Event, entered: Any, operands: Operands) -> Json | None:
        name = self._name(event)
        dump = Dump(self.names, one.layer, _axes(one, event), name)
        plain = isinstance(entered, QTensor | np.ndarray)  # of another path, perhaps in another form
        means = f"what is packed: {event.path[:-1]} in binary32" if isinstance(event.format, Codec) else ""
        return dump(entered, name + ".source" * plain, "trail", _labels(event, operands), means)

    def _rounding(
        self, one: Captured, event: Event, format: Format, operands: Operands, direction: str, axes: str
    ) -> tuple[Json, str]:
        """(the port's `rounding`, its case's flags); its trail becomes ports where anything was rounded."""
        assert event.rounding is not None
        name = self._name(event)
        entered = event.operands if event.operands is not None else event.source
        source = self._source(one, event, entered, operands)
        value = exact(event.source, name)
        low, high, overflow = limits(format)
        words = None if event.words is None else self.names.find(one.layer, event.words)
        rounding: Json = {"mode": event.rounding, "grid": grid(value, format), "low": low, "high": high}
        rounding |= {"overflow": overflow, "words": words, "word_bits": event.word_bits, "source": source}
        rounding |= {"levels": list(format.table[0])} if isinstance(format, Levels) else {}
        status = event.result.status
        if direction != "out" or not (status.inexact or status.saturated):
            return rounding, "exact"
        try:
            way = trail(value, format, event.rounding, event.words, event.word_bits)
        except (ContainerError, FormatError) as error:  # wide codes, tanh
            self.skipped[f"{name}.floor"] = f"no trail of it: {error}"
            return rounding, event.rounding
        self.names.ports += worth.trail_ports(name, way, axes)
        return rounding | {"lift": way.lift}, worth.flags(event, way)

    def _in_blocks(self, one: Captured, event: Event, operands: Operands, axes: str) -> None:
        """A path whose numbers share something: all of its ports, its trail with them."""
        packs = next(packs for kind, packs in IN_BLOCKS.items() if isinstance(event.format, kind))
        entered = event.source if isinstance(event.format, Codec) else exact(event.source, self._name(event))
        words, chosen = (
            None if drawn is None else self.names.find(one.layer, drawn)
            for drawn in (event.words, event.mix and event.mix.words)
        )
        rounding: Json = {"mode": event.rounding, "grid": None, "overflow": "saturate", "words": words}
        rounding |= {"word_bits": event.word_bits, "source": self._source(one, event, entered, operands)}
        formula = operands.symbol(event).formula
        made = packs(blocks.Path(self._name(event), event, axes, formula, rounding, chosen))
        self.names.ports += made.ports
        self.skipped |= made.skipped
        for name, flags in made.judged.items():
            self._case(name, flags)

    # -- and left -----------------------------------------------------------------------------

    def _after(self, one: Captured) -> None:
        """The state after the step: mostly paths that were rounded; the rest becomes ports."""
        made = {port.name: codes for port, codes in self.names.ports}
        for key, value in one.after.items():
            array = array_of(value)
            assert array is not None, key
            if self.names.find(one.layer, array) is not None:
                continue
            name = f"{self.prefix}{one.layer}/{state_path(key)}"
            name += ".new" * (name in self.aliases)  # a float layer's forward copy has the name
            if name not in made and not worth.varied(array):  # G after a switch
                self.skipped[name] = "constant after the step: a device that is stuck would pass"
                continue
            if name not in made:
                kind = {"meaning": self._left(one, key, value)}
                self.names.ports += ports.tensor(name, "out", value, _axes_of(key)[array.ndim], **kind)
                self._case(name, "state")
            elif not np.array_equal(made[name], array):
                raise PackError(
                    f"{name}: its method stores there something else than the step leaves; the copy that the "
                    "forward pass reads has a path of its own, as Wq of W"
                )
            self.names.produce(array, name)

    def _left(self, one: Captured, key: str, value: Any) -> str:
        """What state is after the step: by a rule, or by the slots that its update moved."""
        path, floating = state_path(key), isinstance(value, np.ndarray)
        rule = (float_batch_norm if floating else batch_norm).RULES.get(path, "")
        slots = [event.path for event in one.events if event.path in (f"Acc{path}", f"m{path}", f"v{path}")]
        how = f": {rule}" if rule else f", moved by {', '.join(slots)}" if slots else self._told(key)
        return f"{path} after the step{how}"

    def _told(self, key: str) -> str:
        """What the method says of a slot or a buffer, after a colon; '' where it says nothing."""
        found = self.method.STATE.get(key.rpartition(":")[2])
        return f": {found}" if found else ""


def _axes(one: Captured, event: Event) -> dict[int, str]:
    """Names of the dimensions of a path, by their number."""
    data = event.path[0] in "xem" or event.path == "dx4"
    return heads.axes(one) or (DATA_AXES if data else PARAMETER_AXES)


def _axes_of(key: str) -> dict[int, str]:
    """Names of the dimensions of stored state, by their number."""
    symbol, _, slot = key.partition(":")
    if slot not in blocks.STATE:
        return PARAMETER_AXES
    return blocks.block_axes(PARAMETER_AXES, 1) if symbol else blocks.block_axes(DATA_AXES)


def _given(one: Captured) -> list[Any]:
    return [one.value, one.factors, one.gradient, *one.before.values()]


def _made_inside(one: Captured, origins: Mapping[str, graph.Origins]) -> list[Any]:
    """Its value, its gradient and its factors, where layers of the pack made them, as arrays."""
    pairs = zip((one.value, one.gradient, one.factors), origins[one.layer], strict=True)
    return [value for value, origin in pairs if origin and array_of(value) is not None]


def _arrays(value: Any) -> list[np.ndarray]:
    """Every code or float array of a value."""
    if isinstance(value, Exact):
        return [term.codes for term, _ in value.terms]
    array = array_of(value)
    return [] if array is None else [array]


def state_path(key: str) -> str:
    """'W', 'Accq', 'Accq_gamma', 'running_mean', 'S_x0' of the keys of `capture.state`."""
    symbol, _, slot = key.partition(":")
    if slot in blocks.STATE:
        return f"{slot}_{symbol or 'x0'}"
    return symbol if not slot else slot if symbol in ("W", "") else f"{slot}_{symbol}"


def _as_stored(one: Captured, key: str, value: Any) -> Any:
    """A state tensor in the format that the step stores it in: a checkpoint keeps codes, not formats."""
    formats = [event.format for event in one.events if event.path == state_path(key)]
    words = Codec | Along | Float | Microscaling
    if not formats or not isinstance(value, QTensor) or isinstance(formats[0], words):
        return value
    return QTensor(value.codes, value.exponent, formats[0], value.bound)


def _reader(one: Captured, value: Any) -> Event | None:
    """The first event that handed on or rounded just this value."""
    array = array_of(value)
    for event in one.events:
        if isinstance(event.format, Codec):  # what it packs has a name of its own
            continue
        same = event.source is value or event.result is value
        if same or (array is not None and array_of(event.source) is array):
            return event
    return None


def _labels(event: Event, operands: Operands) -> Labels:
    """What the paper calls the parts of what entered."""
    entered = event.operands if event.operands is not None else event.source
    if not isinstance(entered, Exact):
        return Labels()
    symbol = operands.symbol(event)
    terms = tuple(operands.name(event, term, k) for k, (term, _) in enumerate(entered.terms))
    return Labels(terms, symbol.coefficients, symbol.offset, symbol.denominator)
