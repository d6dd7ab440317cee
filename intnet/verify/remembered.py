"""What a method remembers besides parameters: precision, policy, gradients that it gathers, DYNASTY's maps.

The definition's hooks run on the whole state of the step. Where a net has more weights than LARGE, those of
AdaPT are followed in part: penalties by NumPy in the definition's order, of gathered gradients drawn ones.
"""

from fractions import Fraction
from typing import Any

import numpy as np

from intnet.spec.digest import Floats
from intnet.spec.float32 import add32, to_float32
from intnet.spec.methods.dynasty import FIRST
from intnet.spec.methods.step import of_layer, value_of, whole
from intnet.spec.models import WEIGHTED
from intnet.spec.tensor import Tensor
from intnet.verify import chains
from intnet.verify.judge import Lazy, as_stored, numbers
from intnet.verify.row import STEP, NotSpecified, Row, Task
from intnet.verify.values import Values

REMEMBERED = (
    "precision",
    "window",
    "G",
    "norms",
    "waiting",
    "sum",
    "squares",
)  # slots and buffers that methods move otherwise
TABLES = ("S", "b", "b_new")  # of DYNASTY
SMALL = 4096  # weights of a layer that are followed whole in a large net
LARGE = 1_000_000  # weights, or blocks of a map, up to which what reads all of them is recomputed


class Remembered:
    """One row. gradients: by the identity of a parameter's value ahead of the step."""

    def __init__(self, values: Values, gradients: dict[int, Any]) -> None:
        self.taken, self.values, self.judge = values.taken, values, values.judge
        self.gradients = gradients

    def task(self) -> Task:
        """Its task."""
        row = Row("method", "state", "", ["Step.see_loss", "Step.end_of_step", "Step.end_of_epoch"])
        row.order = STEP * (len(self.taken.record.happened) + 3)
        return Task(row, self._weights(), self._check)

    def _weights(self) -> int:
        parameters = self.taken.run.model.all_parameters()
        return sum(int(np.prod(p.shape)) for _, _, p in parameters if p.symbol == "W")

    def _check(self, row: Row) -> None:
        self.row = row
        self.apart: set[str] = set()  # tensors that are not compared whole
        if self.judge.rules and bool(self.taken.ended) != self.judge.now.ends:
            told = "" if self.taken.ended else "not "
            row.differs(f"the method was {told}told of an epoch's end, which the definition does not say")
        else:
            self._whole(self._with_gradients())

    def _whole(self, step: Any) -> None:
        """The hooks after the backward pass, then every tensor that they move."""
        if self._weights() > LARGE and hasattr(step, "gather"):
            self._in_part(step)
        elif self._weights() > LARGE and any(self._is_kept(name, REMEMBERED) for name in self.taken.after):
            raise NotSpecified(f"what reads all weights is recomputed up to {LARGE:,} of them")
        step.see_loss(Fraction(self.taken.loss))
        # parameters have rows of their own: here gradients that wait for an update are added up, and no more
        setattr(step, "descend" if hasattr(step, "descend") else "update", lambda *given: None)
        step.update_all()
        step.end_of_step()
        kinds: tuple[str, ...] = REMEMBERED
        if hasattr(step, "full"):
            kinds += TABLES
            self._tables(step)
        if self.judge.now.ends:
            step.end_of_epoch()
        names = {name for name in (*self.taken.after, *step.state) if self._is_kept(name, kinds)}
        for name in sorted(names - self.apart):
            self._compare(name, step.state.get(name))
        if not names:
            self.row.specs = ["nothing is remembered"]

    @staticmethod
    def _is_kept(name: str, kinds: tuple[str, ...]) -> bool:
        return name.startswith("method/") or name.rpartition(".")[2] in kinds

    def _compare(self, name: str, made: Any) -> None:
        """One tensor of the state, all of it."""
        row, value = self.row, self.taken.after.get(name)
        if value is None or made is None:
            row.differs(f"{name} is {'missing' if value is None else 'not in the definition'}")
            return
        size, expected = int(np.prod(value.shape)), numbers(made)
        if len(expected) != size:
            row.elements, row.checked = row.elements + size, row.checked + size
            row.differs(f"{name} has {size} numbers, the definition {len(expected)}")
            return
        before = row.difference
        row.compare_all(value.shape, expected, self.values.at(value, np.arange(size)))
        if row.difference is not before and row.difference is not None:
            row.difference.trail.insert(0, name)

    def _with_gradients(self) -> Any:
        """The definition's step on the whole state, with what the forward and the backward pass found."""
        step = self.judge.fresh({name: as_stored(value) for name, value in self.taken.before.items()})
        for name, layer, parameter in self.taken.run.model.all_parameters():
            gradient = self.gradients.get(id(self.taken.before[name]))
            if isinstance(gradient, np.ndarray):
                read: Any = Lazy(gradient)
                step.gradients[f"{layer.name}/{parameter.symbol}"] = Tensor(parameter.shape, read)
        for event in self.taken.record.events:
            if event.path == "Wq" and hasattr(step, "nonzero") and hasattr(event.result, "codes"):
                step.nonzero[event.layer] = int(np.count_nonzero(event.result.codes))
        if hasattr(step, "images"):
            step.images = len(self.taken.record.labels())
            if not value_of(step.state["method/images"]).codes[0]:
                step.state["method/images"] = whole(step.images)
        return step

    # -- AdaPT, many weights -----------------------------------------------------------------------

    def _in_part(self, step: Any) -> None:
        if step.settings.accs > 1:
            raise NotSpecified(f"gradients that wait for others are added up to {LARGE:,} of them")
        gather, penalties = step.gather, self._penalties(step)

        def some(layer: Any) -> None:
            fixed = of_layer(step.settings, layer.name).switch == "off"
            if fixed or int(np.prod(self.taken.before[f"{layer.name}.weight"].shape)) <= SMALL:
                gather(layer)
            else:
                self._gathered(step, layer.name)

        step.gather, step.penalized = some, lambda loss: to_float32(Fraction(float(loss) + penalties))
        self.row.specs += ["methods.float_master.FloatMaster.penalized", "verify.chains"]

    def _penalties(self, step: Any) -> float:
        """What `methods.float_master.FloatMaster.penalized` adds."""
        (l1, l2), total = step.penalties(), 0.0
        for layer in step.weighted:
            w = self.taken.before[f"{layer.name}.weight"].astype(np.float64)
            total += l1 * chains.sum64(np.abs(w)) if l1 else 0.0
            total += l2 / 2 * chains.sum64(w * w) if l2 else 0.0
            total += step.width_penalty(layer)
        return total

    def _gathered(self, step: Any, layer: str) -> None:
        """G + g of drawn elements, and n + 1; a full lookback reads all of G and W."""
        row, (lb, r, n) = self.row, step.numbers(f"{layer}.window")
        slot, name = f"{layer}.weight.G", f"{layer}.weight"
        if n + 1 >= lb:
            raise NotSpecified(f"{layer}: a switch of more than {SMALL:,} weights in a net of over {LARGE:,}")
        step.state[f"{layer}.window"] = whole(lb, r, n + 1)
        self.apart.add(slot)
        if slot not in self.taken.after:
            row.differs(f"{slot} is missing")
            return
        stored = self.taken.after[slot]
        flat = self.values.drawn(slot, stored.size)
        expected = self.values.at(self.gradients[id(self.taken.before[name])], flat)
        if slot in self.taken.before:
            old = self.values.at(self.taken.before[slot], flat)
            expected = [add32(a, b) for a, b in zip(old, expected, strict=True)]
        row.elements, row.checked = row.elements + stored.size, row.checked + len(flat)
        row.compare(flat, stored.shape, expected, self.values.at(stored, flat))

    # -- DYNASTY -----------------------------------------------------------------------------------

    def _tables(self, step: Any) -> None:
        """Tables ahead of an epoch's end into the definition's step: widths as before, or the first ones.

        The sums S have rows of their own; here it counts that they are there.
        """
        found = self.taken.ended or self.taken.after
        sizes = []
        for layer in self.judge.layers.values():
            for kind in ("W", "A") if layer.kind in WEIGHTED and layer.name != step.first else ("W",):
                sums, *widths = (step.kept(layer.name, kind, slot) for slot in TABLES)
                if layer.kind not in WEIGHTED or not (sums in step.state or step.counts(layer.name)):
                    continue
                if sums not in found:
                    self.row.differs(f"{sums} is missing")
                    continue
                sizes.append(found[sums].size)
                self.apart.add(sums)
                step.state[sums] = as_stored(found[sums])
                for name in widths:
                    first = Floats("float32", found[sums].shape, [Fraction(FIRST)] * found[sums].size)
                    step.state.setdefault(name, first)
        if self.judge.now.ends:
            self._map(step, sum(sizes))

    def _map(self, step: Any, blocks: int) -> None:
        """What a new map reads besides."""
        if blocks > LARGE:
            raise NotSpecified(f"a map of {blocks:,} blocks: recomputed up to {LARGE:,} of them")
        self.apart = {name for name in self.apart if not name.endswith(".S")}  # they begin again
        for event in self.taken.record.events:
            if event.path == "x0":
                step.shapes[event.layer] = tuple(event.result.shape)
