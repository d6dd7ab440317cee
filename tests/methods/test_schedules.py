"""Rates that move from step to step: values by hand, then each float64 against the oracle's integers."""

from decimal import localcontext
from fractions import Fraction

import pytest

from intnet import methods
from intnet.methods.schedules import factor
from intnet.spec.methods import float_master
from intnet.spec.methods.float_master import Settings

ZERO = Fraction(0)


def factors(steps: int, per_epoch: int, warmup: Fraction, cosine: Fraction | None) -> list[float]:
    return [factor(step, per_epoch, warmup, cosine) for step in range(steps)]


def test_without_either_nothing_is_scaled() -> None:
    assert factors(9, 4, ZERO, None) == [1.0] * 9


def test_warmup_by_hand() -> None:
    """1.5 epochs of 4 steps rise in six steps; 1.25 epochs of 2, two and a half steps, end at 1."""
    sixths = [1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6, 1.0]
    assert factors(8, 4, Fraction(3, 2), None) == [*sixths, 1.0, 1.0]
    assert factors(5, 2, Fraction(5, 4), None) == [0.4, 0.8, 1.0, 1.0, 1.0]


def test_cosine_by_hand() -> None:
    """cos is 1, 1/2, 0, -1/2 at thirds and halves of pi; after E epochs it starts from the top."""
    assert factors(8, 3, ZERO, Fraction(1)) == [1.0, 0.75, 0.25, 1.0, 0.75, 0.25, 1.0, 0.75]
    assert factors(6, 2, ZERO, Fraction(1)) == [1.0, 0.5, 1.0, 0.5, 1.0, 0.5]
    # E = 1.5 epochs of 4 steps: a restart in the midst of an epoch
    wave = factors(12, 4, ZERO, Fraction(3, 2))
    assert wave[:6] == wave[6:] and (wave[2], wave[3], wave[4]) == (0.75, 0.5, 0.25)


def test_the_wave_begins_where_the_warmup_ends() -> None:
    assert factors(7, 2, Fraction(1), Fraction(1)) == [0.5, 1.0, 1.0, 0.5, 1.0, 0.5, 1.0]


@pytest.mark.slow
@pytest.mark.parametrize("per_epoch", [1, 7, 23, 1000])
@pytest.mark.parametrize(("warmup", "cosine"), [(ZERO, 3), (Fraction(3, 10), 1), (Fraction(5), 30)])
def test_every_step_is_the_nearest_float64(per_epoch: int, warmup: Fraction, cosine: int) -> None:
    settings = Settings(warmup=warmup, cosine=Fraction(cosine))
    steps = [*range(60), *range(61, 40 * per_epoch, 1 + per_epoch // 5)]
    with localcontext(prec=3):  # what a program set for its own decimals has no part in it
        got = [factor.__wrapped__(step, per_epoch, warmup, Fraction(cosine)) for step in steps]
    assert got == [float_master.factor(settings, step, per_epoch) for step in steps]
    assert all(0 < value <= 1 for value in got)


def test_epochs_are_read_as_they_are_written() -> None:
    """0.1 epochs of 10 steps are one step, though no float64 is 1/10; the float32 rate is lr times it."""
    method = methods.make("float32", lr="0.5,0.25@1", warmup="0.3", cosine="0.1")
    method.steps_per_epoch = 10
    rates = []
    for step in range(14):
        method.set(step=step, epoch=step // 10)
        rates.append(method.rate())  # type: ignore[attr-defined]
    assert rates == [0.5 * (1 / 3), 0.5 * (2 / 3), *[0.5] * 8, *[0.25] * 4]
