"""What a step leaves of parameters, their slots and running statistics; the rest is `remembered`."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from intnet.methods.method import Parameter
from intnet.numbers.qtensor import QTensor
from intnet.spec.digest import Floats, Words
from intnet.spec.methods.step import Step, value_of
from intnet.spec.tensor import Fixed, Tensor
from intnet.verify import draw
from intnet.verify.events import Options, compare, told
from intnet.verify.judge import Judge, as_stored, exact_numbers
from intnet.verify.record import Back
from intnet.verify.row import Row
from intnet.verify.taken import Taken
from intnet.verify.tasks import STEP, Task
from intnet.verify.values import NotSpecified, Values, is_stored, shape_of

SMALL = 4096  # elements up to which the rest of the state is handed to an update


class Moved:
    """The tasks behind the step."""

    def __init__(self, taken: Taken, values: Values, judge: Judge, options: Options) -> None:
        self.taken, self.values, self.judge, self.options = taken, values, judge, options
        self.gradients = {id(back.call.operands[0]): back.results[0] for back in self._reads()}

    def _reads(self) -> Iterator[Back]:
        """The ways back of the layers' reads of their parameters."""
        for what in self.taken.record.happened:
            if isinstance(what, Back) and what.call.op.name == "cast" and what.call.operands:
                yield what

    def tasks(self) -> Iterator[Task]:
        """Of every parameter, every batch norm, and the rest."""
        order = len(self.taken.record.happened)
        for name, layer, parameter in self.taken.run.model.all_parameters():
            size = int(np.prod(parameter.shape))
            make = self._rows_of(name, layer.name, parameter)
            yield Task(layer.name, size, make, order)
        for layer in self.taken.run.model.all_layers():
            if layer.normalizes:
                yield Task(layer.name, 1, self._running(layer.name), order)

    # -- parameters -----------------------------------------------------------------------------

    def _rows_of(self, name: str, layer: str, parameter: Parameter) -> Any:
        def make() -> Row:
            return self._update(name, layer, parameter.symbol, parameter.shape)

        return make

    def _update(self, name: str, layer: str, symbol: str, shape: tuple[int, ...]) -> Row:
        """gradient -> slots -> new value, of drawn elements, by the definition's update."""
        judge, elements = self.judge, int(np.prod(shape))
        row = Row(layer, f"{symbol}'", judge.equation(symbol), [], elements)
        row.order = STEP * (len(self.taken.record.happened) + 2)
        try:
            if judge.rules is None:
                raise NotSpecified("the method names no spec")
            gradient = self.gradients.get(id(self.taken.before[name]))
            if gradient is None:
                raise NotSpecified("no gradient reached the update")
            whole = getattr(judge.settings, "clip", None) is not None
            count = None if whole else self.options.elements
            flat = draw.drawn(f"{self.options.seed}/{judge.now.step}/{name}", elements, count)
            if self.options.elements is not None:
                flat = np.union1d(flat, draw.telling(self.taken.after[name], None))
            row.specs.append(f"methods.{self.taken.run.method.name}.update")
            row.checked = len(flat)
            self._step(row, name, layer, symbol, gradient, flat)
        except NotSpecified as why:
            row.not_specified(why)
        return row

    def _step(self, row: Row, name: str, layer: str, symbol: str, gradient: Any, flat: np.ndarray) -> None:
        judge, after = self.judge, self.taken.after
        step = judge.fresh(self._state(name, flat))
        at = self.values.at(gradient, flat)
        given: Any = Tensor((len(flat),), at)
        if isinstance(gradient, QTensor):
            codes = [int(c) for c in gradient.codes.reshape(-1)[flat].tolist()]
            given = Fixed((len(flat),), codes, int(gradient.exponent))
        step.update(judge.layers[layer], symbol, given)
        held, made = ({other for other in state if _of(other, name)} for state in (after, step.state))
        shape = shape_of(after[name])
        for other in sorted(held & made):
            expected = numbers(step.state[other])
            compare(row, flat, shape, expected, self.values.at(after[other], flat))
        if held != made:
            row.differs(f"the state has {sorted(held)}, the definition {sorted(made)}")
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
            made = step.tensors.get(f"{event.layer}/{event.path}")
            if (
                event.layer != layer
                or made is None
                or not hasattr(made, "shape")
                or made.shape != (len(flat),)
            ):
                continue
            held = self.values.at(event.result, flat) if is_stored(event.result) else told(event.result, flat)
            if held is None:
                raise NotSpecified(f"{event.path}: a {type(event.result).__name__}")
            exact = made.real().values if isinstance(made, Fixed) else made.values
            compare(row, flat, shape, exact_numbers(exact), held)

    # -- statistics -----------------------------------------------------------------------------

    def _running(self, layer: str) -> Any:
        def make() -> Row:
            row = Row(layer, "running", "r + (x - r)*2^-3", ["Step.statistics"])
            row.order = STEP * (len(self.taken.record.happened) + 2)
            names = [f"{layer}.running_mean", f"{layer}.running_var"]
            try:
                self._statistics(row, layer, names)
            except NotSpecified as why:
                row.not_specified(why)
            return row

        return make

    def _statistics(self, row: Row, layer: str, names: list[str]) -> None:
        stored = {
            e.path: e.result
            for e in self.taken.record.events
            if e.layer == layer and e.path in ("mu", "sigma", "var")
        }
        if self.judge.rules is None or len(stored) < 2:
            raise NotSpecified(
                "no statistics of the batch" if self.judge.rules is not None else "the method names no spec"
            )
        every = np.arange(shape_of(stored["mu"])[0])
        mean, spread = (self.values.at(value, every) for value in stored.values())
        squared = [v * v for v in spread] if "sigma" in stored else spread
        before = {name: as_stored(self.taken.before[name]) for name in names if name in self.taken.before}
        step = self.judge.fresh(before)
        step.statistics(self.judge.layers[layer], mean, squared)
        for name in names:
            if name not in self.taken.after:
                row.differs(f"{name} is missing")
                continue
            row.elements, row.checked = row.elements + len(every), row.checked + len(every)
            held = self.values.at(self.taken.after[name], every)
            compare(row, every, every.shape, numbers(step.state[name]), held)


def _of(other: str, name: str) -> bool:
    """Whether a tensor is parameter `name` or a slot of it that the update alone moves."""
    return other == name or other in [f"{name}.{slot}" for slot in ("Acc", "Accq", "m", "v")]


def numbers(stored: Words | Floats) -> list[Fraction]:
    """The exact values of a stored tensor."""
    value = value_of(stored)
    return exact_numbers(value.real().values if isinstance(value, Fixed) else value.values)
