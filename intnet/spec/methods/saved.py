"""saved: float32 training whose tape holds activations in 1 to 32 bits.

"Mix-Precision Stochastic Quantization of Activations during Backpropagation" (Li, thesis, Heidelberg 2025).
Forward and update are method `float32`'s. On the way back a~, what was packed (`buckets`), stands for

    x0   of products: gW = e3 x0s^T (sec. 4.2.2), and of a scaled image: sum(e0 x0s)
    x1   of batch norm, whose mean and root are those of the forward pass
    x3   of SiLU, where `silu` is 'packed'

ReLU's mask is exact. Codes: 4.2.2 (affine), 5.3.1 (affine, stochastic), listing 5.1 (levels), 5.7 (mixing).
The state is `float_master`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import prod
from typing import Any, ClassVar, NamedTuple

from intnet.spec import buckets
from intnet.spec import float32 as floats
from intnet.spec.methods import float_master
from intnet.spec.methods.float32 import PlainStep, first, update
from intnet.spec.methods.step import Now, Schedule, at, schedule
from intnet.spec.nets import Layer
from intnet.spec.tensor import Tensor
from intnet.spec.words import words

PACKED = ("x0", "x1", "x3")
PRESETS = {(2, 4): 0.5, (2, 6): 0.3, (3, 6): 0.4, (4, 8): 0.2}  # mix_levels_prob of listing 5.6
BY_LAYER = ("codec", "bits", "bucket", "norm", "mix_prob", "storage")

__all__ = ["Codec", "Packed", "Settings", "Step", "first", "pack", "update"]


class Codec(NamedTuple):
    """kind: of `buckets`; bits: None: float32; share: of buckets with `mix` bits; bucket: None: one."""

    kind: str = "affine-stochastic"
    bits: int | None = 4
    mix: int | None = None
    share: float = 0.0
    bucket: int | None = 512
    norm: str = "max"


@dataclass(frozen=True)
class Settings(float_master.Settings):
    """bits: 'B', 'B/C' (mixed) or 'off'; bucket: elements that share a scale, or 'tensor'; mix_prob: share
    of C bits by epoch; storage: 'save' packs at once, 'on_backward' when it is read, to the same bits.

    overrides: (key, pattern of layers' names, value) in the order given: the last that matches holds
    """

    codec: str = "affine-stochastic"
    bits: str = "4"
    bucket: str = "512"
    norm: str = "max"
    mix_prob: str | None = None
    storage: str = "save"
    silu: str = "float32"
    overrides: tuple[tuple[str, str, Any], ...] = ()

    READ: ClassVar[dict[str, Callable[[Any], Any]]] = float_master.Settings.READ | {
        **dict.fromkeys(("codec", "bits", "bucket", "norm", "storage", "silu"), str),
        "mix_prob": lambda text: None if text is None or str(text) in ("off", "none") else str(text),
        "overrides": tuple,
    }

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Settings:
        """From the options of a run by name; 'bits@layer2.*' is bits of the layers whose names match."""
        own = {name: value for name, value in options.items() if "@" not in name}
        given = [(*name.split("@", 1), value) for name, value in options.items() if "@" in name]
        overrides = [(name, pattern, cls.READ[name](value)) for name, pattern, value in given]
        made: Settings = super().from_options(own | {"overrides": overrides})
        return made

    def option(self, name: str, layer: str) -> Any:
        """An option as it holds for a layer."""
        for own, pattern, value in reversed(self.overrides):
            if own == name and fnmatchcase(layer, pattern):
                return value
        return getattr(self, name)

    def codec_of(self, layer: str, epoch: int) -> Codec:
        """How a layer's values are packed in an epoch."""
        bits, bucket = self.option("bits", layer), self.option("bucket", layer)
        size = None if bucket == "tensor" else int(bucket)
        kind, norm = self.option("codec", layer), self.option("norm", layer)
        if bits == "off":
            return Codec(kind, None, None, 0.0, size, norm)
        base, *wider = map(int, bits.split("/"))
        if not wider:
            return Codec(kind, base, None, 0.0, size, norm)
        prob = self.option("mix_prob", layer)
        shares: Schedule[float] = schedule(PRESETS[base, wider[0]] if prob is None else prob, float)
        return Codec(kind, base, wider[0], at(shares, epoch), size, norm)


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
        return len(self.saved.packed) + len(self.widths) * (4 if self.kind == "levels" else 8)

    @property
    def codes(self) -> list[int]:
        """As counts of steps, of levels with their sign."""
        pairs = zip(self.widths, self.saved.buckets, strict=True)
        return [c - (2**b if self.kind == "levels" else 0) for b, bucket in pairs for c in bucket.codes]


def pack(now: Now, codec: Codec, layer: str, path: str, x: Tensor) -> Packed:
    """x in codes: element i by word i of 'layer/path', bucket k by word k of 'layer/mix' (5.7)."""
    n = len(x.values)
    assert codec.bits is not None
    size = codec.bucket or n
    widths = [codec.bits] * -(-n // size)
    if codec.mix is not None:
        chosen = words(now.seed, now.step, f"{layer}/mix", len(widths))
        wide = [buckets.promoted(word, codec.share)[1] for word in chosen]
        widths = [codec.mix if up else codec.bits for up in wide]
    drawn = None if codec.kind == "affine" else words(now.seed, now.step, f"{layer}/{path}", n)
    image = prod(x.shape[1:])
    made = buckets.save(floats.all_units(x.values), codec.kind, widths, size, drawn, codec.norm, image)
    again = Tensor(x.shape, [floats.value(v) for v in made.values])
    return Packed(x.shape, made, widths, again, codec.kind)


# -- a step ----------------------------------------------------------------------------------------


class Step(PlainStep):
    """The rules of the method for one step; held: 'layer/path' -> elements and bytes on the tape."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.held: dict[str, tuple[int, int]] = {}

    def format_of(self, layer: Layer, path: str) -> Any:
        """The codec of x0s, x1s, x3s; None where float32 stays."""
        if path in ("x0s", "x1s", "x3s"):
            codec = self.settings.codec_of(layer.name, self.now.epoch)
            silu = path == "x3s" and self.settings.silu == "float32"
            return None if codec.bits is None or silu else codec
        return super().format_of(layer, path)

    def stream_of(self, layer: Layer, path: str) -> str | None:
        """A word an element; 'layer/mix' has one a bucket besides."""
        form = self.format_of(layer, path)
        stochastic = isinstance(form, Codec) and form.kind != "affine"
        return f"{layer.name}/{path.removesuffix('s')}" if stochastic else None

    def save(self, layer: Layer, path: str, value: Tensor) -> Tensor:
        """a~, which the tape holds; inference has none."""
        if self.now.inference:
            return value
        n, name = len(value.values), f"{layer.name}/{path}"
        late = self.settings.option("storage", layer.name) == "on_backward"
        self.held[name] = n, 4 * n
        if (
            path == "mask"
            and self.settings.codec_of(layer.name, self.now.epoch).bits is not None
            and not late
        ):
            self.held[name] = n, 8 * -(-n // 64)  # a bit an element
        codec = self.format_of(layer, f"{path}s") if path in PACKED else None
        if codec is None:
            return value
        packed = pack(self.now, codec, layer.name, path, value)
        mode = "ties_even" if codec.kind == "affine" else "stochastic"
        self.note(layer, f"{path}s", value, packed, codec, mode)
        clipped = sum(bucket.clipped for bucket in packed.saved.buckets)
        if clipped:
            self.saturated[f"{name}s"] = clipped
        if not late:
            flags = 0 if codec.mix is None else -(-len(packed.widths) // 8)
            self.held[name] = n, packed.nbytes + flags
        return packed.values
