"""What a tape holds: table 4.1 of the thesis, a small net's values counted by hand, the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet import datasets, methods, models, tape_costs
from intnet.train import Run
from tests.command import here, refused

MB = 2**20
TABLE = {  # elements of a batch of 128, as the thesis prints them
    "Stem": 3_145_728, "MB1": 3_145_728, "MB2": 1_572_864, "MB3": 655_360, "MB4": 327_680, "MB5": 557_056,
    "MB6": 786_432, "Head": 2_621_440, "Classifier": 163_840,
}  # fmt: skip


def a_run(steps: int = 0, **options: Any) -> Run:
    """mlp on 24 images of 8x8 in 3 steps an epoch: 8 images, 64 -> 64 -> 64 -> 10."""
    rng = np.random.default_rng(5)
    images = rng.integers(0, 17, (24, 8, 8, 1)).astype(np.uint8)
    data = datasets.from_arrays(images, rng.integers(0, 10, 24), images[:8], np.zeros(8, np.int64), 10)
    run = Run(models.make("mlp", (8, 8, 1), 10), methods.make("saved", **options), data, batch_size=8)
    run.train(steps)
    return run


def test_table_4_1(capsys: pytest.CaptureFixture[str]) -> None:
    """Elements block by block, 49.50 MB in float32 and 6.19 MB in 4 bits; metadata and tape beside them."""
    what = ("costs", "--method", "saved", "--model", "efficientnetv2", "--image", "32x32x3", "--classes", 10)
    status, out, err = here(capsys, *what, "--set", "bits=4", "--json")
    assert (status, err) == (0, "")
    told = json.loads(out)
    blocks, total = told["blocks"], told["blocks_total"]
    assert {row["name"]: row["elements"] for row in blocks if row["name"] != "elsewhere"} == TABLE
    assert (total["elements"], total["float32"], total["nominal"]) == (12_976_128, 49.5 * MB, 6.1875 * MB)
    assert total["packed"] == 12_976_128 // 2 + 12_976_128 // 512 * 8  # a scale and a zero point each
    stem = blocks[0]
    outputs = 128 * 32 * 32 * 24  # of its convolution: inputs of batch norm and SiLU, float32 in SiLU
    inputs = 128 * 32 * 32 * 3
    assert stem["held"] == inputs + 2 * outputs
    assert stem["held_packed"] == (inputs + outputs) * (1 / 2 + 8 / 512) + outputs * 4
    assert "total       12,976,128    49.50   6.19  43.31" in here(capsys, *what, "--set", "bits=4")[1]


def test_values_by_hand() -> None:
    """Codes of 2 bits, 8 bytes a bucket of 64; a mask is a bit an element."""
    run = a_run(1, bits=2, bucket=64)
    rows = {(row.layer, row.path): row for row in tape_costs.values(run)}
    names = ["fc1/x0", "bn1/x1", "relu1/mask", "fc2/x0", "bn2/x1", "relu2/mask", "fc3/x0"]
    assert {key: row.elements for key, row in rows.items()} == {tuple(n.split("/")): 8 * 64 for n in names}
    for (_, path), row in rows.items():
        n = row.elements
        assert row.nbytes == (n // 8 if path == "mask" else n * 2 // 8 + n // 64 * 8)
        assert (row.nominal, row.codes) == ((1, None) if path == "mask" else (2, 4))
    assert run.step == 2


def test_a_mix_counts_as_it_was_in_the_step() -> None:
    """The step that ends an epoch is of that epoch; blocks are told of the epoch that is given."""
    for steps, bits in ((1, 4.0), (2, 4.0), (3, 2.0)):
        rows = tape_costs.values(a_run(steps, bits="2/4", mix_prob="1,0@1"))
        assert {row.nominal for row in rows if row.path != "mask"} == {bits}
    run = a_run(bits="2/4", mix_prob="1,0@1")
    for epoch, bits in ((0, 4), (1, 2)):
        first = tape_costs.blocks(run.model, run.method, 8, epoch)[1]  # type: ignore[arg-type]
        assert (first.name, first.elements, first.nominal) == ("fc1", 512, 512 * bits / 8)
        assert first.packed == 512 * bits / 8 + 8 + 1 / 8  # scale, zero point, a bit of width


def test_what_is_rounded_late_is_held_in_float32() -> None:
    for row in tape_costs.values(a_run(1, bits=2, storage="on_backward")):
        assert row.nbytes == 4 * row.elements
        assert row.nominal == (32 if row.path == "mask" else 2)


def test_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The run stays as it was; what does not go together is refused."""
    what = ("--method", "saved", "--model", "mlp", "--data", "digits", "--limit", 64, "--batch-size", 16)
    assert here(capsys, "train", *what, "--set", "bits=2", "--steps", 2, "--out", tmp_path / "run")[0] == 0
    before = (tmp_path / "run" / "checkpoint.npz").read_bytes()
    status, out, err = here(capsys, "costs", tmp_path / "run", "--json")
    told = json.loads(out)
    assert (status, err, told["step"], told["batch_size"]) == (0, "", 3, 16)  # of one more step
    assert told["total"]["elements"] == 5 * 16 * 64  # three inputs of products, two of batch norms
    assert (tmp_path / "run" / "checkpoint.npz").read_bytes() == before
    for arguments, message in (
        ((tmp_path / "run", "--accuracy", 0.5), "is a run of saved, which does not go with --accuracy"),
        ((tmp_path / "run", "--set", "bits=2"), "--set: goes with --method saved"),
        (("--method", "saved", "--model", "mlp"), "--method needs --image, --classes"),
        (("--method", "float32", "--model", "mlp", "--image", "8x8x1", "--classes", 10), "of method saved"),
    ):
        assert message in refused(capsys, "costs", *arguments)
