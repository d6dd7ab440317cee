"""tiny-imagenet: 64x64 JPEGs of 200 classes, as tiny-imagenet-200.zip unpacks.

    wnids.txt                        the classes, a WordNet number a line; label: its place among them by name
    train/WNID/images/*.JPEG         to train on (beside each images/ a list of boxes, which is not read)
    val/val_annotations.txt          file, class and box of the images in val/images, to test on: test/ has
                                     no labels

Some of the images are gray; all are taken as RGB. Fewer classes or images are welcome, as in a set of one's
own.
"""

from pathlib import Path

from intnet.datasets import folder, places
from intnet.datasets.dataset import Dataset
from intnet.datasets.image_files import pillow
from intnet.errors import DataError

NAME, FOLDER = "tiny-imagenet", "tiny-imagenet-200"
SHAPE = (64, 64, 3)
CLASSES, ANNOTATIONS = "wnids.txt", "val_annotations.txt"


def find(data_dir: Path | None) -> Path:
    """The folder that holds wnids.txt, train and val; DataError where there is none."""
    return places.find(
        NAME,
        NAME,
        data_dir,
        ways=[[(CLASSES,), ("train",), ("val",)]],
        needed=f": {CLASSES}, train/, val/",
        advice=f"To get them: unpack {FOLDER}.zip in a folder that --data-dir or $INTNET_DATA names.",
        inside=(FOLDER,),
    )[0].parent


def load(data_dir: Path | None) -> Dataset:
    """The set, every file looked at; DataError names what is missing or wrong."""
    pillow()  # told before anything is read
    root = find(data_dir)
    wnids = sorted(_lines(root / CLASSES))
    if not wnids or len(set(wnids)) < len(wnids):
        raise DataError(f"{root / CLASSES}: {'a class stands there twice' if wnids else 'no classes'}")
    by_class = []
    there = {entry.name for entry in folder.entries(root / "train")}
    if there != set(wnids):
        odd = sorted(there ^ set(wnids))[0]
        raise DataError(f"{root / 'train' / odd}: {f'not in {CLASSES}' if odd in there else 'missing'}")
    for wnid in wnids:
        by_class.append(folder.files(root / "train" / wnid / "images", folder.is_image))
    train = folder.rounds(by_class)
    return folder.dataset(NAME, train, _val(root / "val", wnids), len(wnids), shape=SHAPE)


def _val(val: Path, wnids: list[str]) -> folder.Listed:
    """(path, label) of the annotated images, by name; those and no others must be there."""
    labels, where = {wnid: label for label, wnid in enumerate(wnids)}, val / ANNOTATIONS
    listed: dict[str, int] = {}
    for number, line in enumerate(_lines(where), start=1):
        name, *rest = line.split("\t")
        if not rest or rest[0] not in labels or name in listed or not folder.is_image(name) or "/" in name:
            raise DataError(f"{where}: line {number}, {line[:80]!r}: write an image once, a tab, its class")
        listed[name] = labels[rest[0]]
    paths = {Path(path).name: path for path in folder.files(val / "images", folder.is_image)}
    if paths.keys() != listed.keys():
        odd = min(paths.keys() ^ listed.keys())
        what = f"has no line in {ANNOTATIONS}" if odd in paths else f"stands in {ANNOTATIONS}, and is missing"
        raise DataError(f"{val / 'images' / odd}: it {what}")
    return [(paths[name], listed[name]) for name in sorted(listed)]


def _lines(path: Path) -> list[str]:
    """The lines of a text that are not blank; a byte order mark, as some editors write it, is none of it."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError:
        raise DataError(f"{path}: not a text") from None
    return [line.strip() for line in text.splitlines() if line.strip()]
