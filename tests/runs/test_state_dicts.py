"""State dicts: a file of torchvision's names is the same net here, and what does not fit is said."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet import datasets, methods, models
from intnet.autograd import Tensor
from intnet.errors import DataError
from intnet.layers import BatchNorm2d, Conv2d, Dropout, Flatten, Linear, ReLU
from intnet.methods.method import Method, to_float32
from intnet.models.model import Model
from intnet.models.resnet import BasicBlock, Bottleneck, ResNet
from intnet.runs import state_dicts
from intnet.training.inference import as_codes
from intnet.training.train import Run
from tests.support import torch_nets
from tests.support.torch_nets import State

IMAGE = (18, 22, 3)


def narrow(block: Any = Bottleneck, stem: str = "imagenet", classes: int = 5) -> Model:
    return ResNet("narrow", block, (4, 8), (1, 2), stem, IMAGE, classes)


class Own(Model):
    """A user's: what it flattens goes through four layers before a linear one reads it."""

    def __init__(self) -> None:
        super().__init__("own", (5, 3, 2), 4)
        self.conv, self.flatten, self.drop, self.norm = Conv2d(2, 6, 3), Flatten(), Dropout(), BatchNorm2d(18)
        self.relu, self.fc, self.last = ReLU(), Linear(18, 18), Linear(18, 4)
        self.finish()

    def forward(self, x: Tensor, method: Method) -> Tensor:
        x = self.flatten(self.conv(x, method), method)
        x = self.relu(self.norm(self.drop(x, method), method), method)
        return self.last(self.fc(x, method), method)


def of_torch(model: Model, seed: int = 1) -> dict[str, np.ndarray]:
    """A state dict as PyTorch would have it, of random numbers, with its counts of batches."""
    draw, state = np.random.default_rng(seed), {}
    for name, layer, parameter in model.all_parameters():
        scale = 0.5 / np.sqrt(np.prod(parameter.shape[1:])) if len(parameter.shape) > 1 else 0.3
        state[name] = (draw.normal(size=parameter.shape) * scale + (parameter.start == "ones")).astype(
            np.float32
        )
        if parameter.symbol == "gamma":
            state[f"{layer.name}.running_mean"] = draw.normal(size=parameter.shape).astype(np.float32)
            state[f"{layer.name}.running_var"] = draw.uniform(0.3, 2, parameter.shape).astype(np.float32)
            state[f"{layer.name}.num_batches_tracked"] = np.array(7)
    return state


def started(model: Model, method: Method) -> Run:
    draw = np.random.default_rng(5)
    pixels = draw.integers(0, 256, (4, *model.image_shape)).astype(np.uint8)
    labels = np.arange(4) % model.classes
    data = datasets.from_arrays(pixels, labels, pixels[:2], labels[:2], model.classes)
    return Run(model, method, data, 4)


def loaded(
    folder: Path, model: Model, method: Method, state: State, partial: bool = False
) -> tuple[Run, Any]:
    np.savez(folder / "given.npz", **state)
    run = started(model, method)
    return run, state_dicts.load(folder / "given.npz", model, method, partial)


def logits(run: Run) -> np.ndarray:
    run.method.set(training=False)
    return run.model(Tensor(as_codes(run.data.test_images, -8)), run.method).value


def there(run: Run) -> np.ndarray:
    """The same images as PyTorch has them."""
    return run.data.test_images.transpose(0, 3, 1, 2).astype(np.float64) / 256


# -- the same net ------------------------------------------------------------------------------


@pytest.mark.parametrize("stem", ["cifar", "imagenet"])
@pytest.mark.parametrize("block", [BasicBlock, Bottleneck])
def test_residual_networks_are_pytorchs(tmp_path: Path, block: Any, stem: str) -> None:
    model = narrow(block, stem)
    state = of_torch(model)
    run, given = loaded(tmp_path, model, methods.make("float32"), state)
    want = torch_nets.resnet(state, there(run), stem, stages=2)
    assert np.abs(want).max() > 0.1
    np.testing.assert_allclose(logits(run), want, rtol=1e-4, atol=1e-5)
    norms = sum(name.endswith("running_var") for name in state)
    assert (given["tensors"], given["passed_over"], given["left"]) == (len(state) - norms, norms, {})
    assert (given["rounded"], given["limited"]) == (0, 0)


@pytest.mark.slow
def test_alexnet_is_pytorchs_and_goes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its real convolutions; 24 outputs where torchvision has 4096, for the time that takes."""
    monkeypatch.setattr(
        sys.modules["intnet.models.alexnet"],
        "Linear",
        lambda *sizes: Linear(*(24 if n == 4096 else n for n in sizes)),
    )
    model = models.make("alexnet-imagenet", (64, 63, 3), 7)
    state = of_torch(model)
    run, _ = loaded(tmp_path, model, methods.make("float32"), state)
    np.testing.assert_allclose(logits(run), torch_nets.alexnet(state, there(run)), rtol=1e-4, atol=1e-5)
    state_dicts.save(tmp_path / "back.npz", model, run.method)
    with np.load(tmp_path / "back.npz") as back:
        assert {name: back[name].tobytes() for name in back} == {k: v.tobytes() for k, v in state.items()}


@pytest.mark.parametrize("name", ["lenet5", "mlp"])
def test_flattened_images_go_there_and_back(tmp_path: Path, name: str) -> None:
    """A file's columns count (C, H, W): those of one position and channel are where this library has them."""
    model = models.make(name, (9, 8, 2), 3)
    height, width, channels = (9, 8, 2) if name == "mlp" else (2, 2, 16)
    state = of_torch(model)
    run, _ = loaded(tmp_path, model, methods.make("float32"), state)
    ours = model.fc1.weight.value.reshape(-1, height, width, channels)  # type: ignore[attr-defined]
    theirs = state["fc1.weight"].reshape(-1, channels, height, width)
    assert ours[:, 1, 0, 1].tolist() == theirs[:, 1, 1, 0].tolist()
    assert np.sort(ours, axis=None).tolist() == np.sort(theirs, axis=None).tolist()
    state_dicts.save(tmp_path / "back.safetensors", model, run.method)
    again = models.make(name, (9, 8, 2), 3)
    started(again, methods.make("float32"))
    state_dicts.load(tmp_path / "back.safetensors", again, methods.make("float32"))
    assert again.fc1.weight.value.tobytes() == model.fc1.weight.value.tobytes()  # type: ignore[attr-defined]


@pytest.mark.parametrize("method", methods.METHODS)
def test_a_model_of_a_user_s_own_need_not_say_what_it_flattens(tmp_path: Path, method: str) -> None:
    """Columns of `fc` and numbers of `norm`; the biases of `fc`, as many, are outputs."""
    run, again = started(Own(), methods.make(method)), started(Own(), methods.make(method))
    for _ in range(2):
        run.train_step()
    state_dicts.save(tmp_path / "own.npz", run.model, run.method)
    with np.load(tmp_path / "own.npz") as found:
        there = {name: found[name] for name in found}
    for name, here in run.model.state_dict().items():
        if name in there:
            want = to_float32(here, name)
            if name.startswith("norm.") or name == "fc.weight":
                want = want.reshape(-1, 3, 1, 6).transpose(0, 3, 1, 2).reshape(want.shape)
            assert there.pop(name).tolist() == want.tolist(), name
    assert not there
    state_dicts.load(tmp_path / "own.npz", again.model, again.method)
    state_dicts.save(tmp_path / "again.npz", again.model, again.method)
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "own.npz").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("method", methods.METHODS)
def test_a_run_of_no_steps_is_written_whole(tmp_path: Path, method: str) -> None:
    """Running statistics begin at 0 and 1: a file without them could not be loaded again."""
    run, again = started(narrow(), methods.make(method)), started(narrow(), methods.make(method))
    state_dicts.save(tmp_path / "new.npz", run.model, run.method)
    with np.load(tmp_path / "new.npz") as new:
        kept = {name: new[name] for name in new}
    assert kept["bn1.running_mean"].tolist() == [0] * 4 and kept["bn1.running_var"].tolist() == [1] * 4
    assert kept["bn1.running_var"].dtype == np.float32
    assert state_dicts.load(tmp_path / "new.npz", again.model, again.method)["left"] == {}
    for one in (run, again):
        one.train_step()
    assert run.digest() == again.digest()


# -- how a method stores it ---------------------------------------------------------------------


def test_wageubn_rounds_limits_and_counts(tmp_path: Path) -> None:
    model = narrow()
    state = of_torch(model)
    for name, value in state.items():  # on the grid, but for the few that follow
        if name != "conv1.weight" and not name.startswith("fc."):
            state[name] = np.round(value * 2**16) / np.float32(2**16)
    name = "layer1.0.conv2.weight"
    state[name].reshape(-1)[:4] = [1.5, -1, 2**-24, 3 * 2**-24]
    state["bn1.running_var"][:2] = [2**-32, 3 * 2**-32]
    state["bn1.weight"][0] = 1.5
    run, given = loaded(tmp_path, model, methods.make("wageubn"), state)
    stored = {key: p.value for key, _, p in model.all_parameters()}
    top = 2**23 - 1
    assert stored[name].codes.reshape(-1)[:4].tolist() == [top, -top, 0, 2]
    assert stored["bn1.weight"].codes[0] == 3 << 22
    assert (given["limited"], given["rounded"]) == (2, 4)
    assert stored["conv1.weight"].tobytes() == state["conv1.weight"].tobytes()  # an edge, in float32
    norm = model.bn1.buffers  # type: ignore[attr-defined]
    assert norm["running_var"].codes[:2].tolist() == [0, 2] and norm["running_var"].exponent == -31
    want = [round(float(v) * 2**31) for v in state["bn1.running_mean"]]
    assert norm["running_mean"].codes.tolist() == want
    assert np.isfinite(run.train_step().loss)


def test_beyond_what_wageubn_stores(tmp_path: Path) -> None:
    state = of_torch(narrow())
    for name in ("layer1.0.bn1.weight", "layer1.0.bn1.running_var"):
        wrong = dict(state)
        wrong[name] = np.full_like(state[name], 1e30)
        with pytest.raises(DataError, match=r"layer1.0.bn1.*beyond what wageubn stores"):
            loaded(tmp_path, narrow(), methods.make("wageubn"), wrong)


@pytest.mark.slow
@pytest.mark.parametrize("method", methods.METHODS)
def test_out_and_in_again_trains_on_with_the_same_numbers(tmp_path: Path, method: str) -> None:
    run = started(narrow(), methods.make(method))
    run.train(2)
    _, rounded = state_dicts.save(tmp_path / "x.safetensors", run.model, run.method)
    other = started(narrow(), methods.make(method))
    given = state_dicts.load(tmp_path / "x.safetensors", other.model, other.method)
    assert (given["rounded"], given["limited"]) == (0, 0)
    before, after = ({key: p.value for key, _, p in one.model.all_parameters()} for one in (run, other))
    for name, value in before.items():
        assert method == "wageubn" or np.array_equal(value, after[name])
    assert rounded == 0 or method == "wageubn"
    if method in ("float32", "saved"):  # others remember more than a state dict holds
        assert np.array_equal(logits(run), logits(other))
    other.method.set(training=True)
    assert np.isfinite(other.train_step().loss)


# -- what does not fit -------------------------------------------------------------------------


def misfits() -> dict[str, np.ndarray]:
    state = of_torch(narrow())
    state["fc.weight"] = np.ones((9, 32), np.float32)
    del state["fc.bias"]
    state["head.weight"] = np.ones(3, np.float32)
    state["conv1.weight"] = state["conv1.weight"].astype(np.int64)
    state["layer1.0.conv1.weight"][0, 1] = np.nan
    state["bn1.running_var"][2] = -1
    state["bn1.weight"] = state["bn1.weight"].astype(np.float64)
    state["bn1.weight"][1] = 1e300
    return state


LEFT = {
    "fc.weight": "of shape (9, 32), here (5, 32)",
    "fc.bias": "not in the file",
    "head.weight": "the model has no such tensor",
    "conv1.weight": "of type int64, not one of F16, BF16, F32, F64",
    "layer1.0.conv1.weight": "NaN, infinite or beyond float32 at index (0, 1, 0, 0)",
    "bn1.running_var": "a negative variance",
    "bn1.running_mean": "of no use without bn1.running_var",
    "bn1.weight": "NaN, infinite or beyond float32 at index (1,)",
}


def test_everything_that_does_not_fit_is_listed(tmp_path: Path) -> None:
    model = narrow()
    method = methods.make("float32")
    run = started(model, method)
    before = run.digest()
    np.savez(tmp_path / "given.npz", **misfits())
    with pytest.raises(DataError) as error:
        state_dicts.load(tmp_path / "given.npz", model, method)
    assert all(f"{why}: " in str(error.value) and name in str(error.value) for name, why in LEFT.items())
    assert "8 tensors do not fit narrow for 5 classes and images (18, 22, 3)" in str(error.value)
    assert run.digest() == before


def test_in_part(tmp_path: Path) -> None:
    fresh = started(narrow(), methods.make("float32"))
    run, given = loaded(tmp_path, narrow(), methods.make("float32"), misfits(), partial=True)
    assert given["left"] == LEFT
    assert run.model.fc.weight.value.tobytes() == fresh.model.fc.weight.value.tobytes()  # type: ignore[attr-defined]
    assert "running_mean" not in run.model.bn1.buffers  # type: ignore[attr-defined]
    assert np.isfinite(run.train_step().loss)
    np.savez(tmp_path / "none.npz", other=np.ones(3, np.float32))
    with pytest.raises(DataError, match=r"0 do; the model has no such tensor: other; not in the file: conv1"):
        state_dicts.load(tmp_path / "none.npz", run.model, run.method, partial=True)
