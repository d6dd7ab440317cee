"""Which elements of a path are worth reading: one of each fate that rounding has, and the extremes.

    interesting(event, operands) -> [(what it is, Explanation), ...]

The measured errors s - c name the candidates, the explanation of each decides: nothing is claimed from a
float64. The same step gives the same elements.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from intnet.exact.blocks.buckets import Packed
from intnet.exact.blocks.mx_blocks import Along
from intnet.inspect.explain import Explanation, explain
from intnet.inspect.explain_blocks import mantissa_bits
from intnet.inspect.explain_buckets import Rounding
from intnet.inspect.explain_rules import Index
from intnet.inspect.measure import codes_of, compare, in_bucket_steps, in_values
from intnet.inspect.operands import Operands
from intnet.inspect.trail import HALF, bucket_trail
from intnet.methods.trace import Event
from intnet.numbers.formats import BlockFloat, Flag
from intnet.spec.tensor import place_of

TRIES = 40  # candidates of one fate that are explained before it counts as absent

Sought = tuple[str, Sequence[int] | np.ndarray]  # label, flat indices to try

FATES: dict[str, Callable[[Rounding], bool]] = {  # what must hold; of other labels nothing
    "rounds up": lambda r: r.up and not (r.tie or r.saturated),
    "rounds down": lambda r: not (r.up or r.tie or r.saturated),
    "tie": lambda r: r.tie,
    "saturated": lambda r: r.saturated,
}


def interesting(
    event: Event, operands: Operands, index: Index | None = None
) -> list[tuple[str, Explanation]]:
    """Labelled elements of an event, `index` first; an element that is two things has both labels."""
    known: dict[Index, Explanation] = {}
    labels: dict[Index, list[str]] = {}
    if index is not None:
        known[index] = explain(event, index, operands)
        labels[index] = ["asked for"]
    for label, candidates in _sought(event):
        for flat in candidates[:TRIES]:
            at = place_of(int(flat), event.result.shape)
            if at not in known:
                known[at] = explain(event, at, operands)
            rounding = known[at].rounding
            if label not in FATES or (rounding is not None and FATES[label](rounding)):
                labels.setdefault(at, []).append(label)
                break
    return [(", ".join(names), known[at]) for at, names in labels.items()]


def _sought(event: Event) -> Iterator[Sought]:
    if isinstance(event.result, Packed):
        yield from _in_buckets(event, event.result)
        return
    codes = codes_of(event.result).reshape(-1)
    if not codes.size:
        return
    status = getattr(event.result, "status", None)
    if event.format is not None and status is not None and status.inexact:
        yield from _fates(event)
    values = in_values(codes, event.result) if isinstance(event.format, BlockFloat | Along) else codes
    yield "greatest magnitude", [int(np.argmax(np.abs(values)))]
    if status is None or not status.inexact:  # nothing was rounded: the others are alike
        yield "first", [0]
    yield "zero", np.flatnonzero(codes == 0)


def _fates(event: Event) -> Iterator[Sought]:
    """Rounding's fates; the candidates of a fate are those of the greatest error, in steps, first."""
    scaled, errors = compare(event, event.result)
    if isinstance(event.format, Flag):  # each element is rounded on its own grid
        coarse = np.abs(scaled) >= 1 << event.format.fine
        errors = errors / np.where(coarse, 1 << event.format.fine, 1)
    elif isinstance(event.format, Along):
        errors = np.ldexp(errors, -event.format.own_steps(scaled))
    size = np.abs(errors)
    if isinstance(event.format, BlockFloat):
        bits = mantissa_bits(event).reshape(-1)
        yield "in a block of 0 bits", _by(size, (bits == 0) & (size > 0))
        size = np.where(bits == 0, 0, size)
        plain = (size > 0) & (size < 0.5)  # the nearest, or saturated
    else:
        plain = (size < 1) & (size != 0.5)
    yield "rounds up", _by(size, plain & (errors < 0))
    yield "rounds down", _by(size, plain & (errors > 0))
    yield "tie", np.flatnonzero(size == 0.5)
    yield "saturated", _by(size, size > 0)


def _in_buckets(event: Event, packed: Packed) -> Iterator[Sought]:
    """Of a codec: errors in steps of the element's own bucket; of levels those of the magnitude."""
    a, errors = compare(event, packed)
    if not a.size:
        return
    codec = packed.codec
    of = np.arange(a.size) // codec.size(a.size)
    constant = packed.scales[of] == 0
    left, bottom = in_bucket_steps(packed, errors)
    errors = left / bottom
    if not codec.has_zero and codec.kind != "symmetric":  # of levels, whose codes are magnitudes
        errors = np.where(a < 0, -errors, errors)
    size = np.abs(errors)
    yield "rounds up", _by(size, errors < 0)
    yield "rounds down", _by(size, errors > 0)
    if codec.has_zero:
        found = bucket_trail(event.source, packed, event.words)
        tie = (found.remainder == HALF).reshape(-1)
        beyond = (found.presat != packed.codes()).reshape(-1)
        yield "tie", _by(size, tie)
        yield "saturated", _by(size, beyond)
    if packed.codec.mix is not None:
        wide = packed.widths[of] == packed.codec.mix
        for label, chosen in (("in a promoted bucket", wide), ("in a bucket that is not promoted", ~wide)):
            yield label, _by(size, chosen)
    yield "in a constant bucket", np.flatnonzero(constant)
    values = packed.load().reshape(-1)
    yield "greatest magnitude", [int(np.argmax(np.abs(values)))]
    yield "zero", np.flatnonzero(values == 0)


def _by(size: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """The chosen elements, the greatest first, in their own order where equal."""
    flat = np.flatnonzero(chosen)
    return flat[np.argsort(-size[flat], kind="stable")]
