"""The Numba options of every kernel, set once, where compiled code is kept, and how threads wait.

`pjit` compiles a kernel that shares a loop out to threads, `njit` one of a single thread; `rule` is a part
of kernels that Python does not call, `inlined` one that is never left to a call. Compiled kernels are
cached on disk, so a second process starts at once. `fastmath` stays off: it would let the compiler reorder
sums, and results must be the same bits on every machine.
With NUMBA_DISABLE_JIT=1 the decorators return the Python function, and the bits stay the same.
"""

import gc
import hashlib
import importlib
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.extending import register_jitable
from numba.np import linalg

from intnet.errors import ConfigError
from intnet.machine import folders
from intnet.machine.kernel_files import keep_by_key
from intnet.machine.merging import merging
from intnet.machine.threads import prange

__all__ = ["inlined", "njit", "pjit", "prange", "rule"]

# Threads that wait for work spin for about a millisecond, then sleep. A step hands out work hundreds of
# times: waking a sleeping thread costs 0.1 ms each time and may put it on the core of the one that waits.
# Spinning on, though, costs ten times the work where other processes share the cores.
_WAITING = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "20000"}

_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
SMALL = 1 << 14  # elements of the largest operand below which handing out work costs more than it saves
_SELDOM = (
    20_000,
    20,
    100,
)  # thresholds of the collector while a kernel is compiled; a process takes 7 % more memory
_KEPT = 3  # caches of other versions of the sources that stay on disk

# The rooms that kernels are made of: rules, constants and intrinsics that are compiled stand nowhere else.
COMPILED = ("machine", "numbers", "exact", "ops")


def kernel_sources(package: Path) -> list[Path]:
    """All sources in COMPILED."""
    return sorted(path for room in COMPILED for path in (package / room).rglob("*.py"))


def cache_folder(package: Path = Path(__file__).parent.parent) -> Path:
    """Where compiled kernels of `package` are kept: a folder named by a hash of `kernel_sources`.

    Numba alone looks only at the file of a kernel, not at the files of the rules, constants and
    intrinsics that are compiled into it, so after an upgrade it could run old code. The hash takes
    every source of COMPILED, whether or not it names a decorator: one too many costs a compilation, one
    too few a wrong result. Commands, methods, models and file formats stand in other rooms, so that
    everyday edits do not recompile. The base is $NUMBA_CACHE_DIR, else the package's __pycache__, else
    (read-only installation) the user's cache, the first that can be written; where none can, a temporary
    folder, and a RuntimeWarning that says so whenever kernels are compiled into it.
    """
    sha = hashlib.sha256(numba.__version__.encode())
    for path in kernel_sources(package):
        source = path.read_bytes()
        sha.update(f"{path.relative_to(package).as_posix()} {len(source)}\n".encode() + source)
    name = f"intnet-kernels-{sha.hexdigest()[:16]}"
    given = os.environ.get("NUMBA_CACHE_DIR")
    wanted = [Path(given)] if given else [package / "__pycache__", folders.user_cache()]
    bases = [base for base in wanted if base is not None]
    base = next(filter(folders.writable, bases), None) or _temporary(name, bases)
    folder = base / name
    if not folder.exists():
        others = sorted(base.glob("intnet-kernels-*"), key=_age)
        for old in others[:-_KEPT]:
            shutil.rmtree(old, ignore_errors=True)
    return folder


def _age(path: Path) -> float:
    """When it was changed; of one that another process has just removed, long ago."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _temporary(name: str, bases: list[Path]) -> Path:
    """The temporary base of the folder `name`; said where the folder is not there yet."""
    base = folders.temporary()
    if not (base / name).exists():
        tried = " nor ".join(map(str, bases))
        warnings.warn(
            f"compiled kernels cannot be kept in {tried}: they go to {base}. "
            "Set NUMBA_CACHE_DIR to a folder that you can write, and they need to be compiled only once",
            RuntimeWarning,
            stacklevel=2,
        )
    return base


@contextmanager
def _environment(wanted: dict[str, str]) -> Iterator[None]:
    """While entered, variables that are not set have these values."""
    missing = {key: value for key, value in wanted.items() if key not in os.environ}
    os.environ.update(missing)
    try:
        yield
    finally:
        for key in missing:
            del os.environ[key]


def _load_threads() -> None:
    """Load Numba's layer of OpenMP threads, if it has one, and tell it how its threads wait.

    GNU OpenMP reads its settings once, when it is loaded, so that the environment has them no longer than
    that: neither this process nor one that it starts sees them later. Loading starts no thread. What the
    user has set counts; so do the settings of an OpenMP that another package has loaded before.
    """
    with _environment(_WAITING), suppress(ImportError):
        importlib.import_module("numba.np.ufunc.omppool")


def _leave_scipy() -> None:
    """Have Numba load SciPy's linear algebra when a kernel is compiled that uses it: none of intnet's does.

    It would load all of it ahead of the first kernel, 0.3 s, to know whether it is there.
    """
    asked = linalg.ensure_blas

    def ensure_blas() -> None:
        linalg.ensure_blas = asked
        if find_spec("scipy") is None:
            raise ImportError("scipy is required for linear algebra")

    if "numba.np.arraymath" not in sys.modules:  # which asks once, as it is loaded
        linalg.ensure_blas = ensure_blas


FOLDER = str(cache_folder())
if not numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
    _load_threads()
    _leave_scipy()


@cache
def start_threads() -> None:
    """Have Numba load its threads: compiled code that shares work out cannot be linked before.

    ConfigError where it cannot, as of a NUMBA_THREADING_LAYER that it has not or that is not installed.
    """
    try:
        numba.get_num_threads()
    except ValueError as error:
        layer = numba.config.THREADING_LAYER  # type: ignore[attr-defined]
        raise ConfigError(f"Numba has no threads by NUMBA_THREADING_LAYER={layer}: {error}") from None


def _compile(function: Callable[..., Any], **options: Any) -> Any:
    """numba.njit with the folder above; Numba reads the setting when a function is decorated."""
    before = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    numba.config.CACHE_DIR = FOLDER  # type: ignore[attr-defined]
    try:
        kernel = numba.njit(**_OPTIONS, **options)(function)
    finally:
        numba.config.CACHE_DIR = before  # type: ignore[attr-defined]
    if not numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        keep_by_key(kernel)
        _compile_sooner(kernel)
    return kernel


def _compile_sooner(kernel: Any) -> None:
    """Have a dispatcher of Numba's compile no more than it needs, and the collector seldom look for garbage.

    A compiled kernel leaves hundreds of thousands of objects: going through them took a tenth of the time.
    """
    compiler = kernel._compiler
    compile_usually = compiler.compile

    def compile_sooner(*args: Any) -> Any:
        with _seldom_collected(), merging():
            return compile_usually(*args)

    compiler.compile = compile_sooner


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """While entered, the collector looks no more often than _SELDOM says; what others set meanwhile stays."""
    before = gc.get_threshold()
    if 0 < before[0] < _SELDOM[0]:  # 0: never
        gc.set_threshold(*_SELDOM)
    try:
        yield
    finally:
        if gc.get_threshold() == _SELDOM:
            gc.set_threshold(*before)


def njit(function: Callable[..., Any]) -> Any:
    """Compile a serial loop, or a scalar rule that Python calls too.

    A kernel that calls it with a literal integer, also a variable that begins as one, compiles it once
    more for that value: where this is not wanted, `np.int64(0)` is none.
    """
    return _compile(function)


def rule(function: Callable[..., Any], **options: Any) -> Any:
    """A rule or a loop that kernels alone call: compiled with each of them, and Python outside.

    It has no door for Python, to make which takes a sixth of a compilation, and no file of its own.
    """
    if not numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        register_jitable(nogil=True, error_model="numpy", no_cfunc_wrapper=True, **options)(function)
    return function


def inlined(function: Callable[..., Any]) -> Any:
    """A long rule that is merged into every loop that calls it.

    LLVM merges short ones by itself; a call left in a loop keeps the loop from becoming one of vectors.
    """
    return rule(function, forceinline=True)


def pjit(function: Callable[..., Any]) -> Any:
    """Compile a kernel that shares a loop out by `prange(team, n)`, to one thread where operands are small.

    The result is called from Python only, without the team, its first argument: see `machine/threads.py`.
    """
    compiled = _compile(function)

    @wraps(function)
    def call(*args: Any) -> Any:
        start_threads()
        for arg in args:
            if type(arg) is np.ndarray and arg.size >= SMALL:
                return compiled(numba.get_num_threads(), *args)
        return compiled(1, *args)

    call.compiled = compiled  # type: ignore[attr-defined]
    return call
