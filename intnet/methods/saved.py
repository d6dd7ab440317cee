"""saved: float32 training whose tape holds activations in 1 to 32 bits.

"Mix-Precision Stochastic Quantization of Activations during Backpropagation" (Li, thesis, Heidelberg 2025).
The forward pass and the update are method `float32`'s. What operations save for their gradients is packed
at once, and the backward pass reads a~ (codecs and their equations: `blocks/buckets.py`):

    linear, convolution     x0 -> x0s       gW = e3 x0s^T                                  sec. 4.2.2
    scale                   x0 -> x0s       the gradient of the factors, sum(e0 x0s)
    batch norm              x1 -> x1s       gamma's gradient and e3 by batch norm's formulas of x1s
    SiLU                    x3 -> x3s       the derivative at x3s, where `silu=packed`; float32 in the thesis
    ReLU                    a bit an element, whether its output is above 0: exact

With storage `on_backward` the float32 values stay, and are rounded when they are read, to the same bits.

Defined by `spec/methods/saved.py: Step`, `spec/methods/saved.py: pack`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from intnet.autograd import Kept
from intnet.blocks.buckets import Codec, Draw, Mix, Packed, Signs, encode, promotions
from intnet.errors import ConfigError, FormatError
from intnet.methods import schedules, symbols
from intnet.methods.float32 import Float32
from intnet.methods.method import Held, LayerLike
from intnet.methods.options import takes
from intnet.numbers import rng
from intnet.trace import Event

PACKED = ("x0", "x1", "x3")
MASK = "mask"  # of ReLU: only its sign is read
PRESETS = {(2, 4): 0.5, (2, 6): 0.3, (3, 6): 0.4, (4, 8): 0.2}  # mix_levels_prob of listing 5.6


class Later(Kept):
    """A float32 value that is rounded when it is read."""

    def __init__(self, value: np.ndarray, pack: Callable[[np.ndarray], Packed]) -> None:
        self.shape, self._value, self._pack = value.shape, value, pack

    def load(self) -> np.ndarray:
        """float32: a~."""
        return self._pack(self._value).load()


class Saved(Float32):
    """float32, but for the activations on the tape, in 1 to 32 bits (Li 2025).

    What is rounded where, the module says; keys are the fields of `Options`.
    """

    name = "saved"
    SYMBOLS = symbols.SAVED
    BY_LAYER = ("codec", "bits", "bucket", "norm", "mix_prob", "storage")
    DEVIATIONS: ClassVar[dict[str, str]] = {
        "buckets": "contiguous elements as they lie in memory: (N, H, W, C) here, (N, C, H, W) in the thesis",
        "first layer": "its input, the images, is packed as every layer's is",
        "batch norm": "mean and 1/sqrt(variance + eps) are of the values before rounding",
        "constant buckets": "are stored as their value; so is one whose s underflows, as its least",
        "levels": "needs b + 2 bits a code, for 2^(b+1) + 1 of them; 1 - 1e-8 is 1 in float32",
        "straight-through": "no gradient passes the quantizer: what was packed is read by gradients only",
        "mixing": "of levels in the thesis; here of any codec",
        "other operations": "max pooling and dropout hold exact positions and masks, as in method float32",
    }

    @dataclass(frozen=True, kw_only=True)
    class Options(Float32.Options):
        """bits: 1 to 32; 2/4 mixes two widths, the wider behind, by bucket; off leaves float32 on the tape.

        codec: how codes are made. bucket: elements that share a scale. norm: what the scale of levels is.
        mix_prob: share of the wider codes, by epoch as in '0.8,0.2@5'; off: the thesis's, where it has one.
        storage: save packs at once, on_backward keeps float32 and rounds when it is read.
        Each of these takes a layer pattern: bits@layer2.*=4. silu: whether SiLU's input is packed too.
        """

        codec: Literal["affine", "affine-stochastic", "levels"] = "affine-stochastic"
        bits: str = "4"
        bucket: Literal[64, 128, 256, 512, "tensor"] = 512
        norm: Literal["max", "l2"] = "max"
        mix_prob: str | None = None
        storage: Literal["save", "on_backward"] = "save"
        silu: Literal["float32", "packed"] = "float32"

    @takes(Options)
    def __init__(self, /, **options: Any) -> None:
        super().__init__(**options)
        self._plans: dict[tuple[str, str], Plan | None] = {}  # by layer and path

    # -- starting ---------------------------------------------------------------------------

    def streams(self, layers: Sequence[Any]) -> list[str]:
        """A word an element on 'layer/x0', x1 or x3, a word a bucket on 'layer/mix'.

        Defined by `spec/methods/saved.py: Step.stream_of`.
        """
        return super().streams(layers) + [
            f"{layer.name}/{path}" for layer in layers for path in (*PACKED, "mix")
        ]

    def follow(self, layers: Sequence[Any]) -> None:
        """Every layer's codec is known before the first step: what is wrong with one is said here."""
        super().follow(layers)
        self._plans = {
            (layer.name, path): self.plan(layer, path) for layer in layers for path in (*PACKED, MASK)
        }
        shares = {key: value for key, value in self.settings().items() if key.partition("@")[0] == "mix_prob"}
        given = [f"{key}={value}" for key, value in shares.items() if value is not None]
        if given and not any(plan and plan.share for plan in self._plans.values()):
            raise ConfigError(f"saved: {', '.join(given)}: no layer mixes widths, as bits=2/4 does")

    def plan(self, layer: LayerLike, path: str = "x0") -> "Plan | None":
        """How a layer's value is packed; None where float32 stays. ConfigError names what is wrong.

        Defined by `spec/methods/saved.py: Settings.codec_of`.
        """
        if path not in (*PACKED, MASK) or (path == "x3" and self.options.silu == "float32"):
            return None
        codec, bits, bucket, norm, prob, storage = values = [self.option(key, layer) for key in self.BY_LAYER]
        if bits == "off":
            return None
        common = values == [getattr(self.options, key) for key in self.BY_LAYER]
        where = "saved" if common else f"saved: layer {layer.name}"
        parts = str(bits).split("/")
        if len(parts) > 2 or not all(part.isascii() and part.isdecimal() for part in parts):
            raise ConfigError(f"{where}: bits={bits!r} is not B, B/C or off, as in 4 or 2/4")
        base, *wider = map(int, parts)
        if wider and wider[0] <= base:
            raise ConfigError(f"{where}: bits={bits}: the second width is the wider one, as in 2/4")
        try:
            made = Codec(codec, base, wider[0] if wider else None, bucket, norm)
        except FormatError as error:
            raise ConfigError(f"{where}: {error}") from None
        if not wider:
            return Plan(made, None, storage == "save")
        if prob is None and (base, wider[0]) not in PRESETS:
            known = ", ".join(f"{a}/{b}" for a, b in PRESETS)
            raise ConfigError(
                f"{where}: bits={bits} needs mix_prob=P, the share of {wider[0]} bits; known: {known}"
            )
        share = schedules.shares(PRESETS[base, wider[0]] if prob is None else prob, f"{where}: mix_prob")
        return Plan(made, share, storage == "save")

    # -- the tape ---------------------------------------------------------------------------

    def save(self, layer: LayerLike, path: str, value: Any) -> Any:
        """x0, x1 and x3 packed, of ReLU a bit an element. Defined by `spec/methods/saved.py: Step.save`."""
        plan, name = self._plans.get((layer.name, path)), f"{layer.name}/{path}"
        kept: Any = value
        if plan is not None and path == MASK:
            kept = Signs(value) if plan.at_once else value
        elif plan is not None:
            kept = self._packed(layer, path, value, plan)
        nbytes = value.nbytes if isinstance(kept, np.ndarray | Later) else kept.nbytes
        codec = None if plan is None or path == MASK or not plan.at_once else plan.codec
        self.held[name] = Held(value.size, nbytes, codec)
        return kept

    def _packed(self, layer: LayerLike, path: str, value: np.ndarray, plan: "Plan") -> Kept:
        name = f"{layer.name}/{path}"
        draw = Draw(self.seed, self.step, rng.stream(name))
        promoted, share = None, 0.0
        if plan.share is not None:
            share = plan.share.at(self.epoch)
            choice = Draw(self.seed, self.step, rng.stream(f"{layer.name}/mix"))
            promoted = promotions(plan.codec.buckets(value.size), share, choice)

        def pack(x: np.ndarray) -> Packed:
            packed = encode(x, plan.codec, draw, promoted, name)
            if packed.clipped:
                self.saturated[f"{name}s"] = self.saturated.get(f"{name}s", 0) + packed.clipped
            if self.observers:
                self._emit_packed(layer, path, x, packed, share)
            return packed

        return pack(value) if plan.at_once else Later(value, pack)

    def _emit_packed(self, layer: LayerLike, path: str, x: np.ndarray, packed: Packed, share: float) -> None:
        """The event of x0s, x1s or x3s; the words that the codec drew inside are drawn again for it."""
        words = mix = None
        if packed.codec.kind != "affine":
            words = self.words(f"{layer.name}/{path}", x.size)
        if packed.flags is not None:
            mix = Mix(self.words(f"{layer.name}/mix", packed.scales.size), share)
        rounding = "ties_even" if words is None else "stochastic"
        given = (x, packed, packed.codec, rounding, words)
        self._emit(Event(layer.name, f"{path}s", self.step, *given, mix=mix))


class Plan(NamedTuple):
    """How a layer's values are packed; share: of promoted buckets, by epoch; at_once: storage 'save'."""

    codec: Codec
    share: schedules.Schedule[float] | None
    at_once: bool

    def promoted(self, epoch: int) -> float:
        """The share of promoted buckets in an epoch; 0 without a mix."""
        return self.share.at(epoch) if self.share else 0.0
