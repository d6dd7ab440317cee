"""What stands around a program in C: what the file says of itself, and a main function to test it with.

With -DINTNET_MAIN the file is a program that reads images from standard input and prints a line of logits
each, codes or float32 in nine digits, which tell every one; after them the exponent where it is the image's.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from math import prod

from intnet.export import program as p
from intnet.export.program import Program
from intnet.export.values import FLOAT32
from intnet.packs.hdl.text import identifier

INTEGERS = """\
#if INT_MAX < 2147483647
#error "int of 32 bits is wanted: values of 16 would overflow where C widens them to int"
#endif
"""
FLOATS = """\
#if FLT_MANT_DIG != 24 || DBL_MANT_DIG != 53
#error "float and double of IEEE 754 are wanted, of 32 and 64 bits"
#endif
#if FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16
#error "float32 is one rounding an operation: choose an FPU that computes in it"
#endif
"""
MAIN = """\
#ifdef INTNET_MAIN
/* Reads images, %(size)d codes each of %(bytes)d little-endian byte(s); prints a line of %(what)s each
   %(more)s*/
#include <stdio.h>
int main(void) {
  static %(image)s image[%(size)d];
  %(logits)s logits[%(classes)d];
  unsigned char raw[%(bytes)d];
  for (;;) {
    for (int i = 0; i < %(size)d; i++) {
      if (fread(raw, 1, sizeof raw, stdin) != sizeof raw) return i != 0;
      uint32_t bits = 0;
      for (int k = 0; k < %(bytes)d; k++) bits |= (uint32_t)raw[k] << (8 * k);
      image[i] = %(code)s;
    }
    %(call)s;
    for (int i = 0; i < %(classes)d; i++) printf(i ? " %(print)s" : "%(print)s", %(number)slogits[i]);
    %(end)s
  }
}
#endif
"""


def identifiers(text: str) -> Iterator[str]:
    """That of a text, and then it with _2, _3, ... for where others have it."""
    base = identifier(text)
    yield base
    yield from (f"{base}_{k}" for k in count(2))


def header(program: Program, constants: int, memory: int) -> Iterator[str]:
    """Lines ahead of all arrays; constants, memory: bytes that they take."""
    shape = program.images.shape
    yield f"/* {program.title}"
    yield ""
    sides, value = " x ".join(map(str, shape)), "value = code * 2^"
    ends = f"of {program.images.lo}..{program.images.hi}"
    yield f"   image   {sides} codes {ends} (rows, columns, channels), {value}({program.images.exponent})"
    own, real = program.logits.scale is not None, program.logits.form == FLOAT32
    floats = real or any(isinstance(op, p.Norm) for op in program.ops)
    by = "(what intnet_run returns)" if own else f"({program.logits.exponent})"
    yield f"   logits  {prod(program.logits.shape)} {'float32' if real else f'codes, {value}{by}'}"
    yield f"   memory  {memory} bytes of static memory beside {constants} bytes of constants"
    kinds = "float32 in batch norm, else integers" if floats else "integers alone"
    kinds = "products of integers, float32 between them" if real else kinds
    yield f"   C99, {kinds}; not reentrant. -DINTNET_MAIN makes it a program. */"
    if floats:
        yield "#include <float.h>"
    yield "#include <limits.h>"
    yield "#include <stdint.h>"
    yield ""
    yield f"#define INTNET_CLASSES {prod(program.logits.shape)}"
    if not own and not real:
        yield f"#define INTNET_EXPONENT ({program.logits.exponent})"
    yield ""
    yield INTEGERS
    if floats:
        yield FLOATS


def main(program: Program, image: str, bits: int, logits: str) -> str:
    """The program; image, logits: types of their elements, bits: of an image's."""
    code = f"({image})bits"
    if not image.startswith("u"):
        half = 1 << bits - 1
        below = f"({image})(-(int32_t)({half - 1}u - (bits - {half}u)) - 1)"
        code = f"bits >= {half}u ? {below} : {code}"
    own, real = program.logits.scale is not None, logits == "float"
    return MAIN % {
        "call": "const int exponent = intnet_run(image, logits)" if own else "intnet_run(image, logits)",
        "end": 'printf(" %d\\n", exponent);' if own else 'printf("\\n");',
        "more": "behind which its exponent is. " if own else "",
        "what": "numbers" if real else "codes", "logits": logits,
        "print": "%.9g" if real else "%lld", "number": "(double)" if real else "(long long)",
        "size": prod(program.images.shape), "classes": prod(program.logits.shape), "bytes": bits // 8,
        "image": image, "code": code,
    }  # fmt: skip
