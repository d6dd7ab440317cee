"""A layer's step by the definition, alone, from what a pack says went into it.

    for made in Replay(plain).steps(): made.seen["x1"].stored ...

The walk of `spec.nets` takes the layer forward from its input, back from the error at its output, and to its
next state, by the method's rules (`spec.methods`); `ports.py` makes words of what was stored on the way.
A step begins with what PACK.json keeps of it: nothing of another step enters but the pack's words. Where a
layer of the pack made a layer's value or its error, the walk goes on with what the definition made there.

`change` may put other numbers in the place of what is stored (`causes.py`: those of a device).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from intnet import methods, models
from intnet.errors import ConfigError, PackError
from intnet.inspect import as_spec
from intnet.layers import Squeeze
from intnet.packs.by_spec import heads
from intnet.packs.by_spec.plain import Plain
from intnet.packs.layers.capture import FOLDED
from intnet.packs.layers.heads import LABELS
from intnet.packs.pack import MANIFEST
from intnet.packs.ports import CLASSES, HEADS, INFERENCE, Json, step_prefix
from intnet.spec import models as spec
from intnet.spec.digest import Floats, Words
from intnet.spec.inference import Inference
from intnet.spec.methods.step import NAMES, Now, Seen, State, Step, key, symbols_of
from intnet.spec.nets import Walk
from intnet.spec.tensor import Fixed
from intnet.spec.values import Value, exact, joined

Change = Callable[[str, Any], Any]  # (a port's name, what is stored) -> what goes on


@dataclass(frozen=True)
class Moment(Now):
    """A step whose epoch is told; it ends none: what a method does after an epoch is in no pack."""

    told: int = 0

    @property
    def epoch(self) -> int:
        """From 0."""
        return self.told

    @property
    def ends(self) -> bool:
        """Never."""
        return False


@dataclass
class LayerStep:
    """What the definition made of one layer in one step.

    prefix:  of the names of its ports: 'step7/fc2/'
    seen:    path -> what was stored there, and from what
    joined:  port -> the sum of two layers' values that entered
    inside:  what PACK.json says of a value that other layers made, and that value
    after:   'W', 'W:Accq', ':running_mean' -> the state that was left
    unknown: why there is none of this, else ''
    """

    layer: str
    prefix: str
    now: Moment
    seen: dict[str, Seen] = field(default_factory=dict)
    joined: dict[str, Value] = field(default_factory=dict)
    inside: list[tuple[Json, Value]] = field(default_factory=list)
    after: dict[str, Words | Floats] = field(default_factory=dict)
    unknown: str = ""


@dataclass
class _Walked:
    """A layer under way: what it gave on the way forward, and at its input on the way back."""

    entry: Json
    made: LayerStep
    step: Step
    walk: Walk
    output: Value | None = None
    handed: Value | None = None
    handed_factors: Value | None = None
    value: Value | None = None
    error: Value | None = None


class Replay:
    """The layers of a pack, each with its definition."""

    def __init__(self, plain: Plain, change: Change | None = None) -> None:
        self.plain, self.change = plain, change
        self.given: Json = plain.manifest["generator"]
        model = models.make(self.given["model"], tuple(self.given["image_shape"]), self.given["classes"])
        self.model = {layer.name: layer for layer in model.all_layers()}
        known = methods.METHODS.get(self.given["method"])
        self.module: Any = known and as_spec.definition_of(known)
        kinds = as_spec.KINDS
        self.net = tuple(as_spec.layer_of(one, kinds.get(type(one), "")) for one in self.model.values())
        self.layers = {layer.name: layer for layer in self.net}

    def steps(self) -> Iterator[LayerStep]:
        """Every layer of every step, in the order of `replay`."""
        for step in self.plain.manifest["about"]["replay"]:
            per_epoch = step.get("steps_per_epoch", 1)
            infers = self.given["kind"] == INFERENCE
            now = Moment(self.given["seed"], step["step"] - 1, per_epoch, infers, told=step["epoch"])
            prefix = step_prefix(step["step"], self.given)
            self._check(step)
            walked: dict[str, _Walked] = {}
            found = []
            for one in step["layers"]:
                made = LayerStep(one["layer"], f"{prefix}{one['layer']}/", now, unknown=self._unknown(one))
                if not made.unknown:
                    walked[made.layer] = self._begin(one, step.get("method", {}), made)
                found.append(made)
            try:
                for one in walked.values():
                    self._forward(one, walked)
                for one in reversed(walked.values()):
                    self._back(one, walked)
            except RecursionError:
                ring = f"{self.plain.pack.folder}: {MANIFEST} has layers that read one another in a ring"
                raise PackError(ring) from None
            for one in walked.values():
                if one.made.layer in self.layers and not infers:
                    self._update(one)
            yield from found

    def _check(self, step: Json) -> None:
        """PackError where a layer has its value or its error from one that the step has not."""
        names = {one["layer"] for one in step["layers"]}
        keys = ("sources", "errors", "factor_sources")
        origins = [part for one in step["layers"] for key in keys for part in one.get(key, ())]
        missing = [layer for _, layer in origins if layer not in names]
        if missing:
            where = f"{self.plain.pack.folder}: {MANIFEST}"
            raise PackError(f"{where} speaks of a layer {missing[0]!r}, which the step has not")

    def _unknown(self, one: Json) -> str:
        method = self.given["method"]
        if self.module is None:
            return (
                f"the definition has no method {method!r}: give --import FILE of one that registers it and "
                "names its definition, `spec`"
            )
        if one["kind"] in HEADS:
            return ""
        kind = type(self.model[one["layer"]])
        if kind in as_spec.KINDS:
            return ""
        own = "what its operation names, `spec`, is judged by `intnet verify` alone"
        return f"the definition has no layer of the class {kind.__name__}; {own}"

    def _begin(self, one: Json, method: Json, made: LayerStep) -> _Walked:
        """A step of the method with the layer's state."""
        state = {f"method/{name}": _remembered(value) for name, value in method.items()}
        kept = one["before"].items() if one["kind"] not in HEADS else ()
        state |= {_state_name(made.layer, name): self._stored(json) for name, json in kept}
        try:
            settings = as_spec.settings_of(self.module, self.given["method"], self.given["options"])
        except ConfigError as error:
            where = f"{self.plain.pack.folder}: {MANIFEST}"
            raise PackError(f"{where} cannot be run by the definition: {error}") from error

        def see(seen: Seen) -> None:
            made.seen.setdefault(seen.path, seen)  # of a parameter what was read, not what it became

        step: Step = self.module.Step(self.net, settings, state, made.now, see)
        if self.change is not None:
            _changed(step, self.change, made.prefix)
        if made.now.inference:
            _folding(step)
        walk = Inference if made.now.inference else Walk
        return _Walked(one, made, step, walk(step, made.layer if not one["wanted"] else ""))

    def _forward(self, one: _Walked, walked: dict[str, _Walked]) -> Value:
        """Its output, after those of the layers that it reads."""
        if one.output is None:
            one.value = self._from("sources", "value", one, walked)
            if one.entry["kind"] in HEADS:
                one.output, one.handed = self._head(one, one.value)
                return one.output
            layer = self.layers[one.made.layer]
            if "factors" in one.entry:
                factors = self._from("factor_sources", "factors", one, walked)
                one.output = one.walk.scaled(layer, one.value, factors)
            else:
                one.output = one.walk.forward((layer,), one.value)
            if f"{one.made.prefix}x4" in self.plain.ports and "x4" not in one.made.seen:  # of a pool
                one.output = one.step.note(layer, "x4", one.output, one.output)
        return one.output

    def _head(self, one: _Walked, output: Value) -> tuple[Value, Value | None]:
        """(the logits in float32, the error that goes back) of a loss, or of classes."""
        layer = spec.Layer(one.entry["kind"], one.made.layer)

        def store(path: str, given: Value, made: Any) -> Any:
            return one.step.note(layer, path, given, made)

        if one.entry["kind"] == CLASSES:
            return heads.classes(output, store), None
        labels = self.plain.codes(one.entry["before"][LABELS]["tensor"])
        return heads.loss(output, labels, one.step.settings.label_smoothing, store)

    def _back(self, one: _Walked, walked: dict[str, _Walked]) -> Value | None:
        """The error that it hands on; None where none came."""
        if one.handed is None and one.entry["gradient"] is not None:
            one.error = self._from("errors", "gradient", one, walked)
            layer = self.layers[one.made.layer]
            if "factors" in one.entry:
                one.handed, one.handed_factors = one.walk.scaled_back(layer, one.error)
                return one.handed
            one.handed = one.walk.backward((layer,), one.error)
            if isinstance(self.model[one.made.layer], Squeeze):
                one.handed = one.step.error(layer, "e0", one.handed)
        return one.handed

    def _update(self, one: _Walked) -> None:
        if one.entry["gradient"] is not None:
            one.step.update_all()
        layer = self.layers[one.made.layer]
        one.made.after = {name: one.step.state[ours] for ours, name in _own(layer, one.step.state)}

    def _from(self, origins: str, key: str, one: _Walked, walked: dict[str, _Walked]) -> Value:
        """What other layers made, added; as PACK.json has it where it came from outside."""
        origin, json_ = one.entry[origins], one.entry[key]
        if not origin or any(layer not in walked for _, layer in origin):
            return self.plain.entered(json_)
        found: list[Any] = [self._part(what, walked[layer], walked) for what, layer in origin]
        value: Value = found[0] if len(found) == 1 else joined(*found)
        one.made.inside.append((json_, value))
        own = json_.get("tensor", "").startswith(one.made.prefix) and "denominator" not in json_
        if own:  # a sum has no path of its own
            one.made.joined[json_["tensor"]] = value
        return value

    def _part(self, what: str, of: _Walked, walked: dict[str, _Walked]) -> Value | None:
        """'output' and what is handed on of a layer, or the 'value' or the 'error' that it was given."""
        if what in ("output", "value"):
            self._forward(of, walked)
        else:
            self._back(of, walked)
        found: Value | None = getattr(of, what.replace(" ", "_"))
        return found

    def _stored(self, json: Json) -> Words | Floats:
        """A tensor of the state ahead of the step."""
        value = self.plain.value(json["tensor"])
        if isinstance(value, Fixed):
            return Words(json["type"], value.shape, value.codes, value.exponent)
        return _floats(json["type"], value.shape, exact(value))


def _changed(step: Step, change: Change, prefix: str) -> None:
    """From now on what the step stores goes on as `change` has it."""
    note = step.note

    def changed(layer: spec.Layer, path: str, given: Any, out: Any, *more: Any) -> Any:
        return change(prefix + path, note(layer, path, given, out, *more))

    step.note = changed  # type: ignore[method-assign, assignment]


def _folding(step: Step) -> None:
    """From now on what the step folds of a batch norm is stored."""
    fold = step.folded

    def folded(layer: spec.Layer) -> tuple[Fixed, Fixed] | None:
        made = fold(layer)
        if made is None:
            return None
        scale, offset = (step.note(layer, *each) for each in zip(FOLDED, made, made, strict=True))
        return scale, offset

    step.folded = folded  # type: ignore[method-assign]


def _floats(dtype: str, shape: tuple[int, ...], values: Sequence[Any]) -> Floats:
    """Fractions of float32, Python's floats of float64."""
    number = Fraction if dtype == "float32" else float
    return Floats(dtype, shape, [number(value) for value in values])


def _remembered(told: Json) -> Words | Floats:
    """A number, or a few, that the method remembers of the whole net."""
    values = told["values"]
    shape = tuple(told.get("shape", (len(values),)))
    if told["type"].startswith("float"):
        return _floats(told["type"], shape, values)
    return Words(told["type"], shape, values, told["exponent"])


def _state_name(layer: str, name: str) -> str:
    """'W:Accq' of PACK.json as the definition's 'fc1.weight.Accq', ':running_mean' as 'bn1.running_mean'."""
    symbol, _, slot = name.partition(":")
    return key(layer, symbol, slot) if symbol else f"{layer}.{slot}"


def _own(layer: spec.Layer, state: State) -> Iterator[tuple[str, str]]:
    """(the definition's name, that of PACK.json) of what a state has of a layer: `_state_name` inverted."""
    symbols = {NAMES[symbol]: symbol for symbol in symbols_of(layer)}
    for name in state:
        if name.startswith(f"{layer.name}."):
            kept = name.removeprefix(f"{layer.name}.")
            parameter, _, slot = kept.partition(".")
            symbol = symbols.get(parameter)
            yield name, f":{kept}" if symbol is None else f"{symbol}:{slot}" if slot else symbol
