"""CONTRACT.md: what every port of a pack means, bit by bit, for a reader who has no Python."""

import json
from collections.abc import Iterator
from typing import Any

from intnet.numbers.formats import FORMATS, Levels
from intnet.numbers.rounding import MODES
from intnet.packs import mx, rules
from intnet.packs.hdl import stream
from intnet.packs.ports import Json
from intnet.spec import block_float, buckets, formats
from intnet.spec.rounding import GOES_UP

SHOWN = 8  # numbers of what a method remembers that the page tells

_READING = """\
## Reading a file
One word a line, lower-case hex, a line feed behind each, the last one too; `$readmemh` reads it. A word has
`lanes` elements, lane 0 in the least significant bits; bits above the lanes are 0. Elements come in C order:
the last axis counts fastest. Signed elements are two's complement. The load guard folds the 64-bit pieces of
every word, the least significant piece first: s = rotl64(s, 1) ^ piece, from s = 0. A testbench that does the
same knows that it read the whole file, which a simulator's exit status does not tell. In cases.csv `index`
is a case's first line in the expected files and `beat` that in the inputs, both from 0; `flags` are the bugs
that its words hunt. A case of layers is a port.

## Numbers
value = code * 2^exponent, exactly. Rounding: scaled = exact value / 2^grid = floor + f, 0 <= f < 1; it goes
up or not by the mode; then the limits, where there are some. `remainder` is f: 32 bits, then a sticky bit for
all that follow. `presat` is floor + up, before the limits.

| mode | goes up |
|---|---|
""" + "".join(f"| {mode} | {rule} |\n" for mode, rule in GOES_UP.items())

_QUANTIZERS = {
    kind: getattr(formats, kind).RULE
    for kind in ("FixedPoint", "Direct", "Shift", "Constant", "Flag", "Scaled")
} | {"BlockFloat": block_float.RULE}
_SCALED = {"Shift", "Constant", "Flag"}  # whose grids follow R(x)
_SIGNALS = (
    "All are packed vectors, lane 0 lowest. rst is high active and sampled by clk; outputs are registered,"
    " and out_valid goes with them. The testbench sets every parameter above by name; a unit may leave one"
    " unused."
)
_LAID_OUT = """\
Where a port has another order than that of its axes, the table below says it: the last axis of the order
counts fastest; C/16 counts blocks of 16 of C, C%16 within one. Shapes, and coordinates that `intnet check`
tells, stay those of the axes. A row is `lanes` elements, lane 0 lowest. A word that is wider than a row has 0
above it; a row that is wider than a word takes several, its least significant bits in the first. Cells that
hold no element (behind the last one of a file, and of a block that is not full) are 0, and a device writes 0
there. `index` and `beat` of cases.csv count results and beats of a unit, whatever lines they take."""
_DIGESTS = {
    True: "over these lines, counted from 0, of every expected file, one file after another in the order of"
    " the table above.",
    False: "over exp/stepN.*, one file after another in the order of their names by bytes.",
}

_TITLES = {
    "in": "Inputs: what the device reads",
    "rnd": "Random words: inputs too, a device never draws its own",
    "out": "Expected: what the device must give",
    "trail": "Trail: what explains the results; nothing that a device reads or gives",
}


def text(manifest: Json) -> str:
    """The page of a PACK.json."""
    ahead = (_head, _unit, rules.graph, rules.rules, _memory)
    how = (_layout, _own_modes, _quantizers, _codecs, mx.chapter, _ports, _sources, _chain)
    first, behind = ([line for part in parts for line in part(manifest)] for parts in (ahead, how))
    return "\n".join([*first, _READING, *behind])


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
        when = f"by {unit['latency']} clock; words can enter\nevery clock"
        shared = "clk, rst, in_valid and out_valid"
        if stream.streams(unit):
            when = "as told under Timing"
        if unit.get("ready"):
            shared = "clk, rst, in_valid, in_ready, out_valid and out_ready"
        ports = f"{', '.join(unit['inputs'])} in,"
        yield f"Parameters: {setting}. A result follows {result} {when}. Beside {shared}: {ports}"
        yield f"{', '.join(unit['outputs'])} out. cases.csv says which bugs the words from a line on hunt."
        yield f"{_SIGNALS}\n"
        if stream.streams(unit):
            yield from stream.rules(unit)
    if random:
        yield "Random words: " + "; ".join(f"{key} {value}" for key, value in random.items()) + ".\n"
    if reach := about.get("coverage"):
        yield from _coverage(reach)
    if power:
        yield f"Of {power['mutants']} mutants of the reference unit, {power['equivalent']} of them equal to"
        yield f"it by proof, these vectors kill {power['killed']}, as many uniform random ones"
        yield f"{power['uniform_killed']} ({power['simulator']}).\n"


def _coverage(reach: Json) -> Iterator[str]:
    """What the vectors reach of the unit's definition, and what they do not."""
    told = {
        "bits": "bits, each both ways",
        "bins": "ties, limits, amounts and choices",
        "narrower": "wires seen to be wide enough",
    }
    counts = [f"{reach[name]['reached']:,} of {reach[name]['of']:,} {what}" for name, what in told.items()]
    yield f"The vectors reach {', '.join(counts)} of the unit's definition."
    if reach["complete"]:
        yield "Nothing that it declares is left out: the coverage is complete.\n"
    else:
        more = f", and {reach['missing_more']} more" if reach["missing_more"] else ""
        yield f"NOT complete; not reached: {', '.join(reach['missing'])}{more}.\n"


def _memory(manifest: Json) -> Iterator[str]:
    """What the method remembered of the whole net in each step."""
    told = [
        (step["step"], name, one)
        for step in manifest["about"].get("replay", ())
        for name, one in step.get("method", {}).items()
    ]
    if not told:
        return
    yield "## What the method remembers\n"
    yield "Of the whole net, behind the loss of a step, when its update begins.\n"
    yield "| step | name | values | what they are |"
    yield "|---:|---|---|---|"
    for step, name, one in told:
        values = ", ".join(map(str, one["values"])) if len(one["values"]) <= SHOWN else "in PACK.json"
        yield f"| {step} | {name} | {values or 'none'} | {one['meaning']} |"
    yield ""


def _layout(manifest: Json) -> Iterator[str]:
    """What is other than the section on reading says, where a layout was asked for."""
    asked = manifest["about"].get("layout")
    if asked is None:
        return
    given = ", ".join(f"{key} {value}" for key, value in asked.items() if value is not None)
    yield f"## Layout\n\nAsked for: {given}.\n\n{_LAID_OUT}\n"
    orders = dict.fromkeys(
        (port["axes"], port["order"], port["lanes"]) for port in manifest["ports"] if "order" in port
    )
    if orders:
        yield "| axes | order in the file | lanes |"
        yield "|---|---|---:|"
        yield from (f"| {axes} | {order} | {lanes} |" for axes, order, lanes in orders)
        yield ""


def _quantizers(manifest: Json) -> Iterator[str]:
    """The rule of each kind of format in the pack."""
    kinds = {port["format"]["kind"] for port in manifest["ports"] if port["format"]}
    if kinds:
        yield "## Quantizers\n"
        yield from (f"- {rule}" for kind, rule in _QUANTIZERS.items() if kind in kinds)
        yield from (_own(kind) for kind in sorted(kinds - _QUANTIZERS.keys()))
        if kinds & _SCALED:
            yield f"- {formats.RULE_R}"
        yield ""


def _own(kind: str) -> str:
    """A format of a user's own: its rule, or what its class says."""
    cls: Any = FORMATS.find(kind)
    told = f"- `{kind}`, a format of its maker's own: {cls.RULE or ' '.join((cls.__doc__ or '').split())}"
    return f"{told} {cls.ROUNDING}" if issubclass(cls, Levels) else told


def _own_modes(manifest: Json) -> Iterator[str]:
    """The rounding modes of users' own in the pack."""
    modes = dict.fromkeys(port["rounding"].get("mode") for port in manifest["ports"])
    for mode in modes:
        rule = MODES.get(mode)
        if callable(rule):
            yield f"Mode {mode}, of its maker's own, goes up by: {' '.join((rule.__doc__ or '').split())}\n"


def _codecs(manifest: Json) -> Iterator[str]:
    """The rule of each bucketed codec in the pack."""
    found = [port for port in manifest["ports"] if "codec" in port["rounding"]]
    if not found:
        return
    yield "## Codecs\n"
    yield from (*buckets.LAYOUT.splitlines(), "")
    codecs = [port["rounding"]["codec"] for port in found]
    for kind, norm in dict.fromkeys((codec["kind"], codec["norm"]) for codec in codecs):
        scale = f", {norm}: {buckets.SCALES[norm]}; " if kind in buckets.LEVELS else ": "
        yield f"- {kind}{scale}{buckets.RULES[kind]}."
    for port in found:
        codec = port["rounding"]["codec"]
        cut = (
            "the whole tensor is one bucket" if isinstance(codec["bucket"], str) else f"n = {codec['bucket']}"
        )
        b = f"b = {codec['bits']}"
        if codec["mix"] is not None:
            b += f", and {codec['mix']} of a bucket whose word of `{codec['mix_words']}` is below"
            b += f" floor({codec['probability']!r} * 2^32)"
        norm = f", {codec['norm']}" if codec["kind"] in buckets.LEVELS else ""
        yield f"- `{port['name']}`: {codec['kind']}{norm}, {b}, {cut}"
    yield ""


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
    meaning = port["meaning"].replace("|", "\\|")
    cells = [f"`{port['name']}`", f"{port['words']:,}", _element(port), _lanes(port), _value(port), shape]
    return f"| {' | '.join([*cells, meaning])} |"


def _element(port: Json) -> str:
    """The bits of an element."""
    bits = port["bits"]
    if port["encoding"] == "float32":
        return "binary32: sign [31], exponent [30:23], fraction [22:0]"
    if port["encoding"] == "float64":
        return "binary64: sign [63], exponent [62:52], fraction [51:0]"
    if port["encoding"] in ("minifloat", "e8m0"):
        return mx.bits_of(port)
    if port["encoding"] == "flag":
        return f"flag [{bits - 1}], sign [{bits - 2}], magnitude [{bits - 3}:0]"
    return f"{'signed' if port['signed'] else 'unsigned'} {_span(bits)}"


def _lanes(port: Json) -> str:
    bits, lanes = port["bits"], port["lanes"]
    if lanes == 1:
        return _span(bits) + _words_a_row(port)
    span = f"[{bits}i+{bits - 1}:{bits}i]" if bits > 1 else "[i]"
    return f"lane i: {span}, i = 0..{lanes - 1}" + _words_a_row(port)


def _words_a_row(port: Json) -> str:
    """Where a word is no row of lanes."""
    row, word = port["lanes"] * port["bits"], port["word_bits"]
    if row == word:
        return ""
    return f", in {-(-row // word)} x {word} bits" if row > word else f" of {word} bits"


def _span(bits: int) -> str:
    return "[0]" if bits == 1 else f"[{bits - 1}:0]"


def _value(port: Json) -> str:
    """What an element stands for."""
    exponent = port["exponent"]
    if mx.MX in port["rounding"] or port["encoding"] == "e8m0":
        return mx.value_of(port)
    if exponent is None:
        return "-"
    power = f"2^`{exponent}`" if isinstance(exponent, str) else f"2^{exponent}"
    if _in_blocks(port):
        power = _block_step(port)
    if port["encoding"] != "flag":
        return f"code * {power}"
    return f"+-magnitude * {power} * (2^{port['bits'] - 2} where flag)"


def _in_blocks(port: Json) -> bool:
    return bool(port["format"]) and port["format"]["kind"] == "BlockFloat"


def _block_step(port: Json) -> str:
    """The step of a block: 2^(`e` - b + 1)."""
    bits = port["rounding"]["bits"]
    if isinstance(bits, str):
        return f"2^(`{port['exponent']}` - `{bits}` + 1)"
    return f"2^(`{port['exponent']}` - {bits} + 1)"


def _sources(manifest: Json) -> Iterator[str]:
    """What each port is made of, and how it was rounded."""
    found = [port for port in manifest["ports"] if port["rounding"]]
    if not found:
        return
    yield "## Where they come from\n"
    yield "Of a format with R(x) the grid is the one that these words have: a device finds it by its rule."
    yield "Ports of the trail in a formula are what their own line says, which a device makes by the rules.\n"
    yield "| port | format | mode | grid | limits | random words | from |"
    yield "|---|---|---|---|---|---|---|"
    for port in found:
        how = port["rounding"]
        words = f"`{how['words']}`, top {how['word_bits']} bits" if how.get("words") else "-"
        source = rules.expression(how["source"]) if how.get("source") else "-"
        form = port["format"]["name"] if port["format"] and how["mode"] != "exact" else "-"
        form = mx.name_of(port) or form
        cells = [f"`{port['name']}`", form, how["mode"], _grid(port), _limits(how), words, source]
        yield f"| {' | '.join(cells)} |"
    yield ""


def _grid(port: Json) -> str:
    how = port["rounding"]
    if how["mode"] == "exact" or "codec" in how:
        return "-"
    if mx.MX in how:
        return "of its binade"
    if _in_blocks(port):
        return _block_step(port)
    exponent = how.get("grid", port["exponent"])
    return f"2^`{exponent}`" if isinstance(exponent, str) else f"2^{exponent}"


def _limits(how: Json) -> str:
    if mx.MX in how:
        return "+-g"
    if "codec" in how:
        return "-" if how["codec"]["kind"] in buckets.LEVELS else "0..2^b - 1"
    if how.get("limit"):
        return f"+-`{how['limit']}`"
    if how.get("low") is None:
        return "-"
    if how.get("levels"):
        return f"levels {', '.join(map(str, how['levels']))}"
    where = " on the coarse grid" if how.get("lift") else ""
    return f"{how['low']}..{how['high']}{where}, {how.get('overflow') or 'saturate'}"


def _chain(manifest: Json) -> Iterator[str]:
    """The digests of a chain of steps."""
    links = manifest["about"].get("chain", [])
    if not links:
        return
    over = _DIGESTS["unit" in manifest["about"]]
    yield f"## Digests\n\nOne SHA-256 a step, so that the first bad one is known: {over}\n"
    yield "| step | lines | SHA-256 |"
    yield "|---:|---|---|"
    for link in links:
        lines = f"{link['first']}..{link['last']}" if "first" in link else "all"
        yield f"| {link['step']} | {lines} | {link['sha256']} |"
    yield ""
