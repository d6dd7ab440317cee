"""The papers' symbols: how each method writes its data paths (read by `inspect/operands.py`).

One table a method, path -> Symbol, in the order of Algorithms 1 and 2 and the update.
"""

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Symbol:
    """How a paper writes a data path.

    part:         'forward', 'backward' or 'update'
    formula:      the value before it is rounded
    terms:        names of the sum's terms that no other path hands on, in order
    coefficients: what multiplies each term; offset: what is added; denominator: what divides
    factors:      the paths whose products are summed, where the value is such a sum
    """

    part: str
    formula: str
    terms: tuple[str, ...] = ()
    coefficients: tuple[str, ...] = ()
    offset: str = ""
    denominator: str = ""
    factors: tuple[str, ...] = ()

    def reading(self, path: str, held: str) -> "Symbol":
        """The same of what the tape holds of `path`: x0 or x0s."""
        name = re.compile(rf"\b{path}s?\b")
        factors = tuple(name.sub(held, factor) for factor in self.factors)
        return replace(self, formula=name.sub(held, self.formula), factors=factors)


NO_SYMBOL = Symbol("", "")
_DIVISOR = "sigma + eps"

WAGEUBN: dict[str, Symbol] = {
    "Wq": Symbol("forward", "W", ("W",)),
    "bq": Symbol("forward", "b", ("b",)),
    "gammaq": Symbol("forward", "gamma", ("gamma",)),
    "betaq": Symbol("forward", "beta", ("beta",)),
    "x0": Symbol("forward", "x4 of the layer before"),
    "x1": Symbol("forward", "Wq * x0 (+ bq)", factors=("Wq", "x0")),
    "mu": Symbol("forward", "mean(x1)", ("sum(x1)",), denominator="n"),
    "sigma": Symbol("forward", "sqrt(mean((x1 - mean)^2))", ("n*sum(x1^2) - sum(x1)^2",), denominator="n^2"),
    "x2": Symbol(
        "forward", "(x1 - mu)/(sigma + eps), eps = 2^-15", ("x1",), offset="-mu", denominator=_DIVISOR
    ),
    "x3": Symbol("forward", "gammaq*x2 + betaq", ("x2",), ("gammaq",), "betaq"),
    "x4": Symbol("forward", "f(x3), f what the layer does: relu, silu, ..."),
    "dx4": Symbol("forward", "silu'(x3)"),
    "e0": Symbol("backward", "e4 of the next layer, or the sum of the branches' errors"),
    "e1": Symbol("backward", "e0*f'(x3): behind a ReLU e0 where x3 > 0, else 0"),
    "e1q": Symbol("backward", "e0*dx4, behind a SiLU"),
    "e2": Symbol("backward", "e1*gammaq", ("e1",), ("gammaq",)),
    "m1": Symbol("backward", "mean(e2)", ("sum(e1)",), ("gammaq",), denominator="n"),
    "m2": Symbol("backward", "mean(e2*x2)", ("sum(e1*x2)",), ("gammaq",), denominator="n * 2^15"),
    "e3": Symbol(
        "backward",
        "(e2 - m1 - x2*m2)/(sigma + eps)",
        ("e1", "x2"),
        ("gammaq", "-m2"),
        "-m1",
        _DIVISOR,
    ),
    "e4": Symbol("backward", "Wq^T e3", factors=("Wq", "e3")),
    "gW": Symbol("backward", "e3 x0^T", factors=("e3", "x0")),
    "gWq": Symbol("backward", "gW", ("gW",)),
    "gb": Symbol("backward", "sum(e3)", factors=("e3",)),
    "gbq": Symbol("backward", "gb", ("gb",)),
    "ggamma": Symbol("backward", "sum(e1*x2)", factors=("e1", "x2")),
    "ggammaq": Symbol("backward", "ggamma", ("ggamma",)),
    "gbeta": Symbol("backward", "sum(e1)", factors=("e1",)),
    "gbetaq": Symbol("backward", "gbeta", ("gbeta",)),
}

for _parameter, _gradient, _slot in (
    ("W", "gWq", ""),
    ("gamma", "ggammaq", "_gamma"),
    ("beta", "gbetaq", "_beta"),
    ("b", "gbq", "_b"),
):
    _acc, _accq = f"Acc{_slot}", f"Accq{_slot}"
    WAGEUBN |= {
        _acc: Symbol("update", f"Mom*{_accq} + {_gradient}", (_accq, _gradient), ("Mom", "")),
        _accq: Symbol("update", _acc, (_acc,)),
        _parameter: Symbol("update", f"{_parameter} - lr*{_acc}", (_parameter, _acc), ("", "-lr")),
    }

_SCALE = "r = 1/sqrt(var + 10^-5)"
_X2_32, _E3_32 = f"x2 = (x1 - mu)*r, {_SCALE}", "gammaq*r*(e1 - mean(e1) - x2*mean(e1*x2))"

# What WAGEUBN's batch norm is under first=block, where it is float32 and stores no x2, m1, m2.
FIRST_BLOCK: dict[str, Symbol] = {
    "var": Symbol("forward", "mean((x1 - mu)^2), in float32"),
    "x3": replace(WAGEUBN["x3"], formula=f"gammaq*x2 + betaq; in float32 {_X2_32}"),
    "e3": replace(WAGEUBN["e3"], formula=f"{WAGEUBN['e3'].formula}; in float32 {_E3_32}"),
}

# In float32 nothing is a copy: W, gamma, beta and b are read as they are. The other methods with float
# masters differ from it where their tables say so.
FLOAT32: dict[str, Symbol] = {
    "W": Symbol("forward", "as it is stored"),
    "b": Symbol("forward", "as it is stored"),
    "gamma": Symbol("forward", "as it is stored"),
    "beta": Symbol("forward", "as it is stored"),
    "x0": Symbol("forward", "x4 of the layer before"),
    "x1": Symbol("forward", "W * x0 (+ b)", factors=("W", "x0")),
    "mu": Symbol("forward", "mean(x1)"),
    "var": Symbol("forward", "mean((x1 - mu)^2)"),
    "x3": Symbol("forward", f"gamma*(x1 - mu)*r + beta, {_SCALE}"),
    "x4": Symbol("forward", "f(x3), f what the layer does: relu, silu, ..."),
    "e0": Symbol("backward", "e4 of the next layer, or the sum of the branches' errors"),
    "e1": Symbol("backward", "e0*f'(x3): behind a ReLU e0 where x3 > 0, else 0"),
    "e1q": Symbol("backward", "e0*silu'(x3)"),
    "e3": Symbol("backward", "dL/dx1"),
    "e4": Symbol("backward", "W^T e3", factors=("W", "e3")),
    "gW": Symbol("backward", "e3 x0^T", factors=("e3", "x0")),
    "gb": Symbol("backward", "sum(e3)", factors=("e3",)),
    "ggamma": Symbol("backward", f"sum(e1*(x1 - mu)*r), {_SCALE}"),
    "gbeta": Symbol("backward", "sum(e1)"),
    "AccW": Symbol("update", "momentum*AccW + gW"),
    "Accb": Symbol("update", "momentum*Accb + gb"),
    "Accgamma": Symbol("update", "momentum*Accgamma + ggamma"),
    "Accbeta": Symbol("update", "momentum*Accbeta + gbeta"),
}

_COPIES = {"W": "weights", "b": "bias", "gamma": "scale of batch norm", "beta": "offset of batch norm"}

# AdaPT rounds stochastically to <WL,FL> of the layer; the backward pass and batch norm are float32.
ADAPT: dict[str, Symbol] = FLOAT32 | {
    **{f"{p}q": Symbol("forward", f"SR({p}; <WL,FL>)", (p,)) for p in _COPIES},
    "x0": Symbol("forward", "SR(x4 of the layer before; <WL,FL>)"),
    "x1": Symbol("forward", "SR(Wq * x0 (+ bq); <WL,FL>)", ("Wq * x0",), offset="bq", factors=("Wq", "x0")),
    "x3": Symbol("forward", f"SR(gammaq*(x1 - mu)*r + betaq; <WL,FL>), {_SCALE}"),
    "x4": Symbol("forward", "SR(f(x3); <WL,FL>), f what the layer does: relu, silu, ..."),
    "dx4": Symbol("forward", "silu'(x3), float32"),
    "e4": Symbol("backward", "Wq^T e3"),
    "gW": Symbol("backward", "e3 x0^T"),
    "ggamma": Symbol("backward", f"sum(e1*(x1 - mu)*r), {_SCALE}"),
}
for _p in _COPIES:
    _g = f"g{_p}q"
    ADAPT[_g] = Symbol("backward", f"SR(g{_p}; <WL,FL>)", (f"g{_p}",))
    if _p == "W":
        _g = "gWn"
        ADAPT[_g] = Symbol("backward", "gWq / ||gWq||_2")
    ADAPT[f"Acc{_p}"] = Symbol("update", f"momentum*Acc{_p} + ({_g} + l1*sign({_p}) + l2*{_p})")
    ADAPT[_p] = Symbol("update", f"{_p} - lr*Acc{_p}")

# MuPPET rounds stochastically to WL bits at the tensor's own scale; batch norm is float32.
MUPPET: dict[str, Symbol] = FLOAT32 | {
    **{f"{p}q": Symbol("forward", f"BF({p}, WL)", (p,)) for p in ("W", "b")},
    **{f"{p}q": Symbol("forward", f"{p}, float32") for p in ("gamma", "beta")},
    "x0": Symbol("forward", "BF(x4 of the layer before, WL)"),
    "x1": Symbol("forward", "BF(Wq * x0 (+ bq), WL)", ("Wq * x0",), offset="bq", factors=("Wq", "x0")),
    "x3": Symbol("forward", f"BF(gamma*(x1 - mu)*r + beta, WL), {_SCALE}"),
    "x4": Symbol("forward", "BF(f(x3), WL), f what the layer does: relu, silu, ..."),
    "dx4": Symbol("forward", "silu'(x3), float32"),
    "e0": Symbol("backward", "BF(e4 of the next layer, or the sum of the branches' errors, WL)"),
    "e3": Symbol("backward", "BF(dL/dx1, WL)"),
    "e4": Symbol("backward", "Wq^T e3", factors=("Wq", "e3")),
    "gWq": Symbol("backward", "BF(gW, WL)", ("gW",)),
    "gbq": Symbol("backward", "BF(gb, WL)", ("gb",)),
}
for _p, _g in (("W", "gWq"), ("b", "gbq"), ("gamma", "ggamma"), ("beta", "gbeta")):
    MUPPET |= {
        f"Acc{_p}": Symbol("update", f"momentum*Acc{_p} + ({_g} + weight_decay*{_p})"),
        _p: Symbol("update", f"{_p} - lr*Acc{_p}"),
    }

# DYNASTY: block float in blocks of 4x4, static (8 bits) or dynamic (b bits); all else is float32.
DYNASTY: dict[str, Symbol] = FLOAT32 | {
    "Wb": Symbol("forward", "W in b bits, for the backward product", ("W",)),
    "Wq": Symbol("forward", "W in 8 bits", ("W",)),
    "x0": Symbol("forward", "x4 of the layer before in b bits, images in 8"),
    "x1": Symbol("forward", "Wq * x0 (+ b)", factors=("Wq", "x0")),
    "e3": Symbol("backward", "dL/dx1 in 8 bits"),
    "e4": Symbol("backward", "Wb^T e3", factors=("Wb", "e3")),
    "W": Symbol("update", "W - lr*AccW"),
}
# The same where forward_dynamic is 'weight'. gW of the first layer reads x0, which is images in 8 bits.
DYNASTY_WEIGHT: dict[str, Symbol] = {
    "Wb": Symbol("forward", "W in b bits", ("W",)),
    "x0": Symbol("forward", "x4 of the layer before in 8 bits, for the forward product; or images"),
    "x0b": Symbol("forward", "x4 of the layer before in b bits, for the update's product"),
    "x1": Symbol("forward", "Wb * x0 (+ b)", factors=("Wb", "x0")),
    "gW": Symbol("backward", "e3 x0b^T, of the first layer e3 x0^T", factors=("e3", "x0b")),
}

# Saved activations: float32 but for what gradients read.
PACKED: dict[str, Symbol] = {
    "x0s": Symbol("forward", "what the tape holds of x0", ("x0",)),
    "x1s": Symbol("forward", "what the tape holds of x1", ("x1",)),
    "x3s": Symbol("forward", "what the tape holds of x3", ("x3",)),
}
PACKED_FOR = {"gW": "x0", "ggamma": "x1", "e1": "x3", "e1q": "x3"}  # and what reads it


def symbol_of(symbols: Mapping[str, Symbol], layer: str, path: str, seen: Container[str]) -> Symbol:
    """The symbol of a path of a layer; an empty one where the table has none.

    A gradient that reads what the tape packed (`methods/packing.py`) has that in its formula, x0s for x0.
    seen: 'layer/path' of what the step showed
    """
    symbol = symbols.get(path, NO_SYMBOL)
    read = PACKED_FOR.get(path, "")
    for held in (f"{read}s", read):
        if read and f"{layer}/{held}" in seen:
            return symbol.reading(read, held)
    return symbol


SAVED: dict[str, Symbol] = (
    FLOAT32
    | PACKED
    | {
        "gW": Symbol("backward", "e3 x0s^T", factors=("e3", "x0s")),
        "ggamma": Symbol("backward", f"sum(e1*(x1s - mu)*r), {_SCALE}"),
    }
)

# Banner et al.: affine codes of 8 bits a tensor, AQ, of 16 for gradients; batch norm by the range.
BANNER: dict[str, Symbol] = FLOAT32 | {
    **{f"{p}q": Symbol("forward", f"AQ({p}, 8)", (p,)) for p in _COPIES},
    "x0": Symbol("forward", "AQ(x4 of the layer before, 8)"),
    "x1": Symbol("forward", "AQ(Wq * x0 (+ bq), 8), of the last layer float32", factors=("Wq", "x0")),
    "var": Symbol("forward", "(C(n) (max(x1) - min(x1)))^2, C(n) = 1/sqrt(2 ln n)"),
    "x3": Symbol("forward", f"gammaq*(x1 - mu)*r + betaq, {_SCALE}"),
    "e1": Symbol("backward", "behind a ReLU e0 where x3 > 0, else 0; of batch norm AQ(., 8), stochastic"),
    "e3w": Symbol("backward", "AQ(dL/dx1, 16)"),
    "e3": Symbol("backward", "AQ(dL/dx1, 8), stochastic"),
    "e4": Symbol("backward", "Wq^T e3", factors=("Wq", "e3")),
    "gW": Symbol("backward", "e3w x0^T", factors=("e3w", "x0")),
    "gb": Symbol("backward", "sum(e3w)"),
}
for _p in _COPIES:
    BANNER[_p] = Symbol("update", f"{_p} - lr*Acc{_p}")

# MX: what a product reads is in blocks along the axis that it sums over.
MX: dict[str, Symbol] = FLOAT32 | {
    "Wq": Symbol("forward", "MX(W) along the input channels", ("W",)),
    "Wb": Symbol("forward", "MX(W) along the output channels, for the backward product", ("W",)),
    "x0": Symbol("forward", "MX(x4 of the layer before) along the channels"),
    "x0b": Symbol("forward", "MX(x4 of the layer before) along the batch, for the update's product"),
    "x1": Symbol("forward", "Wq * x0 (+ b)", factors=("Wq", "x0")),
    "e3w": Symbol("backward", "MX(dL/dx1) along the batch"),
    "e3": Symbol("backward", "MX(dL/dx1) along the channels"),
    "e4": Symbol("backward", "Wb^T e3", factors=("Wb", "e3")),
    "gW": Symbol("backward", "e3w x0b^T", factors=("e3w", "x0b")),
    "gb": Symbol("backward", "sum(e3w)"),
    "W": Symbol("update", "W - lr*AccW"),
}

# What the levers of `float_master.py` change: the gradient after clipping, and AdamW's moments for Acc.
CLIPPED: dict[str, Symbol] = {
    f"g{p}c": Symbol("update", f"g*min(1, clip/||g||_2), g the last g{p} above") for p in _COPIES
}


def with_adamw(table: Mapping[str, Symbol]) -> dict[str, Symbol]:
    """A table of a method under sgd as it is under adamw; g is the gradient, clipped, with its penalties."""
    made = {path: symbol for path, symbol in table.items() if not path.startswith("Acc")}
    for p in _COPIES:
        made[f"m{p}"] = Symbol("update", f"beta1*m{p} + (1 - beta1)*g")
        made[f"v{p}"] = Symbol("update", f"beta2*v{p} + (1 - beta2)*g^2")
        if p in table and table[p].part == "update":
            step = f"(m{p}/(1 - beta1^t))/(sqrt(v{p}/(1 - beta2^t)) + adam_eps)"
            made[p] = Symbol("update", f"{p} - lr*({step} + weight_decay*{p})")
    return made
