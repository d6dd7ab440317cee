"""A batch shared out to ranks: each computes whole groups of its images, and sums meet as one process sums.

    with sharing(Share(world, images)):     inside, tensors with a batch axis are this rank's images alone
        ...

What an operation makes of a whole batch, it makes by one of these, which without a share are what they are
handed:

    rows(n)             how many rows or images all ranks have, where this one has n
    alike(a, b)         the same tensors with bounds that hold on all ranks
    summed(kernel)      an integer kernel whose result is the sum over all images; totals(array) such a sum;
                        begun(array) one that is waited for later
    folded(sum_of, x)   a float32 sum over images, in the groups and the tree of `numbers/batch_sums.py`
    greatest(array)     maxima over all ranks
    start(n)            the number of this rank's first element, of which it has n

Groups are dealt out in order, as evenly as they can be. A rank that none is left for is idle: it computes the
first group once more, so that it has tensors of some size, and counts for nothing.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from intnet.machine.ranks import World, current
from intnet.numbers.batch_sums import GROUP
from intnet.numbers.qtensor import QTensor, container, max_abs

Node = tuple[
    int, int
]  # (first group, groups) of a node of the tree: a power of two, more maybe than are left

NOTHING = -(1 << 40)  # below every exponent
SUMS = "sums"  # their name in `World.sent`
SHORT = 1 << 10  # words of integers up to which a type that all agree on saves less than its message costs
LONG = 1 << 12  # words from which on a second message costs less than it saves


def division(images: int, ranks: int) -> list[tuple[int, int]]:
    """(first, one past the last) group of each rank."""
    groups = -(-images // GROUP)
    return [(rank * groups // ranks, (rank + 1) * groups // ranks) for rank in range(ranks)]


def nodes(begin: int, end: int, groups: int) -> list[Node]:
    """The fewest nodes of the tree over so many groups that the groups begin .. end - 1 are."""

    def within(first: int, span: int) -> list[Node]:
        last = min(first + span, groups)
        if last <= begin or first >= end:
            return []
        if begin <= first and last <= end:
            return [(first, span)]
        return within(first, span // 2) + within(first + span // 2, span // 2)

    return within(0, 1 << (groups - 1).bit_length()) if begin < end else []


def tree(sums: dict[Node, np.ndarray], groups: int) -> np.ndarray:
    """The sum over all groups of float32 sums of nodes, which are all there.

    Defined by `spec/float32.py: tree_units`.
    """

    def of(first: int, span: int) -> np.ndarray:
        if (first, span) in sums:
            return sums[first, span]
        half = span // 2
        lower = of(first, half)
        return lower + of(first + half, half) if first + half < groups else lower

    return of(0, 1 << (groups - 1).bit_length())


class Share:
    """Images first .. last - 1 of a batch of `images`: this rank's. idle: they are another's.

    watched: observers see values, in the order in which one process makes them: no sum is waited for later
    """

    def __init__(self, world: World, images: int, watched: bool = False) -> None:
        self.watched = watched
        self.world, self.images, self.groups = world, images, -(-images // GROUP)
        self.division = division(images, world.size)
        begin, end = self.division[world.rank]
        self.idle = begin == end
        self.begin, self.end = (0, 1) if self.idle else (begin, end)
        self.first, self.last = self.begin * GROUP, min(self.end * GROUP, images)
        self.nodes = [nodes(*one, self.groups) for one in self.division]

    @property
    def own(self) -> slice:
        """Of the batch."""
        return slice(self.first, self.last)

    def lengths(self, per_image: int) -> list[int]:
        """Elements of every rank, 0 of an idle one, where an image has so many."""
        return [
            (min(end * GROUP, self.images) - begin * GROUP) * per_image if begin < end else 0
            for begin, end in self.division
        ]

    def parts(self, *arrays: np.ndarray) -> list[tuple[np.ndarray, ...]]:
        """The arrays' images of each of this rank's nodes."""
        found = []
        for group, span in self.nodes[self.world.rank]:
            part = slice(group * GROUP - self.first, (group + span) * GROUP - self.first)
            found.append(tuple(array[part] for array in arrays))
        return found


_now: Share | None = None


def now() -> Share | None:
    """The share of the batch under way."""
    return _now


@contextmanager
def sharing(share: Share | None) -> Iterator[None]:
    """Inside the block tensors are those of `share`."""
    global _now  # noqa: PLW0603 (operations have no other way to know; one batch is under way a process)
    before, _now = _now, share
    try:
        yield
    finally:
        _now = before


# -- what a batch has --------------------------------------------------------------------------


def rows(n: int) -> int:
    """Rows of all ranks, n of this one's, as many an image."""
    return n if _now is None else n // (_now.last - _now.first) * _now.images


def start(n: int) -> int:
    """Elements of the images ahead of this rank's, which have n."""
    return 0 if _now is None else n // (_now.last - _now.first) * _now.first


def first_image() -> int:
    """The number of this rank's first image in the batch."""
    return 0 if _now is None else _now.first


def alike(*values: Any) -> tuple[Any, ...]:
    """The values, QTensors among them with a bound that holds on all ranks: so all choose one container."""
    if _now is None:
        return values
    bounds = [value.bound if isinstance(value, QTensor) else 0 for value in values]
    found = _now.world.greatest(np.array(bounds, np.int64), "bounds").tolist()
    return tuple(
        QTensor(value.codes, value.exponent, value.format, bound, value.status)
        if isinstance(value, QTensor)
        else value
        for value, bound in zip(values, found, strict=True)
    )


def totals(array: np.ndarray) -> np.ndarray:
    """The sum over ranks of integers that their type holds; long ones travel in the narrowest that does."""
    return array if _now is None else _now.world.total(_narrow(_now, array)).astype(array.dtype, copy=False)


def _narrow(share: Share, array: np.ndarray) -> np.ndarray:
    """What this rank has of a sum, of a long one in the narrowest type that holds the sum."""
    own = np.zeros_like(array) if share.idle else array
    if own.size <= SHORT:
        return own
    bound = int(share.world.total(np.array([max_abs(own)]), "bounds")[0])
    return own.astype(container(bound))


def travel() -> bool:
    """Whether there are sums that may be waited for later (`begun`)."""
    return _now is not None and not _now.watched


def watched() -> bool:
    """Whether observers see values of a batch that is shared out."""
    return _now is not None and _now.watched


def begun(array: np.ndarray) -> tuple[np.ndarray, Callable[[], None]]:
    """`totals`, still empty, and what waits for them and fills them in."""
    assert _now is not None
    out, wait = np.empty_like(array), _now.world.begin_total(_narrow(_now, array))

    def fill() -> None:
        out[...] = wait()

    return out, fill


def summed(kernel: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """`kernel`, and behind it the sum over ranks."""
    return kernel if _now is None else lambda *operands: totals(kernel(*operands))


def folded(sum_of: Callable[..., Any], *arrays: np.ndarray) -> Any:
    """sum_of(*arrays), a float32 array or a tuple of them, over the images of all ranks.

    Each rank sums whole nodes of the tree, all meet as in one process: so they are its bits.
    """
    if _now is None:
        return sum_of(*arrays)
    share, parts = _now, [arrays] if _now.idle else _now.parts(*arrays)
    made = [sum_of(*part) for part in parts]
    several = isinstance(made[0], tuple)
    shapes = [one.shape for one in (made[0] if several else (made[0],))]
    lines = [np.concatenate([one.reshape(-1) for one in (own if several else (own,))]) for own in made]
    total = _met_in_tree(share, lines[:0] if share.idle else lines, lines[0].size)
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
    result = tuple(one.reshape(shape) for one, shape in zip(np.split(total, ends), shapes, strict=True))
    return result if several else result[0]


def log2_max(n: int, filled: Any) -> int:
    """log2 of R(x) over all ranks, n that of this one's part; filled: whether that is not all 0."""
    if _now is None:
        return n
    found = int(greatest(np.array([n if filled else NOTHING]))[0])
    return 0 if found == NOTHING else found


def extremes(high: Fraction, low: Fraction) -> tuple[Fraction, Fraction]:
    """The greatest and the least over all ranks, exact."""
    if _now is None:
        return high, low
    pairs = [said.decode().split() for said in _now.world.messages(f"{high} {low}".encode())]
    return max(Fraction(one) for one, _ in pairs), min(Fraction(one) for _, one in pairs)


def _met_in_tree(share: Share, lines: list[np.ndarray], size: int) -> np.ndarray:
    """The tree of all ranks' lines, a line of `size` words a node.

    Of long ones each rank adds up a share of the words, of all nodes, and tells the others: so a word is sent
    twice, however many ranks there are; of short ones each hears all at once.
    """
    world, none = share.world, np.zeros(0, np.float32)
    if size < LONG:
        own = np.concatenate([none, *lines])
        return _tree_of(share, world.gather(own, [len(each) * size for each in share.nodes], SUMS), size)
    cuts = [rank * size // world.size for rank in range(world.size + 1)]
    words = [high - low for low, high in pairwise(cuts)]
    mine = words[world.rank]
    parts = [np.concatenate([none, *(line[low:high] for line in lines)]) for low, high in pairwise(cuts)]
    found = world.exchange(parts, [len(each) * mine for each in share.nodes], SUMS)
    return np.concatenate(world.gather(_tree_of(share, found, mine), words, SUMS))


def _tree_of(share: Share, found: list[np.ndarray], size: int) -> np.ndarray:
    """`tree` of all ranks' nodes."""
    sums: dict[Node, np.ndarray] = {}
    for each, part in zip(share.nodes, found, strict=True):
        sums |= dict(zip(each, part.reshape(len(each), size), strict=True))
    return tree(sums, share.groups)


def greatest(array: np.ndarray) -> np.ndarray:
    """The greatest of all ranks, element by element."""
    return array if _now is None else _now.world.greatest(array)


def largest(values: np.ndarray, n: int) -> np.ndarray:
    """The n largest of all ranks' vectors, in no order."""
    assert _now is not None
    own = values[:0] if _now.idle else values
    sizes = [min(n, length) for length in _now.lengths(values.size // (_now.last - _now.first))]
    own = np.partition(own, own.size - n)[own.size - n :] if own.size > n else own
    found = np.concatenate(_now.world.gather(own, sizes))
    return np.partition(found, found.size - n)[found.size - n :]


def bordered(values: np.ndarray, unit: int) -> tuple[np.ndarray, int]:
    """This rank's elements from the last border ahead of them to the first after, flat; how many are ahead.

    Borders stand at multiples of `unit`, counted over the batch; what is missing comes from other ranks.
    Where all ranks' ends are borders, the values as they are.
    """
    if _now is None or GROUP * values.size // (_now.last - _now.first) % unit == 0:
        return values, 0
    flat = np.ascontiguousarray(values).reshape(-1)
    lengths = _now.lengths(flat.size // (_now.last - _now.first))
    ends = np.cumsum(lengths).tolist()
    first = start(flat.size)
    last, low = first + flat.size, first // unit * unit
    out = np.empty(min(-(-last // unit) * unit, ends[-1]) - low, values.dtype)
    sent = [min(length, unit - 1) for length in lengths]
    n = sent[_now.world.rank]
    own = np.concatenate([flat[:n], flat[flat.size - n :]])
    for found, length, end, m in zip(
        _now.world.gather(own, [2 * m for m in sent]), lengths, ends, sent, strict=True
    ):
        for at, part in ((end - length, found[:m]), (end - m, found[m:])):
            begin, stop = max(at, low), min(at + m, low + out.size)
            if begin < stop:
                out[begin - low : stop - low] = part[begin - at : stop - at]
    out[first - low : last - low] = flat
    return out, first - low


def met(array: np.ndarray, images: int, per_row: int) -> np.ndarray:
    """[rows of so many images, ..] of a whole batch, from the ranks' own rows of it; outside of `sharing`."""
    world = current()
    if world is None:
        return array
    share, size = Share(world, images), array[0].size
    ends = [-(-min(end * GROUP, images) // per_row) for _, end in share.division]
    begins = [begin * GROUP // per_row for begin, _ in share.division]
    lengths = [max(0, end - begin) * size for begin, end in zip(begins, ends, strict=True)]
    own = array[begins[world.rank] : ends[world.rank]].reshape(-1)
    return np.concatenate(world.gather(own, lengths)).reshape(array.shape)


def everywhere(holds: bool) -> bool:
    """Whether it holds on all ranks."""
    return holds if _now is None else not _now.world.greatest(np.array([not holds], np.int8))[0]


def sum_of(value: float) -> float:
    """A bound's sum over ranks, the same on all of them; not exact."""
    if _now is None:
        return value
    return float(sum(np.concatenate(_now.world.gather(np.array([value]), [1] * _now.world.size))))


def idle() -> bool:
    """Whether what this rank has of the batch is counted by another."""
    return _now is not None and _now.idle


def counted(counts: dict[str, int], of_batch: Callable[[str], bool]) -> dict[str, int]:
    """Counts by 'layer/path' over all ranks; of tensors that are not of a batch all ranks have them alike."""
    world = current()
    if world is None:
        return dict(counts)
    found: dict[str, int] = {}
    for rank, said in enumerate(world.messages(json.dumps(counts).encode())):
        for name, count in json.loads(said).items():
            if of_batch(name.rpartition("/")[2]) or rank == 0:
                found[name] = found.get(name, 0) + count
    return found


def joined(array: np.ndarray) -> np.ndarray:
    """[images, ..]: of all ranks, by their images."""
    if _now is None:
        return array
    lengths = _now.lengths(array.size // len(array))
    own = array[:0] if _now.idle else array
    found = _now.world.gather(np.ascontiguousarray(own).reshape(-1), lengths)
    return np.concatenate(found).reshape(-1, *array.shape[1:])
