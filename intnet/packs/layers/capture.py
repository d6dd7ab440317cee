"""What a layer saw and did in one step: everything from which the step can be done again, and its trace.

    with Taps(layers, method) as taps:          # around one training step
        run.train(step, observe_last=[taps])
    captured = taps.captured()

A `Captured` holds the layer's input, the gradient at its output, its stored state before and after, the
random words that it drew, and the events of its data paths (`methods/trace.py`). `replay` runs a layer alone,
from the first three, and captures it again: that is how a pack is recomputed without data, model or run.

A step ends here with its update: what a method does with the whole net after that is no layer's work. What
it remembers of the whole net (`Method.state`) enters a replay as it was when the update began, after the
loss; nothing reads it before.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import numpy as np

from intnet import ops
from intnet.autograd import Tensor, backward, leaf
from intnet.errors import ConfigError, PackError
from intnet.inspect.as_spec import KINDS
from intnet.layers import Dropout, Layer
from intnet.layers.joints import Join, Scale
from intnet.methods.float_master import FloatMaster
from intnet.methods.method import Method, Update
from intnet.methods.trace import Event, handed_on
from intnet.numbers.qtensor import QTensor
from intnet.packs.layers.wiring import Wiring
from intnet.training.state import parts

WINDOW = ("kernel", "stride", "padding", "groups", "output")
HOOKS = ("weight", "activation", "error", "gradient")
FOLDED = ("scale", "offset")  # of a batch norm that inference has as two words a channel


@dataclass
class Captured:
    """One layer in one step.

    kind:   the definition's word for what the layer does, of a layer of a user's own its class
    output: what it gave on the way forward; handed: the gradient that it gave at its input
    wanted: whether it had to hand one on
    factors: what a product with factors (`Scale`) reads beside its value; handed_factors: the gradient there
    sources, errors, factor_sources: what made its value, its gradient and its factors (`graph.py`), where
        that was seen and not compared
    window: stride, padding, groups, kernel of a layer that has them
    """

    layer: str
    kind: str = ""
    value: Any = None
    gradient: Any = None
    output: Any = None
    handed: Any = None
    wanted: bool = False
    factors: Any = None
    handed_factors: Any = None
    sources: list[list[str]] | None = None
    errors: list[list[str]] | None = None
    factor_sources: list[list[str]] | None = None
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)
    window: dict[str, Any] = field(default_factory=dict)
    words: dict[str, np.ndarray] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)


def state(layer: Layer) -> dict[str, Any]:
    """What a layer keeps from step to step, under the papers' symbols: parameters, their slots, buffers.

    By name: a checkpoint keeps another order than the one in which they came to be.
    """
    out = {}
    for parameter in layer.parameters:
        out[parameter.symbol] = parameter.value
        out |= {f"{parameter.symbol}:{slot}": value for slot, value in sorted(parameter.slots.items())}
    return out | {f":{name}": value for name, value in sorted(layer.buffers.items())}


def set_state(layer: Layer, values: dict[str, Any]) -> None:
    """The inverse of `state`."""
    for parameter in layer.parameters:
        parameter.value = values[parameter.symbol]
        slots = [key for key in values if key.startswith(f"{parameter.symbol}:")]
        parameter.slots = {key.partition(":")[2]: values[key] for key in slots}
    layer.buffers = {key[1:]: value for key, value in values.items() if key.startswith(":")}


def remembered(method: Method) -> dict[str, Any]:
    """`Method.state` as JSON, each tensor with what it is; empty for a method that remembers nothing."""
    told = {}
    for name, value in sorted(method.state.items()):
        array, exponent = parts(value)
        if isinstance(exponent, np.ndarray):
            raise ConfigError(
                f"{name} of {method.name}'s state has many exponents: a pack remembers one a tensor"
            )
        told[name] = {"values": array.reshape(-1).tolist(), "type": array.dtype.name, "exponent": exponent}
        if array.ndim != 1:
            told[name]["shape"] = list(array.shape)
        told[name]["meaning"] = method.STATE.get(name, "")
    return told


def remember(method: Method, told: dict[str, Any]) -> None:
    """The inverse of `remembered`."""
    arrays = {
        name: np.array(one["values"], one["type"]).reshape(one.get("shape", -1)) for name, one in told.items()
    }
    method.state = {
        name: array if told[name]["exponent"] is None else QTensor(array, told[name]["exponent"])
        for name, array in arrays.items()
    }


def rates(method: Method) -> dict[str, Any]:
    """The numbers of this step by which float32 masters move; empty where there are none."""
    if not isinstance(method, FloatMaster):
        return {}
    return {"lr": method.rate(), "t": method.updates_done() + 1, "penalties": list(method.penalties())}


def window(layer: Layer) -> dict[str, Any]:
    """How a convolution or a pool walks over its input, and the share that dropout keeps, as JSON."""
    found = {name: getattr(layer, name) for name in WINDOW if hasattr(layer, name)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()} | (
        {"keep": str(layer.keep)} if isinstance(layer, Dropout) else {}
    )


class Taps:
    """Observes `layers` of a model in one step of `method`, or in one pass of inference.

    wiring: that of the network, of which `layers` are all. PackError of a method that packs do not hold.
    """

    def __init__(self, layers: Sequence[Layer], method: Method, wiring: Wiring | None = None) -> None:
        if method.ranged:
            raise PackError(
                f"method {method.name}: a pack holds no products of affine codes and no range batch norm; "
                "intnet inspect and intnet verify follow its steps"
            )
        self.layers, self.method, self.wiring = layers, method, wiring
        kinds = {layer.name: KINDS.get(type(layer), type(layer).__name__) for layer in layers}
        self.seen = {name: Captured(name, kind) for name, kind in kinds.items()}
        self.remembered: dict[str, Any] = {}
        self.rates: dict[str, Any] = {}
        self._shown: list[Event] | None = None  # by the hook that is under way

    def __call__(self, event: Event) -> None:
        """Observe one event; of a parameter that is read as it stands, and told again when it has moved, the
        first: what it has become is state."""
        if self._shown is not None:
            self._shown.append(event)
        seen = self.seen.get(event.layer)
        if seen is not None and all(event.path != one.path for one in seen.events):
            seen.events.append(event)

    def __enter__(self) -> "Taps":
        for layer in self.layers:
            seen = self.seen[layer.name]
            seen.before, seen.window = state(layer), window(layer)
            layer.forward = self._tapped(layer)  # type: ignore[method-assign]
        self._draw, self._update, self._fold = self.method.words, self.method.update_all, self.method.fold
        for name in HOOKS:
            setattr(self.method, name, self._hooked(getattr(self.method, name)))
        self.method.words = self._drawn  # type: ignore[method-assign]
        self.method.update_all = self._updated  # type: ignore[method-assign]
        self.method.fold = self._folded  # type: ignore[method-assign]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for layer in self.layers:
            del layer.forward  # the method of its class again
        for name in (*HOOKS, "words", "update_all", "fold"):
            delattr(self.method, name)

    def _tapped(self, layer: Layer) -> Callable[..., Tensor]:
        seen, inner = self.seen[layer.name], layer.forward

        def keep(name: str) -> Callable[[Any], Any]:
            def kept(value: Any) -> Any:
                setattr(seen, name, value)
                return value

            return kept

        def forward(x: Tensor, method: Method, *others: Tensor) -> Tensor:
            if others and type(layer) is Join:
                return forward(ops.add(x, *others), method)
            if others and type(layer) is not Scale:
                kind = type(layer).__name__
                raise PackError(
                    f"layer {layer.name} of the class {kind} reads two tensors: a pack holds of such layers "
                    "those that have a definition, sums (Join) and products with factors (Scale)"
                )
            if seen.value is not None:
                raise PackError(f"layer {layer.name} runs twice in a step: a pack holds one pass of a layer")
            seen.value, seen.wanted = x.value, x.node is not None
            seen.factors = others[0].value if others else None
            if self.wiring is not None:
                self.wiring.reads(layer.name, x.value, seen.factors)
            x = ops.cast(x, forward=lambda value: value, backward=keep("handed"))
            hand_factors = keep("handed_factors")
            others = tuple(ops.cast(s, forward=lambda value: value, backward=hand_factors) for s in others)
            y = ops.cast(inner(x, method, *others), forward=keep("output"), backward=keep("gradient"))
            if self.wiring is not None:
                self.wiring.makes(layer.name, y.value)
            return y

        return forward

    def _hooked(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """PackError where a hook hands on another value than it shows: no pack's rules would be true."""

        def called(layer: Layer, *given: Any) -> Any:
            outer, self._shown = self._shown, []  # a hook may call another one
            made = hook(layer, *given)
            shown, self._shown = self._shown, outer
            if outer is not None:
                outer += shown
            if layer.name in self.seen and not handed_on(shown, made):
                paths = " and ".join(f"{event.layer}/{event.path}" for event in shown)
                raise PackError(
                    f"{paths}: method {self.method.name!r} shows one value there and hands on another: store "
                    "or pass what the hook returns"
                )
            return made

        return called

    def _folded(self, layer: Any) -> tuple[QTensor, QTensor] | None:
        """Scale and offset of a batch norm in inference, which pass no hook of the method."""
        with self.method.within(observers=[]):  # it makes copies of gamma and beta, which were seen before
            made = self._fold(layer)
        for path, value in zip(FOLDED, made or (), strict=False):
            self(Event(layer.name, path, self.method.step, value, value))
        return made

    def _updated(self, updates: Sequence[Update]) -> None:
        self.remembered, self.rates = remembered(self.method), rates(self.method)
        self._update(updates)
        for layer in self.layers:
            others = {f":{name}" for name in self.method.buffers_set_elsewhere(layer)}
            after = {key: value for key, value in state(layer).items() if key not in others}
            self.seen[layer.name].after = after

    def _drawn(self, name: str, n: int) -> np.ndarray:
        words = self._draw(name, n)
        layer, _, stream = name.rpartition("/")
        # one array a stream, by which paths find its port: what is folded draws the words of copies again
        return self.seen[layer].words.setdefault(stream, words) if layer in self.seen else words

    def captured(self) -> list[Captured]:
        """One for each layer that has a data path, in the order given; PackError where none has."""
        found = [seen for seen in self.seen.values() if seen.events]
        if not found:
            names = ", ".join(self.seen)
            raise PackError(f"{names}: no data path in this step: nothing is rounded or stored")
        return found


def replay(layer: Layer, method: Method, given: Captured) -> Captured:
    """`given`'s step again, from its value, its gradient and its state before; the layer alone."""
    set_state(layer, given.before)
    with Taps([layer], method) as taps, method.within(observers=[taps]):
        x = leaf(given.value) if given.wanted else Tensor(given.value)
        y = layer(x, method, *([] if given.factors is None else [leaf(given.factors)]))
        if given.gradient is not None:
            gradients = backward(y, given.gradient, ops.elementwise.join)
            leaves = [(layer, p, gradients[p]) for p in layer.parameters]
            method.update_all(leaves)
    return taps.captured()[0]
