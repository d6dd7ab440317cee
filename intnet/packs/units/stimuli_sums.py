"""Which vectors the multiplying units are tested with, as `stimuli.py` has it for the others.

`mac_requant`: products whose bias brings the sum to every tie, limit and power of two, lone lanes, sums as
long as the accumulator takes (L1); extreme lanes and corners (L2). `block_dot`: sums at ties of 24 bits with
neighbours near and far, among normal and subnormal numbers and at the limit, every bit of the accumulator
(L1); the rims of the exponents, cancelling sums, random blocks (L2).
"""

from collections.abc import Sequence

from intnet.packs.units.signals import Group, Parameters, Source, column, marks, of_rows
from intnet.packs.units.stimuli import Groups, Level, corner_words, rims, split
from intnet.spec.units.steps import ends
from intnet.spec.units.sums import LOWEST
from intnet.spec.wires import span

SPREAD = 12  # of the exponents of random blocks, about their base
LONGEST = 1 << 16  # beats of a sum that is to reach its accumulator's limit

Beat = tuple[Sequence[int], Sequence[int]]
MacVector = tuple[Sequence[Beat], int]
Block = tuple[list[int], list[int], int, int]  # mantissas, mantissas, exponent, exponent


def sides(p: Parameters) -> tuple[tuple[int, int], tuple[int, int]]:
    """(least, greatest) of x and of w."""
    return span(p["A"], bool(p["XS"])), span(p["B"], bool(p["WS"]))


def dot(beats: Sequence[Beat], p: Parameters) -> int:
    """The sum of products, zero points taken off."""
    zx, zw = p["ZX"], p["ZW"]
    return sum((a - zx) * (b - zw) for x, w in beats for a, b in zip(x, w, strict=True))


def _mac(name: str, flags: str, vectors: Sequence[MacVector], p: Parameters) -> Groups:
    """A group of the vectors whose sums fit an exact accumulator; bias is noise but at the last beat."""
    low, high = span(p["ACC"])
    fit = [(beats, bias) for beats, bias in vectors if low <= bias <= high]
    if p["SUMS"] == "exact":
        fit = [v for v in fit if all(low <= some <= high for some in (dot(v[0], p), dot(v[0], p) + v[1]))]
    if not fit:
        return []
    columns = marks([len(beats) for beats, _ in fit])
    columns["x"] = column([x for beats, _ in fit for x, _ in beats])
    columns["w"] = column([w for beats, _ in fit for _, w in beats])
    columns["bias"] = column([bias for beats, b in fit for bias in [~b] * (len(beats) - 1) + [b]])
    return [Group(name, flags, columns)]


def random_beats(source: Source, p: Parameters, beats: int) -> list[Beat]:
    """Uniform lanes."""

    def lanes(ends: tuple[int, int]) -> list[int]:
        return [source.within(*ends) for _ in range(p["LANES"])]

    x, w = sides(p)
    return [(lanes(x), lanes(w)) for _ in range(beats)]


def _mac_few(p: Parameters) -> Groups:
    """x = ZX + 1 in one lane after the other, so that the result is w and bias; ties, and both limits."""
    lanes, half, top = p["LANES"], (1 << p["S"]) >> 1, 1 << p["OUT"] - 1 + p["S"]
    (low, high), _ = sides(p)
    down, at, up = (max(low, min(high, p["ZX"] + d)) for d in (-1, 0, 1))
    one: Beat = ([up] + [at] * (lanes - 1), [sides(p)[1][1]] * lanes)
    last: Beat = ([*one[0][1:], down], one[1])
    biases = (0, half - 1, 3 * half - 1, half, -half - 1, -3 * half, top, -top, 4 * half)
    aimed = [([one], bias - dot([one], p)) for bias in biases] + [([one], 1)]
    vectors = [*aimed, ([one, last, one], 2 * half), ([last], half)]
    return _mac("few", "tie saturation lane clear", vectors, p)


def _aims(p: Parameters) -> dict[str, set[int]]:
    """Accumulators to reach, by name: around codes and ties of q, and every power of two."""
    step, (least, most) = 1 << p["S"], ends(p["OUT"], p["OVERFLOW"], bool(p["QS"]))
    codes = {0, 1, 2, 3, -1, -2, -3}
    codes |= {edge - p["ZQ"] + d for edge in (least, most, 0) for d in (-2, -1, 0, 1, 2)}
    codes |= {2 * edge + d for edge in (least, most) for d in (-1, 0, 1)}
    out = {
        f"code{k}": {step * k + part + d for part in (0, step >> 1) for d in (-1, 0, 1)}
        for k in sorted(codes)
    }
    return out | {"power": set(rims(p["ACC"]))}


def _mac_directed(p: Parameters) -> Groups:
    source, groups = Source(9), []
    for name, targets in _aims(p).items():
        vectors = []
        for i, target in enumerate(sorted(targets)):
            for size in (1, 2 + i % 4):
                beats = random_beats(source, p, size)
                vectors.append((beats, target - dot(beats, p)))
        groups += _mac(name, "tie sticky negative carry saturation width", vectors, p)
    groups += _lone_lanes(p) + _long(p)
    if p["LANES"] * (p["A"] + p["B"]) <= 8:
        (low, high), (least, most) = sides(p)
        every = [([([a], [b])], 0) for a in range(low, high + 1) for b in range(least, most + 1)]
        groups += _mac("every-product", "negative tie saturation", every, p)
    return groups


def _lone_lanes(p: Parameters) -> Groups:
    """Each lane alone at its rims, with each bit of x and of w once."""
    lanes, ((low, high), (least, most)) = p["LANES"], sides(p)
    nothing = [min(max(z, a), b) for z, (a, b) in zip((p["ZX"], p["ZW"]), sides(p), strict=True)]
    groups: Groups = []
    for lane in range(lanes):
        pairs = [(a, b) for a in (low, high, 1, low + 1) for b in (least, most, least + 1)]
        pairs += [(low | 1 << bit, most) for bit in range(p["A"])] + [
            (high, least | 1 << bit) for bit in range(p["B"])
        ]
        alone: list[MacVector] = []
        for a, b in pairs:
            x, w = ([rest] * lanes for rest in nothing)
            x[lane], w[lane] = min(a, high), min(b, most)
            alone.append(([(x, w)], 0))
        groups += _mac(f"lane{lane}", "lane negative", alone, p)
    return groups


def _long(p: Parameters) -> Groups:
    """Sums that reach the accumulator's limits by products alone, in as many beats as it takes."""
    lanes, (x, w) = p["LANES"], sides(p)
    rims = [([a] * lanes, [b] * lanes) for a in x for b in w]
    top: Beat = max(rims, key=lambda beat: dot([beat], p))
    bottom: Beat = min(rims, key=lambda beat: dot([beat], p))
    low, high = span(p["ACC"])
    past = 3 if p["SUMS"] != "exact" else 0
    groups: Groups = [*_mac("burst", "width clear", [([top] * 128, 0), ([bottom] * 128, 0)], p)]
    for name, beat, edge in (("top", top, high), ("bottom", bottom, low)):
        each = dot([beat], p)
        count = edge // each if each and (each > 0) == (edge > 0) else 0
        if 0 < count <= LONGEST:
            vectors: list[MacVector] = [
                ([beat] * (count + past), 0),
                ([beat], edge - each),
                ([beat] * 2, edge - 2 * each),
            ]
            groups += _mac(f"long-{name}", "width saturation", vectors, p)
    return groups


def _mac_corners(p: Parameters) -> Groups:
    lanes, ((low, high), (least, most)) = p["LANES"], sides(p)
    rims = ((low, least), (low, most), (high, most))
    long = [([([a] * lanes, [b] * lanes)] * size, 0) for size in (1, 5, 40) for a, b in rims]
    groups = _mac("extreme", "saturation width clear", long, p)
    idle: list[Beat] = [([min(max(p["ZX"], low), high)] * lanes, [min(max(p["ZW"], least), most)] * lanes)]
    room, reach = 1 << p["ACC"] - 1, lanes << p["A"] + p["B"]
    groups += _mac(
        "bias", "width negative", [(idle, bias) for bias in (room - 1 - reach, reach - room, 0)], p
    )
    source = Source(10)
    xs, ws = (corner_words(*of) for of in ((p["A"], p["XS"]), (p["B"], p["WS"])))
    beats = [
        [
            ([source.one_of(xs) for _ in range(lanes)], [source.one_of(ws) for _ in range(lanes)])
            for _ in range(4)
        ]
        for _ in range(64)
    ]
    return groups + _mac("corner-lanes", "lane sticky clear", [(some, 0) for some in beats], p)


# -- block float ---------------------------------------------------------------------------------


def block_group(name: str, flags: str, vectors: Sequence[Sequence[Block]]) -> Group:
    """A group of vectors of blocks."""
    blocks = [(x, w, [xe], [we]) for vector in vectors for x, w, xe, we in vector]
    columns = of_rows(name, flags, ("xm", "wm", "xe", "we"), blocks).columns
    return Group(name, flags, marks([len(vector) for vector in vectors]) | columns)


def _exact_blocks(value: int, exponent: int, turn: int, p: Parameters) -> list[Block]:
    """Blocks whose sum is value * 2^exponent: so many bits of it a lane, every lane in turn."""
    blocks: list[Block] = []
    bits, place, size, sign = p["M"] - 1, 0, abs(value), -1 if value < 0 else 1
    while size or not blocks:
        xe, we = split(exponent + place, turn + place, -128, 127)
        x, w = [0] * p["BLOCK"], [0] * p["BLOCK"]
        lane = (turn + len(blocks)) % p["BLOCK"]
        x[lane], w[lane] = sign * (size & (1 << bits) - 1), 1
        blocks.append((x, w, xe, we))
        size, place = size >> bits, place + bits
    return blocks


def _great_blocks(value: int, p: Parameters) -> list[Block]:
    """Blocks whose sum is value * 2^254, the greatest place of a product."""
    half, high, size = p["M"] - 2, span(p["M"])[1], abs(value)
    blocks: list[Block] = []
    while size:
        w = 1 << half if size >> half else 1
        x = min(high, size // w)
        sign = -1 if value < 0 else 1
        blocks.append(([sign * x] + [0] * (p["BLOCK"] - 1), [w] + [0] * (p["BLOCK"] - 1), 127, 127))
        size -= x * w
    return blocks


def random_block(source: Source, base: int, p: Parameters, spread: int = SPREAD) -> Block:
    """Uniform mantissas, exponents within `spread` of `base`."""
    xe, we = (max(-128, min(127, base + source.within(-spread, spread))) for _ in range(2))
    x, w = ([source.within(*span(p["M"])) for _ in range(p["BLOCK"])] for _ in range(2))
    return x, w, xe, we


def _block_few(p: Parameters) -> Groups:
    """1, -1, 1.5, 2^24 + 1 and 2^24 + 3 (ties), the least subnormal, half of it, infinity."""
    values = ((1, 0), (-1, 0), (3, -1), (2**24 + 1, 0), (2**24 + 3, 0), (1, -149), (-1, -150), (1, 128))
    vectors = [_exact_blocks(value, exponent, i, p) for i, (value, exponent) in enumerate(values)]
    return [block_group("few", "tie subnormal infinity lane", vectors)]


def _block_directed(p: Parameters) -> Groups:
    groups = []
    for i, mantissa in enumerate((2**23, 2**23 + 1, 2**24 - 1, 0xAAAAAB, 1, 2, 3, 2**22 - 1, 2**23 - 1)):
        for exponent in (-149, -148, -126, -23, 0, 103, 104):
            vectors = []
            for value in (2 * mantissa, 2 * mantissa + 1):
                for far in (0, 1, -1):
                    signed = -value if (i + exponent + far) % 2 else value
                    vectors.append(_exact_blocks(signed, exponent - 1, i, p))
                    if far:
                        tail = -far if signed < 0 else far
                        low = _exact_blocks(tail, max(exponent - 60, -250), i + 1, p)
                        vectors.append(_exact_blocks(signed, exponent - 1, i, p) + low)
                        vectors.append(_exact_blocks(8 * signed + far, exponent - 4, i + 2, p))
            flags = "tie sticky carry" + (" subnormal" if exponent < -100 else " infinity" * (exponent > 100))
            groups.append(block_group(f"m{mantissa}e{exponent}", flags, vectors))
    return groups


def _block_wide(p: Parameters) -> Groups:
    """Every bit of the accumulator, by powers of two; its limits, by as many of the greatest blocks as they
    take; every bit of the ports.
    """
    size, (low, high) = p["BLOCK"], span(p["M"])
    reach = 2 * p["M"] + 511 + p["GUARD"] - 1
    powers = [
        _exact_blocks(sign, exponent, exponent, p) for exponent in range(LOWEST, 255) for sign in (1, -1)
    ]
    powers += [_great_blocks(sign << up, p) for up in range(1, 2 * p["M"] - 2) for sign in (1, -1)]
    groups = [block_group("power", "width subnormal infinity", powers)]
    ports = [
        [([v] * size, [v] * size, e, e)]
        for v in (0, -1, *(1 << bit for bit in range(p["M"] - 1)))
        for e in (0, -1, 1 << 5)
    ]
    ports += [
        [([v] * size, [w] * size, 1 << bit, ~(1 << bit))]
        for bit in range(7)
        for v, w in ((low, low), (low, high))
    ]
    groups.append(block_group("ports", "lane width", ports))
    halves = [
        (sign * (2 * m + 1), e - 1) for m in (2**23, 2**23 + 1) for e in (-149, 0, 100) for sign in (1, -1)
    ]
    ties = [(value, e, least) for value, e in halves for least in (1, -1)]
    nearly = [_exact_blocks(v, e, i, p) + _exact_blocks(d, LOWEST, i, p) for i, (v, e, d) in enumerate(ties)]
    groups.append(block_group("tie-and-least", "tie sticky", nearly))
    many = min(128, (1 << p["GUARD"]) // size)  # blocks of a vector that its accumulator is promised to hold
    for name, w, edge in (("top", low, (1 << reach) - 1), ("bottom", high, -(1 << reach))):
        block: Block = ([low] * size, [w] * size, 127, 127)
        each = size * low * w << 254 - LOWEST
        count, rest = divmod(abs(edge), abs(each))
        if count <= LONGEST:
            sign, place = (1 if edge > 0 else -1), 254 - LOWEST
            tail = _great_blocks(sign * (rest >> place), p)
            tail += _exact_blocks(sign * (rest & (1 << place) - 1), LOWEST, 1, p)
            groups.append(
                block_group(f"long-{name}", "width carry", [tail + [block] * count, [block] * many])
            )
    return groups


def _block_corners(p: Parameters) -> Groups:
    source, (low, high), size = Source(10), span(p["M"]), p["BLOCK"]
    rims = ((1, -150), (-1, -150), (3, -151), (1, -151), (-1, -256), (0, 0), (1, 128), (-1, 254))
    extremes = [[([low] * size, [side] * size, e, e)] for side in (low, high) for e in (-128, -1, 0, 50, 127)]
    big, one = ([high] * size, [high] * size, 127, 127), [1] + [0] * (size - 1)
    cancel = [big, (one, one, -128, -128), ([-high] * size, [high] * size, 127, 127)]
    some = [
        [random_block(source, base, p) for _ in range(source.within(1, 6))]
        for base in (source.within(-60, 60) for _ in range(40))
    ]
    return [
        block_group("rim", "subnormal infinity underflow", [_exact_blocks(v, e, 1, p) for v, e in rims]),
        block_group("extreme", "lane infinity shift_range", extremes),
        block_group("cancel", "sticky width", [cancel]),
        block_group("random", "clear sticky", some),
    ]


GROUPS: dict[str, dict[str, Level]] = {
    "mac_requant": {"L0": _mac_few, "L1": _mac_directed, "L2": _mac_corners},
    "block_dot": {
        "L0": _block_few,
        "L1": lambda p: _block_directed(p) + _block_wide(p),
        "L2": _block_corners,
    },
}
