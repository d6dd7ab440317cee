"""What ends a network by the definition: the loss of a step, the classes of an inference.

Every value goes on as it was stored (`Store`), so that a fault of a device stays where it is.
"""

from collections.abc import Callable, Sequence
from typing import Any

from intnet.spec import inference
from intnet.spec.loss import error_at, logits32, loss_of, mean_loss, targets
from intnet.spec.tensor import Fixed, Tensor
from intnet.spec.values import Value, exact

Store = Callable[[str, Value, Any], Any]  # (path, what it is made of, what it is) -> what goes on


def loss(output: Value, labels: Sequence[int], smoothing: float, store: Store) -> tuple[Tensor, Tensor]:
    """(the logits, the error that goes back)."""
    logits = store("logits", output, logits32(_plain(output)))
    (n, c), target = logits.shape, targets(smoothing, logits.shape[1])
    rows = [loss_of(logits.values[i * c : (i + 1) * c], label, target) for i, label in enumerate(labels)]
    p = store("p", logits, Tensor((n, c), [v for row in rows for v in row.p]))
    losses = store("losses", logits, Tensor((n,), [row.loss for row in rows]))
    store("loss", losses, Tensor((1,), [mean_loss(losses.values)]))
    errors = [error_at(v, i % c == labels[i // c], target, n) for i, v in enumerate(p.values)]
    return logits, store("e", p, Tensor((n, c), errors))


def classes(output: Value, store: Store) -> Tensor:
    """The logits."""
    logits: Tensor = store("logits", output, logits32(_plain(output)))
    found = inference.classes(logits)
    store("class", logits, Fixed((len(found),), found, 0))
    return logits


def _plain(output: Value) -> Tensor | Fixed:
    return output if isinstance(output, Tensor | Fixed) else Tensor(output.shape, exact(output))
