"""linear and bias.

    y[n, o] = sum over i of x[n, i] * w[o, i]        x (N, Cin), w (Cout, Cin)
    dx = dy w          dw = dy^T x                    z = y + b,  db = sum over n of dy

Integers: exact sums; exponents add. Block float: the exact sum, rounded once to float32. float32: the
defined sequence of `kernels/float32.py`; in a backward pass also where only the error is float32, behind
an integer forward pass. `product` is the one road of every bilinear operation on QTensors (convolutions
use it too).
"""

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np

from intnet.autograd import Op, Saved
from intnet.block_float import BlockFloat, matching_bands
from intnet.errors import ContainerError, FormatError, ShapeError
from intnet.exact import Exact, exact, times_power
from intnet.long_sums import LongSum
from intnet.ops.kernels import float32, float32_rows
from intnet.ops.kernels.gemm import Plan, gemm, plan, split
from intnet.ops.kernels.reduce import column_sums
from intnet.qtensor import INT64_BOUND, QTensor

Kernel = Callable[[np.ndarray, np.ndarray, Plan], np.ndarray]


def exact_product(a: QTensor, b: QTensor, terms: int, kernel: Kernel, where: str = "") -> QTensor | Exact:
    """The exact bilinear form of a and b that sums `terms` products an element.

    kernel(codes of a, codes of b, plan) computes it. Beyond int64 `a` is split into two halves of
    16 bits and the result is the two-limb expression high * 2**16 + low; ContainerError where even
    the halves do not fit.
    """
    exponent = int(a.exponent) + int(b.exponent)
    if a.bound * b.bound * terms < INT64_BOUND:
        how = plan(a, b, terms, where)
        return QTensor(kernel(a.codes, b.codes, how), exponent, bound=how.bound)
    try:
        halves = []
        for half in split(a):
            how = plan(half, b, terms, where)
            halves.append(QTensor(kernel(half.codes, b.codes, how), exponent, bound=how.bound))
    except ContainerError as error:
        raise ContainerError(
            f"{error}: beyond every container, two limbs too; use narrower operands"
        ) from None
    return Exact([(halves[0], 1 << 16), (halves[1], 1)], exponent)


def _expression(result: QTensor | Exact) -> Exact:
    return result if isinstance(result, Exact) else Exact([(result, 1)], int(result.exponent))


def block_product(a: QTensor, b: QTensor, terms: int, kernel: Kernel, where: str = "") -> np.ndarray:
    """float32 of the exact bilinear form of two block-float tensors, rounded once (ties to even).

    As `exact_product`; an exponent is an int, or an array that broadcasts against the codes. The
    aligned operands have integer products whose sum is exact in any order: one such product where
    int64 holds it, else one a pair of bands, all added up in `LongSum`. NumberError for a result beyond
    float32's range; ContainerError for codes whose products not even two limbs hold.
    """
    left, right = BlockFloat(a, where), BlockFloat(b, where)
    a_bands, b_bands = matching_bands(left, right, terms)
    xs, ys = [left.aligned(band) for band in a_bands], [right.aligned(band) for band in b_bands]
    results = (_expression(exact_product(x, y, terms, kernel, where)) for x in xs for y in ys)
    first = next(results)
    if len(xs) == len(ys) == 1:
        return first.to_float32(where)
    total = LongSum(first.shape, first.exponent, int(xs[-1].exponent) + int(ys[-1].exponent) + 16)
    for result in chain([first], results):
        for term, coef in result.terms:  # one, or the two of two limbs: 2**16 and 1
            total.add(term.codes, result.exponent + int(coef).bit_length() - 1)
    return total.to_float32(where)


def product(
    a: QTensor, b: QTensor, terms: int, kernel: Kernel, where: str = ""
) -> QTensor | Exact | np.ndarray:
    """`exact_product`, or `block_product` where an operand has an exponent array."""
    plain = isinstance(a.exponent, int) and isinstance(b.exponent, int)
    return (exact_product if plain else block_product)(a, b, terms, kernel, where)


def operands(a: Any, b: Any, what: str) -> bool:
    """True for two QTensors, False for two float32 arrays; FormatError for anything else."""
    if isinstance(a, QTensor) and isinstance(b, QTensor):
        return True
    if all(isinstance(x, np.ndarray) and x.dtype == np.float32 for x in (a, b)):
        return False
    kinds = " and ".join(type(x).__name__ for x in (a, b))
    raise FormatError(f"{what} takes two QTensors or two float32 arrays, not {kinds}")


def float_operands(error: Any, *values: Any) -> list[Any]:
    """`values` for a backward pass in float32, where the error is one: integers rounded once to float32."""
    return [
        exact(v).to_float32() if isinstance(error, np.ndarray) and isinstance(v, QTensor) else v  # type: ignore[union-attr]
        for v in values
    ]


def _linear(saved: Saved, x: Any, w: Any, *, where: str = "") -> Any:
    integer = operands(x, w, f"{where or 'linear'}: linear")
    if len(x.shape) != 2 or x.shape[1] != w.shape[1]:
        raise ShapeError(f"{where or 'linear'}: input {x.shape} does not fit weights {w.shape} (Cout, Cin)")
    saved.x, saved.w, saved.where = x, w, where
    if integer:
        return product(x, w, x.shape[1], gemm, where)
    return float32.matmul_nt(x, w)


def _linear_vjp(saved: Saved, e: Any) -> tuple[Any, Any]:
    (x, w), where = float_operands(e, saved.x, saved.w), saved.where
    dx: Any = None
    dw: Any = None
    if operands(e, w, f"{where or 'linear'}: gradient"):
        if saved.needs[0]:
            dx = product(e, w, w.shape[0], lambda a, b, how: gemm(a, b.T, how), where)
        if saved.needs[1]:
            dw = product(e, x, x.shape[0], lambda a, b, how: gemm(a.T, b.T, how), where)
    else:
        if saved.needs[0]:
            dx = float32.matmul(e, w)
        if saved.needs[1]:
            dw = float32.matmul_tn(e, x)
    return dx, dw


def _add_bias(saved: Saved, y: Any, b: Any, *, where: str = "") -> Any:
    if isinstance(y, np.ndarray):
        return y + b  # one float32 addition an element
    left = exact(y)
    plain = isinstance(left, Exact) and not left.relu and not np.any(np.asarray(left.den) != 1)
    if not plain or not isinstance(left, Exact) or not isinstance(b, QTensor):
        raise FormatError("add_bias takes integer codes and a QTensor bias, or two float32 arrays")
    exponent, where = min(left.exponent, int(b.exponent)), f"{where or 'add_bias'}: product and bias"
    up = left.exponent - exponent
    terms = [(term, times_power(coef, up, where)) for term, coef in left.terms]
    offset = times_power(b.codes.astype(np.int64), int(b.exponent) - exponent, where)
    return Exact(terms, exponent, times_power(left.offset, up, where) + offset)


def _add_bias_vjp(saved: Saved, e: Any) -> tuple[Any, Any]:
    if not saved.needs[1]:
        return e, None
    return e, column_sums(e) if isinstance(e, QTensor) else float32_rows.sum_rows(e.reshape(-1, e.shape[-1]))


linear = Op("linear", _linear, _linear_vjp)
add_bias = Op("add_bias", _add_bias, _add_bias_vjp)
