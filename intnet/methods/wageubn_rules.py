"""What WAGEUBN's options make of one layer: its widths, its paths' quantizers and rounding, its rates.

Options may differ by layer (`k_e2@layer2.*=6`); `Wageubn.rules` has one `Rules` for all layers with the same.

Defined by `spec/methods/wageubn.py: Step.format_of`.
"""

import math
from dataclasses import fields
from typing import Any

from intnet.errors import ConfigError, FormatError
from intnet.methods import schedules
from intnet.methods.wageubn_widths import FRACTIONS, Widths, modes_of, of_e3
from intnet.numbers import rounding
from intnet.numbers.formats import MAX_BITS, Constant, Direct, FixedPoint, Flag, Format, Shift

MAX_DECAY = 24  # 2^-24: the least weight decay
M_BITS = 16  # m1 and m2 keep this many bits below the LSB of e2
# Integer bits (sign apart) under `saturate`; activations take the number that the option gives.
INTEGER_BITS = {"mu": 4, "sigma": 4, "x2": 3, "dx4": 1, "gamma": 1, "beta": 1, "b": 1}


class Rules:
    """Of the `Options` that hold for a layer; ConfigError says which of them cannot be.

    k: widths; lr, dr: codes and ranges by epoch; formats: path -> format of every quantized path of a
    hidden layer; modes: path -> how it rounds; read: exponent, and what bounds lie below, of values that a
    weight layer reads as they are
    """

    def __init__(self, options: Any) -> None:
        o = self.options = options
        self._flag, k_e2 = of_e3(o.e2, o.k_e2)
        free = {field.name: getattr(o, field.name) for field in fields(Widths) if hasattr(o, field.name)}
        k = self.k = Widths.following(**free | {"k_e2": k_e2})
        if not 0 <= o.mom < 1 << k.k_mom - 1:
            raise ConfigError(
                f"wageubn: mom={o.mom}: a {k.k_mom}-bit code is from 0 to {(1 << k.k_mom - 1) - 1}"
            )
        self.modes = modes_of(o)
        self.lr = schedules.parse(o.lr, lambda text: rate_code(text, k.k_lr), "wageubn: lr")
        self.dr = schedules.parse(o.dr, int, "wageubn: dr")
        for _, code in self.lr.steps:
            if not 0 < code < 1 << k.k_lr - 1:
                raise ConfigError(
                    f"wageubn: lr={code}: a {k.k_lr}-bit code is from 1 to {(1 << k.k_lr - 1) - 1}"
                )
        for _, dr in self.dr.steps:
            if dr > 1 << k.k_gw - 1:
                raise ConfigError(f"wageubn: dr={dr} is above 2^(kGW-1) = {1 << k.k_gw - 1}")
            Constant(k.k_gc, dr)
        if o.saturate is not None and not 0 <= o.saturate < k.k_a:
            raise ConfigError(f"wageubn: saturate={o.saturate}: integer bits are 0..{k.k_a - 1}")
        if o.weight_decay is not None and not 1 <= o.weight_decay <= MAX_DECAY:
            raise ConfigError(f"wageubn: weight_decay={o.weight_decay}: s is 1..{MAX_DECAY}")
        try:
            self.formats = self._formats()
        except FormatError as error:
            raise ConfigError(f"wageubn: no such width: {error}") from None
        x4 = self.formats["x4"]
        limit = math.inf if isinstance(x4, Direct) else 1 << k.k_a - 1
        self.read: tuple[Any, float] = x4.exponent, limit  # type: ignore[union-attr]

    def check_modes(self, layer: Any) -> None:
        """ConfigError where a hidden layer has a path that cannot round as its options say."""
        e3, x4 = self.modes["e3"], self.modes["x4"]
        if self._flag and e3 == "stochastic" and layer.takes_weight and not layer.edge:
            raise ConfigError(
                f"wageubn: r_e2={e3}: Flag-Q draws no random words: set e2=16, say, beside it "
                f"(of {layer.name})"
            )
        if layer.derivative in ("x3", "x4") and rounding.mode_code(x4) in FRACTIONS:
            raise ConfigError(
                f"wageubn: r_a={x4}: {layer.name} ({type(layer).__name__}) is a curve, rounded by comparing: "
                f"take one of intnet's modes but stochastic there, as in r_a@{layer.name}=ties_even"
            )

    def _formats(self) -> dict[str, Format]:
        """Path -> format.

        Defined by `spec/methods/wageubn.py: Step.format_of`.
        """
        k = self.k
        limited = FixedPoint(k.k_w, k.k_w - 1, overflow="saturate_symmetric")  # (10): clip to +-(1 - d)
        return {
            "W": limited,
            "gamma": self._direct("gamma", k.k_gamma),
            "beta": self._direct("beta", k.k_beta),
            "b": self._direct("b", k.k_beta),
            "mu": self._direct("mu", k.k_mu),  # (13)
            "sigma": self._direct("sigma", k.k_sigma),
            "x2": self._direct("x2", k.k_bn),
            "x4": self._direct("x4", k.k_a),  # (14)
            "dx4": self._direct("dx4", k.k_a),
            "e0": Shift(k.k_e1),  # (15)
            "e1q": Shift(k.k_e1),
            "e3": Flag(k.k_e2) if self._flag else Shift(k.k_e2),  # (17), (16)
            "ggamma": self._direct("ggamma", k.k_ggamma),  # (18)
            "gbeta": self._direct("gbeta", k.k_gbeta),
            "gb": self._direct("gb", k.k_gbeta),
            "Accq": self._direct("Accq", k.k_acc),  # (21)
        }

    def _direct(self, path: str, bits: int) -> Format:
        """(6), or with `saturate` a fixed-point format of the same width and a true range."""
        if self.options.saturate is None:
            return Direct(bits)
        integer = self.options.saturate if path == "x4" else INTEGER_BITS.get(path, 0)
        return FixedPoint(bits, bits - 1 - integer, overflow="saturate_symmetric")

    def memory(self, symbol: str) -> Format:
        """Of stored parameters: weights saturate at their kWU bits, gamma and beta do not."""
        k = self.k.k_wu
        return FixedPoint(k, k - 1, overflow="saturate_symmetric") if symbol == "W" else Direct(k)

    def first_output(self) -> Direct:
        """Of what a float32 layer hands to integers: the grid of a product of Wq and x0, exponent -14."""
        k = self.k.k_w + self.k.k_a - 1
        if k > MAX_BITS:
            raise ConfigError(
                f"wageubn: k_w={self.k.k_w}, k_a={self.k.k_a}: what a float32 layer hands to integers has "
                f"k_w + k_a - 1 = {k} bits, at most {MAX_BITS}; with edges=fixed16 no layer does"
            )
        return Direct(k)

    def mean_of_errors(self, exponent: int) -> Direct:
        """Of m1 and m2, from the exponent of e2: its nominal bits, and those below; no range binds them."""
        k = self.k.k_e1 + self.k.k_gamma - 1 + M_BITS
        return Direct(min(k, MAX_BITS), lsb=exponent - M_BITS)

    def of_gradient(self, epoch: int) -> Constant:
        """(7), of gW."""
        return Constant(self.k.k_gc, self.dr.at(epoch))

    def sgd(self, epoch: int) -> tuple[float, float]:
        """(momentum, learning rate) of a float32 layer."""
        return self.options.mom * 2.0 ** (1 - self.k.k_mom), self.lr.at(epoch) * 2.0 ** (1 - self.k.k_lr)


# -- which options a layer reads -------------------------------------------------------------------

_RATES = {"lr", "k_lr", "mom", "k_mom"}
_UPDATE = _RATES | {"k_acc", "r_acc", "saturate"}
_WEIGHT = {"dr", "weight_decay", "r_gw", "r_w", "r_a", "r_e2"}
_HIDDEN = {"e2", "k_e2", "k_w", "k_a"}
_NORM = {
    f"{letter}_{path}"
    for letter, paths in (("k", "gamma beta bn mu sigma e1"), ("r", "gamma beta bn mu sigma ggamma gbeta e1"))
    for path in paths.split()
}
_PASSED = {"k_a", "r_a", "saturate"}  # by an activation, a pool, a join
_ERROR = {"k_e1", "r_e1"}


def read_by(layer: Any, floating: bool, meets_float: bool) -> set[str]:
    """Keys that mean something to a layer.

    floating: it is float32; meets_float: it rounds what float32 layers hand to it, to the grid of k_w and k_a
    """
    grid = {"k_w", "k_a"} if meets_float else set()
    if layer.takes_weight:
        if floating:
            return _RATES | {"weight_decay"} | grid
        bias = {"r_beta", "r_gbeta"} | ({"k_beta"} if not layer.edge else set())
        has_bias = any(parameter.symbol == "b" for parameter in layer.parameters)
        return _UPDATE | _WEIGHT | (_HIDDEN if not layer.edge else set()) | (bias if has_bias else set())
    if layer.normalizes:
        return set(_RATES) if floating else _UPDATE | _NORM | grid
    if not layer.stores:
        return set()
    return set(_PASSED) if floating else _PASSED | _ERROR


def rate_code(text: str, bits: int) -> int:
    """A learning rate as its code; of a real number ConfigError says the nearest code."""
    if "." in text:
        unit, greatest = 2.0 ** (1 - bits), (1 << bits - 1) - 1
        near = min(max(round(float(text) / unit), 1), greatest)
        raise ConfigError(
            f"wageubn: lr={text}: a learning rate is a whole code, of code * 2^{1 - bits}; the nearest is "
            f"lr={near}, which means {near * unit:.6g}"
        )
    return int(text)
