"""The images and labels of a step, byte by byte, by the definition's order and augmentation."""

from typing import Any

import numpy as np

from intnet.errors import IntnetError
from intnet.numbers.qtensor import QTensor
from intnet.spec import data as spec_data
from intnet.spec import inference as spec_inference
from intnet.verify.record import Call
from intnet.verify.row import Options, Row
from intnet.verify.taken import Taken
from intnet.verify.values import drawn

IMAGES = 16  # of a batch whose bytes are compared, in all places of it
ORDERED = 100_000  # training images up to which the whole order is made by the definition


def check(taken: Taken, options: Options) -> Row:
    """Labels of the whole batch, and the bytes of drawn images."""
    run, step = taken.run, taken.step
    labels = taken.record.labels().tolist()
    images = images_of(taken)
    row = Row("data", "images", "the images and labels of the step", ["data.members"], images.size)
    data, n = run.data, len(run.data.train_labels)
    if n > ORDERED:
        row.not_specified(f"the order of {n:,} images: made by the definition up to {ORDERED:,}")
        return row
    members = spec_data.members(run.seed, step, n, run.batch_size)
    row.words = 2 * n
    every = np.arange(len(members))
    row.compare(every, every.shape, data.train_labels[members].tolist(), labels)
    chosen = drawn(
        f"{options.seed}/{step}/images", len(members), None if options.elements is None else IMAGES
    )
    given = augmented(taken, members, chosen.tolist())
    if given is None:
        row.not_specified("labels and order hold; the images could not be read again")
        return row
    size = int(np.prod(images.shape[1:]))
    for place, pixels in zip(chosen.tolist(), given, strict=True):
        flat = np.arange(place * size, (place + 1) * size)
        stored = images.codes.reshape(-1)[flat].tolist()
        row.checked += size
        row.compare(flat, images.shape, pixels, stored)
    return row


def images_of(taken: Taken) -> Any:
    """The first tensor of a watched pass that no operation made and that is no parameter."""
    own = {id(value) for value in taken.before.values()}
    for what in taken.record.happened:
        for value in what.operands if isinstance(what, Call) else ():
            if isinstance(value, QTensor) and id(value) not in own and taken.record.origin(value) is None:
                return value
    raise IntnetError("verify: no operation of the model reads the images")


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
    """The bytes of a batch of test images and their labels, all of them."""
    assert taken.inference is not None
    batch, data = taken.inference.batch, taken.run.data
    images = taken.inference.images
    row = Row("data", "images", "test images in order", ["inference.batch"], images.size, images.size)
    given = [image.reshape(-1).tolist() for image in data.test_images[: (batch + 1) * spec_inference.BATCH]]
    form = data.image_shape, data.exponent, data.classes
    wanted = spec_data.Dataset([], [], given, data.test_labels.tolist(), *form)
    made, labels = spec_inference.batch(wanted, batch)
    for shape, ours, theirs in (
        (images.shape, images.codes, made.codes),
        (taken.inference.labels.shape, taken.inference.labels, labels),
    ):
        if np.size(ours) != len(theirs):
            row.differs(f"{np.size(ours):,} numbers, the definition has {len(theirs):,}")
            return row
        row.compare(np.arange(len(theirs)), shape, list(theirs), ours.reshape(-1).tolist())
    if made.exponent != images.exponent:
        row.differs(f"exponent {images.exponent}, the definition has {made.exponent}")
    return row
