"""DYNASTY: block float whose bit-width map follows how sensitive the loss is to each block.

"DYNASTY: block-wise dynamic-precision training". Tensors are cut into blocks of 4x4 with one exponent
(`exact/blocks/block_float.py`). One operand of every product has mantissas of 8 bits, the other of b bits,
block by block; the product is exact, rounded to float32 once. A is x0 of a layer, E its e3:

    forward         x1 = Wq * x0        W in 8 bits, A in b
    backward        e4 = Wb^T e3        E in 8 bits, W in b
    weight update   gW = e3 x0^T        E in 8 bits, A in b

Batch norm, ReLU, joins and the update of the float32 master are method `float32`'s. Every mini-batch adds
each block's sensitivity to S (1); every epoch ends with a new map for the weights and one for the
activations. The map itself: `dynasty_map.py`.

Defined by `spec/methods/dynasty.py: Step`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from intnet.errors import ConfigError
from intnet.exact.blocks.block_float import WIDTHS, Axes, BlockTensor, blocks_shape, quantize_blocks
from intnet.exact.blocks.block_loops import SIDE
from intnet.methods import dynasty_map, symbols
from intnet.methods.dynasty_map import FIRST, Given
from intnet.methods.float32 import Float32
from intnet.methods.method import LayerLike, Parameter, to_float32, whole
from intnet.methods.options import of_layer, takes
from intnet.methods.trace import Event
from intnet.numbers import shares
from intnet.numbers.fp32 import check_finite
from intnet.ops.products import Copies

STATIC = 8  # bits of the operand that the map does not speak of
KERNEL: Axes = (0, 1)  # blocks of weights: (Cout, Cin) at each place of the kernel
WEIGHTS, ACTIVATIONS = KINDS = ("weights", "activations")


def pixels(x: np.ndarray) -> Axes:
    """Blocks of activations and errors: (batch, channels) at each pixel."""
    return 0, len(x.shape) - 1


class Dynasty(Float32):
    """Block float in blocks of 4x4, 0 to 8 bits by how sensitive the loss is to each.

    What is rounded where, the module says; keys are the fields of `Options`.
    """

    name = "dynasty"
    reads_copies = True
    SYMBOLS = symbols.DYNASTY
    BY_LAYER = ("map", "bits", "weight_bits")
    STATE: ClassVar[dict[str, str]] = Float32.STATE | {
        "b": "widths of the blocks' mantissas, smoothed; in use are the nearest of 0, 2, 4, 6, 8",
        "b_new": "the same before smoothing",
        "S": "sum of the blocks' sensitivities over the batches of this epoch",
        "lambda": "last lambda of the weights, of the activations",
        "batches": "full batches that S sums",
        "images": "of a full batch",
    }
    DEVIATIONS: ClassVar[dict[str, str]] = {
        "first layer": "images have no gradient, so no sensitivity: their mantissas have 8 bits; its "
        "weights have a map, which no product reads while forward_dynamic is 'activation'",
        "forward_dynamic": "the paper leaves open which operand of the forward product is dynamic: A here, "
        "W with 'weight'",
        "S": "the mean over the epoch's full batches, block by block (of activations by the image's place "
        "in its batch); the paper makes r with every mini-batch and a map with every epoch, and does not "
        "say how they are joined. Of weights from their gradient before weight decay; of activations from "
        "the layer's own dL/dx0",
        "T": "multiply-adds of one product that read the block; padding is not counted. Blocks that none "
        "reads, of pixels that a stride passes by, have 0 bits and no part in the mean width",
        "Algorithm 1": "as printed (lines 10 and 13 assign both at once, line 7's lambda is lambda_out), "
        "with t within 0..1; it stops where both means agree, and at lambda_0 where blocks without "
        "sensitivity (r = -inf) keep the mean below alpha",
        "(4)": "b_last is the smoothed width before it is rounded to an even one; odd ones go up",
        "first lambda": "printed as sum(B_i) - N alpha, which is no width; here mean(r) - alpha, as follows "
        "from (3a) where no width meets a bound",
        "lambda": "the paper has one for all blocks; weights and activations have one each here, unless "
        "lambdas=one; Algorithm 1's mean is over blocks, that of (2b) weighted by T: mean=work",
        "rounding": "the paper tells none: to nearest, ties to even, b counts the sign, codes are within "
        "+-(2^(b-1) - 1). Its (1) has the noise of stochastic rounding",
        "loss noise": "(1) is printed with 2/(3 N B): 2/3 is the mean square of stochastic rounding in this "
        "format over 2^(2e-2b), to nearest it is 1/3; and the 1/16 of S divides by B once more. Here "
        "1/(3 N), 8 times the printed",
        "short batches": "and inference read the map of the first images of a batch, again and again where "
        "there are more of them than in training",
        "bias": "added in float32 to the rounded product; its gradient is the float32 sum of e3",
    }

    @dataclass(frozen=True, kw_only=True)
    class Options(Float32.Options):
        """bits: alpha, the mean width of dynamic operands; weight_bits: the same of weights, if it differs.

        map: 'uniform' gives every block just these bits from the start, the baseline of a map; map@fc=uniform
        those of some weight layers, with bits@fc=6 beside it, which leave the map of the others.
        forward_dynamic: the operand of b bits in the forward product. gamma: smoothing of the map, 0: none.
        lambdas: two, of weights and of activations, or one of both. mean: of b, over blocks as in
        Algorithm 1 or over work as in (2b). tuning: off takes the estimate of lambda alone (figure 5).
        """

        bits: float = 4.0
        weight_bits: float | None = None
        map: Literal["dynamic", "uniform"] = "dynamic"
        forward_dynamic: Literal["activation", "weight"] = "activation"
        gamma: float = 0.5
        lambdas: Literal["two", "one"] = "two"
        mean: Literal["blocks", "work"] = "blocks"
        tuning: Literal["on", "off"] = "on"

    @takes(Options)
    def __init__(self, /, **options: Any) -> None:
        super().__init__(**options)
        o = self.options
        if o.forward_dynamic == "weight":
            self.SYMBOLS = {**self.SYMBOLS, **symbols.DYNASTY_WEIGHT}
        self.alpha = alphas(o)
        check_widths(o)
        if o.lambdas == "one" and o.weight_bits is not None:
            raise ConfigError("dynasty: lambdas=one has one mean width: leave weight_bits out")
        if not 0 <= o.gamma < 1:
            raise ConfigError("dynasty: gamma is from 0 to below 1")
        self._batch = 0  # images of this step
        self._seconds = 0.0  # that the analytics took since the last map
        self._seen: dict[tuple[str, str], BlockTensor] = {}  # dynamic operands of this step
        self._shapes: dict[str, tuple[int, ...]] = {}  # of x0, but for the batch
        self._maps: dict[tuple[str, str], tuple[np.ndarray, np.ndarray]] = {}  # b, and the bits in use

    # -- starting ---------------------------------------------------------------------------

    def follow(self, layers: Sequence[Any]) -> None:
        """ConfigError where options of a layer do not go together."""
        super().follow(layers)
        for layer in self._weighted:
            try:
                check_widths(self._of(layer))
            except ConfigError as error:
                raise ConfigError(f"{error} (of layer {layer.name})") from None
        self._moving = any(self._of(layer).map == "dynamic" for layer in self._weighted)

    def keys_of(self, layer: LayerLike) -> Sequence[str]:
        """Only weight layers have blocks; a map that moves has one mean width for all layers."""
        if not layer.takes_weight:
            return ()
        return self.BY_LAYER if self._of(layer).map == "uniform" else ("map",)

    def _of(self, layer: LayerLike) -> Options:
        return of_layer(self.options, self.overrides, layer.name)

    def start(self, layers: Sequence[Any], seed: int) -> None:
        """Every block starts with 4 bits."""
        super().start(layers, seed)
        self.state |= {"lambda": np.zeros(0), "batches": whole(0), "images": whole(0)}

    # -- the map in use ---------------------------------------------------------------------

    def bits(self, layer: LayerLike, kind: str, store: dict[str, Any], blocks: tuple[int, ...]) -> np.ndarray:
        """uint8: b of the blocks of a tensor; `store` holds the layer's widths of that kind.

        Defined by `spec/methods/dynasty.py: Step.bits`.
        """
        if "b" not in store:
            own = self._of(layer)
            return np.full(blocks, int(alphas(own)[kind] if own.map == "uniform" else FIRST), np.uint8)
        known = self._maps.get((layer.name, kind))
        if known is None or known[0] is not store["b"]:
            known = store["b"], dynasty_map.rounded(store["b"])
            self._maps[layer.name, kind] = known
        rows, first = known[1].shape[0], shares.first_image() // SIDE if kind == ACTIVATIONS else 0
        if rows == blocks[0] and first % rows == 0:
            return known[1]
        return np.ascontiguousarray(known[1][(first + np.arange(blocks[0])) % rows])

    # -- forward and backward ---------------------------------------------------------------

    def _block_float(
        self, layer: LayerLike, path: str, value: np.ndarray, bits: int | np.ndarray, axes: Axes
    ) -> BlockTensor:
        name = f"{layer.name}/{path}"
        result = quantize_blocks(value, bits, axes, name)
        self.count(name, result.saturated)
        if self.observers:
            codes = result.to_qtensor(value)
            given = (value, codes, codes.format, "ties_even")
            self.emit(Event(layer.name, path, self.step, *given, mean_bits=result.mean_bits))
        return result

    def weight(self, layer: LayerLike, parameter: Parameter) -> Any:
        """Wq, 8 bits, for the forward product, Wb, b bits, for the backward one; all but W as it is.

        Defined by `spec/methods/dynasty.py: Step.weight`.
        """
        if parameter.symbol != "W":
            return super().weight(layer, parameter)
        value = check_finite(parameter.value, f"{layer.name}/W")
        bits = self.bits(layer, WEIGHTS, parameter.slots, blocks_shape(value.shape, KERNEL))
        dynamic = self._block_float(layer, "Wb", value, bits, KERNEL)
        self._seen[layer.name, WEIGHTS] = dynamic
        if self.options.forward_dynamic == "weight":
            return dynamic
        return Copies(self._block_float(layer, "Wq", value, STATIC, KERNEL), dynamic)

    def activation(self, layer: LayerLike, path: str, value: Any) -> Any:
        """x0 of a weight layer in block float, all else in float32.

        Defined by `spec/methods/dynasty.py: Step.activation`.
        """
        value = to_float32(value, f"{layer.name}/{path}")
        if path != "x0" or not layer.takes_weight:
            return self.passes(layer, path, value)
        axes = pixels(value)
        if self.training:
            self._batch, self._shapes[layer.name] = shares.rows(value.shape[0]), value.shape[1:]
            if not self.number("images"):
                self.state["images"] = whole(self._batch)
        if layer.edge == "first":
            return self._block_float(layer, path, value, STATIC, axes)
        bits = self.bits(layer, ACTIVATIONS, layer.buffers, blocks_shape(value.shape, axes))
        if self.options.forward_dynamic == "activation":
            dynamic = self._block_float(layer, path, value, bits, axes)
            static = dynamic
        else:
            static = self._block_float(layer, path, value, STATIC, axes)
            dynamic = self._block_float(layer, "x0b", value, bits, axes)
        if self.training:
            self._seen[layer.name, ACTIVATIONS] = dynamic
        return Copies(static, dynamic)

    def error(self, layer: LayerLike, path: str, value: Any) -> Any:
        """e3 in 8 bits; e4 as it is, and its squares in the sensitivity of x0.

        Defined by `spec/methods/dynasty.py: Step.error`.
        """
        if path == "e3":
            return self._block_float(layer, path, value, STATIC, pixels(value))
        if path == "e4" and layer.takes_weight:
            self._add(layer, self._seen.pop((layer.name, ACTIVATIONS)), value, layer.buffers, ACTIVATIONS)
        return self.passes(layer, path, value)

    def gradient(self, layer: LayerLike, parameter: Parameter, value: Any) -> np.ndarray:
        """As it is; squares of a weight's gradient in its sensitivity.

        Defined by `spec/methods/dynasty.py: Step.gradient`.
        """
        if parameter.symbol == "W":
            self._add(layer, self._seen.pop((layer.name, WEIGHTS)), value, parameter.slots, WEIGHTS)
        return super().gradient(layer, parameter, value)

    # -- sensitivity and map ------------------------------------------------------------------

    def _add(
        self, layer: LayerLike, blocks: BlockTensor, g: np.ndarray, store: dict[str, Any], kind: str
    ) -> None:
        """Add the sensitivity of each block in this batch to S, unless the batch is a short one (1).

        Defined by `spec/methods/dynasty.py: Step._add`.
        """
        if self._of(layer).map == "uniform" or self._batch != self.number("images"):
            return
        with self.timed():
            if "S" not in store:
                shape = blocks.bits.shape
                if kind == ACTIVATIONS:
                    shape = (-(-self._batch // SIDE), *shape[1:])
                first = np.full(shape, FIRST, np.float32)
                store |= {"b": first, "b_new": first, "S": np.zeros(first.shape)}
            store["S"] = store["S"].copy()  # what observers hold of the step before stays as it is
            if kind == WEIGHTS:
                blocks.add_sensitivities(g, store["S"])
            elif not shares.idle():
                row = shares.first_image() // SIDE
                blocks.add_sensitivities(g, store["S"][row : row + blocks.bits.shape[0]])

    def meet(self) -> None:
        """S of activations, of which a rank has the blocks of its own images."""
        for layer in self._weighted:
            if "S" in layer.buffers:
                images = self.number("images")
                layer.buffers["S"] = shares.met(layer.buffers["S"], images, SIDE)

    def see_loss(self, loss: float) -> None:
        """The backward pass begins, and with it the analytics of this step, whose time is `overhead`."""
        self.overhead = 0.0
        super().see_loss(loss)

    def end_of_step(self) -> None:
        """Count a full batch."""
        if self._moving and self._batch == self.number("images"):
            self.state["batches"] = whole(self.number("batches") + 1)
        self._seconds += self.overhead
        super().end_of_step()

    def end_of_epoch(self) -> None:
        """New maps, of the weights and of the activations; S starts again. Without a full batch: none.

        Defined by `spec/methods/dynasty.py: Step.end_of_epoch`.
        """
        self.map = {}
        if self._moving and self.number("batches"):
            before = self.overhead  # which `_seconds` has already
            with self.timed():
                self.meet()
                self._new_maps()
            self.map["seconds"], self._seconds = self._seconds + self.overhead - before, 0.0
        super().end_of_epoch()

    def _new_maps(self) -> None:
        uses = {}
        for layer in self._weighted:
            x = (self.number("images"), *self._shapes[layer.name])
            uses[layer.name] = dynasty_map.multiply_adds(x, layer.weight.shape, layer.stride, layer.padding)
        self.map = {"layers": {layer.name: {} for layer in self._weighted}}
        of_kind = [{name: both[i] for name, both in uses.items()} for i in range(len(KINDS))]
        parts = [self._given(kind, own) for kind, own in zip(KINDS, of_kind, strict=True)]
        batches, last = self.number("batches"), self.state["lambda"].tolist() or [None, None]
        rs = [dynasty_map.relative_sensitivity(part.given.sums, batches, part.given.uses) for part in parts]
        work = [part.given.uses for part in parts]
        if self.options.lambdas == "one":
            lams = [self._lambda(np.concatenate(rs), np.concatenate(work), last[1], self.options.bits)] * 2
        else:
            lams = [
                self._lambda(r, t, lam, self.alpha[kind])
                for kind, r, t, lam in zip(KINDS, rs, work, last, strict=True)
            ]
        for kind, part, r, (lam, estimate) in zip(KINDS, parts, rs, lams, strict=True):
            if part.stores:  # else one layer alone, whose input has no sensitivity
                self._use(kind, part, dynasty_map.make(part.given, r, lam, self.options.gamma), estimate)
        self._tell_fixed(of_kind)
        self.state |= {"lambda": np.array([lam for lam, _ in lams]), "batches": whole(0)}

    def _tell_fixed(self, uses: Sequence[dict[str, np.ndarray]]) -> None:
        """Of layers of one width in all blocks; the first one's input has no map (8 bits)."""
        for layer in self._weighted:
            own = self._of(layer)
            if own.map == "uniform":
                told = self.map["layers"][layer.name]
                for kind, used in zip(KINDS, uses, strict=True):
                    if kind == WEIGHTS or layer.edge != "first":
                        told[kind] = dynasty_map.fixed_record(used[layer.name], int(alphas(own)[kind]))

    def _lambda(
        self, r: np.ndarray, uses: np.ndarray, last: float | None, alpha: float
    ) -> tuple[float, float]:
        """(the next lambda, from the last one, its estimate by r alone).

        Defined by `spec/methods/dynasty.py: Step._lambda`.
        """
        weights = uses if self.options.mean == "work" else None
        if not r.size:
            return 0.0, 0.0
        estimate = dynasty_map.first_lambda(r, alpha, weights)
        if self.options.tuning == "off":
            return estimate, estimate
        return dynasty_map.tune(estimate if last is None else last, r, alpha, weights), estimate

    def _given(self, kind: str, uses: dict[str, np.ndarray]) -> "Part":
        """What the next map of the weights or of the activations of all layers is made of."""
        stores = {
            layer.name: layer.weight.slots if kind == WEIGHTS else layer.buffers for layer in self._weighted
        }
        stores = {name: store for name, store in stores.items() if "S" in store}
        read = {name: uses[name] > 0 for name in stores}  # a stride may pass pixels by

        def joined(arrays: dict[str, np.ndarray]) -> np.ndarray:
            return np.concatenate([array[read[name]] for name, array in arrays.items()] or [np.zeros(0)])

        kept = ({name: store[key] for name, store in stores.items()} for key in ("S", "b", "b_new"))
        sums, b, b_new = map(joined, kept)
        return Part(stores, read, Given(sums, joined({name: uses[name] for name in stores}), b, b_new))

    def _use(self, kind: str, part: "Part", made: dynasty_map.Map, estimate: float) -> None:
        """Store a map by layer, and tell of it; S starts again."""
        batches, alpha = self.number("batches"), self.alpha[kind]
        self.map[kind] = dynasty_map.summary(part.given, batches, made, alpha, estimate)
        start = 0
        for name, store in part.stores.items():
            read = part.read[name]
            own = slice(start, start + int(np.count_nonzero(read)))
            self.map["layers"][name][kind] = dynasty_map.layer_record(part.given, made, own)
            for key, widths in (("b", made.smoothed), ("b_new", made.new)):
                store[key] = np.zeros(read.shape, np.float32)
                store[key][read] = widths[own]
            store["S"] = np.zeros(read.shape)
            start = own.stop


def alphas(options: Dynasty.Options) -> dict[str, float]:
    """Mean widths by kind, of a uniform map every block's."""
    o = options
    return {WEIGHTS: o.bits if o.weight_bits is None else o.weight_bits, ACTIVATIONS: o.bits}


def check_widths(options: Dynasty.Options) -> None:
    """ConfigError for widths that there are not."""
    widths = alphas(options).values()
    if not all(0 <= width <= dynasty_map.BETA for width in widths):
        raise ConfigError("dynasty: bits and weight_bits are mean widths from 0 to 8")
    if options.map == "uniform" and not set(widths) <= set(WIDTHS):
        raise ConfigError("dynasty: a uniform map has 0, 2, 4, 6 or 8 bits")


class Part(NamedTuple):
    """Of one kind of operand: what keeps its widths by layer, which blocks a product reads, what is known."""

    stores: dict[str, dict[str, Any]]
    read: dict[str, np.ndarray]
    given: Given
