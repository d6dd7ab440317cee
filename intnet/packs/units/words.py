"""What the units give, and the trail of it: wires of their circuits (`intnet.spec.units`).

    ran = run(unit name, parameters, columns)        every wire at every beat
    results(unit name, parameters, ran) -> Results   outs: a column a port; steps: what explains them

The quantizers take n, the exponent of R, as an input, so that a tensor can come word by word. An n far from
the tensor's own is legal too: the unit's amounts `left` and `right` end where more of them changes nothing.

Of the units that take vectors, first and last mark the beats of one; a vector gives one result. A block float
sum is exact, then rounded once to float32: in units of 2^exponent, the least bit that float32 keeps of it,
|sum| = floor + fraction. Next: `listing.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from intnet.errors import PackError
from intnet.inspect.trail import FRACTION_BITS, REMAINDER_BITS
from intnet.numbers.formats import Flag
from intnet.numbers.qtensor import QTensor
from intnet.packs.circuits import coverage, fast
from intnet.packs.circuits.c_model import NARROW, c_name
from intnet.packs.ports import Filled, Port
from intnet.packs.units.signals import Columns, Parameters, column
from intnet.spec import units as definition
from intnet.spec.formats import log2_R
from intnet.spec.tensor import power
from intnet.spec.units import mx
from intnet.spec.units.sums import LEAST, LOWEST, MANTISSA
from intnet.spec.wires import Circuit, width

K_Q = 8  # of Q(., k): the grid 2^-7, as of activations and of forward copies
K_GC = 15  # of CQ: its codes stand at exponent -14
FLAG = Flag(8)
LARGEST = 64  # bits of a trail's word

Lists = Mapping[str, Sequence[int]]  # of wires, at the beats that give a result


class Results(NamedTuple):
    """Columns of the out ports, and the steps that explain the first of them."""

    outs: Columns
    steps: list[Filled]


class Ran(NamedTuple):
    """A circuit, what entered it beat by beat, and all of its wires there."""

    circuit: Circuit
    reads: dict[str, list[int]]
    wires: dict[str, list[int]]

    def at_results(self) -> dict[str, list[int]]:
        """Of in ports, wires and out ports what stands at the beats that give a result."""
        whole = self.reads | self.wires
        last = self.reads.get("last")
        if last is None:
            return whole
        ends = [i for i, end in enumerate(last) if end]
        return {name: [column[i] for i in ends] for name, column in whole.items()}


def run(name: str, parameters: Parameters, columns: Columns, circuit: Circuit | None = None) -> Ran:
    """A unit's circuit on columns; PackError where a wire that is promised to hold its sums does not.

    circuit: that of a unit of one's own, which `spec.units` does not have
    """
    circuit = circuit or definition.circuit(name, parameters)
    reads = reads_of(circuit, columns)
    wires = fast.columns(circuit, reads, coverage.outputs(circuit))
    for wire in circuit.wires.values():
        low, high = min(wires[wire.name]), max(wires[wire.name])
        if low < wire.low or high > wire.high:
            if wire.bits > LARGEST:  # whose ends are too long to be read
                told = f"needs {width(low, high)} bits, and has {wire.bits}"
            else:
                told = f"goes from {low} to {high}, not within {wire.low}..{wire.high}, its {wire.bits} bits"
            raise PackError(f"{name}: {wire.name} {told}: give it more")
    return Ran(circuit, reads, wires)


def reads_of(circuit: Circuit, columns: Columns) -> dict[str, list[int]]:
    """The columns of a circuit's in ports, lane by lane."""
    reads: dict[str, list[int]] = {}
    for port, words in columns.items():
        flat = words.reshape(len(words), -1)
        if f"{port}[0]" in circuit.reads:
            reads |= {f"{port}[{i}]": flat[:, i].tolist() for i in range(flat.shape[1])}
        else:
            reads[port] = flat[:, 0].tolist()
    return reads


def step(name: str, codes: np.ndarray, meaning: str, bits: int = 0, signed: bool = True) -> Filled:
    """A trail port, one word a result, without its result's name; bits 0: as many as the codes need."""
    bits = bits or QTensor(codes, 0).width
    return Port(name, "trail", codes.shape, "result", bits, signed, meaning=meaning), codes


def log2_r(codes: np.ndarray, exponent: int) -> int:
    """n of R(x) = 2**n of a tensor of codes."""
    largest = max(int(codes.max()), -int(codes.min()))
    return log2_R(largest * power(exponent))


def fraction_word(lost: int, bits: int) -> int:
    """lost / 2^bits, 0 <= lost < 2^bits: its first 32 bits, then a sticky bit."""
    if bits <= FRACTION_BITS:
        return lost << FRACTION_BITS - bits + 1
    below = bits - FRACTION_BITS
    return lost >> below << 1 | (lost & (1 << below) - 1 != 0)


def steps_of(
    floor: Sequence[int],
    remainder: Sequence[int],
    presat: Sequence[int],
    told: tuple[str, str],
    bits: int = 0,
) -> list[Filled]:
    """floor, remainder, up and presat; told: what floor and presat are; bits: of a floor that has no sign."""
    least, most = min(*floor, *presat), max(*floor, *presat)
    if width(min(least, -1), most) > LARGEST:
        bits_of = f"{width(min(least, -1), most)} bits ahead of the limit, and a trail has {LARGEST}"
        raise PackError(f"the result takes {bits_of}: give the unit fewer bits, or fewer to shift by")
    up = [after - before for before, after in zip(floor, presat, strict=True)]
    fraction = "its fraction: 32 bits, then a sticky bit"
    return [
        step("floor", column(floor), told[0], bits, not bits),
        step("remainder", column(remainder), fraction, REMAINDER_BITS, False),
        step("up", column(up), "1 where the fraction rounds up", 1, False),
        step("presat", column(presat), told[1], bits and bits + 1, not bits),
    ]


def _rounded(
    y: Sequence[int],
    right: Sequence[int],
    presat: Sequence[int],
    added: Sequence[int] | int = 0,
    grid: str = "code 1 of q",
) -> list[Filled]:
    """The steps of y / 2^right, with what is added to the integer before its limits (a zero point)."""
    plus = [added] * len(y) if isinstance(added, int) else added
    floor = [(v >> r) + z for v, r, z in zip(y, right, plus, strict=True)]
    remainder = [fraction_word(v & (1 << r) - 1, r) for v, r in zip(y, right, strict=True)]
    told = f"floor of the exact value in units of {grid}", f"floor + up, before any limit, in units of {grid}"
    return steps_of(floor, remainder, [v + z for v, z in zip(presat, plus, strict=True)], told)


def _static(y: Sequence[int], right: int, p: Parameters, w: Lists) -> list[Filled]:
    return _rounded(y, [right] * len(y), w["presat"], p["ZQ"])


# -- the steps of each unit: parameters, wires at results ------------------------------------------


def _quantize_q(p: Parameters, w: Lists) -> list[Filled]:
    return _rounded([x << max(0, -p["S"]) for x in w["x"]], [max(0, p["S"])] * len(w["x"]), w["presat"])


def _quantize_sq(p: Parameters, w: Lists) -> list[Filled]:
    exponent = step("exponent", column(w["n"]) - (p["K"] - 1), "log2 of the value of code 1")
    return [*_rounded(w["y"], w["right"], w["presat"]), exponent]


def _quantize_cq(p: Parameters, w: Lists) -> list[Filled]:
    steps = _rounded(w["y"], w["right"], w["presat"])
    if len(set(w["log_dr"])) > 1:
        steps.append(step("limit", column(w["limit"]), "dr - 1: q is within +-limit", p["DB"], False))
    return steps


def _quantize_flag(p: Parameters, w: Lists) -> list[Filled]:
    """It rounds |x|; the trail is of x, for which -3.5 has floor -4."""
    signs = [-1 if minus else 1 for minus in w["sign"]]
    y = [s * v for s, v in zip(signs, w["y"], strict=True)]
    presat = [s * v for s, v in zip(signs, w["presat"], strict=True)]
    return [
        *_rounded(y, w["right"], presat, grid="Sc where coarse, else of Sc/2^7"),
        step("coarse", column(w["coarse"]), "1 where |x| >= Sc", 1, False),
        step("exponent", column(w["n"]) - 2 * FLAG.fine, "log2 of the value of a fine magnitude of 1"),
    ]


def _r_exponent(p: Parameters, w: Lists) -> list[Filled]:
    return [step("max", column(w["max"]), "max|x| of the vector, in units of 2^EX", p["W"], False)]


def _mac_requant(p: Parameters, w: Lists) -> list[Filled]:
    acc = step("acc", column(w["acc"]), "the accumulator, bias and all")
    return [acc, *_static(w["acc"], p["S"], p, w)]


def _block_dot(p: Parameters, w: Lists) -> list[Filled]:
    remainder = [fraction_word(lost, lsb) for lost, lsb in zip(w["lost"], w["lsb"], strict=True)]
    return _float32_steps(w, column(w["lsb"]) + LOWEST, remainder)


def _mx_dot(p: Parameters, w: Lists) -> list[Filled]:
    """Of a NaN, and of an infinity that came in, those of a sum of 0."""
    special = [int(one) for one in w["special"]]
    parts = {name: [0 if s else v for s, v in zip(special, w[name], strict=True)] for name in _FLOAT}
    sizes = [0 if s else abs(v) << MANTISSA for s, v in zip(special, w["after"], strict=True)]
    least = mx.edge(p)
    exponents = [
        LEAST - least + scales + lsb if size else LEAST
        for size, scales, lsb in zip(sizes, w["scales"], w["lsb"], strict=True)
    ]
    remainder = [fraction_word(size & (1 << lsb) - 1, lsb) for size, lsb in zip(sizes, w["lsb"], strict=True)]
    steps = _float32_steps(parts, column(exponents), remainder)
    return [*steps, step("special", column(special), "1 where y is no rounded sum", 1, False)]


_FLOAT = ("sign", "floor", "presat")


def _float32_steps(w: Lists, exponents: np.ndarray, remainder: Sequence[int]) -> list[Filled]:
    """Those of one rounding to float32 of a magnitude, its sign apart."""
    told = "floor of |sum| in units of 2^exponent", "floor + up, before infinity"
    return [
        step("sign", column(w["sign"]), "1 where the sum is negative", 1, False),
        step("exponent", exponents, "log2 of the least bit that float32 keeps of the sum"),
        *steps_of(w["floor"], remainder, w["presat"], told, MANTISSA),
    ]


def _scale_add(p: Parameters, w: Lists) -> list[Filled]:
    return [step("acc", column(w["acc"]), "x * scale + offset"), *_static(w["acc"], p["S"], p, w)]


def _requantize(p: Parameters, w: Lists) -> list[Filled]:
    if p["TWICE"]:
        high = step("high", column(w["high"]), "acc * 2^left * multiplier / 2^31, to nearest, ties up")
        return [high, *_rounded(w["high"], w["right"], w["presat"], w["zero_point"])]
    return _rounded(w["product"], w["amount"], w["presat"], w["zero_point"])


STEPS: dict[str, Callable[[Parameters, Lists], list[Filled]]] = {
    "quantize_q": _quantize_q,
    "quantize_sq": _quantize_sq,
    "quantize_cq": _quantize_cq,
    "quantize_flag": _quantize_flag,
    "r_exponent": _r_exponent,
    "mac_requant": _mac_requant,
    "block_dot": _block_dot,
    "mx_dot": _mx_dot,
    "shift": lambda p, w: _static(w["x"], p["S"], p, w),
    "shift_by": lambda p, w: _rounded(w["y"], w["right"], w["presat"], p["ZQ"]),
    "scale_add": _scale_add,
    "requantize": _requantize,
}


def results(name: str, parameters: Parameters, ran: Ran) -> Results:
    """The out ports and the steps of what ran; of a unit of one's own the steps are its wires."""
    wires = ran.at_results()
    outs = {port: column(wires[port]) for port in ran.circuit.gives}
    return Results(outs, STEPS[name](parameters, wires) if name in STEPS else _wires(ran.circuit, wires))


def _wires(circuit: Circuit, words: Lists) -> list[Filled]:
    """Every wire that 63 bits hold."""
    return [
        step(f"wire.{c_name(name)}", column(words[name]), f"the wire {name}", wire.bits, wire.signed)
        for name, wire in circuit.wires.items()
        if wire.bits <= NARROW
    ]
