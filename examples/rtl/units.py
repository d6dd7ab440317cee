"""The units as data: parameters, ports, latency, mutants; and `UNITS`, what is simulated. Next: `vectors`.

A unit is a SystemVerilog file of the same name. All have clk, rst, in_valid and out_valid; `Port` lists the
rest. Units with `last` among their inputs give one result a vector, the others one a beat.
"""
from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
MUTANT = re.compile(r"// MUT (\d+): (.+)")


class Port(NamedTuple):
    """A named data port of `bits` bits."""

    name: str
    bits: int


@dataclass(frozen=True)
class Unit:
    """One unit with all its parameters set; `label` names it among the other settings of the same file."""

    name: str
    parameters: dict[str, int] = field(hash=False)
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    latency: int = 1

    @property
    def label(self) -> str:
        """The file's name and the parameters that matter."""
        return "_".join([self.name, *(f"{k}{v}".replace("-", "m") for k, v in self.parameters.items())])

    @property
    def source(self) -> Path:
        """The SystemVerilog file."""
        return HERE / f"{self.name}.sv"

    @property
    def per_vector(self) -> bool:
        """Whether a result follows the last beat of a vector only."""
        return any(port.name == "last" for port in self.inputs)

    def mutants(self) -> dict[int, str]:
        """What -DMUT=n builds, as the comments in the source say."""
        return {int(n): text for n, text in MUTANT.findall(self.source.read_text())}


ENDS = (Port("first", 1), Port("last", 1))


def quantize_q(W: int, S: int) -> Unit:
    """Q(., k)."""
    wide = W - S + 1 if S > 0 else W - S
    return Unit("quantize_q", {"W": W, "S": S}, (Port("x", W),), (Port("q", wide),))


def quantize_sq(W: int, EX: int, K: int, NB: int = 8) -> Unit:
    """SQ(., K)."""
    inputs = (Port("x", W), Port("n", NB))
    parameters = {"W": W, "EX": EX, "NB": NB, "K": K}
    return Unit("quantize_sq", parameters, inputs, (Port("q", K), Port("saturated", 1)))


def quantize_cq(W: int, EX: int, NB: int = 8, DB: int = 8) -> Unit:
    """CQ with its random words."""
    inputs = (Port("x", W), Port("n", NB), Port("log_dr", 3), Port("word", 32))
    parameters = {"W": W, "EX": EX, "NB": NB, "DB": DB}
    return Unit("quantize_cq", parameters, inputs, (Port("q", DB), Port("saturated", 1)))


def quantize_flag(W: int, EX: int, NB: int = 8) -> Unit:
    """Flag-Q of 8 bits, stored in 9."""
    inputs = (Port("x", W), Port("n", NB))
    return Unit("quantize_flag", {"W": W, "EX": EX, "NB": NB}, inputs, (Port("q", 9), Port("saturated", 1)))


def r_exponent(W: int, EX: int, NB: int = 8) -> Unit:
    """log2 of R."""
    return Unit("r_exponent", {"W": W, "EX": EX, "NB": NB}, (*ENDS, Port("x", W)), (Port("n", NB),))


def mac_requant(LANES: int, A: int, B: int, ACC: int, S: int, OUT: int) -> Unit:
    """Multiply, accumulate, add the bias, requantize."""
    inputs = (*ENDS, Port("x", LANES * A), Port("w", LANES * B), Port("bias", ACC))
    parameters = {"LANES": LANES, "A": A, "B": B, "ACC": ACC, "S": S, "OUT": OUT}
    return Unit("mac_requant", parameters, inputs, (Port("q", OUT), Port("saturated", 1)))


def block_dot(BLOCK: int, M: int, GUARD: int) -> Unit:
    """Block float dot product."""
    inputs = (*ENDS, Port("xm", BLOCK * M), Port("wm", BLOCK * M), Port("xe", 8), Port("we", 8))
    parameters = {"BLOCK": BLOCK, "M": M, "GUARD": GUARD}
    return Unit("block_dot", parameters, inputs, (Port("y", 32), Port("overflow", 1)))


# The settings of the papers' data paths; mutants are counted on these.
MAIN = (
    quantize_q(W=24, S=16),
    quantize_sq(W=24, EX=-14, K=8),
    quantize_cq(W=40, EX=-14),
    quantize_flag(W=24, EX=-14),
    r_exponent(W=24, EX=-14),
    mac_requant(LANES=4, A=8, B=8, ACC=32, S=9, OUT=8),
    block_dot(BLOCK=4, M=8, GUARD=12),
)
# Small enough to run every input, and the parameters' edges.
SMALL = (
    quantize_q(W=16, S=7),
    quantize_q(W=8, S=1),
    quantize_q(W=8, S=-3),
    quantize_sq(W=10, EX=-40, K=4),
    quantize_sq(W=12, EX=9, K=8),
    quantize_sq(W=8, EX=-3, K=4),
    quantize_cq(W=10, EX=-3),
    quantize_cq(W=8, EX=-3),
    quantize_flag(W=10, EX=-40),
    quantize_flag(W=8, EX=5),
    r_exponent(W=8, EX=3),
    mac_requant(LANES=1, A=4, B=4, ACC=12, S=1, OUT=4),
)

# Mutants that no input can tell from the unit, each with the proof.
EQUIVALENT: dict[tuple[str, int], str] = {
    # |x| = Sc exactly: taken as a fine value it is round(2^7) = 128, which is stored as flag 1, magnitude 1;
    # taken as a coarse value it is round(1) = 1 with the flag. Any other |x| is on one side of both > and >=.
    ("quantize_flag", 4): "|x| = Sc is stored as flag 1, magnitude 1 from either grid",
    # m^2 = 2^(2p+1) has no integer solution: the exponent of 2 in a square is even.
    ("r_exponent", 8): "m^2 is never 2^(2p+1): a square holds an even power of 2",
}
