"""The reference: a program on one image, in plain Python integers and fractions, as slow as it is plain.

Every other way to run a program is tested against this one, and this one against the definition.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import prod
from typing import Any, NamedTuple

import numpy as np

from intnet.export import program as p
from intnet.export.block_ops import BlockProduct, Blocks, Plus
from intnet.export.program import Program
from intnet.export.values import CODES, Op, Shape, Value
from intnet.spec import block_float, float_batch_norm
from intnet.spec.float32 import add32, chain32, div32, to_float32
from intnet.spec.formats import Scaled, quantize
from intnet.spec.tensor import Tensor

Codes = list[Any]  # of float32 and of blocks the numbers themselves, as fractions


class Made(NamedTuple):
    """Codes, and log2 of what 1 stands for: of float32 and of blocks it is 1."""

    codes: Codes
    exponent: int

    def real(self) -> list[Fraction]:
        """What they stand for."""
        return [code * Fraction(2) ** self.exponent for code in self.codes]


def logits(program: Program, image: Sequence[int]) -> Codes:
    """The codes of an image's logits, of its codes in the order (H, W, C)."""
    return outputs(program, image)[-1].codes


def outputs(program: Program, image: Sequence[int]) -> list[Made]:
    """What every operation makes."""
    made: list[Made] = []
    for op, value in zip(program.ops, program.values, strict=True):
        read = [made[k] for k in op.reads]
        if isinstance(op, p.Scaled | p.Norm):
            total = _sums(op, read) if isinstance(op, p.Scaled) else _normed(op, read[0])
            q: Any = quantize(total, Scaled(op.wl)) if op.wl else Made(total, 0)
            made.append(Made(q.codes, q.exponent))
            continue
        if isinstance(op, Blocks):
            read = [Made(read[0].real(), 0)]
        codes = RULES[type(op)](
            op, [one.codes for one in read] or [list(image)], [program.values[k] for k in op.reads], value
        )
        own = value.exponent if value.form == CODES else 0
        made.append(Made(codes, own + (0 if value.scale is None else made[value.scale].exponent)))
    return made


def _sums(op: p.Scaled, read: list[Made]) -> list[Fraction]:
    """(x + y + b) / den, rectified where that is asked for."""
    terms = [one.real() for one in read]
    if op.b is not None:
        b = Made(op.b.tolist(), op.exponent).real()
        terms.append([b[i % len(b)] for i in range(len(terms[0]))])
    sums = [sum(parts, Fraction(0)) / op.den for parts in zip(*terms, strict=True)]
    return [max(v, Fraction(0)) for v in sums] if op.rectified else sums


def _normed(op: p.Norm, x: Made) -> list[Fraction]:
    """x3, by the definition's rules of one element."""
    mean, r, gamma, beta = ([Fraction(float(v)) for v in part] for part in op.constants.values())
    made = []
    for i, v in enumerate(x.real()):
        c = i % len(mean)
        x2 = float_batch_norm.x2_at(to_float32(v), mean[c], r[c])
        made.append(float_batch_norm.x3_at(x2, gamma[c], beta[c]))
    return made


def _images(op: Op, read: list[Codes], shapes: list[Value], out: Value) -> Codes:
    return read[0]


def _places(op: p.Windowed, image: Shape, y: int, x: int) -> list[tuple[int, int, int]]:
    """(place in the kernel, row, column) of what a window reads at (y, x), padding apart."""
    found = []
    for ky in range(op.kernel[0]):
        for kx in range(op.kernel[1]):
            row, col = y * op.stride[0] + ky - op.padding[0], x * op.stride[1] + kx - op.padding[1]
            if 0 <= row < image[0] and 0 <= col < image[1]:
                found.append((ky * op.kernel[1] + kx, row, col))
    return found


def _product(op: p.Product, read: list[Codes], shapes: list[Value], out: Value) -> Codes:
    return _sums_of(op, op.weight, read[0], shapes[0].shape, out)


def _block_product(op: BlockProduct, read: list[Codes], shapes: list[Value], out: Value) -> Codes:
    """`block_float.exact`, each sum rounded once."""
    w = op.weight.astype(object) * 2 ** op.each.astype(object)
    sums = _sums_of(op, w, read[0], shapes[0].shape, out)
    return [to_float32(v * Fraction(2) ** op.exponent) for v in sums]


def _sums_of(op: p.Product | BlockProduct, weight: np.ndarray, x: Codes, shape: Shape, out: Value) -> Codes:
    w = weight.reshape(*weight.shape[:2], -1).tolist()
    if len(out.shape) == 1:
        return [sum(v * row[i][0] for i, v in enumerate(x)) for row in w]
    each, own = len(w) // op.groups, op.weight.shape[1]
    made = []
    for oy in range(out.shape[0]):
        for ox in range(out.shape[1]):
            seen = _places(op, shape, oy, ox)
            for o, row in enumerate(w):
                total, first = 0, o // each * own
                for k, y, z in seen:
                    at = (y * shape[1] + z) * shape[2] + first
                    total += sum(x[at + c] * row[c][k] for c in range(own))
                made.append(total)
    return made


def _blocks(op: Blocks, read: list[Codes], shapes: list[Value], out: Value) -> Codes:
    """An image as a batch of one: what the blocks stand for."""
    bits = {(0, *at): int(b) for at, b in np.ndenumerate(op.widths(out.shape))}
    values = [Fraction(v) for v in read[0]]
    return block_float.quantize(Tensor((1, *out.shape), values), bits, (0, len(out.shape))).real().values


def _plus(op: Plus, read: list[Codes], shapes: list[Value], out: Value) -> Codes:
    b = [] if op.b is None else [Fraction(v) for v in op.b.tolist()]
    other = [b[i % len(b)] for i in range(len(read[0]))] if b else read[1]
    return [add32(v, w) for v, w in zip(read[0], other, strict=True)]


def _mean(op: p.Pool, read: list[Codes], shapes: list[Value], out: Value) -> Codes:
    """A place that is padding adds 0, and counts."""
    return [div32(v, prod(op.kernel)) for v in _windows(chain32)(op, read, shapes, out)]


def _windows(reduce: Callable[[Codes], Any]) -> Callable[..., Codes]:
    def rule(op: p.Pool, read: list[Codes], shapes: list[Value], out: Value) -> Codes:
        (x,), shape = read, shapes[0].shape
        made = []
        for oy in range(out.shape[0]):
            for ox in range(out.shape[1]):
                seen = _places(op, shape, oy, ox)
                for c in range(shape[2]):
                    made.append(reduce([x[(y * shape[1] + z) * shape[2] + c] for _, y, z in seen]))
        return made

    return rule


def _affine(op: p.Affine, read: list[Codes], shapes: list[Value], out: Value) -> Codes:
    a, b = op.a.tolist(), op.b.tolist()
    return [a[i % len(a)] * v + b[i % len(b)] for i, v in enumerate(read[0])]


def _add(op: p.Add, read: list[Codes], shapes: list[Value], out: Value) -> Codes:
    s, t = op.shifts
    return [v * 2**s + w * 2**t for v, w in zip(*read, strict=True)]


def _round(op: p.Round, read: list[Codes], shapes: list[Value], out: Value) -> Codes:
    den = op.den.tolist()
    made = [round(Fraction(v * op.num, den[i % len(den)])) for i, v in enumerate(read[0])]  # half to even
    if op.lo is None or op.hi is None:
        return made
    return [max(op.lo, min(op.hi, v)) for v in made]


def _curve(op: p.Curve, read: list[Codes], shapes: list[Value], out: Value) -> Codes:
    steps, codes = op.steps.tolist(), op.codes.tolist()
    return [codes[sum(step <= v for step in steps)] for v in read[0]]


def _relu(op: Op, read: list[Codes], shapes: list[Value], out: Value) -> Codes:
    return [max(v, 0) for v in read[0]]


RULES: dict[type[Op], Callable[..., Codes]] = {  # of the operation, what it reads, its values and its own
    p.Images: _images,
    p.Product: _product,
    p.Affine: _affine,
    p.Add: _add,
    p.Round: _round,
    p.Curve: _curve,
    p.Relu: _relu,
    p.MaxPool: _windows(max),
    p.SumPool: _windows(sum),
    p.MeanPool: _mean,
    p.Flatten: _images,
    Blocks: _blocks,
    BlockProduct: _block_product,
    Plus: _plus,
}
