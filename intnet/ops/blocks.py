"""Products of tensors in blocks of 4x4: the exact sum of all products, rounded once to float32.

Every value of a tensor is an integer in units of 2**low and below 2**high. With few bits, high - low, these
integers are one limb of 16 bits, or a sum of two or three: then a product of tensors is one of integers for
each pair of limbs (`kernels/int_products.py`), exact, and so is their sum. Where exponents lie further apart,
`bilinear.py: block_product` cuts both by their exponents and adds integers of any length.

`product` is the one of `bilinear.py: PRODUCTS` for them, forward and in both gradients, of convolutions too.

Defined by `spec/block_float.py: exact`, `spec/block_float.py: rounded`, `spec/products.py: forward`,
`spec/products.py: input_error`, `spec/products.py: weight_gradient`.
"""

import itertools

import numpy as np

from intnet.exact.blocks.block_float import BlockTensor
from intnet.numbers import shares
from intnet.ops.bilinear import BLOCKS, PRODUCTS, Kernel, block_product, sum_of_products

_ALONE, _LIMB = 15, 14  # bits of a limb that has the sign alone, and of one among others
_BOTH = 25  # bits of two limbs whose products `plan` adds up in int32, 64 at least at a time
_LIMBS = 3  # of a tensor, at most


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


PRODUCTS[BLOCKS] = product
