"""The trail ports of a path by the definition: floor, remainder, up, presat, coarse, limit, exponent.

`decision` of `spec.rounding` says each of them; a root is decided by its square, a curve by its function on a
grid 32 bits finer.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import isqrt
from typing import Any

from intnet.packs.by_spec import mx
from intnet.packs.by_spec.plain import Plain
from intnet.spec import buckets
from intnet.spec import float32 as floats
from intnet.spec.block_float import Blocks, block_of, exponent
from intnet.spec.formats import Format, Way
from intnet.spec.methods.saved import Packed
from intnet.spec.methods.step import Seen, curve_code
from intnet.spec.mx_blocks import Along, InBlock
from intnet.spec.rounding import Decision, Mode, decision
from intnet.spec.tensor import Tensor, places, power
from intnet.spec.values import Curve, Roots, exact

FRACTION_BITS = 32
Trail = dict[str, list[int]]


def remainder(fraction: Fraction) -> int:
    """32 bits of a fraction, then a sticky bit."""
    bits, rest = divmod(fraction.numerator << FRACTION_BITS, fraction.denominator)
    return bits << 1 | (rest != 0)


def parts(made: Sequence[Decision]) -> Trail:
    """The four parts that every trail has."""
    return {
        "floor": [one.floor for one in made],
        "remainder": [remainder(one.fraction) for one in made],
        "up": [int(one.up) for one in made],
        "presat": [one.rounded for one in made],
    }


def trail_of(plain: Plain, name: str, seen: Seen) -> Trail:
    """Port -> integers, of the trail ports that explain a path's words; none where nothing was rounded."""
    of = f"{name}.code" if isinstance(seen.stored, Packed) else name
    if f"{of}.floor" not in plain.ports:
        return {}
    if isinstance(seen.stored, Packed):
        made = _of_buckets(seen.stored, seen)
    elif isinstance(seen.given, Roots | Curve):
        made = _of_function(seen.given, seen.format, seen.mode or "ties_even")
    elif isinstance(seen.format, Along):
        made = _of_mx(plain, name, seen)
    elif isinstance(seen.stored, Blocks):
        made = _of_blocks(seen.stored, exact(seen.given))
    else:
        made = _of_ways(seen)
    return {f"{of}.{part}": codes for part, codes in made.items() if f"{of}.{part}" in plain.ports}


def _of_ways(seen: Seen) -> Trail:
    """How every element was rounded by a format."""
    assert not isinstance(seen.given, Roots | Curve)
    xs, form, mode = exact(seen.given), seen.format, seen.mode or "ties_even"
    grid = form.grid(xs)
    words: Sequence[int | None] = seen.words or [None] * len(xs)
    made: list[Way] = [form.way(x, grid, mode, word) for x, word in zip(xs, words, strict=True)]
    return parts([way.decision for way in made]) | {"coarse": [int(way.lift > 1) for way in made]}


def _of_function(given: Roots | Curve, form: Format, mode: Mode) -> Trail:
    """Of a value that is irrational as a rule."""
    grid = form.grid([0])
    if isinstance(given, Roots):
        rounded = [form.root_way(v, grid, mode).decision.rounded for v in given.squares]
        fine = [_root_below(v / form.step(grid) ** 2) for v in given.squares]
    else:
        e = form.exponent(grid)
        rounded = [curve_code(given.name, x, e, mode) for x in given.at]
        fine = [_curve_below(given.name, x, e - FRACTION_BITS) for x in given.at]
    floors = [below >> FRACTION_BITS for below, _ in fine]
    rests = [(below & (1 << FRACTION_BITS) - 1) << 1 | sticky for below, sticky in fine]
    ups = [code - floor for code, floor in zip(rounded, floors, strict=True)]
    return {"floor": floors, "remainder": rests, "up": ups, "presat": rounded}


def _root_below(square: Fraction) -> tuple[int, bool]:
    """(floor of the root with 32 bits more, whether anything is left)."""
    fine = square * 4**FRACTION_BITS
    below = isqrt(fine.numerator // fine.denominator)
    return below, below * below != fine


def _curve_below(name: str, x: Fraction, e: int) -> tuple[int, bool]:
    below = curve_code(name, x, e, "to_neg")
    return below, curve_code(name, x, e, "to_pos") != below


def _of_blocks(stored: Blocks, xs: Sequence[Fraction]) -> Trail:
    """Each element on the grid of its block; `limit` is 0 in a block that becomes all 0."""
    at = [block_of(place, stored.axes) for place in places(stored.shape)]
    inside: dict[Any, list[Fraction]] = {}
    for block, x in zip(at, xs, strict=True):
        inside.setdefault(block, []).append(x)
    empty = {block: exponent(members) is None for block, members in inside.items()}
    lost = any(empty[block] and any(members) for block, members in inside.items())
    high = {block: (1 << max(b - 1, 0)) - 1 for block, b in stored.bits.items()}
    limits = {block: 0 if lost and empty[block] else top for block, top in high.items()}
    steps = {block: power(e - max(stored.bits[block], 1) + 1) for block, e in stored.exponents.items()}
    made = [decision(x / steps[block]) for block, x in zip(at, xs, strict=True)]
    return parts(made) | {"limit": [limits[block] for block in at]}


def _of_mx(plain: Plain, name: str, seen: Seen) -> Trail:
    """Each element on the grid of its binade; log2 of its step over the scale."""
    assert isinstance(seen.given, Tensor)
    given, form = seen.given, seen.format
    ways = mx.ways(given.values, plain.scales(name, given, form), given.shape, form, seen.words)
    least = InBlock(form.element).exponent(0)
    found = parts([way.decision for way in ways])
    return found | {"exponent": [least + way.lift.bit_length() - 1 for way in ways]}


def _of_buckets(stored: Packed, seen: Seen) -> Trail:
    """u of affine codes, its fraction a float32; one that float32 rounds to 1 counts as the next floor."""
    assert isinstance(seen.given, Tensor)
    values, made = floats.all_units(seen.given.values), []
    size, n = seen.format.bucket or len(values), len(values)
    words: list[Any] = [None] * n if seen.words is None else seen.words
    for k, (bucket, b) in enumerate(zip(stored.saved.buckets, stored.widths, strict=True)):
        for a, word in zip(values[k * size : (k + 1) * size], words[k * size : (k + 1) * size], strict=True):
            if not bucket.scale:
                made.append(Decision(0, Fraction(0), False, None, False))
                continue
            way = buckets.affine_way(a, bucket.scale, bucket.zero, b, word)
            one, part = way.decision, way.part.value
            if part == 1:
                made.append(Decision(one.floor + 1, Fraction(0), False, None, False))
            else:
                made.append(one._replace(fraction=part))
    return parts(made)
