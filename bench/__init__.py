"""Benchmarks: one file a question. `python -m bench [NAME...]` prints a table and writes JSON."""
