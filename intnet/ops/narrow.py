"""linear and conv2d of integers in a narrow accumulator: terms in the order that the definition gives them.

Terms of a convolution are numbered as everywhere: kernel row, kernel column, input channel. Outside the image
terms are 0, and keep their places.

Defined by `spec/accumulators.py: narrow`, `spec/convolution.py: conv2d`.
"""

from typing import Any

import numpy as np

from intnet.errors import FormatError
from intnet.exact import dots
from intnet.numbers.accumulators import Narrow
from intnet.numbers.qtensor import QTensor
from intnet.ops.kernels.windows import Window


def linear(x: Any, w: Any, accumulator: Narrow, where: str) -> QTensor:
    """x (N, Cin), w (Cout, Cin) to (N, Cout).

    Defined by `spec/accumulators.py: narrow`, `spec/convolution.py: conv2d`.
    """
    _check(x, w, accumulator, where)
    return dots.narrow(x, _codes(w, w.codes.T), accumulator, where)


def conv2d(x: Any, w: Any, window: Window, accumulator: Narrow, where: str) -> QTensor:
    """x (N, H, W, Cin), w (Cout, Cin/groups, kh, kw) to (N, Ho, Wo, Cout).

    Defined by `spec/accumulators.py: narrow`, `spec/convolution.py: conv2d`.
    """
    _check(x, w, accumulator, where)
    stride, (top, left), groups = window
    outputs, depth, *kernel = w.shape
    padded = np.pad(x.codes, ((0, 0), (top, top), (left, left), (0, 0)))
    view = np.lib.stride_tricks.sliding_window_view(padded, kernel, (1, 2))[:, :: stride[0], :: stride[1]]
    shape = view.shape[:3]  # N, Ho, Wo; after them Cin, kh, kw
    made = []
    for group in range(groups):
        part = view[:, :, :, group * depth : (group + 1) * depth].transpose(0, 1, 2, 4, 5, 3)
        taps = w.codes[group * (outputs // groups) : (group + 1) * (outputs // groups)].transpose(2, 3, 1, 0)
        terms = depth * kernel[0] * kernel[1]
        left_codes, right_codes = part.reshape(-1, terms), taps.reshape(terms, -1)
        made.append(dots.narrow(_codes(x, left_codes), _codes(w, right_codes), accumulator, where))
    codes = np.concatenate([one.codes for one in made], 1).reshape(*shape, outputs)
    return QTensor(codes, made[0].exponent, bound=made[0].bound)


def _codes(q: QTensor, codes: np.ndarray) -> QTensor:
    """Some of the codes of q, in another order."""
    return QTensor(codes, q.exponent, bound=q.bound)


def _check(x: Any, w: Any, accumulator: Any, where: str) -> None:
    if not isinstance(accumulator, Narrow):
        raise FormatError(
            f"{where or 'product'}: accumulator = {accumulator!r}: layers take Narrow(bits, ..)"
        )
    if not all(isinstance(q, QTensor) and isinstance(q.exponent, int) for q in (x, w)):
        raise FormatError(
            f"{where or 'product'}: a narrow accumulator adds codes of QTensors of one exponent"
        )
