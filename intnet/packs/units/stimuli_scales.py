"""Which words the units of scales are tested with, as `stimuli.py` has it for the others.

What is rounded is aimed at: the accumulator near every tie and limit is solved for, by the word shifted, by
the offset of a multiply-add, or by a multiplier of a power of two. L0 a readable few, L1 directed, L2
corners.
"""

from collections.abc import Iterable, Sequence

from intnet.packs.units.signals import Parameters, Source, of_rows
from intnet.packs.units.stimuli import EXHAUSTIVE, Groups, Level, amounts, corner_words, corners, rims
from intnet.spec.units.steps import ends
from intnet.spec.wires import span

CORNERS = 1500  # drawn of a port

Row = tuple[int, ...]


def _group(name: str, flags: str, ports: Sequence[str], rows: Iterable[Row]) -> Groups:
    """A group of rows, each once, a word for every port; none of no rows."""
    kept = list(dict.fromkeys(rows))
    return [of_rows(name, flags, ports, kept)] if kept else []


def codes(p: Parameters) -> list[int]:
    """Results to aim at, before the zero point: about 0 and about each limit, and beyond."""
    low, high = ends(p["OUT"], p["OVERFLOW"], bool(p["QS"]))
    zero = p.get("ZQ", 0)
    near = {edge - zero + d for edge in (low, high) for d in (-2, -1, 0, 1, 2)}
    far = {2 * edge + d for edge in (low, high) for d in (-1, 0, 1)}
    return sorted(near | far | set(range(-4, 5)))


def aims(p: Parameters, right: int) -> list[int]:
    """What to shift right so that its result is each of `codes`, the ties between and their neighbours."""
    step = 1 << max(0, right)
    points = {(k << right if right >= 0 else k >> -right) + part for k in codes(p) for part in (0, step >> 1)}
    return sorted({point + d for point in points for d in (-1, 0, 1)})


def _inside(values: Iterable[int], bits: int, signed: int) -> list[int]:
    low, high = span(bits, bool(signed))
    return sorted({v for v in values if low <= v <= high})


def _corner(bits: int, signed: int, source: Source) -> list[int]:
    """Corner words of a port, drawn again and again."""
    words = corner_words(bits, signed)
    return [source.one_of(words) for _ in range(CORNERS)]


# -- shift, and shift_by ---------------------------------------------------------------------------


def _shift_few(p: Parameters) -> Groups:
    step = 1 << max(p["S"], 2)
    low, high = span(p["W"], bool(p["XS"]))
    some = _inside(range(-2 * step, 2 * step + 1, step // 4), p["W"], p["XS"])
    return _group("few", "tie carry negative", ("x",), [(v,) for v in [*some, low, high]])


def _shift_directed(p: Parameters) -> Groups:
    low, high = span(p["W"], bool(p["XS"]))
    if p["W"] <= EXHAUSTIVE:
        return _group("every-x", "tie carry negative sticky", ("x",), [(v,) for v in range(low, high + 1)])
    aimed = _inside(aims(p, p["S"]), p["W"], p["XS"])
    return [
        *_group("aim", "tie sticky negative saturation", ("x",), [(v,) for v in aimed]),
        *_group("rim", "carry saturation", ("x",), [(v,) for v in rims(p["W"], bool(p["XS"]))]),
    ]


def _shift_corners(p: Parameters) -> Groups:
    words = {k: [v + (0 if p["XS"] else 1 << p["W"] - 1) for v in vs] for k, vs in corners(p["W"]).items()}
    return [g for kind, vs in words.items() for g in _group(kind, "random", ("x",), [(v,) for v in vs])]


def _by_few(p: Parameters) -> Groups:
    low, high = span(p["W"], bool(p["XS"]))
    rows = [
        (v, n)
        for n in _inside((-1, 0, 1, 3), p["NB"], True)
        for v in _inside((low, -9, -4, -3, -1, 0, 1, 3, 4, 5, 12, high), p["W"], p["XS"])
    ]
    return _group("few", "tie carry negative shift_range", ("x", "n"), rows)


def _by_directed(p: Parameters) -> Groups:
    """Every amount: ties, limits and rims of each."""
    groups: Groups = []
    for n in amounts(p, -p["OUT"] - 3, p["W"] + 3):
        near = aims(p, max(-p["OUT"] - 1, min(n, p["W"] + 1)))
        some = _inside([*near, 0, 1, -1, *span(p["W"], bool(p["XS"])), 1 << n % p["W"]], p["W"], p["XS"])
        groups += _group(
            f"amount{n}", "shift_range tie sticky saturation", ("x", "n"), [(v, n) for v in some]
        )
    middle = _group(
        "rim", "width carry", ("x", "n"), [(v, n) for n in (0, 1) for v in rims(p["W"], bool(p["XS"]))]
    )
    return groups + middle


def _by_corners(p: Parameters) -> Groups:
    source = Source(11)
    low, high = span(p["NB"])
    rows = [(v, source.within(low, high)) for v in _corner(p["W"], p["XS"], source)]
    return _group("corner", "random shift_range", ("x", "n"), rows)


# -- scale_add -------------------------------------------------------------------------------------


PORTS = ("x", "scale", "offset")


def _add_few(p: Parameters) -> Groups:
    one, half = 1 << min(p["S"], p["B"] - 2), (1 << p["S"]) >> 1
    rows = [(x, one, offset) for x in (0, 1, 3) for offset in (0, half, -half, half - 1, -half - 1)]
    kept = [row for row in rows if abs(row[2]) < 1 << p["OB"] - 1]
    return _group("few", "tie carry negative", PORTS, [*kept, (span(p["W"], bool(p["XS"]))[1], one, 0)])


def _add_directed(p: Parameters) -> Groups:
    """An offset brings every product to each aim; then the rims of all operands."""
    source, rows = Source(12), []
    xs, scales, offsets = rims(p["W"], bool(p["XS"])), rims(p["B"]), rims(p["OB"])
    for i, aim in enumerate(aims(p, p["S"])):
        for size in (p["W"], 8, 1):
            x = source.one_of([v for v in xs if abs(v) < 1 << size] or [0])
            scale = scales[(7 * i + size) % len(scales)]
            rows.append((x, scale, aim - x * scale))
    aimed = [row for row in rows if row[2] in range(*span(p["OB"]))]
    ends_ = [
        (x, s, o)
        for x in (xs[0], xs[-1])
        for s in (scales[0], scales[-1])
        for o in (offsets[0], offsets[-1], 0)
    ]
    walk = [(x, scales[i % len(scales)], 0) for i, x in enumerate(xs)]
    walk += [(xs[i % len(xs)], s, 0) for i, s in enumerate(scales)] + [(0, 1, o) for o in offsets]
    walk += [(x, s, 0) for s in (scales[0], scales[-1]) for x in xs]
    return [
        *_group("aim", "tie sticky saturation negative", PORTS, aimed),
        *_group("rim", "width carry saturation", PORTS, [*ends_, *walk]),
    ]


def _add_corners(p: Parameters) -> Groups:
    source = Source(13)
    columns = [
        _corner(p["W"], p["XS"], source),
        _corner(p["B"], 1, source),
        _corner(p["OB"], 1, source),
    ]
    return _group("corner", "random", PORTS, list(zip(*columns, strict=True)))


# -- requantize ------------------------------------------------------------------------------------

FOUR = ("acc", "multiplier", "n", "zero_point")
HALF = 1 << 30  # multiplier of 1/2


def _zeros(p: Parameters) -> list[int]:
    return _inside([0, 1, -1, 3, *rims(p["OUT"], bool(p["QS"]))], p["OUT"], p["QS"])


def _requantize_few(p: Parameters) -> Groups:
    rows = [
        (acc, m, n, 0)
        for n in (0, 3, -1)
        for m in (HALF, 3 << 29)
        for acc in (0, 1, -1, 2, 3, -3, 100, -8, 1 << p["W"] - 3)
    ]
    return _group("few", "tie carry negative shift_range", FOUR, rows)


def _requantize_directed(p: Parameters) -> Groups:
    """Every amount, with a multiplier of 1/2 and odd ones whose products are solved for; zero points at their
    rims.
    """
    source, zeros, groups = Source(14), _zeros(p), Groups()
    low, high = span(p["W"])
    for n in range(-32, 32):
        right, rows = max(-p["LEFT"], min(n, p["RIGHT"])), []
        for i, aim in enumerate(aims(p, right + 1)):  # of acc / 2, the product with 2^30 above 2^31
            rows.append((aim, HALF, n, zeros[i % len(zeros)] if i % 3 else 0))
        for i, code in enumerate(codes(p)):
            multiplier = source.within(HALF, 2 * HALF - 1)
            exact = ((code << 1) + i % 2) << 30 + max(0, right)
            acc = exact // multiplier >> max(0, -right)
            rows += [(acc + d, multiplier, n, 0) for d in (-1, 0, 1)]
        rows += [
            (acc, m, n, z)
            for acc in (low, high, -1, 1)
            for m, z in ((2 * HALF - 1, zeros[0]), (1, zeros[-1]), (HALF, 0))
        ]
        kept = [row for row in rows if low <= row[0] <= high]
        groups += _group(f"amount{n}", "shift_range tie sticky saturation", FOUR, kept)
    walk: list[Row] = [(acc, HALF, n, 0) for acc in rims(p["W"]) for n in (0, -p["LEFT"], p["RIGHT"])]
    walk += [(acc, m, n, 0) for m in rims(31, False) for acc in (low, high, 1, -1) for n in (0, p["RIGHT"])]
    walk += [(acc, HALF, 0, z) for z in zeros for acc in (0, 1, -1, 2 * z, -2 * z)]
    walk += _double_ties()
    return groups + _group("rim", "width carry saturation", FOUR, [r for r in walk if low <= r[0] <= high])


def _double_ties() -> list[Row]:
    """Products at +-1/2 of 2^31 and its neighbours, where the first of two roundings has a tie."""
    out: list[Row] = []
    for k in range(-3, 4):
        for m in (1, 3, 5, HALF - 1, HALF, HALF + 1):
            aim = (2 * k + 1) * HALF
            out += [(aim // m + d, m, n, 0) for d in (-1, 0, 1) for n in (0, 1, 2)]
    return out


def _requantize_corners(p: Parameters) -> Groups:
    source = Source(15)
    rows = []
    for acc in _corner(p["W"], 1, source):
        multiplier = source.one_of(
            [HALF, HALF + 1, 2 * HALF - 1, source.within(HALF, 2 * HALF - 1), source.bits(31)]
        )
        rows.append(
            (acc, multiplier, source.within(-p["LEFT"] - 1, p["RIGHT"] + 1), source.one_of(_zeros(p)))
        )
    return _group("corner", "random", FOUR, [row for row in rows if -32 <= row[2] < 32])


GROUPS: dict[str, dict[str, Level]] = {
    "shift": {"L0": _shift_few, "L1": _shift_directed, "L2": _shift_corners},
    "shift_by": {"L0": _by_few, "L1": _by_directed, "L2": _by_corners},
    "scale_add": {"L0": _add_few, "L1": _add_directed, "L2": _add_corners},
    "requantize": {"L0": _requantize_few, "L1": _requantize_directed, "L2": _requantize_corners},
}
