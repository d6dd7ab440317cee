"""Method saved on the command line: rows, elements, page and picture of what the tape holds, short names."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest

from tests.support.command import here

LAYER = "layer1.0.conv1"
SAVED = ("--method", "saved", "--model", "resnet8", "--data", "digits", "--batch-size", 8, "--limit", 16)
FIRST = (*SAVED, "--layer", LAYER, "--path", "x0s")


def shown(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    status, out, err = here(capsys, "inspect", *arguments)
    assert (status, err) == (0, "")
    return out


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, *SAVED, "--layer", LAYER, "--set", "bits=2/4")
    (row,) = [line.split() for line in out.splitlines() if line.startswith("x0s ")]
    assert row[:6] == ["x0s", "stoch", "2/4b", "/512", "2/4", "4.0"] and "0..15" in row
    (told,) = [line for line in out.splitlines() if line.startswith("x0s: ")]
    assert told.startswith("x0s: affine-stochastic 2/4 bits, buckets of 512: 4/16 codes, ")
    packed = Fraction(re.search(r"([\d.]+) packed bits an element", told)[1])  # type: ignore[index]
    wide = int(re.search(r"16 buckets \((\d+) of 4 bits", told)[1])  # type: ignore[index]
    # 8,192 elements; 8 bytes and a bit of metadata a bucket
    assert packed == round(Fraction(512 * (2 * 16 + 2 * wide) + 16 * 65, 8192), 3)


def test_json_of_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, *FIRST, "--set", "codec=levels", "--set", "bits=2", "--json")
    (row,) = json.loads(out)["paths"]
    assert (row["format"], row["short"]) == ("levels 2 bits, buckets of 512", "levels 2b /512")
    assert (row["nominal_bits"], row["used_bits"], row["range_bits"]) == (2, 4, 3.2)  # log2(9)
    told = row["buckets"]
    assert (told["nominal_bits"], told["distinct_codes"], told["buckets"]) == ([2], [9], 16)
    assert told["packed_bits"] == 4.062  # 4 and a scale of 32 bits a bucket of 512
    assert row["exponent"] is None and row["rounding"] == "stochastic" and row["sqnr_db"] > 0


def test_an_element(capsys: pytest.CaptureFixture[str]) -> None:
    at = ("--index", "2,3,4,5")
    out = shown(capsys, *FIRST, *at)
    for station in ("codec ", "bucket ", "min of bucket", "max - min", "s  ", "z  ", "a/s", "u  ", "floor",
                    "fraction", "random word", "threshold", "decision", "saturation", "code ", "packed",
                    "q - z", "a~", "error a~ - a"):  # fmt: skip
        assert f"\n  {station}" in out, station
    number = ((2 * 8 + 3) * 8 + 4) * 16 + 5
    assert f"{number // 512} of 0..15: elements {number // 512 * 512:,}.." in out
    assert f"in it element {number % 512:,}" in out
    (one,) = json.loads(shown(capsys, *FIRST, *at, "--json"))["elements"]
    bucket = one["rounding"]["bucket"]
    s, z, q = Fraction(bucket["scale"]), Fraction(bucket["zero"]), one["code"]
    assert float(abs(Fraction(one["stored"]) - s * (q - z))) <= float(s) * 2**-20
    assert bucket["place"] == {"word": number * 4 // 64, "bit": number * 4 % 64, "width": 4, "stored": q}


def test_mixed_and_constant_buckets_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, *FIRST, "--index", "0,0,0,0", "--set", "bits=2/4", "--set", "bucket=64")
    (line,) = [line for line in out.splitlines() if line.startswith("  bits b")]
    bits, promoted, word, sign, threshold = re.search(  # type: ignore[union-attr]
        r"(\d), (not promoted|promoted): random word (\d+) (<|>=) (\d+) = floor\(0.5 \* 2\^32\)", line
    ).groups()
    assert int(threshold) == 2**31 and (sign == "<") == (int(word) < 2**31) == (promoted == "promoted")
    assert bits == ("4" if promoted == "promoted" else "2")


@pytest.mark.slow
def test_the_page_and_the_picture(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    files = ("--html", tmp_path / "a.html", "--plot", tmp_path / "a.svg")
    shown(capsys, *SAVED, "--layer", LAYER, "--set", "bits=2/4", "--set", "bucket=64", *files)
    page, picture = (tmp_path / "a.html").read_text(), (tmp_path / "a.svg").read_text()
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])  # type: ignore[index]
    labels = {label for one in data["elements"][f"{LAYER}/x0s"] for label in one["is"].split(", ")}
    assert {"rounds up", "rounds down", "in a promoted bucket", "in a bucket that is not promoted"} <= labels
    for words in ("stoch 2/4b /64", "affine-stochastic 2/4 bits, buckets of 64: 4/16 codes, "):
        assert words in page, words
    assert f"{LAYER}/x0s" in picture and "stoch 2/4b /64, SQNR " in picture and " packed" in picture


def test_the_summary_of_a_run_is_narrow(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    what = ("--method", "saved", "--model", "mlp", "--data", "digits", "--batch-size", 8, "--limit", 16)
    status, out, err = here(capsys, "train", *what, "--steps", 1, "--out", tmp_path / "run")
    assert (status, err) == (0, "")
    rows = [line for line in out.splitlines() if line.startswith(("x0s", "x1s"))]
    assert len(rows) == 2 and all("stoch 4b /512" in row and len(row) <= 80 for row in rows)
    told = json.loads((tmp_path / "run" / "report.json").read_text())["paths"]
    assert "affine-stochastic 4 bits, buckets of 512" in {row["format"] for row in told}
    assert "`affine-stochastic 4 bits, buckets of 512`" in (tmp_path / "run" / "report.md").read_text()
