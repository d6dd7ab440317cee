"""The oracle's whole training step: every tensor is there, and the layers are joined as they should be.

The single steps are judged in `test_oracle`; here each join is recomputed from the recorded tensors.
"""
from fractions import Fraction as F

import pytest

from intnet import spec as oracle
from intnet.spec import Fixed, Tensor
from intnet.spec import formats as qz
from intnet.spec import words as random
from intnet.spec.methods import wageubn_layers as layers
from intnet.spec.methods.wageubn import Block, Net, Settings, Step, forward, step
from tests import cases

NET = Net((Block("layer1.0"), Block("layer2.0", stride=2, downsample=True)))


def run(e2: str = "flag8", seed: int = 1, dr: int = 128) -> Step:
    state = cases.net_state(NET, 5, in_channels=1, widths=(4, 6), classes=3)
    images = Tensor((2, 6, 6, 1), [F(v, 16) for v in cases.random_codes(6, 72, 0, 16)])
    error = Tensor((2, 3), cases.random_float32(7, 6, -1))
    return step(NET, state, images, error, Settings(seed, step=4, lr=26, dr=dr, e2=e2))


@pytest.fixture(scope="module", params=["flag8", "16"])
def done(request):
    return request.param, run(request.param)


CONV = {"x0", "Wq", "x1", "e3", "e4", "gW", "gWq", "Acc", "Accq", "W"}
RELU = {"x4", "e0", "e1"}
BN = {"gammaq", "betaq", "mu", "sigma", "x2", "x3", "e1", "e2", "m1", "m2"}
BN |= {"ggamma", "ggammaq", "gbeta", "gbetaq"}
BN |= {f"{stored}{name}" for stored in ("", "Acc_", "Accq_") for name in ("gamma", "beta")}


def test_step_names_every_tensor(done):
    paths = {"conv1": {"x0", "x1", "e3", "gW", "Acc", "W"}, "bn1": BN, "relu1": RELU, "avgpool": {"x4"}}
    paths["fc"] = {"x0", "x1", "e3", "e4", "gW", "gb", "W", "Acc", "b", "Acc_b"}
    for block in ("layer1.0", "layer2.0"):
        for i in (1, 2):
            paths |= {f"{block}.conv{i}": CONV, f"{block}.bn{i}": BN, f"{block}.relu{i}": RELU}
        paths[f"{block}.relu2"] = RELU | {"x3"}
    paths |= {"layer2.0.downsample.0": CONV, "layer2.0.downsample.1": BN}
    assert set(done[1].tensors) == {f"{layer}/{path}" for layer, names in paths.items() for path in names}


def test_step_wires_the_backward_pass(done):
    e2, got = done
    value = {name: kept.real().values for name, kept in got.kept.items() if isinstance(kept, Fixed)}

    def joined(a: str, b: str) -> tuple[list[int], int]:
        return qz.quantize([p + q for p, q in zip(value[a], value[b], strict=True)], qz.Shift(8))[:2]

    assert got.tensors["layer1.0.relu2/e0"] == joined("layer2.0.conv1/e4", "layer2.0.downsample.0/e4")
    assert got.tensors["relu1/e0"] == joined("layer1.0.conv1/e4", "layer1.0.relu2/e1")
    assert got.tensors["layer2.0.relu1/e0"] == qz.quantize(value["layer2.0.conv2/e4"], qz.Shift(8))[:2]
    for bn in ("bn2", "downsample.1"):
        assert got.tensors[f"layer2.0.{bn}/e1"] == got.tensors["layer2.0.relu2/e1"]
    pooled = [v / 9 for i in range(2) for _ in range(9) for v in got.real("fc/e4").values[6 * i : 6 * i + 6]]
    assert got.tensors["layer2.0.relu2/e0"] == qz.quantize(pooled, qz.Shift(8))[:2]
    sources = {"relu1": "bn1", "layer2.0.relu1": "layer2.0.bn1", "layer2.0.relu2": "layer2.0.relu2"}
    for relu, source in sources.items():
        e0, e1 = got.fixed(f"{relu}/e0"), got.fixed(f"{relu}/e1")
        assert e1 == layers.mask(e0, got.fixed(f"{source}/x3")) != e0
    e3 = got.fixed("layer1.0.conv2/e3")
    legal = qz.flag_encode if e2 == "flag8" else lambda code: abs(code) <= 32767 or pytest.fail(str(code))
    assert all(legal(code) for code in e3.codes) and any(e3.codes)


def test_step_quantizes_the_weight_gradient_with_its_own_words():
    got = run(dr=32)
    for layer in ("layer1.0.conv2", "layer2.0.downsample.0"):
        gw = got.fixed(f"{layer}/gW")
        drawn = random.words(1, 4, f"{layer}/gW", len(gw.codes))
        want = qz.quantize(gw.real().values, qz.Constant(32), "stochastic", drawn)
        assert got.tensors[f"{layer}/gWq"] == want[:2]


def test_step_wires_the_forward_pass(done):
    got = done[1]
    for block, shortcut in (("layer1.0", "relu1/x4"), ("layer2.0", "layer2.0.downsample.1/x3")):
        total = oracle.add_fixed(got.fixed(f"{block}.bn2/x3"), got.fixed(shortcut))
        assert got.fixed(f"{block}.relu2/x3") == total
        assert got.fixed(f"{block}.relu2/x4") == layers.activation(total)
    exponents = {"Wq": -7, "x4": -7, "x1": -14, "mu": -15, "sigma": -15, "x2": -15, "x3": -22}
    exponents |= {"gammaq": -7, "betaq": -7, "gWq": -14, "ggammaq": -14, "Acc": -14, "Accq": -12, "W": -23}
    for name, kept in got.kept.items():
        if isinstance(kept, Fixed):
            assert kept.exponent == exponents.get(name.split("/")[1], kept.exponent), name
            assert len(set(kept.codes)) > 1 or len(kept.codes) < 9, name


def test_step_is_a_function_of_its_arguments():
    one, again, other = run(), run(), run(seed=2)
    assert one == again
    changed = {name for name, value in one.tensors.items() if other.tensors[name] != value}
    assert {name.split("/")[1] for name in changed} == {"gWq", "Acc", "Accq", "W"}
    assert not any(name.startswith(("conv1/", "fc/")) for name in changed)
    images = Tensor((2, 6, 6, 1), [F(1, 2)] * 72)
    assert forward(NET, one.state, images).real("fc/x1").shape == (2, 3)
