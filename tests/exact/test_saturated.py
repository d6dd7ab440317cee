"""Which elements a range changed: one by one as the definition says, and as many as the kernels count."""

import sys
from itertools import product
from typing import Any

import numpy as np
import pytest

from intnet import ApFixed, Constant, Direct, FixedPoint, Flag, Microscaling, QTensor, Scaled, Shift, quantize
from intnet.errors import FormatError, NumberError, ShapeError
from intnet.exact import saturated as module
from intnet.exact.saturated import saturated
from intnet.inspect.as_spec import FORMATS
from intnet.numbers.ap_fixed import OVERFLOWS, ROUNDINGS
from intnet.numbers.formats import OVERFLOWS as FIXED_OVERFLOWS
from intnet.numbers.microscaling import MXS
from intnet.numbers.rounding import MODES as ALL_MODES
from intnet.numbers.small_floats import BF16, E2M1, E3M2, E4M3, E5M2, FP16, FP32, Float
from intnet.spec import ap_fixed as spec_ap
from intnet.spec import microscaling as spec_mx
from intnet.spec import small_floats as spec_floats
from tests.support.faults import caught, run_from_source
from tests.support.small_floats import defined, element, exactly
from tests.support.user_formats import Some, Steps, registered, thirds

__all__ = ["registered"]
MODES = (*list(ALL_MODES)[:7], "thirds")
RNG = np.random.default_rng(26)
FIXED = [
    *(FixedPoint(4, 2, signed, o) for signed in (True, False) for o in FIXED_OVERFLOWS[:3]),
    FixedPoint(1, 0), FixedPoint(32, 30),
]  # fmt: skip
OF_TENSOR = [Shift(4), Shift(8), Flag(2), Flag(4), Constant(8, 16), Scaled(4), Direct(4)]
FLOATS = [E2M1, E3M2, E4M3, E4M3.to("nan"), E5M2, E5M2.to("infinity"), E5M2.to("nan"), FP16, BF16, FP32]
BLOCKS = [Microscaling(mx.element, 4, s) for mx in MXS.values() for s in ("floor", "round", "fit")]
AP = [
    ApFixed(4, 2, q, o, n, signed)
    for q, o, signed in product(ROUNDINGS, OVERFLOWS, (True, False))
    for n in ((0, 1, 3) if o.startswith("AP_WRAP") else (0,))
    if signed or o != "AP_WRAP_SM"
]


def around(greatest: float, step: float, dtype: Any = np.float64) -> np.ndarray:
    """Both edges in quarters of a step, their neighbours, and what is far within and far beyond."""
    with np.errstate(over="ignore", invalid="ignore"):
        points = greatest + np.arange(-6, 7) * (step / 4)
        points = np.concatenate([points, points * 1.5, greatest * 2.0 ** np.arange(-3, 9.0), [0, step / 3]])
        points = np.concatenate([points, -points - step, -points]).astype(dtype)
        near = np.concatenate([points, np.nextafter(points, dtype(9e9)), np.nextafter(points, dtype(0))])
    return RNG.permutation(near[np.isfinite(near)])


def by_definition(x: np.ndarray, format: Any, mode: str, words: np.ndarray | None) -> list[bool]:
    """Element by element, of `intnet.spec`."""
    rule: Any = thirds if mode == "thirds" else mode
    values, drawn = [exactly(v) for v in x.tolist()], [None] * x.size if words is None else words.tolist()
    if isinstance(format, Float):
        each = zip(values, drawn, strict=True)
        return [spec_floats.encode(v, defined(format), rule, word).saturated for v, word in each]
    numbers = [0 if v == "-0" else v for v in values]
    if isinstance(format, ApFixed):
        told = spec_ap.ApFixed(format.w, format.i, format.q, format.o, format.n, format.signed)
        return [spec_ap.code(v, told)[1] for v in numbers]  # type: ignore[arg-type]
    if isinstance(format, FixedPoint) and format.overflow == "wrap":
        return [False] * x.size  # as counts have it
    rules = FORMATS[type(format)](*vars(format).values()) if type(format) in FORMATS else format
    grid = rules.grid(numbers)
    each = zip(numbers, drawn, strict=True)
    return [rules.way(v, grid, rule, word).saturated for v, word in each]


def in_blocks(x: np.ndarray, format: Microscaling, mode: str, words: np.ndarray | None) -> np.ndarray:
    """The same of blocks, whose elements are scaled by the definition's scale."""
    found = np.zeros(x.size, bool)
    for inside in spec_mx.members(x.shape, format.sizes).values():
        values = [exactly(x[i]) for i in inside]
        scale = spec_mx.quantize_block(values, element(format), format.scale, "to_zero").scale
        step = spec_mx.power(scale - spec_mx.GREATEST)
        for i, v in zip(inside, values, strict=True):
            if scale != spec_mx.NAN:
                word = None if words is None else int(words[i])
                scaled = v if isinstance(v, str) else v / step
                found[i] = spec_mx.element_of(scaled, element(format), mode, word, 32).saturated
    return found


def sweep(x: np.ndarray, format: Any, mode: str | None) -> np.ndarray:
    """AssertionError where one element or the count is not as defined."""
    words = RNG.integers(0, 2**32, x.size, np.uint32) if mode == "stochastic" else None
    q = quantize(x, format, rounding=mode, words=words)
    found = saturated(x, q, rounding=mode, words=words)
    told = (in_blocks if isinstance(format, Microscaling) else by_definition)(x, format, mode or "", words)
    wrong = np.flatnonzero(found != told)
    assert not wrong.size, f"{format} {mode}: {x[wrong[0]]!r} at {wrong[0]}, {found[wrong[0]]}"
    assert q.status is not None and found.sum() == q.status.saturated
    return found


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_codes(mode: str) -> None:
    changed = 0
    for format in (*FIXED, *OF_TENSOR, Steps(3), Some()):
        if (mode == "stochastic" and isinstance(format, Flag)) or (mode == "thirds" and format == Some()):
            continue
        edge = 2.0**format.exponent * format.hi if isinstance(format, FixedPoint) else 2.25
        step = 2.0**format.exponent if isinstance(format, FixedPoint) else 0.25
        changed += sweep(around(edge, step), format, mode).sum()
        changed += sweep(RNG.normal(0, edge, 60).astype(np.float32), format, mode).sum()
    assert changed > 500


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_small_floats(mode: str) -> None:
    for format in FLOATS:
        words = np.array([format.greatest - 1, format.greatest], format.dtype)
        low, high = module.FloatTensor(words, format).to_float64()
        x = np.concatenate([around(high, high - low), [np.inf, -np.inf, 0.0, -0.0]])
        found = sweep(x, format, mode)
        assert found.any() and not found.all()
        assert found[-4] == (format.overflow != "infinity")


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES[:7])
def test_blocks(mode: str) -> None:
    changed = 0
    for format in BLOCKS:
        x = np.concatenate([around(1.9, 0.2) * 2.0**30, [1.0, np.nan, 1e30, 0, 2.0**140, 1, 0, -1]])
        changed += sweep(x, format, mode).sum() + sweep(RNG.uniform(-9, 9, 200), format, mode).sum()
    assert changed > 60


def test_ap_fixed() -> None:
    assert sum(sweep(around(1.75, 0.25), format, None).sum() for format in AP) > 5000


def test_a_nan_and_an_empty_tensor() -> None:
    q = quantize([np.nan, 1e9, 1.0], E4M3)
    assert saturated(np.array([np.nan, 1e9, 1.0]), q).tolist() == [False, True, False]
    none = np.zeros((0, 3))
    assert saturated(none, quantize(none, E4M3)).shape == (0, 3)


def test_any_shape_strides_and_a_seed() -> None:
    x = RNG.normal(0, 3, (5, 7)).astype(np.float32).T[::2]
    q = quantize(x, FixedPoint(4, 2), rounding="stochastic", seed=9, word_bits=3)
    found = saturated(x, q, rounding="stochastic", seed=9, word_bits=3)
    assert found.shape == x.shape and q.status is not None and found.sum() == q.status.saturated > 0
    assert np.all(np.abs(x[found] + 0.125) > 1.8)


def test_what_does_not_belong_together_is_refused() -> None:
    q = quantize([1.0, 2.0], FixedPoint(4, 2))
    with pytest.raises(ShapeError, match=r"q of shape \(2,\) was not made of x of shape \(3,\)"):
        saturated(np.ones(3), q)
    with pytest.raises(ShapeError, match="needs one uint32 word an element"):
        saturated(np.ones(2), q, rounding="stochastic")
    for other in (q + q * 2.0**40, QTensor(q.codes, np.array([1, 2]), q.format, q.bound)):
        with pytest.raises(FormatError, match="was not made by quantize"):
            saturated(np.ones(2), other)
    with pytest.raises(NumberError, match="overflow is 'error'"):
        quantize([9.0], FixedPoint(4, 2, overflow="error"))
    fits = quantize([1.75, -2.0], FixedPoint(4, 2, overflow="error"))
    assert not saturated(np.array([1.75, -2.0]), fits).any()


EDGE = around(1.75, 0.25)


@pytest.mark.parametrize(("old", "new", "format", "mode"), [
    ("n > edges.high", "n >= edges.high", FixedPoint(4, 2), "ties_even"),
    ("n < edges.low", "n <= edges.low", FixedPoint(4, 2), "to_zero"),
    ("q.codes <= low", "q.codes < low", FixedPoint(4, 2), "ties_even"),
    ("return far | ", "return ", FixedPoint(4, 2), "ties_even"),
    ("format.fine if", "0 if", Flag(4), "ties_even"),
    ("rounding.words[edges.at]", "rounding.words[: edges.at.size]", FixedPoint(4, 2), "stochastic"),
    ("+ q.exponents().reshape(-1)[kept]", "", BLOCKS[0], "ties_even"),
    ('"AP_SAT_ZERO", ', "", ApFixed(4, 2, "AP_RND", "AP_SAT_ZERO"), None),
])  # fmt: skip
def test_a_seeded_fault_is_caught(
    monkeypatch: pytest.MonkeyPatch, old: str, new: str, format: Any, mode: str | None
) -> None:
    x = np.concatenate([EDGE, EDGE * 1.3, [1e30, 3.0, -(2.0**63), 0.0]])
    x = np.linspace(-1.4, 1.4, 301) if isinstance(format, Flag) else x  # R(x) = 1
    run = lambda: sweep(x, format, mode)  # noqa: E731
    assert not caught(run)
    run_from_source(monkeypatch, module, old, new, [sys.modules[__name__]])
    assert caught(run)
