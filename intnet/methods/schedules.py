"""Values that change by epoch, written as text: '26,13@30,3@60' is 26, from epoch 30 on 13, from 60 on 3.

Epochs count from 0. Used for learning rates (codes or floats), dr of CQ, and probabilities. What scales a
float rate from step to step is `factor`: a linear rise, then falls along half a cosine; or `one_cycle`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Generic, TypeVar

from intnet.errors import ConfigError

T = TypeVar("T", int, float)

LEAST, GREATEST = 2.0**-149, 2.0**128 - 2.0**104  # of float32, above 0

_DIGITS = Context(prec=50)
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582")


@dataclass(frozen=True)
class Schedule(Generic[T]):
    """Steps (first epoch, value), ascending, the first at epoch 0."""

    steps: tuple[tuple[int, T], ...]

    def at(self, epoch: int) -> T:
        """The value that holds in `epoch`. Defined by `spec/methods/step.py: at`."""
        return next(value for first, value in reversed(self.steps) if first <= epoch)


def parse(text: str, number: Callable[[str], T], what: str) -> Schedule[T]:
    """A Schedule from 'VALUE[,VALUE@EPOCH]...'; ConfigError naming `what` where it is not one.

    Defined by `spec/methods/step.py: schedule`.
    """
    steps: list[tuple[int, T]] = []
    for part in str(text).split(","):
        value, _, epoch = part.strip().partition("@")
        try:
            steps.append((int(epoch) if epoch else 0, number(value)))
        except ConfigError:  # of a number that says more
            raise
        except (ValueError, OverflowError):
            raise ConfigError(
                f"{what}={text!r}: {part!r} is not VALUE or VALUE@EPOCH, as in '26,13@30'"
            ) from None
    if steps[0][0] != 0 or any(b[0] <= a[0] for a, b in pairwise(steps)):
        raise ConfigError(
            f"{what}={text!r}: the first value takes no epoch, later ones rising epochs, as in '26,13@30'"
        )
    return Schedule(tuple(steps))


def rates(text: str, what: str) -> Schedule[float]:
    """Learning rates as `parse` reads them; ConfigError unless each is positive and float32 holds it."""
    schedule = parse(text, float, what)
    if not all(LEAST <= rate <= GREATEST for _, rate in schedule.steps):
        raise ConfigError(f"{what}={text!r}: a learning rate is a positive number that float32 holds")
    return schedule


def probabilities(text: str | float, what: str) -> Schedule[float]:
    """Probabilities as `parse` reads them; ConfigError unless each is from 0 to 1."""
    schedule = parse(str(text), float, what)
    if not all(0 <= share <= 1 for _, share in schedule.steps):
        raise ConfigError(f"{what}={text!r}: a probability is from 0 to 1")
    return schedule


# -- from step to step ---------------------------------------------------------------------------


@lru_cache(maxsize=8)  # every parameter of a step asks for the same one
def factor(step: int, steps_per_epoch: int, warmup: Fraction, cosine: Fraction | None) -> float:
    """What multiplies the learning rate of step `step` (steps done, from 0), in (0, 1].

    In the first `warmup` epochs, of w steps, (step + 1)/w, at most 1. After them, with `cosine` = E, the
    half wave (1 + cos(pi u))/2 for the share u of E epochs that is done, and again from 1 after each E
    epochs (Loshchilov and Hutter 2017, "SGDR", Eq. 5 with eta_min = 0 and T_i = E); without it 1. The
    float64 nearest to the exact number.

    Defined by `spec/methods/float_master.py: factor`.
    """
    done = Fraction(step, steps_per_epoch)
    if done < warmup:
        return float(min(Fraction(step + 1) / (warmup * steps_per_epoch), Fraction(1)))
    if cosine is None:
        return 1.0
    return float(_half_wave((done - warmup) / cosine % 1))


def reduce_on_plateau(
    state: Sequence[float], loss: float, patience: int, by: float, threshold: float
) -> tuple[float, float, float]:
    """(factor of lr, best loss, epochs since) after an epoch of mean loss `loss`; as PyTorch's scheduler.

    An epoch is better whose loss is below best * (1 - threshold); after more than `patience` others in a row
    the factor is multiplied by `by`.

    Defined by `spec/methods/float_master.py: plateau`.
    """
    factor, best, waited = state
    if loss < best * (1 - threshold):
        return factor, loss, 0
    if waited + 1 > patience:
        return factor * by, best, 0
    return factor, best, waited + 1


@lru_cache(maxsize=8)
def one_cycle(step: int, steps_per_epoch: int, cycle: Fraction) -> float:
    """What multiplies the greatest rate by PyTorch's OneCycleLR and its defaults, T steps in `cycle` epochs.

    From 1/25 up along half a cosine to 1 at step 0.3 T - 1, then down along another to 1/(25 * 10^4) at
    step T - 1, which stays. The float64 nearest to the exact number.

    Defined by `spec/methods/float_master.py: one_cycle`.
    """
    steps, d = cycle * steps_per_epoch, _DIGITS
    top = Fraction(3, 10) * steps - 1
    if step < top:
        return float(d.subtract(Decimal(1), d.multiply(Decimal("0.96"), _half_wave(step / top))))
    u = (step - top) / (steps - 1 - top)
    wave, least = _half_wave(u) if u < 1 else Decimal(0), Decimal("0.000004")
    return float(d.add(least, d.multiply(d.subtract(Decimal(1), least), wave)))


def _half_wave(u: Fraction) -> Decimal:
    """(1 + cos(pi u))/2 for 0 <= u < 1: Taylor's series with 50 digits.

    Defined by `spec/methods/float_master.py: half_wave`.
    """
    d = _DIGITS
    square = d.power(d.multiply(_PI, d.divide(Decimal(u.numerator), Decimal(u.denominator))), 2)
    term = total = Decimal(1)
    k = 0
    while term.copy_abs() > Decimal("1e-48"):
        k += 2
        term = d.divide(d.multiply(term, square.copy_negate()), Decimal(k * (k - 1)))
        total = d.add(total, term)
    return d.divide(d.add(Decimal(1), total), Decimal(2))
