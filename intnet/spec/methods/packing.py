"""What a method's tape packs of activations: which values, in which codecs, and what comes back of them.

"Mix-Precision Stochastic Quantization of Activations during Backpropagation" (Li, thesis, Heidelberg 2025).
On the way back a~, what was packed (`buckets`), stands for

    x0   of products: gW = e3 x0s^T (sec. 4.2.2), and of a scaled image: sum(e0 x0s)
    x1   of batch norm, whose mean and root are those of the forward pass
    x3   of SiLU, where `silu` is 'packed'

ReLU's mask is exact. Codes: listings 4.1-4.4 (symmetric), 4.2.2 (affine), 5.3.1 (affine, stochastic), listing
5.1 (levels), 5.7 (mixing). Words of a format are packed as their value in float32; where gradients are
exact products of words, a~ is rounded to the words' exponent, of BF(., WL) in that format; block float comes
back in block float.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, NamedTuple

from intnet.spec import block_float, buckets
from intnet.spec import float32 as floats
from intnet.spec.block_float import Blocks
from intnet.spec.formats import Direct, Scaled, quantize
from intnet.spec.methods.step import Now, Overrides, Schedule, at, by_layer, of_layer, schedule
from intnet.spec.models import Layer
from intnet.spec.tensor import Fixed, Tensor
from intnet.spec.values import to_float
from intnet.spec.words import words

PREFIX = "saved."
PACKED = ("x0", "x1", "x3")
READ = {  # as golden packs print it, by the kind of x0's format: what an exact or a block product reads of a~
    "Scaled": "x0s read in BF(wl), ties to even: s is that of a~",
    "BlockFloat": "x0s read in block float: blocks and b of x0, e of a~, ties to even",
    "": "x0s read at the exponent of x0: rounded there, ties to even, without limits",
}
PRESETS = {(2, 4): 0.5, (2, 6): 0.3, (3, 6): 0.4, (4, 8): 0.2}  # mix_levels_prob of listing 5.6


class Codec(NamedTuple):
    """kind: of `buckets`; bits: None: float32; share: of buckets with `mix` bits; bucket: None: one."""

    kind: str = "affine-stochastic"
    bits: int | None = 4
    mix: int | None = None
    share: float = 0.0
    bucket: int | None = 512
    norm: str = "max"


def _text(value: Any) -> str | None:
    return None if value is None or str(value) in ("off", "none") else str(value)


@dataclass(frozen=True)
class Packing:
    """bits: 'B', 'B/C' (mixed) or 'off'; levels: of `levels`, 'L' or 'L/M' in place of powers of two; bucket:
    elements that share a scale, or 'tensor'; mix_prob: share of C bits by epoch; storage: 'save' packs at
    once, 'on_backward' when it is read, to the same bits.

    overrides: of layers, `of_layer`
    own: these are the options of method `saved`
    """

    codec: str = "affine-stochastic"
    bits: str = "4"
    levels: str | None = None
    bucket: str = "512"
    norm: str = "max"
    mix_prob: str | None = None
    storage: str = "save"
    silu: str = "float32"
    overrides: Overrides = ()
    own: bool = False

    READ: ClassVar[dict[str, Callable[[Any], Any]]] = {"mix_prob": _text, "levels": _text}

    @classmethod
    def of(cls, options: Mapping[str, Any], own: bool = False) -> Packing:
        """From the options of a run by name; 'bits@layer2.*' is bits of the layers whose names match."""
        read = {name: cls.READ.get(name.partition("@")[0], str)(value) for name, value in options.items()}
        plain, overrides = by_layer(read)
        return cls(**plain, overrides=overrides, own=own)

    def codec_of(self, layer: str, epoch: int) -> Codec:
        """How a layer's values are packed in an epoch."""
        mine = of_layer(self, layer)
        bits, bucket, kind, norm, levels = mine.bits, mine.bucket, mine.codec, mine.norm, mine.levels
        size = None if bucket == "tensor" or kind == "symmetric" else int(bucket)
        if bits == "off":
            return Codec(kind, None, None, 0.0, size, norm)
        if levels is not None:
            kind, bits = "counted", levels
        base, *wider = map(int, bits.split("/"))
        if not wider:
            return Codec(kind, base, None, 0.0, size, norm)
        prob = mine.mix_prob
        shares: Schedule[float] = schedule(PRESETS[base, wider[0]] if prob is None else prob, float)
        return Codec(kind, base, wider[0], at(shares, epoch), size, norm)

    def format_of(self, layer: Layer, path: str, epoch: int) -> Codec | None:
        """The codec of x0s, x1s, x3s; None where values stay."""
        codec = self.codec_of(layer.name, epoch)
        silu = path == "x3s" and self.silu == "float32"
        return None if codec.bits is None or silu or path.removesuffix("s") not in PACKED else codec

    def stream_of(self, layer: Layer, path: str, epoch: int) -> str | None:
        """A word an element, of method `saved` on 'layer/x0', of others on 'layer/x0s'; 'layer/mix' has one a
        bucket besides."""
        form = self.format_of(layer, path, epoch)
        if form is None or form.kind not in buckets.BY_WORDS:
            return None
        return f"{layer.name}/{path.removesuffix('s') if self.own else path}"

    def save(self, step: Any, layer: Layer, path: str, value: Any) -> Any:
        """What the way back reads in place of a value; inference has none. step: the `Step`, told of all."""
        if step.now.inference or (path == "mask" and not isinstance(value, Tensor)):
            return value
        n, name, epoch = prod(value.shape), f"{layer.name}/{path}", step.now.epoch
        late = of_layer(self, layer.name).storage == "on_backward"
        step.held[name] = n, 4 * n
        if path == "mask":
            if self.codec_of(layer.name, epoch).bits is not None and not late:
                step.held[name] = n, 8 * -(-n // 64)  # a bit an element
            return value
        codec = self.format_of(layer, f"{path}s", epoch)
        if codec is None:
            return value
        x = value.real() if isinstance(value, Blocks) else to_float(value)
        stream = self.stream_of(layer, f"{path}s", epoch)
        drawn = None if stream is None else step.words(stream, n)
        packed = pack(step.now, codec, layer.name, drawn, x)
        step.note(layer, f"{path}s", x, packed, codec, "ties_even" if drawn is None else "stochastic", drawn)
        clipped = sum(bucket.clipped for bucket in packed.saved.buckets)
        if clipped:
            step.saturated[f"{name}s"] = clipped
        if not late:
            flags = 0 if codec.mix is None else -(-len(packed.widths) // 8)
            step.held[name] = n, packed.nbytes + flags
        return alike(value, packed.values, step.exact_gradients, step.format_of(layer, path))


def split(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(a method's own options; of those that begin with 'saved.' the Packing, as the option `packing`)."""
    own = {name: value for name, value in options.items() if not name.startswith(PREFIX)}
    tape = {name.removeprefix(PREFIX): value for name, value in options.items() if name.startswith(PREFIX)}
    return own, {"packing": Packing.of(tape)} if tape else {}


class Packed(NamedTuple):
    """A tensor on the tape: its buckets and bytes, nominal bits of each bucket, a~."""

    shape: tuple[int, ...]
    saved: buckets.Saved
    widths: list[int]
    values: Tensor
    kind: str

    @property
    def nbytes(self) -> int:
        """Codes, float32 scales, of affine codecs zero points."""
        return len(self.saved.packed) + len(self.widths) * (8 if self.kind.startswith("affine") else 4)

    @property
    def codes(self) -> list[int]:
        """As counts of steps, with their sign where they have one."""
        pairs = zip(self.widths, self.saved.buckets, strict=True)
        return [c - buckets.offset_of(self.kind, b) for b, bucket in pairs for c in bucket.codes]


def pack(now: Now, codec: Codec, layer: str, drawn: list[int] | None, x: Tensor) -> Packed:
    """x in codes: element i by word i of `drawn`, bucket k by word k of 'layer/mix' (5.7)."""
    n = len(x.values)
    assert codec.bits is not None
    size = codec.bucket or n
    widths = [codec.bits] * -(-n // size)
    if codec.mix is not None:
        chosen = words(now.seed, now.step, f"{layer}/mix", len(widths))
        wide = [buckets.promoted(word, codec.share)[1] for word in chosen]
        widths = [codec.mix if up else codec.bits for up in wide]
    image = prod(x.shape[1:])
    made = buckets.save(floats.all_units(x.values), codec.kind, widths, size, drawn, codec.norm, image)
    again = Tensor(x.shape, [floats.value(v) for v in made.values])
    return Packed(x.shape, made, widths, again, codec.kind)


def alike(value: Any, a: Tensor, exact_gradients: bool, form: Any) -> Any:
    """a~ as its gradient takes it: block float of block float, words of words where gradients are exact."""
    if isinstance(value, Blocks):
        return block_float.quantize(a, value.bits, value.axes)
    if isinstance(value, Fixed) and exact_gradients:
        q = quantize(a.values, form if isinstance(form, Scaled) else Direct(32, lsb=value.exponent))
        return Fixed(a.shape, q.codes, q.exponent)
    return a
