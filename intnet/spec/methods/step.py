"""What the steps of all methods have in common: the rooms of a method, and the way through a training step.

    Settings     the options as numbers             format_of   which format stands on which path
    State        what lives on to the next step     stream_of   whose random words round there
    first        the first values, by the seed      update      a parameter's next value, element by element
    end_of_step, end_of_epoch, see_loss             what moves besides the parameters

A state is a mapping from the names of a checkpoint to stored numbers: 'fc1.weight', 'fc1.weight.Acc',
'bn1.running_mean', 'method/lambda'; `digest` digests it as it is. A step reads one and leaves another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from fractions import Fraction
from math import prod
from typing import Any, NamedTuple, TypeVar

from intnet.spec import elementary
from intnet.spec import float_batch_norm as float_norm
from intnet.spec import words as random
from intnet.spec.curves import curve_round
from intnet.spec.digest import Floats, Words
from intnet.spec.float32 import to_float32
from intnet.spec.formats import Format, Quantized, quantize
from intnet.spec.models import WEIGHTED, Layer, Net, layers_of
from intnet.spec.nets import Rules, Walk
from intnet.spec.rounding import Mode
from intnet.spec.tensor import Fixed, Tensor
from intnet.spec.values import Curve, Expression, Roots, Value, exact, to_float

NAMES = {"W": "weight", "b": "bias", "gamma": "weight", "beta": "bias"}  # of a checkpoint
CURVES32 = {
    "tanh": elementary.tanh32,
    "sigmoid": elementary.sigmoid32,
    "silu": elementary.silu32,
    "slope": elementary.slope32,
}

State = dict[str, Words | Floats]
T = TypeVar("T", int, float)
S = TypeVar("S")
Overrides = tuple[tuple[str, str, Any], ...]  # (key, pattern of layers' names, value), as they were given
Schedule = tuple[tuple[int, T], ...]  # (first epoch, value), ascending


class Float32(NamedTuple):
    """In place of a format: rounded once to float32, which a float32 value is already."""


FLOAT32 = Float32()


class Seen(NamedTuple):
    """A value where it was stored; given: what was rounded, words: one an element where rounding drew any."""

    layer: str
    path: str
    given: Expression
    stored: Any
    format: Any
    mode: Mode | None
    words: list[int] | None


@dataclass(frozen=True)
class Now:
    """Which step this is, from 0, of which run; inference: a batch of test images after so many steps."""

    seed: int
    step: int
    steps_per_epoch: int = 1
    inference: bool = False

    @property
    def epoch(self) -> int:
        """From 0."""
        return self.step // self.steps_per_epoch

    @property
    def ends(self) -> bool:
        """Whether the step is its epoch's last."""
        return (self.step + 1) % self.steps_per_epoch == 0


# -- options as numbers ----------------------------------------------------------------------------


def schedule(text: Any, number: Callable[[str], T]) -> Schedule[T]:
    """'26,13@30' is 26, from epoch 30 on 13."""
    parts = [part.strip().partition("@") for part in str(text).split(",")]
    return tuple((int(epoch or 0), number(value)) for value, _, epoch in parts)


def at(values: Schedule[T], epoch: int) -> T:
    """The value that holds in an epoch."""
    return [value for first, value in values if first <= epoch][-1]


def optional(value: Any, number: Callable[[str], Any]) -> Any:
    """None for None, 'off' and 'none', else the number."""
    return None if value is None or str(value) in ("off", "none") else number(str(value))


def by_layer(options: Mapping[str, Any]) -> tuple[dict[str, Any], Overrides]:
    """Options that hold for all layers, and those of some: 'bits@layer2.*' is ('bits', 'layer2.*', value)."""
    plain = {name: value for name, value in options.items() if "@" not in name}
    parts = [(*name.split("@", 1), value) for name, value in options.items() if "@" in name]
    return plain, tuple((key, pattern, value) for key, pattern, value in parts)


def of_layer(settings: S, layer: str) -> S:
    """Settings as they hold for a layer: of `overrides` the last of a key whose pattern matches its name."""
    given = settings.overrides  # type: ignore[attr-defined]
    own = {key: value for key, pattern, value in given if fnmatchcase(layer, pattern)}
    return replace(settings, **own) if own else settings  # type: ignore[type-var]


# -- stored numbers --------------------------------------------------------------------------------


def value_of(stored: Words | Floats) -> Any:
    """Fixed or Tensor."""
    if isinstance(stored, Words):
        assert isinstance(stored.exponent, int)
        return Fixed(stored.shape, list(stored.codes), stored.exponent)
    return Tensor(stored.shape, list(stored.values))


def store(value: Value, dtype: str = "") -> Words | Floats:
    """Codes as int32, numbers as float32, unless `dtype` says otherwise."""
    if isinstance(value, Fixed):
        return Words(dtype or "int32", value.shape, value.codes, value.exponent)
    return Floats(dtype or "float32", value.shape, exact(value))


def whole(*numbers: int) -> Words:
    """Whole numbers."""
    return Words("int32", (len(numbers),), list(numbers), 0)


def symbols_of(layer: Layer) -> list[str]:
    """The parameters of a layer, in order."""
    if layer.kind == "norm":
        return ["gamma", "beta"]
    return ["W", "b"][: 1 + layer.bias] if layer.kind in WEIGHTED else []


def key(layer: str, symbol: str, slot: str = "") -> str:
    """The name in a state of a parameter, or of one of its slots."""
    return f"{layer}.{NAMES[symbol]}" + (f".{slot}" if slot else "")


# -- a step ----------------------------------------------------------------------------------------


class Step(Rules):
    """The rules of a method for one step, and what the step left.

    settings:  the method's options; every step reads `packing` and `statistics` of them
    state:     moves with the step; the one that was given stays as it is
    tensors:   'layer/path' -> the value stored there
    gradients: 'layer/symbol' -> what the update reads
    saturated: 'layer/path' -> how many codes a range changed, where any
    held:      'layer/path' -> elements and bytes on the tape, where `packing` is asked for
    seen:      told of every stored value
    """

    exact_gradients = False  # gW is an exact product of words

    def __init__(
        self, net: Net, settings: Any, state: State, now: Now, seen: Callable[[Seen], None] | None = None
    ) -> None:
        self.net, self.settings, self.now, self.seen = net, settings, now, seen
        self.state: State = dict(state)
        self.layers = {layer.name: layer for layer in layers_of(net)}
        self.weighted = [layer for layer in self.layers.values() if layer.kind in WEIGHTED]
        self.tensors: dict[str, Any] = {}
        self.gradients: dict[str, Any] = {}
        self.saturated: dict[str, int] = {}
        self.held: dict[str, tuple[int, int]] = {}

    @property
    def first(self) -> str:
        """The weight layer that reads the images."""
        return self.weighted[0].name

    def edge(self, layer: Layer) -> str:
        """'first' or 'last' weight layer, else ''."""
        if layer.name == self.weighted[-1].name:
            return "last"
        return "first" if layer.name == self.weighted[0].name else ""

    # -- which format stands where, and whose words round there ------------------------------------

    def format_of(self, layer: Layer, path: str) -> Format | Float32 | None:
        """Of a data path; None: what comes there is stored as it is, exact or float32."""
        raise NotImplementedError(f"{type(self).__name__} defines no format_of")

    def stream_of(self, layer: Layer, path: str) -> str | None:
        """The stream of a path that rounds stochastically; None: to nearest, ties to even."""
        return None

    def mode_of(self, layer: Layer, path: str) -> Mode:
        """What rounds a path that has no stream."""
        return "ties_even"

    def save(self, layer: Layer, path: str, value: Any) -> Any:
        """What the way back reads: `Packing.save`, where the method's settings ask for it."""
        tape = self.settings.packing
        return value if tape is None else tape.save(self, layer, path, value)

    # -- storing -----------------------------------------------------------------------------------

    def words(self, name: str, n: int) -> list[int]:
        """n words of the stream `name` in this step."""
        return random.words(self.now.seed, self.now.step, name, n)

    def parameter(self, layer: str, symbol: str, slot: str = "") -> Any:
        """A parameter's value, or a slot's."""
        return value_of(self.state[key(layer, symbol, slot)])

    def stored(self, layer: Layer, path: str, given: Expression, form: Format | None = None) -> Any:
        """`given` in a format, that of its path where none is given."""
        stream = self.stream_of(layer, path)
        found = self.format_of(layer, path) if form is None else form
        if found is None or found == FLOAT32:
            return self.note(layer, path, given, given if found is None else in_float32(given), found)
        assert isinstance(found, Format)
        if self.now.inference and path.startswith("x"):
            stream = None  # no image hangs on its place in a batch
        drawn = None if stream is None else self.words(stream, prod(given.shape))
        mode = self.mode_of(layer, path)
        q = rounded(given, found, drawn, mode)
        name = f"{layer.name}/{path}"
        if q.saturated:
            self.saturated[name] = self.saturated.get(name, 0) + q.saturated
        out = Fixed(given.shape, q.codes, q.exponent)
        return self.note(layer, path, given, out, found, mode if drawn is None else "stochastic", drawn)

    def note(
        self, layer: Layer, path: str, given: Any, out: Any, form: Any = None, mode: Mode | None = None,
        drawn: list[int] | None = None,
    ) -> Any:  # fmt: skip
        """`out` as the value of a path."""
        self.tensors[f"{layer.name}/{path}"] = out
        if self.seen is not None:
            self.seen(Seen(layer.name, path, given, out, form, mode, drawn))
        return out

    # -- hooks of the walk -------------------------------------------------------------------------

    def weight(self, layer: Layer, symbol: str) -> Any:
        """Wq, bq, gammaq, betaq."""
        return self.stored(layer, f"{symbol}q", self.parameter(layer.name, symbol))

    def activation(self, layer: Layer, path: str, value: Expression) -> Any:
        """In the format of its path."""
        return self.stored(layer, path, value)

    def error(self, layer: Layer, path: str, value: Value) -> Any:
        """In the format of its path."""
        return self.stored(layer, path, value)

    def running(self, layer: Layer) -> tuple[list[Fraction], list[Fraction]] | None:
        """Batch norm's (means, variances) of inference; None: the batch's own, as `statistics=batch` asks."""
        if self.settings.statistics == "batch":
            return None
        names = [f"{layer.name}.running_mean", f"{layer.name}.running_var"]
        if names[0] not in self.state:
            raise ValueError(f"{layer.name} has no running statistics before the first step")
        mean, variance = (exact(value_of(self.state[name])) for name in names)
        return mean, variance

    def statistics(self, layer: Layer, mean: list[Fraction], variance: list[Fraction]) -> None:
        """Of float32: r <- r + (x - r)/8, each operation rounded; from 0 and 1."""
        for name, start, new in (("running_mean", 0, mean), ("running_var", 1, variance)):
            own = f"{layer.name}.{name}"
            old = value_of(self.state[own]).values if own in self.state else [Fraction(start)] * len(new)
            self.state[own] = Floats("float32", (len(new),), float_norm.running(old, new))

    def folded(self, layer: Layer) -> tuple[Fixed, Fixed] | None:
        """Batch norm of inference as (scale, offset) of integers; None: as in training."""
        return None

    # -- the way through a step --------------------------------------------------------------------

    def update(self, layer: Layer, symbol: str, gradient: Any) -> None:
        """The next value of a parameter."""
        raise NotImplementedError(f"{type(self).__name__} defines no update")

    def see_loss(self, loss: Fraction) -> None:
        """The batch's mean loss, ahead of its gradients."""

    def update_all(self) -> None:
        """`update` of every parameter that has a gradient, in order of definition."""
        for layer in self.layers.values():
            for symbol in symbols_of(layer):
                if f"{layer.name}/{symbol}" in self.gradients:
                    self.update(layer, symbol, self.gradients[f"{layer.name}/{symbol}"])

    def end_of_step(self) -> None:
        """After all updates."""

    def end_of_epoch(self) -> None:
        """After the last step of an epoch."""

    def take(self, images: Fixed, judge: Callable[[Any], tuple[Fraction, Tensor]]) -> None:
        """The whole step; judge: of the logits, the mean loss and the error (p - y)/N."""
        walk = Walk(self, self.first)
        loss, error = judge(walk.forward(self.net, images))
        self.see_loss(loss)
        walk.backward(self.net, error)
        self.update_all()
        self.end_of_step()
        if self.now.ends:
            self.end_of_epoch()


def in_float32(value: Expression) -> Tensor:
    """float32: a curve by its sequence on float32, all else rounded once."""
    if isinstance(value, Curve):
        curve = CURVES32[value.name]
        return Tensor(value.shape, [curve(to_float32(x)) for x in value.at])
    assert not isinstance(value, Roots)
    return to_float(value)


def rounded(
    value: Expression, form: Format, drawn: Sequence[int] | None = None, mode: Mode = "ties_even"
) -> Quantized:
    """Every element rounded once, by `drawn` stochastically; a root and a curve from their exact argument."""
    if isinstance(value, Roots | Curve) and (drawn is not None or callable(mode)):
        raise ValueError("a root and a curve are rounded by a mode of `rounding.MODES` that draws no words")
    if isinstance(value, Roots | Curve):
        grid = form.grid([0])
        if isinstance(value, Roots):
            made = [form.root_code(v, grid, mode) for v in value.squares]
        else:
            exponent = form.exponent(grid)
            made = [form.limited(curve_code(value.name, x, exponent, mode)) for x in value.at]
        return Quantized([c for c, _ in made], form.exponent(grid), sum(limited for _, limited in made))
    return quantize(exact(value), form, mode if drawn is None else "stochastic", drawn)


def curve_code(name: str, x: Fraction, exponent: int, mode: Mode = "ties_even") -> int:
    """The code of a curve at x, rounded by a mode of `rounding.MODES` that draws no words."""
    assert isinstance(mode, str)
    return curve_round(name, x, exponent, mode)
