"""How long would a step take on many machines? A model, which runs nothing (`docs/how-to/many-machines.md`).

    compute      ceil(groups / R) groups of 16 images, each image three times the multiply-adds of its forward
                 pass, at RATE a second
    bytes        every weight's gradient once; what a network carries for it, from each rank and to each
    latency      MESSAGES a weight layer, one behind another, of 2 ceil(log2 R) hops each

Integers: a ring's reduction of sums, 2 (R - 1)/R of the bytes; what finds room behind the backward pass, two
thirds of the computing, costs no time. float32: sums of nodes, of which a rank may have several, to the rank
that adds up these words, and the sums back; nothing overlaps.
"""

from itertools import product
from math import ceil, log2
from typing import Any

from bench.summary import Row
from intnet import models
from intnet.numbers.shares import division, nodes
from intnet.papers.costs.adapt_costs import layer_sizes

QUESTION = "a step on many machines, by a model of bytes, messages and multiply-adds"
RATE = 71e9  # multiply-adds a second of two cores: `wageubn`, resnet20 at 28x28, 759 images/s (README)
CORES = (2, 64)  # of a machine, taken as that much faster; float32 is taken as fast as the integers
BANDWIDTH = 10e9 / 8  # bytes a second
LATENCY = 30e-6  # seconds of a hop: Ethernet, TCP
MESSAGES = {"wageubn": 8, "float32": 5}  # a weight layer and what is around it: `World.calls` of resnet8
WORD = 4  # bytes: integer gradients travel as int32 where nothing narrower holds them
GROUP = 16
BACKWARD = 2 / 3  # of the computing
WORK = [
    ("resnet50-imagenet", (224, 224, 3), 1000, 1024, CORES),
    ("resnet20", (32, 32, 3), 10, 128, CORES[:1]),
]
RANKS = (1, 2, 4, 8, 16, 32, 64)


def step(
    layers: list[tuple[int, int]], method: str, batch: int, ranks: int, cores: int = 2
) -> dict[str, float]:
    """Seconds of a step and the bytes of a rank, of (weights, multiply-adds of an image) a layer."""
    groups = -(-batch // GROUP)
    compute = ceil(groups / ranks) * GROUP * 3 * sum(madds for _, madds in layers) / (RATE * cores / 2)
    gradients = WORD * sum(weights for weights, _ in layers)
    if ranks == 1:
        return {"compute": compute, "bytes": 0, "network": 0.0, "hidden": 0.0, "latency": 0.0}
    sums, behind = 1, BACKWARD * compute
    if method == "float32":
        behind = 0.0
        sums = max(len(nodes(begin, end, groups)) for begin, end in division(batch, ranks))
    carried = gradients * (sums + 1) * (ranks - 1) / ranks
    latency = MESSAGES[method] * len(layers) * 2 * ceil(log2(ranks)) * LATENCY
    network = carried / BANDWIDTH
    made = {"compute": compute, "bytes": carried, "network": network, "latency": latency}
    return made | {"hidden": min(network, behind)}


def rows() -> list[Row]:
    table: list[Row] = []
    for name, image, classes, batch, machines in WORK:
        sizes = layer_sizes(models.make(name, image, classes))
        layers = [(size.weights, size.madds) for size in sizes]
        for method, cores, ranks in product(MESSAGES, machines, RANKS):
            made = step(layers, method, batch, ranks, cores)
            seconds = made["compute"] + made["network"] - made["hidden"] + made["latency"]
            row: Row = {"what": f"{name}, batch {batch}, {cores} cores: {method}", "ranks": ranks}
            row |= {"seconds": seconds} | {
                key: made[key] for key in ("compute", "network", "hidden", "latency")
            }
            alone = step(layers, method, batch, 1, cores)["compute"]
            table.append(row | {"MB": made["bytes"] / 1e6, "times one": alone / seconds})
    return table


def targets(rows: list[Row]) -> list[dict[str, Any]]:
    """A model meets none."""
    return []
