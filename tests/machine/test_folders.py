"""Folders of a user: where the cache is by platform, and what is taken where nothing of it can be written."""

import os
import stat
import tempfile
from pathlib import Path

import platformdirs
import pytest

from intnet.machine import folders


def test_the_cache_is_where_the_platform_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert folders.user_cache() == tmp_path / ".cache" / "intnet"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert folders.user_cache() == tmp_path / "x" / "intnet"
    monkeypatch.setenv("XDG_CACHE_HOME", "x")  # relative: to be ignored
    assert folders.user_cache() == tmp_path / ".cache" / "intnet"
    monkeypatch.delenv("XDG_CACHE_HOME")
    mac = str(tmp_path / "Library" / "Caches" / "intnet")
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name, appauthor: mac)
    assert folders.user_cache() == Path(mac)
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name, appauthor: "~/.cache/intnet")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as for a user without a home
    assert folders.user_cache() is None


def test_writable_is_tried(tmp_path: Path) -> None:
    assert folders.writable(tmp_path / "a" / "b") and (tmp_path / "a" / "b").is_dir()
    assert list((tmp_path / "a" / "b").iterdir()) == []
    (tmp_path / "file").write_text("")
    assert not folders.writable(tmp_path / "file") and not folders.writable(tmp_path / "file" / "x")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"intnet-{os.getuid()}"


def test_the_temporary_folder_is_the_same_and_private(temporary: Path) -> None:
    assert folders.temporary() == folders.temporary() == temporary
    assert stat.S_IMODE(temporary.stat().st_mode) == 0o700


@pytest.mark.parametrize("what", ["open to others", "a link", "a file", "another user's"])
def test_a_temporary_folder_that_may_be_another_users_is_not_taken(
    what: str, temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in it is run."""
    if what == "a link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        temporary.symlink_to(tmp_path / "elsewhere")
    elif what == "a file":
        temporary.write_text("")
        temporary.chmod(0o600)
    else:
        temporary.mkdir(mode=0o700)
    if what == "open to others":
        temporary.chmod(0o777)
    if what == "another user's":
        user = os.getuid() + 1
        monkeypatch.setattr(os, "getuid", lambda: user)
        temporary.rename(tmp_path / f"intnet-{user}")
    taken = folders.temporary()
    assert taken.name.startswith("intnet-") and not taken.name[7:].isdecimal()
    assert folders.temporary() != taken


def test_without_users(tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, whose temporary folder is the user's own."""
    monkeypatch.delattr(os, "getuid")
    assert folders.temporary() == tmp_path / "intnet"
