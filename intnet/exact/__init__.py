"""Exact expressions, and the one rounding of each: sums of products, quotients, roots, curves."""
