"""Ports of a path that a codec packed (`blocks/buckets.py`): what hardware stores, and what it reads.

    L/x0s           a~, float32: what the gradients read
    L/x0s.code      unsigned codes, of levels code + 2^b
    L/x0s.scale     s or scale of the buckets, float32; L/x0s.zero their z, not of levels
    L/x0s.bits      b of the buckets, where widths are mixed: by the words of L/mix.words
    L/x0s.packed    the memory: bytes of the 64-bit words that hold all codes

What is all alike judges nothing: such a port is `in`. `trail.py` explains the codes of the affine kinds.
"""

from dataclasses import asdict
from typing import Any

import numpy as np

from intnet.blocks.buckets import Codec, Packed
from intnet.packs import ports

WORD_BYTES = 8
BUCKET = "bucket"

Json = dict[str, Any]


def told(codec: Codec, probability: float | None, mix_words: str | None) -> Json:
    """The codec as JSON, for `rounding`; mix_words: the port of the words that chose the widths."""
    chosen = {} if probability is None else {"probability": probability, "mix_words": mix_words}
    return {"name": str(codec), **asdict(codec), **chosen}


def limits_of(codec: Codec) -> Json:
    """0 and 2^b - 1 of affine codes of one width; None where b says it, or nothing can saturate."""
    if codec.kind == "levels" or codec.mix is not None:
        return {"low": None, "high": None}
    return {"low": 0, "high": 2**codec.bits - 1}


def made(name: str, packed: Packed, axes: str, meaning: str, rounding: Json) -> list[ports.Filled]:
    """All of them; `rounding` is that of the codes."""
    codec, widths = packed.codec, packed.widths.astype(np.int64)
    codes = packed.codes()
    if codec.kind == "levels":
        codes += 1 << np.repeat(widths, codec.size(codes.size))[: codes.size].reshape(codes.shape)
    width = codec.code_width(max(codec.widths))
    values, plain = packed.load(), {"signed": False}
    zero = "z of each bucket; of a constant one (s = 0) its value"
    out = ports.tensor(name, _way(values), values, axes, meaning=f"{meaning}: a~, which gradients read")
    of = plain | {"meaning": f"codes of {meaning}", "rounding": rounding}
    out.append(ports.whole_number(f"{name}.code", _way(codes), codes, axes, width, **of))
    out += ports.tensor(
        f"{name}.scale", _way(packed.scales), packed.scales, BUCKET, meaning="s, or scale, of each bucket"
    )
    if codec.kind != "levels":
        out += ports.tensor(f"{name}.zero", _way(packed.zeros), packed.zeros, BUCKET, meaning=zero)
    if codec.mix is not None:
        means = plain | {"meaning": "b of each bucket"}
        out.append(ports.whole_number(f"{name}.bits", _way(widths), widths, BUCKET, 6, **means))
    return [*out, _memory(name, packed)]


def _memory(name: str, packed: Packed) -> ports.Filled:
    """A line a 64-bit word."""
    data = packed.words.view(np.uint8).astype(np.int64)
    meaning = "the codes as they lie in memory: each bucket begins with a word, code i of it takes width bits"
    meaning += " from bit i * width on, lowest bit first"
    port = ports.Port(
        f"{name}.packed", _way(data), data.shape, "byte", 8, signed=False, lanes=WORD_BYTES, meaning=meaning
    )
    return port, data


def _way(words: np.ndarray) -> str:
    return "out" if words.size and np.any(words != words.flat[0]) else "in"
