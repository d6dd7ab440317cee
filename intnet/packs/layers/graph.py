"""Where a layer of a pack got its value and its error: from other layers of the pack, or from outside.

    origins(relu1, captured)    of its value   [["output", "bn1"]]      the output of bn1, as it is
                                               [["output", "bn2"], ["value", "conv1"]]   two that were added
                                of its error   [["handed", "conv2"], ["error", "relu2"]]
                                               [] where it came from outside

What came from inside is no input of a device: it makes it itself. Layers without a data path of their own
(a max pool, a flatten) are in no pack, so what they give came from outside. Values are compared, not objects:
a pack that is run again finds the same.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from intnet.errors import IntnetError
from intnet.exact.expressions import Exact, exact
from intnet.numbers.qtensor import QTensor
from intnet.ops.elementwise import join
from intnet.packs.layers.capture import Captured
from intnet.packs.layers.wiring import FACTORS, Origin

Origins = tuple[Origin, Origin, Origin]  # of a layer's value, its error and its factors
Ways = dict[str, str]  # a field of `Captured` -> its name in PACK.json
FORWARD: tuple[Ways, Ways] = {"output": "output"}, {"value": "value"}
BACK: tuple[Ways, Ways] = {"handed": "handed", "handed_factors": FACTORS}, {"gradient": "error"}


def origins(one: Captured, captured: Sequence[Captured]) -> Origins:
    """What made all that a layer was given; as it was seen, where it was (`wiring.py`)."""
    if one.sources is not None and one.errors is not None:
        return one.sources, one.errors, one.factor_sources or []
    value, factors = (_origin(read, captured, one.layer, FORWARD) for read in (one.value, one.factors))
    return value, _origin(one.gradient, captured, one.layer, BACK), factors


def _origin(value: Any, captured: Sequence[Captured], own: str, ways: tuple[Ways, Ways]) -> Origin:
    """What a layer made, or what it made and another value, added in either order."""
    others = [one for one in captured if one.layer != own]
    products, givens = (
        [([name, one.layer], getattr(one, key)) for one in others for key, name in way.items()]
        for way in ways
    )
    for name, other in products:
        if same(value, other):
            return [name]
    for (name, a), (other, b) in _pairs(products, givens, value):
        if name != other and same(value, _joined(a, b)):
            return [name, other]
    return []


def _pairs(products: Sequence[Any], givens: Sequence[Any], value: Any) -> Iterator[Any]:
    """All of them that could add up to `value`, one of which a layer made."""
    shape = getattr(value, "shape", None)
    left = [one for one in products if getattr(one[1], "shape", None) == shape]
    right = [one for one in givens if getattr(one[1], "shape", None) == shape]
    yield from product(left, left)
    yield from product(left, right)
    yield from product(right, left)


def _joined(a: Any, b: Any) -> Any:
    """a + b, None where they are no branches that join."""
    try:
        return join(a, b)
    except IntnetError:
        return None


def same(a: Any, b: Any) -> bool:
    """Whether two values have the same numbers in the same form."""
    if a is None or b is None:
        return False
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        both = isinstance(a, np.ndarray) and isinstance(b, np.ndarray)
        return both and a.dtype == b.dtype and np.array_equal(a, b)
    left, right = _form(a), _form(b)
    if left is None or right is None or len(left) != len(right):
        return False
    return all(np.array_equal(p, q) for p, q in zip(left, right, strict=True))


def _form(value: Any) -> list[Any] | None:
    """The numbers of a sum of codes; None of anything else."""
    if not isinstance(value, QTensor | Exact) or isinstance(value.exponent, np.ndarray):
        return None
    expression = exact(value)
    assert isinstance(expression, Exact)
    head = [expression.exponent, expression.offset, expression.den, expression.relu, *expression.shifts]
    terms = [part for term, factor in expression.terms for part in (term.codes, term.exponent, factor)]
    return [*head, *terms]
