"""Packs of the reference units: pieces of hardware, each with vectors of five levels.

    draft("quantize_sq", "L1", {"W": 16}) -> Draft        `pack.write` makes a folder of it

    L0  a readable few           L1  directed, and every input where there are at most 16 bits
    L2  corners, random words    L3  tensors of a real training step      L4  of a chain of steps

`UNITS` is the list (`listing.py`). `examples/rtl` has each one in SystemVerilog, and mutants of it: how
many of them the vectors of a pack kill is in its PACK.json (`detection.json`). In an L4 pack
`about["chain"]` has one SHA-256 a step (counted from 1), over the lines first .. last (counted from 0) of
every expected file in the order of PACK.json:

    (sed -n '1,512p' exp/q.hex; sed -n '1,512p' exp/saturated.hex) | sha256sum

Words come from `stimuli.py` (`_sums`, `_mx`, `_scales`) and `training.py`, results from `words.py`; the
generated testbench is `hdl/`.
"""

import hashlib
import json
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any

import numpy as np

from intnet.errors import ConfigError, PackError, unknown
from intnet.numbers import hexfiles, rng
from intnet.packs import lines
from intnet.packs.circuits import coverage, written
from intnet.packs.hdl.names import check_apart, check_name
from intnet.packs.ports import Case, Draft, Filled, Port
from intnet.packs.units import stimuli, stimuli_mx, stimuli_scales, stimuli_sums, training
from intnet.packs.units.listing import UNITS
from intnet.packs.units.signals import Choice, Columns, Group, Parameters, Range, Setting, Unit, joined
from intnet.packs.units.words import Results, results, run
from intnet.spec.wires import Circuit, span

LEVELS = {
    "L0": "a readable few",
    "L1": "directed; every input where there are at most 16 bits",
    "L2": "corners and random words",
    "L3": "tensors of a real training step",
    "L4": "a chain of real training steps, one digest a step",
}
STEPS = {"L3": 1, "L4": training.STEPS}  # of training
STIMULI = stimuli.GROUPS | stimuli_sums.GROUPS | stimuli_mx.GROUPS | stimuli_scales.GROUPS
DETECTION = "detection.json"
OWN = "own unit"  # the kind of a pack that only its maker can make again
LFSR = "lfsr"  # a seed, from which CQ's words come: no parameter, nor are these
LFSR_BITS = 16
MOST_LATENCY = 64

# -- from a name to a draft ----------------------------------------------------------------------


def draft(name: str, level: str, settings: Mapping[str, str | int] | None = None) -> Draft:
    """The pack of a unit at a level; settings override its parameters (`W=16`), `lfsr` seeds CQ's words,
    `latency`, `ready` and `reset` say how its testbench drives it (`hdl/stream.py`).

    ConfigError for a name or a value that there is not, PackError for settings that do not go together.
    """
    unit = unit_of(name)
    if level not in LEVELS:
        raise unknown("level", level, list(LEVELS))
    given = parse(unit, settings or {})
    if level in STEPS:
        taken = training.take(unit, _own_settings(unit, given), STEPS[level])
        check(unit, taken.parameters)
    else:
        parameters = chosen(unit, given)
        taken = training.Taken(STIMULI[name][level](parameters), parameters)
    return assemble(unit, level, given, taken)


def unit_of(name: str) -> Unit:
    """A unit of the library; ConfigError where there is none of this name."""
    if name not in UNITS:
        raise unknown("unit", name, list(UNITS))
    return UNITS[name]


def chosen(unit: Unit, given: Mapping[str, Any]) -> dict[str, Any]:
    """Its parameters as settings have them, else as they are; PackError where they do not go together."""
    parameters = unit.defaults | _own_settings(unit, given)
    check(unit, parameters)
    return parameters


def _own_settings(unit: Unit, given: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if key in unit.parameters}


def settings_of(unit: Unit) -> dict[str, Setting]:
    """What may be set: the parameters, the seed of CQ's words, and how the unit is connected."""
    lfsr = {LFSR: Range(1, 1, (1 << 32) - 1)} if unit.name == "quantize_cq" else {}
    latency = Range(unit.latency, 1, MOST_LATENCY)
    return {
        **unit.parameters, **lfsr, "latency": latency, "ready": Range(0, 0, 1), "reset": Range(0, 0, 1)
    }  # fmt: skip


def parse(unit: Unit, settings: Mapping[str, str | int]) -> dict[str, Any]:
    """Settings as whole numbers, each in its range, and names, each of its list."""
    known, out = settings_of(unit), dict[str, Any]()
    for key, given in settings.items():
        if key not in known:
            raise unknown(f"setting of {unit.name}", key, list(known))
        setting = known[key]
        if isinstance(setting, Choice):
            if given not in setting.names:
                raise unknown(f"{key} of {unit.name}", str(given), list(setting.names))
            out[key] = given
        else:
            out[key] = _number(f"{unit.name}: {key}", given, setting)
    return {key: out[key] for key in known if key in out}


def _number(what: str, given: str | int, range_: Range) -> int:
    try:
        value = int(given, 0) if isinstance(given, str) else operator.index(given)
    except (TypeError, ValueError):
        raise ConfigError(f"{what}={given!r} is not a whole number") from None
    if not range_.least <= value <= range_.most:
        raise ConfigError(f"{what}={value}: give a number from {range_.least} to {range_.most}")
    return value


def check(unit: Unit, parameters: Parameters) -> None:
    """PackError where parameters do not go together."""
    if reason := unit.wrong(parameters):
        raise PackError(f"{unit.name}: {reason}")


def admit(about: Mapping[str, Any]) -> None:
    """ConfigError or PackError where what a PACK.json says of its unit is no setting of it."""
    unit = unit_of(about["name"])
    given = {key: value for key, value in parse(unit, about["parameters"]).items() if key != LFSR}
    if given.keys() != unit.parameters.keys():
        raise PackError(f"{unit.name}: its parameters are {', '.join(unit.parameters)}")
    check(unit, given)


def label(unit: str, settings: Mapping[str, Any]) -> str:
    """Of a unit and its settings: 'quantize_sq-W16-EXm3'."""
    return "-".join([unit, *(f"{key}{value}".replace("-", "m") for key, value in settings.items())])


def own(
    unit: Unit,
    build: Callable[[Circuit, Parameters], None],
    groups: Sequence[Group],
    settings: Mapping[str, str | int] | None = None,
    level: str = "L1",
) -> Draft:
    """The pack of a unit of one's own: what it is, its definition as a circuit, its vectors.

    ConfigError for a name that the library has and for settings that the unit has not; PackError where the
    circuit's ports are not the unit's, by name, by width or by sign, for vectors that do not go into them,
    for groups of an L4 pack that do not say their steps, and for names that the testbench cannot have.
    """
    if unit.name in UNITS:
        raise ConfigError(f"{unit.name} is a unit of the library: give yours another name")
    if level not in LEVELS:
        raise unknown("level", level, list(LEVELS))
    given = parse(unit, settings or {})
    parameters, circuit = chosen(unit, given), Circuit()
    signals = unit.signals(parameters, {})
    _check_names(unit, signals)
    build(circuit, parameters)
    told = {way: {s.name for s in signals if (s.direction == "out") == way} for way in (False, True)}
    built = {False: {name.partition("[")[0] for name in circuit.reads}, True: set(circuit.gives)}
    for way, title in ((False, "in"), (True, "out")):
        if told[way] != built[way]:
            ports = f"its {title} ports are {sorted(told[way])}, its circuit's {sorted(built[way])}"
            raise PackError(f"{unit.name}: {ports}")
    for port in signals:
        _check_read(unit, port, circuit)
    _check_groups(unit, [port for port in signals if port.direction != "out"], groups)
    steps = [group.step for group in groups]
    if level == "L4" and (steps[0] < 1 or steps != sorted(steps)):
        raise PackError(
            f"{unit.name}: its groups are of the steps {steps}: an L4 pack has a digest a step; give every "
            "Group its step, from 1, in order"
        )
    return assemble(unit, level, given, training.Taken(list(groups), parameters), circuit)


def _check_names(unit: Unit, signals: Sequence[Port]) -> None:
    """PackError for names that SystemVerilog or the testbench does not take, or that mean something else."""
    check_name(unit.name, "a unit")
    for name in unit.parameters:
        check_name(name, f"a parameter of {unit.name}")
    check_apart(unit.name, unit.parameters, [port.name for port in signals])
    for port in signals:
        check_name(port.name, f"a port of {unit.name}")
        if port.name == "last" and (port.direction == "out" or port.signed or port.bits * port.lanes != 1):
            raise PackError(
                f"{unit.name}: `last` marks the beat that ends a vector, which one result follows: an in "
                "port of one unsigned bit. Call a port of data another name"
            )


def _check_groups(unit: Unit, ins: Sequence[Port], groups: Sequence[Group]) -> None:
    """PackError unless every group has a column of whole numbers for each in port, all as long."""
    if not groups:
        raise PackError(f"{unit.name}: no vectors: give a Group of them")
    for group in groups:
        told, wanted = f"{unit.name}, group {group.name}", {port.name for port in ins}
        if set(group.columns) != wanted:
            raise PackError(f"{told}: columns {sorted(group.columns)}; its in ports are {sorted(wanted)}")
        for name, words in group.columns.items():
            if not isinstance(words, np.ndarray) or words.dtype.kind != "i":
                raise PackError(f"{told}: column {name} holds no whole numbers: make it by `signals.column`")
        shapes = {port.name: group.columns[port.name].shape for port in ins}
        beats = {shape[0] if shape else 0 for shape in shapes.values()}
        rest = {port.name: (port.lanes,) if port.lanes > 1 else () for port in ins}
        if len(beats) != 1 or beats == {0} or any(shapes[name][1:] != rest[name] for name in shapes):
            wants = ", ".join(f"{name}: {('beats', *more)}".replace("'", "") for name, more in rest.items())
            raise PackError(f"{told}: columns of shapes {shapes}; wanted, all of as many beats: {wants}")


def _check_read(unit: Unit, port: Port, circuit: Circuit) -> None:
    """PackError where a circuit reads other numbers of a port than its words are."""
    read = [wire for name, wire in circuit.reads.items() if name.partition("[")[0] == port.name]
    if read and len(read) != port.lanes:
        raise PackError(f"{unit.name}: lanes of {port.name}: {port.lanes}, its circuit reads {len(read)}")
    for wire in read:
        if wire.range != span(port.bits, port.signed):
            ends, kind = span(port.bits, port.signed), "signed" if port.signed else "unsigned"
            told = f"{port.name} has {port.bits} bits, {kind}: {ends[0]}..{ends[1]}"
            raise PackError(f"{unit.name}: {told}; its circuit reads {wire.low}..{wire.high}")


def assemble(
    unit: Unit, level: str, given: Mapping[str, Any], taken: training.Taken, circuit: Circuit | None = None
) -> Draft:
    """The draft of these groups of vectors."""
    parameters, signals = taken.parameters, unit.signals(taken.parameters, taken.scale)
    groups = _distinct(unit, given, taken)
    columns = joined([group for _, group in groups])
    about: dict[str, Any] = dict(taken.about)
    if unit.name == "quantize_cq":
        about["random"] = _random(given, columns, level, about.get("random"))
    ran = run(unit.name, parameters, columns, circuit)
    made = results(unit.name, parameters, ran)
    cases = _cases(unit, level, groups)
    outs = [s for s in signals if s.direction == "out"]
    ignored = [s for s in outs if not np.ptp(made.outs[s.name])][: len(outs) > 1]
    ports = _ports(signals, columns, made, ignored, given)
    names = {
        way: [s.name for s in signals if (s.direction == "out") == way and s not in ignored] for way in (0, 1)
    }
    if given.get("reset") and ran.circuit.registers and not unit.per_vector:
        raise PackError(
            f"{unit.name}: reset=1 goes on at the first beat of a vector, and this unit, which remembers "
            "beats, has no port `last` that ends one"
        )
    about["unit"] = {
        "name": unit.name,
        "parameters": dict(parameters),
        "generics": unit.generics(parameters),
        "latency": given.get("latency", unit.latency),
        **{key: True for key in ("ready", "reset") if given.get(key)},
        "per_vector": unit.per_vector,
        "inputs": names[0],
        "outputs": names[1],
        "ignored": [{"name": s.name, "bits": s.bits * s.lanes} for s in ignored],
    }
    if circuit is not None:
        about["circuit"] = written.to_json(circuit)
    about["coverage"] = coverage.measure(ran.circuit, ran.reads, ran.wires).json()
    if level == "L4":
        about["chain"] = _chain(groups, cases, ports)
    kind = "unit" if circuit is None else OWN
    generator = {"kind": kind, "unit": unit.name, "level": level, "settings": dict(given)}
    name = label(f"{unit.name}-{level}", given)
    if measured := detection(name, ports):
        about["detection"] = measured
    return Draft(name, level, generator, ports, cases, about)


# -- cases ---------------------------------------------------------------------------------------


def _distinct(unit: Unit, given: Mapping[str, Any], taken: training.Taken) -> list[tuple[str, Group]]:
    """The groups with their ids: a name, and the start of the SHA-256 of parameters and words.

    An id says what the vectors are, not where they stand; of equal groups one is kept.
    """
    out: dict[str, Group] = {}
    about = json.dumps([unit.name, taken.parameters, given.get(LFSR), taken.scale], sort_keys=True)
    for group in taken.groups:
        sha = hashlib.sha256(about.encode())
        for name in sorted(group.columns):
            sha.update(name.encode() + np.ascontiguousarray(group.columns[name], "<i8").tobytes())
        out.setdefault(f"{group.name}-{sha.hexdigest()[:10]}", group)
    return list(out.items())


def _sizes(unit: Unit, group: Group) -> tuple[int, int]:
    """(beats, results) of a group."""
    beats = len(next(iter(group.columns.values())))
    return beats, int(group.columns["last"].sum()) if unit.per_vector else beats


def _cases(unit: Unit, level: str, groups: Sequence[tuple[str, Group]]) -> list[Case]:
    cases, index, beat = [], 0, 0
    for id_, group in groups:
        cases.append(Case(index, id_, level, group.flags, beat))
        beats, results = _sizes(unit, group)
        beat, index = beat + beats, index + results
    return cases


def _chain(
    groups: Sequence[tuple[str, Group]], cases: Sequence[Case], ports: Sequence[Filled]
) -> list[dict[str, Any]]:
    """For each step the range of its results, and their digest (see the module)."""
    outs = [filled for filled in ports if filled[0].direction == "out"]
    starts: dict[int, int] = {}
    for (_, group), case in zip(groups, cases, strict=True):
        starts.setdefault(group.step, case.index)
    stops = [*list(starts.values())[1:], outs[0][0].words]
    chain = []
    for (step, first), stop in zip(starts.items(), stops, strict=True):
        sha = lines.digest(outs, slice(first, stop))
        chain.append({"step": step, "first": first, "last": stop - 1, "sha256": sha})
    return chain


# -- ports ---------------------------------------------------------------------------------------


def _ports(
    signals: Sequence[Port],
    columns: Columns,
    results: Results,
    ignored: Sequence[Port],
    given: Mapping[str, Any],
) -> list[Filled]:
    """The ports in the module's order, then the trail of the first result."""
    steps = {step.name: (step, codes) for step, codes in results.steps}
    made: list[Filled] = []
    for raw in signals:
        if raw in ignored:
            continue
        signal = _settled(raw, steps, columns)
        out, rounding = signal.direction == "out", dict(signal.rounding)
        codes = results.outs[signal.name] if out else columns[signal.name]
        axes, meaning = ("result" if out else "beat") + (",lane" if codes.ndim > 1 else ""), signal.meaning
        if rounding and ignored:
            names = ", ".join(s.name for s in ignored)
            meaning += f" ({names}: never differs here, so it is no port of this pack)"
        if rounding and LFSR in given:
            rounding["word_bits"] = LFSR_BITS
        kept = replace(signal, shape=codes.shape, axes=axes, meaning=meaning, rounding=rounding)
        made.append((kept, codes))
    main = next(s.name for s in signals if s.direction == "out" and s not in ignored)
    for name, (step, codes) in steps.items():
        made.append((replace(step, name=f"{main}.{name}", explains=main), codes))
    return made


def _settled(signal: Port, steps: dict[str, Filled], columns: Columns) -> Port:
    """An exponent or limit that is one number for all results is said as that, and is no trail port."""
    if signal.exponent == "q.exponent" and not np.ptp(steps["exponent"][1]):
        signal = replace(signal, exponent=int(steps.pop("exponent")[1][0]))
    if signal.rounding.get("limit") == "q.limit" and "limit" not in steps:
        top = (1 << int(columns["log_dr"][0])) - 1
        own = {key: value for key, value in signal.rounding.items() if key != "limit"}
        signal = replace(signal, rounding=own | {"low": -top, "high": top})
    return signal


# -- random words and detection power --------------------------------------------------------------


def _random(
    given: Mapping[str, Any], columns: Columns, level: str, drawn: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Where the words of CQ come from; with `lfsr` they are put into `columns` here."""
    philox = {
        "generator": "Philox4x32-10",
        "key": "(seed low 32 bits, seed high 32 bits)",
        "counter": "(i//4 low, i//4 high, stream, step - 1); element i takes output word i % 4",
        "stream": "the first 4 bytes, big-endian, of the SHA-256 of its name",
        "bits": "all 32",
    }
    if LFSR in given:
        seed = given[LFSR]
        words = rng.lfsr_words(seed, columns["word"].size).astype(np.int64)
        columns["word"] = words << LFSR_BITS | (1 << LFSR_BITS) - 1
        return {
            "kind": "lfsr",
            "form": "Galois, shifted right; where a 1 falls out the state is xored with the mask",
            "mask": f"{rng.LFSR_MASK:08x}",
            "seed": f"{seed:08x}",
            "steps": "16 a draw, the first draw after the first 16",
            "bits": "the low 16 of the state are the top 16 of the word; the word's low 16 are ones, so that "
            "comparing the top 16 bits with the fraction's, and all 32, decide alike",
        }
    if drawn is not None:
        return dict(drawn) | philox
    if level == "L2":
        return {"kind": "philox", "seed": 0, "step": 1, "streams": [stimuli.CORNER_STREAM]} | philox
    return {"kind": "directed", "bits": "chosen around the threshold of each result"}


def digest_of(ports: Sequence[Filled]) -> str:
    """SHA-256 over the hex files of all in, rnd and out ports, in order, each after its name."""
    sha = hashlib.sha256()
    for port, codes in ports:
        if port.direction != "trail":
            sha.update(port.file.encode() + b"\n" + hexfiles.encode(codes, port.layout)[0])
    return sha.hexdigest()


def detection(name: str, ports: Sequence[Filled]) -> dict[str, Any] | None:
    """What was measured of the pack `name` by mutants of its unit: only if these are the words measured."""
    table = json.loads((files("intnet.packs.units") / DETECTION).read_text("utf-8"))
    if name not in table["packs"]:
        return None
    row = dict(table["packs"][name])
    return {"simulator": table["simulator"]} | row if row.pop("sha256") == digest_of(ports) else None
