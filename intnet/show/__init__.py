"""What a person is shown: numbers as text, tables, bars of progress, pictures.

One of each, for all rooms above: `tables.py`, `bars.py`, `pictures.py`.
"""
