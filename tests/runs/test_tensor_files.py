"""Files of tensors: what PyTorch's users write is read, ours is what they read, damaged ones are named."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet.errors import DataError
from intnet.runs import tensor_files

# by hand: 1.5, -2 and 2^-24 in each type, little-endian
WORDS = {
    "F32": "0000c03f 000000c0 00008033",
    "F16": "003e 00c0 0100",
    "BF16": "c03f 00c0 8033",
    "F64": "000000000000f83f 00000000000000c0 000000000000703e",
}
VALUES = [1.5, -2.0, 2.0**-24]


def entry(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def written(path: Path, header: Any, body: bytes, length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + body)
    return path


def read(path: Path) -> dict[str, np.ndarray]:
    with tensor_files.opened(path) as found:
        return {name: stored.read()[0] for name, stored in found.items()}


@pytest.mark.parametrize("dtype", WORDS)
def test_every_float_type_of_safetensors(tmp_path: Path, dtype: str) -> None:
    body = bytes.fromhex(WORDS[dtype].replace(" ", ""))
    header = {"__metadata__": {"format": "pt"}, "a": entry(dtype, [3, 1], 0, len(body))}
    found = read(written(tmp_path / "x.safetensors", header, body))
    assert found["a"].dtype == np.float32 and found["a"].tolist() == [[v] for v in VALUES]


def test_what_float32_does_not_hold_is_counted(tmp_path: Path) -> None:
    values = np.array([1 / 3, 0.5, 1e300, np.nan, -1 / 3])
    for path in (tmp_path / "x.npz", tmp_path / "x.safetensors"):
        if path.suffix == ".npz":
            np.savez(path, a=values)
        else:
            written(path, {"a": entry("F64", [5], 0, 40)}, values.tobytes())
        with tensor_files.opened(path) as found:
            got, rounded = found["a"].read()
        assert rounded == 3 and np.isinf(got[2]) and np.isnan(got[3])
        assert got[0] == np.float32(1 / 3) and got[4] == -np.float32(1 / 3)


@pytest.mark.parametrize("packed", [False, True])
def test_arrays_of_any_order_and_other_types(tmp_path: Path, packed: bool) -> None:
    a = np.arange(6, dtype=">f4").reshape(2, 3).T
    save = np.savez_compressed if packed else np.savez
    save(tmp_path / "x.npz", **{"layer.weight": a, "half": a.astype(np.float16), "n": np.array(7)})
    with tensor_files.opened(tmp_path / "x.npz") as found:
        assert {name: (one.dtype, one.shape, one.readable()) for name, one in found.items()} == {
            "layer.weight": ("F32", (3, 2), True), "half": ("F16", (3, 2), True), "n": ("int64", (), False),
        }  # fmt: skip
        got = found["layer.weight"].read()[0]
        assert got.flags.c_contiguous and got.tolist() == [[0, 3], [1, 4], [2, 5]]


def test_ours_are_what_others_read(tmp_path: Path) -> None:
    given = {"a.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.float32([[-0.0]])}
    for suffix in tensor_files.SUFFIXES:
        for name in ("x", "y"):
            tensor_files.save(tmp_path / f"{name}{suffix}", given)
        path = tmp_path / f"x{suffix}"
        assert path.read_bytes() == (tmp_path / f"y{suffix}").read_bytes()
        assert {k: v.tobytes() for k, v in read(path).items()} == {k: v.tobytes() for k, v in given.items()}
    with np.load(tmp_path / "x.npz") as loaded:
        assert loaded["a.weight"].tolist() == [[0, 1, 2], [3, 4, 5]]
    content = (tmp_path / "x.safetensors").read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    assert length % 8 == 0 and header["a.weight"] == entry("F32", [2, 3], 0, 24)
    assert content[8 + length :] == given["a.weight"].tobytes() + given["b"].tobytes()


GOOD, BODY = entry("F32", [2], 0, 8), bytes(8)
BAD: dict[str, tuple[Any, bytes, int | None, str]] = {
    "short": (b"", b"", 100, "its header does not fit 8 bytes"),
    "long header": ({"a": GOOD}, BODY, 1 << 60, "its header does not fit"),
    "no JSON": (b"{nothing", BODY, None, "damaged .safetensors header"),
    "no UTF-8": (b'{"\xff": 1}', BODY, None, "damaged .safetensors header"),
    "nested": (b'{"a":' + b"[" * 100_000, BODY, None, "damaged .safetensors header"),
    "a list": ([], BODY, None, "it is no JSON object"),
    "no shape": ({"a": {"dtype": "F32", "data_offsets": [0, 8]}}, BODY, None, "has no 'shape'"),
    "negative": ({"a": entry("F32", [-1, -2], 0, 8)}, BODY, None, r"a has shape \[-1, -2\]"),
    "backwards": ({"a": entry("F32", [2], 8, 0)}, BODY, None, r"data_offsets \[8, 0\]"),
    "three offsets": ({"a": GOOD | {"data_offsets": [0, 4, 8]}}, BODY, None, "data_offsets"),
    "fractions": ({"a": GOOD | {"shape": [2.5]}}, BODY, None, "2.5"),
    "wrong size": ({"a": entry("F32", [3], 0, 8)}, BODY, None, r"a: F32 \[3\] does not take 8 bytes"),
    "huge": ({"a": entry("F32", [1 << 62, 1 << 62], 0, 8)}, BODY, None, "does not take 8 bytes"),
    "gap": ({"a": entry("F32", [1], 4, 8)}, BODY, None, "begins at byte 4 where 0 is expected"),
    "overlap": ({"a": GOOD, "b": entry("F32", [1], 4, 8)}, BODY, None, "begins at byte 4 where 8 is"),
    "truncated": ({"a": GOOD}, BODY[:5], None, r"take 8 bytes, the file has 5 for them"),
    "twice": (b'{"a": 1, "b": 2, "a": 3}', BODY, None, "the key 'a' stands twice"),
    "a name for terminals": ({"a\x1b[2J": GOOD}, BODY, None, r"unprintable characters: 'a\\x1b\[2J'"),
    "half a surrogate": ({"\ud800": GOOD}, BODY, None, r"unprintable characters: '\\ud800'"),
    "a type for terminals": ({"a": entry("\x1b[31m", [2], 0, 8)}, BODY, None, "unprintable characters"),
    "tail": ({"a": GOOD}, BODY + b"x", None, "take 8 bytes, the file has 9"),
}


@pytest.mark.parametrize("kind", BAD)
def test_damaged_safetensors(tmp_path: Path, kind: str) -> None:
    header, body, length, message = BAD[kind]
    with pytest.raises(DataError, match=message) as error:
        read(written(tmp_path / "x.safetensors", header, body, length))
    assert str(tmp_path / "x.safetensors") in str(error.value)


class Trap:
    """Unpickling it would leave a trace."""

    def __reduce__(self) -> Any:
        return (Path.touch, (Path("trapped"),))


def test_damaged_npz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    good, bad = Path("good.npz"), Path("bad.npz")
    np.savez(good, a=np.ones(1000, np.float32))
    content = good.read_bytes()
    for damaged, message in (
        (content[:500], "truncated or no .npz file"),
        (b"", "truncated or no .npz file"),
        (content + b"\0", "truncated or no .npz file .bytes after its end"),
        (content + b"PK\5\6 and more", "truncated or no .npz file"),
        (b"PK\3\4" + content, "truncated or no .npz file .bytes ahead of its first array"),
        (content.replace(b"\x00\x00\x80?" * 9, b"\x00\x00\x80@" * 9, 1), "a is damaged .BadZipFile.*CRC"),
        (content.replace(b"NUMPY", b"NUMPX"), "a is damaged .ValueError"),
    ):
        bad.write_bytes(damaged)
        with pytest.raises(DataError, match=f"^bad.npz: .*{message}"):
            read(bad)
    np.savez(bad, a=np.array([Trap()], object))
    with pytest.raises(DataError, match=r"a is damaged .ValueError: Object arrays cannot be loaded"):
        read(bad)
    assert not Path("trapped").exists()
    np.savez(bad, **{"a\x1b[2J": np.ones(1)})
    with pytest.raises(DataError, match=r"^bad.npz: a member is damaged .*unprintable characters: 'a\\x1b"):
        read(bad)
    with zipfile.ZipFile(bad, "w") as archive:
        archive.writestr("data.pkl", b"x")
    with pytest.raises(DataError, match=r"holds data.pkl, which is no array"):
        read(bad)


def test_other_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no such file"):
        read(tmp_path / "x.npz")
    with pytest.raises(DataError, match=r"neither .npz nor .safetensors: convert it first.*save_file"):
        read(tmp_path / "x.pth")
    (tmp_path / "d.npz").mkdir()
    with pytest.raises(DataError, match=r"cannot be read .Is a directory"):
        read(tmp_path / "d.npz")
