"""What is wrong on a command line, in one line: options, names, files that are not what they should be."""

import os
from pathlib import Path
from typing import Any

import pytest

from intnet import datasets
from tests.support.command import MLP, here, refused, train_arguments


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "wageubm"}, "unknown method 'wageubm'; did you mean 'wageubn'? there are "),
        ({"model": "resnet9"}, "unknown model 'resnet9'; did you mean 'resnet8'?"),
        ({"data": "digit"}, "unknown data set 'digit'; did you mean 'digits'? there are digits, "),
        ({"set": "edge=fixed16"}, "unknown key of method 'wageubn' 'edge'; did you mean 'edges'?"),
        ({"set": "name=x"}, "unknown key of method 'wageubn' 'name'"),
        ({"set": "self=x"}, "unknown key of method 'wageubn' 'self'"),
        ({"set": "e2=99"}, "wageubn: e2='99': use flag8, or a width of SQ from 2 to 16, as in e2=16"),
        ({"set": "saturate=x"}, "wageubn: saturate='x' is not a whole number"),
        ({"set": "lr"}, "--set lr: write KEY=VALUE, as in lr=26"),
        ({"set": "=3"}, "--set =3: write KEY=VALUE"),
        ({"set": "dr=100"}, "dr = 100 is not a power of two"),
        ({"method": "float32", "set": "momentum=nan"}, "float32: momentum='nan' is not a finite number"),
        ({"seed": -1}, "seed -1 is outside 0..2^64-1"),
        ({"seed": "x"}, "argument --seed: invalid int value: 'x' (see intnet train --help)"),
        ({"batch_size": 0}, "argument --batch-size: '0' is not a whole number of at least 1"),
        ({"batch_size": 2000}, "batch size 2000: the data set has 1438 training images"),
        ({"steps": "1.5"}, "argument --steps: '1.5' is not a whole number of at least 1"),
        ({"epochs": 2}, "argument --epochs: not allowed with argument --steps"),
        ({"limit": 5000}, "digits: cannot take the first 5000 of 1438 training images"),
        ({"checkpoint_every": 0}, "argument --checkpoint-every: '0' is not a whole number of at least 1"),
        ({"method": None}, "the following arguments are required: --method"),
        ({"step": 3}, "unknown option --step; did you mean --steps?"),
        ({"data_dir": ""}, "an argument is empty: a variable of the shell that is not set?"),
    ],
)  # fmt: skip
def test_bad_usage_of_train(
    changes: dict[str, Any], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert message in refused(capsys, *train_arguments(**changes))
    assert not list(tmp_path.iterdir())


def test_a_key_given_twice(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--set lr is given twice" in refused(capsys, *train_arguments(), "--set", "lr=2", "--set", "lr=3")


def test_a_unit_without_a_level(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def told(name: str) -> str:
        return refused(capsys, "golden", "unit", name, "--out", tmp_path / "pack")

    assert "unknown unit 'shifty'; did you mean 'shift'" in told("shifty")
    assert "--level is missing: which of shift's vectors, 0 to 4?" in told("shift")
    assert "an argument is empty" in refused(capsys, "golden", "unit", "shift", "--level", 1, "--out=")


def test_names_in_two_places(capsys: pytest.CaptureFixture[str]) -> None:
    apart = refused(capsys, "golden", "unit", "--out", "pack", "shift")
    assert apart.startswith("intnet golden: unrecognized arguments: shift; names stand together, ahead of")
    assert "unrecognized arguments: two (see" in refused(capsys, "check", "one", "two")


@pytest.mark.parametrize("command", ["golden", "inspect"])
def test_a_layer_given_twice(command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    net = ["--method", "wageubn", "--model", "mlp", "--data", "digits"]
    more = ["--out", tmp_path / "pack"] * (command == "golden")
    line = refused(capsys, command, *net, "--layer", "fc1", "--layer", "fc2", *more)
    assert "--layer is given twice: one pattern can name many" in line and not (tmp_path / "pack").exists()


def test_missing_data(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    line = refused(capsys, *train_arguments(data="mnist", data_dir=tmp_path, out=tmp_path / "run"))
    assert "mnist: data files not found" in line and str(tmp_path) in line and not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", *MLP, "--step", "3", "--out", "q"), "unknown option --step; did you mean --steps?"),
        (("train", "--methd", "wageubn"), "unknown option --methd; did you mean --method?"),
        (("train", "--xyz=3"), "unknown option --xyz (see intnet train --help)"),
        (("train", *MLP, "--stats-every", 2, "--out", "q"), "--stats-every: there is no --stats FILE"),
        (("lab", "pyproject.toml"), "FILE pyproject.toml: a file of another kind is there"),
        (("lab", os.devnull), "a file of another kind is there"),
        (("resume", "pyproject.toml"), "pyproject.toml: that is a file; give the run's folder"),
        (("eval", "pyproject.toml"), "not a fixed-point model"),
        (("train", *MLP, "--data", "arrays:pyproject.toml", "--out", "q"), "(neither .npz nor .npy)"),
    ],
)
def test_what_is_no_option_and_no_file_of_ours(
    arguments: tuple[object, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refused(capsys, *arguments)


def test_a_page_is_written_through_a_link(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "link.html").symlink_to("page.html")
    for _ in range(2):  # its own is written again
        assert here(capsys, "lab", tmp_path / "link.html")[0] == 0
        assert (tmp_path / "link.html").is_symlink() and (tmp_path / "page.html").is_file()


def test_a_file_that_leaves_is_an_error_of_that_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "leaves.py").write_text("import sys\n\nsys.exit()\n")
    told = refused(capsys, "list", "--import", tmp_path / "leaves.py")
    assert "leaves.py, line 3: SystemExit" in told


def test_unknown_command_and_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert "invalid choice: 'trian'" in refused(capsys, "trian")
    assert "the following arguments are required: COMMAND" in refused(capsys)


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = here(capsys, *train_arguments(method="wageubm"), "--debug")
    assert (status, out) == (2, "") and "Traceback" in err and "ConfigError: unknown method" in err


def test_an_error_of_our_own_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("oh")

    monkeypatch.setattr(datasets, "load", broken)
    assert "intnet train: internal error: RuntimeError: oh (--debug shows where)" in refused(
        capsys, *train_arguments()
    )
