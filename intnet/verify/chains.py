"""The definition's long sums by NumPy: the same order and roundings, many sums at a time.

    batch_dots(a, b, per_image)     float32.batch_dot32 of every row        batch_sums: float32.batch_sum32
    whole_dots(a, b)                exact sums of products of integers
    sum64(a)                        float64.sum64

Rows of a and b are sums; columns run over their terms. The definition's own integers take a microsecond a
fused multiply-add, too slow for sums over a whole batch; here one takes some nanoseconds. `tests` hold each
to the definition by ==, and every verification holds some of its sums to it once more.

A fused multiply-add is p = a*b, which float64 holds exactly (24 + 24 digits), and p + c in float64 rounded
to odd: TwoSum gives the sum's error, and where there is one the last bit of the sum becomes 1. Rounded once
more, to float32, that is p + c rounded once, since 53 >= 24 + 2 digits (Boldo and Melquiond 2008).
"""

import numpy as np

from intnet.spec.float32 import CHUNK, GROUP

WIDE = 1 << 22  # terms that are worked on at a time


def fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """float32 of a*b + c of float32 arrays, rounded once, ties to even."""
    return odd_sum(a.astype(np.float64) * b, c.astype(np.float64)).astype(np.float32)


def odd_sum(p: np.ndarray, c: np.ndarray) -> np.ndarray:
    """p + c in float64, rounded to odd; finite, and far from float64's limits."""
    total = p + c
    part = total - p
    error = (p - (total - part)) + (c - part)
    bits = total.view(np.int64)
    even = (error != 0) & (bits & 1 == 0)
    if not even.any():
        return total
    outward = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(even, bits + outward, bits).view(np.float64)


def _folded(columns: np.ndarray, size: int) -> np.ndarray:
    """[size, pieces, rows] of [terms, rows]: pieces of `size` terms, the last one filled up with zeros."""
    terms, rows = columns.shape
    pieces = -(-terms // size)
    if pieces * size != terms:
        filled = np.zeros((pieces * size, rows), columns.dtype)
        filled[:terms] = columns
        columns = filled
    return columns.reshape(pieces, size, rows).transpose(1, 0, 2)


def _one_by_one(*factors: np.ndarray) -> np.ndarray:
    """[..] of [terms, ..]: terms, or products of two factors, joined from zero, ascending.

    A zero that fills up a piece, or a term of padding, leaves every sum as it is, but for a zero's sign.
    """
    total = np.zeros(factors[0].shape[1:], np.float32)
    for term, *by in zip(*factors, strict=True):
        total = fma(term, by[0], total) if by else total + term
    return total


def _chained(*factors: np.ndarray) -> np.ndarray:
    """float32[rows] of [terms, rows]: chunks of CHUNK terms, then the chunks' sums, each ascending."""
    return _one_by_one(_one_by_one(*(_folded(part, min(CHUNK, part.shape[0])) for part in factors)))


def _tree(sums: np.ndarray) -> np.ndarray:
    """Groups' sums [groups, rows] in a binary tree by group number."""
    while len(sums) > 1:
        even = len(sums) // 2 * 2
        sums = np.concatenate([sums[0:even:2] + sums[1:even:2], sums[even:]])
    return sums[0]


def _over_batch(per_image: int, *factors: np.ndarray) -> np.ndarray:
    """float32[rows] of [rows, terms]: all rows and groups of GROUP images at once; then the tree."""
    rows, terms = factors[0].shape
    if terms == 0:
        return np.zeros(rows, np.float32)
    size = GROUP * per_image
    whole = terms // size * size
    sums = []
    for part in (slice(0, whole), slice(whole, terms)):
        count = part.stop - part.start
        if count:
            step = min(size, count)
            columns = (x[:, part].reshape(rows * (count // step), step).T for x in factors)
            sums.append(_chained(*columns).reshape(rows, -1).T)
    return _tree(np.concatenate(sums))


def _in_parts(per_image: int, *factors: np.ndarray) -> np.ndarray:
    """`_over_batch`, as many rows at a time as WIDE says."""
    rows, terms = factors[0].shape
    step = max(1, WIDE // max(terms, 1))
    parts = [_over_batch(per_image, *(x[k : k + step] for x in factors)) for k in range(0, rows, step)]
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)


def batch_dots(a: np.ndarray, b: np.ndarray, per_image: int) -> np.ndarray:
    """float32[rows]: `float32.batch_dot32` of each row of two float32 arrays [rows, terms]."""
    return _in_parts(per_image, a, b)


def batch_sums(a: np.ndarray, per_image: int) -> np.ndarray:
    """float32[rows]: `float32.batch_sum32` of each row of a float32 array [rows, terms]."""
    return _in_parts(per_image, a)


def sum64(a: np.ndarray) -> float:
    """`float64.sum64` of a float64 array, ascending."""
    parts = np.zeros(1)
    whole = a.size // CHUNK * CHUNK
    for rows in (a.reshape(-1)[:whole].reshape(-1, CHUNK), a.reshape(1, -1)[:, whole:]):
        if rows.size:
            parts = np.concatenate([parts, np.add.accumulate(rows, axis=1)[:, -1]])
    return float(np.add.accumulate(parts)[-1])


# -- exact sums ------------------------------------------------------------------------------------


def whole_dots(a: np.ndarray, b: np.ndarray) -> list[int]:
    """The exact sum of products of each row of two integer arrays [rows, terms]."""
    if peak(a) * peak(b) * max(a.shape[1], 1) < 1 << 63:
        return np.einsum("ij,ij->i", a.astype(np.int64), b.astype(np.int64)).tolist()
    rows = zip(a.tolist(), b.tolist(), strict=True)
    return [sum(p * q for p, q in zip(left, right, strict=True)) for left, right in rows]


def peak(a: np.ndarray) -> int:
    """max |a| of integers, as one of Python's."""
    return max(int(a.max(initial=0)), -int(a.min(initial=0)))


def float_dots(a: np.ndarray, b: np.ndarray) -> list[tuple[int, int]]:
    """The exact sum of products of each row of two float32 arrays, as (numerator, exponent).

    float32 values of few digits (block float): a product is a whole number below 2^48 times a power of two;
    products of one power are added as whole numbers.
    """
    out = []
    for left, right in zip(a, b, strict=True):
        fractions, powers = np.frexp(left.astype(np.float64) * right)
        whole = np.ldexp(fractions, 48).astype(np.int64)  # exact: 24 + 24 digits
        least = int(powers.min(initial=0))
        high, low = whole >> 24, whole & 0xFFFFFF  # sums of 2^28 of either stay within float64's 53 digits
        total = 0
        at = (powers - least).astype(np.int64)
        for part, up in ((high, 24), (low, 0)):
            for power, count in enumerate(np.bincount(at, weights=part.astype(np.float64)).tolist()):
                total += int(count) << (power + up)
        out.append((total, least - 48))
    return out
