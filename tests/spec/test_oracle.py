"""WAGEUBN's rules in the definition, against hand-computed answers; and the options of every method."""

from fractions import Fraction

import pytest

from intnet import methods as fast
from intnet.spec import Fixed
from intnet.spec.formats import Constant, Direct, FixedPoint, Flag, Shift
from intnet.spec.methods import METHODS, wageubn
from intnet.spec.methods.step import FLOAT32, Now, key, rounded, store
from intnet.spec.models import Layer, Residual, mlp

F = Fraction


def test_update_by_hand():
    assert updated("W", [100, 0, 0], [-8, 0, 0], [5, 2, 6], 26) == ([-19, 2, 6], [-5, 0, 2], [594, -52, -156])
    edge = 2**23 - 1
    assert updated("W", [edge, -edge], [0, 0], [-1, 1], 1) == ([-1, 1], [0, 0], [edge, -edge])
    assert updated("b", [edge], [0], [-1], 1) == ([-1], [0], [edge + 1])
    assert wageubn.update32([F(1)], [F(1)], [F(1, 4)], lr=1) == ([1], [1 - F(1, 512)])


def updated(symbol: str, w: list[int], accq: list[int], gq: list[int], lr: int) -> tuple[list[int], ...]:
    """(Acc, Accq, W) in codes."""
    step, paths = step_of(lr=str(lr)), (wageubn.acc_path(acc, symbol) for acc in ("Acc", "Accq"))
    for slot, codes, exponent in (("", w, -23), ("Accq", accq, -12)):
        step.state[key("fc2", symbol, slot)] = store(Fixed((len(codes),), codes, exponent))
    step.update(Layer("linear", "fc2"), symbol, Fixed((len(gq),), gq, -14))
    return tuple(step.tensors[f"fc2/{path}"].codes for path in (*paths, symbol))


def test_weights_are_clipped_at_eight_bits():
    form = step_of().format_of(Layer("linear", "fc2"), "Wq")
    assert rounded(Fixed((3,), [2**23 - 1, 3 * 2**15, -(2**22)], -23), form) == ([127, 2, -64], -7, 1)


def step_of(**options: object) -> wageubn.Step:
    settings = wageubn.Settings.from_options(options)
    return wageubn.Step(mlp((8, 8, 1), 10), settings, {}, Now(1, 7, steps_per_epoch=4))


def test_which_format_stands_where():
    """Hidden and outer layers, both widths of e3, the schedule of dr in epoch 1."""
    step = step_of(dr="128,64@1")
    hidden, first, last = (Layer("linear", name) for name in ("fc2", "fc1", "fc3"))
    bn = Layer("norm", "bn1")
    assert step.format_of(hidden, "e3") == Flag(8) and step_of(e2="16").format_of(hidden, "e3") == Shift(16)
    assert step.format_of(hidden, "gWq") == Constant(dr=64) and step.stream_of(hidden, "gWq") == "fc2/gW"
    assert (step.format_of(bn, "x2"), step.format_of(bn, "gammaq")) == (Direct(16), Direct(8))
    assert step.format_of(hidden, "W") == FixedPoint(24, 23, overflow="saturate_symmetric")
    assert step.stream_of(hidden, "e3") is None and step.format_of(hidden, "e4") is None
    assert (step.format_of(first, "x1"), step.format_of(last, "x1")) == (Direct(15), None)
    assert step.format_of(first, "Wq") == step.format_of(last, "e3") == FLOAT32
    edges = step_of(edges="fixed16")
    assert (edges.format_of(first, "x0"), edges.format_of(last, "e3")) == (Direct(16), Shift(16))
    limited = step_of(saturate=3)
    assert limited.format_of(Layer("relu", "relu1"), "x4") == FixedPoint(8, 4, overflow="saturate_symmetric")


def test_the_first_block():
    """A weight layer, batch norm or none, relu or silu; all of it float32 but for x4."""
    block = wageubn.first_block
    assert [x.name for x in block(mlp((8, 8, 1), 10))] == ["fc1", "bn1", "relu1"]
    conv, norm, relu, tanh = (Layer(kind, kind) for kind in ("conv", "norm", "relu", "tanh"))
    assert block((Residual((conv, relu), ()), norm)) == [conv, relu]
    for net, last in (((conv, norm, tanh, relu), "tanh"), ((conv, norm), "norm"), ((relu, conv), "conv")):
        with pytest.raises(ValueError, match=f"{last} ends no first block"):
            block(net)
    step = step_of(first="block", k_a=7)
    paths = [(Layer("linear", "fc1"), "x1"), (Layer("norm", "bn1"), "gammaq"), (Layer("norm", "bn1"), "e1")]
    paths += [(Layer("relu", "relu1"), "e0"), (Layer("linear", "fc1"), "W")]
    assert {step.format_of(*path) for path in paths} == {FLOAT32}
    assert step.format_of(Layer("relu", "relu1"), "x4") == Direct(7)
    assert step.format_of(Layer("relu", "relu2"), "e0") == Shift(8)
    assert step.format_of(Layer("norm", "bn2"), "gammaq") == Direct(8)
    assert step.format_of(Layer("linear", "fc3"), "x0") == FLOAT32


@pytest.mark.parametrize("name", METHODS)
def test_settings_are_read_from_the_options_of_a_run(name):
    """Every option of the fast method, and its default; texts and numbers are the same settings."""
    options = fast.make(name).settings()
    given = METHODS[name].Settings.from_options(options)
    assert given == METHODS[name].Settings() == METHODS[name].Settings.from_options({})
    texts = {key: "off" if value is None else str(value) for key, value in options.items()}
    assert METHODS[name].Settings.from_options(texts) == given
