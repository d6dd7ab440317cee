"""`intnet verify`: no difference in any method's step, all specified; what it keeps, shows and refuses."""

from __future__ import annotations

import json
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet import models, runs
from intnet.autograd import Op
from intnet.layers import Layer
from intnet.methods.method import Method
from intnet.spec.tensor import Tensor
from intnet.train import Run
from intnet.verify import taken, work
from intnet.verify.checks import Step
from intnet.verify.events import Options
from intnet.verify.row import DIFFERS, EQUAL, UNSPECIFIED, Row
from tests.command import intnet

MLP = ("--model", "mlp", "--data", "digits", "--batch-size", "20")
CASES = {
    "float32": ("float32", {}),
    "float32 adamw": (
        "float32",
        {"optimizer": "adamw", "clip": "0.5", "warmup": "1", "weight_decay": "0.01"},
    ),
    "wageubn": ("wageubn", {}),
    "wageubn fixed16": ("wageubn", {"edges": "fixed16", "e2": "16", "weight_decay": "5"}),
    "adapt": ("adapt", {}),
    "muppet": ("muppet", {}),
    "dynasty": ("dynasty", {}),
    "saved": ("saved", {}),
    "saved mixed": ("saved", {"bits": "2/4", "storage": "on_backward", "bucket": "64"}),
    "saved levels": ("saved", {"codec": "levels"}),
}  # fmt: skip


def trained(run: Run, steps: int) -> None:
    run.train(steps)


def verified(run: Run, step: int = 2, elements: int | None = 40) -> list[Row]:
    """All rows of a step, by this process alone."""
    made = Step(taken.take(run, step, trained), Options(elements))
    return [row for layer in made.layers() for row in made.rows(layer)]


def names(rows: list[Row], state: str) -> list[str]:
    return [f"{row.layer}/{row.path}: {row.why} {row.difference}" for row in rows if row.state == state]


@pytest.mark.parametrize("case", CASES)
def test_a_step_of_every_method_is_the_definition_s(case: str) -> None:
    method, options = CASES[case]
    rows = verified(runs.build(method, options, "mlp", "digits", 20, seed=3))
    assert not names(rows, DIFFERS)
    assert not names(rows, UNSPECIFIED)
    assert {row.layer for row in rows} >= {"fc1", "bn1", "relu1", "fc2", "bn2", "fc3", "loss"}
    assert sum(row.checked for row in rows) > 1000


def test_all_elements_are_what_all_says() -> None:
    rows = verified(runs.build("wageubn", {}, "mlp", "digits", 4, limit=16), elements=None)
    assert not names(rows, DIFFERS)
    assert all(row.checked == row.elements for row in rows if row.path not in ("state",))


def test_both_roads_of_a_step_are_compared() -> None:
    found = taken.take(runs.build("wageubn", {}, "mlp", "digits", 8), 2, trained)
    assert found.digest == found.unwatched
    row = work.first_rows(found, Options(10), None)[1]
    assert row.state == EQUAL
    found.unwatched = "another"
    assert work.first_rows(found, Options(10), None)[1].state == DIFFERS


# -- what names no definition ---------------------------------------------------------------------


class Doubled(Layer):
    """2x, by an operation of a user's own."""

    spec: Any = None

    def forward(self, x: Any, method: Method) -> Any:
        op = Op("doubled", lambda saved, v: v + v, lambda saved, e: (e + e,), spec=self.spec)
        return self.on_path(op(x), method, "x4", "e0")


def with_doubled(spec: Any, method: str = "float32") -> Run:
    run = runs.build(method, {}, "mlp", "digits", 8, limit=64)
    network = models.make("mlp", run.data.image_shape, run.data.classes)
    layer = network.relu2 = Doubled()  # type: ignore[attr-defined]
    layer.spec = spec
    network.finish()
    return Run(network, run.method, run.data, 8)


def doubled(x: Tensor) -> Tensor:
    return Tensor(x.shape, [v + v for v in x.values])


def test_an_operation_of_one_s_own_is_listed_or_held_to_its_spec() -> None:
    rows = verified(with_doubled(None))
    assert any("'doubled'" in name for name in names(rows, UNSPECIFIED))
    assert not names(rows, DIFFERS)
    spec = types.SimpleNamespace(forward=doubled, back=lambda e, x: [doubled(e)])
    assert not names(verified(with_doubled(spec)), UNSPECIFIED)
    wrong = types.SimpleNamespace(forward=lambda x: x, back=lambda e, x: [doubled(e)])
    assert names(verified(with_doubled(wrong)), DIFFERS)


def test_a_method_of_one_s_own_is_listed() -> None:
    run = runs.build("float32", {}, "mlp", "digits", 8, limit=64)
    run.method.__class__ = type("Mine", (type(run.method),), {"name": "mine"})
    rows = verified(run)
    assert names(rows, UNSPECIFIED)
    assert not names(rows, DIFFERS)


# -- the command ----------------------------------------------------------------------------------


def test_the_command_shows_a_table_and_ends_well(tmp_path: Path) -> None:
    done = intnet("verify", "--method", "wageubn", *MLP, "--layer", "fc2", "--step", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "formats.Constant, words.word" in done.stdout
    assert done.stdout.rstrip().endswith("no difference")


def test_results_are_kept_and_gone_on_with(tmp_path: Path) -> None:
    run = runs.build("float32", {}, "mlp", "digits", 8, limit=64)
    found, path, seen = taken.take(run, 1, trained), tmp_path / "kept.json", []

    def verify(pattern: str | None, options: Options) -> list[Row]:
        seen.clear()
        return work.verify(found, options, pattern, path, {}, lambda layer, done, total: seen.append(layer))

    verify("fc1", Options(20))
    assert "fc1" in seen
    rows = verify(None, Options(20))
    assert "fc1" not in seen and "fc2" in seen
    kept = json.loads(path.read_bytes())["layers"]
    assert {row.layer for row in rows} - {"data", "step"} == set(kept)
    verify("fc1", Options(21))  # another draw starts anew
    assert "fc1" in seen
    path.write_text("{}")
    with pytest.raises(Exception, match="no verification"):
        verify(None, Options(20))


def test_a_run_s_folder_is_verified_from_its_last_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with runs.create(folder, runs.build("muppet", {}, "mlp", "digits", 20), steps=2) as work_:
        work_.train()
    before = (folder / "checkpoint.npz").read_bytes()
    done = intnet("verify", str(folder), "--json", "--elements", "30", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["step"], told["equal"], told["method"]) == (3, True, "muppet")
    assert (folder / "checkpoint.npz").read_bytes() == before
    assert (folder / "verify.json").exists()
    wrong = intnet("verify", str(folder), "--step", "1", cwd=tmp_path)
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize("given", [["--elements", "0"], ["--layer", "none"], ["--out", "no/x.json"], []])
def test_what_is_wrong_is_said_in_a_line(given: list[str], tmp_path: Path) -> None:
    named = ["--method", "float32", *MLP, "--step", "1"] if given else []
    done = intnet("verify", *named, *given, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr


def test_codes_that_were_changed_are_found() -> None:
    found = taken.take(runs.build("wageubn", {}, "mlp", "digits", 8), 2, trained)
    event = next(e for e in found.record.events if (e.layer, e.path) == ("fc2", "e3"))
    codes = event.result.codes
    at = int(np.argmax(codes))
    codes.reshape(-1)[at] -= 1
    step = Step(found, Options(10))
    wrong = {row.path for row in step.rows("fc2") if row.state == DIFFERS}
    assert "e3" in wrong
    row = next(row for row in step.rows("fc2") if row.path == "e3")
    assert row.difference is not None and any("grid" in line for line in row.difference.trail)
