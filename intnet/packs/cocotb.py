"""Golden packs in cocotb: a unit driven and judged by its pack, as its CONTRACT.md says.

    import cocotb
    from intnet.packs.cocotb import play

    @cocotb.test()
    async def golden(dut):
        await play(dut, "packs/sq", out="dut")

`generics` are the parameters to build with; `Scoreboard` (`packs/play.py`) judges results that a testbench of
one's own drives. cocotb 2 is imported by `play` alone.
"""

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from intnet.errors import ConfigError, PackError
from intnet.packs import pack
from intnet.packs.play import SHOWN, Scoreboard, Session
from intnet.runs.archive import PathLike

__all__ = ["Scoreboard", "generics", "play"]

RESET_CLOCKS = 3


def generics(held: pack.Pack | PathLike) -> dict[str, int]:
    """The parameters of a pack's unit as its module takes them, for `runner.build(parameters=...)`."""
    return dict(Scoreboard(held).unit["generics"])


async def play(
    dut: Any,
    held: pack.Pack | PathLike,
    *,
    out: PathLike | None = None,
    names: Mapping[str, str] | None = None,
    period: int | None = 10,
) -> Scoreboard:
    """Drives every beat of a pack, judges every result; AssertionError where a word or its time is wrong.

    out:    a folder for what the unit gave, for `intnet check PACK --dut OUT`; then it goes on after faults
    names:  pin of the pack -> signal of dut, where they differ: {"x": "s_tdata", "in_valid": "s_tvalid"}
    period: of clk in ns, None where the testbench has started it
    """
    check_cocotb()
    from cocotb.clock import Clock
    from cocotb.triggers import FallingEdge, ReadOnly

    board = Scoreboard(held)
    session = Session(board)
    pins = _pins(dut, board, names or {})
    for name in ("in_valid", "out_ready", *board.unit["inputs"]):
        if name in pins:
            pins[name].value = 0
    pins["rst"].value = 1
    if period is not None:
        Clock(pins["clk"], period, unit="ns").start()
    for _ in range(RESET_CLOCKS):
        await FallingEdge(pins["clk"])
    while not session.over and (out is not None or len(board.faults) < SHOWN):
        for name, value in session.drive().items():
            pins[name].value = value
        await ReadOnly()
        words = {name: str(pins[name].value).lower() for name in board.unit["outputs"]}
        in_ready = str(pins["in_ready"].value).lower() if "in_ready" in pins else "1"
        shown = len(board.faults)
        for fault in session.see(in_ready, str(pins["out_valid"].value).lower(), words)[
            : max(SHOWN - shown, 0)
        ]:
            dut._log.error(fault)
        await FallingEdge(pins["clk"])
    if out is not None:
        board.write(out)
    board.finish()
    return board


def _pins(dut: Any, board: Scoreboard, names: Mapping[str, str]) -> dict[str, Any]:
    """The handles of all pins; PackError for one that dut has not, or with another width."""
    ready = ("in_ready", "out_ready") if board.unit.get("ready") else ()
    sides = ("clk", "rst", "in_valid", "out_valid", *ready)
    ports = (*board.unit["inputs"], *board.unit["outputs"])
    if odd := [name for name in names if name not in (*sides, *ports)]:
        raise PackError(f"names={{{odd[0]!r}: ...}}: the pack has only {', '.join((*sides, *ports))}")
    found = {}
    for name in (*sides, *ports):
        signal = names.get(name, name)
        handle = getattr(dut, signal, None)
        if handle is None:
            raise PackError(f"{dut._name} has no signal {signal!r}: give names={{{name!r}: 'ITS NAME'}}")
        width = board.width(name) if name in ports else 1
        if len(handle) != width:
            raise PackError(
                f"{dut._name}.{signal} has {len(handle)} bits, {name} of the pack {width}: "
                "build with parameters=intnet.packs.cocotb.generics(PACK)"
            )
        found[name] = handle
    return found


def check_cocotb() -> None:
    """ConfigError where there is no cocotb 2."""
    try:
        here = version("cocotb")
    except PackageNotFoundError:
        here = ""
    if not here or int(here.split(".")[0]) < 2:
        found = f"found is {here}" if here else "it is not installed"
        raise ConfigError(f"intnet.packs.cocotb needs cocotb 2 ({found}): pip install 'cocotb>=2'")
