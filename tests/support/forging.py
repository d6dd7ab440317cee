"""Packs that somebody changed who can make every hash and guard fit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from intnet.numbers import hexfiles
from intnet.packs import pack


def seal(folder: Path) -> None:
    """SHA256SUMS that fit the files, as a forger would write them."""
    lines = []
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.name != pack.SUMS):
        lines.append(
            f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}\n"
        )
    (folder / pack.SUMS).write_text("".join(lines))


def forge(folder: Path, name: str, codes: Sequence[int]) -> None:
    """Another expected word, with every hash and guard made to fit."""
    manifest = json.loads((folder / "PACK.json").read_text())
    entry = next(port for port in manifest["ports"] if port["name"] == name)
    layout = hexfiles.Layout(entry["bits"], entry["lanes"], entry["signed"])
    text, guard = hexfiles.encode(np.array(codes, np.int64), layout)
    entry |= {"sha256": hashlib.sha256(text).hexdigest(), "guard": f"{guard:016x}"}
    (folder / entry["file"]).write_bytes(text)
    (folder / "PACK.json").write_text(json.dumps(manifest, indent=1) + "\n")
    seal(folder)
