"""Simulators of Verilog: what needs one of them, and what a testbench must say in it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from examples.rtl import simulate
from intnet.packs import pack

icarus_only = pytest.mark.skipif(bool(simulate.missing("icarus")), reason=simulate.missing("icarus"))
verilator_only = pytest.mark.skipif(bool(simulate.missing("verilator")), reason=simulate.missing("verilator"))
# what is said of each mutant of examples/rtl/stream.sv under `STREAMED`
SAYS = {
    101: r"comes 4 clocks behind its beat, not 3",
    102: r"comes 2 clocks behind its beat, not 3",
    103: r"those are the words of result \d+: was one lost",
    104: r"no result is due, but out_valid is 1|did it come twice",
    105: r"first one behind a reset: is all cleared",
    106: r"no result is due, but out_valid is 1, \d clocks behind a reset",
    107: r"FAIL timeout: result \d+ of \d+ did not come, out_valid is 0 for 1004 clocks",
    108: r"q\[\d+\]: changed from \w+ to \w+ before out_ready took it",
    109: r"q\[\d+\]: changed from \w+ to \w+ before out_ready took it",
    110: r"those are the words of result \d+: did it come twice",
    111: r"FAIL timeout: result \d+ of \d+ did not come|was one lost",
    112: r"FAIL timeout: beat \d+ of \d+ was not taken, in_ready is 0 for 1004 clocks",
    113: r"out_valid is x at result 0",
}


def common(factory: pytest.TempPathFactory) -> Path:
    """A folder of this run of the tests, which all its workers have."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def library(factory: pytest.TempPathFactory) -> Path:
    """Where programs of Verilator share its own library: of a small one, eight seconds of eleven."""
    return common(factory) / "verilator-library"


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], list[str]]) -> list[str]:
    """The command that `make(folder)` gives, built by the first worker that asks: others wait for it."""
    import fcntl  # where Verilator is, this is

    folder = common(factory) / name
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        told = folder / "command.json"
        if not told.exists():
            told.write_text(json.dumps(make(folder / "built")))
        return list(json.loads(told.read_text()))


def check_passed(words: list[str], folder: Path) -> str:
    """PASS, with as many words compared as the pack expects; what the simulator printed."""
    passed, text = simulate.run(words)
    assert passed, text
    found = re.search(r"^PASS n=(\d+)$", text, re.M)
    outs = [port.words for port in pack.read(folder).ports.values() if port.direction == "out"]
    assert found and int(found[1]) == sum(outs)
    return text
