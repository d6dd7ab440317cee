"""What do saved activations cost and save: packing beside a copy in memory, a step, its peak memory?

Packing: the largest activation of a ResNet-20 step, 128x28x28x16 float32, by the codecs of 512 elements a
bucket. Bytes moved are float32 and packed codes, once each, beside those of np.copyto of as many float32
(`quantizers.py`). Steps: ResNet-20, batch 128, 28x28x1, in turns with `float32`. Memory: as in `memory.py`,
each figure a process of its own.
"""

from typing import Any

import numpy as np

from bench import memory, training
from bench.quantizers import SIZE, copies
from bench.summary import Row, at_least, at_most, column
from bench.timing import medians
from intnet import methods
from intnet.exact.blocks.buckets import Codec, encode
from intnet.numbers import bitpack
from intnet.numbers.rng import Draw

QUESTION = f"saved activations: packing of {SIZE:,} elements; resnet20, batch {training.BATCH}, 28x28x1"
WIDTHS = (1, 2, 4, 8)
MEMORY = "from bench import training\nfrom intnet import methods\n"
STEPS: dict[str, dict[str, Any]] = {
    "2 bits": {"bits": 2},
    "2 bits, affine": {"bits": 2, "codec": "affine"},
    "2 bits, levels": {"bits": 2, "codec": "levels"},
    "2 bits, buckets of 64": {"bits": 2, "bucket": 64},
    "2/4 bits": {"bits": "2/4"},
    "4 bits": {"bits": 4},
    "8 bits": {"bits": 8},
    "32 bits": {"bits": 32},
}
SHARE, STEP = "of memcpy", "x float32"


def _packing() -> list[Row]:
    floats = np.random.default_rng(0).standard_normal(SIZE).astype(np.float32)
    draw, calls, moved = Draw(1, 2, 3), copies(floats), {}
    copied = tuple(calls)
    for bits in WIDTHS:
        codes = np.random.default_rng(1).integers(0, 1 << bits, SIZE).astype(np.uint8)
        data = bitpack.pack(codes, bits, signed=False)
        calls[f"codes to {bits} bits"] = lambda c=codes, b=bits: bitpack.pack(c, b, signed=False)  # type: ignore[misc]
        moved[f"codes to {bits} bits"] = codes.nbytes + data.nbytes
        for kind in ("affine", "affine-stochastic", "levels"):
            codec = Codec(kind, bits)
            packed = encode(floats, codec, draw)
            calls[f"pack {kind} {bits}"] = lambda c=codec: encode(floats, c, draw)  # type: ignore[misc]
            calls[f"unpack {kind} {bits}"] = packed.load
            for what in ("pack", "unpack"):
                moved[f"{what} {kind} {bits}"] = floats.nbytes + packed.nbytes
    seconds = medians(calls)
    rate = 2 * floats.nbytes / min(seconds[name] for name in copied)
    return [
        {
            "what": name,
            "Melements/s": SIZE / seconds[name] / 1e6,
            "GB/s": count / seconds[name] / 1e9,
            SHARE: count / seconds[name] / rate,
        }
        for name, count in moved.items()
    ]


def _steps() -> list[Row]:
    calls = {
        name: training.run(methods.make("saved", **options)).train_step for name, options in STEPS.items()
    }
    seconds = medians({"float32": training.step("float32")} | calls)
    base = seconds["float32"]
    return [{"what": f"step, {name}", "seconds": seconds[name], STEP: base / seconds[name]} for name in STEPS]


def _memory() -> list[Row]:
    made = {"float32": "'float32'"} | {
        f"{bits} bits": f"'saved', bits={bits}, codec='{codec}'"
        for bits, codec in (
            (32, "affine"),
            (8, "affine"),
            (4, "affine"),
            (2, "affine-stochastic"),
            (1, "affine"),
        )
    }
    found = {
        name: memory.peak(f"{MEMORY}step = training.run(methods.make({call})).train_step")
        for name, call in made.items()
    }
    base = found["float32"]
    return [
        {"what": f"memory, {name}", "MB": value, "of float32": value / base} for name, value in found.items()
    ]


def rows() -> list[Row]:
    return _packing() + _steps() + _memory()


def targets(rows: list[Row]) -> list[Row]:
    def least(start: str) -> float:
        return min(column([row for row in rows if row["what"].startswith(start)], SHARE))

    found = {row["what"]: row for row in rows}
    return [
        at_least(0.3, "packing, affine, share of memcpy's bytes a second, smallest", least("pack affine ")),
        at_least(0.3, "unpacking, affine, the same", least("unpack affine ")),
        at_least(0.3, "packing, affine-stochastic, words drawn, the same", least("pack affine-stochastic")),
        at_least(0.7, "step at 2 bits, times float32's images/s", found["step, 2 bits"][STEP]),
        at_most(1.0, "peak memory of a step at 2 bits, of float32's", found["memory, 2 bits"]["of float32"]),
    ]
