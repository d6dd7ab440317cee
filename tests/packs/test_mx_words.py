"""Words, scales and trails of MX blocks against the definition, and what a block can hold, one by one."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from intnet.errors import PackError
from intnet.exact.blocks.mx_blocks import Along, quantize_along
from intnet.inspect import as_spec
from intnet.inspect.trail import HALF, mx_trail
from intnet.numbers.microscaling import MXFP4, MXINT8, MXS, SCALES, Microscaling
from intnet.numbers.rounding import how
from intnet.packs import mx
from intnet.packs.by_spec import mx as by_spec
from intnet.packs.layers import blocks, mx_blocks
from intnet.spec import microscaling as spec
from intnet.spec.mx_blocks import InBlock
from intnet.spec.mx_blocks import blocks as spec_blocks
from tests.support.mx_events import SHAPE, event_of, numbers

MODES = ("ties_even", "ties_away", "ties_pos", "to_neg", "to_pos", "to_zero", "stochastic")
FORMS = [
    (name, SCALES[k % 4], MODES[k % 7], axis, groups)
    for k, (name, (axis, groups)) in enumerate(
        (name, where) for name in MXS for where in ((1, 1), (1, 2), (-1, 1), (0, 1), (1, 70))
    )
]


def given(x: np.ndarray) -> list[Any]:
    """As the definition takes them, a negative zero with its sign."""
    return ["-0" if v == 0 and np.signbit(v) else Fraction(float(v)) for v in x.reshape(-1)]


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_words_scales_and_trail_are_the_definitions(form: tuple[str, str, str, int, int]) -> None:
    name, rule, mode, axis, groups = form
    along = Along(Microscaling(MXS[name].element, 32, rule), axis, groups)
    x = numbers(FORMS.index(form))
    event, _ = event_of(x, along, mode)
    words = mx.words_of(event.result.codes, np.signbit(x), along)
    scales, tops = mx.scales_of(event.result, along), mx.tops_of(x, along)
    assert np.array_equal(mx.scales_by(tops, along), scales)
    way = mx_trail(x, event.result, along, mode, event.words)
    defined, xs = as_spec.along_of(along, mode), given(x)
    rounds = InBlock(defined.element)
    flat = {part: getattr(way, part).reshape(-1) for part in ("floor", "remainder", "up", "presat")}
    cut = spec_blocks(SHAPE, defined)
    assert len(cut) == scales.size
    for block, scale, top in zip(cut, scales.reshape(-1), tops.reshape(-1), strict=True):
        drawn = None if event.words is None else [int(event.words[i]) for i in block]
        made = spec.quantize_block([xs[i] for i in block], defined.element, rule, mode, drawn)
        assert made.scale == scale and max(abs(Fraction(xs[i])) for i in block) == Fraction(float(top))
        assert [int(words.reshape(-1)[i]) for i in block] == made.elements
        for k, i in enumerate(block):
            told = rounds.way(Fraction(xs[i]), made.scale - 127, mode, drawn and drawn[k])
            assert flat["floor"][i] == told.decision.floor and flat["presat"][i] == told.decision.rounded
            assert flat["up"][i] == told.decision.up
            bits, rest = divmod(told.decision.fraction.numerator << 32, told.decision.fraction.denominator)
            assert flat["remainder"][i] == bits << 1 | (rest != 0)
            if way.exponent is not None:
                step = told.step / Fraction(2) ** (made.scale - 127)
                assert Fraction(2) ** int(way.exponent.reshape(-1)[i]) == step
    assert (way.exponent is None) == (name == "MXINT8")


@pytest.mark.parametrize("name", MXS)
def test_there_and_back(name: str) -> None:
    along = Along(MXS[name], 1, 2)
    x = numbers(5)
    event, made = event_of(x, along, "ties_even")
    words, scales = mx.words_of(event.result.codes, np.signbit(x), along), mx.scales_of(event.result, along)
    back = mx.tensor(words, scales, along, "x")
    assert np.array_equal(back.codes, event.result.codes) and np.array_equal(
        back.exponent, event.result.exponent
    )
    assert np.array_equal(scales.reshape(-1), made.scales.reshape(-1))
    form = as_spec.along_of(along)
    values = by_spec.values(words.reshape(-1).tolist(), scales.reshape(-1).tolist(), SHAPE, form)
    assert values == [Fraction(float(v)) for v in made.values.reshape(-1)]
    without = np.where(words == 1 << along.bits - 1, 0, words) if name != "MXINT8" else words
    assert by_spec.words(values, scales.reshape(-1).tolist(), SHAPE, form) == without.reshape(-1).tolist()
    assert mx.along_of(mx.told(along, 3)) == along
    with pytest.raises(PackError, match=r"scales of the shape \(2, 3, 3\) for elements of \(2, 70, 3\)"):
        mx.tensor(words, scales[:, :3], along, "x")
    with pytest.raises(PackError, match="a NaN or an infinity"):
        mx.tensor(words, np.full_like(scales, 255), along, "x")


@pytest.mark.parametrize("word", [0x7F, 0xFF])
def test_a_nan_is_no_element_of_a_pack(word: int) -> None:
    along = Along(MXS["MXFP8_E4M3"], 1)
    with pytest.raises(PackError, match="a NaN or an infinity"):
        mx.tensor(np.full((1, 3), word), np.full((1, 1), 127), along, "x")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"element": {"kind": "Double", "fields": {}}}, "is no format of MX blocks"),
        ({"element": {"kind": "Float", "fields": {"e": 99, "m": 3}}}, "is no format of MX blocks"),
        ({"scale": "up"}, "unknown scale 'up'"),
        ({"block": 16}, "blocks have 32 elements"),
        ({"axis": None}, "have no blocks"),
        ({"axis": 2}, "have no blocks"),
        ({"groups": 0}, "have no blocks"),
        ({"groups": 3}, "does not fall into 3 groups"),
    ],
)
def test_a_format_that_is_none_is_refused(change: dict[str, Any], says: str) -> None:
    told = mx.told(Along(MXFP4, 1), 2) | change
    with pytest.raises(PackError, match=says):
        mx.check(4, "x0.scale", told, (2, 64))


# -- what a block can hold, one by one ---------------------------------------------------------------


def ports_of(x: list[float], name: str, mode: str = "ties_even", rule: str = "floor") -> dict[str, list[int]]:
    """The ports of one row, by what stands after the path's name."""
    along = Along(Microscaling(MXS[name].element, 32, rule), 1)
    event, _ = event_of(np.array([x], np.float32), along, mode)
    rounding = {"mode": mode, "grid": None, "words": None, "word_bits": 32, "source": {"tensor": "fc/x"}}
    made = mx_blocks.mx_blocks(blocks.Path("fc/x0", event, "N,C", "x", rounding))
    assert set(made.judged) == {port.name for port, _ in made.ports if port.direction == "out"}
    return {port.name.removeprefix("fc/x0"): codes.reshape(-1).tolist() for port, codes in made.ports}


def test_a_short_last_block_has_a_scale_of_its_own() -> None:
    found = ports_of([4.0] * 32 + [64.0, 48.0, -1.0], "MXFP4")
    assert found[".scale"] == [127, 131] and found[".scale.top"] == [0x40800000, 0x42800000]
    assert found[""] == [6] * 32 + [6, 5, 0b1000]  # 64 = 4 * 2^4, 48 = 3 * 2^4, -1 = -1/16 * 2^4: a zero


def test_a_block_of_zeros_has_the_least_scale_and_zeros_keep_their_signs() -> None:
    found = ports_of([0.0, -0.0] * 16 + [2.0**-149, -(2.0**-149)], "MXFP6_E3M2")
    assert found[".scale"] == [0, 0] and found[""] == [0, 0x20] * 17
    assert found[".up"][-2:] == [0, 1] and found[".floor"][-2:] == [0, -1]


def test_saturated_elements_are_the_greatest() -> None:
    found = ports_of([7.0, -7.9, 1.0], "MXFP4")
    assert (found[".scale"], found[""]) == ([127], [0b0111, 0b1111, 0b0010])
    assert found[".presat"] == [4, -4, 2] and found[".exponent"] == [1, 1, -1]
    assert ports_of([7.0, -7.9, 1.0], "MXFP4", rule="ceil")[".scale"] == [128]
    codes = ports_of([1.999, -1.999, 1.0], "MXINT8")
    assert (codes[".scale"], codes[""], codes[".presat"][:2]) == ([127], [127, -127, 64], [128, -128])


@pytest.mark.parametrize("name", [name for name in MXS if name != "MXINT8"])
def test_subnormal_elements(name: str) -> None:
    least, m = Along(MXS[name], 1).least, Along(MXS[name], 1).digits
    great = Along(MXS[name], 1).greatest
    steps = [k * 2.0 ** (least - m) for k in range(1, 2**m)]
    found = ports_of([great, *steps, -steps[0] / 2, steps[0] * 0.75], name)
    assert found[".scale"] == [127] and found[""][1 : 1 + len(steps)] == list(range(1, 2**m))
    assert found[""][-2:] == [
        1 << MXS[name].bits - 1,
        1,
    ]  # a tie to even keeps its sign; three quarters go up
    assert found[".remainder"][-2] == HALF and found[".exponent"][1:] == [least - m] * (len(steps) + 2)


def test_stochastic_words_decide_element_by_element() -> None:
    along = Along(Microscaling(MXFP4.element, 32, "ceil"), 1)
    x = np.array([[4.0, 0.75, 0.75, -0.75, -0.75]], np.float32)  # 0.75 is 1.5 steps of 1/2
    drawn = np.array([0, 2**31 - 1, 2**31, 2**31 - 1, 2**31], np.uint32)
    made = quantize_along(x, along, how("stochastic", drawn))
    q = made.to_qtensor(x, 0)
    assert mx.words_of(q.codes, np.signbit(x), along).tolist() == [[6, 2, 1, 0b1001, 0b1010]]
    way = mx_trail(x, q, along, "stochastic", drawn)
    assert way.up.tolist() == [[0, 1, 0, 1, 0]] and way.floor.tolist() == [[2, 1, 1, -2, -2]]


def test_what_is_alike_judges_nothing() -> None:
    along = Along(MXINT8, 1)
    event, _ = event_of(np.ones((1, 40), np.float32), along, "ties_even")
    rounding = {"mode": "ties_even", "source": None}
    made = mx_blocks.mx_blocks(blocks.Path("fc/x0", event, "N,C", "x", rounding))
    assert {port.direction for port, _ in made.ports} == {"trail"} and not made.judged
