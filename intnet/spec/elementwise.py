"""Operations of one element: add, ReLU, dropout, scale, and the derivatives of tanh, sigmoid and silu.

    add      y = a + b                                          da = db = e
    relu     y = max(x, 0)                                      dx = e where x > 0, else 0
    dropout  y = x * q/p where word * q < p * 2^32, else 0      dx = the same map of e; keep = p/q
    scale    y[n, h, w, c] = x[n, h, w, c] * s[n, c]            dx = e * s;  ds[n, c] = sum over h, w of e * x
    tanh     dx = e (1 - y^2)        sigmoid  dx = e y (1 - y)  silu  dx = e d, d the stored derivative

Exact on integers and Fractions; ReLU and its mask are those of WAGEUBN's (2) and (3). In float32 each
operation is rounded once: `values.joined` of two branches, `values.times`, `dropout32_at`; `elementary` has
the curves. The curves of integers are rounded in `curves`. Scale is squeeze and excitation's product (Hu et
al. 2018, Eq. 4). y is the stored output, so that these derivatives are exact products of stored numbers.

>>> dropout_at(3, word=2**31, keep=Fraction(3, 4))      # stays: 1/2 < 3/4
Fraction(4, 1)
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from intnet.spec.convolution import Dot, exact_dot
from intnet.spec.float32 import mul32, to_float32

# As golden packs print them: what a layer of the kind gives, and makes of the error e0 at its output.
RULES = {
    "relu": ("max(x, 0), x what the layer reads", "e0 where x > 0, else 0"),
    "tanh": ("tanh(x), x what the layer reads", "e0 * (1 - x4^2)"),
    "sigmoid": ("1 / (1 + exp(-x)), x what the layer reads", "e0 * (x4 * (1 - x4))"),
    "silu": ("x / (1 + exp(-x)), x what the layer reads; dx4 is its derivative there", "e0 * dx4"),
}
# Of layers that only move elements, drop them, or store a sum; e is the error at their output.
MOVED = {
    "flatten": {
        "x4[n, (y*W + x)*C + c]": ("v[n, y, x, c]",) * 2,
        "handed[n, y, x, c]": ("e[n, (y*W + x)*C + c]",) * 2,
    },
    "dropout": {
        "x4": (
            "v * (1 / keep) where the element's mask.words is below keep * 2^32, else 0, exactly; in"
            " inference v itself",
            "v * k where the element's mask.words is below keep * 2^32, exactly, else 0; k is the binary32"
            " nearest to the binary64 nearest to 1 / keep; in inference v itself",
        ),
        "handed": ("e0 * (1 / keep) where x4 was kept, else 0", "e0 * k where x4 was kept, else 0"),
    },
    "scale": {
        "x4[n, y, x, c]": ("v[n, y, x, c] * s[n, c]",) * 2,
        "handed[n, y, x, c]": ("e0[n, y, x, c] * s[n, c]",) * 2,
        "handed to the factors[n, c]": (
            "sum of e0[n, y, x, c] * v[n, y, x, c] over (y, x); where only one of two factors of a product is"
            " binary32, here and above, the other one is rounded to it, and it is a product of binary32",
            "sum of e0[n, y, x, c] * v[n, y, x, c] over (y, x), as a sum of products",
        ),
    },
    "join": {
        "x4": ("v, the sum of what the layer reads",) * 2,
        "handed": ("e0, to each of the two that were added",) * 2,
    },
}
CURVE_RULES32 = {  # of binary32; `elementary.SEQUENCES` has the functions
    "tanh": "e0 * (1 - x4 * x4), three operations",
    "sigmoid": "e0 * (x4 * (1 - x4)), three operations",
    "silu": "e0 * slope({x}), a product in binary64 of the two, rounded to binary32",
}
RELU32 = "e0 * m, m = 1 where x4 > 0, else 0: a product of binary32, so that a zero keeps the sign of e0"

# -- ReLU ------------------------------------------------------------------------------------------


def relu_at(x: Any) -> Any:
    """max(x, 0)."""
    return x if x > 0 else 0 * x


def relu_grad_at(e: Any, x: Any) -> Any:
    """e where the ReLU's input x is positive, else 0."""
    return e if x > 0 else 0 * e


# -- dropout ---------------------------------------------------------------------------------------


def stays(word: int, keep: Fraction) -> bool:
    """word / 2^32 < keep, for a 32-bit random word: decided in integers."""
    return word * keep.denominator < keep.numerator * 2**32


def dropout_at(x: Any, word: int, keep: Fraction) -> Any:
    """x / keep where the element stays, else 0: exact."""
    return x * (1 / keep) if stays(word, keep) else Fraction(0)


def dropout32_at(x: Fraction | int, word: int, keep: Fraction) -> Fraction:
    """x * (1 / keep) in float32; 1 / keep is rounded to binary64 first, then to float32."""
    return mul32(x, to_float32(Fraction(float(1 / keep)))) if stays(word, keep) else Fraction(0)


# -- scale -----------------------------------------------------------------------------------------


def factor_of(index: int, shape: Sequence[int]) -> int:
    """The flat index in s (N, C) of the factor of element `index` of (N, H, W, C)."""
    _, h, w, c = shape
    return index // (h * w * c) * c + index % c


def scale_grad_at(
    e: Sequence[Any], x: Sequence[Any], shape: Sequence[int], place: Sequence[int], dot: Dot = exact_dot
) -> Any:
    """ds at (n, c): the sum of e * x over the positions of one image, in row-major order."""
    (n, c), (_, height, width, channels) = place, shape
    size = height * width * channels
    at = slice(n * size + c, (n + 1) * size, channels)
    return dot(e[at], x[at])


# -- derivatives by the stored output --------------------------------------------------------------


def tanh_grad_at(e: Any, y: Any) -> Any:
    """e (1 - y^2)."""
    return e * (1 - y * y)


def sigmoid_grad_at(e: Any, y: Any) -> Any:
    """e y (1 - y)."""
    return e * (y * (1 - y))
