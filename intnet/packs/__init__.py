"""Golden packs: folders of hex files by which hardware is judged.

ports, trail -> rules, contract, hdl/ (what is generated) -> pack (write, read)
-> layers/, units/ (what a pack holds) -> mistakes, diagnosis -> check -> by_spec/ -> sums, causes
"""
