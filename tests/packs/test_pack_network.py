"""Packs of a whole network: wiring, ends, what judges it, a device from CONTRACT.md, faults, refusals."""

import json
import shutil
from collections.abc import Callable
from fnmatch import fnmatch
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet import methods
from intnet.cli.main import main
from intnet.errors import ConfigError, PackError
from intnet.packs import causes, check, layers, pack
from intnet.packs.by_spec.layers import Replay
from intnet.packs.by_spec.recompute import recompute
from intnet.packs.layers import network
from intnet.packs.layers.wiring import Wiring
from intnet.packs.text import port_text
from intnet.runs import run_folder
from tests.support import narrow_nets, weighed
from tests.support.command import forgotten, here
from tests.support.contract_device import T
from tests.support.contract_network import Network
from tests.support.devices import check_marks, complemented, given, minus, truncated
from tests.support.plain_pack import Plain

FIXED = {"edges": "fixed16"}
CASES = {  # method, options, model, what of it: a step, a chain of steps, an inference
    "wageubn step": ("wageubn", {}, narrow_nets.LENET5, 1),
    "wageubn classes": ("wageubn", {}, narrow_nets.LENET5, 0),
    "branches step": ("wageubn", FIXED, narrow_nets.RESNET8, 1),
    "branches classes": ("wageubn", FIXED, narrow_nets.RESNET8, 0),
    "weighed step": ("wageubn", {}, weighed.NAME, 1),
    "weighed classes": ("wageubn", {}, weighed.NAME, 0),
    "weighed saved step": ("saved", {}, weighed.NAME, 1),
    "weighed float32 step": ("float32", {}, weighed.NAME, 1),
    "weighed dynasty classes": ("dynasty", {}, weighed.NAME, 0),
    "wageubn in a range": ("wageubn", {"saturate": "0", "first": "block"}, narrow_nets.MLP36, 2),
    "adapt step": ("adapt", {}, narrow_nets.LENET5, 1),
    "adapt classes": ("adapt", {}, narrow_nets.LENET5, 0),
    "muppet step": ("muppet", {}, narrow_nets.MLP36, 1),
    "muppet classes": ("muppet", {}, narrow_nets.MLP36, 0),
    "dynasty step": ("dynasty", {}, narrow_nets.MLP36, 1),
    "dynasty classes": ("dynasty", {}, narrow_nets.MLP36, 0),
    "saved step": ("saved", {}, narrow_nets.MLP36, 1),
    "float32 step": ("float32", {"label_smoothing": "0.1"}, narrow_nets.RESNET8, 1),
    "float32 classes": ("float32", {}, narrow_nets.LENET5, 0),
}
Make = Callable[[str], pack.Pack]


def advance(run: Any, step: int, seen: Any) -> None:
    run.train(step, observe_last=[seen])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """A pack of CASES, read; written once."""
    root, held = tmp_path_factory.mktemp("packs"), {}

    def make(name: str) -> pack.Pack:
        if name not in held:
            method, options, model, steps = CASES[name]
            run = run_folder.build(method, options, model, "digits", batch_size=2 if steps else 16)
            run.train(1 if steps else 20)  # until it tells images apart
            draft = network.draft(run, steps, advance) if steps else network.inference(run, 3)
            held[name] = pack.read(pack.write(draft, root / name.replace(" ", "-")))
        return held[name]

    return make


# -- what judges it --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_fast_code_and_the_definition_give_all_of_it(name: str, made: Make) -> None:
    read = made(name)
    again, spec = check.recompute(read), recompute(read)
    assert again.exit_status == spec.exit_status == 0
    assert len(again.ports) == len(read.ports) and not spec.unknown
    judged = {one.port.name for one in spec.ports}
    assert judged >= {port.name for port in read.ports.values() if port.direction != "in"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wageubn step", "wageubn classes", "branches step"])
def test_inputs_are_images_labels_and_state(name: str, made: Make) -> None:
    read, allowed = made(name), set()
    for one in read.manifest["about"]["replay"][0]["layers"]:
        allowed |= {json_["tensor"] for json_ in one["before"].values()}
        allowed |= {one["value"]["tensor"]} if not one["sources"] else set()
    inputs = {port.name for port in read.ports.values() if port.direction == "in"}
    assert inputs == allowed
    assert not [name for name in inputs if "Acc" in name and "classes" in name]


# -- how it hangs together ---------------------------------------------------------------------------


def test_the_graph_is_that_of_the_network(made: Make) -> None:
    entries_ = entries(made("branches step").manifest)
    found = {name: (one["sources"], one["errors"]) for name, one in entries_.items()}
    assert found["conv1"] == ([], [["handed", "bn1"]])
    assert found["relu1"] == (
        [["output", "bn1"]], [["handed", "layer1.0.relu2"], ["handed", "layer1.0.conv1"]]
    )  # fmt: skip
    assert found["layer1.0.relu2"][0] == [["output", "layer1.0.bn2"], ["output", "relu1"]]
    assert found["layer2.0.relu2"][0] == [["output", "layer2.0.bn2"], ["output", "layer2.0.downsample.1"]]
    assert found["layer2.0.bn2"][1] == found["layer2.0.downsample.1"][1] == [["handed", "layer2.0.relu2"]]
    assert found["avgpool"] == ([["output", "layer3.0.relu2"]], [["handed", "fc"]])
    assert found["fc"] == ([["output", "avgpool"]], [["handed", "loss"]])
    assert found["loss"] == ([["output", "fc"]], [])
    assert list(entries_)[-1] == "loss"


def test_factors_are_told_apart_from_what_they_multiply(made: Make) -> None:
    entries_ = entries(made("weighed step").manifest)
    assert "factors" not in entries_["join"] and entries_["excite.scale"]["factors"]["tensor"]
    found = {name: (one["sources"], one["errors"]) for name, one in entries_.items()}
    assert found["excite.scale"] == ([["output", "silu2"]], [["handed", "join"]])
    assert entries_["excite.scale"]["factor_sources"] == [["output", "excite.scale_activation"]]
    assert found["excite.scale_activation"][1] == [["handed factors", "excite.scale"]]
    assert found["silu2"][1] == [["handed", "excite.scale"], ["handed", "excite.avgpool"]]
    assert found["join"][0] == [["output", "excite.scale"], ["output", "silu1"]]
    assert found["silu1"][1] == [["handed", "join"], ["handed", "conv2"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "picked"),
    [
        ("wageubn", ("excite.scale",)),
        ("wageubn", ("join",)),
        ("wageubn", ("excite.*", "join", "silu2", "avgpool")),
        ("float32", ("excite.scale",)),
        ("float32", ("excite.*", "join")),
        ("muppet", ("excite.scale", "join")),
    ],
)
def test_products_with_factors_in_packs_of_some_layers(
    method: str, picked: tuple[str, ...], tmp_path: Path
) -> None:
    run = run_folder.build(method, {}, weighed.NAME, "digits", batch_size=2)
    names = [layer.name for layer in run.model.all_layers() if any(fnmatch(layer.name, p) for p in picked)]
    read = pack.read(pack.write(layers.draft(run, names), tmp_path / "pack"))
    again, spec = check.recompute(read), recompute(read)
    assert again.exit_status == spec.exit_status == 0 and not spec.unknown
    scale = [one for one in read.manifest["about"]["replay"][0]["layers"] if one["kind"] == "scale"]
    assert [one["factor_sources"] for one in scale] == [
        [["output", "excite.scale_activation"]] if "excite.*" in picked else []
    ] * ("excite.scale" in names)


def test_equal_numbers_are_not_taken_for_one_another() -> None:
    """Two layers that give the same are told apart, which comparing them could not."""
    wiring, images = Wiring(), np.zeros(3)
    first, second = np.zeros(3), np.zeros(3)
    for layer, value, output in (("a", images, first), ("b", first, second), ("c", second, np.zeros(3))):
        wiring.reads(layer, value)
        wiring.makes(layer, output)
    assert wiring.sources == {"a": [], "b": [["output", "a"]], "c": [["output", "b"]]}
    assert wiring.readers("b") == [["handed", "c"]] and wiring.last() == "c"
    with pytest.raises(PackError, match=r"layer d reads what is no layer's output, nor the sum of two"):
        wiring.reads("d", np.zeros(3))


def test_an_output_is_stored_once(made: Make) -> None:
    read = made("wageubn step")
    aliases = read.manifest["about"]["aliases"]
    assert aliases["conv2/x0"] == "pool1/x4" and aliases["fc1/x0"] == "flatten/x4"
    assert aliases["loss/logits"] == "fc3/x1" and aliases["fc3/e3"] == "loss/e"
    assert not {"conv2/x0", "fc1/x0", "loss/logits", "fc3/e3"} & set(read.ports)


def test_classes_are_the_greatest_logits(made: Make) -> None:
    plain = Plain(made("wageubn classes").folder)
    logits, found = plain.reals("fc3/x1"), plain.values("classes/class")
    rows = [logits[i : i + 10] for i in range(0, len(logits), 10)]
    assert found == [row.index(max(row)) for row in rows] and len(set(found)) > 1


# -- a device from the page ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "wageubn step",
        "wageubn classes",
        "branches step",
        "branches classes",
        "weighed step",
        "weighed classes",
    ],
)
def test_every_word_from_the_page_alone(
    name: str, made: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    read = made(name)
    Network(given(read, tmp_path / "seen")).run(tmp_path / "dut")
    assert main(["check", str(read.folder), "--dut", str(tmp_path / "dut")]) == 0
    ports = [port for port in read.ports.values() if port.direction == "out"]
    words = sum(port.words for port in ports)
    assert f"PASS: {len(ports)} ports, {words:,} words of the device are equal" in capsys.readouterr().out


FAULTS = {  # case, port, what takes the place of its rounding
    "bn3/x2 truncates": ("wageubn step", "bn3/x2", truncated),
    "fc1/e3 truncates": ("wageubn step", "fc1/e3", truncated),
    "conv2/gWq draws otherwise": ("wageubn step", "conv2/gWq", complemented),
    "bn1/m2 negated": ("wageubn step", "bn1/m2", minus),
    "excite.scale/x4 truncates": ("weighed step", "excite.scale/x4", truncated),
    "join/e0 truncates": ("weighed step", "join/e0", truncated),
    "excite.scale_activation/e0 negated": ("weighed step", "excite.scale_activation/e0", minus),
    "excite.avgpool/e0 negated": ("weighed step", "excite.avgpool/e0", minus),
    "avgpool/x4 truncates": ("weighed step", "avgpool/x4", truncated),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_the_faulty_layer_is_named_and_what_follows_is_marked(fault: str, made: Make, tmp_path: Path) -> None:
    case, port, change = FAULTS[fault]
    read = made(case)
    Network(read.folder, {port: change}).run(tmp_path / "dut")
    result = causes.trace(read, check.check_dut(read, tmp_path / "dut"))
    assert not result.untraced
    check_marks(result, {port: ""}, whole=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adapt step", "adapt classes"])
def test_what_rounds_by_words_names_them(name: str, made: Make) -> None:
    """Also copies of gamma and beta, which an inference makes once more when it folds them."""
    ports = made(name).ports
    drawn = [port.rounding["words"] for port in ports.values() if port.rounding.get("mode") == "stochastic"]
    assert drawn and all(words in ports for words in drawn)


@pytest.mark.slow
def test_a_fault_behind_a_port_that_was_not_compared_is_told_with_it(made: Make, tmp_path: Path) -> None:
    """The device's gWq is wrong and its file is missing: what is made of it may be right."""
    read = made("wageubn step")
    Network(read.folder, {"conv2/gWq": complemented}).run(tmp_path / "dut")
    (tmp_path / "dut" / "conv2.gWq.hex").unlink()
    result = causes.trace(read, check.check_dut(read, tmp_path / "dut"))
    own = [one for one in result.ports if one.own]
    assert own and all("conv2/gWq" in one.assumes for one in own)
    assert ": its own fault, if right is what was not compared: conv2/gWq" in port_text(own[0])


@pytest.mark.slow
def test_elements_with_faults_of_their_own_are_the_ones_that_are_shown(made: Make, tmp_path: Path) -> None:
    """A device whose fc1/x1 follows from a wrong Wq, but for one element that has a wrong bit as well."""
    read = made("wageubn step")
    Network(read.folder, {"fc1/Wq": truncated}).run(tmp_path / "dut")
    at, file = read.ports["fc1/x1"].words - 1, tmp_path / "dut" / "fc1.x1.hex"
    words = file.read_text().split()
    words[at] = f"{int(words[at], 16) ^ 4:0{len(words[at])}x}"
    file.write_text("\n".join(words))
    result = causes.trace(read, check.check_dut(read, tmp_path / "dut"))
    found = next(one for one in result.ports if one.port.name == "fc1/x1")
    assert found.own == 1 < found.wrong and found.follows == ("fc1/Wq",)
    assert [(one.word, one.got ^ one.want) for one in found.mismatches] == [(at, 4)]
    assert " more" not in port_text(found)


@pytest.mark.slow
def test_what_follows_through_a_constant_is_found_and_nothing_from_later(tmp_path: Path) -> None:
    """A wrong beta moves the next step's betaq, whose elements are all alike in the pack."""
    run = run_folder.build("adapt", {}, "lenet5", "digits", batch_size=2, seed=1)
    run.train(1)
    read = pack.read(pack.write(network.draft(run, 2, advance), tmp_path / "chain"))
    assert read.ports["step3/bn4/betaq"].direction == "trail"
    device = causes._Device(read, [])
    graph = causes.Reads(device, list(Replay(device, device.change).steps()))
    outs = {port.name for port in read.ports.values() if port.direction == "out"}
    root, end = "step2/bn4/beta", "step3/bn4/x3"
    assert graph.behind(end, {root}, outs - {root, end}) == (root,)
    assert graph.behind("step2/bn4/gbeta", {"step2/fc3/e4"}, set()) == ("step2/fc3/e4",)
    for later in ("step2/fc3/e4", root, end):  # on the way back, by the update, in the next step
        assert graph.behind("step2/bn4/mu", {later}, set()) == ()


class LastWins(Network):
    """Of equal ones the last wins a window: no maximum is wrong, but errors go elsewhere."""

    def max_pool(self, layer: str, x: T) -> T:
        made, windows = super().max_pool(layer, x), self.places(layer, x.shape)[1]
        self.won[layer] = [max(window, key=lambda i: (x.values[i], i)) for window in windows]
        return made


class Halved(Network):
    """A softmax that is wrong in its last bit; the error is made from it."""

    def keep(self, name: str, value: Any) -> T:
        if name == "loss/p":
            value = T(value.shape, [v * (1 + Fraction(1, 2**22)) for v in value.values])
        return super().keep(name, value)


@pytest.mark.slow
@pytest.mark.parametrize(("device", "root"), [(LastWins, {"relu1/e0", "relu2/e0"}), (Halved, {"loss/p"})])
def test_faults_of_pools_and_of_the_loss(
    device: type[Network], root: set[str], made: Make, tmp_path: Path
) -> None:
    read = made("wageubn step")
    device(read.folder).run(tmp_path / "dut")
    result = causes.trace(read, check.check_dut(read, tmp_path / "dut"))
    bad = [one for one in result.ports if one.status != "pass"]
    own = {one.port.name for one in bad if one.own}
    assert own and own <= root
    assert all(one.own == 0 and set(one.follows) <= own for one in bad if one.port.name not in own)


# -- on the command line ---------------------------------------------------------------------------------


NEW = ("--method", "wageubn", "--model", "mlp", "--data", "digits", "--batch-size", 4)


@pytest.mark.slow
def test_from_a_run_folder_and_from_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert here(capsys, "train", *NEW, "--steps", 2, "--out", tmp_path / "run")[0] == 0
    for kind in (("--network",), ("--inference", 3)):
        folders = [tmp_path / f"{kind[0]}{k}" for k in range(2)]
        told = [here(capsys, "golden", tmp_path / "run", *kind, "--out", folders[0])]
        told.append(here(capsys, "golden", *NEW, "--step", 3, *kind, "--out", folders[1]))
        assert [one[0] for one in told] == [0, 0]
        sums = [(folder / "SHA256SUMS").read_text() for folder in folders]
        assert sums[0] == sums[1]
        ports = json.loads((folders[0] / "PACK.json").read_text())["ports"]
        words = sum(port["words"] for port in ports)
        assert f"the whole network takes {len(ports)} ports, {words:,} words, " in told[0][2]
        assert here(capsys, "check", folders[0])[0] == 0


REFUSED: list[tuple[tuple[Any, ...], str]] = [
    ((*NEW,), "give --layer PATTERN, which layers the pack holds, --network"),
    ((*NEW, "--network", "--layer", "fc2"), "give --layer PATTERN"),
    ((*NEW, "--network", "--inference", 2), "give --layer PATTERN"),
    ((*NEW, "--inference", 2, "--steps", 2), "--steps is a chain of training steps: an inference has none"),
    ((*NEW, "--inference", 99999, "--step", 2), "--inference 99999: digits has 359 test images"),
    ((*NEW, "--inference", 2), "no running statistics yet; train a step first"),
    (("unit", "quantize_sq", "--level", 0, "--network"), "--network is for a pack of layers, not of a unit"),
]


@pytest.mark.parametrize(("words", "why"), REFUSED, ids=[why[:24] for _, why in REFUSED])
def test_refused_with_the_reason(
    words: tuple[Any, ...], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = here(capsys, "golden", *words, "--out", tmp_path / "no")
    assert status == 2 and why in " ".join(err.split()) and not (tmp_path / "no").exists()


def test_too_large_a_network_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "MOST", 1000)
    run = run_folder.build("wageubn", {}, "mlp", "digits", batch_size=2)
    with pytest.raises(PackError, match=r"[\d,]+ results .* are more than the 1,000 .*: take fewer"):
        network.draft(run, 1, advance)


def test_a_method_without_a_definition_has_no_inference(tmp_path: Path) -> None:
    with forgotten(tmp_path):

        @methods.register("mine")
        class Mine(methods.METHODS["wageubn"]):  # type: ignore[misc]
            pass

        run = run_folder.build("mine", {}, "mlp", "digits", batch_size=2)
        run.train(1)
        with pytest.raises(ConfigError, match=r"method 'mine' names no definition, `spec`, which"):
            network.inference(run, 1)


def test_a_layer_may_not_be_called_as_the_loss() -> None:
    run = run_folder.build("float32", {}, "mlp", "digits", batch_size=2)
    run.model.all_layers()[0].name = "loss"
    with pytest.raises(PackError, match="layer loss: a pack of a whole network has another use"):
        network.draft(run, 1, advance)


# -- damaged -----------------------------------------------------------------------------------------------


def forged(read: pack.Pack, folder: Path, change: Callable[[Any], None]) -> pack.Pack:
    """A copy whose PACK.json says something else, with the sums to it."""
    import hashlib

    shutil.copytree(read.folder, folder)
    manifest = json.loads((folder / "PACK.json").read_text())
    change(manifest)
    text = json.dumps(manifest, indent=1) + "\n"
    (folder / "PACK.json").write_text(text)
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    sha = hashlib.sha256(text.encode()).hexdigest()
    lines = [f"{sha}  PACK.json" if line.endswith("  PACK.json") else line for line in lines]
    (folder / "SHA256SUMS").write_text("\n".join(lines) + "\n")
    return pack.read(folder)


def entries(manifest: Any) -> dict[str, Any]:
    return {one["layer"]: one for one in manifest["about"]["replay"][0]["layers"]}


DAMAGED: dict[str, Callable[[Any], Any]] = {
    "no loss": lambda m: m["about"]["replay"][0]["layers"].pop(),
    "no labels": lambda m: entries(m)["loss"]["before"].clear(),
    "no step": lambda m: m["about"]["replay"].clear(),
    "no first layer": lambda m: entries(m)["conv1"].update(sources=[["output", "fc3"]]),
    "another kind": lambda m: entries(m)["loss"].update(kind="max_pool"),
    "another model": lambda m: m["generator"].update(model="mlp"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_packs_are_named_or_differ(name: str, made: Make, tmp_path: Path) -> None:
    read = forged(made("wageubn step"), tmp_path / "forged", DAMAGED[name])
    for again in (check.recompute, recompute):
        try:
            status = again(read).exit_status
        except PackError as error:
            assert str(read.folder) in str(error)
        else:
            assert status == 1 or (again is recompute and name == "no step")


@pytest.mark.slow
def test_another_wiring_differs(made: Make, tmp_path: Path) -> None:
    def crossed(manifest: Any) -> None:
        entries(manifest)["relu3"]["errors"] = [["handed", "fc3"]]

    read = forged(made("wageubn step"), tmp_path / "crossed", crossed)
    assert check.recompute(read).exit_status == 1
    with pytest.raises(PackError, match="crossed"):
        recompute(read)
