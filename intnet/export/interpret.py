"""The reference: a program on one image, in plain Python integers, as slow as it is plain.

Every other way to run a program is tested against this one, and this one against the definition.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction

from intnet.export import program as p
from intnet.export.program import Op, Program, Shape, Value

Codes = list[int]


def logits(program: Program, image: Sequence[int]) -> Codes:
    """The codes of an image's logits, of its codes in the order (H, W, C)."""
    return values(program, image)[-1]


def values(program: Program, image: Sequence[int]) -> list[Codes]:
    """What every operation makes."""
    made: list[Codes] = []
    for op, value in zip(program.ops, program.values, strict=True):
        read = [made[k] for k in op.reads] or [list(image)]
        shapes = [program.values[k] for k in op.reads]
        made.append(RULES[type(op)](op, read, shapes, value))
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


def _relu(op: Op, read: list[Codes], shapes: list[Value], out: Value) -> Codes:
    return [max(v, 0) for v in read[0]]


RULES: dict[type[Op], Callable[[Op, list[Codes], list[Value], Value], Codes]] = {
    p.Images: _images,
    p.Product: _product,
    p.Affine: _affine,
    p.Add: _add,
    p.Round: _round,
    p.Relu: _relu,
    p.MaxPool: _windows(max),
    p.SumPool: _windows(sum),
    p.Flatten: _images,
}
