"""Products of two tensors in an accumulator of one's choice: `matmul(a, b, accumulator)`.

Integers are QTensors of one exponent; floats are FloatTensors and BlockScaled tensors, whose significands and
exponents meet in integers. An exact sum stands on one grid: in int64 where a bound says that it fits, else in
Python's integers. A step adds two numbers in 60 bits: where the lesser loses bits, their being there is
kept, and no step rounds to so many that more would count.

Defined by `spec/accumulators.py: narrow`, `spec/accumulators.py: once`, `spec/accumulators.py: stepped`,
`spec/accumulators.py: windowed`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from intnet.errors import ContainerError, FormatError, NumberError, ShapeError
from intnet.exact import small_floats
from intnet.exact.parts import ONE, Parts, bit_length, parts
from intnet.numbers.accumulators import Accumulator, Narrow, Once, Stepped, Window
from intnet.numbers.batch_sums import joins
from intnet.numbers.microscaling import BlockScaled
from intnet.numbers.qtensor import INT64_BOUND, QTensor, container
from intnet.numbers.rounding import Rounding, how
from intnet.numbers.small_floats import Float, FloatTensor

CHUNK = 1024
_APART = 1 << 16  # exponents of what is summed at once
_FAR = -(1 << 40)  # the exponent of 0, below all others
Operand = QTensor | FloatTensor | BlockScaled


def matmul(a: Operand, b: Operand, accumulator: Accumulator, where: str = "") -> QTensor | FloatTensor:
    """a (M, K) @ b (K, N), each sum over K in `accumulator`.

    Narrow: of QTensors with one exponent each, a QTensor; any other: a FloatTensor in its format.
    ShapeError, FormatError for operands that do not go with it; NumberError for a NaN, an infinity, and a sum
    that is none in the format; ContainerError for integers too wide or too far apart to be summed.

    Defined by `spec/accumulators.py: narrow`, `spec/accumulators.py: once`, `spec/accumulators.py: stepped`,
    `spec/accumulators.py: windowed`.
    """
    where = where or "matmul"
    if not isinstance(accumulator, Accumulator):
        raise FormatError(f"{where}: accumulator = {accumulator!r}: use Narrow, Once, Stepped or Window")
    for x in (a, b):
        if not isinstance(x, Operand):
            raise FormatError(f"{where}: a {type(x).__name__} has no format: quantize(x, format) gives one")
    if len(a.shape) != 2 or len(b.shape) != 2 or a.shape[1] != b.shape[0]:
        raise ShapeError(f"{where}: shapes {a.shape} and {b.shape} are not (M, K) and (K, N)")
    if isinstance(accumulator, Narrow):
        return narrow(a, b, accumulator, where)
    format, rounding = accumulator.format, how(accumulator.rounding, where=where)
    left, right = significands(a, where), significands(b, where)
    if isinstance(accumulator, Once):
        total = _exact(left, right)
    elif isinstance(accumulator, Stepped):
        total = _stepped(left, right, accumulator, rounding)
    else:
        total = _windowed(left, right, (_least(a), _least(b)), accumulator, rounding)
    return FloatTensor(_words(total, format, rounding), format)


def significands(x: Operand, where: str) -> QTensor:
    """The same values as int64 codes of at most 24 bits, with an exponent an element."""
    q = x if isinstance(x, QTensor) else x.to_qtensor()
    if q.bound >= 1 << 24:
        q = QTensor(q.codes, q.exponent)  # whose bound is what is there
    if q.bound >= 1 << 24:
        raise ContainerError(f"{where}: codes of {q.width} bits; sums of floats take 24 and a sign")
    exponent = np.broadcast_to(q.exponent, q.shape).astype(np.int64)
    return QTensor(q.codes.astype(np.int64), exponent, bound=q.bound)


# -- integers ----------------------------------------------------------------------------------------


def narrow(a: Any, b: Any, accumulator: Narrow, where: str = "") -> QTensor:
    """a (M, K) @ b (K, N) in two's complement of so many bits.

    A sum that wraps is the exact one, wrapped once; one that saturates goes step by step. FormatError for
    what has no integer codes at one exponent.

    Defined by `spec/accumulators.py: narrow`.
    """
    if not all(isinstance(x, QTensor) and isinstance(x.exponent, int) for x in (a, b)):
        raise FormatError(
            f"{where or 'product'}: a narrow accumulator adds codes of QTensors of one exponent"
        )
    if a.bound * b.bound >= INT64_BOUND >> 1:
        raise ContainerError(f"{where or 'product'}: products of {a.width} by {b.width} bits: beyond int64")
    edge = 1 << (accumulator.bits - 1)
    left, right = a.codes.astype(np.int64), b.codes.astype(np.int64)
    if accumulator.overflow == "wrap":
        codes = np.matmul(left, right)  # modulo 2**64, of which 2**bits is a divisor
        codes = ((codes + edge) & (2 * edge - 1)) - edge
    else:
        codes = _in_order(
            lambda k: left[:, k, None] * right[k],
            lambda x, y: np.clip(x + y, -edge, edge - 1),
            np.zeros((left.shape[0], right.shape[1]), np.int64),
            left.shape[1],
            accumulator.order,
        )
    return QTensor(codes.astype(container(edge - 1)), a.exponent + b.exponent, bound=edge)


def _in_order(
    term: Callable[[int], Any], add: Callable[[Any, Any], Any], zero: Any, terms: int, order: str
) -> Any:
    """The sum of `terms` terms. Defined by `spec/accumulators.py: in_order`."""
    if order == "tree":
        return _tree(term, add, zero, terms)
    size = CHUNK if order == "chunks" else max(terms, 1)
    total, chunks = zero, []
    for first in range(0, terms, size):
        total = zero
        for k in range(first, min(first + size, terms)):
            total = add(total, term(k))
        chunks.append(total)
    if order == "chunks":
        total = zero
        for chunk in chunks:
            total = add(total, chunk)
    return total


def _tree(term: Callable[[int], Any], add: Callable[[Any, Any], Any], zero: Any, terms: int) -> Any:
    """Adjacent pairs, as groups of a batch meet: one partial sum a level waits for its neighbour."""
    waiting = [] if terms else [zero]
    for k in range(terms):
        waiting.append(add(zero, term(k)))
        for _ in range(joins(k, k == terms - 1)):
            last = waiting.pop()
            waiting.append(add(waiting.pop(), last))
    return waiting[0]


# -- floats --------------------------------------------------------------------------------------------


def _grid(q: QTensor) -> tuple[np.ndarray, int, int]:
    """(codes on one grid, as Python's integers where they need be, its exponent, a bound)."""
    exponent = np.where(q.codes != 0, q.exponent, np.iinfo(np.int64).max)
    least = int(exponent.min(initial=np.iinfo(np.int64).max))
    if least == np.iinfo(np.int64).max:
        return np.zeros(q.shape, np.int64), 0, 0
    up = np.where(q.codes != 0, q.exponent - least, 0)
    if up.max() >= _APART:
        raise ContainerError(
            f"matmul: exponents of an operand are {int(up.max()):,} apart; sums of {_APART:,} bits are made"
        )
    bound = int(np.abs(q.codes).max()) << int(up.max())
    if bound < INT64_BOUND:
        return q.codes << up, least, bound
    return q.codes.astype(object) << up.astype(object), least, bound


def _exact(a: QTensor, b: QTensor) -> Parts:
    """The exact sums, in as many bits as a rounding looks at."""
    (left, e, bound), (right, f, other) = _grid(a), _grid(b)
    shape = a.shape[0], b.shape[1]
    none = np.zeros(shape, np.int8)
    if not bound or not other:
        left, right = np.zeros(a.shape, np.int64), np.zeros(b.shape, np.int64)
    if bound * other * a.shape[1] < INT64_BOUND:
        total = np.matmul(left.astype(np.int64), right.astype(np.int64))
        return Parts(total < 0, np.abs(total).view(np.uint64), np.full(shape, e + f), none)
    sums = np.matmul(left.astype(object), right.astype(object)).reshape(-1).tolist()
    size, exponent = np.zeros(len(sums), np.uint64), np.zeros(len(sums), np.int64)
    for i, value in enumerate(sums):
        drop = max(abs(value).bit_length() - 61, 0)
        size[i] = abs(value) >> drop | (abs(value) & ((1 << drop) - 1) != 0)
        exponent[i] = e + f + drop
    negative = np.array([value < 0 for value in sums], np.bool_)
    return Parts(negative.reshape(shape), size.reshape(shape), exponent.reshape(shape), none)


def _words(total: Parts, format: Float, rounding: Rounding) -> np.ndarray:
    """Words of sums, in shape; NumberError for one beyond the format that does not saturate. Zero is +0."""
    total = total._replace(negative=total.negative & (total.size != 0))
    words, _, _ = small_floats.encode(total, format, rounding)
    magnitude = words & format.dtype.type((1 << (format.bits - 1)) - 1)
    if (magnitude > format.greatest).any():
        raise NumberError(
            f"{rounding.where}: a sum is beyond {format}; {format.to('saturate')} would limit it"
        )
    return np.where(magnitude == 0, format.dtype.type(0), words).reshape(total.size.shape)


def _parts(words: np.ndarray, format: Float) -> Parts:
    """What words of finite numbers stand for."""
    return parts(FloatTensor(words, format).to_qtensor())


def _term(a: QTensor, b: QTensor, k: int) -> Parts:
    """The products of column k and row k: at most 48 bits."""
    codes = a.codes[:, k, None] * b.codes[k]
    exponent = np.asarray(a.exponent)[:, k, None] + np.asarray(b.exponent)[k]
    return Parts(codes < 0, np.abs(codes).view(np.uint64), exponent, np.zeros(codes.shape, np.int8))


def added(x: Parts, y: Parts) -> Parts:
    """x + y of magnitudes below 2**48, in 61 bits, the last of which says whether there were more.

    Leading bits stand at 2**59. Where the lesser is moved down by 12 or less nothing is lost; by more, the
    sum has lost one leading bit at most, and the last bit stays below all that is rounded off.
    """
    ups = [np.where(z.size == 0, 0, 60 - bit_length(z.size)) for z in (x, y)]
    (x_size, y_size) = (z.size << up.astype(np.uint64) for z, up in zip((x, y), ups, strict=True))
    x_e, y_e = (np.where(z.size == 0, _FAR, z.exponent - up) for z, up in zip((x, y), ups, strict=True))
    top = np.maximum(x_e, y_e)
    sums = np.zeros(x.size.shape, np.int64)
    for size, e, negative in ((x_size, x_e, x.negative), (y_size, y_e, y.negative)):
        down = np.clip(top - e, 0, 63).astype(np.uint64)
        moved = size >> down | (size & ((ONE << down) - ONE) != 0)
        sums += np.where(negative, -moved.astype(np.int64), moved.astype(np.int64))
    return Parts(sums < 0, np.abs(sums).view(np.uint64), np.where(sums == 0, 0, top), x.special)


def _stepped(a: QTensor, b: QTensor, accumulator: Stepped, rounding: Rounding) -> Parts:
    """Each step rounded. Defined by `spec/accumulators.py: stepped`."""
    format, shape = accumulator.format, (a.shape[0], b.shape[1])

    def add(x: Parts, y: Parts) -> Parts:
        return _parts(_words(added(x, y), format, rounding), format)

    zero = _parts(np.zeros(shape, format.dtype), format)
    return _in_order(lambda k: _term(a, b, k), add, zero, a.shape[1], accumulator.order)


def _least(x: Operand) -> int | None:
    """The exponent of the least normal number of an operand whose subnormals keep it."""
    return x.format.least if isinstance(x, FloatTensor) else None


def _exponents(q: QTensor, least: int | None) -> np.ndarray:
    """floor(log2) of each value, of subnormals their least normal exponent; far below all others for 0."""
    lead = np.asarray(q.exponent) + bit_length(np.abs(q.codes).view(np.uint64)) - 1
    lead = lead if least is None else np.maximum(lead, least)
    return np.where(q.codes == 0, _FAR, lead)


def _windowed(
    a: QTensor, b: QTensor, least: tuple[int | None, int | None], window: Window, rounding: Rounding
) -> Parts:
    """Groups of products aligned and cut. Defined by `spec/accumulators.py: windowed`."""
    format, shape = window.format, (a.shape[0], b.shape[1])
    if bit_length(np.array(window.group + 1, np.uint64)) + format.m + window.guard > 58:
        raise ContainerError(f"{rounding.where}: {window} adds more bits than an int64 has")
    left, right = _exponents(a, least[0]), _exponents(b, least[1])
    acc = _parts(np.zeros(shape, format.dtype), format)
    for first in range(0, a.shape[1], window.group):
        group = range(first, min(first + window.group, a.shape[1]))
        lead = np.maximum(acc.exponent + bit_length(acc.size) - 1, format.least)
        top = np.where(acc.size == 0, _FAR, lead)
        for k in group:
            top = np.maximum(top, left[:, k, None] + right[k])
        unit = np.maximum(top, _FAR // 2) - format.m - window.guard
        sums = np.zeros(shape, np.int64)
        for part in (acc, *(_term(a, b, k) for k in group)):
            up = np.clip(part.exponent - unit, 0, 62).astype(np.uint64)
            down = np.clip(unit - part.exponent, 0, 63).astype(np.uint64)
            cut = np.where(part.size == 0, part.size, part.size << up >> down).astype(np.int64)
            sums += np.where(part.negative, -cut, cut)
        total = Parts(sums < 0, np.abs(sums).view(np.uint64), unit, acc.special)
        acc = _parts(_words(total, format, rounding), format)
    return acc
