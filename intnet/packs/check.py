"""Checking: what a device wrote against a pack, or a pack against its own recomputation.

    result = check_dut(read("packs/fc2"), "dut")        DIR/fc2.x1.hex, ... one file for each expected port
    result = recompute(read("packs/fc2"))               every port again, from the pack's inputs
    result.exit_status                                  0 all equal, 1 mismatch, 2 bad or missing file

Exact only: words missing, too many, x or z, and no words at all are errors, never skipped. A mismatch comes
with its port, coordinates, case, both words, the arithmetic trail and a diagnosis (`diagnosis.py`).
"""

import fnmatch
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from intnet import plugins
from intnet.errors import IntnetError, PackError
from intnet.packs import contract, device, hdl, layers, layouts, lines, tiles, units
from intnet.packs.diagnosis import Verdict, diagnose, misplaced
from intnet.packs.layers import network
from intnet.packs.layouts import TILE
from intnet.packs.mistakes import Words
from intnet.packs.pack import CASES, CONTRACT, LAYOUT, MANIFEST, VERSION, Pack, cases_text, entry_of
from intnet.packs.ports import INFERENCE, LAYERS, NETWORK, Case, Draft, Port
from intnet.runs.archive import PathLike
from intnet.spec.tensor import place_of

Make = TypeVar("Make")
WRONG = (  # what comes of a PACK.json that says what cannot be
    ArithmeticError, AssertionError, AttributeError, LookupError, StopIteration, TypeError, ValueError
)  # fmt: skip
UNKNOWN = -(1 << 63)  # in the place of a code with x or z: equal to none
ROOM = 1 << 20  # bytes of comments that a device's file may have in any case
SHOWN = 8  # mismatches of a port that are told one by one
TRAIL = ("floor", "remainder", "up", "presat", "coarse", "limit", "sign", "exponent", "special", "top")


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

    first_word: the first that is wrong, None where nobody knows
    got: all elements of a device, where some are wrong
    own: wrong elements given the device's own operands, None where that is not known (`causes.py`); what is
         told in `verdicts` is then the mistake in these, and of layers `mismatches` are these, where wanted
         is what the operands ask for
    follows: the ports with faults of their own from which the others follow
    assumes: ports that it reads and that were not compared: if they are wrong, it may be right
    """

    port: Port
    elements: int = 0
    wrong: int = 0
    first_word: int | None = None
    problem: str = ""
    mismatches: Sequence[Mismatch] = ()
    verdicts: Sequence[Verdict] = ()
    got: np.ndarray | None = field(default=None, repr=False, compare=False)
    own: int | None = None
    follows: Sequence[str] = ()
    assumes: Sequence[str] = ()

    @property
    def status(self) -> str:
        """'pass', 'mismatch' or 'bad'."""
        return "bad" if self.problem else "mismatch" if self.wrong else "pass"


@dataclass(frozen=True)
class Result:
    """All ports; `problems` are those of the pack as a whole, `first_step` the first bad one of a chain.

    kind:    'dut', 'recomputation', or 'spec', a recomputation by the definition
    unknown: ports that the definition cannot give, each with the reason; seconds: that it took
    untraced: why it is not known what follows from what, else '' (`causes.py`)
    """

    pack: Pack
    kind: str
    ports: Sequence[PortResult]
    problems: Sequence[str] = field(default_factory=tuple)
    first_step: int | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    untraced: str = ""

    @property
    def exit_status(self) -> int:
        """0 all equal, 1 mismatch, 2 bad or missing file, or nothing that could be compared."""
        if any(port.problem for port in self.ports):
            return 2
        if self.problems or any(port.wrong for port in self.ports):
            return 1
        return 0 if self.ports else 2

    @property
    def words(self) -> int:
        """Words that were compared."""
        return sum(port.port.words for port in self.ports if port.elements)


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
    return Result(pack, "dut", results, first_step=first_step(pack, results))


def _compare_file(pack: Pack, port: Port, path: Path) -> PortResult:
    try:
        given = device.read(_text(port, path), port, str(path))
        if len(given.words) != port.words:
            return _wrong_length(pack, port, path, given)
        lanes = lines.from_pieces(port, given.words, str(path))
    except PackError as error:
        return PortResult(port, problem=str(error))
    want, got = pack.codes(port.name).reshape(-1), lines.held(port, lanes)
    if given.unknown:
        unknown = _unknown(port, given)
        result = compare(pack, port, want, np.where(unknown, want, got))
        begins = (given.unknown[0][0], result.first_word)
        begin = min(word for word in begins if word is not None)
        problem = f"{path}: {_first_unknown(port, given, int(np.count_nonzero(unknown)))}"
        return replace(result, problem=problem, first_word=begin)
    return replace(compare(pack, port, want, got), problem=lines.beyond(port, lanes, str(path)))


def _first_unknown(port: Port, given: device.Given, count: int) -> str:
    """Which word and element the first x or z is in, of `count` elements that have one."""
    word = given.unknown[0][0]
    cell = device.unknown_codes(port, replace(given, unknown=given.unknown[:1]))[0]
    flat = lines.element_of(port, cell)
    place = "where no element is" if flat is None else named_place(port, flat)
    more = f", and {count - 1:,} more element{'s' * (count > 2)}" * (count > 1)
    return f"x or z in word {word:,} lane {cell % port.lanes} ({place}){more}"


def _unknown(port: Port, given: device.Given) -> np.ndarray:
    """Which elements have an x or z, in C order."""
    marked = np.zeros((port.words // port.row_words, port.lanes), np.int64)
    marked.reshape(-1)[device.unknown_codes(port, given)] = 1
    return lines.held(port, marked) != 0


def _text(port: Port, path: Path) -> bytes:
    """The bytes of a device's file; PackError where it is none, or far too large."""
    if not path.is_file():
        raise PackError(f"{path}: the device wrote no such file")
    most = ROOM + (port.words + 1) * 16 * (port.digits + 16)
    try:
        if path.stat().st_size > most:
            raise PackError(f"{path}: {path.stat().st_size:,} bytes for {port.words:,} words: not read")
        return path.read_bytes()
    except OSError as error:
        raise PackError(f"{path}: {error.strerror or error}") from None


def _wrong_length(pack: Pack, port: Port, path: Path, given: device.Given) -> PortResult:
    """How many words there are, and which are missing or too many where the others are right."""
    text = f"{path}: {len(given.words):,} words where {port.words:,} are expected"
    if given.unknown or not len(given.words):
        return PortResult(port, problem=text, first_word=0 if not len(given.words) else None)
    want = lines.pieces(port, lines.rows(port, pack.codes(port.name)))
    gap, first = abs(len(want) - len(given.words)), misplaced(want, given.words)
    if first is None:
        return PortResult(port, problem=text)
    what = "missing" if len(given.words) < len(want) else "too many"
    words = f"word {first:,} is" if gap == 1 else f"words {first:,} to {first + gap - 1:,} are"
    at = lines.element_at(port, first)
    where = "behind the last" if at is None else named_place(port, at)
    return PortResult(
        port, problem=f"{text}: {words} {what} ({where}), all others are right", first_word=first
    )


def compare(
    pack: Pack, port: Port, want: np.ndarray, got: np.ndarray, made: Mapping[str, Sequence[Any]] | None = None
) -> PortResult:
    """Flat elements of a port, with trail and diagnosis where they differ; made: ports made anew, of which
    the trail is one, else the pack's.
    """
    wrong = np.flatnonzero(want != got)
    if not wrong.size:
        return PortResult(port, want.size)
    words = Words(port, want, got, way(pack, port, made))
    at, lanes = lines.places(port, wrong)
    order = np.argsort(at, kind="stable")[:SHOWN]
    told = [_mismatch(pack, words, int(wrong[k]), int(at[k]), int(lanes[k])) for k in order]
    return PortResult(port, want.size, wrong.size, int(at.min()), "", told, diagnose(words), got)


def way(pack: Pack, port: Port, made: Mapping[str, Sequence[Any]] | None = None) -> dict[str, np.ndarray]:
    """The trail of a port, flat: floor, remainder, ... and the random words that rounded it."""
    names = {part: f"{port.name}.{part}" for part in TRAIL}
    drawn = {"words": str(port.rounding.get("words"))}
    kept = names | drawn if made is None else drawn
    found = {part: as_array(made[name]) for part, name in names.items() if name in made} if made else {}
    return found | {part: pack.codes(name).reshape(-1) for part, name in kept.items() if name in pack.ports}


def as_array(codes: Sequence[int | None]) -> np.ndarray:
    """int64; UNKNOWN for a number that no word stands for."""
    return np.array([UNKNOWN if code is None else code for code in codes], np.int64)


def _mismatch(pack: Pack, words: Words, flat: int, word: int, lane: int) -> Mismatch:
    port = words.port
    index = place_of(flat, port.shape)
    case = _case(pack, port, index[0] if index else 0)
    numbers = {part: int(values[flat]) for part, values in words.way.items()}
    return Mismatch(
        word, lane, index, case.id, case.flags, int(words.got[flat]), int(words.want[flat]), numbers
    )


def _case(pack: Pack, port: Port, result: int) -> Case:
    """Of a layer the port's own case, of a unit the last one that begins at or before the result."""
    named = [case for case in pack.cases if case.id.partition("#")[0] == port.name]
    before = [case for case in pack.cases if case.index <= result]
    return (named or before or [Case(0, "", "", "", 0)])[-1]


def named_place(port: Port, flat: int) -> str:
    """'N=3, H=0, W=7, C=0' of an element in C order."""
    pairs = zip(port.axes.split(","), place_of(flat, port.shape), strict=True)
    return ", ".join(f"{axis}={i}" for axis, i in pairs)


def first_step(pack: Pack, results: Sequence[PortResult]) -> int | None:
    """The first step of a chain that is not as expected: of units by its words, of layers by the name."""
    bad = [result for result in results if result.status != "pass"]
    for link in pack.manifest["about"].get("chain", ()):
        step = int(link["step"])
        if any(result.port.name.startswith(f"step{step}/") for result in bad):
            return step
        begins = [_result(one.port, one.first_word) for one in bad if one.first_word is not None]
        if any(link.get("first", 1) <= result <= link.get("last", 0) for result in begins):
            return step
    return None


def _result(port: Port, word: int) -> int:
    """Of a unit: which of its results a word is of, for none holds two."""
    return word * (port.shape[0] if port.shape else 1) // max(port.words, 1)


# -- the pack itself ---------------------------------------------------------------------------


def recompute(pack: Pack) -> Result:
    """Every port but the inputs again, and every generated text; nothing but the pack is read.

    PackError where PACK.json does not say how it was made.
    """
    cannot = f"what {MANIFEST} says cannot be run again"
    with runnable(pack, REDRAFT, "this intnet makes", cannot) as redraft:
        asked = pack.manifest["about"]
        tiled = tiles.tiled(redraft(pack), asked.get(TILE, {}))
        return _recomputed(pack, layouts.laid_out(tiled, layouts.Choice(**asked.get(LAYOUT, {}))))


@contextmanager
def runnable(pack: Pack, kinds: Mapping[str, Make], makes: str, cannot: str) -> Iterator[Make]:
    """What makes a pack of its kind again; PackError where PACK.json does not say how it was made."""
    kind = pack.manifest["generator"].get("kind")
    if kind == units.drafts.OWN:
        raise PackError(
            f"{pack.folder}: its unit is its maker's own, whose program makes the words again; "
            "what a device gave is judged with --dut DIR"
        )
    if kind not in kinds:
        raise PackError(f"{pack.folder}: generator.kind is {kind!r}; {makes} {', '.join(kinds)}")
    plugins.need(plugins.of_header(pack.manifest["generator"], MANIFEST), (), str(pack.folder))
    try:
        if kind == "unit":
            units.drafts.admit(pack.manifest["about"]["unit"])
        yield kinds[kind]
    except IntnetError:
        raise
    except WRONG as e:
        text = f"{type(e).__name__}: {e}".rstrip(": ")
        raise PackError(f"{pack.folder}: {cannot} ({text})") from e


def _recomputed(pack: Pack, draft: Draft) -> Result:
    results, problems = [], []
    for port, codes in draft.ports:
        given = pack.ports.get(port.name)
        if given is None or entry_of(given) != entry_of(port):
            problems.append(f"PACK.json does not describe {port.name} as the recomputation does")
        else:
            flat = codes.reshape(-1).astype(np.int64)
            results.append(compare(pack, port, flat, pack.codes(port.name).reshape(-1)))
    made = {port.name for port, _ in draft.ports}
    problems += [f"{name} is not made by a recomputation" for name in pack.ports if name not in made]
    problems += [f"{name} is not what its contents say" for name in _texts(pack, draft)]
    return Result(pack, "recomputation", results, problems, first_step(pack, results))


def _unit(pack: Pack) -> Draft:
    given = pack.manifest["generator"]
    return units.draft(given["unit"], given["level"], given["settings"])


# How a pack of each kind is made again: PACK.json's generator.kind -> draft.
REDRAFT: dict[str, Callable[[Pack], Draft]] = {
    LAYERS: layers.redraft, NETWORK: network.redraft, INFERENCE: network.reinfer, "unit": _unit
}  # fmt: skip


def _texts(pack: Pack, draft: Draft) -> list[str]:
    """Generated files, and keys of PACK.json, that differ from a recomputation's."""
    made = {CONTRACT: contract.text(pack.manifest), CASES: cases_text(draft.cases)}
    made |= hdl.files(pack.manifest)
    odd = [name for name, text in made.items() if (pack.folder / name).read_bytes() != text.encode()]
    odd += [path.name for path in (pack.folder / "hdl").iterdir() if f"hdl/{path.name}" not in made]
    given: dict[str, Any] = pack.manifest
    pairs = {"name": draft.name, "version": VERSION, "level": draft.level, "about": dict(draft.about)}
    pairs["generator"] = {"intnet": given["generator"].get("intnet"), **draft.generator}
    return odd + [f"PACK.json: {key}" for key, value in pairs.items() if given[key] != value]
