"""Stimuli and expected words of the units that multiply, `mac_requant` and `block_dot`. Part of `vectors`.

A vector of `mac_requant` is (beats, bias), a beat a pair of lane lists; one of `block_dot` is a list of
blocks (mantissas, mantissas, exponent, exponent).
"""
from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from examples.rtl.units import Unit
from intnet import ops
from intnet.errors import NumberError
from intnet.formats import FixedPoint
from intnet.qtensor import QTensor
from intnet.quantize import quantize
from tests.oracle.floats import to_float32
from tests.oracle.quantizers import fixed
from tests.oracle.tensor import power

Columns = dict[str, list[int]]
Beat = tuple[list[int], list[int]]
Vector = tuple[list[Beat], int]
Block = tuple[list[int], list[int], int, int]
INFINITY = 0x7F800000


def packed(lanes: Sequence[int], bits: int) -> int:
    """Lane 0 lowest."""
    return sum((v & ((1 << bits) - 1)) << (i * bits) for i, v in enumerate(lanes))


def ends(size: int) -> tuple[list[int], list[int]]:
    """The words of first and last for a vector of `size` beats."""
    return [int(i == 0) for i in range(size)], [int(i == size - 1) for i in range(size)]


def mac_columns(unit: Unit, stimulus: list[Vector]) -> Columns:
    """The ports' words; the sum is exact, then rounded and clipped once."""
    p = unit.parameters
    out: Columns = {port.name: [] for port in unit.inputs + unit.outputs}
    sums = []
    for beats, bias in stimulus:
        first, last = ends(len(beats))
        out["first"] += first
        out["last"] += last
        out["x"] += [packed(x, p["A"]) for x, _ in beats]
        out["w"] += [packed(w, p["B"]) for _, w in beats]
        out["bias"] += [~bias] * (len(beats) - 1) + [bias]
        sums.append(bias + sum(a * b for x, w in beats for a, b in zip(x, w, strict=True)))
    assert all(abs(v) < 2 ** (p["ACC"] - 1) for v in sums)
    values = [v * power(-p["S"]) for v in sums]
    want = fixed(values, p["OUT"], 0, "ties_even", "saturate_symmetric")
    got = quantize(
        QTensor(np.array(sums, np.int64), -p["S"]), FixedPoint(p["OUT"], 0, overflow="saturate_symmetric")
    )
    assert got.codes.tolist() == want.codes
    full = fixed(values, 99, 0).codes
    out["q"] = want.codes
    out["saturated"] = [int(a != b) for a, b in zip(want.codes, full, strict=True)]
    return out


def _lanes(source: random.Random, unit: Unit, beats: int) -> list[Beat]:
    p = unit.parameters

    def lanes(bits: int) -> list[int]:
        return [source.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1)) for _ in range(p["LANES"])]

    return [(lanes(p["A"]), lanes(p["B"])) for _ in range(beats)]


def mac_directed(unit: Unit) -> list[Vector]:
    """Random products whose bias brings the sum to every tie and limit; extreme lanes; lone lanes."""
    p, source, out = unit.parameters, random.Random(9), []
    lanes, least, half, hi = p["LANES"], -(2 ** (p["A"] - 1)), 2 ** (p["S"] - 1), 2 ** (p["OUT"] - 1) - 1
    codes = {0, 1, 2, 3, hi - 1, hi, hi + 1, 2 * hi + 1, 2 * hi + 2}
    points = {sign * (k * 2 * half + part) for k in codes for part in (0, half) for sign in (1, -1)}
    targets = {point + d for point in points for d in (-1, 0, 1)}
    for i, target in enumerate(sorted(targets)):
        for size in (1, 2 + i % 4):
            beats = _lanes(source, unit, size)
            out.append((beats, target - sum(a * b for x, w in beats for a, b in zip(x, w, strict=True))))
    for lane in range(lanes):
        one = [int(i == lane) for i in range(lanes)]
        for value in (least, -least - 1, 1, -1):
            others = (least, -least - 1, -1)
            out += [([([v * value for v in one], [v * other for v in one])], 0) for other in others]
    room = 2 ** (p["ACC"] - 1) - lanes * least**2
    sizes = (1, 5) if p["ACC"] < 24 else (1, 5, 40)
    for size in sizes:
        for a, b in ((least, least), (least, -least - 1), (-least - 1, -least - 1)):
            out.append(([([a] * lanes, [b] * lanes)] * size, 0))
    out += [([([0] * lanes, [0] * lanes)], bias) for bias in (room - 1, -room, 0)]
    if lanes * (p["A"] + p["B"]) <= 8:
        whole = range(least, -least)
        out += [([([a], [b])], 0) for a in whole for b in whole]
    return out


def mac_uniform(seed: int, unit: Unit, beats: int) -> list[Vector]:
    """Vectors of 4 beats, uniform lanes, uniform bias of the products' magnitude."""
    source, p = random.Random(seed), unit.parameters
    top = 2 ** (min(p["A"] + p["B"], p["ACC"] - 3))
    return [(_lanes(source, unit, 4), source.randint(-top, top - 1)) for _ in range(beats // 4)]


def float_word(x: Fraction) -> tuple[int, int]:
    """The float32 bits of an exact value and whether it overflowed; 0 is +0, a negative underflow -0."""
    sign = int(x < 0) << 31
    try:
        size = to_float32(abs(x))
    except OverflowError:
        return sign | INFINITY, 1
    return sign | struct.unpack("<I", struct.pack("<f", float(size)))[0], 0


def library_word(vector: list[Block]) -> tuple[int, int]:
    """The same of intnet's block float product, which stops where a value is beyond float32."""
    sides = []
    for blocks in ([(x, xe) for x, _, xe, _ in vector], [(w, we) for _, w, _, we in vector]):
        codes = [code for mantissas, _ in blocks for code in mantissas]
        each = [exponent for mantissas, exponent in blocks for _ in mantissas]
        sides.append(QTensor(np.array([codes], np.int8), np.array([each], np.int16)))
    try:
        return int(ops.linear(*sides).value.view(np.uint32)[0, 0]), 0
    except NumberError:
        return INFINITY, 1


def block_columns(unit: Unit, stimulus: list[list[Block]]) -> Columns:
    """The ports' words; the sum is an exact fraction, rounded once to float32."""
    m = unit.parameters["M"]
    out: Columns = {port.name: [] for port in unit.inputs + unit.outputs}
    for vector in stimulus:
        first, last = ends(len(vector))
        out["first"] += first
        out["last"] += last
        for name, column in zip(("xm", "wm", "xe", "we"), zip(*vector, strict=True), strict=True):
            out[name] += [packed(v, m) for v in column] if name in ("xm", "wm") else list(column)
        total = sum((power(xe + we) * sum(map(int.__mul__, x, w)) for x, w, xe, we in vector), Fraction(0))
        y, overflow = float_word(total)
        got = library_word(vector)
        assert got == (y & INFINITY if overflow else y, overflow), (vector, got, y)
        out["y"].append(y)
        out["overflow"].append(overflow)
    return out


def _split(exponent: int, turn: int) -> tuple[int, int]:
    """Two signed bytes with this sum, -256..254; `turn` moves weight from one to the other."""
    low, high = max(-128, exponent - 127), min(127, exponent + 128)
    left = low + (turn * 37) % (high - low + 1)
    return left, exponent - left


def _exact_blocks(value: int, exponent: int, turn: int) -> list[Block]:
    """Blocks whose sum is value * 2^exponent: a byte of it a lane, every lane in turn."""
    blocks: list[Block] = []
    place, size, sign = 0, abs(value), -1 if value < 0 else 1
    while size or not blocks:
        xe, we = _split(exponent + place, turn + place)
        x, w = [0, 0, 0, 0], [0, 0, 0, 0]
        lane = (turn + len(blocks)) % 4
        x[lane], w[lane] = sign * (size & 127), 1
        blocks.append((x, w, xe, we))
        size, place = size >> 7, place + 7
    return blocks


def block_directed(unit: Unit) -> list[list[Block]]:
    """Sums at ties of 24 bits and their neighbours near and far: at 1, among subnormals, at the limit."""
    source, out = random.Random(10), []
    mantissas = (2**23, 2**23 + 1, 2**24 - 1, 0xAAAAAB, 1, 2, 3, 2**22 - 1, 2**23 - 1)
    for i, mantissa in enumerate(mantissas):
        for exponent in (-149, -148, -126, -23, 0, 103, 104):
            for twice in (0, 1):
                for far in (0, 1, -1):
                    sign = -1 if (i + exponent + far) % 2 else 1
                    value = sign * (2 * mantissa + twice)
                    out.append(_exact_blocks(value, exponent - 1, i))
                    if far:
                        low = _exact_blocks(sign * far, max(exponent - 60, -250), i + 1)
                        out.append(_exact_blocks(value, exponent - 1, i) + low)
                        out.append(_exact_blocks(8 * value + far, exponent - 4, i + 2))
    rims = ((1, -150), (-1, -150), (3, -151), (1, -151), (-1, -256), (0, 0), (1, 128), (-1, 254))
    for value, exponent in rims:
        out.append(_exact_blocks(value, exponent, 1))
    out += [[([-128] * 4, [side] * 4, e, e)] for side in (-128, 127) for e in (-128, -1, 0, 50, 127)]
    big = ([127] * 4, [127] * 4, 127, 127)
    out.append([big, ([1, 0, 0, 0], [1, 0, 0, 0], -128, -128), ([-127] * 4, [127] * 4, 127, 127)])
    for _ in range(40):
        base = source.randint(-60, 60)
        out.append([_random_block(source, base, 12) for _ in range(source.randint(1, 6))])
    return out


def _random_block(source: random.Random, base: int, spread: int) -> Block:
    xe, we = (max(-128, min(127, base + source.randint(-spread, spread))) for _ in range(2))
    x, w = ([source.randint(-128, 127) for _ in range(4)] for _ in range(2))
    return x, w, xe, we


def block_uniform(seed: int, unit: Unit, beats: int) -> list[list[Block]]:
    """Vectors of 4 blocks, every bit uniform."""
    source = random.Random(seed)
    return [[_random_block(source, 0, 127) for _ in range(4)] for _ in range(beats // 4)]
