"""`intnet inspect` as users and scripts meet it: the table, one element, --json, and errors in one line."""

from __future__ import annotations

import json
import shlex
import subprocess
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np
import pytest

from intnet.cli import inspect as command
from intnet.exact.expressions import Exact
from intnet.exact.quantize import quantize
from intnet.inspect.explain import explain
from intnet.inspect.text import decimal, fraction, root_decimal, sparkline, text
from intnet.methods.trace import Event, Recorder
from intnet.numbers.formats import FixedPoint
from intnet.numbers.qtensor import QTensor
from intnet.ops.curves import Tanh
from intnet.runs import records, run_folder
from intnet.spec import formats
from tests.support.command import MLP, PYTHON, ROOT, environment, here, refused

SMALL = (*MLP, "--limit", 64)
TERM = {"name": str, "code": int, "coefficient": int, "coefficient_name": str, "shift": int}
BLOCK = {"index": [int], "elements": int, "greatest": str, "at": [int], "exponent": int, "bits": int}
ROUNDING = {
    "mode": str, "grid": int, "log2_r": (int, NoneType), "scaled": (str, NoneType),
    "scaled_square": (str, NoneType), "floor": int, "remainder": (str, NoneType), "tie": bool,
    "word": (int, NoneType), "word_bits": (int, NoneType), "threshold": (int, NoneType), "up": bool,
    "rule": str, "rounded": int, "low": (int, NoneType), "high": (int, NoneType), "overflow": str,
    "kept": int, "saturated": bool, "lift": int, "block": (BLOCK, NoneType),
}  # fmt: skip
VALUE = {
    "terms": [TERM], "offset": int, "denominator": int, "exponent": int, "relu": bool,
    "value": (str, NoneType), "square": (str, NoneType), "number": (float, NoneType),
    "offset_name": str, "denominator_name": str,
}  # fmt: skip
PRODUCT = {"factors": [str], "terms": int, "bound": int}
ELEMENT = {
    "layer": str, "path": str, "step": int, "index": [int], "format": (str, NoneType), "formula": str,
    "value": VALUE, "product": (PRODUCT, NoneType), "rounding": (ROUNDING, NoneType),
    "code": (int, NoneType), "exponent": (int, NoneType), "width": (int, NoneType), "binary": str,
    "hex": str, "flag": str, "stored": str,
}  # fmt: skip
PATH = {
    "layer": str, "path": str, "part": str, "formula": str, "format": str, "rounding": (str, NoneType),
    "nominal_bits": (int, NoneType), "used_bits": (int, NoneType), "range_bits": (float, NoneType),
    "bound_bits": (int, NoneType), "exponent": ([int], NoneType), "range": ([float], NoneType),
    "shape": [int], "elements": int, "saturated": (int, NoneType), "inexact": (int, NoneType),
    "zeros": int, "sqnr_db": (float, NoneType), "edges": [float], "mean_bits": (float, NoneType),
    "before": ([int], NoneType), "after": [int],
}  # fmt: skip
HEAD = {"run": (str, NoneType), "method": str, "model": str, "data": str, "seed": int, "step": int}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two steps."""
    path = tmp_path_factory.mktemp("inspect") / "run"
    new = run_folder.build("wageubn", {}, "mlp", "digits", 32, 3, 64)
    with run_folder.create(path, new, 2) as work:
        work.train()
    return path


def json_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    status, out, err = here(capsys, "inspect", *arguments, "--json")
    assert (status, err, out.count("\n")) == (0, "", 1)
    return json.loads(out)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# -- what it shows ------------------------------------------------------------------------------


def test_the_table_has_a_row_a_path(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = here(capsys, "inspect", *SMALL, "--layer", "fc2")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "wageubn, mlp on digits: step 1, seed 3"
    paths = [line.split()[0] for line in lines[4:]]
    assert paths == ["forward", "x0", "Wq", "x1", "backward", "e3", "gW", "gWq", "e4",
                     "update", "Acc", "Accq", "W"]  # fmt: skip
    assert "…" not in out, "nothing is cut where the output is no terminal"
    assert any(block in out for block in "▁▂▃▄▅▆▇█")


def test_json_of_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    result = json_of(capsys, *SMALL, "--layer", "*2")
    records.check(result, HEAD | {"paths": [PATH]})
    assert {row["layer"] for row in result["paths"]} == {"fc2", "bn2", "relu2"}
    rows = {(row["layer"], row["path"]): row for row in result["paths"]}
    e3 = rows["fc2", "e3"]
    assert (e3["nominal_bits"], e3["part"], e3["shape"]) == (9, "backward", [32, 64])
    assert 10 < e3["sqnr_db"] < 60 and sum(e3["before"]) == sum(e3["after"]) == e3["elements"]
    assert 0 < e3["inexact"] <= e3["elements"]
    only = json_of(capsys, *SMALL, "--layer", "*2", "--path", "e?")
    assert only["paths"] == [row for row in result["paths"] if row["path"] in ("e0", "e1", "e2", "e3", "e4")]


@pytest.mark.slow
@pytest.mark.parametrize("keys", [(), ("e2=16",), ("edges=fixed16", "saturate=3"), ("first=block",)])
def test_json_of_an_element_of_every_path(capsys: pytest.CaptureFixture[str], keys: tuple[str, ...]) -> None:
    options = [text for key in keys for text in ("--set", key)]
    table = json_of(capsys, *SMALL, *options, "--layer", "*")
    for vector in (False, True):
        names = {row["path"] for row in table["paths"] if (len(row["shape"]) == 1) == vector}
        for path in names:
            where = ("--path", path, "--index", "1" if vector else "0,1")
            result = json_of(capsys, *SMALL, *options, "--layer", "*", *where)
            records.check(result, HEAD | {"elements": [ELEMENT]})
            assert {element["path"] for element in result["elements"]} == {path}


def test_the_way_of_one_element(capsys: pytest.CaptureFixture[str]) -> None:
    where = (*SMALL, "--layer", "bn2", "--path", "x2", "--index", "0,3")
    (one,) = json_of(capsys, *where)["elements"]
    status, out, _ = here(capsys, "inspect", *where)
    assert status == 0
    lines = {line[2:20].strip(): line[20:].strip() for line in out.splitlines()[3:]}
    assert out.splitlines()[2] == "bn2/x2[0,3]"
    assert lines["formula"] == "(x1 - mu)/(sigma + eps), eps = 2^-15"
    assert lines["operand"].startswith("x1 = ") and lines["offset"].endswith("(-mu)")
    value, rounding = Fraction(one["value"]["value"]), one["rounding"]
    assert Fraction(rounding["scaled"]) == value * 2**15
    assert Fraction(rounding["remainder"]) == value * 2**15 - rounding["floor"]
    assert lines["code"] == f"{one['code']:,} = 0b{one['binary']} = 0x{one['hex']} ({one['width']} bits)"
    assert lines["decision"] == rounding["rule"]


@pytest.mark.slow
def test_every_station_has_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    def lines(layer: str, path: str, index: str) -> str:
        status, out, err = here(capsys, "inspect", *SMALL, "--layer", layer, "--path", path, "--index", index)
        assert (status, err) == (0, "")
        return out

    assert "random word" in lines("fc2", "gWq", "0,1") and "threshold" in lines("fc2", "gWq", "0,1")
    assert "(flag, sign, magnitude)" in lines("fc2", "e3", "0,1")
    assert "sqrt(" in lines("bn2", "sigma", "0")
    assert "fc2/Wq * fc2/x0: a sum of up to 64" in lines("fc2", "x1", "0,1")
    assert "before relu" in lines("relu2", "x4", "0,1")
    assert "float32 bits" in lines("fc1", "x0", "0,1")


@pytest.mark.slow
def test_a_run_takes_its_next_step_and_is_left_as_it_was(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    before = files(folder)
    result = json_of(capsys, folder, "--layer", "fc2")
    later = json_of(capsys, folder, "--layer", "fc2", "--step", 5)
    assert files(folder) == before
    assert (result["step"], later["step"], result["run"]) == (3, 5, str(folder))
    straight = json_of(capsys, *SMALL, "--layer", "fc2", "--step", 3)
    assert straight["paths"] == result["paths"] != later["paths"]


@pytest.mark.slow
def test_what_is_shown_is_what_the_library_stored(capsys: pytest.CaptureFixture[str]) -> None:
    run, recorder = run_folder.build("wageubn", {}, "mlp", "digits", 32, 3, 64), Recorder("fc2/*")
    run.train(2, observe_last=[recorder])
    for path in ("Wq", "x1", "e3", "gWq", "W"):
        where = (*SMALL, "--step", 2, "--layer", "fc2", "--path", path, "--index", "4,5")
        (one,) = json_of(capsys, *where)["elements"]
        assert Fraction(one["stored"]) == recorder[f"fc2/{path}"].fractions()[4, 5]


def test_float32_has_no_codes_but_the_same_views(capsys: pytest.CaptureFixture[str]) -> None:
    plain = ("--method", "float32", "--model", "mlp", "--data", "digits", "--limit", 64)
    result = json_of(capsys, *plain, "--layer", "fc2")
    records.check(result, HEAD | {"paths": [PATH]})
    assert all(row["format"] == "float32" and row["sqnr_db"] is None for row in result["paths"])
    (one,) = json_of(capsys, *plain, "--layer", "fc2", "--path", "x1", "--index", "0,0")["elements"]
    assert one["code"] is None and len(one["hex"]) == 8


@pytest.mark.slow
@pytest.mark.parametrize(("method", "name", "station"), [
    ("adapt", "<8,4>", "rounded to         <8,4>, stochastic, steps of 2^-4"),
    ("muppet", "BF(8)", "by the tensor's extremes"),
])  # fmt: skip
def test_every_view_of_methods_with_float32_masters(
    method: str, name: str, station: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    plain = ("--method", method, "--model", "lenet5", "--data", "digits", "--limit", 64)
    result = json_of(capsys, *plain, "--layer", "conv2")
    records.check(result, HEAD | {"paths": [PATH]})
    formats = {row["path"]: row["format"] for row in result["paths"]}
    assert [formats[path] for path in ("Wq", "x1", "gWq", "W")] == [name, name, name, "float32"]
    assert all(row["part"] and row["formula"] for row in result["paths"])
    for path in formats:
        zeros = ",".join("0" * 4)
        (one,) = json_of(capsys, *plain, "--layer", "conv2", "--path", path, "--index", zeros)["elements"]
        records.check(one, ELEMENT)
    where = ("--layer", "conv2", "--path", "Wq", "--index", "0,0,1,2")
    status, out, err = here(capsys, "inspect", *plain, *where)
    assert (status, err) == (0, "") and station in out and "random word" in out and "float32 " in out
    page = tmp_path / "page.html"
    status, out, err = here(capsys, "inspect", *plain, "--layer", "[cbr]*2", "--html", page)
    assert (status, err) == (0, "") and page.stat().st_size > 100_000
    assert f"{name.replace('<', '&lt;').replace('>', '&gt;')}" in page.read_text()


@pytest.mark.slow
def test_every_view_of_block_float(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Epoch 2 of a run with few bits: blocks of 0, 2 and 4 bits, each told as it is."""
    given = ("--method", "dynasty", "--model", "resnet8", "--data", "digits", "--limit", 64)
    given += ("--batch-size", 32, "--step", 3, "--set", "bits=1.5", "--set", "gamma=0")
    where, page = ("--layer", "layer2.0.conv1"), tmp_path / "page.html"
    files = ("--html", page, "--plot", tmp_path / "plot.svg")
    result = json_of(capsys, *given, *where, *files)
    told = result.pop("page")
    assert (told["file"], told["bytes"]) == (str(page), page.stat().st_size)
    assert told["holds"] == "it holds all, up to 256 KiB a tensor (--embed)"
    records.check(result, HEAD | {"paths": [PATH]})
    rows = {row["path"]: row for row in result["paths"]}
    assert all(row["part"] and row["formula"] for row in result["paths"])
    assert rows["Wq"]["format"] == rows["e3"]["format"] == "BFP(8)" and rows["x1"]["format"] == "float32"
    assert 3 < rows["Wb"]["sqnr_db"] < 25 < rows["Wq"]["sqnr_db"] < 60 > rows["e3"]["sqnr_db"] > 25
    assert -30 < rows["e3"]["exponent"][0] < rows["e3"]["exponent"][1] < 0
    text = page.read_text()
    data = json.loads(text.partition('id="data">')[2].partition("</script>")[0])
    elements = data["elements"]["layer2.0.conv1/Wb"]
    found = {label: ",".join(map(str, one["index"])) for one in elements for label in one["is"].split(", ")}
    assert {"in a block of 0 bits", "rounds up", "rounds down", "saturated"} <= set(found)
    assert "elements by value" in text and "elements by code" not in text
    assert (tmp_path / "plot.svg").read_text().count("<svg") == 1
    explained = {}
    for label, index in found.items():
        where_it_is = (*where, "--path", "Wb", "--index", index)
        (explained[label],) = json_of(capsys, *given, *where_it_is)["elements"]
        records.check(explained[label], ELEMENT)
    empty = explained["in a block of 0 bits"]
    assert empty["rounding"]["rule"] == "b = 0: a block of zeros"
    assert empty["rounding"]["block"]["bits"] == empty["code"] == 0
    index, block = found["saturated"], explained["saturated"]["rounding"]["block"]
    status, out, err = here(capsys, "inspect", *given, *where, "--path", "Wb", "--index", index)
    assert (status, err) == (0, "") and f"  bits b             {block['bits']}\n" in out
    assert f"  exponent e         {block['exponent']}, the smallest with max < 2^e" in out
    assert f"[{','.join(map(str, block['index']))}], 16 values" in out and "max of block" in out


def test_the_examples_of_help_work(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    examples = [line for line in command.EXAMPLE.splitlines() if line.startswith("  intnet inspect")]
    assert len(examples) == 4
    for example in examples[2:3]:  # one is of a run, one of a larger model, and one in test_inspect_html.py
        status, out, err = here(capsys, *shlex.split(example)[1:], "--limit", 64)
        assert (status, err) == (0, "") and "stands for" in out
    status, out, _ = here(capsys, "inspect", "--help")
    assert status == 0 and all(example in out for example in examples)


# -- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--layer", "conv9"), "no layer matches 'conv9'; there are flatten, fc1, bn1"),
        (("--layer", "flatten"), "flatten: no data path; layers that have some: fc1, bn1"),
        (("--layer", "fc2", "--path", "e7"), "no path of fc2 matches 'e7'; there are x0, Wq, x1, e3"),
        (("--layer", "fc2", "--path", "x1", "--index", "99,0"), "no element 99,0: its shape is 32,64"),
        (("--layer", "fc2", "--path", "x1", "--index", "0"), "fc2/x1 has no element 0: its shape is 32,64"),
        (("--layer", "fc2", "--path", "x1", "--index", "0,-1"), "'0,-1' is no index"),
        (("--layer", "fc2", "--index", "0,0"), "--index needs --path"),
        (("--layer", "fc2", "--step", "0"), "'0' is not a whole number"),
        (("--layer", "fc2", "--set", "e2"), "--set e2: write KEY=VALUE"),
        ((), "--layer"),
    ],
)
def test_errors_list_what_there_is(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    assert says in refused(capsys, "inspect", *SMALL, *arguments)


def test_a_run_or_a_new_model(capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path) -> None:
    def error(*arguments: object) -> str:
        return refused(capsys, "inspect", *arguments, "--layer", "fc2")

    assert "give the folder of a run, or --method, --model, --data" in error()
    assert "give the folder of a run, or --data" in error("--method", "wageubn", "--model", "mlp")
    assert "--method: " in error(folder, "--method", "wageubn")
    assert "--set: " in error(folder, "--set", "e2=16")
    assert "has done 2 steps" in error(folder, "--step", 2)
    assert "no such run folder" in error(tmp_path / "none")


def test_a_disagreement_is_an_internal_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = formats.decision
    monkeypatch.setattr(formats, "decision", lambda *args: right(*args)._replace(up=True))
    where = ("--layer", "fc2", "--path", "Accq", "--index", "0,0")
    err = refused(capsys, "inspect", *SMALL, *where)
    assert "internal error: Disagreement: fc2/Accq 0,0: exact arithmetic reaches code" in err


# -- pieces of text -----------------------------------------------------------------------------


def test_numbers_as_text() -> None:
    assert [fraction(Fraction(*pair)) for pair in ((5, 1), (-5, 1024), (1, 3), (7, 8))] == [
        "5", "-5/2^10", "1/3", "7/8"
    ]  # fmt: skip
    assert decimal(Fraction(-5, 8)) == "-0.625" and decimal(Fraction(100)) == "100"
    assert decimal(Fraction(1, 3)) == "0.33333333333333333333..."
    assert decimal(Fraction(1, 2**40)) == "9.0949470177292823792E-13..."
    assert root_decimal(Fraction(9, 4)) == "1.5" and root_decimal(Fraction(2)) == "1.4142135623730950488..."


@pytest.mark.slow
def test_an_output_without_blocks_gets_ascii() -> None:
    command = [*PYTHON, "-m", "intnet", "inspect", *map(str, SMALL), "--layer", "fc2", "--path", "Wq"]
    changed = environment(PYTHONIOENCODING="ascii")
    run = subprocess.run(command, cwd=ROOT, env=changed, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "") and "@" in run.stdout and run.stdout.isascii()


def test_a_sparkline_never_hides_a_value() -> None:
    assert sparkline([0, 1, 1000, 500]) == " ▁█▄"
    assert sparkline([0, 1, 3, 1], narrow=True) == "▂█"
    assert sparkline([0, 0]) == "  "


def test_a_relus_error_is_told_by_what_it_was_made_of(capsys: pytest.CaptureFixture[str]) -> None:
    """Its codes go on into batch norm, whose error is made later and explains nothing of it."""
    found = []
    for index in range(12):
        given = (
            "--method",
            "wageubn",
            *MLP,
            "--layer",
            "relu2",
            "--path",
            "e?",
            "--index",
            f"0,{index}",
            "--json",
        )
        status, out, _ = here(capsys, "inspect", *given)
        assert status == 0
        e0, e1 = (
            next(one for one in json.loads(out)["elements"] if one["path"] == path) for path in ("e0", "e1")
        )
        entered = dict(e1["entered"])
        assert set(entered) == {"relu2/e0", "bn2/x3"} and entered["relu2/e0"] == e0["stored"]
        assert Fraction(e1["stored"]) == (Fraction(e0["stored"]) if Fraction(entered["bn2/x3"]) > 0 else 0)
        found.append(Fraction(entered["bn2/x3"]) > 0)
    assert {*found} == {True, False}


def test_a_curve_is_told_by_its_argument_and_a_mean_by_its_sum() -> None:
    """An irrational value has no fraction: decimals, as far as they are known."""
    x = QTensor(np.array([-451, 0], np.int16), -12)
    source, form = Tanh(x), FixedPoint(8, 7)
    lines = text(explain(Event("l", "x4", 0, source, quantize(source, form), form, "ties_even"), (0,)))
    with localcontext() as context:
        context.prec = 40
        grown = (Decimal(-902) / 4096).exp()
        near = (grown - 1) / (grown + 1)
        assert f"exact value        tanh(-451/2^12) = {near:.20f}..." in lines
        assert f"scaled             {128 * near:.18f}..." in lines and "/2,9" not in lines
    mean = Exact([(QTensor(np.array([-444], np.int16), 0), 1)], -7, den=4)
    form = FixedPoint(8, 7)
    lines = text(explain(Event("l", "x4", 0, mean, quantize(mean, form), form, "ties_even"), (0,)))
    assert "operand            code = -444\n" in lines and "denominator        4\n" in lines


def test_a_float_that_nothing_quantized_is_a_value(capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--method", "wageubn", *MLP, "--layer", "fc3", "--path", "W*", "--index", "0,0")
    lines = [line.split() for line in here(capsys, "inspect", *given)[1].splitlines() if "float32" in line]
    assert [line[0] for line in lines if line[0] in ("operand", "value")] == [
        "value",
        "value",
    ]  # Wq passes: nothing rounds it
