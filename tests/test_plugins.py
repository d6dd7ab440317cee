"""Parts of users' own: what a registry takes, what headers keep, and every command in fresh processes."""

import hashlib
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from intnet import datasets, formats, methods, models, plugins, rounding
from intnet.errors import ConfigError, IntnetError
from intnet.runs import run_folder
from intnet.runs.identity import identity
from tests.support.cluster import local_cluster
from tests.support.command import afresh, alone

ROOT = Path(__file__).resolve().parents[1]
MINE = '''
"""All five kinds in one file."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from intnet import datasets, formats, methods, models, rounding
from intnet.layers import Flatten, Linear, ReLU
from intnet.methods.float_master import FloatMaster
from intnet.methods.method import to_float32


@rounding.register("ties_neg")
def ties_neg(floor, f):
    """f > 1/2"""
    return f > Fraction(1, 2)


@formats.register("quarters")
@dataclass(frozen=True)
class Quarters(formats.OwnFormat):
    k: int

    def grid_of(self, least, greatest):
        return -2

    def limits(self):
        return -(2**self.k), 2**self.k, "saturate"


@methods.register("mine")
class Mine(FloatMaster):
    @dataclass(frozen=True)
    class Options(FloatMaster.Options):
        k: int = 4

    def weight(self, layer, parameter):
        if layer.edge or parameter.symbol != "W":
            return super().weight(layer, parameter)
        return to_float32(self.store(layer, "Wq", parameter.value, Quarters(self.options.k), "ties_neg"))


@models.register("three")
class Three(models.Model):
    def __init__(self, image_shape, classes):
        super().__init__("three", image_shape, classes)
        self.flatten, self.fc1, self.relu1 = Flatten(), Linear(4, 8), ReLU()
        self.fc2, self.relu2, self.fc3 = Linear(8, 8), ReLU(), Linear(8, classes)
        self.finish()

    def forward(self, x, method):
        x = self.relu1(self.fc1(self.flatten(x, method), method), method)
        return self.fc3(self.relu2(self.fc2(x, method), method), method)


@datasets.register("corners")
def corners(folder):
    x = np.random.default_rng(1).integers(0, 256, (96, 2, 2, 1), np.uint8)
    y = x.reshape(96, 4).argmax(1)
    return datasets.from_arrays(x[:64], y[:64], x[64:], y[64:], classes=4)
'''
DEFINED = """
import types
from dataclasses import dataclass

from intnet.spec.methods import float32
from intnet.spec.values import to_float
from mine import Mine, Quarters


@dataclass(frozen=True)
class Settings(float32.Settings):
    READ = float32.Settings.READ | {"k": int}

    k: int = 4


class Step(float32.Step):
    def format_of(self, layer, path):
        return Quarters(self.settings.k) if path == "Wq" else super().format_of(layer, path)

    def mode_of(self, layer, path):
        return lambda floor, f: 2 * f > 1

    def weight(self, layer, symbol):
        if symbol != "W" or self.edge(layer):
            return super().weight(layer, symbol)
        return to_float(self.stored(layer, "Wq", self.parameter(layer.name, "W")))


Mine.spec = types.SimpleNamespace(Settings=Settings, Step=Step)
"""
BROKEN = "def format_of(self, layer, path):\n        1 // 0\n"
KEYS = ["data set corners", "format quarters", "method mine", "model three", "rounding mode ties_neg"]
PARTS = ["--method", "mine", "--model", "three", "--data", "corners", "--batch-size", "16"]


def fresh(folder: Path, *arguments: str, path: str = "", status: int = 0) -> str:
    """What a process of its own says: stdout, of a refusal stderr."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), path]))}
    command = [sys.executable, "-m", "intnet", *arguments]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == status, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stderr if status == 2 else done.stdout


def intnet(folder: Path, *arguments: str, status: int = 0) -> str:
    """What it says in this process, which knows nothing of the folder before it and forgets all after it."""
    found, out, err = afresh(folder, *arguments)
    assert found == status, f"{arguments}: {found}\n{out}{err}"
    return err if status == 2 else out


def last(text: str) -> str:
    """The digest of the last line."""
    return text.splitlines()[-1].split()[-1]


@pytest.fixture
def clean(tmp_path: Path) -> Iterator[None]:
    """What a test registers is forgotten after it; what others did is not there."""
    with alone(tmp_path):
        yield


@pytest.fixture
def mine(tmp_path: Path, clean: None) -> Path:
    file = tmp_path / "own_parts.py"
    file.write_text(MINE)
    return file


# -- the whole way, in processes of their own and in this one without what it has met -------------------


@pytest.mark.slow
def test_every_command_finds_what_a_run_was_made_of(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    sha256 = hashlib.sha256(MINE.encode()).hexdigest()
    given = ["--import", "mine.py", *PARTS, "--set", "k=3"]
    whole = last(fresh(tmp_path, "train", *given, "--epochs", "2", "--out", "whole"))
    intnet(tmp_path, "train", *given, "--epochs", "1", "--out", "run")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["run"]["plugins"] == dict.fromkeys(KEYS, sha256)
    assert config["plan"]["imports"] == [str(tmp_path / "mine.py")]
    assert last(fresh(tmp_path, "resume", "run", "--epochs", "2")) == whole
    assert last(intnet(tmp_path, "eval", "run")) == whole
    assert "Quarters(k=3), ties_neg" in intnet(
        tmp_path, "inspect", "run", "--layer", "fc2", "--path", "Wq", "--index", "0,0"
    )
    assert "no difference" in fresh(tmp_path, "verify", "run", "--layer", "fc2")
    intnet(tmp_path, "golden", "run", "--layer", "fc2", "--out", "pack")
    contract = (tmp_path / "pack" / "CONTRACT.md").read_text()
    assert "Mode ties_neg, of its maker's own, goes up by: f > 1/2" in contract
    assert "`quarters`, a format of its maker's own" in contract and str(tmp_path) not in contract
    assert "give --import FILE" in intnet(tmp_path, "check", "pack", status=2)
    assert "PASS" in fresh(tmp_path, "check", "pack", "--import", "mine.py")
    assert "  ties_neg " in intnet(tmp_path, "list", "--import", "mine.py")


@pytest.mark.slow
def test_sweeps_and_comparisons_hand_it_to_their_workers(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    given = ["--import", "mine.py", *PARTS]
    alone = last(intnet(tmp_path, "train", *given, "--set", "k=2", "--out", "alone"))
    sweep = ["sweep", *given, "--vary", "k=2,3", "--baseline", "float32", "--jobs", "2", "--out", "sweep"]
    first = last(intnet(tmp_path, *sweep))
    plan = json.loads((tmp_path / "sweep" / "sweep.json").read_text())
    assert list(plan["common"]["plugins"]) == KEYS and plan["imports"] == [str(tmp_path / "mine.py")]
    report = json.loads((tmp_path / "sweep" / "runs" / "mine+k=2+seed=1" / "report.json").read_text())
    assert report["state_sha256"] == alone
    of_float32 = json.loads((tmp_path / "sweep/runs/float32+seed=1/config.json").read_text())
    assert "method mine" not in of_float32["run"]["plugins"]
    assert last(intnet(tmp_path, *sweep)) == first
    assert last(intnet(tmp_path, "sweep", "--show", "sweep")) == first
    both = ["compare", "--import", "mine.py", "--methods", "mine,float32", *PARTS[2:], "--jobs", "2"]
    assert "compare sha256" in intnet(tmp_path, *both, "--out", "both")
    (tmp_path / "mine.py").write_text(MINE + "# changed\n")
    assert "of another file there than here, or of one that changed" in intnet(tmp_path, *sweep, status=2)
    assert "it changed" in intnet(tmp_path, "sweep", "--show", "sweep", status=2)


@pytest.mark.slow
def test_a_definition_of_ones_own_verifies_and_a_wrong_one_does_not(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "defined.py").write_text(DEFINED)
    (tmp_path / "wrong.py").write_text(DEFINED.replace("2 * f > 1", "False"))
    intnet(tmp_path, "train", "--import", "mine.py", *PARTS, "--out", "run")
    verify = ["verify", "run", "--layer", "fc2", "--all"]
    none = next(line for line in intnet(tmp_path, *verify).splitlines() if line.startswith("Wq"))
    assert none.endswith("not specified")
    said = intnet(tmp_path, *verify, "--import", "defined.py")
    assert next(line for line in said.splitlines() if line.startswith("Wq")).endswith("equal")
    assert "fc2/Wq" in intnet(tmp_path, *verify, "--import", "wrong.py", status=1)
    intnet(tmp_path, "golden", "run", "--layer", "fc2", "--out", "pack")
    by_spec = ["check", "pack", "--by", "spec", "--import"]
    status, said, _ = afresh(tmp_path, *by_spec, "mine.py")
    assert "no method 'mine': give --import FILE of one that registers it and names its definition" in said
    assert status == 2 and "NOTHING COMPARED" in said
    assert "PASS" in intnet(tmp_path, *by_spec, "defined.py")
    assert "fc2/Wq" in intnet(tmp_path, *by_spec, "wrong.py", status=1)


@pytest.mark.slow
def test_an_error_in_a_definition_of_ones_own_says_where(tmp_path: Path) -> None:
    """What does not read the options, and what fails in the file itself."""
    (tmp_path / "mine.py").write_text(MINE)
    assert "READ = " in DEFINED
    (tmp_path / "unread.py").write_text(re.sub("    READ = .*", "", DEFINED))
    (tmp_path / "broken.py").write_text(DEFINED.replace("def format_of(self, layer, path):", BROKEN))
    intnet(tmp_path, "train", "--import", "mine.py", *PARTS, "--set", "k=3", "--out", "run")
    verify = ["verify", "run", "--layer", "fc2", "--import"]
    said = intnet(tmp_path, *verify, "unread.py", status=2)
    assert "mine: its definition does not take the options: " in said and "READ = " in said
    said = intnet(tmp_path, *verify, "broken.py", status=2)
    assert "broken.py, line " in said and "ZeroDivisionError" in said and "internal error" not in said


@pytest.mark.slow
def test_workers_of_a_cluster_read_it_and_read_it_again_when_it_changed(tmp_path: Path) -> None:
    given = ["--import", "mine.py", *PARTS, "--vary", "k=2,3"]
    digests = []
    with local_cluster(1) as cluster:
        for name, text in (("first", MINE), ("second", MINE.replace("default_rng(1)", "default_rng(2)"))):
            (tmp_path / "mine.py").write_text(text)
            there = ["--cluster", cluster.scheduler_address, "--out", name]
            digests.append(last(fresh(tmp_path, "sweep", *given, *there)))
            assert last(intnet(tmp_path, "sweep", *given, "--out", f"{name} here")) == digests[-1]
    assert digests[0] != digests[1]


@pytest.mark.slow
def test_a_package_adds_its_parts_by_an_entry_point(tmp_path: Path) -> None:
    site = tmp_path / "site"
    info = site / "mypackage-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mypackage\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[intnet.plugins]\nmine = mypackage_parts\n")
    (site / "mypackage_parts.py").write_text(MINE)
    path = str(site)
    digest = last(fresh(tmp_path, "train", *PARTS, "--out", "run", path=path))
    assert last(fresh(tmp_path, "eval", "run", path=path)) == digest
    assert "  mine " in fresh(tmp_path, "list", path=path)
    assert last(fresh(tmp_path, "eval", "run")) == digest  # by the file that the run remembers
    (site / "mypackage_parts.py").write_text("import no_such_module\n")
    said = fresh(tmp_path, "train", *PARTS, "--out", "other", path=path, status=2)
    assert "mypackage, entry point 'mine': ModuleNotFoundError: No module named 'no_such_module'" in said


# -- registries ------------------------------------------------------------------------------------


def test_a_taken_name_is_refused(mine: Path) -> None:
    plugins.load(mine)
    other = mine.with_name("other_parts.py")
    other.write_text(MINE)
    with pytest.raises(ConfigError, match=r"mode 'ties_neg' is taken, by .*own_parts\.py: give yours"):
        plugins.load(other)
    assert methods.METHODS.origins["mine"].file == str(mine)
    with pytest.raises(ConfigError, match="method 'wageubn' is taken, by intnet itself"):
        methods.register("wageubn")(methods.Float32)
    for name in ("", "a b", "3k", "a@b", "a/b"):
        with pytest.raises(ConfigError, match="a name is letters"):
            methods.register(name)


@pytest.mark.usefixtures("clean")
def test_what_cannot_be_one_is_refused() -> None:
    class Named(methods.Float32):
        name = "other"

    class Loose(formats.OwnFormat):
        pass

    cases = [
        (methods, int, "derives from Method"),
        (methods, Named, "its class says name = 'other'"),
        (models, 3, "model 'one': register a class or a function, not 3"),
        (datasets, 3, "data set 'one': register a class or a function, not 3"),
        (formats, int, "derives from OwnFormat or Levels"),
        (formats, Loose, "frozen=True"),
        (rounding, lambda floor, f: True, "whose docstring says"),
    ]
    for module, made, said in cases:
        with pytest.raises(IntnetError, match=said):
            module.register("one")(made)
    with pytest.raises(IntnetError, match="'RND' is an HLS name, of ties_pos"):
        rounding.register("RND")(lambda floor, f: True)
    with pytest.raises(ConfigError, match="names a stem"):
        models.register("net-cifar")(lambda shape, classes: None)


def test_a_definition_run_again_takes_its_own_place(mine: Path) -> None:
    plugins.load(mine)
    before = methods.METHODS["mine"]
    plugins.load(mine)
    assert methods.METHODS["mine"] is before  # nothing changed: not run again
    mine.write_text(MINE.replace('"three"', '"four"'))
    plugins.load(mine)
    assert methods.METHODS["mine"] is not before
    assert "four" in models.MODELS and "three" not in models.MODELS


def test_a_module_that_is_read_again_has_its_own_hash(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read by --import, edited, then by `importlib.reload`, as in a notebook."""
    plugins.load(mine)
    mine.write_text(MINE.replace("k: int = 4", "k: int = 2"))
    monkeypatch.syspath_prepend(mine.parent)
    importlib.reload(sys.modules[mine.stem])
    assert methods.make("mine").settings()["k"] == 2
    assert methods.METHODS.origins["mine"].sha256 == hashlib.sha256(mine.read_bytes()).hexdigest()


def test_a_file_that_fails_leaves_nothing(mine: Path) -> None:
    lines = MINE.count("\n")
    mine.write_text(MINE + "1 / 0\n")
    with pytest.raises(ConfigError, match=rf"own_parts\.py, line {lines + 1}: ZeroDivisionError"):
        plugins.load(mine)
    assert "mine" not in methods.METHODS and "own_parts" not in sys.modules
    mine.write_text(
        MINE + "from intnet.errors import ConfigError\nraise ConfigError('run holds a run already')\n"
    )
    with pytest.raises(
        ConfigError, match="a run already; it is read by being run: what trains stands under `if"
    ):
        plugins.load(mine)
    with pytest.raises(ConfigError, match=r"no_such\.py: No such file"):
        plugins.load(mine.with_name("no_such.py"))
    clash = mine.with_name("json.py")
    clash.write_text(MINE)
    with pytest.raises(ConfigError, match="a module 'json' is there already"):
        plugins.load(clash)
    text = mine.with_name("parts.txt")
    text.write_text(MINE)
    with pytest.raises(ConfigError, match=r"ends in \.py"):
        plugins.load(text)


@pytest.mark.usefixtures("clean")
def test_what_stands_in_no_file_is_kept_by_no_run(tmp_path: Path) -> None:
    cls = type("Typed", (methods.Float32,), {"__module__": "a_notebook"})
    methods.register("typed")(cls)
    run = run_folder.build("typed", {}, "mlp", "digits", batch_size=16, limit=16)
    with pytest.raises(ConfigError, match="method 'typed' stands in no file"):
        run_folder.create(tmp_path / "run", run, 1)
    assert not (tmp_path / "run").exists()


# -- what headers keep -----------------------------------------------------------------------------


def test_a_run_of_intnets_own_parts_has_none_of_it(tmp_path: Path, clean: None) -> None:
    run = run_folder.build("float32", {}, "mlp", "digits", batch_size=16, limit=16)
    assert "plugins" not in identity(run)
    run_folder.create(tmp_path / "run", run, 1).close()
    assert set(json.loads((tmp_path / "run" / "config.json").read_text())["plan"]) == {
        "steps", "checkpoint_every", "data_dir",
    }  # fmt: skip


def test_a_run_is_the_same_whatever_else_is_registered_later(mine: Path, tmp_path: Path) -> None:
    run = run_folder.build("float32", {}, "mlp", "digits", batch_size=16, limit=16)
    with run_folder.create(tmp_path / "run", run, 1) as work:
        work.train()
    plugins.load(mine)
    again = run_folder.load(tmp_path / "run")
    assert "plugins" not in identity(again)
    fresh = run_folder.build("float32", {}, "mlp", "digits", batch_size=16, limit=16)
    assert list(identity(fresh)["plugins"]) == ["format quarters", "rounding mode ties_neg"]


def test_need_reads_what_is_remembered_and_runs_nothing_that_changed(mine: Path, tmp_path: Path) -> None:
    marker = tmp_path / "was_run"
    wanted = dict.fromkeys(KEYS, hashlib.sha256(MINE.encode()).hexdigest())
    with pytest.raises(ConfigError, match=r"run was made with data set corners, which is not here: give"):
        plugins.need(wanted, [], "run")
    with pytest.raises(ConfigError, match=r"gone\.py is gone"):
        plugins.need(wanted, [str(tmp_path / "gone.py")], "run")
    mine.write_text(f"open({str(marker)!r}, 'w')\n" + MINE)
    with pytest.raises(ConfigError, match=r"own_parts\.py has [0-9a-f]{12}\.\.: it changed"):
        plugins.need(wanted, [str(mine)], "run")
    assert not marker.exists() and "mine" not in methods.METHODS
    mine.write_text(MINE)
    plugins.need(wanted, [str(mine)], "run")
    assert plugins.files(wanted) == [str(mine)]
    changed = MINE + "# more\n"
    mine.write_text(changed)
    plugins.load(mine)
    with pytest.raises(ConfigError, match="it changed; give the file as it was"):
        plugins.need(wanted, [str(mine)], "run")
    # one process that meets both, as a cluster's worker may: what the next one needs is read
    plugins.need(dict.fromkeys(KEYS, hashlib.sha256(changed.encode()).hexdigest()), [str(mine)], "run")
    mine.write_text(MINE)
    plugins.need(wanted, [str(mine)], "run")


def test_a_header_that_is_none_is_refused() -> None:
    assert plugins.of_header({}, "PACK.json") == {}
    for wrong in (3, ["method mine"], {"method mine": 3}):
        with pytest.raises(ConfigError, match=r"PACK\.json: its plugins are"):
            plugins.of_header({"plugins": wrong}, "PACK.json")


def test_an_unknown_name_says_how_one_of_ones_own_is_found() -> None:
    with pytest.raises(ConfigError, match=r"unknown method 'mine'; .*give its file with --import FILE"):
        methods.make("mine")
