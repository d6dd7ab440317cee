"""Rates that move from step to step: values by hand, then each float64 against the oracle's integers."""

from decimal import localcontext
from fractions import Fraction
from math import cos, pi

import pytest

from intnet import methods
from intnet.errors import ConfigError
from intnet.methods.schedules import factor, one_cycle
from intnet.spec.methods import float_master
from intnet.spec.methods.float_master import Settings
from intnet.spec.methods.step import at

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


@pytest.mark.parametrize("lr", ["0", "-0.1", "1e-46", "0.1,1e-50@1", "1e39", "inf", "nan"])
def test_rates_are_what_float32_holds(lr: str) -> None:
    """One below would train nothing, one above end in infinities."""
    for method in ("float32", "adapt"):
        with pytest.raises(
            ConfigError, match=f"{method}: lr='{lr}': a learning rate is a positive number that fl"
        ):
            methods.make(method, lr=lr)
    for rate in (2.0**-149, 3.4028234663852886e38):
        assert methods.make("float32", lr=f"{rate!r}").lr.at(0) == rate  # type: ignore[attr-defined]


def test_epochs_are_read_as_they_are_written() -> None:
    """0.1 epochs of 10 steps are one step, though no float64 is 1/10; the float32 rate is lr times it."""
    method = methods.make("float32", lr="0.5,0.25@1", warmup="0.3", cosine="0.1")
    method.steps_per_epoch = 10
    rates = []
    for step in range(14):
        method.set(step=step, epoch=step // 10)
        rates.append(method.rate())  # type: ignore[attr-defined]
    assert rates == [0.5 * (1 / 3), 0.5 * (2 / 3), *[0.5] * 8, *[0.25] * 4]


def test_one_cycle_by_hand() -> None:
    """T = 20 steps: the top at step 5, the end at step 19; halfway down at step 12; the end stays."""
    rates = [one_cycle(step, 10, Fraction(2)) for step in range(22)]
    assert rates[0] == 0.04 and rates[5] == 1.0 and rates[12] == 0.500002
    assert rates[19:] == [0.000004] * 3
    assert (
        max(rates) == 1.0 and rates[:6] == sorted(rates[:6]) and rates[5:] == sorted(rates[5:], reverse=True)
    )


def test_one_cycle_as_pytorch_has_it() -> None:
    """`end + (start - end) / 2.0 * (cos(pi * pct) + 1)` of its two phases, in float64."""
    for steps in (1, 3, 4, 10, 97, 400):
        top, last = float(0.3 * steps) - 1, steps - 1
        for step in range(steps):
            start, end, pct = 1 / 25, 1.0, step / top if top > 0 else 2.0
            if step > top or top <= 0:
                start, end, pct = 1.0, 1 / 25 / 1e4, (step - top) / (last - top)
            mine = one_cycle(step, 1, Fraction(steps))
            assert mine == pytest.approx(end + (start - end) / 2.0 * (cos(pi * pct) + 1), rel=1e-9)


@pytest.mark.parametrize("per_epoch", [1, 7, 23])
@pytest.mark.parametrize("cycle", [Fraction(1), Fraction(5, 2), Fraction(30)])
def test_one_cycle_is_the_nearest_float64(per_epoch: int, cycle: Fraction) -> None:
    steps = range(0, int(31 * per_epoch), 1 + per_epoch // 5)
    with localcontext(prec=3):
        got = [one_cycle.__wrapped__(step, per_epoch, cycle) for step in steps]
    assert got == [float_master.one_cycle(cycle, step, per_epoch) for step in steps]


def test_one_cycle_of_a_method() -> None:
    method = methods.make("saved", lr="0.5,0.25@1", one_cycle="1.5")
    method.steps_per_epoch = 10
    rates = []
    for step in range(20):
        method.set(step=step, epoch=step // 10)
        rates.append(method.rate())  # type: ignore[attr-defined]
    settings = Settings.from_options({"lr": "0.5,0.25@1", "one_cycle": "1.5"})
    assert rates == [
        at(settings.lr, step // 10) * float_master.scaling(settings, step, 10) for step in range(20)
    ]
    for other in ({"warmup": 1}, {"cosine": 3}):
        with pytest.raises(ConfigError, match="one_cycle=2 rises and falls by itself"):
            methods.make("adapt", one_cycle=2, **other)
