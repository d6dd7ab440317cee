"""Test the tester: faults put into sigmoid, silu, scale and depthwise convolution are each seen.

A fault is an edit of the source, whose loops then run uncompiled (`faults.run_from_source`). The sweeps are
tests of these operations at a few sizes, and pass on the unchanged source run in the same way.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from intnet import ops
from intnet.ops import curves as integer_curves
from intnet.ops.kernels import channels, curves, depthwise
from tests.ops import test_ops_depthwise, test_ops_scale, test_ops_sigmoid
from tests.support.faults import Patch, caught, pairs, run_from_source

pytestmark = pytest.mark.slow

SIGMOID = importlib.import_module("intnet.ops.sigmoid")  # its operation has the same name
SCALE = importlib.import_module("intnet.ops.scale")
KERNELS, CURVES, CHANNELS, DEPTHWISE = curves, integer_curves, channels, depthwise
USERS = {
    CURVES: (SIGMOID, test_ops_sigmoid),
    SIGMOID: (ops, test_ops_sigmoid),
    SCALE: (ops, test_ops_scale),
    CHANNELS: (DEPTHWISE,),
}


def from_source(patch: Patch, module: ModuleType, old: str = "", new: str = "") -> None:
    """A module uncompiled and changed, in all places where its names are used."""
    run_from_source(patch, module, old, new, USERS.get(module, ()))
    made = {name: getattr(CURVES, name.capitalize()) for name in test_ops_sigmoid.CURVES}
    patch.setattr(test_ops_sigmoid, "CURVES", made)


# -- sweeps ------------------------------------------------------------------------------------------


def once(test: Any, *sizes: dict[str, Any]) -> Callable[[], None]:
    """A property test at chosen sizes."""

    def sweep() -> None:
        for size in sizes:
            test.hypothesis.inner_test(**size)

    return sweep


def codes(curve: str, *modes: str) -> Callable[[], None]:
    def sweep() -> None:
        for mode in modes:
            test_ops_sigmoid.test_codes_equal_the_oracle(curve, mode)

    return sweep


def stages() -> None:
    for curve in test_ops_sigmoid.CURVES:
        test_ops_sigmoid.test_all_three_stages_agree(curve)


def floats() -> None:
    for curve in test_ops_sigmoid.FLOATS:
        test_ops_sigmoid.test_float_curves(curve)


def chunks() -> None:
    """1,025 positions, one more than a chunk."""
    test_ops_scale.check_floats((1, 41, 25, 2), 7)


WINDOW = {"stride": (2, 1), "padding": (1, 0), "groups": 3}
SHAPE = {"x": (2, 5, 5, 3), "w": (3, 1, 3, 2), "window": WINDOW}
LONG = {"x": (1, 41, 26, 2), "w": (2, 1, 1, 2), "window": {"stride": (1, 1), "padding": (0, 0), "groups": 2}}

FINE = {"curve": "slope", "exponent": -60, "out": 7, "mode": "to_pos", "bits": 8, "seed": 1}  # 1/2 + 2^-60

SWEEPS: dict[str, Callable[[], None]] = {
    "scale": once(test_ops_scale.test_integers, {"shape": (2, 3, 2, 3), "bits": (8, 8, 8), "seed": 1}),
    "scale of floats": once(test_ops_scale.test_floats, {"shape": (2, 3, 2, 3), "seed": 1}),
    "chunks of scale": chunks,
    "kept image": test_ops_scale.test_what_the_tape_holds_of_the_image,
    "depthwise": once(test_ops_depthwise.test_integers, {"shape": SHAPE, "bits": (8, 8), "seed": 1}),
    "depthwise floats": once(test_ops_depthwise.test_floats, {"shape": SHAPE, "seed": 1}),
    "depthwise chunks": once(test_ops_depthwise.test_floats, {"shape": LONG, "seed": 1}),
    "negative zero": test_ops_depthwise.test_an_underflow_leaves_no_negative_zero,
    "sigmoid": codes("sigmoid", "ties_even", "to_pos", "to_neg"),
    "silu": codes("silu", "ties_even", "to_pos", "to_neg"),
    "tanh": codes("tanh", "ties_even", "to_pos", "to_neg"),
    "slope": codes("slope", "ties_even", "to_pos", "to_neg"),
    "fine": once(test_ops_sigmoid.test_any_exponent, FINE),
    "stages": stages,
    "far": lambda: test_ops_sigmoid.test_far_is_where_no_grid_tells(-22),
    "status": test_ops_sigmoid.test_status_and_range,
    "fractions": lambda: test_ops_sigmoid.test_fractions_are_close("slope"),
    "gradients": once(
        test_ops_sigmoid.test_gradients_of_integers_read_what_is_stored, {"seed": 1, "e_bits": 8}
    ),
    "floats": floats,
    "gradients of floats": test_ops_sigmoid.test_float_gradients_and_what_the_tape_holds,
}


# -- faults ------------------------------------------------------------------------------------------

DOT = "total[c] = multiply_add(left[c], right[c], total[c])"
FORWARD = "pixel, factors = x[n, top + ky, left + kx], w[ky * kernel[1] + kx]"
CHUNKS = ["depthwise chunks"]
LAST = "chunk_rows(chunk, rows * cols, e.shape[0] * rows * cols"
MOVED = "; begin, end = begin - 512 * (chunk > 0), end - 512 * (chunk < parts.shape[0] - 1)"

FAULTS: dict[str, tuple[ModuleType, str, str, list[str]]] = {
    # scale
    "factors of the first image": (
        CHANNELS, "factors = s[n]", "factors = s[0]", ["scale", "scale of floats"]),
    "one factor": (CHANNELS, "kind(factors[c])", "kind(factors[0])", ["scale"]),
    "a position left out": (
        CHANNELS, "for p in range(x.shape[1]):", "for p in range(x.shape[1] - 1):", ["scale"]),
    "the last position not summed": (CHANNELS, "begin + CHUNK, e.shape[1])", "begin + CHUNK, e.shape[1] - 1)",
        ["scale", "scale of floats", "chunks of scale"]),
    "sums of products rounded twice": (
        CHANNELS, "return fma32(a, b, total) if", "return total + a * b if",
        ["scale of floats"]),
    "chunks of 512": (CHANNELS, "from intnet.numbers.fp32 import CHUNK", "CHUNK = 512", ["chunks of scale"]),
    "a chunk that goes on": (
        CHANNELS, "            total[:] = 0\n", "            total[:] = total if begin else 0\n",
        ["chunks of scale"]),
    "squares": (CHANNELS, DOT, DOT.replace("right", "left"), ["scale", "scale of floats"]),
    "exponent of the error": (
        SCALE, "int(e.exponent) + int(x.exponent), bound", "int(e.exponent), bound", ["scale"]),
    "bound of one product": (
        SCALE, "_container(e, x, x.shape[1] * x.shape[2]", "_container(e, x, 0", ["scale"]),
    "ds of what is not on the tape": (SCALE, "saved.x = keep(x)", "saved.x = x", ["kept image"]),
    # depthwise convolution
    "taps by columns": (
        DEPTHWISE, FORWARD, FORWARD.replace("ky * kernel[1] + kx", "kx * kernel[1] + ky"), ["depthwise"]),
    "stride of the other axis": (
        DEPTHWISE, "top, zero = oy * stride[0]", "top, zero = oy * stride[1]",
        ["depthwise", "depthwise floats"]),
    "padding of the other axis": (DEPTHWISE, "ox * stride[1] - padding[1]\n            line[:] = zero",
        "ox * stride[1] - padding[0]\n            line[:] = zero", ["depthwise"]),
    "a last column left out": (
        DEPTHWISE, "right // stride[1] >= cols:", "right // stride[1] >= cols - 1:",
        ["depthwise"]),
    "a position that no stride meets": (
        DEPTHWISE, "if down < 0 or down % stride[0] or", "if down < 0 or", ["depthwise"]),
    "kernel not turned": (
        DEPTHWISE, "down = y + padding[0] - ky", "down = y + padding[0] + ky", ["depthwise"]),
    "a last position of dw": (DEPTHWISE, LAST, LAST + " - 1", ["depthwise", "depthwise floats"]),
    "rows for columns": (DEPTHWISE, "m // cols % rows", "m // rows % rows", ["depthwise"]),
    "dw in other chunks": (DEPTHWISE, LAST + ")", LAST + ")" + MOVED, ["depthwise chunks"]),
    "only the first chunk": (DEPTHWISE, "channels, chunks, per_group", "channels, 1, per_group", CHUNKS),
    "-0 of a forward pass": (
        DEPTHWISE, "line[c] += zero  # -0, which only an underflow leaves, becomes +0", "pass",
        ["negative zero"]),
    "weights not by tap": (
        DEPTHWISE, "w.reshape(w.shape[0], -1).T", "w.reshape(-1, w.shape[0])", ["depthwise"]),
    # sigmoid, silu, its derivative, tanh
    "y (1 - y) of y (1 + y)": (SIGMOID, "codes * (one - codes)", "codes * (one + codes)", ["gradients"]),
    "slope of sigmoid at a grid of one": (
        SIGMOID, "2 * int(y.exponent)), \"sigmoid\"", "int(y.exponent)), \"sigmoid\"",
        ["gradients"]),
    "silu for its slope": (SIGMOID, "derivative(Slope(x))", "derivative(Silu(x))", ["gradients"]),
    "x is not read from the tape": (SIGMOID, "saved.x = keep(x)", "saved.x = x", ["gradients of floats"]),
    "y is not read from the tape": (SIGMOID, "saved.y = keep(y)", "saved.y = y", ["gradients of floats"]),
    "tanh over 1": (
        CURVES, "Asymptote(0, -1, 1), Asymptote(0, 1, -1)", "Asymptote(0, -1, 1), Asymptote(0, 1, 1)",
        ["tanh"]),
    "tanh of x/2": (CURVES, "Fraction(0), 2", "Fraction(0), 1", ["tanh"]),
    "tanh without its -1": (KERNELS, " * y + parts[3], s", " * y, s", ["tanh"]),
    "far too near": (CURVES, "while (f + 1) * 100**f", "while 100**f", ["far"]),
    "silu from above": (
        CURVES, "Asymptote(0, 0, -1), Asymptote(1, 0, -1)", "Asymptote(0, 0, 1), Asymptote(1, 0, -1)",
        ["silu"]),
    "silu over its line": (
        CURVES, "Asymptote(0, 0, -1), Asymptote(1, 0, -1)", "Asymptote(0, 0, -1), Asymptote(1, 0, 1)",
        ["silu"]),
    "sigmoid over 1": (
        CURVES, "Asymptote(0, 0, 1), Asymptote(0, 1, -1)", "Asymptote(0, 0, 1), Asymptote(0, 1, 1)",
        ["sigmoid"]),
    "slope under 1": (
        CURVES, "Asymptote(0, 0, -1), Asymptote(0, 1, 1)", "Asymptote(0, 0, -1), Asymptote(0, 1, -1)",
        ["slope"]),
    "on the asymptote": (CURVES, " + asymptote.side", "", ["stages", "silu"]),
    "q for s": (
        CURVES, "(s, q) if x >= 0 else (q, s)", "(q, s) if x >= 0 else (s, q)", ["fractions", "stages"]),
    "slope without x": (CURVES, "return s + x * s * q", "return s + s * q", ["fractions", "stages"]),
    "clipped codes are not counted": (CURVES, "np.count_nonzero(kept != out)", "0", ["status"]),
    "0 is always exact": (
        CURVES, "if exact_zero else codes.size", "if exact_zero else int(np.count_nonzero(codes))",
        ["status"]),
    "left undecided": (CURVES, "if np.any(left):", "if False:", ["silu"]),
    "sigmoid of -x": (KERNELS, "y: float = r if x >= 0.0", "y: float = r if x < 0.0", ["floats"]),
    "derivative with s for q": (
        KERNELS, "return s + (x * s) * q", "return s + (x * s) * s", ["floats", "gradients of floats"]),
    "1 - y rounded in another order": (KERNELS, "e[i] * (y[i] * (np.float32(1) - y[i]))",
        "e[i] * (y[i] - y[i] * y[i])", ["gradients of floats"]),
    "an error rounded twice": (KERNELS, "np.float32(np.float64(e[i]) * slope64(np.float64(x[i])))",
        "e[i] * np.float32(slope64(np.float64(x[i])))", ["gradients of floats"]),
    "all is decided": (
        KERNELS, "not (abs(x) < far and abs(q - near) + magnitude * RELATIVE * scale < 0.5)", "False",
        ["silu"]),
    "directed modes decide too early": (
        KERNELS, "error = magnitude * RELATIVE * scale", "error = 0.0", ["fine"]),
    "codes of the curve's parts": (
        KERNELS, "parts[0] * s + (parts[1]", "parts[1] * s + (parts[0]", ["sigmoid", "silu"]),
}  # fmt: skip


@pytest.mark.parametrize("name", SWEEPS)
def test_without_a_fault_every_sweep_passes(name: str, monkeypatch: Patch) -> None:
    for module in (CHANNELS, DEPTHWISE, SCALE, KERNELS, CURVES, SIGMOID):
        from_source(monkeypatch, module)
    assert not caught(SWEEPS[name])


@pairs(FAULTS)
def test_a_fault_is_caught(fault: str, sweep: str, monkeypatch: Patch) -> None:
    module, old, new, _ = FAULTS[fault]
    from_source(monkeypatch, module, old, new)
    assert caught(SWEEPS[sweep])
