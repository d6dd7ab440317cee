"""Golden packs: folders of hex files by which hardware is judged.

ports, trail -> contract, hdl/ (what is generated) -> pack (write, read)
-> layers/, units/ (what a pack holds) -> diagnosis -> check
"""
