"""check --by spec: packs of every method and unit again by the definition, and every lie in them named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet import layers as net_layers
from intnet.errors import PackError
from intnet.exact import quantize
from intnet.inspect import as_spec
from intnet.layers import joints
from intnet.numbers import rng
from intnet.numbers.formats import Shift
from intnet.numbers.qtensor import QTensor
from intnet.numbers.rounding import Rounding, mode_code
from intnet.packs import check, layers, pack, units
from intnet.packs.by_spec import trails
from intnet.packs.by_spec.recompute import recompute
from intnet.packs.check import Result
from intnet.runs import run_folder
from tests.support.command import here, refused
from tests.support.forging import forge, seal
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
        model: str = "mlp",
        names: tuple[str, ...] = BLOCK,
        step: int = 2,
        batch: int = 3,
        steps: int = 1,
        **options: str,
    ) -> Path:
        run = run_folder.build(method, options, model, "digits", batch_size=batch)
        run.train(step - 1)
        return pack.write(layers.draft(run, names, steps), root / str(len(list(root.iterdir()))))

    return write


@pytest.mark.slow
@pytest.mark.parametrize("method", ["adapt", "wageubn"])
def test_a_step_of_a_later_epoch(method: str, tmp_path: Path) -> None:
    """Training goes on there: words are drawn, and the learning rate is that of the epoch."""
    options = {"wageubn": {"lr": "26,13@1"}, "adapt": {"lr": "0.02,0.01@1"}}[method]
    run = run_folder.build(method, options, "mlp", "digits", batch_size=3, limit=6)
    run.train(3)
    read = pack.read(pack.write(layers.draft(run, ["fc2", "bn2"]), tmp_path / "later"))
    assert read.manifest["about"]["replay"][0]["epoch"] == 1
    equal(recompute(read))


def equal(result: Result) -> None:
    """Nothing wrong, and of all but the inputs nothing left out."""
    told = [port.port.name for port in result.ports if port.status != "pass"]
    assert (told, list(result.problems), dict(result.unknown)) == ([], [], {})
    judged = {port.port.name for port in result.ports}
    assert judged >= {name for name, port in result.pack.ports.items() if port.direction != "in"}
    assert result.exit_status == 0 and result.kind == "spec" and result.seconds > 0


# -- what is right ---------------------------------------------------------------------------------

PACKS: list[tuple[str, str, tuple[str, ...], dict[str, str]]] = [
    ("wageubn", "mlp", BLOCK, {}),
    ("wageubn", "mlp", ("fc1", "bn1", "fc3"), {"edges": "fixed16", "e2": "16"}),
    ("wageubn", "lenet5", ("conv1", "bn1", "relu1", "fc3"), {"saturate": "3", "weight_decay": "12"}),
    ("wageubn", "resnet8", ("layer2.0.conv1", "layer2.0.downsample.0"), {}),
    ("wageubn", "resnet8", ("conv1", "bn1", "relu1", "fc"), {"first": "block", "weight_decay": "5"}),
    ("float32", "mlp", BLOCK, {}),
    ("float32", "lenet5", ("conv1", "bn1", "fc3"), {}),
    ("adapt", "mlp", BLOCK, {"accs": "2", "l1": "0.001"}),
    ("adapt", "lenet5", ("conv1", "bn1", "relu1", "fc3"), {}),
    ("muppet", "mlp", (*BLOCK, "fc3"), {}),
    ("dynasty", "mlp", BLOCK, {}),
    ("dynasty", "lenet5", ("conv1", "bn1", "relu1", "fc3"), {"forward_dynamic": "weight", "bits": "2"}),
    ("saved", "mlp", BLOCK, {}),
    ("saved", "mlp", BLOCK, {"bits": "2/4", "codec": "affine", "bucket": "64"}),
    ("saved", "mlp", BLOCK, {"bits": "2", "codec": "levels", "norm": "l2", "momentum": "0.5"}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "model", "names", "options"), PACKS)
def test_every_method(
    method: str, model: str, names: tuple[str, ...], options: dict[str, str], written: Write
) -> None:
    equal(recompute(pack.read(written(method, model, names, **options))))


@pytest.mark.slow
def test_a_chain_in_which_a_precision_moves(written: Write) -> None:
    """AdaPT's lookback is full at step 25: PushDown's words, the new precision, and a step that reads it."""
    read = pack.read(written("adapt", step=24, batch=8, steps=3))
    assert "step25/fc2/push_down.words" in read.ports
    told: list[str] = []
    result = recompute(read, told.append)
    equal(result)
    assert sorted(told) == sorted(name for name, p in read.ports.items() if p.direction != "in")


@pytest.mark.slow
def test_adamw_within_a_warmup(written: Write) -> None:
    levers = {"optimizer": "adamw", "weight_decay": "0.1", "warmup": "2", "cosine": "1", "clip": "0.5"}
    equal(recompute(pack.read(written("adapt", steps=2, **levers))))


@pytest.mark.slow
def test_a_word_length_that_moved_and_float32_behind_it(tmp_path: Path) -> None:
    run = run_folder.build("muppet", {}, "mlp", "digits", batch_size=3)
    for level in (1, 4):
        run.method.state["level"] = QTensor(np.array([level], np.int32), 0)
        equal(recompute(pack.read(pack.write(layers.draft(run, BLOCK), tmp_path / str(level)))))


UNITS = [(name, level) for name in units.UNITS for level in ("L0", "L1", "L2")]
UNITS += [("quantize_cq", "L3"), ("quantize_q", "L4"), ("block_dot", "L4")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "level"), UNITS)
def test_every_unit(name: str, level: str, tmp_path: Path) -> None:
    result = recompute(pack.read(pack.write(units.draft(name, level, {}), tmp_path / "pack")))
    if name != "quantize_cq" or level not in ("L0", "L1"):
        equal(result)
        return
    assert dict(result.unknown) == {"word": "chosen around the thresholds of the results: taken as it is"}
    assert result.exit_status == 0 and not result.problems


def test_words_of_a_shift_register(tmp_path: Path) -> None:
    equal(recompute(pack.read(pack.write(units.draft("quantize_cq", "L0", {"lfsr": 7}), tmp_path / "pack"))))


# -- what is not -----------------------------------------------------------------------------------

DAMAGED = [
    "fc2/x1", "fc2/gW", "bn2/mu", "bn2/sigma", "bn2/x3", "relu2/x4", "fc2/e3", "fc2/W", "bn2/Accq_gamma",
    "bn2/running_mean", "fc2/gW.words", "fc2/e3.remainder", "bn2/sigma.floor", "fc2/gWq.presat",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", DAMAGED)
def test_one_word_that_is_wrong_is_named(name: str, written: Write, tmp_path: Path) -> None:
    """In any file: a result, a random word, state, the trail; else only what another layer makes of it."""
    folder = Path(shutil.copytree(written("wageubn"), tmp_path / "forged"))
    plain = Plain(folder)
    codes = plain.values(name)
    codes[5] ^= 1
    forge(folder, name, codes)
    result = recompute(pack.read(folder))
    bad = {port.port.name: port for port in result.ports if port.wrong}
    assert name in bad and result.exit_status == 1
    assert len(bad) == 1 or (
        name == "fc2/x1" and all(other.startswith("bn2/") for other in bad if other != name)
    )
    (mismatch,) = bad[name].mismatches
    shape = plain.ports[name]["shape"]
    assert mismatch.index == tuple(int(i) for i in np.unravel_index(5, shape))
    assert mismatch.got == codes[5] != mismatch.want
    assert ("floor" in mismatch.way) == (f"{name}.floor" in plain.ports)


@pytest.mark.slow
def test_a_word_that_entered_wrongly_is_named(written: Write, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(written("wageubn"), tmp_path / "forged"))
    source = Plain(folder).ports["bn2/m1"]["rounding"]["source"]
    name = source["terms"][0]["port"]
    codes = Plain(folder).values(name)
    codes[5] ^= 1
    forge(folder, name, codes)
    result = recompute(pack.read(folder))
    assert any(text.startswith("bn2/m1 (C=5): ") for text in result.problems) and result.exit_status == 1


LIES: dict[str, tuple[str, dict[str, Any], str]] = {
    "mode": ("fc2/e3", {"mode": "to_pos"}, "the mode to_pos, the definition ties_even"),
    "grid": ("fc2/e3", {"grid": 3}, "the grid 2^3, the definition"),
    "limits": ("relu2/e0", {"high": 126}, "the limits -127..126, the definition"),
}


@pytest.mark.slow
@pytest.mark.parametrize("lie", LIES)
def test_what_is_said_of_a_rounding(lie: str, written: Write, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(written("wageubn"), tmp_path / "forged"))
    name, change, message = LIES[lie]
    manifest = json.loads((folder / "PACK.json").read_text())
    next(port for port in manifest["ports"] if port["name"] == name)["rounding"].update(change)
    (folder / "PACK.json").write_text(json.dumps(manifest, indent=1) + "\n")
    seal(folder)
    (problem,) = recompute(pack.read(folder)).problems
    assert problem.startswith(f"{name}: PACK.json has ") and message in problem


@pytest.mark.slow
def test_aliases_and_digests(written: Write, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(written("wageubn", steps=2), tmp_path / "forged"))
    manifest = json.loads((folder / "PACK.json").read_text())
    assert manifest["about"]["aliases"]["step2/bn2/e1"] == "step2/relu2/e1"
    manifest["about"]["aliases"]["step2/bn2/e1"] = "step2/relu2/e0"
    manifest["about"]["chain"][1]["sha256"] = "0" * 64
    (folder / "PACK.json").write_text(json.dumps(manifest, indent=1) + "\n")
    seal(folder)
    assert recompute(pack.read(folder)).problems == [
        "step2/bn2/e1 is not step2/relu2/e0, as PACK.json says, by the definition",
        "the digest of step 3 is not that of its expected words",
    ]


def floored(x: Any, format: Shift, rounding: Rounding) -> QTensor:
    """SQ that rounds down."""
    return quantize._shift(x, format, rounding._replace(mode=mode_code("to_neg")))


@pytest.mark.slow
def test_a_fault_of_the_fast_code_is_in_the_pack_and_only_the_definition_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first path that is wrong is named first; what follows from it is wrong too."""
    run = run_folder.build("wageubn", {"e2": "16"}, "mlp", "digits", batch_size=3)
    monkeypatch.setitem(quantize._QUANTIZERS, Shift, floored)
    run.train(1)
    read = pack.read(pack.write(layers.draft(run, BLOCK), tmp_path / "pack"))
    assert check.recompute(read).exit_status == 0
    result = recompute(read)
    bad = [port.port.name for port in result.ports if port.wrong]
    assert result.exit_status == 1 and {"fc2/e3", "relu2/e0"} <= set(bad)
    assert "fc2/x1" not in bad and "relu2/x4" not in bad


@pytest.mark.slow
def test_words_drawn_wrongly_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = rng.words
    monkeypatch.setattr(rng, "words", lambda *args, **more: right(*args, **more) ^ np.uint32(1))
    run = run_folder.build("wageubn", {}, "mlp", "digits", batch_size=3)
    read = pack.read(pack.write(layers.draft(run, ["fc2"]), tmp_path / "pack"))
    assert check.recompute(read).exit_status == 0
    bad = [port.port.name for port in recompute(read).ports if port.wrong]
    assert "fc2/gW.words" in bad and "fc2/gW" not in bad


# -- the command -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_the_definition_does_not_have_is_listed(
    written: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds = {cls: kind for cls, kind in as_spec.KINDS.items() if cls is not net_layers.ReLU}
    monkeypatch.setattr(as_spec, "KINDS", kinds)
    folder = written("wageubn")
    status, out, _ = here(capsys, "check", folder, "--by", "spec")
    why = "the definition has no layer of the class ReLU"
    assert status == 0 and f"NOT RECOMPUTED, {why}; what its operation names" in out and "relu2/x4, " in out
    assert "\nPASS: " in out and "words of the definition are equal, in " in out
    status, out, _ = here(capsys, "check", folder, "--by", "spec", "--json")
    told = json.loads(out)
    assert (status, told["compared"], told["status"]) == (0, "spec", "pass")
    assert told["not_recomputed"]["relu2/e0"].startswith(why) and told["seconds"] > 0
    judged = {port["port"] for port in told["ports"]}
    assert not judged & told["not_recomputed"].keys() and {"fc2/e3", "bn2/sigma"} <= judged


@pytest.mark.slow
def test_where_nothing_is_compared_nothing_passes(
    written: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(as_spec, "KINDS", {})
    status, out, _ = here(capsys, "check", written("wageubn"), "--by", "spec")
    assert status == 2 and "\nNOTHING COMPARED: " in out and "PASS" not in out


@pytest.mark.slow
def test_a_difference_is_told_with_its_trail(
    written: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(written("wageubn"), tmp_path / "forged"))
    codes = Plain(folder).values("fc2/gWq")
    codes[5] += 1
    forge(folder, "fc2/gWq", codes)
    status, out, _ = here(capsys, "check", folder, "--by", "spec")
    assert status == 1 and "fc2/gWq: 1 of 4,096 elements differ" in out
    assert "scaled = " in out and "random word " in out and "stochastic: " in out


def test_one_of_both_is_asked_for(written: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = written("wageubn")
    assert "give one" in refused(capsys, "check", folder, "--by", "spec", "--dut", tmp_path)
    assert "invalid choice: 'oracle'" in here(capsys, "check", folder, "--by", "oracle")[2]


@pytest.mark.slow
def test_a_pack_that_cannot_be_run(written: Write, tmp_path: Path) -> None:
    for key, value, message in (
        ("kind", "magic", "generator.kind is 'magic'; the definition has layers, network, inference, unit"),
        ("options", {"e2": "9", "color": "red"}, "cannot be run by the definition"),
    ):
        folder = Path(shutil.copytree(written("wageubn"), tmp_path / key))
        manifest = json.loads((folder / "PACK.json").read_text())
        manifest["generator"][key] = value
        (folder / "PACK.json").write_text(json.dumps(manifest))
        seal(folder)
        with pytest.raises(PackError, match=message):
            recompute(pack.read(folder))


def test_every_layer_that_a_pack_can_hold_has_a_kind() -> None:
    classes = {
        cls for module in (net_layers, joints) for cls in vars(module).values() if isinstance(cls, type)
    }
    own = {cls for cls in classes if issubclass(cls, net_layers.Layer) and cls is not net_layers.Layer}
    groups = {net_layers.Sequential, joints.SqueezeExcitation}
    assert own - groups == as_spec.KINDS.keys()


def test_the_remainder_is_32_bits_and_a_sticky_one() -> None:
    from fractions import Fraction as F

    assert [trails.remainder(F(*v)) for v in ((0, 1), (1, 2), (1, 2**32), (1, 2**33), (1, 3))] == [
        0, 1 << 32, 2, 1, 0x55555555 << 1 | 1,
    ]  # fmt: skip


@pytest.mark.slow
def test_a_forged_part_of_what_a_layer_hands_on_is_found(written: Write, tmp_path: Path) -> None:
    """sigma + eps in e3 is no input: PACK.json must say of it what the definition made."""
    folder = tmp_path / "forged"
    shutil.copytree(written("wageubn"), folder)
    plain = Plain(folder)
    for name in ("fc2/e3.denominator", "relu2/x.x2.factor"):
        assert plain.ports[name]["direction"] == "trail"
        codes = plain.values(name)
        forge(folder, name, [codes[0] + 1, *codes[1:]])
    result = recompute(pack.read(folder))
    told = " ".join(result.problems)
    assert "enters fc2 by PACK.json" in told and "enters relu2 by PACK.json" in told
    assert {"fc2/e3.denominator", "relu2/x.x2.factor"} <= set(result.unknown) and result.exit_status == 1
