"""Method: the hooks through which a paper decides how every number is stored.

A model is structure only; it calls these hooks, and a method (one module each: `float32.py`,
`wageubn.py`) answers with quantized values. The defaults here are the identity in float32.

    weight(layer, parameter)            the copy of a parameter that the forward pass reads
    activation(layer, path, value)      x0 input, x1 output, mu sigma x2 x3 batch norm, x4 activation,
                                        dx4 the derivative of SiLU
    save(layer, path, value)            what the tape holds of a value for the gradients
    error(layer, path, value)           e0 e1 (e1q after SiLU) e2 m1 m2 e3 e4, on the way back
    gradient(layer, parameter, value)   a parameter's gradient, before the update
    update(layer, parameter, gradient)  the parameter's next value; `update_all` for all of a step
    see_loss(loss), end_of_step(), end_of_epoch()   state that moves with time

`layer` is any object with the attributes of `LayerLike`; `parameter` is a `Parameter`. Each value passes
`store` or `passes`, which tell observers (`methods/trace.py`). What a method remembers from step to step lies
where checkpoint and digest find it, as QTensors or float32 arrays: of a parameter in its `slots`, of a
layer in its `buffers`, of the whole net in `Method.state`.
"""

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from time import perf_counter
from typing import Any, ClassVar, Protocol

import numpy as np

from intnet.exact.blocks.signs import Signs
from intnet.exact.expressions import Exact, exact
from intnet.exact.quantize import quantize
from intnet.exact.sources import FloatExact
from intnet.methods.options import check_patterns, parse_options
from intnet.methods.packing import MASK, Held, Packing, split
from intnet.methods.symbols import PACKED, Symbol
from intnet.methods.trace import Event, Observer
from intnet.numbers import fp32, rng, shares
from intnet.numbers.formats import Format
from intnet.numbers.qtensor import QTensor
from intnet.numbers.rng import Draw
from intnet.numbers.rounding import STOCHASTIC, mode_code
from intnet.show.tables import Column, Shown, Table


class Parameter:
    """A trainable tensor: its names, its shape, how it starts; value and optimizer slots by the method.

    name:    PyTorch's ('weight', 'bias'); symbol: the papers' ('W', 'b', 'gamma', 'beta')
    start:   'normal' (N(0, 1/sqrt(fan_in))), 'ones' or 'zeros'
    """

    def __init__(self, name: str, symbol: str, shape: tuple[int, ...], start: str, fan_in: int = 1) -> None:
        self.name, self.symbol, self.shape, self.start, self.fan_in = name, symbol, shape, start, fan_in
        self.value: Any = None
        self.slots: dict[str, Any] = {}


class LayerLike(Protocol):
    """What a hook may know of a layer; edge: 'first' or 'last' weight layer, else ''. More: `Layer`."""

    name: str
    edge: str
    first_block: bool
    takes_weight: bool
    normalizes: bool
    derivative: str
    stores: bool
    buffers: dict[str, Any]


Update = tuple[LayerLike, Parameter, Any]  # and its gradient


@dataclasses.dataclass(frozen=True)
class Context:
    """What is true while hooks run: of one pass through a model, and of the update after it.

    seed, step, epoch: from which random words are drawn and schedules read; steps and epochs from 0
    training:          False: inference, which draws no words for activations and moves nothing
    observers:         told of every value that is stored or passed on
    saturated:         'layer/path' -> values that a range changed; the hooks count in it
    """

    seed: int = 0
    step: int = 0
    epoch: int = 0
    training: bool = True
    observers: Sequence[Observer] = ()
    saturated: dict[str, int] = dataclasses.field(default_factory=dict)


class Method(Shown):
    """Base of all methods; see the module's list of hooks. Options are the fields of `Options`."""

    name: ClassVar[str]
    DEVIATIONS: ClassVar[dict[str, str]] = {}
    SYMBOLS: Mapping[str, Symbol] = {}  # path -> how the paper writes it; may depend on the options
    STATE: ClassVar[dict[str, str]] = {}  # name in slots, buffers or `state` -> what it is
    running_statistics = True  # inference reads running means and variances, not the batch's own
    ranged = False  # batch norm goes by the batch's range (`ops/range_norm.py`)
    fixed_model = False  # what it trains is a fixed-point model (`runs/fixed_model.py`)
    label_smoothing = 0.0  # share of a target that the loss spreads over all classes
    steps_per_epoch = 1  # of the run that trains by it
    moves_within_epochs = False  # its learning rate does, so a step depends on steps_per_epoch

    reads_copies = False  # products keep rounded copies of activations: nothing else holds ReLU's output
    exact_gradients = False  # gW is an exact product of integers, which takes integers of x0
    packing: Packing | None  # what its tape packs, where asked to

    BY_LAYER: ClassVar[tuple[str, ...]] = ()  # keys that may be set for some layers only: bits@layer2.*

    LATER: ClassVar[tuple[str, ...]] = ()  # keys that files name only where they are not as by default

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Options:
        """Keys of `--set`."""

    def __init__(self, /, **options: Any) -> None:
        own, tape = split(options)
        self.options, self.overrides = parse_options(self.Options, own, self.name, self.BY_LAYER)
        self.packing = Packing.of(self, tape) if tape else None
        if self.packing is not None:
            self.SYMBOLS = {**self.SYMBOLS, **PACKED}
        self.context = Context()
        self.taken = False  # by a run, whose state it then holds
        self.overhead = 0.0  # seconds of the last step that went into moving widths
        self.moves: dict[str, dict[str, Any]] = {}  # layer -> what this step moved of it and why, for the log
        self.map: dict[str, Any] = {}  # what the last epoch found of a map of widths, for the log
        self.state: dict[str, Any] = {}
        self.held: dict[str, Held] = {}  # 'layer/path' -> in the last step, where the method tells

    # -- what is true now -------------------------------------------------------------------

    def set(self, **changes: Any) -> None:
        """From now on: fields of `Context`."""
        self.context = dataclasses.replace(self.context, **changes)

    @contextmanager
    def within(self, **changes: Any) -> Iterator[None]:
        """Inside the block: fields of `Context`, which are as before after it."""
        before = {name: getattr(self.context, name) for name in changes}
        self.set(**changes)
        try:
            yield
        finally:
            self.set(**before)

    @property
    def seed(self) -> int:
        """As `Context`."""
        return self.context.seed

    @property
    def step(self) -> int:
        """As `Context`."""
        return self.context.step

    @property
    def epoch(self) -> int:
        """As `Context`."""
        return self.context.epoch

    @property
    def training(self) -> bool:
        """As `Context`."""
        return self.context.training

    @property
    def observers(self) -> Sequence[Observer]:
        """As `Context`."""
        return self.context.observers

    @property
    def saturated(self) -> dict[str, int]:
        """As `Context`."""
        return self.context.saturated

    @contextmanager
    def timed(self) -> Iterator[None]:
        """The block's seconds go into moving widths."""
        started = perf_counter()
        yield
        self.overhead += perf_counter() - started

    def number(self, name: str) -> int:
        """A whole number of the state."""
        return int(self.state[name].codes[0])

    # -- starting ---------------------------------------------------------------------------

    def streams(self, layers: Sequence[Any]) -> list[str]:
        """The names of all random streams, to be checked for collisions when a model is built."""
        return (
            [f"{layer.name}/init_{p.symbol}" for layer in layers for p in layer.parameters]
            + [f"{layer.name}/mask" for layer in layers]
            + ["data/order"]
            + ([] if self.packing is None else self.packing.streams(layers))
        )

    def start(self, layers: Sequence[Any], seed: int) -> None:
        """Give every parameter of `layers` its first value, drawn from the seed; forget all other state."""
        rng.check_streams(self.streams(layers))
        self.set(seed=seed, step=0, epoch=0, saturated={})
        self.held, self.map, self.moves = {}, {}, {}
        self.follow(layers)
        check_patterns(self.overrides, layers, self.keys_of, self.name)
        if self.packing is not None:
            self.packing.start(layers)
        for layer in layers:
            layer.buffers = {}
            for parameter in layer.parameters:
                parameter.slots = {}
                self.initialize(layer, parameter, self.first_value(layer, parameter))

    def first_value(self, layer: LayerLike, parameter: Parameter) -> np.ndarray:
        """float32, drawn from the seed: N(0, 1/sqrt(fan_in)) for weights, else ones or zeros.

        Defined by `spec/initial.py: first_value`.
        """
        if parameter.start != "normal":
            return np.full(parameter.shape, 1 if parameter.start == "ones" else 0, np.float32)
        n = int(np.prod(parameter.shape))
        words = rng.words(self.seed, 0, rng.stream(f"{layer.name}/init_{parameter.symbol}"), n)
        return self.first_weights(words, parameter.fan_in).reshape(parameter.shape)

    def first_weights(self, words: np.ndarray, fan_in: int) -> np.ndarray:
        """float32 of uint32 random words."""
        deviation = np.float64(1) / np.sqrt(np.float64(fan_in))
        return (fp32.normal(words) * deviation).astype(np.float32)

    def initialize(self, layer: LayerLike, parameter: Parameter, value: np.ndarray) -> None:
        """Set parameter.value (and slots) from float32 values."""
        parameter.value = value

    def follow(self, layers: Sequence[Any]) -> None:
        """Note what must be known of the layers of a model, and of their order, before one of them runs."""

    def keys_of(self, layer: LayerLike) -> Collection[str]:
        """The keys of BY_LAYER that mean something to a layer; those of other layers only are refused."""
        return self.BY_LAYER

    def buffers_set_elsewhere(self, layer: LayerLike) -> Sequence[str]:
        """Names of a layer's buffers that the update of another layer sets."""
        return ()

    # -- hooks ------------------------------------------------------------------------------

    def begin_pass(self, layers: Sequence[Any]) -> None:
        """Before a pass through all layers of a model: a method may make forward copies of many at once."""

    def weight(self, layer: LayerLike, parameter: Parameter) -> Any:
        """The forward copy of a parameter."""
        return self.passes(layer, parameter.symbol, parameter.value)

    def activation(self, layer: LayerLike, path: str, value: Any) -> Any:
        """A value on the way forward."""
        return self.passes(layer, path, to_float32(value))

    def save(self, layer: LayerLike, path: str, value: Any) -> Any:
        """What the tape holds, until the backward pass, of a value that gradients are made from.

        The value itself or a `Kept`. path: x0 of a matrix product or of a scaled image, x1 of batch norm, x3
        of SiLU, x4 of sigmoid, mask of ReLU: a bit an element where nothing else holds its output.

        Defined by `spec/methods/step.py: Step.save`.
        """
        if self.packing is not None:
            return self.packing.save(layer, path, value)
        return Signs(value) if path == MASK and self.reads_copies else value

    def error(self, layer: LayerLike, path: str, value: Any) -> Any:
        """A value on the way back."""
        return self.passes(layer, path, value)

    def gradient(self, layer: LayerLike, parameter: Parameter, value: Any) -> Any:
        """The gradient that the update reads."""
        return self.passes(layer, f"g{parameter.symbol}", value)

    def fold(self, layer: Any) -> tuple[QTensor, QTensor] | None:
        """Batch norm at inference as x3 = scale*x1 + offset of integers by channel; None: as in training."""
        return None

    def update(self, layer: LayerLike, parameter: Parameter, gradient: Any) -> None:
        """The next value of a parameter."""
        raise NotImplementedError(f"method {self.name!r} has no update")

    def update_all(self, updates: Sequence[Update]) -> None:
        """`update` of every parameter of a step.

        A method may take many at once, to the same bits.
        """
        for layer, parameter, gradient in updates:
            self.update(layer, parameter, gradient)

    def meet(self) -> None:
        """Make whole, on all ranks, what each remembers of its own images (`numbers/shares.py`)."""

    def see_loss(self, loss: float) -> None:
        """The mean loss of this step's batch, before its gradients are known."""

    def end_of_step(self) -> None:
        """After all updates of a step."""
        self.set(step=self.step + 1)

    def end_of_epoch(self) -> None:
        """After the last step of an epoch."""
        self.set(epoch=self.epoch + 1)

    def widths(self) -> dict[str, dict[str, int]]:
        """Weight layer -> WL, FL and number of non-zero weights in the last step; empty where none move."""
        return {}

    # -- options ----------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """All options by key, those of some layers by 'key@pattern'; `methods.make` takes them back.

        Of LATER only those that were set: files are written as before there were such options.
        """
        plain = {one.name: one.default for one in dataclasses.fields(self.Options) if one.name in self.LATER}
        given = dataclasses.asdict(self.options).items()
        own = {key: value for key, value in given if key not in plain or value != plain[key]} | self.overrides
        return own if self.packing is None else own | self.packing.settings()

    def changed(self) -> dict[str, Any]:
        """Those of `settings` that are not as a method without options has them."""
        fields = {one.name: one for one in dataclasses.fields(self.Options)}
        return {
            key: value
            for key, value in self.settings().items()
            if key not in fields or fields[key].default != value
        }

    def __repr__(self) -> str:
        told = ", ".join(
            f"{key}={value!r}" if key.isidentifier() else f"**{{{key!r}: {value!r}}}"
            for key, value in self.changed().items()
        )
        return f"{type(self).__name__}({told})"

    def summary(self) -> Table:
        """Its options, with their defaults where they are others."""
        fields, changed = {one.name: one for one in dataclasses.fields(self.Options)}, self.changed()
        rows = [
            (key, str(value), str(fields[key].default) if key in fields and key in changed else None)
            for key, value in self.settings().items()
        ]
        columns = [Column(name, right=False) for name in ("option", "value", "default")]
        return Table(f"method {self.name}", columns, rows)

    # -- for the hooks ----------------------------------------------------------------------

    def words(self, name: str, n: int) -> np.ndarray:
        """uint32[n]: this step's random words of the stream 'layer/path', for the elements that are here.

        Defined by `spec/words.py: words`.
        """
        return self.draw(name, n).words(n)

    def draw(self, name: str, n: int) -> Draw:
        """Where the words of `words` come from, for what draws them itself."""
        start = shares.start(n) if of_batch(name.rpartition("/")[2]) else 0
        return Draw(self.seed, self.step, rng.stream(name), start)

    def _source(self, name: str, shape: tuple[int, ...]) -> np.ndarray | Draw:
        """The words of `words` where somebody looks at them or makes others, else where they come from."""
        seen = self.observers or type(self).words is not Method.words
        return (self.words if seen else self.draw)(name, prod(shape))

    def count(self, name: str, saturated: int) -> None:
        """So many more values of 'layer/path' that a range changed."""
        if saturated and not (shares.idle() and of_batch(name.rpartition("/")[2])):
            self.saturated[name] = self.saturated.get(name, 0) + saturated

    def passes(self, layer: LayerLike, path: str, value: Any, operands: Exact | None = None) -> Any:
        """`value` as it is, seen by observers; `operands` is the sum that it came from."""
        if self.observers:
            self.emit(Event(layer.name, path, self.step, value, value, operands=operands))
        return value

    def store(
        self,
        layer: LayerLike,
        path: str,
        value: Any,
        format: Format,
        rounding: str = "ties_even",
        stream: str = "",
        operands: Exact | None = None,
    ) -> QTensor:
        """`value` quantized to `format`; saturation is counted, observers see it.

        Stochastic rounding draws this step's words of 'layer/stream' (or 'layer/path'), save x of inference.
        `operands` is the sum that `value` came from, where it was added up before.

        Defined by `spec/methods/step.py: rounded`.
        """
        name = f"{layer.name}/{path}"
        source = exact(value, name)
        stochastic = mode_code(rounding) == STOCHASTIC
        if stochastic and of_batch(path) and not self.training:
            rounding, stochastic = "ties_even", False  # no image hangs on its place in a batch
        words: Any = self._source(f"{layer.name}/{stream or path}", source.shape) if stochastic else None
        result = quantize(source, format, rounding=rounding, words=words, where=name, of_batch=of_batch(path))
        self.count(name, 0 if result.status is None else result.status.saturated)
        if self.observers:
            given = (source, result, format, rounding, words)
            self.emit(Event(layer.name, path, self.step, *given, operands=operands))
        return result

    def emit(self, event: Event) -> None:
        """Tell observers; not of what another rank tells them."""
        if shares.idle() and of_batch(event.path):
            return
        for observer in self.observers:
            observer(event)


def of_batch(path: str) -> bool:
    """Whether tensors of a path have the batch as an axis, by the papers' letters: x activations, e errors.

    All others, statistics (mu, sigma, var, m1, m2), parameters and gradients, are of the whole batch.
    """
    return path[:1] in ("x", "e") or path in ("dx4", "mask")


def to_float32(value: Any, where: str = "") -> np.ndarray:
    """A float32 array from one, from a QTensor or from an exact sum or quotient (rounded once).

    NumberError, naming `where`, for a value beyond float32's range.

    Defined by `spec/values.py: to_float`.
    """
    if isinstance(value, QTensor) and not isinstance(value.exponent, np.ndarray):
        value = exact(value)
    if isinstance(value, Exact):
        return value.to_float32(where)
    if isinstance(value, QTensor | FloatExact):
        return value.to_float32()
    return value


def whole(*numbers: int) -> QTensor:
    """Whole numbers as state."""
    return QTensor(np.array(numbers, np.int32), 0)
