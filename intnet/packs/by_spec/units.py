"""What the reference units must give, by the definition: every out, trail and drawn word of a unit's pack.

`EXPECTED[unit](parameters, words)` takes the words of the in ports, and of the random ones, in plain integers
and gives those of every out and trail port; of its parameters WORD_BITS are the bits of a random word that
count. A quantizer takes n, the exponent of R, as an input; a trail is that of the nearest n at which its unit
still shifts by more: beyond it nothing but the trail would change.
Nothing here is shared with the circuits of `intnet.spec.units`, which gave the words: these are fractions.
"""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import islice, pairwise
from typing import Any

from intnet.errors import PackError
from intnet.packs.by_spec.plain import Plain, flag_word
from intnet.packs.by_spec.trails import parts
from intnet.spec.float32 import LEAST, MANTISSA, bits_of, to_float32, units
from intnet.spec.formats import Constant, Direct, Flag, Shift, Way, exponent_of
from intnet.spec.microscaling import ELEMENTS, decoded
from intnet.spec.rounding import Decision, decision, overflow
from intnet.spec.tensor import power
from intnet.spec.words import lfsr
from intnet.spec.words import words as philox

Words = dict[str, list[Any]]  # of a port; a list of lanes a word where it has lanes
Parameters = Mapping[str, Any]
INFINITY = 0x7F800000
QUIET_NAN = 0x7FC00000
CORNERS = 24  # words of the corner stream that each case of an L2 pack has for its own


def trail(name: str, made: Sequence[Decision]) -> Words:
    """The ports floor, remainder, up and presat of a result."""
    return {f"{name}.{part}": codes for part, codes in parts(made).items()}


def _results(ways: Sequence[Way], explained: Sequence[Way]) -> Words:
    saturated = [int(way.saturated) for way in ways]
    return {"q": [way.code for way in ways], "saturated": saturated} | trail(
        "q", [way.decision for way in explained]
    )


def _held(n: int, least: int, most: int) -> int:
    return max(least, min(most, n))


def _values(p: Parameters, words: Words) -> list[Fraction]:
    return [x * power(p["EX"]) for x in words["x"]]


def _quantize_q(p: Parameters, words: Words) -> Words:
    ways = [Direct(8).way(x * power(-7 - p["S"]), 0) for x in words["x"]]
    return {"q": [way.code for way in ways]} | trail("q", [way.decision for way in ways])


def _quantize_sq(p: Parameters, words: Words) -> Words:
    form, seen = Shift(p["K"]), list(zip(_values(p, words), words["n"], strict=True))
    least, most = p["EX"] - 1, p["EX"] + p["K"] + p["W"]
    ways = [form.way(x, n) for x, n in seen]
    out = _results(ways, [form.way(x, _held(n, least, most)) for x, n in seen])
    return out | {"q.exponent": [form.exponent(n) for _, n in seen]}


def _quantize_cq(p: Parameters, words: Words) -> Words:
    ways, explained, limits, bits = [], [], [], p["WORD_BITS"]
    for x, n, log, word in zip(_values(p, words), words["n"], words["log_dr"], words["word"], strict=True):
        form, least = Constant(dr=2**log), p["EX"] + log - p["DB"]
        near = _held(n, least, p["EX"] + log + p["W"] + 32)
        drawn = word >> 32 - bits
        ways.append(form.way(x, n, "stochastic", drawn, bits))
        explained.append(form.way(x, near, "stochastic", drawn, bits))
        limits.append(form.dr - 1)
    return _results(ways, explained) | {"q.limit": limits}


def _quantize_flag(p: Parameters, words: Words) -> Words:
    form, seen = Flag(8), list(zip(_values(p, words), words["n"], strict=True))
    least, most = p["EX"] - 1, p["EX"] + p["W"] + 15
    ways = [form.way(x, n) for x, n in seen]
    out = _results(ways, [form.way(x, _held(n, least, most)) for x, n in seen])
    out["q"] = [flag_word(way.code, form.k) for way in ways]
    out["q.coarse"] = [int(way.lift > 1) for way in ways]
    return out | {"q.exponent": [form.exponent(n) for _, n in seen]}


# -- results limited to OUT bits -----------------------------------------------------------------


def _limits(p: Parameters) -> tuple[int, int]:
    half = 1 << p["OUT"] - 1
    if not p["QS"]:
        return 0, 2 * half - 1
    return (1 - half if p["OVERFLOW"] == "saturate_symmetric" else -half), half - 1


def _limited(p: Parameters, values: Sequence[Fraction], zeros: Sequence[int], mode: str = "") -> Words:
    """round(value) + zero, within OUT bits; the trail's floor has the zero point too."""
    low, high = _limits(p)
    how = "wrap" if p["OVERFLOW"] == "wrap" else "saturate"
    out: Words = {"q": [], "saturated": []}
    made = []
    for value, zero in zip(values, zeros, strict=True):
        rounded = decision(value, mode or p["MODE"])
        code = overflow(rounded.rounded + zero, low, high, how)
        out["q"].append(code)
        out["saturated"].append(int(code != rounded.rounded + zero))
        made.append(rounded._replace(floor=rounded.floor + zero))
    return out | trail("q", made)


def _shift(p: Parameters, words: Words) -> Words:
    return _limited(p, [x * power(-p["S"]) for x in words["x"]], [p["ZQ"]] * len(words["x"]))


def _shift_by(p: Parameters, words: Words) -> Words:
    amounts = [_held(n, -p["OUT"] - 1, p["W"] + 1) for n in words["n"]]
    values = [x * power(-n) for x, n in zip(words["x"], amounts, strict=True)]
    return _limited(p, values, [p["ZQ"]] * len(values))


def _scale_add(p: Parameters, words: Words) -> Words:
    acc = [x * s + o for x, s, o in zip(words["x"], words["scale"], words["offset"], strict=True)]
    return _limited(p, [a * power(-p["S"]) for a in acc], [p["ZQ"]] * len(acc)) | {"q.acc": acc}


def _requantize(p: Parameters, words: Words) -> Words:
    exact = [a * m * power(-31) for a, m in zip(words["acc"], words["multiplier"], strict=True)]
    amounts = [_held(n, -p["LEFT"], p["RIGHT"]) for n in words["n"]]
    if not p["TWICE"]:
        values = [v * power(-n) for v, n in zip(exact, amounts, strict=True)]
        return _limited(p, values, words["zero_point"])
    high = [decision(v * power(max(0, -n)), "ties_pos").rounded for v, n in zip(exact, amounts, strict=True)]
    values = [h * power(-max(0, n)) for h, n in zip(high, amounts, strict=True)]
    return _limited(p, values, words["zero_point"], "ties_away") | {"q.high": high}


# -- vectors -------------------------------------------------------------------------------------


def vectors(words: Words) -> list[slice]:
    """The beats of each vector; PackError where first and last do not mark them."""
    starts = [i for i, first in enumerate(words["first"]) if first]
    stops = [i + 1 for i, last in enumerate(words["last"]) if last]
    if starts != [0, *stops[:-1]] or stops[-1:] != [len(words["last"])]:
        raise PackError("first and last do not mark vectors that follow one another")
    return [slice(a, b) for a, b in zip(starts, stops, strict=True)]


def _dot(a: Sequence[int], b: Sequence[int]) -> int:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _r_exponent(p: Parameters, words: Words) -> Words:
    tensors = [words["x"][beats] for beats in vectors(words)]
    n = [exponent_of([x * power(p["EX"]) for x in tensor]) for tensor in tensors]
    return {"n": n, "n.max": [max(map(abs, tensor)) for tensor in tensors]}


def _accumulate(p: Parameters, value: int) -> int:
    """What an accumulator of ACC bits makes of a sum."""
    low, high = -(1 << p["ACC"] - 1), (1 << p["ACC"] - 1) - 1
    return value if p["SUMS"] == "exact" else overflow(value, low, high, p["SUMS"])


def _mac_requant(p: Parameters, words: Words) -> Words:
    sums = []
    for beats in vectors(words):
        total = 0
        for x, w in zip(words["x"][beats], words["w"][beats], strict=True):
            terms = [(a - p["ZX"]) * (b - p["ZW"]) for a, b in zip(x, w, strict=True)]
            total = _accumulate(p, total + sum(terms))
        sums.append(_accumulate(p, total + words["bias"][beats][-1]))
    return _limited(p, [v * power(-p["S"]) for v in sums], [p["ZQ"]] * len(sums)) | {"q.acc": sums}


def _block_dot(p: Parameters, words: Words) -> Words:
    out: Words = {}
    for beats in vectors(words):
        exponents = [xe[0] + we[0] for xe, we in zip(words["xe"][beats], words["we"][beats], strict=True)]
        dots = map(_dot, words["xm"][beats], words["wm"][beats])
        total = sum((power(e) * dot for e, dot in zip(exponents, dots, strict=True)), Fraction(0))
        for name, value in _float32(total).items():
            out.setdefault(name, []).append(value)
    return out


def _mx_dot(p: Parameters, words: Words) -> Words:
    """Of a NaN, and of an infinity that came in, the trail is that of 0."""
    out: Words = {}
    for beats in vectors(words):
        sa, sb = words["sa"][beats][-1], words["sb"][beats][-1]
        total, special = _mx_block(p, words["a"][beats], words["b"][beats], sa, sb)
        row = _float32(total) | {"y.special": int(special > 0)}
        for name, value in (row | {"y": special or row["y"]}).items():
            out.setdefault(name, []).append(value)
    return out


def _mx_block(p: Parameters, a: Sequence[Any], b: Sequence[Any], sa: int, sb: int) -> tuple[Fraction, int]:
    """(the exact sum, 0) of a block's elements, or (0, the word of a NaN or an infinity)."""
    total, infinities = Fraction(0), set[bool]()
    for xs, ys in zip(a, b, strict=True):
        for x, y in zip(xs, ys, strict=True):
            pair = decoded(x, sa, ELEMENTS[p["A"]]), decoded(y, sb, ELEMENTS[p["B"]])
            minus, zero = [str(v).startswith("-") for v in pair], [v in (0, "-0") for v in pair]
            if "nan" in pair:
                return Fraction(0), QUIET_NAN
            if {"inf", "-inf"} & set(pair):
                if any(zero):
                    return Fraction(0), QUIET_NAN
                infinities.add(minus[0] != minus[1])
            else:
                total += Fraction(pair[0]) * Fraction(pair[1])
    if infinities:
        return Fraction(0), QUIET_NAN if len(infinities) > 1 else infinities.pop() << 31 | INFINITY
    return total, 0


def _float32(total: Fraction) -> dict[str, int]:
    """One rounding to float32, of the magnitude: 0 is +0, a negative underflow -0, beyond it infinity."""
    sign, size, lsb = int(total < 0), abs(total), LEAST
    try:
        pattern = bits_of(units(to_float32(size)))
    except OverflowError:
        pattern = INFINITY
    while size >= power(lsb + MANTISSA):
        lsb += 1
    made = decision(size / power(lsb))
    row = {"y": sign << 31 | pattern, "overflow": int(pattern == INFINITY), "y.sign": sign, "y.exponent": lsb}
    return row | {name: values[0] for name, values in trail("y", [made]).items()}


EXPECTED: dict[str, Callable[[Parameters, Words], Words]] = {
    "quantize_q": _quantize_q,
    "quantize_sq": _quantize_sq,
    "quantize_cq": _quantize_cq,
    "quantize_flag": _quantize_flag,
    "r_exponent": _r_exponent,
    "mac_requant": _mac_requant,
    "block_dot": _block_dot,
    "mx_dot": _mx_dot,
    "shift": _shift,
    "shift_by": _shift_by,
    "scale_add": _scale_add,
    "requantize": _requantize,
}


# -- a pack --------------------------------------------------------------------------------------


def words_of(plain: Plain, name: str) -> list[Any]:
    """The words of a port of a unit: integers, or lists of lanes."""
    codes, shape = plain.codes(name), plain.shape(name)
    if len(shape) == 1:
        return codes
    return [codes[i : i + shape[1]] for i in range(0, len(codes), shape[1])]


def expected(plain: Plain) -> Words:
    """Every out and trail port of a unit's pack, and the random words where a generator gave them."""
    unit = plain.manifest["about"]["unit"]
    entering = [name for name, port in plain.ports.items() if port["direction"] in ("in", "rnd")]
    given = {name: words_of(plain, name) for name in entering}
    bits = next((p["rounding"]["word_bits"] for p in plain.ports.values() if p["rounding"].get("words")), 32)
    return EXPECTED[unit["name"]](unit["parameters"] | {"WORD_BITS": bits}, given) | _drawn(plain)


def _drawn(plain: Plain) -> Words:
    """The words of CQ; none where they were chosen around thresholds."""
    told = plain.manifest["about"].get("random", {})
    if told.get("kind") == "lfsr":
        draws = islice(lfsr(int(told["seed"], 16)), len(plain.codes("word")))
        return {"word": [draw << 16 | 0xFFFF for draw in draws]}
    if told.get("kind") != "philox":
        return {}
    cases = plain.pack.cases
    beats = [case.beat for case in cases] + [len(plain.codes("word"))]
    found: list[int] = []
    for k, (case, (first, last)) in enumerate(zip(cases, pairwise(beats), strict=True)):
        if "step" in told:  # corners, of one stream
            start, step, stream = CORNERS * k, int(told["step"]), told["streams"][0]
        else:
            step = int(case.id.rpartition(".step")[2].partition("-")[0])
            start, stream = 0, told["streams"][k]
        found += philox(int(told["seed"]), step - 1, stream, last - first, start)
    return {"word": found}
