"""The definition's loss, first values, data and digest, against hand-computed answers.

Expected values are literals worked by hand, or identities that hold exactly; none comes from the library.
"""

from collections import Counter
from fractions import Fraction
from hashlib import sha256
from math import sqrt
from statistics import NormalDist

import pytest

from intnet.spec import Fixed, Tensor, data, initial, loss
from intnet.spec import float32 as floats
from intnet.spec.digest import Exponents, Floats, Words, digest
from intnet.spec.words import words

F = Fraction
LN2 = F(0x317218 | 1 << 23, 2**24)  # the float32 nearest to ln 2, 0x3f317218


# Loss


def test_two_equal_logits():
    got = loss.cross_entropy(Tensor((2, 2), [F(3), F(3), F(-1), F(-1)]), [0, 1])
    assert got.loss == LN2
    assert got.p.values == [F(1, 2)] * 4
    assert got.error.values == [F(-1, 4), F(1, 4), F(1, 4), F(-1, 4)]


def test_smoothing_by_hand():
    """on = 1/2, off = 1/4 of two classes: 1/4 d + 1/4 d, then + 1/2 d; d = ln 2, halved exactly."""
    assert loss.targets(0.5, 2) == (F(1, 2), F(1, 4))
    assert loss.targets(0.1, 10) == (F(15099494, 2**24), floats.to_float32(F(13421773, 2**27) / 10))
    got = loss.cross_entropy(Tensor((1, 2), [F(7), F(7)]), [1], 0.5)
    assert (got.loss, got.error.values) == (LN2, [F(1, 4), F(-1, 4)])


def test_a_logit_far_below_the_others():
    """exp(-200) is 0 in float32: p is 1 and 0, the loss of the far one its distance."""
    got = loss.cross_entropy(Tensor((2, 2), [F(200), F(0), F(200), F(0)]), [0, 1])
    assert (got.loss, got.p.values) == (100, [1, 0, 1, 0])
    assert got.error.values == [0, 0, F(1, 2), F(-1, 2)]


def test_integer_logits_are_rounded_once():
    codes = [2**30 + 2**6, 2**30]  # 2^24 + 1 at 2^-6: a tie
    assert loss.logits32(Fixed((1, 2), codes, -6)).values == [2**24, 2**24]
    assert loss.cross_entropy(Fixed((1, 2), codes, -6), [0]).loss == LN2


def test_losses_are_summed_in_groups():
    losses = [F(2**24)] + [F(1)] * 16
    assert loss.mean_loss(losses) == floats.to_float32(F(2**24, 17))
    assert loss.mean_loss(losses[::-1]) == floats.to_float32(F(2**24 + 16, 17))
    with pytest.raises(ValueError, match="1 labels for 2 images"):
        loss.cross_entropy(Tensor((2, 1), [F(0), F(0)]), [0])


# First values


def test_first_values():
    assert initial.first_value(1, "bn1", "gamma", (2,), "ones").values == [1, 1]
    assert initial.first_value(1, "bn1", "beta", (2,), "zeros").values == [0, 0]
    made = initial.first_value(5, "conv1", "W", (4, 3, 3, 3), "normal", 27)
    drawn = words(5, 0, "conv1/init_W", 108)
    for i, (value, word) in enumerate(zip(made.values, drawn, strict=True)):
        want = NormalDist().inv_cdf((word + 0.5) / 2**32) / sqrt(27)
        assert float(value) == pytest.approx(want, rel=1.2e-7)
        assert value == initial.scaled(initial.word(5, 0, "conv1/init_W", i), 27)
    assert made.shape == (4, 3, 3, 3)


# Data


def test_an_epoch_goes_by_the_keys(monkeypatch):
    drawn = [5, 1, 5, 0, 2**32 - 1, 0, 5, 1, 0, 2**32 - 1]
    monkeypatch.setattr(data, "words", lambda *args: drawn)
    assert data.order(0, 0, 5) == [4, 1, 0, 3, 2]


def test_batches_and_a_short_last_one():
    assert (data.steps_per_epoch(10, 4), data.steps_per_epoch(8, 4), data.steps_per_epoch(1, 64)) == (3, 2, 1)
    batches = [data.members(3, step, 10, 4) for step in range(6)]
    assert [len(batch) for batch in batches] == [4, 4, 2, 4, 4, 2]
    for epoch in (0, 1):
        seen = [i for batch in batches[3 * epoch : 3 * epoch + 3] for i in batch]
        assert seen == data.order(3, epoch, 10)
    assert batches[0] != batches[3]


def test_a_batch_is_bytes_with_an_exponent():
    images = [bytes([i, i + 1, i + 2, i + 3]) for i in range(0, 40, 4)]
    made = data.Dataset(images, list(range(10)), [], [], (2, 2, 1), -8, 10)
    (x, labels), index = data.batch(made, 3, 2, 4), data.members(3, 2, 10, 4)
    assert (x.shape, x.exponent, labels) == ((2, 2, 2, 1), -8, index)
    assert x.codes == [4 * i + k for i in index for k in range(4)]
    first = made.first(3)
    assert sorted(data.batch(first, 1, 0, 3)[1]) == [0, 1, 2]


def test_crops_and_mirrors_by_hand():
    image = [[[1], [2]], [[3], [4]]]
    assert data.placed(image, 1, 1, 1, False) == image
    assert data.placed(image, 0, 0, 1, False) == [[[0], [0]], [[0], [1]]]
    assert data.placed(image, 2, 1, 1, False) == [[[3], [4]], [[0], [0]]]
    assert data.placed(image, 1, 1, 1, True) == [[[2], [1]], [[4], [3]]]
    assert data.placed(image, 1, 2, 1, True) == [[[0], [2]], [[0], [4]]]
    assert data.flat(data.nested([1, 2, 3, 4], (2, 2, 1))) == [1, 2, 3, 4]
    third = (2**64 - 1) // 3  # the greatest number below 2^64 / 3
    assert data.offset(third >> 32, third % 2**32, 1) == 0
    assert data.offset((third + 1) >> 32, (third + 1) % 2**32, 1) == 1
    assert data.offset(2**32 - 1, 2**32 - 1, 3) == 6


def test_idx_files():
    content = bytes([0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 3, 7, 8, 9])
    assert data.parse_idx(content) == ((1, 3), b"\7\10\11")
    for bad in (content + b"\0", content[:-1], b"\0\1" + content[2:], content[:2] + b"\x0d" + content[3:]):
        with pytest.raises(ValueError, match="not an IDX file"):
            data.parse_idx(bad)


def test_the_digits_are_the_published_ones():
    """scikit-learn's load_digits: 1,797 images, of each class so many, with these first rows and labels."""
    digits = data.digits()
    assert (len(digits.train_images), len(digits.test_images), digits.shape) == (1438, 359, (8, 8, 1))
    counts = Counter(digits.train_labels + digits.test_labels)
    assert [counts[k] for k in range(10)] == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert digits.train_labels[:4] == [0, 1, 2, 3] and digits.test_labels[0] == 4
    assert digits.train_images[0][:16] == bytes([0, 0, 5, 13, 9, 1, 0, 0, 0, 0, 13, 15, 10, 15, 5, 0])
    assert max(max(image) for image in digits.train_images) == 16


# Digest


def by_hand(*parts):
    return sha256(b"".join(parts)).hexdigest()


def test_digests_by_hand():
    assert digest({}) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    state = {
        "b": Words("int16", (1, 2), [-2, 258], 3),
        "a": Floats("float32", (2,), [F(1), F(-3, 2)]),
        "c": Words("int8", (2,), [-1, 5], Exponents((2, 1), [-3, 4])),
    }
    assert digest(state) == by_hand(
        b"a float32 2 -\n", bytes.fromhex("0000803f0000c0bf"),
        b"b int16 1x2 3\n", bytes.fromhex("feff0201"),
        b"c int8 2 2x1:-3,4\n", b"\xff\5",
    )  # fmt: skip
    state = {"x": Floats("float64", (1,), [0.5]), "y": Words("uint8", (2,), [0, 255], None)}
    assert digest(state) == by_hand(
        b"x float64 1 -\n", bytes.fromhex("000000000000e03f"), b"y uint8 2 -\n\0\xff"
    )
    assert digest({"s": Words("int64", (), [-1], 0)}) == by_hand(b"s int64  0\n" + b"\xff" * 8)
