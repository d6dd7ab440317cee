"""What a step leaves: parameters and their slots, running statistics, and what else a method remembers."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from intnet.methods.method import Parameter
from intnet.qtensor import QTensor
from intnet.spec.digest import Floats, Words
from intnet.spec.float32 import add32
from intnet.spec.methods.step import value_of, whole
from intnet.spec.tensor import Fixed, Tensor
from intnet.verify import chains, draw
from intnet.verify.events import Options, compare, told
from intnet.verify.judge import Judge, Lazy, as_stored, exact_numbers
from intnet.verify.record import Back
from intnet.verify.row import DIFFERS, UNSPECIFIED, Row
from intnet.verify.taken import Taken
from intnet.verify.tasks import STEP, Task
from intnet.verify.values import NotSpecified, Values, is_stored, shape_of

REMEMBERED = ("precision", "window", "G", "sum", "squares")  # slots and buffers that methods move otherwise
SMALL = 4096  # elements up to which a tensor of the state is compared whole
TABLES = ("S", "b", "b_new")  # of DYNASTY
LARGE = 1_000_000  # weights up to which what reads all of them is recomputed


class Moved:
    """The tasks behind the step."""

    def __init__(self, taken: Taken, values: Values, judge: Judge, options: Options) -> None:
        self.taken, self.values, self.judge, self.options = taken, values, judge, options
        self.gradients = {id(back.call.operands[0]): back.results[0] for back in self._reads()}
        self.in_part: set[str] = set()  # tensors of which the row of the state has drawn elements

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
        yield Task("method", self._weights(), self._rest, order)

    def _weights(self) -> int:
        return sum(
            int(np.prod(p.shape)) for _, _, p in self.taken.run.model.all_parameters() if p.symbol == "W"
        )

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
            row.state, row.why = UNSPECIFIED, str(why)
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
            row.state, row.differing = DIFFERS, row.differing + 1
            row.why = f"the state has {sorted(held)}, the definition {sorted(made)}"
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

    def _events(self, row: Row, step: Any, layer: str, flat: np.ndarray, shape: tuple[int, ...]) -> None:
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
                row.state, row.why = UNSPECIFIED, str(why)
            return row

        return make

    def _statistics(self, row: Row, layer: str, names: list[str]) -> None:
        stored = {
            e.path: e.result
            for e in self.taken.record.events
            if e.layer == layer and e.path in ("mu", "sigma")
        }
        if self.judge.rules is None or len(stored) < 2:
            raise NotSpecified(
                "no statistics of the batch" if self.judge.rules is not None else "the method names no spec"
            )
        every = np.arange(shape_of(stored["mu"])[0])
        mean, width = (self.values.at(stored[path], every) for path in ("mu", "sigma"))
        squared = [v * v for v in width] if isinstance(stored["sigma"], QTensor) else width
        before = {name: as_stored(self.taken.before[name]) for name in names if name in self.taken.before}
        step = self.judge.fresh(before)
        step.statistics(self.judge.layers[layer], mean, squared)
        for name in names:
            row.elements, row.checked = row.elements + len(every), row.checked + len(every)
            compare(
                row,
                every,
                every.shape,
                numbers(step.state[name]),
                self.values.at(self.taken.after[name], every),
            )

    # -- the rest -------------------------------------------------------------------------------

    def _rest(self) -> Row:
        """What a method remembers besides, by its definition's hooks on the whole state."""
        row = Row("method", "state", "", ["Step.see_loss", "Step.end_of_step", "Step.end_of_epoch"])
        row.order = STEP * (len(self.taken.record.happened) + 3)
        mine = [name for name in self.taken.after if name.startswith("method/")]
        if not mine:
            row.specs = ["nothing is remembered"]
            return row
        try:
            self._whole(row, mine)
        except NotSpecified as why:
            row.state, row.why = UNSPECIFIED, str(why)
        return row

    def _whole(self, row: Row, mine: list[str]) -> None:
        if self.judge.rules is None:
            raise NotSpecified("the method names no spec")
        step = self._with_gradients()
        if self._weights() > LARGE:
            self._in_part(step, row)
        step.see_loss(Fraction(self.taken.loss))
        step.update = self._sums_alone(step)  # parameters have rows of their own
        step.update_all()
        step.end_of_step()
        kinds: tuple[str, ...] = REMEMBERED
        if self.taken.ended:
            kinds += self._sensitivities(step)
            step.end_of_epoch()
        for name, value in self.taken.after.items():
            kept = name in mine or name.rpartition(".")[2] in kinds
            if kept and name not in self.in_part:
                row.elements += int(np.prod(value.shape))
                row.checked += int(np.prod(value.shape))
                self._compare_whole(row, name, step.state.get(name), value)
        lost = [name for name in step.state if name.startswith("method/") and name not in self.taken.after]
        if lost:
            row.state, row.differing, row.why = DIFFERS, row.differing + 1, f"missing: {', '.join(lost)}"

    def _in_part(self, step: Any, row: Row) -> None:
        """Of many weights AdaPT's penalties by NumPy in the definition's order, and drawn elements of G."""
        if not hasattr(step, "gather") or step.settings.accs > 1:
            raise NotSpecified(f"what reads all weights is recomputed up to {LARGE:,} of them")
        gather, penalty = step.gather, self._penalty(step)

        def some(layer: Any) -> None:
            if int(np.prod(self.taken.before[f"{layer.name}.weight"].shape)) <= SMALL:
                gather(layer)
            else:
                self._gathered(step, layer.name, row)

        step.gather, step.penalty = some, lambda: penalty
        row.specs += ["methods.adapt.Step.penalty", "verify.chains"]

    def _penalty(self, step: Any) -> float:
        """`methods.adapt.Step.penalty`."""
        o, total = step.settings, 0.0
        for layer in step.weighted:
            w = self.taken.before[f"{layer.name}.weight"].astype(np.float64)
            total += o.l1 * chains.sum64(np.abs(w)) if o.l1 else 0.0
            total += o.l2 / 2 * chains.sum64(w * w) if o.l2 else 0.0
            if o.penalty == "on":
                total += step.numbers(f"{layer.name}.precision")[0] / 32 * step.nonzero[layer.name] / w.size
        return total

    def _gathered(self, step: Any, layer: str, row: Row) -> None:
        """G + g of drawn elements, and n + 1; a full lookback reads all of G and W."""
        lb, r, n = step.numbers(f"{layer}.window")
        slot, name = f"{layer}.weight.G", f"{layer}.weight"
        if n + 1 >= lb:
            raise NotSpecified(f"{layer}: a switch of more than {SMALL:,} weights in a net of over {LARGE:,}")
        step.state[f"{layer}.window"] = whole(lb, r, n + 1)
        stored = self.taken.after[slot]
        flat = draw.drawn(f"{self.options.seed}/{slot}", stored.size, self.options.elements)
        expected = self.values.at(self.gradients[id(self.taken.before[name])], flat)
        if slot in self.taken.before:
            old = self.values.at(self.taken.before[slot], flat)
            expected = [add32(a, b) for a, b in zip(old, expected, strict=True)]
        row.elements, row.checked = row.elements + stored.size, row.checked + len(flat)
        compare(row, flat, stored.shape, expected, self.values.at(stored, flat))
        self.in_part.add(slot)

    def _sensitivities(self, step: Any) -> tuple[str, ...]:
        """DYNASTY's tables ahead of a new map, whose sums have rows of their own, into the definition's step.

        Returns the kinds of tables that the map writes.
        """
        sums = [name for name in self.taken.ended if name.endswith(".S")]
        if not sums:
            return ()
        blocks = sum(int(np.prod(self.taken.ended[name].shape)) for name in sums)
        if blocks > LARGE:
            raise NotSpecified(f"a map of {blocks:,} blocks: recomputed up to {LARGE:,} of them")
        for name, value in self.taken.ended.items():
            if name.rpartition(".")[2] in TABLES:
                step.state[name] = as_stored(value)
        for event in self.taken.record.events:
            if event.path == "x0":
                step.shapes[event.layer] = tuple(event.result.shape)
        return TABLES

    @staticmethod
    def _sums_alone(step: Any) -> Any:
        """In place of an update none, but where gradients wait for one and are added up."""
        if getattr(step.settings, "accs", 1) < 2:
            return lambda *given: None
        return step.update

    def _with_gradients(self) -> Any:
        """The definition's step on the whole state, with what the forward and the backward pass found."""
        step = self.judge.fresh({name: as_stored(value) for name, value in self.taken.before.items()})
        for name, layer, parameter in self.taken.run.model.all_parameters():
            gradient = self.gradients.get(id(self.taken.before[name]))
            if isinstance(gradient, np.ndarray):
                read: Any = Lazy(gradient)
                step.gradients[f"{layer.name}/{parameter.symbol}"] = Tensor(parameter.shape, read)
        for event in self.taken.record.events:
            if event.path == "Wq" and isinstance(event.result, QTensor) and hasattr(step, "nonzero"):
                step.nonzero[event.layer] = int(np.count_nonzero(event.result.codes))
        images = next(iter(self.taken.record.calls("softmax_cross_entropy"))).attributes["labels"]
        if hasattr(step, "images"):
            step.images = len(images)
            if not value_of(step.state["method/images"]).codes[0]:
                step.state["method/images"] = whole(step.images)
        return step

    def _compare_whole(self, row: Row, name: str, made: Any, value: Any) -> None:
        """One tensor of the state, all of it."""
        expected = [] if made is None else numbers(made)
        every = np.arange(int(np.prod(value.shape)))
        if len(expected) != len(every):
            raise NotSpecified(f"{name} has {len(every)} numbers, the definition {len(expected)}")
        before = row.difference
        compare(row, every, value.shape, expected, self.values.at(value, every))
        if row.difference is not before and row.difference is not None:
            row.difference.trail.insert(0, name)


def _of(other: str, name: str) -> bool:
    """Whether a tensor is parameter `name` or a slot of it that the update alone moves."""
    return other == name or other in [f"{name}.{slot}" for slot in ("Acc", "Accq", "m", "v")]


def numbers(stored: Words | Floats) -> list[Fraction]:
    """The exact values of a stored tensor."""
    value = value_of(stored)
    return exact_numbers(value.real().values if isinstance(value, Fixed) else value.values)
