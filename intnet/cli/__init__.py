"""The command line: `main.py` parses and reports errors, one file a command, `terminal.py` shows.

What a command computes, and how that is shown, is in its room: `costs`, `sweeps`, `inspect`, `verify`, ...
"""
