"""How long does a step of DYNASTY take beside float32, what share are its analytics, what do zeros save?

ResNet-20, batch 128, random images of 28x28x1, 16 steps an epoch, so that one map in 16 steps counts. The
rows `step` stand beside a float32 step in turns; `analytics` is the share of sensitivities and maps. The
rows behind them are single products of a layer, blocks of 0 bits in every `zero` of its channels, beside
the same product without such blocks and in float32.
"""

from collections.abc import Callable
from statistics import median
from time import sleep
from typing import Any

import numpy as np

from bench import training
from bench.summary import Row, at_least, at_most, column
from bench.timing import PAUSE, medians
from bench.training import BATCH, STEPS
from intnet import methods
from intnet.blocks.block_float import quantize_blocks
from intnet.ops import blocks
from intnet.ops.kernels import float_products as float32

QUESTION = f"dynasty, resnet20, batch {BATCH}, 28x28x1, and single products"
WINDOW: blocks.Window = ((1, 1), (1, 1), 1)
LAYER = (BATCH, 14, 14, 64)
ZEROS = (0.0, 0.5, 0.75)
STEP, ANALYTICS, DENSE = "x float32", "analytics", "x dense"


def _steps() -> list[Row]:
    """Third epochs, under maps of 4 and 2 bits, each step of float32 and of dynasty in turns."""
    found = []
    for bits in (4, 2):
        ours = training.run(methods.make("dynasty", bits=bits), steps=STEPS)
        theirs = training.run(methods.make("float32"), steps=STEPS)
        ours.train(2 * STEPS)
        theirs.train_step()
        pairs, spent, seconds = [], 0.0, 0.0
        for _ in range(STEPS):
            sleep(PAUSE)
            base = theirs.train_step().seconds
            sleep(PAUSE)
            report = ours.train_step()
            pairs.append((base, report.seconds))
            spent, seconds = spent + report.overhead, seconds + report.seconds
        found.append(
            {
                "what": f"step, {bits} bits",
                "seconds": median(own for _, own in pairs),
                "float32": median(base for base, _ in pairs),
                STEP: median(base / own for base, own in pairs),
                ANALYTICS: spent / seconds,
            }
        )
    return found


def _products() -> list[Row]:
    """Forward product and weight gradient of one layer, more and more of its channels in 0 bits."""
    rng = np.random.default_rng(1)
    x = np.maximum(rng.normal(size=LAYER), 0).astype(np.float32)
    w = (rng.normal(size=(64, 64, 3, 3)) * 0.1).astype(np.float32)
    e = (rng.normal(size=LAYER) * 1e-3).astype(np.float32)
    kernel, errors = quantize_blocks(w, 8, (0, 1)), quantize_blocks(e, 8, (0, 3))
    calls: dict[str, Callable[[], Any]] = {
        "forward, float32": lambda: float32.conv2d(x, w, *WINDOW),
        "weight gradient, float32": lambda: float32.conv2d_weight_grad(e, x, (3, 3), *WINDOW),
    }
    for zero in ZEROS:
        bits = np.full((BATCH // 4, *LAYER[1:3], LAYER[3] // 4), 4, np.uint8)
        bits[..., : round(zero * bits.shape[3])] = 0
        a = quantize_blocks(x, bits, (0, 3))
        calls[f"forward, {zero:.0%} zero"] = lambda a=a: blocks.conv2d(a, kernel, WINDOW)  # type: ignore[misc]
        calls[f"weight gradient, {zero:.0%} zero"] = lambda a=a: blocks.conv2d_weight_grad(  # type: ignore[misc]
            errors, a, (3, 3), WINDOW
        )
    seconds = medians(calls)
    found = []
    for what, value in seconds.items():
        kind = what.partition(",")[0]
        base, dense = seconds[f"{kind}, float32"], seconds[f"{kind}, {ZEROS[0]:.0%} zero"]
        found.append(
            {"what": what, "seconds": value, "float32": base, STEP: base / value, DENSE: dense / value}
        )
    return found


def rows() -> list[Row]:
    return _steps() + _products()


def targets(rows: list[Row]) -> list[Row]:
    steps = [row for row in rows if ANALYTICS in row]
    return [
        at_least(0.3, "dynasty step, times float32's, smaller", min(column(steps, STEP))),
        at_most(0.05, "dynasty analytics, share of its steps, larger", max(column(steps, ANALYTICS))),
    ]
