"""Loops under the operations: no Python objects, no choices; types and bounds come from the caller.

Integers: `dot.py` is the inner product, `gemm.py` and `conv.py` lay out operands for it, `reduce.py`
sums rows. float32: `float32.py` is the interface, `float32_loops.py` and `float32_tile.py` its loops.
"""
