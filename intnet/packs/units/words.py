"""What the units give, and the trail of it: intnet's own quantizers on the words of the in ports.

    results(unit name, parameters, columns) -> Results       outs: a column a port; trails: what explains them

The quantizers take n, the exponent of R, as an input, so that a tensor can come word by word; here a
part of a tensor that shares n is rounded as `quantize` rounds the whole (`OfTensor`). An n far below the
tensor's own is legal too: from n = EX - 1 on every word but 0 saturates, so less than that changes nothing.
Sums are in `sums.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from intnet.errors import PackError
from intnet.exact.expressions import Exact
from intnet.exact.quantize import flag_words, quantize
from intnet.inspect.trail import REMAINDER_BITS, Trail, trail
from intnet.numbers.formats import Constant, Direct, FixedPoint, Flag, Format, Shift
from intnet.numbers.qtensor import QTensor
from intnet.packs.units.signals import Columns, Parameters
from intnet.spec.tensor import power

K_Q = 8  # of Q(., k): the grid 2^-7, as of activations and of forward copies
K_GC = 15  # of CQ: its codes stand at exponent -14
FLAG = Flag(8)


@dataclass(frozen=True)
class Step:
    """A trail port: `name` behind the result's own and a dot; one word a result."""

    name: str
    codes: np.ndarray
    meaning: str
    bits: int = 0  # 0: as many as the codes need
    signed: bool = True


@dataclass(frozen=True)
class Results:
    """Columns of the out ports, and the steps that explain the first of them."""

    outs: Columns
    steps: list[Step] = field(default_factory=list)


class OfTensor(Exact):
    """codes * 2**exponent, a part of a tensor whose R is 2**n."""

    def __init__(self, codes: np.ndarray, exponent: int, n: int) -> None:
        super().__init__([(QTensor(codes, exponent), 1)], exponent)
        self.n = n

    def log2_max(self) -> int:
        """n of the whole tensor."""
        return self.n

    def max(self) -> Fraction:
        """A greatest magnitude of which R is 2**n."""
        return power(self.n)


def log2_r(codes: np.ndarray, exponent: int) -> int:
    """n of R(x) = 2**n of a tensor of codes."""
    return Exact([(QTensor(codes.astype(np.int64), exponent), 1)], exponent).log2_max()


def steps_of(t: Trail, grid: str) -> list[Step]:
    """floor, remainder, up and presat; `grid` says in which unit."""
    return [
        Step("floor", t.floor, f"floor of the exact value in units of {grid}"),
        Step("remainder", t.remainder, "its fraction: 32 bits, then a sticky bit", REMAINDER_BITS, False),
        Step("up", t.up, "1 where the fraction rounds up", 1, False),
        Step("presat", t.presat, f"floor + up, before any limit, in units of {grid}"),
    ]


def _empty(size: int) -> Trail:
    floor, remainder, up, presat = np.zeros((4, size), np.int64)
    return Trail(0, floor, remainder, up, presat, coarse=np.zeros(size, np.bool_))


def _scaled(
    x: np.ndarray, exponent: int, keys: np.ndarray, format: Callable[[int], Format], words: np.ndarray | None
) -> tuple[np.ndarray, Trail]:
    """(results, trail) of words that have their own n: the first column of `keys`; all of a row choose the
    format.
    """
    out, all_ = np.zeros(x.shape, np.int64), _empty(x.size)
    mode = "ties_even" if words is None else "stochastic"
    for row in np.unique(keys, axis=0):
        at = np.flatnonzero(np.all(keys == row, axis=1))
        source = OfTensor(x[at], exponent, max(int(row[0]), exponent - 1))
        kind = format(int(row[-1]))
        drawn = None if words is None else words[at].astype(np.uint32)
        q = quantize(source, kind, rounding=mode, words=drawn)
        out[at] = flag_words(q).astype(np.int64) if isinstance(kind, Flag) else q.codes
        part = trail(source, kind, mode, drawn)
        for name in ("floor", "remainder", "up", "presat"):
            getattr(all_, name)[at] = getattr(part, name)
        if part.coarse is not None and all_.coarse is not None:
            all_.coarse[at] = part.coarse
    return out, all_


def _quantize_q(p: Parameters, columns: Columns) -> Results:
    source = QTensor(columns["x"], 1 - K_Q - p["S"])
    exact = Exact([(source, 1)], int(source.exponent))
    codes = quantize(source, Direct(K_Q)).codes.astype(np.int64)
    return Results({"q": codes}, steps_of(trail(exact, Direct(K_Q), "ties_even"), "code 1 of q"))


def _quantize_sq(p: Parameters, columns: Columns) -> Results:
    n, top = columns["n"], (1 << p["K"] - 1) - 1
    q, t = _scaled(columns["x"], p["EX"], n[:, None], lambda _: Shift(p["K"]), None)
    exponent = Step("exponent", n - (p["K"] - 1), "log2 of the value of code 1")
    saturated = (np.abs(t.presat) > top).astype(np.int64)
    return Results({"q": q, "saturated": saturated}, [*steps_of(t, "code 1 of q"), exponent])


def _quantize_cq(p: Parameters, columns: Columns) -> Results:
    log_dr, words = columns["log_dr"], columns["word"]
    keys = np.stack([columns["n"], log_dr], axis=1)
    q, t = _scaled(columns["x"], p["EX"], keys, lambda log: Constant(K_GC, 1 << log), words)
    limit = (1 << log_dr) - 1
    steps = steps_of(t, "code 1 of q")
    if np.any(log_dr != log_dr[0]):
        steps.append(Step("limit", limit, "dr - 1: q is within +-limit", p["DB"], False))
    return Results({"q": q, "saturated": (np.abs(t.presat) > limit).astype(np.int64)}, steps)


def _quantize_flag(p: Parameters, columns: Columns) -> Results:
    n = columns["n"]
    q, t = _scaled(columns["x"], p["EX"], n[:, None], lambda _: FLAG, None)
    assert t.coarse is not None
    coarse = t.coarse.astype(np.int64)
    steps = [
        *steps_of(t, "Sc where coarse, else of Sc/2^7"),
        Step("coarse", coarse, "1 where |x| >= Sc", 1, False),
        Step("exponent", n - 2 * FLAG.fine, "log2 of the value of a fine magnitude of 1"),
    ]
    saturated = coarse & (np.abs(t.presat) >> FLAG.fine > 0)
    return Results({"q": q, "saturated": saturated}, steps)


def requantized(sums: np.ndarray, shift: int, bits: int) -> Results:
    """clip(round(sums / 2^shift)) to +-(2^(bits-1) - 1), and its trail."""
    source, format = QTensor(sums, 0), FixedPoint(bits, -shift, overflow="saturate_symmetric")
    q = quantize(source, format).codes.astype(np.int64)
    t = trail(Exact([(source, 1)], 0), format, "ties_even")
    steps = [Step("acc", sums, "the exact sum, bias and all"), *steps_of(t, "code 1 of q")]
    return Results({"q": q, "saturated": (q != t.presat).astype(np.int64)}, steps)


QUANTIZERS: dict[str, Callable[[Parameters, Columns], Results]] = {
    "quantize_q": _quantize_q,
    "quantize_sq": _quantize_sq,
    "quantize_cq": _quantize_cq,
    "quantize_flag": _quantize_flag,
}


def check_fits(name: str, sums: np.ndarray, bits: int) -> None:
    """PackError where a sum does not fit the unit's accumulator."""
    if sums.size and max(int(sums.max()), -int(sums.min())) >= 1 << bits - 1:
        raise PackError(f"{name}: a sum of these vectors needs more than {bits} bits; give a wider ACC")
