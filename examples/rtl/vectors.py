"""Stimuli and expected words of every unit: directed and corner cases, and uniform random ones beside them.

Expected values come from the oracle's plain integers and fractions; where intnet has the quantizer, it must
agree before a word is written. `CASES[unit name]` gives (directed, uniform); a stimulus is a list of tensors
or vectors, `columns` makes the ports' words of it. Next: `simulate`.
"""
from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from math import isqrt

import numpy as np

from examples.rtl import dots
from examples.rtl.units import Unit
from intnet.formats import Constant, Direct, Flag, Shift
from intnet.qtensor import QTensor
from intnet.quantize import flag_words, quantize
from tests.cases import corners
from tests.oracle import quantizers as oracle
from tests.oracle.rounding import overflow, round_fraction
from tests.oracle.tensor import power

Columns = dict[str, list[int]]
Tensor = list[int]  # codes of one tensor: they share R
RANDOM_TENSOR = 16  # codes of a uniform random tensor
EXHAUSTIVE = 16  # bits of input up to which every input is run
KGC = 15


def _inside(values: Iterable[int], top: int) -> Tensor:
    return sorted({v for v in values if -top <= v <= top})


def _near(m: int, shift: int, places: Sequence[int]) -> list[int]:
    """Around code k, and the tie above it, on the grid 2^shift, both signs."""
    grid, half = power(shift), power(shift - 1)
    points = [int(sign * (k * grid + part)) for k in places for part in (0, half) for sign in (1, -1)]
    return _inside([v + d for v in points for d in (-1, 0, 1)], m)


def maxima(bits: int) -> list[int]:
    """Magnitudes where R or a mask changes: powers of two, sqrt(2) * 2^p, their neighbours, the limits."""
    found = {0, 1, 2, 3, 2 ** (bits - 1), 2 ** (bits - 1) - 1}
    for p in range(2, bits - 1):
        root = isqrt(2 ** (2 * p + 1))
        found.update((2**p - 1, 2**p, 2**p + 1, root, root + 1))
    return sorted(m for m in found if m <= 2 ** (bits - 1))


def tensors(bits: int, drops: Sequence[int]) -> list[Tensor]:
    """A tensor a maximum: it, with the sign that fits, then ties and limits of the grids 2^(n - drop)."""
    out = []
    for m in maxima(bits):
        n = oracle.log2_R(m)
        places = {(drop, k) for drop in drops for k in (0, 1, 2, 3, 2**drop - 2, 2**drop - 1, 2**drop)}
        near = {v for drop, k in places for v in _near(m, n - drop, (k,))}
        kept = _inside(near | {1 << p for p in range(0, bits, 5)} | {-m}, min(m, 2 ** (bits - 1) - 1))
        out.append([-m, *kept, m] if m < 2 ** (bits - 1) else [-m, *kept])
    return out


def every_tensor(bits: int) -> list[Tensor]:
    """For every R a tensor of `bits` bits can have, all codes that fit under it."""
    top: dict[int, int] = {oracle.log2_R(m): m for m in range(2 ** (bits - 1) + 1)}
    return [[0], *([-m, *_inside(range(-m, m + 1), 2 ** (bits - 1) - 1)] for m in top.values())]


def uniform_tensors(seed: int, bits: int, count: int) -> list[Tensor]:
    """`count` uniform random codes, in tensors of 16."""
    source = random.Random(seed)
    codes = [source.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1)) for _ in range(count)]
    return [codes[i : i + RANDOM_TENSOR] for i in range(0, count, RANDOM_TENSOR)]


def _values(codes: Tensor, exponent: int) -> list[Fraction]:
    return [code * power(exponent) for code in codes]


def _clipped(got: Sequence[int], full: Sequence[int]) -> list[int]:
    return [int(a != b) for a, b in zip(got, full, strict=True)]


def _q_columns(unit: Unit, stimulus: list[Tensor]) -> Columns:
    xs = [x for codes in stimulus for x in codes]
    k = 8
    exponent = 1 - k - unit.parameters["S"]
    want = oracle.direct(_values(xs, exponent), k)
    got = quantize(QTensor(np.array(xs, np.int64), exponent), Direct(k))
    assert got.codes.tolist() == want.codes and got.exponent == want.exponent
    return {"x": xs, "q": want.codes}


def _sq_columns(unit: Unit, stimulus: list[Tensor]) -> Columns:
    exponent, k = unit.parameters["EX"], unit.parameters["K"]
    out: Columns = {name: [] for name in ("x", "n", "q", "saturated")}
    for codes in stimulus:
        xs = _values(codes, exponent)
        want, n = oracle.shift(xs, k), oracle.exponent_of(xs)
        full = oracle.fixed(xs, 99, -want.exponent).codes
        got = quantize(QTensor(np.array(codes, np.int64), exponent), Shift(k))
        assert got.codes.tolist() == want.codes and got.exponent == want.exponent == n + 1 - k
        _extend(out, codes, [n] * len(codes), want.codes, _clipped(want.codes, full))
    return out


def _cq_columns(unit: Unit, stimulus: list[tuple[Tensor, int, list[int]]]) -> Columns:
    exponent = unit.parameters["EX"]
    out: Columns = {name: [] for name in ("x", "n", "log_dr", "word", "q", "saturated")}
    for codes, log_dr, words in stimulus:
        xs = _values(codes, exponent)
        want, n = oracle.constant(xs, words, 2**log_dr, KGC), oracle.exponent_of(xs)
        full = oracle.fixed(xs, 99, log_dr - n, "stochastic", "saturate", words).codes
        got = quantize(
            QTensor(np.array(codes, np.int64), exponent), Constant(KGC, 2**log_dr),
            rounding="stochastic", words=np.array(words, np.uint32),
        )  # fmt: skip
        assert got.codes.tolist() == want.codes
        size = len(codes)
        _extend(out, codes, [n] * size, [log_dr] * size, words, want.codes, _clipped(want.codes, full))
    return out


def _flag_columns(unit: Unit, stimulus: list[Tensor]) -> Columns:
    exponent = unit.parameters["EX"]
    out: Columns = {name: [] for name in ("x", "n", "q", "saturated")}
    for codes in stimulus:
        xs = _values(codes, exponent)
        want, n = oracle.flag(xs), oracle.exponent_of(xs)
        fields = [oracle.flag_encode(code) for code in want.codes]
        stored = [flag << 8 | sign << 7 | size for flag, sign, size in fields]
        got = quantize(QTensor(np.array(codes, np.int64), exponent), Flag(8))
        assert flag_words(got).tolist() == stored and got.exponent == n - 14
        whole = oracle.fixed(xs, 99, 7 - n).codes
        saturated = [int(abs(v) > 127) for v in whole]
        assert sum(saturated) == want.saturated
        _extend(out, codes, [n] * len(codes), stored, saturated)
    return out


def _every_n(unit: Unit) -> range:
    top = 2 ** (unit.parameters["NB"] - 1)
    return range(-top, top)


def _every_x(unit: Unit) -> Tensor:
    top = 2 ** (unit.parameters["W"] - 1)
    return list(range(-top, top))


def sq_pairs(unit: Unit) -> Columns:
    """Every (x, n), also those of no tensor: x far beyond R saturates, far below it is 0."""
    out: Columns = {name: [] for name in ("x", "n", "q", "saturated")}
    codes, k = _every_x(unit), unit.parameters["K"]
    xs = _values(codes, unit.parameters["EX"])
    for n in _every_n(unit):
        want = oracle.fixed(xs, k, k - 1 - n, how="saturate_symmetric").codes
        full = oracle.fixed(xs, 99, k - 1 - n).codes
        _extend(out, codes, [n] * len(codes), want, _clipped(want, full))
    return out


def flag_pairs(unit: Unit) -> Columns:
    """Every (x, n), as `sq_pairs`."""
    out: Columns = {name: [] for name in ("x", "n", "q", "saturated")}
    for n in _every_n(unit):
        sc = power(n - 7)
        for code, x in zip(_every_x(unit), _values(_every_x(unit), unit.parameters["EX"]), strict=True):
            whole = round_fraction(x / sc)
            kept = overflow(whole, -127, 127, "saturate")
            is_coarse = abs(x) >= sc
            flag, sign, size = oracle.flag_encode(128 * kept if is_coarse else round_fraction(128 * x / sc))
            _extend(out, [code], [n], [flag << 8 | sign << 7 | size], [int(is_coarse and whole != kept)])
    return out


def cq_pairs(unit: Unit) -> Columns:
    """Random (x, n, log_dr, word), also of no tensor: x and n are few bits here, and the words are near."""
    out: Columns = {name: [] for name in ("x", "n", "log_dr", "word", "q", "saturated")}
    source, every_x = random.Random(11), _every_x(unit)
    for n in _every_n(unit):
        log_dr, codes = source.randrange(8), [source.choice(every_x) for _ in range(8)]
        shift = n - unit.parameters["EX"] - log_dr
        pairs = [(x, w) for x in codes for w in _words_near(x, shift, source)]
        codes, words = [x for x, _ in pairs], [w for _, w in pairs]
        xs, size = _values(codes, unit.parameters["EX"]), len(pairs)
        want = oracle.fixed(xs, log_dr + 1, log_dr - n, "stochastic", "saturate_symmetric", words).codes
        full = oracle.fixed(xs, 99, log_dr - n, "stochastic", "saturate", words).codes
        _extend(out, codes, [n] * size, [log_dr] * size, words, want, _clipped(want, full))
    return out


def _r_columns(unit: Unit, stimulus: list[Tensor]) -> Columns:
    exponent = unit.parameters["EX"]
    out: Columns = {name: [] for name in ("first", "last", "x", "n")}
    for codes in stimulus:
        n = oracle.exponent_of(_values(codes, exponent))
        got = quantize(QTensor(np.array(codes, np.int64), exponent), Shift(8))
        assert got.exponent == n - 7
        _extend(out, *dots.ends(len(codes)), codes, [n])
    return out


def _extend(columns: Columns, *parts: Sequence[int]) -> None:
    for column, part in zip(columns.values(), parts, strict=True):
        column.extend(part)


def _q_directed(unit: Unit) -> list[Tensor]:
    bits, shift = unit.parameters["W"], unit.parameters["S"]
    if bits <= EXHAUSTIVE:
        return [list(range(-(2 ** (bits - 1)), 2 ** (bits - 1)))]
    top = 2 ** (bits - 1)
    last = 2 ** (bits - shift - 1)
    return [_inside(corners(bits, shift) + _near(top, shift, range(last - 3, last + 1)), top - 1), [-top]]


def _tensors_directed(unit: Unit, drops: Sequence[int]) -> list[Tensor]:
    bits = unit.parameters["W"]
    return tensors(bits, drops) + (every_tensor(bits) if bits + 4 <= EXHAUSTIVE else [])


def _words_near(x: int, shift: int, source: random.Random) -> list[int]:
    """The words around floor(f * 2^32) of x / 2^shift, the ends, and one that is not the same when turned."""
    scaled = Fraction(x) / power(shift)
    limit = int((scaled - scaled.__floor__()) * 2**32)
    near = (limit - 1, limit, limit ^ 1, limit ^ 0xFFFF, source.getrandbits(32))
    return [w & 0xFFFFFFFF for w in near]


def _cq_directed(unit: Unit) -> list[tuple[Tensor, int, list[int]]]:
    source, bits, out = random.Random(7), unit.parameters["W"], []
    for i, base in enumerate(tensors(bits, (7, 3))):
        for log_dr in (7, (7 * i + i // 7) % 7):
            picked = base[:1] + source.sample(base, min(len(base), 11)) + base[-1:]
            shift = oracle.log2_R(abs(base[0])) - log_dr
            pairs = [(x, w) for x in picked for w in _words_near(x, shift, source)]
            out.append(([x for x, _ in pairs], log_dr, [w for _, w in pairs]))
    return out


def _cq_uniform(seed: int, unit: Unit, count: int) -> list[tuple[Tensor, int, list[int]]]:
    source = random.Random(seed + 1)
    return [
        (codes, source.randrange(8), [source.getrandbits(32) for _ in codes])
        for codes in uniform_tensors(seed, unit.parameters["W"], count)
    ]


def _r_directed(unit: Unit) -> list[Tensor]:
    """Every maximum at a vector's start, middle and end, after a greater one, as both signs, and alone."""
    bits, source, out = unit.parameters["W"], random.Random(8), []
    for m in reversed(maxima(bits)):
        small = [source.randint(-m // 2, m // 2) for _ in range(3)] + [min(m, 2 ** (bits - 1) - 1) // 3 * 2]
        out += [[-m], [-m, *small], [*small, -m], [small[0], -m, small[1]]]
        if m < 2 ** (bits - 1):
            out += [[m], [m, *small], [*small, m]]
    return out + [[x] for x in range(-(2**7), 2**7)]


def _uniform(seed: int, unit: Unit, count: int) -> list[Tensor]:
    return uniform_tensors(seed, unit.parameters["W"], count)


class Case:
    """How a unit is stimulated: directed(unit), uniform(seed, unit, beats), columns(unit, stimulus)."""

    def __init__(self, directed: Callable, uniform: Callable, columns: Callable) -> None:
        self.directed, self.uniform, self.columns = directed, uniform, columns


CASES: dict[str, Case] = {
    "quantize_q": Case(_q_directed, _uniform, _q_columns),
    "quantize_sq": Case(lambda u: _tensors_directed(u, (u.parameters["K"] - 1,)), _uniform, _sq_columns),
    "quantize_cq": Case(_cq_directed, _cq_uniform, _cq_columns),
    "quantize_flag": Case(lambda u: _tensors_directed(u, (7, 14)), _uniform, _flag_columns),
    "r_exponent": Case(_r_directed, _uniform, _r_columns),
    "mac_requant": Case(dots.mac_directed, dots.mac_uniform, dots.mac_columns),
    "block_dot": Case(dots.block_directed, dots.block_uniform, dots.block_columns),
}


PAIRS: dict[str, Callable[[Unit], Columns]] = {
    "quantize_sq": sq_pairs,
    "quantize_cq": cq_pairs,
    "quantize_flag": flag_pairs,
}


def directed(unit: Unit) -> Columns:
    """Directed and corner words; every input where there are at most 16 bits of it."""
    if unit.name in PAIRS and unit.parameters["W"] + unit.parameters["NB"] <= EXHAUSTIVE:
        return PAIRS[unit.name](unit)
    return CASES[unit.name].columns(unit, CASES[unit.name].directed(unit))


def uniform(unit: Unit, beats: int, seed: int = 1) -> Columns:
    """As many beats of uniform random words."""
    return CASES[unit.name].columns(unit, CASES[unit.name].uniform(seed, unit, beats))
