"""Packs of hardware units: `draft("quantize_sq", "L1")`; the list is `UNITS`.

signals (what a unit is) -> words (what it gives) -> scales, listing (all of them)
-> stimuli, stimuli_sums, stimuli_mx, stimuli_scales, training (its vectors)
-> drafts (a pack of them), models (it as C)
"""

from intnet.packs.units.drafts import LEVELS, draft, own
from intnet.packs.units.listing import UNITS

__all__ = ["LEVELS", "UNITS", "draft", "own"]
