"""The units of scales, and the out ports that they share with `mac_requant`.

Their results are limited to OUT bits by a rule with a name; `listing.UNITS` has all units.
"""

from dataclasses import replace
from typing import Any

from intnet.packs.ports import Port
from intnet.packs.units.signals import Choice, Parameters, Range, Scale, Setting, Unit, signal
from intnet.spec.units.steps import MODES, OVERFLOWS, ends

SAID = {
    "ties_even": "ties to even",
    "ties_away": "ties away from zero",
    "ties_pos": "ties towards +infinity",
    "to_neg": "floor",
    "to_pos": "ceiling",
    "to_zero": "truncated towards zero",
}


def rounding(mode: str, low: int | None, high: int | None, **more: Any) -> dict[str, Any]:
    """The JSON of how a result came from its exact value; words and word_bits where it is stochastic."""
    overflow = "" if high is None and "limit" not in more else "saturate"
    return {
        "mode": mode,
        "low": low,
        "high": high,
        "overflow": overflow,
        "words": None,
        "word_bits": 32,
    } | more


def limits_of_q(mode: str, overflow: str) -> dict[str, Setting]:
    """The parameters of a limited result: how it is rounded, its sign, zero point and limits."""
    return {
        "QS": Range(1, 0, 1),
        "ZQ": Range(0, -(1 << 23), (1 << 24) - 1),
        "MODE": Choice(mode, MODES),
        "OVERFLOW": Choice(overflow, OVERFLOWS),
    }


def limited_port(
    formula: str, p: Parameters, exponent: int | None = None, zero: str = ""
) -> tuple[Port, Port]:
    """q = limit(round(formula) + zero point), and whether the limit changed it."""
    wraps = p["OVERFLOW"] == "wrap"
    low, high = ends(p["OUT"], p["OVERFLOW"], bool(p["QS"]))
    zero = zero or (str(p["ZQ"]) if p.get("ZQ") else "")
    value = f"round({formula})" + (f" + {zero}" if zero else "")
    limit = f"the low {p['OUT']} bits of {value}" if wraps else f"clip({value}, {low}, {high})"
    return (
        signal(
            "q",
            p["OUT"],
            f"{limit}, {SAID[p['MODE']]}",
            signed=bool(p["QS"]),
            direction="out",
            exponent=exponent,
            rounding=rounding(p["MODE"], *((None, None) if wraps else (low, high))),
        ),
        signal("saturated", 1, "1 where the limit changed q", signed=False, direction="out"),
    )


def _shift_signals(p: Parameters, scale: Scale) -> tuple[Port, ...]:
    return (
        signal("x", p["W"], "a code", signed=bool(p["XS"])),
        *limited_port(f"x / 2^{p['S']}", p),
    )


def _shift_by_signals(p: Parameters, scale: Scale) -> tuple[Port, ...]:
    return (
        signal("x", p["W"], "a code", signed=bool(p["XS"])),
        signal("n", p["NB"], "bits to shift right; to the left where n < 0"),
        *limited_port("x / 2^n", p),
    )


def _scale_add_signals(p: Parameters, scale: Scale) -> tuple[Port, ...]:
    return (
        signal("x", p["W"], "a code", signed=bool(p["XS"])),
        signal("scale", p["B"], "of the channel"),
        signal("offset", p["OB"], "of the channel"),
        *limited_port(f"(x * scale + offset) / 2^{p['S']}", p),
    )


def _requantize_signals(p: Parameters, scale: Scale) -> tuple[Port, ...]:
    once, twice = "acc * multiplier / 2^(31 + n)", "h / 2^max(0, n)"
    q, saturated = limited_port(twice if p["TWICE"] else once, p, zero="zero_point")
    if p["TWICE"]:
        q = replace(q, meaning=f"{q.meaning}; h = round(acc * 2^max(0, -n) * multiplier / 2^31), ties up")
    return (
        signal("acc", p["W"], "a sum"),
        signal("multiplier", 31, "of the channel, in units of 2^-31", signed=False),
        signal("n", 6, "of the channel: bits to shift right; to the left where n < 0"),
        signal("zero_point", p["OUT"], "of the tensor", signed=bool(p["QS"])),
        q,
        saturated,
    )


def _wrong_requantize(p: Parameters) -> str:
    if p["TWICE"] and p["MODE"] != "ties_away":
        return "TWICE=1 rounds the second time with ties away from zero, as gemmlowp does: set MODE=ties_away"
    return ""


OUT, SIGNED = Range(8, 2, 32), Range(1, 0, 1)
SCALES = (
    Unit(
        "shift",
        "static shift with rounding and limits",
        {"W": Range(24, 4, 48), "S": Range(8, 0, 44), "OUT": OUT, "XS": SIGNED}
        | limits_of_q("ties_even", "saturate"),
        _shift_signals,
    ),
    Unit(
        "shift_by",
        "run-time shift both ways with rounding and limits",
        {"W": Range(24, 4, 48), "NB": Range(6, 2, 8), "OUT": OUT, "XS": SIGNED}
        | limits_of_q("ties_even", "saturate"),
        _shift_by_signals,
    ),
    Unit(
        "scale_add",
        "multiply-add, shift and limits: batch norm at inference",
        {
            "W": Range(24, 4, 32),
            "B": Range(16, 2, 24),
            "OB": Range(40, 4, 56),
            "S": Range(16, 0, 44),
            "OUT": OUT,
            "XS": SIGNED,
        }
        | limits_of_q("ties_even", "saturate"),
        _scale_add_signals,
    ),
    Unit(
        "requantize",
        "accumulator x multiplier >> shift + zero point, rounded once, or twice as gemmlowp does",
        {
            "W": Range(32, 8, 40),
            "LEFT": Range(8, 0, 16),
            "RIGHT": Range(24, 0, 31),
            "OUT": OUT,
            "TWICE": Range(0, 0, 1),
        }
        | {name: setting for name, setting in limits_of_q("ties_pos", "saturate").items() if name != "ZQ"},
        _requantize_signals,
        _wrong_requantize,
    ),
)
