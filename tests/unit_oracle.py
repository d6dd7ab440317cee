"""What the reference units must give, from the oracle's plain integers and fractions: ports and trails.

`EXPECTED[unit](parameters, words)` takes the words of the in ports and gives those of every out and trail
port that it knows. Nothing here comes from intnet.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache

from intnet.spec import formats as oracle
from intnet.spec.float32 import to_float32
from intnet.spec.rounding import overflow, round_fraction
from intnet.spec.tensor import power

Words = dict[str, list]  # of a port; a lane list a word where it has lanes
Parameters = dict[str, int]
INFINITY = 0x7F800000


@cache
def parts(x: int, shift: int) -> tuple[int, int]:
    """(floor, remainder word) of x / 2^shift: 32 bits of the fraction, then a sticky bit."""
    if shift <= 0:
        return x << -shift, 0
    rest = x & ((1 << shift) - 1)
    return x >> shift, ((rest << 32) >> shift) << 1 | ((rest << 32) & ((1 << shift) - 1) != 0)


@cache
def nearest(x: int, shift: int) -> int:
    return round_fraction(Fraction(x) * power(-shift))


def clip(code: int, top: int) -> int:
    return overflow(code, -top, top, "saturate_symmetric")


def trail(xs: Sequence[int], shifts: Sequence[int], rounded: Sequence[int]) -> Words:
    """The ports floor, remainder, up and presat."""
    both = [parts(x, shift) for x, shift in zip(xs, shifts, strict=True)]
    return {
        "q.floor": [floor for floor, _ in both],
        "q.remainder": [remainder for _, remainder in both],
        "q.up": [code - floor for code, (floor, _) in zip(rounded, both, strict=True)],
        "q.presat": list(rounded),
    }


def _scaled(p: Parameters, ns: Sequence[int], drop: Sequence[int]) -> list[int]:
    """The shifts to the grid 2^(n - drop); n from EX - 1 on, below which nothing changes (`words.py`)."""
    return [max(n, p["EX"] - 1) - d - p["EX"] for n, d in zip(ns, drop, strict=True)]


def quantize_q(p: Parameters, words: Words) -> Words:
    xs, shifts = words["x"], [p["S"]] * len(words["x"])
    rounded = oracle.quantize([x * power(-7 - p["S"]) for x in xs], oracle.Direct(8)).codes
    return {"q": rounded} | trail(xs, shifts, rounded)


def quantize_sq(p: Parameters, words: Words) -> Words:
    xs, ns, top = words["x"], words["n"], 2 ** (p["K"] - 1) - 1
    shifts = _scaled(p, ns, [p["K"] - 1] * len(ns))
    rounded = [nearest(x, shift) for x, shift in zip(xs, shifts, strict=True)]
    true = [nearest(x, n - p["EX"] - p["K"] + 1) for x, n in zip(xs, ns, strict=True)]
    q = [clip(code, top) for code in true]
    saturated = [int(a != b) for a, b in zip(q, true, strict=True)]
    exponent = [n - p["K"] + 1 for n in ns]
    return {"q": q, "saturated": saturated, "q.exponent": exponent} | trail(xs, shifts, rounded)


def _stochastic(x: int, shift: int, word: int, bits: int) -> int:
    return round_fraction(Fraction(x) * power(-shift), "stochastic", word >> 32 - bits, bits)


def quantize_cq(p: Parameters, words: Words, bits: int = 32) -> Words:
    xs, ns, logs = words["x"], words["n"], words["log_dr"]
    tops = [2**log - 1 for log in logs]
    shifts = _scaled(p, ns, logs)
    rows = list(zip(xs, words["word"], strict=True))
    rounded = [_stochastic(x, s, word, bits) for (x, word), s in zip(rows, shifts, strict=True)]
    exact = [n - p["EX"] - log for n, log in zip(ns, logs, strict=True)]
    true = [_stochastic(x, s, word, bits) for (x, word), s in zip(rows, exact, strict=True)]
    q = [clip(code, top) for code, top in zip(true, tops, strict=True)]
    saturated = [int(a != b) for a, b in zip(q, true, strict=True)]
    return {"q": q, "saturated": saturated, "q.limit": tops} | trail(xs, shifts, rounded)


def quantize_flag(p: Parameters, words: Words) -> Words:
    xs, ns = words["x"], words["n"]
    out: Words = {"q": [], "saturated": [], "q.coarse": [], "q.exponent": [n - 14 for n in ns]}
    shifts, rounded = [], []
    for x, n in zip(xs, ns, strict=True):
        coarse = abs(x) * power(p["EX"]) >= power(n - 7)
        true = nearest(x, n - p["EX"] - (7 if coarse else 14))
        kept = clip(true, 127) if coarse else true
        flag, sign, size = oracle.flag_encode(128 * kept if coarse else kept)
        out["q"].append(flag << 8 | sign << 7 | size)
        out["saturated"].append(int(kept != true))
        out["q.coarse"].append(int(coarse))
        shifts.append(max(n, p["EX"] - 1) - p["EX"] - (7 if coarse else 14))
        rounded.append(nearest(x, shifts[-1]))
    return out | trail(xs, shifts, rounded)


def vectors(words: Words) -> list[slice]:
    """The beats of each vector."""
    starts = [i for i, first in enumerate(words["first"]) if first]
    stops = [i + 1 for i, last in enumerate(words["last"]) if last]
    assert starts == [0, *stops[:-1]] and stops[-1] == len(words["last"])
    return [slice(a, b) for a, b in zip(starts, stops, strict=True)]


def r_exponent(p: Parameters, words: Words) -> Words:
    tensors = [words["x"][beats] for beats in vectors(words)]
    n = [oracle.exponent_of([x * power(p["EX"]) for x in tensor]) for tensor in tensors]
    return {"n": n, "n.max": [max(map(abs, tensor)) for tensor in tensors]}


def _dot(a: Sequence[int], b: Sequence[int]) -> int:
    return sum(x * y for x, y in zip(a, b, strict=True))


def mac_requant(p: Parameters, words: Words) -> Words:
    sums = []
    for beats in vectors(words):
        sums.append(sum(map(_dot, words["x"][beats], words["w"][beats])) + words["bias"][beats][-1])
    rounded = [nearest(v, p["S"]) for v in sums]
    output = oracle.FixedPoint(p["OUT"], 0, "saturate_symmetric")
    q = oracle.quantize([v * power(-p["S"]) for v in sums], output).codes
    saturated = [int(a != b) for a, b in zip(q, rounded, strict=True)]
    return {"q": q, "saturated": saturated, "q.acc": sums} | trail(sums, [p["S"]] * len(sums), rounded)


def float_word(x: Fraction) -> tuple[int, int]:
    """The float32 bits of an exact value and whether it overflowed; 0 is +0, a negative underflow -0."""
    sign = int(x < 0) << 31
    try:
        size = to_float32(abs(x))
    except OverflowError:
        return sign | INFINITY, 1
    return sign | struct.unpack("<I", struct.pack("<f", float(size)))[0], 0


def _float_parts(total: Fraction) -> dict[str, int]:
    """The trail of one rounding to float32."""
    lsb = -149
    while abs(total) >= power(lsb + 24):
        lsb += 1
    scaled = abs(total) / power(lsb)
    floor = scaled.__floor__()
    fraction = (scaled - floor) * 2**32
    word = fraction.__floor__() << 1 | (fraction.denominator != 1)
    rounded = round_fraction(scaled)
    return {
        "y.sign": int(total < 0), "y.exponent": lsb, "y.floor": floor, "y.remainder": word,
        "y.up": rounded - floor, "y.presat": rounded,
    }  # fmt: skip


def block_dot(p: Parameters, words: Words) -> Words:
    out: Words = {"y": [], "overflow": []}
    for beats in vectors(words):
        exponents = [xe[0] + we[0] for xe, we in zip(words["xe"][beats], words["we"][beats], strict=True)]
        dots = map(_dot, words["xm"][beats], words["wm"][beats])
        total = sum((power(e) * dot for e, dot in zip(exponents, dots, strict=True)), Fraction(0))
        word, infinite = float_word(total)
        out["y"].append(word)
        out["overflow"].append(infinite)
        for name, value in _float_parts(total).items():
            out.setdefault(name, []).append(value)
    return out


EXPECTED: dict[str, Callable[..., Words]] = {
    "quantize_q": quantize_q,
    "quantize_sq": quantize_sq,
    "quantize_cq": quantize_cq,
    "quantize_flag": quantize_flag,
    "r_exponent": r_exponent,
    "mac_requant": mac_requant,
    "block_dot": block_dot,
}
