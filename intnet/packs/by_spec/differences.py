"""What PACK.json says of a value beside its words, by the definition: what entered, the grid, the limits.

Each is a line for people, naming the port.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from intnet.packs.by_spec.layers import LayerStep
from intnet.packs.by_spec.plain import Json, Plain
from intnet.packs.by_spec.ports import codes_of
from intnet.spec.block_float import Blocks
from intnet.spec.formats import Flag, Format
from intnet.spec.methods.saved import Packed
from intnet.spec.methods.step import Seen
from intnet.spec.tensor import place_of, power
from intnet.spec.values import Curve, Roots, exact


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
    said, given = plain.source(source), exact(seen.given)
    wrong = next((i for i, pair in enumerate(zip(said, given, strict=True)) if pair[0] != pair[1]), None)
    if wrong is None:
        return found, list(_ports_in(source))
    at = place_of(wrong, seen.given.shape)
    axes = ", ".join(f"{axis}={i}" for axis, i in zip(port["axes"].split(","), at, strict=True))
    text = f"{name} ({axes}): {said[wrong]} entered by PACK.json, {given[wrong]} by the definition"
    return [*found, text], []


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
    if f"{name}.floor" in plain.ports and how["mode"] != seen.mode:  # where anything is rounded
        yield f"{name}: PACK.json has the mode {how['mode']}, the definition {seen.mode}"
    form = seen.format
    if not isinstance(form, Format) or how["mode"] == "exact":
        return
    grid = form.grid([0]) if isinstance(seen.given, Roots | Curve) else form.grid(exact(seen.given))
    if power(how["grid"]) != form.step(grid):
        yield f"{name}: PACK.json has the grid 2^{how['grid']}, the definition steps of {form.step(grid)}"
    limits = form.way(Fraction(1), 0).limits if isinstance(form, Flag) else form.limits()
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
        if not isinstance(stored, Packed | Blocks) and codes_of(plain, other, stored) != plain.words(other):
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
