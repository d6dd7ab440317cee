"""Files and locks where a system lacks what Linux has; the lock's promises are the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from intnet.errors import ConfigError, InUseError
from intnet.runs import files
from tests.support.command import ROOT, environment

WINDOWS = """
import sys
if {windows}:
    from tests.support import fake_msvcrt
    sys.modules["msvcrt"], sys.modules["fcntl"] = fake_msvcrt, None  # to import fcntl is an ImportError now
from pathlib import Path
from intnet.errors import InUseError
from intnet.runs import files
"""
HOLD = "held = files.lock(Path({folder!r})); print('held', flush=True); sys.stdin.read()"
TRY = """
try:
    files.lock(Path({folder!r})).close()
    print("free")
except InUseError as error:
    print(error)
"""


def command(code: str, folder: Path, windows: bool) -> list[str]:
    return [sys.executable, "-c", (WINDOWS + code).format(folder=str(folder), windows=windows)]


@pytest.mark.slow
@pytest.mark.parametrize("windows", [False, True], ids=["fcntl", "msvcrt"])
def test_two_processes_and_one_folder(windows: bool, tmp_path: Path) -> None:
    """The second one is told who has it; a killed process gives it free."""
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}

    def other() -> str:
        done = subprocess.run(
            command(TRY, tmp_path, windows),
            cwd=ROOT,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    with subprocess.Popen(
        command(HOLD, tmp_path, windows), cwd=ROOT, env=environment(), **streams
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        in_use = f"{tmp_path} is in use by a running intnet (process {process.pid})"
        assert [other(), other()] == [in_use] * 2
        assert (tmp_path / files.LOCK).read_text() == f"{process.pid}\n"
        process.kill()
    assert other() == "free"


def test_one_process_locks_once(tmp_path: Path) -> None:
    with files.lock(tmp_path), pytest.raises(InUseError, match=f"process {os.getpid()}"):
        files.lock(tmp_path)
    files.lock(tmp_path).close()


@pytest.mark.parametrize("folders", [True, False], ids=["Linux", "Windows"])
def test_a_file_is_replaced_where_folders_cannot_be_opened(
    folders: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is on the disk too, where that can be asked for."""
    path, synced = tmp_path / "x", []
    fsync = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda handle: synced.append(os.readlink(f"/proc/self/fd/{handle}")) or fsync(handle)
    )
    if not folders:
        monkeypatch.delattr(os, "O_DIRECTORY")
    for content in (b"old", b"new"):
        files.replace(path, content)
        assert path.read_bytes() == content
    assert [one == str(tmp_path) for one in synced] == ([False, True] if folders else [False]) * 2
    assert list(tmp_path.iterdir()) == [path]


def test_what_killed_writers_left_goes_and_what_is_being_written_stays(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    (tmp_path / f".pack.{ended.pid}.partial" / "words").mkdir(parents=True)
    (tmp_path / f".old.{ended.pid}.partial").touch()
    written = tmp_path / f".new.{os.getppid()}.partial"
    written.mkdir()
    files.remove_partial(tmp_path)
    assert list(tmp_path.iterdir()) == [written]


@pytest.mark.parametrize("length", [50, 200, 255])
def test_a_name_may_be_as_long_as_the_system_allows(length: int, tmp_path: Path) -> None:
    path = tmp_path / ("n" * length)
    files.replace(path, b"whole")
    assert path.read_bytes() == b"whole"
    assert files.write_folder(tmp_path / ("f" * length), [("a/b", b"")]) == ["a/b"]
    assert len(list(tmp_path.iterdir())) == 2


def test_links_that_lead_to_no_file(tmp_path: Path) -> None:
    first, second, nowhere = (tmp_path / name for name in "abc")
    first.symlink_to(second)
    second.symlink_to(first)
    nowhere.symlink_to(tmp_path / "d")
    with pytest.raises(ConfigError, match="a is a link that leads to itself: name another"):
        files.replace(first, b"")
    with pytest.raises(ConfigError, match="c is a link that leads nowhere: name another --out"):
        files.content(nowhere, "run")
    files.replace(nowhere, b"through it")
    assert (tmp_path / "d").read_bytes() == b"through it"


def test_a_lock_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / files.LOCK).symlink_to("/dev/full")
    with pytest.raises(OSError) as found:
        files.lock(tmp_path)
    assert found.value.filename == str(tmp_path / files.LOCK)
