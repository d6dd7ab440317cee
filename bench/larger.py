"""How long does a training step of larger networks take, and how much memory, beside PyTorch?

ResNet-18 at 56x56x3 with the stem of small images; ResNet-50 at 64x64x3 with both stems: `imagenet`, which
this size has where nobody says, and `cifar`, after which an image has 16 times as many positions. And
ResNet-20 at 28x28x1 by the size of the batch. The peer is PyTorch float32 in channels_last. Memory as in
`memory.py`.
"""

from collections.abc import Callable
from typing import Any

from bench.memory import peak
from bench.peers import torch
from bench.summary import Row, ratio
from bench.timing import medians
from bench.training import BATCH, run
from intnet import methods

WORK = [
    ("resnet18-cifar", (56, 56, 3), 32, tuple(methods.METHODS)),
    ("resnet50-imagenet", (64, 64, 3), 8, ("wageubn", "float32")),
    ("resnet50-cifar", (64, 64, 3), 8, ("wageubn", "float32")),
    *(("resnet20", (28, 28, 1), batch, ("wageubn", "float32")) for batch in (BATCH // 8, 2 * BATCH)),
]
PEER = "PyTorch float32"
QUESTION = "a training step of larger networks, and of other batches"
MAKE = """
from bench.training import run
from intnet import methods
step = run(methods.make({method!r}), {model!r}, {image}, {batch}).train_step
"""
TORCH = """
from bench.larger import peer
step = peer({model!r}, {image}, {batch})
"""


def peer(model: str, image: tuple[int, int, int], batch: int) -> Callable[[], Any]:
    """A step of PyTorch's."""
    from bench import torch_nets

    return torch_nets.float_step(batch, torch.channels_last, model, image)


def rows() -> list[Row]:
    table = []
    for model, image, batch, names in WORK:
        given = {"model": model, "image": image, "batch": batch}
        calls: dict[str, Callable[[], Any]] = {
            name: run(methods.make(name), model, image, batch).train_step for name in names
        }
        makes = {name: MAKE.format(method=name, **given) for name in names}
        if torch is not None:
            calls[PEER], makes[PEER] = peer(model, image, batch), TORCH.format(**given)
        seconds, memory = medians(calls), {name: peak(make) for name, make in makes.items()}
        table += [
            {
                "what": f"{model} {image[0]}x{image[1]}, batch {batch}: {name}",
                "seconds": value,
                "images/s": batch / value,
                "x PyTorch": ratio(seconds.get(PEER), value),
                "MB": memory[name],
                "of PyTorch's": ratio(memory[name], memory.get(PEER)),
            }
            for name, value in seconds.items()
        ]
    return table


def targets(rows: list[Row]) -> list[Row]:
    return []  # what larger work costs: no target of its own
