"""A user's own step, held to the definition: every data path of every layer, recomputed by `intnet.spec`.

taken    one step of a run on the real fast code, and what happened in it (`record`)
tasks    what there is to verify: stored results of operations, roundings (`events`, `blocks`, `packed`)
rules    each operation by the definition, element by element, on stored operands (`values`)
chains   long float32 sums by NumPy in the definition's order
moved    parameters, statistics and what a method remembers; inputs: images and their order
judge    which format and random stream the definition's method puts on a path
work     all of it on all cores, kept layer by layer; row: what is said of a path
"""
