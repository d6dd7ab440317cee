"""Words of real training for the units: L3 the tensors of one step, L4 those of a chain of steps.

    take(unit, settings, count) -> Taken(groups, parameters, scale, about)

The run is WAGEUBN's resnet8 on the embedded digits, 4 images a step, seed 1. Steps are counted from 1;
the first taken is step 2, in which momentum is no longer 0. `PATHS` says which tensors a unit gets.
Tensors of different exponents are aligned at the least one, exactly. Parameters follow the data: a setting
that contradicts them is an error, a width that is more than enough is not.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from intnet.errors import PackError
from intnet.exact.expressions import Exact
from intnet.exact.quantize import quantize
from intnet.methods.trace import Event, Recorder
from intnet.numbers.formats import Shift
from intnet.numbers.microscaling import MXINT8, Microscaling
from intnet.numbers.qtensor import QTensor
from intnet.numbers.small_floats import FLOATS
from intnet.packs.units.signals import Columns, Group, Unit, column, marks
from intnet.packs.units.words import K_Q, log2_r
from intnet.runs import run_folder

RUN = {"method": "wageubn", "model": "resnet8", "data": "digits", "batch_size": 4, "seed": 1}
FIRST, STEPS = 2, 4  # the first step taken, counted from 1, and how many L4 takes
PRODUCT = "layer2.0.downsample.0"  # a 1x1 convolution of stride 2: one row of products a pixel
PATHS = {
    "quantize_q": ("layer1.0.conv1/Accq", "layer1.0.bn1/Accq_gamma", "layer1.0.bn1/Accq_beta"),
    "quantize_sq": ("layer2.0.relu2/e0",),
    "quantize_cq": ("layer2.0.downsample.0/gWq", "layer2.0.conv1/gWq"),
    "quantize_flag": ("layer2.0.relu2/e0",),
    "r_exponent": ("layer2.0.relu2/e0", "layer3.0.relu1/e0"),
    "mac_requant": (f"{PRODUCT}/x0", f"{PRODUCT}/Wq"),
    "block_dot": ("layer2.0.relu2/e0", f"{PRODUCT}/Wq"),
    "mx_dot": ("layer2.0.relu2/e0", f"{PRODUCT}/Wq"),
    "shift": ("layer1.0.conv1/Accq", "layer1.0.bn1/Accq_gamma", "layer1.0.bn1/Accq_beta"),
    "shift_by": ("layer2.0.relu2/e0",),
    "scale_add": (f"{PRODUCT}/x0", f"{PRODUCT}/Wq"),
    "requantize": (f"{PRODUCT}/x0", f"{PRODUCT}/Wq"),
}
PIXELS = 1  # images whose pixels become rows of a sum

Events = Mapping[str, Event]


@dataclass(frozen=True)
class Taken:
    """Groups of vectors and what they ask of the unit."""

    groups: list[Group]
    parameters: dict[str, Any]
    scale: dict[str, int] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)


@cache
def steps() -> tuple[Events, ...]:
    """The events of every step that L3 and L4 take."""
    run = run_folder.build(RUN["method"], {}, RUN["model"], RUN["data"], RUN["batch_size"], RUN["seed"])  # type: ignore[arg-type]
    run.train(FIRST - 1)
    out = []
    for step in range(FIRST, FIRST + STEPS):
        recorder = Recorder(*{path for paths in PATHS.values() for path in paths})
        run.train(step, observe_last=[recorder])
        out.append(recorder.events)
    return tuple(out)


def _source(event: Event) -> QTensor:
    """What entered a quantizer, as codes."""
    if isinstance(event.source, Exact):
        return event.source.to_qtensor(f"{event.layer}/{event.path}")
    assert isinstance(event.source, QTensor)
    return event.source


def _aligned(name: str, count: int) -> tuple[list[tuple[Event, np.ndarray]], int]:
    """(the tensors of a unit's paths, step by step, with their codes at one exponent; the least of all)."""
    events = [made[path] for made in steps()[:count] for path in PATHS[name]]
    tensors = [_source(event) for event in events]
    least = min(int(q.exponent) for q in tensors)
    shifted = [q.codes.astype(np.int64) << int(q.exponent) - least for q in tensors]
    return list(zip(events, shifted, strict=True)), least


def _name(event: Event) -> str:
    """Of a group."""
    return f"{event.layer}.{event.path}.step{event.step + 1}"


def _width(*arrays: np.ndarray) -> int:
    """Bits that codes need, sign and all."""
    return max(QTensor(array, 0).width for array in arrays)


def settled(
    unit: Unit, settings: Mapping[str, Any], fixed: Mapping[str, int], least: Mapping[str, int]
) -> dict[str, Any]:
    """The unit's parameters: those the data fix, widths that are at least so many, the others as set.

    PackError where a setting contradicts the data.
    """
    for name, value in settings.items():
        if name in fixed and value != fixed[name]:
            raise PackError(f"{unit.name}: {name}={value} contradicts this level's data: it is {fixed[name]}")
        if name in least and value < least[name]:
            raise PackError(
                f"{unit.name}: {name}={value} is too narrow for this level: it needs {least[name]}"
            )
    return unit.defaults | dict(least) | dict(fixed) | dict(settings)


def _elementwise(unit: Unit, settings: Mapping[str, Any], count: int) -> Taken:
    """A word an element: Q, SQ, Flag-Q, CQ with the words that training drew, and shifts as of Q and SQ."""
    tensors, exponent = _aligned(unit.name, count)
    ports = {port.name for port in unit.signals(unit.defaults, {})}
    fixed = {"EX": exponent} if "EX" in unit.parameters else {}
    groups = []
    for event, tensor in tensors:
        codes = tensor.reshape(-1)
        columns: Columns = {"x": codes}
        if "n" in ports:
            less = exponent + K_Q - 1 if unit.name == "shift_by" else 0
            columns["n"] = np.full(codes.shape, log2_r(codes, exponent) - less)
        if unit.name == "quantize_cq":
            assert event.words is not None
            columns["log_dr"] = np.full(codes.shape, event.format.dr.bit_length() - 1)  # type: ignore[union-attr]
            columns["word"] = event.words.reshape(-1).astype(np.int64)
        groups.append(Group(_name(event), "real", columns, event.step + 1))
    scale, first = {}, tensors[0][0]
    if "S" in unit.parameters:
        fixed["S"] = int(first.result.exponent) - exponent
    if unit.name == "quantize_q":
        scale["q"] = int(first.result.exponent)
    if unit.name == "quantize_sq":
        fixed["K"] = first.format.k  # type: ignore[union-attr]
    parameters = settled(unit, settings, fixed, {"W": _width(*(codes for _, codes in tensors))})
    streams = [f"{event.layer}/gW" for event, _ in tensors] if unit.name == "quantize_cq" else []
    about = {"random": {"kind": "philox", "seed": RUN["seed"], "streams": streams}} if streams else {}
    return Taken(groups, parameters, scale, about)


def _vectors(unit: Unit, settings: Mapping[str, Any], count: int) -> Taken:
    """R of whole tensors, and of each of their images."""
    tensors, exponent = _aligned(unit.name, count)
    groups = []
    for event, codes in tensors:
        images = [image.reshape(-1) for image in codes]
        for part, vectors in (("tensor", [codes.reshape(-1)]), ("images", images)):
            columns = marks([v.size for v in vectors]) | {"x": np.concatenate(vectors)}
            groups.append(Group(f"{_name(event)}.{part}", "real sqrt2", columns, event.step + 1))
    parameters = settled(unit, settings, {"EX": exponent}, {"W": _width(*(codes for _, codes in tensors))})
    return Taken(groups, parameters)


def _rows(made: Events) -> tuple[np.ndarray, np.ndarray, tuple[int, int], int]:
    """x0 a row a pixel, Wq a row an output channel, their exponents, the step from 1."""
    x, w = made[f"{PRODUCT}/x0"].result, made[f"{PRODUCT}/Wq"].result
    pixels = x.codes[:PIXELS, ::2, ::2].reshape(-1, x.shape[-1]).astype(np.int64)
    weights = w.codes.reshape(len(w.codes), -1).astype(np.int64)
    return pixels, weights, (int(x.exponent), int(w.exponent)), made[f"{PRODUCT}/x0"].step + 1


def _back(made: Events) -> tuple[np.ndarray, np.ndarray, tuple[int, int], int]:
    """The same on the way back: errors a row a pixel, the weights of an input channel, as memory has them."""
    event = made["layer2.0.relu2/e0"]
    errors, memory = _source(event), _source(made[f"{PRODUCT}/Wq"])
    rows = errors.codes[:PIXELS].reshape(-1, errors.shape[-1]).astype(np.int64)
    weights = memory.codes.reshape(len(memory.codes), -1).T.astype(np.int64)
    return rows, weights, (int(errors.exponent), int(memory.exponent)), event.step + 1


def _padded(rows: np.ndarray, size: int) -> np.ndarray:
    """Rows filled up with zeros to whole beats of `size`: (rows, beats, size)."""
    missing = -rows.shape[1] % size
    return np.pad(rows, ((0, 0), (0, missing))).reshape(len(rows), -1, size)


def _every_product(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each row of x beside each row of w, beat by beat."""
    left, right = np.repeat(x, len(w), axis=0), np.tile(w, (len(x),) + (1,) * (w.ndim - 1))
    return left.reshape(-1, *x.shape[2:]), right.reshape(-1, *w.shape[2:])


def _products(unit: Unit, settings: Mapping[str, Any], count: int) -> Taken:
    """Every sum of a 1x1 convolution, requantized to 8 bits on the grid of activations."""
    lanes = settings.get("LANES", unit.defaults["LANES"])
    rows = [_rows(made) for made in steps()[:count]]
    groups = []
    for x, w, _, step in rows:
        left, right = _every_product(_padded(x, lanes), _padded(w, lanes))
        beats = -(-x.shape[1] // lanes)
        columns = marks([beats] * (len(left) // beats)) | {"x": left, "w": right}
        columns["bias"] = np.zeros(len(left), np.int64)
        groups.append(Group(f"{PRODUCT}.x1.step{step}", "real", columns, step))
    (ex, ew), grid = rows[0][2], -7
    least = {"A": _width(*(x for x, *_ in rows)), "B": _width(*(w for _, w, *_ in rows))}
    parameters = settled(unit, settings, {"S": grid - ex - ew}, least)
    return Taken(groups, parameters, {"x": ex, "w": ew, "bias": ex + ew, "q": grid})


def _normalised(rows: np.ndarray, exponent: int, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """(mantissas, exponents) of every block (the last axis), each rounded by SQ as a tensor of its own."""
    blocks = rows.reshape(-1, rows.shape[-1])
    parts = [quantize(QTensor(block, exponent), Shift(bits)) for block in blocks]
    mantissas = np.array([part.codes for part in parts], np.int64).reshape(rows.shape)
    return mantissas, column([part.exponent for part in parts]).reshape(*rows.shape[:-1], 1)


def _blocks(unit: Unit, settings: Mapping[str, Any], count: int) -> Taken:
    """Errors against the columns of that convolution's weights."""
    p = unit.defaults | dict(settings)
    groups = []
    for x, w, (ex, ew), step in map(_back, steps()[:count]):
        xm, xe = _normalised(_padded(x, p["BLOCK"]), ex, p["M"])
        wm, we = _normalised(_padded(w, p["BLOCK"]), ew, p["M"])
        (left, right), (left_e, right_e) = _every_product(xm, wm), _every_product(xe, we)
        columns = marks([xm.shape[1]] * (len(left) // xm.shape[1]))
        columns |= {"xm": left, "wm": right, "xe": left_e, "we": right_e}
        groups.append(Group(f"{PRODUCT}.e4.step{step}", "real", columns, step))
    return Taken(groups, p)


def _scaled(unit: Unit, settings: Mapping[str, Any], count: int) -> Taken:
    """The columns of that convolution's weights (a) against errors (b), each quantized block by block."""
    p = unit.defaults | dict(settings)
    groups = []
    for errors, weights, (ee, ew), step in map(_back, steps()[:count]):
        size = p["LANES"] * min(p["K"] // p["LANES"], -(-errors.shape[1] // p["LANES"]))
        b, sb = _microscaled(_padded(errors, size), ee, p["B"], p["LANES"])
        a, sa = _microscaled(_padded(weights, size), ew, p["A"], p["LANES"])
        (b, a), (sb, sa) = _every_product(b, a), _every_product(sb, sa)
        columns = marks([size // p["LANES"]] * (len(a) * p["LANES"] // size))
        columns |= {"a": a, "b": b, "sa": sa, "sb": sb}
        groups.append(Group(f"{PRODUCT}.mx.step{step}", "real", columns, step))
    return Taken(groups, p)


def _microscaled(blocks: np.ndarray, exponent: int, kind: str, lanes: int) -> tuple[np.ndarray, np.ndarray]:
    """(words beat by beat, scales beat by beat) of blocks, the last axis, in a microscaling format."""
    form = Microscaling(FLOATS.get(kind, MXINT8.element), blocks.shape[-1])
    made = quantize(QTensor(blocks, exponent), form)
    beats = blocks.shape[-1] // lanes
    words = made.raw().astype(np.int64).reshape(len(blocks), -1, lanes)
    return words, np.repeat(made.scales.astype(np.int64).reshape(len(blocks), -1), beats, axis=1)


def _of_sums(
    unit: Unit, settings: Mapping[str, Any], count: int, what: str, scaled: Callable[[np.ndarray], Columns]
) -> Taken:
    """Every sum of that convolution, a row a pixel and a column an output channel, with numbers a channel."""
    groups, widths = [], []
    for x, w, _, step in map(_rows, steps()[:count]):
        sums = x @ w.T
        flat = {name: np.broadcast_to(v, sums.shape).reshape(-1) for name, v in scaled(sums).items()}
        groups.append(Group(f"{PRODUCT}.{what}.step{step}", "real", flat, step))
        widths.append(_width(sums))
    return Taken(groups, settled(unit, settings, {}, {"W": max(widths)}))


def _normalized(unit: Unit, settings: Mapping[str, Any], count: int) -> Taken:
    """Each channel's mean taken off and its range scaled to 8 bits: batch norm at inference."""
    shift = settings.get("S", unit.defaults["S"])

    def scaled(sums: np.ndarray) -> Columns:
        mean = sums.sum(axis=0) // len(sums)
        reach = np.maximum(1, np.abs(sums - mean).max(axis=0))
        scale = np.minimum((127 << shift) // reach, (1 << 15) - 1)
        return {"x": sums, "scale": scale, "offset": -mean * scale}

    return _of_sums(unit, settings, count, "bn", scaled)


def _requantized(unit: Unit, settings: Mapping[str, Any], count: int) -> Taken:
    """Each channel's range brought to 8 bits by a multiplier in [1/2, 1) and a shift."""

    def scaled(sums: np.ndarray) -> Columns:
        reach = np.maximum(127, np.abs(sums).max(axis=0)).tolist()
        n = [(r // 127).bit_length() - 1 for r in reach]
        multipliers = [min((127 << 31 + a) // r, (1 << 31) - 1) for r, a in zip(reach, n, strict=True)]
        return {"acc": sums, "multiplier": column(multipliers), "n": column(n), "zero_point": column(0)}

    return _of_sums(unit, settings, count, "q", scaled)


TAKES: dict[str, Callable[[Unit, Mapping[str, int], int], Taken]] = {
    "quantize_q": _elementwise,
    "quantize_sq": _elementwise,
    "quantize_cq": _elementwise,
    "quantize_flag": _elementwise,
    "r_exponent": _vectors,
    "mac_requant": _products,
    "block_dot": _blocks,
    "mx_dot": _scaled,
    "shift": _elementwise,
    "shift_by": _elementwise,
    "scale_add": _normalized,
    "requantize": _requantized,
}


def take(unit: Unit, settings: Mapping[str, Any], count: int) -> Taken:
    """The words of `count` steps for a unit."""
    taken = TAKES[unit.name](unit, settings, count)
    last = FIRST + count - 1
    source = RUN | {"first_step": FIRST, "last_step": last, "paths": list(PATHS[unit.name])}
    return Taken(taken.groups, taken.parameters, taken.scale, {"source": source} | taken.about)
