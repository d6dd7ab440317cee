"""The definition's whole training step: every tensor is there, and the layers are joined as they should be.

The single steps are judged in `test_oracle`; here each join is recomputed from the recorded tensors.
"""

from fractions import Fraction as F
from typing import Any

import pytest

from intnet import spec as oracle
from intnet.spec import Fixed, Tensor
from intnet.spec import formats as qz
from intnet.spec import words as random
from intnet.spec.methods.step import Now, Seen, store
from intnet.spec.methods.wageubn import Settings, Step
from intnet.spec.models import resnet
from intnet.spec.nets import Walk
from tests.support import cases
from tests.support import wageubn_layers as layers
from tests.support.stepping import named

SHAPE = 6, 6, 1
NET = resnet(SHAPE, 3, (4, 6), (1, 1))


def run(e2: str = "flag8", seed: int = 1, dr: int = 128, seen: Any = None) -> Step:
    state = {name: store(value) for name, value in named(cases.net_state(NET, SHAPE, 5)).items()}
    images = Fixed((2, *SHAPE), cases.random_codes(6, 72, 0, 16), -4)
    error = Tensor((2, 3), cases.random_float32(7, 6, -1))
    step = Step(NET, Settings.from_options({"e2": e2, "dr": dr}), state, Now(seed, 4), seen)
    step.take(images, lambda _: (F(0), error))
    return step


@pytest.fixture(scope="module", params=["flag8", "16"])
def done(request):
    return request.param, run(request.param)


CONV = {"x0", "Wq", "x1", "e3", "e4", "gW", "gWq", "Acc", "Accq", "W"}
RELU = {"x4", "e0", "e1"}
BN = {"gammaq", "betaq", "mu", "sigma", "x2", "x3", "e1", "e2", "m1", "m2"}
BN |= {"ggamma", "ggammaq", "gbeta", "gbetaq"}
BN |= {f"{stored}{name}" for stored in ("", "Acc_", "Accq_") for name in ("gamma", "beta")}


@pytest.mark.slow
def test_step_names_every_tensor(done):
    paths = {"conv1": {"x0", "Wq", "x1", "e3", "gW", "Acc", "W"}, "bn1": BN, "relu1": RELU}
    paths["fc"] = {"x0", "Wq", "bq", "x1", "e3", "e4", "gW", "gb", "W", "Acc", "b", "Acc_b"}
    for block in ("layer1.0", "layer2.0"):
        for i in (1, 2):
            paths |= {f"{block}.conv{i}": CONV, f"{block}.bn{i}": BN, f"{block}.relu{i}": RELU}
        paths[f"{block}.relu2"] = RELU
    paths |= {"layer2.0.downsample.0": CONV, "layer2.0.downsample.1": BN}
    assert set(done[1].tensors) == {f"{layer}/{path}" for layer, names in paths.items() for path in names}


def test_step_wires_the_backward_pass(done):
    e2, got = done
    value = {name: kept.real().values for name, kept in got.tensors.items() if isinstance(kept, Fixed)}

    def stored(xs: list[F]) -> tuple[list[int], int]:
        return qz.quantize(xs, qz.Shift(8))[:2]

    def joined(a: str, b: str) -> tuple[list[int], int]:
        return stored([p + q for p, q in zip(value[a], value[b], strict=True)])

    def kept(name: str) -> tuple[list[int], int]:
        return got.tensors[name][1:]

    assert kept("layer1.0.relu2/e0") == joined("layer2.0.conv1/e4", "layer2.0.downsample.0/e4")
    assert kept("relu1/e0") == joined("layer1.0.conv1/e4", "layer1.0.relu2/e1")
    assert kept("layer2.0.relu1/e0") == stored(value["layer2.0.conv2/e4"])
    for bn in ("bn2", "downsample.1"):
        assert got.tensors[f"layer2.0.{bn}/e1"] == got.tensors["layer2.0.relu2/e1"]
    e4 = got.tensors["fc/e4"].values
    pooled = [v / 9 for i in range(2) for _ in range(9) for v in e4[6 * i : 6 * i + 6]]
    assert kept("layer2.0.relu2/e0") == stored(pooled)
    block = oracle.add_fixed(got.tensors["layer2.0.bn2/x3"], got.tensors["layer2.0.downsample.1/x3"])
    sources = {"relu1": got.tensors["bn1/x3"], "layer2.0.relu1": got.tensors["layer2.0.bn1/x3"]}
    for relu, x3 in {**sources, "layer2.0.relu2": block}.items():
        e0, e1 = got.tensors[f"{relu}/e0"], got.tensors[f"{relu}/e1"]
        assert e1 == layers.mask(e0, x3) != e0
    e3 = got.tensors["layer1.0.conv2/e3"]
    legal = qz.flag_encode if e2 == "flag8" else lambda code: abs(code) <= 32767 or pytest.fail(str(code))
    assert all(legal(code) for code in e3.codes) and any(e3.codes)


@pytest.mark.slow
def test_step_quantizes_the_weight_gradient_with_its_own_words():
    got = run(dr=32)
    for layer in ("layer1.0.conv2", "layer2.0.downsample.0"):
        gw = got.tensors[f"{layer}/gW"]
        drawn = random.words(1, 4, f"{layer}/gW", len(gw.codes))
        want = qz.quantize(gw.real().values, qz.Constant(dr=32), "stochastic", drawn)
        assert got.tensors[f"{layer}/gWq"][1:] == want[:2]


def test_step_wires_the_forward_pass(done):
    got = done[1]
    for block, shortcut in (("layer1.0", "relu1/x4"), ("layer2.0", "layer2.0.downsample.1/x3")):
        total = oracle.add_fixed(got.tensors[f"{block}.bn2/x3"], got.tensors[shortcut])
        assert got.tensors[f"{block}.relu2/x4"] == layers.activation(total)
    exponents = {"Wq": -7, "x4": -7, "x1": -14, "mu": -15, "sigma": -15, "x2": -15, "x3": -22}
    exponents |= {"gammaq": -7, "betaq": -7, "gWq": -14, "ggammaq": -14, "Acc": -14, "Accq": -12, "W": -23}
    for name, kept in got.tensors.items():
        if isinstance(kept, Fixed):
            assert kept.exponent == exponents.get(name.split("/")[1], kept.exponent), name
            assert len(set(kept.codes)) > 1 or len(kept.codes) < 9, name


@pytest.mark.slow
def test_step_is_a_function_of_its_arguments():
    one, again, other = run(), run(), run(seed=2)
    assert (one.tensors, one.state, one.saturated) == (again.tensors, again.state, again.saturated)
    changed = {name for name, value in one.tensors.items() if other.tensors[name] != value}
    assert {name.split("/")[1] for name in changed} == {"gWq", "Acc", "Accq", "W"}
    assert not any(name.startswith(("conv1/", "fc/")) for name in changed)


@pytest.mark.slow
@pytest.mark.parametrize("e2", ["flag8", "16"])
def test_a_layer_runs_alone(e2):
    """From what reached it: the same values, and at its input the error that is asked for."""
    all_seen: list[Seen] = []
    whole = run(e2, seen=all_seen.append)
    given = {f"{s.layer}/{s.path}": s.given for s in all_seen}
    seen: list[Seen] = []
    before = {name: store(value) for name, value in named(cases.net_state(NET, SHAPE, 5)).items()}
    alone = Step(NET, whole.settings, before, whole.now, seen.append)
    layer, walk = alone.layers["layer1.0.conv2"], Walk(alone, first="")
    walk.forward((layer,), whole.tensors["layer1.0.relu1/x4"])
    assert walk.backward((layer,), given["layer1.0.conv2/e3"]) == whole.tensors["layer1.0.conv2/e4"]
    alone.update_all()
    names = {f"layer1.0.conv2/{path}" for path in CONV}
    assert {f"{s.layer}/{s.path}" for s in seen} == set(alone.tensors) == names
    assert alone.tensors == {name: whole.tensors[name] for name in alone.tensors}
    assert {s.path: s.mode for s in seen}["gWq"] == "stochastic"
