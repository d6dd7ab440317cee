"""Loops under the operations, without Python objects. Types and bounds come from the caller.

Products: `int_products.py`, whose `plan` chooses types, and `float_products.py` are the interface;
`windows.py` makes their tables, `tiles.py` and `position_sums.py` are their loops, `machine/tile.py` is the
multiply-add under all.
Row by row: `reduce.py` (integers), `float32_rows.py`.
"""
