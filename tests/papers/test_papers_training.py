"""The checks that train: one path quantized, every update seen, data ratios, runs that are gone on with."""

import json
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from intnet import datasets, models
from intnet.exact.expressions import Exact
from intnet.methods import wageubn
from intnet.methods.float32 import Float32
from intnet.methods.method import Method
from intnet.methods.trace import Event, Recorder
from intnet.methods.wageubn import Wageubn
from intnet.numbers.qtensor import QTensor
from intnet.papers.checks import CHECKS, training, wageubn_batch_size, wageubn_data_ratio, wageubn_widths
from intnet.papers.checks.check import Sizes, Task
from intnet.papers.checks.single_path import SinglePath
from intnet.papers.checks.training import Arm, Outcome
from intnet.spec import formats as quantizers
from intnet.spec import words as random
from intnet.training.inference import classified
from intnet.training.train import Run

TINY = Sizes("mlp", "digits", 64, 1)
WEIGHTS = quantizers.FixedPoint(8, 7, overflow="saturate_symmetric")  # (10)
PATHS = {  # option -> (data path, oracle)
    "w": ("W", lambda xs, words: quantizers.quantize(xs, WEIGHTS)),
    "bn": ("x2", lambda xs, words: quantizers.quantize(xs, quantizers.Direct(8))),
    "a": ("x4", lambda xs, words: quantizers.quantize(xs, quantizers.Direct(8))),
    "gw": ("gW", lambda xs, words: quantizers.quantize(xs, quantizers.Constant(), "stochastic", words)),
    "e1": ("e0", lambda xs, words: quantizers.quantize(xs, quantizers.Shift(8))),
    "e2-flag8": ("e3", lambda xs, words: quantizers.quantize(xs, quantizers.Flag())),
    "e2-16": ("e3", lambda xs, words: quantizers.quantize(xs, quantizers.Shift(16))),
    "e2-8": ("e3", lambda xs, words: quantizers.quantize(xs, quantizers.Shift(8))),
}


class Everything:
    """All events of a step, in order."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)


def build(method: Method, model: str = "resnet8", batch: int = 4) -> Run:
    data = datasets.load("digits").first(8)
    return Run(models.make(model, data.image_shape, data.classes), method, data, batch, seed=3)


# -- one path ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
def test_only_that_path_is_quantized_and_as_the_oracle_does(path: str) -> None:
    name, oracle = PATHS[path]
    run, seen = build(SinglePath(path=path)), Everything()
    run.train(2, observe_last=[seen])
    rounded = [event for event in seen.events if event.format is not None]
    assert rounded and {event.path for event in rounded} == {name}
    edges = {layer.name for layer in run.model.all_layers() if layer.edge}
    assert not edges & {event.layer for event in rounded}
    for event in rounded[:2] + rounded[-1:]:
        values = event.source.values.reshape(-1)
        words = random.words(3, 1, f"{event.layer}/{name}", values.size) if path == "gw" else None
        want = oracle([Fraction(float(x)) for x in values], words)
        assert (want.codes, want.exponent) == (event.result.codes.reshape(-1).tolist(), event.result.exponent)
    others = [event.result for event in seen.events if event.format is None]
    assert all(isinstance(value, np.ndarray) and value.dtype == np.float32 for value in others)


@pytest.mark.slow
def test_without_a_path_it_is_float32() -> None:
    run, other = build(SinglePath()), build(Float32(lr="0.05078125", momentum=0.75))
    run.train(3)
    other.train(3)
    assert run.digest() == other.digest()


def test_batch_norm_reads_the_rounded_x2() -> None:
    """x3 and the gradient of gamma, computed here from what was seen; at inference too."""
    run, seen = build(SinglePath(path="bn")), Recorder("layer2.0.bn1/*", "layer2.0.conv1/x1")
    run.train(1, observe_last=[seen])
    bn = next(layer for layer in run.model.all_layers() if layer.name == "layer2.0.bn1")
    x1, mu, variance = (seen[name] for name in ("layer2.0.conv1/x1", "layer2.0.bn1/mu", "layer2.0.bn1/var"))
    r = np.float32(1) / np.sqrt(variance + np.float32(1e-5))
    x2 = np.round((x1 - mu) * r * np.float32(128)) / np.float32(128)
    assert x2.dtype == np.float32 and not np.array_equal(x2, (x1 - mu) * r)
    assert np.array_equal(x2 * np.float32(1) + np.float32(0), seen["layer2.0.bn1/x3"])  # gamma 1, beta 0
    exact = np.einsum("nhwc,nhwc->c", seen["layer2.0.bn1/e1"].astype(np.float64), x2.astype(np.float64))
    assert np.allclose(seen["layer2.0.bn1/ggamma"], exact, rtol=1e-5, atol=1e-7)
    run.method.set(observers=[seen], training=False)
    run.evaluate()
    assert isinstance(seen.events["layer2.0.bn1/x2"].result, QTensor) and bn.normalizes


# -- widths ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_update_is_seen_and_exact() -> None:
    sizes = Sizes("resnet8", "digits", 192, 1)
    result = wageubn_widths.run(Task(sizes))
    run = build(Wageubn())
    hidden = [(layer, p) for _, layer, p in run.model.all_parameters() if not layer.edge]
    words = 3 * sum(int(np.prod(p.shape)) for _, p in hidden)
    assert [tuple(row[:4]) for row in result.tables[3].rows] == [
        (f"e2={e2}", words, 0, 0) for e2 in ("flag8", "16")
    ]
    assert result.holds
    widths = result.tables[0]
    published = dict(zip(widths.column("path"), widths.column("published"), strict=True))
    assert (published["x4"], published["x2"], published["Accq"], published["W"]) == (8, 16, 13, 24)
    used = dict(zip(widths.column("path"), widths.column("most"), strict=True))
    assert used["x4"] > 8 and used["Wq"] <= 8


@pytest.mark.parametrize("name", ["momentum", "descend"])
def test_an_update_off_by_one_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = getattr(wageubn, name)

    def wrong(*args: Any) -> QTensor:
        q = right(*args)
        return QTensor(q.codes + np.ones_like(q.codes), int(q.exponent), bound=q.bound + 1)

    monkeypatch.setattr(wageubn, name, wrong)
    result = wageubn_widths.run(Task(Sizes("mlp", "digits", 64, 1)))
    (_, words, _, found, clipped), _ = result.tables[3].rows
    assert found >= words - clipped > 0 and result.holds is False


# -- data ratio --------------------------------------------------------------------------------


def test_ratios_are_those_of_the_exact_errors() -> None:
    run, seen, errors = build(Wageubn(), "mlp"), Recorder("*/e3"), wageubn_data_ratio.Errors()
    run.train(2, observe_last=[seen, errors])
    assert set(errors.seen) == {"fc2"}
    source = seen.events["fc2/e3"].source
    assert isinstance(source, Exact)
    exact = [abs(Fraction(x)) for x in source.fractions().reshape(-1)]
    r = Fraction(2) ** quantizers.log2_R(max(exact))
    for name, limit in (("SQ 8", 8), ("Flag 8", 15), ("SQ 16", 16)):
        want = sum(x > r / 2**limit for x in exact) / len(exact)
        assert wageubn_data_ratio.ratio(errors.seen["fc2"][name]) == want
    got = wageubn_data_ratio._octaves(errors.seen["fc2"]["before"])
    above = [x for x in exact if x >= r / 2**20]
    want_octaves = sorted(quantizers_floor_log2(x / r) for x in above)
    assert sorted(got[got >= -20].tolist()) == want_octaves


def quantizers_floor_log2(x: Fraction) -> int:
    n = 0
    while Fraction(2) ** n > x:
        n -= 1
    while Fraction(2) ** (n + 1) <= x:
        n += 1
    return n


@pytest.mark.slow
def test_the_ratio_table_adds_up() -> None:
    result = CHECKS["wageubn-data-ratio"].run(Task(Sizes("resnet8", "digits", 128, 1)))
    ratios, octaves = result.tables
    assert len(ratios.rows) == 8 and all(
        a < b for a, b in zip(ratios.column("SQ 8"), ratios.column("Flag 8"), strict=True)
    )
    for name in ("before", "SQ 8", "Flag 8", "SQ 16"):
        assert sum(octaves.column(name)) == pytest.approx(1)
    assert octaves.column("SQ 8")[-1] == pytest.approx(1 - ratios.column("SQ 8")[0])


# -- arms --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_runs_are_kept_and_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check, told = CHECKS["wageubn-single-path"], []
    task = Task(TINY, out=tmp_path / "kept", progress=lambda *what: told.append(what))
    first = check.run(task)
    assert [row[0] for row in first.tables[0].rows][:2] == ["nothing", "kW = 8"]
    assert told[-1] == ("wageubn", 11, 11) and len(list((tmp_path / "kept").glob("*.json"))) == 11
    kept = tmp_path / "kept" / "e1+seed=1.json"
    kept.unlink()
    trained = []
    once = training._train
    monkeypatch.setattr(training, "_train", lambda *args: trained.append(args) or once(*args))
    assert check.run(task) == first and len(trained) == 1
    text = kept.read_text()
    kept.write_text(text[:40])
    with pytest.raises(training.ConfigError, match=r"e1\+seed=1.json: damaged"):
        check.run(task)
    kept.write_text(text.replace('"batch_size": 64', '"batch_size": 32'))
    with pytest.raises(training.ConfigError, match=r"of another run \(batch_size differ"):
        check.run(task)
    kept.write_text(re.sub('"data_sha256": "..', '"data_sha256": "xx', text))
    with pytest.raises(training.ConfigError, match="the data: --data, --limit or --tests differ"):
        check.run(task)
    held = json.loads(text)
    del held["outcome"]["loss"]
    kept.write_text(json.dumps(held))
    with pytest.raises(training.ConfigError, match="damaged"):
        check.run(task)


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.npz").write_bytes(b"")
    with pytest.raises(
        training.ConfigError, match=r"holds checkpoint.npz, which no check wrote: name another"
    ):
        CHECKS["wageubn-single-path"].run(Task(TINY, out=tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.npz"]


@pytest.mark.slow
def test_batch_sizes_by_both_kinds_of_statistics(tmp_path: Path) -> None:
    """The test batch's own are those of `statistics=batch`, so many test images at a time."""
    task = Task(Sizes("mlp", "digits", 128, 1), out=tmp_path)
    result = CHECKS["wageubn-batch-size"].run(task)
    running, own = result.tables
    data = training.load(task.training, None)
    for k, size in enumerate(wageubn_batch_size.BATCHES):
        run = training.start(task.training, Wageubn(statistics="batch"), data, size)
        run.train(-(-128 // size))
        parts = [slice(at, at + size) for at in range(0, len(data.test_labels), size)]
        answers = [classified(run.model, run.method, data.test_images[part], data.exponent) for part in parts]
        assert own.column("wageubn")[k] == np.mean(np.concatenate(answers) == data.test_labels)
    assert running.column("wageubn") != own.column("wageubn")
    assert running.column("float32") != own.column("float32")
    assert CHECKS["wageubn-batch-size"].run(task) == result
    kept = tmp_path / "wageubn-batch16+seed=1.json"
    kept.write_text(kept.read_text().replace("own_accuracy", "accuracy_own"))
    with pytest.raises(training.ConfigError, match="damaged"):
        CHECKS["wageubn-batch-size"].run(task)


def test_distances_are_taken_seed_by_seed() -> None:
    """Points 5, 7 and 3: 5 in the mean, their deviation 2, of the mean 2 / sqrt(3)."""
    base, other = ([Outcome(x, 1.0, 0.0, "") for x in row] for row in ((0.5, 0.75, 0.25), (0.55, 0.82, 0.28)))
    points, error = training.apart(other, base)
    assert (points, error) == (pytest.approx(5), pytest.approx(2 / 3**0.5))
    assert training.apart(other[:1], base[:1]) == (pytest.approx(5), None)
    assert training.apart([*other[:2], Outcome(None, None, None, "", "step 3")], base) == (None, None)


def test_as_many_test_images_as_told() -> None:
    few, all_of_them = (training.load(replace(TINY, tests=n), None) for n in (64, 100_000))
    assert len(few.test_labels) == len(few.test_images) == 64 and len(all_of_them.test_labels) == 359
    assert np.array_equal(few.test_images, all_of_them.test_images[:64])


def test_the_learning_rate_falls_in_the_last_two_epochs() -> None:
    assert [training.lr_codes(n) for n in (1, 2, 3, 5)] == ["26", "26,6@1", "26,6@1,2@2", "26,6@3,2@4"]
    assert training.lr_codes(3, training.LR_UNIT) == f"{26 / 512},{6 / 512}@1,{2 / 512}@2"


def test_a_run_that_diverges_is_told_and_the_others_go_on() -> None:
    arms = [Arm("wild", lambda: SinglePath(lr="1e38")), Arm("calm", SinglePath)]
    found = training.train(Task(Sizes("mlp", "digits", 320, 1)), arms)
    (wild,), (calm,) = found["wild"], found["calm"]
    assert wild.accuracy is None and wild.why.startswith("step ") and not calm.why
    (told,) = training.broken_off(found, (1,))
    assert told.startswith("wild, seed 1: broke off in step ")
    assert training.means([wild, calm]) == (None, None, None, None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "model"), [("wageubn-batch-size", "mlp"), ("wageubn-data-ratio", "resnet8")]
)
def test_threads_change_nothing(name: str, model: str) -> None:
    task = Task(Sizes(model, "digits", 128, 1))
    found = []
    try:
        for threads in {1, numba.config.NUMBA_NUM_THREADS}:
            numba.set_num_threads(threads)
            found.append(CHECKS[name].run(task))
    finally:
        numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
    assert all(result == found[0] for result in found)
