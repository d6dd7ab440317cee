"""Loops under the operations: no Python objects, no choices but of `int_products.py: plan`: types and bounds come from it.

Products: `int_products.py` and `float_products.py` are the interface; `windows.py` makes their tables,
`tiles.py` and `position_sums.py` are their loops, `machine/tile.py` is the multiply-add under all.
Row by row: `reduce.py` (integers), `float32_rows.py`.
"""
