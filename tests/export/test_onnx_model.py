"""The ONNX model: in ONNX Runtime every logit is the program's, with 8-bit operators where codes fit them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from intnet.errors import ConfigError
from intnet.export import batch, onnx_model
from intnet.export import program as p
from intnet.export.program import Program
from tests.support.exporting import INTEGER, NEEDS_RUNTIME, NETS, by_runtime, program_of


@pytest.mark.slow
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize(("method", "options"), INTEGER, ids=str)
def test_every_logit(net: str, method: str, options: dict[str, Any]) -> None:
    run, program = program_of(net, method, options)
    images = run.data.test_images
    codes, nodes = by_runtime(program, images)
    wanted = batch.logits(program, images)
    assert codes.dtype == wanted.dtype and codes.tolist() == wanted.tolist()
    if options.get("saturate") == 0:  # all but the edges, of 16 bits
        layers = sum(layer.takes_weight for layer in run.model.all_layers())
        assert nodes["ConvInteger"] + nodes["MatMulInteger"] == layers - 2 == layers - nodes["MatMul"]


@pytest.mark.slow
@pytest.mark.parametrize("lo", [0, -128])
def test_bytes_at_their_ends(lo: int) -> None:
    """Sums of two products beyond 16 bits, where uint8 times int8 may saturate; padding is 0."""
    rng = np.random.default_rng(1)
    x = np.where(rng.random((64, 4, 4, 8)) < 0.5, lo, lo + 255)
    weight = np.where(rng.random((6, 4, 3, 3)) < 0.5, -128, 127)
    ops = (
        p.Images("images", (), (4, 4, 8), 0, lo, lo + 255),
        p.Product("conv", (0,), weight, 0, (2, 1), (1, 1), groups=2),
        p.Flatten("flat", (1,)),
    )
    program = Program(ops)
    codes, nodes = by_runtime(program, x.astype(np.uint8 if lo == 0 else np.int16))
    assert nodes["ConvInteger"] == 1
    assert np.array_equal(codes, batch.logits(program, x))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lo", "hi", "kind"),
    [(0, 255, "UINT8"), (0, 256, "INT16"), (-32768, 32767, "INT16"), (-5, 32768, "INT32")],
)
def test_images_are_of_the_least_type(lo: int, hi: int, kind: str) -> None:
    """What none of its codes is beyond what is proven of sums."""
    onnx = pytest.importorskip("onnx", reason=NEEDS_RUNTIME)
    ops = (p.Images("images", (), (1, 1, 1), 0, lo, hi), p.Flatten("flat", (0,)))
    (images,) = onnx_model.model(Program(ops)).graph.input
    assert images.type.tensor_type.elem_type == getattr(onnx.TensorProto, kind)


@pytest.mark.parametrize("bits", [20, 40])
def test_wide_convolutions_and_pools(bits: int) -> None:
    """Of 32 and of 64 bits, in groups, with strides and padding; all codes are below 0, and padding loses."""
    rng = np.random.default_rng(2)
    weight = rng.integers(-(1 << bits - 15), 1 << bits - 15, (4, 1, 3, 2))
    ops = (
        p.Images("images", (), (5, 6, 2), 0, -900, -1),
        p.MaxPool("greatest", (0,), (3, 3), (2, 1), (1, 1)),
        p.Product("conv", (1,), weight, 0, (1, 2), (1, 0), groups=2),
        p.SumPool("sum", (2,), (2, 2), (1, 1), (1, 0)),
        p.Flatten("flat", (3,)),
    )
    program, x = Program(ops), rng.integers(-900, 0, (9, 5, 6, 2)).astype(np.int16)
    codes, nodes = by_runtime(program, x)
    assert nodes["MatMul"] == 1 and codes.tolist() == batch.logits(program, x).tolist()


@pytest.mark.slow
def test_rounding_of_every_sign_and_tie() -> None:
    x = np.arange(-60, 60).astype(np.int16).reshape(-1, 1, 1, 1)
    for den in (1, 2, 4, 6, 7):
        ops = (
            p.Images("images", (), (1, 1, 1), 0, -60, 60),
            p.Flatten("flat", (0,)),
            p.Round("r", (1,), 3, np.array([den]), 0),
        )
        codes, _ = by_runtime(Program(ops), x)
        assert codes.tolist() == batch.logits(Program(ops), x).tolist()


def test_without_onnx_a_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(ConfigError, match=r"pip install 'intnet\[onnx\]'"):
        onnx_model.model(program_of("mlp", *INTEGER[0])[1])
