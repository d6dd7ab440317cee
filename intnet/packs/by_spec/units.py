"""What the reference units must give, by the definition: every out, trail and drawn word of a unit's pack.

`EXPECTED[unit](parameters, words)` takes the words of the in ports, and of the random ones, in plain integers
and gives those of every out and trail port. A quantizer takes n, the exponent of R, as an input; a trail is
that of n = EX - 1 where n is less, as every word but 0 saturates there and nothing changes below.
"""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import islice, pairwise
from typing import Any

from intnet.errors import PackError
from intnet.packs.by_spec.plain import Plain, flag_word
from intnet.packs.by_spec.trails import parts
from intnet.spec.float32 import bits_of, to_float32, units
from intnet.spec.formats import Constant, Direct, FixedPoint, Flag, Shift, Way, exponent_of
from intnet.spec.rounding import Decision, decision
from intnet.spec.tensor import power
from intnet.spec.words import lfsr
from intnet.spec.words import words as philox

Words = dict[str, list[Any]]  # of a port; a list of lanes a word where it has lanes
Parameters = Mapping[str, int]
INFINITY, LEAST, MANTISSA = 0x7F800000, -149, 24
CORNERS = 24  # words of the corner stream that each case of an L2 pack has for its own


def trail(name: str, made: Sequence[Decision]) -> Words:
    """The ports floor, remainder, up and presat of a result."""
    return {f"{name}.{part}": codes for part, codes in parts(made).items()}


def _results(ways: Sequence[Way], explained: Sequence[Way]) -> Words:
    saturated = [int(way.saturated) for way in ways]
    return {"q": [way.code for way in ways], "saturated": saturated} | trail(
        "q", [way.decision for way in explained]
    )


def _seen(p: Parameters, words: Words) -> list[tuple[Fraction, int, int]]:
    """(exact value, n, the n of its trail) of every word."""
    unit = power(p["EX"])
    return [(x * unit, n, max(n, p["EX"] - 1)) for x, n in zip(words["x"], words["n"], strict=True)]


def _quantize_q(p: Parameters, words: Words, bits: int) -> Words:
    ways = [Direct(8).way(x * power(-7 - p["S"]), 0) for x in words["x"]]
    return {"q": [way.code for way in ways]} | trail("q", [way.decision for way in ways])


def _quantize_sq(p: Parameters, words: Words, bits: int) -> Words:
    form, seen = Shift(p["K"]), _seen(p, words)
    out = _results([form.way(x, n) for x, n, _ in seen], [form.way(x, n) for x, _, n in seen])
    return out | {"q.exponent": [form.exponent(n) for _, n, _ in seen]}


def _quantize_cq(p: Parameters, words: Words, bits: int) -> Words:
    forms = [Constant(dr=2**log) for log in words["log_dr"]]
    seen = list(zip(forms, _seen(p, words), words["word"], strict=True))
    ways = [form.way(x, n, "stochastic", word >> 32 - bits, bits) for form, (x, n, _), word in seen]
    explained = [form.way(x, n, "stochastic", word >> 32 - bits, bits) for form, (x, _, n), word in seen]
    return _results(ways, explained) | {"q.limit": [form.dr - 1 for form in forms]}


def _quantize_flag(p: Parameters, words: Words, bits: int) -> Words:
    form, seen = Flag(8), _seen(p, words)
    ways = [form.way(x, n) for x, n, _ in seen]
    out = _results(ways, [form.way(x, n) for x, _, n in seen])
    out["q"] = [flag_word(way.code, form.k) for way in ways]
    out["q.coarse"] = [int(way.lift > 1) for way in ways]
    return out | {"q.exponent": [form.exponent(n) for _, n, _ in seen]}


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


def _r_exponent(p: Parameters, words: Words, bits: int) -> Words:
    tensors = [words["x"][beats] for beats in vectors(words)]
    n = [exponent_of([x * power(p["EX"]) for x in tensor]) for tensor in tensors]
    return {"n": n, "n.max": [max(map(abs, tensor)) for tensor in tensors]}


def _mac_requant(p: Parameters, words: Words, bits: int) -> Words:
    beats_of = vectors(words)
    sums = [sum(map(_dot, words["x"][b], words["w"][b])) + words["bias"][b][-1] for b in beats_of]
    ways = [FixedPoint(p["OUT"], -p["S"], overflow="saturate_symmetric").way(v, 0) for v in sums]
    return _results(ways, ways) | {"q.acc": sums}


def _block_dot(p: Parameters, words: Words, bits: int) -> Words:
    out: Words = {}
    for beats in vectors(words):
        exponents = [xe[0] + we[0] for xe, we in zip(words["xe"][beats], words["we"][beats], strict=True)]
        dots = map(_dot, words["xm"][beats], words["wm"][beats])
        total = sum((power(e) * dot for e, dot in zip(exponents, dots, strict=True)), Fraction(0))
        for name, value in _float32(total).items():
            out.setdefault(name, []).append(value)
    return out


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


EXPECTED: dict[str, Callable[[Parameters, Words, int], Words]] = {
    "quantize_q": _quantize_q,
    "quantize_sq": _quantize_sq,
    "quantize_cq": _quantize_cq,
    "quantize_flag": _quantize_flag,
    "r_exponent": _r_exponent,
    "mac_requant": _mac_requant,
    "block_dot": _block_dot,
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
    out = EXPECTED[unit["name"]](unit["parameters"], given, bits)
    return out | _drawn(plain)


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
