"""What a step leaves of parameters, their slots and running statistics; the rest is `remembered`."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from intnet.methods.method import Parameter
from intnet.numbers.qtensor import QTensor
from intnet.spec.digest import Floats, Words
from intnet.spec.methods.step import Step
from intnet.spec.tensor import Fixed, Tensor
from intnet.verify.events import held
from intnet.verify.judge import as_stored, numbers
from intnet.verify.record import Back
from intnet.verify.row import STEP, NotSpecified, Row, Task
from intnet.verify.values import Values, shape_of

SMALL = 4096  # elements up to which the rest of the state is handed to an update


class Moved:
    """The tasks after the step."""

    def __init__(self, values: Values) -> None:
        self.taken, self.values, self.judge, self.options = values.taken, values, values.judge, values.options
        reads = (what for what in self.taken.record.happened if isinstance(what, Back))
        self.gradients = {  # of the layers' reads of their parameters
            id(back.call.operands[0]): back.results[0]
            for back in reads
            if back.op.name == "cast" and back.call.operands
        }

    def tasks(self) -> Iterator[Task]:
        """Of every parameter, every batch norm, and the rest."""
        order, model = STEP * (len(self.taken.record.happened) + 2), self.taken.run.model
        for name, layer, parameter in model.all_parameters():
            size, symbol = int(np.prod(parameter.shape)), parameter.symbol
            row = Row(
                layer.name, f"{symbol}'", self.judge.equation(layer.name, symbol), [], size, order=order
            )
            yield Task(row, size, partial(self._update, name, parameter))
        for layer in model.all_layers():
            if layer.normalizes:
                row = Row(layer.name, "running", "r + (x - r)*2^-3", ["Step.statistics"], order=order)
                yield Task(row, 1, self._statistics)

    # -- parameters -----------------------------------------------------------------------------

    def _update(self, name: str, parameter: Parameter, row: Row) -> None:
        """gradient -> slots -> new value, of drawn elements, by the definition's update."""
        gradient = self.gradients.get(id(self.taken.before[name])) if self.judge.rules else None
        if gradient is None:
            raise NotSpecified("no gradient reached the update")
        whole = getattr(self.judge.settings, "clip", None) is not None
        flat = np.arange(row.elements)
        if not whole or self.options.elements is None:
            flat = self.values.drawn(f"{self.judge.now.step}/{name}", row.elements, self.taken.after[name])
        row.specs.append(f"methods.{self.taken.run.method.name}.Step.update")
        row.checked = len(flat)
        self._step(row, name, row.layer, parameter.symbol, gradient, flat)

    def _step(self, row: Row, name: str, layer: str, symbol: str, gradient: Any, flat: np.ndarray) -> None:
        judge, after = self.judge, self.taken.after
        step = judge.fresh(self._state(name, flat))
        at = self.values.at(gradient, flat)
        given: Any = Tensor((len(flat),), at)
        if isinstance(gradient, QTensor):
            codes = [int(c) for c in gradient.codes.reshape(-1)[flat].tolist()]
            given = Fixed((len(flat),), codes, int(gradient.exponent))
        step.update(judge.layers[layer], symbol, given)
        kept, made = ({other for other in state if _of(other, name)} for state in (after, step.state))
        shape = shape_of(after[name])
        for other in sorted(kept & made):
            row.compare(flat, shape, numbers(step.state[other]), self.values.at(after[other], flat))
        if kept != made:
            row.differs(f"the state has {sorted(kept)}, the definition {sorted(made)}")
        self._events(row, step, layer, flat, shape)

    def _state(self, name: str, flat: np.ndarray) -> dict[str, Words | Floats]:
        """The state ahead of the step: of this parameter the drawn elements, of the rest what is small."""
        out: dict[str, Words | Floats] = {}
        for other, value in self.taken.before.items():
            if other == name or (
                other.startswith(f"{name}.") and value.shape == self.taken.before[name].shape
            ):
                array = value.codes if isinstance(value, QTensor) else value
                part = array.reshape(-1)[flat]
                out[other] = as_stored(QTensor(part, value.exponent) if isinstance(value, QTensor) else part)
            elif value.shape == () or int(np.prod(value.shape)) <= SMALL:
                out[other] = as_stored(value)
        return out

    def _events(self, row: Row, step: Step, layer: str, flat: np.ndarray, shape: tuple[int, ...]) -> None:
        """What the update told of itself: Acc, Accq, W."""
        for event in self.taken.record.update:
            made = step.tensors.get(event.name)
            if event.layer == layer and getattr(made, "shape", None) == (len(flat),):
                row.compare(flat, shape, numbers(made), held(self.values, event, flat))

    # -- statistics -----------------------------------------------------------------------------

    def _statistics(self, row: Row) -> None:
        layer, events = row.layer, self.taken.record.events
        stored = {e.path: e.result for e in events if e.layer == layer and e.path in ("mu", "sigma", "var")}
        if self.judge.rules and len(stored) < 2:
            raise NotSpecified("no statistics of the batch")
        every = np.arange(shape_of(stored["mu"])[0])
        mean, spread = (self.values.at(value, every) for value in stored.values())
        squared = [v * v for v in spread] if "sigma" in stored else spread
        names = [f"{layer}.running_mean", f"{layer}.running_var"]
        before = {name: as_stored(self.taken.before[name]) for name in names if name in self.taken.before}
        step = self.judge.fresh(before)
        step.statistics(self.judge.layers[layer], mean, squared)
        for name in names:
            if name not in self.taken.after:
                row.differs(f"{name} is missing")
                continue
            stands = self.values.at(self.taken.after[name], every)
            row.compare_all(every.shape, numbers(step.state[name]), stands)


def _of(other: str, name: str) -> bool:
    """Whether a tensor is parameter `name` or a slot of it that the update alone moves."""
    return other == name or other in [f"{name}.{slot}" for slot in ("Acc", "Accq", "m", "v")]
