"""The notebooks of examples/: executed again, each gives the text that is on file, so none goes stale."""

from __future__ import annotations

import copy
import json
import tempfile
from pathlib import Path

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

from examples import execute
from examples.rtl import simulate

RTL = "verify_an_rtl_unit"
LARGEST = 400_000  # bytes of a notebook
STALE = "what {} prints has changed: read the difference, then `make notebooks`"


def small(folder: Path, *sources: str) -> Path:
    """A notebook of these code cells."""
    path = folder / "small.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in sources]), path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("path", execute.NOTEBOOKS, ids=lambda path: path.stem)
def test_executed_again_it_prints_what_is_on_file(path: Path) -> None:
    if path.stem == RTL and simulate.missing("icarus"):
        pytest.skip(simulate.missing("icarus"))
    on_file, now = (execute.texts(n) for n in (nbformat.read(path, 4), execute.executed(path)))
    assert now == on_file, STALE.format(path.name)


@pytest.mark.slow
def test_without_a_simulator_it_says_so_and_goes_on(tmp_path: Path) -> None:
    path = execute.HERE / f"{RTL}.ipynb"
    now = execute.texts(execute.executed(path, {"PATH": str(tmp_path)}))
    said = [text for _, outputs in now for text in outputs]
    assert "stdout: Icarus Verilog is not here: the cells that need it are skipped\n" in said
    assert not any("iverilog" in text or "dut" in text for text in said)
    assert "stdout: $ intnet check fc2\n" in said[-1] and "\nPASS: " in said[-1]


@pytest.mark.parametrize("path", execute.NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_as_execute_writes_it(path: Path) -> None:
    text = path.read_text()
    notebook = nbformat.reads(text, 4)
    nbformat.validate(notebook)
    assert text == execute.text(execute.settled(copy.deepcopy(notebook)))
    assert len(text) < LARGEST
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    printed = json.dumps([said for _, said in execute.texts(notebook)])
    for place in (str(execute.HERE.parent), tempfile.gettempdir() + "/", str(Path.home()) + "/"):
        assert place not in printed


def test_notebooks_hold_what_they_promise() -> None:
    said = {path.stem: str(execute.texts(nbformat.read(path, 4))) for path in execute.NOTEBOOKS}
    assert {"one_number_through_wageubn", RTL, "a_researchers_day"} < set(said)
    assert "no difference" in said["a_researchers_day"] and "PASS: " in said["a_researchers_day"]
    assert sorted(name[7] for name in said if name.startswith("course_")) == list("124567")
    assert said["one_number_through_wageubn"].count("the same, bit by bit") >= 13
    assert all(text in said[RTL] for text in ("PASS n=", "FAIL bad files 0", "tie up", "explains every word"))


@pytest.mark.slow
def test_another_number_holds_too(tmp_path: Path) -> None:
    """The notebook says that its numbers can be changed: here the short batch at the end of an epoch."""
    notebook = nbformat.read(execute.HERE / "one_number_through_wageubn.ipynb", 4)
    setup = next(cell for cell in notebook.cells if "STEP, SEED = " in cell.source)
    for old, new in (("SEED = 30, 1", "SEED = 23, 2"), ("FROM = 5, 19, 30", "FROM = 2, 9, 1")):
        assert old in setup.source
        setup.source = setup.source.replace(old, new)
    nbformat.write(notebook, tmp_path / "other.ipynb")
    said = str(execute.texts(execute.executed(tmp_path / "other.ipynb")))
    assert "fc2/e3[2, 9]" in said and said.count("the same, bit by bit") >= 13


@pytest.mark.slow
def test_a_cell_that_fails_stops_it(tmp_path: Path) -> None:
    with pytest.raises(CellExecutionError, match="1 == 2"):
        execute.executed(small(tmp_path, "print('so far')", "assert 1 == 2, '1 == 2'"))


@pytest.mark.slow
def test_text_is_compared_and_pictures_are_not(tmp_path: Path) -> None:
    draw = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"
    ask = "import os, intnet\nprint(os.environ['ASKED'])\nprint('joined')"
    now = execute.texts(execute.executed(small(tmp_path, draw, ask, "6 * 7"), {"ASKED": "given"}))
    assert now[0] == (draw, ["a picture"])
    assert now[1] == (ask, ["stdout: given\njoined\n"])
    assert now[2][1] == ["execute_result: {'text/plain': '42'}"]


@pytest.mark.slow
def test_in_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = small(tmp_path, "print('here')")
    assert execute.main([str(path)]) == 0
    first = path.read_bytes()
    assert b"here" in first and capsys.readouterr().out.startswith("small.ipynb: ")
    assert execute.main([str(path)]) == 0
    assert path.read_bytes() == first
