"""Exact expressions, and the one rounding of each: sums of products, quotients, roots, curves.

`blocks/` rounds to numbers with an exponent a block, and with a scale a bucket.
"""
