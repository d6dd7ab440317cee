"""What a tape holds of activations: the memory model of saved-activation quantization, and real counts.

    M = b/8 * N + metadata        N elements saved, b bits a code          (Li, thesis, sec. 4.1.1)

    blocks(model, method, batch)    a row a block: its output, as in the thesis's table 4.1, and what is held
    values(run)                     what the tape of a run's next step really holds, value by value
    of_run, of_model                the reports of both

The table counts one tensor a block. The tape holds more: the input of every convolution and batch norm.
"""

import dataclasses
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from intnet import methods, models, ops
from intnet.autograd import Tensor
from intnet.errors import ConfigError
from intnet.exact.blocks.buckets import Packed
from intnet.layers import Layer
from intnet.methods.packing import MASK, Plan
from intnet.methods.saved import Saved
from intnet.methods.trace import Recorder
from intnet.models import Model
from intnet.numbers.qtensor import QTensor
from intnet.papers.costs.report import Report
from intnet.runs import report
from intnet.runs.identity import identity
from intnet.show import tables
from intnet.show.tables import Table
from intnet.training.tape import unit
from intnet.training.train import Run

ELSEWHERE = "elsewhere"  # row of what the tape holds outside of all blocks


@dataclass(frozen=True)
class Block:
    """A row of the table, for a batch.

    elements: of the block's output; nominal: its bytes by b/8 * N, by the block's own codec (32 bits where
    float32 stays); packed: with metadata, codes as they are
    held: elements that the tape saves of this block's layers; held_packed: their bytes, masks included
    """

    name: str
    elements: int
    nominal: float
    packed: float
    held: int
    held_packed: float


@dataclass(frozen=True)
class Value:
    """What the tape holds of one value.

    codec: how it is packed, None of float32 and of masks; nominal: b, of a mix the mean; codes: how many
    different ones the widest width has, found: how many there are; nbytes: codes and metadata
    """

    layer: str
    path: str
    codec: str | None
    nominal: float
    codes: int | None
    found: int | None
    elements: int
    nbytes: int
    clipped: int

    @property
    def bits(self) -> float:
        """Bits an element, with metadata."""
        return 8 * self.nbytes / self.elements


def plan_of(method: Saved, layer: Layer, path: str = "x0") -> Plan | None:
    """How the method packs a value."""
    assert method.packing is not None
    return method.packing.plan(layer, path)


def nominal_bits(plan: Plan | None, epoch: int = 0) -> float:
    """b, of L levels log2 L, of a mix the mean; 32 where float32 stays."""
    if plan is None:
        return 32.0
    base, wider = (plan.codec.nominal(bits) for bits in (plan.codec.bits, plan.codec.mix or plan.codec.bits))
    return base + plan.promoted(epoch) * (wider - base)


def bytes_of(elements: int, path: str, plan: Plan | None, epoch: int = 0) -> float:
    """Bytes of a value on the tape, by the memory model."""
    if plan is None or not plan.at_once:
        return 4.0 * elements
    return elements / 8 if path == MASK else plan.codec.packed_bytes(elements, plan.promoted(epoch))


def blocks(model: Model, method: Saved, batch: int, epoch: int = 0) -> list[Block]:
    """A row a block of `model.blocks`, mixes as in an epoch. One image goes through the model, for shapes."""
    method.start(model.all_layers(), 1)
    image = QTensor(np.zeros((1, *model.image_shape), np.int16), -8, bound=255)
    ops.softmax_cross_entropy(model(Tensor(image), method), labels=np.zeros(1, np.int64))
    layers, left = dict(model.walk()), dict(method.held)

    def on_the_tape(names: list[str]) -> tuple[int, float]:
        held, packed = 0, 0.0
        for name in names:
            layer, _, path = name.rpartition("/")
            elements = batch * left.pop(name).elements
            held += 0 if path == MASK else elements
            packed += bytes_of(elements, path, plan_of(method, layers[layer], path), epoch)
        return held, packed

    rows = []
    for name, at in model.blocks.items():
        elements, plan = batch * int(np.prod(layers[at].output_shape)), _plan_of_block(method, layers[at])
        inside = [key for key in left if f"{key.rpartition('/')[0]}.".startswith(f"{at}.")]
        bits = nominal_bits(plan, epoch) if plan is not None and plan.at_once else 32
        packed = bytes_of(elements, "x0", plan, epoch)
        rows.append(Block(name, elements, elements * bits / 8, packed, *on_the_tape(inside)))
    return [*rows, Block(ELSEWHERE, 0, 0.0, 0.0, *on_the_tape(list(left)))] if left else rows


def _plan_of_block(method: Saved, layer: Layer) -> Plan | None:
    """By the patterns that hold for all in it: layer2.* is layer2's codec too."""
    whole = copy(layer)
    whole.name += "." if any(True for _ in layer.children()) else ""
    return plan_of(method, whole)


def values(run: Run) -> list[Value]:
    """Every value that the tape held in one more step of a run of method `saved`."""
    method = run.method
    assert isinstance(method, Saved)
    seen, layers = Recorder("*/x?s"), {layer.name: layer for layer in run.model.all_layers()}
    epoch = run.step // run.steps_per_epoch  # of that step; after it another may begin
    run.train(run.step + 1, observe_last=[seen])
    rows = []
    for key, held in method.held.items():
        layer, _, path = key.rpartition("/")
        plan = plan_of(method, layers[layer], path)
        event = seen.events.get(f"{key}s")
        if event is None or plan is None:
            nominal = 1.0 if path == MASK and plan is not None and plan.at_once else 32.0
            rows.append(Value(layer, path, None, nominal, None, None, held.elements, held.nbytes, 0))
            continue
        packed: Packed = event.result
        widest = max(packed.codec.widths)
        found, bits = distinct(packed, widest), nominal_bits(plan, epoch)
        counts = (packed.codec.distinct(widest), found, held.elements, held.nbytes, packed.clipped)
        rows.append(Value(layer, path, str(packed.codec), bits, *counts))
    return rows


def distinct(packed: Packed, bits: int) -> int:
    """Different codes in the buckets of a width."""
    widths = np.repeat(packed.widths, packed.codec.size(packed.elements))[: packed.elements]
    return int(np.unique(packed.codes().reshape(-1)[widths == bits]).size)


# -- what is told of it ------------------------------------------------------------------------

MEANT = {"kB": "kB of 2^10 bytes", "MB": "MB of 2^20 bytes"}
SUMMED = ("elements", "nominal", "packed", "held", "held_packed")


def of_run(folder: str, run: Run) -> Report:
    """Every value of one more step, which is not saved; and the blocks of the same model, not yet trained."""
    batch, epoch = len(run.batch(run.step)[1]), run.step // run.steps_per_epoch
    rows, own = values(run), identity(run)
    model = models.make(run.model.kind, run.model.image_shape, run.model.classes)
    parts = blocks(model, _saved(run.method.name, run.method.settings()), batch, epoch)
    title = f"{report.title(own)}: the tape of step {run.step}, {batch} images"
    result: dict[str, Any] = {"run": folder} | {key: own[key] for key in ("method", "model", "data")}
    told = [dataclasses.asdict(row) | {"bits": row.bits} for row in rows]
    result |= {"step": run.step, "batch_size": batch, "values": told, "total": _total(rows)}
    return _report(title, result, parts, [_values(rows)])


def of_model(
    method: str, settings: dict[str, Any], model: str, image: tuple[int, int, int], classes: int, batch: int
) -> Report:
    """The blocks of a model that nobody trained."""
    parts = blocks(models.make(model, image, classes), _saved(method, settings), batch)
    sides = "x".join(map(str, image))
    title = f"saved, {model}: batch of {batch} images of {sides}, {classes} classes"
    result = {"method": "saved", "model": model, "image_shape": image, "classes": classes}
    return _report(title, result | {"batch_size": batch}, parts, [])


def _saved(name: str, settings: dict[str, Any]) -> Saved:
    method = methods.make(name, **settings)
    if not isinstance(method, Saved):
        raise ConfigError(f"--method {name}: what the tape holds is told of method saved")
    return method


def _report(title: str, result: dict[str, Any], blocks: list[Block], above: list[Table]) -> Report:
    told = [dataclasses.asdict(block) | {"float32": 4 * block.elements} for block in blocks]
    total = {name: sum(getattr(block, name) for block in blocks) for name in SUMMED}
    total |= {"float32": 4 * total["elements"]}
    made = [*above, _blocks([*told, {"name": "total"} | total])]
    return Report(title, result | {"blocks": told, "blocks_total": total}, made)


def _total(rows: list[Value]) -> dict[str, Any]:
    """Of all values but masks."""
    rows = [row for row in rows if row.path != MASK]
    elements, nbytes = sum(row.elements for row in rows), sum(row.nbytes for row in rows)
    clipped = sum(row.clipped for row in rows)
    return {
        "elements": elements, "bytes": nbytes, "float32": 4 * elements, "bits": 8 * nbytes / elements,
        "clipped": clipped,
    }  # fmt: skip


def _values(rows: list[Value]) -> Table:
    total = _total(rows)
    one, name = unit(total["float32"])
    columns = (
        ("value", "", "value"), ("elements", ",", "elements"), ("b", "g", "nominal"), ("codes", ",", "codes"),
        ("found", ",", "found"), ("bits", ".3f", "bits"), ("float32", ",.2f", "float32"),
        ("packed", ",.2f", "packed"), ("clipped", ",", "clipped"),
    )  # fmt: skip
    lines = [
        dataclasses.asdict(row) | {
            "value": f"{row.layer}/{row.path}", "bits": row.bits, "packed": row.nbytes / one,
            "float32": None if row.path == MASK else 4 * row.elements / one,
        }
        for row in rows
    ]  # fmt: skip
    total |= {"value": "all but masks", "nominal": "", "codes": "", "found": ""}
    total |= {"float32": total["float32"] / one, "packed": total["bytes"] / one}
    return tables.of(f"what the tape holds, sizes in {MEANT[name]}", [*lines, total], columns)


def _blocks(lines: list[dict[str, Any]]) -> Table:
    one, name = unit(max(max(row["float32"], 4 * row["held"]) for row in lines))
    columns = (
        ("block", "", "name"), ("elements", ",", "elements"),
        ("float32", ",.2f", lambda row: row["float32"] / one),
        ("b/8*N", ",.2f", lambda row: row["nominal"] / one),
        ("saved", ",.2f", lambda row: (row["float32"] - row["nominal"]) / one),
        ("packed", ",.2f", lambda row: row["packed"] / one), ("on the tape", ",", "held"),
        ("float32", ",.2f", lambda row: 4 * row["held"] / one),
        ("packed", ",.2f", lambda row: row["held_packed"] / one),
    )  # fmt: skip
    title = f"outputs of the blocks, and all that the tape saves in them; {MEANT[name]}"
    return tables.of(title, lines, columns)
