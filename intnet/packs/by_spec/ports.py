"""What a pack must say of a layer's step, from what the definition stored there; what it says otherwise.

    for name, codes in expected(plain, made): ...      codes None where PACK.json fits no words of it

Of a path: its words in the port's encoding; of blocks their exponents and widths or scales besides, of a
codec the codes, scales and packed memory; its trail; the state that is left; the random words. After the
words come what entered, the grid and the limits: each difference is a line for people, naming the port.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import Any

from intnet.packs.by_spec import mx
from intnet.packs.by_spec.layers import LayerStep
from intnet.packs.by_spec.plain import Plain, flag_word, pattern_of
from intnet.packs.by_spec.trails import trail_of
from intnet.packs.check import named_place
from intnet.packs.layers.paths import state_path
from intnet.packs.ports import Json
from intnet.spec import float32 as floats
from intnet.spec import words as random
from intnet.spec.block_float import Blocks
from intnet.spec.digest import Words
from intnet.spec.formats import Flag, Format
from intnet.spec.methods.saved import Packed
from intnet.spec.methods.step import Seen
from intnet.spec.mx_blocks import Along
from intnet.spec.tensor import Fixed, Tensor, power
from intnet.spec.values import Curve, Roots, exact

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
        elif isinstance(seen.format, Along):
            yield from (part for part in _mx(plain, name, seen) if part[0] in plain.ports)
        elif name in plain.ports:
            yield name, codes_of(plain, name, seen.stored)
        for part, numbers in trail_of(plain, name, seen).items():
            yield part, list(numbers)
    for name, value in made.joined.items():
        if plain.port(name)["direction"] == "trail":
            yield name, codes_of(plain, name, value)
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
        return [_flagged(code, port["bits"] - 1) for code in codes]
    codes = _at(value, port["exponent"] or 0)
    if None not in codes:
        return codes
    source = port["rounding"].get("source")
    if source is None or "terms" not in source:
        return codes
    dens = plain.denominators(source)
    return _whole([v * den / power(port["exponent"]) for v, den in zip(exact(value), dens, strict=True)])


def _flagged(code: int | None, k: int) -> int | None:
    """The stored word of a code; None where there is none."""
    try:
        return None if code is None else flag_word(code, k)
    except ValueError:
        return None


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


def _mx(plain: Plain, name: str, seen: Seen) -> Expected:
    """Elements, on the scales that are there; scales, and what they come from."""
    given, form, values = seen.given, seen.format, seen.stored.values
    assert isinstance(given, Tensor)
    scales, held = mx.scales(given.values, given.shape, form), plain.scales(name, given, form)
    if held != scales:  # a device's
        values = [w.kept * w.step for w in mx.ways(given.values, held, given.shape, form, seen.words)]
    yield name, mx.words(values, held, given.shape, form)
    yield f"{name}{mx.SCALE}", list(scales)
    tops = mx.tops(given.values, given.shape, form)
    yield f"{name}{mx.SCALE}.top", [pattern_of(top, 32) for top in tops]


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


# -- what PACK.json says beside the words ------------------------------------------------------------


def of_path(plain: Plain, name: str, seen: Seen) -> tuple[list[str], list[str]]:
    """(what PACK.json says otherwise, the ports that entered as the definition has it)."""
    port = plain.ports.get(f"{name}.code" if isinstance(seen.stored, Packed) else name)
    if port is None or not port["rounding"]:
        return [], []
    how = port["rounding"]
    found = list(_rounding(plain, name, how, seen))
    source = how.get("source")
    if source is None or isinstance(seen.given, Roots | Curve):
        return found, []
    wrong = _first_other(plain, source, seen.given)
    if wrong is None:
        return found, list(_ports_in(source))
    at = named_place(plain.pack.ports[port["name"]], wrong[0])
    text = f"{name} ({at}): {wrong[1]} entered by PACK.json, {wrong[2]} by the definition"
    return [*found, text], []


def of_inside(plain: Plain, made: LayerStep) -> Iterator[tuple[str, list[str]]]:
    """(what PACK.json says otherwise or '', the ports of it) of each value that other layers made."""
    for json_, value in made.inside:
        wrong = _first_other(plain, json_, value)
        if wrong is None:
            yield "", list(_ports_in(json_))
        else:
            yield f"{wrong[1]} enters {made.prefix[:-1]} by PACK.json, {wrong[2]} by the definition", []


def _first_other(plain: Plain, json_: Json, value: Any) -> tuple[int, Fraction, Fraction] | None:
    """(place, by PACK.json, by the definition) of the first number that is not the same."""
    pairs = zip(plain.source(json_), exact(value), strict=True)
    return next(((i, said, given) for i, (said, given) in enumerate(pairs) if said != given), None)


def _ports_in(source: Json) -> Iterator[str]:
    """The ports of an expression."""
    if "tensor" in source:
        yield source["tensor"]
    for term in source.get("terms", ()):
        yield term["port"]
        yield from (part for part in (term["factor"],) if isinstance(part, str))
    yield from (source[key] for key in ("offset", "denominator") if isinstance(source.get(key), str))


def _rounding(plain: Plain, name: str, how: Json, seen: Seen) -> Iterator[str]:
    """Mode, grid and limits."""
    told = isinstance(seen.mode, str)  # a rule of a user's own has no name here: words tell
    if f"{name}.floor" in plain.ports and told and how["mode"] != seen.mode:  # where anything is rounded
        yield f"{name}: PACK.json has the mode {how['mode']}, the definition {seen.mode}"
    form = seen.format
    if isinstance(form, Along) and not mx.same(mx.form_of(how), form, len(seen.stored.shape)):
        yield f"{name}: PACK.json has {how['mx']['name']}, scale {how['mx']['scale']}, the definition {form}"
    if not isinstance(form, Format) or how["mode"] == "exact":
        return
    grid = form.grid([0]) if isinstance(seen.given, Roots | Curve) else form.grid(exact(seen.given))
    if power(how["grid"]) != form.step(grid):
        yield f"{name}: PACK.json has the grid 2^{how['grid']}, the definition steps of {form.step(grid)}"
    of_one = form.way(Fraction(1), 0)
    limits = of_one.limits if isinstance(form, Flag) else form.limits()
    if of_one.levels is not None:
        limits = min(of_one.levels.values()), max(of_one.levels.values()), "saturate"
    if (how["low"], how["high"]) != (limits[:2] if limits else (None, None)):
        yield f"{name}: PACK.json has the limits {how['low']}..{how['high']}, the definition {limits}"


def of_aliases(plain: Plain, made: LayerStep) -> list[str]:
    """Paths that are another port's words, and are not by the definition."""
    found = []
    for name, other in plain.manifest["about"]["aliases"].items():
        path = name.removeprefix(made.prefix)
        if not name.startswith(made.prefix) or path not in made.seen or other not in plain.ports:
            continue
        stored = made.seen[path].stored
        in_blocks = isinstance(stored, Packed | Blocks) or isinstance(made.seen[path].format, Along)
        if not in_blocks and codes_of(plain, other, stored) != plain.words(other):
            found.append(f"{name} is not {other}, as PACK.json says, by the definition")
    return found


def of_unit(plain: Plain, found: Mapping[str, Sequence[Any]]) -> list[str]:
    """An exponent or a limit that is no port, as it is the same for all results."""
    out = []
    port = next(p for p in plain.ports.values() if p["direction"] == "out")
    name, how = port["name"], port["rounding"]
    exponents, limits = found.get(f"{name}.exponent"), found.get(f"{name}.limit")
    if exponents is not None and port["encoding"] != "float32" and f"{name}.exponent" not in plain.ports:
        out += [f"{name}: its exponent is {exponents[0]}"] * (set(exponents) != {port["exponent"]})
    if limits is not None and f"{name}.limit" not in plain.ports:
        out += [f"{name}: its limit is {limits[0]}"] * (set(limits) != {how["high"]})
    return out
