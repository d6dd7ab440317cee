"""Which blocks `mx_dot` is tested with, as `stimuli_sums.py` has it for the other sums.

Sums at ties of normal and subnormal numbers with neighbours near and far, just below and beyond infinity;
every amount of the shift, every bit of the sum, its limits; every word of every lane, all pairs of short
ones; every scale; NaNs and infinities in each place, and the block after them (L1). Corners, blocks that
cancel, random ones (L2). A sum is made of the greatest products that fit into what is left of it.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from typing import NamedTuple

from intnet.packs.units import stimuli
from intnet.packs.units.signals import Group, Parameters, Source, column, marks
from intnet.packs.units.stimuli import Groups, Level
from intnet.spec.formats import FixedPoint
from intnet.spec.microscaling import ELEMENTS, GREATEST, NAN, Element
from intnet.spec.small_floats import decode
from intnet.spec.tensor import power
from intnet.spec.units.mx import bits, edge, sums, unit
from intnet.spec.units.sums import MANTISSA

PAIRS = 12  # bits of two elements up to which all pairs are run
TOP = 2 * (NAN - 1)  # the greatest sum of two scales
EVEN = 2 * GREATEST  # of which the factor is 1

Beat = tuple[list[int], list[int]]
Pair = tuple[int, int]


class Block(NamedTuple):
    """The words of a block, beat by beat, and its scales."""

    beats: Sequence[Beat]
    sa: int
    sb: int


def group(name: str, flags: str, blocks: Sequence[Block]) -> Group:
    """A group of blocks; scales are noise but at the last beat."""
    columns = marks([len(block.beats) for block in blocks])
    columns["a"] = column([a for block in blocks for a, _ in block.beats])
    columns["b"] = column([b for block in blocks for _, b in block.beats])
    for port, scales in (("sa", [b.sa for b in blocks]), ("sb", [b.sb for b in blocks])):
        lengths = [len(block.beats) for block in blocks]
        told = [[NAN - s] * (n - 1) + [s] for s, n in zip(scales, lengths, strict=True)]
        columns[port] = column([s for one in told for s in one])
    return Group(name, flags, columns)


# -- from a sum to a block -------------------------------------------------------------------------


@cache
def values(kind: str) -> dict[int, int]:
    """Values of an element other than 0, in units of its least bit -> word."""
    element = ELEMENTS[kind]
    if isinstance(element, FixedPoint):
        return {word: word for word in words(kind) if word}
    found = ((decode(word, element), word) for word in finite(kind))
    return {int(Fraction(value) / power(unit(element))): word for value, word in found if Fraction(value)}


@cache
def products(a: str, b: str, sign: int) -> tuple[list[int], dict[int, list[Pair]]]:
    """The magnitudes of all products of a sign, ascending, and the pairs of words of each."""
    pairs: dict[int, list[Pair]] = {}
    for (x, left), (y, right) in product(values(a).items(), values(b).items()):
        if x * y * sign > 0:
            pairs.setdefault(abs(x * y), []).append((left, right))
    return sorted(pairs), pairs


def negated(word: int, element: Element) -> int:
    """The word of -x; of the least code, which has none, the greatest."""
    if isinstance(element, FixedPoint):
        return min(-word, element.limits()[1])
    return word ^ 1 << element.bits - 1


def terms(value: int, turn: int, p: Parameters) -> list[Pair]:
    """Pairs of words whose products have this sum; `turn` chooses among equal products."""
    ascending, pairs = products(p["A"], p["B"], -1 if value < 0 else 1)
    left, found = abs(value), list[Pair]()
    while left:
        size = ascending[bisect_right(ascending, left) - 1]
        times = max(1, min(left // size, p["K"] + 1 - len(found)))
        found += [pairs[size][turn % len(pairs[size])]] * times
        left -= size * times
        if len(found) > p["K"]:
            break
    return found


def beats_of(pairs: Sequence[Pair], turn: int, p: Parameters) -> list[Beat]:
    """Pairs in lanes, from lane `turn` on; what is left over are zeros."""
    lanes = p["LANES"]
    made: list[Beat] = []
    for first in range(0, max(len(pairs), 1), lanes):
        a, b = [0] * lanes, [0] * lanes
        for i, (x, y) in enumerate(pairs[first : first + lanes]):
            a[(i + turn) % lanes], b[(i + turn) % lanes] = x, y
        made.append((a, b))
    return made


def split(scales: int, turn: int) -> Pair:
    """Two scales with this sum, neither of them NaN."""
    return stimuli.split(scales, turn, 0, NAN - 1)


def summed(value: int, scales: int, turn: int, p: Parameters, tail: int = 0) -> list[Block]:
    """The block whose elements have the sum value + tail, scaled by 2^(scales - 254); none where it takes
    more than K elements, or scales that there are not.
    """
    low, high = sums(p)
    if not 0 <= scales <= TOP or not low <= value <= high:
        return []
    pairs = terms(value, turn, p) + terms(tail, turn + 1, p)
    if len(pairs) > p["K"] // p["LANES"] * p["LANES"]:
        return []
    return [Block(beats_of(pairs, turn, p), *split(scales, turn))]


def several(p: Parameters, wanted: Iterable[tuple[int, int, int]]) -> list[Block]:
    """Blocks of (value, scales, tail)."""
    return [
        block for turn, (value, scales, tail) in enumerate(wanted)
        for block in summed(value, scales, turn, p, tail)
    ]  # fmt: skip


# -- directed --------------------------------------------------------------------------------------


def _few(p: Parameters) -> Groups:
    """1, -1, 1.5, ties of 24 bits, the least subnormal, half of it, infinity, 0, NaN."""
    one, place = EVEN + MANTISSA, -unit(ELEMENTS[p["A"]]) - unit(ELEMENTS[p["B"]])
    wanted = [(1 << place, EVEN, 0), (-1 << place, EVEN, 0), (3 << max(0, place - 1), EVEN, 0)]
    wanted += [(2**24 + 1, one, 0), (-(2**24 + 3), one, 0), (1, edge(p) - MANTISSA, 0), (-1, edge(p) - 25, 0)]
    wanted += [(1 << place, TOP, 0), (-1 << place, TOP, 0), (0, EVEN, 0)]
    blocks = several(p, wanted)
    return [group("few", "tie subnormal infinity lane nan", [*blocks, blocks[0]._replace(sa=NAN)])]


# what is kept of a sum: of 24 bits, and of few
_CODES = (0, 1, 2, 3, 5, 2**22 - 1, 2**23 - 1, 2**23, 2**23 + 1, 0xAAAAAB, 2**24 - 2, 2**24 - 1)


def _ties(p: Parameters) -> Groups:
    """Halfway above a code and beside it, at the least place of the sum and at its top; as a subnormal, as a
    normal number, at the limit of float32."""
    low, high = sums(p)
    groups = []
    for i, code in enumerate(_CODES):
        wide = code.bit_length()
        room = min(-low, high).bit_length() - wide - 1
        wanted: list[tuple[int, int, int]] = []
        for lost in sorted({1, 2, room // 2, room - 1, room} & set(range(1, max(room, 0) + 1))):
            tie = (2 * code + 1) << lost - 1
            grids = [edge(p) - MANTISSA - lost]
            if wide == MANTISSA:
                grids += [grids[0] + 1, grids[0] + 100, grids[0] + 252, grids[0] + 253, grids[0] + 254]
            for k, grid in enumerate(grids):
                sign = -1 if (i + lost + k) % 2 else 1
                near = (0, 1, -1) if lost > 1 else (0,)
                wanted += [(sign * tie, grid, sign * d) for d in near] + [(-sign * tie, grid, 0)]
                wanted.append((sign * (code << lost), grid, 0))
        if blocks := several(p, wanted):
            groups.append(group(f"code{code}", "tie sticky carry subnormal infinity", blocks))
    return groups


def _wide(p: Parameters) -> Groups:
    """Powers of two and their neighbours; every place of the kept bits, by the sum and by the scales; the
    greatest sums."""
    low, high = sums(p)
    top = max(-low, high).bit_length()
    signs = [(sign, j) for j in range(top) for sign in (1, -1)]
    grids = (EVEN, edge(p) - MANTISSA, TOP, 0)
    powers = [(sign * (1 << j), grids[(j + (sign < 0)) % 4], 0) for sign, j in signs]
    powers += [(sign * ((1 << j) - 1), edge(p) - j % 3, 0) for sign, j in signs if j > 1]
    groups = [group("power", "width carry", several(p, powers))]
    kept = [(1 << r - 1, min(TOP, edge(p) - r + 2 + r % 90), 0) for r in range(1, top + 1)]
    lost = [(sign * ((1 << top - 1) - 1), edge(p) - r, 0) for r in range(1, top + 27) for sign in (1, -1)]
    lost += [((1 << top - 1) + d, edge(p) - r, 0) for r in range(top, top + 27) for d in (0, 1 << top // 2)]
    lost += [(3, edge(p) - (1 << j), 0) for j in range(edge(p).bit_length())]
    zeros = [(0, scales, 0) for scales in (0, 1, EVEN, edge(p), TOP)]
    groups.append(group("amount", "shift_range subnormal underflow", several(p, [*kept, *lost, *zeros])))
    return [*groups, group("long", "width carry", _long(p))]


def _long(p: Parameters) -> list[Block]:
    """Blocks of K of the greatest products of either sign."""
    sides = [_rims(ELEMENTS[p[choice]]) for choice in ("A", "B")]
    found = []
    for k, (a, b) in enumerate(product(*sides)):
        beat: Beat = ([a] * p["LANES"], [b] * p["LANES"])
        scales = (EVEN, edge(p) - MANTISSA - 30, TOP)[k % 3]
        found.append(Block([beat] * (p["K"] // p["LANES"]), *split(scales, k)))
    return found


def _rims(element: Element) -> list[int]:
    """The words of the greatest and the least finite value."""
    if isinstance(element, FixedPoint):
        return [-(1 << element.wl - 1), (1 << element.wl - 1) - 1]
    return [element.greatest, negated(element.greatest, element)]


def words(kind: str) -> list[int]:
    """All of an element."""
    element = ELEMENTS[kind]
    half = 1 << bits(element) - 1
    return list(range(-half, half) if isinstance(element, FixedPoint) else range(2 * half))


def _bits(kind: str) -> list[int]:
    """Words of one bit, beside the sign too, of all bits but one, of none and of all; special ones."""
    every, top = set(words(kind)), bits(ELEMENTS[kind])
    found = {sign ^ 1 << bit for bit in range(top) for sign in (0, 1 << top - 1, -1)} | {0, -1}
    return sorted(every & ({word & (1 << top) - 1 for word in found} | found | set(specials(kind))))


def _one(kind: str) -> int:
    """The word of an odd number: bits of what it multiplies stay apart."""
    return values(kind)[3]


def _lanes(p: Parameters) -> Groups:
    """Every word of lane 0, of the others every bit alone and without it, the other lanes 0; all pairs of
    short words."""
    groups = []
    for turn in range(p["LANES"]):
        some = _bits if turn else words
        pairs = [(a, _one(p["B"])) for a in some(p["A"])] + [(_one(p["A"]), b) for b in some(p["B"])]
        blocks = [Block(beats_of([pair], turn, p), *split(EVEN + pair[0] % 7, turn)) for pair in pairs]
        groups.append(group(f"lane{turn}", "lane negative nan", blocks))
    if bits(ELEMENTS[p["A"]]) + bits(ELEMENTS[p["B"]]) <= PAIRS:
        every = list(product(words(p["A"]), words(p["B"])))
        blocks = [Block(beats_of([pair], k, p), *split(EVEN, k)) for k, pair in enumerate(every)]
        groups.append(group("every-product", "lane negative", blocks))
    return groups


def _scales(p: Parameters) -> Groups:
    """Every scale of each side, NaN too, beside others; both at their ends."""
    beats = [beats_of(terms(sign * 3, k, p), k, p) for k, sign in enumerate((1, -1))]
    blocks = [Block(beats[s % 2], GREATEST, s) for s in range(NAN + 1)]
    blocks += [Block(beats[s % 2], s, GREATEST) for s in range(NAN + 1)]
    rims = [0, 1, GREATEST - 1, GREATEST + 1, NAN - 1, NAN]
    blocks += [Block(beats[k % 2], *pair) for k, pair in enumerate(product(rims, rims))]
    return [group("scale", "shift_range subnormal infinity nan", blocks)]


def specials(kind: str) -> list[int]:
    """The words of NaNs and infinities: a few of each, of both signs."""
    element = ELEMENTS[kind]
    if isinstance(element, FixedPoint):
        return []
    half = 1 << element.bits - 1
    return [sign + n for n in range(element.greatest + 1, half) for sign in (0, half)]


def _specials(p: Parameters) -> Groups:
    """Each special word in each place of three beats, against words of every kind, a plain block after each;
    two of them in one beat and in two, in an order and the other."""
    rest = beats_of(terms(sums(p)[1] // 8 | 1, 0, p)[: p["LANES"]], 0, p)[0]
    plain = Block([rest], *split(EVEN, 3))
    blocks: list[Block] = []
    pairs = [(a, b) for a in specials(p["A"]) for b in _against(p["B"])]
    pairs += [(a, b) for b in specials(p["B"]) for a in _against(p["A"])]
    for k, pair in enumerate(pairs):
        beats = [rest, rest, rest][: max(1, min(3, p["K"] // p["LANES"]))]
        beats[k % len(beats)] = beats_of([pair], k, p)[0]
        blocks += [Block(beats, *split(TOP if k % 5 == 0 else EVEN, k)), plain]
    zeros = [(a, 0) for a in specials(p["A"])] + [(0, b) for b in specials(p["B"])]
    blocks += [
        Block(beats_of([pair], lane, p), *split(EVEN, lane)) for lane in range(p["LANES"]) for pair in zeros
    ]
    odd = [pair for k, pair in enumerate(pairs) if k % 3 == 0]
    for k, (one, other) in enumerate(zip(odd, odd[1:] + odd[:1], strict=True)):
        apart = [beats_of([one], k, p)[0], beats_of([other], k + 1, p)[0]]
        together = beats_of([one, other], k, p)[0]
        found = [*([apart] * (p["K"] >= 2 * p["LANES"])), *([[together]] * (p["LANES"] > 1))]
        blocks += [Block(beats, *split(EVEN, k)) for beats in found]
    blocks += [b._replace(sa=NAN) for b in blocks[:6]] + [plain]
    return [group("special", "nan infinity clear", blocks)] if pairs else []


def _against(kind: str) -> list[int]:
    """Zeros, the least and the greatest, of both signs, and the first special words."""
    element = ELEMENTS[kind]
    if isinstance(element, FixedPoint):
        return [0, 1, -1, *_rims(element)]
    low = [0, 1, element.greatest]
    return [*low, *(negated(word, element) for word in low), *specials(kind)[:3]]


def _directed(p: Parameters) -> Groups:
    return _lanes(p) + _specials(p) + _scales(p) + _wide(p) + _ties(p)


# -- corners ---------------------------------------------------------------------------------------


def random_beats(source: Source, p: Parameters, count: int, kinds: Sequence[Sequence[int]]) -> list[Beat]:
    """Lanes of one of these words each."""
    a, b = kinds
    lanes = range(p["LANES"])
    return [([source.one_of(a) for _ in lanes], [source.one_of(b) for _ in lanes]) for _ in range(count)]


def finite(kind: str) -> list[int]:
    """All words of numbers."""
    return [word for word in words(kind) if word not in specials(kind)]


def _corners(p: Parameters) -> Groups:
    source, most = Source(11), max(1, p["K"] // p["LANES"])
    numbers, rims = [finite(p[k]) for k in ("A", "B")], [_against(p[k]) for k in ("A", "B")]
    plain = [[w for w in some_ if w in all_] for some_, all_ in zip(rims, numbers, strict=True)]

    def some(kinds: Sequence[Sequence[int]], count: int, low: int, high: int) -> list[Block]:
        return [
            Block(random_beats(source, p, source.within(1, most), kinds),
                  *split(source.within(low, high), source.below(97)))
            for _ in range(count)
        ]  # fmt: skip

    middle = edge(p) - MANTISSA
    cancel = []
    for k in range(12):
        beats = random_beats(source, p, max(1, (most - k % 2) // 2), plain)
        back = [([negated(w, ELEMENTS[p["A"]]) for w in a], b) for a, b in beats]
        last = random_beats(source, p, k % 2, numbers)
        cancel.append(Block([*beats, *back, *last][:most], *split(EVEN - k, k)))
    return [
        group("random", "sticky clear", some(numbers, 30, EVEN - 40, EVEN + 40)),
        group("low", "subnormal underflow sticky", some(numbers, 20, max(0, middle - 40), middle + 10)),
        group("high", "infinity", some(numbers, 10, EVEN + 60, TOP)),
        group("rims", "lane width", some(plain, 20, 0, TOP)),
        group("any", "nan infinity clear", some(rims, 12, 0, TOP)),
        group("cancel", "sticky width", cancel),
    ]


GROUPS: dict[str, dict[str, Level]] = {"mx_dot": {"L0": _few, "L1": _directed, "L2": _corners}}
