"""`intnet.sweep` and `intnet.compare` as functions: the command's bits, records for tables, the picture."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import intnet as library
from intnet import datasets, plugins
from intnet.errors import ConfigError
from intnet.sweeps import conduct, plan
from intnet.sweeps.table import Sweep
from tests.support.command import forgotten, here, last_line

SMALL: dict[str, Any] = {"limit": 64, "batch_size": 32, "epochs": 2}
SAME = ("speedup", "speedup_own", "model_bytes", "tape_bytes", "tape_bytes_packed")
COMMAND = ("--model", "mlp", "--data", "digits", "--limit", 64, "--batch-size", 32, "--epochs", 2)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    out = tmp_path_factory.mktemp("sweeps") / "s"
    return library.sweep(
        "saved", "mlp", "digits", out, vary={"bits": [2, 4]}, baseline=("float32", {}), seeds=[1, 2],
        settings={"lr": 0.05}, quiet=True, **SMALL,
    )  # fmt: skip


@pytest.mark.slow
def test_it_is_the_commands_sweep(found: Sweep, capsys: pytest.CaptureFixture[str]) -> None:
    """The command finds all of it done: the same points, and the same bits."""
    grid = ("--vary", "bits=2,4", "--baseline", "float32", "--seeds", "1,2", "--set", "lr=0.05")
    status, out, _ = here(capsys, "sweep", "--method", "saved", *COMMAND, *grid, "--out", found.folder)
    assert status == 0 and found.done == found.runs == 6 and "6 runs, 6 done already" in out
    assert last_line(out) == f"sweep sha256: {found.digest()}"


@pytest.mark.slow
def test_records_are_a_table(found: Sweep) -> None:
    records = found.records()
    points = [("float32", "-"), ("saved", "2"), ("saved", "4")]
    assert [(r["method"], r["bits"], r["seed"]) for r in records] == [(*p, s) for p in points for s in (1, 2)]
    assert all(list(r) == list(records[0]) for r in records)
    assert records[0]["saved_bits"] is None and records[2]["saved_bits"] is not None
    assert len({r["state_sha256"] for r in records}) == 6
    lines = list(csv.DictReader(io.StringIO(found.csv())))
    assert [{k: "" if v is None else str(v) for k, v in r.items()} for r in records] == lines


@pytest.mark.slow
def test_epochs_are_a_table_too(found: Sweep) -> None:
    lines = found.epochs()
    assert [(line["seed"], line["epoch"]) for line in lines] == [(s, e) for s in (1, 2) for e in (1, 2)] * 3
    last = [line["test_accuracy"] for line in lines if line["epoch"] == 2]
    assert sorted(last) == sorted(r["test_accuracy"] for r in found.records())


@pytest.mark.slow
def test_the_picture_is_a_figure(found: Sweep, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    figure = found.figure()
    left, right = figure.axes
    assert len(left.get_lines()) == 3 and right.get_xlabel() == "bits"
    assert left.get_ylabel() == "test accuracy, %: mean, least and most of 2 seeds"
    figure.savefig(tmp_path / "s.png")
    assert (tmp_path / "s.png").stat().st_size > 10_000


@pytest.mark.slow
def test_what_failed_is_shown(tmp_path: Path) -> None:
    """Quiet or not: at a prompt, in a notebook, and when asked."""
    made = library.sweep(*SAVED, tmp_path / "f", vary={"lr": [0.05, 1e30]}, quiet=True, **SMALL)
    (line,) = made.failed()
    assert line.startswith("failed: lr=1e+30, seed 1: ") and "NaN or infinity" in line
    title, heads, *rows, last = repr(made).splitlines()
    assert title.startswith("mlp on digits: 64 training images") and heads.split()[:2] == ["lr", "runs"]
    assert [row.split()[1] for row in rows] == ["1/1", "0/1"] and last == line
    assert "0/1 failed" in made._repr_html_() and len(made.records()) == 1


@pytest.mark.slow
def test_a_comparison(tmp_path: Path) -> None:
    methods = {"float32": {"lr": 0.05}, "saved": [{"bits": 2}, {"bits": 4}]}
    made = library.compare(methods, "mlp", "digits", tmp_path / "c", quiet=True, **SMALL)
    records = made.records()
    assert [(r["method"], r["settings"]) for r in records] == [
        ("float32", "lr=0.05"), ("saved", "bits=2"), ("saved", "bits=4"),
    ]  # fmt: skip
    assert records[0]["speedup"] == 1 and records[1]["tape_bytes_packed"] < records[2]["tape_bytes_packed"]
    again = library.compare(methods, "mlp", "digits", tmp_path / "c", quiet=True, **SMALL)
    assert again.digest() == made.digest()


def parts(monkeypatch: pytest.MonkeyPatch, call: Any) -> list[plan.Part]:
    seen: list[plan.Asked] = []
    monkeypatch.setattr(conduct, "carried_out", lambda kind, asked, *rest: seen.append(asked))
    call()
    return list(seen[0].parts)


def test_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    also = [{"codec": ["levels"], "bucket": [64, 512]}]
    whole = ("saved", "mlp", "digits", "s")
    one = plan.Part("saved")
    assert parts(monkeypatch, lambda: library.sweep(*whole)) == [one]
    assert parts(monkeypatch, lambda: library.sweep(*whole, settings={"bits": 4}, also=also)) == [
        plan.Part("saved", [("codec", ["levels"]), ("bucket", ["64", "512"])])
    ]
    assert len(parts(monkeypatch, lambda: library.sweep(*whole, vary={"bits": (2,)}, also=also))) == 2
    both = parts(monkeypatch, lambda: library.sweep(*whole, vary={}, settings={"bits": 4}, also=also))
    assert both[0] == one and len(both) == 2
    assert parts(monkeypatch, lambda: library.sweep(*whole, vary={"rop": [None, 3]})) == [
        plan.Part("saved", [("rop", ["off", "3"])])
    ]
    assert parts(monkeypatch, lambda: library.compare(["saved", "float32"], *whole[1:])) == [
        one,
        plan.Part("float32"),
    ]


SAVED = ("saved", "mlp", "digits")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda out: library.sweep(*SAVED, out, vary={"bits": "4"}), "bits: give a list of values"),
        (lambda out: library.sweep(*SAVED, out, vary={"bits": []}), "bits: give a list of values"),
        (lambda out: library.sweep(*SAVED, out, vary={"bits": [2]}, settings={"bits": 4}), "give it once"),
        (lambda out: library.sweep(*SAVED, out, vary={"bit": [2]}), "did you mean 'bits'"),
        (lambda out: library.sweep(*SAVED, out, vary={"bits": 4}), "bits: give a list of values"),
        (
            lambda out: library.sweep("saved", "mlp", object(), out),
            "data: a sweep takes a name, of which other",
        ),
        (lambda out: library.compare([object()], "mlp", "digits", out), "method: a sweep takes a name"),
        (lambda out: library.compare("saved", "mlp", "digits", out), "compare takes several methods"),
        (
            lambda out: library.sweep(*SAVED, out, vary=["bits"]),
            "a grid: give a dict of keys, as {'lr': 0.05}",
        ),
        (lambda out: library.sweep(*SAVED, out, settings="bits=2"), "settings: give a dict of keys"),
        (
            lambda out: library.sweep(*SAVED, out, seed=3),
            "unknown argument of a sweep 'seed'; did you mean 'see",
        ),
        (
            lambda out: library.sweep(*SAVED, out, seeds=3),
            r"seeds=3: give a list of whole numbers, as \[1, 2",
        ),
        (lambda out: library.sweep(*SAVED, out, seeds="1"), "seeds='1': give a list of whole numbers"),
        (lambda out: library.sweep(*SAVED, out, seeds=[]), "give a list of whole numbers"),
        (lambda out: library.sweep(*SAVED, out, jobs=0), "jobs=0: a whole number of at least 1"),
        (lambda out: library.sweep(*SAVED, out, jobs=1.5), "jobs=1.5: a whole number of at least 1"),
        (lambda out: library.sweep(*SAVED, out, epochs="2"), "epochs='2': a whole number of at least 1"),
        (lambda out: library.sweep(*SAVED, out, limit=0), "limit=0: a whole number of at least 1"),
        (lambda out: library.sweep(*SAVED, out, augment=3), "--augment 3: '3': write crop=P, flip"),
        (lambda out: library.compare([], "mlp", "digits", out), "compare: no methods: a list of names"),
        (lambda out: library.compare({"saved": 2}, "mlp", "digits", out), "saved: give a dict of keys"),
        (lambda out: library.compare(["floot32"], "mlp", "digits", out), "did you mean 'float32'"),
    ],
)
def test_what_is_refused(call: Any, says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=says):
        call(tmp_path / "s")
    assert not (tmp_path / "s").exists()


@pytest.mark.slow
def test_data_without_a_test_part(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    digits = datasets.load("digits")
    np.savez(tmp_path / "some.npz", X=digits.train_images[:64], y=digits.train_labels[:64])
    whole = ("mlp", f"arrays:{tmp_path}/some.npz", tmp_path / "s")
    made = library.sweep("float32", *whole, vary={"lr": [0.1, 0.2]}, quiet=True, epochs=2, batch_size=32)
    assert [record["test_accuracy"] for record in made.records()] == [None, None]
    assert [line["test_accuracy"] for line in made.epochs()] == [None] * 4
    made.figure().savefig(tmp_path / "s.png")


DERIVED = """
from dataclasses import dataclass
from intnet import methods

@methods.register("of-muppet")
class OfMuppet(methods.Muppet):
    pass

@methods.register("of-float32")
class OfFloat32(methods.Float32):
    @dataclass(frozen=True, kw_only=True)
    class Options(methods.Float32.Options):
        seed: int = 4
"""


@pytest.fixture
def derived(tmp_path: Path) -> Iterator[None]:
    """Methods that change nothing of those that they derive from; one with an option called as a column."""
    (tmp_path / "derived_methods.py").write_text(DERIVED)
    with forgotten(tmp_path):
        plugins.load(tmp_path / "derived_methods.py")
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("derived")
def test_figures_of_a_method_that_derives_from_another(tmp_path: Path) -> None:
    made = library.compare(["muppet", "of-muppet"], "mlp", "digits", tmp_path / "c", quiet=True, **SMALL)
    one, other = ({k: v for k, v in record.items() if k in SAME} for record in made.records())
    assert one == other and one["speedup_own"] != one["speedup"]


@pytest.mark.slow
@pytest.mark.usefixtures("derived")
def test_an_option_that_is_called_as_a_column(tmp_path: Path) -> None:
    made = library.sweep(
        "of-float32", "mlp", "digits", tmp_path / "s", vary={"seed": [5, 6]}, quiet=True, **SMALL
    )
    records = made.records()
    assert [(record["set seed"], record["seed"]) for record in records] == [("5", 1), ("6", 1)]
    lines = list(csv.reader(io.StringIO(made.csv())))
    assert {len(line) for line in lines} == {len(records[0])} and lines[0] == list(records[0])
    assert "set seed" in repr(made)
