"""A device written from CONTRACT.md alone gives every word; faults put into it are named at their port.

`tests/support/contract_device.py` and `contract_device32.py` import nothing of intnet: here they get a folder
with CONTRACT.md, in/ and rnd/, and `check` judges what they write.
"""

import ast
import shutil
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from intnet.cli.main import main
from intnet.packs import causes, check, layers, pack
from intnet.packs.check import Result
from intnet.runs import run_folder
from tests.support import contract_device, contract_device32, contract_network, contract_page
from tests.support.contract_device import Device, Round, limited, rounded
from tests.support.contract_device32 import Device32, Sums
from tests.support.devices import check_marks, complemented, given, minus, truncated
from tests.support.narrow_nets import RESNET8, RESNET8_BLOCKS, RESNET8_MOVED

STRIDED, PADDED = "layer2.0.", "layer1.0."
THREE = ("conv1", "bn1", "relu1")
BRANCHES = (*THREE, "conv2", "bn2", "downsample.0", "downsample.1", "relu2")
Make = Callable[..., pack.Pack]

PACKS = {  # method, options, model, layers; all with padding
    "stride 2, e2 in 9 bits": (
        "wageubn", {"e2": "flag8"}, RESNET8_BLOCKS, [STRIDED + name for name in THREE],
    ),
    "stride 1, e2 in 16 bits": ("wageubn", {"e2": "16"}, RESNET8, [PADDED + name for name in THREE]),
    "two branches, one of them 1x1": (
        "wageubn", {"e2": "flag8"}, RESNET8, [STRIDED + name for name in BRANCHES],
    ),
    "an identity as a branch": (
        "wageubn", {"e2": "16"}, RESNET8,
        ["relu1", *(PADDED + name for name in (*THREE, "conv2", "bn2", "relu2"))],
    ),
    "float32": ("float32", {}, RESNET8_BLOCKS, [STRIDED + name for name in THREE]),
    "float32, an identity": (
        "float32", {}, RESNET8, [PADDED + name for name in (*THREE, "conv2", "bn2", "relu2")],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """A pack of PACKS, read; written once."""
    root, held = tmp_path_factory.mktemp("packs"), {}

    def make(name: str) -> pack.Pack:
        if name not in held:
            method, options, model, chosen = PACKS[name]
            run = run_folder.build(method, options, model, "digits", batch_size=2)
            run.train(1)
            held[name] = pack.read(pack.write(layers.draft(run, chosen), root / str(len(held))))
        return held[name]

    return make


def device_of(name: str) -> type[Device] | type[Device32]:
    return Device32 if name.startswith("float32") else Device


def judged(read: pack.Pack, device: Device | Device32, folder: Path) -> Result:
    """What `intnet check` says, with causes."""
    device.run(folder)
    result = causes.trace(read, check.check_dut(read, folder))
    assert not result.untraced
    return result


# -- it gives every word ---------------------------------------------------------------------------


def test_the_device_knows_nothing_of_intnet() -> None:
    for module in (contract_device, contract_device32, contract_network, contract_page):
        text = Path(str(module.__file__)).read_text()
        names = [
            name
            for node in ast.walk(ast.parse(text))
            for name in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [str(node.module)]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        ]
        assert names and not [name for name in names if name.split(".")[0] in ("intnet", "numpy")]
        assert "PACK.json" not in text.replace("opens no PACK.json", "") and '"exp"' not in text.replace(
            '"Expected": "exp"', ""
        ).replace('.way == "exp"', "")


@pytest.mark.slow
@pytest.mark.parametrize("name", PACKS)
def test_every_word_from_the_page_alone(
    name: str, made: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    read = made(name)
    device_of(name)(given(read, tmp_path / "seen")).run(tmp_path / "dut")
    assert main(["check", str(read.folder), "--dut", str(tmp_path / "dut")]) == 0
    ports = [port for port in read.ports.values() if port.direction == "out"]
    words = sum(port.words for port in ports)
    assert f"PASS: {len(ports)} ports, {words:,} words of the device are equal" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("name", PACKS)
def test_a_device_reads_nothing_that_it_makes_itself(name: str, made: Make) -> None:
    """Inputs are the state, what comes in at the ends of the graph, and nothing else."""
    read = made(name)
    ends, state = [], []
    for one in read.manifest["about"]["replay"][0]["layers"]:
        state += [json["tensor"] for json in one["before"].values()]
        ends += [one["value"]] * (not one["sources"]) + [one["gradient"]] * (not one["errors"])
    parts = [part for end in ends for part in end.get("terms", [])]
    allowed = {*state, *(end["tensor"] for end in ends if "tensor" in end), *(part["port"] for part in parts)}
    allowed |= {part["factor"] for part in parts} | {end.get("offset") for end in ends}
    inputs = {port.name for port in read.ports.values() if port.direction == "in"}
    assert inputs <= allowed
    assert not {port for port in inputs if port.endswith(("denominator", "gammaq", "betaq"))}


def test_the_page_has_a_rule_or_a_row_for_every_result(made: Make) -> None:
    for name in list(PACKS)[:1]:
        read = made(name)
        page = (read.folder / "CONTRACT.md").read_text()
        rules = page.split("## Rules")[1].split("\n## ")[0]
        rows = page.split("## Where they come from")[1]
        for port in read.ports.values():
            layer, _, path = port.name.rpartition("/")
            told = f"- `{path}`" in rules.split(f"### {layer}\n")[-1].split("###")[0]
            row = next((line for line in rows.splitlines() if line.startswith(f"| `{port.name}` |")), "| - |")
            assert port.direction != "out" or told or not row.endswith("| - |"), port.name
            assert not port.meaning.rstrip().endswith(":"), port.name


# -- faults, one at a time ---------------------------------------------------------------------------


def half_up(scaled: Fraction, mode: str, word: int, low: int | None, high: int | None) -> int:
    return limited((scaled + Fraction(1, 2)).__floor__(), low, high)


def narrow(bits: int) -> Round:
    def device(scaled: Fraction, mode: str, word: int, low: int | None, high: int | None) -> int:
        half = 1 << bits - 1
        return (rounded(scaled, mode, word, low, high) + half) % (2 * half) - half

    return device


FAULTS: dict[str, tuple[str, Round, str]] = {
    "Wq truncates": ("conv1/Wq", truncated, "truncation (floor)"),
    "x1 wraps": ("conv1/x1", narrow(12), "wraps at 12 bits"),
    "mu truncates": ("bn1/mu", truncated, "truncation (floor)"),
    "sigma truncates": ("bn1/sigma", truncated, "truncation (floor)"),
    "x2 truncates": ("bn1/x2", truncated, "truncation (floor)"),
    "x3 negated": ("bn1/x3", minus, "negated"),
    "e0 truncates": ("relu1/e0", truncated, "truncation (floor)"),
    "m2 truncates": ("bn1/m2", truncated, "truncation (floor)"),
    "m1 negated": ("bn1/m1", minus, "negated"),
    "e2 negated": ("bn1/e2", minus, "negated"),
    "e3 truncates": ("conv1/e3", truncated, "truncation (floor)"),
    "gW wraps": ("conv1/gW", narrow(16), "wraps at 16 bits"),
    "gWq draws otherwise": ("conv1/gWq", complemented, "random word complemented"),
    "Accq truncates": ("conv1/Accq", truncated, "truncation (floor)"),
    "Accq ties up": ("bn1/Accq_gamma", half_up, "tie up (towards +infinity)"),
    "ggamma wraps": ("bn1/ggamma", narrow(10), "wraps at 10 bits"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_one_fault_is_named_and_the_rest_follows(fault: str, made: Make, tmp_path: Path) -> None:
    read = made("stride 2, e2 in 9 bits")
    path, change, name = FAULTS[fault]
    result = judged(read, Device(read.folder, {STRIDED + path: change}), tmp_path / "dut")
    check_marks(result, {STRIDED + path: name})
    assert result.ports[0].verdicts[0].name == name and not result.ports[0].follows


PAIRS = [
    ("mu truncates", "e3 truncates"),
    ("x2 truncates", "e0 truncates"),
    ("sigma truncates", "x2 truncates"),
    ("Wq truncates", "gWq draws otherwise"),
    ("x3 negated", "m1 negated"),
    ("e2 negated", "Accq truncates"),
]


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS, ids=" and ".join)
def test_two_faults_are_both_named(pair: tuple[str, str], made: Make, tmp_path: Path) -> None:
    read = made("stride 1, e2 in 16 bits")
    faults = {PADDED + FAULTS[one][0]: FAULTS[one][1] for one in pair}
    result = judged(read, Device(read.folder, faults), tmp_path / "dut")
    check_marks(result, {PADDED + FAULTS[one][0]: FAULTS[one][2] for one in pair})


@pytest.mark.slow
def test_a_fault_in_one_branch_follows_through_the_graph(made: Make, tmp_path: Path) -> None:
    read = made("two branches, one of them 1x1")
    result = judged(read, Device(read.folder, {STRIDED + "downsample.1/x3": minus}), tmp_path / "dut")
    check_marks(result, {STRIDED + "downsample.1/x3": "negated"})
    wrong = {port.port.name for port in result.ports if port.status != "pass"}
    assert STRIDED + "relu2/x4" in wrong and STRIDED + "bn2/x3" not in wrong


@pytest.mark.slow
def test_m1_and_m2_stay_on_the_grid_of_the_table(tmp_path: Path) -> None:
    """A fault ahead moves R(e2), and the grid that the rule gives them: the table's is no fault of theirs."""
    run = run_folder.build("wageubn", {"e2": "flag8"}, RESNET8_MOVED, "digits", batch_size=2)
    run.train(1)
    chosen = [STRIDED + name for name in BRANCHES]
    read = pack.read(pack.write(layers.draft(run, chosen), tmp_path / "pack"))
    result = judged(read, Device(read.folder, {STRIDED + "downsample.1/x3": minus}), tmp_path / "dut")
    check_marks(result, {STRIDED + "downsample.1/x3": "negated"})
    assert STRIDED + "bn1/m2" in {port.port.name for port in result.ports if port.status != "pass"}


@pytest.mark.slow
def test_what_is_told_on_the_command_line(
    made: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    read = made("stride 2, e2 in 9 bits")
    Device(read.folder, {STRIDED + "bn1/x2": truncated}).run(tmp_path / "dut")
    assert main(["check", str(read.folder), "--dut", str(tmp_path / "dut")]) == 1
    out = capsys.readouterr().out
    blocks = [block.splitlines()[0] for block in out.split("\n\n")[1:-1]]
    assert blocks[0].startswith(f"{STRIDED}bn1/x2: ") and blocks[0].endswith(
        " elements differ: its own fault"
    )
    assert len(blocks) > 5
    assert all(line.endswith(f" differ: follows from {STRIDED}bn1/x2") for line in blocks[1:])
    assert "diagnosis: truncation (floor): explains every word" in out and out.count("diagnosis:") == 1


# -- sums and float32 -----------------------------------------------------------------------


def saturating(bits: int) -> Callable[..., contract_device.T]:
    """x1 in an accumulator that limits after every product."""

    def forward(x0: contract_device.T, w: contract_device.T, at: dict[str, int]) -> contract_device.T:
        shape = contract_device.size_out(x0.shape, w.shape, at)
        (a, unit), (b, step) = contract_device.whole(x0), contract_device.whole(w)
        out, half = [0] * int(np.prod(shape)), 1 << bits - 1
        for i, j, k in contract_device.taps(x0.shape, w.shape, shape, at):
            out[k] = max(-half, min(half - 1, out[k] + a[i] * b[j]))
        return contract_device.T(shape, [v * unit * step for v in out])

    return forward


@pytest.mark.slow
def test_an_accumulator_that_saturates(made: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = made("stride 1, e2 in 16 bits")
    monkeypatch.setattr(contract_device, "conv_forward", saturating(13))
    result = judged(read, Device(read.folder), tmp_path / "dut")
    check_marks(result, {f"{PADDED}conv1/x1": "the accumulator saturates at 13 bits"})
    alone = check.check_dut(read, tmp_path / "dut", f"{PADDED}conv1/x1")
    assert causes.worth_it(alone)
    (port,) = causes.trace(read, alone).ports
    (verdict,) = port.verdicts
    assert verdict.whole and verdict.name == "the accumulator saturates at 13 bits"


ORDERS = {
    "a float sum whose products are rounded (no fused multiply-add)": Sums(fused=False),
    "a float sum in the opposite order": Sums(backwards=True),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ORDERS)
def test_another_order_of_float_sums_is_named_as_that(name: str, made: Make, tmp_path: Path) -> None:
    read = made("float32")
    result = judged(read, Device32(read.folder, ORDERS[name]), tmp_path / "dut")
    check_marks(result, {f"{STRIDED}conv1/{path}": name for path in ("x1", "e4", "gW")})


@pytest.mark.slow
@pytest.mark.parametrize("path", ["conv1/AccW", "bn1/var", "bn1/x3", "bn1/running_mean", "conv1/e3"])
def test_a_fault_of_float32_is_named(path: str, made: Make, tmp_path: Path) -> None:
    read = made("float32")
    faults = {STRIDED + path: lambda values: [-v for v in values]}
    if path == "bn1/var":
        faults = {STRIDED + path: lambda values: [values[0], *values[:-1]]}  # a channel late
    result = judged(read, Device32(read.folder, faults=faults), tmp_path / "dut")
    name = {"bn1/var": "", "conv1/AccW": "negated"}.get(path, "negated")
    check_marks(result, {STRIDED + path: name}, whole=bool(name))


@pytest.mark.slow
def test_words_that_are_no_number_stop_nothing(made: Make, tmp_path: Path) -> None:
    """A NaN is no operand: what follows is told as it would be without it."""
    read = made("float32")
    folder = tmp_path / "dut"
    shutil.copytree(read.folder / "exp", folder)
    path = folder / f"{STRIDED}conv1.x1.hex"
    lines = path.read_text().splitlines()
    lines[0] = lines[0][:-8] + "7fc00000"
    path.write_text("\n".join(lines) + "\n")
    result = causes.trace(read, check.check_dut(read, folder))
    bad = [port for port in result.ports if port.status != "pass"]
    assert [(port.port.name, port.wrong, port.own) for port in bad] == [(f"{STRIDED}conv1/x1", 1, 1)]


def test_a_pack_that_does_not_say_its_aliases_has_no_causes(made: Make, tmp_path: Path) -> None:
    read = made("float32")
    about = {key: value for key, value in read.manifest["about"].items() if key != "aliases"}
    lacking = replace(read, manifest=read.manifest | {"about": about})
    shutil.copytree(read.folder / "exp", tmp_path / "dut")
    result = causes.trace(lacking, check.check_dut(read, tmp_path / "dut"))
    assert result.untraced.endswith("the definition ends in KeyError('aliases')")
