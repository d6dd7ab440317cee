"""Which vectors the multiplying units are tested with, as `stimuli.py` has it for the others.

`mac_requant`: products whose bias brings the sum to every tie and limit (L1); lone lanes, extreme lanes, long
vectors (L2). `block_dot`: sums at ties of 24 bits with neighbours near and far, among normal and
subnormal numbers and at the limit (L1); the rims of the exponents, cancelling sums, random blocks (L2).
"""

from collections.abc import Sequence

from intnet.packs.units.signals import Group, Parameters, Source, column, ends, limits
from intnet.packs.units.stimuli import Groups, Level, corners

Beat = tuple[Sequence[int], Sequence[int]]
MacVector = tuple[Sequence[Beat], int]
Block = tuple[list[int], list[int], int, int]  # mantissas, mantissas, exponent, exponent


def _dot(beats: Sequence[Beat]) -> int:
    return sum(a * b for x, w in beats for a, b in zip(x, w, strict=True))


def _mac(name: str, flags: str, vectors: Sequence[MacVector], p: Parameters) -> Groups:
    """A group of the vectors whose sums fit the accumulator; bias is noise but at the last beat."""
    room = 1 << p["ACC"] - 1
    fit = [v for v in vectors if all(-room <= s < room for s in (v[1], _dot(v[0]), _dot(v[0]) + v[1]))]
    if not fit:
        return []
    columns = ends([len(beats) for beats, _ in fit])
    columns["x"] = column([x for beats, _ in fit for x, _ in beats])
    columns["w"] = column([w for beats, _ in fit for _, w in beats])
    columns["bias"] = column([bias for beats, b in fit for bias in [~b] * (len(beats) - 1) + [b]])
    return [Group(name, flags, columns)]


def random_beats(source: Source, p: Parameters, beats: int) -> list[Beat]:
    """Uniform lanes."""

    def lanes(bits: int) -> list[int]:
        return [source.within(*limits(bits)) for _ in range(p["LANES"])]

    return [(lanes(p["A"]), lanes(p["B"])) for _ in range(beats)]


def _mac_few(p: Parameters) -> Groups:
    """x = 1 in one lane after the other, so that the result is w and bias; ties, and both limits."""
    lanes, half, top = p["LANES"], 1 << p["S"] - 1, 1 << p["OUT"] - 1 + p["S"]
    one: Beat = ([1] + [0] * (lanes - 1), [1] * lanes)
    last: Beat = ([0] * (lanes - 1) + [-1], [1] * lanes)
    biases = (0, half - 1, 3 * half - 1, half, -half - 1, -3 * half, top, -top, 4 * half)
    vectors = [([one], bias) for bias in biases] + [([one, last, one], 2 * half), ([last], half)]
    return _mac("few", "tie saturation lane clear", vectors, p)


def _mac_directed(p: Parameters) -> Groups:
    source, groups = Source(9), []
    half, hi = 1 << p["S"] - 1, (1 << p["OUT"] - 1) - 1
    for k in sorted({0, 1, 2, 3, hi - 1, hi, hi + 1, 2 * hi + 1, 2 * hi + 2}):
        flags = "tie sticky negative" if k < 4 else "carry saturation tie"
        points = {sign * (2 * half * k + part) for part in (0, half) for sign in (1, -1)}
        vectors = []
        for i, target in enumerate(sorted({point + d for point in points for d in (-1, 0, 1)})):
            for size in (1, 2 + i % 4):
                beats = random_beats(source, p, size)
                vectors.append((beats, target - _dot(beats)))
        groups += _mac(f"code{k}", flags, vectors, p)
    if p["LANES"] * (p["A"] + p["B"]) <= 8:
        (low, high), (least, most) = limits(p["A"]), limits(p["B"])
        every = [([([a], [b])], 0) for a in range(low, high + 1) for b in range(least, most + 1)]
        groups += _mac("every-product", "negative tie saturation", every, p)
    return groups


def _mac_corners(p: Parameters) -> Groups:
    lanes, (low, high) = p["LANES"], limits(p["A"])
    groups: Groups = []
    (least, most), room = limits(p["B"]), 1 << p["ACC"] - 1
    for lane in range(lanes):
        one = [int(i == lane) for i in range(lanes)]
        alone = [
            ([([v * a for v in one], [v * b for v in one])], 0)
            for a in (low, high, 1, -1)
            for b in (least, most, -1)
        ]
        groups += _mac(f"lane{lane}", "lane negative", alone, p)
    rims = ((low, least), (low, most), (high, most))
    long = [([([a] * lanes, [b] * lanes)] * size, 0) for size in (1, 5, 40) for a, b in rims]
    groups += _mac("extreme", "saturation width clear", long, p)
    zero: list[Beat] = [([0] * lanes, [0] * lanes)]
    reach = lanes << p["A"] + p["B"] - 2
    groups += _mac(
        "bias", "width negative", [(zero, bias) for bias in (room - 1 - reach, reach - room, 0)], p
    )
    source = Source(10)
    xs, ws = ([v for vs in corners(p[side]).values() for v in vs] for side in "AB")
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
    blocks = [block for vector in vectors for block in vector]
    names = ("xm", "wm", "xe", "we")
    columns = {port: column(part) for port, part in zip(names, zip(*blocks, strict=True), strict=True)}
    columns |= {port: columns[port].reshape(-1, 1) for port in ("xe", "we")}
    return Group(name, flags, ends([len(vector) for vector in vectors]) | columns)


def _split(exponent: int, turn: int) -> tuple[int, int]:
    """Two signed bytes with this sum, -256..254; `turn` moves weight from one to the other."""
    low, high = max(-128, exponent - 127), min(127, exponent + 128)
    left = low + (turn * 37) % (high - low + 1)
    return left, exponent - left


def _exact_blocks(value: int, exponent: int, turn: int, p: Parameters) -> list[Block]:
    """Blocks whose sum is value * 2^exponent: so many bits of it a lane, every lane in turn."""
    blocks: list[Block] = []
    bits, place, size, sign = p["M"] - 1, 0, abs(value), -1 if value < 0 else 1
    while size or not blocks:
        xe, we = _split(exponent + place, turn + place)
        x, w = [0] * p["BLOCK"], [0] * p["BLOCK"]
        lane = (turn + len(blocks)) % p["BLOCK"]
        x[lane], w[lane] = sign * (size & (1 << bits) - 1), 1
        blocks.append((x, w, xe, we))
        size, place = size >> bits, place + bits
    return blocks


def random_block(source: Source, base: int, spread: int, p: Parameters) -> Block:
    """Uniform mantissas, exponents within `spread` of `base`."""
    xe, we = (max(-128, min(127, base + source.within(-spread, spread))) for _ in range(2))
    x, w = ([source.within(*limits(p["M"])) for _ in range(p["BLOCK"])] for _ in range(2))
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


def _block_corners(p: Parameters) -> Groups:
    source, (low, high), size = Source(10), limits(p["M"]), p["BLOCK"]
    rims = ((1, -150), (-1, -150), (3, -151), (1, -151), (-1, -256), (0, 0), (1, 128), (-1, 254))
    extremes = [[([low] * size, [side] * size, e, e)] for side in (low, high) for e in (-128, -1, 0, 50, 127)]
    big, one = ([high] * size, [high] * size, 127, 127), [1] + [0] * (size - 1)
    cancel = [big, (one, one, -128, -128), ([-high] * size, [high] * size, 127, 127)]
    some = [
        [random_block(source, base, 12, p) for _ in range(source.within(1, 6))]
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
    "block_dot": {"L0": _block_few, "L1": _block_directed, "L2": _block_corners},
}
