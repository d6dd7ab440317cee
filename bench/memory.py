"""How much memory does a training step of ResNet-20 take, beside PyTorch?

Each figure is a process of its own: the highest resident size during three steps, above what was
resident before the first, with libraries, model and data in memory. Linux only (/proc).
"""

import subprocess
import sys
from pathlib import Path

from bench.peers import torch
from bench.summary import Row, at_most, column
from bench.training import BATCH
from intnet import methods

QUESTION = f"peak memory of training steps of resnet20, batch {BATCH}, 28x28x1, above the process before them"
PEER = "PyTorch float32"
CHILD = """
from pathlib import Path

def resident(key):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(key))

{make}
Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew here
before = resident("VmRSS")
for _ in range(3):
    step()
print(resident("VmHWM") - before)
"""
INTNET = """
from bench import training
from intnet import methods
step = training.run(methods.make({name!r}), steps=training.STEPS).train_step
"""
TORCH = "from bench import torch_nets\nstep = torch_nets.float_step({batch})"


def peak(make: str) -> float:
    """MB above the start; the smaller of two processes, of which the first may have to compile."""
    command = [sys.executable, "-c", CHILD.format(make=make)]
    root = Path(__file__).parent.parent
    runs = [subprocess.run(command, check=True, capture_output=True, text=True, cwd=root) for _ in range(2)]
    return min(int(run.stdout) for run in runs) * 1024 / 1e6


def rows() -> list[Row]:
    what = {name: INTNET.format(name=name) for name in methods.METHODS} | (
        {PEER: TORCH.format(batch=BATCH)} if torch else {}
    )
    megabytes = {name: peak(make) for name, make in what.items()}
    return [
        {"what": name, "MB": value, "of PyTorch's": value / megabytes[PEER] if PEER in megabytes else None}
        for name, value in megabytes.items()
    ]


def targets(rows: list[Row]) -> list[Row]:
    shares = column([row for row in rows if row["what"] != PEER], "of PyTorch's")
    return [at_most(1.0, "peak memory of a step, of PyTorch's, largest", max(shares, default=None))]
