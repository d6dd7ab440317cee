"""How long does a training step of ResNet-50 take, and how much memory, at 64x64x3 and batch 8?

With both stems: `imagenet`, which this size has where nobody says, and `cifar`, behind which an image has 16
times as many positions. Memory as in `memory.py`.
"""

from bench.memory import peak
from bench.summary import Row
from bench.timing import medians
from bench.training import run
from intnet import methods
from intnet.models.stems import STEMS

IMAGE, BATCH = (64, 64, 3), 8
METHODS = ("wageubn", "float32")
QUESTION = f"a training step of resnet50, batch {BATCH}, {IMAGE[0]}x{IMAGE[1]}x{IMAGE[2]}"
MAKE = """
from bench.training import run
from intnet import methods
step = run(methods.make({method!r}), {model!r}, {image}, {batch}).train_step
"""


def rows() -> list[Row]:
    table = []
    for stem in reversed(STEMS):
        model = f"resnet50-{stem}"
        calls = {name: run(methods.make(name), model, IMAGE, BATCH).train_step for name in METHODS}
        for name, seconds in medians(calls).items():
            make = MAKE.format(method=name, model=model, image=IMAGE, batch=BATCH)
            row = {"what": f"{model} {name}", "seconds": seconds, "images/s": BATCH / seconds}
            table.append(row | {"MB above the process before": peak(make)})
    return table


def targets(rows: list[Row]) -> list[Row]:
    return []  # nobody has published figures to stand beside
