"""Circuits of `intnet.spec.units` put to use: run fast, faults seeded into them, as C and as SystemVerilog.

fast      columns of beats through a circuit, by Python code made of it
faults    one wire narrower, one shift off by one, ...: every small mistake of a circuit; stages: larger ones
written   it as JSON, in the pack of a unit of one's own
coverage  what vectors reach of a circuit, and what they miss
c_model   a self-contained C99 model
dpi       it under SystemVerilog by DPI-C, with a testbench of random words
verilog   the definition as SystemVerilog, for proofs
"""
