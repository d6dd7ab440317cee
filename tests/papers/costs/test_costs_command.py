"""`intnet costs`: what it reads of a run, what it prints and draws, and what it refuses.

A method of float32's arithmetic stands in for one whose widths move; its lines of word lengths are written
by hand, so that the figures can be computed here from what stands in the file.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from intnet import methods
from intnet.methods.float32 import Float32
from intnet.runs import fixed_model, run_folder
from intnet.training.train import Run
from tests.oracle import costs as oracle
from tests.support.command import here, last_line, refused

SHAPES = {"fc1": (64, 64), "fc2": (64, 64), "fc3": (10, 64)}
STEPS, PER_EPOCH, ACCS = 14, 2, 2
SCHEDULE = ("--schedule", "16@8,10@12,14@14,14@16,45@32", "--image", "32x32x3", "--classes", 10)


class Moving(Float32):
    """float32 under another name, with gradient accumulation in its options only."""

    name = "moving"

    @dataclasses.dataclass(frozen=True)
    class Options(Float32.Options):
        """accs: steps of one gradient."""

        accs: int = ACCS


def train(folder: Path, method: str, batch: int = 32, steps: int = STEPS, model: str = "mlp") -> Path:
    run = run_folder.build(method, {}, model, "digits", batch, seed=1, limit=PER_EPOCH * batch)
    with run_folder.create(folder, run, steps) as work:
        work.train()
    return folder


def switch(step: int, learned: bool) -> dict[str, Any]:
    """A line of word lengths: fc1 rises every third step, fc2 falls once, fc3 stands."""
    widths = {"fc1": 8 + step // 3, "fc2": 12 - (step > 5), "fc3": 32}
    layers = {
        name: {"WL": width, "FL": width - 4 - 20 * (name == "fc2"), "nonzero": 600 + 2 * step}
        | ({"lb": 25 + step, "r": 50 + step} if learned else {})
        for name, width in widths.items()
    }
    return {"kind": "precision", "step": step, "seconds": 0.001 * step, "layers": layers}


def write(folder: Path, switches: list[dict[str, Any]]) -> Path:
    with open(folder / "metrics.jsonl", "a") as stream:
        stream.writelines(json.dumps(line) + "\n" for line in switches)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """moving/ (seven epochs, lookback), plain/ (no lookback), base/ and wide/ (float32), full/ (wageubn)."""
    where = tmp_path_factory.mktemp("costs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(methods.METHODS, "moving", Moving)
        train(where / "moving", "moving")
        shutil.copytree(where / "moving", where / "bare")
        write(
            shutil.copytree(where / "moving", where / "plain"), [switch(i + 1, False) for i in range(STEPS)]
        )
        write(where / "moving", [switch(i + 1, True) for i in range(STEPS)])
        train(where / "base", "float32", batch=64, steps=4)
        train(where / "wide", "float32", steps=2, model="lenet5")
        train(where / "full", "wageubn", steps=2)
        yield where


def oracle_run(learned: bool = True) -> list[list[dict[str, Any]]]:
    """The lines of `switch` as the oracle reads them."""
    return [
        [
            {"dims": SHAPES[name], "ops": oracle.product(SHAPES[name])} | entry
            for name, entry in switch(step, learned)["layers"].items()
        ]
        for step in range(1, STEPS + 1)
    ]


def shown(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    status, out, err = here(capsys, "costs", *arguments, "--json")
    assert (status, err, out.count("\n")) == (0, "", 1)
    result: dict[str, Any] = json.loads(out)
    return result


# -- a run -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["moving", "plain"])
def test_the_figures_are_those_of_the_file(
    capsys: pytest.CaptureFixture[str], folder: Path, name: str
) -> None:
    run = oracle_run(name == "moving")
    got = shown(capsys, folder / name)
    own = got["summary"]
    assert (got["steps"], got["batch_size"], got["accs"]) == (STEPS, 32, ACCS)
    assert own["speedup_per_image"] == pytest.approx(oracle.speedup(run, 32, ACCS, STEPS, 32), rel=1e-12)
    assert own["size"] == pytest.approx(oracle.size(run), rel=1e-12)
    assert own["memory"] == pytest.approx(oracle.memory(run), rel=1e-12)
    assert own["memory_later"] is None  # the later version counts copies of adapt and muppet alone
    assert own["inference_speedup"] == pytest.approx(oracle.inference(run), rel=1e-12)
    assert (own["iso_step"], own["iso_speedup_per_image"], got["float32_accuracy"]) == (None, None, None)
    assert (own["overhead_share_per_image"] == 0) == (name == "plain")
    lines = [json.loads(line) for line in (folder / name / "metrics.jsonl").read_text().splitlines()]
    seconds = sum(line["seconds"] for line in lines if line["kind"] == "step")
    assert own["measured_overhead"] == pytest.approx(0.001 * sum(range(STEPS + 1)) / seconds)
    first, second, third = got["layers"]
    assert (first["layer"], first["first"], first["last"], first["rises"]) == ("fc1", 8, 12, 4)
    assert (second["falls"], second["fraction"], third["rises"] + third["falls"]) == (1, -13, 0)
    assert second["changes"] == [[1, 12, -12], [6, 11, -13]]
    assert first["lookback"] == (39 if name == "moving" else None)


@pytest.mark.slow
def test_the_final_model_of_muppet_may_be_in_float32(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Its policy moves on at the end of an epoch: from 16 bits, which the last step had, to float32."""

    def build() -> Run:
        options = {"resolution": 2, "patience": 1, "lr": "0.5"}
        return run_folder.build("muppet", options, "mlp", "digits", 16, seed=1, limit=16)

    first, run = build(), build()
    while first.method.number("level") < 4 and first.step < 400:  # type: ignore[attr-defined]
        first.train(first.step + 1)
    with run_folder.create(tmp_path / "run", run, first.step) as work:
        work.train()
    assert run.method.wl is None  # type: ignore[attr-defined]
    summary = shown(capsys, tmp_path / "run")["summary"]
    assert summary["bits"] == summary["float32_bits"] and summary["size"] <= 1
    assert summary["sparsity_final"] < 0.1 and summary["size"] == pytest.approx(1, abs=0.1)


@pytest.mark.slow
def test_the_final_model_is_the_one_that_is_saved(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The last step switches: its forward pass read other words than training leaves."""
    run = run_folder.build("adapt", {}, "mlp", "digits", 16, seed=1, limit=64)
    with run_folder.create(tmp_path / "run", run, 25) as work:
        work.train()
    summary = shown(capsys, tmp_path / "run")["summary"]
    saved = {k: q for k, q in fixed_model.tensors_of(run).items() if k.endswith("/W")}
    layers = {layer.name: layer for layer in run.model.all_layers()}
    widths = [int(layers[name[:-2]].buffers["precision"].codes[0]) for name in saved]
    assert max(widths) > 8
    kept = [int((q.codes != 0).sum()) for q, _ in saved.values()]
    sizes = [q.size for q, _ in saved.values()]
    assert summary["bits"] == sum(w * n for w, n in zip(widths, sizes, strict=True))
    assert summary["nonzero_bits"] == sum(w * n for w, n in zip(widths, kept, strict=True))
    assert summary["sparsity_final"] == pytest.approx(1 - sum(kept) / sum(sizes))
    mean = sum(w * k / n for w, k, n in zip(widths, kept, sizes, strict=True)) / len(sizes)
    assert summary["size"] == pytest.approx(mean / 32, rel=1e-12)


def test_a_baseline_run_gives_its_length_batch_and_accuracy(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    got = shown(capsys, folder / "moving", "--baseline", folder / "base")
    report = json.loads((folder / "base" / "report.json").read_text())
    assert got["float32_accuracy"] == report["test_accuracy"]
    run = oracle_run()
    assert got["summary"]["speedup_per_image"] == pytest.approx(
        oracle.speedup(run, 32, ACCS, 4, 64, base_accs=1), rel=1e-12
    )
    title = here(capsys, "costs", folder / "moving", "--baseline", folder / "base")[1].splitlines()[0]
    assert title.endswith(f"against {folder / 'base'}, which took 4 steps of 64 images, accs 1")


def test_iso_accuracy(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    lines = [json.loads(line) for line in (folder / "moving" / "metrics.jsonl").read_text().splitlines()]
    tested = [(line["step"], line["test_accuracy"]) for line in lines if line["kind"] == "epoch"]
    wanted = sorted(accuracy for _, accuracy in tested)[2]
    step = next(step for step, accuracy in tested if accuracy >= wanted)
    got = shown(capsys, folder / "moving", "--accuracy", wanted)
    assert got["summary"]["iso_step"] == step
    want = oracle.speedup(oracle_run()[:step], 32, ACCS, STEPS, 32)
    assert got["summary"]["iso_speedup_per_image"] == pytest.approx(want, rel=1e-12)
    assert shown(capsys, folder / "moving", "--accuracy", 1)["summary"]["iso_step"] is None


def test_a_float32_run_is_its_own_baseline(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    got = shown(capsys, folder / "base", "--baseline", folder / "base")["summary"]
    assert (got["speedup_per_image"], got["size"], got["memory"], got["measured_overhead"]) == (1, 1, 2, None)


def test_the_tables(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    status, out, err = here(capsys, "costs", folder / "moving")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert (
        lines[0] == "moving, mlp on digits: 14 steps of 32 images, accs 2; against float32 for as many steps"
    )
    rows = [line.split() for line in lines]
    assert rows[lines.index("weight layers") + 2][:5] == ["fc1", "4,096", "4,096", "8", "8"]
    over = lines.index("width over time, by step")
    assert rows[over + 1] == ["layer", "1", "2", "3", "4", "5", "6", "8", "9", "10", "11", "12", "14"]
    assert rows[over + 2] == ["fc1", "8", "8", "9", "9", "9", "10", "10", "11", "11", "11", "12", "12"]
    assert rows[over + 4] == ["fc3", *["32"] * 12]
    names = [line[:18].strip() for line in lines[over + 6 :]]
    assert names[:4] == ["SU", "as printed", "no overhead", "SU, iso-accuracy"]
    summary = shown(capsys, folder / "moving")["summary"]
    wanted = [summary[key] for key in ("speedup", "speedup_per_image", "speedup_without_overhead")]
    assert [line[18:].split()[0] for line in lines[over + 6 :][:3]] == [f"{su:.2f}" for su in wanted]
    assert wanted[1] < wanted[0] < wanted[2]
    assert {"SU, inference", "SZ", "MEM", "sparsity, final", "overhead"} < set(names)
    assert names[-1] == "measured" and not any(line.endswith(" ") for line in lines)


def test_the_overhead_counts_once_a_step_and_as_printed_for_every_image(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    lines = here(capsys, "costs", folder / "moving", "--accuracy", 0)[1].splitlines()
    told = [(line[:18].strip(), line[18:].split()) for line in lines]
    at = {name: k for k, (name, _) in enumerate(told) if name in ("SU", "SU, iso-accuracy", "overhead")}
    run = oracle_run()
    for name, steps in (("SU", STEPS), ("SU, iso-accuracy", PER_EPOCH)):
        once, every = (oracle.speedup(run[:steps], 32, ACCS, STEPS, 32, n) for n in (Fraction(1, 32), 1))
        assert told[at[name]][1][0] == f"{float(once):.2f}" != f"{float(every):.2f}"
        assert (told[at[name] + 1][0], told[at[name] + 1][1][0]) == ("as printed", f"{float(every):.2f}")
    train, extra = (sum(cost(step, ACCS) for step in run) for cost in (oracle.training, oracle.overhead))
    share, printed = (float(n * extra / (train + n * extra)) for n in (Fraction(1, 32), 1))
    assert [told[at["overhead"] + k][1][0] for k in (0, 1)] == [f"{share:.1%}", f"{printed:.1%}"]


def test_lines_after_the_checkpoint_do_not_count(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path
) -> None:
    """A kill leaves steps in the log that the saved state does not hold."""
    copy = shutil.copytree(folder / "moving", tmp_path / "copy")
    write(copy, [switch(STEPS + 1, True)])
    with open(copy / "metrics.jsonl", "a") as stream:
        stream.write('{"kind": "precision", "st')
    wanted = shown(capsys, folder / "moving")
    assert shown(capsys, copy) | {"run": ""} == wanted | {"run": ""}


def test_a_run_with_word_lengths_goes_on_and_is_reported(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder / "moving", tmp_path / "copy")
    with run_folder.resume(copy, steps=STEPS + 1) as work:
        report = work.train()
    lines = [json.loads(line) for line in (copy / "metrics.jsonl").read_text().splitlines()]
    assert sum(line["kind"] == "precision" for line in lines) == STEPS
    seconds = sum(line["seconds"] for line in lines if line["kind"] == "step")
    assert report is not None and report["seconds"] == round(seconds, 3)


# -- a schedule --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("model", ["lenet5", "resnet20"])
def test_muppets_published_schedule(capsys: pytest.CaptureFixture[str], model: str) -> None:
    status, out, err = here(capsys, "costs", *SCHEDULE, "--model", model)
    assert (status, err) == (0, "")
    figures = {line[:18].strip(): line[18:].split() for line in out.splitlines()}
    assert (figures["SU"][0], figures["MEM"][0]) == ("1.20", "1.67")
    assert not {"SU, iso-accuracy", "overhead", "as printed", "measured"} & set(figures)
    got = shown(capsys, *SCHEDULE, "--model", model, "--accs", 4)
    assert got["accs"] == 4 and "measured_overhead" not in got["summary"]
    assert got["summary"]["speedup_per_image"] == pytest.approx((32 + 8) * 99 / (2108 + 8 * 99), rel=1e-12)
    assert got["layers"][0]["changes"] == [
        [1, 8, None], [17, 12, None], [27, 14, None], [41, 16, None], [55, 32, None],
    ]  # fmt: skip


# -- the picture -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_the_same_run_gives_the_same_picture(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path, suffix: str
) -> None:
    """The layout, whose last bits differ now and then, is that of every format: one is drawn oftener."""
    made = []
    for name in ("one", "two", "three", "four")[: 4 if suffix == ".svg" else 2]:
        target = tmp_path / (name + suffix)
        status, out, err = here(capsys, "costs", folder / "moving", "--plot", target)
        assert (status, err, last_line(out)) == (0, "", f"written: {target}")
        made.append(target.read_bytes())
    assert len(set(made)) == 1


@pytest.mark.slow
def test_what_the_picture_shows(capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "x.svg"
    shown(capsys, folder / "moving", "--plot", target)
    text = target.read_text()  # matplotlib writes every text as a comment beside its outlines
    for words in (
        "fc1",
        "fc3",
        "word length, bits",
        "zero weights, %",
        "cost, memory / float32's",
        "overhead once a step",
    ):
        assert words in text, words
    shown(capsys, *SCHEDULE, "--model", "mlp", "--plot", target)
    assert "overhead" not in target.read_text() and "epoch" in target.read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        ("adapt", {"lookback": "2-3"}, ("D at a switch, by strategy", "mean")),
        ("muppet", {"resolution": 1, "patience": 1}, ("p of the policy", "threshold")),
    ],
)
def test_why_widths_moved_is_logged_and_drawn(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, method: str, options: dict[str, Any], words: Any
) -> None:
    """A line for every step that decides: of AdaPT's layers in turn the widths that hold from then on."""
    target, where = tmp_path / "x.svg", tmp_path / "run"
    run = run_folder.build(method, options, "mlp", "digits", 16, seed=1, limit=32)
    with run_folder.create(where, run, 6) as work:
        work.train()
    lines = [json.loads(text) for text in (where / "metrics.jsonl").read_text().splitlines()]
    told = {line["step"]: line["of"] for line in lines if line["kind"] == "decision"}
    widths = {line["step"]: line["layers"] for line in lines if line["kind"] == "precision"}
    assert sorted(told) == ([2, 4, 6] if method == "muppet" else [2, 5])
    for step, of in told.items():
        for name, found in of.items():
            if method == "adapt":
                now = widths[step + 1][name]
                assert (found["WL"], found["FL"]) == (now["WL"], now["FL"])
            if method == "muppet":
                assert found["p"] >= 1 and found["violated"] == (found["p"] > found["threshold"])
    shown(capsys, where, "--plot", target)
    assert all(word in target.read_text() for word in words)


# -- what is refused ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give the folder of a run, or --schedule"),
        (("{}/moving", "--schedule", "1@8", "--model", "mlp"), "--schedule, --model: "),
        (("{}/none",), "there is no such run folder"),
        (("{}/full",), "wageubn logged no word lengths"),
        (("{}/bare",), "moving logged no word lengths"),
        (("{}/moving", "--baseline", "{}/full"), "wageubn"),
        (("{}/moving", "--baseline", "{}/plain"), "the baseline is one of float32"),
        (("{}/moving", "--baseline", "{}/wide"), "its model is lenet5, the run's is mlp"),
        (("{}/moving", "--baseline", "{}/base", "--accuracy", "0.9"), "not allowed with"),
        (("{}/moving", "--accuracy", "95"), "write 95 % as 0.95"),
        (("{}/moving", "--accuracy", "nan"), "is no share"),
        (("{}/moving", "--plot", "{}/x.gif"), "end the name in .png, .svg, .pdf"),
        (("{}/moving", "--plot", "{}/no/x.png"), "there is no folder"),
        (("--schedule", "1@8"), "--schedule needs --model, --image, --classes"),
        (("--schedule", "1@8", "--accuracy", "0.5"), "a schedule has no accuracy"),
        ((*SCHEDULE, "--model", "nonesuch"), "nonesuch"),
        ((*SCHEDULE[:-1], "0", "--model", "mlp"), "at least 1"),
        (("--schedule", "1@8", "--image", "8x8"), "as in 32x32x3"),
        *((("--schedule", text), "EPOCHS@WL") for text in ("8", "0@8", "1@33", "1@0", "1@8,", "x@8")),
    ],
)  # fmt: skip
def test_bad_input_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], folder: Path, arguments: tuple[object, ...], message: str
) -> None:
    assert message in refused(capsys, "costs", *(str(text).format(folder) for text in arguments))


def change(key: str, value: Any) -> Callable[[list[dict[str, Any]]], None]:
    """fc2 of step 2 with another value."""
    return lambda lines: lines[1]["layers"]["fc2"].update({key: value})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda lines: lines.pop(2), "of step 3 is due, 4 is"),
        (lambda lines: lines.pop(), "word lengths of 13 steps and did 14"),
        (lambda lines: lines.insert(1, lines[0]), "of step 2 is due, 1 is"),
        (
            lambda lines: lines[1]["layers"].pop("fc2"),
            "step 2 and the model do not have the same layers: fc2",
        ),
        (lambda lines: lines[0]["layers"].update(more=lines[0]["layers"]["fc1"]), "same layers: more"),
        (lambda lines: lines[1]["layers"]["fc2"].pop("r"), "step 2['fc2'] has no 'r'"),
        (lambda lines: lines[1]["layers"]["fc2"].pop("WL"), "has no 'WL'"),
        (change("WL", 8.5), "8.5"),
        (change("WL", 33), "WL = 33 in step 2, layer 2"),
        (change("nonzero", 4097), "not within 0..4096"),
        (change("lb", 0), "lb = 0"),
        (change("lb", "25"), "'25'"),
        (change("FL", 2**70), "too"),
    ],
)
def test_a_damaged_log_is_refused(
    capsys: pytest.CaptureFixture[str],
    folder: Path,
    tmp_path: Path,
    damage: Callable[[list[dict[str, Any]]], object],
    message: str,
) -> None:
    switches = [switch(i + 1, True) for i in range(STEPS)]
    damage(switches)
    copy = write(shutil.copytree(folder / "bare", tmp_path / "copy"), switches)
    error = refused(capsys, "costs", copy)
    assert message in error and "metrics.jsonl" in error


def test_a_log_without_a_step_is_refused(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(folder / "base", tmp_path / "copy")
    lines = (copy / "metrics.jsonl").read_text().splitlines(keepends=True)
    (copy / "metrics.jsonl").write_text("".join(lines[:-2]))
    with pytest.warns(RuntimeWarning, match=r"metrics\.jsonl lacks "):
        assert "it has 3 of 4 steps" in refused(capsys, "costs", copy)


def test_a_run_without_a_step_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with run_folder.create(tmp_path / "new", run_folder.build("float32", {}, "mlp", "digits"), 3):
        pass
    assert "has done no step" in refused(capsys, "costs", tmp_path / "new")
