"""WAGEUBN's bit widths (Yang et al. 2020, sec. IV-A), the constraints that bind them, and rounding modes.

(22)  kGC = kGgamma = kGbeta = kMom + kAcc - 1     both terms of Acc lie on one grid
(24)  kWU = kGC + klr - 1                          an update lands on the grid of the stored weights
"""

from dataclasses import dataclass, fields
from typing import Any

from intnet.errors import ConfigError, FormatError
from intnet.numbers import rounding


@dataclass(frozen=True)
class Widths:
    """Bit widths of sec. IV-A; constraints (22) and (24) hold or ConfigError says which does not.

    `following` makes those that the constraints give: k_gc = k_ggamma = k_gbeta, and k_wu.
    """

    k_w: int = 8
    k_a: int = 8
    k_gw: int = 8
    k_e1: int = 8
    k_e2: int = 8
    k_gamma: int = 8
    k_beta: int = 8
    k_bn: int = 16
    k_mu: int = 16
    k_sigma: int = 16
    k_ggamma: int = 15
    k_gbeta: int = 15
    k_gc: int = 15
    k_mom: int = 3
    k_acc: int = 13
    k_lr: int = 10
    k_wu: int = 24

    def __post_init__(self) -> None:
        for field in fields(self):
            width = getattr(self, field.name)
            if not 1 <= width <= 32:
                raise ConfigError(f"wageubn: {field.name} = {width}: a bit width is from 1 to 32")
        if not self.k_ggamma == self.k_gbeta == self.k_gc == self.k_mom + self.k_acc - 1:
            raise ConfigError(
                "wageubn: constraint (22) needs kGgamma = kGbeta = kGC = kMom + kAcc - 1, here "
                f"{self.k_ggamma}, {self.k_gbeta}, {self.k_gc}, {self.k_mom} + {self.k_acc} - 1"
            )
        if self.k_wu != self.k_gc + self.k_lr - 1:
            raise ConfigError(
                "wageubn: constraint (24) needs kWU = kGC + klr - 1, "
                f"here {self.k_wu}, {self.k_gc} + {self.k_lr} - 1"
            )

    @classmethod
    def following(cls, **free: int) -> "Widths":
        """Of widths that no constraint binds; ConfigError where one that follows has no room."""
        mom, acc, lr = free.get("k_mom", 3), free.get("k_acc", 13), free.get("k_lr", 10)
        k_gc = mom + acc - 1
        k_wu = k_gc + lr - 1
        if k_gc < 2 or k_wu > 32:
            raise ConfigError(
                f"wageubn: k_mom={mom}, k_acc={acc}, k_lr={lr} make kGC = {k_gc} by (22) and kWU = {k_wu} by "
                "(24): gradients have at least 2 bits, stored weights at most 32"
            )
        return cls(**free, k_ggamma=k_gc, k_gbeta=k_gc, k_gc=k_gc, k_wu=k_wu)


FRACTIONS = (rounding.STOCHASTIC, rounding.OWN)  # modes that need a fraction, which no root and no curve has
# Path -> the option that says how it rounds; all other paths round to nearest, ties to even.
MODE_OF = {
    **{"Wq": "r_w", "gammaq": "r_gamma", "betaq": "r_beta", "bq": "r_beta"},
    **{"mu": "r_mu", "sigma": "r_sigma", "x2": "r_bn", "x0": "r_a", "x4": "r_a", "dx4": "r_a"},
    **{"e0": "r_e1", "e1": "r_e1", "e1q": "r_e1", "e3": "r_e2"},
    **{"gWq": "r_gw", "ggammaq": "r_ggamma", "gbetaq": "r_gbeta", "gbq": "r_gbeta"},
    **dict.fromkeys(("Accq", "Accq_b", "Accq_gamma", "Accq_beta"), "r_acc"),
}
MODES = tuple(dict.fromkeys(MODE_OF.values()))


def modes_of(options: Any) -> dict[str, str]:
    """Path -> mode of rounding; ConfigError for what is no mode, or none that the path can have.

    Defined by `spec/methods/wageubn_modes.py: Modes`.
    """
    given = {name: getattr(options, name) for name in MODES}
    for name, mode in given.items():
        try:
            code = rounding.mode_code(mode)
        except FormatError as error:
            raise ConfigError(f"wageubn: {name}: {error}") from None
        if name == "r_sigma" and code in FRACTIONS:
            raise ConfigError(
                f"wageubn: r_sigma={mode}: sigma is a square root, rounded by comparing squares: take one of "
                "intnet's modes but stochastic"
            )
    own = {name: rounding.HLS_ALIASES.get(mode, mode) for name, mode in given.items()}
    return {path: own[name] for path, name in MODE_OF.items()}


def of_e3(text: str, width: int | None = None) -> tuple[bool, int]:
    """(whether Flag-Q, its k) of options e2 and k_e2."""
    bits = text.removeprefix("flag")
    if not (bits.isascii() and bits.isdecimal() and 2 <= int(bits) <= 16):
        raise ConfigError(f"wageubn: e2={text!r}: use flag8, or a width of SQ from 2 to 16, as in e2=16")
    if width is not None and not 2 <= width <= 16:
        raise ConfigError(f"wageubn: k_e2={width}: the width of e3 is from 2 to 16")
    return bits != text, int(bits) if width is None else width
