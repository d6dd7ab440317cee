"""Why a number went up or down, in words, for `explain.py`; the decision itself is `spec.rounding`'s."""

from intnet.errors import FormatError
from intnet.numbers.rounding import MODES
from intnet.spec.rounding import HALF, Decision

Index = tuple[int, ...]


class Disagreement(RuntimeError):
    """An explanation, which the definition makes, and the kernels do not agree: a bug in intnet."""


def comma(numbers: Index) -> str:
    """'0,3,1'."""
    return ",".join(map(str, numbers))


def rule(mode: str, made: Decision, word: int | None = None) -> str:
    """'tie to even, floor 3 is odd: up to 4'; FormatError for a mode that has no words here."""
    if made.fraction == 0:
        return "on the grid: nothing to round"
    return f"{_why(mode, made, word)}: {'up' if made.up else 'down'} to {made.rounded}"


def _why(mode: str, made: Decision, word: int | None) -> str:
    floor, sign = made.floor, "negative" if made.floor < 0 else "positive"
    if mode == "stochastic":
        return f"random word {word} {'<' if made.up else '>='} {made.threshold}"
    directed = {"to_neg": "always down", "to_pos": "always up", "to_zero": f"towards zero, {sign}"}
    if mode in directed:
        return directed[mode]
    ties = {
        "ties_even": f"tie to even, floor {floor} is {'odd' if floor % 2 else 'even'}",
        "ties_away": f"tie away from zero, {sign}",
        "ties_pos": "tie towards +infinity",
    }
    own = MODES.get(mode)
    if callable(own):
        return f"{mode}: {(own.__doc__ or '').strip().splitlines()[0].rstrip('.')}"
    if mode not in ties:
        raise FormatError(f"how {mode!r} decides is not told here")
    if made.tie:
        return ties[mode]
    return f"nearest, remainder {'above' if made.fraction > HALF else 'below'} 1/2"
