"""linear and bias.

    y[n, o] = sum over i of x[n, i] * w[o, i]        x (N, Cin), w (Cout, Cin)
    dx = dy w          dw = dy^T x                    z = y + b,  db = sum over n of dy

Integers: exact sums; exponents add (`bilinear.py`), affine codes times their scales. With
`accumulator=Narrow(..)` a forward sum is one in so many bits (`narrow.py`); gradients are the exact one's.
Block float: the exact sum, rounded once to float32 (`blocks.py`). float32: the defined sequence of
`kernels/float_products.py`; in a backward pass also where only the error is float32, after an integer
forward pass.

Defined by `spec/products.py: forward`, `spec/products.py: input_error`, `spec/products.py: weight_gradient`,
`spec/products.py: with_bias`, `spec/products.py: bias_gradient`, `spec/convolution.py: linear`,
`spec/convolution.py: linear32`.
"""

from typing import Any

import numpy as np

from intnet.autograd import Keep, Op, Saved, as_it_is, loaded
from intnet.errors import FormatError, ShapeError
from intnet.exact.blocks.affine import AffineTensor
from intnet.exact.blocks.block_float import BlockTensor
from intnet.exact.expressions import Exact, exact, times_power
from intnet.numbers import shares
from intnet.numbers.accumulators import Narrow
from intnet.numbers.qtensor import QTensor
from intnet.ops import narrow
from intnet.ops.bilinear import FLOATS, bifurcated, copies, float_operands, operands, over_batch
from intnet.ops.blocks import PRODUCTS
from intnet.ops.kernels import float32_rows
from intnet.ops.kernels import float_products as float32
from intnet.ops.kernels.int_products import gemm, gemm_nn, gemm_tn
from intnet.ops.kernels.reduce import column_sums


def _linear(
    saved: Saved,
    x: Any,
    w: Any,
    *,
    keep: Keep = as_it_is,
    accumulator: Narrow | None = None,
    where: str = "",
) -> Any:
    (x, read), (w, saved.w), saved.where = copies(x), copies(w), where
    kind = operands(x, w, f"{where or 'linear'}: linear")
    if len(x.shape) != 2 or x.shape[1] != w.shape[1]:
        raise ShapeError(f"{where or 'linear'}: input {x.shape} does not fit weights {w.shape} (Cout, Cin)")
    if saved.needs[1]:
        saved.x = keep(read)
    if accumulator is not None:
        return narrow.linear(x, w, accumulator, where)
    return float32.matmul_nt(x, w) if kind == FLOATS else PRODUCTS[kind](x, w, x.shape[1], gemm, where)


def _linear_vjp(saved: Saved, error: Any) -> tuple[Any, Any]:
    (e, e_weight), where = bifurcated(error), saved.where
    (w,) = float_operands(e, saved.w)
    kind = operands(e, w, f"{where or 'linear'}: gradient")
    dx: Any = None
    dw: Any = None
    if saved.needs[0] and kind == FLOATS:
        dx = float32.matmul(e, w)
    elif saved.needs[0]:
        dx = PRODUCTS[kind](e, w, w.shape[0], gemm_nn, where)
    if saved.needs[1]:
        (x,) = float_operands(e, loaded(saved.x))
        if kind == FLOATS:
            dw = shares.folded(float32.matmul_tn, e_weight, x)
        else:
            dw = over_batch(kind, e_weight, x, x.shape[0], gemm_tn, where)
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
    weight = bifurcated(e).weight
    if isinstance(weight, QTensor):
        return e, column_sums(*shares.alike(weight))
    values = weight.values if isinstance(weight, BlockTensor | AffineTensor) else weight
    return e, shares.folded(float32_rows.sum_rows, values)


linear = Op("linear", _linear, _linear_vjp)
add_bias = Op("add_bias", _add_bias, _add_bias_vjp)
