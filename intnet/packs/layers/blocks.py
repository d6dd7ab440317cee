"""Ports of a path in block float, or packed by a codec: what stands beside the codes, what hardware stores.

    L/x0            codes; value = code * 2**(e - b + 1)
    L/x0.e          e of the blocks: a result too
    L/x0.bits       b of the blocks, the map in use: an input; none where all blocks have the same b

    L/x0s           a~ of a codec (`exact/blocks/buckets.py`), float32: what the gradients read
    L/x0s.code      unsigned codes; of levels code + L, of symmetric ones code + 2^(b-1)
    L/x0s.scale     s or scale of the buckets, float32; L/x0s.zero their z, of affine ones
    L/x0s.bits      b of the buckets (of counted levels L), where they are mixed: by the words of L/mix.words
    L/x0s.packed    the memory: bytes of the 64-bit words that hold all codes

`limit` joins the trail (`inspect/trail.py`) where it is not one number for all: +-(2**(b-1) - 1) by b. What
is all alike judges nothing: such a port is `trail`. A trail explains the codes of the affine kinds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from intnet.exact.blocks.block_float import BlockTensor, blocks_of
from intnet.exact.blocks.buckets import Codec, Packed
from intnet.inspect.trail import block_limits, block_trail, bucket_trail
from intnet.methods.trace import Event
from intnet.numbers.formats import BlockFloat
from intnet.packs import ports
from intnet.packs.layers import worth
from intnet.packs.ports import Json

WORD_BYTES = 8
BUCKET = "bucket"
BITS = 4  # of a width

STATE = ("b", "b_new", "S")  # what a method keeps of every block


@dataclass(frozen=True)
class Path:
    """What ports are made of.

    name: of the path's port; axes: names of its dimensions; formula: what it is
    rounding: what all kinds say of it; chosen: the port of the words that chose the widths of buckets
    """

    name: str
    event: Event
    axes: str
    formula: str
    rounding: Json
    chosen: str | None = None


@dataclass(frozen=True)
class Made:
    """The ports of a path in the order of PACK.json; flags: what the words of those that judge hunt.

    skipped: what is no port -> the reason
    """

    ports: Sequence[ports.Filled]
    judged: Mapping[str, str]
    skipped: Mapping[str, str] = field(default_factory=dict)


# -- block float -----------------------------------------------------------------------------------


def block_float(path: Path) -> Made:
    """Codes, e and b of the blocks, the trail; `trail` where codes are alike."""
    event, name = path.event, path.name
    assert isinstance(event.format, BlockFloat)
    codes, status = event.result.codes, event.result.status
    direction = worth.direction(codes)
    found = blocks_of(event.result, event.source)
    others, fields = beside(name, found, path.axes, direction)
    rounding = path.rounding | block_limits_of(name, event.source, found) | fields
    flags, explained = "exact", list[ports.Filled]()
    if direction == "out" and status.inexact:
        way = block_trail(event.source, found)
        explained, flags = worth.trail_ports(name, way, path.axes), worth.flags(event, way)
    elif "limit" in rounding:  # nothing explains it
        del rounding["limit"]
    of = {"meaning": path.formula, "rounding": rounding, "format": event.format, "exponent": f"{name}.e"}
    width = max(event.format.bits, 1)
    filled = [ports.whole_number(name, direction, codes, path.axes, width, **of), *others]
    return Made([*explained, *filled], {port.name: flags for port, _ in filled if port.direction == "out"})


def block_axes(axes: Mapping[int, str], second: int | None = None) -> dict[int, str]:
    """Names of the dimensions of arrays of blocks: 'N/4,H,W,C/4'; `second` blocked axis, None: the last."""
    named = {}
    for count, text in axes.items():
        names = text.split(",")
        for axis in {0, count - 1 if second is None else second}:
            if axis < count:
                names[axis] += "/4"
        named[count] = ",".join(names)
    return named


def beside(name: str, blocks: BlockTensor, axes: str, direction: str) -> tuple[list[ports.Filled], Json]:
    """(the ports of e and b, the fields of `rounding` that name them).

    e judges nothing where all blocks have the same: it is `trail` then.
    """
    count = len(blocks.shape)
    named = block_axes({count: axes}, blocks.axes[1])[count]
    e, bits = blocks.exponents.astype(np.int64), blocks.bits.astype(np.int64)
    meaning = "e of each block: the smallest with max abs(x) < 2^e, at least -128"
    way = direction if worth.varied(e) else "trail"
    made = [ports.whole_number(f"{name}.e", way, e, named, 8, meaning=meaning)]
    if not worth.varied(bits):
        return made, {"bits": int(bits.flat[0])}
    fields = {"signed": False, "meaning": "b of each block: the map in use"}
    made.append(ports.whole_number(f"{name}.bits", "in", bits, named, BITS, **fields))
    return made, {"bits": f"{name}.bits"}


def block_limits_of(name: str, source: np.ndarray, blocks: BlockTensor) -> Json:
    """The limits for `rounding`: numbers, or the port of one an element."""
    high = block_limits(source, blocks)
    if worth.varied(high):
        return {"low": None, "high": None, "limit": f"{name}.limit"}
    return {"low": -int(high.flat[0]), "high": int(high.flat[0])}


# -- buckets ---------------------------------------------------------------------------------------


def buckets(path: Path) -> Made:
    """What is stored of what a codec packed, what gradients read, the trail of affine codes."""
    event, name, skipped = path.event, path.name, {}
    codec, packed = event.format, event.result
    assert isinstance(codec, Codec) and isinstance(packed, Packed)
    share = None if event.mix is None else event.mix.probability
    rounding = path.rounding | limits_of(codec) | {"codec": told(codec, share, path.chosen)}
    flags, explained = f"{event.rounding} saturated:{packed.clipped}", list[ports.Filled]()
    if codec.has_zero:
        way = bucket_trail(event.source, packed, event.words)
        explained = worth.trail_ports(f"{name}.code", way, path.axes)
        flags += f" rounded:{np.count_nonzero(way.remainder)}"
    else:
        signed = "codes have a sign"
        rounded = signed if codec.kind == "symmetric" else f"levels round magnitudes, {signed}"
        skipped[f"{name}.code.floor"] = f"no trail of it: {rounded}"
    filled = made(name, packed, path.axes, path.formula, rounding)
    outs = [port.name for port, _ in filled if port.direction == "out"]
    judged = {one: flags if one == f"{name}.code" else "packed" for one in outs}
    return Made([*explained, *filled], judged, skipped)


def told(codec: Codec, probability: float | None, mix_words: str | None) -> Json:
    """The codec as JSON, for `rounding`; mix_words: the port of the words that chose the widths."""
    chosen = {} if probability is None else {"probability": probability, "mix_words": mix_words}
    return {"name": str(codec), **asdict(codec), **chosen}


def limits_of(codec: Codec) -> Json:
    """Of the codes as they are stored, of one width; None where b says it, or nothing can saturate."""
    if codec.mix is not None or not (codec.has_zero or codec.kind == "symmetric"):
        return {"low": None, "high": None}
    return {"low": 0, "high": 2**codec.bits - 1}


def made(name: str, packed: Packed, axes: str, meaning: str, rounding: Json) -> list[ports.Filled]:
    """All of them; `rounding` is that of the codes."""
    codec, widths = packed.codec, packed.widths.astype(np.int64)
    codes = packed.codes()
    if not codec.has_zero:
        offsets = np.array([codec.offset(b) for b in widths.tolist()], np.int64)
        codes += np.repeat(offsets, codec.size(codes.size))[: codes.size].reshape(codes.shape)

    def floats(part: str, values: np.ndarray, axes: str, meaning: str) -> list[ports.Filled]:
        return ports.tensor(f"{name}{part}", worth.direction(values), values, axes, meaning=meaning)

    def whole(part: str, words: np.ndarray, axes: str, width: int, **of: Any) -> ports.Filled:
        way = worth.direction(words)
        return ports.whole_number(f"{name}{part}", way, words, axes, width, signed=False, **of)

    out = floats("", packed.load(), axes, f"{meaning}: a~, which gradients read")
    width, means = codec.code_width(max(codec.widths)), f"codes of {meaning}"
    out.append(whole(".code", codes, axes, width, meaning=means, rounding=rounding))
    out += floats(".scale", packed.scales, BUCKET, "s, or scale, of each bucket")
    if codec.has_zero:
        zero = "z of each bucket; of a constant one (s = 0) its value"
        out += floats(".zero", packed.zeros, BUCKET, zero)
    if codec.mix is not None:
        width = max(6, max(codec.widths).bit_length())
        means = "b of each bucket" if codec.kind != "counted" else "L of each bucket"
        out.append(whole(".bits", widths, BUCKET, width, meaning=means))
    return [*out, _memory(name, packed)]


def _memory(name: str, packed: Packed) -> ports.Filled:
    """A line a 64-bit word."""
    data = packed.words.view(np.uint8).astype(np.int64)
    meaning = "the codes as they lie in memory: each bucket begins with a word, code i of it takes width bits"
    meaning += " from bit i * width on, lowest bit first"
    of: Json = {"signed": False, "lanes": WORD_BYTES, "meaning": meaning}
    return ports.Port(f"{name}.packed", worth.direction(data), data.shape, "byte", 8, **of), data
