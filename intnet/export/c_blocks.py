"""Blocks of four channels as C99: statements of `Blocks` and `BlockProduct` of `block_ops.py`, their helpers.

Codes are int8_t, the exponents of their units int16_t a block, above the least that there may be. A sum is
kept as digits of 2^10, as `digits.py` has it: products of a block are added up in 32 bits, and shifted to the
digit that their exponents name. Everything is integers, until `rounded` makes a float of the digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from intnet.exact.blocks.block_loops import LEAST, SIDE
from intnet.export import digits
from intnet.export.block_ops import BlockProduct, blocks_of
from intnet.export.digits import CODE, DIGIT, ENOUGH
from intnet.export.values import FLOAT32, Value

HELPERS = {
    "blocked(": f"""\
/* Codes of a block, b bits each; the exponent of their unit above the least one, of zeros 0. */
static int16_t blocked(const float *x, int size, int b, int least, int8_t *codes) {{
  const int limit = b == 0 ? 0 : (1 << (b - 1)) - 1;
  double power = 1, per;
  float top = 0;
  int e = 0;
  for (int i = 0; i < size; i++) {{
    if (x[i] > top) top = x[i];
    if (-x[i] > top) top = -x[i];
    codes[i] = 0;
  }}
  for (; top >= power; e++) power *= 2;
  for (; e > {LEAST} && top > 0 && top < power / 2; e--) power /= 2;
  if (b == 0 || top < power / 2) return 0;
  per = two_to(b - 1 - e);
  for (int i = 0; i < size; i++) {{
    const int64_t v = nearest((double)x[i] * per);
    codes[i] = (int8_t)(v > limit ? limit : v < -limit ? -limit : v);
  }}
  return (int16_t)(e - b + 1 - least);
}}
""",
    "rounded(": f"""\
/* The sum of n digits of 2^{DIGIT}, the lowest in units of 2^exponent, rounded once. */
static float rounded(int64_t *digits, int n, int exponent) {{
  int64_t v = 0;
  int odd = 0, at = n;
  for (int k = 0; k < n; k++) {{
    const int64_t sum = v + digits[k];
    digits[k] = (sum % {1 << DIGIT} + {1 << DIGIT}) % {1 << DIGIT};
    v = (sum - digits[k]) / {1 << DIGIT};
  }}
  for (int k = n - 1; k >= 0; k--) {{
    if (v > -{ENOUGH} && v < {ENOUGH}) {{
      v = v * {1 << DIGIT} + digits[k];
      at = k;
    }} else {{
      odd |= digits[k] != 0;
    }}
  }}
  return (float)((double)(2 * v + odd) * two_to(exponent - 1 + {DIGIT} * at));
}}
""",
}


def blocks(value: Value, read: Value, source: str, bits: str, codes: str, units: str) -> list[str]:
    """Block k after the other; bits: an expression of its width."""
    channels, each = value.shape[-1], blocks_of(value.shape)[-1]
    number = f"{source}[first + c]"
    if read.form != FLOAT32:
        number = f"(float)((double){number} * two_to({read.exponent}))"
    return [
        f"  for (int k = 0; k < {prod(blocks_of(value.shape))}; k++) {{",
        f"    const int first = k / {each} * {channels} + k % {each} * {SIDE};",
        f"    const int rest = (k / {each} + 1) * {channels} - first, size = rest < {SIDE} ? rest : {SIDE};",
        f"    float x[{SIDE}];",
        f"    for (int c = 0; c < size; c++) x[c] = {number};",
        f"    {units}[k] = blocked(x, size, {bits}, {value.exponent}, &{codes}[first]);",
        "  }",
    ]


def product(
    op: BlockProduct, value: Value, read: Value, arrays: Sequence[str], wide: int, window: Sequence[str]
) -> list[str]:
    """Statements that set v, a float, for channel i at a place of the image.

    arrays: names of codes and units of what is read, and of codes and steps of weights, channels last; wide:
    bits of a step; window: loops over places, else a row is read. Blocks of groups begin anywhere: theirs are
    taken element by element.
    """
    codes, units, weights, steps = arrays
    outs, ins = op.weight.shape[:2]
    count, held = -(-ins // SIDE), blocks_of(read.shape)[-1]
    tap = pixel = "0"
    if window:
        tap, pixel = f"(ky * {op.kernel[1]} + kx)", f"(r * {read.shape[1]} + s)"
    taps, run, at = prod(op.kernel), SIDE, ("k", "k")
    first = f"i / {outs // op.groups} * {ins}"
    if op.groups > 1:
        run, count, at = 1, ins, (f"({first} + k) / {SIDE}", f"k / {SIDE}")
    top = int(op.steps.max()) + digits.count(read.reach, read.exponent) * DIGIT + CODE
    size = top // DIGIT + 1
    return [
        f"int64_t digits[{size}] = {{0}};",
        *(window or ["  {"]),
        f"    const int8_t *at = &{codes}[{pixel} * {read.shape[-1]} + {first if op.groups > 1 else 0}];",
        f"    const int16_t *at_up = &{units}[{pixel} * {held}];",
        f"    const int8_t *by = &{weights}[(i * {taps} + {tap}) * {ins}];",
        f"    const int{wide}_t *by_up = &{steps}[(i / {SIDE} * {taps} + {tap}) * {-(-ins // SIDE)}];",
        f"    for (int k = 0; k < {count}; k++) {{",
        f"      const int up = at_up[{at[0]}] + by_up[{at[1]}];",
        "      int sum = 0;",
        f"      for (int c = {run} * k; c < {run} * k + {run} && c < {ins}; c++) sum += at[c] * by[c];",
        f"      digits[up / {DIGIT}] += (int64_t)sum * (1 << up % {DIGIT});",
        "    }",
        "  }",
        f"float v = rounded(digits, {size}, {read.exponent + op.exponent});",
    ]
