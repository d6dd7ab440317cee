"""The compiled tile and its plain twin on the same cases, and which tile which processor gets."""

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from intnet.machine import tile, words
from intnet.machine.jit import njit
from tests.support.command import ROOT, environment
from tests.support.fences import fenced
from tests.support.float_oracle import same
from tests.support.machines import machines

needs_fours = pytest.mark.skipif(not words.FOURS, reason="the processor has no vpdpbusd")
N, LENGTHS = 61, (1, 33, 16)  # words an operand row holds, words of the runs


@njit
def compiled(vectors: int, out: np.ndarray, a: np.ndarray, rows: np.ndarray, runs: np.ndarray,
             run0: int, run1: int, b: np.ndarray) -> None:  # fmt: skip
    tile.begin_tiles(b)
    width = vectors * tile.LANES
    ends, met = np.array([run1 - run0]), np.zeros(1, np.int64)
    tile.multiply_rows(
        vectors, out, 5, width + 3, a, rows, 1, 2, runs[3 * run0 :], 0, 1, b, width + 4, ends, met, out
    )
    tile.end_tiles(b)


@njit
def meeting(vectors: int, out: np.ndarray, a: np.ndarray, rows: np.ndarray, runs: np.ndarray,
            first: int, last: int, b: np.ndarray, ends: np.ndarray, met: np.ndarray,
            stack: np.ndarray) -> None:  # fmt: skip
    width = vectors * tile.LANES
    tile.multiply_rows(vectors, out, 5, width + 3, a, rows, 1, 2, runs, first, last, b, 4, ends, met, stack)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["float32", "pairs", "int32", "float64"])
@pytest.mark.parametrize("vectors", [1, 2])
@pytest.mark.parametrize(
    ("first", "last", "met"),
    [(0, 1, [0] * 5), (3, 4, [0] * 5), (0, 5, [0, 0, 2, 0, 2]), (1, 4, [0, 0, 0, 2, 0])],
)
def test_sums_of_groups_meet_on_a_stack(
    kind: str, vectors: int, first: int, last: int, met: list[int]
) -> None:
    """The two on top first; runs of a group are one sum. All five: (s0 + (s1 + s2)) + (s3 + s4)."""
    width, ends = vectors * tile.LANES, np.array([1, 2, 4, 5, 6])
    a, sums = operands(kind, tile.ROWS * N + 2, 1)
    b, _ = operands(kind, 12 * width + 4, 2)
    rows = np.concatenate([[0], np.arange(tile.ROWS) * N])
    runs = np.array([0, 2, 0, 2, 1, 2, 9, 3, 3, 20, 1, 6, 5, 2, 7, 30, 3, 9])
    start = np.full(tile.ROWS * (width + 3) + 5, 99, sums)

    def alone(group: int) -> np.ndarray:
        out = start.copy()
        meeting.py_func(vectors, out, a, rows, runs, group, group + 1, b, ends, np.zeros(5, np.int64), out)
        return out[5:].reshape(tile.ROWS, width + 3)[:, :width]

    waiting: list[np.ndarray] = []
    for group in range(first, last):
        waiting.append(alone(group))
        for _ in range(met[group]):
            upper = waiting.pop()
            waiting.append(waiting.pop() + upper)
    want = start.copy()
    want[5:].reshape(tile.ROWS, width + 3)[:, :width] = waiting[-1]
    got, twin = start.copy(), start.copy()
    given = a, rows, runs, first, last, b, ends, np.array(met), tile.line_zeros(3 * tile.ROWS * width, start)
    meeting(vectors, got, *given)
    meeting.py_func(vectors, twin, *given)
    for made in (got, twin):
        same(made, want) if kind == "float32" else np.testing.assert_array_equal(made, want)


@pytest.mark.parametrize("kind", ["float32", "float64", "int16", "int64"])
def test_memory_begins_with_a_cache_line(kind: str) -> None:
    for size in (1, 100, 100_000):
        for made in (njit(tile.line_zeros), tile.line_zeros):
            x = made(size, np.empty(0, kind))
            assert x.ctypes.data % 64 == 0 and x.shape == (size,) and x.dtype == kind and not x.any()


@pytest.mark.slow
def test_minus_zeros_of_groups_make_zero() -> None:
    """Products that underflow leave -0 in each group; the total is +0, as with +0 of each group."""
    a, b = np.full(tile.ROWS * 2, -1e-30, np.float32), np.full(2 * tile.LANES, 1e-30, np.float32)
    ends, runs = np.array([1, 2]), np.array([0, 1, 0, 1, 1, 1])
    out = np.ones(tile.ROWS * tile.LANES, np.float32)
    stack = tile.line_zeros(out.size * 2, out)
    underflow(out, a, np.arange(tile.ROWS) * 2, runs, b, ends, np.array([0, 1]), stack)
    same(out, np.zeros_like(out))


@njit
def underflow(out: np.ndarray, a: np.ndarray, rows: np.ndarray, runs: np.ndarray, b: np.ndarray,
              ends: np.ndarray, met: np.ndarray, stack: np.ndarray) -> None:  # fmt: skip
    tile.multiply_rows(1, out, 0, tile.LANES, a, rows, 0, 0, runs, 0, 2, b, 0, ends, met, stack)


@njit
def by_columns(
    out: np.ndarray, a: np.ndarray, columns: np.ndarray, step: int, runs: np.ndarray, first: int, last: int,
    b: np.ndarray, ends: np.ndarray, met: np.ndarray, stack: np.ndarray,
) -> None:  # fmt: skip
    width = stack.size // (3 * tile.OUTPUTS)
    line = tile.OUTPUTS + 3  # the errors of more outputs than a tile takes, here from the second
    tile.multiply_columns(
        out, 5, width + 3, a, columns, 1, step, runs, first, last, b, 5 * line + 1, line, ends, met, stack
    )


def columns_of(kind: str, seed: int = 1) -> tuple[Any, ...]:
    """(x-words, columns, runs, e-words, ends, scratch) of five groups; vectors overlap, in no order."""
    x, sums = operands(kind, 2000, seed)
    vectors, line = tile.vectors_of(np.dtype(sums)), tile.OUTPUTS + 3
    e, _ = operands(kind, (5 + 12) * line, seed + 1)
    columns = np.array([0, 400, 93, 397][: vectors + 1])
    runs = np.array([6, 2, 7, 0, 2, 9, 41, 3, 0, 20, 1, 6, 5, 2, 4, 30, 2, 3])
    scratch = tile.line_zeros(3 * tile.OUTPUTS * vectors * tile.LANES, np.empty(0, sums))
    return x, columns, runs, e, np.array([1, 2, 4, 5, 6]), scratch


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [pytest.param("fours", marks=needs_fours), "pairs", "int32", "int64", "float64", "float32"]
)
@pytest.mark.parametrize("step", [1, 16])
@pytest.mark.parametrize(
    ("first", "last", "met"),
    [(0, 1, [0] * 5), (2, 3, [0] * 5), (0, 5, [0, 0, 2, 0, 2]), (1, 4, [0, 0, 0, 2, 0])],
)
def test_compiled_and_plain_columns_are_the_same(
    kind: str, step: int, first: int, last: int, met: list[int]
) -> None:
    x, columns, runs, e, ends, scratch = columns_of(kind)
    width = scratch.size // (3 * tile.OUTPUTS)
    start = np.full(tile.OUTPUTS * (width + 3) + 5, 99, scratch.dtype)
    got, want = start.copy(), start.copy()
    by_columns(got, x, columns, step, runs, first, last, e, ends, np.array(met), scratch)
    by_columns.py_func(want, x, columns, step, runs, first, last, e, ends, np.array(met), scratch)
    same(got, want) if kind == "float32" else np.testing.assert_array_equal(got, want)
    assert np.count_nonzero(want != 99) > tile.OUTPUTS * width * 0.9
    gaps = want[5:].reshape(tile.OUTPUTS, width + 3)[:, width:]
    assert np.all(gaps == 99) and np.all(want[:5] == 99)


@pytest.mark.parametrize("kind", ["pairs", "fours", "int64"])
@pytest.mark.parametrize("group", range(5))
def test_plain_columns_are_sums_of_products(kind: str, group: int) -> None:
    """The twin itself, against Python integers."""
    step, line = 16, tile.OUTPUTS + 3
    x, columns, runs, e, ends, scratch = columns_of(kind, 3)
    width, code = scratch.size // (3 * tile.OUTPUTS), getattr(by_columns, "py_func", by_columns)
    out = np.zeros(tile.OUTPUTS * (width + 3) + 5, scratch.dtype)
    code(out, x, columns, step, runs, group, group + 1, e, ends, np.zeros(5, np.int64), scratch)
    kinds = {"pairs": (np.int16, np.int16), "fours": (np.uint8, np.int8), "int64": (np.int64, np.int64)}[kind]
    left, right = (v.view(k).reshape(v.size, -1).tolist() for v, k in zip((x, e), kinds, strict=True))
    for r in range(tile.OUTPUTS):
        for j in range(width):
            total = int(e[(5 - 1 - group) * line + 1 + r].astype(np.int32)) if kind == "fours" else 0
            for offset, length, place in runs.reshape(-1, 3)[ends[group - 1] if group else 0 : ends[group]]:
                for k in range(length):
                    one = left[columns[1 + j // tile.LANES] + offset + k * step + j % tile.LANES]
                    total += sum(
                        p * q for p, q in zip(one, right[(5 + place + k) * line + 1 + r], strict=True)
                    )
            want = (total + (1 << 31)) % (1 << 32) - (1 << 31) if kind == "fours" else total
            assert int(out[5 + r * (width + 3) + j]) == want


def operands(kind: str, size: int, seed: int) -> tuple[np.ndarray, Any]:
    """Words of one kind over their whole range, and the type of their sums."""
    rng = np.random.default_rng(seed)
    if kind == "pairs":  # sums of 50 pairs of products below 2**24 fit int32
        halves = rng.integers(-4095, 4096, 2 * size).astype(np.int16)
        return halves.view(np.int32), np.int32
    if kind == "fours":  # any bytes
        return rng.integers(0, 1 << 32, size).astype(np.uint32), np.int32
    if kind == "float32":
        return np.ldexp(rng.normal(size=size), rng.integers(-60, 60, size)).astype(np.float32), np.float32
    if kind == "float64":  # sums of 50 products below 2**46 are below 2**53
        return np.trunc(np.ldexp(rng.normal(size=size), 21)).clip(-(2.0**23), 2.0**23), np.float64
    limit = 1 << (29 if kind == "int32" else 28)
    return rng.integers(-limit, limit, size).astype(np.int32 if kind == "int32" else np.int64), np.int64


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "vectors"),
    [
        pytest.param("fours", 1, marks=needs_fours),
        pytest.param("fours", 2, marks=needs_fours),
        ("pairs", 1),
        ("pairs", 2),
        ("int32", 1),
        ("int32", 2),
        ("int64", 1),
        ("float64", 1),
        ("float64", 2),
        ("float32", 1),
        ("float32", 2),
    ],
)
@pytest.mark.parametrize("share", [(0, 3), (1, 2), (2, 3)])
def test_compiled_and_plain_tiles_are_the_same(kind: str, vectors: int, share: tuple[int, int]) -> None:
    width = vectors * tile.LANES
    a, sums = operands(kind, tile.ROWS * N + 2, 1)
    # before the words, starts where a kind has them
    b, _ = operands(kind, (1 + sum(LENGTHS) + tile.SPARE) * width + 4, 2)
    rows = np.concatenate([[0], (np.arange(tile.ROWS) * N)[::-1]])  # in any order, here from the last
    at = np.cumsum([0, LENGTHS[2], LENGTHS[0]])  # their words of b: in any order
    runs = np.array([6, LENGTHS[0], at[1], 0, LENGTHS[1], at[2], 40, LENGTHS[2], at[0]])
    start = np.full(tile.ROWS * (width + 3) + 5, 99, sums)
    got, want = start.copy(), start.copy()
    compiled(vectors, got, a, rows, runs, *share, b)
    compiled.py_func(vectors, want, a, rows, runs, *share, b)
    same(got, want) if kind == "float32" else np.testing.assert_array_equal(got, want)
    assert np.count_nonzero(want != 99) > tile.ROWS * width * 0.9  # the tile was written ...
    gaps = want[5:].reshape(tile.ROWS, width + 3)[:, width:]
    assert np.all(gaps == 99) and np.all(want[:5] == 99)  # ... and nothing else


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pytest.param("fours", marks=needs_fours), "pairs", "float32"])
@pytest.mark.parametrize("vectors", [1, 2])
@pytest.mark.parametrize("length", [1, 15, 16, 17, 33])
def test_nothing_is_read_behind_operands(kind: str, vectors: int, length: int) -> None:
    """Nor behind the lines to spare of fours, fewer than the next sixteen."""
    width = vectors * tile.LANES
    spare = -length % 16 if kind == "fours" and words.AMX else 0
    assert spare <= tile.SPARE
    rows, runs = np.arange(-1, tile.ROWS) * length, np.array([0, length, 0])
    (some_a, sums), (some_b, _) = operands(kind, tile.ROWS * length + 2, 1), operands(kind, length * width, 2)
    a, b = fenced(some_a.shape, some_a.dtype), fenced(((1 + length + spare) * width + 4,), some_b.dtype)
    out = fenced((tile.ROWS * (width + 3) + 2,), sums)
    a[:], b[:], out[:] = some_a, 0, 99
    b[width + 4 : width + 4 + some_b.size] = some_b
    want = out.copy()
    compiled(vectors, out, a, rows, runs, 0, 1, b)
    compiled.py_func(vectors, want, a, rows, runs, 0, 1, b)
    same(out, want) if kind == "float32" else np.testing.assert_array_equal(out, want)


def test_the_plain_tile_is_a_sum_of_products() -> None:
    """The twin itself, against Python integers."""
    a, _ = operands("pairs", tile.ROWS * N, 3)
    b, _ = operands("pairs", 5 * tile.LANES, 4)
    out = np.zeros(tile.ROWS * tile.LANES, np.int32)
    rows, runs = np.arange(tile.ROWS) * N, np.array([2, 4, 1])
    ends, met = np.array([1]), np.zeros(1, np.int64)
    tile.multiply_rows(1, out, 0, tile.LANES, a, rows, 0, 0, runs, 0, 1, b, 0, ends, met, out)
    left, right = (x.view(np.int16).reshape(-1, 2).tolist() for x in (a, b))
    for r in range(tile.ROWS):
        for j in range(tile.LANES):
            terms = [(left[r * N + 2 + k], right[(k + 1) * tile.LANES + j]) for k in range(4)]
            assert int(out[r * tile.LANES + j]) == sum(x[0] * y[0] + x[1] * y[1] for x, y in terms)


@njit
def grouped(
    vectors: int, out: np.ndarray, a: np.ndarray, rows: np.ndarray, runs: np.ndarray, group: int,
    b: np.ndarray, b_at: int, ends: np.ndarray, met: np.ndarray,
) -> None:  # fmt: skip
    width = vectors * tile.LANES
    tile.begin_tiles(b)
    tile.multiply_rows(vectors, out, 0, width, a, rows, 0, 0, runs, group, group + 1, b, b_at, ends, met, out)
    tile.end_tiles(b)


@pytest.mark.parametrize("vectors", [1, 2])
@pytest.mark.parametrize("group", [0, 1, 2])
@pytest.mark.parametrize(
    "code",
    [pytest.param(grouped, marks=[needs_fours, pytest.mark.slow]), getattr(grouped, "py_func", grouped)],
)
@pytest.mark.parametrize("byte", [None, 0, 127, 128, 255])
def test_sums_of_fours_start_before_their_words(
    vectors: int, group: int, code: Any, byte: int | None
) -> None:
    """start + the sum of uint8 times int8, modulo 2**32, against Python's view of int64 sums."""
    width, ends = vectors * tile.LANES, np.array([1, 3, 4])
    runs = np.array([0, 2, 0, 5, 3, 2, 9, 1, 5, 20, 4, 6])  # of 2, 3 + 1 and 4 words
    a, _ = operands("fours", tile.ROWS * N, 3)
    b, _ = operands("fours", (3 + 10 + tile.SPARE) * width, 4)
    if byte is not None:
        a.view(np.uint8)[:], b[3 * width :].view(np.uint8)[:] = byte, 255 - byte
    out = np.zeros(tile.ROWS * width, np.int32)
    code(vectors, out, a, np.arange(tile.ROWS) * N, runs, group, b, 3 * width, ends, np.zeros(3, np.int64))
    left = a.view(np.uint8).astype(np.int64).reshape(tile.ROWS, N, 4)
    right = b[3 * width :].view(np.int8).astype(np.int64).reshape(-1, width, 4)
    taken = [[(0, 0), (1, 1)], [(5, 2), (6, 3), (7, 4), (9, 5)], [(20, 6), (21, 7), (22, 8), (23, 9)]][group]
    want = sum(left[:, i] @ right[place].T for i, place in taken)
    want = want + b[(2 - group) * width : (3 - group) * width].astype(np.int64)
    np.testing.assert_array_equal(out.reshape(tile.ROWS, width), want.astype(np.int32))


PROBE = "from intnet.machine.tile import LANES, ROWS; print(ROWS, LANES)"


@pytest.mark.slow
@pytest.mark.parametrize("cpu", ["x86-64", "haswell"] if "x86-64" in machines() else ["generic"])
def test_the_processor_chooses_the_tile(cpu: str) -> None:
    """Those have no registers of 512 bits, whatever this machine has; skylake-avx512 does."""
    for name, expected in ((cpu, ["6", "8"]), ("skylake-avx512" if cpu != "generic" else cpu, None)):
        variables = environment(NUMBA_CPU_NAME=name, NUMBA_CPU_FEATURES="")
        done = subprocess.run(
            [sys.executable, "-c", PROBE], cwd=ROOT, env=variables, capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == (expected or (["12", "16"] if name != "generic" else ["6", "8"]))


@pytest.mark.slow
@pytest.mark.skipif("x86-64" not in machines(), reason="the names are those of x86 processors")
@pytest.mark.parametrize(
    ("cpu", "disabled", "expected"),
    [
        ("haswell,+avxvnni,+amx-tile,+amx-int8", "0", "True False"),  # AMX on a host that hides AVX-512
        ("cascadelake", "0", "True False"),  # AVX-512 VNNI
        ("alderlake", "0", "True False"),  # AVX-VNNI
        ("skylake-avx512", "0", "False False"),
        ("haswell", "0", "False False"),
        ("generic", "0", "False False"),
        ("cascadelake", "1", "False False"),  # nothing is compiled
    ],
)
def test_the_processor_chooses_products_of_fours(cpu: str, disabled: str, expected: str) -> None:
    code = "from intnet.machine.words import AMX, FOURS; print(FOURS, AMX)"
    name, _, features = cpu.partition(",")
    variables = environment(NUMBA_CPU_NAME=name, NUMBA_CPU_FEATURES=features, NUMBA_DISABLE_JIT=disabled)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=variables, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == expected


@pytest.mark.parametrize(
    ("features", "answer", "platform", "expected"),
    [
        ("+avx2,+amx-int8,+amx-tile", 0, "linux", True),
        ("+avx2,+amx-int8,+amx-tile", -1, "linux", False),  # Linux lends no registers
        ("+avx2,-amx-int8,+amx-tile", 0, "linux", False),
        ("", 0, "linux", False),
        ("+avx2,+amx-int8,+amx-tile", 0, "win32", False),
    ],
)
def test_amx_is_taken_where_it_is_lent(
    monkeypatch: pytest.MonkeyPatch, features: str, answer: int, platform: str, expected: bool
) -> None:
    codegen = SimpleNamespace(magic_tuple=lambda: ("triple", "cpu", features))
    target = SimpleNamespace(target_context=SimpleNamespace(codegen=lambda: codegen))
    library = SimpleNamespace(CDLL=lambda name: SimpleNamespace(syscall=lambda *asked: answer))
    monkeypatch.setattr(words, "cpu_target", target)
    monkeypatch.setattr(words, "ctypes", library)
    monkeypatch.setattr(words.sys, "platform", platform)
    monkeypatch.setattr(words.config, "DISABLE_JIT", 0)
    assert words._has_amx() is expected
    monkeypatch.setattr(words.config, "DISABLE_JIT", 1)
    assert words._has_amx() is False
