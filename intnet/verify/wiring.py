"""What no single path tells: every layer did what it is, what was made was read, what is defined was stored.

Every other check takes operands and attributes as the step had them. Here the operations of the step are held
to the layers of the model, and every value, forward and back, to somebody who read it: a copy that was stored
and left aside, a gradient that was let fall, a quantizer that never ran are equal on every path there is.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Any

from intnet.inspect.as_spec import KINDS
from intnet.layers import Layer
from intnet.methods.saved import Saved
from intnet.methods.trace import handed_on
from intnet.spec.geometry import both, pads
from intnet.spec.models import WEIGHTED
from intnet.spec.models import Layer as SpecLayer
from intnet.verify.judge import FLOAT32, Judge
from intnet.verify.record import Back, Call, What
from intnet.verify.row import NotSpecified, Row
from intnet.verify.taken import Taken

OPERATIONS = {  # of a layer's kind, where it has one of its own
    "linear": "linear", "conv": "conv2d", "norm": "norm", "relu": "relu", "tanh": "tanh",
    "sigmoid": "sigmoid", "silu": "silu", "max_pool": "max_pool2d", "avg_pool": "avg_pool2d",
    "adaptive_pool": "adaptive_avg_pool2d", "mean": "global_avg_pool", "flatten": "flatten",
    "dropout": "dropout", "scale": "scale",
}  # fmt: skip
WINDOW = ("kernel", "stride", "padding")
ATTRIBUTES = {
    "conv": ("stride", "padding", "groups"), "max_pool": WINDOW, "avg_pool": WINDOW, "dropout": ("keep",)
}  # fmt: skip
LOSS = "softmax_cross_entropy"
SHOWN = 4  # of what is found


def check(taken: Taken, judge: Judge) -> Row:
    """One row of the whole step, or of inference."""
    row = Row("step", "wiring", "every layer ran as it is; all that was made was read", ["models.Layer"])
    row.elements = row.checked = len(taken.record.happened)
    parts = (
        _left_out(taken, judge), _otherwise(taken, judge), _unstored(taken, judge), _shown(taken),
        _unread(taken),
    )  # fmt: skip
    if found := list(chain(*parts)):
        more = f"; {len(found) - SHOWN} more" * (len(found) > SHOWN)
        row.differs("; ".join(found[:SHOWN]) + more)
    return row


# -- layers ----------------------------------------------------------------------------------------


def _ran(taken: Taken, judge: Judge) -> Iterator[tuple[Layer, str]]:
    """(layer, kind) as often as it ran; of a user's own class nobody knows what it runs."""
    for layer in taken.run.model.all_layers():
        kind = judge.layers[layer.name].kind
        silent = kind == "dropout" and taken.inference is not None
        if type(layer) in KINDS and kind in OPERATIONS and not silent:
            for _ in range(max(layer.calls, 1)):
                yield layer, kind


def _left_out(taken: Taken, judge: Judge) -> Iterator[str]:
    """Layers whose operation did not run."""
    wanted: Counter[str] = Counter()
    for layer, kind in _ran(taken, judge):
        wanted[OPERATIONS[kind]] += 1
        wanted["add_bias"] += kind in WEIGHTED and judge.layers[layer.name].bias
    got = Counter(taken.record.operations())
    for name, count in wanted.items():
        if got[name] < count:
            yield f"operation {name} ran {got[name]} times, and {count} layers are of that kind"


def _otherwise(taken: Taken, judge: Judge) -> Iterator[str]:
    """Operations with other windows, groups, shares or smoothing than their layers and settings have."""
    layers = list(_ran(taken, judge))
    for kind, keys in ATTRIBUTES.items():
        own = (judge.layers[layer.name] for layer, which in layers if which == kind)
        wanted = Counter(tuple(_plain(key, getattr(layer, key)) for key in keys) for layer in own)
        calls = [call.attributes for call in taken.record.calls(OPERATIONS[kind])]
        defaults = SpecLayer._field_defaults
        got = Counter(tuple(_plain(key, one.get(key, defaults[key])) for key in keys) for one in calls)
        if got != wanted and got.total() == wanted.total():
            ran, have = (" and ".join(map(str, more)) for more in (got - wanted, wanted - got))
            yield f"{OPERATIONS[kind]} ran with {', '.join(keys)} = {ran}, where its layers have {have}"
    smoothing = getattr(judge.settings, "label_smoothing", 0.0)
    for call in taken.record.calls(LOSS):
        if (found := call.attributes.get("smoothing", 0.0)) != smoothing:
            yield f"the loss has label smoothing {found}, and the method {smoothing}"


def _plain(key: str, value: Any) -> Any:
    """A side for every side, however few were given."""
    return pads(value) if key == "padding" else both(value) if key in WINDOW else value


def _unstored(taken: Taken, judge: Judge) -> Iterator[str]:
    """Paths of parameters and products on which the definition stores, and nothing was stored.

    A definition of a user's own may name a format for layers that it passes over: there a path counts that
    no layer has.
    """
    seen = {(event.layer, event.path) for event in taken.record.events}
    exact = getattr(judge.module, "__name__", "").startswith("intnet.spec.")
    anywhere = set() if exact else {path for _, path in seen}
    trains, first = taken.inference is None, True
    for layer in taken.run.model.all_layers():
        kind = judge.layers[layer.name].kind
        paths = [f"{parameter.symbol}q" for parameter in layer.parameters]
        if kind in WEIGHTED:
            paths += ["x0", *(["x0s"] * trains), *(["e3", "Wb"] * (trains and not first))]
            first = False
        elif kind == "norm" and trains and isinstance(taken.run.method, Saved):
            paths.append("x1s")
        for path in paths:
            other = (
                path == "Wq" and (layer.name, "Wb") in seen
            )  # DYNASTY's forward product by the dynamic copy
            if (layer.name, path) in seen or path in anywhere or other:
                continue
            if form := _form(judge, layer, path):
                yield f"{layer.name}/{path} was not stored; the definition has it as {form}"


def _form(judge: Judge, layer: Layer, path: str) -> str:
    """The definition's format of a path, '' of one that is float32, as it comes or not defined."""
    try:
        form = judge.format_of(layer.name, path)
    except NotSpecified:
        return ""
    return "" if form in (None, FLOAT32) else str(form)


def _shown(taken: Taken) -> Iterator[str]:
    """Hooks of the method that handed on another value than they showed."""
    for what in taken.record.happened:
        if what.op.name == "cast" and what.events and not handed_on(what.events, what.results[0]):
            paths = " and ".join(event.name for event in what.events)
            yield f"{paths}: the method showed one value and handed on another"


# -- readers ---------------------------------------------------------------------------------------


def _unread(taken: Taken) -> Iterator[str]:
    """Values and gradients that nobody read."""
    happened = taken.record.happened
    calls = [what for what in happened if isinstance(what, Call)]
    read = {id(value) for call in calls for value in call.operands}
    if taken.inference is not None:
        read.add(id(taken.inference.logits))
    for call in calls:
        folded = taken.inference is not None and _of_norm(taken, call)  # into scale and offset
        if not (call.joins or folded or call.op.name == LOSS or id(call.result) in read):
            yield f"{_name(call)}: its result was not read"
    yield from _unread_gradients(happened, {id(value) for value in taken.before.values()})


def _unread_gradients(happened: list[What], parameters: set[int]) -> Iterator[str]:
    """Two branches of an add share one array: so what is made is counted, and so is what is read."""
    left: Counter[int] = Counter()
    names: dict[int, str] = {}
    for what in happened:
        if isinstance(what, Back):
            left[id(what.gradient)] -= 1
            made = zip(what.call.wanted, what.results, strict=True)
            ends = what.op.name == "cast" and id(what.call.operands[0]) in parameters
            given = [part for wanted, part in made if wanted and part is not None and not ends]
        elif what.joins:
            left.subtract(map(id, what.operands))
            given = [what.result]
        else:
            continue
        left.update(map(id, given))
        names |= {id(part): _name(what) for part in given}
    yield from (
        f"{names[at]}: a gradient that it made was not read" for at, count in left.items() if count > 0
    )


def _of_norm(taken: Taken, call: Call) -> bool:
    norms = {layer.name for layer in taken.run.model.all_layers() if layer.normalizes}
    return any(event.layer in norms for event in call.events)


def _name(what: What) -> str:
    events = what.events or what.call.events
    place = f"{events[0].layer}/{events[0].path}" if events else what.call.attributes.get("where", "")
    return f"{what.op.name} {place}".strip() + " on the way back" * isinstance(what, Back)
