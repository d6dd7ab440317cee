"""The folder of compiled kernels: its name changes with every source that a kernel may contain."""

import shutil
from pathlib import Path

import pytest

from intnet.machine.jit import COMPILED, cache_folder, kernel_sources
from tests.test_layout import PACKAGE, imports

SOURCES = kernel_sources(PACKAGE)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    copy = tmp_path / "intnet"
    return Path(shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__")))


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


@pytest.mark.parametrize("name", ["cli/train.py", "methods/wageubn.py", "models/resnet.py", "spec/data.py"])
def test_everyday_edits_do_not_recompile(name: str, package: Path) -> None:
    before = cache_folder(package).name
    (package / name).write_bytes(b"# edited\n")
    assert cache_folder(package).name == before


def test_kernels_stand_in_their_rooms_alone() -> None:
    """No other room makes a kernel, and no kernel's room imports another one's rules or constants."""
    others = {path for path in PACKAGE.rglob("*.py") if path not in SOURCES}
    assert not [path for path in others if "machine.jit" in imports(path) or "njit" in path.read_text()]
    kernels = [path for path in SOURCES if "machine.jit" in imports(path)]
    used = {name.split(".")[0] for path in kernels for name in imports(path)}
    assert PACKAGE / "machine/tile.py" in kernels and used <= {*COMPILED, "errors", "autograd"}
