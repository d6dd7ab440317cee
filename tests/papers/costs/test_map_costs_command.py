"""`intnet costs` of a run with maps of widths: what it reads, prints and draws, and what it refuses.

A method of float32's arithmetic stands in under dynasty's name; its maps are made up in `map_lines.py`, so
that every figure can be computed there from the blocks.
"""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet import methods
from intnet.inspect import block_maps
from intnet.papers.costs import plots
from intnet.runs import metrics, run_folder
from intnet.show import pictures
from tests.support import map_lines
from tests.support.command import here, last_line, refused
from tests.support.map_runs import (
    ACTIVATIONS,
    BATCH,
    BLOCKS,
    IN_FORCE,
    PER_EPOCH,
    RUN,
    STEPS,
    StandIn,
    after_epochs,
    close,
    made_lines,
    shown,
    train,
    write,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """mapped/ and weight/ (three maps, half an epoch more), bare/ (no map), base/ and other/ (float32)."""
    where = tmp_path_factory.mktemp("maps")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(methods.METHODS, "dynasty", StandIn)
        train(where / "mapped")
        shutil.copytree(where / "mapped", where / "bare")
        write(where / "mapped", made_lines())
        write(train(where / "weight", forward_dynamic="weight"), made_lines())
        train(where / "short", steps=1)
        train(where / "base", "float32", steps=10)
        train(where / "other", "float32", steps=2, model="mlp")
        yield where


# -- a run -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("name", "forward"), [("mapped", "activation"), ("weight", "weight")])
def test_time_and_energy(capsys: pytest.CaptureFixture[str], folder: Path, name: str, forward: str) -> None:
    got = shown(capsys, folder / name)
    own, time = got["summary"], map_lines.time(RUN, forward)
    assert (got["method"], got["steps"], got["batch_size"], got["forward"]) == (
        "dynasty",
        STEPS,
        BATCH,
        forward,
    )
    assert own["time"] == own["energy_array"] == close(time)
    assert own["energy"] == close(time * Fraction(3073, 2970))
    assert own["energy_by_step"] == close(time + Fraction(103, 5940))
    assert own["skipped"] == close(map_lines.skipped(RUN, forward))
    for stage, value in own["by_stage"].items():
        assert value == close(map_lines.time(RUN, forward, stage))
    assert got["wanted_accuracy"] is None and own["iso"]["epochs"] is None
    assert own["noise_factor"] == {"weights": close(7), "activations": close(7)}


@pytest.mark.slow
def test_epoch_by_epoch(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    got = shown(capsys, folder / "mapped")
    assert [line["epoch"] for line in got["epochs"]] == [1, 2, 3, 4]
    assert [line["share"] for line in got["epochs"]] == [1, 1, 1, 0.5]
    for line, blocks in zip(got["epochs"], IN_FORCE, strict=True):
        alone = [(blocks, Fraction(1))]
        assert line["time"] == close(map_lines.time(alone))
        assert line["skipped"] == pytest.approx(float(map_lines.skipped(alone)), rel=1e-12, abs=1e-15)
        for operand in ("weights", "activations"):
            pairs = [pair for parts in blocks.values() for pair in parts.get(operand, [])]
            assert line[operand] == close(map_lines.mean(pairs))
    accuracies = after_epochs(folder / "mapped")
    assert [line["test_accuracy"] for line in got["epochs"]] == [*accuracies, None]
    assert [line["epoch"] for line in got["maps"]] == [1, 2, 3]
    pairs = [parts["activations"] for parts in BLOCKS[1].values() if "activations" in parts]
    change = sum((1 + len(p) / 8) * len(p) for p in pairs) / sum(len(p) for p in pairs)
    assert got["maps"][1]["activations"]["change_new"] == close(change)
    assert got["maps"][1]["activations"]["change"] == close(0.25)
    assert got["maps"][1]["weights"]["lambda"] == -36.5
    pairs = [pair for parts in BLOCKS[1].values() for pair in parts["weights"]]
    gap = float(map_lines.mean(pairs) - map_lines.mac_mean(pairs))
    assert got["maps"][1]["weights"]["noise_factor"] == close(6)
    assert got["maps"][1]["weights"]["noise_factor_by_macs"] == close(6 * 2 ** (2 * gap))
    assert got["layers"][0]["activations"] is None
    wanted = json.loads(json.dumps(made_lines()[-1]["layers"]["fc2"]))
    assert got["layers"][3] == {"layer": "fc2"} | wanted


@pytest.mark.slow
def test_iso_accuracy(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    own, theirs = after_epochs(folder / "mapped"), after_epochs(folder / "base")
    wanted = sorted(own)[1]
    epochs = next(k for k, accuracy in enumerate(own, start=1) if accuracy >= wanted)
    spent = sum((map_lines.time([pair]) for pair in RUN[:epochs]), Fraction(0))
    got = shown(capsys, folder / "mapped", "--accuracy", wanted)["summary"]["iso"]
    assert (got["epochs"], got["baseline_length"], got["equal"]) == (epochs, 3.5, close(spent / epochs))
    assert got["time"] == close(spent / Fraction(7, 2))
    both = shown(capsys, folder / "mapped", "--accuracy", wanted, "--baseline", folder / "base")
    got = both["summary"]["iso"]
    reached = next((k for k, accuracy in enumerate(theirs, start=1) if accuracy >= wanted), None)
    assert (got["baseline_length"], got["baseline_epochs"]) == (5, reached)
    assert got["time"] == close(spent / 5)
    assert got["energy_by_step"] == close(spent / 5 + Fraction(epochs, 5) * Fraction(103, 5940))
    assert got["reached"] == (close(spent / reached) if reached else None)
    report = json.loads((folder / "base" / "report.json").read_text())
    alone = shown(capsys, folder / "mapped", "--baseline", folder / "base")
    assert alone["wanted_accuracy"] == report["test_accuracy"]


def test_the_tables(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    status, out, err = here(capsys, "costs", folder / "mapped", "--accuracy", 0)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "dynasty, lenet5 on digits: 7 steps of 8 images, 3.5 epochs; against 8 bits everywhere"
    rows = {line.split()[0]: line.split() for line in lines if line}
    last = made_lines()[-1]["layers"]["conv2"]
    blocks = BLOCKS[-1]["conv2"]
    cells = [f"{last['weights']['macs']:,}"]
    for operand in ("weights", "activations"):
        pairs = blocks[operand]
        bits, idle = float(map_lines.mean(pairs)), float(map_lines.idle(pairs))
        cells += [str(len(pairs)), f"{bits:.2f}", f"{idle:.1%}", "-31.5"]
    assert rows["conv2"] == ["conv2", *cells]
    assert rows["conv1"][-4:] == ["-", "8", "-", "-"]
    at = next(k for k, line in enumerate(lines) if line.startswith("maps of activations"))
    assert lines[at + 3].split()[:3] == ["2", "4", "-36.500"]
    assert lines[at + 3].split()[-5:-1] == ["3.00e-09", "2.00e-09", "1.20e-08", "6.00"]
    at = next(k for k, line in enumerate(lines) if line.startswith("epochs, over"))
    assert lines[at + 2].split()[:3] == ["1", "4.00", "4.00"]
    assert lines[at + 5].split()[-1] == "-"  # the last epoch is not whole
    names = [line[:18].strip() for line in lines[at + 7 :]]
    assert names[:7] == ["time", "forward", "backward", "update", "energy", "array alone", "by step"]
    assert names[-4:] == ["noise, weights", "as much time", "noise, activations", "as much time"]
    assert not any(line.endswith(" ") for line in lines)
    found = next(line for line in lines if line.startswith("time  "))
    assert found.split()[1] == f"{float(map_lines.time(RUN)):.1%}"
    assert "up to epoch 1, which reaches 0.00%, over 8 bits for 3.5 epochs" in out


@pytest.mark.slow
def test_what_it_says_of_an_accuracy(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    assert "no accuracy to reach" in here(capsys, "costs", folder / "mapped")[1]
    assert "no epoch reaches 100.00%" in here(capsys, "costs", folder / "mapped", "--accuracy", 1)[1]
    _, out, _ = here(capsys, "costs", folder / "mapped", "--baseline", folder / "base", "--accuracy", 0)
    assert "over 8 bits up to epoch 1, where the baseline reaches it" in out


def test_lines_after_the_checkpoint_do_not_count(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(folder / "mapped", tmp_path / "copy")
    write(copy, [map_lines.line(BLOCKS[0], 3, PER_EPOCH)])
    assert shown(capsys, copy) | {"run": ""} == shown(capsys, folder / "mapped") | {"run": ""}


@pytest.mark.slow
def test_a_map_without_finite_sensitivities(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path
) -> None:
    """All r = -inf, no noise let through: dashes and gaps."""
    lines = made_lines()
    lines[-1]["layers"]["fc2"]["weights"]["r"] = []
    lines[-1]["weights"]["loss_noise"].update(after=0.0)
    copy = write(shutil.copytree(folder / "bare", tmp_path / "copy"), lines)
    status, out, _ = here(capsys, "costs", copy, "--plot", tmp_path / "x.png")
    row = next(line.split() for line in out.splitlines() if line.startswith("fc2"))
    assert (status, row[5]) == (0, "-")
    assert next(line.split() for line in out.splitlines() if line.startswith("noise, weights"))[2] == "-"


def test_a_line_has_its_shape() -> None:
    """What the log refuses: each key is looked at."""
    text = json.dumps(made_lines()[0])
    assert metrics._line(text.encode()) is not None
    for key in metrics.LINES["map"]["weights"]:
        line = json.loads(text)
        line["weights"].pop(key)
        with pytest.raises(ValueError, match=f"it\\['weights'\\] has no '{key}'"):
            metrics._line(json.dumps(line).encode())
    for key in metrics.LAYER_MAP:
        line = json.loads(text)
        line["layers"]["fc1"]["weights"][key] = "x"
        with pytest.raises(ValueError, match=f"\\['{key}'\\] is 'x'"):
            metrics._line(json.dumps(line).encode())


# -- the pictures ------------------------------------------------------------------------------


LINES, FEW, MANY = (), ("--map", "fc1"), ("--map", "conv2")  # what is drawn: lines, a few images, dozens


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "suffix"),
    [(options, suffix) for options in (LINES, FEW) for suffix in (".png", ".svg", ".pdf")] + [(MANY, ".svg")],
)
def test_the_same_run_gives_the_same_picture(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path, options: tuple[str, ...], suffix: str
) -> None:
    made = []
    for name in ("one", "two"):
        target = tmp_path / (name + suffix)
        status, out, err = here(capsys, "costs", folder / "mapped", "--plot", target, *options)
        assert (status, err, last_line(out)) == (0, "", f"written: {target}")
        made.append(target.read_bytes())
    assert made[0] == made[1]


@pytest.mark.slow
def test_what_the_pictures_show(capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "x.svg"
    shown(capsys, folder / "mapped", "--plot", target)
    text = target.read_text()  # matplotlib writes every text as a comment beside its outlines
    for words in (
        "conv1",
        "fc3",
        "relative sensitivity",
        "not tuned",
        "without smoothing",
        "time of an epoch",
    ):
        assert words in text, words
    shown(capsys, folder / "mapped", "--plot", target, "--map", "conv2")
    text = target.read_text()
    assert "weights at 4,4" in text and "activations 4..7" in text and "conv2: widths" in text
    shown(capsys, folder / "mapped", "--plot", target, "--map", "conv1")
    assert "activations" not in target.read_text()


@pytest.mark.slow
def test_many_epochs_are_lines_without_points(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    result = shown(capsys, folder / "mapped")
    for kind in ("maps", "epochs"):
        result[kind] = [result[kind][0] | {"epoch": k + 1} for k in range(pictures.MARKED + 1)]
    stream = io.BytesIO()
    plots.maps(stream, Path("x.svg"), "many", result)
    assert stream.getvalue()


def test_the_map_is_the_one_in_use(folder: Path) -> None:
    assert plots.rounded(np.float32([0, 0.99, 1, 2.9, 3, 4, 5, 6.99, 7, 8])).tolist() == [
        0, 0, 2, 2, 4, 4, 6, 6, 8, 8,
    ]  # fmt: skip
    run = run_folder.load(folder / "mapped")
    weights, activations = plots.maps_of(run, "conv2")
    slots = {name: p.slots for name, _, p in run.model.all_parameters()}["conv2.weight"]
    nearest = np.array([0, 2, 4, 6, 8])[np.abs(slots["b"][..., None] - [0, 2, 4, 6, 8]).argmin(axis=-1)]
    assert np.array_equal(weights, nearest) and weights.shape == (4, 2, 5, 5)
    assert activations is not None and activations.shape == ACTIVATIONS["conv2"]
    panels = dict(block_maps.of_weights(weights))
    assert np.array_equal(panels["weights at 1,3"], weights[:, :, 1, 3])
    panels = dict(block_maps.of_activations(activations))
    assert list(panels) == ["activations 0..3", "activations 4..7"]
    assert panels["activations 4..7"][1, 2] == activations[:, 1, 2, 1].mean()
    assert plots.maps_of(run, "conv1")[1] is None


# -- what is refused ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("{}/short",), "has not done a whole epoch"),
        (("{}/bare",), "it has 0 lines of kind 'map' and did 3 whole epochs"),
        (("{}/mapped", "--map", "conv2"), "name the picture with --plot"),
        (("{}/mapped", "--map", "conv3", "--plot", "{}/x.png"), "did you mean 'conv"),
        (("{}/mapped", "--plot", "{}/x.gif"), "end the name in .png, .svg, .pdf"),
        (("{}/mapped", "--baseline", "{}/other"), "its model is mlp, the run's is lenet5"),
        (("{}/mapped", "--baseline", "{}/none"), "there is no such run folder"),
        (("{}/mapped", "--accuracy", "74"), "write 95 % as 0.95"),
        (("{}/base", "--map", "conv2", "--plot", "{}/x.png"), "is a run of float32"),
        (("--schedule", "1@8", "--map", "conv2"), "only a run of dynasty has maps"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], folder: Path, arguments: tuple[object, ...], message: str
) -> None:
    assert message in refused(capsys, "costs", *(str(text).format(folder) for text in arguments))


def change(key: str, value: Any, operand: str = "weights") -> Callable[[list[dict[str, Any]]], None]:
    """conv2 of epoch 1 with another value."""
    return lambda lines: lines[1]["layers"]["conv2"][operand].update({key: value})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda lines: lines.pop(1), "of epoch 1 is due, one of epoch 2, step 6 is"),
        (lambda lines: lines.pop(), "it has 2 lines of kind 'map' and did 3 whole epochs"),
        (lambda lines: lines[1].update(step=3), "one of epoch 1, step 3 is"),
        (
            lambda lines: lines[1]["layers"].pop("fc2"),
            "epoch 1 and the model do not have the same layers: fc2",
        ),
        (lambda lines: lines[2]["layers"]["fc2"].pop("activations"), "the first weight layer alone"),
        (lambda lines: lines[2]["layers"]["fc2"].pop("weights"), "has no 'weights'"),
        (change("counts", [1, 2]), "counts [1, 2] are not of"),
        (change("counts", [-1, 1, 0, 0, 0]), "counts [-1, 1, 0, 0, 0] are not of"),
        (change("r", [1.0, 2.0]), "r is [1.0, 2.0]"),
        (change("r", [1.0, 2.0, 3.0, 5.0, 4.0]), "r is [1.0, 2.0, 3.0, 5.0, 4.0]"),
        (change("mac_bits", 9.0), "mac_bits = 9.0: not within 0..8"),
        (change("skipped", "x", "activations"), "epoch 1['conv2']['activations']['skipped'] is 'x'"),
        (change("macs", 1), "are not those of epoch 0"),
        (lambda lines: lines.insert(0, {"kind": "map", "step": 2, "epoch": 0}), "has no 'seconds'"),
    ],
)
def test_a_damaged_log_is_refused(
    capsys: pytest.CaptureFixture[str],
    folder: Path,
    tmp_path: Path,
    damage: Callable[[list[dict[str, Any]]], object],
    message: str,
) -> None:
    lines = made_lines()
    damage(lines)
    copy = write(shutil.copytree(folder / "bare", tmp_path / "copy"), lines)
    error = refused(capsys, "costs", copy)
    assert message in error and "metrics.jsonl" in error


def test_another_methods_run_has_no_maps(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path
) -> None:
    copy = write(shutil.copytree(folder / "base", tmp_path / "copy"), made_lines())
    assert "a line of kind 'map'" in refused(capsys, "costs", copy)


@pytest.mark.slow
def test_a_run_with_maps_goes_on_and_is_reported(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder / "mapped", tmp_path / "copy")
    with run_folder.resume(copy, steps=STEPS + 1) as work:
        assert work.train() is not None
    lines = [json.loads(line) for line in (copy / "metrics.jsonl").read_text().splitlines()]
    assert sum(line["kind"] == "map" for line in lines) == len(BLOCKS)
