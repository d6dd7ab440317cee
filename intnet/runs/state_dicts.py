"""State dicts: a model's first weights from a file of PyTorch's, and a trained model as such a file.

    given = load("resnet50.safetensors", run.model, run.method)      # what was taken, what was not
    save("mine.npz", run.model, run.method)

Names and shapes are torchvision's, as this library's are (`Model.all_parameters`), with running_mean and
running_var of batch norm. num_batches_tracked, a count that nothing here reads, is passed over. PyTorch
flattens images as (C, H, W), this library as (H, W, C): columns of the linear layer after, and numbers of a
batch norm between them, are put in order.
Where a tensor does not fit, nothing is taken, unless `partial` says that the others are wanted without it.

What becomes of the numbers is the method's, as of those drawn from a seed (`Method.initialize`): float32
masters stay as they are; `wageubn` rounds hidden layers to 2^-23 and limits W to +-(1 - 2^-23). Running
statistics are float32, under `wageubn` rounded to 2^-31. They go on by the rules of `BatchNorm2d`: by 1/8 a
step where PyTorch has 1/10, towards the variance over n where PyTorch has n - 1. Files: `tensor_files.py`.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from intnet.errors import ContainerError, DataError
from intnet.exact.quantize import quantize
from intnet.layers import BatchNorm2d, Layer
from intnet.methods.method import Method, to_float32
from intnet.models.model import Model
from intnet.numbers.formats import Direct
from intnet.numbers.qtensor import QTensor
from intnet.runs import tensor_files
from intnet.runs.archive import PathLike
from intnet.runs.flattened import Sides, flattened
from intnet.runs.tensor_files import Stored

MEAN, VARIANCE = "running_mean", "running_var"
STATISTICS = {MEAN: 0, VARIANCE: 1}  # and what they are ahead of the first step
PASSED_OVER = "num_batches_tracked"
GIVEN = {  # shape (`runs/records.py`) of what `load` gives
    "sha256": str,
    "tensors": int,
    "numbers": int,
    "rounded": int,
    "limited": int,
    "passed_over": int,
    "left": {str: str},
}

Floats = dict[str, np.ndarray]


# -- taking ------------------------------------------------------------------------------------


def load(path: PathLike, model: Model, method: Method, partial: bool = False) -> dict[str, Any]:
    """Give the started `model` the tensors of a file as first values under `method`.

    sha256: of the file; tensors, numbers: taken; rounded, limited: numbers that were changed on the way;
    passed_over: tensors named num_batches_tracked; left: name -> why, of the file's tensors that were not
    taken and of the model's that were not given. DataError lists what does not fit (with `partial`: where
    nothing fits), or says what is wrong with the file.
    """
    with tensor_files.opened(path) as found:
        passed_over = [name for name in found if name.rpartition(".")[2] == PASSED_OVER]
        values, left, rounded = _fit({k: v for k, v in found.items() if k not in passed_over}, model)
    if left and not (partial and values):
        raise DataError(
            f"{path}: {len(left):,} tensors do not fit {model.kind} for {model.classes:,} classes and images "
            f"{model.image_shape}, {len(values):,} do; {_listed(left)}"
        )
    with open(path, "rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    changed, limited = _take(Path(path), values, model, method)
    return {
        "sha256": sha256,
        "tensors": len(values),
        "numbers": sum(value.size for value in values.values()),
        "rounded": rounded + changed,
        "limited": limited,
        "passed_over": len(passed_over),
        "left": left,
    }


def _listed(left: dict[str, str]) -> str:
    """'not in the file: fc.weight, fc.bias; of shape ...: conv1.weight': every reason once."""
    names: dict[str, list[str]] = {}
    for name, why in left.items():
        names.setdefault(why, []).append(name)
    return "; ".join(f"{why}: {', '.join(of)}" for why, of in names.items())


def _shapes(model: Model) -> dict[str, tuple[int, ...]]:
    """Name -> shape of everything that a state dict holds."""
    shapes = {name: parameter.shape for name, _, parameter in model.all_parameters()}
    for layer in _norms(model):
        shapes |= {f"{layer.name}.{key}": (layer.num_features,) for key in STATISTICS}
    return shapes


def _norms(model: Model) -> Iterator[BatchNorm2d]:
    return (layer for layer in model.all_layers() if isinstance(layer, BatchNorm2d))


def _fit(found: dict[str, Stored], model: Model) -> tuple[Floats, dict[str, str], int]:
    """(values that fit, name -> why one does not, numbers that were rounded to float32)."""
    shapes, values, left, rounded = _shapes(model), {}, {}, 0
    for name, stored in found.items():
        why = _misfit(stored, shapes.get(name))
        if not why:
            value, changed = stored.read()
            why = _bad_numbers(name, value)
        if why:
            left[name] = why
        else:
            values[name], rounded = value, rounded + changed
    for name in shapes:
        if name not in found:
            left[name] = "not in the file"
    for layer in _norms(model):
        mean, variance = (f"{layer.name}.{key}" for key in STATISTICS)
        for name, other in ((mean, variance), (variance, mean)):
            if name in values and other in left:
                del values[name]
                left[name] = f"of no use without {other}"
    return values, left, rounded


def _misfit(stored: Stored, shape: tuple[int, ...] | None) -> str:
    """Why a tensor of a file is none of the model's, '' for nothing."""
    if shape is None:
        return "the model has no such tensor"
    if not stored.readable():
        return f"of type {stored.dtype}, not one of {', '.join(tensor_files.TYPES)}"
    return "" if stored.shape == shape else f"of shape {stored.shape}, here {shape}"


def _bad_numbers(name: str, value: np.ndarray) -> str:
    wrong = ~np.isfinite(value)
    if np.any(wrong):
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        return f"NaN, infinite or beyond float32 at index {index}"
    return "a negative variance" if name.endswith(VARIANCE) and np.any(value < 0) else ""


def _take(path: Path, values: Floats, model: Model, method: Method) -> tuple[int, int]:
    """Set parameters and running statistics; how many numbers were rounded, and limited."""
    stored, images = [], flattened(model, method)
    try:
        for name, layer, parameter in model.all_parameters():
            if name not in values:
                continue
            method.saturated.pop(f"{layer.name}/{parameter.symbol}", None)
            parameter.slots = {}
            method.initialize(layer, parameter, _reordered(images.get(layer.name), layer, values[name], 0, 2))
            stored.append(parameter.value)
        for norm in _norms(model):
            name = f"{norm.name}.{MEAN}"
            if name in values:
                for key in STATISTICS:
                    value = values[f"{norm.name}.{key}"]
                    ordered = _reordered(images.get(norm.name), norm, value, 0, 2)
                    norm.buffers[key] = _statistic(norm, ordered)
                stored += [norm.buffers[key] for key in STATISTICS]
    except ContainerError:
        raise DataError(
            f"{path}: {name}: numbers beyond what {method.name} stores: scale them first"
        ) from None
    counts = [value.status for value in stored if isinstance(value, QTensor) and value.status is not None]
    return sum(status.inexact for status in counts), sum(status.saturated for status in counts)


def _statistic(layer: BatchNorm2d, value: np.ndarray) -> np.ndarray | QTensor:
    """A running statistic as the layer keeps it: as integers where its gamma is one."""
    if not isinstance(layer.weight.value, QTensor):
        return value
    q = quantize(value, Direct(-layer.EXPONENT + 1))
    return QTensor(q.codes.astype(np.int64), layer.EXPONENT, bound=q.bound, status=q.status)


def _reordered(image: Sides | None, layer: Layer, value: np.ndarray, channels_at: int, to: int) -> np.ndarray:
    """(.., C*H*W) as (.., H*W*C) or back, of a layer that reads a flattened (H, W, C); others as they are.

    channels_at, to: places of the channels among the three before and after, 0 or 2
    """
    if image is None or value.ndim != (1 if layer.normalizes else 2):
        return value  # a linear layer's bias counts outputs
    sides = list(image)
    sides.insert(channels_at, sides.pop())
    images = np.moveaxis(value.reshape(-1, *sides), channels_at + 1, to + 1)
    return np.ascontiguousarray(images).reshape(value.shape)


# -- giving ------------------------------------------------------------------------------------


def save(path: PathLike, model: Model, method: Method) -> tuple[int, int]:
    """Write parameters and running statistics as float32; (tensors, numbers that were rounded to it).

    method: that of the started model
    """
    state, rounded, images = {}, 0, flattened(model, method)
    for name, layer, parameter in model.all_parameters():
        value = to_float32(parameter.value, name)
        rounded += _inexact(parameter.value, value)
        state[name] = _reordered(images.get(layer.name), layer, value, 2, 0)
    for norm in _norms(model):
        for key, start in STATISTICS.items():
            kept = norm.buffers.get(key, np.full(norm.num_features, start, np.float32))
            value = to_float32(kept, f"{norm.name}.{key}")
            rounded += _inexact(kept, value)
            state[f"{norm.name}.{key}"] = _reordered(images.get(norm.name), norm, value, 2, 0)
    tensor_files.save(path, state)
    return len(state), rounded


def _inexact(source: object, value: np.ndarray) -> int:
    """How many codes float32 does not hold: below 2^53, which float64 holds, as stored words are."""
    if not isinstance(source, QTensor):
        return 0
    return int(np.count_nonzero(np.ldexp(value.astype(np.float64), -int(source.exponent)) != source.codes))
