"""The reference: a program on one image, in plain Python integers, as slow as it is plain.

Every other way to run a program is tested against this one, and this one against the definition.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

from intnet.export import program as p
from intnet.export.program import Op, Program, Shape, Value
from intnet.spec import float_batch_norm
from intnet.spec.float32 import to_float32
from intnet.spec.formats import Scaled, quantize

Codes = list[int]


class Made(NamedTuple):
    """Codes, and log2 of what 1 stands for."""

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
            q = quantize(total, Scaled(op.wl))
            made.append(Made(q.codes, q.exponent))
            continue
        codes = RULES[type(op)](
            op, [one.codes for one in read] or [list(image)], [program.values[k] for k in op.reads], value
        )
        of = value.scale
        made.append(Made(codes, value.exponent + (0 if of is None else made[of].exponent)))
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
    mean, r, gamma, beta = ([Fraction(float(v)) for v in part] for part in (op.mean, op.r, op.gamma, op.beta))
    made = []
    for i, v in enumerate(x.real()):
        c = i % len(mean)
        x2 = float_batch_norm.x2_at(to_float32(v), mean[c], r[c])
        made.append(float_batch_norm.x3_at(x2, gamma[c], beta[c]))
    return made


def _images(op: Op, read: list[Codes], shapes: list[Value], out: Value) -> Codes:
    return read[0]


def _places(
    op: p.Product | p.Pool, kernel: Shape, image: Shape, y: int, x: int
) -> list[tuple[int, int, int]]:
    """(place in the kernel, row, column) of what a window reads at (y, x), padding apart."""
    found = []
    for ky in range(kernel[0]):
        for kx in range(kernel[1]):
            row, col = y * op.stride[0] + ky - op.padding[0], x * op.stride[1] + kx - op.padding[1]
            if 0 <= row < image[0] and 0 <= col < image[1]:
                found.append((ky * kernel[1] + kx, row, col))
    return found


def _product(op: Op, read: list[Codes], shapes: list[Value], out: Value) -> Codes:
    assert isinstance(op, p.Product)
    (x,), w = read, op.weight.reshape(op.weight.shape[0], op.weight.shape[1], -1).tolist()
    if len(out.shape) == 1:
        return [sum(v * row[i][0] for i, v in enumerate(x)) for row in w]
    shape, each, own = shapes[0].shape, len(w) // op.groups, op.weight.shape[1]
    made = []
    for oy in range(out.shape[0]):
        for ox in range(out.shape[1]):
            seen = _places(op, op.weight.shape[2:], shape, oy, ox)
            for o, row in enumerate(w):
                total, first = 0, o // each * own
                for k, y, z in seen:
                    at = (y * shape[1] + z) * shape[2] + first
                    total += sum(x[at + c] * row[c][k] for c in range(own))
                made.append(total)
    return made


def _windows(reduce: Callable[[Codes], int]) -> Callable[[Op, list[Codes], list[Value], Value], Codes]:
    def rule(op: Op, read: list[Codes], shapes: list[Value], out: Value) -> Codes:
        assert isinstance(op, p.Pool)
        (x,), shape = read, shapes[0].shape
        made = []
        for oy in range(out.shape[0]):
            for ox in range(out.shape[1]):
                seen = _places(op, op.kernel, shape, oy, ox)
                for c in range(shape[2]):
                    made.append(reduce([x[(y * shape[1] + z) * shape[2] + c] for _, y, z in seen]))
        return made

    return rule


def _affine(op: Op, read: list[Codes], shapes: list[Value], out: Value) -> Codes:
    assert isinstance(op, p.Affine)
    a, b = op.a.tolist(), op.b.tolist()
    return [a[i % len(a)] * v + b[i % len(b)] for i, v in enumerate(read[0])]


def _add(op: Op, read: list[Codes], shapes: list[Value], out: Value) -> Codes:
    assert isinstance(op, p.Add)
    s, t = op.shifts
    return [v * 2**s + w * 2**t for v, w in zip(*read, strict=True)]


def _round(op: Op, read: list[Codes], shapes: list[Value], out: Value) -> Codes:
    assert isinstance(op, p.Round)
    den = op.den.tolist()
    made = [round(Fraction(v * op.num, den[i % len(den)])) for i, v in enumerate(read[0])]  # half to even
    if op.lo is None or op.hi is None:
        return made
    return [max(op.lo, min(op.hi, v)) for v in made]


def _curve(op: Op, read: list[Codes], shapes: list[Value], out: Value) -> Codes:
    assert isinstance(op, p.Curve)
    steps, codes = op.steps.tolist(), op.codes.tolist()
    return [codes[sum(step <= v for step in steps)] for v in read[0]]


def _relu(op: Op, read: list[Codes], shapes: list[Value], out: Value) -> Codes:
    return [max(v, 0) for v in read[0]]


RULES: dict[type[Op], Callable[[Op, list[Codes], list[Value], Value], Codes]] = {
    p.Images: _images,
    p.Product: _product,
    p.Affine: _affine,
    p.Add: _add,
    p.Round: _round,
    p.Curve: _curve,
    p.Relu: _relu,
    p.MaxPool: _windows(max),
    p.SumPool: _windows(sum),
    p.Flatten: _images,
}
