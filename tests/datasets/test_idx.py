"""IDX files, read whole or refused: every truncation, flipped bit and false header.

The files are written with `struct` by `idx`, not by the code under test.
"""

import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest

from intnet.datasets.idx import read_idx
from intnet.errors import DataError
from tests.support.plain_bytes import idx


def test_read_idx_plain_and_gzip_agree(tmp_path: Path) -> None:
    content = idx(list(range(24)), 2, 3, 4)
    digest = hashlib.sha256(content).hexdigest()
    (tmp_path / "plain").write_bytes(content)
    (tmp_path / "zipped").write_bytes(gzip.compress(content))
    for name in ("plain", "zipped"):
        array = read_idx(tmp_path / name, digest.upper())
        assert array.dtype == np.uint8 and array.tolist() == np.arange(24).reshape(2, 3, 4).tolist()
    assert read_idx(str(tmp_path / "plain")).shape == (2, 3, 4)


@pytest.mark.slow
def test_read_idx_longer_than_a_chunk(tmp_path: Path) -> None:
    values = [i * i % 251 for i in range((1 << 20) + 5)]
    (tmp_path / "f").write_bytes(gzip.compress(idx(values, len(values)), 1))
    assert read_idx(tmp_path / "f").tolist() == values


ZIPPED = gzip.compress(idx(list(range(200)), 200), mtime=0)
HUGE = 0xFFFFFFFF

BAD_FILES = {
    "empty": (b"", "the file is empty"),
    "not-idx": (b"<html>", "not an IDX file: it begins with 3c 68 74 6d, not with 00 00"),
    "two-bytes": (b"\0\0", "not an IDX file: it begins with 00 00, not"),
    "floats": (idx([0] * 4, 1, kind=0x0D), "IDX element type 0d; only 08 (unsigned bytes) is read"),
    "no-dimension": (idx([1]), "an IDX array of 0 dimensions; expected 1 to 4"),
    "five-dimensions": (idx([1], 1, 1, 1, 1, 1), "an IDX array of 5 dimensions; expected 1 to 4"),
    "half-header": (idx([], 2, 2)[:9], "the file ends within its header"),
    "no-images": (idx([], 0, 28, 28), "holds no data: the header says 0x28x28"),
    "short": (idx([0] * 11, 3, 2, 2), "too short: 3x2x2 in the header means 12 bytes of data, the file has"),
    "long": (idx([0] * 13, 3, 2, 2), "too long: there are bytes after the 3x2x2 of the header"),
    "huge": (idx([7], HUGE, HUGE, HUGE, HUGE), f"means {HUGE**4} bytes of data, the file has 1"),
    "huge-gz": (gzip.compress(idx([7], HUGE, HUGE, HUGE)), f"means {HUGE**3} bytes of data, the file has 1"),
    "short-gz": (gzip.compress(idx([0] * 11, 12)), "too short: 12 in the header means 12 bytes"),
    "long-gz": (gzip.compress(idx([0] * 13, 12)), "too long: there are bytes after the 12 of the header"),
    "gz-cut": (ZIPPED[:-20], "the gzip data end early: the file is truncated, get it again"),
    "gz-no-check-sum": (ZIPPED[:-8], "the gzip data end early"),
    "gz-header-only": (ZIPPED[:3], "the gzip data end early"),
    "gz-check-sum": (ZIPPED[:-8] + b"\1\2\3\4" + ZIPPED[-4:], "damaged gzip data (CRC check failed"),
    "gz-method": (ZIPPED[:2] + b"\7" + ZIPPED[3:], "damaged gzip data (Unknown compression method)"),
    "gz-block": (ZIPPED[:10] + b"\xff" + ZIPPED[11:], "damaged gzip data (Error -3 while decompressing"),
    "gz-and-more": (ZIPPED + b"more", "damaged gzip data (Not a gzipped file"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_idx_file(name: str, tmp_path: Path) -> None:
    content, message = BAD_FILES[name]
    path = tmp_path / "the-file"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_idx(path)
    assert str(caught.value).startswith(f"{path}: ") and message in str(caught.value)


def test_every_truncation_and_every_flipped_bit_is_refused(tmp_path: Path) -> None:
    content = idx([1, 2, 3, 4], 1, 2, 2)
    digest = hashlib.sha256(content).hexdigest()
    path = tmp_path / "f"
    for whole in (content, gzip.compress(content, mtime=0)):
        for end in range(len(whole)):
            path.write_bytes(whole[:end])
            with pytest.raises(DataError):
                read_idx(path)
    for bit in range(8 * len(content)):
        path.write_bytes((int.from_bytes(content, "big") ^ 1 << bit).to_bytes(len(content), "big"))
        with pytest.raises(DataError):
            read_idx(path, digest)


def test_unreadable_idx_paths(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent: cannot be read \(No such file or directory\)"):
        read_idx(tmp_path / "absent")
    with pytest.raises(DataError, match=r"cannot be read \(Is a directory\)"):
        read_idx(tmp_path)


def test_wrong_sha256(tmp_path: Path) -> None:
    content = idx([1], 1)
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_idx(tmp_path / "f", "ab" * 32)
    digest = hashlib.sha256(content).hexdigest()
    message = f"SHA-256 of the content is {digest}, expected {'ab' * 32}: the file is damaged"
    assert message in str(caught.value)
