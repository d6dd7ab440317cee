"""A pack as one memory: all words one after another, and a map that says where each port begins.

    image.mem    `$readmemh`, a word of `word` bits a line
    map.txt      a line a port: address, words, how a pack's word lies in it
    map.json     the same for programs, with bits, lanes, order, shape and exponent

Ports follow one another as in PACK.json. A word of the pack begins at a word of the memory: where it is
narrower, 0 stands above it; where it is wider, it takes several, its least significant bits in the first.
Addresses count words of the memory; of whole bytes there is the byte address too, as a little-endian machine
counts.
"""

import json
from collections.abc import Iterator
from typing import Any

from intnet.packs.export.memories import words_of
from intnet.packs.pack import Pack, entry_of

WORD = 32
FORMAT = "intnet memory image"
OF_PORT = ("direction", "bits", "signed", "lanes", "encoding", "exponent", "axes", "shape", "meaning")


def files(pack: Pack, word: int) -> Iterator[tuple[str, bytes]]:
    """The three of them."""
    digits, mask = -(-word // 4), (1 << word) - 1
    found: list[str] = []
    ports: list[dict[str, Any]] = []
    for name, port in pack.ports.items():
        each = -(-port.word_bits // word)
        ports.append({"port": name, "address": len(found)})
        if word % 8 == 0:
            ports[-1]["byte_address"] = len(found) * word // 8
        ports[-1] |= {"words": port.words * each, "words_a_word": each, "word_bits": port.word_bits}
        told = entry_of(port)
        ports[-1] |= {key: told[key] for key in (*OF_PORT, "order") if key in told}
        for text in words_of(pack, port):
            value = int(text, 16)
            found += [f"{value >> word * k & mask:0{digits}x}" for k in range(each)]
    name = f"{pack.manifest['name']} {pack.manifest['version']}"
    head = f"// {name}: {len(found)} words of {word} bits; map.txt says what is where"
    yield "image.mem", "\n".join([head, "@0", *found, ""]).encode("ascii", "replace")
    whole = {"format": FORMAT, "pack": name, "word_bits": word, "words": len(found), "ports": ports}
    yield "map.json", (json.dumps(whole, indent=1) + "\n").encode()
    yield "map.txt", "\n".join([*_table(name, word, ports), ""]).encode()


def _table(name: str, word: int, ports: list[dict[str, Any]]) -> Iterator[str]:
    """Addresses in hex, in columns."""
    yield f"{name}: a memory of {word}-bit words, addresses in words, hex"
    rows = [("first", "last", "port", "", "what")]
    for port in ports:
        last = port["address"] + port["words"] - 1
        how = f"{port['lanes']} x {port['bits']} bits a row, {port['word_bits']} bits a word of the pack"
        if port["words_a_word"] > 1:
            how += f", each in {port['words_a_word']} words"
        last_text = f"{last:08x}" if port["words"] else "-"
        rows.append((f"{port['address']:08x}", last_text, port["port"], port["direction"], how))
    widths = [max(len(row[k]) for row in rows) for k in range(4)]
    for row in rows:
        cells = [text.ljust(size) for text, size in zip(row[:4], widths, strict=True)]
        yield "  ".join([*cells, row[4]]).rstrip()
