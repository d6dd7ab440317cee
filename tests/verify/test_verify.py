"""`intnet verify`: no difference in any method's step, all specified; what it keeps, shows and refuses."""

from __future__ import annotations

import json
import types
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet import methods, models
from intnet.autograd import Op
from intnet.errors import ConfigError
from intnet.layers import BatchNorm2d, Layer, ReLU
from intnet.methods.method import Method
from intnet.runs import run_folder
from intnet.spec.tensor import Tensor
from intnet.training.train import Run
from intnet.verify import remembered, taken, work
from intnet.verify.row import DIFFERS, EQUAL, UNSPECIFIED, Options, Row, written
from intnet.verify.tasks import Step
from tests.support.command import afresh, intnet

MLP = ("--model", "mlp", "--data", "digits", "--batch-size", "20")
CASES = {
    "float32": ("float32", {}),
    "float32 adamw": (
        "float32",
        {"optimizer": "adamw", "clip": "0.5", "warmup": "1", "weight_decay": "0.01"},
    ),
    "wageubn": ("wageubn", {}),
    "wageubn fixed16": ("wageubn", {"edges": "fixed16", "e2": "16", "weight_decay": "5"}),
    "wageubn block": ("wageubn", {"first": "block", "weight_decay": "5", "saved.bits": "4"}),
    "adapt": ("adapt", {}),
    "muppet": ("muppet", {}),
    "dynasty": ("dynasty", {}),
    "banner": ("banner", {}),
    "mx": ("mx", {"x": "MXFP4/ceil/stochastic", "e": "MXINT8"}),
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
    return [f"{row.name}: {row.why} {row.difference}" for row in rows if row.state == state]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_step_of_every_method_is_the_definition_s(case: str) -> None:
    method, options = CASES[case]
    rows = verified(run_folder.build(method, options, "mlp", "digits", 20, seed=3))
    assert not names(rows, DIFFERS)
    assert not names(rows, UNSPECIFIED)
    assert {row.layer for row in rows} >= {"fc1", "bn1", "relu1", "fc2", "bn2", "fc3", "loss"}
    assert sum(row.checked for row in rows) > 1000


@pytest.mark.slow
def test_all_elements_are_what_all_says() -> None:
    rows = verified(run_folder.build("wageubn", {}, "mlp", "digits", 4, limit=16), elements=None)
    assert not names(rows, DIFFERS)
    assert all(row.checked == row.elements for row in rows if row.path not in ("state",))


@pytest.mark.slow
@pytest.mark.parametrize("case", [*CASES, "wageubn batch"])
def test_inference_of_every_method_is_the_definition_s(case: str) -> None:
    method, options = CASES.get(case, ("wageubn", {"statistics": "batch"}))
    run = run_folder.build(method, options, "mlp", "digits", 20, seed=3)
    found = taken.take_inference(run, 2, 2, trained)  # test images 256 to 358
    made = Step(found, Options(40))
    rows = [row for layer in made.layers() for row in made.rows(layer)] + work.first_rows(
        found, Options(40), None
    )
    assert not names(rows, DIFFERS)
    assert not names(rows, UNSPECIFIED)
    assert {row.layer for row in rows} >= {"fc1", "bn1", "relu1", "fc2", "bn2", "fc3", "step", "data"}
    assert [row.checked for row in rows if row.path == "class"] == [103]


def inferred(run: Run, steps: int = 1) -> taken.Taken:
    return taken.take_inference(run, steps, 1, trained)


def wrong(found: taken.Taken) -> set[str]:
    """'layer/path' of what differs."""
    made = Step(found, Options(40))
    rows = [row for layer in made.layers() for row in made.rows(layer)]
    rows += work.first_rows(found, Options(40), None)
    return {row.name for row in rows if row.state == DIFFERS}


@pytest.mark.slow
def test_what_inference_s_rows_catch() -> None:
    """Another class, another scale, another pixel, another label, and a test batch that is none."""
    run = run_folder.build("adapt", {}, "mlp", "digits", 20)
    found = inferred(run)
    assert found.inference is not None
    assert wrong(found) == set()
    found.inference.classes[3] += 1
    (call, *_) = found.record.calls("scale_shift")
    call.operands[1].codes[0] += 1
    found.inference.images.codes.reshape(-1)[5] += 1
    assert wrong(found) >= {"step/class", "bn1/scale, offset", "data/images"}
    found = inferred(run)
    assert found.inference is not None
    found.inference.labels = np.roll(found.inference.labels, 1)
    assert wrong(found) == {"data/images"}
    with pytest.raises(ConfigError, match="359 test images are 2 batches of 256"):
        taken.take_inference(run, 1, 3, trained)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["wageubn", "float32", "adapt"])
def test_inference_by_other_operations_is_seen(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch's own statistics, statistics of another place, dropout, no ReLU, a state that moves."""
    run = run_folder.build(method, {}, "mlp", "digits", 20)
    with monkeypatch.context() as patch:
        patch.setattr(run.method, "running_statistics", False)
        assert "bn1/statistics" in wrong(inferred(run))
    with monkeypatch.context() as patch:
        read = BatchNorm2d.running_statistics
        patch.setattr(BatchNorm2d, "running_statistics", lambda layer: read(layer)[1:] * 2)
        assert wrong(inferred(run)) & {"bn1/statistics", "bn1/scale, offset"}
    with monkeypatch.context() as patch:
        forward = ReLU.forward
        patch.setattr(ReLU, "forward", lambda layer, x, m: forward(layer, x, m) if m.training else x)
        assert "step/operations" in wrong(inferred(run))
    with monkeypatch.context() as patch:
        moving = taken.classified

        def moves(model: Any, *rest: Any) -> Any:
            model.all_layers()[-1].weight.value = model.all_layers()[-1].weight.value[::-1].copy()
            return moving(model, *rest)

        if method != "wageubn":  # whose words are no plain array
            patch.setattr(taken, "classified", moves)
            assert "step/digest" in wrong(inferred(run))


MOVING = {
    "adapt": ("adapt", {}, 25, 40),  # the first lookback is 25 steps
    "muppet": ("muppet", {"resolution": "3", "patience": "1"}, 30, 40),
    "dynasty": ("dynasty", {"gamma": "0.25"}, 4, 40),  # a second map
    "dynasty by weights": ("dynasty", {"forward_dynamic": "weight", "weight_bits": "5"}, 2, 40),
    "dynasty after a short batch": ("dynasty", {}, 4, 30),
    "dynasty of convolutions": ("dynasty", {}, 2, 40, "lenet5"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", MOVING)
def test_a_step_on_which_the_precision_moves(case: str) -> None:
    method, options, step, images, *model = MOVING[case]
    run = run_folder.build(method, options, *model or ["mlp"], "digits", 20, limit=images)
    found = taken.take(run, step, trained)
    assert any(moved(found, name) for name in found.after if name.rpartition(".")[2] in PRECISION)
    made = Step(found, Options(40))
    rows = [row for layer in made.layers() for row in made.rows(layer)]
    assert not names(rows, DIFFERS)
    assert not names(rows, UNSPECIFIED)


PRECISION = ("precision", "b", "method/level")


def moved(found: taken.Taken, name: str) -> bool:
    before, after = (
        getattr(state.get(name), "codes", state.get(name)) for state in (found.before, found.after)
    )
    return before is None or bool(np.any(np.asarray(before) != np.asarray(after)))


LOST = [
    ("adapt", 1, "fc1.weight.G"),
    ("adapt", 1, "method/losses"),
    ("adapt", 1, "bn1.running_mean"),
    ("muppet", 2, "fc1.weight.sum"),
    ("dynasty", 1, "fc2.weight.S"),
    ("dynasty", 1, "fc2.b"),
    ("dynasty", 2, "fc2.weight.b_new"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "step", "name"), LOST)
def test_what_is_missing_longer_or_too_much_in_the_state_differs(method: str, step: int, name: str) -> None:
    found = taken.take(run_folder.build(method, {}, "mlp", "digits", 20, limit=40), step, trained)
    assert wrong(found) == set()
    value = found.after.pop(name)
    assert wrong(found) & {"method/state", "bn1/running"}
    found.after[name] = value
    found.after["method/extra"] = value
    assert wrong(found) == {"method/state"}


@pytest.mark.slow
def test_widths_that_move_without_a_map_are_seen() -> None:
    found = taken.take(run_folder.build("dynasty", {}, "mlp", "digits", 20), 1, trained)
    found.after["fc2.b"][0, 1] += 1
    assert wrong(found) == {"method/state"}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["adapt", "muppet", "dynasty"])
def test_an_epoch_s_end_that_is_missed_or_too_early_is_seen(method: str, monkeypatch: Any) -> None:
    run = run_folder.build(method, {}, "mlp", "digits", 20, limit=40)
    found = taken.take(run, 2, trained)
    assert wrong(found) == set()
    found.ended = {}
    assert "method/state" in wrong(found)
    found = taken.take(run_folder.build(method, {}, "mlp", "digits", 20, limit=60), 2, trained)
    found.ended = found.after
    assert "method/state" in wrong(found)


def test_a_difference_stays_one() -> None:
    row = Row("a", "b", "", [])
    row.differs("this")
    row.not_specified("that")
    assert (row.state, row.why) == (DIFFERS, "this")


class Begun(models.MLP):
    """A model whose first layer has no weights of a product."""

    def __init__(self) -> None:
        super().__init__((8, 8, 1), 10, hidden=8)
        self.bn0 = BatchNorm2d(1)
        self.finish()

    def forward(self, x: Any, method: Method) -> Any:
        return super().forward(self.bn0(x, method), method)


def test_a_model_that_begins_with_batch_norm() -> None:
    data = run_folder.build("float32", {}, "mlp", "digits", 8, limit=64).data
    run = Run(Begun(), methods.make("float32"), data, 8)
    found = taken.take(run, 2, trained)
    assert work.first_rows(found, Options(40), None)[0].state == EQUAL
    assert "data/images" not in wrong(inferred(run, 2))


@pytest.mark.slow
def test_a_slot_that_is_missing_and_a_map_that_is_wrong_are_seen() -> None:
    found = taken.take(run_folder.build("wageubn", {}, "mlp", "digits", 20), 2, trained)
    del found.after["fc1.weight.Acc"]
    made = Step(found, Options(40))
    assert any("the state has ['fc1.weight']" in row.why for row in made.rows("fc1") if row.state == DIFFERS)
    found = taken.take(run_folder.build("dynasty", {}, "mlp", "digits", 20, limit=40), 2, trained)
    found.after["fc2.weight.b"][1, 2] += 1
    (row,) = Step(found, Options(40)).rows("method")
    assert row.state == DIFFERS
    assert row.difference is not None
    assert row.difference.trail[0] == "fc2.weight.b"


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"l1": "1e-3", "penalty": "on"}])
def test_the_state_of_many_weights_is_verified_in_part(
    options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remembered, "LARGE", 1000)
    monkeypatch.setattr(remembered, "SMALL", 700)  # fc3 has 640
    found = taken.take(run_folder.build("adapt", options, "mlp", "digits", 20, limit=40), 2, trained)
    (row,) = Step(found, Options(40)).rows("method")
    assert (row.state, row.difference) == (EQUAL, None)
    assert 2 * 40 + 640 < row.checked < row.elements
    found.after["fc1.weight.G"] += np.float32(1)
    (row,) = Step(found, Options(40)).rows("method")
    assert row.state == DIFFERS
    (row,) = Step(
        taken.take(run_folder.build("adapt", {}, "mlp", "digits", 20), 25, trained), Options(40)
    ).rows("method")
    assert (row.state, row.why[:13]) == (UNSPECIFIED, "fc1: a switch")


def test_the_trail_of_a_product_shows_its_factors() -> None:
    found = taken.take(run_folder.build("wageubn", {}, "mlp", "digits", 20), 1, trained)
    event = next(event for event in found.record.events if (event.layer, event.path) == ("fc2", "x1"))
    codes = event.result.codes.reshape(-1)
    codes += 1
    row = next(row for row in Step(found, Options(40)).rows("fc2") if row.path == "x1")
    assert row.difference is not None
    first, *terms = row.difference.trail
    assert first == "a sum of 64 products, in this order:"
    held = {event.path: event.result for event in found.record.events if event.layer == "fc2"}
    i, o = row.difference.index

    def value(q: Any, at: int) -> str:
        return written(Fraction(int(q.codes[at, 0])) * Fraction(2) ** int(q.exponent))

    factors = f"{value(held['x0'], i)}; {value(held['Wq'], o)}"
    assert terms[0] == f"  x0[{i},0] * W[{o},0]: {factors}"
    assert len(terms) == 13


def test_both_roads_of_a_step_are_compared() -> None:
    found = taken.take(run_folder.build("wageubn", {}, "mlp", "digits", 8), 2, trained)
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
    run = run_folder.build(method, {}, "mlp", "digits", 8, limit=64)
    network = models.make("mlp", run.data.image_shape, run.data.classes)
    layer = network.relu2 = Doubled()  # type: ignore[attr-defined]
    layer.spec = spec
    network.finish()
    return Run(network, methods.make(method), run.data, 8)


def doubled(x: Tensor) -> Tensor:
    return Tensor(x.shape, [v + v for v in x.values])


@pytest.mark.slow
def test_an_operation_of_one_s_own_is_listed_or_held_to_its_spec() -> None:
    rows = verified(with_doubled(None))
    assert any("'doubled'" in name for name in names(rows, UNSPECIFIED))
    assert not names(rows, DIFFERS)
    spec = types.SimpleNamespace(forward=doubled, back=lambda e, x: [doubled(e)])
    assert not names(verified(with_doubled(spec)), UNSPECIFIED)
    wrong = types.SimpleNamespace(forward=lambda x: x, back=lambda e, x: [doubled(e)])
    assert names(verified(with_doubled(wrong)), DIFFERS)


@pytest.mark.slow
def test_a_first_block_that_the_definition_does_not_have_is_listed() -> None:
    """It ends with an activation of a user's own: nothing differs, what hangs on the method is not judged."""
    run = run_folder.build("wageubn", {"first": "block"}, "mlp", "digits", 8, limit=64)
    network = models.make("mlp", run.data.image_shape, run.data.classes)
    network.relu1 = Doubled()  # type: ignore[attr-defined]
    network.relu1.derivative = "mask"
    network.finish()
    rows = verified(Run(network, methods.make("wageubn", first="block"), run.data, 8))
    assert not names(rows, DIFFERS)
    assert "relu1 ends no first block" in str(names(rows, UNSPECIFIED))


def test_a_method_of_one_s_own_is_listed() -> None:
    run = run_folder.build("float32", {}, "mlp", "digits", 8, limit=64)
    run.method.__class__ = type("Mine", (type(run.method),), {"name": "mine"})
    rows = verified(run)
    assert names(rows, UNSPECIFIED)
    assert not names(rows, DIFFERS)


# -- the command ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_shows_a_table_and_ends_well(tmp_path: Path) -> None:
    status, out, err = afresh(
        tmp_path, "verify", "--method", "wageubn", *MLP, "--layer", "fc2", "--step", "1"
    )
    assert status == 0, err
    assert "formats.Constant, words.word" in out
    assert out.rstrip().endswith("no difference")


@pytest.mark.slow
def test_results_are_kept_and_gone_on_with(tmp_path: Path) -> None:
    run = run_folder.build("float32", {}, "mlp", "digits", 8, limit=64)
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


@pytest.mark.slow
def test_a_run_s_folder_is_verified_from_its_last_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with run_folder.create(folder, run_folder.build("muppet", {}, "mlp", "digits", 20), steps=2) as work_:
        work_.train()
    before = (folder / "checkpoint.npz").read_bytes()
    done = intnet("verify", str(folder), "--json", "--elements", "30", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["step"], told["equal"], told["method"]) == (3, True, "muppet")
    assert (folder / "checkpoint.npz").read_bytes() == before
    assert (folder / "verify.json").exists()
    status, _, err = afresh(tmp_path, "verify", str(folder), "--step", "1")
    assert (status, err.count("\n")) == (2, 1)


@pytest.mark.slow
@pytest.mark.parametrize("given", [["--elements", "0"], ["--layer", "none"], ["--out", "no/x.json"], []])
def test_what_is_wrong_is_said_in_a_line(given: list[str], tmp_path: Path) -> None:
    named = ["--method", "float32", *MLP, "--step", "1"] if given else []
    status, _, err = afresh(tmp_path, "verify", *named, *given)
    assert (status, err.count("\n")) == (2, 1), err


def test_codes_that_were_changed_are_found() -> None:
    found = taken.take(run_folder.build("wageubn", {}, "mlp", "digits", 8), 2, trained)
    event = next(e for e in found.record.events if (e.layer, e.path) == ("fc2", "e3"))
    codes = event.result.codes
    at = int(np.argmax(codes))
    codes.reshape(-1)[at] -= 1
    step = Step(found, Options(10))
    wrong = {row.path for row in step.rows("fc2") if row.state == DIFFERS}
    assert "e3" in wrong
    row = next(row for row in step.rows("fc2") if row.path == "e3")
    assert row.difference is not None and any("grid" in line for line in row.difference.trail)
