"""What every port of a layer's step must hold, as integers, from what the definition stored there.

    for name, codes in expected(plain, made): ...      codes None where PACK.json fits no words of it

Of a path: its words in the port's encoding; of blocks their exponents and widths besides, of a codec the
codes, scales and packed memory; its trail; the state that is left; the random words. `differences.py` has the
rest of what PACK.json says of a path: what entered it, the grid, the limits.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import prod
from typing import Any

from intnet.packs.by_spec.layers import LayerStep
from intnet.packs.by_spec.plain import Plain, flag_word, pattern_of
from intnet.packs.by_spec.trails import trail_of
from intnet.packs.layers.paths import state_path
from intnet.spec import float32 as floats
from intnet.spec import words as random
from intnet.spec.block_float import Blocks
from intnet.spec.digest import Words
from intnet.spec.methods.saved import Packed
from intnet.spec.tensor import Fixed, power
from intnet.spec.values import exact

Codes = list[int | None]  # None: no word of the port stands for the number
Expected = Iterator[tuple[str, Codes]]


def expected(plain: Plain, made: LayerStep) -> Expected:
    """(name, codes) of every port of the layer in the step that the definition gives."""
    for path, seen in made.seen.items():
        name = made.prefix + path
        if isinstance(seen.stored, Packed):
            yield from (part for part in _packed(name, seen.stored) if part[0] in plain.ports)
        elif isinstance(seen.stored, Blocks):
            yield from (part for part in _blocks(name, seen.stored) if part[0] in plain.ports)
        elif name in plain.ports:
            yield name, codes_of(plain, name, seen.stored)
        for part, numbers in trail_of(plain, name, seen, made.now).items():
            yield part, list(numbers)
    yield from _state(plain, made)
    for name, port in plain.ports.items():
        if port["direction"] == "rnd" and name.startswith(made.prefix):
            stream = f"{made.layer}/{name.removeprefix(made.prefix).removesuffix('.words')}"
            yield name, list(random.words(made.now.seed, made.now.step, stream, prod(port["shape"])))


def codes_of(plain: Plain, name: str, value: Any) -> Codes:
    """The integers of a port that holds `value`; of an exact quotient, those of its numerators."""
    port = plain.port(name)
    if port["encoding"] == "float64":
        return [pattern_of(v, 64) for v in value.values]
    if port["encoding"] == "float32":
        return [pattern_of(v, 32) for v in exact(value)]
    if port["encoding"] == "flag":
        codes = _at(value, port["exponent"])
        return [None if code is None else flag_word(code, port["bits"] - 1) for code in codes]
    codes = _at(value, port["exponent"] or 0)
    if None not in codes:
        return codes
    source = port["rounding"].get("source")
    if source is None or "terms" not in source:
        return codes
    dens = plain.denominators(source)
    return _whole([v * den / power(port["exponent"]) for v, den in zip(exact(value), dens, strict=True)])


def _at(value: Any, exponent: int) -> Codes:
    """Codes at an exponent."""
    if isinstance(value, Words):
        return list(value.codes) if value.exponent in (None, exponent) else [None] * len(value.codes)
    if isinstance(value, Fixed) and value.exponent == exponent:
        return list(value.codes)
    return _whole([v / power(exponent) for v in exact(value)])


def _whole(numbers: Sequence[Fraction]) -> Codes:
    return [v.numerator if v.denominator == 1 else None for v in numbers]


# -- blocks and buckets ----------------------------------------------------------------------------


def _blocks(name: str, value: Blocks) -> Expected:
    """Mantissas; e and b of every block."""
    yield name, list(value.codes)
    yield f"{name}.e", list(value.exponents.values())
    yield f"{name}.bits", list(value.bits.values())


def _packed(name: str, value: Packed) -> Expected:
    """a~, codes, scales, zero points, widths, memory."""
    found = value.saved.buckets
    yield name, [floats.bits_of(v) for v in value.saved.values]
    yield f"{name}.code", [code for b in found for code in b.codes]
    yield f"{name}.scale", [floats.bits_of(b.scale) for b in found]
    yield f"{name}.zero", [floats.bits_of(b.zero) for b in found]
    yield f"{name}.bits", list(value.widths)
    yield f"{name}.packed", list(value.saved.packed)


# -- state -----------------------------------------------------------------------------------------


def _state(plain: Plain, made: LayerStep) -> Expected:
    """What is kept and was no path's value, by the name of what is kept."""
    for key, value in made.after.items():
        path = state_path(key)
        name = made.prefix + path
        name += ".new" * (f"{name}.new" in plain.ports)
        if name in plain.ports and (path not in made.seen or name.endswith(".new")):
            yield name, codes_of(plain, name, value)
