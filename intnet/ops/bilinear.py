"""The one road of every bilinear operation on integers: products, convolutions and their gradients.

    exact_product    one exponent each: the exact sum, in int32, int64 or two limbs
    block_product    an exponent a code: the exact sum, rounded once to float32
    affine_product   codes in steps of a float32: the exact sum as a float32, times both scales
    product          whichever of these it is
    over_batch       the same over the images of all ranks, of a weight's gradient

Tensors in blocks of 4x4 have a quicker road, `blocks.py`; float32 has the defined sequence of
`kernels/float_products.py`. `Copies` is an operand that is read forward in one format, backward in another;
`Bifurcated` is an error in two.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from intnet.autograd import Later
from intnet.errors import ContainerError, FormatError
from intnet.exact.blocks.affine import AffineTensor, scaled
from intnet.exact.blocks.bands import Banded, matching_bands
from intnet.exact.blocks.block_float import BlockTensor
from intnet.exact.blocks.long_sums import LongSum
from intnet.exact.expressions import Exact, add, exact
from intnet.numbers import shares
from intnet.numbers.qtensor import INT64_BOUND, QTensor
from intnet.ops.kernels.int_products import Plan, plan, split

BYTE = 8  # bits

Kernel = Callable[[np.ndarray, np.ndarray, Plan], np.ndarray]


def exact_product(a: QTensor, b: QTensor, terms: int, kernel: Kernel, where: str = "") -> QTensor | Exact:
    """The exact bilinear form of a and b that sums `terms` products an element.

    kernel(codes of a, codes of b, plan), of `kernels/int_products.py`, computes it. Beyond int64 `a` is split
    into two halves of 16 bits and the result is the two-limb expression high * 2**16 + low; ContainerError
    where even the halves do not fit.

    Defined by `spec/convolution.py: exact_dot`.
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
    except ContainerError:
        bits = (a.bound * b.bound * terms).bit_length() + 1
        raise ContainerError(
            f"{where or 'product'}: {terms} products of codes up to {a.bound} and {b.bound} need {bits} "
            "bits: beyond every container, two limbs too; use narrower operands"
        ) from None
    return Exact([(halves[0], 1 << 16), (halves[1], 1)], exponent)


def block_product(
    a: QTensor, b: QTensor, terms: int, kernel: Kernel, where: str = "", of_batch: bool = False
) -> np.ndarray:
    """float32 of the exact bilinear form of two block-float tensors, rounded once (ties to even).

    As `exact_product`; an exponent is an int, or an array that broadcasts against the codes. The
    aligned operands have integer products whose sum is exact in any order: one such product where
    int64 holds it, else one a pair of bands. NumberError for a result beyond float32's range;
    ContainerError for codes whose products not even two limbs hold. of_batch: over the images of all
    ranks (`numbers/shares.py`).

    Defined by `spec/block_float.py: exact`, `spec/block_float.py: rounded`.
    """
    left, right = Banded(a, where), Banded(b, where)
    a_bands, b_bands = matching_bands(left, right, terms)
    xs, ys = [left.aligned(band) for band in a_bands], [right.aligned(band) for band in b_bands]
    return sum_of_products(xs, ys, terms, kernel, where, of_batch)


def sum_of_products(
    xs: Sequence[QTensor], ys: Sequence[QTensor], terms: int, kernel: Kernel, where: str,
    of_batch: bool = False,
) -> np.ndarray:  # fmt: skip
    """float32 of the exact bilinear form of the sum of xs and the sum of ys, rounded once.

    Exponents are ints. `exact_product` of every pair; what int64 holds together is one expression, else a
    `LongSum`, and so are sums that meet over all ranks here (of_batch).
    """
    sums = [exact_product(x, y, terms, kernel, where) for x in xs for y in ys]
    least = min(int(one.exponent) for one in sums)
    if not of_batch and (len(sums) == 1 or _together(sums, least) < INT64_BOUND):
        return _added(sums).to_float32(where)
    greatest = max(int(one.exponent) for one in sums) + 16
    if of_batch:
        low, greatest = shares.greatest(np.array([-least, greatest])).tolist()
        least = -low
    total = LongSum(sums[0].shape, least, greatest)
    for one in sums:
        expression = cast(Exact, exact(one))
        for term, coef in expression.terms:  # one, or the two of two limbs: 2**16 and 1
            total.add(term.codes, expression.exponent + int(coef).bit_length() - 1)
    if of_batch:
        total.meet()
    return total.to_float32(where)


def _added(sums: Sequence[QTensor | Exact]) -> Exact:
    """Their exact sum."""
    total = cast(Exact, exact(sums[0]))
    for one in sums[1:]:
        total = cast(Exact, add(total, one))
    return total


def _together(sums: Sequence[QTensor | Exact], least: int) -> int:
    """A bound on the sum of all of them in units of 2**least."""
    bounds = [one.bound if isinstance(one, QTensor) else one.bound() for one in sums]
    return sum(max(bound, 1) << (int(one.exponent) - least) for bound, one in zip(bounds, sums, strict=True))


def affine_product(
    a: AffineTensor, b: AffineTensor, terms: int, kernel: Kernel, where: str = ""
) -> np.ndarray:
    """float32 of the exact bilinear form of the codes, times the product of both scales: three roundings.

    An operand of 16 bits goes in two halves: products of int16 are four times as many at once as of float64.

    Defined by `spec/products.py: forward`.
    """
    scale = a.scale * b.scale
    if a.bits > BYTE >= b.bits and a.codes.bound * b.codes.bound * terms < INT64_BOUND:
        halves = [exact_product(half, b.codes, terms, kernel, where) for half in a.halves()]
        return scaled(_added(halves).to_qtensor().codes, scale)
    sums = exact_product(a.codes, b.codes, terms, kernel, where)
    return scaled(sums.codes, scale) if isinstance(sums, QTensor) else sums.to_float32(where) * scale


def product(
    a: QTensor, b: QTensor, terms: int, kernel: Kernel, where: str = ""
) -> QTensor | Exact | np.ndarray:
    """`exact_product`, or `block_product` where an operand has an exponent array."""
    plain = isinstance(a.exponent, int) and isinstance(b.exponent, int)
    return (exact_product if plain else block_product)(a, b, terms, kernel, where)


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


def bifurcated(error: Any) -> Bifurcated:
    """Both copies of an error, the same one where it has no two."""
    return error if isinstance(error, Bifurcated) else Bifurcated(error, error)


INTEGERS, BLOCKS, FLOATS = "two QTensors", "two BlockTensors", "two float32 arrays"
AFFINE = "two AffineTensors"
PRODUCTS: dict[str, Callable[..., Any]] = {INTEGERS: product, AFFINE: affine_product}  # BLOCKS: `blocks.py`


def operands(a: Any, b: Any, what: str) -> str:
    """Which of INTEGERS, BLOCKS, AFFINE and FLOATS the two are; FormatError for anything else."""
    if isinstance(a, QTensor) and isinstance(b, QTensor):
        return INTEGERS
    if isinstance(a, BlockTensor) and isinstance(b, BlockTensor):
        return BLOCKS
    if isinstance(a, AffineTensor) and isinstance(b, AffineTensor):
        return AFFINE
    if all(isinstance(x, np.ndarray) and x.dtype == np.float32 for x in (a, b)):
        return FLOATS
    kinds = " and ".join(
        f"{x.dtype} array" if isinstance(x, np.ndarray) else type(x).__name__ for x in (a, b)
    )
    raise FormatError(f"{what} takes {INTEGERS}, {BLOCKS} or {FLOATS}, not {kinds}")


def float_operands(error: Any, *values: Any) -> list[Any]:
    """`values` for a backward pass in float32, where the error is one: integers rounded once to float32.

    Defined by `spec/values.py: to_float`.
    """
    return [
        exact(v).to_float32() if isinstance(error, np.ndarray) and isinstance(v, QTensor) else v  # type: ignore[union-attr]
        for v in values
    ]


def over_batch(kind: str, a: Any, b: Any, terms: int, kernel: Kernel, where: str) -> Any:
    """`PRODUCTS[kind]` whose terms are a batch's rows: the sum over those of all ranks (`numbers/shares.py`).

    Blocks find a unit of all ranks themselves. Of codes of one exponent each it is a Later among ranks: sums
    travel while the backward pass goes on.
    """
    if kind == BLOCKS:
        return PRODUCTS[kind](a, b, terms, kernel, where, of_batch=True)
    a, b = shares.alike(a, b)
    terms = shares.rows(terms)
    if not shares.travel() or kind != INTEGERS or not isinstance(a.exponent + b.exponent, int):
        return PRODUCTS[kind](a, b, terms, shares.summed(kernel), where)
    fills: list[Callable[[], None]] = []

    def begun(*given: Any) -> np.ndarray:
        codes, fill = shares.begun(kernel(*given))
        fills.append(fill)
        return codes

    made = exact_product(a, b, terms, begun, where)  # which reads no code of the sums

    def arrive() -> QTensor | Exact:
        for fill in fills:
            fill()
        return made

    return Later(arrive)
