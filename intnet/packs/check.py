"""Checking: what a device wrote against a pack, or a pack against its own recomputation.

    result = check_dut(read("packs/fc2"), "dut")        DIR/fc2.x1.hex, ... one file for each expected port
    result = recompute(read("packs/fc2"))               every port again, from the pack's inputs
    result.exit_status                                  0 all equal, 1 mismatch, 2 bad or missing file

Exact only: words missing, too many, x or z, and no words at all are errors, never skipped. A mismatch comes
with its port, coordinates, case, both words, the arithmetic trail and a diagnosis (`diagnosis.py`).
"""

import fnmatch
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from intnet import hexfiles
from intnet.errors import PackError
from intnet.packs import contract, hdl, layers, units
from intnet.packs.diagnosis import Verdict, Words, diagnose, misplaced
from intnet.packs.pack import CASES, CONTRACT, Pack, PathLike, cases_text, entry
from intnet.packs.ports import Case, Draft, Port

SHOWN = 8  # mismatches of a port that are told one by one
TRAIL = ("floor", "remainder", "up", "presat", "coarse", "limit", "sign", "exponent")


@dataclass(frozen=True)
class Mismatch:
    """One element that is wrong. `way`: its trail, its random word, the limits; integers."""

    word: int
    lane: int
    index: tuple[int, ...]
    case: str
    flags: str
    got: int
    want: int
    way: dict[str, int]


@dataclass(frozen=True)
class PortResult:
    """What became of one port: `problem` where its file is bad, else the wrong elements and why.

    first_word: the first that is wrong
    """

    port: Port
    elements: int = 0
    wrong: int = 0
    first_word: int = 0
    problem: str = ""
    mismatches: Sequence[Mismatch] = ()
    verdicts: Sequence[Verdict] = ()

    @property
    def status(self) -> str:
        """'pass', 'mismatch' or 'bad'."""
        return "bad" if self.problem else "mismatch" if self.wrong else "pass"


@dataclass(frozen=True)
class Result:
    """All ports; `problems` are those of the pack as a whole, `first_step` the first bad one of a chain."""

    pack: Pack
    kind: str
    ports: Sequence[PortResult]
    problems: Sequence[str] = field(default_factory=tuple)
    first_step: int | None = None

    @property
    def exit_status(self) -> int:
        """0 all equal, 1 mismatch, 2 bad or missing file."""
        if any(port.problem for port in self.ports):
            return 2
        return 1 if self.problems or any(port.wrong for port in self.ports) else 0

    @property
    def words(self) -> int:
        """Words that were compared."""
        return sum(port.elements // port.port.lanes for port in self.ports)


# -- a device ----------------------------------------------------------------------------------


def check_dut(
    pack: Pack, folder: PathLike, pattern: str = "*", on_port: Callable[[str], None] | None = None
) -> Result:
    """What the files in `folder` hold against the expected ports whose names match `pattern`.

    PackError where nothing would be compared.
    """
    root = Path(folder)
    outs = [port for port in pack.ports.values() if port.direction == "out"]
    chosen = [port for port in outs if fnmatch.fnmatchcase(port.name, pattern)]
    if not chosen:
        names = ", ".join(port.name for port in outs)
        raise PackError(f"{pack.folder}: no expected port matches {pattern!r}; there are {names}")
    if not root.is_dir():
        raise PackError(f"{root} is no folder: give the one that holds what the device wrote")
    results = []
    for port in chosen:
        results.append(_compare_file(pack, port, root / Path(port.file).name))
        if on_port is not None:
            on_port(port.name)
    return Result(pack, "dut", results, first_step=_first_step(pack, results))


def _compare_file(pack: Pack, port: Port, path: Path) -> PortResult:
    try:
        text = path.read_bytes()
    except OSError as error:
        return PortResult(port, problem=f"{path}: {error.strerror or error}: the device wrote no such file")
    try:
        dut = hexfiles.decode_dut(text, port.layout, str(path))
    except PackError as error:
        return PortResult(port, problem=str(error))
    want = pack.codes(port.name).reshape(-1, port.lanes)
    got = dut.codes.reshape(-1, port.lanes)
    if len(got) != len(want):
        return PortResult(port, problem=f"{path}: {_wrong_length(port, want, got)}")
    if dut.unknown.any():
        first, count = int(np.argmax(dut.unknown)), int(np.count_nonzero(dut.unknown))
        word, lane = divmod(first, port.lanes)
        where = f"word {word:,} lane {lane} ({_place(port, first)})"
        more = f", and {count - 1:,} more elements" * (count > 1)
        return PortResult(port, problem=f"{path}: x or z in {where}{more}")
    return compare(pack, port, want.reshape(-1), got.reshape(-1))


def compare(pack: Pack, port: Port, want: np.ndarray, got: np.ndarray) -> PortResult:
    """Flat elements of a port, with trail and diagnosis where they differ."""
    wrong = np.flatnonzero(want != got)
    if not wrong.size:
        return PortResult(port, want.size)
    words = Words(port, want, got, way(pack, port))
    told = [_mismatch(pack, words, int(flat)) for flat in wrong[:SHOWN]]
    return PortResult(port, want.size, wrong.size, int(wrong[0]) // port.lanes, "", told, diagnose(words))


def way(pack: Pack, port: Port) -> dict[str, np.ndarray]:
    """The trail of a port, flat: floor, remainder, ... and the random words that rounded it."""
    found = {part: f"{port.name}.{part}" for part in TRAIL}
    if port.rounding.get("words"):
        found["words"] = str(port.rounding["words"])
    return {part: pack.codes(name).reshape(-1) for part, name in found.items() if name in pack.ports}


def _mismatch(pack: Pack, words: Words, flat: int) -> Mismatch:
    port = words.port
    word, lane = divmod(flat, port.lanes)
    index = tuple(int(i) for i in np.unravel_index(flat, port.shape))
    case = _case(pack, port, word)
    numbers = {part: int(values[flat]) for part, values in words.way.items()}
    return Mismatch(
        word, lane, index, case.id, case.flags, int(words.got[flat]), int(words.want[flat]), numbers
    )


def _case(pack: Pack, port: Port, word: int) -> Case:
    """Of a layer the port's own case, of a unit the last one that begins at or before the word."""
    named = [case for case in pack.cases if case.id == port.name]
    before = [case for case in pack.cases if case.index <= word]
    return (named or before or [Case(0, "", "", "", 0)])[-1]


def _place(port: Port, flat: int) -> str:
    """'N=3, H=0, W=7, C=0' of an element."""
    if flat >= np.prod(port.shape):
        return "behind the last"
    index = np.unravel_index(flat, port.shape)
    return ", ".join(f"{axis}={i}" for axis, i in zip(port.axes.split(","), index, strict=True))


def _wrong_length(port: Port, want: np.ndarray, got: np.ndarray) -> str:
    """How many words there are, and which are missing or too many where the others are right."""
    gap, first = abs(len(want) - len(got)), misplaced(want, got)
    text = f"{len(got):,} words where {len(want):,} are expected"
    if first is None:
        return text
    what = "missing" if len(got) < len(want) else "too many"
    words = f"word {first:,} is" if gap == 1 else f"words {first:,} to {first + gap - 1:,} are"
    return f"{text}: {words} {what} ({_place(port, first * port.lanes)}), all others are right"


def _first_step(pack: Pack, results: Sequence[PortResult]) -> int | None:
    """The first step of a chain that is not as expected: of units by its words, of layers by the name."""
    bad = [result for result in results if result.status != "pass"]
    for link in pack.manifest["about"].get("chain", ()):
        step = int(link["step"])
        if any(result.port.name.startswith(f"step{step}/") for result in bad):
            return step
        if any(link.get("first", 1) <= result.first_word <= link.get("last", 0) for result in bad):
            return step
    return None


# -- the pack itself ---------------------------------------------------------------------------


def recompute(pack: Pack) -> Result:
    """Every port but the inputs again, and every generated text; nothing but the pack is read.

    PackError where PACK.json does not say how it was made.
    """
    kind = pack.manifest["generator"].get("kind")
    if kind not in REDRAFT:
        raise PackError(f"{pack.folder}: generator.kind is {kind!r}; this intnet makes {', '.join(REDRAFT)}")
    draft = REDRAFT[kind](pack)
    results, problems, seen = [], [], set()
    for port, codes in draft.ports:
        seen.add(port.name)
        given = pack.ports.get(port.name)
        if given is None or entry(given) != entry(port):
            problems.append(f"PACK.json does not describe {port.name} as the recomputation does")
        else:
            results.append(
                compare(pack, port, codes.reshape(-1).astype(np.int64), pack.codes(port.name).reshape(-1))
            )
    unseen = [name for name, port in pack.ports.items() if name not in seen and port.direction != "in"]
    problems += [f"{name} is not made by a recomputation" for name in unseen]
    problems += [f"{name} is not what its contents say" for name in _texts(pack, draft)]
    return Result(pack, "recomputation", results, problems, _first_step(pack, results))


def _unit(pack: Pack) -> Draft:
    given = pack.manifest["generator"]
    try:
        return units.draft(given["unit"], given["level"], given["settings"])
    except (KeyError, TypeError, AttributeError) as error:
        raise PackError(f"{pack.folder}: PACK.json does not say how its unit was made ({error})") from None


# How a pack of each kind is made again: PACK.json's generator.kind -> draft.
REDRAFT: dict[str, Callable[[Pack], Draft]] = {"layers": layers.redraft, "unit": _unit}


def _texts(pack: Pack, draft: Draft) -> list[str]:
    """Generated files, and keys of PACK.json, that differ from a recomputation's."""
    made = {CONTRACT: contract.text(pack.manifest), CASES: cases_text(draft.cases)}
    made |= hdl.files(pack.manifest)
    odd = [name for name, text in made.items() if (pack.folder / name).read_text() != text]
    given: dict[str, Any] = pack.manifest
    pairs = {"name": draft.name, "level": draft.level, "about": dict(draft.about)}
    return odd + [f"PACK.json: {key}" for key, value in pairs.items() if given[key] != value]
