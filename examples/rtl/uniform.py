"""Uniform random vectors of a unit: what directed ones are measured against. Next: `kill_table`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from intnet.errors import PackError
from intnet.packs import pack, units
from intnet.packs.ports import Draft
from intnet.packs.units import drafts, stimuli_mx
from intnet.packs.units.signals import Columns, Group, Parameters, Source, column, marks
from intnet.packs.units.stimuli import TENSOR, n_of
from intnet.packs.units.stimuli_sums import block_group, random_beats, random_block
from intnet.packs.units.training import Taken
from intnet.spec.wires import span

VECTOR = 4  # beats of a vector of sums


def draft(name: str, beats: int, seed: int = 1) -> Draft:
    """A pack of so many beats in which every bit of the inputs is random.

    Of more, where results of so few are all alike: that is no pack.
    """
    unit = units.UNITS[name]
    made = {"mac_requant": _mac, "block_dot": _block, "mx_dot": _mx}.get(name, _tensors)
    group = made(name, unit.defaults, beats, Source(seed))
    out = drafts.assemble(unit, "L2", {}, Taken([group], unit.defaults))
    try:
        pack.check(out)
    except PackError:
        return draft(name, 2 * beats, seed)
    return replace(out, name=f"{name}-uniform", generator={"kind": "uniform", "beats": beats})


def _tensors(name: str, p: Parameters, beats: int, source: Source) -> Group:
    """Codes in tensors, or vectors, of 16; R is the tensor's own."""
    codes = column([source.within(*span(p["W"])) for _ in range(beats)])
    parts = [codes[i : i + TENSOR] for i in range(0, beats, TENSOR)]
    columns: Columns = {"x": codes}
    if name == "r_exponent":
        columns = marks([len(part) for part in parts]) | columns
    elif name != "quantize_q":
        n = [n_of(max(int(part.max()), -int(part.min())), p) for part in parts]
        columns["n"] = np.repeat(column(n), [len(part) for part in parts])
    if name == "quantize_cq":
        logs = column([source.below(8) for _ in parts])
        columns["log_dr"] = np.repeat(logs, [len(part) for part in parts])
        columns["word"] = column([source.bits(32) for _ in range(beats)])
    return Group("uniform", "random", columns)


def _mac(name: str, p: Parameters, beats: int, source: Source) -> Group:
    """Vectors of 4 beats; a bias of the products' magnitude."""
    vectors = max(2, beats // VECTOR)
    lanes = random_beats(source, p, VECTOR * vectors)
    top = 1 << p["A"] + p["B"]
    columns = marks([VECTOR] * vectors)
    columns |= {"x": column([x for x, _ in lanes]), "w": column([w for _, w in lanes])}
    columns["bias"] = column([source.within(-top, top - 1) for _ in lanes])
    return Group("uniform", "random", columns)


def _block(name: str, p: Parameters, beats: int, source: Source) -> Group:
    """Vectors of 4 blocks with exponents of any signed byte."""
    count = max(2, beats // VECTOR)
    blocks = [[random_block(source, 0, p, 127) for _ in range(VECTOR)] for _ in range(count)]
    return block_group("uniform", "random", blocks)


def _mx(name: str, p: Parameters, beats: int, source: Source) -> Group:
    """Blocks of 4 beats of any words, with any scales."""
    words = [stimuli_mx.words(p["A"]), stimuli_mx.words(p["B"])]
    blocks = [
        stimuli_mx.Block(stimuli_mx.random_beats(source, p, VECTOR, words), source.bits(8), source.bits(8))
        for _ in range(max(2, beats // VECTOR))
    ]
    return stimuli_mx.group("uniform", "random", blocks)
