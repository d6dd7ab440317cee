"""Packs for testbenches: every unit at every level, small ones, and one of layers with ports of all kinds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from intnet.numbers.formats import Shift
from intnet.numbers.qtensor import QTensor
from intnet.packs import ports, units
from intnet.packs.ports import Case, Draft
from intnet.packs.units import drafts

Settings = dict[str, Any]
STREAMED = {"latency": 3, "ready": 1, "reset": 1}  # all that a stream has
# Small enough to run every input, and the parameters' edges.
SMALL: list[tuple[str, Settings]] = [
    ("quantize_q", {"W": 16, "S": 7}),
    ("quantize_q", {"W": 8, "S": 1}),
    ("quantize_q", {"W": 8, "S": -3}),
    ("quantize_sq", {"W": 10, "EX": -40, "K": 4}),
    ("quantize_sq", {"W": 12, "EX": 9}),
    ("quantize_sq", {"W": 8, "EX": -3, "K": 4}),
    ("quantize_cq", {"W": 10, "EX": -3}),
    ("quantize_cq", {"W": 8, "EX": -3}),
    ("quantize_cq", {"lfsr": 0xACE1}),
    ("quantize_flag", {"W": 10, "EX": -40}),
    ("quantize_flag", {"W": 8, "EX": 5}),
    ("r_exponent", {"W": 8, "EX": 3}),
    ("mac_requant", {"LANES": 1, "A": 4, "B": 4, "ACC": 12, "S": 1, "OUT": 4}),
    ("block_dot", {"BLOCK": 3, "M": 5, "GUARD": 8}),
    ("mx_dot", {"A": "E2M1", "B": "E2M1", "LANES": 1, "K": 3}),
    ("mx_dot", {"A": "E5M2", "B": "E5M2", "LANES": 2, "K": 8}),
    ("mx_dot", {"A": "INT8", "B": "E3M2", "LANES": 2, "K": 6}),
    ("mac_requant", {"MODE": "ties_away", "XS": 0, "WS": 0, "ZX": 128, "ZW": 7, "QS": 0, "ZQ": 3, "ACC": 30}),
    ("mac_requant", {"MODE": "to_zero", "OVERFLOW": "wrap", "SUMS": "wrap", "ACC": 20, "S": 0, "LANES": 2}),
    ("mac_requant", {"MODE": "ties_pos", "OVERFLOW": "saturate", "SUMS": "saturate", "ACC": 20, "S": 6}),
    ("shift", {"W": 10, "S": 3, "MODE": "ties_away", "ZQ": -5}),
    ("shift", {"W": 20, "S": 0, "XS": 0, "QS": 0, "OVERFLOW": "wrap"}),
    ("shift_by", {"W": 8, "NB": 5, "MODE": "to_pos", "OVERFLOW": "wrap"}),
    ("shift_by", {"W": 12, "XS": 0, "QS": 0, "OUT": 6, "MODE": "ties_pos", "ZQ": 9}),
    ("scale_add", {"W": 12, "B": 8, "OB": 24, "S": 7, "MODE": "to_neg", "OVERFLOW": "saturate_symmetric"}),
    ("scale_add", {"XS": 0, "S": 0, "MODE": "to_zero", "OVERFLOW": "wrap", "OUT": 12}),
    ("requantize", {"TWICE": 1, "MODE": "ties_away"}),
    ("requantize", {"W": 20, "LEFT": 2, "RIGHT": 10, "QS": 0, "MODE": "ties_even", "OVERFLOW": "wrap"}),
]
EVERY: list[tuple[str, str, Settings]] = [
    *((name, level, {}) for name in units.UNITS for level in units.LEVELS),
    *((name, level, settings) for name, settings in SMALL for level in ("L0", "L1", "L2")),
]


def label(value: object) -> str:
    """Of a parameter, in a test's name."""
    return drafts.label("", value).strip("-") if isinstance(value, dict) else str(value)


@cache
def _made(name: str, level: str, settings: tuple[tuple[str, Any], ...]) -> Draft:
    return units.draft(name, level, dict(settings))


def made(name: str, level: str, settings: Mapping[str, Any] | None = None) -> Draft:
    """A unit's pack, made once a process."""
    return _made(name, level, tuple((settings or {}).items()))


def many_kinds() -> Draft:
    """A pack as of layers: words of 1..1024 bits, odd widths, signs, floats, and names that are no names."""
    rng = np.random.default_rng(3)

    def codes(low: int, high: int, *shape: int) -> np.ndarray:
        return rng.integers(low, high, shape)

    filled = [
        ports.whole_number("fc2/x0", "in", codes(-128, 128, 6, 64), "N,C", 8, exponent=-7, meaning="a \\ é"),
        ports.whole_number("fc2/gW.words", "rnd", codes(0, 2**32, 5, 32), "element", 32, signed=False),
        ports.whole_number("fc2/e3", "out", codes(-64, 64, 9, 13), "N,C", 7),
        ports.whole_number("1/bit", "out", codes(0, 2, 5), "C", 1, signed=False),
        *ports.tensor("fc2/y", "out", rng.standard_normal((4, 3), np.float32), "N,C"),
        *ports.tensor("fc2/q", "out", QTensor(codes(-127, 128, 8, 8), -3, Shift(8)), "N,C"),
        ports.whole_number("fc2/wide", "trail", codes(-(2**60), 2**60, 3, 16), "N,C", 61, explains="fc2/q"),
    ]
    return Draft("layers 1.5", "L3", {"kind": "test"}, filled, [Case(0, "fc2/q", "L3", "tie", 0)])
