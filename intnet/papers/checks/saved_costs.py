"""The thesis on saved activations: tables 4.1, 4.2 and 7.1, from the network itself.

Element counts are those of the outputs of `efficientnetv2`'s blocks for 128 images of 32x32, found by a
forward pass; bytes are b/8 * N (section 4.1.1). What storage takes beyond that, scales and zero points of
buckets and the codes that levels really need, stands beside.
"""

import itertools
from collections.abc import Sequence

from intnet import methods, models
from intnet.exact.blocks.buckets import Codec
from intnet.methods.packing import PRESETS
from intnet.methods.saved import Saved
from intnet.papers.checks.check import Check, Result, Task, agrees
from intnet.papers.costs import saved_costs
from intnet.papers.costs.saved_costs import Block
from intnet.show.tables import Cell, Column, Table, numbers
from intnet.training.tape import MB

BATCH, IMAGE, CLASSES = 128, (32, 32, 3), 10
# table 4.1: block -> (elements, float32, 4 bits, saved), MB of 2^20 bytes
PUBLISHED = {
    "Stem": (3_145_728, 12.00, 1.50, 10.50),
    "MB1": (3_145_728, 12.00, 1.50, 10.50),
    "MB2": (1_572_864, 6.00, 0.75, 5.25),
    "MB3": (655_360, 2.50, 0.31, 2.19),
    "MB4": (327_680, 1.25, 0.16, 1.09),
    "MB5": (557_056, 2.12, 0.27, 1.86),
    "MB6": (786_432, 3.00, 0.38, 2.62),
    "Head": (2_621_440, 10.00, 1.25, 8.75),
    "Classifier": (163_840, 0.62, 0.08, 0.55),
    "Total": (12_976_128, 49.50, 6.19, 43.31),
}
# table 7.1 (and 4.2): bits -> (relative memory, MB)
RELATIVE = {32: (1.0, 49.5), 4: (0.125, 6.2), 2: (0.0625, 3.1)}
BUCKETS = (64, 512)  # the least and the greatest of section 5.8.3
MIXES = ("2/4", "2/6", "3/6", "4/8")  # listing 5.6


def run(task: Task) -> Result:
    """All tables."""
    blocks = _blocks()
    table, relative = _table(blocks), _relative(sum(block.elements for block in blocks))
    return Result(
        f"efficientnetv2, batch of {BATCH} images of 32x32x3, {CLASSES} classes",
        [table, relative, _codecs(), _mixes()],
        REMARKS,
        all(row[-1] for row in table.rows) and all(row[-1] for row in relative.rows),
    )


REMARKS = (
    "The thesis names EfficientNetV2-M, whose stages MB5 and MB6 have other counts, and lists no layers: "
    "channels and strides are those that its counts imply; see "
    "`intnet/models/efficientnetv2.py`. It counts one tensor a block; what a tape holds inside of the blocks "
    "`intnet costs --method saved` tells.",
    "Levels: L = 2^b levels of a magnitude and a sign are 2L + 1 different codes, so the nominal 2 bits are "
    "3.17 and take 4 bits packed; the 16-fold saving of table 7.1 belongs to the affine codecs.",
)


def _blocks() -> list[Block]:
    method = methods.make("saved", bits="4")
    assert isinstance(method, Saved)
    found = saved_costs.blocks(models.make("efficientnetv2", IMAGE, CLASSES), method, BATCH)
    return [block for block in found if block.elements]


def _table(blocks: list[Block]) -> Table:
    total = sum(block.elements for block in blocks)
    own = {block.name: block.elements for block in blocks} | {"Total": total}
    rows: list[Sequence[Cell]] = []
    for name, (elements, *published) in PUBLISHED.items():
        full, packed = 4 * own[name] / MB, own[name] / 2 / MB
        pairs = list(zip((full, packed, full - packed), published, strict=True))
        same = elements == own[name] and all(agrees(*pair, 2) for pair in pairs)
        rows.append((name, own[name], elements, *itertools.chain(*pairs), same))
    names = ("float32", "paper's", "4 bits", "paper's 4 bits", "saved", "paper's saved")
    counts = numbers("elements", "paper", spec=",")
    columns = (Column("block"), *counts, *numbers(*names, spec=".2f"), Column("agrees"))
    return Table("outputs of the blocks, MB of 2^20 bytes (table 4.1)", columns, rows)


def _relative(elements: int) -> Table:
    rows: list[Sequence[Cell]] = []
    for bits, (share, size) in RELATIVE.items():
        own = bits / 8 * elements / MB
        same = agrees(own, size, 1) and bits / 32 == share
        rows.append((bits, bits / 32, share, own, size, 1 - bits / 32, same))
    sizes = (Column("MB", ".2f"), Column("paper's MB", ".1f"), Column("saved", ".2%"))
    columns = (Column("bits"), *numbers("share", "paper", spec=".4f"), *sizes, Column("agrees"))
    return Table("memory by width (tables 4.2, 7.1)", columns, rows)


def _codecs() -> Table:
    """Of a million elements; per bucket a scale, of affine codecs a zero point too."""
    elements = 1 << 20
    rows: list[Sequence[Cell]] = []
    for kind in ("affine", "affine-stochastic", "levels"):
        for bits in (2, 4):
            codes = Codec(kind, bits).distinct(bits)
            packed = [8 * Codec(kind, bits, None, size).packed_bytes(elements) / elements for size in BUCKETS]
            rows.append((kind, bits, codes, *packed, *(32 / one for one in packed)))
    columns = (
        *map(Column, ("codec", "bits", "codes")),
        *numbers("bits, bucket 64", "bucket 512", spec=".3f"),
        *numbers("times smaller, 64", "512", spec=".2f"),
    )
    return Table("what an element takes, scales and zero points counted", columns, rows)


def _mixes() -> Table:
    rows: list[Sequence[Cell]] = []
    for mix in MIXES:
        base, wide = map(int, mix.split("/"))
        share = PRESETS[base, wide]
        mean = base + share * (wide - base)
        rows.append((mix, share, mean, 32 / mean))
    sizes = numbers("mean bits", "times smaller", spec=".2f")
    columns = (Column("mix"), Column("share of the wider", ".1f"), *sizes)
    return Table("presets of two widths, nominal (listing 5.6)", columns, rows)


CHECK = Check(
    "memory of saved activations by block and by width",
    "thesis on saved activations (Li, 2025), tables 4.1, 4.2, 7.1, listing 5.6",
    "seconds",
    run,
)
