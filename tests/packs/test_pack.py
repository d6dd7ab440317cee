"""Packs on disk: written whole or not at all, every altered byte refused, the same bytes everywhere."""

import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet.errors import PackError
from intnet.exact.expressions import Exact
from intnet.exact.quantize import quantize
from intnet.exact.sources import FloatExact
from intnet.inspect.trail import limits, trail
from intnet.numbers.formats import Constant, Direct, FixedPoint, Flag, Format, Shift
from intnet.numbers.qtensor import QTensor
from intnet.packs import pack, ports
from intnet.packs.ports import Case, Draft
from intnet.spec.formats import exponent_of
from intnet.spec.rounding import MODES, overflow, round_fraction
from tests.support.forging import seal
from tests.support.plain_pack import Plain

ROOT = Path(__file__).resolve().parents[2]
# SHA-256 over the lines of SHA256SUMS that are of in/, rnd/ and exp/, of what `intnet golden` writes for
# these arguments. A changed one is a new major version of `pack.VERSION`.
KNOWN = [
    (
        "--method wageubn --model mlp --data digits --layer fc2 --step 2",
        "900d77a3175ed0a5312fea3d1baec13a9cf1dd2d247d2d045467c2203c1b341c",
    ),
    (
        "--method wageubn --model resnet8 --data digits --layer layer2.0.* --batch-size 4 --set e2=16",
        "0b86066ac6ac4a48107ceb8ab0c3b3ca85e24d49ba1ec235c6f8d2e1978c5bea",
    ),
    (
        "--method mx --model lenet5 --data digits --layer conv2 --batch-size 35 --step 2 "
        "--set e=MXFP4/ceil/stochastic",
        "8310a5a699aa35fe64c1f37f83f3b302c8bd1ddf1709c31965cc53b02df1f20d",
    ),
    (
        "unit quantize_sq --level 1",
        "e971dd7c9d347a1e4c89d2c57ea0208e958cf5213ab1913c911cc704653c1fb1",
    ),
]


def draft(*more: ports.Filled, cases: tuple[Case, ...] = (Case(0, "a", "L0", "", 0),)) -> Draft:
    source = random.Random(1)
    codes = np.array([source.randrange(-100, 100) for _ in range(24)], np.int16).reshape(2, 3, 4)
    x = ports.tensor("fc/x", "in", QTensor(codes, -3, Direct(8)), "N,H,C")
    y = ports.tensor("fc/y", "out", QTensor(codes[::-1].copy(), -3), "N,H,C", meaning="x from behind")
    return Draft("test", "L0", {"kind": "test"}, [*x, *y, *more], cases)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return pack.write(draft(), tmp_path / "test-1.0.0")


# -- tensors in and out ------------------------------------------------------------------------

VALUES: list[QTensor | np.ndarray] = [
    QTensor(np.arange(-8, 8, dtype=np.int8).reshape(4, 4), -3, FixedPoint(4, 3)),
    QTensor(np.array([-(2**62) + 1, 2**62 - 1, 5]), 7),
    QTensor(np.array([3, -500, 2], np.int16), -7, Direct(8)),
    QTensor(np.zeros((2, 0, 3), np.int8), 0),
    QTensor(np.array(-5, np.int8), 2, Shift(8)),
    QTensor(np.array([[1, -2, 3, -4]], np.int8), np.array([[7, -7, 100, -100]], np.int16)),
    QTensor(np.array([[1, -2], [3, -4]], np.int8), np.array([5, -6], np.int16)),
    quantize(QTensor(np.array([0, 1, -1, 90, -91, 4000, -5000, 16256]), -14), Flag(8)),
    quantize(np.linspace(-1, 1, 9, dtype=np.float32), Flag(4)),
    np.array([[0.0, -0.0], [1.5, -3e38], [1e-45, np.pi]], np.float32),
]


@pytest.mark.slow
@pytest.mark.parametrize("value", VALUES, ids=str)
def test_a_tensor_comes_back_as_it_was(value: QTensor | np.ndarray, tmp_path: Path) -> None:
    made = ports.tensor(
        "t",
        "in",
        value,
        ",".join("abcd"[: value.ndim if isinstance(value, np.ndarray) else value.codes.ndim]),
    )
    back = pack.read(pack.write(draft(*made), tmp_path / "p"))["t"]
    if isinstance(value, np.ndarray):
        assert (
            isinstance(back, np.ndarray) and back.tobytes() == value.tobytes() and back.shape == value.shape
        )
        return
    assert isinstance(back, QTensor) and back.format == value.format
    assert np.array_equal(back.codes, value.codes) and back.shape == value.shape
    assert np.array_equal(
        np.broadcast_to(back.exponent, value.shape), np.broadcast_to(value.exponent, value.shape)
    )


def test_a_plain_reader_sees_the_same(folder: Path) -> None:
    plain, read = Plain(folder), pack.read(folder)
    assert list(read) == list(plain.ports) == ["fc/x", "fc/y"]
    for name in read:
        assert plain.values(name) == read.codes(name).reshape(-1).tolist()
    with pytest.raises(PackError, match="no port 'fc/z'; there are fc/x, fc/y"):
        read["fc/z"]


@pytest.mark.parametrize(
    ("shape", "bits", "lanes"),
    [
        ((4, 16), 11, 16),
        ((4, 64), 33, 16),
        ((5,), 64, 5),
        ((7, 17), 64, 1),
        ((), 8, 1),
        ((3, 3, 3), 24, 3),
        ((2, 0), 8, 1),
    ],
)
def test_lanes_divide_the_last_axis(shape: tuple[int, ...], bits: int, lanes: int) -> None:
    assert ports.lanes_of(shape, bits) == lanes


# -- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("codes", "what"), [([0] * 6, "all zero"), ([7] * 6, "constant"), ([], "empty"), ([0], "all zero")]
)
def test_an_expected_file_that_judges_nothing_is_refused(codes: list[int], what: str, tmp_path: Path) -> None:
    dead = ports.whole_number("dead", "out", np.array(codes, np.int64), "C", 8)
    with pytest.raises(
        PackError, match=f"test: the expected words of dead are {what}: a device that is stuck"
    ):
        pack.write(draft(dead), tmp_path / "p")
    assert not list(tmp_path.iterdir())
    pack.write(draft(ports.whole_number("dead", "in", np.array(codes, np.int64), "C", 8)), tmp_path / "p")


def test_one_expected_word_judges_where_it_is_not_zero(tmp_path: Path) -> None:
    """As the mean loss of a step."""
    loss = ports.whole_number("loss", "out", np.array([3], np.int64), "C", 8)
    assert pack.read(pack.write(draft(loss), tmp_path / "p")).codes("loss").tolist() == [3]


def test_what_makes_no_pack_is_refused(tmp_path: Path, folder: Path) -> None:
    twice = ports.whole_number("fc.x", "in", np.arange(4), "C", 8)
    with pytest.raises(PackError, match=r"two ports would be written to in/fc\.x\.hex"):
        pack.write(draft(twice), tmp_path / "p")
    case = ports.whole_number("FC.x", "in", np.arange(4), "C", 8)
    with pytest.raises(PackError, match=r"to in/fc\.x\.hex and in/FC\.x\.hex, one file on macOS and Windows"):
        pack.write(draft(case), tmp_path / "p")
    with pytest.raises(PackError, match="a pack needs an expected port and a case"):
        pack.write(draft(cases=()), tmp_path / "p")
    with pytest.raises(PackError, match="wide: codes from 0 to 3 do not fit 2 signed bits"):
        pack.write(draft(ports.whole_number("wide", "in", np.arange(4), "C", 2)), tmp_path / "p")
    with pytest.raises(PackError, match="is there already: a pack is never written over"):
        pack.write(draft(), folder)
    (tmp_path / "file").write_text("")
    with pytest.raises(PackError, match="file"):
        pack.write(draft(), tmp_path / "file" / "p")
    assert {path.name for path in tmp_path.iterdir()} == {folder.name, "file"}


@pytest.mark.slow
def test_any_altered_byte_is_refused(folder: Path) -> None:
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    assert {path.name for path in paths} >= {
        "PACK.json",
        "CONTRACT.md",
        "cases.csv",
        "SHA256SUMS",
        "fc.x.hex",
    }
    for path in paths:
        whole = path.read_bytes()
        for place in {0, len(whole) // 2, len(whole) - 1}:
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            with pytest.raises(PackError):
                pack.read(folder)
        path.unlink()
        with pytest.raises(PackError, match=path.name):
            pack.read(folder)
        path.write_bytes(whole)
    pack.read(folder)
    (folder / "exp" / "more.hex").write_text("00\n")
    with pytest.raises(PackError, match=r"more\.hex is not listed \(by SHA256SUMS\)"):
        pack.read(folder)
    (folder / "exp" / "more.hex").unlink()
    (folder / "exp" / "more").symlink_to(folder / "in")
    with pytest.raises(PackError, match="more is no file of its own"):
        pack.read(folder)
    (folder / "exp" / "more").unlink()
    sums = (folder / "SHA256SUMS").read_text()
    (folder / "SHA256SUMS").write_text(sums.splitlines(keepends=True)[0] + sums)
    with pytest.raises(PackError, match="lists a file twice"):
        pack.read(folder)
    with pytest.raises(PackError, match="is no folder"):
        pack.read(folder / "PACK.json")


def laid(manifest: dict) -> dict:
    """The manifest of a pack with a layout."""
    manifest["about"]["layout"] = {"order": "nchw", "lanes": None, "word": None}
    manifest["format_version"] = 2
    return manifest


FORGERIES: dict[str, Callable[[dict], None]] = {
    "version 2; this intnet reads": lambda m: m.update(format_version=2),
    "'other' of version 1": lambda m: m.update(format="other"),
    r"a pack of another version of the definition \(1\); this": lambda m: m.update(definition=1),
    r"a pack of another version of the definition \(none was written yet\)": lambda m: m.pop("definition"),
    "has no 'ports'": lambda m: m.pop("ports"),
    "bits": lambda m: m["ports"][0].update(bits="8"),
    "words does not fit": lambda m: m["ports"][0].update(words=7),
    "word_bits": lambda m: m["ports"][0].update(lanes=2),
    "or words that are no rows .word_bits., and 'about' has no 'layout'": lambda m: m["ports"][0].update(
        order="H,N,C"
    ),
    "version 1, and 2 with a layout": lambda m: m["about"].update(layout={"order": "nchw"}),
    "word_bits is no size": lambda m: laid(m)["ports"][0].update(word_bits=0),
    "bits is no size": lambda m: laid(m)["ports"][0].update(bits=65),
    "lanes is no size": lambda m: laid(m)["ports"][0].update(lanes=1 << 40),
    "words does not fit its": lambda m: laid(m)["ports"][0].update(lanes=2),
    "shape is no size": lambda m: m["ports"][0].update(shape=[2, -3, -4]),
    "order 'N,H' does not have the axis C once": lambda m: laid(m)["ports"][0].update(order="N,H"),
    r"\['order'\] is 5": lambda m: laid(m)["ports"][0].update(order=5),
    "file does not fit": lambda m: m["ports"][0].update(file="in/../../x.hex"),
    "unknown direction": lambda m: m["ports"][0].update(direction="inout"),
    "a port is listed twice": lambda m: m["ports"].append(dict(m["ports"][0])),
    "do not both list it": lambda m: m["ports"].pop(0),
    "flag words need a Flag format": lambda m: m["ports"][0].update(encoding="flag"),
    "is no number format": lambda m: m["ports"][0].update(format={"kind": "Direct", "fields": {"k": 99}}),
}


@pytest.mark.parametrize("message", FORGERIES)
def test_a_manifest_that_does_not_fit_is_refused_with_fitting_hashes(message: str, folder: Path) -> None:
    path = folder / "PACK.json"
    manifest = json.loads(path.read_text())
    FORGERIES[message](manifest)
    path.write_text(json.dumps(manifest))
    seal(folder)
    with pytest.raises(PackError, match=message):
        pack.read(folder)


@pytest.mark.parametrize("file", ["in/fc.x.hex", "exp/fc.y.hex"])
def test_words_that_do_not_fit_their_guard_are_refused_with_fitting_hashes(file: str, folder: Path) -> None:
    path = folder / file
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[1], lines[0], *lines[2:]]) + "\n")
    seal(folder)
    with pytest.raises(PackError, match="its SHA-256 is not that of SHA256SUMS"):
        pack.read(folder)
    manifest = json.loads((folder / "PACK.json").read_text())
    entry = next(port for port in manifest["ports"] if port["file"] == file)
    entry["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (folder / "PACK.json").write_text(json.dumps(manifest))
    seal(folder)
    with pytest.raises(PackError, match="its load guard is not that of"):
        pack.read(folder)


def test_sha256sum_reads_the_sums(folder: Path) -> None:
    done = subprocess.run(["sha256sum", "-c", "--quiet", "--strict", pack.SUMS], cwd=folder, check=False)
    assert done.returncode == 0


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pack.contract, "text", full)
    with pytest.raises(PackError, match="No space left on device"):
        pack.write(draft(), tmp_path / "p")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["fc.y.hex", "PACK.json", "SHA256SUMS", "pack.svh"])
def test_a_full_disk_names_the_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.write_bytes

    def full(path: Path, content: bytes) -> int:
        if path.name == name:
            raise OSError(28, "No space left on device")
        return real(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(PackError, match=rf"p: No space left on device \({name}\)"):
        pack.write(draft(), tmp_path / "p")
    assert not list(tmp_path.iterdir())


# -- the same bytes everywhere -------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize(("arguments", "known"), KNOWN)
def test_a_pack_is_the_same_for_the_same_arguments(
    arguments: str, known: str, threads: str, tmp_path: Path
) -> None:
    command = [
        sys.executable,
        "-m",
        "intnet",
        "golden",
        *arguments.split(),
        "--out",
        str(tmp_path / threads),
        "--json",
    ]
    environment = os.environ | {"NUMBA_NUM_THREADS": threads}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    sums = (tmp_path / threads / pack.SUMS).read_text()
    assert json.loads(done.stdout)["pack_sha256"] == hashlib.sha256(sums.encode()).hexdigest()
    words = [line for line in sums.splitlines() if line[66:].split("/")[0] in ("in", "rnd", "exp")]
    assert hashlib.sha256("\n".join(words).encode()).hexdigest() == known


@pytest.mark.slow
def test_the_whole_pack_is_the_same_on_any_number_of_threads(tmp_path: Path) -> None:
    """Texts and trails too; README shows the digest of the first one."""
    found = set()
    for threads in ("1", "2"):
        command = [
            sys.executable,
            "-m",
            "intnet",
            "golden",
            *KNOWN[0][0].split(),
            "--out",
            str(tmp_path / threads),
        ]
        environment = os.environ | {"NUMBA_NUM_THREADS": threads}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
        found.add(done.stdout.splitlines()[-1])
    assert len(found) == 1 and found.pop() in (ROOT / "README.md").read_text()


# -- trails --------------------------------------------------------------------------------------

FORMATS: list[Format] = [
    Direct(8),
    FixedPoint(6, 3),
    FixedPoint(5, 9, overflow="saturate_symmetric"),
    Shift(5),
    Flag(6),
    Constant(15, 16),
]


def grid_of(format: Format, xs: list[Fraction], x: Fraction) -> tuple[int, bool]:
    """(log2 of the step that x is rounded to, whether it is Flag-Q's coarse one), by the equations."""
    if isinstance(format, FixedPoint | Direct):
        return format.exponent, False
    n = exponent_of(xs)
    if isinstance(format, Flag):
        coarse = abs(x) >= Fraction(2) ** (n - (format.k - 1))
        return n - (1 if coarse else 2) * (format.k - 1), coarse
    return n - (format.k - 1 if isinstance(format, Shift) else format.dr.bit_length() - 1), False


@pytest.mark.slow
@given(
    codes=st.lists(st.integers(-(2**22), 2**22), min_size=1, max_size=12),
    exponent=st.integers(-40, 0),
    den=st.integers(1, 70000),
    format=st.sampled_from(FORMATS),
    mode=st.sampled_from(MODES),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_trail_is_floor_remainder_and_decision(
    codes: list[int], exponent: int, den: int, format: Format, mode: str, seed: int
) -> None:
    if mode == "stochastic" and isinstance(format, Flag):
        return
    xs = [Fraction(code, den) * Fraction(2) ** exponent for code in codes]
    source = random.Random(seed)
    words = [source.getrandbits(32) for _ in codes]
    given_words = np.array(words, np.uint32) if mode == "stochastic" else None
    value = Exact([(QTensor(np.array(codes, np.int32), exponent), 1)], exponent, den=den)
    way = trail(value, format, mode, given_words)
    result = quantize(value, format, rounding=mode, words=given_words)
    for i, x in enumerate(xs):
        grid, coarse = grid_of(format, xs, x)
        scaled = x / Fraction(2) ** grid
        floor = scaled.__floor__()
        fraction = (scaled - floor) * 2**32
        assert way.floor[i] == floor
        assert way.remainder[i] == 2 * int(fraction) + (fraction.denominator != 1)
        assert way.presat[i] == floor + way.up[i] == round_fraction(scaled, mode, words[i])
        assert way.coarse is None or way.coarse[i] == coarse
        kept = int(way.presat[i])
        low, high, _ = limits(format)
        if low is not None and high is not None:
            kept = overflow(kept, low, high, "saturate")
        assert kept << (way.lift if coarse else 0) == result.codes[i]


def test_a_trail_of_floats() -> None:
    values = np.array([0.1, -0.1, 2.5, -2.5, 1e-20, -1e-20, 0.0], np.float32)
    way = trail(FloatExact(values), FixedPoint(8, 0), "ties_even")
    tenth = 13421773 << 6  # float32's 0.1 is 13421773 * 2^-27
    assert way.floor.tolist() == [0, -1, 2, -3, 0, -1, 0]
    assert way.remainder.tolist() == [tenth, (1 << 33) - tenth, 1 << 32, 1 << 32, 1, (1 << 33) - 1, 0]
    assert way.presat.tolist() == [0, 0, 2, -2, 0, 0, 0]
