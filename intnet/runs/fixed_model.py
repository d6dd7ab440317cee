"""Fixed-point models: what AdaPT's training leaves, in packed words, run in integers alone.

    sizes = save("run/model.npz", run)
    model = load("run/model.npz")
    model.evaluate(datasets.load("fashion-mnist")), model.bytes

The file (`runs/archive.py`) holds of every weight layer W^ and b^, of every batch norm its scale and offset:

    words/NAME   uint8: the codes in two's complement, each of its own width, one after another (`bitpack.py`)
    mask/NAME    uint8, where that is smaller: one bit an element, lowest first; the words of the ones follow

and in its description the model's name and shapes, <WL,FL> of every layer and of every tensor its shape,
width, exponent and number of words. Inference rounds activations to nearest in their layer's <WL,FL>; no
float and no random word takes part, so the same images give the same logits everywhere.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from intnet import models
from intnet.datasets import Dataset
from intnet.errors import CheckpointError, IntnetError
from intnet.methods.adapt import Adapt
from intnet.methods.method import LayerLike, Parameter
from intnet.models.model import Model
from intnet.numbers import bitpack
from intnet.numbers.qtensor import QTensor
from intnet.runs import archive, records
from intnet.runs.archive import Arrays, PathLike
from intnet.training.inference import Scores, evaluate
from intnet.training.train import Run

FILE = "model.npz"
KIND = archive.Kind(
    "fixed-point model", "intnet fixed-point model", 1, "if it was one, delete it, `intnet resume` its run"
)
NORMS = ("scale", "offset")  # tensors of a batch norm

_TENSOR = {"shape": [int], "bits": int, "exponent": int, "words": int, "masked": bool}
_DESCRIPTION = {
    "model": {"kind": str, "image_shape": [int], "classes": int},
    "trained": {"data": str, "steps": int, "seed": int, "state_sha256": str},
    "precision": {str: [int]},
    "tensors": {str: _TENSOR},
}


@dataclass(frozen=True)
class Sizes:
    """Bytes of all packed words and masks, of the same parameters in float32, and weights that are 0."""

    packed: int
    float32: int
    zeros: int
    elements: int


# -- saving ------------------------------------------------------------------------------------


def tensors_of(run: Run) -> dict[str, tuple[QTensor, int]]:
    """'layer/W' -> (codes, bits of a word) of all that inference reads, as the next forward pass would."""
    method, found = run.method, {}
    assert isinstance(method, Adapt), "only AdaPT leaves a fixed-point model"
    with method.within(training=False):
        for layer in run.model.all_layers():
            if layer.takes_weight:
                for parameter in layer.parameters:
                    q = method.weight(layer, parameter)
                    found[f"{layer.name}/{parameter.symbol}"] = (q, q.word_bits())
            elif layer.normalizes:
                for name, q in zip(NORMS, method.fold(layer), strict=True):
                    found[f"{layer.name}/{name}"] = (q, q.word_bits())
    return found


def save(path: PathLike, run: Run) -> Sizes:
    """Write the fixed-point model of an AdaPT run as it stands; a killed write leaves the old file."""
    arrays: Arrays = {}
    entries, float32, zeros, elements = {}, 0, 0, 0
    for name, (q, bits) in tensors_of(run).items():
        codes = q.codes.reshape(-1)
        nonzero = codes != 0
        count = int(np.count_nonzero(nonzero))
        masked = bitpack.packed_bytes(count, bits) + -(-codes.size // 8) < bitpack.packed_bytes(
            codes.size, bits
        )
        if masked:
            arrays[f"mask/{name}"] = np.packbits(nonzero, bitorder="little")
        arrays[f"words/{name}"] = bitpack.pack(codes[nonzero] if masked else codes, bits)
        entry = {"shape": list(q.shape), "bits": bits, "exponent": int(q.exponent)}
        entries[name] = entry | {"words": count if masked else codes.size, "masked": masked}
        float32 += 4 * codes.size
        if name.endswith("/W"):
            zeros, elements = zeros + codes.size - count, elements + codes.size
    model = {"kind": run.model.kind, "image_shape": list(run.model.image_shape), "classes": run.model.classes}
    trained = {"data": run.data.name, "steps": run.step, "seed": run.seed, "state_sha256": run.digest()}
    precision = {layer.name: layer.buffers["precision"].codes.tolist() for layer in run.model.all_layers()}
    description = {"model": model, "trained": trained, "precision": precision, "tensors": entries}
    archive.save(path, KIND, arrays, description)
    return Sizes(sum(array.nbytes for array in arrays.values()), float32, zeros, elements)


# -- loading -----------------------------------------------------------------------------------


class Stored(Adapt):
    """AdaPT's inference on stored words."""

    def __init__(self, tensors: dict[str, QTensor]) -> None:
        super().__init__()
        self.set(training=False)
        self.tensors = tensors

    def weight(self, layer: LayerLike, parameter: Parameter) -> QTensor | None:
        """The stored codes; batch norm reads its own by `fold`."""
        return self.tensors.get(f"{layer.name}/{parameter.symbol}")

    def fold(self, layer: LayerLike) -> tuple[QTensor, QTensor]:
        """The stored scale and offset."""
        scale, offset = (self.tensors[f"{layer.name}/{name}"] for name in NORMS)
        return scale, offset


@dataclass(frozen=True)
class FixedModel:
    """A loaded model; description: as in the file; bytes: of its packed words and masks."""

    model: Model
    method: Stored
    description: dict[str, Any]
    bytes: int

    def evaluate(self, data: Dataset) -> Scores:
        """Loss, accuracy and top-5 of the test images."""
        return evaluate(self.model, self.method, data)


def load(path: PathLike) -> FixedModel:
    """The model in a file; CheckpointError names the file, what is wrong and what to do."""
    path = Path(path)
    arrays, description = archive.load(path, KIND)
    try:
        records.check(description, _DESCRIPTION, "its description")
        given = description["model"]
        model = models.make(given["kind"], tuple(given["image_shape"]), given["classes"])
        tensors = {name: _tensor(name, entry, arrays) for name, entry in description["tensors"].items()}
        _check(model, tensors, description, arrays)
        for layer in model.all_layers():
            layer.buffers["precision"] = QTensor(np.array(description["precision"][layer.name], np.int32), 0)
    except (ValueError, KeyError, IntnetError) as error:
        raise CheckpointError(f"{path}: not a model of this intnet ({error}): {KIND.advice}") from None
    return FixedModel(model, Stored(tensors), description, sum(array.nbytes for array in arrays.values()))


def _tensor(name: str, entry: dict[str, Any], arrays: Arrays) -> QTensor:
    """The codes of one tensor."""
    size = int(np.prod(entry["shape"]))
    words = bitpack.unpack(arrays[f"words/{name}"], entry["bits"], entry["words"])
    if not entry["masked"]:
        return QTensor(words.reshape(entry["shape"]), entry["exponent"])
    mask = arrays[f"mask/{name}"]
    kept = np.unpackbits(mask, bitorder="little")
    if mask.size != -(-size // 8) or kept[size:].any() or kept.sum() != entry["words"]:
        raise ValueError(f"{name}: its mask is not of {entry['words']} words among {size} elements")
    codes = np.zeros(size, np.int32)
    codes[kept[:size].astype(bool)] = words
    return QTensor(codes.reshape(entry["shape"]), entry["exponent"])


def _check(model: Model, tensors: dict[str, QTensor], description: dict[str, Any], arrays: Arrays) -> None:
    """ValueError unless the tensors are just those that the model reads."""
    expected = {}
    for layer in model.all_layers():
        for parameter in layer.parameters:
            name = NORMS[parameter is layer.parameters[1]] if layer.normalizes else parameter.symbol
            expected[f"{layer.name}/{name}"] = parameter.shape
    found = {name: q.shape for name, q in tensors.items()}
    if found != expected:
        wrong = sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))
        raise ValueError(f"tensors missing, extra or of another shape: {', '.join(wrong)}")
    masked = sum(entry["masked"] for entry in description["tensors"].values())
    if len(arrays) != len(tensors) + masked:
        raise ValueError("arrays that belong to no tensor")
    for layer in model.all_layers():
        if len(description["precision"].get(layer.name, ())) != 2:
            raise ValueError(f"no <WL,FL> of layer {layer.name}")
