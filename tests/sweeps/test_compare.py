"""`intnet compare`: its rows, its figures against ones by hand, the table, the picture, what is refused."""

import csv
import dataclasses
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet.cli import compare
from intnet.errors import ConfigError
from intnet.papers.costs import adapt_costs
from intnet.papers.costs.adapt_costs import History, LayerSize
from intnet.runs import report, run_folder
from intnet.sweeps import compared, figures, plan, plots, processes, work
from intnet.sweeps.plan import Asked, Part
from intnet.training import model_bytes
from tests.support.command import here, last_line, refused

ALL = "float32,wageubn,adapt,muppet,dynasty,saved,banner"
BASE = ("--model", "mlp", "--data", "digits", "--limit", 128, "--batch-size", 64)
SMALL = ("--methods", "float32,wageubn", *BASE, "--steps", 2)


# -- the rows ----------------------------------------------------------------------------------


def test_the_rows() -> None:
    own = ["saved bits=2", "wageubn 'lr=78,52@1' e2=16", "saved", "saved bits=2/4"]
    made = compare.parts("saved, float32,wageubn", own)
    assert made == [
        Part("saved", [("bits", ["2"])]),
        Part("saved"),
        Part("saved", [("bits", ["2/4"])]),
        Part("float32"),
        Part("wageubn", [("lr", ["78,52@1"]), ("e2", ["16"])]),
    ]
    assert [part.method for part in compare.parts("all", [])] == [
        "float32", "wageubn", "adapt", "muppet", "dynasty", "saved", "banner", "mx",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("methods", "own", "message"),
    [
        ("float32,", [], "a name is empty"),
        ("float33", [], "unknown method 'float33'; did you mean 'float32'"),
        ("float32,float32", [], "float32 is given twice: --with 'float32 K=V' makes further rows"),
        ("float32", ["wageubn e2=16"], "--with 'wageubn ..': no method of --methods float32"),
        ("float32", [""], "--with ' ..': no method"),
        ("float32", ["float32 lr"], "--with lr: write KEY=VALUE"),
        ("float32", ["float32 lr=1 lr=2"], "--with lr is given twice"),
        ("float32", ["float32 'lr=1"], "--with float32 'lr=1: No closing quotation"),
    ],
)
def test_rows_that_are_none(methods: str, own: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        compare.parts(methods, own)
    assert message in str(error.value)


def test_settings_go_to_the_methods_that_know_them() -> None:
    parts = compare.parts("float32,wageubn,saved", ["wageubn lr=20", "saved bits=2", "saved bits=1 lr=0.3"])
    shared = {"momentum": "0.5", "dr": "64", "bits@fc1": "8", "lr": "0.1"}
    made = plan.make(Asked(parts, "mlp", "digits", shared, limit=64))
    assert [(made.label(point), point.settings) for point in made.points] == [
        ("float32", {"momentum": "0.5", "lr": "0.1"}),
        ("wageubn", {"dr": "64", "lr": "20"}),
        ("saved bits=2", {"momentum": "0.5", "bits@fc1": "8", "lr": "0.1", "bits": "2"}),
        ("saved bits=1 lr=0.3", {"momentum": "0.5", "bits@fc1": "8", "lr": "0.3", "bits": "1"}),
    ]
    with pytest.raises(ConfigError, match=r"unknown key of float32, wageubn, saved: 'momentun'; did you"):
        plan.make(Asked(parts, "mlp", "digits", {"momentun": "0.5"}, limit=64))
    with pytest.raises(ConfigError, match=r"wageubn: lr=0\.1: a learning rate is a whole code"):
        plan.make(Asked([Part("float32"), Part("wageubn")], "mlp", "digits", {"lr": "0.1"}, limit=64))


def test_a_row_tells_its_method() -> None:
    """Where all rows have one method too, which a sweep's labels leave out."""
    for own, names in ((["saved bits=2"], ["saved bits=2"]), (["saved bits=2", "saved bits=8 lr=0.3"],) * 2):
        made = plan.make(Asked(compare.parts("saved", own), "mlp", "digits", limit=64))
        assert [compared.name(made, point) for point in made.points] == names
    made = plan.make(Asked(compare.parts("saved,float32", []), "mlp", "digits", limit=64))
    assert [compared.name(made, point) for point in made.points] == ["saved", "float32"]


# -- figures, by hand --------------------------------------------------------------------------

# mlp on digits: 64 -> 64 -> 64 -> 10, batch norm and ReLU after the first two layers
BATCH, WIDE, CLASSES = 64, 64, 10
VALUES = BATCH * WIDE
LOSS = 4 * BATCH * CLASSES + 8 * BATCH  # probabilities, labels
WEIGHTS = (WIDE * WIDE, WIDE * WIDE, WIDE * CLASSES)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The reports of two steps of every method."""
    found = {}
    for method in ALL.split(","):
        folder = tmp_path_factory.mktemp("run") / method
        with run_folder.create(
            folder, run_folder.build(method, {}, "mlp", "digits", BATCH, 1, 128), 2
        ) as run:
            found[method] = run.train()
        assert json.loads((folder / "report.json").read_text()) == json.loads(json.dumps(found[method]))
    return found


@pytest.mark.slow
def test_what_the_tape_holds(reports: dict[str, dict[str, Any]]) -> None:
    """float32: three inputs of layers, two of batch norms; what ReLU saves is the next layer's input."""
    norms = 2 * 2 * WIDE * 4  # mean and 1/deviation of two batch norms
    assert reports["float32"]["tape"] == dict.fromkeys(("held", "packed"), 5 * VALUES * 4 + norms + LOSS)
    # wageubn: the outer layers' inputs in float32; x2 and sigma of 16 bits, x0 of 8, or of what their codes
    # need where that is more; a bit of sign an element
    needed = {(row["layer"], row["path"]): row["used_bits"] for row in reports["wageubn"]["paths"]}
    norms_in = [bits for (_, path), bits in needed.items() if path == "x2"]
    sigmas = [bits for (_, path), bits in needed.items() if path == "sigma"]
    inner = [bits for (_, path), bits in needed.items() if path == "x0" and bits is not None]
    assert (len(norms_in), len(sigmas), len(inner)) == (2, 2, 1) and max(norms_in) > 16
    hidden = sum(-(-max(16, bits) * VALUES // 8) for bits in norms_in) + 2 * VALUES // 8
    hidden += sum(-(-max(16, bits) * WIDE // 8) for bits in sigmas) + max(8, *inner, 8) * VALUES // 8
    assert reports["wageubn"]["tape"]["packed"] == 2 * 4 * VALUES + hidden + LOSS
    # muppet, adapt: three inputs in 8 bits, those of batch norm in float32, ReLU on codes: a bit of sign
    codes = 3 * VALUES + 2 * VALUES // 8 + 2 * 4 * VALUES
    assert reports["muppet"]["tape"]["packed"] == codes + norms + LOSS
    assert reports["adapt"]["tape"]["packed"] == codes + norms + LOSS
    # banner: three inputs in 8 bits with scale and zero point, x1 of batch norm in float32; signs; w of a
    # channel, its greatest and its least value and where they stand
    inputs, ranges = 3 * (VALUES + 8) + 2 * VALUES // 8, 5 * 2 * WIDE * 4
    assert reports["banner"]["tape"]["packed"] == inputs + 2 * 4 * VALUES + norms + ranges + LOSS
    # saved: 5 tensors of 4-bit codes with a scale and a zero point for 512, two masks
    buckets = VALUES // 512
    packed = 5 * (VALUES // 2 + 8 * buckets) + 2 * VALUES // 8
    assert reports["saved"]["tape"]["held"] == packed + norms + LOSS
    assert all(one["tape"]["held"] >= one["tape"]["packed"] for one in reports.values())


def test_bytes_of_the_model(reports: dict[str, dict[str, Any]]) -> None:
    norms = 4 * 4 * WIDE * 2
    floats = 4 * (sum(WEIGHTS) + CLASSES) + norms
    assert reports["float32"]["model_bytes"] == reports["saved"]["model_bytes"] == floats
    assert reports["muppet"]["model_bytes"] == sum(WEIGHTS) + CLASSES + 4 + norms  # and 4 exponents
    blocks = [(64 // 4) * (64 // 4)] * 2 + [-(-10 // 4) * (64 // 4)]
    assert reports["dynasty"]["model_bytes"] == sum(blocks) * 17 + 4 * CLASSES + norms
    assert reports["adapt"]["model_bytes"] == reports["adapt"]["fixed_model"]["packed"]
    # wageubn: float32 outside; gamma = 1 is code 128, 9 bits, beta 8; exponents; running statistics
    norm = (9 + 8) * WIDE // 8 + 2 + 2 * 4 * WIDE
    outer = 4 * (WEIGHTS[0] + WEIGHTS[2] + CLASSES)
    assert reports["wageubn"]["model_bytes"] == outer + WEIGHTS[1] + 1 + 2 * norm
    # mx: elements of 6 bits, two blocks of 32 a row of 64; banner: 8 bits, a scale and a zero point a tensor
    run = run_folder.build("mx", {}, "mlp", "digits", BATCH, 1, 128)
    rows = 2 * WIDE + CLASSES
    assert model_bytes.stored_bytes(run) == rows * (64 * 6 + 2 * 8) // 8 + 4 * CLASSES + norms
    running, tensors = 2 * 2 * 4 * WIDE, 3 + 1 + 2 * 2
    numbers = sum(WEIGHTS) + CLASSES + 2 * 2 * WIDE
    assert reports["banner"]["model_bytes"] == numbers + 8 * tensors + running
    with pytest.raises(ConfigError, match="a str has no size in bits"):
        model_bytes.bits_of("W")


def test_running_statistics_that_inference_does_not_read_are_no_bytes_of_the_model() -> None:
    run, other = (
        run_folder.build("wageubn", {"statistics": which}, "mlp", "digits", BATCH, 1, 128)
        for which in ("running", "batch")
    )
    more = model_bytes.stored_bytes(run) - model_bytes.stored_bytes(other)
    assert more == 2 * 2 * 4 * WIDE  # two norms, two statistics


def test_the_process_is_told(reports: dict[str, dict[str, Any]]) -> None:
    for one in reports.values():
        process = one["process"]
        assert process["beside"] == 1 and process["threads"] >= 1
        assert 1 << 20 < process["before"] <= process["peak"] < 1 << 40


def row(layer: str, path: str, elements: int, nominal: float | None, used: int | None) -> dict[str, Any]:
    return {
        "layer": layer, "path": path, "elements": elements, "nominal_bits": nominal, "mean_bits": nominal,
        "used_bits": used,
    }  # fmt: skip


def test_bits_of_operands() -> None:
    """Of weight layers alone; means by elements; the first name that a layer has; floats count as 32."""
    paths = [
        row("a", "x0", 30, None, None), row("a", "Wq", 10, 8, 5), row("a", "W", 10, 24, 23),
        row("a", "Wb", 10, 3.5, 4), row("a", "e3", 20, 9, 9), row("a", "gW", 10, None, 17),
        row("bn", "gamma", 99, 16, 16),
        row("b", "x0", 10, None, 7), row("b", "x0s", 10, 2, 2), row("b", "W", 30, None, None),
        row("b", "e3", 20, None, None), row("b", "gW", 30, None, None), row("b", "gWq", 30, 8, 2),
    ]  # fmt: skip
    found = figures.operand_bits(paths)
    expected = {
        "W_forward": ((10 * 8 + 30 * 32) / 40, (10 * 5 + 30 * 32) / 40),
        "W_backward": ((10 * 3.5 + 30 * 32) / 40, (10 * 4 + 30 * 32) / 40),
        "x_forward": ((30 * 32 + 10 * 7) / 40, (30 * 32 + 10 * 7) / 40),
        "x_backward": ((30 * 32 + 10 * 2) / 40, (30 * 32 + 10 * 2) / 40),
        "e_forward": ((9 + 32) / 2, (9 + 32) / 2),
        "gW_forward": ((10 * 17 + 30 * 8) / 40, (10 * 17 + 30 * 2) / 40),
    }
    for name, (nominal, used) in expected.items():
        assert (found[f"{name}_nominal"], found[f"{name}_used"]) == (nominal, used)
    assert set(figures.operand_bits([]).values()) == {None}


def test_errors_have_widths_too() -> None:
    """A layer of 10 products, two steps: WL 8 forward, 4 and then 32 bits backward."""
    layers = (LayerSize("a", (5,), 10),)
    widths, errors = np.full((2, 1), 8), np.array([[4], [32]])
    made = History(layers, widths, np.full((2, 1), 5), errors=errors)
    assert adapt_costs.training(made).tolist() == [10 * (8 + 4), 10 * (8 + 32)]
    assert adapt_costs.training(dataclasses.replace(made, errors=None)).tolist() == [10 * (8 + 32)] * 2
    with pytest.raises(ConfigError, match="errors = 33 in step 2, layer 1"):
        dataclasses.replace(made, errors=errors + 1)


def test_speedups_and_bits_of_real_runs(reports: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    """AdaPT's cost of a layer: its products, times WL forward and the errors' bits backward, else 32."""
    whole = 64 * sum(WEIGHTS)
    inner, outer = WEIGHTS[1], WEIGHTS[0] + WEIGHTS[2]
    cost = {  # (backward in float32, in the errors' bits); dynasty's errors have 8, wageubn's 8 and a flag
        "float32": (whole, whole),
        "saved": (whole, whole),
        "wageubn": (64 * outer + (8 + 32) * inner, 64 * outer + (8 + 9) * inner),
        "dynasty": ((8 + 32) * sum(WEIGHTS), (8 + 8) * sum(WEIGHTS)),
        # its first layer asks for no error in 8 bits
        "banner": ((8 + 32) * sum(WEIGHTS), (8 + 8) * sum(WEIGHTS) + 8 * WEIGHTS[0]),
    }
    for method, (printed, own) in cost.items():
        found = figures.speedups(tmp_path, reports[method]["run"], reports[method])
        assert [found.pop(key) for key in figures.STORED] == [
            None
        ] * 2  # widths that stay: not AdaPT's to tell
        assert found == pytest.approx({"speedup": whole / printed, "speedup_own": whole / own}, rel=1e-12)
    bits = {method: figures.operand_bits(one["paths"]) for method, one in reports.items()}
    assert bits["saved"]["x_forward_nominal"] == 32 and bits["saved"]["x_backward_nominal"] == 4
    assert bits["dynasty"]["W_forward_nominal"] == 8
    # the one map so far, made at the end of the last step, was not yet in use: 4 bits, images 8
    assert bits["dynasty"]["W_backward_nominal"] == 4
    assert bits["dynasty"]["x_forward_nominal"] == (8 + 4 + 4) / 3
    assert bits["muppet"]["e_forward_nominal"] == 8 and bits["adapt"]["e_forward_nominal"] == 32
    assert bits["wageubn"]["x_forward_nominal"] == (32 + 8 + 32) / 3
    assert (bits["banner"]["e_forward_nominal"], bits["banner"]["e_backward_nominal"]) == (8, 16)


def test_speedup_of_blocks_of_several_widths(reports: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    """A layer's width is the mean of its blocks': no whole number of bits."""
    own = dict(reports["dynasty"])
    own["paths"] = [one | {"mean_bits": 4.25} if one["path"] in ("Wq", "e3") else one for one in own["paths"]]
    found = figures.speedups(tmp_path, own["run"], own)
    assert [found.pop(key) for key in figures.STORED] == [None] * 2
    assert found == pytest.approx({"speedup": 64 / 36.25, "speedup_own": 64 / 8.5}, rel=1e-12)


def test_speedup_of_accumulated_gradients(reports: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    """(8): ops * (sp * WL + 32 / accs), of the baseline too; of the errors' own bits accs takes no part."""
    own = dict(reports["dynasty"])
    own["run"] = own["run"] | {"options": own["run"]["options"] | {"accs": 4}}
    found = figures.speedups(tmp_path, own["run"], own)
    assert found["speedup"] == pytest.approx((32 + 32 / 4) / (8 + 32 / 4), rel=1e-12)


def test_units_are_those_of_costs(reports: dict[str, dict[str, Any]]) -> None:
    """MB of 2^20 bytes, as `intnet costs` and the thesis count."""
    told = reports["float32"] | {"tape": {"held": 3 << 20, "packed": 3 << 19}}
    told["process"] = told["process"] | {"peak": 7 << 20, "before": 5 << 20}
    told["saved"] = {"elements": 1 << 18, "bytes": 1 << 19, "bits": 16.0, "mask_bytes": 1 << 18}
    facts = dict(report.facts(told))
    assert facts["last step saved"] == "3.00 MB of 64 images; 1.50 MB in its formats' bits"
    shorter = {"run": told["run"] | {"limit": 20, "batch_size": 8}}
    assert [report.last_batch(shorter | {"steps": steps}) for steps in (1, 3, 5, 6)] == [8, 4, 8, 4]
    assert facts["memory"] == "7 MB at most, 5 MB before the first step"
    assert facts["tape"].startswith("0.50 MB of ") and facts["tape"].endswith("of 0.25 MB; float32: 1.00 MB")


# -- the command -------------------------------------------------------------------------------


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are trained in this process: that they can be trained in others is shown of sweeps."""

    def run(
        tasks: Sequence[dict[str, Any]], jobs: int, launch: Sequence[str]
    ) -> Iterator[work.Outcome | None]:
        for task in tasks:
            yield None
            yield work.train(task)

    monkeypatch.setattr(processes, "run", run)


@pytest.mark.slow
def test_all_methods(at_once: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, picture = tmp_path / "c", tmp_path / "c.svg"
    command = ("compare", "--methods", ALL, *BASE, "--epochs", 1, "--seeds", "1,2", "--with", "wageubn lr=20",
               "--out", folder)  # fmt: skip
    status, out, err = here(capsys, *command, "--plot", picture)
    assert (status, err) == (0, "") and f"written: {picture}\n" in out
    data = json.loads((folder / "table.json").read_text())
    assert [entry["name"] for entry in data["rows"]] == ALL.split(",") and data["done"] == 14
    lines = []
    for entry in data["rows"]:
        own = [json.loads((folder / "runs" / run["name"] / "report.json").read_text())
               for run in entry["runs"].values()]  # fmt: skip
        accuracies = [one["test_accuracy"] for one in own]
        assert entry["test_accuracy"] == {
            "mean": sum(accuracies) / 2, "least": min(accuracies), "greatest": max(accuracies),
        }  # fmt: skip
        assert entry["model_bytes"]["mean"] == sum(one["model_bytes"] for one in own) / 2
        assert entry["tape_bytes"]["mean"] == sum(one["tape"]["held"] for one in own) / 2
        assert entry["speedup"]["mean"] <= entry["speedup_own"]["mean"] + 1e-12
        lines += [f"{run['name']} {one['state_sha256']} {one['test_accuracy']!r}\n"
                  for run, one in zip(entry["runs"].values(), own, strict=True)]  # fmt: skip
    sha = hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()
    assert last_line(out) == f"compare sha256: {sha}" and data["compare_sha256"] == sha
    assert data["rows"][4]["array_time"]["mean"] <= 1 and "array_time" not in data["rows"][1]
    assert "dynasty, by its own model and against 8 bits everywhere, not float32: a bit-serial array" in out
    assert "wageubn: lr=20\n" in out and "1 at a time." in out and f"tape: of {BATCH} images" in out
    for entry in data["rows"]:  # where word lengths move, what AdaPT's model says beside SU
        costs = [json.loads(here(capsys, "costs", folder / "runs" / run["name"], "--json")[1])["summary"]
                 for run in entry["runs"].values() if entry["method"] in ("adapt", "muppet")]  # fmt: skip
        assert all(
            (key in entry) == bool(costs)
            and (not costs or entry[key]["mean"] == sum(c[key] for c in costs) / 2)
            for key in figures.STORED
        )
        copies = {"adapt": 2, "muppet": 4}.get(entry["method"], 0)  # in the peer-reviewed version's MEM
        assert [c["memory_later"] for c in costs] == pytest.approx(
            [1 + copies * (c["memory"] - 1) for c in costs]
        )
        assert (f"\n{entry['name']}, by AdaPT's model: MEM " in out) == bool(costs)
    text = (folder / "table.md").read_text()
    assert text.count("\n| ") == 8 and f"`{sha}`" in text and "- SU: training over float32" in text
    with open(folder / "table.csv", newline="") as stream:
        entries = list(csv.DictReader(stream))
    assert [(entry["method"], entry["seed"]) for entry in entries] == [
        (method, seed) for method in ALL.split(",") for seed in "12"
    ]
    assert entries[2]["settings"] == "lr=20" and entries[0]["W_forward_used"] == "32.0"
    # the same again trains nothing and shows the same; so does --show, and the same picture
    again = here(capsys, *command, "--quiet")[1]
    assert again == out[out.index("\nmlp on") :].replace(f"written: {picture}\n", "")
    shown = tmp_path / "again.svg"
    status, out, _ = here(capsys, "compare", "--show", folder, "--plot", shown, "--json")
    assert (status, json.loads(out)) == (0, data) and shown.read_bytes() == picture.read_bytes()
    assert here(capsys, "sweep", "--show", folder)[0] == 0  # it is one


@pytest.mark.slow
def test_in_processes_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One run of two fails; a comparison of which nothing is there yet can be shown and drawn."""
    folder = tmp_path / "c"
    status, out, err = here(
        capsys, "compare", *SMALL, "--steps", 30, "--with", "float32 lr=1e30", "--jobs", 2, "--out", folder
    )
    assert (status, err) == (1, "")
    assert "1 of 2 runs are done." in out and "failed: float32, seed 1: " in out
    made = json.loads((folder / "runs" / "wageubn+seed=1" / "report.json").read_text())
    assert made["process"]["beside"] == 2
    assert "| float32 | 0/1 failed | - | - |" in (folder / "table.md").read_text()
    for command in ("compare", "sweep"):  # what failed is known from the folder
        status, out, err = here(capsys, command, "--show", folder)
        assert (status, err) == (1, "") and "failed: float32, seed 1: " in out
    session = folder / work.SESSION
    session.touch()  # at work, or killed there: it has begun those runs again
    assert here(capsys, "compare", "--show", folder)[0] == 0
    session.unlink()
    table = (folder / "table.json").read_text()
    (folder / "table.json").write_text(table[:-9])
    assert "table.json: damaged" in refused(capsys, "compare", "--show", folder)
    (folder / "table.json").unlink()
    for path in (folder / "runs").glob("*/*"):
        path.unlink()
    picture = tmp_path / "empty.png"
    status, out, err = here(capsys, "compare", "--show", folder, "--plot", picture)
    assert (status, err) == (0, "") and "0 of 2 runs are done." in out and picture.stat().st_size > 1000


@pytest.mark.slow
def test_a_run_without_its_last_step(
    at_once: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A report made again knows neither bits nor tape; an older one has no such keys."""
    folder = tmp_path / "c"
    assert here(capsys, "compare", *SMALL, "--out", folder)[0] == 0
    reports = [folder / "runs" / f"{method}+seed=1" / "report.json" for method in ("float32", "wageubn")]
    reports[0].unlink()
    old = json.loads(reports[1].read_text())
    for key in ("tape", "process", "model_bytes"):
        del old[key]
    for path in old["paths"]:
        del path["mean_bits"]
    reports[1].write_text(json.dumps(old))
    status, out, err = here(capsys, "compare", *SMALL, "--out", folder)
    assert (status, err) == (0, "")
    lines = [line.split() for line in out.splitlines() if line.startswith(("float32 ", "wageubn "))][-2:]
    assert lines[0][2:8] == ["-"] * 6 and lines[0][8] == "36.5"
    assert lines[1][2] == "20.9" and lines[1][-5:-2] == ["-"] * 3 and lines[1][-1] == "-"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give --methods, --model, --data, --out (or --show DIR"),
        ((*SMALL, "--out", "c", "--set", "bitz=2"), "unknown key of float32, wageubn: 'bitz'"),
        ((*SMALL, "--out", "c", "--set", "lr=0.1"), "wageubn: lr=0.1: a learning rate is a whole code"),
        ((*SMALL, "--out", "c", "--with", "float32 e2=16"), "unknown key of method 'float32' 'e2'"),
        ((*SMALL, "--out", "c", "--with", "float32", "--with", "float32"), "two points are the same"),
        ((*SMALL, "--out", "c", "--seeds", "1,1"), "has a seed twice"),
        ((*SMALL, "--out", "c", "--plot", "c.gif"), "end the name in"),
        ((*SMALL, "--out", "file"), "is a file"),
        (("--show", "nowhere"), "nowhere is no sweep"),
        (("--show", "nowhere", "--methods", "float32"), "--methods: nowhere says that itself"),
        (("--show", "c", "--with", "float32 lr=1", "--epochs", 2), "--with, --epochs: c says that itself"),
        (("--show", "c", "--seeds", 2, "--jobs", 2, "--batch-size", 9), "--seeds, --batch-size, --jobs: c "),
        (("--show", "c", "--seeds", 1, "--batch-size", 64), "c is no sweep"),  # nothing but what is so anyway
    ],
    ids=range(13),
)
def test_refused(
    arguments: tuple[object, ...],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    assert message in refused(capsys, "compare", *arguments)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


def test_names_in_the_picture() -> None:
    """Moved apart about the middle of each group, in their order; where there is room they stay."""
    assert plots.spread([], 1) == []
    assert plots.spread([0, 5, 5, 9], 1) == [0, 4.5, 5.5, 9]
    assert plots.spread([0, 0.5, 1.0], 1) == [-0.5, 0.5, 1.5]
