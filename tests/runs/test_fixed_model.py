"""Fixed-point models: the file holds what training left, inference is in integers, and damage is named."""

import json
import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from intnet import datasets
from intnet.autograd import Tensor
from intnet.errors import CheckpointError
from intnet.methods.trace import Event
from intnet.numbers.qtensor import QTensor
from intnet.ops import norm
from intnet.runs import archive, fixed_model, run_folder
from intnet.training.inference import as_codes
from intnet.training.train import Run
from tests.support.command import here, refused
from tests.support.plain_bytes import as_bytes

MODELS = ["lenet5", "resnet8", "mlp"]


def trained(model: str) -> Run:
    """A few steps past the first switch of widths."""
    run = run_folder.build("adapt", {"lr": "0.02", "eps": "0.1"}, model, "digits", 32, limit=256)
    run.train(30)
    return run


@pytest.fixture(scope="module", params=MODELS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    run = trained(request.param)
    path = tmp_path_factory.mktemp("models") / "model.npz"
    fixed_model.save(path, run)
    return run, path


@pytest.mark.slow
def test_logits_are_those_of_the_run(pair: tuple[Run, Path]) -> None:
    run, path = pair
    model = fixed_model.load(path)
    images = as_codes(run.data.test_images[:64], run.data.exponent)
    run.method.set(training=False)
    wanted, got = run.model(Tensor(images), run.method).value, model.model(Tensor(images), model.method).value
    assert np.array_equal(wanted.codes, got.codes) and wanted.exponent == got.exponent
    assert model.evaluate(run.data).accuracy == run.evaluate().accuracy


@pytest.mark.slow
def test_no_float_takes_part(pair: tuple[Run, Path]) -> None:
    """Every value that inference hands on is integer codes, and each is the exact one, rounded to nearest."""
    run, path = pair
    model, seen = fixed_model.load(path), list[Event]()
    model.method.set(observers=[seen.append])
    model.model(Tensor(as_codes(run.data.test_images[:2], run.data.exponent)), model.method)
    assert {event.path for event in seen} >= {"x0", "x1", "x3", "x4"}
    for event in seen:
        assert isinstance(event.result, QTensor), (event.layer, event.path)
        if event.format is None:
            continue
        wl, fl = model.description["precision"][event.layer]
        flat = event.source.fractions().reshape(-1)
        for value, code in zip(flat[:50], event.result.codes.reshape(-1)[:50].tolist(), strict=False):
            nearest = round(Fraction(value) * 2**fl)  # Python rounds half to even
            assert code == min(max(nearest, -(2 ** (wl - 1))), 2 ** (wl - 1) - 1)


@pytest.mark.slow
def test_batch_norm_is_its_scale_and_offset() -> None:
    run = trained("lenet5")
    tensors = fixed_model.tensors_of(run)
    layer = run.model.bn2
    mean, variance = (layer.buffers[key].astype(np.float64) for key in ("running_mean", "running_var"))
    gamma, beta = (run.method.weight(layer, p).astype(np.float64) for p in (layer.weight, layer.bias))
    slope = gamma / np.sqrt(variance + 1e-5)
    for name, value in (("scale", slope), ("offset", beta - mean * slope)):
        q, bits = tensors[f"bn2/{name}"]
        assert bits == 32
        assert np.allclose(q.to_float64(), value, rtol=1e-5, atol=1e-5)  # float32 made them
        assert max(abs(int(code)) for code in q.codes) < 2**31


@pytest.mark.slow
@pytest.mark.parametrize(("gamma", "beta", "fl"), [(0.01, 1, 28), (0, 7, 28), (0.01, 7, 24), (0.5, 0.1, 28)])
def test_batch_norm_in_fine_words_fits_its_container(gamma: float, beta: float, fl: int) -> None:
    """A small scale beside a great offset keeps no bits that the offset's last one outweighs."""
    run = trained("mlp")
    run.method.set(training=False)
    for layer in run.model.all_layers():
        layer.buffers["precision"] = QTensor(np.array([32, fl], np.int32), 0)
    bn = run.model.bn1
    bn.weight.value, bn.bias.value = (np.full(64, v, np.float32) for v in (gamma, beta))
    bn.buffers |= {"running_mean": np.zeros(64, np.float32), "running_var": np.ones(64, np.float32)}
    x = QTensor(np.array([[-(2**31), 0, 2**31 - 1]] * 64, np.int64).T, -fl)
    scale, offset = run.method.fold(bn)
    got = norm.scaled(x, scale, offset).fractions().astype(np.float64)
    rounded, slope = (run.method.weight(bn, p).astype(np.float64) for p in (bn.bias, bn.weight))
    want = slope / np.sqrt(1 + 1e-5) * x.codes * 2.0**-fl + rounded
    assert np.allclose(got, want, rtol=1e-6, atol=2.0**-27)
    assert np.isfinite(run.evaluate().accuracy)


@pytest.mark.slow
def test_the_file_holds_packed_words(pair: tuple[Run, Path]) -> None:
    run, path = pair
    arrays, description = archive.load(path, fixed_model.KIND)
    for name, (q, bits) in fixed_model.tensors_of(run).items():
        entry, codes = description["tensors"][name], q.codes.reshape(-1).tolist()
        if entry["masked"]:
            mask = int.from_bytes(arrays[f"mask/{name}"].tobytes(), "little")
            assert mask == sum((code != 0) << i for i, code in enumerate(codes))
            codes = [code for code in codes if code]
        assert arrays[f"words/{name}"].tobytes() == as_bytes(codes, bits)
    assert fixed_model.load(path).bytes == sum(array.nbytes for array in arrays.values())


@pytest.mark.slow
def test_sparse_weights_take_a_mask(tmp_path: Path) -> None:
    run = trained("mlp")
    weight = run.model.fc1.weight
    weight.value = np.where(np.arange(weight.value.size).reshape(weight.shape) % 7, 0, weight.value)
    weight.value = weight.value.astype(np.float32)
    sizes = fixed_model.save(tmp_path / "model.npz", run)
    arrays, _ = archive.load(tmp_path / "model.npz", fixed_model.KIND)
    assert "mask/fc1/W" in arrays and sizes.zeros >= weight.value.size * 6 // 7
    assert fixed_model.load(tmp_path / "model.npz").evaluate(run.data).accuracy == run.evaluate().accuracy


@pytest.mark.slow
def test_damage_is_named(pair: tuple[Run, Path], tmp_path: Path) -> None:
    """One bit of every array's middle byte; what a zip file says around them says nothing of the model."""
    _, path = pair
    content = path.read_bytes()
    for array in archive.load(path, fixed_model.KIND)[0].values():
        inside = array.tobytes()
        bad = bytearray(content)
        bad[content.index(inside) + len(inside) // 2] ^= 1
        (tmp_path / "bad.npz").write_bytes(bad)
        with pytest.raises(CheckpointError, match=r"bad\.npz"):
            fixed_model.load(tmp_path / "bad.npz")
    (tmp_path / "bad.npz").write_bytes(b"")
    with pytest.raises(CheckpointError, match="empty"):
        fixed_model.load(tmp_path / "bad.npz")


@pytest.mark.slow
def test_a_consistent_forgery_is_refused(pair: tuple[Run, Path], tmp_path: Path) -> None:
    """Hashes hold, contents do not: another shape, a missing tensor, an extra array, no precision."""
    _, path = pair
    first = next(iter(archive.load(path, fixed_model.KIND)[1]["tensors"]))

    def forged(change: str) -> Path:
        arrays, description = archive.load(path, fixed_model.KIND)
        arrays, description = (
            dict(arrays),
            {k: v for k, v in description.items() if k not in ("format", "version", "definition")},
        )
        if change == "shape":
            description["tensors"][first]["shape"].append(2)
        elif change == "missing":
            del description["tensors"][first], arrays[f"words/{first}"]
        elif change == "extra":
            arrays["words/more"] = np.zeros(1, np.uint8)
        elif change == "precision":
            description["precision"].popitem()
        elif change == "words":
            arrays[f"words/{first}"] = arrays[f"words/{first}"][:-1]
        else:
            description["model"]["kind"] = "vgg"
        archive.save(tmp_path / f"{change}.npz", fixed_model.KIND, arrays, description)
        return tmp_path / f"{change}.npz"

    for change in ("shape", "missing", "extra", "precision", "words", "kind"):
        with pytest.raises(CheckpointError, match=rf"{change}\.npz: not a model of this intnet"):
            fixed_model.load(forged(change))


@pytest.mark.slow
def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """train leaves model.npz; eval reads it alone, to the accuracy of the run."""
    out = tmp_path / "run"
    call = ("train", "--method", "adapt", "--model", "mlp", "--data", "digits", "--steps", "30")
    status, text, err = here(capsys, *call, "--set", "lr=0.02", "--set", "eps=0.1", "--out", out)
    assert (status, err) == (0, "") and "bytes packed" in text
    wanted = json.loads(here(capsys, "eval", out, "--json")[1])
    alone = shutil.copy(out / "model.npz", tmp_path / "alone.npz")
    got = json.loads(here(capsys, "eval", alone, "--json")[1])
    assert {key: got[key] for key in ("test_accuracy", "state_sha256", "step")} == {
        key: wanted[key] for key in ("test_accuracy", "state_sha256", "step")
    }
    assert f"{got['bytes']:,} bytes packed" in text
    assert f"packed words: {got['bytes']:,} bytes" in here(capsys, "eval", alone)[1]
    assert "holds batch norm as constants" in refused(capsys, "eval", alone, "--reestimate", 2)
    if datasets.available("fashion-mnist"):
        error = refused(capsys, "eval", alone, "--data", "fashion-mnist")
        assert "takes images (H, W, C) = (8, 8, 1)" in error


def test_a_model_that_is_gone_is_made_again(tmp_path: Path) -> None:
    with run_folder.create(
        tmp_path / "run", run_folder.build("adapt", {}, "mlp", "digits", 16, limit=64), 3
    ) as work:
        work.train()
    path = tmp_path / "run" / fixed_model.FILE
    content = path.read_bytes()
    path.unlink()
    with run_folder.resume(tmp_path / "run") as work:
        work.train()
    assert path.read_bytes() == content
