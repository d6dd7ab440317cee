"""Packs of layers: every expected word against the oracle, read as text; run again from the pack alone."""

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet import methods
from intnet.errors import ConfigError, ContainerError, PackError
from intnet.methods.float32 import Float32
from intnet.methods.method import to_float32
from intnet.methods.trace import Recorder
from intnet.numbers.qtensor import QTensor
from intnet.packs import layers, pack
from intnet.packs.layers import capture, paths
from intnet.runs import run_folder
from intnet.spec import batch_norm as norm
from intnet.spec import formats as quantizers
from intnet.spec.convolution import conv2d, conv2d_input_grad, conv2d_weight_grad
from intnet.spec.rounding import round_fraction
from intnet.spec.tensor import Fixed, power
from intnet.spec.words import words as philox
from tests.support import wageubn_layers as by_hand
from tests.support.command import forgotten
from tests.support.plain_pack import Plain

Write = Callable[..., Path]
BLOCK = ("fc2", "bn2", "relu2")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Write:
    """Writes a pack once: (method, model, layers, step, batch size, steps, options) -> its folder."""
    root = tmp_path_factory.mktemp("packs")

    @cache
    def write(
        method: str,
        model: str,
        names: tuple[str, ...],
        step: int = 2,
        batch: int = 6,
        steps: int = 1,
        **options: str,
    ) -> Path:
        run = run_folder.build(method, options, model, "digits", batch_size=batch)
        run.train(step - 1)
        name = f"{method}-{model}-{'+'.join(names)}-{step}-{batch}-{steps}-{'-'.join(options.values())}"
        return pack.write(layers.draft(run, names, steps), root / name.replace("/", ""))

    return write


# -- against the oracle ------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["flag8", "16"])
def block(request: pytest.FixtureRequest, written: Write) -> Plain:
    return Plain(written("wageubn", "mlp", BLOCK, step=3, batch=8, e2=request.param))


def same(plain: Plain, name: str, want: Fixed) -> None:
    have = plain[name]
    assert have.shape == want.shape, name
    assert have.exponent == want.exponent and have.codes == want.codes, name


@pytest.mark.slow
def test_forward(block: Plain) -> None:
    w, x0 = block["fc2/W.old"], block["fc2/x0"]
    same(block, "fc2/Wq", by_hand.as_fixed(w.shape, by_hand.weight_q(w)))
    wq = block["fc2/Wq"]
    x1 = conv2d(x0.ints(), wq.ints())
    same(block, "fc2/x1", Fixed(x1.shape, x1.values, x0.exponent + wq.exponent))
    normed = norm.batch_norm(block["fc2/x1"].real())
    for name, want in (("mu", normed.mu), ("sigma", normed.sigma), ("x2", normed.x2)):
        same(block, f"bn2/{name}", want)
    for name in ("gamma", "beta"):
        old = block[f"bn2/{name}.old"]
        same(block, f"bn2/{name}q", by_hand.as_fixed(old.shape, by_hand.affine_q(old)))
    x3 = norm.scale_shift(block["bn2/x2"], block["bn2/gammaq"], block["bn2/betaq"])
    same(block, "bn2/x3", x3)
    same(block, "relu2/x4", by_hand.activation(x3))


def test_backward(block: Plain) -> None:
    e2_variant = block.manifest["generator"]["options"]["e2"]
    entering = next(p["rounding"]["source"] for p in block.manifest["ports"] if p["name"] == "relu2/e0")
    assert block.ports[entering["tensor"]]["encoding"] == "float32"  # the last layer is in float32
    floats = np.array(block.values(entering["tensor"]), np.uint32).view(np.float32)
    e0 = quantizers.quantize([Fraction(float(v)) for v in floats], quantizers.Shift(8))
    same(block, "relu2/e0", by_hand.as_fixed(block["relu2/e0"].shape, e0))
    same(block, "relu2/e1", by_hand.mask(block["relu2/e0"], block["bn2/x3"]))
    e1, x2, sigma = block["relu2/e1"], block["bn2/x2"], block["bn2/sigma"]
    e2 = norm.scale_error(e1, block["bn2/gammaq"])
    same(block, "bn2/e2", e2)
    back = norm.batch_norm_grad(e2, x2, sigma)
    same(block, "bn2/m1", back.m1)
    same(block, "bn2/m2", back.m2)
    same(block, "bn2/ggamma", norm.gamma_grad(e1, x2))
    same(block, "bn2/gbeta", norm.beta_grad(e1))
    e3 = by_hand.error_q(back.dx1, e2_variant)
    same(block, "fc2/e3", by_hand.as_fixed(e1.shape, e3))
    e3_fixed, wq, x0 = block["fc2/e3"], block["fc2/Wq"], block["fc2/x0"]
    e4 = conv2d_input_grad(e3_fixed.ints(), wq.ints(), x0.shape)
    same(block, "fc2/e4", Fixed(e4.shape, e4.values, e3_fixed.exponent + wq.exponent))
    gw = conv2d_weight_grad(e3_fixed.ints(), x0.ints(), wq.shape)
    same(block, "fc2/gW", Fixed(gw.shape, gw.values, e3_fixed.exponent + x0.exponent))


@pytest.mark.slow
def test_update_with_its_random_words(block: Plain) -> None:
    gw = block["fc2/gW"]
    words = philox(1, 2, "fc2/gW", len(gw.codes))
    assert block.values("fc2/gW.words") == words
    gwq = quantizers.quantize(gw.real().values, quantizers.Constant(), "stochastic", words)
    same(block, "fc2/gWq", by_hand.as_fixed(gw.shape, gwq))
    for layer, symbol, slot, gradient in (
        ("fc2", "W", "Accq", "gWq"),
        ("bn2", "gamma", "Accq_gamma", "ggammaq"),
        ("bn2", "beta", "Accq_beta", "gbetaq"),
    ):
        old, acc, g = (block[f"{layer}/{name}"].codes for name in (f"{symbol}.old", f"{slot}.old", gradient))
        want = by_hand.update(old, acc, g, 26, saturate=symbol == "W")
        assert block[f"{layer}/{slot.replace('Accq', 'Acc')}"].codes == want.acc
        assert block[f"{layer}/{slot}"].codes == want.accq
        assert block[f"{layer}/{symbol}"].codes == want.w


def test_running_statistics_are_state(block: Plain) -> None:
    for name, of in (("running_mean", block["bn2/mu"].real().values), ("running_var", None)):
        values = of or [v * v for v in block["bn2/sigma"].real().values]
        old = block[f"bn2/{name}.old"].codes
        assert block[f"bn2/{name}"].codes == [
            norm.running_update(r, x) for r, x in zip(old, values, strict=True)
        ]


@pytest.mark.slow
def test_what_entered_and_its_trail(block: Plain) -> None:
    """Each rounding: the JSON of its source is an exact value; floor, remainder, up and presat are its."""
    seen = set()
    for name, port in block.ports.items():
        how = port["rounding"]
        if f"{name}.floor" not in block.ports or "terms" not in (how["source"] or ()):
            continue
        flag = f"{name}.coarse" in block.ports
        parts = zip(
            *(block.values(f"{name}.{part}") for part in ("floor", "remainder", "up", "presat")), strict=True
        )
        for i, (value, part) in enumerate(zip(block.expression(how["source"]), parts, strict=True)):
            coarse = flag and abs(value) >= power(how["grid"] + how["lift"])
            scaled = value / power(how["grid"] + how["lift"] * coarse)
            floor = scaled.__floor__()
            fraction = (scaled - floor) * 2**32
            remainder = 2 * int(fraction) + (fraction.denominator != 1)
            assert part[:2] == (floor, remainder) and part[3] == floor + part[2], (name, i)
            assert not flag or block.values(f"{name}.coarse")[i] == coarse
        seen.add(port["format"]["kind"])
    assert seen >= {"Direct", "FixedPoint", "Constant"}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["adapt", "muppet"])
def test_what_entered_and_its_trail_where_masters_are_float32(method: str, written: Write) -> None:
    """The same of stochastic rounding, with its words, its limits and, of block float, its scale."""
    plain, seen = Plain(written(method, "mlp", (*BLOCK, "fc3"), step=3, batch=8)), set()
    for name, port in plain.ports.items():
        how = port["rounding"]
        if f"{name}.floor" not in plain.ports:
            continue
        values = plain.expression(how["source"])
        words = plain.values(how["words"]) if how["words"] else None
        layer, _, stream = (how["words"] or "/").removesuffix(".words").rpartition("/")
        assert words is None or words == philox(1, 2, f"{layer}/{stream}", len(words))
        if method == "muppet":
            top, least = max(values) / power(how["grid"]), min(values) / power(how["grid"])
            assert top <= how["high"] + Fraction(1, 2) and least >= how["low"] - Fraction(1, 2), name
            assert 2 * top > how["high"] + Fraction(1, 2) or 2 * least < how["low"] - Fraction(1, 2), name
        parts = [plain.values(f"{name}.{part}") for part in ("floor", "remainder", "up", "presat")]
        codes = plain.values(name)
        for i, (value, *part) in enumerate(zip(values, *parts, strict=True)):
            scaled = value / power(how["grid"])
            floor = scaled.__floor__()
            fraction = (scaled - floor) * 2**32
            want = round_fraction(scaled, how["mode"], words[i] if words else None)
            assert part[:2] == [floor, 2 * int(fraction) + (fraction.denominator != 1)], (name, i)
            assert part[3] == floor + part[2] == want, (name, i)
            assert codes[i] == max(how["low"], min(how["high"], want)), (name, i)
        seen.add(name.rpartition("/")[2])
    assert seen >= {"Wq", "x1", "gWq", "bq"}


@pytest.mark.slow
@pytest.mark.parametrize("stride_layer", ["layer1.0.conv1", "layer2.0.conv1"])
def test_convolutions(written: Write, stride_layer: str) -> None:
    plain = Plain(written("wageubn", "resnet8", (stride_layer,), step=1, batch=2))
    at = {path: plain[f"{stride_layer}/{path}"] for path in ("x0", "Wq", "x1", "e3", "e4", "gW")}
    window = (1 if stride_layer.startswith("layer1") else 2, 1)
    same(plain, f"{stride_layer}/x1", by_hand.conv_forward(at["x0"], at["Wq"], *window))
    same(plain, f"{stride_layer}/e4", by_hand.conv_error(at["e3"], at["Wq"], at["x0"].shape, *window))
    same(plain, f"{stride_layer}/gW", by_hand.conv_gradient(at["e3"], at["x0"], at["Wq"].shape, *window))


# -- the reader, and once more -------------------------------------------------------------------

SETTINGS = [
    ("wageubn", "mlp", BLOCK, {}),
    ("wageubn", "mlp", ("fc1", "bn1", "fc3"), {"edges": "fixed16"}),
    ("wageubn", "resnet8", ("conv1", "bn1", "relu1", "fc"), {}),
    ("wageubn", "resnet8", ("conv1", "bn1", "relu1"), {"first": "block"}),
    ("wageubn", "resnet8", ("layer2.0.bn2", "layer2.0.relu2", "layer2.0.conv2"), {"e2": "16"}),
    ("wageubn", "resnet8", ("layer1.0.conv1", "layer1.0.relu1"), {"saturate": "3", "weight_decay": "12"}),
    ("wageubn", "lenet5", ("conv1", "conv2", "fc1", "fc2"), {}),
    ("float32", "resnet8", ("layer1.0.conv1", "layer1.0.bn1", "layer1.0.relu1", "fc"), {}),
    ("adapt", "mlp", BLOCK, {}),
    ("adapt", "lenet5", ("conv1", "bn1", "relu1", "fc3"), {"accs": "2", "l1": "0.001"}),
    ("adapt", "resnet8", ("layer2.0.conv2", "layer2.0.relu2", "layer2.0.downsample.0"), {"buff": "8"}),
    ("muppet", "mlp", BLOCK, {}),
    ("muppet", "lenet5", ("conv1", "bn1", "relu1", "fc3"), {}),
    ("muppet", "resnet8", ("layer2.0.conv2", "layer2.0.relu2", "layer2.0.downsample.0", "fc"), {}),
    ("dynasty", "mlp", BLOCK, {}),
    ("dynasty", "lenet5", ("conv1", "bn1", "relu1", "fc3"), {"forward_dynamic": "weight"}),
    ("dynasty", "resnet8", ("layer2.0.conv2", "layer2.0.relu2", "layer2.0.downsample.0", "fc"), {}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "model", "names", "options"), SETTINGS)
def test_a_pack_gives_the_values_of_the_step(
    method: str, model: str, names: tuple[str, ...], options: dict[str, str], written: Write
) -> None:
    """Against another observer of the same step: QTensors equal in codes, exponent and format."""
    read = pack.read(written(method, model, names, **options))
    run = run_folder.build(method, options, model, "digits", batch_size=6)
    seen = Recorder()
    run.train(2, observe_last=[seen])
    aliases, compared = read.manifest["about"]["aliases"], 0
    for name, event in seen.events.items():
        if event.layer not in names or name in read.manifest["about"]["not written"]:
            continue
        have, want = read[aliases.get(name, name)], seen[name]
        if isinstance(want, np.ndarray):
            assert np.array_equal(have, want), name
        else:
            assert isinstance(have, QTensor) and isinstance(want, QTensor), name
            assert np.array_equal(have.codes, want.codes), name
            assert np.array_equal(have.exponent, want.exponent), name
            given = name in aliases or read.ports[name].direction == "in"  # and handed on as it is
            assert have.format == want.format or given, name
        compared += 1
    assert compared >= 3 * len(names)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "model", "names", "options"), SETTINGS)
def test_a_pack_is_made_again_from_itself(
    method: str, model: str, names: tuple[str, ...], options: dict[str, str], written: Write
) -> None:
    read = pack.read(written(method, model, names, **options))
    again = layers.redraft(read)
    assert again.about == read.manifest["about"]
    made = {port.name: codes for port, codes in again.ports}
    for name, port in read.ports.items():
        if port.direction != "in" or name in made:
            assert np.array_equal(made[name], read.codes(name)), name


@pytest.mark.slow
def test_a_chain_carries_its_state_from_step_to_step(written: Write, tmp_path: Path) -> None:
    folder = written("wageubn", "mlp", BLOCK, steps=3)
    plain = Plain(folder)
    assert plain.manifest["level"] == "L4"
    assert "step3/fc2/W.old" not in plain.ports  # it is what step 2 left
    assert plain["step2/fc2/W"].codes != plain["step3/fc2/W"].codes
    w = plain["step2/fc2/W"]
    same(plain, "step3/fc2/Wq", by_hand.as_fixed(w.shape, by_hand.weight_q(w)))
    import hashlib

    for link in plain.manifest["about"]["chain"]:
        files = sorted((folder / "exp").glob(f"step{link['step']}.*"))
        assert link["sha256"] == hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()
    single = written("wageubn", "mlp", BLOCK, step=3)
    assert Plain(single)["fc2/x1"] == plain["step3/fc2/x1"]
    assert layers.redraft(pack.read(folder)).about == plain.manifest["about"]


# -- methods that remember, and whose widths move ------------------------------------------------


@pytest.mark.slow
def test_a_switch_is_in_the_pack_and_what_follows_it(written: Write) -> None:
    """AdaPT's lookback is full at step 25: its words, the new precision, and a step that reads it."""
    read = pack.read(written("adapt", "mlp", BLOCK, step=24, batch=16, steps=3))
    assert [read[f"step24/fc2/{n}"].raw().tolist() for n in ("precision.old", "window.old", "window")] == [
        [8, 4], [25, 50, 23], [25, 50, 24]]  # fmt: skip
    assert read.ports["step25/fc2/push_down.words"].direction == "rnd"
    assert read.codes("step25/fc2/push_down.words").size == read.codes("step25/fc2/W").size
    wl, fl = read["step25/fc2/precision"].raw().tolist()
    assert (wl, fl) != (8, 4) and read["step25/fc2/window"].raw().tolist()[2] == 0
    assert not any(name.endswith("push_down.words") for name in read.ports if not name.startswith("step25"))
    assert set(read.manifest["about"]["not written"]) == {"step25/fc2/G"}
    for name, low in (("step25/fc2/Wq", 4), ("step26/fc2/Wq", fl)):
        assert read.ports[name].exponent == -low
    assert read.ports["step26/relu2/x4"].exponent == -fl  # fc2's precision, which is no result of relu2
    assert {"step25/relu2/precision", "step25/bn2/precision"}.isdisjoint(read.ports)
    again = layers.redraft(read)
    assert again.about == read.manifest["about"] and {port.name for port, _ in again.ports} == set(read.ports)


@pytest.mark.slow
def test_a_new_word_length_is_in_the_pack(tmp_path: Path) -> None:
    """MuPPET's policy moves it at the end of an epoch, between two steps; then there is no format at all."""
    run = run_folder.build(
        "muppet", {"resolution": "2", "patience": "1"}, "mlp", "digits", batch_size=6, limit=12
    )
    run.method.state["diversities"] = np.array([1e6], np.float32)
    run.train(3)
    read = pack.read(pack.write(layers.draft(run, BLOCK, steps=2), tmp_path / "switch"))
    told = [step["method"] for step in read.manifest["about"]["replay"]]
    assert [one["level"]["values"] for one in told] == [[0], [1]]
    assert [str(read.ports[f"step{step}/fc2/Wq"].format) for step in (4, 5)] == ["BF(8)", "BF(12)"]
    again = layers.redraft(read)
    assert again.about == read.manifest["about"] and {port.name for port, _ in again.ports} == set(read.ports)
    run.method.state["level"] = QTensor(np.array([4], np.int32), 0)
    plain = pack.read(pack.write(layers.draft(run, BLOCK), tmp_path / "float32"))
    assert {port.encoding for name, port in plain.ports.items() if name.startswith("fc2/")} == {"float32"}
    assert layers.redraft(plain).about == plain.manifest["about"]


@pytest.mark.slow
def test_a_gradient_that_rounded_to_nothing_judges_nothing() -> None:
    """It is looked for: a net that learns a few images by heart comes to small gradients soon."""
    first, run = (run_folder.build("adapt", {}, "lenet5", "digits", batch_size=8, limit=16) for _ in range(2))
    lost: list[str] = []
    while not lost:
        seen = Recorder("bn?/gbetaq")
        assert first.step < 100
        first.train(first.step + 1, observe_last=[seen])
        lost = [e.layer for name, e in seen.events.items() if not seen[name].raw().any()]
    layer = lost[0]
    run.train(first.step - 1)
    draft = layers.draft(run, [layer])
    found = {port.name: (port, codes) for port, codes in draft.ports}
    port, codes = found[f"{layer}/gbetaq"]
    assert port.direction == "trail" and port.rounding["mode"] == "stochastic" and not codes.any()
    assert found[f"{layer}/gbeta"][1].any() and f"{layer}/gbetaq.floor" not in found
    assert found[f"{layer}/beta"][0].direction == "out"
    pack.check(draft)


def test_only_what_a_method_remembers_is_kept(written: Write) -> None:
    for method in ("wageubn", "float32"):
        manifest = Plain(written(method, "mlp", BLOCK)).manifest
        assert all("method" not in step for step in manifest["about"]["replay"])
    page = (written("muppet", "mlp", BLOCK) / "CONTRACT.md").read_text()
    assert "| 2 | level | 0 | place of WL in 8, 12, 14, 16, float32, from 0 |" in page
    assert "| 2 | diversities | none | since the last switch |" in page


def test_a_constant_copy_judges_nothing(written: Write) -> None:
    read = pack.read(written("wageubn", "mlp", BLOCK, step=1))
    assert read.ports["bn2/gammaq"].direction == read.ports["bn2/betaq"].direction == "trail"
    assert set(read["bn2/gammaq"].raw()) == {128} and not read["bn2/betaq"].raw().any()
    assert read.ports["fc2/Wq"].direction == "out"


def test_a_result_too_wide_for_a_trail_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_wide(*_: object) -> None:
        raise ContainerError("a rounded code is beyond 62 bits")

    monkeypatch.setattr(paths, "trail", too_wide)
    run = run_folder.build("wageubn", {}, "mlp", "digits", batch_size=6)
    read = pack.read(pack.write(layers.draft(run, ["fc2"]), tmp_path / "p"))
    assert read.manifest["about"]["not written"] == {
        f"fc2/{path}.floor": "no trail of it: a rounded code is beyond 62 bits"
        for path in ("Wq", "e3", "gWq", "Accq")
    }
    assert "fc2/e3" in read.ports and "fc2/e3.floor" not in read.ports
    assert layers.redraft(read).about == read.manifest["about"]


def test_layers_without_a_data_path_are_left_out_or_refused() -> None:
    run = run_folder.build("wageubn", {}, "mlp", "digits", batch_size=6)
    assert {port.name.split("/")[0] for port, _ in layers.draft(run, ["flatten", "fc2"]).ports} == {"fc2"}
    with pytest.raises(PackError, match="flatten: no data path in this step"):
        layers.draft(run, ["flatten"])


def test_taps_leave_no_trace() -> None:
    """The run goes on to the same digest, and nothing of the model is changed."""
    plain, tapped = (run_folder.build("wageubn", {}, "mlp", "digits", batch_size=6) for _ in range(2))
    plain.train(4)
    tapped.train(1)
    layers.draft(tapped, ["fc2", "bn2"], steps=2)
    tapped.train(4)
    assert tapped.digest() == plain.digest()
    assert all("forward" not in vars(layer) for layer in tapped.model.all_layers())
    assert "words" not in vars(tapped.method) and not tapped.method.observers


@pytest.mark.parametrize(("hook", "path"), [("activation", "x1"), ("error", "e4")])
def test_a_value_that_is_shown_and_not_handed_on_is_refused(hook: str, path: str, tmp_path: Path) -> None:
    """The page would say what no device computes."""

    def halved(self: Float32, layer: Any, at: str, value: Any) -> Any:
        made = self.passes(layer, at, to_float32(value))
        return made * np.float32(0.5) if at == path else made

    with forgotten(tmp_path):
        methods.register("halved")(type("Halved", (Float32,), {hook: halved}))
        run = run_folder.build("halved", {}, "mlp", "digits", batch_size=16, limit=64)
        with pytest.raises(PackError, match=f"fc2/{path}: method 'halved' shows one value there and hands"):
            layers.draft(run, ["fc2"])


def test_what_a_method_remembers_has_any_shape_and_one_exponent(tmp_path: Path) -> None:
    with forgotten(tmp_path):

        @methods.register("counts")
        class Counts(Float32):
            def end_of_step(self) -> None:
                super().end_of_step()
                self.state["n"] = np.asarray(self.state.get("n", np.float32(0)) + np.float32(1))
                self.state["table"] = QTensor(np.array([[1, 2], [3, self.step]], np.int8), -1)

        run = run_folder.build("counts", {}, "mlp", "digits", batch_size=16, limit=64)
        run.train(2)
        made = pack.read(pack.write(layers.draft(run, ["fc2"]), tmp_path / "pack"))
        told = made.manifest["about"]["replay"][0]["method"]
        assert told["n"]["values"] == [2.0] and told["n"]["shape"] == []
        assert (told["table"]["values"], told["table"]["shape"]) == ([1, 2, 3, 2], [2, 2])
        again = Counts()
        capture.remember(again, told)
        assert again.state["n"].shape == () and again.state["n"] == 2
        assert again.state["table"].codes.tolist() == [[1, 2], [3, 2]]
        assert "| 1, 2, 3, 2 |" in (made.folder / "CONTRACT.md").read_text()
        run.method.state["table"] = QTensor(np.array([3, 5], np.int8), np.array([-1, -4]))
        with pytest.raises(ConfigError, match="table of counts's state has many exponents"):
            layers.draft(run, ["fc2"])
