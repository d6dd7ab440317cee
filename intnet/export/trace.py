"""From a trained network to its program: one pass of inference, watched.

    program = trace(run.model, run.method, images, exponent)

The operations are those that ran (`autograd.Watcher`), the formats and the constants those that the method
told (`intnet.methods.trace.Event`): no model and no method is written down here a second time. What a value
is by then is told from its identity, as in `packs/layers/wiring.py`. ConfigError names the layer that has no
place in a program, and what to set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from intnet.autograd import Node, Op, Tensor, Watcher, watched
from intnet.errors import ConfigError
from intnet.exact.blocks.block_float import BlockTensor
from intnet.export import curves, values
from intnet.export import program as p
from intnet.export.block_ops import BlockProduct, Blocks, Plus
from intnet.export.program import Images, Program
from intnet.export.values import BITS, FLOAT32, Pair
from intnet.methods.method import Method
from intnet.methods.trace import Event
from intnet.models.model import Model
from intnet.numbers.formats import Direct, FixedPoint, Scaled
from intnet.numbers.qtensor import QTensor
from intnet.ops.norm import denominator, reciprocal_root
from intnet.ops.products import copies
from intnet.training.inference import as_codes

INSTEAD = "export a run of wageubn (--set edges=fixed16), of adapt, of muppet or of dynasty"
FLOATS = {
    "wageubn": "train it with --set edges=fixed16, which keeps the first and the last layer in integers too",
    "muppet": "its last level, which the run has reached, is float32: train for fewer epochs",
    "dynasty": "its products are of integers, but this is none: choose a net of ReLUs",
    "mx": f"its products are of float32 values of MX blocks, whose scales follow a batch; {INSTEAD}",
}
BATCH = "statistics=batch reads those of a batch of test images: train with --set statistics=running"


class Waiting(NamedTuple):
    """What a rounding is still to make a value of.

    fields: of the operation that does both, None where it is a value in float32; where: layer/path
    """

    where: str
    x: int
    fields: dict[str, Any] | None = None
    kind: type[p.Scaled | p.Norm] = p.Scaled
    reads: tuple[int, ...] = ()


def trace(model: Model, method: Method, images: np.ndarray, exponent: int) -> Program:
    """The program of a model; images: one of the data's, or more, (N, H, W, C) in the data's type."""
    codes = as_codes(images[:1], exponent)
    limit = codes.bound
    low = 0 if images.dtype == np.uint8 else -limit
    first = Images("images", (), tuple(model.image_shape), int(codes.exponent), low, limit)
    seen = Follower(method, first, codes)
    with watched(seen), method.within(training=False, observers=[seen.told]):
        output = model(Tensor(codes), method).value
    last = seen.plain(seen.place(output, "the logits"), "the logits")
    return Program(tuple(_needed(seen.ops, last)))


def _needed(ops: list[values.Op], last: int) -> list[values.Op]:
    """Those that the last one depends on, renumbered."""
    keep, places = {last}, dict[int, int]()
    for place in range(last, -1, -1):
        if place in keep:
            keep |= set(ops[place].reads)
    found: list[values.Op] = []
    for place in sorted(keep):
        places[place] = len(found)
        found.append(replace(ops[place], reads=tuple(places[k] for k in ops[place].reads)))
    return found


class Follower(Watcher):
    """Makes an operation of the program of each one that ran.

    ops: so far; dens: the denominators of those that are quotients still to be rounded
    """

    def __init__(self, method: Method, first: Images, images: QTensor) -> None:
        self.method, self.ops, self.dens = method, list[values.Op]([first]), dict[int, int]()
        self.values = [first.value()]
        self._made: dict[int, int | Waiting] = {id(images): 0}
        self._constants: dict[int, Any] = {}
        self._kept: list[Any] = [images]  # a value that is gone could leave its identity to another
        self._events: list[Event] = []
        self._rules: dict[str, Callable[..., int | Waiting]] = {
            "linear": self._product, "conv2d": self._product, "add_bias": self._add_bias, "add": self._add,
            "relu": self._relu, "flatten": self._flatten, "normalize": self._normalize,
            "scale_shift": self._scale_shift, "max_pool2d": self._max_pool, "avg_pool2d": self._avg_pool,
            "global_avg_pool": self._global_pool, "adaptive_avg_pool2d": self._adaptive_pool,
            **{kind: partial(self._curve, kind) for kind in curves.KINDS},
        }  # fmt: skip

    # -- what the pass tells -------------------------------------------------------------------

    def told(self, event: Event) -> None:
        """An observer of the method."""
        self._events.append(event)

    def begins(self, op: Op, operands: tuple[Any, ...], attributes: dict[str, Any]) -> None:
        """What is about to run, of which no event was told yet."""
        self._events = []

    def ends(
        self, op: Op, operands: tuple[Any, ...], attributes: dict[str, Any], value: Any, node: Node | None
    ) -> None:
        """It did."""
        self._kept.append(value)
        if op.name == "cast" and id(operands[0]) not in self._made:  # a parameter's forward copy
            self._constants[id(value)] = value
            return
        place: int | Waiting
        blocks = copies(value).forward
        if op.name == "cast" and isinstance(blocks, BlockTensor):
            place = self._blocks(self._made[id(operands[0])], blocks)
        elif op.name == "cast":
            place = self._cast(self._made[id(operands[0])])
        elif op.name in self._rules:
            place = self._rules[op.name](*operands, **attributes)
        else:
            told = BATCH if op.name == "batch_norm" else "an exported network has none: choose another model"
            raise ConfigError(f"{self._where(attributes)}: {op.name}: {told}")
        self._made[id(value)] = place

    def _where(self, attributes: dict[str, Any]) -> str:
        layers = [event.layer for event in self._events]
        return str(attributes.get("where") or (layers[0] if layers else self.ops[-1].name))

    # -- what is known ---------------------------------------------------------------------------

    def place(self, value: Any, where: str) -> int:
        """Where a value was made."""
        if id(value) not in self._made:
            raise ConfigError(f"{where}: it reads what no operation of the network made")
        made = self._made[id(value)]
        if isinstance(made, Waiting):
            raise self._floats(made.where)
        return made

    def plain(self, place: int, where: str) -> int:
        """The place of codes without a denominator."""
        if place in self.dens:
            raise ConfigError(
                f"{where}: reads a mean that no layer rounded, which an exported network cannot"
            )
        return place

    def _push(self, op: values.Op) -> int:
        self.ops.append(op)
        self.values.append(p.valued(op, len(self.values), self.values))
        return len(self.ops) - 1

    def _constant(self, value: Any, where: str) -> QTensor:
        """A parameter's codes; ConfigError where it is float32, or has an exponent a block."""
        value = self._constants.get(id(value), value)
        if not isinstance(value, QTensor) or isinstance(value.exponent, np.ndarray):
            raise self._floats(where)
        return value

    def _floats(self, where: str) -> ConfigError:
        name = self.method.name
        return ConfigError(f"{where}: {name} computes it in float32: {FLOATS.get(name, INSTEAD)}")

    # -- rounding --------------------------------------------------------------------------------

    def _cast(self, x: int | Waiting) -> int | Waiting:
        """What the method's hook made of x."""
        if isinstance(x, int) and self.values[x].form == FLOAT32:
            for event in self._events:
                if not isinstance(event.result, np.ndarray):  # nothing rounds float32 but blocks
                    raise self._floats(event.name)
            return x
        for event in self._events:
            where, form = event.name, getattr(event.result, "format", None)
            if isinstance(form, Scaled):
                x = self._scaled(x, form.wl, where)
            elif isinstance(event.result, np.ndarray):
                if isinstance(x, Waiting) and x.fields is not None:  # a sum, which float32 would round
                    raise self._floats(where)
                x = x if isinstance(x, Waiting) else Waiting(where, self.plain(x, where))
            elif isinstance(x, Waiting):
                raise self._floats(x.where)
            elif event.format is not None:
                x = self._rounded(x, event, np.array([1]), 0)
        return x

    def _blocks(self, x: int | Waiting, made: BlockTensor) -> int:
        """What a product reads: float32, or codes that float32 has, in blocks."""
        event = self._events[0]
        if isinstance(x, Waiting):
            if x.fields is not None:
                raise self._floats(x.where)
            x = x.x
        bits = made.bits[0].astype(np.int64)
        if np.all(bits == bits.flat[0]):
            bits = bits.reshape(-1)[:1]
        return self._push(Blocks(event.name, (x,), bits))

    def _scaled(self, x: int | Waiting, wl: int, where: str) -> int:
        """In block float, with what waits ahead of it; codes that have wl bits stay as they are."""
        if isinstance(x, Waiting):
            if x.fields is None:
                raise self._floats(x.where)
            return self._push(x.kind(where, x.reads, wl=wl, **x.fields))
        given, den = self.values[x], self.dens.get(x, 1)
        if den == 1 and given.bits <= wl:
            return x
        return self._push(p.Scaled(where, (x,), wl, den))

    def _rounded(self, x: int, event: Event, den: np.ndarray, den_exponent: int) -> int:
        """x / (den 2^den_exponent), as the event's format has it."""
        where, form = event.name, event.format
        if event.rounding != "ties_even":
            raise ConfigError(
                f"{where}: it rounds by {event.rounding}, and an exported network to nearest, ties to even: "
                "train without that option"
            )
        if not isinstance(form, Direct | FixedPoint):
            told = FLOATS.get(self.method.name, INSTEAD)
            raise ConfigError(
                f"{where}: {form} has no fixed exponent, which an exported network needs: {told}"
            )
        lo, hi = (None, None) if isinstance(form, Direct) else (form.lo, form.hi)
        if isinstance(form, FixedPoint) and not form.overflow.startswith("saturate"):
            raise ConfigError(f"{where}: {form} overflows by {form.overflow}: a program saturates")
        given = self.values[x]
        shift = given.exponent - den_exponent - form.exponent
        den = _lifted(den.astype(np.int64) * self.dens.get(x, 1), max(-shift, 0), where)
        inside = lo is None or hi is None or lo <= given.lo <= given.hi <= hi
        if shift == 0 and inside and np.all(den == 1):
            return x
        return self._push(p.Round(where, (x,), 1 << max(shift, 0), den, form.exponent, lo, hi))

    # -- operations ------------------------------------------------------------------------------

    def _product(self, x: Any, w: Any, *, where: str = "", **window: Any) -> int:
        window.pop("keep", None)
        place = self.plain(self.place(x, where), where)
        blocks = copies(self._constants.get(id(w), w)).forward
        if isinstance(blocks, BlockTensor):
            return self._push(block_product(f"{where}/x1", place, blocks, **window))
        weight = self._constant(w, f"{where}/W")
        codes = weight.codes.astype(np.int64)
        return self._push(p.Product(f"{where}/x1", (place,), codes, int(weight.exponent), **window))

    def _affine(self, x: int, scale: QTensor | None, offset: QTensor, where: str) -> int:
        """scale x + offset, exact, at the lesser exponent."""
        self.plain(x, where)
        given = self.values[x].exponent + (0 if scale is None else int(scale.exponent))
        exponent = min(given, int(offset.exponent))
        codes = np.ones(1, np.int64) if scale is None else scale.codes.astype(np.int64)
        a = _lifted(codes, given - exponent, where)
        b = _lifted(offset.codes.astype(np.int64), int(offset.exponent) - exponent, where)
        return self._push(p.Affine(where, (x,), a, b, exponent))

    def _add_bias(self, y: Any, b: Any, *, where: str = "") -> int | Waiting:
        place = self.place(y, where)
        if self.values[place].form == FLOAT32:
            return self._push(Plus(f"{where}/x1", (place,), b))
        bias = self._constant(b, f"{where}/b")
        if self.values[place].scale is None:
            return self._affine(place, None, bias, f"{where}/x1")
        fields = {"b": bias.codes.astype(np.int64), "exponent": int(bias.exponent)}
        return Waiting(f"{where}/x1", place, fields, reads=(place,))

    def _scale_shift(self, x: Any, scale: QTensor, offset: QTensor, *, where: str) -> int:
        return self._affine(self.place(x, where), scale, offset, f"{where}/x3")

    def _normalize(
        self, x: Any, gamma: Any, beta: Any, mean: Any, variance: Any, *, where: str, **_: Any
    ) -> int | Waiting:
        """x2 = (x1 - mu) / (sigma + eps), rounded; x3 = gamma x2 + beta; float32 waits to be scaled."""
        read = self._made.get(id(x))
        if isinstance(read, int) and self.values[read].form == FLOAT32:
            r = reciprocal_root(variance)
            return self._push(p.Norm(f"{where}/x3", (read,), mean, r, gamma, beta, 0))
        if isinstance(read, Waiting) and read.fields is None:
            fields = {"mean": mean, "r": reciprocal_root(variance), "gamma": gamma, "beta": beta}
            return Waiting(f"{where}/x3", read.x, fields, p.Norm, (read.x,))
        g, b = (self._constant(v, f"{where}/{name}") for v, name in ((gamma, "gamma"), (beta, "beta")))
        seen = {event.path: event for event in self._events}
        mu, sigma = (self._constant(seen[path].result, f"{where}/{path}") for path in ("mu", "sigma"))
        minus = QTensor(-mu.codes.astype(np.int64), mu.exponent)
        centred = self._affine(self.place(x, where), None, minus, f"{where}/centred")
        x2 = self._rounded(centred, seen["x2"], *denominator(sigma, where))
        return self._affine(x2, g, b, f"{where}/x3")

    def _add(self, x: Any, y: Any) -> int | Waiting:
        where = f"the join after {self.ops[-1].name}"
        places = [self.plain(self.place(v, where), where) for v in (x, y)]
        if all(self.values[k].form == FLOAT32 for k in places):
            return self._push(Plus(where, tuple(places)))
        if any(self.values[k].scale is not None for k in places):
            return Waiting(where, places[0], {}, reads=tuple(places))
        exponents = [self.values[k].exponent for k in places]
        shifts = exponents[0] - min(exponents), exponents[1] - min(exponents)
        if max(shifts) > BITS:
            raise ConfigError(f"{where}: its branches' exponents {exponents} are too far apart")
        return self._push(p.Add(where, tuple(places), shifts))

    def _relu(self, x: Any, **_: Any) -> int | Waiting:
        made = self._made.get(id(x))
        if isinstance(made, Waiting) and made.kind is p.Scaled and made.fields is not None:
            return made._replace(fields=made.fields | {"rectified": True})
        name = f"{self.ops[-1].name}, rectified"
        return self._push(p.Relu(name, (self.plain(self.place(x, name), name),)))

    def _flatten(self, x: Any) -> int:
        place = self.place(x, "flatten")
        if len(self.values[place].shape) == 1:
            return place
        return self._push(p.Flatten("flatten", (self.plain(place, "flatten"),)))

    def _max_pool(self, x: Any, *, kernel: Pair, stride: Pair, padding: Pair = (0, 0)) -> int:
        name = f"{self.ops[-1].name}, pooled"
        return self._push(p.MaxPool(name, (self.plain(self.place(x, name), name),), kernel, stride, padding))

    def _avg_pool(self, x: Any, *, kernel: Pair, stride: Pair, padding: Pair = (0, 0)) -> int:
        name = f"{self.ops[-1].name}, summed"
        place = self.plain(self.place(x, name), name)
        if self.values[place].form == FLOAT32:
            return self._push(p.MeanPool(name, (place,), kernel, stride, padding))
        made = self._push(p.SumPool(name, (place,), kernel, stride, padding))
        if prod(kernel) > 1:
            self.dens[made] = prod(kernel)
        return made

    def _adaptive_pool(self, x: Any, *, output: Pair) -> int:
        (rows, cols, _), (down, across) = self.values[self.place(x, "mean")].shape, output
        if rows % down or cols % across:
            raise ConfigError(
                f"{self.ops[-1].name}, pooled: windows of {rows}x{cols} into {down}x{across} differ in size, "
                f"which an exported network has not: take images whose sides there are multiples of those"
            )
        window = rows // down, cols // across
        return self._avg_pool(x, kernel=window, stride=window)

    def _curve(self, kind: str, x: Any, *, quantize: Callable[[Any], Any], **_: Any) -> int:
        """What the method makes of the codes that may come."""
        name = f"{self._events[-1].layer}/{self._events[-1].path}"
        place = self.plain(self.place(x, name), name)
        given = self.values[place]
        if given.form == FLOAT32:
            raise self._floats(name)
        if given.scale is not None:
            raise ConfigError(f"{name}: {kind} of codes whose scale follows the image: choose a net of ReLUs")
        made = curves.rounded(kind, quantize, given.exponent)
        with self.method.within(saturated={}, observers=()):
            one = made(np.array([given.lo]))
            if not isinstance(one, QTensor) or isinstance(one.format, Scaled):
                raise self._floats(name)
            rises = isinstance(self._events[-1].source, curves.RISING)
            steps, codes = curves.staircase(
                given.lo, given.hi, lambda x: made(x).codes.astype(np.int64), rises, name
            )
        return self._push(p.Curve(name, (place,), steps, codes, int(one.exponent)))

    def _global_pool(self, x: Any) -> int:
        summed = self._adaptive_pool(x, output=(1, 1))
        made = self._push(p.Flatten("mean", (summed,)))
        if summed in self.dens:
            self.dens[made] = self.dens.pop(summed)
        return made


def block_product(name: str, read: int, w: BlockTensor, **window: Any) -> BlockProduct:
    """The product by weights in blocks; blocks of zeros have the least step."""
    q, units = w.to_qtensor(), w.steps().astype(np.int64)
    live = w.live.view(bool)
    least = int(units[live].min(initial=1 << 9)) if live.any() else 0
    steps = np.where(live, units - least, 0)
    return BlockProduct(name, (read,), q.codes.astype(np.int64), least, steps, **window)


def _lifted(codes: np.ndarray, shift: int, where: str) -> np.ndarray:
    """int64 codes * 2^shift; ConfigError beyond."""
    if codes.size and int(np.abs(codes).max()).bit_length() + shift > BITS:
        raise ConfigError(f"{where}: exponents that meet are {shift} bits apart, beyond what 64 bits hold")
    return codes << shift
