"""Packs of hardware units: `draft("quantize_sq", "L1")`; the list is `UNITS`.

signals (what a unit is) -> words (what it gives) -> listing (the seven)
-> stimuli, stimuli_sums, training (its vectors) -> drafts (a pack of them)
"""

from intnet.packs.units.drafts import LEVELS, UNITS, draft

__all__ = ["LEVELS", "UNITS", "draft"]
