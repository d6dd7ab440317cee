"""A golden pack again by the definition, `intnet.spec`, in plain Python integers: `check PACK --by spec`.

plain        PACK.json and the hex files as integers, fractions, expressions; mx: of MX blocks
units        what the reference units must give
layers       a layer's step by the definition's walk, from what the pack says went into it; heads: the last
tiles        partial sums of its products
ports        its values as words of ports, and what else a pack says of them; trails: what explains them
recompute    all of it, port by port, as a `check.Result`
"""
