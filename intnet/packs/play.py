"""A unit's pack, beat by beat, for a testbench in Python: what to drive, and what is wrong with what comes.

    board = Scoreboard("packs/sq")
    board.beats[0]          {"x": 5, "n": 255}: the bits of each in port, lane 0 lowest
    board.give({"q": "00000101", "saturated": "0"})     the next result, as bits or as a number
    board.write("dut")      for `intnet check PACK --dut dut`
    board.finish()          AssertionError, unless every result came and was right

`Session` is what the generated testbench does (`hdl/`), in Python: which pins to drive in a clock, and what
is wrong with the ones that are read; the rules are those of CONTRACT.md. `intnet.packs.cocotb` plays it.
"""

import operator
import struct
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from random import Random

from intnet.errors import PackError
from intnet.packs import pack
from intnet.packs.hdl.stream import HOLDS, MOST_HELD, PATIENCE, RESETS
from intnet.packs.ports import Port
from intnet.runs.archive import PathLike

Words = Mapping[str, str | int]  # of a port: its bits, the highest first, or the number that they are
SHOWN = 8  # faults
DIGIT = 4


class Scoreboard:
    """What a unit must give, what it gave, and what was wrong.

    pack:    a pack, or its folder; PackError where it is no unit's
    unit:    `about.unit` of PACK.json: latency, per_vector, ready, reset, generics
    beats:   the bits of the in ports, a dict a beat
    results: those of the out ports
    given:   what came, as bits; faults: what was wrong, a line each
    """

    def __init__(self, held: pack.Pack | PathLike) -> None:
        self.pack = held if isinstance(held, pack.Pack) else pack.read(held)
        if "unit" not in self.pack.manifest["about"]:
            raise PackError(f"{self.pack.folder}: a pack of layers; give that of a unit")
        self.unit = self.pack.manifest["about"]["unit"]
        self.beats, self.results = (self._words(self.unit[way]) for way in ("inputs", "outputs"))
        self.given: list[dict[str, str]] = []
        self.faults: list[str] = []

    def _words(self, names: Sequence[str]) -> list[dict[str, int]]:
        columns = {name: [_joined(self.pack.ports[name], row) for row in self._rows(name)] for name in names}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def _rows(self, name: str) -> list[list[int]]:
        codes = self.pack.codes(name)
        rows: list[list[int]] = codes.reshape(len(codes), -1).tolist()
        return rows

    def width(self, name: str) -> int:
        """Bits of a port."""
        port = self.pack.ports[name]
        return port.bits * prod(port.shape[1:])

    def give(self, words: Words) -> list[str]:
        """Takes the next result; the faults that it shows."""
        found: list[str] = []
        missing = [name for name in self.unit["outputs"] if name not in words]
        if missing:
            raise PackError(f"a result without {', '.join(missing)}: give all of {self.unit['outputs']}")
        at, bits = len(self.given), {name: self._bits(name, words[name]) for name in self.unit["outputs"]}
        self.given.append(bits)
        if at >= len(self.results):
            found.append(f"result {at}: the pack expects {len(self.results)}")
        else:
            found += [fault for name in bits for fault in self._compared(name, at, bits[name])]
            if found and self.unit.get("ready"):
                found[-1] += self._whose(bits, at)
        self.faults += found
        return found

    def _bits(self, name: str, word: str | int) -> str:
        width = self.width(name)
        if hasattr(word, "__index__"):
            number = operator.index(word)
            if not -(1 << width - 1) <= number < 1 << width:
                raise PackError(f"{name} = {number}: a word of {width} bits does not hold it")
            return f"{number & (1 << width) - 1:0{width}b}"
        if isinstance(word, float):
            raise PackError(f"{name} = {word!r}: give bits, or the whole number that they are")
        text = str(word).lower()
        if len(text) != width:
            raise PackError(f"{name} has {len(text)} bits, in the pack {width}: build with its generics")
        return text

    def _compared(self, name: str, at: int, bits: str) -> Iterator[str]:
        port, want = self.pack.ports[name], f"{self.results[at][name]:0{len(bits)}b}"
        for lane in range(len(bits) // port.bits):
            stop = len(bits) - lane * port.bits
            here = slice(stop - port.bits, stop)
            if bits[here] != want[here]:
                place = f"{name}[{at}]" + f" lane {lane}" * (len(bits) > port.bits)
                told = f"got {_shown(port, bits[here])} want {_shown(port, want[here])}"
                yield f"{place}: {told}, case {self._case(at)}"

    def _case(self, at: int) -> str:
        case = [case for case in self.pack.cases if case.index <= at][-1]
        return f"{case.id} ({case.flags})"

    def _whose(self, bits: Mapping[str, str], at: int) -> str:
        """Whether those are the words of a neighbour."""
        words = {name: int(word, 2) for name, word in bits.items() if set(word) <= set("01")}
        for other, what in ((at + 1, "was one lost?"), (at - 1, "did it come twice?")):
            if 0 <= other < len(self.results) and words == self.results[other]:
                return f"; those are the words of result {other}: {what}"
        return ""

    def write(self, folder: PathLike) -> None:
        """What was given as the files of a device, x and z too; the folder may be there."""
        root = Path(folder)
        root.mkdir(parents=True, exist_ok=True)
        for name in self.unit["outputs"]:
            port = self.pack.ports[name]
            lines = [line for bits in self.given for line in _lines(port, bits[name])]
            (root / Path(port.file).name).write_text("".join(f"{line}\n" for line in lines))

    def finish(self) -> None:
        """AssertionError, unless every result came and none was wrong."""
        came, due = len(self.given), len(self.results)
        if self.faults or came != due:
            first = "".join(f"\n  {fault}" for fault in self.faults[:SHOWN])
            more = f"\n  and {len(self.faults) - SHOWN} more" * (len(self.faults) > SHOWN)
            told = f"{len(self.faults)} faults, {came} results of {due}"
            raise AssertionError(f"{self.pack.manifest['name']}: {told}{first}{more}")


def _joined(port: Port, lanes: Sequence[int]) -> int:
    mask = (1 << port.bits) - 1
    return sum((code & mask) << port.bits * lane for lane, code in enumerate(lanes))


def _shown(port: Port, bits: str) -> str:
    """Bits of an element in hex, and what they say."""
    digits = _hex(bits)
    if not set(bits) <= set("01"):
        return digits
    code = int(bits, 2)
    if port.encoding == "float32":
        return f"{digits} ({struct.unpack('<f', code.to_bytes(4, 'little'))[0]!r})"
    code -= (port.signed and bits[0] == "1") << port.bits
    if port.encoding != "integer" or not isinstance(port.exponent, int) or not port.exponent:
        return f"{digits} ({code})"
    return f"{digits} ({code} * 2^{port.exponent} = {code * 2.0**port.exponent!r})"


def _hex(bits: str) -> str:
    """Hex digits; x or z where a bit of one is no 0 or 1."""
    bits = bits.rjust(-(-len(bits) // DIGIT) * DIGIT, "0")
    digits = [bits[at : at + DIGIT] for at in range(0, len(bits), DIGIT)]
    return "".join(
        f"{int(digit, 2):x}" if set(digit) <= set("01") else "z" if set(digit) == {"z"} else "x"
        for digit in digits
    )


def _lines(port: Port, bits: str) -> Iterator[str]:
    """The words of a result, as the port's file has them."""
    for stop in range(len(bits), 0, -port.row_bits):
        row = bits[stop - port.row_bits : stop].rjust(port.row_words * port.word_bits, "0")
        for end in range(len(row), 0, -port.word_bits):
            yield _hex(row[end - port.word_bits : end])


class Session:
    """A pack played clock by clock: `drive`, let it settle, `see`, then a rising edge of clk.

    board: has what was wrong, in the end
    """

    def __init__(self, board: Scoreboard) -> None:
        unit = board.unit
        self.board, self.latency, self.per_vector = board, unit["latency"], unit["per_vector"]
        self.ready, self.reset = bool(unit.get("ready")), bool(unit.get("reset"))
        self.random = Random(1)
        self.clock = self.at = self.idle = self.tail = 0
        self.born: list[int] = []  # of each result entered: the clock in which its beat was taken
        self.alone: list[bool] = []  # and whether no other was on its way
        self.begun = [0]  # the beat with which each result begins
        self.shown: dict[str, int] | None = None  # a beat that was not taken yet
        self.kept: dict[str, str] | None = None  # a result that was not given yet
        self.waited = self.refused = 0
        self.stalled = self.reset_at = self.reset_clock = -1
        self.resets, self.place, self.until_reset, self.fresh = 0, 1, -1, False
        self.pins: dict[str, int] = {}
        self.stuck = False

    @property
    def done(self) -> int:
        """Results given."""
        return len(self.board.given)

    @property
    def over(self) -> bool:
        """Whether all has been played, or nothing moves any more."""
        return self.stuck or self.tail >= 2 * self.latency + 8

    # -- what goes in --------------------------------------------------------------------------------

    def drive(self) -> dict[str, int]:
        """The pins of this clock: in_valid and the in ports, out_ready and rst where the unit has them."""
        if self.shown is None:
            self.shown = self._beat()
        self.pins = {"in_valid": int(self.shown is not None), **(self.shown or self._noise())}
        self.pins["rst"] = int(self.until_reset == 0)
        if self.ready:
            self.pins["out_ready"] = int(self._out_ready())
        return self.pins

    def _beat(self) -> dict[str, int] | None:
        """The next beat, or a gap."""
        if self.at == len(self.board.beats) or not (self.random.getrandbits(2) or self.at & 16):
            return None
        beat = dict(self.board.beats[self.at])
        if self.fresh and "first" in beat:
            beat["first"] = 0
        return beat

    def _noise(self) -> dict[str, int]:
        """Between beats: the next one's bits, inverted."""
        beat = self.board.beats[min(self.at, len(self.board.beats) - 1)]
        return {name: ~word & (1 << self.board.width(name)) - 1 for name, word in beat.items()}

    def _out_ready(self) -> bool:
        way = self.done // HOLDS % 4
        if way == 0:
            return True
        if way == 1:
            return self.kept is not None
        if way == 2:
            return self.refused > 3 or self.waited > MOST_HELD + self.latency
        return bool(self.random.getrandbits(1))

    # -- what comes out ------------------------------------------------------------------------------

    def see(self, in_ready: str, out_valid: str, words: Mapping[str, str]) -> list[str]:
        """What stands at the unit's pins ahead of the edge; the faults that it shows."""
        before, held = len(self.board.faults), bool(self.pins["rst"])
        moved = False
        if not held:
            moved = self._result(out_valid, words)
            moved = self._take(in_ready) or moved
        else:
            self._rewind()
        if self.ready and not self.pins["out_ready"]:
            self.stalled = self.clock
        pending = self.at < len(self.board.beats) or self.done < len(self.born)
        self.idle = self.idle + 1 if pending and not moved else 0
        self.tail = 0 if pending else self.tail + 1
        self.clock += 1
        if self.idle > PATIENCE + self.latency:
            self._stuck(in_ready, out_valid)
        return self.board.faults[before:]

    def _fault(self, text: str) -> None:
        self.board.faults.append(text)

    def _result(self, out_valid: str, words: Mapping[str, str]) -> bool:
        """Judges the outputs; whether a result was given."""
        if out_valid not in ("0", "1"):
            self._fault(f"out_valid is {out_valid} at result {self.done}")
        if self.kept is not None and out_valid == "0":
            self._fault(f"out_valid fell before out_ready took result {self.done}")
        for name, word in (self.kept or {}).items():
            if words[name] != word:
                told = f"changed from {_hex(word)} to {_hex(words[name])} before out_ready took it"
                self._fault(f"{name}[{self.done}]: {told}")
        if out_valid == "1" and self.kept is None:
            self._timing()
        gives = out_valid == "1" and bool(self.pins.get("out_ready", 1))
        due = self.done < len(self.born)
        self.kept = dict(words) if out_valid == "1" and due and not gives else None
        self.waited = 0 if gives else self.waited + 1
        if gives and due:
            first = self.done == self.reset_at
            if self.board.give(words) and first:
                sums = ", sums too" * self.per_vector
                self.board.faults[-1] += f"; it is the first one behind a reset: is all cleared{sums}?"
        return gives

    def _timing(self) -> None:
        """Whether a result may come now."""
        if self.done == len(self.born):
            behind = self.clock - self.reset_clock if self.resets else 0
            near = f", {behind} clocks behind a reset" * (0 < behind <= 2 * self.latency + 8)
            self._fault(f"no result is due, but out_valid is 1{near}")
            return
        age = self.clock - self.born[self.done]
        exact = not self.ready or (self.alone[self.done] and self.stalled < self.born[self.done])
        if age < self.latency or (age > self.latency and exact):
            self._fault(f"result {self.done} comes {age} clocks behind its beat, not {self.latency}")

    def _take(self, in_ready: str) -> bool:
        """Whether the beat that is shown was taken."""
        if self.ready and in_ready not in ("0", "1"):
            self._fault(f"in_ready is {in_ready} at beat {self.at}")
        self.until_reset -= self.until_reset > 0
        if self.shown is None or (self.ready and in_ready != "1"):
            self.refused = self.refused + 1 if self.shown is not None else 0
            return False
        last = not self.per_vector or bool(self.shown["last"])
        self.at += 1
        if last:
            self.alone.append(self.done == len(self.born))
            self.born.append(self.clock)
            self.begun.append(self.at)
        self.shown, self.refused, self.fresh = None, 0, False
        due = self.reset and self.resets < RESETS and self.until_reset < 0 and len(self.born) >= self.place
        if due and (last or self.resets % 2):
            self.until_reset = self.resets % (self.latency + 2)
        return True

    def _rewind(self) -> None:
        """After a reset: the first beat whose result was not given comes next."""
        self.resets += 1
        self.place = len(self.born) + 4 + self.random.randrange(2 * len(self.board.results) // RESETS + 8)
        self.at = self.begun[self.done]
        del self.born[self.done :], self.alone[self.done :], self.begun[self.done + 1 :]
        self.reset_clock, self.reset_at, self.until_reset = self.clock, self.done, -1
        self.shown, self.kept, self.fresh = None, None, True

    def _stuck(self, in_ready: str, out_valid: str) -> None:
        self.stuck = True
        if self.done < len(self.born):
            which, pin = (
                f"result {self.done} of {len(self.board.results)} did not come",
                f"out_valid is {out_valid}",
            )
        else:
            which, pin = f"beat {self.at} of {len(self.board.beats)} was not taken", f"in_ready is {in_ready}"
        self._fault(f"timeout: {which}, {pin} for {self.idle} clocks")
