"""Packs of method mx: both judges, a device from the page alone, faults of devices and of the quantizer."""

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples.rtl import simulate
from intnet.cli.main import main
from intnet.errors import ConfigError, PackError
from intnet.exact.blocks.mx_blocks import InBlocks
from intnet.methods import mx as method
from intnet.methods.trace import Recorder
from intnet.numbers.microscaling import MXS
from intnet.numbers.qtensor import QTensor
from intnet.packs import causes, check, export, layers, layouts, pack, tiles
from intnet.packs.by_spec import recompute as by_spec
from intnet.packs.layers import network
from intnet.packs.ports import Draft
from intnet.runs import run_folder
from intnet.training.train import Run
from tests.support.contract_device32 import Sums
from tests.support.contract_mx import DeviceMX, Fault
from tests.support.devices import check_marks, give, given, good, result_of
from tests.support.forging import forge, seal
from tests.support.narrow_nets import LENET5, MLP36, RESNET8_BLOCKS
from tests.support.simulators import icarus_only

LINEAR = ("fc2", "bn2", "relu2")
CONV = tuple(f"layer2.0.{name}" for name in ("conv1", "bn1", "relu1"))
OF_EACH_ENCODING = ("MXINT8", "MXFP4")
COPIES = ("x0", "x0b", "Wq", "Wb", "e3", "e3w")
PACKS: dict[str, tuple[str, tuple[str, ...], int, dict[str, str]]] = {  # all six formats, rules, modes
    "linear": (
        MLP36, LINEAR, 35,  # a batch of a block and three images
        {
            "x": "MXFP8_E4M3", "w": "MXINT8/round", "e": "MXFP4/ceil/stochastic",
            "g": "MXFP6_E3M2/fit/ties_away",
        },
    ),
    "conv": (
        RESNET8_BLOCKS, CONV, 2,
        {
            "x": "MXFP8_E5M2/ceil", "w": "MXFP6_E2M3", "e": "MXINT8/fit/stochastic",
            "g": "MXFP4/floor/to_zero",
        },
    ),
    "wide": ("resnet8", CONV, 2, {"format": "MXFP8_E5M2", "w": "MXINT8"}),
}  # fmt: skip
Make = Callable[[str], pack.Pack]


def trained(model: str, options: Mapping[str, Any], batch: int, steps: int = 1) -> Run:
    run = run_folder.build("mx", dict(options), model, "digits", batch_size=batch)
    run.train(steps)
    return run


def advance(run: Run, step: int, observer: Any) -> None:
    run.train(step, observe_last=[observer])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """A pack of PACKS, read; written once."""
    root, held = tmp_path_factory.mktemp("mx"), dict[str, pack.Pack]()

    def make(name: str) -> pack.Pack:
        if name not in held:
            model, names, batch, options = PACKS[name]
            held[name] = pack.read(
                pack.write(layers.draft(trained(model, options, batch), names), root / name)
            )
        return held[name]

    return make


def passes(draft: Draft, folder: Path) -> pack.Pack:
    """The pack, which both judges found right, leaving out nothing."""
    read = pack.read(pack.write(draft, folder))
    for result in (check.recompute(read), by_spec.recompute(read)):
        assert result.exit_status == 0 and not result.problems and not result.unknown
    return read


# -- both judges -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "name"), [*((MLP36, name) for name in MXS), *((LENET5, name) for name in OF_EACH_ENCODING)]
)
def test_every_format_in_every_kind_of_pack(name: str, model: str, tmp_path: Path) -> None:
    """Of lenet5, which has layers more, a format of each encoding has to do."""
    batch, layer = (3, "fc2") if model == MLP36 else (2, "conv2")
    run = trained(model, {"format": name}, batch)
    passes(network.inference(run, 2), tmp_path / "inference")
    read = passes(layers.draft(run, [layer]), tmp_path / "layer")
    bits = MXS[name].bits
    for path in COPIES:
        port, scale = read.ports[f"{layer}/{path}"], read.ports[f"{layer}/{path}.scale"]
        assert (port.bits, port.encoding) == (bits, "integer" if name == "MXINT8" else "minifloat")
        assert (scale.bits, scale.encoding, port.exponent) == (8, "e8m0", scale.name)
    passes(network.draft(run, 1, advance), tmp_path / "network")


@pytest.mark.slow
def test_two_steps_hang_together(tmp_path: Path) -> None:
    options = {"format": "MXFP4", "e": "MXFP4/ceil/stochastic"}
    read = passes(layers.draft(trained(MLP36, options, 5), LINEAR, 2), tmp_path / "chain")
    assert [link["step"] for link in read.manifest["about"]["chain"]] == [2, 3]
    first, second = (read.codes(f"step{step}/fc2/e3.words") for step in (2, 3))
    assert not np.array_equal(first, second)
    name = "step3/fc2/Wq"
    assert read.ports[name].rounding["source"]["tensor"] == "step2/fc2/W"  # what the first step left
    dut = good(read, tmp_path / "dut")
    codes = read.codes(name).reshape(-1)
    codes[7] ^= 1
    give(read, name, codes.tolist(), dut)
    result = check.check_dut(read, dut)
    assert result.first_step == 3 and [one.port.name for one in result.ports if one.wrong] == [name]


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 2])
def test_a_network_of_more_kinds_of_layers(step: int, tmp_path: Path) -> None:
    """Depthwise convolutions: a block is an element. Layers in float32, batches added up, adamw."""
    if step == 1:
        run = trained("efficientnetv2", {}, 6)
        name = "features.4.2.block.1.0"
        read = passes(layers.draft(run, [name]), tmp_path / "depthwise")
        assert read.ports[f"{name}/x0.scale"].shape == read.ports[f"{name}/x0"].shape
        return
    options = {"w@fc2": "off", "e@fc2": "off", "optimizer": "adamw", "lr": "0.001", "accs": "2"}
    read = passes(layers.draft(trained(MLP36, options, 4), ["fc2", "bn2"], 2), tmp_path / "mixed")
    assert "step2/fc2/Wq.scale" not in read.ports and "step2/fc2/x0.scale" in read.ports


# -- a device from the page alone ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["linear", "conv"])
def test_every_word_from_the_page_alone(name: str, made: Make, tmp_path: Path) -> None:
    read = made(name)
    DeviceMX(given(read, tmp_path / "seen")).run(tmp_path / "dut")
    result = check.check_dut(read, tmp_path / "dut")
    assert result.exit_status == 0
    layer, judged = PACKS[name][1][0], {port.port.name for port in result.ports}
    assert {f"{layer}/{path}" for path in COPIES} <= judged


FAULTS: dict[str, tuple[Fault, str, str]] = {  # what is wrong at a path -> the port of the cause, its name
    "x0": ({"mode": "to_neg"}, "x0", "truncation (floor)"),
    "Wb": ({"mode": "to_zero"}, "Wb", "truncation towards zero"),
    "x0b": ({"flush": True}, "x0b", "subnormal elements become zero"),
    "Wq": ({"rule": "ceil"}, "Wq.scale", "a scale by rule ceil"),
    "e3w": ({"rule": "floor"}, "e3w.scale", "a scale by rule floor"),
}


@pytest.mark.slow
@pytest.mark.parametrize("path", FAULTS)
def test_one_fault_is_named_and_the_rest_follows(path: str, made: Make, tmp_path: Path) -> None:
    read, (fault, port, name) = made("linear"), FAULTS[path]
    DeviceMX(read.folder, {f"fc2/{path}": fault}).run(tmp_path / "dut")
    result = causes.trace(read, check.check_dut(read, tmp_path / "dut"))
    assert not result.untraced
    check_marks(result, {f"fc2/{port}": name})


@pytest.mark.slow
def test_sums_in_another_order(made: Make, tmp_path: Path) -> None:
    """Of formats wide enough: sums of narrow elements with near scales are exact in any order."""
    read = made("wide")
    DeviceMX(read.folder, products=Sums(backwards=True)).run(tmp_path / "dut")
    result = causes.trace(read, check.check_dut(read, tmp_path / "dut"))
    wrong = {one.port.name.rpartition("/")[2]: one for one in result.ports if one.own}
    assert "e4" in wrong and wrong.keys() <= {"x1", "e4", "gW"}
    told = [verdict.name for verdict in wrong["e4"].verdicts if verdict.whole]
    assert told == ["a float sum in the opposite order"]


# -- damage --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["linear", "conv"])
def test_a_changed_word_of_any_port_is_named_there(name: str, made: Make, tmp_path: Path) -> None:
    read = made(name)
    dut = good(read, tmp_path / "dut")
    for port in [port for port in read.ports.values() if port.direction == "out"]:
        codes = read.codes(port.name).reshape(-1).tolist()
        at = len(codes) // 2
        codes[at] ^= 1 << port.bits - 2
        before = (dut / Path(port.file).name).read_bytes()
        give(read, port.name, codes, dut)
        found = result_of(read, dut, port.name)
        assert found.wrong == 1 and f"bit {port.bits - 2} of one element inverted" in str(found.verdicts[0])
        (dut / Path(port.file).name).write_bytes(before)


@pytest.mark.slow
@pytest.mark.parametrize("path", ["Wq", "Wq.scale", "e3", "x0b.presat", "x0b.exponent", "x0.scale.top"])
def test_a_forged_word_is_found_by_both_judges(path: str, made: Make, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(made("conv").folder, tmp_path / "forged"))
    name = f"{CONV[0]}/{path}"
    codes = pack.read(folder).codes(name).reshape(-1)
    codes[3] ^= 1
    forge(folder, name, codes.tolist())
    read = pack.read(folder)
    for result in (check.recompute(read), by_spec.recompute(read)):
        assert result.exit_status == 1 and [one.port.name for one in result.ports if one.wrong] == [name]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"scale": "fit"}, "the definition Along"),
        ({"groups": 2}, "the definition Along"),
        ({"groups": 3}, "does not fall into 3 groups"),
        ({"axis": 7}, "have no blocks"),
        ({"axis": 1000}, "it is a number from 0 to"),
        ({"block": 16}, "blocks have 32 elements"),
        ({"element": {"kind": "Float", "fields": {"e": 3, "m": 4}}}, "elements of 8 bits"),
    ],
)
def test_a_format_that_the_words_do_not_have(
    change: dict[str, Any], says: str, made: Make, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(made("conv").folder, tmp_path / "forged"))
    manifest = json.loads((folder / "PACK.json").read_text())
    entry = next(port for port in manifest["ports"] if port["name"] == f"{CONV[0]}/Wq")
    entry["rounding"]["mx"] |= change
    (folder / "PACK.json").write_text(json.dumps(manifest, indent=1) + "\n")
    seal(folder)
    if says.startswith("the definition"):
        result = by_spec.recompute(pack.read(folder))
        assert result.exit_status == 1 and any(says in line for line in result.problems)
        return
    with pytest.raises(PackError, match=says):
        pack.read(folder)


def by_rule(rule: str) -> Callable[..., InBlocks]:
    real = method.quantize_along

    def quantize(x: np.ndarray, along: Any, rounding: Any) -> InBlocks:
        return real(x, replace(along, mx=replace(along.mx, scale=rule)), rounding)

    return quantize


def along_another_axis(x: np.ndarray, along: Any, rounding: Any) -> InBlocks:
    return method_quantize(x, replace(along, axis=(along.axis + 1) % 2), rounding)


def a_step_off(x: np.ndarray, along: Any, rounding: Any) -> InBlocks:
    """The greatest element of the tensor is half of what it has to be."""
    made = method_quantize(x, along, rounding)
    made.values[np.unravel_index(np.argmax(np.abs(made.values)), x.shape)] /= 2
    return made


method_quantize = method.quantize_along
SEEDED: dict[str, Callable[..., InBlocks]] = {
    "another rule": by_rule("fit"),
    "another axis": along_another_axis,
    "one element": a_step_off,
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", SEEDED)
def test_the_definition_finds_faults_of_the_quantizer(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fast code agrees with itself, and the definition with neither."""
    monkeypatch.setattr(method, "quantize_along", SEEDED[fault])
    run = trained(MLP36, {"format": "MXFP6_E2M3"}, 4)
    read = pack.read(pack.write(layers.draft(run, ["fc2"]), tmp_path / "pack"))
    assert check.recompute(read).exit_status == 0
    result = by_spec.recompute(read)
    wrong = {one.port.name for one in result.ports if one.wrong}
    assert result.exit_status == 1 and wrong & {f"fc2/{path}" for path in COPIES}


# -- reading, other files --------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_port_is_the_tensor_of_the_path(tmp_path: Path) -> None:
    recorder, run = Recorder("fc2/*"), trained(MLP36, {"x": "MXINT8", "w": "MXFP8_E5M2"}, 5)
    draft = layers.draft(run, ["fc2"], advance=lambda r, s, o: r.train(s, observe_last=[o, recorder]))
    read = pack.read(pack.write(draft, tmp_path / "pack"))
    for path in COPIES:
        held, seen = read[f"fc2/{path}"], recorder[f"fc2/{path}"]
        assert isinstance(held, QTensor)
        assert np.array_equal(held.codes, seen.codes) and np.array_equal(held.exponent, seen.exponent)


@pytest.mark.slow
@pytest.mark.parametrize("choice", [layouts.Choice("nchw"), layouts.Choice("nc/24hw24", 24, 64)], ids=str)
def test_other_layouts(choice: layouts.Choice, tmp_path: Path) -> None:
    _, names, batch, options = PACKS["conv"]
    draft = layouts.laid_out(layers.draft(trained(RESNET8_BLOCKS, options, batch), names), choice)
    read = passes(draft, tmp_path / "pack")
    orders = {path: read.ports[f"{CONV[0]}/{path}"].order for path in ("x0", "x0.scale", "x0b.scale")}
    channels = "C/24,H,W,C%24" if choice.block() else "C,H,W"
    blocked, batches = f"N,{channels}", f"N/32,{channels}"
    assert orders == {"x0": blocked, "x0.scale": "N,C/32,H,W", "x0b.scale": batches}


@pytest.mark.slow
def test_what_cannot_be_is_refused_by_name() -> None:
    draft = layers.draft(trained(MLP36, {}, 4), ["fc2"])
    with pytest.raises(PackError, match="sums of float32 have no exact parts"):
        tiles.tiled(draft, {"x1": 16})
    with pytest.raises(ConfigError, match="has elements of"):
        layouts.laid_out(draft, layouts.Choice(lanes=1024))


@pytest.mark.slow
def test_exports_have_the_words(made: Make, tmp_path: Path) -> None:
    read, name = made("linear"), "fc2/x0"
    export.write(read, "npz", tmp_path / "npz")
    with np.load(tmp_path / "npz" / "pack.npz") as held:
        assert held[name].dtype == np.uint8 and np.array_equal(held[name], read.codes(name))
        assert held["fc2/Wq"].dtype == np.int8 and held["fc2/Wq.scale"].dtype == np.uint8
    export.write(read, "mem", tmp_path / "mem")
    text = (tmp_path / "mem" / "exp" / "fc2.x0.mem").read_text()
    assert "value = element * 2^(`fc2/x0.scale` - 127)" in text and "(minifloat)" in text
    assert (read.folder / "exp" / "fc2.x0.hex").read_text().split()[0] in text
    export.write(read, "c", tmp_path / "c")
    header = (tmp_path / "c" / "pack.h").read_text()
    assert (
        "extern const uint8_t fc2_x0[35][36];" in header and "extern const int8_t fc2_Wq[36][36];" in header
    )
    command = ["gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-c", "pack.c"]
    if shutil.which("gcc"):
        subprocess.run(command, cwd=tmp_path / "c", check=True)


@pytest.mark.slow
def test_what_check_tells_of_a_wrong_element(
    made: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    read = made("linear")
    DeviceMX(read.folder, {"fc2/x0": {"mode": "to_neg"}}).run(tmp_path / "dut")
    assert main(["check", str(read.folder), "--dut", str(tmp_path / "dut"), "--port", "fc2/x0"]) == 1
    out = capsys.readouterr().out
    assert "diagnosis: truncation (floor): explains every word" in out
    assert "steps of 2^" in out and "scaled = " in out


@pytest.mark.slow
@icarus_only
def test_the_testbench_plays_elements_and_scales(made: Make, tmp_path: Path) -> None:
    read = made("linear")
    command = [*simulate.icarus(read.folder, "", tmp_path)[:-1], "+tb=tb_pack", f"+pack={read.folder}"]
    dut = good(read, tmp_path / "dut")
    total = sum(port.words for port in read.ports.values() if port.direction == "out")
    assert f"PASS n={total}\n" in simulate.run([*command, f"+dut={dut}"])[1]
    for name in ("fc2/x0", "fc2/x0.scale", "fc2/e3"):
        codes = read.codes(name).reshape(-1)
        codes[0] ^= 1
        give(read, name, codes.tolist(), dut)
        text = simulate.run([*command, f"+dut={dut}"])[1]
        assert "PASS" not in text and f"FAIL {name.replace('/', '.')}.hex" in text
        codes[0] ^= 1
        give(read, name, codes.tolist(), dut)


@pytest.mark.slow
def test_a_zero_without_its_sign_is_named(made: Make, tmp_path: Path) -> None:
    read, name = made("linear"), "fc2/x0b"
    dut, codes = good(read, tmp_path / "dut"), read.codes("fc2/e3w").reshape(-1)
    minus = 1 << read.ports["fc2/e3w"].bits - 1
    assert np.any(codes == minus) and not np.any(read.codes(name) == minus)  # after a ReLU there is none
    give(read, "fc2/e3w", np.where(codes == minus, 0, codes).tolist(), dut)
    found = result_of(read, dut, "fc2/e3w")
    assert "a zero that has lost its sign" in [verdict.name for verdict in found.verdicts if verdict.whole]


@pytest.mark.slow
def test_words_that_are_no_number_stop_nothing(made: Make, tmp_path: Path) -> None:
    """A NaN of an element, the NaN of a scale: what follows is told as it would be without them."""
    read = made("linear")
    dut = good(read, tmp_path / "dut")
    for name, word in (("fc2/x0", 0x7F), ("fc2/e3.scale", 0xFF)):
        codes = read.codes(name).reshape(-1)
        codes[0] = word
        give(read, name, codes.tolist(), dut)
    result = causes.trace(read, check.check_dut(read, dut))
    assert not result.untraced
    bad = [(one.port.name, one.wrong, one.own) for one in result.ports if one.status != "pass"]
    assert sorted(bad) == [("fc2/e3.scale", 1, 1), ("fc2/x0", 1, 1)]
