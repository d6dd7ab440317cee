"""Golden packs: a folder of hex files by which hardware is judged, written, read, checked, explained.

ports -> trail -> pack (write, read) -> layers, units (what goes in) -> contract, testbench (what is
generated beside it) -> diagnosis -> check
"""
