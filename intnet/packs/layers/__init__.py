"""Packs of layers: `draft(run, ["fc2"])`, and `redraft(pack)` from the pack alone.

capture (what a layer saw in a step) -> expressions (what entered a rounding) -> paths (the ports) -> drafts
"""

from intnet.packs.layers.drafts import draft, redraft

__all__ = ["draft", "redraft"]
