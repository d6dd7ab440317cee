"""Looking inside a step: operands, every number's way to its bits by the definition, measures.

`operands.py`, `measure.py` (by `histograms.py`), `gradient_error.py`, `explain*.py` and `trail.py` find it,
`over_steps.py` in many steps, `width_log.py` in the log; `text.py`, `page/` (with `flow.py`, its diagrams,
and `elements.py`, what is worth reading) and `plot.py` show it. The command: `cli/inspect.py`.
"""
