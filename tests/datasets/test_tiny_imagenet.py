"""tiny-imagenet in its real layout, with two classes and few images, and every way it can be broken."""

from collections.abc import Callable
from pathlib import Path

import pytest

from intnet import datasets
from intnet.errors import DataError
from tests.support.image_world import encoded, pixels, put

WNIDS = ("n02", "n01")  # the published list is not sorted either


def write(root: Path) -> Path:
    """Three images a class to train on, of which one is gray; two to test on."""
    put(root / "wnids.txt", "".join(f"{wnid}\n" for wnid in WNIDS).encode())
    for c, wnid in enumerate(sorted(WNIDS)):
        for n in range(3):
            image = pixels(10 * c + n, 64, 64, 1 if n == 1 else 3) // 4 + 90
            put(root / "train" / wnid / "images" / f"{wnid}_{n}.JPEG", encoded(image, "JPEG"))
        put(root / "train" / wnid / f"{wnid}_boxes.txt", b"n02_0.JPEG\t0\t0\t9\t9\n")
    for n in range(2):
        put(root / "val" / "images" / f"val_{n}.JPEG", encoded(pixels(n, 64, 64, 3), "JPEG"))
    lines = ["val_1.JPEG\tn02\t0\t0\t62\t57\n", "val_0.JPEG\tn01\t0\t0\t62\t57\n"]
    put(root / "val" / "val_annotations.txt", "".join(lines).encode())
    put(root / "test" / "images" / "test_0.JPEG", b"not read")
    return root


@pytest.mark.parametrize(
    "where", ["", "tiny-imagenet-200", "tiny-imagenet", "tiny-imagenet/tiny-imagenet-200"]
)
def test_files(where: str, tmp_path: Path) -> None:
    write(tmp_path / where)
    d = datasets.load("tiny-imagenet", tmp_path)
    assert (d.name, d.classes, d.exponent, d.image_shape) == ("tiny-imagenet", 2, -8, (64, 64, 3))
    assert d.train_labels.tolist() == [0, 1, 0, 1, 0, 1] and d.test_labels.tolist() == [0, 1]
    images = d.train_images[:]
    assert images.shape == (6, 64, 64, 3) and d.test_images[:].shape == (2, 64, 64, 3)
    assert (images[2, ..., 0] == images[2, ..., 2]).all() and (images[0, ..., 0] != images[0, ..., 2]).any()
    assert d.decoder.startswith("Pillow ") and datasets.available("tiny-imagenet", tmp_path)


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    root = write(tmp_path)
    wanted = datasets.load("tiny-imagenet", tmp_path).train_labels.tolist()
    for name in ("wnids.txt", "val/val_annotations.txt"):
        put(root / name, b"\xef\xbb\xbf" + (root / name).read_bytes())
    assert datasets.load("tiny-imagenet", tmp_path).train_labels.tolist() == wanted


def annotations(root: Path, text: bytes) -> Path:
    return put(root / "val" / "val_annotations.txt", text)


BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "no list": (lambda r: (r / "wnids.txt").unlink(), "{r} (lacks wnids.txt)"),
    "empty list": (lambda r: put(r / "wnids.txt", b"\n"), "{r}/wnids.txt: no classes"),
    "twice": (lambda r: put(r / "wnids.txt", b"n01\nn02\nn01"), "{r}/wnids.txt: a class stands there twice"),
    "no text": (lambda r: put(r / "wnids.txt", b"\xff"), "{r}/wnids.txt: not a text"),
    "other class": (lambda r: (r / "train" / "n00").mkdir(), "{r}/train/n00: not in wnids.txt"),
    "lacking class": (lambda r: put(r / "wnids.txt", b"n01\nn02\nn03"), "{r}/train/n03: missing"),
    "no images": (lambda r: (r / "train" / "n01" / "images").rename(r / "x"), "{r}/train/n01/images: cannot"),
    "no notes": (lambda r: (r / "val" / "val_annotations.txt").unlink(), "val_annotations.txt: cannot"),
    "no tab": (lambda r: annotations(r, b"val_0.JPEG n01"), "line 1, 'val_0.JPEG n01': write an image once"),
    "no class": (lambda r: annotations(r, b"val_0.JPEG\tn09"), "line 1, "),
    "same image": (lambda r: annotations(r, b"val_0.JPEG\tn01\nval_0.JPEG\tn02"), "line 2, "),
    "path": (lambda r: annotations(r, b"../val_0.JPEG\tn01"), "line 1, "),
    "unnoted": (lambda r: annotations(r, b"val_0.JPEG\tn01"), "val_1.JPEG: it has no line in val_annot"),
    "gone": (lambda r: (r / "val" / "images" / "val_1.JPEG").unlink(), "val_1.JPEG: it stands in val_annot"),
    "size": (
        lambda r: put(r / "val" / "images" / "val_1.JPEG", encoded(pixels(1, 64, 32, 3), "JPEG")),
        "val_1.JPEG: an image of 32x64 pixels, but those of tiny-imagenet have 64x64",
    ),
    "damage": (lambda r: put(r / "train" / "n01" / "images" / "n01_1.JPEG", b"\xff\xd8"), "n01_1.JPEG: "),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_sets(case: str, tmp_path: Path) -> None:
    change, message = BAD[case]
    change(write(tmp_path))
    with pytest.raises(DataError) as caught:
        datasets.load("tiny-imagenet", tmp_path)
    assert message.format(r=tmp_path) in str(caught.value)


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        datasets.load("tiny-imagenet", tmp_path)
    assert "Needed, in one folder: wnids.txt, train/, val/. Looked in: " in str(caught.value)
    assert "unpack tiny-imagenet-200.zip in a folder that --data-dir or $INTNET_DATA names" in str(
        caught.value
    )
    assert not datasets.available("tiny-imagenet", tmp_path)
