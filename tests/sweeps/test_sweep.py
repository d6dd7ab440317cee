"""The plan of a sweep, its names, its file and how it may grow; its table and picture; what is refused."""

import csv
import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from intnet import methods
from intnet.errors import CheckpointError, ConfigError
from intnet.runs import run_folder
from intnet.sweeps import plan, rows, table
from intnet.sweeps.plan import Asked, Part, Point
from tests.support.command import here, last_line, refused

BASE = ("--method", "float32", "--model", "mlp", "--data", "digits", "--limit", 64, "--steps", 2)


def asked(
    method: str = "float32",
    vary: plan.Grid | None = None,
    also: Sequence[plan.Grid] = (),
    baseline: tuple[str, dict[str, str]] | None = None,
    **changes: Any,
) -> Asked:
    parts = [Part(method, grid) for grid in (vary or [], *also)]
    if baseline is not None:
        parts.append(Part(baseline[0], [(key, [value]) for key, value in baseline[1].items()], baseline=True))
    return Asked(parts, **{"model": "mlp", "data": "digits", "limit": 64} | changes)


def labels(made: plan.Plan) -> list[str]:
    return [made.label(point) for point in made.points]


# -- the plan ----------------------------------------------------------------------------------


def test_values_and_grids() -> None:
    assert plan.values("8,4, 2", "x") == ["8", "4", "2"]
    assert plan.values("0.05,0.01@4;0.1", "x") == ["0.05,0.01@4", "0.1"]
    assert plan.values("0.05,0.01@4;", "x") == ["0.05,0.01@4"]
    assert plan.grid(["bits@layer2.*=4,2", "lr=a=b"], "--vary") == [
        ("bits@layer2.*", ["4", "2"]),
        ("lr", ["a=b"]),
    ]
    for text, message in (
        ("bits", "--vary bits: write KEY=V1,V2"),
        ("=4", "--vary =4: write KEY=V1,V2"),
        ("bits=", "a value is empty"),
        ("bits=4,,2", "a value is empty"),
        ("bits=4,2,4", "4 is given twice"),
    ):
        with pytest.raises(ConfigError, match=message):
            plan.grid([text], "--vary")
    with pytest.raises(ConfigError, match="--vary bits is given twice"):
        plan.grid(["bits=4", "bits=2"], "--vary")


def test_every_combination_and_what_stands_beside() -> None:
    made = plan.make(
        asked(
            settings={"lr": "0.1"},
            vary=[("momentum", ["0.9", "0.5"]), ("weight_decay", ["0", "0.01"])],
            also=[[("lr", ["0.2", "0.3"]), ("momentum", ["0"])]],
            baseline=("wageubn", {"lr": "26"}),
            seeds=[3, 1],
            epochs=2,
        )
    )
    assert labels(made) == [
        "wageubn lr=26",
        "momentum=0.9 weight_decay=0",
        "momentum=0.9 weight_decay=0.01",
        "momentum=0.5 weight_decay=0",
        "momentum=0.5 weight_decay=0.01",
        "lr=0.2 momentum=0",
        "lr=0.3 momentum=0",
    ]
    assert made.varied() == ["momentum", "weight_decay", "lr"]
    assert (made.steps, made.steps_per_epoch, made.common["limit"]) == (2, 1, 64)
    first = made.points[1]
    assert first.settings == {"lr": "0.1", "momentum": "0.9", "weight_decay": "0"}
    own = {key: first.options[key] for key in ("lr", "momentum", "weight_decay", "optimizer")}
    assert own == {"lr": "0.1", "momentum": 0.9, "weight_decay": 0.0, "optimizer": "sgd"}
    assert [first.value(key) for key in ("lr", "weight_decay", "e2")] == ["0.1", "0", "-"]
    order = [(made.label(point), seed) for point, seed in made.runs()]
    assert order[6:8] == [("lr=0.3 momentum=0", 3), ("wageubn lr=26", 1)]
    single = plan.make(asked(settings={"lr": "0.1"}))
    assert labels(single) == ["float32"] and single.varied() == []
    # of the settings a baseline takes those that it knows
    both = plan.make(asked(settings={"lr": "26", "momentum": "0.5"}, baseline=("wageubn", {})))
    assert both.points[0].settings == {"lr": "26"} and both.label(both.points[0]) == "wageubn"
    for baseline, settings in (("saved", {"bits@fc1": "8", "bits": "4"}), ("float32", {})):
        own = {"bits": "4"} if settings else {}
        layers = {"method": "saved", "settings": {"bits@fc1": "8"}, "vary": [("bits", ["2"])]}
        made = plan.make(asked(**layers, baseline=(baseline, own)))
        assert made.points[0].settings == settings


def test_identities_are_those_of_single_runs() -> None:
    made = plan.make(asked(vary=[("momentum", ["0.5"])], baseline=("wageubn", {"lr": "26"}), batch_size=16))
    for point, options in zip(made.points, ({"lr": "26"}, {"momentum": "0.5"}), strict=True):
        run = run_folder.build(point.method, options, "mlp", "digits", 16, 7, 64)
        assert made.identity(point, 7) == run_folder.identity(run)


def test_names() -> None:
    """Readable, safe for shells and files, and another one for every other point."""
    point = Point("saved", {"codec": "levels", "bits@layer2.*": "2/4", "lr": "0.05,0.01@4"}, [])
    assert plan.run_name(point, 1) == "saved+bits@layer2.%2A=2~4+codec=levels+lr=0.05,0.01@4+seed=1"
    odd = ["2/4", "2~4", "2%2F4", "2%7E4", "2+4", "2=4", "a b", "a", "A", "", "ä", "$", "."]
    odd += ["x" * 300, "x" * 301]
    names = [Point("saved", {"bits": text}, []).name for text in odd]
    names += [Point("saved", {"bits": "2", "x": "1"}, []).name, Point("saved", {"bits": "2+x=1"}, []).name]
    assert len(set(names)) == len(names)
    for name in names:
        assert len(name) < 200 and not set(name) & set("/ '\"$*?\\&|;<>()~{}[]`!#\n") - {"~"}
    assert Point("saved", {"a": "1", "b": "2"}, []).name == Point("saved", {"b": "2", "a": "1"}, ["b"]).name


def test_patterns_in_another_order_are_another_point(tmp_path: Path) -> None:
    """Of patterns that match a layer the last one holds: so these are two runs, not one in one folder."""
    both = [("bits@fc*", ["2"]), ("bits@fc1", ["8"])]
    made = plan.make(asked(method="saved", vary=both, also=[both[::-1]]))
    widths = [methods.make(point.method, **point.settings) for point in made.points]
    assert [list(one.overrides.items())[-1] for one in widths] == [("bits@fc1", "8"), ("bits@fc*", "2")]
    names = [plan.run_name(*run) for run in made.runs()]
    assert len(set(names)) == 2 and names[0] == "saved+bits@fc%2A=2+bits@fc1=8+seed=1"
    first = plan.make(asked(method="saved", vary=both))
    with plan.opened(tmp_path, first):
        pass
    other = plan.make(asked(method="saved", vary=both[::-1]))
    with pytest.raises(ConfigError, match="a point that is not asked for"), plan.opened(tmp_path, other):
        pass
    # patterns of different keys do not meet
    apart = [("codec@fc1", ["levels"]), ("bits@fc1", ["8"])]
    with pytest.raises(ConfigError, match="two points are the same"):
        plan.make(asked(method="saved", vary=apart, also=[apart[::-1]]))


# -- sweep.json --------------------------------------------------------------------------------


def test_the_plan_is_kept_and_grows(tmp_path: Path) -> None:
    small = plan.make(asked(vary=[("momentum", ["0.9"])], seeds=[1], steps=2))
    more = plan.make(asked(vary=[("momentum", ["0.5", "0.9"])], seeds=[2, 1], steps=3))
    for made in (small, small, more):
        with plan.opened(tmp_path / "sweep", made):
            pass
        assert plan.read(tmp_path / "sweep") == made
    for other, message in (
        (small, r"its runs have 3 steps, here they have 2; .* float32 momentum=0.5; it has seeds .*: 2 "),
        (plan.make(asked(vary=[("momentum", ["0.5", "0.9"])], seeds=[1, 2], steps=3, batch_size=32)),
         "holds another sweep: batch_size is 64 there and 32 here "),
        (plan.make(asked(vary=[("momentum", ["0.5", "0.9"])], seeds=[1, 2], steps=3, limit=65)),
         "limit is 64 there and 65 here; data_sha256 is"),
        (plan.make(asked(vary=[("momentum", ["1e-1", "0.2"])], seeds=[1, 2], steps=3)),
         "not asked for here: float32 momentum=0.5 and 1 more"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=message), plan.opened(tmp_path / "sweep", other):
            pass
    assert plan.read(tmp_path / "sweep") == more
    with (
        plan.opened(tmp_path / "sweep", more),
        pytest.raises(ConfigError, match="in use by a running intnet"),
        plan.opened(tmp_path / "sweep", more),
    ):
        pass


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (b"", "damaged"),
        (b"\xff", "damaged"),
        (b"[]", "damaged"),
        ({"version": 2}, "not a sweep of this version of intnet"),
        ({"format": "intnet run"}, "not a sweep of this version"),
        ({"definition": 1}, r"a sweep of another version of the definition \(1\); this intnet computes"),
        ({"definition": None}, r"a sweep of another version of the definition \(none was written yet\)"),
        ({"steps": "2"}, r"damaged \(it\['steps'\] is '2'\)"),
        ({"points": [{"method": "float32"}]}, "damaged"),
        ({"common": {}}, "damaged"),
    ],
    ids=range(10),
)
def test_a_damaged_plan(change: Any, message: str, tmp_path: Path) -> None:
    made = plan.make(asked())
    with plan.opened(tmp_path, made):
        pass
    path = tmp_path / "sweep.json"
    if isinstance(change, dict):
        change = json.dumps(json.loads(path.read_text()) | change).encode()
    path.write_bytes(change)
    with pytest.raises(ConfigError, match=message) as error:
        plan.read(tmp_path)
    assert str(path) in str(error.value)
    with pytest.raises(ConfigError, match=message), plan.opened(tmp_path, made):
        pass
    assert path.read_bytes() == change


def test_killed_before_it_had_a_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same command again finds its folder, whatever a kill left in it."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    made, folder = plan.make(asked()), tmp_path / "sweep"
    with monkeypatch.context() as patch:
        patch.setattr("intnet.runs.files.replace", killed)
        with pytest.raises(KeyboardInterrupt), plan.opened(folder, made):
            pass
    with plan.opened(folder, made):
        assert plan.read(folder) == made and (folder / "runs").is_dir()


def test_a_run_killed_before_it_had_a_config_is_begun_again(tmp_path: Path) -> None:
    run = run_folder.build("float32", {}, "mlp", "digits", limit=64)
    with run_folder.create(tmp_path, run, 1):
        pass
    (tmp_path / "config.json").unlink()
    with run_folder.create(tmp_path, run, 1) as work:
        work.train()
    (tmp_path / "config.json").unlink()  # with a log: something that may be worth keeping
    with pytest.raises(ConfigError, match="is not empty"):
        run_folder.create(tmp_path, run, 1)


# -- the table, by hand ------------------------------------------------------------------------


def test_best_and_mean_over_epochs() -> None:
    """Of one epoch neither says more than its accuracy; data without a test part has none."""
    assert rows.over_epochs([0.25, 0.75, 0.5]) == {"best_accuracy": 0.75, "mean_accuracy": 0.5}
    assert rows.over_epochs([None, 0.75, 0.5]) == {"best_accuracy": 0.75, "mean_accuracy": 0.625}
    assert rows.over_epochs([0.25, 0.5], 0.75) == {
        "best_accuracy": 0.75,
        "mean_accuracy": 0.375,
    }  # 2.5 epochs
    for few in ([], [0.5], [None, 0.5], [None, None]):
        assert rows.over_epochs(few) == {"best_accuracy": None, "mean_accuracy": None}


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, plan.Plan]:
    """A sweep of 3 points and 2 seeds in which 5 runs are done; their accuracies and more are made up."""
    grid = [("momentum", ["0.9", "0.5"])]
    own = plan.make(asked(vary=grid, baseline=("float32", {"lr": "0.2"}), seeds=[1, 2], steps=2))
    with plan.opened(tmp_path, own):
        pass
    for k, (point, seed) in enumerate(list(own.runs())[:5]):
        folder = plan.run_folder(tmp_path, point, seed)
        run = run_folder.build("float32", point.settings, "mlp", "digits", seed=seed, limit=64)
        with run_folder.create(folder, run, 2) as work:
            work.train()
        found = json.loads((folder / "report.json").read_text())
        found |= {"test_accuracy": k / 8, "last_loss": float(k) if k else None, "state_sha256": f"{k:064x}"}
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        tested = [line for line in lines if line["kind"] == "epoch"]
        for line, accuracy in zip(tested, (0.5, k / 8), strict=True):
            line["test_accuracy"] = accuracy
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        if k in (1, 4):
            found["saved"] = {"bits": 2.5 + k, "bytes": 1000 * k, "elements": 7, "mask_bytes": 0}
        (folder / "report.json").write_text(json.dumps(found))
    return tmp_path, own


@pytest.mark.slow
def test_a_log_that_lacks_an_epoch_is_named(made: tuple[Path, plan.Plan]) -> None:
    folder, own = made
    point, seed = next(own.runs())
    log = plan.run_folder(folder, point, seed) / "metrics.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    kept = [line for line in lines if (line["kind"], line["epoch"]) != ("epoch", 0)]
    log.write_text("".join(json.dumps(line) + "\n" for line in kept))
    with pytest.raises(CheckpointError, match="where its line of epoch 0 is due, one of 1 is"):
        rows.curve(folder, own, point, seed)


@pytest.mark.slow
def test_the_table(made: tuple[Path, plan.Plan]) -> None:
    """Runs 0, 1, 2 are seed 1 of the points, 3 and 4 seed 2 of the first two."""
    folder, own = made
    found = table.Sweep(folder, own, {plan.run_name(own.points[2], 2): "it | overflowed"})
    seen = found.summary()
    headings = [column.name for column in seen.columns]
    texts = [[c.text(cell) for c, cell in zip(seen.columns, row, strict=True)] for row in seen.rows]
    rates = [f"{row.mean('images_per_second'):,.0f}" for row in found.rows]
    assert headings == [
        "momentum", "runs", "test accuracy", "least..greatest", "best", "mean of epochs", "last loss",
        "saved bits", "saved bytes", "images/s",
    ]  # fmt: skip
    assert texts == [
        ["-", "2/2", "18.75%", "0.00%..37.50%", "50.00%", "34.38%", "3.0000", "-", "-", rates[0]],
        ["0.9", "2/2", "31.25%", "12.50%..50.00%", "50.00%", "40.62%", "2.5000", "5.000", "2,500", rates[1]],
        ["0.5", "1/2 failed", "25.00%", "25.00%..25.00%", "50.00%", "37.50%", "2.0000", "-", "-", rates[2]],
    ]
    result = found.result()
    assert (result["runs"], result["done"]) == (6, 5)
    assert result["rows"][1]["test_accuracy"] == {"mean": 0.3125, "least": 0.125, "greatest": 0.5}
    assert result["rows"][1]["runs"]["2"]["saved_bytes"] == 4000
    assert result["rows"][2]["failed"] == {"2": "it | overflowed"}
    lines = sorted(f"{plan.run_name(*run)} {k:064x}\n" for k, run in enumerate(list(own.runs())[:5]))
    assert result["sweep_sha256"] == hashlib.sha256("".join(lines).encode()).hexdigest()
    found.write()
    assert json.loads((folder / "table.json").read_text()) == result
    text = (folder / "table.md").read_text()
    assert "| 0.9 | 2/2 | 31.25% | 12.50%..50.00% |" in text
    assert "- failed: momentum=0.5, seed 2: it | overflowed" in text
    with open(folder / "table.csv", newline="") as stream:
        entries = list(csv.DictReader(stream))
    assert [(line["momentum"], line["seed"], line["test_accuracy"]) for line in entries] == [
        ("-", "1", "0.0"), ("-", "2", "0.375"), ("0.9", "1", "0.125"), ("0.9", "2", "0.5"),
        ("0.5", "1", "0.25"),
    ]  # fmt: skip
    assert [line["saved_bits"] for line in entries] == ["", "", "3.5", "6.5", ""]


@pytest.mark.slow
def test_a_sweep_so_far(made: tuple[Path, plan.Plan], capsys: pytest.CaptureFixture[str]) -> None:
    folder, own = made
    broken = plan.run_folder(folder, own.points[0], 1) / "report.json"
    good = json.loads(broken.read_text())
    for saved in (None, {"bits": "2"}, {"bits": 2.0}):
        broken.write_text(json.dumps(good | {"saved": saved}))
        assert json.loads(here(capsys, "sweep", "--show", folder, "--json")[1])["done"] == 4
    shutil.rmtree(broken.parent)
    broken.parent.touch()  # a file where a run should be
    assert json.loads(here(capsys, "sweep", "--show", folder, "--json")[1])["done"] == 4
    broken.parent.unlink()
    broken.parent.mkdir()
    broken.write_text("{")
    status, out, err = here(capsys, "sweep", "--show", folder)
    assert (status, err) == (1, "") and "\n4 of 6 runs are done\n" in out
    assert f", seed 1: {broken}: damaged (" in out
    assert last_line(out) == f"sweep sha256: {table.Sweep(folder, own).digest()}"
    assert json.loads(here(capsys, "sweep", "--show", folder, "--json")[1])["done"] == 4


@pytest.mark.slow
@pytest.mark.parametrize("vary", [["momentum=0.9,0.5"], ["lr=0.1,0.2@1;0.1,0.3@1"], []])
def test_the_picture(vary: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same file for the same sweep; a sweep of which nothing is there yet can be drawn too."""
    own = plan.make(asked(vary=plan.grid(vary, "--vary"), baseline=("float32", {"lr": "0.2"}), steps=2))
    sweep = tmp_path / "sweep"
    with plan.opened(sweep, own):
        pass
    pictures = [tmp_path / "empty.svg", tmp_path / "a.svg", tmp_path / "b.svg"]
    for picture in pictures:
        status, out, err = here(capsys, "sweep", "--show", sweep, "--plot", picture)
        assert (status, err) == (0, "") and f"written: {picture}\n" in out
        if picture == pictures[0]:
            for point in own.points:
                run = run_folder.build(point.method, point.settings, "mlp", "digits", limit=64)
                with run_folder.create(plan.run_folder(sweep, point, 1), run, 2) as work:
                    work.train()
    empty, a, b = (picture.read_bytes() for picture in pictures)
    assert empty != a == b


# -- refused -----------------------------------------------------------------------------------

REFUSED: list[tuple[tuple[object, ...], str]] = [
    ((), "give --out (or --show DIR"),
    (("--out", "new", "--vary", "lr=0.05,0.0500"), "two points are the same"),
    (("--out", "new", "--vary", "lr=5e-2,0.05"), "two points are the same"),
    (("--out", "new", "--vary", "momentom=1"), "unknown key of method 'float32' 'momentom'; did you mean"),
    (("--out", "new", "--also", "momentum=x"), "float32: momentum='x' is not a number"),
    (("--out", "new", "--vary", "lr=0.1,0.2@3"), "semicolons part values that hold commas"),
    (("--out", "new", "--vary", "momentum=0.9,0.90"), "two points are the same: float32 momentum=0.9, and"),
    (("--out", "new", "--set", "lr=0.1", "--vary", "lr=0.2"), "lr is set and varied"),
    (("--out", "new", "--baseline", "flaot32"), "unknown method 'flaot32'; did you mean 'float32'?"),
    (("--out", "new", "--baseline", "wageubn lr"), "write KEY=VALUE"),
    (("--out", "new", "--seeds", "1,x"), "'1,x' is no list of whole numbers"),
    (("--out", "new", "--seeds", "1,-1"), "seed -1 is outside 0..2^64-1"),
    (("--out", "new", "--seeds", "1,1"), "'1,1' has a seed twice"),
    (("--out", "new", "--jobs", 0), "'0' is not a whole number of at least 1"),
    (("--out", "new", "--jobs", 2, "--cluster", "tcp://a:1"), "not allowed with argument"),
    (("--out", "new", "--cluster", "somewhere"), "--cluster somewhere: write tcp://HOST:PORT"),
    (("--out", "new", "--plot", "x.txt"), "end the name in .png, .svg, .pdf"),
    (("--out", "new", "--batch-size", 65), "batch size 65: the data set has 64 training images"),
    (("--out", "file"), "file is a file; a sweep needs a folder"),
    (("--out", "."), ". is no sweep (it holds file)"),
    (("--show", "new"), "--data, --steps, --limit: new says that itself; --show trains nothing"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "message"), REFUSED, ids=range(len(REFUSED)))
def test_refused_before_anything_is_trained(
    arguments: tuple[object, ...],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    assert message in refused(capsys, "sweep", *BASE, *arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_is_no_sweep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"{tmp_path} is no sweep: it has no sweep.json" in refused(capsys, "sweep", "--show", tmp_path)
    digit = ("--data", "digit", "--out", tmp_path / "x")
    assert "unknown data set" in refused(capsys, "sweep", *BASE[:4], *digit)


def test_without_dask(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    line = refused(capsys, "sweep", *BASE, "--cluster", "tcp://a:1", "--out", tmp_path / "sweep")
    assert "--cluster needs Dask: pip install distributed" in line


@pytest.mark.slow
def test_runs_that_fail_are_told_and_the_others_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One diverges, one's folder holds another run; when they are mended the same command goes on."""
    folder = tmp_path / "sweep"
    command = ("sweep", *BASE[:6], "--steps", 30, "--vary", "lr=0.05,0.06,1e30", "--out", folder)
    other = folder / "runs" / "float32+lr=0.06+seed=1"
    first = Asked([Part("float32", [("lr", ["0.05"])])], "mlp", "digits", steps=2)
    with plan.opened(folder, plan.make(first)):
        pass
    with run_folder.create(other, run_folder.build("float32", {}, "mlp", "digits"), 1):
        pass
    status, out, err = here(capsys, *command)
    assert (status, err) == (1, ""), err
    assert "failed: lr=1e30, seed 1: " in out and "1 of 3 runs are done" in out
    assert f"failed: lr=0.06, seed 1: {other} holds a run that is not of this sweep: remove it" in out
    assert "1/3  lr=0.05, seed 1: test accuracy" in out
    shutil.rmtree(other)
    status, out, _ = here(capsys, *command, "--json")
    result = json.loads(out)
    assert (status, result["done"], list(result["rows"][2]["failed"])) == (1, 2, ["1"])
