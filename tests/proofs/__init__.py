"""Proofs by an SMT solver: what no number of tests can reach. `docs/proofs.md` lists them.

    search.py     all paths of a run on terms, and claims that must hold on each
    machine.py    integers of a kernel as terms
    reals.py      floats of a kernel as real numbers; small_floats.py: floats of few bits, all of them
    memory.py     arrays of bytes whose elements are terms
    definitions.py  the definition of rounding on terms
    rules.py      what a module's functions look up while they run here; faults in their sources

A proof runs the function that Numba compiles, its own code object, on terms in place of numbers, with the
types of Numba. Where it asks for a condition the run is forked. On every path the solver must find no
value for which the claim, or what the machine requires (no shift by 64 or more), is wrong.
"""
