"""Devices of packs: folders that they read and write, faults of their rounding, what a check must find."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from intnet.packs import check, pack
from intnet.packs.check import Result
from tests.support.contract_device import limited, rounded


def good(read: pack.Pack, folder: Path) -> Path:
    """A device that is right."""
    folder.mkdir()
    for path in (read.folder / "exp").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def give(read: pack.Pack, name: str, codes: Sequence[int], folder: Path) -> None:
    """Write a port's file with other elements, as lines of `$writememh`."""
    port = read.ports[name]
    mask, lanes, bits = (1 << port.bits) - 1, port.lanes, port.bits
    words = [
        sum((code & mask) << lane * bits for lane, code in enumerate(codes[i : i + lanes]))
        for i in range(0, len(codes), lanes)
    ]
    digits = -(-lanes * bits // 4)
    (folder / Path(port.file).name).write_text("".join(f"{word:0{digits}x}\n" for word in words))


def result_of(read: pack.Pack, folder: Path, name: str) -> check.PortResult:
    """That port's result; every other port must pass."""
    result = check.check_dut(read, folder)
    assert [port.port.name for port in result.ports if port.status != "pass"] == [name]
    assert result.exit_status in (1, 2)
    return next(port for port in result.ports if port.port.name == name)


def whole(result: check.PortResult) -> list[str]:
    """The causes that explain all of a port's mismatches."""
    return [verdict.name for verdict in result.verdicts if verdict.whole]


def given(read: pack.Pack, folder: Path) -> Path:
    """What a device may see of a pack."""
    folder.mkdir()
    shutil.copy(read.folder / "CONTRACT.md", folder)
    for name in ("in", "rnd"):
        if (read.folder / name).exists():
            shutil.copytree(read.folder / name, folder / name)
    return folder


def truncated(scaled: Fraction, mode: str, word: int, low: int | None, high: int | None) -> int:
    return limited(scaled.__floor__(), low, high)


def complemented(scaled: Fraction, mode: str, word: int, low: int | None, high: int | None) -> int:
    return rounded(scaled, mode, word ^ 0xFFFFFFFF, low, high)


def minus(scaled: Fraction, mode: str, word: int, low: int | None, high: int | None) -> int:
    return -rounded(scaled, mode, word, low, high)


def check_marks(result: Result, roots: dict[str, str], whole: bool = True) -> None:
    """Ports with faults stand first, each with its cause; all others that are wrong follow from them."""
    bad = [port for port in result.ports if port.status != "pass"]
    first, others = bad[: len(roots)], bad[len(roots) :]
    assert {port.port.name for port in first} == set(roots)
    for port in first:
        assert port.own
        if whole:
            assert roots[port.port.name] in [one.name for one in port.verdicts if one.whole], port.verdicts
    for port in others:
        assert port.own == 0 and port.follows and set(port.follows) <= set(roots), port.port.name
