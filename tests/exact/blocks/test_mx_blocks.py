"""MX blocks along an axis: values, scales and counts are the definition's; every element, rule and mode."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from intnet.errors import FormatError, NumberError, ShapeError
from intnet.exact.blocks import mx_loops
from intnet.exact.blocks.mx_blocks import Along, quantize_along
from intnet.exact.quantize import quantize
from intnet.numbers import rng
from intnet.numbers.microscaling import MXFP4, MXS, SCALES, Microscaling
from intnet.numbers.rounding import OWN, Rounding, how
from intnet.spec import mx_blocks as spec
from intnet.spec.methods.mx import ELEMENTS
from intnet.spec.microscaling import members
from intnet.spec.rounding import MODES
from intnet.spec.small_floats import Float, value
from intnet.spec.tensor import Tensor, places
from tests.support.opcheck import tensor, threads, values

LAYOUTS: list[tuple[tuple[int, ...], int, int]] = [
    ((3, 16), -1, 1),
    ((2, 64), 1, 1),
    ((3, 36), -1, 3),
    ((2, 1, 2, 35), -1, 1),
    ((35, 5), 0, 1),
    ((2, 34, 3, 2), 1, 1),
    ((12, 4, 3, 2), 0, 2),
]


def floats(seed: int, shape: tuple[int, ...], exponent: int) -> np.ndarray:
    """Magnitudes of 14 binades, rows of zeros and zeros among others."""
    r = np.random.default_rng(seed)
    x = np.ldexp(r.uniform(-2, 2, shape) * 2.0 ** r.integers(-12, 1, shape), exponent).astype(np.float32)
    x.reshape(-1)[::7] = 0
    x[-1] *= seed % 3 > 0
    return x


def differ(x: np.ndarray, case: tuple[str, str, str], axis: int, groups: int, words: Any) -> list[str]:
    """What of a tensor in blocks is not the definition's; case: format, rule, mode."""
    name, scale, mode = case
    form = spec.Along(ELEMENTS[name], scale, mode, axis, groups)
    along = Along(replace(MXS[name], scale=scale), axis, groups)
    try:
        want: Any = spec.quantize_along(tensor(x), form, words.tolist())
    except OverflowError:
        want = None
    try:
        got = quantize_along(x, along, how(mode, words))
    except NumberError:
        return ["refused"] * (want is not None)
    if want is None:
        return ["taken"]
    parts = {
        "values": (values(got.values), want.values),
        "scales": (got.scales.reshape(-1).tolist(), want.scales),
        "saturated": (int(got.limited.sum()), want.saturated),
        "codes": (values(got.to_qtensor(x, 0)), want.values),
        "signs of zeros": (bool(np.signbit(got.values[got.values == 0]).any()), False),
    }
    return [part for part, (one, other) in parts.items() if one != other]


def sweep(cases: Any) -> list[Any]:
    """Cases that differ: (format, rule, mode), each in another layout and magnitude."""
    bad = []
    for seed, case in enumerate(cases):
        shape, axis, groups = LAYOUTS[seed % len(LAYOUTS)]
        exponent = (0, -126, -140, -110, 100, 126)[(seed + seed // 6) % 6]
        x = floats(seed, shape, exponent)
        found = differ(x, case, axis, groups, rng.words(seed, 1, 7, x.size))
        bad += [(case, shape, axis, exponent, found)] * bool(found)
    return bad


@pytest.mark.slow
def test_every_format_rule_and_mode() -> None:
    assert sweep(product(MXS, SCALES, MODES)) == []


def test_some_of_them() -> None:
    assert sweep(product(["MXFP6_E3M2"], SCALES, ["ties_even", "stochastic"])) == []


def borders(name: str) -> list[float]:
    """Every element of a format, the middle of each two, and the floats beside these."""
    element = ELEMENTS[name]
    if isinstance(element, Float):
        grid = [float(value(n, element)) for n in range(element.greatest + 2)]
    else:
        grid = [n / 2.0**element.fl for n in range(2 ** (element.wl - 1) + 1)]
    middle = [(a + b) / 2 for a, b in pairwise(grid)]
    near = np.array(grid + middle, np.float32)
    every = np.concatenate([near, np.nextafter(near, np.float32(0)), np.nextafter(near, np.float32(np.inf))])
    return [sign * float(v) for v in every for sign in (1, -1)]


@pytest.mark.slow
@pytest.mark.parametrize("name", MXS)
def test_every_element_and_all_between(name: str) -> None:
    """In blocks whose other element sets the scale 2^k, at both ends of k too, and where paths part."""
    edge = int(np.floor(np.log2(float(spec.greatest(ELEMENTS[name])))))
    every = np.array([v for v in borders(name) if abs(v) < 2.0 ** (edge + 1)], np.float32)
    for k in (0, -127, -126, mx_loops.FROM - 1, mx_loops.FROM, 126 - edge, 127 - edge):
        inside = every[:: 7 if k else 1]
        x = np.zeros((len(inside), 2), np.float32)
        with np.errstate(under="ignore"):
            x[:, 0], x[:, 1] = np.ldexp(inside, k), 2.0 ** (edge + k)
        words = rng.words(3, k + 128, 1, x.size)
        for mode in MODES:
            assert differ(x, (name, "floor", mode), 1, 1, words) == [], (k, mode)
        assert differ(x[::5].T.copy(), (name, "floor", "ties_even"), 0, 1, words) == []


def test_blocks_are_those_of_tensors_of_elements() -> None:
    """By the quantizer of whole MX tensors, whose blocks lie along the last axes."""
    x = floats(2, (3, 70), 0)
    for name, mx in MXS.items():
        assert (
            quantize_along(x, Along(mx, 1), how("ties_even")).values.tolist()
            == np.asarray(quantize(x, mx)).tolist()
        ), name
    columns = Microscaling(MXFP4.element, (32, 1))
    got = quantize_along(x, Along(MXFP4, 0), how("ties_even")).values
    assert got.tolist() == np.asarray(quantize(x, columns)).tolist()


@pytest.mark.parametrize(("shape", "axis", "groups"), LAYOUTS)
def test_blocks_of_the_definition(shape: tuple[int, ...], axis: int, groups: int) -> None:
    """Each element lies in one; they are those of a tensor with the groups as an axis."""
    form = spec.Along(ELEMENTS["MXFP4"], "floor", "ties_even", axis, groups)
    found, axis = spec.blocks(shape, form), axis % len(shape)
    cut = (*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])
    assert found == list(members(cut, (32,) + (1,) * (len(shape) - axis - 1)).values())
    for block in found:
        assert all(spec.block_at(shape, form, list(places(shape))[i]) == block for i in block[::9])


@pytest.mark.slow
def test_codes_in_steps_are_the_elements_of_a_block() -> None:
    """`InBlock` says of every element and mode what `quantize_block` does."""
    for name, element in ELEMENTS.items():
        rounds = spec.InBlock(element)
        for v in borders(name)[::5]:
            for mode in MODES[:-1]:
                pair = Tensor((2,), [Fraction(v), 2 * spec.greatest(element) / 3])
                form = spec.Along(element, "fit", mode, 0)
                q = spec.quantize_along(pair, form)
                k = q.scales[0] - 127
                code = rounds.way(pair.values[0], k, mode).code
                assert code * rounds.step(k) == q.values[0], (name, v, mode)


def test_threads_do_not_change_a_bit() -> None:
    x = floats(4, (64, 17, 40), 0)
    found = set()
    for n in (1, 2):
        with threads(n):
            for axis in (0, 1, -1):
                q = quantize_along(x, Along(MXFP4, axis), how("ties_even"))
                found.add((axis, q.values.tobytes(), q.scales.tobytes(), q.limited.tobytes()))
    assert len(found) == 3


def test_an_empty_tensor_has_no_blocks() -> None:
    for shape in ((0, 4), (4, 0), (0, 0)):
        for axis in (0, 1):
            q = quantize_along(np.zeros(shape, np.float32), Along(MXFP4, axis), how("ties_even"))
            assert q.values.shape == shape and q.scales.size * q.values.size == 0


def test_what_it_refuses() -> None:
    x, along = floats(1, (4, 8), 0), Along(MXFP4, 1)
    with pytest.raises(FormatError, match="a: MX blocks are made of float32, not float64"):
        quantize_along(x.astype(np.float64), along, how("ties_even", where="a"))
    with pytest.raises(FormatError, match="3 random words for 32 elements"):
        quantize_along(x, along, how("stochastic", np.zeros(3, np.uint32)))
    with pytest.raises(ShapeError, match=r"axis 1 of \(4, 8\) does not fall into 3 groups"):
        quantize_along(x, Along(MXFP4, 1, 3), how("ties_even"))
    for wrong in (np.nan, np.inf, -np.inf):
        bad = x.copy()
        bad[2, 3] = wrong
        for axis in (0, 1):
            with pytest.raises(NumberError, match=r"a: NaN or infinity at index \(2, 3\)"):
                quantize_along(bad, Along(MXFP4, axis), how("ties_even", where="a"))
    bad[2, 3] = -3e38
    with pytest.raises(NumberError, match=r"-3e\+38 at \(2, 3\): the greatest element of its block"):
        quantize_along(bad, Along(replace(MXFP4, scale="ceil"), 0), how("ties_even"))
    assert quantize_along(bad, Along(MXFP4, 0), how("ties_even")).values[2, 3] == np.float32(
        -(2.0**127) * 1.5
    )


def test_a_mode_of_ones_own_is_refused() -> None:
    own = Rounding(OWN, rule=lambda floor, f: True)
    with pytest.raises(FormatError, match="take the rounding modes that intnet has itself"):
        quantize_along(floats(1, (4, 8), 0), Along(MXFP4, 1), own)


def test_faults_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the scale's rule, of the least exponent, of where blocks end."""
    case = "MXFP6_E3M2", "round", "stochastic"
    faults: dict[str, Any] = {
        "lifts": lambda self: 0,
        "least": property(lambda self: -1),
        "view": lambda self, shape: (1, int(np.prod(shape)), 1),
    }
    assert sweep([case] * 4) == []
    for name, fault in faults.items():
        with monkeypatch.context() as patch:
            patch.setattr(Along, name, fault)
            assert sweep([case] * 4), name
