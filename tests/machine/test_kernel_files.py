"""Compiled code on disk is that of the types that it is asked for, whoever else writes meanwhile."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from numba import types
from numba.core.dispatcher import Dispatcher

from intnet.machine import jit, kernel_files
from intnet.machine.jit import kernel_sources
from intnet.machine.kernel_files import KernelFiles
from tests.support.command import ROOT, environment
from tests.support.modules import PACKAGE

PROCESSOR, CODE = ("triple", "cpu", "+fma"), ("0" * 64, "1" * 64)
INT, FLOAT = (((types.Array(kind, 1, "C"),), PROCESSOR, CODE) for kind in (types.int64, types.float64))
OTHERS = [
    (INT[0], ("triple", "cpu", "-fma"), CODE),  # another processor
    (INT[0], PROCESSOR, ("2" * 64, CODE[1])),  # another body of the function
    ((types.Array(types.int64, 1, "A"),), PROCESSOR, CODE),
]


def files(folder: Path, stamp: Any = (1.5, 7)) -> KernelFiles:
    return KernelFiles(str(folder), "first-3.py311", stamp)


def test_each_key_has_its_code(tmp_path: Path) -> None:
    keys = [INT, FLOAT, *OTHERS]
    for k, key in enumerate(keys):
        assert files(tmp_path).load(key) is None
        files(tmp_path).save(key, ("code", k))
    assert [files(tmp_path).load(key) for key in keys] == [("code", k) for k in range(len(keys))]
    files(tmp_path).save(INT, "compiled again")
    assert files(tmp_path).load(INT) == "compiled again" and files(tmp_path).load(FLOAT) == ("code", 1)
    assert files(tmp_path, (1.5, 8)).load(INT) is None  # the source file is another one by now
    files(tmp_path).flush()
    assert not list(tmp_path.iterdir())


def test_two_that_write_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each touch of the disk of one save the other saves whole; a third reads ahead of and behind that.

    By Numba's index the third one gets the integers' code for floats here.
    """
    touches = [0]

    def between(own: Callable[..., Any]) -> Callable[..., Any]:
        def touched(*args: Any) -> Any:
            touches[0] += 1
            with monkeypatch.context() as patch:
                patch.setattr(Path, "write_bytes", written)
                patch.setattr(os, "replace", replaced)
                assert files(tmp_path).load(FLOAT) in (None, "floats")
                files(tmp_path).save(FLOAT, "floats")
                assert (files(tmp_path).load(FLOAT), files(tmp_path).load(INT)) in (
                    ("floats", None), ("floats", "integers")
                )  # fmt: skip
            return own(*args)

        return touched

    written, replaced = Path.write_bytes, os.replace
    monkeypatch.setattr(Path, "write_bytes", between(written))
    monkeypatch.setattr(os, "replace", between(replaced))
    files(tmp_path).save(INT, "integers")
    assert touches[0] == 2
    assert (files(tmp_path).load(INT), files(tmp_path).load(FLOAT)) == ("integers", "floats")


def test_a_damaged_file_and_that_of_another_key_are_none(tmp_path: Path) -> None:
    files(tmp_path).save(INT, list(range(40)))
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for n in range(len(whole)):
        path.write_bytes(whole[:n] + bytes([whole[n] ^ 1 << n % 8]) + whole[n + 1 :])
        assert files(tmp_path).load(INT) is None
        path.write_bytes(whole[:n])
        assert files(tmp_path).load(INT) is None
    path.write_bytes(whole)
    assert files(tmp_path).load(INT) == list(range(40))
    files(tmp_path).save(FLOAT, "floats")
    (other,) = set(tmp_path.iterdir()) - {path}
    path.replace(other)
    assert files(tmp_path).load(FLOAT) is None


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it stop a training: what does not fit on the disk is compiled again."""

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    files(tmp_path).save(INT, "integers")
    assert not list(tmp_path.iterdir()) and files(tmp_path).load(INT) is None
    monkeypatch.setattr(Path, "write_bytes", full)
    files(tmp_path).save(INT, "integers")
    assert not list(tmp_path.iterdir())


def test_every_kernel_keeps_its_code_so() -> None:
    kernels = {}
    for path in kernel_sources(PACKAGE):
        name = ".".join(["intnet", *path.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(
            ".__init__"
        )
        for key, value in vars(importlib.import_module(name)).items():
            found = getattr(value, "compiled", value)
            if isinstance(found, Dispatcher):
                kernels[f"{name}.{key}"] = type(found._cache._cache_file)
    assert len(kernels) > 100
    assert {name for name, kind in kernels.items() if kind is not KernelFiles} == set()


@pytest.mark.slow
def test_the_next_process_compiles_nothing(tmp_path: Path) -> None:
    script = (
        "import numpy as np\n"
        "from intnet.numbers import bitpack\n"
        "print(bitpack.pack(np.arange(9), 5).tolist())\n"
        "kernels = [k.compiled for k in vars(bitpack).values() if hasattr(k, 'compiled')]\n"
        "print(sum(sum(k.stats.cache_misses.values()) for k in kernels))"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", script], cwd=ROOT, env=environment(NUMBA_CACHE_DIR=str(tmp_path)),
            capture_output=True, text=True, check=True,
        ).stdout.split("\n")
        for _ in range(2)
    ]  # fmt: skip
    assert told[0][0] == told[1][0]
    assert (int(told[0][1]) > 0, told[1][1]) == (True, "0")


def test_code_that_has_amx_is_not_for_a_process_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jit, "FOLDER", str(tmp_path))
    for amx, hits in ((True, 0), (True, 1), (False, 0), (False, 1), (True, 1)):
        monkeypatch.setattr(kernel_files, "AMX", amx)
        kernel = jit.njit(twice)
        assert kernel(4) == 8 and sum(kernel.stats.cache_hits.values()) == hits


def twice(x: int) -> int:
    return 2 * x
