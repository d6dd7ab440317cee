"""Block float by the image as C99: the statements of `program.Scaled` and `program.Norm`, and their helpers.

Each goes twice over what it reads: for the extremes, which choose the step, and for the codes. Its exponent
is an int, e_PLACE. How terms meet whose exponents are far apart is told in `block_float.py`. Float32 stands
in `normed`, an operation after the other: `volatile` keeps compilers from joining a product and a sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from intnet.export import program as p
from intnet.export.values import Value

HELPERS = {
    "step_of(": """\
/* Whether a > t 2^j. */
static int beyond(int64_t a, int64_t t, int j) {
  return j < 0 ? a > t >> -j : a > 0 && (a - 1) >> j >= t;
}

/* j + 1 of the least j with top <= above 2^j and -low <= below 2^j. */
static int step_of(int64_t top, int64_t low, int64_t above, int64_t below) {
  int j = 0;
  if (top == 0 && low == 0) return 0;
  while (beyond(top, above, j) || beyond(-low, below, j)) j++;
  while (!beyond(top, above, j - 1) && !beyond(-low, below, j - 1)) j--;
  return j + 1;
}
""",
    "in_steps(": """\
/* v / 2^n to nearest, ties to even, n from 0 to 62. */
static int64_t in_steps(int64_t v, int n) {
  const uint64_t u = (uint64_t)v + ((uint64_t)1 << 63), rest = u & (((uint64_t)1 << n) - 1);
  const uint64_t half = ((uint64_t)1 << n) >> 1;
  const int64_t floor = n == 0 ? v : (int64_t)(u >> n) - ((int64_t)1 << (63 - n));
  return floor + (rest > half || (n > 0 && rest == half && floor % 2 != 0));
}
""",
    "raised(": """\
static int least(int a, int b) {
  return a < b ? a : b;
}

/* v 2^by; of by < 0 its floor, made odd where that is not exact. */
static int64_t raised(int64_t v, int by) {
  int64_t d = (int64_t)1 << least(by < 0 ? -by : by, 62), q = v / d;
  if (by >= 0) return v * d;
  if (v % d < 0) q -= 1;
  return q + (v % d != 0 && q % 2 == 0);
}
""",
    "two_to(": """\
static double two_to(int e) {
  double power = 1;
  for (; e > 0; e--) power *= 2;
  for (; e < 0 && power > 0; e++) power /= 2;
  return power;
}
""",
    "normed(": """\
/* ((x - mean) r) gamma + beta. */
static float normed(double x, float mean, float r, float gamma, float beta) {
  volatile float product = ((float)x - mean) * r * gamma;
  return product + beta;
}
""",
    "float_step(": """\
/* The least e with top <= above 2^(e-1) and -low <= below 2^(e-1). */
static int float_step(float top, float low, double above, double below) {
  int e = 0;
  double half = 0.5;
  if (top == 0 && low == 0) return 0;
  for (; top > above * half || -low > below * half; e++) half *= 2;
  for (; top <= above * half / 2 && -low <= below * half / 2; e--) half /= 2;
  return e;
}
""",
    "nearest(": """\
/* To nearest, ties to even. */
static int64_t nearest(double x) {
  int64_t n = (int64_t)x;
  double rest = x - (double)n;
  if (rest > 0.5 || (rest == 0.5 && n % 2 != 0)) return n + 1;
  return rest < -0.5 || (rest == -0.5 && n % 2 != 0) ? n - 1 : n;
}
""",
}


class Source(NamedTuple):
    """An array of what an operation reads, or of its constants.

    each: how many there are, one an element or one a channel; exponent: an expression
    """

    name: str
    each: int
    exponent: str

    def at(self, size: int) -> str:
        """An element: i, or of the channel c."""
        return f"{self.name}[i]" if self.each == size else f"{self.name}[c]"


def scaled(
    op: p.Scaled, place: int, read: Sequence[Value], size: int, terms: Sequence[Source], store: Sequence[str]
) -> list[str]:
    """store: what becomes of a code v of the element i."""
    made, total = [], f"{terms[0].at(size)}"
    shared = terms[0].exponent
    if len(terms) == 2:
        rooms, shared = op.rooms(*read), "live_x ? e_x - by_x : e_y - by_y"
        total = f"raised({terms[0].at(size)}, by_x) + raised({terms[1].at(size)}, by_y)"
        for name, term in zip("xy", terms, strict=True):
            made += [f"const int e_{name} = {term.exponent};", f"int live_{name} = 0;"]
            made += [f"for (int i = 0; i < {term.each}; i++) live_{name} |= {term.name}[i] != 0;"]
        made += [
            "const int apart = live_x && live_y ? e_x - e_y : 0;",
            f"const int by_x = apart > 0 ? least(apart, {rooms[0]}) : least(-apart, {rooms[1]}) + apart;",
            "const int by_y = by_x - apart;",
        ]
    sums = [f"int64_t v = {total};", *(["if (v < 0) v = 0;"] if op.rectified else [])]
    ends = [f"INT64_C({((1 << op.wl) + sign) * op.den})" for sign in (-1, 1)]
    channels = terms[-1].each
    divided: tuple[list[str], str]
    if op.den == 1:
        divided = [], "v = in_steps(v * num, step > 0 ? step : 0);"
    else:
        den = f"const int64_t den = INT64_C({op.den}) * ((int64_t)1 << (step > 0 ? step : 0));"
        divided = [den], "v = divide(v * num, den);"
    codes = [*sums, divided[1], *_within(op.wl), *store]
    return _block(
        place,
        [
            *made, "int64_t top = 0, low = 0;",
            *_loop(size, channels, [*sums, "if (v > top) top = v;", "if (v < low) low = v;"]),
            f"const int step = step_of(top, low, {', '.join(ends)});",
            "const int64_t num = (int64_t)1 << (step < 0 ? -step : 0);",
            *divided[0], *_chosen(op.wl, place, shared, " + step"), *_loop(size, channels, codes),
        ],
    )  # fmt: skip


def norm(
    op: p.Norm, place: int, size: int, x: Source, constants: Sequence[str], store: Sequence[str]
) -> list[str]:
    """As `scaled`; constants: names of mean, r, gamma and beta."""
    of_channel, channels = ", ".join(f"{name}[c]" for name in constants), len(op.mean)
    if channels == size:
        of_channel = of_channel.replace("[c]", "[i]")
    value = f"const float x3 = normed((double){x.at(size)} * unit, {of_channel});"
    ends = ", ".join(str((1 << op.wl) + sign) for sign in (-1, 1))
    codes = [value, "int64_t v = nearest((double)x3 * per);", *_within(op.wl), *store]
    return _block(
        place,
        [
            f"const double unit = two_to({x.exponent});",
            "float top = 0, low = 0;",
            *_loop(size, channels, [value, "if (x3 > top) top = x3;", "if (x3 < low) low = x3;"]),
            f"const int step = float_step(top, low, {ends});",
            "const double per = two_to(-step);",
            *_chosen(op.wl, place, "step"), *_loop(size, channels, codes),
        ],
    )  # fmt: skip


def _chosen(wl: int, place: int, exponent: str, more: str = "") -> list[str]:
    found = f"({exponent}){more}" if more else exponent
    return [f"e_{place} = top > 0 || low < 0 ? {found} : {2 - wl};"]


def _within(wl: int) -> list[str]:
    half = 1 << wl - 1
    return [f"if (v < -{half}) v = -{half};", f"if (v > {half - 1}) v = {half - 1};"]


def _loop(size: int, channels: int, lines: Sequence[str]) -> list[str]:
    """Over elements i, and over channels c where they are fewer."""
    head = f"for (int i = 0; i < {size}; i++) {{"
    if channels < size:
        head = f"for (int i = 0, c = 0; i < {size}; i++, c = c + 1 < {channels} ? c + 1 : 0) {{"
    return [head, *(f"  {line}" for line in lines), "}"]


def _block(place: int, lines: Sequence[str]) -> list[str]:
    return [f"  int e_{place};", "  {", *(f"    {line}" for line in lines), "  }"]
