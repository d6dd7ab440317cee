"""The images and labels of a step, byte by byte, by the definition's order and augmentation."""

from fractions import Fraction

import numpy as np

from intnet.errors import IntnetError
from intnet.spec import data as spec_data
from intnet.spec import inference as spec_inference
from intnet.verify import draw
from intnet.verify.events import Options, compare
from intnet.verify.row import DIFFERS, UNSPECIFIED, Row
from intnet.verify.taken import Taken

IMAGES = 16  # of a batch whose bytes are compared, in all places of it
ORDERED = 100_000  # training images up to which the whole order is made by the definition


def check(taken: Taken, options: Options) -> Row:
    """Labels of the whole batch, and the bytes of drawn images."""
    run, step = taken.run, taken.step
    call = next(iter(taken.record.calls("cast")))
    images, labels = (
        call.operands[0],
        next(iter(taken.record.calls("softmax_cross_entropy"))).attributes["labels"],
    )
    row = Row("data", "images", "the images and labels of the step", ["data.members"], images.size)
    data, n = run.data, len(run.data.train_labels)
    if n > ORDERED:
        row.state, row.why = (
            UNSPECIFIED,
            f"the order of {n:,} images: made by the definition up to {ORDERED:,}",
        )
        return row
    members = spec_data.members(run.seed, step, n, run.batch_size)
    row.words = 2 * n
    every = np.arange(len(members))
    expected = [Fraction(int(label)) for label in data.train_labels[members]]
    compare(row, every, every.shape, expected, [Fraction(int(label)) for label in labels])
    chosen = draw.drawn(
        f"{options.seed}/{step}/images", len(members), None if options.elements is None else IMAGES
    )
    given = augmented(taken, members, chosen.tolist())
    if given is None:
        row.why = "labels and order; the images could not be read again"
        return row
    size = int(np.prod(images.shape[1:]))
    for place, pixels in zip(chosen.tolist(), given, strict=True):
        flat = np.arange(place * size, (place + 1) * size)
        stored = images.codes.reshape(-1)[flat].tolist()
        row.checked += size
        compare(row, flat, images.shape, [Fraction(int(v)) for v in pixels], [Fraction(v) for v in stored])
    return row


def augmented(taken: Taken, members: list[int], chosen: list[int]) -> list[list[int]] | None:
    """The pixels of the images in chosen places of the batch, cropped and mirrored by the definition."""
    run = taken.run
    try:
        images = run.data.train_images[np.array(members)]
    except IntnetError:
        return None
    pad, flip = run.augment.crop, run.augment.flip
    if not pad and not flip:
        return [images[place].reshape(-1).tolist() for place in chosen]
    whole = [spec_data.nested(image.reshape(-1).tolist(), image.shape) for image in images]
    made = spec_data.augmented(whole, run.seed, taken.step, pad, flip)
    return [spec_data.flat(made[place]) for place in chosen]


def check_inference(taken: Taken) -> Row:
    """The bytes of a batch of test images, all of them."""
    assert taken.inference is not None
    images = next(iter(taken.record.calls("cast"))).operands[0]
    part, data = taken.inference.images, taken.run.data
    row = Row("data", "images", "test images in order", ["inference.batch"], images.size, images.size)
    given = [b""] * part.start + [image.tobytes() for image in data.test_images[part]]
    form = data.image_shape, data.exponent, data.classes
    wanted = spec_data.Dataset([], [], given, data.test_labels.tolist(), *form)
    made, _ = spec_inference.batch(wanted, part.start // spec_inference.BATCH)
    flat = np.arange(images.size)
    numbers = [Fraction(v) for v in made.codes], [Fraction(v) for v in images.codes.reshape(-1).tolist()]
    compare(row, flat, images.shape, *numbers)
    if made.exponent != images.exponent:
        row.state, row.differing, row.why = DIFFERS, row.differing + 1, f"exponent {images.exponent}"
    return row
