"""Test the tester: faults of one last place, seeded into the library, are each seen by the step comparison.

Every fault names the path where it must show first; the cases are those that pass in `test_wageubn_step`.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np
import pytest

from intnet.exact import quantize as quantizers
from intnet.exact.expressions import Exact, FloatExact, Root
from intnet.layers import BatchNorm2d
from intnet.methods import Wageubn, wageubn
from intnet.methods.method import to_float32
from intnet.methods.wageubn_rules import Rules
from intnet.numbers import rng
from intnet.numbers.formats import Constant, Direct, FixedPoint, Shift
from intnet.numbers.qtensor import QTensor
from intnet.ops import norm, products
from intnet.ops.kernels import float32_rows
from intnet.ops.kernels import float_products as float32
from intnet.ops.kernels import int_products as conv
from tests.support.faults import Patch
from tests.support.stepping import Case, run_case
from tests.support.two_worlds import differences

pytestmark = pytest.mark.slow

RANDOM = Case()
WIDE = Case(seed=2, batch=1, e2="16")
TIES = Case(seed=5, weights="ties")
EXTREME = Case(seed=6, weights="extreme", lr=(511, 511))
ZERO = Case(seed=72, images="zero", weights="ties")  # some x3 are exactly 0 where e0 is not
FIXED16 = Case(seed=12, edges="fixed16")
BLOCK = Case(seed=15, first="block")
BLOCKS = Case(seed=20, first="block", batch=20)  # some x3 are above 0, and x4 is 0


def last_place(module: Any, name: str) -> Callable[[Patch], None]:
    """The first element of every result of a kernel is one code, or one float32, too large."""

    def seed(patch: Patch) -> None:
        kernel = getattr(module, name)

        def faulty(*args: Any, **more: Any) -> np.ndarray:
            out = kernel(*args, **more)
            first = (0,) * out.ndim
            is_float = out.dtype == np.float32
            out[first] = np.nextafter(out[first], np.float32(9)) if is_float else out[first] + 1
            return out

        patch.setattr(module, name, faulty)

    return seed


def wrong_tie(patch: Patch) -> None:
    right, swapped = quantizers.how, {"ties_even": "ties_away"}
    patch.setattr(quantizers, "how", lambda name, *more: right(swapped.get(name, name), *more))


def no_clip_in_cq(patch: Patch) -> None:
    patch.setattr(Constant, "hi", property(lambda self: 2 * self.dr))


def clip_to_the_most_negative_code(patch: Patch) -> None:
    patch.setattr(FixedPoint, "lo", property(lambda self: -(1 << (self.wl - 1))))


def weights_without_limit(patch: Patch) -> None:
    patch.setattr(Rules, "memory", lambda self, symbol: Direct(24))


def finer(path: str) -> Callable[[Patch], None]:
    """m1 or m2 with 24 bits below e2's LSB, not rounded to 16."""

    def seed(patch: Patch) -> None:
        error = Wageubn.error

        def faulty(self: Wageubn, layer: Any, where: str, value: Any) -> Any:
            if where == path:
                return self.store(layer, path, value, Direct(16, lsb=value.exponent - 24))
            return error(self, layer, where, value)

        patch.setattr(Wageubn, "error", faulty)

    return seed


def no_eps(patch: Patch) -> None:
    denominator = norm.denominator

    def faulty(sigma: QTensor, where: str) -> tuple[np.ndarray, int]:
        codes, exponent = denominator(sigma, where)
        return np.maximum(codes - 1, 1), exponent

    patch.setattr(norm, "denominator", faulty)


def mask_at_zero(patch: Patch) -> None:
    patch.setattr(Exact, "positive", lambda self: self.fractions() >= 0)


def exponent_of_products(patch: Patch) -> None:
    product = products.PRODUCTS[products.INTEGERS]

    def faulty(*args: Any) -> Any:
        q = product(*args)
        return QTensor(q.codes, int(q.exponent) + 1, bound=q.bound)

    patch.setitem(products.PRODUCTS, products.INTEGERS, faulty)


def exponent_of_R(patch: Patch) -> None:
    for expression in (Exact, FloatExact):
        right = expression.log2_max
        patch.setattr(expression, "log2_max", lambda self, right=right: right(self) + 1)


def R_rounded_in_the_linear_domain(patch: Patch) -> None:
    """2^round(log2 m) switches at 1.414 * 2^n; a nearest power of two would switch at 1.5 * 2^n."""

    def nearest(self: Exact) -> int:
        value, n = self.max(), -200
        while value >= Fraction(3, 4) * Fraction(2) ** (n + 1):
            n += 1
        return n

    patch.setattr(Exact, "log2_max", nearest)


def words_of(change: Callable[[Wageubn, str], tuple[str, int]]) -> Callable[[Patch], None]:
    """Random words of another stream name or another step."""

    def seed(patch: Patch) -> None:
        def faulty(self: Wageubn, name: str, n: int) -> np.ndarray:
            stream, step = change(self, name)
            return rng.words(self.seed, step, rng.stream(stream), n)

        patch.setattr(Wageubn, "words", faulty)

    return seed


def first_maximum_missed(patch: Patch) -> None:
    """R from a maximum that overlooks the last channel."""
    right = Exact.log2_max

    def faulty(self: Exact) -> int:
        if len(self.terms) == 2 and np.ndim(self.den):
            codes = [(QTensor(t.codes[..., :-1], 0), np.asarray(c)[..., :-1]) for t, c in self.terms]
            return right(Exact(codes, self.exponent, np.asarray(self.offset)[:-1], np.asarray(self.den)[:-1]))
        return right(self)

    patch.setattr(Exact, "log2_max", faulty)


def variance_over_one_less(patch: Patch) -> None:
    """Divided by n - 1, not n."""

    def faulty(deviations: list[int], square: int, exponent: int, **bounds: int) -> Root:
        return Root(deviations, square - isqrt(square), exponent, **bounds)

    patch.setattr(norm, "Root", faulty)


def update_with_the_stored_momentum(patch: Patch) -> None:
    """W <- W - lr * Acc_q, not Acc."""
    descend = wageubn.descend

    def faulty(w: QTensor, acc: QTensor, *rest: Any) -> QTensor:
        q = quantizers.quantize(acc, Direct(13))
        return descend(w, QTensor(q.codes.astype(np.int64) << 2, int(acc.exponent)), *rest)

    patch.setattr(wageubn, "descend", faulty)


def momentum_of_one(patch: Patch) -> None:
    """Mom = 1/4."""
    momentum = wageubn.momentum
    patch.setattr(wageubn, "momentum", lambda acc_q, g, mom, *rest: momentum(acc_q, g, 1, *rest))


def block_error(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Patch], None]:
    """The error that comes to the first block is not just rounded to float32."""

    def seed(patch: Patch) -> None:
        error = Wageubn.error

        def faulty(self: Wageubn, layer: Any, path: str, value: Any) -> Any:
            if (layer.name, path) == ("relu1", "e0"):
                return self.passes(layer, path, change(to_float32(value)))
            return error(self, layer, path, value)

        patch.setattr(Wageubn, "error", faulty)

    return seed


def block_x4(rounding: str) -> Callable[[Patch], None]:
    """What the first block hands on is rounded in another mode."""

    def seed(patch: Patch) -> None:
        def faulty(self: Wageubn, layer: Any, path: str, value: Any) -> Any:
            if path == "x4":
                return self.store(layer, path, value, self.formats[path], rounding)
            return self.passes(layer, path, value)

        patch.setattr(Wageubn, "_block_activation", faulty)

    return seed


def block_mask_of_x4(patch: Patch) -> None:
    """The derivative of the first ReLU reads what was stored of its output."""
    patch.setattr(Wageubn, "save", lambda self, layer, path, x: np.rint(x * 128) if path == "mask" else x)


def another_rate_of_batch_norm(patch: Patch) -> None:
    right = wageubn.sgd_momentum

    def faulty(parameter: Any, gradient: np.ndarray, momentum: float, lr: float) -> None:
        right(parameter, gradient, momentum, lr / 2 if parameter.symbol == "gamma" else lr)

    patch.setattr(wageubn, "sgd_momentum", faulty)


def attribute(owner: Any, name: str, value: Any) -> Callable[[Patch], None]:
    return lambda patch: patch.setattr(owner, name, value)


FAULTS: dict[str, tuple[Callable[[Patch], None], Case, str]] = {
    "conv forward": (last_place(conv, "forward"), RANDOM, "layer1.0.conv1/x1"),
    "conv input gradient": (last_place(conv, "input_grad"), RANDOM, "layer2.0.conv2/e4"),
    "conv weight gradient": (last_place(conv, "weight_grad"), RANDOM, "layer2.0.conv2/gW"),
    "float32 weight gradient": (last_place(float32, "conv2d_weight_grad"), RANDOM, "conv1/gW"),
    "float32 classifier": (last_place(float32, "matmul_nt"), RANDOM, "fc/x1"),
    "float32 classifier, back": (last_place(float32, "matmul_tn"), RANDOM, "fc/gW"),
    "integer classifier": (last_place(conv, "gemm"), FIXED16, "fc/x1"),
    "wrong tie": (wrong_tie, TIES, "conv1/x1"),
    "no clip in CQ": (no_clip_in_cq, RANDOM, "layer2.0.conv2/gWq"),
    "clip to -128": (clip_to_the_most_negative_code, EXTREME, "layer1.0.conv1/Wq"),
    "W without limit": (weights_without_limit, EXTREME, "layer1.0.conv1/W"),
    "m1 not rounded": (finer("m1"), RANDOM, "layer2.0.bn2/m1"),
    "m2 not rounded": (finer("m2"), WIDE, "layer2.0.bn2/m2"),
    "eps forgotten": (no_eps, RANDOM, "bn1/x2"),
    "mask at zero": (mask_at_zero, ZERO, "layer2.0.relu2/e1"),
    "exponent of products": (exponent_of_products, RANDOM, "layer1.0.conv1/x1"),
    "exponent of R": (exponent_of_R, RANDOM, "layer2.0.relu2/e0"),
    "R in the linear domain": (R_rounded_in_the_linear_domain, RANDOM, "layer2.0.conv2/e3"),
    "R over too few channels": (first_maximum_missed, RANDOM, "layer2.0.conv2/e3"),
    "variance": (variance_over_one_less, RANDOM, "bn1/sigma"),
    "another stream": (words_of(lambda it, name: (name + "q", it.step)), RANDOM, "layer2.0.conv2/gWq"),
    "another step": (words_of(lambda it, name: (name, it.step + 1)), RANDOM, "layer2.0.conv2/gWq"),
    "another seed": (words_of(lambda it, name: (name.upper(), 0)), FIXED16, "fc/gWq"),
    "momentum": (momentum_of_one, RANDOM, "bn1/Acc_gamma"),
    "update by Acc_q": (update_with_the_stored_momentum, RANDOM, "bn1/gamma"),
    "running statistics": (attribute(BatchNorm2d, "SHIFT", 4), RANDOM, "state bn1.running_mean"),
    "block: its error by SQ": (
        block_error(lambda e: quantizers.quantize(e, Shift(8)).to_float32()),
        BLOCK,
        "relu1/e0",
    ),
    "block: a last place of its error": (block_error(lambda e: np.nextafter(e, e * 2)), BLOCK, "relu1/e0"),
    "block: x4 cut off": (block_x4("to_zero"), BLOCK, "relu1/x4"),
    "block: mask of x4": (block_mask_of_x4, BLOCKS, "relu1/e1"),
    "block: eps": (attribute(norm, "FLOAT_EPS", np.float32(2.0**-15)), BLOCK, "bn1/x3"),
    "block: error of batch norm": (last_place(float32_rows, "input_error"), BLOCK, "conv1/e3"),
    "block: a rate of gamma": (another_rate_of_batch_norm, BLOCK, "bn1/gamma"),
    "block: running statistics": (attribute(BatchNorm2d, "SHIFT", 4), BLOCK, "state bn1.running_mean"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_seen_where_it_is(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seed, case, path = FAULTS[fault]
    seed(monkeypatch)
    assert differences(run_case(case)[0])[0] == path


@pytest.mark.parametrize("case", [RANDOM, WIDE, TIES, EXTREME, ZERO, FIXED16, BLOCK, BLOCKS], ids=str)
def test_without_a_fault_nothing_is_seen(case: Case) -> None:
    assert differences(run_case(case)[0]) == []


def test_a_wrong_count_is_seen() -> None:
    """Not a value but the report: one saturated element too many."""
    result = run_case(RANDOM)[0]
    name = next(iter(result.saturated))
    result.saturated[name] += 1
    assert differences(result) == [f"{name} saturated"]


def test_a_missing_and_an_unknown_tensor_are_seen() -> None:
    result = run_case(RANDOM)[0]
    result.values["bn1/x5"] = result.values.pop("bn1/x2")
    assert differences(result) == ["bn1/x2 missing", "bn1/x5 extra"]
