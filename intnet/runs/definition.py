"""Which version of the definition this code computes, and what to say of a file of another one.

The definition is `intnet.spec`; its number changes with any bit that it defines (CHANGELOG.md). Headers of
runs, sweeps, checkpoints, models and packs hold it under `definition`: bits of two versions are not compared.
`sources` tells programs of one version apart.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import intnet

__all__ = ["VERSION", "difference", "head", "refused", "sources"]

VERSION = 3  # `spec.VERSION`, without the import of all of it


def difference(found: object) -> str | None:
    """Why a file whose header has `found` for a definition (None: it has none) is refused; None if not."""
    if type(found) is int and found == VERSION:
        return None
    version = "none was written yet" if found is None else repr(found)
    return (
        f"of another version of the definition ({version}); this intnet computes version {VERSION}, "
        "other bits: make it anew, or use the intnet that wrote it"
    )


def head(format: str, version: int) -> dict[str, Any]:
    """What config.json and sweep.json begin with."""
    return {"format": format, "version": version, "definition": VERSION, "intnet": intnet.__version__}


def refused(found: Any, kind: str, format: str, version: int) -> str | None:
    """Why a file that begins with `found` is no `kind` ('run') to go on with; None where it is one."""
    if (found["format"], found["version"]) != (format, version):
        return f"not a {kind} of this version of intnet ({format}, version {version})"
    other = difference(found.get("definition"))
    return other and f"a {kind} {other}"


def sources(more: Iterable[str] = ()) -> str:
    """Hex SHA-256 over the package's own files, by their names; more: texts that count too."""
    package, sha = Path(intnet.__file__).parent, hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        sha.update(f"{path.relative_to(package).as_posix()} {path.stat().st_size}\n".encode())
        sha.update(path.read_bytes())
    sha.update("".join(more).encode())
    return sha.hexdigest()
