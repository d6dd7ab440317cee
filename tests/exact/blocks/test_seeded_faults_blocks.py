"""Test the tester: faults put into block float, one at a time, are each seen.

Every fault is what a careless edit would do. The sweeps pass without one, so what makes them fail is it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest

from intnet.exact.blocks import block_float, block_loops
from intnet.exact.blocks.block_float import BlockTensor
from intnet.numbers.qtensor import QTensor
from intnet.ops import blocks
from tests.exact.blocks import test_block_products, test_block_tensor
from tests.support.faults import Fault, Patch, caught, pairs, replace

pytestmark = pytest.mark.slow

# -- block float -----------------------------------------------------------------------------------


def plain_quantize(
    *, ties: str = "even", power: bool = False, limit: str = "both", low: str = "zero", filled: str = "kept"
) -> Callable[..., None]:
    """A plain twin of the loop that rounds, one block after another, with room for a fault."""
    rounds = {
        "even": np.rint,
        "away": lambda v: np.sign(v) * np.floor(np.abs(v) + 0.5),
        "up": lambda v: np.floor(v + 0.5),
        "down": lambda v: np.ceil(v - 0.5),
    }

    def one(xs: np.ndarray, b: int) -> tuple[np.ndarray, int, bool, int]:
        top = float(np.abs(xs).max(initial=0))
        fraction, e = np.frexp(top)
        e = int(e) - int(power and fraction == 0.5) if top else -1000
        alive = e >= -128 or (low == "clamped" and top > 0)
        e = max(e, -128)
        if not alive or not b:
            return np.zeros(xs.shape, np.int64), e, alive if filled == "kept" else bool(alive and b), 0
        codes = rounds[ties](np.ldexp(xs.astype(np.float64), b - 1 - e)).astype(np.int64)
        most = 2 ** (b - 1) - 1
        inside = np.clip(
            codes, {"both": -most, "none": -999, "above": -most - 1}[limit], most + 900 * (limit == "none")
        )
        return inside, e, True, int(np.count_nonzero(inside != codes))

    def quantize(
        x: np.ndarray, bits: np.ndarray, inner: int, widths: np.ndarray, codes: np.ndarray,
        exponents: np.ndarray, kept: np.ndarray, saturated: np.ndarray, beyond: np.ndarray,
    ) -> None:  # fmt: skip
        beyond[0] = not np.all(np.abs(x) < 2.0**127)
        for a, m, b, s in np.ndindex(*widths.shape) if not beyond[0] else ():
            there = (slice(4 * a, 4 * a + 4), m, slice(4 * b * inner + s, 4 * (b + 1) * inner, inner))
            codes[there], exponents[a, m, b, s], kept[a, m, b, s], count = one(
                x[there], int(widths[a, m, b, s])
            )
            saturated[a * x.shape[1] + m] += count

    return quantize


def rounds_with(**fault: Any) -> Fault:
    """The plain twin with a fault in place of the loop."""
    return lambda patch: patch.setattr(block_loops, "quantize", plain_quantize(**fault))


def never_counted(original: Any, *args: Any, **more: Any) -> BlockTensor:
    made = original(*args, **more)
    object.__setattr__(made, "saturated", 0)
    return made


def bytes_backwards(original: Any, self: BlockTensor) -> np.ndarray:
    """The first mantissa in the highest bits."""
    return np.asarray(original(self))[::-1]


def columns_first(original: Any, codes: np.ndarray, axes: Any) -> np.ndarray:
    """Mantissas of a block column by column."""
    return np.asarray(original(codes, axes)).reshape(-1, 4, 4).transpose(0, 2, 1).reshape(-1, 16)


def limb_changed(number: int, mask: int, places: int) -> Callable[..., list[QTensor]]:
    """Of several limbs one with bits masked out of its codes, or at another place."""

    def limbs(original: Any, *args: Any) -> list[QTensor]:
        made = original(*args)
        if len(made) > 1:
            limb = made[number]
            codes = limb.codes & np.int16(mask)
            made[number] = QTensor(codes, int(limb.exponent) + places, bound=max(limb.bound, 1 << 14))
        return made

    return limbs


def one_bit_too_few(patch: Patch) -> None:
    """The greatest exponent is left out of the bits of a tensor."""
    extent = BlockTensor.extent.func  # type: ignore[attr-defined]
    patch.setattr(BlockTensor, "extent", property(lambda self: (extent(self)[0], extent(self)[1] - 1)))


def limb_by_limb(original: Any, xs: Any, ys: Any, *args: Any) -> np.ndarray:
    """Each product of limbs is rounded, and so is each sum, the highest limbs first."""
    parts = [original([x], [y], *args) for x in xs[::-1] for y in ys[::-1]]
    return reduce(np.add, parts)


def ties_sweep() -> None:
    for b, e in ((2, 0), (4, -126), (8, 3), (8, 127)):
        test_block_tensor.test_every_tie_and_its_neighbours(b, e)


def powers_sweep() -> None:
    for p in (-130, -128, 0, 125):
        test_block_tensor.test_a_greatest_number_at_and_beside_a_power_of_two(p)


def sparse_sweep() -> None:
    for sizes in test_block_products.CONVS[:4]:
        test_block_products.test_sizes_of_convolutions(sizes, True)


def windows_sweep() -> None:
    with pytest.MonkeyPatch.context() as patch:
        test_block_products.test_every_window(1, 3, patch)


def limbs_sweep() -> None:
    for spread in range(4, 34):
        test_block_products.test_spreads_of_one_limb_two_three_and_more(spread)


SWEEPS: dict[str, Callable[[], None]] = {
    "ties": ties_sweep,
    "powers": powers_sweep,
    "least": test_block_tensor.test_below_the_least_exponent_a_block_is_zero_whatever_its_bits,
    "saturation": test_block_tensor.test_saturation_is_counted_code_by_code,
    "bytes": test_block_tensor.test_bytes_by_hand,
    "rows": test_block_tensor.test_rows_of_a_block_run_along_its_second_axis,
    "order": test_block_tensor.test_bytes_of_blocks_follow_their_index,
    "shapes": lambda: test_block_tensor.test_shapes((5, 2, 3, 3), (0, 3)),
    "sparse": sparse_sweep,
    "windows": windows_sweep,
    "products": lambda: test_block_products.test_sizes_of_matrices(13, 17),
    "float32 ties": lambda: test_block_products.test_one_unit_beside_a_tie(-80),
    "limbs": limbs_sweep,
    "limb ties": lambda: test_block_products.assert_sums([0, -24, -37]),
    "cancel": test_block_products.test_total_cancellation_is_plus_zero,
}

FAULTS: dict[str, tuple[Fault, list[str]]] = {
    "e off by one at a power of two": (rounds_with(power=True), ["powers"]),
    "ties away": (rounds_with(ties="away"), ["ties"]),
    "ties upward": (rounds_with(ties="up"), ["ties"]),
    "ties downward": (rounds_with(ties="down"), ["ties"]),
    "no saturation": (rounds_with(limit="none"), ["ties", "saturation"]),
    "-2^(b-1) allowed": (rounds_with(limit="above"), ["ties", "saturation"]),
    "e below -128 clamped": (rounds_with(low="clamped"), ["powers", "least"]),
    "saturation not counted": (
        lambda patch: patch.setattr(test_block_tensor, "quantize_blocks", _wrapped(never_counted)), ["ties"]),
    "bytes backwards": (replace(BlockTensor, "pack", bytes_backwards), ["bytes", "rows", "order"]),
    "columns first": (replace(block_float, "_by_block", columns_first), ["rows", "shapes"]),
    "a limb's lowest bit lost": (replace(BlockTensor, "limbs", limb_changed(0, -2, 0)), ["limbs"]),
    "a limb's highest bits lost": (replace(BlockTensor, "limbs", limb_changed(0, 0x3F, 0)), ["limbs"]),
    "the second limb one place too high": (replace(BlockTensor, "limbs", limb_changed(1, -1, 1)), ["limbs"]),
    "the last limb without its sign": (
        replace(BlockTensor, "limbs", limb_changed(-1, 0x7FFF, 0)), ["limbs", "products"]),
    "limbs of one bit too few": (one_bit_too_few, ["limbs", "products"]),
    "all in one limb": (replace(blocks, "_counts", lambda f, *bits: (1, 1)), ["limbs"]),
    "limb by limb into float32": (replace(blocks, "sum_of_products", limb_by_limb), ["limb ties"]),
}  # fmt: skip


def _wrapped(change: Any) -> Any:
    original = block_float.quantize_blocks
    return lambda *args, **more: change(original, *args, **more)


@pytest.mark.parametrize("name", SWEEPS)
def test_without_a_fault_every_sweep_passes(name: str, monkeypatch: Patch) -> None:
    assert not caught(SWEEPS[name])
    if name in ("ties", "powers", "least", "saturation"):
        monkeypatch.setattr(block_loops, "quantize", plain_quantize())
        assert not caught(SWEEPS[name])


@pairs(FAULTS)
def test_a_fault_is_caught(fault: str, sweep: str, monkeypatch: Patch) -> None:
    FAULTS[fault][0](monkeypatch)
    assert caught(SWEEPS[sweep])
