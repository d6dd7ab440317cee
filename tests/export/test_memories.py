"""Memories: read back by plain readers, every constant is the program's, and the maps lead to it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from intnet.export import memories
from intnet.export import program as p
from intnet.export.program import Program
from tests.support.exporting import INTEGER, by_c, program_of


@pytest.fixture(scope="module")
def files() -> tuple[Program, dict[str, str]]:
    _, program = program_of("resnet", *INTEGER[0])
    return program, {name: content.decode("ascii") for name, content in memories.files(program)}


def words_of(text: str) -> list[int]:
    """Of a .mem, .mif or .coe: hex words in order."""
    text = re.sub(r"(//|--|;(?= )).*", "", text)
    if "BEGIN" in text:
        lines = re.findall(r"^\s*([0-9a-f]+) : ([0-9a-f]+);$", text.partition("BEGIN")[2], re.MULTILINE)
        assert [int(at, 16) for at, _ in lines] == list(range(len(lines)))
        return [int(word, 16) for _, word in lines]
    if "vector" in text:
        return [int(word, 16) for word in re.findall(r"[0-9a-f]+", text.partition("vector =")[2])]
    head, *words = text.split()
    assert head == "@0"
    return [int(word, 16) for word in words]


def signed(word: int, bits: int) -> int:
    return word - (1 << bits) if word >> bits - 1 else word


def numbers(text: str, pattern: str) -> dict[str, int]:
    return {name: int(value) for name, value in re.findall(pattern, text)}


def test_every_memory_holds_its_constant(files: tuple[Program, dict[str, str]]) -> None:
    program, texts = files
    held = memories.constants(program)
    assert sum(isinstance(op, p.Product) for op in program.ops) == sum("weight" in c.name for c in held)
    for constant in held:
        codes = [int(v) for v in constant.codes.reshape(-1)]
        for kind in ("mem", "mif", "coe"):
            words = words_of(texts[f"{constant.name}.{kind}"])
            assert [signed(word, constant.bits) for word in words] == codes, (constant.name, kind)
        assert f"WIDTH = {constant.bits};" in texts[f"{constant.name}.mif"]


def test_the_maps_lead_to_every_constant(files: tuple[Program, dict[str, str]]) -> None:
    """By the header of C and by the package, which have the same numbers; the whole memory is used."""
    program, texts = files
    memory = words_of(texts["constants.mem"])
    c = numbers(texts["constants.h"], r"#define (\w+) \((-?\d+)\)")
    assert c == numbers(texts["constants_pkg.sv"], r"localparam int (\w+) = (-?\d+);")
    used = 0
    for constant in memories.constants(program):
        name = constant.name.upper()
        first, words, bits = (c[f"{name}_{what}"] for what in ("ADDRESS", "WORDS", "BITS"))
        each = words // c[f"{name}_CODES"]
        part = memory[first : first + words]
        codes = [sum(w << 32 * k for k, w in enumerate(part[i : i + each])) for i in range(0, words, each)]
        assert [signed(v & (1 << bits) - 1, bits) for v in codes] == constant.codes.reshape(-1).tolist()
        assert tuple(c[f"{name}_SIZE_{k}"] for k in range(constant.codes.ndim)) == constant.codes.shape
        used += words
    assert used == len(memory)


def test_wide_codes_take_two_words() -> None:
    a = np.array([1 << 40, -3])
    ops = (p.Images("images", (), (1, 1, 2), 0, 0, 255), p.Affine("bn/x3", (0,), a, np.array([7]), -4))
    texts = {name: content.decode() for name, content in memories.files(Program(ops))}
    assert words_of(texts["constants.mem"]) == [0, 256, 0xFFFFFFFD, 0xFFFFFFFF]
    assert "#define BN_X3_A_WORDS (4)" in texts["constants.h"]
    assert "#define BN_X3_A_EXPONENT (-4)" in texts["constants.h"]
    assert "affine(0)  bn/x3: b = 7" in texts["program.txt"]


def test_names_that_differ_by_case_and_letters_of_all_kinds(tmp_path: Path) -> None:
    """Macros are upper case, some systems' files are of no case, and C has ASCII alone."""
    one = np.array([[2]])
    ops = (
        p.Images("images", (), (1, 1, 1), 0, 0, 255),
        p.Flatten("flat", (0,)),
        p.Product("FC", (1,), one, 0),
        p.Product("fc", (2,), one, 0),
        p.Product("gr\u00f6\u00dfe", (3,), one + 1, 0),
    )
    program = Program(ops)
    texts = {name: content.decode("ascii") for name, content in memories.files(program)}
    macros = re.findall(r"#define (\w+) ", texts["constants.h"])
    assert len(macros) == len(set(macros)) and len({name.lower() for name in texts}) == len(texts)
    assert by_c(program, np.full((1, 1, 1, 1), 7, np.uint8), tmp_path, "gcc") == [[84]]


def test_the_listing_has_every_operation(files: tuple[Program, dict[str, str]]) -> None:
    program, texts = files
    for place, op in enumerate(program.ops):
        assert re.search(rf"^ *{place}  \w+\(.*\)  {re.escape(op.name)}", texts["program.txt"], re.MULTILINE)
    assert "within -127..127" in texts["program.txt"]


def test_names_are_those_of_files(files: tuple[Program, dict[str, str]]) -> None:
    assert all(Path(name).name == name for name in files[1])
    assert {"constants.mem", "constants.h", "constants_pkg.sv", "program.txt"} <= files[1].keys()
