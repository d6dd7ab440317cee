"""Formats and rounding modes of users' own, against fractions that know nothing of them."""

from dataclasses import dataclass
from fractions import Fraction
from math import log10

import numpy as np
import pytest

from intnet import FixedPoint, Flag, QTensor, Scaled, Shift, formats, rounding
from intnet.errors import FormatError, NumberError
from intnet.exact.expressions import Exact, exact
from intnet.exact.quantize import quantize
from intnet.exact.sources import FloatExact, Root
from intnet.inspect.explain import explain
from intnet.inspect.measure import measure
from intnet.inspect.trail import trail
from intnet.methods.trace import Event, PathTable
from tests.support.user_formats import Some, Steps, registered

__all__ = ["registered"]
RNG = np.random.default_rng(7)
HALF = Fraction(1, 2)
NEAREST = ("ties_even", "ties_away", "ties_pos")
MODES = (*NEAREST, "to_neg", "to_pos", "to_zero")


def goes_up(mode: str, floor: int, f: Fraction) -> bool:
    """The rule table, written again."""
    tie = {"ties_even": floor % 2 == 1, "ties_away": floor >= 0, "ties_pos": True}
    if mode in tie:
        return f > HALF or (f == HALF and tie[mode])
    if mode == "thirds":
        return f > 0 and (3 * f >= 1 if floor % 2 == 0 else 4 * f > 3)
    return f > 0 and {"to_neg": False, "to_pos": True, "to_zero": floor < 0}[mode]


def rounded(x: Fraction, mode: str) -> int:
    floor = x.numerator // x.denominator
    return floor + goes_up(mode, floor, x - floor)


def sources() -> list[Exact | FloatExact]:
    """Floats, codes, and quotients, with ties and neighbours of limits among them."""
    floats = (RNG.integers(-400, 401, 300) / 64).astype(np.float32)
    codes = QTensor(RNG.integers(-5000, 5001, (20, 3)), -7)
    quotient = Exact([(codes, np.array([1, 2, 3]))], -7, den=np.array([3, 5, 12]))
    found = (exact(floats), exact(codes), quotient, exact(np.abs(floats) + np.float32(3)))
    return [one for one in found if isinstance(one, Exact | FloatExact)]


@pytest.mark.parametrize("mode", [*MODES, "thirds"])
def test_equidistant_codes_are_what_fractions_say(mode: str) -> None:
    for source in sources():
        values = source.fractions().reshape(-1)
        top, e = max(abs(v) for v in values), -200
        while top > Fraction(2) ** (e + 5):
            e += 1
        q = quantize(source, Steps(5), rounding=mode)
        plain = [rounded(v / Fraction(2) ** e, mode) for v in values]
        assert q.exponent == e
        assert q.raw().reshape(-1).tolist() == [max(-29, min(29, code)) for code in plain]
        assert q.status is not None and q.bound == 29 and q.format is not None and q.format.bits == 6
        assert q.status.saturated == sum(abs(code) > 29 for code in plain)
        assert q.status.inexact == sum(
            code != v / Fraction(2) ** e for code, v in zip(plain, values, strict=True)
        )


def level_of(x: Fraction, mode: str) -> int:
    """By hand: the neighbours, and how far x is between them."""
    levels = Some().levels()
    if x <= levels[0] or x >= levels[-1]:
        return levels[0] if x < 0 else levels[-1]
    low = max(level for level in levels if level <= x)
    high = min(level for level in levels if level > x)
    number = levels.index(low) - levels.index(0)
    return high if goes_up(mode, number, (x - low) / (high - low)) else low


@pytest.mark.parametrize("mode", [*MODES, "thirds"])
def test_levels_are_what_fractions_say(mode: str) -> None:
    for source in sources():
        values = source.fractions().reshape(-1)
        q = quantize(source, Some(), rounding=mode)
        assert q.exponent == -2
        assert q.raw().reshape(-1).tolist() == [level_of(4 * v, mode) for v in values]
    ties = [Fraction(a + b, 2) for a, b in zip(Some().levels(), Some().levels()[1:], strict=False)]
    q = quantize(np.array([float(t / 4) for t in ties], np.float32), Some(), rounding=mode)
    assert q.raw().tolist() == [level_of(t, mode) for t in ties]
    if mode == "ties_even":  # numbers -2 .. 4
        assert q.raw().tolist() == [-20, 0, 0, 3, 3, 9]


def test_levels_are_drawn_by_the_part_of_their_distance() -> None:
    x = np.full(4096, 3.5 / 4, np.float32)  # the middle of 3 and 4: the first bit of a word decides
    words = RNG.integers(0, 1 << 32, x.size, np.uint32)
    q = quantize(x, Some(), rounding="stochastic", words=words)
    assert q.raw().tolist() == [4 if word < 1 << 31 else 3 for word in words]
    q = quantize(np.full(4096, 6.5 / 4, np.float32), Some(), rounding="stochastic", words=words, word_bits=8)
    assert q.raw().tolist() == [9 if word >> 24 < 128 else 4 for word in words]


@pytest.mark.parametrize("format", [FixedPoint(5, 2), Shift(4), Scaled(5), FixedPoint(4, 1, overflow="wrap")])
def test_a_mode_of_ones_own_rounds_into_every_format(format: formats.Format) -> None:
    for source in sources():
        q = quantize(source, format, rounding="thirds")
        even = quantize(source, format)
        assert q.exponent == even.exponent
        for code, x in zip(q.raw().reshape(-1).tolist(), source.fractions().reshape(-1), strict=True):
            plain = rounded(x / Fraction(2) ** int(q.exponent), "thirds")
            if isinstance(format, FixedPoint) and format.overflow == "wrap":
                plain = (plain + 8) % 16 - 8
            low = -(2**3) + 1 if isinstance(format, Shift) else -(2**4)
            high = 7 if isinstance(format, Shift) else 15
            assert code == max(low, min(high, plain))


def test_a_mode_of_ones_own_on_the_two_grids_of_flag() -> None:
    x = (RNG.integers(-1000, 1001, 200) / 1000).astype(np.float32)
    q = quantize(x, Flag(4), rounding="thirds")
    fine = Fraction(2) ** int(q.exponent)
    for code, value in zip(q.raw().tolist(), x.tolist(), strict=True):
        s = Fraction(value) / fine
        coarse = abs(s) >= 8
        plain = rounded(s / 8, "thirds") * 8 if coarse else rounded(s, "thirds")
        assert code == max(-56, min(56, plain))


def test_what_a_rule_cannot_be_asked_is_refused() -> None:
    with pytest.raises(FormatError, match="a square root is rounded by comparing squares"):
        quantize(Root([2, 3], 1, 0), FixedPoint(8, 0), rounding="thirds")
    for format in (Steps(5), Some()):
        with pytest.raises(FormatError, match="needs exact extremes, which a root or a curve has not"):
            quantize(Root([2, 3], 1, 0), format)
        with pytest.raises(NumberError, match="an empty tensor"):
            quantize(np.zeros(0, np.float32), format)
    rounding.MODES["thirds"] = lambda floor, f: 1  # type: ignore[assignment, return-value]
    with pytest.raises(FormatError, match="gives 1: True or False"):
        quantize(np.float32([0.3]), FixedPoint(8, 0), rounding="thirds")


def test_levels_beyond_62_bits_are_refused() -> None:
    @dataclass(frozen=True)
    class Wide(Some):
        def levels(self) -> tuple[int, ...]:
            return -(2**62), 0, 1

    with pytest.raises(FormatError, match=r"levels from -4611686018427387904 to 1: they stay below 2\^62"):
        _ = Wide().table


def test_what_a_format_does_not_say_is_refused() -> None:
    @dataclass(frozen=True)
    class Unknown(formats.OwnFormat):
        pass

    @dataclass(frozen=True)
    class Wraps(Steps):
        def limits(self) -> tuple[int, int, str]:
            return -4, 3, "wrap"

    @dataclass(frozen=True)
    class Thirds(Steps):
        def step(self, grid: int) -> Fraction:
            return Fraction(1, 3)

    @dataclass(frozen=True)
    class Mixed(Some):
        def levels(self) -> tuple[int, ...]:
            return 0, 3, 3

    @dataclass(frozen=True)
    class Halves(Steps):
        def grid_of(self, least: Fraction | int, greatest: Fraction | int) -> int:
            return -2.0  # type: ignore[return-value]

    @dataclass(frozen=True)
    class Far(Steps):
        def grid_of(self, least: Fraction | int, greatest: Fraction | int) -> int:
            return 2**60

    @dataclass(frozen=True)
    class Open(Steps):
        def limits(self) -> tuple[int, int, str]:
            return -(2**62), 7, "saturate"

    @dataclass(frozen=True)
    class Parts(Steps):
        def limits(self) -> tuple[int, int, str]:
            return -7.5, 7, "saturate"  # type: ignore[return-value]

    x = np.float32([1, 2])
    for given in (8, "<8,6>", FixedPoint):
        with pytest.raises(FormatError, match=r"is no format: FixedPoint\(8, 6\) is one"):
            quantize(x, given)  # type: ignore[arg-type]
    with pytest.raises(FormatError, match=r"no format that intnet knows: put @formats\.register"):
        quantize(x, Unknown())
    cases = [(Wraps(3), "says 'wrap'"), (Thirds(3), "has steps of 1/3"), (Mixed(), "ascending whole numbers")]
    cases += [
        (Halves(3), "grid_of gives -2.0: a whole"),
        (Far(3), "grid_of = 1152921504606846976: exponents"),
    ]
    cases += [(made, r"whole numbers below 2\^62 are needed") for made in (Open(3), Parts(3))]
    for made, said in cases:
        formats.register("case")(type(made))
        with pytest.raises(FormatError, match=said):
            quantize(x, made)
        del formats.FORMATS["case"], formats.FORMATS.origins["case"]


def sqnr(values: list[Fraction], stored: list[Fraction]) -> float:
    noise = sum((v - s) ** 2 for v, s in zip(values, stored, strict=True))
    return round(10 * log10(sum(v * v for v in values) / noise), 2)


@pytest.mark.parametrize("format", [Steps(5), Some()])
def test_measures_and_explanations_are_those_of_the_rule(format: formats.OwnFormat) -> None:
    x = (RNG.integers(-300, 301, 64) / 64).astype(np.float32)
    for mode in ("ties_even", "thirds"):
        q = quantize(x, format, rounding=mode)
        event = Event("fc", "Wq", 0, x, q, format, mode)
        found = measure(event)
        values = [Fraction(v) for v in x.tolist()]
        assert found.sqnr_db == sqnr(values, q.fractions().tolist())
        table = PathTable()
        table(event)
        (row,) = table.rows.values()
        numbers = q.raw().tolist()
        if isinstance(format, Some):
            numbers = [Some().levels().index(code) - 2 for code in numbers]
        widest = max(n.bit_length() + 1 if n >= 0 else (~n).bit_length() + 1 for n in numbers)
        assert found.used_bits == row.used == widest and found.nominal_bits == format.bits
        assert format.bits == (6 if isinstance(format, Steps) else 4) and q.stored_bits() == format.bits
        for i in range(x.size):
            told = explain(event, (i,))
            assert told.code == int(q.raw()[i]) and told.stored == q.fractions()[i]


def test_trails_of_a_mode_of_ones_own() -> None:
    x = (RNG.integers(-300, 301, 64) / 64).astype(np.float32)
    found = trail(exact(x), Steps(4), "thirds")
    e = int(quantize(x, Steps(4)).exponent)
    for i, value in enumerate(x.tolist()):
        scaled = Fraction(value) / Fraction(2) ** e
        floor = scaled.numerator // scaled.denominator
        assert found.floor[i] == floor and found.remainder[i] >> 1 == int((scaled - floor) * 2**32)
        assert found.up[i] == goes_up("thirds", floor, scaled - floor)
    with pytest.raises(FormatError, match="has no grid, on which a trail could stand"):
        trail(exact(x), Some(), "ties_even")


def test_elements_with_exponents_of_their_own_are_measured_in_units_of_value() -> None:
    """As a method may store that packs small floats by itself."""
    x = np.float32([3.3, -0.41, 0.052, 0.0071, 1.0])
    exponents = np.array([-1, -4, -7, -10, -2])
    codes = np.rint(np.ldexp(x.astype(np.float64), -exponents)).astype(np.int32)
    event = Event("fc", "Wq", 0, x, QTensor(codes, exponents), Shift(4), "ties_even")
    values = [Fraction(v) for v in x.tolist()]
    stored = [int(c) * Fraction(2) ** int(e) for c, e in zip(codes, exponents, strict=True)]
    assert measure(event).sqnr_db == sqnr(values, stored) > 15
    given = Event("fc", "Wq", 0, QTensor(codes, 0), QTensor(codes, exponents), Shift(4), "ties_even")
    with pytest.raises(FormatError, match="is not measured: its elements have steps of their own"):
        measure(given)
