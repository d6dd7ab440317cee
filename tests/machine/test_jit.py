"""The folder of compiled kernels: its name changes with every source that a kernel may contain.

It is somewhere that can be written, wherever intnet is installed. The environment stays as it was.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from intnet.machine import folders
from intnet.machine.jit import COMPILED, cache_folder, inlined, kernel_sources, rule
from tests.support.command import ROOT, environment
from tests.support.modules import PACKAGE, imports

SOURCES = kernel_sources(PACKAGE)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    copy = tmp_path / "intnet"
    return Path(shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__")))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["machine/instructions.py", "numbers/wide.py", "machine/jit.py"])
def test_any_byte_of_a_source_changes_the_name(name: str, package: Path) -> None:
    path, before = package / name, cache_folder(package).name
    content = path.read_bytes()
    for at in (0, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        assert cache_folder(package).name != before
    path.write_bytes(content)
    assert cache_folder(package).name == before


def test_a_new_and_a_renamed_source_change_the_name(package: Path) -> None:
    names = [cache_folder(package).name]
    (package / "ops" / "new.py").write_bytes(b"")
    names.append(cache_folder(package).name)
    (package / "ops" / "new.py").rename(package / "ops" / "newer.py")
    names.append(cache_folder(package).name)
    assert len(set(names)) == 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cli/train.py", "methods/wageubn.py", "models/resnet.py", "spec/data.py"])
def test_everyday_edits_do_not_recompile(name: str, package: Path) -> None:
    before = cache_folder(package).name
    (package / name).write_bytes(b"# edited\n")
    assert cache_folder(package).name == before


@pytest.mark.slow
def test_an_old_cache_that_another_process_removes_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links to nowhere are what is listed and gone when it is looked at."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    for k in range(8):
        (tmp_path / f"intnet-kernels-{k}").symlink_to(tmp_path / "gone")
    assert cache_folder(PACKAGE).parent == tmp_path


def inverse(x: float) -> float:
    return 1 / x


@pytest.mark.parametrize("part", [rule, inlined])
def test_a_part_of_kernels_is_compiled_in_them_and_python_outside(part: Callable[[Any], Any]) -> None:
    """In a kernel a quotient by 0 is infinite, as in NumPy."""
    made = part(inverse)

    @numba.njit(error_model="numpy")
    def kernel(x: float) -> float:
        return 2 * made(x)

    assert kernel(0.0) == np.inf
    with pytest.raises(ZeroDivisionError):
        made(0.0)


@pytest.mark.slow
def test_kernels_stand_in_their_rooms_alone() -> None:
    """No other room makes a kernel, and no kernel's room imports another one's rules or constants."""
    others = {path for path in PACKAGE.rglob("*.py") if path not in SOURCES}
    assert not [path for path in others if "machine.jit" in imports(path) or "njit" in path.read_text()]
    kernels = [path for path in SOURCES if "machine.jit" in imports(path)]
    used = {name.split(".")[0] for path in kernels for name in imports(path)}
    assert PACKAGE / "machine/tile.py" in kernels and used <= {*COMPILED, "errors", "autograd", "plugins"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("NUMBA_THREADING_LAYER", "mine", "Numba has no threads by NUMBA_THREADING_LAYER=mine: "),
        ("NUMBA_NUM_THREADS", "0", "NUMBA_NUM_THREADS=0 in the environment: threads to compute on, 1 at"),
    ],
)
def test_threads_that_numba_has_not(key: str, value: str, told: str, tmp_path: Path) -> None:
    """The command says whose setting it is; no mark is left that keeps kernels from compiling ahead."""
    command = [sys.executable, "-m", "intnet", "train", "--method", "float32", "--model", "mlp"]
    ran = subprocess.run(
        [*command, "--data", "digits", "--steps", "1", "--out", str(tmp_path / "run")],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), key: value},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 2
    assert ran.stderr.startswith(f"intnet train: {told}")
    assert not list(tmp_path.rglob("ahead-*"))


# -- where it is -------------------------------------------------------------------------------


def test_the_first_folder_that_can_be_written(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    assert cache_folder(package).parent == package / "__pycache__"
    (package / "__pycache__").rmdir()
    (package / "__pycache__").write_text("")  # nothing can be made in it, not even by root
    name = cache_folder(package).name
    assert cache_folder(package) == tmp_path / "cache" / "intnet" / name
    shutil.rmtree(tmp_path / "cache")
    (tmp_path / "cache").write_text("")
    with pytest.warns(
        RuntimeWarning, match=r"cannot be kept in .*__pycache__ nor .*cache.*NUMBA_CACHE_DIR"
    ) as said:
        folder = cache_folder(package)
    assert len(said) == 1 and folder == folders.temporary() / name
    folder.mkdir()
    assert cache_folder(package) == folder  # compiled already: nothing to say


KERNEL = """
import numpy as np
from intnet.numbers.hexfiles import Layout, encode
print(encode(np.array([-1, 2]), Layout(bits=8))[0])
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs a folder that not even root can write in")
def test_kernels_are_kept_for_the_next_process_where_nothing_can_be_written(tmp_path: Path) -> None:
    own = environment(NUMBA_CACHE_DIR="/proc/nowhere", TMPDIR=str(tmp_path))
    command = [sys.executable, "-c", KERNEL]
    first, second = (
        subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, check=False)
        for _ in range(2)
    )
    assert first.stdout == second.stdout == "b'ff\\n02\\n'\n", (first.stderr, second.stderr)
    assert first.stderr.count("RuntimeWarning: compiled kernels cannot be kept in /proc/nowhere") == 1
    assert second.stderr == ""
    assert list(tmp_path.glob(f"intnet-{os.getuid()}/intnet-kernels-*/*/hexfiles._encode*.nbc"))


# -- how threads wait --------------------------------------------------------------------------

WAITING = """
import os, subprocess, sys
before = dict(os.environ)
import intnet.machine.jit
assert dict(os.environ) == before
print(subprocess.run([sys.executable, "-c", "import os; print(sorted(k for k in os.environ if 'OMP' in k))"],
    capture_output=True, text=True).stdout.strip(), flush=True)
import ctypes
if any("libgomp" in line for line in open("/proc/self/maps")):
    path = next(line.split()[-1] for line in open("/proc/self/maps") if "libgomp" in line)
    ctypes.CDLL(path).omp_display_env(1)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="GNU OpenMP tells its settings")
@pytest.mark.parametrize(("given", "policy"), [({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "active"}, "ACTIVE")])
def test_threads_are_told_how_to_wait_and_the_environment_is_clean(
    given: dict[str, str], policy: str
) -> None:
    """GNU OpenMP itself says what it took; this process and its children see nothing of it."""
    own = {key: value for key, value in environment(**given).items() if "OMP" not in key or key in given}
    done = subprocess.run(
        [sys.executable, "-c", WAITING], cwd=ROOT, env=own, capture_output=True, text=True, check=False
    )
    assert done.stdout == f"{sorted(given)}\n", done.stderr
    if "OMP_WAIT_POLICY" not in done.stderr:
        pytest.skip("this Numba has no GNU OpenMP")
    assert f"OMP_WAIT_POLICY = '{policy}'" in done.stderr and "GOMP_SPINCOUNT = '20000'" in done.stderr


# -- what Numba loads --------------------------------------------------------------------------

ALGEBRA = """
import sys
from intnet.numbers import batch_sums
batch_sums.chunks_of_group(5)
loaded = [name for name in sys.modules if name.startswith("scipy.linalg")]
import numba, numpy as np
a = np.arange(9.0).reshape(3, 3)
print(loaded, (numba.njit(lambda a: a @ a)(a) == a @ a).all())
"""


@pytest.mark.slow
def test_kernels_run_without_the_linear_algebra_of_scipy_and_those_of_users_have_it() -> None:
    pytest.importorskip("scipy")
    command = [sys.executable, "-W", "error", "-c", ALGEBRA]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[] True\n", "")
