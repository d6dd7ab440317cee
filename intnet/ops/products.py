"""conv2d with stride, padding and groups; linear; and a bias.

    y[n, oy, ox, o] = sum over ky, kx, c of x[n, oy*sh + ky - ph, ox*sw + kx - pw, c] * w[o, c, ky, kx]

x (N, H, W, Cin), w (Cout, Cin/groups, kh, kw) as in PyTorch, y (N, Ho, Wo, Cout).

    y[n, o] = sum over i of x[n, i] * w[o, i]        x (N, Cin), w (Cout, Cin)
    dx = dy w          dw = dy^T x                   z = y + b,  db = sum over n of dy

Which sum it is, the operands say (`operands`). Integers of one exponent each: exact sums, exponents add
(`kernels/int_products.py`). Block float: the exact sum, rounded once to float32, and affine codes: that times
their scales (`blocks.py`). float32: the defined sequence of `kernels/float_products.py`, in a backward pass
also where only the error is one. `accumulator=Narrow(..)` has a forward sum of integers in so many bits
(`narrow.py`); gradients are those of the exact sum. `Copies` is an operand that is read forward in one
format, backward in another; `Bifurcated` is an error in two.

Defined by `spec/products.py: forward`, `spec/products.py: input_error`, `spec/products.py: weight_gradient`,
`spec/products.py: with_bias`, `spec/products.py: bias_gradient`, `spec/convolution.py: conv2d`,
`spec/convolution.py: conv32`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from intnet.autograd import Keep, Later, Op, Saved, as_it_is, loaded
from intnet.errors import FormatError, ShapeError
from intnet.exact.blocks.affine import AffineTensor
from intnet.exact.blocks.block_float import BlockTensor
from intnet.exact.expressions import Exact, exact, times_power
from intnet.numbers import shares
from intnet.numbers.accumulators import Narrow
from intnet.numbers.qtensor import QTensor
from intnet.ops import blocks, narrow
from intnet.ops.kernels import float32_rows, int_products
from intnet.ops.kernels import float_products as float32
from intnet.ops.kernels.reduce import column_sums
from intnet.ops.kernels.windows import Pair, forward_windows


class Copies(NamedTuple):
    """Two copies of one operand: what the forward pass reads, and what the gradients do.

    Defined by `spec/values.py: Copies`.
    """

    forward: Any
    backward: Any


def copies(operand: Any) -> Copies:
    """Both copies of an operand, the same one where it has no two."""
    return operand if isinstance(operand, Copies) else Copies(operand, operand)


class Bifurcated(NamedTuple):
    """Two copies of an error: what the input's gradient is made of, and what the parameters' are.

    Defined by `spec/values.py: Bifurcated`.
    """

    down: Any
    weight: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the error, in either copy."""
        shape: tuple[int, ...] = self.down.shape
        return shape


def bifurcated(error: Any) -> Bifurcated:
    """Both copies of an error, the same one where it has no two."""
    return error if isinstance(error, Bifurcated) else Bifurcated(error, error)


INTEGERS, MANTISSAS, BLOCKS, AFFINE, FLOATS = (
    "two QTensors",
    "two QTensors, of an exponent a code,",
    "two BlockTensors",
    "two AffineTensors",
    "two float32 arrays",
)
PRODUCTS: dict[str, Callable[..., Any]] = {
    INTEGERS: int_products.exact_product,
    MANTISSAS: blocks.block_product,
    BLOCKS: blocks.product,
    AFFINE: blocks.affine_product,
}


def operands(a: Any, b: Any, what: str) -> str:
    """What the two are, of the names above; FormatError for anything else."""
    if isinstance(a, QTensor) and isinstance(b, QTensor):
        return INTEGERS if isinstance(a.exponent, int) and isinstance(b.exponent, int) else MANTISSAS
    if isinstance(a, BlockTensor) and isinstance(b, BlockTensor):
        return BLOCKS
    if isinstance(a, AffineTensor) and isinstance(b, AffineTensor):
        return AFFINE
    if all(isinstance(x, np.ndarray) and x.dtype == np.float32 for x in (a, b)):
        return FLOATS
    kinds = " and ".join(
        f"{x.dtype} array" if isinstance(x, np.ndarray) else type(x).__name__ for x in (a, b)
    )
    raise FormatError(f"{what} takes {INTEGERS}, {BLOCKS}, {AFFINE} or {FLOATS}, not {kinds}")


def float_operands(error: Any, *values: Any) -> list[Any]:
    """`values` for a backward pass in float32, where the error is one: integers rounded once to float32.

    Defined by `spec/values.py: to_float`.
    """
    return [
        exact(v).to_float32() if isinstance(error, np.ndarray) and isinstance(v, QTensor) else v  # type: ignore[union-attr]
        for v in values
    ]


def over_batch(kind: str, a: Any, b: Any, terms: int, kernel: int_products.Kernel, where: str) -> Any:
    """`PRODUCTS[kind]` whose terms are a batch's rows: the sum over those of all ranks (`numbers/shares.py`).

    Blocks find a unit of all ranks themselves. Of codes of one exponent each it is a Later among ranks: sums
    travel while the backward pass goes on.
    """
    if kind == BLOCKS:
        return PRODUCTS[kind](a, b, terms, kernel, where, of_batch=True)
    a, b = shares.alike(a, b)
    terms = shares.rows(terms)
    if not shares.travel() or kind != INTEGERS:
        return PRODUCTS[kind](a, b, terms, shares.summed(kernel), where)
    fills: list[Callable[[], None]] = []

    def begun(*given: Any) -> np.ndarray:
        codes, fill = shares.begun(kernel(*given))
        fills.append(fill)
        return codes

    made = int_products.exact_product(a, b, terms, begun, where)  # which reads no code of the sums

    def arrive() -> QTensor | Exact:
        for fill in fills:
            fill()
        return made

    return Later(arrive)


def _check(x: Any, w: Any, stride: Pair, padding: Pair, groups: int, where: str) -> None:
    name = where or "conv2d"
    if len(x.shape) != 4 or len(w.shape) != 4:
        raise ShapeError(f"{name}: needs (N, H, W, C) and (Cout, Cin, kh, kw), got {x.shape} and {w.shape}")
    if groups < 1 or w.shape[0] % groups or x.shape[3] != w.shape[1] * groups:
        raise ShapeError(
            f"{name}: the input has {x.shape[3]} channels, the weights {w.shape} with {groups} group(s) "
            f"take {w.shape[1] * groups}"
        )
    grid = forward_windows(x.shape[1:3], w.shape[2:], stride, padding).grid
    if grid.rows < 1 or grid.cols < 1:
        raise ShapeError(
            f"{name}: kernel {w.shape[2:]} does not fit the input {x.shape[1:3]} with padding {padding}"
        )


def _conv2d(
    saved: Saved,
    x: Any,
    w: Any,
    *,
    stride: Pair = (1, 1),
    padding: Pair = (0, 0),
    groups: int = 1,
    keep: Keep = as_it_is,
    accumulator: Narrow | None = None,
    where: str = "",
) -> Any:
    (x, read), (w, saved.w) = copies(x), copies(w)
    kind = operands(x, w, f"{where or 'conv2d'}: conv2d")
    _check(x, w, stride, padding, groups, where)
    saved.window, saved.hw, saved.where = (stride, padding, groups), x.shape[1:3], where
    if saved.needs[1]:
        saved.x = keep(read)
    if accumulator is not None:
        return narrow.conv2d(x, w, saved.window, accumulator, where)
    if kind == FLOATS:
        return float32.conv2d(x, w, *saved.window)
    terms = w.shape[1] * w.shape[2] * w.shape[3]
    return PRODUCTS[kind](x, w, terms, partial(int_products.forward, window=saved.window), where)


def _conv2d_vjp(saved: Saved, error: Any) -> tuple[Any, Any]:
    (e, e_weight), window, where = bifurcated(error), saved.window, saved.where
    (w,) = float_operands(e, saved.w)
    kind, kernel = operands(e, w, f"{where or 'conv2d'}: gradient"), w.shape[2:]
    dx: Any = None
    dw: Any = None
    if saved.needs[0] and kind == FLOATS:
        dx = float32.conv2d_input_grad(e, w, saved.hw, *window)
    elif saved.needs[0]:
        input_grad = partial(int_products.input_grad, window=window, input_hw=saved.hw)
        dx = PRODUCTS[kind](e, w, w.shape[0] // window[2] * kernel[0] * kernel[1], input_grad, where)
    if saved.needs[1]:
        (x,) = float_operands(e, loaded(saved.x))
        if kind == FLOATS:
            dw = shares.folded(lambda e, x: float32.conv2d_weight_grad(e, x, kernel, *window), e_weight, x)
        else:
            weight_grad = partial(int_products.weight_grad, window=window, kernel=kernel)
            dw = over_batch(kind, e_weight, x, e.size // e.shape[3], weight_grad, where)
    return dx, dw


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
    return (
        float32.matmul_nt(x, w)
        if kind == FLOATS
        else PRODUCTS[kind](x, w, x.shape[1], int_products.gemm, where)
    )


def _linear_vjp(saved: Saved, error: Any) -> tuple[Any, Any]:
    (e, e_weight), where = bifurcated(error), saved.where
    (w,) = float_operands(e, saved.w)
    kind = operands(e, w, f"{where or 'linear'}: gradient")
    dx: Any = None
    dw: Any = None
    if saved.needs[0] and kind == FLOATS:
        dx = float32.matmul(e, w)
    elif saved.needs[0]:
        dx = PRODUCTS[kind](e, w, w.shape[0], int_products.gemm_nn, where)
    if saved.needs[1]:
        (x,) = float_operands(e, loaded(saved.x))
        if kind == FLOATS:
            dw = shares.folded(float32.matmul_tn, e_weight, x)
        else:
            dw = over_batch(kind, e_weight, x, x.shape[0], int_products.gemm_tn, where)
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


conv2d = Op("conv2d", _conv2d, _conv2d_vjp)
linear = Op("linear", _linear, _linear_vjp)
add_bias = Op("add_bias", _add_bias, _add_bias_vjp)
