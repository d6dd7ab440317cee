"""Reverse-mode differentiation, whole: a value, the node that made it, and one walk back.

    y = conv2d(x, w, stride=(1, 1))     an Op: runs `forward`, remembers what `vjp` will need
    gradients = backward(loss, seed, add)

The core knows nothing of numbers: a value is whatever the operations take (a QTensor, an exact
expression, a float32 array), and gradients that meet are joined by the `add` given. Nodes are
walked in reverse order of creation, so the order of every sum is defined. A node keeps only what
its `vjp` asked for (`Saved`), not its value, and lets go of it once used. Operations that save large
values take `keep`, which may put them into another form (`Kept`) until the vjp loads them.

    with watched(watcher): ...          every operation, its way back and every join tell the watcher
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from intnet.errors import ShapeError

_clock = itertools.count()


class Kept:
    """A value in another form, such as packed bits, until a vjp loads it; see `Method.save`."""

    shape: tuple[int, ...]

    def load(self) -> Any:
        """The value, or what stands for it."""
        raise NotImplementedError(f"{type(self).__name__} defines no load")


def loaded(value: Any) -> Any:
    """What a vjp reads of a saved value."""
    return value.load() if isinstance(value, Kept) else value


class Later:
    """A gradient of which parts are on their way from other processes: called, it waits for them.

    `backward` goes on meanwhile, and calls it where it is added to another one, else at its end.
    """

    def __init__(self, arrive: Callable[[], Any]) -> None:
        self._arrive = arrive

    def __call__(self) -> Any:
        """The gradient."""
        return self._arrive()


def _here(gradient: Any) -> Any:
    return gradient() if isinstance(gradient, Later) else gradient


class Watcher:
    """What is told of each operation while `watched`; verification derives from it (`verify/record.py`)."""

    def begins(self, op: "Op", operands: tuple[Any, ...], attributes: dict[str, Any]) -> None:
        """A forward pass on values."""

    def ends(
        self, op: "Op", operands: tuple[Any, ...], attributes: dict[str, Any],
        value: Any, node: "Node | None",
    ) -> None:  # fmt: skip
        """It is done; node: None where no gradient is wanted."""

    def goes_back(self, node: "Node", gradient: Any) -> None:
        """The vjp of a node begins."""

    def came_back(self, parts: tuple[Any, ...]) -> None:
        """It is done."""

    def joins(self, first: Any, second: Any, total: Any) -> None:
        """Two gradients of one value met."""


_watcher: Watcher | None = None  # without one a step pays a comparison an operation


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Tell the watcher of all that happens inside; one at a time."""
    global _watcher  # noqa: PLW0603 (what an operation tells has no other way out)
    before, _watcher = _watcher, watcher
    try:
        yield
    finally:
        _watcher = before


Keep = Callable[[Any], Any]  # from a value to what the tape holds of it


def as_it_is(value: Any) -> Any:
    """The default of `keep`: the tape holds the value itself."""
    return value


class Saved:
    """What an operation keeps from forward for its vjp: attributes set at will, and `needs`.

    needs: one bool an argument, whether its gradient is wanted
    """

    def __init__(self, needs: tuple[bool, ...]) -> None:
        self.needs = needs

    if TYPE_CHECKING:

        def __setattr__(self, name: str, value: Any) -> None:
            """Any name is taken."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the forward pass saved no {name!r}; it has {sorted(vars(self))}")


@dataclass(eq=False, slots=True)
class Node:
    """One recorded operation; `op` is None for a leaf, which is `of` something (a parameter).

    shape: of its value; None where that has none, as two copies
    """

    op: "Op | None"
    parents: "tuple[Node | None, ...]" = ()
    saved: Saved | None = None
    of: Any = None
    shape: tuple[int, ...] | None = None
    index: int = field(default_factory=_clock.__next__)


class Tensor:
    """A value, and the node it came from (None where no gradient is wanted)."""

    __slots__ = ("node", "value")

    def __init__(self, value: Any, node: Node | None = None) -> None:
        self.value = value
        self.node = node

    def __repr__(self) -> str:
        origin = "constant" if self.node is None else self.node.op.name if self.node.op else "leaf"
        return f"Tensor({self.value!r}, from {origin})"


def leaf(value: Any, of: Any = None) -> Tensor:
    """A tensor whose gradient `backward` reports under `of`, else under its node."""
    return Tensor(value, Node(None, of=of, shape=getattr(value, "shape", None)))


@dataclass(eq=False)
class Op:
    """A differentiable operation.

    forward: (saved, *values, **attributes) -> value
    vjp:     (saved, gradient) -> one gradient an argument, None where `saved.needs` says it is not wanted.
             None instead of a function: the operation has no gradient, and asking for one names it
    spec: of an operation of a user's own, what `verify` checks it by (`verify/rules`); may be set later, from
          another file
    """

    name: str
    forward: Callable[..., Any]
    vjp: Callable[[Any, Any], tuple[Any, ...]] | None
    spec: Any = None

    def __call__(self, *args: Any, **attributes: Any) -> Tensor:
        """The value of the operation on tensors or plain values, recorded where a gradient is wanted."""
        nodes = tuple([a.node if isinstance(a, Tensor) else None for a in args])
        saved = Saved(tuple([node is not None for node in nodes]))
        values = tuple([a.value if isinstance(a, Tensor) else a for a in args])
        if _watcher is not None:
            _watcher.begins(self, values, attributes)
        value = self.forward(saved, *values, **attributes)
        shape = getattr(value, "shape", None)
        node = Node(self, nodes, saved, shape=shape) if any(saved.needs) else None
        if _watcher is not None:
            _watcher.ends(self, values, attributes, value, node)
        return Tensor(value, node)


def _cast(saved: Saved, x: Any, *, forward: Callable[[Any], Any], backward: Callable[[Any], Any]) -> Any:
    """A quantizer on the way forward, another on the way back: y = forward(x), dx = backward(dy).

    So a method (`methods/`) puts its formats on a data path: the derivative of rounding itself is taken as 1,
    a straight-through estimator (WAGEUBN Eq. 1).

    Defined by `spec/nets.py: Rules`.
    """
    saved.backward = backward
    return forward(x)


def _cast_vjp(saved: Saved, gradient: Any) -> tuple[Any]:
    return (saved.backward(gradient),)


cast = Op("cast", _cast, _cast_vjp)


def reachable(root: Node) -> Iterable[Node]:
    """Every node that `root` depends on, newest first."""
    seen, stack = {root}, [root]
    while stack:
        for parent in stack.pop().parents:
            if parent is not None and parent not in seen:
                seen.add(parent)
                stack.append(parent)
    return sorted(seen, key=lambda node: -node.index)


def backward(output: Tensor, seed: Any, add: Callable[[Any, Any], Any]) -> dict[Any, Any]:
    """Gradients of `output` (given `seed`, the gradient at it) for every leaf, by what it is of.

    The graph is used up: what its nodes saved is released on the way. ShapeError for a gradient of another
    shape than its value: kernels would read beyond it.
    """
    if output.node is None:
        raise ValueError("backward: this value depends on no parameter")
    gradients: dict[Node, Any] = {output.node: seed}
    leaves: dict[Any, Any] = {}
    for node in reachable(output.node):
        gradient = gradients.pop(node, None)
        if gradient is None:
            continue
        if node.op is None:
            if not isinstance(gradient, Later):
                _check_shape(node, gradient)
            of = node if node.of is None else node.of
            leaves[of] = _joined(leaves.get(of), gradient, add)
            continue
        if node.op.vjp is None:
            raise NotImplementedError(f"operation {node.op.name!r} has no gradient")
        if node.saved is None:
            raise ValueError(f"backward: the graph was used up already (at {node.op.name!r})")
        if _watcher is not None:
            _watcher.goes_back(node, gradient)
        parts = _parts(node, node.op.name, node.op.vjp, gradient)
        if _watcher is not None:
            _watcher.came_back(parts)
        node.saved = None
        for parent, part in zip(node.parents, parts, strict=True):
            if parent is not None and part is not None:
                gradients[parent] = _joined(gradients.get(parent), part, add)
    return {of: _here(gradient) for of, gradient in leaves.items()}


def _parts(
    node: Node, name: str, vjp: Callable[[Any, Any], tuple[Any, ...]], gradient: Any
) -> tuple[Any, ...]:
    """The gradients of a node's operands; of a single one, later where its own is."""
    if isinstance(gradient, Later) and len(node.parents) == 1:
        saved = node.saved
        return (Later(lambda: vjp(saved, _check_shape(node, gradient()))[0]),)
    parts = vjp(node.saved, _check_shape(node, _here(gradient)))
    if not isinstance(parts, tuple) or len(parts) != len(node.parents):
        told = f"{len(parts)} gradients" if isinstance(parts, tuple) else f"a {type(parts).__name__}"
        raise TypeError(f"the vjp of {name!r} gave {told}: a tuple of {len(node.parents)} is wanted")
    return parts


def _check_shape(node: Node, gradient: Any) -> Any:
    """The gradient, which has the shape of the node's value; ShapeError where it has another."""
    shape = getattr(gradient, "shape", node.shape)
    if node.shape is not None and shape != node.shape:
        name = getattr(node.of, "name", "a leaf") if node.op is None else node.op.name
        where = vars(node.saved).get("where") if node.saved is not None else None
        told = f"{where}: {name}" if where else name
        raise ShapeError(f"{told}: a gradient of shape {shape} came back to a value of shape {node.shape}")
    return gradient


def _joined(before: Any, part: Any, add: Callable[[Any, Any], Any]) -> Any:
    """A gradient and what came to it before, if anything."""
    if before is None:
        return part
    before, part = _here(before), _here(part)
    total = add(before, part)
    if _watcher is not None:
        _watcher.joins(before, part, total)
    return total
