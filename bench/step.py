"""How long does one training step of ResNet-20 take under each method, beside PyTorch?

Batch 128, 28x28x1 images. The peers: PyTorch float32 (forward, cross-entropy, backward, SGD with
momentum) in its default layout and in channels_last, and a float32 simulation of WAGEUBN-8 in
PyTorch, in the same two layouts (`torch_nets.py`). `x PyTorch` and `x simulation` are against the
faster layout of each, which is what a user would take.
"""

from bench.peers import torch
from bench.summary import Row, at_least, ratio
from bench.timing import medians
from bench.training import BATCH, step
from intnet import methods

QUESTION = f"training step of resnet20, batch {BATCH}, 28x28x1"
FLOAT, SIMULATION = "PyTorch float32", "PyTorch simulation of wageubn"
LAST = ", channels_last"


def rows() -> list[Row]:
    calls = {name: step(name) for name in methods.METHODS}
    if torch is not None:
        from bench import torch_nets

        for name, make in ((FLOAT, torch_nets.float_step), (SIMULATION, torch_nets.simulated_step)):
            calls[name] = make(BATCH)
            calls[name + LAST] = make(BATCH, torch.channels_last)
    seconds = medians(calls)
    best, simulation = (
        min((seconds[name] for name in seconds if name.startswith(peer)), default=None)
        for peer in (FLOAT, SIMULATION)
    )
    return [
        {
            "what": name,
            "seconds": value,
            "images/s": BATCH / value,
            "x PyTorch": ratio(best, value),
            "x simulation": ratio(simulation, value),
        }
        for name, value in seconds.items()
    ]


def targets(rows: list[Row]) -> list[Row]:
    of = {row["what"]: row for row in rows}
    goals = {"wageubn": 2.0, "float32": 1.0, "saved": 1.0, "adapt": 1.0, "muppet": 1.0, "dynasty": 1.0}
    return [
        *(
            at_least(goal, f"{name} step, times PyTorch float32 in its faster layout", of[name]["x PyTorch"])
            for name, goal in goals.items()
        ),
        at_least(3, "wageubn step, times the PyTorch simulation", of["wageubn"]["x simulation"]),
    ]
