"""Sweeps: many runs of one model on one data set, made by one command, and the table of what they came to.

Read `plan.py` (grids, points, runs, sweep.json), `work.py` (one run, as every executor does it),
`processes.py` and `cluster.py` (executors), `rows.py` (what runs came to), `plots.py` and `table.py` (its
pictures and tables), `figures.py` and `compared.py` (what `compare` tells otherwise); `progress.py` shows a
sweep at work. The commands: `cli/sweep.py`, `cli/compare.py`.
"""
