"""`intnet papers`: what it lists, prints and refuses, figures by hand, and docs/papers.md as it prints."""

import importlib
import json
import re
import shlex
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from intnet import models
from intnet.papers.checks import CHECKS, adapt_costs
from intnet.papers.costs import adapt_costs as costs
from intnet.papers.places import PAPERS
from tests.oracle import costs as oracle
from tests.support.command import ROOT, here, refused

DOCS = ROOT / "docs" / "papers.md"
PRICED = ("adapt-costs", "muppet-costs", "dynasty-costs", "saved-costs")
CHEAP = (*PRICED, "wageubn-widths")


def shown(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    status, out, err = here(capsys, "papers", *arguments, "--json")
    assert (status, err, out.count("\n")) == (0, "", 1)
    result: dict[str, Any] = json.loads(out)
    return result


def rows(result: dict[str, Any], title: str) -> list[dict[str, Any]]:
    (table,) = [table for table in result["tables"] if table["title"].startswith(title)]
    found: list[dict[str, Any]] = table["rows"]
    return found


# -- the documentation -------------------------------------------------------------------------


def blocks() -> dict[str, tuple[str, str]]:
    """Check -> (its command, what it printed) of every block in docs/papers.md."""
    found = {}
    for command, text in re.findall(
        r"^```\n\$ (intnet papers [^\n]+)\n(.*?)^```$", DOCS.read_text(), re.M | re.S
    ):
        name = shlex.split(command)[2]
        assert name not in found, f"{name} stands twice in {DOCS.name}"
        found[name] = (command, text)
    return found


def test_every_check_stands_in_the_documentation_with_its_output() -> None:
    assert list(blocks()) == list(CHECKS)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHEAP)
def test_the_documentation_shows_what_the_command_prints(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command, text = blocks()[name]
    status, out, err = here(capsys, *shlex.split(command)[1:])
    assert (status, err) == (0, "")
    assert out == text


@pytest.mark.parametrize("name", [name for name in CHECKS if name not in CHEAP])
def test_long_checks_stand_there_with_the_sizes_of_their_command(name: str) -> None:
    command, text = blocks()[name]
    words = shlex.split(command)[3:]
    given = {key.removeprefix("--"): value for key, value in zip(words[::2], words[1::2], strict=True)}
    sizes = CHECKS[name].sizes
    assert sizes is not None
    seeds = given.get("seeds", ",".join(map(str, sizes.seeds))).replace(",", ", ")
    limit, model = int(given.get("limit", sizes.limit)), given.get("model", sizes.model)
    data, lines = given.get("data", sizes.data), " ".join(text.split())
    assert lines.startswith(f"{CHECKS[name].source} {model} on {data}: {limit:,} images, ")
    assert re.search(rf"seeds? {seeds};", lines)


# -- the command -------------------------------------------------------------------------------


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = here(capsys, "papers")
    assert (status, err) == (0, "")
    assert [line.split()[0] for line in out.partition("\nchecks\n")[2].splitlines()] == list(CHECKS)
    assert all(place.where in out and place.command in out for places in PAPERS.values() for place in places)
    told = shown(capsys)
    assert [len(places) for places in told["papers"].values()] == [len(places) for places in PAPERS.values()]
    listed = told["checks"]
    assert list(listed) == list(CHECKS) and listed["adapt-costs"]["sizes"] is None
    assert listed["wageubn-batch-size"]["sizes"]["model"] == "resnet20"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("adapt-cost",), "'adapt-costs'"),
        (("--limit", "64"), "--limit: of which check?"),
        (("adapt-costs", "--limit", "64", "--seeds", "1"), "--limit, --seeds: adapt-costs trains nothing"),
        (("adapt-costs", "--data-dir", "x"), "--data-dir: adapt-costs trains nothing"),
        (("adapt-costs", "--plot", "x.png"), "--plot: adapt-costs has no figure"),
        (("wageubn-widths", "--seeds", "1,2"), "trains with one seed"),
        (("wageubn-widths", "--tests", "64"), "--tests: wageubn-widths tells no accuracy"),
        (("wageubn-widths", "--out", "x"), "--out: wageubn-widths keeps nothing"),
        (("wageubn-batch-size", "--out", "README.md"), "README.md is a file"),
        (("wageubn-widths", "--limit", "0"), "'0' is not a whole number"),
        (
            ("wageubn-widths", "--limit", "9999"),
            "digits has 1,438 training images: give --limit, 1,438 at most",
        ),
        (("wageubn-widths", "--model", "resnet9"), "resnet9"),
        (
            ("wageubn-batch-size", "--data", "digits", "--limit", "100"),
            "--limit 100: the largest batches of this check have 128 images",
        ),
        (("wageubn-data-ratio", "--plot", "x.bmp"), "end the name in"),
        (("wageubn-data-ratio", "--data-dir", "nowhere"), "fashion-mnist"),
    ],
)
def test_refused(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in refused(capsys, "papers", *arguments)


def test_each_place_names_what_there_is() -> None:
    """Checks, pages of the documentation and names of the definition that places speak of exist."""
    for places in PAPERS.values():
        for place in places:
            words = place.command.split()
            if place.command.startswith("intnet papers"):
                assert words[2] in CHECKS
            elif place.command.startswith("docs/"):
                assert (ROOT / words[0].rstrip(":")).is_file()
            elif place.command.startswith("intnet."):
                module, _, name = place.command.rpartition(".")
                assert hasattr(importlib.import_module(module), name)
            assert (place.verdict in ("needs", "differs")) <= bool(place.by)
    assert {check for check in CHECKS} == {
        place.command.split()[2]
        for places in PAPERS.values()
        for place in places
        if "papers " in place.command
    }


@pytest.mark.slow
def test_a_check_that_fails_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(adapt_costs.AVERAGES, "SZ", 0.53)
    status, out, _ = here(capsys, "papers", "adapt-costs")
    assert status == 1 and out.endswith("what is exact: DOES NOT HOLD\n")


@pytest.mark.slow
def test_plots(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    small = ("--model", "mlp", "--data", "digits", "--limit", "128", "--epochs", "1")
    for name in ("wageubn-data-ratio", "wageubn-batch-size"):
        file = tmp_path / f"{name}.png"
        status, out, err = here(capsys, "papers", name, *small, "--plot", file)
        assert (status, err) == (0, "") and out.endswith(f"written: {file}\n")
        assert file.stat().st_size > 5000


# -- figures by hand ---------------------------------------------------------------------------


@pytest.mark.slow
def test_muppet(capsys: pytest.CaptureFixture[str]) -> None:
    result = shown(capsys, "muppet-costs")
    costs_of = {
        "AlexNet": (99, 16 * 40 + 10 * 44 + 14 * 46 + 14 * 48 + 45 * 64),
        "ResNet-20": (114, 22 * 40 + 22 * 44 + 10 * 46 + 15 * 48 + 45 * 64),
    }
    for row in rows(result, "the published schedules"):
        epochs, cost = costs_of[row["network"]]
        want = {
            "SU": Fraction(epochs * 64, cost),
            "SU, 150 epochs": Fraction(150 * 64, cost),
            "MEM": Fraction(cost, epochs * 32),
        }[row["figure"]]
        assert row["intnet"] == pytest.approx(float(want), rel=1e-12)
    ratio = next(row for row in rows(result, "AdaPT over MuPPET") if row["network"] == "ratio of the means")
    assert round(ratio["ratio"], 2) == 4.26
    implied = rows(result, "mean WL")
    assert all(row["overlap"] for row in implied)
    assert implied[1]["by SU, from"] == pytest.approx(64 / 1.255 - 32)


@pytest.mark.slow
def test_adapt(capsys: pytest.CaptureFixture[str]) -> None:
    """The overhead by the oracle of equations (6) to (9)."""
    result = shown(capsys, "adapt-costs")
    sizes = costs.layer_sizes(models.make("resnet20", (32, 32, 3), 10))
    for row in rows(result, "the precision switch")[:2]:
        dense = {"WL": 20, "lb": row["lookback"], "r": 50}
        step = [
            {"dims": size.dims, "ops": size.madds, "nonzero": oracle.product(size.dims), **dense}
            for size in sizes
        ]
        for column, times in (("once a step", Fraction(1, 512)), ("as printed", 1)):
            want = oracle.speedup([step], 512, 1, 1, 512, times)
            assert row[column] == pytest.approx(float(want), rel=1e-12)
    memory = {row["run"]: row["1 + k mean(sp*WL)/32"] for row in rows(result, "memory")}
    assert memory["MuPPET, AlexNet, CIFAR-10"] == pytest.approx(3.64)
    assert memory["ResNet-20, CIFAR-10"] == pytest.approx(2.26)
    again = {row["average"]: row for row in rows(result, "averages of the peer-reviewed")}
    assert again["SU, iso-accuracy"]["of its tables"] == pytest.approx(33.3 / 7)
    assert again["accuracy, points"]["with the first version's row"] == pytest.approx(5.2 / 7)
    first = rows(result, "training")[0]
    assert (first["mean sp*WL"], first["SU of one width"]) == (pytest.approx(15.04), pytest.approx(2 / 1.47))
    third = rows(result, "SU^3")
    assert [row["fits"] for row in third] == [True, False, True, True, False]
    # 1.42 = 2f / (q + f): q = 0.4085 f; 150/100 * 2f / (q + f/4/4) = 3 / 0.4710
    assert third[0]["SU^3, least"] < 6.370 < third[0]["greatest"] < third[0]["SU^3, least"] + 0.15
    last = rows(result, "inference")[-1]
    assert last["mean WL"] == pytest.approx(32 * 0.52 / 0.92)


def test_dynasty(capsys: pytest.CaptureFixture[str]) -> None:
    result = shown(capsys, "dynasty-costs")
    times, energies = rows(result, "training time"), rows(result, "energy")
    for row in times[:4]:
        assert row["7/9 of the epochs"] == pytest.approx(row["bits"] / 8 * 7 / 9)
        assert abs(row["7/9 of the epochs"] - row["paper, to accuracy"]) < (
            0.0017 if row["bits"] == 2 else 5e-4
        )
    assert energies[5]["by step"] == pytest.approx(1 - 0.525 - 10.3 / 297 / 2 * 1.05)
    assert energies[5]["powers constant"] == pytest.approx(1 - 0.525 * (1 + 10.3 / 297))
    assert max(abs(row["by step"] - row["paper"]) for row in energies) < 0.0041
    assert all(row["agrees"] for row in rows(result, "headlines"))
    # 78.8 % saved in 19.6 % of the time: at most (21.2 + 0.05) / (19.6 - 0.05) - 1
    assert energies[3]["to"] == pytest.approx(21.25 / 19.55 - 1)
    assert energies[3]["its power overhead"] == pytest.approx(21.15 / 19.65 - 1)


@pytest.mark.slow
def test_saved(capsys: pytest.CaptureFixture[str]) -> None:
    result = shown(capsys, "saved-costs")
    blocks = rows(result, "outputs of the blocks")
    assert all(row["agrees"] and row["elements"] == row["paper"] for row in blocks)
    assert blocks[-1]["elements"] == sum(row["elements"] for row in blocks[:-1]) == 12_976_128
    packed = {(row["codec"], row["bits"]): row for row in rows(result, "what an element takes")}
    assert packed["affine", 2]["bucket 512"] == 2 + 64 / 512  # scale and zero point of 32 bits
    assert packed["levels", 2]["codes"] == 9 and packed["levels", 2]["bits, bucket 64"] == 4 + 32 / 64
    assert [row["mean bits"] for row in rows(result, "presets")] == pytest.approx([3, 3.2, 4.2, 4.8])
