"""The command line as users and scripts meet it: output, exit statuses, and every error in one line."""

import dataclasses
import json
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from intnet import datasets, methods, models, trace
from intnet.errors import ConfigError
from intnet.numbers import rounding
from intnet.numbers.formats import FixedPoint
from intnet.numbers.qtensor import QTensor
from intnet.runs import checkpoint, files, kept, run_folder
from tests.support.command import (
    MLP,
    PYTHON,
    ROOT,
    environment,
    here,
    intnet,
    last_line,
    metrics,
    refused,
    train_arguments,
)

COMMANDS = ("train", "resume", "eval", "inspect", "costs", "sweep", "compare", "papers", "lab", "list")
SHORT = ("--steps", 2, "--limit", 64)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """(folder, stdout) of three epochs of four steps."""
    folder = tmp_path_factory.mktemp("runs") / "trained"
    done = intnet("train", *MLP, "--epochs", 3, "--limit", 120, "--out", folder)
    assert (done.returncode, done.stderr) == (0, "")
    return folder, done.stdout


# -- help and start ----------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = here(capsys, command, "--help")
    assert (status, err) == (0, "")
    assert f"example:\n  intnet {command}" in out and "--json" in out and "--debug" in out


def test_help_names_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = here(capsys, "--help")
    assert status == 0 and all(f"    {command} " in out for command in COMMANDS)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert here(capsys, "--version")[:2] == (0, "intnet 0.1.0, definition 3\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [("-m", "intnet", "--help"), ("-m", "intnet", "train", "--help"), ("-c", "import intnet")]
)
def test_starts_without_the_heavy_packages(arguments: tuple[str, ...]) -> None:
    """Loading numba, scipy or rich would make every --help and every typing error slow."""
    code = ["-X", "importtime", *arguments]
    done = subprocess.run(
        [*PYTHON, *code], cwd=ROOT, env=environment(), capture_output=True, text=True, check=True
    )
    loaded = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines()}
    assert "intnet" in loaded and not loaded & {"numba", "numpy", "scipy", "rich"}


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "| true"])
def test_streams_that_are_closed_drop_what_is_said(closed: str, tmp_path: Path) -> None:
    page = tmp_path / "pagä.html"
    command = f"{' '.join([*PYTHON, '-m', 'intnet', 'lab', str(page)])} {closed}"
    own = environment(PYTHONIOENCODING="ascii")  # which has no word for the page's name
    done = subprocess.run(command, shell=True, cwd=ROOT, env=own, capture_output=True, text=True, check=True)
    assert done.stderr == "" and page.is_file()


@pytest.mark.slow
def test_nothing_that_is_said_goes_into_a_file_of_a_run(tmp_path: Path) -> None:
    """A file that is opened while a stream is closed would get the stream's number."""
    log, arguments = tmp_path / "run" / "metrics.jsonl", [*MLP, "--steps", 5000, "--out", tmp_path / "run"]
    command = f"exec {' '.join(map(str, [*PYTHON, '-m', 'intnet', 'train', *arguments]))} <&- >&- 2>&-"
    with subprocess.Popen(command, shell=True, cwd=ROOT, env=environment()) as process:
        while not log.exists() or log.read_bytes().count(b"\n") < 3:
            assert process.poll() is None, "it ended before the signal"
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
    assert process.returncode == 128 + signal.SIGTERM
    assert [json.loads(line)["step"] for line in log.read_text().splitlines()][:3] == [1, 2, 3]
    assert (tmp_path / "run" / files.LOCK).read_text() == f"{process.pid}\n"


@pytest.mark.parametrize(
    ("name", "typed"), [("-d", "./-d"), ("a  b", "'a  b'"), ("runs/w", "runs/w"), ("/-d", "/-d")]
)
def test_the_command_that_is_told_can_be_typed(name: str, typed: str) -> None:
    assert kept.resume_command(name) == f"intnet resume {typed}"
    assert ConfigError(f"one\n  two: {typed}\n").line() == f"one two: {typed}"


# -- train and eval ----------------------------------------------------------------------------


@pytest.mark.slow
def test_output_of_train(trained: tuple[Path, str]) -> None:
    folder, out = trained
    lines = out.splitlines()
    assert (
        lines[0]
        == f"wageubn, mlp on digits: 120 training images, 4 steps an epoch; from step 0 to 12 in {folder}"
    )
    assert [line.split(":")[0] for line in lines[1:4]] == ["epoch 1", "epoch 2", "epoch 3"]
    assert any(line.startswith("test accuracy    ") for line in lines)
    assert any(line.split()[:4] == ["Wq", "<8,7>", "1", "8"] for line in lines)
    assert lines[-1] == f"state sha256: {json.loads((folder / 'report.json').read_text())['state_sha256']}"
    assert "\x1b" not in out


@pytest.mark.slow
def test_the_run_folder(trained: tuple[Path, str]) -> None:
    folder, _ = trained
    names = sorted(path.name for path in folder.iterdir())
    assert names == [
        ".intnet.lock", "checkpoint.npz", "config.json", "metrics.jsonl", "report.json", "report.md",
    ]  # fmt: skip
    config = json.loads((folder / "config.json").read_text())
    assert config["plan"] == {"steps": 12, "checkpoint_every": 100, "data_dir": None}
    run = config["run"]
    assert (run["method"], run["model"], run["data"]) == ("wageubn", "mlp", "digits")
    assert (run["limit"], run["batch_size"], run["seed"]) == (120, 32, 3)
    assert run["options"]["lr"] == "26" and run["options"]["saturate"] is None
    lines = metrics(folder)
    assert [(line["kind"], line["step"]) for line in lines if line["kind"] == "step"] == [
        ("step", step) for step in range(1, 13)
    ]
    assert [(line["step"], line["epoch"]) for line in lines if line["kind"] == "epoch"] == [
        (4, 0),
        (8, 1),
        (12, 2),
    ]


@pytest.mark.slow
def test_the_report_agrees_with_the_metrics(trained: tuple[Path, str]) -> None:
    folder, _ = trained
    report = json.loads((folder / "report.json").read_text())
    lines = metrics(folder)
    epochs = [line for line in lines if line["kind"] == "epoch"]
    assert report["test_accuracy"] == epochs[-1]["test_accuracy"]
    assert report["saturated"] == sum(sum(line["saturated"].values()) for line in epochs) > 0
    assert report["last_loss"] == [line for line in lines if line["kind"] == "step"][-1]["loss"]
    rows = {(row["layer"], row["path"]): row for row in report["paths"]}
    wq = rows["fc2", "Wq"]
    assert (wq["format"], wq["nominal_bits"], wq["exponents"], wq["elements"]) == ("<8,7>", 8, [-7, -7], 4096)
    assert rows["fc1", "x0"]["format"] == "float32" and rows["fc1", "x0"]["used_bits"] is None
    e3 = rows["fc2", "e3"]  # a flag word: the flag, a sign and seven bits
    assert e3["used_bits"] == e3["nominal_bits"] == 9 and e3["range_bits"] <= 8
    total = sum(line["saturated"].get("fc2/e3", 0) for line in epochs)
    assert e3["saturated_in_run"] == total >= e3["saturated"]
    text = (folder / "report.md").read_text()
    assert f"state sha256: `{report['state_sha256']}`" in text
    assert sum(line.startswith("| ") for line in text.splitlines()) == len(rows) + 1


@pytest.mark.slow
def test_eval_agrees_with_train(trained: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = trained
    report = json.loads((folder / "report.json").read_text())
    status, text, err = here(capsys, "eval", folder, "--json")
    assert (status, err) == (0, "")
    told = json.loads(text)
    assert told["test_accuracy"] <= told.pop("test_top5") <= 1
    assert told == {
        "run": str(folder),
        "data": "digits",
        "step": 12,
        "test_accuracy": report["test_accuracy"],
        "test_images": 359,
        "batch_norm": "running",
        "state_sha256": report["state_sha256"],
    }
    status, text, _ = here(capsys, "eval", folder, "--data", "digits")
    assert status == 0 and last_line(text) == last_line(out)
    assert f"test accuracy {report['test_accuracy']:.2%} (" in text
    assert "\nbatch norm: running statistics\n" in text


@pytest.mark.slow
def test_eval_says_whose_statistics_it_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Re-estimated ones are those of `Run.evaluate`, and no file of the run changes."""
    folder = tmp_path / "run"
    assert here(capsys, "train", *MLP, *SHORT, "--set", "statistics=running", "--out", folder)[0] == 0
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    status, text, _ = here(capsys, "eval", folder, "--reestimate", 3)
    assert status == 0 and "\nbatch norm: re-estimated from 3 training batches of 32 images\n" in text
    told = json.loads(here(capsys, "eval", folder, "--reestimate", 3, "--json")[1])
    assert (told["batch_norm"], told["reestimated_from"], told["batch_images"]) == ("reestimated", 3, 32)
    run = run_folder.load(folder)
    assert told["test_accuracy"] == run.evaluate(reestimate=3).accuracy
    assert told["state_sha256"] == run.digest() == json.loads(before[folder / "report.json"])["state_sha256"]
    assert before == {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    own = tmp_path / "own"
    assert here(capsys, "train", *MLP, *SHORT, "--set", "statistics=batch", "--out", own)[0] == 0
    text = here(capsys, "eval", own)[1]
    assert (
        "\nbatch norm: the statistics of each test batch, 256 images in order, the last batch fewer\n" in text
    )
    assert "statistics=batch" in refused(capsys, "eval", own, "--reestimate", 3)


@pytest.mark.slow
def test_json_of_train(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = here(
        capsys, "train", *MLP, *SHORT, "--set", "e2=16", "--json", "--out", tmp_path / "run"
    )
    assert (status, err, out.count("\n")) == (0, "", 1)
    result = json.loads(out)
    assert result == json.loads((tmp_path / "run" / "report.json").read_text())
    assert (
        len(result["state_sha256"]) == 64 and result["steps"] == 2 and result["run"]["options"]["e2"] == "16"
    )


@pytest.mark.slow
def test_float32_has_no_table_of_integers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = here(
        capsys,
        "train",
        "--method",
        "float32",
        "--model",
        "mlp",
        "--data",
        "digits",
        *SHORT,
        "--out",
        tmp_path / "run",
    )
    assert status == 0 and "in float32: x0, W, x1, " in out and "data paths" not in out


@pytest.mark.slow
@pytest.mark.parametrize("method", ["adapt", "muppet"])
def test_methods_whose_widths_move(method: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Train over an epoch's end, resume to the digest of an unbroken run, evaluate, report."""
    given = ("--method", method, "--model", "mlp", "--data", "digits", "--limit", 128)
    status, out, _ = here(capsys, "train", *given, "--steps", 5, "--out", tmp_path / "unbroken")
    assert status == 0 and "in float32: " in out
    assert here(capsys, "train", *given, "--steps", 3, "--out", tmp_path / "run")[0] == 0
    status, resumed, _ = here(capsys, "resume", tmp_path / "run", "--steps", 5)
    assert status == 0 and last_line(resumed) == last_line(out)
    status, tested, _ = here(capsys, "eval", tmp_path / "run", "--json")
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert status == 0 and json.loads(tested)["test_accuracy"] == report["test_accuracy"]
    rows = {(row["layer"], row["path"]): row for row in report["paths"]}
    kind = {"adapt": "<8,4>", "muppet": "BF(8)"}[method]
    for path in ("Wq", "x1", "gWq"):
        row = rows["fc2", path]
        assert (row["format"], row["nominal_bits"]) == (kind, 8) and 1 <= row["used_bits"] <= 8
    assert rows["fc2", "W"]["format"] == "float32" and rows["fc2", "W"]["used_bits"] is None


def test_a_row_has_the_format_of_the_last_step() -> None:
    table = trace.PathTable()
    for format in (FixedPoint(8, 4), FixedPoint(12, 8)):
        q = QTensor(np.array([100, -3], np.int16), format.exponent, format)
        table(trace.Event("fc", "Wq", 0, q, q, format, "stochastic"))
    (row,) = table.rows.values()
    assert (row.format, row.nominal, row.exponents, row.elements) == ("<12,8>", 12, (-8, -4), 4)


def test_list(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("INTNET_DATA", raising=False)
    monkeypatch.setitem(models.MODELS, "plain", type("Plain", (models.MLP,), {"__module__": __name__}))
    status, out, err = here(capsys, "list", "--data-dir", tmp_path, "--json")
    listing = json.loads(out)
    assert (status, err) == (0, "")
    assert listing["models"]["plain"]["about"] == (__doc__ or "").split("\n")[0]
    assert list(listing["methods"]) == list(methods.METHODS) and list(listing["models"]) == list(
        models.MODELS
    )
    assert list(listing["rounding_modes"]) == list(rounding.MODES)
    assert listing["formats"]["MXFP4"] == {"about": "4 bits an element: intnet.MXFP4"}
    assert listing["formats"]["BF16"] == {"about": "16 bits an element: intnet.BF16"}
    by_path = ("folder:PATH", "arrays:FILE.npz")
    assert {name: entry["available"] for name, entry in listing["data"].items()} == {
        name: name in ("digits", *by_path) for name in (*datasets.LOADERS, *by_path)
    }
    e2 = listing["methods"]["wageubn"]["options"]["e2"]
    assert e2 == {"default": "flag8"}
    edges = listing["methods"]["wageubn"]["options"]["edges"]
    assert edges == {"default": "float32", "choices": ["float32", "fixed16"]}
    assert listing["methods"]["adapt"]["options"]["clip"] == {"default": "off"}
    status, out, _ = here(capsys, "list")
    assert status == 0 and "--set saturate=off" in out and "RND_CONV" in out
    shared = "warmup, cosine, one_cycle, optimizer, momentum, beta1, beta2, adam_eps, clip, label_smoothing"
    assert out.count("--set optimizer=sgd  (one of sgd, adamw)") == 1 and f"as for float32: {shared}, " in out
    assert all(f"--set weight_decay={default}\n" in out for default in ("0.0", "0.0001"))


@pytest.mark.slow
def test_a_closed_pipe_is_no_error() -> None:
    command = " ".join([*PYTHON, "-m", "intnet", "list", "|", "true"])
    done = subprocess.run(
        command, shell=True, cwd=ROOT, env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stderr == ""


# -- folders -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_out_is_refused_where_something_is(
    trained: tuple[Path, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder, _ = trained
    line = refused(capsys, *train_arguments(out=folder))
    assert f"{folder} holds a run already: go on with `intnet resume {folder}`, or name another --out" in line
    (tmp_path / "notes.txt").touch()
    line = refused(capsys, *train_arguments(out=tmp_path))
    assert f"{tmp_path} is not empty (it holds notes.txt): name another --out" in line
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    assert "notes.txt is a file; a run needs a folder" in refused(
        capsys, *train_arguments(out=tmp_path / "notes.txt")
    )
    assert "notes.txt/run: Not a directory" in refused(
        capsys, *train_arguments(out=tmp_path / "notes.txt" / "run")
    )


def test_what_is_no_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for command in ("resume", "eval"):
        assert f"{tmp_path / 'no'}: there is no such run folder" in refused(capsys, command, tmp_path / "no")
        assert f"{tmp_path} is not a run folder: it has no config.json" in refused(capsys, command, tmp_path)
    assert "`intnet train --method adapt` leaves a model.npz, of another run write it" in refused(
        capsys, "eval", tmp_path / "model.npz"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "damaged (JSONDecodeError"),
        ("[]", "damaged (TypeError"),
        ("{}", "damaged (KeyError: 'format')"),
        ('{"format": "intnet run", "version": 2}', "not a run of this version of intnet"),
        (
            '{"format": "intnet run", "version": 1}',
            "a run of another version of the definition (none was written yet); this intnet computes",
        ),
        (
            '{"format": "intnet run", "version": 1, "definition": 1}',
            "a run of another version of the definition (1); this intnet computes version 3",
        ),
        (
            '{"format": "intnet run", "version": 1, "definition": 3, "run": {}, "plan": {"steps": 0}}',
            "steps = 0: give a whole number",
        ),
    ],
)
def test_damaged_config(text: str, message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    assert message in refused(capsys, "resume", tmp_path)


def test_eval_on_other_data(
    trained: tuple[Path, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = trained
    d = datasets.load("digits")
    same = dataclasses.replace(d, name="same", test_images=d.test_images[:50], test_labels=d.test_labels[:50])
    monkeypatch.setitem(datasets.LOADERS, "same", lambda _: same)
    status, out, _ = here(capsys, "eval", folder, "--data", "same", "--json")
    assert status == 0 and json.loads(out)["test_images"] == 50
    tall = dataclasses.replace(same, name="tall", train_images=np.repeat(d.train_images, 2, axis=1))
    monkeypatch.setitem(datasets.LOADERS, "tall", lambda _: tall)
    line = refused(capsys, "eval", folder, "--data", "tall")
    assert "trained on images (H, W, C) = (8, 8, 1) of 10 classes; 'tall' has (16, 8, 1) and 10" in line


@pytest.mark.slow
def test_a_nan_in_a_checkpoint_is_refused_by_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert here(capsys, "train", *MLP, *SHORT, "--out", folder)[0] == 0
    path = folder / "checkpoint.npz"
    state, meta = checkpoint.load(path)
    state["fc3.weight"][4, 5] = np.nan
    checkpoint.save(path, state, meta)
    for command in ("eval", "resume"):
        assert f"{path}: fc3.weight holds a NaN or infinity at index (4, 5)" in refused(
            capsys, command, folder
        )
    del state["fc3.weight"]
    checkpoint.save(path, state, meta)
    assert f"{path}: parameter fc3.weight (10, 64) is missing in the state" in refused(capsys, "eval", folder)
