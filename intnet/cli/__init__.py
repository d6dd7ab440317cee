"""The command line: `main.py` parses and reports errors, one file a command, `terminal.py` shows.

What a command computes is in its room (`costs`, `sweeps`, `inspect`, `verify`, `papers`), and how it is shown too.
"""
