"""Golden packs: folders of hex files by which hardware is judged.

order -> ports, trail -> lines (words of a file) -> contract, hdl/ (what is generated) -> pack (write, read)
-> layers/, units/ (what a pack holds) -> layouts, tiles (as asked) -> device -> diagnosis -> check
-> export/ (other files)
"""
