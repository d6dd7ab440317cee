"""Who made what each layer of a whole network reads, seen while the network runs.

    wiring = Wiring()
    with watched(wiring): ...          around the pass; `reads` and `makes` are told of every layer
    wiring.readers("relu1")            ["layer1.0.conv1", "layer1.0.relu2"]

`graph.py` finds the same by comparing numbers, which is enough for a few layers that were picked; in a whole
network two layers may well have equal ones, an error of zeros for one. Between layers stands nothing but the
sum of two branches. A layer that reads factors beside its value (`Scale`) hands an error to either.
"""

from typing import Any

from intnet.autograd import Node, Op, Watcher
from intnet.errors import PackError
from intnet.ops.elementwise import add

Origin = list[list[str]]  # [what it is, of which layer] of each value that was added
BRANCHES = 2
FACTORS = "handed factors"  # the error that a layer hands to the maker of its factors


class Wiring(Watcher):
    """The makers of values, by the identity of these."""

    def __init__(self) -> None:
        self.images: Any = None
        self.order: list[str] = []
        self.sources: dict[str, Origin] = {}
        self.factors: dict[str, Origin] = {}
        self._made: dict[int, Origin] = {}
        self._kept: list[Any] = []  # a value that is gone could leave its identity to another

    def ends(
        self, op: Op, operands: tuple[Any, ...], attributes: dict[str, Any], value: Any, node: Node | None
    ) -> None:
        """A sum of branches, where these are known."""
        origins = [self._made.get(id(branch)) for branch in operands] if op is add else []
        if origins and all(origin is not None for origin in origins):
            self._note(value, [part for origin in origins for part in origin or ()])

    def reads(self, layer: str, value: Any, factors: Any = None) -> None:
        """A layer begins, the first one with the images; PackError where it reads nothing that is known."""
        if not self.order:
            self.images = value
        self.sources[layer] = self._origin(layer, value)
        if factors is not None:
            self.factors[layer] = self._origin(layer, factors)
        self.order.append(layer)

    def _origin(self, layer: str, value: Any) -> Origin:
        origin = [] if value is self.images else self._made.get(id(value))
        if origin is None or len(origin) > BRANCHES:
            raise PackError(
                f"layer {layer} reads what is no layer's output, nor the sum of two: a pack of a whole "
                "network holds no other operation between layers; name layers by --layer"
            )
        return origin

    def makes(self, layer: str, value: Any) -> None:
        """It is done."""
        self._note(value, [["output", layer]])

    def last(self) -> str:
        """The layer that gives the logits: no other one reads it. PackError where that is not one alone."""
        found = [name for name in self.order if not self.readers(name)]
        if len(found) != 1:
            raise PackError(
                f"nothing reads {' and '.join(found)}: a pack of a whole network ends in one layer; name "
                "layers by --layer"
            )
        return found[0]

    def readers(self, layer: str) -> Origin:
        """Who hands an error to a layer, as they come: the last one that ran first."""
        ways = (("handed", self.sources), (FACTORS, self.factors))
        found = [
            [way, name]
            for name in reversed(self.order)
            for way, read in ways
            if ["output", layer] in read.get(name, [])
        ]
        if len(found) > BRANCHES:
            raise PackError(
                f"{len(found)} layers read the output of {layer}: a pack of a whole network adds the errors "
                "of two; name layers by --layer"
            )
        return found

    def _note(self, value: Any, origin: Origin) -> None:
        self._made[id(value)] = origin
        self._kept.append(value)
