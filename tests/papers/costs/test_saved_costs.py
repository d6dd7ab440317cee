"""What `intnet costs` tells of the tape of method `saved`: table 4.1, a net by hand, real bytes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet import methods, models
from intnet.exact.blocks.buckets import Packed
from intnet.methods.saved import Saved
from intnet.methods.trace import Recorder
from intnet.papers.costs import saved_costs
from intnet.papers.costs.saved_costs import Block, Value
from intnet.runs import run_folder
from tests.support.command import here, refused

# table 4.1: elements at a batch of 128; MB of 2^20 bytes in float32, at 4 bits, and saved
TABLE = """
Stem        3,145,728   12.00  1.50  10.50
MB1         3,145,728   12.00  1.50  10.50
MB2         1,572,864    6.00  0.75   5.25
MB3           655,360    2.50  0.31   2.19
MB4           327,680    1.25  0.16   1.09
MB5           557,056    2.12  0.27   1.86
MB6           786,432    3.00  0.38   2.62
Head        2,621,440   10.00  1.25   8.75
Classifier    163,840    0.62  0.08   0.55
total      12,976,128   49.50  6.19  43.31
"""
# resnet8 on an image of 8x8x1: elements that its blocks put out, hold for gradients, and hold as masks
RESNET8 = {
    "conv1": (8 * 8 * 16, 8 * 8, 0),
    "bn1": (8 * 8 * 16, 8 * 8 * 16, 0),
    "relu1": (8 * 8 * 16, 0, 8 * 8 * 16),
    "layer1": (8 * 8 * 16, 4 * 8 * 8 * 16, 2 * 8 * 8 * 16),
    "layer2": (4 * 4 * 32, 2 * 8 * 8 * 16 + 4 * 4 * 4 * 32, 2 * 4 * 4 * 32),  # two layers read 16 channels
    "layer3": (2 * 2 * 64, 2 * 4 * 4 * 32 + 4 * 2 * 2 * 64, 2 * 2 * 2 * 64),
    "avgpool": (64, 0, 0),
    "fc": (10, 64, 0),
}


def of_resnet8(batch: int = 8, epoch: int = 0, **options: Any) -> dict[str, Block]:
    method = methods.make("saved", **options)
    assert isinstance(method, Saved)
    rows = saved_costs.blocks(models.make("resnet8", (8, 8, 1), 10), method, batch, epoch)
    return {row.name: row for row in rows}


def built(steps: int = 0, model: str = "resnet8", **options: Any) -> run_folder.Run:
    run = run_folder.build("saved", options, model, "digits", 8, 1, limit=16)
    run.train(steps)
    return run


@pytest.mark.slow
def test_table_4_1(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = here(
        capsys, "costs", "--method", "saved", "--set", "bits=4", "--model", "efficientnetv2",
        "--image", "32x32x3", "--classes", 10,
    )  # fmt: skip
    assert (status, err) == (0, "")
    assert out.startswith("saved, efficientnetv2: batch of 128 images of 32x32x3, 10 classes\n")
    rows = [line.split() for line in out.splitlines()]
    for line in TABLE.strip().splitlines():
        assert line.split() in [row[:5] for row in rows]


# -- blocks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 8])
def test_resnet8_by_hand(batch: int) -> None:
    """4 bits in buckets of 64: 8 bytes of scale and zero point each; a mask is a bit an element."""
    rows = of_resnet8(batch, codec="affine", bits="4", bucket="64")
    assert list(rows) == list(RESNET8)
    for name, (out, held, masks) in RESNET8.items():
        row = rows[name]
        assert (row.elements, row.held, row.nominal) == (batch * out, batch * held, batch * out / 2)
        assert row.packed == batch * out / 2 + 8 * -(-batch * out // 64)
        assert row.held_packed == batch * (held / 2 + held / 64 * 8 + masks / 8)


@pytest.mark.slow
def test_codes_of_levels_mixes_and_what_stays_float32() -> None:
    n = 8 * 1024
    assert of_resnet8(codec="levels", bits="2", bucket="512")["layer1"].packed == n * 4 / 8 + n // 512 * 4
    mixed = of_resnet8(bits="2/4", mix_prob="0.25,1@2", bucket="512")["layer1"]
    metadata = n // 512 * 8.125  # with a bit that tells the width
    assert (mixed.nominal, mixed.packed) == (n * 2.5 / 8, n * 2.5 / 8 + metadata)
    mixed = of_resnet8(epoch=2, bits="2/4", mix_prob="0.25,1@2", bucket="512")["layer1"]
    assert (mixed.nominal, mixed.packed) == (n * 4 / 8, n * 4 / 8 + metadata)
    assert of_resnet8(bits="2", bucket="tensor")["layer1"].packed == n * 2 / 8 + 8
    held = 4 * (4096 + 2048) * 8  # masks of ReLU are float32 outputs then
    for options in ({"bits": "off"}, {"bits": "2", "storage": "on_backward"}):
        row = of_resnet8(**options)["layer1"]
        assert (row.nominal, row.packed, row.held_packed) == (4 * n, 4 * n, held)


def test_bits_by_layer() -> None:
    """Of layer2 only its second convolution's input has 8 bits; a block's row is by what holds for all."""
    rows = of_resnet8(**{"codec": "affine", "bits": "2", "bucket": "64", "bits@layer2.0.conv2": "8"})
    plain = of_resnet8(codec="affine", bits="2", bucket="64")
    assert rows["layer2"].held_packed == plain["layer2"].held_packed + 8 * 512 * 6 / 8
    assert {name: row for name, row in rows.items() if name != "layer2"} == {
        name: row for name, row in plain.items() if name != "layer2"
    }
    for pattern in ("layer2.*", "layer2*"):
        rows = of_resnet8(**{"bits": "2", f"bits@{pattern}": "8"})
        assert [name for name, row in rows.items() if row.nominal == row.elements] == ["layer2"]


# -- a run -----------------------------------------------------------------------------------------

CODECS: list[dict[str, Any]] = [
    {"codec": "affine", "bits": "4", "bucket": "64"},
    {"codec": "levels", "bits": "3", "bucket": "64"},
    {"bits": "2/4", "mix_prob": "1", "bucket": "64"},
    {"bits": "2", "bucket": "64", "storage": "on_backward"},
    {"bits": "8", "bucket": "64", "bits@layer1.*": "off", "codec@fc": "levels"},
]


@pytest.mark.slow
@pytest.mark.parametrize("options", CODECS, ids=str)
def test_the_model_is_what_is_really_held(options: dict[str, Any]) -> None:
    """Where no bucket is filled up, bytes of the memory model are those of the arrays."""
    run = built(1, **options)
    rows = saved_costs.values(run)
    blocks = of_resnet8(**options)
    assert run.step == 2
    for name, block in blocks.items():
        inside = [row for row in rows if f"{row.layer}.".startswith(f"{name}.")]
        assert sum(row.nbytes for row in inside) == block.held_packed, name
        assert sum(row.elements for row in inside if row.path != "mask") == block.held


@pytest.mark.slow
@pytest.mark.parametrize("options", CODECS, ids=str)
def test_values_are_those_of_the_arrays(options: dict[str, Any]) -> None:
    run, again = built(1, **options), built(1, **options)
    rows = {f"{row.layer}/{row.path}": row for row in saved_costs.values(run)}
    seen = Recorder("*")
    again.train(2, observe_last=[seen])
    packed = {name[:-1]: e.result for name, e in seen.events.items() if isinstance(e.result, Packed)}
    late = options.get("storage") == "on_backward"
    for name, row in rows.items():
        one = packed.get(name)
        if one is None:
            assert (row.codec, row.codes, row.found, row.clipped) == (None, None, None, 0)
            is_mask = row.path == "mask" and options.get("bits@layer1.*", "") != "off"
            if is_mask:
                assert (row.nbytes, row.nominal) == (row.elements * (4 if late else 0.125), 32 if late else 1)
            continue
        real = one.words.nbytes + one.scales.nbytes + one.zeros.nbytes
        real += 0 if one.flags is None else one.flags.nbytes
        assert row.nbytes == (4 * row.elements if late else real)
        assert row.bits == 8 * row.nbytes / row.elements
        there = np.unique(one.codes()).size  # every bucket has one width here
        bits = int(row.nominal)
        assert row.codes == (2 ** (bits + 1) + 1 if one.codec.kind == "levels" else 2**bits)
        assert row.found == there <= row.codes
        assert (row.elements, row.clipped) == (one.elements, one.clipped)
    assert {name for name in rows if not name.endswith("/mask")} >= set(packed) and packed


@pytest.mark.slow
def test_a_mix_is_told_as_of_the_step_that_is_taken() -> None:
    """Two steps an epoch: the next step of a run of one is its epoch's last, after which the share falls."""
    nominal = []
    for steps in range(4):
        rows = saved_costs.values(built(steps, "mlp", bits="2/4", mix_prob="1,0@1"))
        nominal.append({row.nominal for row in rows if row.path != "mask"})
    assert nominal == [{4.0}, {4.0}, {2.0}, {2.0}]


def test_codes_are_counted_in_buckets_of_the_widest_width() -> None:
    rows = saved_costs.values(built(0, "mlp", bits="2/4", mix_prob="0", bucket="64"))
    assert {(row.codes, row.found) for row in rows if row.path != "mask"} == {(16, 0)}
    assert isinstance(rows[0], Value) and rows[0].codec == "affine-stochastic 2/4 bits, buckets of 64"


# -- the command -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of method saved of three steps, two an epoch; one of float32 beside it."""
    where = tmp_path_factory.mktemp("tape")
    options = {"bits": "2/4", "mix_prob": "1,0@1", "bucket": "64", "codec@fc3": "levels"}
    for name, method, more in (("saved", "saved", options), ("float32", "float32", {})):
        run = run_folder.build(method, more, "mlp", "digits", 8, 1, limit=16)
        with run_folder.create(where / name, run, 3) as work:
            work.train()
    return where


@pytest.mark.slow
def test_a_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (folder / "saved" / "checkpoint.npz").read_bytes()
    status, out, err = here(capsys, "costs", folder / "saved", "--json")
    assert (status, err) == (0, "")
    told = json.loads(out)
    assert (told["method"], told["model"], told["data"], told["step"], told["batch_size"]) == (
        "saved", "mlp", "digits", 4, 8,
    )  # fmt: skip
    rows = [row for row in told["values"] if row["path"] != "mask"]
    total = told["total"]
    for key, name in (("elements", "elements"), ("bytes", "nbytes"), ("clipped", "clipped")):
        assert total[key] == sum(row[name] for row in rows)
    assert total["float32"] == 4 * total["elements"]
    assert total["bits"] == 8 * total["bytes"] / total["elements"]
    assert {row["nominal"] for row in rows} == {2.0}
    assert [row["codes"] for row in rows if row["layer"] == "fc3"] == [33]
    blocks = {block["name"]: block for block in told["blocks"]}
    assert blocks["flatten"]["elements"] == 8 * 64 and blocks["flatten"]["nominal"] == 8 * 64 * 2 / 8
    assert told["blocks_total"]["held"] == total["elements"]
    status, text, err = here(capsys, "costs", folder / "saved")
    assert (status, err) == (0, "") and "saved, mlp on digits: the tape of step 4, 8 images\n" in text
    lines = {line.split()[0]: line.split() for line in text.splitlines() if "/" in line.split("  ")[0]}
    for row in rows:
        line = lines[f"{row['layer']}/{row['path']}"]
        assert line[1:6] == [
            f"{row['elements']:,}", "2", str(row["codes"]), str(row["found"]), f"{row['bits']:.3f}",
        ]  # fmt: skip
    assert (folder / "saved" / "checkpoint.npz").read_bytes() == before


def test_a_model_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = here(
        capsys, "costs", "--method", "saved", "--set", "bits=2", "--set", "bucket=64", "--model", "resnet8",
        "--image", "8x8x1", "--classes", 10, "--batch-size", 4, "--json",
    )  # fmt: skip
    told = json.loads(out)
    assert (status, err, told["batch_size"], told["image_shape"]) == (0, "", 4, [8, 8, 1])
    elements = [4 * out for out, _, _ in RESNET8.values()]
    assert [block["elements"] for block in told["blocks"]] == elements
    assert told["blocks_total"]["float32"] == 4 * sum(elements)
    assert told["blocks_total"]["nominal"] == sum(elements) / 4


MODEL = ("--model", "mlp", "--image", "8x8x1", "--classes", 10)
WRONG: list[tuple[tuple[object, ...], str]] = [
    (("--method", "saved"), "--method needs --model, --image, --classes"),
    (("--method", "saved", *MODEL[:4]), "--method needs --classes"),
    (("--method", "float32", *MODEL), "--method float32: what the tape holds is told of method saved"),
    (("--method", "saved", *MODEL, "--accs", 2), "--method saved, which does not go with --accs"),
    (("--method", "saved", *MODEL, "--schedule", "1@8"), "--method saved, which does not go with --schedule"),
    (("--method", "saved", *MODEL, "--plot", "a.png"), "--method saved, which does not go with --plot"),
    (("RUN", "--method", "saved"), "--method saved, which does not go with RUN"),
    (("--method", "saved", *MODEL, "--set", "bits=40"), "saved: codec affine-stochastic: bits = 40"),
    (("--method", "saved", *MODEL, "--set", "bits"), "KEY=VALUE"),
    (("--method", "saved", *MODEL, "--set", "bits@fc9=2"), "no layer of this model has such a name"),
    (("RUN", "--set", "bits=2"), "--set: goes with --method saved"),
    (("RUN", "--batch-size", 2), "--batch-size: goes with --method saved"),
    (("RUN", "--baseline", "RUN"), "is a run of saved, which does not go with --baseline"),
    (("RUN", "--map", "fc1"), "is a run of saved, which does not go with --map"),
    (("RUN", "--plot", "a.png"), "is a run of saved, which does not go with --plot"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=str)
def test_what_does_not_go_together(
    arguments: tuple[object, ...], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [folder / "saved" if one == "RUN" else one for one in arguments]
    assert message in refused(capsys, "costs", *given)


def test_a_run_of_another_method_is_told_as_ever(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = here(capsys, "costs", folder / "float32", "--json")
    assert (status, err) == (0, "") and "summary" in json.loads(out) and "blocks" not in json.loads(out)


# -- the report ------------------------------------------------------------------------------------


def test_the_report_tells_of_the_last_step(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """mlp, 8 images, all of 2 bits in buckets of 64 elements; of levels 4 bits a code."""
    told = json.loads((folder / "saved" / "report.json").read_text())["saved"]
    first, hidden = 8 * 64, 8 * 64
    run = run_folder.load(folder / "saved")
    widths = {layer.name: layer.weight.shape for layer in run.model.all_layers() if layer.takes_weight}
    assert widths == {"fc1": (64, 64), "fc2": (64, 64), "fc3": (10, 64)}
    affine = (first + 3 * hidden) * 2 // 8 + 4 * (8 * 8 + 1)  # x0 of fc1, fc2, x1 of bn1, bn2
    levels = hidden * 4 // 8 + 8 * 4 + 1
    assert told == {
        "elements": 5 * hidden, "bytes": affine + levels,
        "bits": round(8 * (affine + levels) / (5 * hidden), 4), "mask_bytes": 2 * hidden // 8,
    }  # fmt: skip
    status, out, _ = here(capsys, "resume", folder / "saved")
    text = (  # 772 bytes of affine, 289 of levels, 128 of masks; 10,240 of float32
        "1.04 kB of 2,560 values of the last step, 3.32 bits each, and masks of 0.12 kB; float32: 10.00 kB"
    )
    assert status == 0 and text in [line[4:].strip() for line in out.splitlines() if line.startswith("tape")]
    assert f"- tape: {text}\n" in (folder / "saved" / "report.md").read_text()
    assert "saved" not in json.loads((folder / "float32" / "report.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (5, "saved is 5"),
        ({}, "saved has no 'elements'"),
        ({"elements": 1, "bytes": 1, "bits": "x", "mask_bytes": 0}, "saved['bits'] is 'x'"),
    ],
    ids=str,
)
def test_a_damaged_report(
    change: Any, message: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Path(shutil.copytree(folder / "saved", tmp_path / "run"))
    path = copy / "report.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"saved": change}))
    line = refused(capsys, "resume", copy)
    assert f"{path}: damaged ({message}): delete it and resume" in line
    path.unlink()
    assert here(capsys, "resume", copy)[0] == 0 and path.exists()
