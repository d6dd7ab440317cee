"""A circuit as a self-contained C99 model, with a header for C and for SystemVerilog's DPI-C.

    files("quantize_sq", circuit, parameters, formulas) -> {"quantize_sq_model.c": ..., ...}

One C statement a node, in the circuit's order. A value of up to 63 bits is an int64_t; a wider one is a
`wide`, an array of 32-bit limbs in two's complement, as long as the circuit's widest value needs. No step of
it is undefined or left to a compiler: numbers are shifted as unsigned ones, and to the right by division's
floor; nothing overflows, as the range of every node is known. It needs no library.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from intnet.errors import PackError
from intnet.packs.circuits.fast import needed
from intnet.packs.hdl.names import KEYWORDS
from intnet.spec.wires import Circuit, Wire

FAR = 1 << 63  # above int64_t
NARROW = 63  # bits that an int64_t holds with room for a sign
LIMB = 32
WIDE = """
/* Whole numbers of LIMBS * 32 bits, two's complement, the lowest limb first. */
typedef struct { uint32_t limb[LIMBS]; } wide;

static wide wide_of(int64_t value) {
  wide out;
  uint64_t bits = (uint64_t)value;
  uint32_t above = value < 0 ? 0xffffffffu : 0u;
  for (int i = 0; i < LIMBS; i++) out.limb[i] = i < 2 ? (uint32_t)(bits >> (32 * i)) : above;
  return out;
}
static int wide_negative(wide a) { return (int)(a.limb[LIMBS - 1] >> 31); }
static int64_t wide_low(wide a) {  /* of one that fits */
  uint64_t bits = (uint64_t)a.limb[1] << 32 | a.limb[0];
  return bits >> 63 ? -(int64_t)(~bits) - 1 : (int64_t)bits;
}
static wide wide_add(wide a, wide b) {
  uint64_t carry = 0;
  for (int i = 0; i < LIMBS; i++) {
    carry += (uint64_t)a.limb[i] + b.limb[i];
    a.limb[i] = (uint32_t)carry;
    carry >>= 32;
  }
  return a;
}
static wide wide_invert(wide a) {
  for (int i = 0; i < LIMBS; i++) a.limb[i] = ~a.limb[i];
  return a;
}
static wide wide_sub(wide a, wide b) { return wide_add(wide_add(a, wide_invert(b)), wide_of(1)); }
static wide wide_mul(wide a, wide b) {  /* the low limbs: of two's complement they are those of the product */
  wide out = wide_of(0);
  for (int i = 0; i < LIMBS; i++) {
    uint64_t carry = 0;
    for (int j = 0; i + j < LIMBS; j++) {
      carry += (uint64_t)a.limb[i] * b.limb[j] + out.limb[i + j];
      out.limb[i + j] = (uint32_t)carry;
      carry >>= 32;
    }
  }
  return out;
}
static wide wide_left(wide a, int64_t by) {
  wide out = wide_of(0);
  int limbs = (int)(by / 32), bits = (int)(by % 32);
  for (int i = LIMBS - 1; i >= limbs; i--) {
    uint64_t pair = (uint64_t)a.limb[i - limbs] << 32 | (i > limbs ? a.limb[i - limbs - 1] : 0u);
    out.limb[i] = (uint32_t)(pair >> (32 - bits));
  }
  return out;
}
static wide wide_right(wide a, int64_t by) {
  uint32_t fill = wide_negative(a) ? 0xffffffffu : 0u;
  int64_t limbs = by / 32, bits = by % 32;
  wide out;
  for (int i = 0; i < LIMBS; i++) {
    uint32_t low = i + limbs < LIMBS ? a.limb[i + limbs] : fill;
    uint32_t high = i + limbs + 1 < LIMBS ? a.limb[i + limbs + 1] : fill;
    out.limb[i] = (uint32_t)(((uint64_t)high << 32 | low) >> bits);
  }
  return out;
}
static wide wide_and(wide a, wide b) {
  for (int i = 0; i < LIMBS; i++) a.limb[i] &= b.limb[i];
  return a;
}
static wide wide_or(wide a, wide b) {
  for (int i = 0; i < LIMBS; i++) a.limb[i] |= b.limb[i];
  return a;
}
static wide wide_xor(wide a, wide b) {
  for (int i = 0; i < LIMBS; i++) a.limb[i] ^= b.limb[i];
  return a;
}
static int wide_less(wide a, wide b) {
  if (wide_negative(a) != wide_negative(b)) return wide_negative(a);
  for (int i = LIMBS - 1; i >= 0; i--)
    if (a.limb[i] != b.limb[i]) return a.limb[i] < b.limb[i];
  return 0;
}
static int wide_equal(wide a, wide b) {
  for (int i = 0; i < LIMBS; i++)
    if (a.limb[i] != b.limb[i]) return 0;
  return 1;
}
static int64_t wide_length(wide a) {  /* bits of |a| */
  int64_t count = 0;
  if (wide_negative(a)) a = wide_sub(wide_of(0), a);
  for (int i = 0; i < LIMBS; i++)
    for (int bit = 0; bit < 32; bit++)
      if (a.limb[i] >> bit & 1u) count = 32 * i + bit + 1;
  return count;
}
"""
SMALL = """
static int64_t left(int64_t a, int64_t by) { /* fits: the range is known; by up to 63 */
  uint64_t bits = by > 63 ? 0u : (uint64_t)a << by;
  return bits >> 63 ? -(int64_t)(~bits) - 1 : (int64_t)bits;
}
static int64_t right(int64_t a, int64_t by) { /* floor(a / 2^by) */
  if (by > 63) by = 63;
  return a < 0 ? ~(~a >> by) : a >> by;
}
static int64_t length(int64_t a) { /* bits of |a| */
  int64_t count = 0;
  for (uint64_t left_ = a < 0 ? (uint64_t)(-(a + 1)) + 1u : (uint64_t)a; left_; left_ >>= 1) count++;
  return count;
}
static int64_t low_bits(int64_t a, int bits, int is_signed) {
  uint64_t kept = (uint64_t)a & (((uint64_t)1 << bits) - 1u);
  int64_t half = (int64_t)1 << (bits - 1);
  if (is_signed && kept >> (bits - 1)) return (int64_t)kept - half - half;
  return (int64_t)kept;
}
"""
OPS = {"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor"}


def is_wide(node: Wire) -> bool:
    """Whether a value does not fit an int64_t with room for one bit more."""
    return node.bits > NARROW


def c_name(name: str) -> str:
    """A wire's name in C."""
    return "".join(ch if ch.isalnum() else "_" for ch in name).rstrip("_")


class Writer:
    """The statements of a circuit."""

    def __init__(self, circuit: Circuit) -> None:
        self.circuit = circuit
        self.nodes = needed(circuit, circuit.gives.values())
        self.has_wide = any(is_wide(node) for node in self.nodes)
        most = max(node.bits for node in self.nodes)
        self.limbs = -(-(most + 1) // LIMB)

    def name(self, node: Wire) -> str:
        """What stands for a value: small numbers are written where they are used."""
        return f"INT64_C({node.at})" if node.kind == "number" and not is_wide(node) else f"v{node.place}"

    def wide(self, node: Wire) -> str:
        """A value as a `wide`."""
        return self.name(node) if is_wide(node) else f"wide_of({self.name(node)})"

    def statement(self, node: Wire) -> str:
        """One node."""
        kind, comment = ("wide" if is_wide(node) else "int64_t"), f"  /* {node.name} */" if node.name else ""
        return f"  const {kind} v{node.place} = {self.value(node)};{comment}"

    def value(self, node: Wire) -> str:
        """The expression of a node."""
        if node.kind == "number":
            return self._wide_number(node.at)
        if node.kind in ("read", "register"):
            held = f"{'in' if node.kind == 'read' else 'state'}->{c_name(node.name)}"
            return f"wide_of({held})" if node.kind == "read" and is_wide(node) else held
        if node.kind == "select":
            choice, one, two = node.args
            sides = [self.wide(arg) if is_wide(node) else self.name(arg) for arg in (one, two)]
            return f"{self.name(choice)} ? {sides[0]} : {sides[1]}"
        if node.kind == "wire":
            return self.wide(node.args[0]) if is_wide(node) else self.narrow(node.args[0])
        if node.kind == "cut":
            return self._cut(node)
        return self._op(node)

    def _wide_number(self, value: int) -> str:
        low = value & (1 << LIMB * self.limbs) - 1
        limbs = ", ".join(f"0x{low >> LIMB * i & 0xFFFFFFFF:08x}u" for i in range(self.limbs))
        return f"{{{{{limbs}}}}}"

    def narrow(self, node: Wire) -> str:
        """A value as an int64_t, which it fits."""
        return f"wide_low({self.name(node)})" if is_wide(node) else self.name(node)

    def promises(self) -> list[str]:
        """That wires which are narrower than what they are given hold it."""
        told = []
        for node in self.nodes:
            arg = node.args[0] if node.kind == "wire" else node
            if arg.range == node.range:
                continue
            value = self.name(arg)
            if is_wide(arg):
                low, high = (f"(wide){self._wide_number(end)}" for end in node.range)
                told.append(f"!wide_less({value}, {low}) && !wide_less({high}, {value})")
            else:
                told.append(f"{value} >= INT64_C({node.low}) && {value} <= INT64_C({node.high})")
        return told

    def _cut(self, node: Wire) -> str:
        bits, signed = node.at
        arg = node.args[0]
        text = self.name(arg)
        if is_wide(arg):
            text = f"wide_low(wide_and({text}, wide_of({(1 << bits) - 1})))"
        return f"low_bits({text}, {bits}, {int(signed)})"

    def _op(self, node: Wire) -> str:
        a, b = node.args
        if is_wide(node) or is_wide(a) or (is_wide(b) and node.at not in ("<<", ">>")):
            return self._wide_op(node, a, b)
        if node.at == "<<":
            return f"left({self.name(a)}, {self.name(b)})"
        if node.at == ">>":
            return f"right({self.name(a)}, {self.name(b)})"
        if node.at == "length":
            return f"length({self.name(a)})"
        return f"{self.name(a)} {node.at} {self.name(b)}"

    def _wide_op(self, node: Wire, a: Wire, b: Wire) -> str:
        one, two = self.wide(a), self.wide(b)
        truth = {
            "<": f"wide_less({one}, {two})",
            "<=": f"!wide_less({two}, {one})",
            "==": f"wide_equal({one}, {two})",
            "!=": f"!wide_equal({one}, {two})",
            "length": f"wide_length({one})",
        }
        if node.at in truth:
            return truth[node.at]
        if node.at in ("<<", ">>"):
            text = f"wide_{'left' if node.at == '<<' else 'right'}({one}, {self.name(b)})"
        else:
            text = f"wide_{OPS[node.at]}({one}, {two})"
        return text if is_wide(node) else f"wide_low({text})"


def used_helpers(body: str, helpers: str) -> str:
    """Those of `helpers` that a body needs, and those that these need: what is not used is a warning."""
    blocks = [
        block
        for block in ("\n" + helpers.strip()).replace("\nstatic", "\0static").split("\0")
        if block.strip()
    ]
    kept: list[str] = []
    for block in reversed(blocks):
        name = block.split("(")[0].split()[-1] if block.startswith("static") else ""
        called = re.compile(rf"(?<!\w){name}\(")
        if not name or any(called.search(other) for other in (body, *kept)):
            kept.insert(0, block.strip("\n"))
    return "\n".join(kept)


def text(name: str, circuit: Circuit, title: str) -> str:
    """NAME_model.c."""
    writer = Writer(circuit)
    told = [node for node in writer.nodes if node.kind != "number" or is_wide(node)]
    lines = [writer.statement(node) for node in told]
    lines += [f"  out->{c_name(port)} = {writer.narrow(wire)};" for port, wire in circuit.gives.items()]
    lines.append(f"  out->holds = {' && '.join(writer.promises()) or '1'};")
    after = [
        f"  state->{c_name(r)} = {writer.wide(wire) if is_wide(before) else writer.narrow(wire)};"
        for r, (before, wire) in circuit.registers.items()
    ]
    registers = [
        f"  state->{c_name(r)} = {'wide_of(0)' if is_wide(before) else '0'};"
        for r, (before, _) in circuit.registers.items()
    ]
    body = "\n".join([*lines, *after, *registers])
    helpers = used_helpers(body, WIDE) if writer.has_wide else ""
    state = [
        f"  {'wide' if is_wide(b) else 'int64_t'} {c_name(r)};" for r, (b, _) in circuit.registers.items()
    ]
    limbs = f"#define LIMBS {writer.limbs}\n" if writer.has_wide else ""
    return f"""\
/* {title}
 *
 * Generated by intnet from its definition of the unit (intnet.spec.units): do not edit. C99, no library. */
#include <stdint.h>
#include "{name}_model.h"
{limbs}{helpers}
{used_helpers(body, SMALL)}

struct {name}_state {{
{chr(10).join(state) or "  int64_t nothing;"}
}};
static struct {name}_state states[{name.upper()}_STATES];

void {name}_reset(int which) {{
  struct {name}_state *state = &states[which];
{chr(10).join(registers) or "  state->nothing = 0;"}
}}

void {name}_beat(int which, const struct {name}_in *in, struct {name}_out *out) {{
  struct {name}_state *state = &states[which];
{chr(10).join(lines)}
{chr(10).join(after) or "  (void)state;"}
}}
"""


def header(name: str, circuit: Circuit) -> str:
    """NAME_model.h."""
    ins = "\n".join(f"  int64_t {c_name(port)};" for port in circuit.reads)
    outs = "\n".join(f"  int64_t {c_name(port)};" for port in [*circuit.gives, "holds"])
    return f"""\
/* The unit {name}: one call a beat. Generated by intnet: do not edit.
 *
 *   {name}_reset(0);                       the registers of state 0; {name.upper()}_STATES there are
 *   {name}_beat(0, &in, &out);             the out ports that a beat gives; of vectors those at `last` count
 *
 * Every in port is a whole number within its bits: of a signed port a negative one is just that. holds is 0
 * where a sum does not fit the bits that the unit has for it: the definition then says nothing of the vector.
 */
#ifndef {name.upper()}_MODEL_H
#define {name.upper()}_MODEL_H
#include <stdint.h>
#define {name.upper()}_STATES 64
#ifdef __cplusplus
extern "C" {{
#endif
struct {name}_in {{
{ins}
}};
struct {name}_out {{
{outs}
}};
void {name}_reset(int which);
void {name}_beat(int which, const struct {name}_in *in, struct {name}_out *out);
#ifdef __cplusplus
}}
#endif
#endif
"""


def main_text(name: str, circuit: Circuit) -> str:
    """NAME_run.c: in ports from standard input, a line a beat, out ports to standard output."""
    reads = [c_name(port) for port in circuit.reads]
    gives = [c_name(port) for port in circuit.gives]
    scan = " ".join("%" + '" SCNd64 "' for _ in reads)
    print_ = " ".join("%" + '" PRId64 "' for _ in gives)
    return f"""\
/* Runs the model on lines of in ports ({", ".join(reads)}), whole numbers; a line of out ports a beat. */
#include <inttypes.h>
#include <stdio.h>
#include "{name}_model.h"

int main(void) {{
  struct {name}_in in;
  struct {name}_out out;
  {name}_reset(0);
  while (scanf("{scan}", {", ".join(f"&in.{port}" for port in reads)}) == {len(reads)}) {{
    {name}_beat(0, &in, &out);
    printf("{print_}\\n", {", ".join(f"out.{port}" for port in gives)});
  }}
  return 0;
}}
"""


def _check(name: str, circuit: Circuit) -> None:
    """PackError where a circuit does not go into C, whose ports are int64_t."""
    for port, wire in [*circuit.reads.items(), *circuit.gives.items()]:
        if not -FAR <= wire.low <= wire.high < FAR:
            raise PackError(f"{name}: port {port} holds {wire.low}..{wire.high}: the C model's are int64_t")
    for node in needed(circuit, circuit.gives.values()):
        if node.kind == "cut" and is_wide(node):
            raise PackError(f"{name}: {node.name} wraps at {node.bits} bits: in the C model at most {NARROW}")
    for names in (circuit.reads, [*circuit.gives, "holds"], circuit.registers):
        made = [c_name(one) for one in names]
        odd = [one for one in made if made.count(one) > 1 or one in KEYWORDS or not one[:1].isalpha()]
        if odd:
            raise PackError(f"{name}: the names {', '.join(names)} are not as many of C's: {odd[0]!r}")


def files(
    name: str, circuit: Circuit, parameters: Mapping[str, Any], formula: Sequence[str]
) -> dict[str, str]:
    """Name -> text of the model's files; PackError for ports and names that C has not."""
    _check(name, circuit)
    told = ", ".join(f"{key}={value}" for key, value in parameters.items())
    title = f"{name} with {told}\n * " + "\n * ".join(formula)
    return {
        f"{name}_model.c": text(name, circuit, title),
        f"{name}_model.h": header(name, circuit),
        f"{name}_run.c": main_text(name, circuit),
    }
