"""What is merged into a kernel works as if Numba had compiled it alone: errors, values, recursion, files."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.codegen import JITCodeLibrary
from numba.core.dispatcher import Dispatcher

from intnet.machine import jit
from tests.support.command import environment

ABSOLUTE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(("abs", ctypes.pythonapi))  # any C function


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Kernels of a test are compiled in it, and not found on the disk."""
    monkeypatch.setattr(jit, "FOLDER", str(tmp_path))


def merged(kernel: Dispatcher) -> list[bool]:
    """Of all that a kernel calls, whether it has no machine code yet; the kernel itself last."""
    (result,) = kernel.overloads.values()

    def walk(library: Any) -> Iterator[Any]:
        for called in library._linking_libraries:
            if called.name != "nrt":  # Numba's own reference counts
                yield from walk(called)
        yield library

    return [library._waits for library in walk(result.library)]


def part(**options: Any) -> Any:
    """A function of a user's that only compiled code calls."""
    return numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)


def waiting() -> tuple[Dispatcher, Any, str]:
    """A function that a kernel has merged, what was compiled of it, and its name there."""

    @part()
    def twice(x: Any) -> Any:
        return 2 * x

    @jit.njit
    def kernel(x: Any) -> Any:
        return twice(x)

    assert kernel(5) == 10
    (result,) = twice.overloads.values()
    assert result.library._waits
    return twice, result.library, result.fndesc.llvm_func_name


def test_only_the_kernel_has_machine_code() -> None:
    @jit.rule
    def inner(x: Any) -> Any:
        return x * x + 1

    @jit.rule
    def outer(x: Any) -> Any:
        return inner(x) - x

    @jit.njit
    def kernel(x: Any) -> Any:
        return outer(x) + inner(x)

    assert kernel(7) == 50 - 7 + 50
    *rules, own = merged(kernel)
    assert len(rules) == 3 and all(rules) and not own


def test_error_whose_text_is_made_as_it_is_raised() -> None:
    @jit.rule
    def checked(x: Any) -> Any:
        if x < 0:
            raise ValueError("negative", x)
        return x

    @jit.njit
    def kernel(x: Any) -> Any:
        return checked(x) + 1

    assert kernel(2) == 3 and all(merged(kernel)[:-1])
    with pytest.raises(ValueError, match=r"\('negative', -5\)"):
        kernel(-5)

    @numba.njit
    def others(x: Any) -> Any:  # a kernel of somebody else's, that merges the same
        return checked(x) - 1

    assert others(2) == 1 and not merged(others)[-1]
    with pytest.raises(ValueError, match=r"\('negative', -6\)"):
        others(-6)


@pytest.mark.filterwarnings("ignore:First-class function type")
@pytest.mark.filterwarnings("ignore:Cannot cache compiled function")  # by Numba 0.61
def test_function_taken_for_a_value() -> None:
    @part()
    def twice(x: int) -> int:
        return 2 * x

    @part()
    def square(x: int) -> int:
        return x * x

    @jit.njit
    def kernel(x: Any) -> Any:
        chosen = twice if x < 5 else square
        return chosen(x)

    assert [kernel(x) for x in (4, 5)] == [8, 25]


def test_function_of_which_the_address_is_asked_later() -> None:
    twice, library, name = waiting()
    assert library.get_pointer_to_function("another") == 0 and library._waits
    as_linked = library.get_llvm_str()
    assert library.get_pointer_to_function(name) != 0 and not library._waits
    assert library.get_llvm_str() != as_linked  # but optimized

    @jit.njit
    def second(x: Any) -> Any:
        return twice(x) + 1

    assert second(5) == 11  # what has machine code by now is merged like the rest


def test_recursion() -> None:
    @part()
    def factorial(n: Any) -> Any:
        return 1 if n < 2 else n * factorial(n - 1)

    @jit.njit
    def kernel(n: Any) -> Any:
        return factorial(n) + factorial(n + 1)

    assert kernel(5) == 120 + 720


def test_functions_that_call_each_other() -> None:
    @part()
    def even(n: Any) -> Any:
        return True if n == 0 else odd(n - 1)

    @part()
    def odd(n: Any) -> Any:
        return False if n == 0 else even(n - 1)

    @jit.njit
    def kernel(n: Any) -> Any:
        return even(n)

    assert [kernel(n) for n in (0, 1, 8, 13)] == [True, False, True, False]


def test_array_and_generator() -> None:
    @jit.rule
    def filled(n: Any) -> Any:
        out = np.empty(n, np.int64)
        out[:] = 3
        return out

    @part()
    def numbers(n: Any) -> Any:
        for i in range(n):
            yield i * i

    @jit.njit
    def kernel(n: Any) -> Any:
        total = filled(n).sum()
        for x in numbers(n):
            total += x
        return total

    assert kernel(4) == 12 + 0 + 1 + 4 + 9


def test_kernel_that_failed_to_compile_leaves_others_as_they_are() -> None:
    @jit.njit
    def kernel(x: Any) -> Any:
        return x.nothing

    with pytest.raises(numba.TypingError):
        kernel(1)

    @part()
    def twice(x: Any) -> Any:
        return 2 * x

    @numba.njit
    def others(x: Any) -> Any:
        return twice(x)

    assert others(4) == 8 and not any(merged(others))


def test_user_s_part_that_is_kept_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "user"))

    @part(cache=True)
    def twice(x: Any) -> Any:
        return 2 * x

    @jit.njit
    def kernel(x: Any) -> Any:
        return twice(x)

    assert kernel(6) == 12
    assert list((tmp_path / "user").rglob("*.nbc"))


@part()
def size(x: Any) -> Any:
    return ABSOLUTE(x)


def test_address_in_a_part() -> None:
    """It is another one in the next process, so Numba keeps neither the part nor the kernel on the disk."""

    @jit.njit
    def kernel(x: Any) -> Any:
        return size(x) + 1

    with pytest.warns(numba.NumbaWarning, match="dynamic globals"):
        assert kernel(-6) == 7
    (result,) = size.overloads.values()
    assert result.library._waits and result.library.has_dynamic_globals


def test_threads_that_ask_for_an_address_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    _, library, name = waiting()
    begun, usually = threading.Event(), JITCodeLibrary._optimize_final_module

    def slowly(self: Any) -> None:
        begun.set()
        time.sleep(0.05)
        usually(self)

    monkeypatch.setattr(JITCodeLibrary, "_optimize_final_module", slowly)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(library.get_pointer_to_function, name)
        begun.wait()
        second = pool.submit(library.get_pointer_to_function, name)
    assert first.result() == second.result() != 0


@pytest.mark.parametrize(
    ("before", "meanwhile", "behind"),
    [
        ((700, 10, 10), jit._SELDOM, (700, 10, 10)),
        ((0, 10, 10), (0, 10, 10), (0, 10, 10)),  # collects nothing
        ((900_000, 5, 5), (900_000, 5, 5), (900_000, 5, 5)),  # seldomer
    ],
)
def test_how_often_garbage_is_collected(before: Any, meanwhile: Any, behind: Any) -> None:
    usual = gc.get_threshold()
    try:
        gc.set_threshold(*before)
        with jit._seldom_collected():
            assert gc.get_threshold() == meanwhile
        assert gc.get_threshold() == behind
        with jit._seldom_collected():
            gc.set_threshold(5000, 20, 20)  # somebody else
        assert gc.get_threshold() == (5000, 20, 20)
    finally:
        gc.set_threshold(*usual)


NAMESAKES = """
import sys
from intnet.machine import jit
from intnet.machine.instructions import wide_vectors

def made(k):
    @jit.rule
    def inner(x):
        wide_vectors()  # which is not merged
        return x * k
    return inner

twos, threes = made(2), made(3)

@jit.njit
def first(x):
    return twos(x) + twos(x + 1) + twos(x * 2)

@jit.njit
def second(x):
    return threes(x) + threes(x + 1) + threes(x * 2)

for name in sys.argv[1:]:
    kernel = globals()[name]
    print(name, kernel(5) == kernel.py_func(5), sum(kernel.stats.cache_hits.values()))
"""


def test_functions_of_one_name_in_kernels_of_two_processes(tmp_path: Path) -> None:
    """Numba tells two of one name apart by a number that each process counts anew."""
    script = tmp_path / "namesakes.py"
    script.write_text(NAMESAKES)
    around = environment(NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    said = [
        subprocess.run(
            [sys.executable, script, *names], env=around, capture_output=True, text=True, check=True
        ).stdout
        for names in (["first"], ["first", "second"], ["second", "first"])
    ]
    assert said == [
        "first True 0\n",
        "first True 1\nsecond True 0\n",
        "second True 1\nfirst True 1\n",
    ]


KEPT = """
from intnet.machine import jit

@jit.rule
def checked(x):
    if x < 0:
        raise ValueError("negative", x)
    return x

@jit.njit
def kernel(x):
    return checked(x) + 1

try:
    kernel(-int("3"))
except ValueError as error:
    print(kernel(1), error.args, sum(kernel.stats.cache_hits.values()))
"""


def test_kernel_from_the_disk(tmp_path: Path) -> None:
    script = tmp_path / "kept.py"
    script.write_text(KEPT)
    around = environment(NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    said = [
        subprocess.run(
            [sys.executable, script], env=around, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert said == ["2 ('negative', -3) 0\n", "2 ('negative', -3) 1\n"]
