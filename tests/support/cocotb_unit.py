"""Run by cocotb inside a simulator: drives `quantize_sq` from a pack, compares what it gives.

The folder of the pack is in the environment; `test_cocotb.py` starts it and reads the result.
"""

from __future__ import annotations

import os
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge

from intnet.packs import pack

PACK = "INTNET_PACK"


def word(held: pack.Pack, name: str, code: int) -> int:
    """A code as the bits of its port."""
    return code & ((1 << held.ports[name].bits) - 1)


async def reset(dut: Any) -> None:
    dut.rst.value, dut.in_valid.value = 1, 0
    for _ in range(3):
        await RisingEdge(dut.clk)
    await FallingEdge(dut.clk)
    dut.rst.value = 0


@cocotb.test()
async def every_word_of_the_pack(dut: Any) -> None:
    """Each beat and, `latency` clocks later, each result; a bubble after every third beat."""
    held = pack.read(os.environ[PACK])
    unit = held.manifest["about"]["unit"]
    ins = {name: held.codes(name).tolist() for name in unit["inputs"]}
    outs = {name: held.codes(name).tolist() for name in unit["outputs"]}
    assert unit["latency"] == 1 and not unit["per_vector"]
    Clock(dut.clk, 10, unit="ns").start()
    await reset(dut)
    for beat in range(len(outs["q"])):
        for name, codes in ins.items():
            getattr(dut, name).value = word(held, name, codes[beat])
        dut.in_valid.value = 1
        await RisingEdge(dut.clk)
        await ReadOnly()
        assert dut.out_valid.value == 1
        for name, codes in outs.items():
            got, want = getattr(dut, name).value, word(held, name, codes[beat])
            assert got.is_resolvable and int(got) == want, f"{name}[{beat}]: got {got} want {want}"
        await FallingEdge(dut.clk)
        if beat % 3 == 2:
            dut.in_valid.value = 0
            await RisingEdge(dut.clk)
            await ReadOnly()
            assert dut.out_valid.value == 0
            await FallingEdge(dut.clk)
