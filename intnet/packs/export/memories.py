"""Memories of one port: .mem, .mif and .coe, with the words of the pack's own file.

.mem   `$readmemh`: comments, an address, a word a line
.mif   WIDTH, DEPTH, radixes, and `address : word;` between BEGIN and END; -- begins a comment
.coe   memory_initialization_radix, memory_initialization_vector; commas between words; ; begins a comment
"""

from collections.abc import Iterator
from pathlib import PurePosixPath

from intnet.packs import mx
from intnet.packs.pack import Pack
from intnet.packs.ports import Port


def files(kind: str, pack: Pack) -> Iterator[tuple[str, bytes]]:
    """A file a port."""
    for port in pack.ports.values():
        text = TEXTS[kind](about(pack, port), words_of(pack, port), port.word_bits)
        yield str(PurePosixPath(port.file).with_suffix(f".{kind}")), text.encode("ascii")


def words_of(pack: Pack, port: Port) -> list[str]:
    """The words of a port's file, as hex digits."""
    return (pack.folder / port.file).read_text("ascii").splitlines()


def about(pack: Pack, port: Port) -> list[str]:
    """What the words are, for comments: ASCII, a line each."""
    order = f", in the order {port.order}" if port.order else ""
    shape = f"{port.axes} = {', '.join(map(str, port.shape))}{order}"
    sign = {"integer": "signed" if port.signed else "unsigned"}.get(port.encoding, port.encoding)
    row = f"{port.lanes} lanes of {port.bits} bits ({sign}), lane 0 lowest"
    if port.word:
        row += f", a row in {port.row_words} words of {port.word} bits"
    scale = "" if port.exponent is None else f"value = code * 2^({port.exponent})"
    if mx.MX in port.rounding or port.encoding == "e8m0":
        scale = f"value = {mx.value_of(pack.entries[port.name])}"
    lines = [f"{pack.manifest['name']} {pack.manifest['version']}, port {port.name} ({port.direction})"]
    lines += [shape, row, *([scale] if scale else []), port.meaning]
    return [ascii(line)[1:-1].replace("*/", "* /") for line in lines if line]


# -- the texts, of any words in hex digits, so many bits each, and lines that say what they are -------


def mem_text(told: list[str], words: list[str], bits: int) -> str:
    """A .mem, from address 0."""
    return "\n".join([*(f"// {line}" for line in told), "@0", *words, ""])


def mif_text(told: list[str], words: list[str], bits: int) -> str:
    """A .mif."""
    digits = max(1, -(-(len(words) - 1).bit_length() // 4))
    lines = [f"-- {line}" for line in told]
    lines += [f"WIDTH = {bits};", f"DEPTH = {max(len(words), 1)};"]
    lines += ["ADDRESS_RADIX = HEX;", "DATA_RADIX = HEX;", "CONTENT BEGIN"]
    lines += [f"  {at:0{digits}x} : {word};" for at, word in enumerate(words)]
    return "\n".join([*lines, "END;", ""])


def coe_text(told: list[str], words: list[str], bits: int) -> str:
    """A .coe."""
    lines = [f"; {line}" for line in told]
    lines += ["memory_initialization_radix = 16;", "memory_initialization_vector ="]
    return "\n".join([*lines, ",\n".join(words) + ";", ""])


TEXTS = {"mem": mem_text, "mif": mif_text, "coe": coe_text}
