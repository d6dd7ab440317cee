"""intnet check without a device: a pack is run again from its own inputs, and every lie in it is found."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from intnet.errors import PackError
from intnet.numbers.qtensor import QTensor
from intnet.packs import check, contract, hdl, layers, pack, units
from intnet.runs import run_folder
from tests.support.forging import forge, seal
from tests.support.plain_pack import Plain


@pytest.fixture(scope="module")
def packs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pack.Pack]:
    """A layer alone, and with batch norm and ReLU, whose values it then reads."""
    root, made = tmp_path_factory.mktemp("packs"), {}
    for name, names in (("alone", ["fc2"]), ("block", ["fc2", "bn2", "relu2"])):
        run = run_folder.build("wageubn", {}, "mlp", "digits", batch_size=16)
        run.train(2)
        made[name] = pack.read(pack.write(layers.draft(run, names), root / name))
    return made


@pytest.fixture
def block(packs: dict[str, pack.Pack]) -> pack.Pack:
    return packs["block"]


@pytest.fixture
def alone(packs: dict[str, pack.Pack]) -> pack.Pack:
    return packs["alone"]


@pytest.mark.slow
def test_a_pack_that_is_what_it_says(packs: dict[str, pack.Pack], tmp_path: Path) -> None:
    unit = pack.write(units.draft("mac_requant", "L0", {}), tmp_path / "unit")
    for read in (*packs.values(), pack.read(unit)):
        result = check.recompute(read)
        assert result.exit_status == 0 and result.words > 40 and not result.problems
        assert len(result.ports) == len(read.ports)


METHODS = [("adapt", "24"), ("adapt", "25"), ("muppet", "8"), ("muppet", "12")]  # before, in a switch; WL


@pytest.mark.slow
@pytest.mark.parametrize(("method", "at"), METHODS)
def test_a_pack_of_a_method_that_remembers(method: str, at: str, tmp_path: Path) -> None:
    """From the pack alone; every lie about what the method knew is found where it changes a word."""
    options = {"rop": 9} if method == "adapt" else {}
    run = run_folder.build(method, options, "mlp", "digits", batch_size=16)
    run.train(int(at) - 1 if method == "adapt" else 2)
    if at == "12":
        run.method.state["level"] = QTensor(np.array([1], np.int32), 0)
    folder = pack.write(layers.draft(run, ["fc2", "bn2", "relu2"]), tmp_path / "pack")
    read = pack.read(folder)
    assert ("fc2/push_down.words" in read.ports) == (at == "25")
    result = check.recompute(read)
    assert result.exit_status == 0 and len(result.ports) == len(read.ports) and not result.problems
    lie = {"adapt": ("plateau", [0.5, 1, 0]), "muppet": ("level", [2])}[method]
    manifest = json.loads((folder / "PACK.json").read_text())
    manifest["about"]["replay"][0]["method"][lie[0]]["values"] = lie[1]
    (folder / "PACK.json").write_text(json.dumps(manifest, indent=1) + "\n")
    (folder / "CONTRACT.md").write_text(contract.text(manifest))
    seal(folder)
    result = check.recompute(pack.read(folder))
    wrong = {port.port.name for port in result.ports if port.wrong}
    assert result.exit_status == 1
    assert wrong == {"fc2/W", "bn2/gamma", "bn2/beta"} if method == "adapt" else result.problems
    del manifest["about"]["replay"][0]["method"][lie[0]]
    (folder / "PACK.json").write_text(json.dumps(manifest, indent=1) + "\n")
    (folder / "CONTRACT.md").write_text(contract.text(manifest))
    seal(folder)
    with pytest.raises(PackError, match="cannot be run again"):
        check.recompute(pack.read(folder))


@pytest.mark.slow
def test_a_forged_word_is_found_by_recomputing(block: pack.Pack, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(block.folder, tmp_path / "forged"))
    codes = Plain(folder).values("relu2/x4")
    codes[70] += 1
    forge(folder, "relu2/x4", codes)
    result = check.recompute(pack.read(folder))
    (bad,) = [port for port in result.ports if port.wrong]
    assert (bad.port.name, bad.mismatches[0].index, result.exit_status) == ("relu2/x4", (1, 6), 1)
    assert bad.mismatches[0].got == bad.mismatches[0].want + 1


def test_a_forged_text_is_found_by_recomputing(block: pack.Pack, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(block.folder, tmp_path / "forged"))
    for name in ("CONTRACT.md", "cases.csv"):
        (folder / name).write_text((folder / name).read_text().replace("fc2", "fc3"))
    seal(folder)
    problems = check.recompute(pack.read(folder)).problems
    assert problems == ["CONTRACT.md is not what its contents say", "cases.csv is not what its contents say"]


LIES: dict[str, tuple[str, dict]] = {
    "an exponent of an input": ("fc2/e3.e1", {"exponent": -13}),
    "axes of an input": ("fc2/x0", {"axes": "C,N"}),
    "what an input means": ("fc2/W.old", {"meaning": "Wq"}),
    "limits of a result": ("fc2/Accq", {"rounding": {}}),
}


@pytest.mark.slow
@pytest.mark.parametrize("lie", LIES)
def test_a_forged_description_is_found_by_recomputing(lie: str, alone: pack.Pack, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(alone.folder, tmp_path / "forged"))
    manifest = json.loads((folder / "PACK.json").read_text())
    name, change = LIES[lie]
    next(port for port in manifest["ports"] if port["name"] == name).update(change)
    (folder / "PACK.json").write_text(json.dumps(manifest, indent=1) + "\n")
    (folder / "CONTRACT.md").write_text(contract.text(manifest))
    for file, text in hdl.files(manifest).items():
        (folder / file).write_text(text)
    seal(folder)
    result = check.recompute(pack.read(folder))
    assert result.exit_status == 1
    assert f"PACK.json does not describe {name} as the recomputation does" in result.problems


def test_an_input_that_cannot_be_is_one_clear_error(alone: pack.Pack, tmp_path: Path) -> None:
    for codes in ([0] * 64, [-5] * 64):
        folder = Path(shutil.copytree(alone.folder, tmp_path / f"forged{codes[0]}"))
        forge(folder, "fc2/e3.denominator", codes)
        with pytest.raises(PackError, match="a denominator is positive"):
            check.recompute(pack.read(folder))
    folder = Path(shutil.copytree(alone.folder, tmp_path / "epoch"))
    manifest = json.loads((folder / "PACK.json").read_text())
    manifest["about"]["replay"][0]["epoch"] = -1
    (folder / "PACK.json").write_text(json.dumps(manifest))
    seal(folder)
    with pytest.raises(PackError, match="cannot be run again"):
        check.recompute(pack.read(folder))


@pytest.mark.slow
def test_a_pack_of_a_rate_that_moves_within_epochs(tmp_path: Path) -> None:
    """AdamW after a clip, in the midst of a warmup: the step's place in its epoch is in the pack."""
    levers = {"optimizer": "adamw", "weight_decay": 0.1, "warmup": 2, "cosine": 1, "clip": 0.5}
    run = run_folder.build("adapt", levers, "mlp", "digits", batch_size=16, limit=64)
    run.train(2)
    folder = pack.write(layers.draft(run, ["fc2", "bn2", "relu2"], steps=2), tmp_path / "pack")
    read = pack.read(folder)
    assert {"step3/fc2/mW", "step3/fc2/vW", "step3/fc2/gWc", "step3/fc2/m.old"} <= set(read.ports)
    result = check.recompute(read)
    assert result.exit_status == 0 and len(result.ports) == len(read.ports) and not result.problems
    manifest = json.loads((folder / "PACK.json").read_text())
    assert [step["steps_per_epoch"] for step in manifest["about"]["replay"]] == [4, 4]
    manifest["about"]["replay"][0]["steps_per_epoch"] = 5
    (folder / "PACK.json").write_text(json.dumps(manifest, indent=1) + "\n")
    seal(folder)
    result = check.recompute(pack.read(folder))
    wrong = {port.port.name for port in result.ports if port.wrong}
    assert {"step3/fc2/W", "step3/bn2/gamma", "step3/bn2/beta"} <= wrong
    assert not wrong & {"step3/fc2/mW", "step3/fc2/vW"}


def test_a_pack_that_does_not_say_how_it_was_made(block: pack.Pack, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(block.folder, tmp_path / "forged"))
    for change, message in (
        ({"kind": "magic"}, "generator.kind is 'magic'; this intnet makes layers, network, inference, unit"),
        ({"kind": "layers"}, "cannot be run again"),
    ):
        manifest = json.loads((folder / "PACK.json").read_text())
        manifest["generator"] = change
        (folder / "PACK.json").write_text(json.dumps(manifest))
        seal(folder)
        with pytest.raises(PackError, match=message):
            check.recompute(pack.read(folder))
