"""Packing: what any method's tape holds of activations, in 1 to 32 bits (Li, thesis, Heidelberg 2025).

    --method wageubn --set saved.bits=4 --set saved.codec=levels     any but banner and mx, options of `saved`

`Method.save` asks it what the tape holds of a value that gradients are made from; the backward pass reads a~
(codecs and their equations: `exact/blocks/buckets.py`):

    linear, convolution     x0 -> x0s       gW = e3 x0s^T                                  sec. 4.2.2
    scale                   x0 -> x0s       the gradient of the factors, sum(e0 x0s)
    batch norm              x1 -> x1s       gamma's gradient and e3 by batch norm's formulas of x1s
    SiLU                    x3 -> x3s       the derivative at x3s, where `silu=packed`; float32 in the thesis
    ReLU                    a bit an element, whether its output is above 0: exact

What is packed is float32. Of words of a format it is their value, rounded once to float32, which holds words
of 25 bits; what comes back is of the kind that the gradient takes:

    float32                                 a~
    words, where errors are float32         a~: adapt
    words, where gradients are exact        a~ rounded to the exponent of the words, ties to even: wageubn;
                                            with BF(., WL), in that format, whose exponent is of a~: muppet
    block float                             a~ in block float of the same widths: dynasty

Batch norm, SiLU and ReLU of integers hold words that are stored for the forward pass (x2, dx4, signs): these
stay as they are. With storage `on_backward` the values stay, and are rounded when they are read, to the same
bits.

Defined by `spec/methods/packing.py: Packing.save`, `spec/methods/packing.py: pack`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from intnet.autograd import Kept
from intnet.errors import ConfigError, FormatError
from intnet.exact.blocks.block_float import BlockTensor, quantize_blocks
from intnet.exact.blocks.buckets import BY_WORDS, TENSOR, Codec, Mix, Packed, encode, promotions
from intnet.exact.blocks.signs import Signs
from intnet.exact.expressions import Exact, exact
from intnet.exact.quantize import quantize
from intnet.methods import schedules
from intnet.methods.options import check_patterns, of_layer, parse_options
from intnet.methods.trace import Event
from intnet.numbers import shares
from intnet.numbers.formats import Direct, Scaled
from intnet.numbers.qtensor import QTensor

if TYPE_CHECKING:
    from intnet.methods.method import LayerLike, Method

PREFIX = "saved."  # of its options among a method's
PACKED = ("x0", "x1", "x3")
MASK = "mask"  # of ReLU: only its sign is read
BY_LAYER = ("codec", "bits", "levels", "bucket", "norm", "mix_prob", "storage")
PRESETS = {(2, 4): 0.5, (2, 6): 0.3, (3, 6): 0.4, (4, 8): 0.2}  # mix_levels_prob of listing 5.6
WORD = 32  # nominal bits of words that came back: `Direct` sets no range


class Held(NamedTuple):
    """What the tape holds of one value: elements, bytes, the codec that they are packed by, if any."""

    elements: int
    nbytes: int
    codec: Codec | None


@dataclass(frozen=True, kw_only=True)
class Options:
    """bits: 1 to 32; 2/4 mixes two widths by bucket, the wider one last; off leaves values as they are.

    codec: how codes are made. levels: of codec=levels, L in place of 2^bits, 1 to 2^24; 3/5 mixes two.
    bucket: elements that share a scale, or 'tensor', which symmetric always is. norm: what the scale of
    levels is. mix_prob: share of the wider codes, by epoch as in '0.8,0.2@5'; off: the thesis's, where it has
    one. storage: save packs at once, on_backward keeps values and rounds when they are read.
    Each of these takes a layer pattern: bits@layer2.*=4. silu: whether SiLU's input is packed too.
    """

    codec: Literal["affine", "affine-stochastic", "levels", "symmetric"] = "affine-stochastic"
    bits: str = "4"
    levels: str | None = None
    bucket: int | Literal["tensor"] = 512
    norm: Literal["max", "l2"] = "max"
    mix_prob: str | None = None
    storage: Literal["save", "on_backward"] = "save"
    silu: Literal["float32", "packed"] = "float32"


class Unrounded(Kept):
    """A value that is rounded when it is read."""

    def __init__(self, value: Any, pack: Callable[[Any], Kept]) -> None:
        self.shape, self.value, self._pack = value.shape, value, pack

    def load(self) -> Any:
        """What `Packing.save` says of a~."""
        return self._pack(self.value).load()


class Part(Kept):
    """Of packed buckets that reach beyond a rank's images (`numbers/shares.py`) those of its images."""

    def __init__(self, packed: Packed, ahead: int, shape: tuple[int, ...]) -> None:
        self.packed, self.ahead, self.shape = packed, ahead, shape

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.packed.nbytes

    def load(self) -> np.ndarray:
        """a~ of the images."""
        last = self.ahead + int(np.prod(self.shape))
        return self.packed.load().reshape(-1)[self.ahead : last].reshape(self.shape)


class Alike(Kept):
    """Packed values that come back as the kind that they were: words of an exponent, or block float."""

    def __init__(self, packed: Packed | Part, back: Callable[[np.ndarray], Any]) -> None:
        self.shape, self.packed, self._back = packed.shape, packed, back

    @property
    def nbytes(self) -> int:
        """Bytes held, but for the widths of blocks, which the method holds anyway."""
        return self.packed.nbytes

    def load(self) -> Any:
        """a~ as a QTensor or a BlockTensor."""
        return self._back(self.packed.load())


def split(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(a method's own options, those of packing without their prefix)."""
    own = {key: value for key, value in options.items() if not key.startswith(PREFIX)}
    return own, {key.removeprefix(PREFIX): value for key, value in options.items() if key.startswith(PREFIX)}


class Packing:
    """The codecs of a method's tape.

    prefix: PREFIX, or '' of method `saved`, whose own options these are
    """

    def __init__(self, owner: "Method", options: Options, overrides: dict[str, Any], prefix: str) -> None:
        self.owner, self.options, self.overrides, self.prefix = owner, options, overrides, prefix
        self.where = f"{owner.name}: saved" if prefix else owner.name
        self._plans: dict[tuple[str, str], Plan | None] = {}  # by layer and path

    @classmethod
    def of(cls, owner: "Method", options: Mapping[str, Any]) -> "Packing":
        """From options without their prefix; ConfigError for one that there is not."""
        return cls(owner, *parse_options(Options, options, f"{owner.name}: saved", BY_LAYER), PREFIX)

    def settings(self) -> dict[str, Any]:
        """Its part of `Method.settings`: nothing where the options are the method's own."""
        if not self.prefix:
            return {}
        return {
            f"{self.prefix}{key}": value for key, value in (asdict(self.options) | self.overrides).items()
        }

    # -- starting ---------------------------------------------------------------------------

    def streams(self, layers: Sequence[Any]) -> list[str]:
        """A word an element on 'layer/x0s', x1s or x3s, a word a bucket on 'layer/mix'; `stream`."""
        paths = [f"{path}s" if self.prefix else path for path in PACKED]
        return [f"{layer.name}/{path}" for layer in layers for path in (*paths, "mix")]

    def stream(self, layer: "LayerLike", path: str) -> str:
        """Whose words round a path: 'layer/x0' under `saved`, 'layer/x0s' where a method may round x0 itself.

        Defined by `spec/methods/packing.py: Packing.stream_of`.
        """
        return f"{layer.name}/{path}{'s' * bool(self.prefix)}"

    def start(self, layers: Sequence[Any]) -> None:
        """Every layer's codec is known before the first step: what is wrong with one is said here."""
        check_patterns(self.overrides, layers, self.keys_of, self.where)
        self._plans = {
            (layer.name, path): self.plan(layer, path) for layer in layers for path in (*PACKED, MASK)
        }
        probabilities = {"mix_prob": self.options.mix_prob} | {
            key: value for key, value in self.overrides.items() if key.partition("@")[0] == "mix_prob"
        }
        given = [f"{key}={value}" for key, value in probabilities.items() if value is not None]
        if given and not any(plan and plan.share for plan in self._plans.values()):
            raise ConfigError(f"{self.where}: {', '.join(given)}: no layer mixes widths, as bits=2/4 does")

    def keys_of(self, layer: "LayerLike") -> Collection[str]:
        """The keys of BY_LAYER that mean something to a layer: it keeps what its gradients are made from."""
        options = of_layer(self.options, self.overrides, layer.name)
        silent = layer.derivative == "x4" or (layer.derivative == "x3" and self.options.silu == "float32")
        if silent or not layer.stores:
            return ()
        if options.bits == "off":
            return ("bits",)
        if layer.derivative == "mask":
            return "bits", "storage"
        levels, fixed = options.codec == "levels", options.codec == "symmetric"
        unread = {"levels": not levels, "norm": not levels, "bucket": fixed}
        return [key for key in BY_LAYER if not unread.get(key)]

    def plan(self, layer: "LayerLike", path: str = "x0") -> "Plan | None":
        """How a layer's value is packed; None where it stays. ConfigError names what is wrong.

        Defined by `spec/methods/packing.py: Packing.codec_of`.
        """
        if path not in (*PACKED, MASK) or (path == "x3" and self.options.silu == "float32"):
            return None
        options = of_layer(self.options, self.overrides, layer.name)
        codec, bits, levels, bucket, norm, prob, storage = (getattr(options, key) for key in BY_LAYER)
        if bits == "off":
            return None
        where = self.where if options == self.options else f"{self.where}: layer {layer.name}"
        if levels is None:
            base, wider = widths(bits, "bits", "B, B/C or off, as in 4 or 2/4", where)
        elif codec != "levels":
            raise ConfigError(f"{where}: levels={levels} goes with codec=levels, not {codec}")
        else:
            codec = "counted"
            base, wider = widths(levels, "levels", "L, L/M or off, as in 4 or 3/5", where)
        try:
            made = Codec(codec, base, wider, TENSOR if codec == "symmetric" else bucket, norm)
        except FormatError as error:
            raise ConfigError(f"{where}: {error}") from None
        if wider is None:
            return Plan(made, None, storage == "save")
        if prob is None and (codec == "counted" or (base, wider) not in PRESETS):
            given = f"bits={bits}" if levels is None else f"levels={levels}"
            unit, known = "bits" if levels is None else "levels", ", ".join(f"{a}/{b}" for a, b in PRESETS)
            raise ConfigError(
                f"{where}: {given} needs mix_prob=P, the share of {wider} {unit}; known: {known}"
            )
        share = schedules.probabilities(PRESETS[base, wider] if prob is None else prob, f"{where}: mix_prob")
        return Plan(made, share, storage == "save")

    # -- the tape ---------------------------------------------------------------------------

    def save(self, layer: "LayerLike", path: str, value: Any) -> Any:
        """x0, x1 and x3 packed, of ReLU a bit an element.

        Defined by `spec/methods/packing.py: Packing.save`.
        """
        key, name = (layer.name, path), f"{layer.name}/{path}"
        if key not in self._plans:
            self._plans[key] = self.plan(layer, path)
        plan, kept = self._plans[key], value
        if plan is not None and path == MASK:
            kept = Signs(value) if plan.at_once else value
        elif plan is not None:
            kept = self._packed(layer, path, value, plan)
        nbytes = _bytes_of(value) if kept is value or isinstance(kept, Unrounded) else kept.nbytes
        codec = None if plan is None or path == MASK or not plan.at_once else plan.codec
        self.owner.held[name] = Held(int(np.prod(value.shape)), nbytes, codec)
        return kept

    def _packed(self, layer: "LayerLike", path: str, value: Any, plan: "Plan") -> Kept:
        owner, name = self.owner, f"{layer.name}/{path}"
        draw = owner.draw(self.stream(layer, path), int(np.prod(value.shape)))
        choice, codec = owner.draw(f"{layer.name}/mix", 0), plan.codec
        share = plan.promoted(owner.epoch)

        def packed(x: np.ndarray, first: int) -> Packed:
            promoted = None
            if plan.share is not None:
                bucket = 0 if isinstance(codec.bucket, str) else first // codec.bucket
                promoted = promotions(codec.buckets(x.size), share, choice._replace(start=bucket))
            start = draw._replace(start=first)
            return encode(x, codec, start, promoted, name, True, int(np.prod(value.shape[1:])))

        def pack(x: Any) -> Kept:
            floats, ahead = _floats_of(x, name), 0
            whole = floats
            if not isinstance(codec.bucket, str):
                whole, ahead = shares.bordered(floats, codec.bucket)
            made = own = packed(whole, draw.start - ahead)
            if ahead:  # its first bucket is another rank's to count
                own = packed(whole[codec.size(whole.size) :], draw.start - ahead + codec.size(whole.size))
            owner.count(f"{name}s", own.clipped)
            if owner.observers:
                self._emit(layer, path, floats, own, share)
            return self._alike(x, made if made.shape == x.shape else Part(made, ahead, x.shape), f"{name}s")

        return pack(value) if plan.at_once else Unrounded(value, pack)

    def _alike(self, x: Any, packed: "Packed | Part", where: str) -> Kept:
        """`packed`, or what makes of a~ the kind that x is, where its gradient takes no other."""
        if isinstance(x, BlockTensor):
            bits, axes = x.bits, x.axes
            return Alike(packed, lambda a: quantize_blocks(a, bits, axes, where))
        if isinstance(x, QTensor) and self.owner.exact_gradients:
            format = x.format if isinstance(x.format, Scaled) else Direct(WORD, lsb=int(x.exponent))
            return Alike(packed, lambda a: quantize(exact(a, where), format, where=where, of_batch=True))
        return packed

    def _emit(self, layer: "LayerLike", path: str, x: np.ndarray, packed: Packed, share: float) -> None:
        """The event of x0s, x1s or x3s; the words that the codec drew inside are drawn again for it."""
        words, mix, owner = None, None, self.owner
        if packed.codec.kind in BY_WORDS:
            words = owner.words(self.stream(layer, path), x.size)
        if packed.flags is not None:
            mix = Mix(owner.words(f"{layer.name}/mix", packed.scales.size), share)
        rounding = "ties_even" if words is None else "stochastic"
        owner.emit(
            Event(layer.name, f"{path}s", owner.step, x, packed, packed.codec, rounding, words, mix=mix)
        )


def widths(text: Any, key: str, forms: str, where: str) -> tuple[int, int | None]:
    """(b, that of promoted buckets or None) of 'B' or 'B/C'."""
    parts = str(text).split("/")
    if len(parts) > 2 or not all(part.isascii() and part.isdecimal() for part in parts):
        raise ConfigError(f"{where}: {key}={text!r} is not {forms}")
    base, *wider = map(int, parts)
    if wider and wider[0] <= base:
        raise ConfigError(f"{where}: {key}={text}: the second width is the wider one, as in 2/4")
    return base, wider[0] if wider else None


def _floats_of(x: Any, where: str) -> np.ndarray:
    """float32: of words their value, rounded once."""
    if isinstance(x, BlockTensor):
        return x.values
    if not isinstance(x, QTensor):
        return x
    value = exact(x, where)
    assert isinstance(value, Exact)
    return value.to_float32(where)


def _bytes_of(x: Any) -> int:
    return int(x.codes.nbytes if isinstance(x, QTensor) else x.nbytes)


class Plan(NamedTuple):
    """How a layer's values are packed; share: of promoted buckets, by epoch; at_once: storage 'save'."""

    codec: Codec
    share: schedules.Schedule[float] | None
    at_once: bool

    def promoted(self, epoch: int) -> float:
        """The share of promoted buckets in an epoch; 0 without a mix."""
        return self.share.at(epoch) if self.share else 0.0
