"""A unit of hardware as its wires: whole numbers with exact ranges, beat by beat.

    c = Circuit()
    x = c.read("x", 8)                              an in port, signed, 8 bits
    floor = c.wire("floor", x >> 2)                 a wire with a name; as wide as its range needs
    c.give("q", c.select(floor > 30, 30, floor))    an out port
    run(c, [{"x": 127}])                            [{"floor": 31, "q": 30}]

A definition of a unit (`spec.units`) is a function that builds a circuit from parameters; what its wires hold
is whole numbers of any size, so nothing wraps unless `cut` says so. Of every value the least and greatest
that it can have are known, and with them its width. `run` is the meaning of a circuit: one beat after the
other, one wire after the other. Registers hold what `keep` gave them the beat before, 0 at first.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

Value: TypeAlias = "Wire | int"
Range = tuple[int, int]


def width(low: int, high: int) -> int:
    """Bits of low .. high, two's complement where low < 0; 1 at least."""
    if low < 0:
        return max((~low).bit_length(), high.bit_length()) + 1
    return max(high.bit_length(), 1)


def span(bits: int, signed: bool = True) -> Range:
    """Least and greatest number of so many bits."""
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def cut(value: int, bits: int, signed: bool = True) -> int:
    """The low bits of a number, as a wire of that width keeps them.

    >>> cut(130, 8), cut(130, 8, False), cut(-1, 4, False)
    (-126, 130, 15)
    """
    low = value & ((1 << bits) - 1)
    return low - (1 << bits) if signed and low >> bits - 1 else low


# -- ranges --------------------------------------------------------------------------------------


def _corners(f: Callable[[int, int], int], a: Range, b: Range) -> Range:
    """Of an operation that is monotone in each operand."""
    values = [f(x, y) for x in a for y in b]
    return min(values), max(values)


def _mask(a: Range, b: Range) -> Range:
    """Of a & b: it has no bit that a side >= 0 has not."""
    tops = [high for low, high in (a, b) if low >= 0]
    if tops:
        return 0, min(tops)
    return span(max(width(*a), width(*b)))


def _bits(a: Range, b: Range) -> Range:
    """Of a | b and a ^ b."""
    if a[0] >= 0 and b[0] >= 0:
        return 0, (1 << max(width(*a), width(*b))) - 1
    return span(max(width(min(low, -1), high) for low, high in (a, b)))


def _truth(_a: Range, _b: Range) -> Range:
    return 0, 1


def _length(a: Range, _b: Range) -> Range:
    low, high = a
    sizes = [abs(low).bit_length(), abs(high).bit_length()]
    return (0 if low <= 0 <= high else min(sizes)), max(sizes)


class Op(NamedTuple):
    """An operation: what it does to whole numbers, and the range that follows."""

    of: Callable[[int, int], Any]
    range: Callable[[Range, Range], Range]


OPS: dict[str, Op] = {
    "+": Op(operator.add, lambda a, b: (a[0] + b[0], a[1] + b[1])),
    "-": Op(operator.sub, lambda a, b: (a[0] - b[1], a[1] - b[0])),
    "*": Op(operator.mul, lambda a, b: _corners(operator.mul, a, b)),
    "<<": Op(operator.lshift, lambda a, b: _corners(operator.lshift, a, b)),
    ">>": Op(operator.rshift, lambda a, b: _corners(operator.rshift, a, b)),
    "&": Op(operator.and_, _mask),
    "|": Op(operator.or_, _bits),
    "^": Op(operator.xor, _bits),
    "<": Op(operator.lt, _truth),
    "<=": Op(operator.le, _truth),
    "==": Op(operator.eq, _truth),
    "!=": Op(operator.ne, _truth),
    "length": Op(lambda a, _: abs(a).bit_length(), _length),  # of |a|: 1 + the place of its leading one
}


# -- circuits ------------------------------------------------------------------------------------


class Wire:
    """A value in a circuit: low <= value <= high. Operators make further ones.

    kind   'number' (at), 'read', 'register' (name), 'op' (at of args), 'select' (args: c, a, b),
           'wire' (args: one), 'cut' (args: one)
    """

    __slots__ = ("args", "at", "circuit", "high", "kind", "low", "name", "place")

    def __init__(
        self,
        circuit: Circuit,
        kind: str,
        at: Any,
        args: tuple[Wire, ...],
        bounds: Range,
        name: str = "",
    ) -> None:
        self.circuit, self.kind, self.at, self.args, self.name = circuit, kind, at, args, name
        self.low, self.high = bounds
        self.place = len(circuit.nodes)
        circuit.nodes.append(self)

    @property
    def range(self) -> Range:
        """(least, greatest)."""
        return self.low, self.high

    @property
    def signed(self) -> bool:
        """Whether it can be below 0."""
        return self.low < 0

    @property
    def bits(self) -> int:
        """Its width."""
        return width(self.low, self.high)

    def _op(self, op: str, other: Value, turned: bool = False) -> Wire:
        c = self.circuit
        a, b = self, c.value(other)
        return c.op(op, b, a) if turned else c.op(op, a, b)

    def __add__(self, other: Value) -> Wire:
        return self._op("+", other)

    def __radd__(self, other: Value) -> Wire:
        return self._op("+", other, True)

    def __sub__(self, other: Value) -> Wire:
        return self._op("-", other)

    def __rsub__(self, other: Value) -> Wire:
        return self._op("-", other, True)

    def __neg__(self) -> Wire:
        return self._op("-", 0, True)

    def __mul__(self, other: Value) -> Wire:
        return self._op("*", other)

    def __lshift__(self, other: Value) -> Wire:
        return self._op("<<", other)

    def __rlshift__(self, other: Value) -> Wire:
        return self._op("<<", other, True)

    def __rshift__(self, other: Value) -> Wire:
        return self._op(">>", other)

    def __and__(self, other: Value) -> Wire:
        return self._op("&", other)

    def __or__(self, other: Value) -> Wire:
        return self._op("|", other)

    def __xor__(self, other: Value) -> Wire:
        return self._op("^", other)

    def __lt__(self, other: Value) -> Wire:
        return self._op("<", other)

    def __gt__(self, other: Value) -> Wire:
        return self._op("<", other, True)

    def __le__(self, other: Value) -> Wire:
        return self._op("<=", other)

    def __ge__(self, other: Value) -> Wire:
        return self._op("<=", other, True)

    def __eq__(self, other: object) -> bool:
        raise TypeError("== of wires would ask which wire it is: `equals` and `differs` compare their values")

    __hash__ = object.__hash__  # a wire is a node of its circuit

    def equals(self, other: Value) -> Wire:
        """1 where both are the same number."""
        return self._op("==", other)

    def differs(self, other: Value) -> Wire:
        """1 where they are not."""
        return self._op("!=", other)

    def __bool__(self) -> bool:
        raise TypeError("a wire has no value while its circuit is built: choose with `select`, join with & |")

    def __repr__(self) -> str:
        return f"Wire({self.name or self.kind} {self.at or ''}, {self.low}..{self.high})"


class Circuit:
    """What a unit does in one beat.

    reads:     in ports, lanes one by one: name -> wire ('x', or 'x[0]', 'x[1]' .. of lanes)
    wires:     named values in the order in which they arise, registers' next values too
    gives:     out ports
    registers: name -> (its value before the beat, its next value)
    bins:      name -> a wire of 0 or 1 that vectors should bring to 1
    each:      name -> (a wire, all values that vectors should bring it to)
    never:     a bit's or a bin's name -> why no vector can reach it
    """

    def __init__(self) -> None:
        self.nodes: list[Wire] = []
        self.reads: dict[str, Wire] = {}
        self.wires: dict[str, Wire] = {}
        self.gives: dict[str, Wire] = {}
        self.registers: dict[str, tuple[Wire, Wire]] = {}
        self.bins: dict[str, Wire] = {}
        self.each: dict[str, tuple[Wire, range]] = {}
        self.never: dict[str, str] = {}

    def value(self, value: Value) -> Wire:
        """A wire, or a constant as one."""
        if isinstance(value, Wire):
            return value
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise TypeError(f"a circuit computes in whole numbers and wires: {value!r} is neither")
        number = operator.index(value)
        return Wire(self, "number", number, (), (number, number))

    def op(self, op: str, a: Wire, b: Wire) -> Wire:
        """a op b, one of OPS."""
        if op in ("<<", ">>") and b.low < 0:
            raise ValueError(f"a shift by {b!r}, which can be negative")
        if a.kind == b.kind == "number":
            return self.value(int(OPS[op].of(a.at, b.at)))
        return Wire(self, "op", op, (a, b), OPS[op].range(a.range, b.range))

    def read(self, name: str, bits: int, signed: bool = True) -> Wire:
        """An in port."""
        if name in self.reads:
            raise ValueError(f"{name} is read twice: keep the wire of the first time")
        self.reads[name] = Wire(self, "read", None, (), span(bits, signed), name)
        return self.reads[name]

    def lanes(self, name: str, count: int, bits: int, signed: bool = True) -> list[Wire]:
        """An in port of lanes."""
        return [self.read(f"{name}[{i}]", bits, signed) for i in range(count)]

    def wire(self, name: str, value: Value, bits: int = 0, signed: bool = True) -> Wire:
        """A name for a value. With bits it is a promise that the value fits, which `run` holds it to."""
        inner = self.value(value)
        bounds = inner.range
        if bits:
            least, most = span(bits, signed)
            bounds = max(least, inner.low), min(most, inner.high)
        return self._named(Wire(self, "wire", None, (inner,), bounds, name))

    def cut(self, name: str, value: Value, bits: int, signed: bool = True) -> Wire:
        """The low bits of a value: what wraps does so here."""
        return self._named(Wire(self, "cut", (bits, signed), (self.value(value),), span(bits, signed), name))

    def _named(self, wire: Wire) -> Wire:
        plain = wire.name.translate(str.maketrans(".[]", "___"))
        if not (plain.isascii() and plain.isidentifier()):  # it stands in generated code
            raise ValueError(
                f"a wire has a name of letters, digits and _, as 'sum' or 'part[2]', not {wire.name!r}"
            )
        if wire.name in self.wires:
            raise ValueError(f"two wires are called {wire.name}")
        self.wires[wire.name] = wire
        return wire

    def select(self, choice: Wire, a: Value, b: Value) -> Wire:
        """a where choice is 1, else b."""
        if not isinstance(choice, Wire):
            raise TypeError(f"select chooses by a wire, not by {choice!r}: compare by <, >=, equals, differs")
        one, two = self.value(a), self.value(b)
        bounds = min(one.low, two.low), max(one.high, two.high)
        return Wire(self, "select", None, (choice, one, two), bounds)

    def length(self, a: Wire) -> Wire:
        """Bits of |a|: 0 of 0, else 1 + the place of its leading one."""
        return self.op("length", a, self.value(0))

    def all(self, choices: Iterable[Wire]) -> Wire:
        """1 where all are 1."""
        first, *rest = choices
        for one in rest:
            first = first & one
        return first

    def register(self, name: str, bits: int, signed: bool = True) -> Wire:
        """What `keep` gave it in the beat before; 0 after a reset."""
        return Wire(self, "register", None, (), span(bits, signed), name)

    def keep(self, register: Wire, value: Wire) -> None:
        """The register's value from the next beat on."""
        self.registers[register.name] = register, value

    def give(self, name: str, value: Value) -> Wire:
        """An out port."""
        self.gives[name] = self.value(value)
        return self.gives[name]

    def seen(self, name: str, choice: Wire) -> None:
        """A condition that vectors have to bring about."""
        self.bins[name] = choice

    def every(self, name: str, wire: Wire) -> None:
        """Vectors have to bring a wire to every value of its range."""
        self.each[name] = wire, range(wire.low, wire.high + 1)


# -- what a circuit means ------------------------------------------------------------------------


def run(circuit: Circuit, beats: Sequence[Mapping[str, int]]) -> list[dict[str, int]]:
    """All named wires and out ports of every beat, in order; each beat gives all in ports.

    OverflowError where a wire does not hold its value.
    """
    state = dict.fromkeys(circuit.registers, 0)
    out = []
    for beat in beats:
        values = one_beat(circuit, beat, state)
        out.append({name: values[wire.place] for name, wire in (circuit.wires | circuit.gives).items()})
        state = {name: values[after.place] for name, (_, after) in circuit.registers.items()}
    return out


def one_beat(circuit: Circuit, beat: Mapping[str, int], state: Mapping[str, int]) -> list[int]:
    """The value of every node."""
    values: list[int] = []
    for node in circuit.nodes:
        args = [values[arg.place] for arg in node.args]
        if node.kind == "number":
            made = node.at
        elif node.kind == "read":
            made = beat[node.name]
        elif node.kind == "register":
            made = state[node.name]
        elif node.kind == "op":
            made = int(OPS[node.at].of(*args))
        elif node.kind == "select":
            made = args[1] if args[0] else args[2]
        elif node.kind == "cut":
            made = cut(args[0], *node.at)
        else:
            made = args[0]
        if not node.low <= made <= node.high:
            what = node.name or node.kind
            raise OverflowError(f"{what} = {made} is not within {node.low}..{node.high}")
        values.append(made)
    return values
