"""Sweeps: many runs of one model on one data set, made by one command, and the table of what they came to.

Read `plan.py` (grids, points, runs, sweep.json), `work.py` (one run, as every executor does it),
`processes.py` and `cluster.py` (executors), `table.py` (results). Nothing here prints; `cli/sweep.py` does.
"""
