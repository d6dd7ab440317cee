"""A program on many images at once, in NumPy's int64: every value is proven to fit.

Sums of products go through float64 where their interval lies within 2^53: there they are exact in any order.
Float32 is NumPy's, an operation after the other; blocks are held as the numbers that they stand for.
Tested against `interpret.py`.
"""

from collections.abc import Callable, Iterator
from functools import reduce
from math import prod

import numpy as np

from intnet.datasets import Dataset
from intnet.datasets.dataset import Images
from intnet.errors import ConfigError
from intnet.exact.blocks.block_loops import LEAST, SIDE
from intnet.export import block_float, digits
from intnet.export import program as p
from intnet.export.block_ops import EXACT, BlockProduct, Blocks, Plus
from intnet.export.program import Program
from intnet.export.values import CODES, FLOAT32, Op, Value
from intnet.methods.method import to_float32
from intnet.numbers.qtensor import QTensor
from intnet.training.inference import EVALUATION_BATCH, Scores, as_codes, scores


def logits(program: Program, images: Images) -> np.ndarray:
    """int64 (N, classes): codes of images of a data set (N, H, W, C)."""
    return outputs(program, images)[0]


def outputs(program: Program, images: Images) -> tuple[np.ndarray, np.ndarray]:
    """`logits`, and int64 (N, 1): the exponent of each image's, which are all alike without scales.

    Of a program in float32 these are its very logits, and exponents 0.
    """
    parts = range(0, len(images), EVALUATION_BATCH)
    made = [_outputs(program, np.asarray(images[k : k + EVALUATION_BATCH])) for k in parts]
    return np.concatenate([codes for codes, _ in made]), np.concatenate([e for _, e in made])[:, None]


def logits32(program: Program, images: Images) -> np.ndarray:
    """float32 (N, classes): the logits' values, rounded once."""
    codes, exponents = outputs(program, images)
    return codes if program.logits.form == FLOAT32 else to_float32(QTensor(codes, exponents))


def evaluate(program: Program, data: Dataset) -> Scores:
    """Of the test images, by float32 logits; ConfigError where there are none, or of other codes."""
    if not len(data.test_labels):
        raise ConfigError(f"data set {data.name!r} has no test part")
    given, known = as_codes(np.asarray(data.test_images[:1]), data.exponent), program.images
    if (int(given.exponent), given.bound) != (known.exponent, known.hi):
        raise ConfigError(
            f"data set {data.name!r} has codes up to {given.bound} at 2^{given.exponent}, the model takes "
            f"up to {known.hi} at 2^{known.exponent}: test images that are scaled as those it was trained on"
        )
    return scores(logits32(program, data.test_images), data.test_labels)


def _outputs(program: Program, images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    left, made, scales = program.readers(), dict[int, np.ndarray](), dict[int, np.ndarray]()

    def exponents(value: Value) -> np.ndarray:
        own = np.full(len(images), value.exponent if value.form == CODES else 0)
        return own if value.scale is None else own + scales[value.scale]

    for place, (op, value) in enumerate(zip(program.ops, program.values, strict=True)):
        read = [made[k] for k in op.reads] or [images.astype(np.int64)]
        if value.scale == place:
            values = [program.values[k] for k in op.reads]
            given = [exponents(one) for one in values]
            made[place], scales[place] = block_float.RULES[type(op)](op, values, given, *read)
        elif isinstance(op, Blocks | BlockProduct):
            made[place] = BLOCK_RULES[type(op)](op, program.values[op.reads[0]], value, *read)
        else:
            made[place] = RULES[type(op)](op, value, *read)
        for k in op.reads:
            left[k] -= 1
            if not left[k]:
                del made[k]
    return made[len(program.ops) - 1], exponents(program.logits)


def _windows(x: np.ndarray, op: p.Windowed, out: Value, fill: float = 0) -> Iterator[np.ndarray]:
    """What all windows read at each place of the kernel; fill: what padding is."""
    (top, side), (sh, sw), (rows, cols) = op.padding, op.stride, out.shape[:2]
    x = np.pad(x, ((0, 0), (top, top), (side, side), (0, 0)), constant_values=fill)
    for ky, kx in np.ndindex(*op.kernel):
        yield x[:, ky : ky + sh * (rows - 1) + 1 : sh, kx : kx + sw * (cols - 1) + 1 : sw]


def _product(op: p.Product, out: Value, x: np.ndarray) -> np.ndarray:
    kind = np.float64 if out.peak < EXACT and _below(x) and _below(op.weight) else np.int64
    return _sums(op, out, x.astype(kind), op.weight.astype(kind)).astype(np.int64)


def _sums(op: p.Product | BlockProduct, out: Value, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Both of one type, which holds every sum."""
    if w.ndim == 2:
        return np.asarray(x @ w.T)
    total, places = np.zeros((len(x), *out.shape), w.dtype), w.reshape(*w.shape[:2], -1)
    each, own = len(w) // op.groups, w.shape[1]
    for k, part in enumerate(_windows(x, op, out)):
        for g in range(op.groups):
            outs, ins = slice(g * each, (g + 1) * each), slice(g * own, (g + 1) * own)
            total[..., outs] = total[..., outs] + part[..., ins] @ places[outs, :, k].T
    return total


def _below(x: np.ndarray) -> bool:
    return not x.size or (int(x.max()) < EXACT and int(x.min()) > -EXACT)


def _affine(op: p.Affine, out: Value, x: np.ndarray) -> np.ndarray:
    made: np.ndarray = op.a * x + op.b
    return made


def _add(op: p.Add, out: Value, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (x << op.shifts[0]) + (y << op.shifts[1])


def _round(op: p.Round, out: Value, x: np.ndarray) -> np.ndarray:
    made = block_float.divided(x * op.num, op.den)
    return made if op.lo is None else np.clip(made, op.lo, op.hi)


def _curve(op: p.Curve, out: Value, x: np.ndarray) -> np.ndarray:
    made: np.ndarray = op.codes[np.searchsorted(op.steps, x, side="right")]
    return made


def _relu(op: Op, out: Value, x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def _max_pool(op: p.Pool, out: Value, x: np.ndarray) -> np.ndarray:
    below = out.lo if out.form == CODES else -np.inf  # where all of a window's own are less, which is never
    return reduce(np.maximum, _windows(x, op, out, below))


def _sum_pool(op: p.Pool, out: Value, x: np.ndarray) -> np.ndarray:
    return reduce(np.add, _windows(x, op, out))


def _mean_pool(op: p.Pool, out: Value, x: np.ndarray) -> np.ndarray:
    return np.asarray(_sum_pool(op, out, x) / np.float32(prod(op.kernel)))


def _norm(op: p.Norm, out: Value, x: np.ndarray) -> np.ndarray:
    """Of float32 that stays it."""
    return np.asarray((x - op.mean) * op.r * op.gamma + op.beta)


def _plus(op: Plus, out: Value, x: np.ndarray, *y: np.ndarray) -> np.ndarray:
    return np.asarray(x + (y[0] if op.b is None else op.b))


def _blocks(op: Blocks, given: Value, out: Value, x: np.ndarray) -> np.ndarray:
    """What the codes of a block stand for, which float32 has."""
    if given.form == CODES:
        x = np.ldexp(x.astype(np.float64), given.exponent).astype(np.float32)
    gap, bits = -x.shape[-1] % SIDE, op.widths(out.shape)[..., None].astype(np.int64)
    each = np.pad(x.astype(np.float64), [(0, 0)] * (x.ndim - 1) + [(0, gap)])
    each = each.reshape(*x.shape[:-1], -1, SIDE)
    top = np.abs(each).max(-1, keepdims=True)
    unit = np.maximum(np.frexp(top)[1], LEAST) - np.maximum(bits, 1) + 1
    limit = (1 << np.maximum(bits, 1) - 1) - 1
    codes = np.clip(np.rint(np.ldexp(each, -unit)), -limit, limit) * (top >= 2.0 ** (LEAST - 1))
    made = np.ldexp(codes, unit).reshape(*x.shape[:-1], -1)
    return made[..., : x.shape[-1]].astype(np.float32)


def _block_product(op: BlockProduct, given: Value, out: Value, x: np.ndarray) -> np.ndarray:
    """Digit by digit, as `digits.py` has it."""
    lengths = digits.count(given.reach, given.exponent), max(op.digits) + 1
    sums = [np.zeros((len(x), *out.shape)) for _ in range(sum(lengths) - 1)]
    for low, part in digits.bands(x, given.exponent, lengths[0]):
        for high, weight in op.digits.items():
            sums[low + high] += _sums(op, out, part, weight.astype(np.float64))
    return digits.rounded(sums, given.exponent + op.exponent)


def _images(op: Op, out: Value, x: np.ndarray) -> np.ndarray:
    return x.reshape(len(x), *out.shape)


RULES: dict[type[Op], Callable[..., np.ndarray]] = {
    p.Images: _images,
    p.Product: _product,
    p.Affine: _affine,
    p.Add: _add,
    p.Round: _round,
    p.Curve: _curve,
    p.Relu: _relu,
    p.MaxPool: _max_pool,
    p.SumPool: _sum_pool,
    p.MeanPool: _mean_pool,
    p.Flatten: _images,
    p.Norm: _norm,
    Plus: _plus,
}
BLOCK_RULES: dict[type[Op], Callable[..., np.ndarray]] = {Blocks: _blocks, BlockProduct: _block_product}
