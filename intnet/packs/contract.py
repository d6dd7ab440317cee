"""CONTRACT.md: what every port of a pack means, bit by bit, for a reader who has no Python."""

import json
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

_READING = """\
## Reading a file
One word a line, lower-case hex, a line feed behind each, the last one too; `$readmemh` reads it. A word has
`lanes` elements, lane 0 in the least significant bits; bits above the lanes are 0. Elements come in C order:
the last axis counts fastest. Signed elements are two's complement. The load guard folds the 64-bit pieces of
every word, the least significant piece first: s = rotl64(s, 1) ^ piece, from s = 0. A testbench that does the
same knows that it read the whole file, which a simulator's exit status does not tell.

## Numbers
value = code * 2^exponent, exactly. Rounding: scaled = exact value / 2^grid = floor + f, 0 <= f < 1; it goes
up or not by the mode; then the limits. `remainder` is f: 32 bits, then a sticky bit for all that follow.
`presat` is floor + up, before the limits.

| mode | goes up |
|---|---|
| ties_even | f > 1/2, or f = 1/2 and floor is odd |
| ties_away | f > 1/2, or f = 1/2 and floor >= 0 |
| ties_pos | f >= 1/2 |
| to_neg, to_pos, to_zero | never; f > 0; f > 0 and floor < 0 |
| stochastic | word < floor(f * 2^bits) |
"""

_TITLES = {
    "in": "Inputs: what the device reads",
    "rnd": "Random words: inputs too, a device never draws its own",
    "out": "Expected: what the device must give",
    "trail": "Trail: what explains the results",
}


def text(manifest: Json) -> str:
    """The page of a PACK.json."""
    return "\n".join(
        [
            *_head(manifest),
            *_unit(manifest),
            _READING,
            *_ports(manifest),
            *_roundings(manifest),
            *_chain(manifest),
        ]
    )


def _head(manifest: Json) -> Iterator[str]:
    yield f"# {manifest['name']} {manifest['version']}\n"
    yield f"A golden pack of level {manifest['level']}. A changed expected bit is a new major version.\n"
    yield "Made by intnet from\n"
    yield f"```json\n{json.dumps(manifest['generator'], indent=1)}\n```\n"
    yield "Check what a device wrote with `intnet check PACK --dut DIR`, where DIR has one file for each"
    yield "expected port, named as in exp/; without Python, `hdl/` has a testbench that compares."
    yield "`sha256sum -c SHA256SUMS` tells whether the pack is whole.\n"


def _unit(manifest: Json) -> Iterator[str]:
    """What the testbench drives, where its random words come from, and what its vectors are worth."""
    about = manifest["about"]
    unit, random, power = (about.get(key) for key in ("unit", "random", "detection"))
    if unit:
        setting = ", ".join(f"{name} = {value}" for name, value in unit["parameters"].items())
        result = "the last beat of a vector" if unit["per_vector"] else "each beat"
        yield f"## The unit {unit['name']}\n"
        yield f"Parameters: {setting}. A result follows {result} by {unit['latency']} clock; words can enter"
        yield f"every clock. Beside clk, rst, in_valid and out_valid: {', '.join(unit['inputs'])} in,"
        yield f"{', '.join(unit['outputs'])} out. cases.csv says which bugs the words from a line on hunt.\n"
    if random:
        yield "Random words: " + "; ".join(f"{key} {value}" for key, value in random.items()) + ".\n"
    if power:
        yield f"Of {power['mutants']} mutants of the reference unit, {power['equivalent']} of them equal to"
        yield f"it by proof, these vectors kill {power['killed']}, as many uniform random ones"
        yield f"{power['uniform_killed']} ({power['simulator']}).\n"


def _ports(manifest: Json) -> Iterator[str]:
    """A table of ports for each direction."""
    for direction, title in _TITLES.items():
        found = [port for port in manifest["ports"] if port["direction"] == direction]
        if not found:
            continue
        yield f"## {title}\n"
        yield "| port | words | element | in a word | value | shape | meaning |"
        yield "|---|---:|---|---|---|---|---|"
        yield from map(_row, found)
        yield ""


def _row(port: Json) -> str:
    shape = f"{port['axes']} = {', '.join(map(str, port['shape']))}"
    cells = [f"`{port['name']}`", f"{port['words']:,}", _element(port), _lanes(port), _value(port), shape]
    return f"| {' | '.join([*cells, port['meaning'].replace('|', '/')])} |"


def _element(port: Json) -> str:
    """The bits of an element."""
    bits = port["bits"]
    if port["encoding"] == "float32":
        return "binary32: sign [31], exponent [30:23], fraction [22:0]"
    if port["encoding"] == "flag":
        return f"flag [{bits - 1}], sign [{bits - 2}], magnitude [{bits - 3}:0]"
    span = "[0]" if bits == 1 else f"[{bits - 1}:0]"
    return f"{'signed' if port['signed'] else 'unsigned'} {span}"


def _lanes(port: Json) -> str:
    bits, lanes = port["bits"], port["lanes"]
    if lanes == 1:
        return f"[{bits - 1}:0]"
    return f"lane i: [{bits}i+{bits - 1}:{bits}i], i = 0..{lanes - 1}"


def _value(port: Json) -> str:
    """What an element stands for."""
    exponent = port["exponent"]
    if exponent is None:
        return "-"
    if isinstance(exponent, str):
        return f"code * 2^`{exponent}`"
    if port["encoding"] != "flag":
        return f"code * 2^{exponent}"
    return f"+-magnitude * 2^{exponent} * (2^{port['bits'] - 2} where flag)"


def _roundings(manifest: Json) -> Iterator[str]:
    """How each rounded port was rounded, and from what."""
    found = [port for port in manifest["ports"] if port["rounding"]]
    if not found:
        return
    yield "## Roundings\n"
    yield "| port | mode | grid | limits | random words | rounded from |"
    yield "|---|---|---|---|---|---|"
    for port in found:
        how = port["rounding"]
        low, high = how.get("low"), how.get("high")
        limits = "-" if low is None else f"{low}..{high}, {how.get('overflow') or 'saturate'}"
        grid = "-" if how.get("grid") is None else f"2^{how['grid']}"
        words = f"`{how['words']}`, top {how['word_bits']} bits" if how.get("words") else "-"
        source = expression(how["source"]) if how.get("source") else "-"
        yield f"| `{port['name']}` | {how.get('mode')} | {grid} | {limits} | {words} | {source} |"
    yield ""


def expression(json_: Json) -> str:
    """What `expressions.Dump` wrote, as a formula of ports' codes."""
    if "terms" not in json_:
        return f"`{json_['tensor']}`" + (f" / {json_['denominator']}" if "denominator" in json_ else "")
    parts = [_term(term) for term in json_["terms"]]
    if json_["offset"] != 0:
        parts.append(_part(json_["offset"]))
    total = " + ".join(parts)
    if json_["denominator"] != 1:
        total = f"({total}) / {_part(json_['denominator'])}"
    total += f" * 2^{json_['exponent']}"
    return f"max({total}, 0)" if json_["relu"] else total


def _term(term: Json) -> str:
    factor = "" if term["factor"] == 1 else f"{_part(term['factor'])} * "
    return f"{factor}`{term['port']}`" + (f" * 2^{term['shift']}" if term["shift"] else "")


def _part(part: int | str) -> str:
    return f"`{part}`" if isinstance(part, str) else str(part)


def _chain(manifest: Json) -> Iterator[str]:
    """The digests of a chain of steps."""
    links = manifest["about"].get("chain", [])
    if not links:
        return
    yield "## Digests\n"
    yield "One SHA-256 a step, so that the first bad step is known.\n"
    yield "| step | SHA-256 |"
    yield "|---:|---|"
    yield from (f"| {link['step']} | {link['sha256']} |" for link in links)
    yield ""
