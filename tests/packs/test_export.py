"""A pack's vectors as other files: each kind read by a program of its own, and the elements are the pack's.

.mem by `$readmemh` in Icarus, C by gcc with every warning an error, .mif and .coe by parsers of their
published grammar, .npz by NumPy, an image by its map.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet.errors import ConfigError, PackError
from intnet.packs import export, pack
from intnet.packs.layouts import Choice, laid_out
from intnet.packs.ports import Case, Draft, Port
from tests.support.plain_pack import Plain, elements
from tests.support.simulators import icarus_only
from tests.support.testbench_packs import many_kinds

gcc_only = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc on the path")


def one_port(shape: tuple[int, ...], bits: int, signed: bool, choice: Choice, seed: int) -> Draft:
    """A pack of one port of random codes with both limits among them."""
    rng = np.random.default_rng(seed)
    low = -(1 << bits - 1) if signed else 0
    high = low + (1 << bits) - 1
    codes = rng.integers(low, high, shape, np.int64 if signed or bits < 64 else np.uint64, endpoint=True)
    codes.reshape(-1)[:2] = [low, high]
    port = Port("L/x", "out", shape, "N,H,W,C", bits, signed, exponent=-3, meaning="5% of */ x; -- // é")
    return laid_out(
        Draft("one", "L0", {"kind": "test"}, [(port, codes)], [Case(0, "a", "L0", "", 0)]), choice
    )


some_packs = given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(2, 5)),
    bits=st.integers(2, 64),
    signed=st.booleans(),
    choice=st.builds(
        Choice, st.sampled_from(["nhwc", "nchw", "nc/2hw2", "nc/4hw4"]), st.sampled_from([None, 1, 2, 3, 7]),
        st.sampled_from([None, 1, 8, 13, 32, 64, 100]),
    ),
    seed=st.integers(0, 2**32),
)  # fmt: skip


def exported(draft: Draft, kind: str, root: Path, word: int | None = None) -> tuple[Plain, Path]:
    """The pack, read plainly, and the new folder."""
    place = Path(tempfile_in(root))
    held = pack.read(pack.write(draft, place / "pack"))
    before = sorted((path, path.read_bytes()) for path in held.folder.rglob("*") if path.is_file())
    names = export.write(held, kind, place / "out", word)
    assert sorted(names) == sorted(p.relative_to(place / "out").as_posix() for p in (place / "out").rglob("*")
                                   if p.is_file())  # fmt: skip
    assert before == sorted((path, path.read_bytes()) for path in held.folder.rglob("*") if path.is_file())
    return Plain(held.folder), place / "out"


def tempfile_in(root: Path) -> str:
    import tempfile

    return tempfile.mkdtemp(dir=root)


def words_of(plain: Plain, name: str) -> list[int]:
    return [int(line, 16) for line in (plain.folder / plain.ports[name]["file"]).read_text().splitlines()]


# -- memories ------------------------------------------------------------------------------------


def read_mif(text: str) -> tuple[int, list[int]]:
    """(WIDTH, words) by Intel's grammar: comments, header, `address : data;` (no ranges of addresses)."""
    plain = re.sub(r"--[^\n]*|%[^%]*%", " ", text)
    header, body = re.fullmatch(r"(.*?)\bCONTENT\s+BEGIN\b(.*)\bEND\s*;\s*", plain, re.S).groups()
    given_ = dict(re.findall(r"(\w+)\s*=\s*(\w+)\s*;", header))
    assert re.fullmatch(r"(\s*\w+\s*=\s*\w+\s*;\s*)*", header)
    assert (given_["ADDRESS_RADIX"], given_["DATA_RADIX"]) == ("HEX", "HEX")
    lines = re.findall(r"([0-9A-Fa-f]+)\s*:\s*([0-9A-Fa-f]+)\s*;", body)
    assert re.fullmatch(r"(\s*[0-9A-Fa-f]+\s*:\s*[0-9A-Fa-f]+\s*;\s*)*", body)
    assert [int(at, 16) for at, _ in lines] == list(range(int(given_["DEPTH"])))
    return int(given_["WIDTH"]), [int(word, 16) for _, word in lines]


def read_coe(text: str) -> list[int]:
    """Words by AMD's grammar: a comment is a line that begins with ;, keywords end in ;, commas between."""
    plain = "\n".join(line for line in text.splitlines() if not line.startswith(";"))
    shape = r"\s*memory_initialization_radix\s*=\s*16\s*;\s*memory_initialization_vector\s*=\s*([^;]*);\s*"
    vector = re.fullmatch(shape, plain)[1]
    return [int(word.strip(), 16) for word in vector.split(",")]


@pytest.mark.slow
@some_packs
def test_mif_and_coe(
    tmp_path_factory: pytest.TempPathFactory, shape: tuple, bits: int, signed: bool, choice: Choice, seed: int
) -> None:
    root, draft = tmp_path_factory.mktemp("p"), one_port(shape, bits, signed, choice, seed)
    plain, out = exported(draft, "mif", root)
    width, words = read_mif((out / "exp/L.x.mif").read_text("ascii"))
    assert (width, words) == (plain.ports["L/x"]["word_bits"], words_of(plain, "L/x"))
    plain, out = exported(draft, "coe", root)
    assert read_coe((out / "exp/L.x.coe").read_text("ascii")) == words_of(plain, "L/x")


READ = """module read;
  logic [{width}-1:0] m [0:{words}];
  initial begin
    $readmemh("{file}", m, 0, {words} - 1);
    for (int i = 0; i < {words}; i++) $display("%h", m[i]);
    $display("%h", m[{words}]);
    $finish;
  end
endmodule
"""


@pytest.mark.slow
@icarus_only
@pytest.mark.parametrize("choice", [Choice(), Choice("nhwc", 3, 32)], ids=str)
def test_mem_by_readmemh(choice: Choice, tmp_path: Path) -> None:
    plain, out = exported(laid_out(many_kinds(), choice), "mem", tmp_path)
    for name, port in plain.ports.items():
        file = out / Path(port["file"]).with_suffix(".mem")
        source = tmp_path / "read.sv"
        source.write_text(READ.format(width=port["word_bits"], words=port["words"], file=file))
        subprocess.run(["iverilog", "-g2012", "-o", tmp_path / "read", source], check=True)
        done = subprocess.run(["vvp", "-n", tmp_path / "read"], capture_output=True, text=True, check=True)
        *found, last = done.stdout.splitlines()
        assert found == (plain.folder / port["file"]).read_text().splitlines(), name
        assert set(last) == {"x"}  # no word more than there are


# -- C -------------------------------------------------------------------------------------------

PRINT = """#include <inttypes.h>
#include <stdio.h>
#include "pack.h"
int main(void) {
%s
  return 0;
}
"""
LOOP = """  {
    const %s *p = (const %s *) %s;
    for (size_t i = 0; i < sizeof %s / sizeof *p; i++) printf("%%" %s "\\n", p[i]);
  }
  printf("end\\n");
"""


@pytest.mark.slow
@gcc_only
@pytest.mark.parametrize("choice", [Choice(), Choice("nhwc", 3, 32), Choice("nc/8hw8")], ids=str)
@pytest.mark.parametrize("bits", [0, 2, 8, 9, 16, 31, 32, 33, 64])
def test_arrays_of_c_compile_and_are_the_codes(bits: int, choice: Choice, tmp_path: Path) -> None:
    draft = (
        one_port((2, 3, 2, 5), bits, bits % 3 != 0, choice, bits) if bits else laid_out(many_kinds(), choice)
    )
    plain, out = exported(draft, "c", tmp_path)
    header = (out / "pack.h").read_text("ascii")
    found = re.findall(r"extern const (\w+) (\w+)((?:\[\d+\])+);", header)
    assert len(found) == len(plain.ports)
    body = "".join(
        LOOP % (kind, kind, name, name, f"PRI{'u' if kind[0] == 'u' else 'd'}{re.findall('[0-9]+', kind)[0]}")
        for kind, name, _ in found
    )
    (out / "print.c").write_text(PRINT % body)
    strict = [
        "gcc",
        "-std=c99",
        "-pedantic",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-o",
        "print",
        "print.c",
        "pack.c",
    ]
    subprocess.run(strict, cwd=out, check=True)
    text = subprocess.run([out / "print"], capture_output=True, text=True, check=True).stdout
    parts = [[int(line) for line in part.split()] for part in text.split("end\n")[:-1]]
    for (kind, name, extents), cells, entry in zip(found, parts, plain.ports.values(), strict=True):
        rows = plain_cells(plain, entry["name"])
        assert cells == rows[: len(cells)] and not any(rows[len(cells) :]), name
        assert int(np.prod([int(size) for size in re.findall(r"\d+", extents)])) == len(cells)
        bits_held = int(re.findall("[0-9]+", kind)[0])
        assert bits_held >= entry["bits"] and (bits_held == 8 or bits_held // 2 < entry["bits"])
        assert f"#define {name.upper()}_BITS {entry['bits']}\n" in header
        if isinstance(entry["exponent"], int):
            assert f"#define {name.upper()}_EXPONENT ({entry['exponent']})\n" in header


def plain_cells(plain: Plain, name: str) -> list[int]:
    """All lanes of all rows, as they stand."""
    port, words = plain.ports[name], words_of(plain, name)
    each = -(-port["lanes"] * port["bits"] // port["word_bits"])
    rows = [
        sum(word << port["word_bits"] * k for k, word in enumerate(words[at : at + each]))
        for at in range(0, len(words), each)
    ]
    return [code for row in rows for code in elements(row, port)]


# -- arrays of NumPy, an image ---------------------------------------------------------------------


@pytest.mark.parametrize("choice", [Choice(), Choice("nhwc", 3, 32)], ids=str)
def test_npz_has_the_elements_in_c_order(choice: Choice, tmp_path: Path) -> None:
    plain, out = exported(laid_out(many_kinds(), choice), "npz", tmp_path)
    with np.load(out / "pack.npz", allow_pickle=False) as arrays:
        assert set(arrays) == {"PACK.json", *plain.ports}
        assert json.loads(arrays["PACK.json"].tobytes()) == plain.manifest
        for name, port in plain.ports.items():
            array = arrays[name]
            assert list(array.shape) == port["shape"]
            if port["encoding"] == "float32":
                assert array.dtype == np.float32
                array = array.view(np.uint32)
            assert array.reshape(-1).tolist() == plain.values(name)


@pytest.mark.slow
@some_packs
def test_an_image_by_its_map(
    tmp_path_factory: pytest.TempPathFactory, shape: tuple, bits: int, signed: bool, choice: Choice, seed: int
) -> None:
    draft, word = one_port(shape, bits, signed, choice, seed), (None, 1, 7, 8, 32, 36, 128, 1024)[seed % 8]
    plain, out = exported(draft, "image", tmp_path_factory.mktemp("p"), word)
    check_image(plain, out, word or 32)


@pytest.mark.parametrize("word", [None, 8, 12, 64])
def test_an_image_of_many_ports(word: int | None, tmp_path: Path) -> None:
    plain, out = exported(laid_out(many_kinds(), Choice("nhwc", 2)), "image", tmp_path, word)
    check_image(plain, out, word or 32)
    text = (out / "map.txt").read_text().splitlines()
    assert len(text) == 2 + len(plain.ports)
    for line, name in zip(text[2:], plain.ports, strict=True):
        assert line.split()[2] == name


def check_image(plain: Plain, out: Path, word: int) -> None:
    """Every word of the pack is found where map.json says, and the ports fill the memory."""
    head, at, *lines = (out / "image.mem").read_text("ascii").splitlines()
    memory = [int(line, 16) for line in lines]
    assert head.startswith("// ") and at == "@0" and all(len(line) == -(-word // 4) for line in lines)
    assert all(value >> word == 0 for value in memory)
    told = json.loads((out / "map.json").read_text())
    assert (told["word_bits"], told["words"]) == (word, len(memory))
    end = 0
    for port in told["ports"]:
        assert port["address"] == end and port.get("byte_address") == (
            end * word // 8 if word % 8 == 0 else None
        )
        each = port["words_a_word"]
        held = memory[port["address"] : port["address"] + port["words"]]
        found = [
            sum(value << word * k for k, value in enumerate(held[i : i + each]))
            for i in range(0, len(held), each)
        ]
        assert found == words_of(plain, port["port"])
        assert each == -(-port["word_bits"] // word)
        end += port["words"]
    assert end == len(memory) and [port["port"] for port in told["ports"]] == list(plain.ports)


# -- what is refused -----------------------------------------------------------------------------


def test_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = pack.read(pack.write(many_kinds(), tmp_path / "pack"))
    with pytest.raises(ConfigError, match="unknown kind of file 'mim'; did you mean"):
        export.write(held, "mim", tmp_path / "out")
    with pytest.raises(
        ConfigError, match="--word with --as mif: words are the pack's; only an image has its"
    ):
        export.write(held, "mif", tmp_path / "out", 32)
    with pytest.raises(ConfigError, match="--word 2000: give a number from 1 to 1024"):
        export.write(held, "image", tmp_path / "out", 2000)
    with pytest.raises(PackError, match="pack is there already: give a folder that is not"):
        export.write(held, "mif", tmp_path / "pack")

    def full(path: Path, content: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(PackError, match=r"out: No space left on device \(fc2\.x0\.mif\)"):
        export.write(held, "mif", tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"pack"}
