"""`intnet.export.torch`: intnet's bits on tensors, and its straight-through gradient beside PyTorch's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import intnet.export.torch as bridge
from intnet import ApFixed, Constant, Direct, FixedPoint, Flag, Microscaling, Scaled, Shift, quantize
from intnet.errors import ConfigError, FormatError, NumberError, ShapeError
from intnet.numbers import rng
from intnet.numbers.ap_fixed import OVERFLOWS, ROUNDINGS
from intnet.numbers.microscaling import MXS
from intnet.numbers.rounding import MODES as ALL_MODES
from intnet.numbers.small_floats import BF16, E4M3, E5M2, FLOATS, FP16, FP32, Float
from tests.support.user_formats import Some, Steps, registered

__all__ = ["registered"]
torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'intnet[torch]'")

MODES = list(ALL_MODES)[:7]
FORMATS: list[Any] = [
    *(FixedPoint(8, 5, signed, o) for signed in (True, False) for o in ("saturate", "wrap")),
    FixedPoint(8, 5, overflow="saturate_symmetric"), FixedPoint(24, 20), FixedPoint(2, 0),
    Direct(8), Direct(8, -12), Shift(8), Flag(8), Constant(15, 128), Scaled(8), Scaled(4),
    *FLOATS.values(), E4M3.to("nan"), E5M2.to("infinity"), Float(3, 4, "none"),
    *MXS.values(), Microscaling(E4M3, 16, "fit"), Microscaling(FixedPoint(4, 2), (4, 4), "ceil"),
]  # fmt: skip
AP = [
    ApFixed(8, 3, q, o, n)
    for q in ROUNDINGS
    for o in OVERFLOWS
    for n in ((0, 2) if o.startswith("AP_WRAP") else (0,))
]


def numbers(count: int, seed: int = 0) -> np.ndarray:
    """float32 of every size around 1, ties of some formats, zeros, a subnormal."""
    made = np.random.default_rng(seed)
    x = made.normal(0, 1, count) * 2.0 ** made.integers(-12, 4, count)
    x[::7] = np.round(x[::7] * 64) / 64
    x[:6] = 0.0, -0.0, 2.0**-149, 1e30, -1e30, 3.9990234375
    return x.astype(np.float32)


def held_to_numpy(x: Any, format: Any, mode: str | None) -> None:
    """AssertionError where a bit, a gradient or a count is not that of `intnet.quantize`; float32."""
    array = np.array(x.detach().numpy())
    words = rng.words(3, 1, 2, array.size) if mode == "stochastic" else None
    q = quantize(array, format, rounding=mode, words=words)
    want = q.to_float64().astype(np.float32)
    made = bridge.quantize(x, format, mode, words)
    assert made.dtype == torch.float32 and made.shape == x.shape
    same = made.detach().numpy().view(np.uint32) == want.view(np.uint32)
    assert same.all(), f"{format} {mode}: {array[~same][0]!r} is {made.detach().numpy()[~same][0]!r}"
    toward = torch.linspace(1, 2, x.numel()).reshape(x.shape)
    (gradient,) = torch.autograd.grad(made, x, toward)
    stays = gradient == toward
    assert q.status is not None and int((~stays).sum()) == q.status.saturated
    assert (gradient[~stays] == 0).all()


def fits(format: Any, mode: str) -> bool:
    return not (mode == "stochastic" and isinstance(format, Flag))


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_million_values_have_the_bits_of_intnet(mode: str) -> None:
    x = torch.from_numpy(numbers(1_000_000).reshape(1000, 1000)).clamp(-1e6, 1e6).requires_grad_()
    for format in FORMATS:
        if fits(format, mode):
            held_to_numpy(x, format, mode)


@pytest.mark.slow
@pytest.mark.parametrize("o", OVERFLOWS)
def test_a_million_values_in_ap_fixed(o: str) -> None:
    x = torch.from_numpy(numbers(1_000_000).reshape(1000, 1000)).requires_grad_()
    for format in AP:
        if format.o == o:
            held_to_numpy(x, format, None)


@pytest.mark.parametrize("mode", [*MODES, "thirds"])
def test_formats_and_rules_of_ones_own(mode: str) -> None:
    x = torch.from_numpy(numbers(300)).clamp(-9, 9).requires_grad_()
    held_to_numpy(x, Steps(5), mode)
    if mode == "thirds":
        held_to_numpy(x, E4M3, mode)
    else:
        held_to_numpy(x, Some(), mode)


# -- beside PyTorch's own --------------------------------------------------------------------------


@pytest.mark.parametrize(("bits", "fl", "signed"), [(8, 6, True), (8, 4, False), (4, 1, True), (2, 0, True)])
def test_fixed_point_is_fake_quantize_bit_and_gradient(bits: int, fl: int, signed: bool) -> None:
    """Scales are powers of two, so that PyTorch's float32 steps are exact; it takes ties to even."""
    format = FixedPoint(bits, fl, signed)
    x, toward = torch.from_numpy(numbers(100_000)).clamp(-1e6, 1e6), torch.randn(100_000)
    mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    y = torch.fake_quantize_per_tensor_affine(theirs, 2.0**-fl, 0, format.lo, format.hi)
    y.backward(toward)
    made = bridge.quantize(mine, format)
    made.backward(toward)
    assert torch.equal(made, y) and torch.equal(mine.grad, theirs.grad)
    assert 0 < int((mine.grad == 0).sum()) < x.numel()


@pytest.mark.parametrize(("format", "name"), [
    (FP16, "float16"), (BF16, "bfloat16"),
    (E4M3.to("nan"), "float8_e4m3fn"), (E5M2.to("infinity"), "float8_e5m2"),
])  # fmt: skip
def test_small_floats_are_pytorchs_casts(format: Float, name: str) -> None:
    x = torch.from_numpy(np.concatenate([numbers(100_000), numbers(100_000, 1) * 5e4])).clamp(-1e5, 1e5)
    if name == "float8_e4m3fn":
        x = x.clamp(-464, 464)  # beyond, PyTorch's versions differ
    made = bridge.quantize(x, format)
    told = x.to(getattr(torch, name)).float()
    assert torch.equal(made.view(torch.int32), told.view(torch.int32))


# -- tensors as they come --------------------------------------------------------------------------


def test_strides_views_and_no_dimension() -> None:
    whole = torch.from_numpy(numbers(600).reshape(20, 30)).clamp(-9, 9)
    for view in (whole.T, whole[::2, 3::4], whole.T[1:].flatten()[::3], whole[0, 0], whole[:0], whole[3]):
        for format in (FixedPoint(8, 5), E4M3):
            held_to_numpy(view.detach().requires_grad_(), format, "stochastic")
    held_to_numpy(torch.zeros(2, 3).expand(2, 3).requires_grad_(), FixedPoint(8, 5), "ties_even")
    imaginary = torch.complex(whole[0], whole[1]).conj().imag  # negated when it is read
    assert torch.equal(
        bridge.quantize(imaginary, FixedPoint(8, 5)), bridge.quantize(-whole[1], FixedPoint(8, 5))
    )


def test_the_tensor_is_read_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[np.ndarray] = []
    original = bridge.quantizers.quantize
    monkeypatch.setattr(
        bridge.quantizers,
        "quantize",
        lambda x, *args, **more: (seen.append(x), original(x, *args, **more))[1],
    )
    x = torch.from_numpy(numbers(64).reshape(8, 8)).T
    for each in (x, x.double(), x.half()):
        bridge.quantize(each, E4M3)
        assert seen[-1].ctypes.data == each.data_ptr() and seen[-1].strides[0] < seen[-1].strides[1]
    before = x.clone()
    bridge.quantize(x, E4M3).zero_()
    assert torch.equal(x, before)


@pytest.mark.parametrize("name", ["float64", "float16", "bfloat16"])
def test_other_floats_are_rounded_once_and_come_back_as_they_are(name: str) -> None:
    x = torch.from_numpy(numbers(5000)).clamp(-9, 9).to(getattr(torch, name))
    if name == "float64":
        x += 2.0**-40
    exact = x.double().numpy()
    for mode in ("ties_even", "to_pos"):
        for format in (FixedPoint(8, 5), E5M2, MXS["MXFP4"]):
            made = bridge.quantize(x.clone().requires_grad_(), format, mode)
            assert made.dtype == x.dtype
            assert np.array_equal(
                made.detach().double().numpy(), quantize(exact, format, rounding=mode).to_float64()
            )


def test_what_the_type_does_not_hold_is_refused() -> None:
    """A range's edge may have more bits than the tensor's type, and so may a wide code of a float64."""
    for dtype in (torch.float16, torch.bfloat16):
        with pytest.raises(
            NumberError, match=rf"3.99987\d+ at \(1,\) is in <16,13>, but no {dtype}: quantize x.dou"
        ):
            bridge.quantize(torch.tensor([1.0, 9.0], dtype=dtype), FixedPoint(16, 13))
    wide = torch.tensor([0.0, 9.0])
    with pytest.raises(NumberError, match=r"at \(1,\) is in <32,29>, but no torch.float32"):
        bridge.quantize(wide, FixedPoint(32, 29))
    assert bridge.quantize(wide.double(), FixedPoint(32, 29))[1].item() == 4 - 2.0**-29


def test_gradients() -> None:
    x = torch.tensor([0.3, 5.0, -5.0, 2.03], requires_grad=True)
    format = FixedPoint(8, 6)  # up to 1.984375
    (passed,) = torch.autograd.grad(bridge.quantize(x, format, clip=False).sum(), x)
    assert passed.tolist() == [1, 1, 1, 1]
    y = bridge.quantize(x, format)
    (kept,) = torch.autograd.grad(y, x, torch.tensor([2.0, torch.inf, torch.nan, 1.0]))
    assert kept.tolist() == [2, 0, 0, 0]  # not inf * 0
    (grad,) = torch.autograd.grad(bridge.quantize(x, format).square().sum(), x, create_graph=True)
    assert grad.tolist() == [2 * 0.296875, 0, 0, 0]
    assert torch.func.grad(lambda w: bridge.quantize(w, format).sum())(x.detach()).tolist() == [1, 0, 0, 0]
    with torch.no_grad():
        assert not bridge.quantize(x, format).requires_grad
    assert not bridge.quantize(x.detach(), format).requires_grad
    parameter = torch.nn.Parameter(torch.tensor([0.3]))
    bridge.quantize(parameter, E4M3).backward()
    assert parameter.grad.tolist() == [1]


def test_words_a_seed_and_bits_of_words() -> None:
    x = torch.from_numpy(numbers(1000)).clamp(-9, 9)
    format, array = FixedPoint(8, 5), x.numpy()
    words = rng.words(11, 0, 5, 1000)
    by_words = quantize(array, format, rounding="stochastic", words=words, word_bits=4).to_float64()
    for given in (words, torch.from_numpy(words), words.reshape(10, 100)):
        made = bridge.quantize(x, format, "stochastic", given, word_bits=4)
        assert np.array_equal(made.double().numpy(), by_words)
    by_seed = quantize(array, format, rounding="STOCH", seed=5).to_float64()
    assert np.array_equal(bridge.quantize(x, format, "STOCH", seed=5).double().numpy(), by_seed)
    with pytest.raises(
        ShapeError, match=r"intnet\.export\.torch\.quantize: needs one uint32 word an element"
    ):
        bridge.quantize(x, format, "stochastic", torch.zeros(1000, dtype=torch.int32))


def test_compiled_code_computes_the_same() -> None:
    x = torch.from_numpy(numbers(1000)).clamp(-9, 9)
    compiled = torch.compile(lambda x: bridge.quantize(x * 2, E4M3) + 1, backend="eager")
    assert torch.equal(compiled(x), bridge.quantize(x * 2, E4M3) + 1)


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(("x", "error", "says"), [
    (lambda: torch.zeros(2, device="meta"), ConfigError, r"on meta, and .*: quantize\(x.cpu\(\)"),
    (lambda: torch.zeros(2, 2).to_sparse(), ConfigError, "Tensor of torch.sparse_coo has no plain memory"),
    (lambda: torch.zeros(2, dtype=torch.int64), FormatError, r"is torch.int64, and quantize .* x.double\(\)"),
    (lambda: torch.zeros(2).to(torch.float8_e5m2), FormatError, "is torch.float8_e5m2"),
    (lambda: torch.zeros(2, dtype=torch.complex64), FormatError, "is torch.complex64"),
    (lambda: np.zeros(2), FormatError, "takes a tensor, not ndarray: intnet.quantize"),
    (lambda: torch.tensor([torch.nan]), NumberError, "intnet.export.torch.quantize: NaN or infinity"),
])  # fmt: skip
def test_tensors_that_are_refused(x: Any, error: type, says: str) -> None:
    with pytest.raises(error, match=says):
        bridge.quantize(x(), FixedPoint(8, 5))


@pytest.mark.parametrize(("words", "error", "says"), [
    (lambda: torch.zeros(2, dtype=torch.bfloat16), ConfigError, "words= is a tensor of torch.bfloat16"),
    (lambda: torch.zeros(2, dtype=torch.uint32, device="meta"), ConfigError, "on meta: a dense one"),
    (lambda: torch.zeros(2, dtype=torch.int64).to_sparse(), ConfigError, "torch.sparse_coo"),
    (lambda: [1, 2], ShapeError, r"one uint32 word an element \(2\), got a list"),
    (lambda: None, ShapeError, "got none: give seed=N, or words="),
])  # fmt: skip
def test_words_that_are_refused(words: Any, error: type, says: str) -> None:
    with pytest.raises(error, match=says):
        bridge.quantize(torch.zeros(2), FixedPoint(8, 5), "stochastic", words())


def test_a_thread_that_flushes_subnormals_is_refused() -> None:
    x = torch.tensor([2.0**-149])
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor flushes none")
    try:
        with pytest.raises(ConfigError, match=r"torch.set_flush_denormal\(False\)"):
            bridge.quantize(x, FP32)
    finally:
        torch.set_flush_denormal(False)
    assert bridge.quantize(x, FP32).item() == 2.0**-149


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_trace_is_refused() -> None:
    with pytest.raises(ConfigError, match="would keep this call's numbers as constants"):
        torch.jit.trace(lambda x: bridge.quantize(x, E4M3), (torch.zeros(2),))


def test_without_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge, "torch", None)
    with pytest.raises(ConfigError, match=r"pip install 'intnet\[torch\]'"):
        bridge.quantize(torch.zeros(2), E4M3)
