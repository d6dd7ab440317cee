"""Products of block float, and of affine codes: the exact sum of all products, rounded once to float32.

    block_product    an exponent a code
    product          blocks of 4x4, quicker
    affine_product   codes in steps of a float32: the sum as a float32, times both scales

Every value of a tensor in blocks of 4x4 is an integer in units of 2**low and below 2**high. With few bits,
high - low, these integers are one limb of 16 bits, or a sum of two or three: then a product of tensors is
one of integers for each pair of limbs (`kernels/int_products.py`), exact, and so is their sum. Where
exponents lie further apart, `block_product` cuts both by their exponents and adds integers of any length.

Defined by `spec/block_float.py: exact`, `spec/block_float.py: rounded`, `spec/products.py: forward`,
`spec/products.py: input_error`, `spec/products.py: weight_gradient`.
"""

import itertools
from collections.abc import Sequence
from typing import cast

import numpy as np

from intnet.exact.blocks.affine import AffineTensor, scaled
from intnet.exact.blocks.bands import Banded, matching_bands
from intnet.exact.blocks.block_float import BlockTensor
from intnet.exact.blocks.long_sums import LongSum
from intnet.exact.expressions import Exact, add, exact
from intnet.numbers import shares
from intnet.numbers.qtensor import INT64_BOUND, QTensor
from intnet.ops.kernels.int_products import Kernel, exact_product

_BYTE = 8  # bits
_ALONE, _LIMB = 15, 14  # bits of a limb that has the sign alone, and of one among others
_BOTH = 25  # bits of two limbs whose products `plan` adds up in int32, 64 at least at a time
_LIMBS = 3  # of a tensor, at most


def block_product(
    a: QTensor, b: QTensor, terms: int, kernel: Kernel, where: str = "", of_batch: bool = False
) -> np.ndarray:
    """float32 of the exact bilinear form of two block-float tensors, rounded once (ties to even).

    As `exact_product`; an exponent is an int, or an array that broadcasts against the codes. The
    aligned operands have integer products whose sum is exact in any order: one such product where
    int64 holds it, else one a pair of bands. NumberError for a result beyond float32's range;
    ContainerError for codes whose products not even two limbs hold. of_batch: over the images of all
    ranks (`numbers/shares.py`).

    Defined by `spec/block_float.py: exact`, `spec/block_float.py: rounded`.
    """
    left, right = Banded(a, where), Banded(b, where)
    a_bands, b_bands = matching_bands(left, right, terms)
    xs, ys = [left.aligned(band) for band in a_bands], [right.aligned(band) for band in b_bands]
    return sum_of_products(xs, ys, terms, kernel, where, of_batch)


def sum_of_products(
    xs: Sequence[QTensor], ys: Sequence[QTensor], terms: int, kernel: Kernel, where: str,
    of_batch: bool = False,
) -> np.ndarray:  # fmt: skip
    """float32 of the exact bilinear form of the sum of xs and the sum of ys, rounded once.

    Exponents are ints. `exact_product` of every pair; what int64 holds together is one expression, else a
    `LongSum`, and so are sums that meet over all ranks here (of_batch).
    """
    sums = [exact_product(x, y, terms, kernel, where) for x in xs for y in ys]
    least = min(int(one.exponent) for one in sums)
    if not of_batch and (len(sums) == 1 or _together(sums, least) < INT64_BOUND):
        return _added(sums).to_float32(where)
    greatest = max(int(one.exponent) for one in sums) + 16
    if of_batch:
        low, greatest = shares.greatest(np.array([-least, greatest])).tolist()
        least = -low
    total = LongSum(sums[0].shape, least, greatest)
    for one in sums:
        expression = cast(Exact, exact(one))
        for term, coef in expression.terms:  # one, or the two of two limbs: 2**16 and 1
            total.add(term.codes, expression.exponent + int(coef).bit_length() - 1)
    if of_batch:
        total.meet()
    return total.to_float32(where)


def _added(sums: Sequence[QTensor | Exact]) -> Exact:
    """Their exact sum."""
    total = cast(Exact, exact(sums[0]))
    for one in sums[1:]:
        total = cast(Exact, add(total, one))
    return total


def _together(sums: Sequence[QTensor | Exact], least: int) -> int:
    """A bound on the sum of all of them in units of 2**least."""
    bounds = [one.bound if isinstance(one, QTensor) else one.bound() for one in sums]
    return sum(max(bound, 1) << (int(one.exponent) - least) for bound, one in zip(bounds, sums, strict=True))


def _counts(a: int, b: int) -> tuple[int, int] | None:
    """Limbs of operands of a and b bits: the fewest whose products are of 16 bits; None: there are none."""
    pairs = itertools.product(range(1, _LIMBS + 1), repeat=2)
    for n, m in sorted(pairs, key=lambda counts: counts[0] * counts[1]):
        sizes = -(-a // n), -(-b // m)
        fit = all(
            size <= (_ALONE if count == 1 else _LIMB) for size, count in zip(sizes, (n, m), strict=True)
        )
        if fit and sum(sizes) <= _BOTH:
            return n, m
    return None


def _extents(a: BlockTensor, b: BlockTensor, of_batch: bool) -> tuple[int, int, int, int]:
    """(low, high) of a and of b; of a batch those that hold on all ranks, so that all cut alike."""
    ends = np.array([-a.extent[0], a.extent[1], -b.extent[0], b.extent[1]])
    low, high, other, top = (shares.greatest(ends) if of_batch else ends).tolist()
    return -low, high, -other, top


def product(
    a: BlockTensor, b: BlockTensor, terms: int, kernel: Kernel, where: str, of_batch: bool = False
) -> np.ndarray:
    """float32 of the bilinear form of a and b that sums `terms` products an element, over all ranks' images.

    of_batch: whether images are what is summed over. NumberError beyond float32's range.
    """
    of_batch = of_batch and shares.now() is not None
    low, high, other, top = _extents(a, b, of_batch)
    counts = _counts(high - low, top - other)
    if counts is None:
        return block_product(a.to_qtensor(), b.to_qtensor(), terms, kernel, where, of_batch)
    xs, ys = a.limbs(low, high - low, counts[0]), b.limbs(other, top - other, counts[1])
    if of_batch:  # bounds hold on all ranks: so all choose one container, and integers meet
        terms, kernel = shares.rows(terms), shares.summed(kernel)
    return sum_of_products(xs, ys, terms, kernel, where)


def affine_product(
    a: AffineTensor, b: AffineTensor, terms: int, kernel: Kernel, where: str = ""
) -> np.ndarray:
    """float32 of the exact bilinear form of the codes, times the product of both scales: three roundings.

    An operand of 16 bits goes in two halves: products of int16 are four times as many at once as of float64.

    Defined by `spec/products.py: forward`.
    """
    scale = a.scale * b.scale
    if a.bits > _BYTE >= b.bits and a.codes.bound * b.codes.bound * terms < INT64_BOUND:
        halves = [exact_product(half, b.codes, terms, kernel, where) for half in a.halves()]
        return scaled(_added(halves).to_qtensor().codes, scale)
    sums = exact_product(a.codes, b.codes, terms, kernel, where)
    return scaled(sums.codes, scale) if isinstance(sums, QTensor) else sums.to_float32(where) * scale
