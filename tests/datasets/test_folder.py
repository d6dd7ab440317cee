"""Folders of images: what is read, in which order, and every folder and file that is refused."""

import io
import json
import os
import struct
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from intnet import datasets
from intnet.errors import ConfigError, DataError
from intnet.runs.identity import data_sha256
from tests.support.command import here, refused
from tests.support.image_world import encoded, folder, number, pixels, put


def load(root: Path, size: int | None = None) -> datasets.Dataset:
    return datasets.load(f"folder:{root}", image_size=size)


def refusal(root: Path, size: int | None = None) -> str:
    with pytest.raises(DataError) as caught:
        load(root, size)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ---- what is read ----


@pytest.mark.parametrize("channels", [1, 3])
def test_images_and_their_order(channels: int, tmp_path: Path) -> None:
    """Round the classes, so that the first n are of all of them."""
    folder(tmp_path, train=2, test=1, classes="abc", channels=channels)
    put(tmp_path / "train" / "b" / "9.PNG", encoded(pixels(7, channels=channels)))
    d = load(tmp_path)
    assert (d.name, d.classes, d.exponent) == (f"folder:{tmp_path}", 3, -8)
    assert d.image_shape == (8, 8, channels) and len(d.train_images) == 7 and d.decoder == ""
    assert d.train_labels.tolist() == [0, 1, 2, 0, 1, 2, 1] and d.test_labels.tolist() == [0, 1, 2]
    numbers = [number("train", c, n) for n in range(2) for c in range(3)] + [7]
    expected = np.stack([pixels(i, channels=channels) for i in numbers])
    assert d.train_images[:].tolist() == expected.tolist()
    assert d.train_images[np.array([6, 0, 3])].tolist() == expected[[6, 0, 3]].tolist()
    few = d.first(2)
    assert few.train_images[0:9].tolist() == expected[:2].tolist() and few.train_labels.tolist() == [0, 1]
    assert data_sha256(few) != data_sha256(d)


def test_val_is_taken_without_test_and_hidden_files_are_passed_over(tmp_path: Path) -> None:
    folder(tmp_path)
    (tmp_path / "test").rename(tmp_path / "val")
    before = data_sha256(load(tmp_path))
    for name in (".DS_Store", "train/.hidden", "train/a/.x.png", "train/a/Thumbs.db", "val/b/desktop.ini"):
        put(tmp_path / name, b"x")
    put(tmp_path / "README.txt", b"beside the parts anything may lie")
    assert data_sha256(load(tmp_path)) == before
    folder(tmp_path, test=1)
    assert len(load(tmp_path).test_images) == 2


def test_modes_and_what_becomes_of_them(tmp_path: Path) -> None:
    gray, colours = pixels(3), pixels(4, channels=3)
    palette = Image.fromarray(colours[:4, :4].repeat(2, 0).repeat(2, 1)).quantize(16)
    bits = Image.fromarray(gray[..., 0] > 99)
    for name, image in (("palette", palette), ("bits", bits)):
        (tmp_path / "train" / name).mkdir(parents=True)
        image.save(tmp_path / "train" / name / "1.png")
    put(tmp_path / "train" / "gray" / "1.png", encoded(gray))
    put(tmp_path / "test" / "gray" / "1.png", encoded(gray))
    put(tmp_path / "train" / "rgb" / "a.jpg", encoded(colours))  # a PNG, whatever its name
    d = load(tmp_path)
    assert d.image_shape == (8, 8, 3) and d.decoder == ""
    shown = np.array(palette.getpalette(), np.uint8).reshape(-1, 3)[np.asarray(palette)]
    rows = [255 * (gray > 99).repeat(3, 2), gray.repeat(3, 2), shown, colours]  # by class: bits, gray, ...
    assert d.train_images[:].tolist() == [np.asarray(row).tolist() for row in rows]
    for name in ("palette", "rgb"):
        next((tmp_path / "train" / name).iterdir()).unlink()
        (tmp_path / "train" / name).rmdir()
    assert load(tmp_path).train_images[:].tolist() == [(255 * (gray > 99)).tolist(), gray.tolist()]


def test_jpegs_name_their_decoder(tmp_path: Path) -> None:
    folder(tmp_path)
    content = encoded(pixels(1, channels=3), "JPEG")
    put(tmp_path / "test" / "a" / "x.jpeg", content)
    d = load(tmp_path)
    assert d.decoder.startswith(f"Pillow {Image.__version__}, libjpeg")
    with Image.open(tmp_path / "test" / "a" / "x.jpeg") as image:
        assert d.test_images[4:].tolist() == [np.asarray(image).tolist()]


def test_image_size(tmp_path: Path) -> None:
    """Shorter side to S, the middle cut out; images of that size stay as they are."""
    square, wide = pixels(5, 4, 4), np.zeros((4, 12, 1), np.uint8)
    wide[:, 4:8] = 77
    wide[:, :4] = 200
    put(tmp_path / "train" / "a" / "1.png", encoded(square))
    put(tmp_path / "train" / "a" / "2.png", encoded(wide))
    put(tmp_path / "test" / "a" / "1.png", encoded(np.full((9, 7, 1), 31, np.uint8)))
    message = refusal(tmp_path)
    assert (
        f"{tmp_path}/train/a/2.png: an image of 12x4 pixels, but {tmp_path}/train/a/1.png has 4x4; "
        in message
    )
    assert "--image-size S scales the middle square of each to S pixels" in message
    d = load(tmp_path, 4)
    assert d.train_images[:].tolist() == [square.tolist(), np.full((4, 4, 1), 77).tolist()]
    assert d.test_images[:].tolist() == [np.full((4, 4, 1), 31).tolist()]
    assert d.decoder and d.image_size == 4
    assert load(tmp_path, 2).train_images[1:].tolist() == [np.full((2, 2, 1), 77).tolist()]
    with pytest.raises(ConfigError, match="image size 0: give 1 to 4096 pixels"):
        load(tmp_path, 0)
    with pytest.raises(ConfigError, match="only the images of folder:PATH have sizes of their own"):
        datasets.load("digits", image_size=8)


def test_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative to --data-dir and kept so; else to the working folder, and kept whole."""
    folder(tmp_path / "sets" / "mine")
    assert datasets.load("folder:mine", tmp_path / "sets").name == "folder:mine"
    monkeypatch.chdir(tmp_path / "sets")
    assert datasets.load("folder:mine").name == f"folder:{tmp_path}/sets/mine"
    assert datasets.available("folder:mine") and not datasets.available("folder:other")
    with pytest.raises(ConfigError, match="for a folder of images write folder:mine"):
        datasets.load("mine")
    with pytest.raises(ConfigError, match="folder: of which images"):
        datasets.load("folder:")
    for name, shown in (("two\nlines", "two.nlines"), ("\udcff", ".udcff")):  # the last: a byte of no UTF-8
        folder(tmp_path / name)
        with pytest.raises(DataError, match=f"folder:'{shown}': a path with unprintable characters"):
            datasets.load(f"folder:{name}", tmp_path)


# ---- broken folders ----

FOLDERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no train": (lambda r: (r / "train").rename(r / "t"), "{r}: it has no train/: a folder of images has"),
    "no test": (lambda r: (r / "test").rename(r / "t"), "{r}: it has no val/: a folder of images has"),
    "empty class": (lambda r: (r / "train" / "c").mkdir(), "{r}/train/c: no images"),
    "class of test": (lambda r: put(r / "test" / "z" / "1.png", b"x"), "{r}/test/z: a class that train/"),
    "file": (lambda r: put(r / "train" / "x.csv", b"x"), "{r}/train/x.csv: not a folder; {r}/train holds"),
    "no image": (lambda r: put(r / "train" / "a" / "x.txt", b"x"), "{r}/train/a/x.txt: not an image by its"),
    "folder": (lambda r: (r / "train" / "a" / "more").mkdir(), "{r}/train/a/more: a folder; here are only"),
    "image folder": (lambda r: (r / "train" / "a" / "q.png").mkdir(), "{r}/train/a/q.png: not a file, but"),
    "loop": (lambda r: (r / "train" / "a" / "q.png").symlink_to("q.png"), "q.png: not a"),
    "dead link": (lambda r: (r / "train" / "a" / "q.png").symlink_to(r / "no"), "a link that leads nowhere"),
    "class loop": (lambda r: (r / "train" / "q").symlink_to(r / "train" / "q"), "{r}/train/q: not a folder"),
    "pipe": (lambda r: os.mkfifo(r / "test" / "a" / "q.png"), "{r}/test/a/q.png: not a file, but a"),
    "link into itself": (lambda r: (r / "train" / "q").symlink_to(r / "train"), "{r}/train/q/a: a folder;"),
}  # fmt: skip


@pytest.mark.parametrize("case", FOLDERS)
def test_bad_folders(case: str, tmp_path: Path) -> None:
    change, message = FOLDERS[case]
    change(folder(tmp_path))
    assert message.format(r=tmp_path) in refusal(tmp_path)


def test_no_folder_and_no_classes(tmp_path: Path) -> None:
    assert f"there is no folder {tmp_path}/x" in refusal(tmp_path / "x")
    for part in ("train", "test"):
        (tmp_path / part).mkdir()
    assert refusal(tmp_path) == f"{tmp_path}/train: no folders of classes"
    put(tmp_path / "train" / "a" / "1.png", encoded(pixels(1)))
    assert refusal(tmp_path) == f"{tmp_path}/test: no folders of classes"


# ---- broken files ----


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, depth: int = 8, colour: int = 0, data: bytes = b"") -> bytes:
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


def animated() -> bytes:
    frames = [Image.fromarray(pixels(i)[..., 0]) for i in range(2)]
    stream = io.BytesIO()
    frames[0].save(stream, "PNG", save_all=True, append_images=frames[1:])
    return bytes(stream.getvalue())


GOOD = encoded(pixels(1))
RGBA = encoded(np.zeros((8, 8, 4), np.uint8))
FILES = {
    "empty": (b"", "the file is empty"),
    "text": (b"hello, world", "not a PNG or JPEG, whatever its name says: it begins with 68 65 6c 6c 6f"),
    "gif": (b"GIF89a\1\0\1\0\0\0\0;", "not a PNG or JPEG"),
    "header cut": (GOOD[:40], "damaged, it cannot be decoded (its header is cut or wrong)"),
    "no pixels": (png(0, 8), "damaged, it cannot be decoded (its header is cut or wrong)"),
    "cut": (GOOD[:-20], "damaged, it cannot be decoded ("),
    "flipped": (GOOD[:50] + bytes([GOOD[50] ^ 1]) + GOOD[51:], "damaged, it cannot be decoded ("),
    "alpha": (RGBA, "an image with transparency: convert it to RGB or gray of 8 bits a channel"),
    "key": (encoded(pixels(1), transparency=3), "an image with transparency"),
    "16 bits": (png(8, 8, 16, 2, bytes(8 * 49)), "an image with 16 bits a channel"),
    "16 bits gray": (png(8, 8, 16, 0, bytes(8 * 17)), "an image with 16 bits a channel"),
    "bomb": (png(30_000, 30_000), "it has more than 67,108,864 pixels"),
    "small bomb": (png(10_000, 10_000), "10000x10000: it has more than 67,108,864 pixels"),
    "frames": (animated(), "an image with several frames"),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES)
def test_bad_files(case: str, tmp_path: Path) -> None:
    content, message = FILES[case]
    path = put(folder(tmp_path) / "test" / "b" / "0.png", content)
    assert refusal(tmp_path, 8).startswith(f"{path}: ") and message in refusal(tmp_path, 8)


def test_cmyk_jpeg(tmp_path: Path) -> None:
    folder(tmp_path)
    Image.new("CMYK", (8, 8)).save(tmp_path / "train" / "a" / "c.jpg")
    assert f"{tmp_path}/train/a/c.jpg: an image with mode CMYK: convert it" in refusal(tmp_path)


def test_a_jpeg_that_is_cut_is_told_when_it_is_decoded(tmp_path: Path) -> None:
    """Its header is whole, and nothing but decoding it would show the rest."""
    folder(tmp_path)
    path = put(tmp_path / "train" / "b" / "c.jpg", encoded(pixels(1), "JPEG")[:-10])
    d = load(tmp_path)
    assert len(d.train_images[:12]) == 12
    with pytest.raises(DataError, match=rf"{path}: damaged, it cannot be decoded \(image file is truncated"):
        d.train_images[12:]


def test_files_that_change_after_they_were_looked_at(tmp_path: Path) -> None:
    folder(tmp_path)
    d = load(tmp_path)
    path = put(tmp_path / "train" / "a" / "000.png", encoded(pixels(99)))
    with pytest.raises(DataError, match=f"{path}: the file is not what it was when the data set was loaded"):
        d.train_images[:1]
    path.unlink()
    with pytest.raises(DataError, match=rf"{path}: cannot be read \(No such file"):
        d.train_images[:1]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission(tmp_path: Path) -> None:
    path = folder(tmp_path) / "train" / "a" / "000.png"
    path.chmod(0)
    assert refusal(tmp_path) == f"{path}: cannot be read (Permission denied)"


def test_without_pillow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder(tmp_path)
    monkeypatch.setitem(sys.modules, "PIL", None)
    train = ("train", "--method", "float32", "--model", "mlp", "--out", tmp_path / "run", "--data")
    for name in (f"folder:{tmp_path}", "tiny-imagenet"):
        assert "Pillow, which is not here: pip install pillow" in refused(capsys, *train, name)


def test_list_and_a_sweep_of_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = json.loads(here(capsys, "list", "--json")[1])["data"]["folder:PATH"]
    assert listed["available"] and "PATH/train/CLASS/*.png" in listed["about"]
    train = ("train", "--method", "float32", "--model", "mlp", "--out", tmp_path / "run", "--data")
    assert "there is no folder" in refused(capsys, *train, f"folder:{tmp_path}/nothing")
    assert "--image-size" in refused(capsys, *train, "digits", "--image-size", "x")
