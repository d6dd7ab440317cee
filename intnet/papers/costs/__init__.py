"""What training costs by the papers' own models.

A model a paper: AdaPT's word lengths (`adapt_costs.py`), DYNASTY's bit-serial array (`dynasty_costs.py`; many
runs on it: `dynasty_runs.py`), the tape of saved activations (`saved_costs.py`, reports too). `logs.py` reads
what a run's folder has of them, `*_report.py` say what comes out, in the shape of `report.py`; `plots.py`
draws. The command: `cli/costs.py`.
"""
