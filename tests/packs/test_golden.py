"""`intnet golden` and `intnet check` as users and scripts meet them: text, --json, --junit, exit statuses."""

import json
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from intnet.packs import pack
from tests.support.command import MLP, here, intnet, refused
from tests.support.devices import give, good

Capture = pytest.CaptureFixture[str]
SMALL = (*MLP, "--limit", 64)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pack written by the command as a process of its own."""
    out = tmp_path_factory.mktemp("golden") / "fc2-4.0.0"
    done = intnet("golden", *SMALL, "--layer", "[fbr]*2", "--step", 2, "--out", out)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    name, sizes, constant, sha = done.stdout.splitlines()
    digest = r"wageubn-mlp-digits-fc2\+bn2\+relu2-step2-[0-9a-f]{8}"
    assert re.fullmatch(rf"{digest} 4\.0\.0, level L3, in {out}", name)
    assert sizes.startswith(f"{len(pack.read(out).ports)} ports, ")
    assert constant.startswith("constant at this step, so not compared: bn2/")
    assert sha.startswith("pack sha256: ") and len(sha) == 13 + 64
    return out


@pytest.mark.slow
def test_a_run_goes_on_and_its_folder_stays_as_it_is(tmp_path: Path, capsys: Capture) -> None:
    assert here(capsys, "train", *SMALL, "--steps", 2, "--out", tmp_path / "run")[0] == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    status, out, _ = here(
        capsys, "golden", tmp_path / "run", "--layer", "fc2", "--out", tmp_path / "a", "--json"
    )
    made = json.loads(out)
    assert (status, made["name"][:-8], made["level"]) == (0, "wageubn-mlp-digits-fc2-step3-", "L3")
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before
    same = here(capsys, "golden", *SMALL, "--layer", "fc2", "--step", 3, "--out", tmp_path / "b", "--json")
    assert json.loads(same[1])["pack_sha256"] == made["pack_sha256"]
    chain = here(
        capsys, "golden", tmp_path / "run", "--layer", "fc2", "--steps", 2, "--out", tmp_path / "c", "--json"
    )
    assert json.loads(chain[1])["level"] == "L4"


@pytest.mark.slow
def test_a_pack_is_the_same_wherever_the_data_lay(tmp_path: Path, capsys: Capture) -> None:
    """Nor does one tell others of folders of this machine."""
    made = []
    for home in (tmp_path / "here", tmp_path / "there"):
        home.mkdir()
        images = np.arange(24 * 16, dtype=np.uint32).reshape(24, 4, 4) % 251
        np.savez(home / "mine.npz", X=images.astype(np.uint8), y=np.arange(24) % 3)
        data = (*MLP[:4], "--data", f"arrays:{home / 'mine.npz'}", "--batch-size", 8)
        status, out, _ = here(
            capsys, "golden", *data, "--layer", "fc2", "--step", 2, "--out", home / "p", "--json"
        )
        assert status == 0
        made.append(json.loads(out) | {"out": None})
        assert not any(str(home) in path.read_text() for path in (home / "p").rglob("*") if path.is_file())
    assert made[0]["pack_sha256"] == made[1]["pack_sha256"]
    assert made[0]["name"].startswith("wageubn-mlp-arrays:mine.npz-fc2-step2-")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["adapt", "muppet"])
def test_methods_with_float32_masters(method: str, tmp_path: Path, capsys: Capture) -> None:
    """A pack of a layer, checked by itself, and by two faulty devices that are found at their coordinates."""
    given = ("--method", method, "--model", "lenet5", "--data", "digits", "--limit", 32, "--batch-size", 8)
    where = ("--layer", "conv2", "--step", 6, "--out", tmp_path / "pack")
    assert here(capsys, "golden", *given, *where)[0] == 0
    assert here(capsys, "check", tmp_path / "pack")[0] == 0
    read = pack.read(tmp_path / "pack")
    dut = good(read, tmp_path / "dut")
    assert here(capsys, "check", tmp_path / "pack", "--dut", dut)[0] == 0
    codes = read.codes("conv2/x1").reshape(-1).tolist()
    shape = read.ports["conv2/x1"].shape
    at = (3, 1, 2, 5)
    flat = ((at[0] * shape[1] + at[1]) * shape[2] + at[2]) * shape[3] + at[3]
    codes[flat] ^= 8
    give(read, "conv2/x1", codes, dut)
    floors, limits = read.codes("conv2/gWq.floor").reshape(-1).tolist(), read.ports["conv2/gWq"].rounding
    give(read, "conv2/gWq", [max(code, limits["low"]) for code in floors], dut)  # it rounds down
    status, out, _ = here(capsys, "check", tmp_path / "pack", "--dut", dut, "--json")
    ports = {port["port"]: port for port in json.loads(out)["ports"]}
    assert status == 1 and {name for name in ports if ports[name]["status"] != "pass"} == {
        "conv2/x1", "conv2/gWq"}  # fmt: skip
    (one,) = ports["conv2/x1"]["mismatches"]
    assert tuple(one["index"]) == at and one["got"] == one["want"] ^ 8
    assert one["trail"]["floor"] + one["trail"]["up"] == one["trail"]["presat"]
    up = read.codes("conv2/gWq.up").reshape(-1)
    assert ports["conv2/gWq"]["wrong"] == int(up.sum()) > 0
    status, out, _ = here(capsys, "check", tmp_path / "pack", "--dut", dut)
    assert status == 1 and "(N=3, H=1, W=2, C=5)" in out
    assert "diagnosis: bit 3 of one element inverted: explains every word" in out
    assert "diagnosis: truncation (floor): explains every word" in out and "stochastic: " in out


@pytest.mark.slow
@pytest.mark.parametrize("method", ["adapt", "muppet"])
def test_a_run_and_its_seed_give_the_same_pack(method: str, tmp_path: Path, capsys: Capture) -> None:
    given = ("--method", method, "--model", "mlp", "--data", "digits", "--limit", 128)
    assert here(capsys, "train", *given, "--steps", 5, "--out", tmp_path / "run")[0] == 0
    where = ("--layer", "[fbr]*2", "--steps", 2, "--json", "--out")
    resumed = json.loads(here(capsys, "golden", tmp_path / "run", *where, tmp_path / "a")[1])
    straight = json.loads(here(capsys, "golden", *given, "--step", 6, *where, tmp_path / "b")[1])
    assert resumed["pack_sha256"] == straight["pack_sha256"]
    assert here(capsys, "check", tmp_path / "a")[0] == 0


@pytest.mark.slow
def test_check_passes_and_says_what_it_compared(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    status, out, _ = here(capsys, "check", folder)
    assert (
        status == 0 and out.splitlines()[-1].startswith("PASS: ") and "of the recomputation are equal" in out
    )
    dut = good(pack.read(folder), tmp_path / "dut")
    status, out, _ = here(capsys, "check", folder, "--dut", dut)
    assert status == 0 and "words of the device are equal" in out
    status, out, _ = here(capsys, "check", folder, "--dut", dut, "--port", "fc2/x?", "--json")
    assert (status, [port["port"] for port in json.loads(out)["ports"]]) == (0, ["fc2/x1"])


@pytest.mark.slow
def test_a_mismatch_is_told_in_text_json_and_junit(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    read = pack.read(folder)
    dut, report = good(read, tmp_path / "dut"), tmp_path / "report.xml"
    codes = read.codes("relu2/x4").reshape(-1).tolist()
    codes[3 * 64 + 5] ^= 4
    give(read, "relu2/x4", codes, dut)
    status, out, _ = here(capsys, "check", folder, "--dut", dut, "--junit", report)
    assert status == 1 and "FAIL: 1 wrong elements; 1 of" in out
    assert "diagnosis: bit 2 of one element inverted: explains every word" in out
    assert "(N=3, C=5)" in out and "scaled = " in out and "ties_even: " in out
    status, out, _ = here(capsys, "check", folder, "--dut", dut, "--json")
    result = json.loads(out)
    (bad,) = [port for port in result["ports"] if port["status"] == "mismatch"]
    assert (status, result["status"], bad["port"], bad["wrong"]) == (1, "mismatch", "relu2/x4", 1)
    (one,) = bad["mismatches"]
    assert one["index"] == [3, 5] and one["got"] == one["want"] ^ 4 and one["trail"]["presat"] == one["want"]
    suite = ElementTree.parse(report).getroot()
    assert (
        suite.attrib | {"failures": "1", "errors": "0", "tests": str(len(result["ports"]) + 1)}
        == suite.attrib
    )
    (failed,) = [case for case in suite if len(case)]
    assert (
        failed.get("name") == "relu2/x4"
        and failed[0].tag == "failure"
        and "(N=3, C=5)" in (failed[0].text or "")
    )


@pytest.mark.slow
def test_a_bad_file_and_a_mismatch_end_in_2(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    dut, report = good(pack.read(folder), tmp_path / "dut"), tmp_path / "report.xml"
    (dut / "fc2.e4.hex").unlink()
    status, out, _ = here(capsys, "check", folder, "--dut", dut, "--junit", report)
    assert (
        status == 2 and "FAIL: 1 bad or missing files; 1 of" in out and "the device wrote no such file" in out
    )
    suite = ElementTree.parse(report).getroot()
    assert (suite.get("errors"), suite.get("failures")) == ("1", "0")
    odd = dut.rename(tmp_path / "du\x01t\udcff")
    assert here(capsys, "check", folder, "--dut", odd, "--json", "--junit", report)[0] == 2
    assert ElementTree.parse(report).getroot().get("errors") == "1"


@pytest.mark.slow
def test_an_altered_pack_is_refused(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    path = copy / "exp" / "fc2.x1.hex"
    path.write_bytes(path.read_bytes().replace(b"0", b"1", 1))
    for arguments in ((), ("--dut", copy / "exp")):
        assert "fc2.x1.hex was altered: its SHA-256 is" in refused(capsys, "check", copy, *arguments)


@pytest.mark.slow
def test_bad_usage_is_one_line(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    out = ("--out", tmp_path / "p")
    assert "is there already" in refused(capsys, "golden", *SMALL, "--layer", "fc2", "--out", folder)
    assert "give --layer PATTERN" in refused(capsys, "golden", *SMALL, *out)
    assert "no layer matches 'fc9'; there are flatten, fc1" in refused(
        capsys, "golden", *SMALL, "--layer", "fc9", *out
    )
    assert "no data path in this step" in refused(capsys, "golden", *SMALL, "--layer", "flatten", *out)
    assert "--level is for units" in refused(capsys, "golden", *SMALL, "--layer", "fc2", "--level", 1, *out)
    assert "--level is missing: which of quantize_q's" in refused(
        capsys, "golden", "unit", "quantize_q", *out
    )
    assert "unknown unit 'quantise_q'; did you mean" in refused(
        capsys, "golden", "unit", "quantise_q", "--level", 1, *out
    )
    assert "unknown level 'L9'" in refused(capsys, "golden", "unit", "quantize_q", "--level", 9, *out)
    assert "--layer is for a pack of layers" in refused(
        capsys, "golden", "unit", "quantize_q", "--level", 1, "--layer", "fc2", *out
    )
    assert "is no folder" in refused(capsys, "check", tmp_path / "nothing")
    assert "no readable SHA256SUMS: this is no pack" in refused(capsys, "check", tmp_path)
    assert "is no folder: give the one that holds" in refused(
        capsys, "check", folder, "--dut", tmp_path / "nothing"
    )
    assert "no expected port matches 'y*'" in refused(
        capsys, "check", folder, "--dut", tmp_path, "--port", "y*"
    )
    nowhere = tmp_path / "nothing" / "report.xml"
    assert "there is no folder" in refused(capsys, "check", folder, "--junit", nowhere)
    other = tmp_path / "notes.txt"
    other.write_text("mine")
    assert "a file of another kind is there" in refused(capsys, "check", folder, "--junit", other)
    assert other.read_text() == "mine"
    for option in ("--seed", "--batch-size"):
        assert f"{option} is for a pack of layers" in refused(
            capsys, "golden", "unit", "quantize_q", "--level", 1, option, 7, *out
        )
    assert "--limit is for a pack of layers" in refused(
        capsys, "golden", "unit", "quantize_q", "--level", 1, "--limit", 5, *out
    )
    assert "--port chooses among the files of --dut" in refused(capsys, "check", folder, "--port", "x1")
    assert not (tmp_path / "p").exists()


@pytest.mark.slow
def test_layouts_tiles_and_other_files_by_the_command(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "laid"
    asked = ("--layout", "nc/12hw12", "--lanes", 12, "--word", 32, "--tile", 16, "--tile", "gW=4")
    status, text, _ = here(capsys, "golden", *SMALL, "--layer", "fc2", *asked, "--out", out)
    assert status == 0 and "-tile-x1_16-gW_4-nc_12hw12-lanes12-word32 4.0.0, level L3" in text
    manifest = json.loads((out / "PACK.json").read_text())
    assert manifest["about"]["layout"] == {"order": "nc/12hw12", "lanes": 12, "word": 32}
    assert manifest["about"]["tile"] == {"x1": 16, "gW": 4}
    contract = (out / "CONTRACT.md").read_text()
    assert "Asked for: order nc/12hw12, lanes 12, word 32." in contract
    assert "| N,C | N,C/12,C%12 | 12 |" in contract and ", in 4 x 32 bits |" in contract
    assert here(capsys, "check", out)[0] == here(capsys, "check", out, "--by", "spec")[0] == 0
    assert here(capsys, "check", out, "--dut", good(pack.read(out), tmp_path / "dut"))[0] == 0
    for kind, count in (("mem", len(manifest["ports"])), ("npz", 1), ("image", 3)):
        status, text, _ = here(capsys, "golden", out, "--as", kind, "--out", tmp_path / kind)
        assert status == 0 and text.startswith(f"{count} file")
    status, text, _ = here(capsys, "golden", out, "--as", "c", "--out", tmp_path / "c", "--json")
    assert (status, json.loads(text)["files"]) == (0, ["pack.h", "pack.c"])
    unit = ("golden", "unit", "mac_requant", "--level", 0, "--lanes", 1, "--word", 32)
    assert here(capsys, *unit, "--out", tmp_path / "unit")[0] == 0
    assert here(capsys, "check", tmp_path / "unit")[0] == 0


@pytest.mark.slow
def test_bad_usage_of_layouts_is_one_line(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    out = ("--out", tmp_path / "p")
    fc2 = ("golden", *SMALL, "--layer", "fc2", *out)
    assert "--layout nhcw: give nhwc, nchw or nc/XhwX" in refused(capsys, *fc2, "--layout", "nhcw")
    assert "--word 2000: give a number from 1 to 1024" in refused(capsys, *fc2, "--word", 2000)
    assert "--tile x: give a whole number, or PATH=K" in refused(capsys, *fc2, "--tile", "x")
    assert "--tile 8: give a whole number, or PATH=K, each path once" in refused(
        capsys, *fc2, "--tile", 4, "--tile", 8
    )
    assert "--layer is chosen when a pack is written, not with --as" in refused(
        capsys, "golden", folder, "--as", "mif", "--layer", "fc2", *out
    )
    assert "--lanes is chosen when a pack is written" in refused(
        capsys, "golden", folder, "--as", "mif", "--lanes", 2, *out
    )
    assert "write `intnet golden PACK --as KIND" in refused(capsys, "golden", "--as", "mif", *out)
    assert "unknown kind of file 'hex'" in refused(capsys, "golden", folder, "--as", "hex", *out)
    assert "no readable SHA256SUMS" in refused(capsys, "golden", tmp_path, "--as", "mif", *out)
    assert "--word with --as mif" in refused(capsys, "golden", folder, "--as", "mif", "--word", 8, *out)
    assert not (tmp_path / "p").exists()
