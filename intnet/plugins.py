"""What users add from files of their own: registries, which file defined what, how files are read.

    @methods.register("kbit")            models, datasets, formats, rounding: the same
    class Kbit(FloatMaster): ...

A name is found where its definition was run: in a script or a notebook; in a file of `--import FILE`; in an
installed package with an entry point of the group `intnet.plugins`, which names the module. Runs, sweeps and
packs keep 'method kbit' -> SHA-256 of the file, runs and sweeps its path too; whoever opens one later reads
that file, if it still is the same. Other files that it imports are not watched.
"""

import hashlib
import importlib.metadata
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from intnet.errors import ConfigError, IntnetError, unknown

__all__ = ["GROUP", "SHAPE", "Registry", "discover", "files", "load", "loaded", "need", "of_header", "used"]

GROUP = "intnet.plugins"
SHAPE = {str: str}  # of what headers hold, as `runs/records.py` checks it
UNGUARDED = "; it is read by being run: what trains stands under `if __name__ == '__main__':`"
NAME = re.compile(r"[A-Za-z]\w*([.-]\w+)*")

T = TypeVar("T")
D = TypeVar("D")


@dataclass(frozen=True)
class Origin:
    """Where a definition stands; file: None of what was typed at a prompt or in a notebook."""

    module: str
    name: str
    file: str | None
    sha256: str

    @property
    def place(self) -> str:
        """The file, which may be run under two names; what stands in none has its module's."""
        return self.file or self.module

    @classmethod
    def of(cls, made: Any) -> "Origin":
        """Of a class or a function."""
        module = sys.modules.get(made.__module__)
        file = getattr(module, "__file__", None)
        if file is None or not os.path.isfile(file):
            return cls(made.__module__, made.__qualname__, None, "")
        known = _RUNNING.get(os.path.abspath(file))
        sha256 = known or hashlib.sha256(Path(file).read_bytes()).hexdigest()
        return cls(made.__module__, made.__qualname__, os.path.abspath(file), sha256)


class Registry(dict[str, T], Generic[T]):
    """Name -> what it stands for: intnet's own, and what users `register`; `kind` as 'method'.

    check: refuses what cannot be one, by an IntnetError, and may give it its name
    also:  names of another kind, for the list of what there is
    """

    def __init__(
        self, kind: str, known: Mapping[str, T], check: Callable[[str, Any], None], also: Sequence[str] = ()
    ) -> None:
        super().__init__(known)
        self.kind, self._check, self._also = kind, check, also
        self.origins: dict[str, Origin] = {}
        _REGISTRIES[kind] = self

    def register(self, name: str) -> Callable[[D], D]:
        """A decorator: what follows is `name` from now on. ConfigError where the name is taken.

        The same definition run again, a notebook's cell or a module that is read anew, takes its own place.
        """
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ConfigError(f"{self.kind} {name!r}: a name is letters, digits, - . and _, a letter first")

        def put(made: D) -> D:
            if not hasattr(made, "__qualname__"):
                raise ConfigError(f"{self.kind} {name!r}: register a class or a function, not {made!r}")
            origin, before = Origin.of(made), self.origins.get(name)
            again = before is not None and before.name == origin.name and before.place == origin.place
            if name in self and not again:
                where = "intnet itself" if before is None else before.file or "this session"
                raise ConfigError(f"{self.kind} {name!r} is taken, by {where}: give yours another name")
            self._check(name, made)
            self[name] = made  # type: ignore[assignment]
            self.origins[name] = origin
            return made

        return put

    def find(self, name: str) -> T:
        """What the name stands for; ConfigError lists what there is."""
        if name not in self:
            discover()
        if name not in self:
            hint = "; one of your own: give its file with --import FILE"
            raise ConfigError(f"{unknown(self.kind, name, [*self, *self._also])}{hint}")
        return self[name]

    def forget(self, file: str) -> None:
        """Whatever a file defined."""
        for name in [name for name, origin in self.origins.items() if origin.file == file]:
            del self[name], self.origins[name]


_REGISTRIES: dict[str, Registry[Any]] = {}
_LOADED: dict[str, str] = {}  # path -> SHA-256 of what was run
_RUNNING: dict[str, str] = {}  # the same of those that are being run: a file may change behind that
_DISCOVERED: set[str] = set()  # entry points


# -- reading files ---------------------------------------------------------------------------------


def load(file: str | os.PathLike[str]) -> None:
    """Run a Python file, which registers what it defines; one that did not change since is not run again."""
    path = os.path.abspath(os.path.expanduser(file))
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"--import {file}: {error.strerror}") from None
    _run(path, content)


def _run(path: str, content: bytes) -> None:
    """Run the content of a file as the module that is named as the file is."""
    sha256 = hashlib.sha256(content).hexdigest()
    if _LOADED.get(path) == sha256 or _imported(path, sha256):
        return
    name = Path(path).stem
    _check_name(path, name)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or not path.endswith(".py"):
        raise ConfigError(f"--import {path}: give a Python file, whose name ends in .py")
    for registry in _REGISTRIES.values():
        registry.forget(path)
    if os.path.dirname(path) not in sys.path:
        sys.path.append(os.path.dirname(path))  # for files beside it that it imports
    before = sys.modules.get(name)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    _LOADED[path] = _RUNNING[path] = sha256
    try:
        exec(compile(content, path, "exec"), module.__dict__)
    except BaseException as error:
        del _LOADED[path]
        _put_back(name, before)
        for registry in _REGISTRIES.values():
            registry.forget(path)
        if not isinstance(error, Exception | SystemExit):
            raise
        hint = UNGUARDED if isinstance(error, IntnetError) and b"__main__" not in content else ""
        raise ConfigError(f"{path}{_line(error, path)}: {_what(error)}{hint}") from error
    finally:
        del _RUNNING[path]


def _imported(path: str, sha256: str) -> bool:
    """Whether this process has imported the file, and what it registered came from this content."""
    origins = [origin for registry in _REGISTRIES.values() for origin in registry.origins.values()]
    return any((origin.file, origin.sha256) == (path, sha256) for origin in origins)


def _check_name(path: str, name: str) -> None:
    """ConfigError where a module of the file's name is another one."""
    other = getattr(sys.modules.get(name), "__file__", None) if name in sys.modules else _elsewhere(name)
    if (name in sys.modules or other) and os.path.abspath(other or "") != path:
        raise ConfigError(f"--import {path}: a module {name!r} is there already ({other}): rename the file")


def _elsewhere(name: str) -> str | None:
    """The file that `import name` would read."""
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    return found.origin if found else None


def _put_back(name: str, before: ModuleType | None) -> None:
    del sys.modules[name]
    if before is not None:
        sys.modules[name] = before


def _what(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, IntnetError) else f"{type(error).__name__}: {text}"


def _line(error: BaseException, path: str) -> str:
    """', line 3' of the file, where the error passed through it."""
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    return f", line {line}" if line else ""


def place(error: Exception) -> str:
    """'FILE, line 3: ' of the last of users' files that an error passed through; '' of none."""
    files = {origin.file for registry in _REGISTRIES.values() for origin in registry.origins.values()}
    frames = traceback.extract_tb(error.__traceback__)
    mine = [frame for frame in frames if frame.filename in files | _LOADED.keys()]
    return f"{mine[-1].filename}, line {mine[-1].lineno}: " if mine else ""


def loaded() -> list[str]:
    """SHA-256 of every file of users' that this process has read or registered something of."""
    origins = (origin for registry in _REGISTRIES.values() for origin in registry.origins.values())
    return sorted({*_LOADED.values(), *(origin.sha256 for origin in origins)})


def discover() -> None:
    """Import what installed packages add: the modules of their entry points, each once."""
    for entry in importlib.metadata.entry_points(group=GROUP):
        if entry.value not in _DISCOVERED:
            _DISCOVERED.add(entry.value)
            try:
                entry.load()
            except Exception as error:
                package = entry.dist.name if entry.dist else "a package"
                raise ConfigError(f"{package}, entry point {entry.name!r}: {_what(error)}") from error


# -- what headers hold -------------------------------------------------------------------------------


def used(names: Mapping[str, str]) -> dict[str, str]:
    """'method kbit' -> SHA-256, for the header of what is made with the names given (kind -> name).

    Every format and rounding mode of users' counts too: a method may round with any. ConfigError for what
    stands in no file.
    """
    found = {}
    for kind, registry in _REGISTRIES.items():
        for name, origin in registry.origins.items():
            if names.get(kind, name) == name and (kind in names or kind in ANYWHERE):
                if origin.file is None:
                    raise ConfigError(
                        f"{kind} {name!r} stands in no file, where others could find it: put it into one, "
                        "and import that"
                    )
                found[f"{kind} {name}"] = origin.sha256
    return dict(sorted(found.items()))


ANYWHERE = ("format", "rounding mode")  # kinds that no name in a header tells of


def of_header(header: Mapping[str, Any], where: str) -> dict[str, str]:
    """What `used` gave, of a header that has it; ConfigError where it is no such thing."""
    found = header.get("plugins", {})
    if not isinstance(found, dict) or not all(isinstance(sha256, str) for sha256 in found.values()):
        raise ConfigError(f"{where}: its plugins are {found!r}: names and SHA-256 are wanted")
    return found


def files(wanted: Iterable[str]) -> list[str]:
    """The files that define these keys of `used`, each once."""
    found = [origin.file for key in wanted if (origin := _origin(key)) is not None]
    return list(dict.fromkeys(file for file in found if file))


def _origin(key: str) -> Origin | None:
    kind = next((kind for kind in _REGISTRIES if key.startswith(f"{kind} ")), "")
    return _REGISTRIES[kind].origins.get(key.removeprefix(f"{kind} ")) if kind else None


def need(wanted: Mapping[str, str], remembered: Iterable[str], owner: str) -> None:
    """See that all that `owner` was made with is here, from files of the same content; ConfigError if not.

    remembered: paths to look at, for what nobody registered yet; one that changed is not run
    """
    remembered = list(remembered)
    if any(_origin(key) is None for key in wanted):
        discover()
    for path in remembered:
        lacking = [key for key, sha256 in wanted.items() if not _same(key, sha256)]
        content = Path(path).read_bytes() if lacking and os.path.isfile(path) else b""
        if hashlib.sha256(content).hexdigest() in [wanted[key] for key in lacking]:
            _run(path, content)
    for key, sha256 in wanted.items():
        if _same(key, sha256):
            continue
        origin = _origin(key)
        file = origin.file if origin else next((one for one in remembered if os.path.isfile(one)), None)
        if file is not None:
            now = origin.sha256 if origin else hashlib.sha256(Path(file).read_bytes()).hexdigest()
            raise ConfigError(
                f"{owner} was made with {key} of a file with SHA-256 {sha256[:12]}.., and {file} has "
                f"{now[:12]}..: it changed; give the file as it was with --import FILE, or make it anew"
            )
        where = f" ({', '.join(remembered)} is gone)" if remembered else ""
        raise ConfigError(f"{owner} was made with {key}, which is not here{where}: give --import FILE")


def _same(key: str, sha256: str) -> bool:
    origin = _origin(key)
    return origin is not None and origin.sha256 == sha256
