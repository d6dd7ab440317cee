"""`intnet costs RUN RUN ..`: runs of dynasty side by side, by their blocks in `map_lines.py`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate
from math import prod
from pathlib import Path

import pytest

from intnet import methods
from intnet.runs import run_folder
from tests.support import map_lines
from tests.support.command import here, last_line, refused
from tests.support.map_runs import (
    BLOCKS,
    MACS,
    PER_EPOCH,
    RUN,
    StandIn,
    after_epochs,
    close,
    made_lines,
    shown,
    train,
    write,
)

MODULE = Fraction(103, 5940)  # 10.3 mW for half as long as a step at 8 bits takes 297 mW
FEWER = [map_lines.at(blocks, 2) for blocks in BLOCKS]
RUN_2 = list(zip([map_lines.at(BLOCKS[0], 4), *FEWER], [Fraction(1)] * 3 + [Fraction(1, 2)], strict=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """mapped/ and two/ (2 bits), three maps and half an epoch more; base/ and other/ (float32)."""
    where = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(methods.METHODS, "dynasty", StandIn)
        write(train(where / "mapped"), made_lines())
        lines = [map_lines.line(blocks, k, PER_EPOCH) for k, blocks in enumerate(FEWER)]
        write(train(where / "two"), lines)
        train(where / "base", "float32", steps=10)
        train(where / "other", "float32", steps=2, model="mlp")
        yield where


def stages(epochs: list[tuple[map_lines.Blocks, Fraction]]) -> dict[str, Fraction]:
    """The array's energy by stage, in epochs at 8 bits."""
    found = dict.fromkeys(("forward", "backward", "update"), Fraction(0))
    for blocks, share in epochs:
        products = map_lines.products(blocks)
        full = sum(8 * t for pairs in products.values() for t, _ in pairs)
        for name, pairs in products.items():
            found[name] += share * Fraction(sum(t * bits for t, bits in pairs), full)
    return found


@pytest.mark.slow
def test_time_and_energy_of_each(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    got = shown(capsys, folder / "mapped", folder / "two", "--baseline", folder / "base")
    assert [line["name"] for line in got["lines"]] == ["8 bits", "mapped", "two"]
    report = json.loads((folder / "base" / "report.json").read_text())
    assert got["wanted_accuracy"] == report["test_accuracy"]
    base = got["lines"][0]
    assert (base["epochs"], base["times"], base["tested"]) == (
        5,
        [1, 2, 3, 4, 5],
        after_epochs(folder / "base"),
    )
    assert (base["whole"]["time"], base["whole"]["parts"]["module"]) == (close(5), 0)
    for line, run in zip(got["lines"][1:], (RUN, RUN_2), strict=True):
        assert line["tested"] == after_epochs(folder / line["name"]) and len(line["tested"]) == 3
        assert line["times"] == [close(t) for t in accumulate(map_lines.time([pair]) for pair in run[:3])]
        parts = stages(run) | {"module": MODULE * Fraction(7, 2)}
        assert line["whole"]["parts"] == {name: close(value) for name, value in parts.items()}
        assert line["whole"]["energy"] == close(sum(parts.values()))


@pytest.mark.slow
def test_up_to_an_accuracy(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    wanted = sorted(after_epochs(folder / "mapped"))[1]
    got = shown(
        capsys, folder / "mapped", folder / "two", "--accuracy", wanted, "--baseline", folder / "base"
    )
    lines = {line["name"]: line for line in got["lines"]}
    tested = {name: line["tested"] for name, line in lines.items()}
    reached = {
        name: next((k for k, one in enumerate(values, 1) if one >= wanted), None)
        for name, values in tested.items()
    }
    assert reached["mapped"] is not None
    for name, run in (("mapped", RUN), ("two", RUN_2)):
        epochs, told = reached[name], lines[name]["reached"]
        if epochs is None:
            assert told is None
            continue
        parts = stages(run[:epochs])
        time, energy = sum(parts.values()), sum(parts.values()) + MODULE * epochs
        assert (told["epochs"], told["time"], told["energy"]) == (epochs, close(time), close(energy))
        theirs = reached["8 bits"]
        assert told["time_ratio"] == (close(time / theirs) if theirs else None)
        assert told["energy_ratio"] == (close(energy / theirs) if theirs else None)
    alone = shown(capsys, folder / "mapped", folder / "two")
    assert alone["wanted_accuracy"] is None and not any(line["reached"] for line in alone["lines"])
    never = shown(capsys, folder / "mapped", folder / "two", "--accuracy", 1)
    assert not any(line["reached"] for line in never["lines"])


@pytest.mark.slow
def test_a_uniform_map_has_no_module(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real runs: 2 bits of activations, 6 of weights; the network's input is of 8."""
    monkeypatch.setitem(methods.METHODS, "dynasty", methods.Dynasty)
    for name, options in (
        ("dynamic", {"bits": 4.0}),
        ("uniform", {"map": "uniform", "bits": 2.0, "weight_bits": 6.0}),
    ):
        run = run_folder.build("dynasty", options, "lenet5", "digits", 8, seed=1, limit=16)
        with run_folder.create(tmp_path / name, run, 3) as work:
            work.train()
    by_layer = {"map@*": "uniform", "bits": 2.0, "weight_bits": 6.0, "bits@fc3": 8.0, "weight_bits@fc3": 8.0}
    run = run_folder.build("dynasty", by_layer, "lenet5", "digits", 8, seed=1, limit=16)
    with run_folder.create(tmp_path / "by layer", run, 3) as work:
        work.train()
    _, got, last = shown(capsys, tmp_path / "dynamic", tmp_path / "uniform", tmp_path / "by layer")["lines"]
    assert last["whole"]["parts"]["module"] == 0  # no map moves
    sizes = {layer.name: layer.weight.shape for layer in run.model.all_layers() if layer.takes_weight}
    blocks = {name: -(-shape[0] // 4) * -(-shape[1] // 4) * prod(shape[2:]) for name, shape in sizes.items()}
    mean = sum(n * (8 if name == "fc3" else 6) for name, n in blocks.items()) / sum(blocks.values())
    assert last["weights"] == pytest.approx(mean, rel=1e-12)
    inner = sum(MACS.values()) - MACS["conv1"]
    read, back = MACS["conv1"] + Fraction(2, 8) * inner, Fraction(6, 8) * inner
    full = 3 * inner + 2 * MACS["conv1"]
    parts = {"forward": read / full, "backward": back / full, "update": read / full}
    assert got["times"] == [close(sum(parts.values()))]
    assert got["whole"]["parts"] == {name: close(value * Fraction(3, 2)) for name, value in parts.items()} | {
        "module": 0
    }
    assert (got["weights"], got["activations"], got["epochs"]) == (6, 2, 1.5)


@pytest.mark.slow
def test_the_tables_and_the_picture(capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path) -> None:
    made, runs = [], (folder / "mapped", folder / "two", "--baseline", folder / "base", "--accuracy", 0)
    for name in ("one.svg", "two.svg"):
        status, out, err = here(capsys, "costs", *runs, "--plot", tmp_path / name)
        assert (status, err, last_line(out)) == (0, "", f"written: {tmp_path / name}")
        made.append((tmp_path / name).read_bytes())
    assert made[0] == made[1]
    for words in (
        "accuracy over time (figure 7)",
        "energy by part (figure 8)",
        "array, update",
        "module",
        "mapped",
    ):
        assert words in made[0].decode(), words
    lines = out.splitlines()
    assert lines[0].startswith("dynasty, lenet5 on digits: 2 runs on the bit-serial array")
    rows = [line.split() for line in lines if line.startswith("two ")]
    (time,) = accumulate([map_lines.time(RUN_2[:1])])
    assert rows[0][3] == "3.5" and rows[1][:4] == ["two", "1", f"{float(time):.2f}", f"{float(time):.1%}"]
    status, out, _ = here(capsys, "costs", folder / "mapped", folder / "two", "--plot", tmp_path / "x.png")
    assert status == 0 and "up to" not in out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("{}/mapped", "{}/base"), "{}/base is a run of float32; side by side are runs of dynasty"),
        (("{}/mapped", "{}/two", "--baseline", "{}/other"), "its model is mlp, the run's is lenet5"),
        (("{}/mapped", "{}/two", "--map", "fc1", "--plot", "{}/x.png"), "--map draws a layer of one run"),
        (("{}/mapped", "{}/two", "--schedule", "1@8"), "--schedule: {}/mapped says that itself"),
        (("{}/mapped", "{}/none"), "there is no such run folder"),
    ],
)
def test_what_does_not_go_side_by_side(
    capsys: pytest.CaptureFixture[str], folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    assert message.format(folder) in refused(capsys, "costs", *(text.format(folder) for text in arguments))
