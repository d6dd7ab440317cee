"""How WAGEUBN's paths round, where options say otherwise than the paper.

The widths of `wageubn` have the same letters: k_a and r_a are of x4.

The paper rounds gW stochastically (7), all else to nearest (6); that ties go to even is intnet's. A path that
rounds stochastically draws a word an element of the stream 'layer/path', gWq of 'layer/gW' (`words`).
Inference draws none: there it rounds to nearest, ties to even. What has no option (W, gamma, beta, b ahead of
the first step, x1 after a float32 layer, m1, m2, running statistics) rounds to nearest, ties to even.
"""

from __future__ import annotations

from dataclasses import dataclass

from intnet.spec.rounding import Mode

MODE_OF = {  # path -> its option
    "Wq": "r_w",
    "gammaq": "r_gamma",
    "betaq": "r_beta",
    "bq": "r_beta",
    "mu": "r_mu",
    "sigma": "r_sigma",
    "x2": "r_bn",
    "x0": "r_a",
    "x4": "r_a",
    "dx4": "r_a",
    "e0": "r_e1",
    "e1": "r_e1",  # of a batch norm that no activation follows
    "e1q": "r_e1",
    "e3": "r_e2",
    "gWq": "r_gw",
    "ggammaq": "r_ggamma",
    "gbetaq": "r_gbeta",
    "gbq": "r_gbeta",
    "Accq": "r_acc",
    "Accq_b": "r_acc",
    "Accq_gamma": "r_acc",
    "Accq_beta": "r_acc",
}


@dataclass(frozen=True)
class Modes:
    """Names of `rounding.MODES`, or rules of users' own; of sigma, a root, no rule and not stochastic."""

    r_w: Mode = "ties_even"
    r_a: Mode = "ties_even"
    r_e1: Mode = "ties_even"
    r_e2: Mode = "ties_even"
    r_gamma: Mode = "ties_even"
    r_beta: Mode = "ties_even"
    r_bn: Mode = "ties_even"
    r_mu: Mode = "ties_even"
    r_sigma: Mode = "ties_even"
    r_gw: Mode = "stochastic"
    r_ggamma: Mode = "ties_even"
    r_gbeta: Mode = "ties_even"
    r_acc: Mode = "ties_even"

    def mode(self, path: str, inference: bool = False) -> Mode:
        """How a path rounds.

        >>> Modes(r_a="stochastic").mode("x4"), Modes(r_a="stochastic").mode("x4", inference=True)
        ('stochastic', 'ties_even')
        """
        found: Mode = getattr(self, MODE_OF[path]) if path in MODE_OF else "ties_even"
        return "ties_even" if inference and found == "stochastic" else found
