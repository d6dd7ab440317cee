"""Golden packs: folders of hex files by which hardware is judged.

order -> ports, trail -> lines (words of a file) -> rules, contract, hdl/ (what is generated) -> pack (write,
read) -> layers/, circuits/, units/ (what a pack holds) -> layouts, tiles (as asked) -> device -> mistakes,
diagnosis -> check -> by_spec/ -> sums, causes; export/ (other files)
"""
