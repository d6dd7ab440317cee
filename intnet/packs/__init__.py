"""Golden packs: folders of hex files by which hardware is judged.

order -> ports, mx -> lines (words of a file) -> rules, contract, hdl/ (what is generated) -> pack (write,
read) -> layers/, circuits/, units/ (what a pack holds) -> layouts, tiles (as asked), sizes -> device ->
mistakes, mx_mistakes, places, diagnosis -> check -> by_spec/ -> sums, causes, unit_causes; export/ (other
files); play, cocotb (testbenches in Python)
"""
