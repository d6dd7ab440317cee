"""How long does a golden pack of a ResNet-20 layer's step take to write and to check, and how large is it?

Batch 128, 28x28x1: a 3x3 convolution of 16 channels alone, and with its batch norm and ReLU. Written from a
new model, the training step included; checked by recomputing it and against a device's files.
"""

import tempfile
from pathlib import Path

from bench.summary import Row, at_most, column
from bench.timing import seconds
from bench.training import BATCH, run
from intnet import methods
from intnet.packs import check, layers, pack

QUESTION = f"golden pack of one layer of resnet20 under wageubn, batch {BATCH}, seconds"
LAYERS = {
    "convolution": ["layer1.0.conv1"],
    "convolution, batch norm, ReLU": ["layer1.0.conv1", "layer1.0.bn1", "layer1.0.relu1"],
}


def _row(what: str, names: list[str], root: Path) -> Row:
    made = run(methods.Wageubn())
    folder = root / str(len(names))
    written = seconds(lambda: pack.write(layers.draft(made, names), folder))
    checked = seconds(lambda: check.recompute(pack.read(folder)))
    compared = seconds(lambda: check.check_dut(pack.read(folder), folder / "exp"))
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    ports = len(pack.read(folder).ports)
    return {
        "what": what,
        "ports": ports,
        "MB": size / 1e6,
        "write": written,
        "check by recomputing": checked,
        "check of a device": compared,
    }


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as root:
        return [_row(what, names, Path(root)) for what, names in LAYERS.items()]


def targets(rows: list[Row]) -> list[Row]:
    checks = column(rows, "check by recomputing") + column(rows, "check of a device")
    return [
        at_most(60, "golden pack of a layer: write, seconds, longest", max(column(rows, "write"))),
        at_most(30, "golden pack of a layer: check, seconds, longest", max(checks)),
    ]
