"""`intnet inspect --plot`: a picture in three formats, the same for the same step, and its errors."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

from intnet.cli import terminal
from tests.support.command import MLP, here, refused

FC2 = (*MLP, "--limit", 64, "--layer", "fc2")
START = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


@pytest.mark.slow
@pytest.mark.parametrize("suffix", START)
def test_the_same_step_gives_the_same_picture(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, suffix: str
) -> None:
    """Of all paths in one format, of a few in the others."""
    made, few = [], () if suffix == ".svg" else ("--path", "gW*")
    for name in ("one", "two"):
        target = tmp_path / (name + suffix)
        status, out, err = here(capsys, "inspect", *FC2, *few, "--plot", target)
        assert (status, err, out.splitlines()[-1]) == (0, "", f"written: {target}")
        made.append(target.read_bytes())
    assert made[0] == made[1] and made[0].startswith(START[suffix])


@pytest.mark.slow
def test_every_path_has_its_histogram(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "x.svg"
    status, out, err = here(capsys, "inspect", *FC2, "--path", "gW*", "--plot", target, "--json")
    assert (status, err, out.count("\n")) == (0, "", 1)
    text = target.read_text()  # matplotlib writes every text as a comment beside its outlines
    for words in ("fc2/gW", "exact", "fc2/gWq", "CQ(dr=128), SQNR ", "steps of 2^-14", "before", "after"):
        assert words in text, words
    assert "seed 3" in text and "fc2/x1" not in text


@pytest.mark.slow
def test_a_slide_shows_what_lost_most(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Of a block's many paths the twelve of the least SQNR, as the table has them; 16:9."""
    from PIL import Image

    block = ("--method", "wageubn", "--model", "resnet8", "--data", "digits", "--limit", 64)
    what = ("inspect", *block, "--layer", "layer1.0.*", "--plot")
    status, out, _ = here(capsys, *what, tmp_path / "x.svg", "--json")
    assert status == 0
    rows = [row for row in json.loads(out)["paths"] if row["sqnr_db"] is not None]
    lost = {f"{row['layer']}/{row['path']}" for row in sorted(rows, key=lambda row: row["sqnr_db"])[:12]}
    text = (tmp_path / "x.svg").read_text()
    drawn = set(re.findall(r"<!-- (layer1\.0\.\w+/\w+) -->", text, re.M))
    assert len(lost) == 12 and drawn == lost
    assert f"of {len(json.loads(out)['paths'])} paths the 12 that rounding changed most" in text
    assert here(capsys, *what, tmp_path / "x.png")[0] == 0
    with Image.open(tmp_path / "x.png") as picture:
        assert abs(9 * picture.width - 16 * picture.height) <= 16


@pytest.mark.slow
def test_a_float_path_has_one_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    what = ("--method", "float32", "--model", "mlp", "--data", "digits", "--limit", 64, "--layer", "bn2")
    status, _, err = here(capsys, "inspect", *what, "--plot", tmp_path / "x.png")
    assert (status, err) == (0, "")


def test_errors_come_before_the_step(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(terminal, "advance", lambda *_: pytest.fail("a step was taken"))
    for name in ("x.gif", "x", "x.PNG"):
        assert "end the name in .png, .svg, .pdf" in refused(
            capsys, "inspect", *FC2, "--plot", tmp_path / name
        )
    assert "there is no folder" in refused(capsys, "inspect", *FC2, "--plot", tmp_path / "none" / "x.png")
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "matplotlib" else find(name)
    )
    assert "pip install matplotlib" in refused(capsys, "inspect", *FC2, "--plot", tmp_path / "x.png")
    assert not list(tmp_path.iterdir())
