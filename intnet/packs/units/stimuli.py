"""Which words a quantizing unit is tested with: L0 a readable few, L1 directed, L2 corners.

    GROUPS[unit name][level](parameters) -> groups of vectors, each with the bugs that it hunts

L1 takes every input where there are at most 16 bits of it. Nothing here is listed that can be computed, and
every random word comes from a seed. The words of one tensor share n; its cases hunt ties, limits and
the tensor's own maximum, from which R comes. Vectors of sums: `stimuli_sums.py`; of training: `training.py`.
"""

from collections.abc import Callable, Iterable, Sequence
from math import isqrt

import numpy as np

from intnet.numbers import rng
from intnet.packs.units.signals import Group, Parameters, Source, column, marks, of_rows
from intnet.packs.units.words import log2_r
from intnet.spec.wires import span

EXHAUSTIVE = 16  # bits of input up to which every input is run
WORD_BITS = 32
TENSOR = 16  # codes of a random tensor
CORNER_STREAM = "units/quantize_cq"  # Philox words of CQ's corners; seed and step are 0

Groups = list[Group]


def inside(values: Iterable[int], top: int) -> list[int]:
    """Those within +-top, ascending, each once."""
    return sorted({v for v in values if -top <= v <= top})


def corners(bits: int) -> dict[str, list[int]]:
    """Words of a signed port by kind: powers of two, masks and complements, sums of two powers, random.

    The random ones have a uniform bit length, so that small ones are as common as great ones.
    """
    low, high = span(bits)
    powers = [1 << p for p in range(bits - 1)]
    signed = [sign * v for v in powers for sign in (1, -1)]
    source = Source(bits)
    lengths = [source.below(bits) for _ in range(8 * bits)]
    kinds = {
        "power": [0, low, *signed],
        "mask": [high, *(v - 1 for v in powers), *(~(v - 1) for v in powers), *(~v for v in powers)],
        "pair": [a + b for a in signed for b in signed if abs(a) > abs(b)],
        "random": [source.one_of((-1, 1)) * source.bits(length) for length in lengths],
    }
    return {kind: sorted({v for v in values if low <= v <= high}) for kind, values in kinds.items()}


def corner_words(bits: int, signed: int) -> list[int]:
    """All corners of a signed port; of an unsigned one those of its bits."""
    shift = 0 if signed else 1 << bits - 1
    return [v + shift for vs in corners(bits).values() for v in vs]


def rims(bits: int, signed: bool = True) -> list[int]:
    """The limits of a word, every power of two and its neighbours, of both signs."""
    low, high = span(bits, signed)
    powers = {sign * (1 << bit) + d for bit in range(bits) for sign in (1, -1) for d in (-1, 0, 1)}
    return sorted(v for v in powers | {low, high} if low <= v <= high)


def split(total: int, turn: int, least: int, most: int) -> tuple[int, int]:
    """Two numbers from least to most with this sum; `turn` moves weight from one to the other."""
    low, high = max(least, total - most), min(most, total - least)
    left = low + (turn * 37) % (high - low + 1)
    return left, total - left


CORNER_FLAGS = {"power": "negative shift_range", "mask": "sticky carry", "pair": "tie sticky", "random": ""}


def near(m: int, shift: int, codes: Sequence[int]) -> list[int]:
    """Around each code and the tie above it on the grid 2^shift, both signs, within +-m."""
    half = 1 << shift - 1 if shift > 0 else 0
    points = [(k << shift if shift >= 0 else k >> -shift) + part for k in codes for part in (0, half)]
    return inside((sign * (v + d) for v in points for sign in (1, -1) for d in (-1, 0, 1)), m)


def maxima(bits: int) -> list[int]:
    """Magnitudes where R or a mask changes: powers of two, sqrt(2) * 2^p, their neighbours, the limits."""
    found = {0, 1, 2, 3, 1 << bits - 1, (1 << bits - 1) - 1}
    for p in range(2, bits - 1):
        root = isqrt(1 << 2 * p + 1)
        found |= {(1 << p) - 1, 1 << p, (1 << p) + 1, root, root + 1}
    return sorted(m for m in found if m <= 1 << bits - 1)


def n_of(m: int, p: Parameters) -> int:
    """log2 of R of a tensor whose greatest magnitude is m."""
    return log2_r(column([-m]), p["EX"])


# -- one word a result, n beside it --------------------------------------------------------------


def _group(name: str, flags: str, codes: Sequence[int], n: int) -> Group:
    return of_rows(name, flags, ("x", "n"), [(code, n) for code in codes])


def _tensor(m: int, p: Parameters, drops: Sequence[int]) -> Groups:
    """The cases of a tensor of maximum m: it, with the sign that fits; ties; limits of the grids."""
    top, n = span(p["W"])[1], n_of(m, p)
    least, kept = [-m] + ([m] if m <= top else []), min(m, top)
    shifts = {drop: n - p["EX"] - drop for drop in drops}
    ties = inside((v for d, s in shifts.items() for v in near(kept, s, (0, 1, 2, 3))), kept)
    tops = {d: ((1 << d) - 2, (1 << d) - 1, 1 << d) for d in drops}
    ranges = inside((v for d, s in shifts.items() for v in near(kept, s, tops[d])), kept)
    cases = (("top", "sqrt2 saturation negative", least), ("tie", "tie sticky negative", ties))
    return [_group(*case, n) for case in (*cases, ("limit", "carry saturation", ranges)) if case[-1]]


def _every_tensor(p: Parameters) -> Groups:
    """For every R that a tensor of W bits can have, all codes that fit under it."""
    low, high = span(p["W"])
    tops = {n_of(m, p): m for m in range(1, -low + 1)}
    return [_group("every-x", "sqrt2 tie carry", range(-m, min(m, high) + 1), n) for n, m in tops.items()]


def _every_pair(p: Parameters) -> Groups:
    """Every (x, n), also those of no tensor: x far beyond R saturates, far below it is 0."""
    (low, high), (first, last) = span(p["W"]), span(p["NB"])
    return [
        _group("every-n", "shift_range saturation", range(low, high + 1), n) for n in range(first, last + 1)
    ]


def amounts(p: Parameters, least: int, most: int) -> list[int]:
    """Every n of NB bits at which the amount changes, least .. most, some further out, and both ends."""
    low, high = span(p["NB"])
    powers = [sign * (1 << bit) + d for bit in range(p["NB"]) for sign in (1, -1) for d in (-1, 0)]
    out = {n for n in (*range(least, most + 1), *powers, low, high) if low <= n <= high}
    return sorted(out)


def every_amount(p: Parameters, drops: Sequence[int], beyond: int = 0) -> Groups:
    """For every n, of a tensor or not: both sides of ties and limits, the rims, and a power of two or two.

    drops: right by n - EX - drop bits, of each grid; beyond: bits below the lowest of x that still count
    """
    low, high = span(p["W"])
    least = p["EX"] - 3
    groups = []
    for n in amounts(p, least, p["EX"] + p["W"] + max(drops) + beyond + 3):
        codes = {0, 1, -1, low, low + 1, high, high - 1}
        for drop in drops:
            shift, top = n - p["EX"] - drop, 1 << drop
            codes |= set(near(high, min(shift, p["W"] + 1), (0, 1, 2, top - 2, top - 1, top)))
        place = n % (p["W"] - 1)
        codes |= {1 << place, -(1 << place), ~(1 << place)}
        groups.append(_group(f"amount{n}", "shift_range tie sticky saturation negative", sorted(codes), n))
    return groups


def _directed(p: Parameters, drops: Sequence[int]) -> Groups:
    if p["W"] + p["NB"] <= EXHAUSTIVE:
        return _every_pair(p)
    groups = [group for m in maxima(p["W"]) for group in _tensor(m, p, drops)] + every_amount(p, drops)
    return groups + (_every_tensor(p) if p["W"] + 4 <= EXHAUSTIVE else [])


def _flag_directed(p: Parameters) -> Groups:
    """And every magnitude, with its neighbours below and above on both grids."""
    groups = _directed(p, (7, 14))
    if p["W"] + p["NB"] <= EXHAUSTIVE:
        return groups
    m = span(p["W"])[1]
    n = n_of(m, p)
    for drop in (7, 14):
        codes = near(m, n - p["EX"] - drop, range(128))
        groups.append(_group(f"every-magnitude{drop}", "tie sticky carry", codes, n))
    return groups


def _corners(p: Parameters) -> Groups:
    """For every R its greatest corner, and with it all corners that fit under it, by kind."""
    kinds, groups = corners(p["W"]), []
    tops = {n_of(abs(v), p): abs(v) for v in sorted({v for vs in kinds.values() for v in vs}, key=abs) if v}
    for n, m in tops.items():
        for kind, values in kinds.items():
            codes = inside(values, m) if kind != "pair" else inside((v for v in values if 4 * abs(v) > m), m)
            if codes:
                groups.append(_group(kind, CORNER_FLAGS[kind] or "random", codes, n))
    return groups


def _few(p: Parameters, drop: int) -> Groups:
    """Two tensors whose R is 1 and 2^(drop + 3) codes: fractions of 0, 1/8 ... 1, and the limits."""
    out: Groups = []
    for log in (0, min(drop + 3, p["W"] - 2)):
        unit = 1 << max(log - drop, 0)
        top = min((1 << log) + (1 << log) // 3, span(p["W"])[1])  # below sqrt(2) * R
        codes = inside(
            [*range(-2 * unit, 2 * unit + 1, max(1, unit // 4)), top - unit, top - 1, top, -top], top
        )
        out.append(_group("few", "tie carry saturation negative", codes, n_of(top, p)))
    return out


# -- CQ: a random word beside each ---------------------------------------------------------------


def _words_near(x: int, shift: int, source: Source) -> list[int]:
    """The words around floor(f * 2^32) of x / 2^shift, the ends, and one that is not the same when turned."""
    limit = (x << WORD_BITS >> shift if shift > 0 else 0) & 0xFFFFFFFF
    around = (limit - 1, limit, limit ^ 1, limit ^ 0xFFFF, source.bits(WORD_BITS))
    return [word & 0xFFFFFFFF for word in around]


def _stochastic(group: Group, codes: Sequence[int], log_dr: int, p: Parameters, source: Source) -> Group:
    """A group's n with these codes, each with all words around its threshold."""
    n = int(group.columns["n"][0])
    shift = n - p["EX"] - log_dr
    rows = [(x, n, log_dr, word) for x in codes for word in _words_near(x, shift, source)]
    return of_rows(group.name, f"threshold {group.flags}", ("x", "n", "log_dr", "word"), rows)


def _cq_few(p: Parameters) -> Groups:
    source = Source(1)
    some = [_few(p, 7)[1], _few(p, 3)[1]]
    return [
        _stochastic(g, g.columns["x"].tolist()[::3], log, p, source)
        for g, log in zip(some, (7, 3), strict=True)
    ]


def _cq_directed(p: Parameters) -> Groups:
    source = Source(7)
    if p["W"] + p["NB"] <= EXHAUSTIVE:
        return [
            _stochastic(g, source.some_of(g.columns["x"].tolist(), 8), source.below(8), p, source)
            for g in _every_pair(p)
        ]
    groups = []
    for i, m in enumerate(maxima(p["W"])):
        for group in _tensor(m, p, (7, 3)):
            for log_dr in (7, (7 * i + i // 7) % 7):
                codes = group.columns["x"].tolist()
                picked = sorted(source.some_of(codes, min(len(codes), 3)))
                groups.append(_stochastic(group, picked, log_dr, p, source))
    for i, group in enumerate(every_amount(p, (7, 3), WORD_BITS)):
        codes = group.columns["x"].tolist()
        for log_dr, rims in ((0, [codes[0], -1]), (1 + i % 7, [codes[-1], 1])):
            picked = sorted({*rims, *source.some_of(codes, min(len(codes), 2))})
            groups.append(_stochastic(group, picked, log_dr, p, source))
    return groups


def _cq_corners(p: Parameters) -> Groups:
    """Corner tensors, as many of their codes as 24 of each, with Philox words."""
    source, groups = Source(8), []
    for i, group in enumerate(_corners(p)):
        codes = group.columns["x"].tolist()
        picked = column(source.some_of(codes, min(len(codes), 24)))
        n = np.full(picked.shape, group.columns["n"][0])
        words = rng.words(0, 0, rng.stream(CORNER_STREAM), picked.size, 24 * i).astype(np.int64)
        log_dr = np.full(picked.shape, i % 8)
        columns = {"x": picked, "n": n, "log_dr": log_dr, "word": words}
        groups.append(Group(group.name, f"threshold {group.flags}", columns))
    return groups


# -- Q and n of R --------------------------------------------------------------------------------


def _q(name: str, flags: str, codes: Sequence[int]) -> Group:
    return of_rows(name, flags, ("x",), [(code,) for code in codes])


def _q_few(p: Parameters) -> Groups:
    step, (low, high) = 1 << max(p["S"], 2), span(p["W"])
    codes = [v for v in range(-2 * step, 2 * step + 1, step // 4) if low <= v <= high]
    return [_q("few", "tie carry negative", [*codes, low, high])]


def _q_directed(p: Parameters) -> Groups:
    low, high = span(p["W"])
    if p["W"] <= EXHAUSTIVE:
        return [_q("every-x", "tie carry negative sticky", range(low, high + 1))]
    last = 1 << p["W"] - p["S"] - 1
    ties = near(high, p["S"], range(8))
    ends_ = near(high, p["S"], range(last - 3, last + 1))
    return [_q("tie", "tie sticky negative", ties), _q("limit", "carry saturation", [low, *ends_])]


def _q_corners(p: Parameters) -> Groups:
    return [_q(kind, CORNER_FLAGS[kind] or "random", codes) for kind, codes in corners(p["W"]).items()]


def _vector(name: str, flags: str, *vectors: Sequence[int]) -> Group:
    codes = column([x for vector in vectors for x in vector])
    return Group(name, flags, {**marks([len(vector) for vector in vectors]), "x": codes})


def _r_few(p: Parameters) -> Groups:
    singles = [[x] for x in (0, 1, -1, 2, 3, -3, 4, 5, 6)]
    return [_vector("few", "sqrt2 zero", *singles, [1, -6, 2], [5, 1, -1, 0], span(p["W"]))]


def _r_directed(p: Parameters) -> Groups:
    """Every maximum at a vector's start, middle and end, after a greater one, as both signs, and alone."""
    (low, high), source = span(p["W"]), Source(8)
    if p["W"] <= EXHAUSTIVE:
        every: Groups = [_vector("every-x", "sqrt2 zero negative", *([x] for x in range(low, high + 1)))]
    else:
        every = [_vector("every-byte", "sqrt2 zero negative", *([x] for x in range(-128, 128)))]
    groups = []
    for m in reversed(maxima(p["W"])):
        small = [source.within(-m // 2, m // 2) for _ in range(3)] + [min(m, high) // 3 * 2]
        vectors = [[-m], [-m, *small], [*small, -m], [small[0], -m, small[1]]]
        vectors += [[m], [m, *small], [*small, m]] if m <= high else []
        groups.append(_vector("maximum", "sqrt2 negative clear last", *vectors))
    return groups + every


def _r_corners(p: Parameters) -> Groups:
    kinds, source = corners(p["W"]), Source(9)
    groups = [
        _vector(kind, f"sqrt2 {CORNER_FLAGS[kind]}".strip(), *([x] for x in xs)) for kind, xs in kinds.items()
    ]
    some = [source.some_of(kinds["random"], min(len(kinds["random"]), TENSOR)) for _ in range(64)]
    return [*groups, _vector("random-vector", "clear compare", *some)]


Level = Callable[[Parameters], Groups]
GROUPS: dict[str, dict[str, Level]] = {
    "quantize_q": {"L0": _q_few, "L1": _q_directed, "L2": _q_corners},
    "quantize_sq": {
        "L0": lambda p: _few(p, p["K"] - 1),
        "L1": lambda p: _directed(p, (p["K"] - 1,)),
        "L2": _corners,
    },
    "quantize_cq": {"L0": _cq_few, "L1": _cq_directed, "L2": _cq_corners},
    "quantize_flag": {"L0": lambda p: _few(p, 7), "L1": _flag_directed, "L2": _corners},
    "r_exponent": {"L0": _r_few, "L1": _r_directed, "L2": _r_corners},
}
