"""Packs on disk: a folder written whole or not at all, and read only when every hash holds.

    write(draft, "packs/fc2-1.0.0")
    pack = read("packs/fc2-1.0.0")
    pack["fc2/x0"]                a QTensor (an array of a float path), pack.codes(name) its integers

    PACK.json     what it is: version, generator, ports (file, bits, lanes, exponent, shape, sha256, guard)
    SHA256SUMS    of every file but itself, for `sha256sum -c`
    CONTRACT.md   what every port means, bit by bit (`contract.py`)
    cases.csv     which vectors hunt which bug
    in/ exp/ rnd/ trail/    hex files (`lines.py`)
    hdl/          sizes and load guards, a self-checking testbench (`hdl/`)

Nothing in a pack depends on when, where or by how many threads it was written: equal drafts give equal
bytes. An expected file that is all zero or constant is refused: a device stuck at that word would pass.
"""

import csv
import hashlib
import io
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import intnet
from intnet import plugins
from intnet.errors import ConfigError, FormatError, PackError
from intnet.exact.blocks.block_float import expand
from intnet.numbers import formats
from intnet.numbers.formats import BlockFloat, Format
from intnet.numbers.hexfiles import MOST_BITS
from intnet.numbers.qtensor import QTensor
from intnet.packs import contract, hdl, lines, mx, sizes
from intnet.packs.ports import ENCODINGS, FOLDERS, Case, Draft, Filled, Port, as_tensor
from intnet.runs import definition, files, records
from intnet.runs.archive import PathLike

FORMAT, FORMAT_VERSION = "intnet golden pack", 1
LAID_OUT_VERSION = 2  # of one with a layout (`layouts.py`), which readers of version 1 would take for C order
VERSION = "4.0.0"  # of the expected bits: one that changes is a new major version
MANIFEST, SUMS, CONTRACT, CASES = "PACK.json", "SHA256SUMS", "CONTRACT.md", "cases.csv"
HEADINGS = ("index", "case", "level", "flags", "beat")

PORT = {  # shapes (`runs/records.py`); what an entry has of its port, and what only its words tell
    "name": str, "file": str, "direction": str, "signed": bool, "bits": int, "lanes": int, "word_bits": int,
    "encoding": str, "exponent": (int, str, type(None)), "axes": str, "shape": [int], "words": int,
    "format": (dict, type(None)), "meaning": str, "explains": str, "rounding": dict,
}  # fmt: skip
MOST_LANE = 64  # bits
OF_WORDS = {"sha256": str, "guard": str}
LAYOUT = "layout"  # of `about`: what was asked for
OTHER_LAYERS = "take another step (--step), another layer, or more images"
ORDER = "order"  # only of a port whose file has another one than C order
SHAPE = {
    "format": str, "format_version": int, "definition": int,
    "name": str, "version": str, "level": str, "generator": dict,
    "ports": [PORT | OF_WORDS], "about": dict,
}  # fmt: skip


# -- writing -----------------------------------------------------------------------------------


def write(draft: Draft, folder: PathLike) -> Path:
    """Write a pack to `folder`, which must not be there yet; PackError says what cannot be written."""
    target = Path(folder)
    if target.exists():
        raise PackError(f"{target} is there already: a pack is never written over; give another name")
    if files.leads_nowhere(target):
        raise PackError(f"{target} is a link that leads nowhere: give another name")
    check(draft)
    try:
        with files.new_folder(target) as partial:
            _fill(draft, partial)
    except OSError as error:
        raise refused(target, error) from None
    return target


def refused(target: Path, error: OSError) -> PackError:
    """What the system said of a folder that was to be written, and the file's name where it has one."""
    name = f" ({Path(error.filename).name})" if error.filename else ""
    return PackError(f"{target}: {error.strerror or error}{name}")


def check(draft: Draft) -> None:
    """PackError for a draft that would make a bad pack: a name twice, or words that judge nothing."""
    first: dict[str, str] = {}  # without case, of which file systems of macOS and Windows take no notice
    for port, _ in draft.ports:
        other = first.get(port.file.lower())
        if other is not None:
            both = f"{other} and {port.file}, one file on macOS and Windows: rename a layer"
            raise PackError(
                f"{draft.name}: two ports would be written to {other if other == port.file else both}"
            )
        first[port.file.lower()] = port.file
    names = Counter(port.name for port, _ in draft.ports)
    if twice := [name for name, count in names.items() if count > 1]:
        raise PackError(f"{draft.name}: two ports are called {twice[0]}")
    outs = [(port, codes) for port, codes in draft.ports if port.direction == "out"]
    if not outs or not draft.cases:
        raise PackError(f"{draft.name}: a pack needs an expected port and a case; this one has none")
    for port, codes in outs:
        if codes.size == 0 or np.all(codes == (codes.flat[0] if codes.size > 1 else 0)):
            what = "empty" if codes.size == 0 else "all zero" if codes.flat[0] == 0 else "constant"
            other = "take another level, or other settings" if "unit" in draft.about else OTHER_LAYERS
            raise PackError(
                f"{draft.name}: the expected words of {port.name} are {what}: a device that is stuck would "
                f"pass; {other}"
            )


def _fill(draft: Draft, folder: Path) -> None:
    """All files of a pack."""
    for name in {port.file.split("/")[0] for port, _ in draft.ports} | {"hdl"}:
        (folder / name).mkdir()
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # hashing and encoding leave Python's lock
        entries = list(pool.map(lambda filled: _write_port(filled, folder), draft.ports))
    manifest = {
        "format": FORMAT,
        "format_version": _format_version(draft.about),
        "definition": definition.VERSION,
        "name": draft.name,
        "version": VERSION,
        "level": draft.level,
        "generator": {"intnet": intnet.__version__, **draft.generator},
        "about": dict(draft.about),
        "ports": entries,
    }
    texts = {MANIFEST: json.dumps(manifest, indent=1, allow_nan=False) + "\n", CASES: cases_text(draft.cases)}
    texts |= {CONTRACT: contract.text(manifest)} | hdl.files(manifest)
    sums = {entry["file"]: entry["sha256"] for entry in entries}
    for name, text in texts.items():
        _put(folder / name, text.encode())
        sums[name] = hashlib.sha256(text.encode()).hexdigest()
    listed = "".join(f"{sha}  {name}\n" for name, sha in sorted(sums.items()))
    _put(folder / SUMS, listed.encode())


def _put(path: Path, content: bytes) -> None:
    with files.naming(path):
        path.write_bytes(content)


def _format_version(about: Mapping[str, Any]) -> int:
    return LAID_OUT_VERSION if LAYOUT in about else FORMAT_VERSION


def _write_port(filled: Filled, folder: Path) -> dict[str, Any]:
    """Its entry in PACK.json."""
    port, codes = filled
    try:
        text, guard = lines.encode(port, codes)
    except PackError as error:
        raise PackError(f"{port.name}: {error}") from None
    _put(folder / port.file, text)
    return entry_of(port) | {"sha256": hashlib.sha256(text).hexdigest(), "guard": f"{guard:016x}"}


def entry_of(port: Port) -> dict[str, Any]:
    """A port as JSON, without what only its words tell."""
    format = port.format
    made = {name: getattr(port, name) for name in PORT}
    made |= {"shape": list(port.shape), "rounding": dict(port.rounding)}
    made |= {ORDER: port.order} if port.order else {}
    if format is not None:
        made["format"] = {"name": str(format), "kind": formats.kind_of(format), "fields": asdict(format)}  # type: ignore[arg-type]
    return made


def cases_text(cases: Sequence[Case]) -> str:
    """The text of cases.csv."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(HEADINGS)
    rows.writerows((case.index, case.id, case.level, case.flags, case.beat) for case in cases)
    return out.getvalue()


# -- reading -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pack:
    """A pack whose hashes hold. Iterating gives its ports' names."""

    folder: Path
    manifest: dict[str, Any]
    ports: dict[str, Port]
    cases: tuple[Case, ...]

    def __iter__(self) -> Iterator[str]:
        return iter(self.ports)

    def codes(self, name: str) -> np.ndarray:
        """int64 integers of a port, of its shape."""
        port = self.port(name)
        where = str(self.folder / port.file)
        codes, guard = lines.decode(port, Path(where).read_bytes(), where)
        if f"{guard:016x}" != self.entries[name]["guard"]:
            raise PackError(f"{where}: its load guard is not that of {MANIFEST}")
        return codes.reshape(port.shape)

    def __getitem__(self, name: str) -> QTensor | np.ndarray:
        """The QTensor of a port; of a float path the float32 array."""
        port = self.port(name)
        if mx.MX in port.rounding:
            scales = self.codes(str(port.exponent))
            return mx.tensor(self.codes(name), scales, mx.along_of(port.rounding[mx.MX]), name)
        return as_tensor(port, self.codes(name), self._exponents(port))

    def _exponents(self, port: Port) -> np.ndarray | None:
        """Of a port whose elements have many."""
        if not isinstance(port.exponent, str):
            return None
        exponents = self.codes(port.exponent)
        if not isinstance(port.format, BlockFloat):
            return exponents
        named = port.rounding["bits"]
        bits = self.codes(named) if isinstance(named, str) else np.int64(named)
        return expand(exponents - np.maximum(bits, 1) + 1, port.shape, (0, port.format.axis))

    def port(self, name: str) -> Port:
        """One of `ports`; PackError where there is none of this name."""
        if name not in self.ports:
            raise PackError(f"{self.folder}: no port {name!r}; there are {', '.join(self.ports)}")
        return self.ports[name]

    @cached_property
    def entries(self) -> dict[str, dict[str, Any]]:
        """PACK.json's entry of each port."""
        return {entry["name"]: entry for entry in self.manifest["ports"]}


def read(folder: PathLike) -> Pack:
    """The pack; PackError names the first file that is missing, altered, or one too many."""
    root = Path(folder)
    if not root.is_dir():
        raise PackError(f"{root} is no folder: give one that `intnet golden` wrote")
    sums = _check_sums(root)
    manifest = _manifest(root / MANIFEST)
    _need_formats(manifest, root)
    ports = [_read_port(entry, root / MANIFEST) for entry in manifest["ports"]]
    pack = Pack(root, manifest, {port.name: port for port in ports}, _read_cases(root / CASES))
    if len(pack.ports) != len(ports) or len({port.file for port in ports}) != len(ports):
        raise PackError(f"{root / MANIFEST}: a port is listed twice")
    files = {port.file for port in ports}
    odd = {name for name in sums if name.split("/")[0] in FOLDERS.values()} ^ files
    if odd:
        raise PackError(f"{root / min(odd)}: {MANIFEST} and {SUMS} do not both list it")
    for entry in manifest["ports"]:
        if sums[entry["file"]] != entry["sha256"]:
            raise PackError(f"{root / MANIFEST}: port {entry['name']!r}: its SHA-256 is not that of {SUMS}")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(pack.codes, pack.ports))  # every word is one, and the guards hold
    return pack


def _need_formats(manifest: dict[str, Any], root: Path) -> None:
    """ConfigError where a port has a format of a user's own that is not here, or not as it was."""
    kinds = {f"format {entry['format'].get('kind')}" for entry in manifest["ports"] if entry["format"]}
    own = plugins.of_header(manifest["generator"], MANIFEST)
    plugins.need({key: own[key] for key in own if key in kinds}, (), str(root))


def _check_sums(root: Path) -> dict[str, str]:
    """File -> SHA-256: every file is there with its hash, and none besides."""
    try:
        text = (root / SUMS).read_bytes().decode("ascii")
    except (OSError, UnicodeDecodeError):
        raise PackError(f"{root}: no readable {SUMS}: this is no pack, or it was cut short") from None
    if not re.fullmatch(r"([0-9a-f]{64}  [!-~]+\n)+", text):
        raise PackError(f"{root / SUMS} is not made of lines 'SHA-256  FILE': write the pack again")
    wanted = {name: sha for sha, name in (line.split("  ") for line in text.splitlines())}
    if len(wanted) != text.count("\n"):
        raise PackError(f"{root / SUMS} lists a file twice: write the pack again")
    present = set()
    for path in root.rglob("*"):
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            raise PackError(f"{path} is no file of its own: a pack has no links and no devices")
        if not path.is_dir() and path != root / SUMS:
            present.add(path.relative_to(root).as_posix())
    for what, names in (("is missing", wanted.keys() - present), ("is not listed", present - wanted.keys())):
        if names:
            raise PackError(f"{root / min(names)} {what} (by {SUMS}): write the pack again")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        shas = pool.map(lambda name: hashlib.sha256((root / name).read_bytes()).hexdigest(), wanted)
    for (name, sha), found in zip(wanted.items(), shas, strict=True):
        if sha != found:
            raise PackError(f"{root / name} was altered: its SHA-256 is {found}, by {SUMS} {sha}")
    return wanted


def _manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = records.parse(path.read_bytes())
        other = definition.difference(records.check(manifest, {"format": str}, path.name).get("definition"))
        if other and manifest["format"] == FORMAT:
            raise PackError(f"{path}: a pack {other}")
        records.check(manifest, SHAPE, path.name)
        _check_version(manifest, path)
        _only(manifest, SHAPE, path.name)
        for k, entry in enumerate(manifest["ports"]):
            _only(entry, PORT | OF_WORDS | {ORDER: str}, f"{path.name}['ports'][{k}]")
            records.check(entry.get(ORDER, ""), str, f"{path.name}['ports'][{k}]['order']")
        sizes.within(manifest, path.name)
    except PackError:
        raise
    except RecursionError:
        raise PackError(f"{path}: it is nested too deeply") from None
    except (OSError, ValueError) as error:
        raise PackError(f"{path}: {error}") from None
    return manifest


def _check_version(manifest: dict[str, Any], path: Path) -> None:
    """PackError for another format, another version, and a layout in a pack that says it has none."""
    wanted = _format_version(manifest["about"])
    if manifest["format"] != FORMAT or manifest["format_version"] != wanted:
        raise PackError(
            f"{path}: {manifest['format']!r} of version {manifest['format_version']}; "
            f"this intnet reads {FORMAT!r} of version {FORMAT_VERSION}, and {LAID_OUT_VERSION} with a layout"
        )
    for entry in manifest["ports"] if wanted == FORMAT_VERSION else ():
        if ORDER in entry or entry["word_bits"] != entry["lanes"] * entry["bits"]:
            raise PackError(
                f"{path}: port {entry['name']!r} has an order, or words that are no rows (word_bits), and "
                f"'about' has no {LAYOUT!r}"
            )


def _only(given: dict[str, Any], known: dict[str, Any], name: str) -> None:
    """ValueError for a key that nothing reads: a misspelt one would be missed in silence."""
    odd = [key for key in given if key not in known]
    if odd:
        raise ValueError(f"{name} has a key {ascii(odd[0])[:80]}; there are only {', '.join(known)}")


def _read_port(entry: dict[str, Any], path: Path) -> Port:
    """A port from its entry, which must say what `entry_of` says of it."""
    given = {name: entry[name] for name in (field.name for field in fields(Port)) if name in entry}
    given |= {"shape": tuple(entry["shape"]), "format": _read_format(entry["format"], path)}
    if entry["direction"] not in FOLDERS or entry["encoding"] not in ENCODINGS:
        raise PackError(f"{path}: port {entry['name']!r}: unknown direction or encoding")
    if entry["encoding"] == "flag" and (entry["format"] or {}).get("kind") != "Flag":
        raise PackError(f"{path}: port {entry['name']!r}: stored flag words need a Flag format")
    try:
        port = Port(**given)
        if mx.MX in port.rounding or port.encoding == "minifloat":
            mx.check(port.bits, port.exponent, port.rounding.get(mx.MX), port.shape)
        most_of = {"bits": MOST_LANE, "lanes": MOST_BITS, "word_bits": MOST_BITS}
        odd = [name for name, most in most_of.items() if not 1 <= entry[name] <= most]
        if odd or min(port.shape, default=0) < 0:
            raise PackError(f"{(odd or ['shape'])[0]} is no size")
        if entry["word_bits"] != port.row_bits:
            port = replace(port, word=entry["word_bits"])
        odd = [key for key, value in entry_of(port).items() if entry.get(key) != value]
    except PackError as error:
        raise PackError(f"{path}: port {entry['name']!r}: {error}") from None
    if odd or "/" in port.file.split("/", 1)[1] or ".." in port.file:
        wrong = ", ".join(odd) or "name"
        raise PackError(f"{path}: port {port.name!r}: {wrong} does not fit its other fields")
    return port


def _read_format(text: dict[str, Any] | None, path: Path) -> Format | None:
    if text is None:
        return None
    try:
        made: Format = formats.FORMATS.find(text["kind"])(**text["fields"])
        return made
    except (KeyError, TypeError, ConfigError, FormatError) as error:
        raise PackError(f"{path}: {text!r} is no number format ({error})") from None


def _read_cases(path: Path) -> tuple[Case, ...]:
    try:
        rows = list(csv.reader(io.StringIO(path.read_text("utf-8"))))
        if tuple(rows[0]) != HEADINGS:
            raise ValueError(f"its headings are not {', '.join(HEADINGS)}")
        return tuple(Case(int(i), id, level, flags, int(beat)) for i, id, level, flags, beat in rows[1:])
    except (OSError, ValueError, IndexError) as error:
        raise PackError(f"{path}: {error}") from None
