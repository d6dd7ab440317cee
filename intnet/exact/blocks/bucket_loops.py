"""Loops of the bucketed codecs: from float32 to packed codes and back; what they mean: `buckets.py`.

A tensor is read flat; bucket k is the elements k*bucket .. (k+1)*bucket - 1, the last one short. A task
takes whole buckets, as many as PART elements hold, or a piece of one, so a bucket's words begin with a word.
The grade of a bucket is its bits, of levels their number L.
Everything is float32, one IEEE rounding an operation, in the order written. Read in this order: the
rules of one bucket, its codes, its values again, then the loops over all.
"""

import numpy as np

from intnet.exact.blocks.quotient import divided, near_one
from intnet.machine.instructions import borrowed, fma32, wide_vectors
from intnet.machine.jit import njit, pjit, prange, rule
from intnet.numbers.batch_sums import joins, settle
from intnet.numbers.bitpack import PART, SMALL, pack_bytes, pack_words, unpack_bytes, unpack_words
from intnet.numbers.fp32 import CHUNK
from intnet.numbers.rng import draw_part

AFFINE, STOCHASTIC, LEVELS, SYMMETRIC = range(4)  # kinds of codes
FINITE, NOT_A_NUMBER, TOO_WIDE = range(3)  # what became of a bucket

F32 = np.ndarray

_SIGN = np.int32(0x7FFFFFFF)
_LARGEST = np.int32(0x7F7FFFFF)  # the last float32, as bits
_TINY = np.float32(1e-8)  # at least, the scale of a bucket of levels
_BELOW_ONE = np.float32(1.0 - 1e-8)  # float32 has no number there: it is 1
_WORDS = np.float32(2.0**32)  # random words there are
_MOST = np.float32(2.0**32 - 2.0**8)  # the last float32 below
_ZERO, _ONE = np.float32(0), np.float32(1)
_NONE = np.int64(0)
_STACK = 64  # sums of groups that wait for others: more than 2^60 groups leave


# --- rules of one bucket ------------------------------------------------------------------------


@rule
def extremes(bits: np.ndarray) -> tuple[np.int32, np.int32]:
    """(least, greatest) of float32 given as int32 bits, as integers that order as the values do."""
    wide_vectors()
    low, high = _SIGN, np.int32(~_SIGN)
    for i in range(bits.size):
        key = np.int32(bits[i] ^ np.int32(np.int32(bits[i] >> np.int32(31)) & _SIGN))
        low, high = np.int32(min(low, key)), np.int32(max(high, key))
    return low, high


@rule
def _value(key: np.int32) -> np.float32:
    """The float32 of one of `extremes`."""
    return np.int32(key ^ ((key >> np.int32(31)) & _SIGN)).view(np.float32)


@rule
def affine_step(low: np.float32, high: np.float32, bits: int) -> tuple[np.float32, np.float32]:
    """(s, z) of a bucket between two values; (0, the least value) where s is 0: the bucket is constant.

    Defined by `spec/buckets.py: scaling`.
    """
    s = (high - low) / np.float32((np.int64(1) << np.int64(bits)) - 1)
    if s == _ZERO:
        return _ZERO, low + _ZERO  # -0 becomes +0
    return s, np.rint(-low / s) + _ZERO


@njit
def sum_of_squares(x: F32, first: int, of_group: int) -> np.float32:
    """Sum of squares of elements first .. of a tensor that has `of_group` elements a group of images.

    `fma32` ascending; groups, chunks and the tree are those of `numbers/batch_sums.py`, by the groups' own
    numbers: groups before the bucket count as sums of 0.

    Defined by `spec/buckets.py: sum_of_squares`.
    """
    group, last = first // of_group, (first + x.size - 1) // of_group
    stack, top, begin = np.zeros((_STACK, 1), np.float32), joins(group, True), 0
    for now in range(group, last + 1):
        end, total = min((now + 1) * of_group - first, x.size), _ZERO
        for at in range(begin, end, CHUNK):
            part = _ZERO
            for i in range(at, min(at + CHUNK, end)):
                part = fma32(x[i], x[i], part)
            total = total + part
        stack[top, 0], begin = total, end
        top = settle(stack, top, now, now == last) + 1
    return np.float32(stack[0, 0])


@rule
def goes_up(fraction: np.float32, word: np.uint32) -> np.bool:
    """word < floor(fraction * 2^32): the stochastic rule; a fraction may have been rounded up to 1.

    Defined by `spec/buckets.py: affine_way`.
    """
    return np.uint32(min(fraction * _WORDS, _MOST)) > word or fraction >= _ONE


# --- codes of one bucket, or of a piece ---------------------------------------------------------


@rule
def _inner_codes(x: F32, s: np.float32, z: np.float32, codes: np.ndarray) -> None:
    """q = round(x/s + z), where `measure` says that this is within 0 .. 2^bits - 1, bits up to 8.

    Defined by `spec/buckets.py: affine_way`.
    """
    wide_vectors()
    k, t, inverse = near_one(s)
    for i in range(x.size):
        codes[i] = np.uint8(np.int32(np.rint(divided(x[i] * k, t, inverse) + z)))


@rule
def _affine_codes(
    x: F32, s: np.float32, z: np.float32, bits: int, words: np.ndarray, codes: np.ndarray
) -> np.int32:
    """q = clip(R(x/s + z), 0, 2^bits - 1), bits up to 8; how many were clipped.

    R(u) is floor(u) + [word < frac(u)], to nearest where `words` is empty.

    Defined by `spec/buckets.py: affine_way`.
    """
    wide_vectors()
    k, t, inverse = near_one(s)
    top, count = np.float32((1 << bits) - 1), np.int32(0)
    for i in range(x.size):
        u = divided(x[i] * k, t, inverse) + z
        if words.size:
            floor = np.floor(u)
            r = floor + (_ONE if goes_up(u - floor, words[i]) else _ZERO)
        else:
            r = np.rint(u)
        q = min(max(r, _ZERO), top)
        count = np.int32(count + np.int32(q != r))
        codes[i] = np.uint8(np.int32(q))
    return count


@rule
def _wide_codes(x: F32, s: np.float32, z: np.float32, bits: int, words: np.ndarray, codes: np.ndarray) -> int:
    """As above for any bits.

    Defined by `spec/buckets.py: affine_way`.
    """
    top, count = (np.int64(1) << np.int64(bits)) - np.int64(1), 0
    for i in range(x.size):
        u = x[i] / s + z
        if words.size:
            floor = np.floor(u)
            r = np.int64(floor) + np.int64(goes_up(u - floor, words[i]))
        else:
            r = np.int64(np.rint(u))
        q = min(max(r, _NONE), top)
        count += q != r
        codes[i] = np.uint64(q)
    return count


@rule
def _level_codes(x: F32, scale: np.float32, levels: int, words: np.ndarray, codes: np.ndarray) -> None:
    """sign * (idx + up) + L, L levels: idx and its fraction of min(|x|/scale, 1) * L.

    Defined by `spec/buckets.py: level_way`.
    """
    factor = np.float32(levels)
    for i in range(x.size):
        u = min(abs(x[i]) / scale, _BELOW_ONE) * factor
        floor = np.floor(u)
        m = np.int64(floor) + np.int64(goes_up(u - floor, words[i]))
        codes[i] = levels - m if x[i] < _ZERO else levels + m


@rule
def _symmetric_codes(x: F32, s: np.float32, bits: int, codes: np.ndarray) -> np.int64:
    """clip(round(x/s), -2^(bits-1), 2^(bits-1) - 1) + 2^(bits-1); how many were clipped.

    x/s may be infinite. Defined by `spec/buckets.py: symmetric_way`.
    """
    half, count = np.int64(1) << np.int64(bits - 1), np.int64(0)
    end = np.float32(half)
    for i in range(x.size):
        r = np.rint(x[i] / s)
        count += np.int64(r < -end or r >= end)
        codes[i] = min(np.int64(min(max(r, -end), end)), half - 1) + half
    return count


# --- and its values again -----------------------------------------------------------------------


@rule
def _affine_values(codes: np.ndarray, s: np.float32, z: np.float32, out: F32) -> None:
    """s * (q - z); z itself where s is 0. Defined by `spec/buckets.py: affine_back`."""
    if s == _ZERO:
        out[:] = z
        return
    for i in range(out.size):
        out[i] = s * (np.float32(codes[i]) - z)


@rule
def _symmetric_values(codes: np.ndarray, s: np.float32, bits: int, out: F32) -> None:
    """s * q. Defined by `spec/buckets.py: symmetric_back`."""
    half = np.int64(1) << np.int64(bits - 1)
    for i in range(out.size):
        out[i] = s * np.float32(np.int64(codes[i]) - half)


@rule
def _level_values(codes: np.ndarray, scale: np.float32, levels: int, out: F32) -> None:
    """(idx + up)/L * scale * sign. Defined by `spec/buckets.py: level_back`."""
    factor = np.float32(levels)
    for i in range(out.size):
        m = np.int64(codes[i]) - levels
        size = (np.float32(abs(m)) / factor) * scale
        out[i] = -size if m < 0 else size


# --- a bucket, or a piece of one, packed --------------------------------------------------------


@njit
def code_width(kind: int, grade: int) -> int:
    """Bits of a packed code: there are 2^bits of them, of levels 2L + 1.

    Defined by `spec/buckets.py: width_of`.
    """
    if kind != LEVELS:
        return grade
    width = 0
    while (2 * grade) >> width:
        width += 1
    return width


@njit
def reach(task: int, bucket: int, n: int) -> tuple[int, int]:
    """(first element of a task, one past its last) of a tensor of n."""
    if bucket <= PART:
        size = PART // bucket * bucket
        return task * size, min((task + 1) * size, n)
    pieces = (bucket + PART - 1) // PART
    start = task // pieces * bucket
    first = start + task % pieces * PART
    return first, min(first + PART, start + bucket, n)


@njit
def measure(
    x: F32, kind: int, bits: int, first: int, of_group: int, scales: F32, zeros: F32, k: int
) -> tuple[int, bool]:
    """Set the scale and zero point of bucket k; whether its values are finite and not too far apart.

    And whether rounding to nearest clips no code: round(x/s + z) rises with x, from 0 on, the least one's.
    first, of_group: of `sum_of_squares`; of_group is 0 where levels are scaled by the greatest magnitude.

    Defined by `spec/buckets.py: scaling`, `spec/buckets.py: level_scale`.
    """
    low, high = extremes(x.view(np.int32))
    if high > _LARGEST or low < ~_LARGEST:
        return NOT_A_NUMBER, False
    least, greatest = _value(low), _value(high)
    if kind == LEVELS:
        largest = np.sqrt(sum_of_squares(x, first, of_group)) if of_group else max(-least, greatest)
        scales[k] = max(largest, _TINY)
        return FINITE if np.isfinite(scales[k]) else TOO_WIDE, False
    if not np.isfinite(greatest - least):
        return TOO_WIDE, False
    s, z = affine_step(least, greatest, bits)
    scales[k], zeros[k] = s, z
    top = np.float32((np.int64(1) << np.int64(bits)) - 1)
    if not (np.isfinite(s * z) and np.isfinite(s * (top - z))):  # codes lie up to s/2 outside
        return TOO_WIDE, False
    return FINITE, s > _ZERO and np.rint(greatest / s + z) <= top


@rule
def _pack_piece(
    x: F32, kind: int, grade: int, s: np.float32, z: np.float32, inside: bool, words: np.ndarray,
    small: np.ndarray, wide: np.ndarray, out: np.ndarray, at: int,
) -> np.int64:  # fmt: skip
    """Codes of x to out[at ..]; how many were clipped. inside: of `measure`; small, wide: room for codes."""
    n, width, clipped = x.size, code_width(kind, grade), np.int64(0)
    if width <= SMALL:
        if kind == LEVELS:
            _level_codes(x, s, grade, words, small)
        elif kind == SYMMETRIC:
            clipped = _symmetric_codes(x, s, grade, small)
        elif s == _ZERO:
            small[:n] = 0
        elif kind == AFFINE and inside:
            _inner_codes(x, s, z, small)
        else:
            clipped = np.int64(_affine_codes(x, s, z, grade, words, small))
        small[n : (n + 7) // 8 * 8] = 0
        pack_bytes(small, n, width, out, at)
        return clipped
    if kind == LEVELS:
        _level_codes(x, s, grade, words, wide)
    elif kind == SYMMETRIC:
        clipped = _symmetric_codes(x, s, grade, wide)
    elif s == _ZERO:
        wide[:n] = 0
    else:
        clipped = np.int64(_wide_codes(x, s, z, grade, words, wide))
    pack_words(wide, n, width, out, at)
    return clipped


@rule
def _unpack_piece(
    words: np.ndarray, at: int, kind: int, grade: int, s: np.float32, z: np.float32, small: np.ndarray,
    wide: np.ndarray, out: F32,
) -> None:  # fmt: skip
    """The values of the codes at words[at ..]."""
    width = code_width(kind, grade)
    if width <= SMALL:
        unpack_bytes(words, at, out.size, width, small)
        if kind == LEVELS:
            _level_values(small, s, grade, out)
        elif kind == SYMMETRIC:
            _symmetric_values(small, s, grade, out)
        else:
            _affine_values(small, s, z, out)
        return
    unpack_words(words, at, out.size, width, wide)
    if kind == LEVELS:
        _level_values(wide, s, grade, out)
    elif kind == SYMMETRIC:
        _symmetric_values(wide, s, grade, out)
    else:
        _affine_values(wide, s, z, out)


# --- all buckets --------------------------------------------------------------------------------


@rule
def _encode_part(
    x: F32, first: int, last: int, bucket: int, kind: int, of_group: int, origin: int, grades: np.ndarray,
    starts: np.ndarray, measured: bool, scales: F32, zeros: F32, words: np.ndarray, small: np.ndarray,
    wide: np.ndarray, out: np.ndarray, found: np.ndarray,
) -> int:  # fmt: skip
    """Elements first .. last-1 of `encode`; how many codes were clipped. words: theirs."""
    x, words, small, wide, out = borrowed(x), borrowed(words), borrowed(small), borrowed(wide), borrowed(out)
    scales, zeros, grades, starts = borrowed(scales), borrowed(zeros), borrowed(grades), borrowed(starts)
    clipped = 0
    for start in range(first, last, min(bucket, PART)):
        k, piece = start // bucket, x[start : min(start + min(bucket, PART), last)]
        grade, inside = grades[k], False
        if not measured:
            found[0], inside = measure(piece, kind, grade, start + origin, of_group, scales, zeros, k)
            if found[0] != FINITE:
                return clipped
        at, z = starts[k] + (start - k * bucket) // 64 * code_width(kind, grade), _ZERO
        if zeros.size:
            z = zeros[k]
        drawn = words[start - first :]
        clipped += _pack_piece(piece, kind, grade, scales[k], z, inside, drawn, small, wide, out, at)
    return clipped


@pjit
def encode(
    team: int, x: F32, bucket: int, kind: int, of_group: int, origin: int, grades: np.ndarray,
    starts: np.ndarray, measured: bool, above: np.uint64, seed: np.uint64, scales: F32, zeros: F32,
    out: np.ndarray, found: np.ndarray, clipped: np.ndarray,
) -> None:  # fmt: skip
    """Packed codes, scales and zero points of flat x; tasks: `reach`.

    starts: the first words of buckets in `out`; above, seed: of random words, see `rng.draw_part`
    of_group: of `measure`; origin: the number of the first element; measured: scales and zeros are given
    found, clipped: of tasks, see FINITE, and codes clipped

    Defined by `spec/buckets.py: save`.
    """
    drawn, room = 0 if kind in (AFFINE, SYMMETRIC) else PART + 6, 0
    if code_width(kind, grades.max()) > SMALL:
        room = PART
    for task in prange(team, clipped.size):
        first, last = reach(task, bucket, x.size)
        small, wide, words = np.empty(PART, np.uint8), np.empty(room, np.uint64), np.empty(drawn, np.uint32)
        ahead = draw_part(words, first + origin, last - first, above, seed) if drawn else 0
        clipped[task] = _encode_part(
            x, first, last, bucket, kind, of_group, origin, grades, starts, measured, scales, zeros,
            words[ahead:], small, wide, out, found[task:],
        )  # fmt: skip


@rule
def _decode_part(
    words: np.ndarray, first: int, last: int, bucket: int, kind: int, grades: np.ndarray, starts: np.ndarray,
    scales: F32, zeros: F32, small: np.ndarray, wide: np.ndarray, out: F32,
) -> None:  # fmt: skip
    """Elements first .. last-1 of `decode`."""
    words, small, wide, out = borrowed(words), borrowed(small), borrowed(wide), borrowed(out)
    scales, zeros, grades, starts = borrowed(scales), borrowed(zeros), borrowed(grades), borrowed(starts)
    for start in range(first, last, min(bucket, PART)):
        k, piece = start // bucket, out[start : min(start + min(bucket, PART), last)]
        grade, z = grades[k], _ZERO
        if zeros.size:
            z = zeros[k]
        at = starts[k] + (start - k * bucket) // 64 * code_width(kind, grade)
        _unpack_piece(words, at, kind, grade, scales[k], z, small, wide, piece)


@pjit
def decode(
    team: int, words: np.ndarray, bucket: int, kind: int, grades: np.ndarray, starts: np.ndarray, scales: F32,
    zeros: F32, tasks: int, out: F32,
) -> None:  # fmt: skip
    """The values of packed codes, flat; tasks: how many `reach` cuts them into.

    Defined by `spec/buckets.py: affine_values`, `spec/buckets.py: level_values`,
    `spec/buckets.py: symmetric_values`.
    """
    room = PART if code_width(kind, grades.max()) > SMALL else 0
    for task in prange(team, tasks):
        first, last = reach(task, bucket, out.size)
        small, wide = np.empty(PART, np.uint8), np.empty(room, np.uint64)
        _decode_part(words, first, last, bucket, kind, grades, starts, scales, zeros, small, wide, out)
