"""The papers: their tables and figures beside ours, claims checked without long training, cost models.

`places.py` has a line for each table and figure, `checks/` a module a claim that is checked without
long training, `costs/` what training costs by the papers' own models.
"""
