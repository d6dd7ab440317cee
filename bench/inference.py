"""How many images does ResNet-20 classify a second in integers, beside ONNX Runtime's int8?

Batches of 256 images of 28x28x1, as `eval` takes them, after one training step: whole numbers with their
batch norms folded (`wageubn`), and float32. The peer runs the same network with batch norms folded into its
convolutions, quantized by ONNX Runtime's own tool (activations uint8, weights int8 by channel, calibrated on
one batch), and in float32. Each with all threads and all optimizations.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bench import peers
from bench.summary import Row, at_least, ratio
from bench.timing import medians
from bench.training import run
from intnet import methods
from intnet.training.inference import EVALUATION_BATCH, classified

QUESTION = f"classifying with resnet20, batches of {EVALUATION_BATCH}, 28x28x1"
METHODS = ("wageubn", "float32")
PEER = "ONNX Runtime int8"


def rows() -> list[Row]:
    images = np.random.default_rng(0).integers(0, 256, (EVALUATION_BATCH, 28, 28, 1)).astype(np.uint8)
    calls = dict[str, Callable[[], Any]]()
    for name in METHODS:
        trained = run(methods.make(name))
        trained.train_step()
        calls[name] = partial(classified, trained.model, trained.method, images, trained.data.exponent)
    if peers.onnx_runtime():
        from bench import onnx_nets

        calls |= onnx_nets.sessions(images)
    seconds = medians(calls)
    return [
        {
            "what": name,
            "seconds": value,
            "images/s": EVALUATION_BATCH / value,
            f"x {PEER}": ratio(seconds.get(PEER), value),
        }
        for name, value in seconds.items()
    ]


def targets(rows: list[Row]) -> list[Row]:
    of = {row["what"]: row for row in rows}
    return [at_least(1.0, f"wageubn images/s, times {PEER}", of["wageubn"][f"x {PEER}"])]
