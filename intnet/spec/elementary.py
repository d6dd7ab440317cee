"""exp, log, tanh, sigmoid, silu and normals: each a fixed sequence of IEEE 754 binary64 operations.

Python's floats are binary64 and its + - * / and `math.sqrt` are correctly rounded, so every line here is its
own definition; `frexp` and `ldexp` only take out and make powers of two. No other function of a library takes
part: their last bits differ between machines. Names ending in 64 take and give floats; those ending in 32
take a float32 as a Fraction, compute in binary64 and round once.

    exp     x = k ln 2 + r, |r| <= ln 2 / 2 (Cody and Waite 1980); e^r by the Taylor series of degree 13
    log     x = m 2^k, sqrt(1/2) < m <= sqrt 2; s = (m - 1)/(m + 1); ln m = 2 (s + s^3/3 + ... + s^23/23)
    tanh    |x| < 1/2: Lambert's continued fraction, cut after 17; else 1 - 2/(e^(2|x|) + 1)
    normal  the inverse normal distribution: algorithm AS 241 (Wichura 1988), PPND16
    sigmoid t = e^-|x|, r = 1/(1 + t): r for x >= 0, else t * r;  silu(x) = x sigmoid(x)

The sequences are intnet's own contract. Their errors are far below float32's, so that exp32, log32 and tanh32
are within 0.50001 units in the last place.

>>> exp64(0.0), log64(1.0), tanh64(20.0)
(1.0, 0.0, 1.0)
>>> abs(exp64(1.0) - 2.718281828459045) < 1e-15
True
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import factorial, frexp, inf, ldexp, sqrt

from intnet.spec.float32 import mul32, sub32, to_float32

LOG2_E = float.fromhex("0x1.71547652b82fep+0")
LN2_HI = float.fromhex("0x1.62e42feep-1")  # 32 bits: k * LN2_HI is exact for |k| < 2^21
LN2_LO = float.fromhex("0x1.a39ef35793c76p-33")
SQRT2 = float.fromhex("0x1.6a09e667f3bcdp+0")
TO_INTEGER = 1.5 * 2.0**52  # added and taken away, it rounds a magnitude below 2^51 to an integer


# As golden packs print them: every operation is one of binary64, rounded to nearest, ties to even.
_HORNER = "((c0 * u + c1) * u + c2) * u + ..."
SEQUENCES = {
    "exp": f"exp(x): 0 for x < -745.1332191019412, else k = (x * {LOG2_E.hex()} + T) - T, T = 1.5 * 2^52,"
    f" r = (x - k * {LN2_HI.hex()}) - k * {LN2_LO.hex()}, h = {_HORNER} with u = r and c = 1/13!, 1/12!, ...,"
    " 1/2!, p = ((h * r) * r + r) + 1, and (p * 2^a) * 2^(k - a), a = floor(k / 2)",
    "ln": f"ln(x): x = m * 2^k with {SQRT2.hex()} / 2 < m <= {SQRT2.hex()}, s = (m - 1) / (m + 1), z = s * s,"
    f" t = s + s, h = {_HORNER} with u = z and c = 1/23, 1/21, ..., 1/3, and"
    f" k * {LN2_HI.hex()} + (k * {LN2_LO.hex()} + (t + t * (z * h)))",
    "tanh": "tanh(x): for |x| < 1/2 z = x * x, d = 17, then d = n + z / d for n = 15, 13, ..., 1, and x / d;"
    " else with the sign of x 1 - 2 / (exp(|x| + |x|) + 1), from |x| = 20 on 1",
    "sigmoid": "sigmoid(x): t = exp(-|x|), of |x| > 708 that of 708, r = 1 / (1 + t), and r for x >= 0, else"
    " t * r",
    "silu": "silu(x) = x * sigmoid(x)",
    "slope": "slope(x) = s + (x * s) * q, s = sigmoid(x), q = sigmoid(-x) as t * r for x >= 0, else r",
}
SEQUENCES_OF = {  # which of them a layer takes
    "loss": ("exp", "ln"),
    "tanh": ("exp", "tanh"),
    "sigmoid": ("exp", "sigmoid"),
    "silu": ("exp", "sigmoid", "silu", "slope"),
}


def horner(coefficients: tuple[float, ...], x: float) -> float:
    """((c0 x + c1) x + c2) x + ..., each product and each sum rounded."""
    total = coefficients[0]
    for c in coefficients[1:]:
        total = total * x + c
    return total


# -- exp -------------------------------------------------------------------------------------------

_TAYLOR = tuple(1.0 / factorial(n) for n in range(13, 1, -1))  # 1/13!, ..., 1/2!


def _exp_parts(x: float) -> tuple[float, int]:
    """(e^r, k) of x = k ln 2 + r."""
    k = (x * LOG2_E + TO_INTEGER) - TO_INTEGER
    r = (x - k * LN2_HI) - k * LN2_LO
    return (horner(_TAYLOR, r) * r) * r + r + 1.0, int(k)


def exp64(x: float) -> float:
    """e^x; infinite above 709.78, 0 below -745.13. p * 2^k by two factors: only the last one may round."""
    if x > 709.782712893384:
        return inf
    if x < -745.1332191019412:
        return 0.0
    p, k = _exp_parts(x)
    return (p * ldexp(1.0, k // 2)) * ldexp(1.0, k - k // 2)


def decay64(x: float) -> float:
    """e^-|x| with the bits of `exp64`; from 708 on that of 708, so that it never is subnormal."""
    p, k = _exp_parts(max(-abs(x), -708.0))
    return p * ldexp(1.0, k)


# -- log -------------------------------------------------------------------------------------------

_ODD = tuple(1.0 / n for n in range(23, 1, -2))  # 1/23, 1/21, ..., 1/3


def log64(x: float) -> float:
    """ln x of x > 0; -inf at 0."""
    if x <= 0.0:
        if x < 0.0:
            raise ValueError(f"the logarithm of {x}")
        return -inf
    m, k = frexp(x)  # exact: 1/2 <= m < 1
    m, k = m * 2.0, k - 1
    if m > SQRT2:
        m, k = m * 0.5, k + 1
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    t = s + s
    return k * LN2_HI + (k * LN2_LO + (t + t * (z * horner(_ODD, z))))


# -- tanh ------------------------------------------------------------------------------------------


def tanh64(x: float) -> float:
    """tanh x."""
    size = abs(x)
    if size < 0.5:
        z = x * x
        d = 17.0
        for n in (15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0):
            d = n + z / d
        return x / d
    y = 1.0 - 2.0 / (exp64(size + size) + 1.0) if size < 20.0 else 1.0
    return y if x > 0.0 else -y


# -- sigmoid and its kin ---------------------------------------------------------------------------


def _logistic(x: float) -> tuple[float, float]:
    """(sigmoid(x), sigmoid(-x)): nothing cancels."""
    t = decay64(x)
    r = 1.0 / (1.0 + t)
    return (r, t * r) if x >= 0.0 else (t * r, r)


def sigmoid64(x: float) -> float:
    """1/(1 + e^-x)."""
    return _logistic(x)[0]


def silu64(x: float) -> float:
    """x sigmoid(x)."""
    return x * _logistic(x)[0]


def slope64(x: float) -> float:
    """The derivative of silu: s + x s (1 - s) with s = sigmoid(x), 1 - s = sigmoid(-x)."""
    s, q = _logistic(x)
    return s + (x * s) * q


# -- normals ---------------------------------------------------------------------------------------

# PPND16 of AS 241: numerator and denominator near the centre, and in the tail; highest power first.
_CENTRE = (
    (2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
     13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608),
    (5226.495278852854561, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
     5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0),
)  # fmt: skip
_TAIL = (
    (7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177, 1.27045825245236838258,
     3.64784832476320460504, 5.7694972214606914055, 4.6303378461565452959, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966, 0.14810397642748007459,
     0.68976733498510000455, 1.6763848301838038494, 2.05319162663775882187, 1.0),
)  # fmt: skip


def normal64(word: int) -> float:
    """The inverse normal distribution at (word + 1/2) / 2^32 of a 32-bit random word (AS 241, PPND16).

    Computed on the lower half and mirrored, so that `word` and 2^32 - 1 - word give exact negatives. Its far
    tail, below 1.4e-11, is never asked for: the least argument is 2^-33.

    >>> normal64(2**31 - 1) == -normal64(2**31), round(normal64(0), 12)
    (True, -6.337957754554)
    """
    lower = word < 2**31
    p = ((word if lower else 2**32 - 1 - word) + 0.5) / 2.0**32  # exact: 33 bits
    q = 0.5 - p
    if q <= 0.425:
        r = 0.180625 - q * q
        top, bottom = _CENTRE
        z = q * horner(top, r) / horner(bottom, r)
    else:
        r = sqrt(-log64(p)) - 1.6
        top, bottom = _TAIL
        z = horner(top, r) / horner(bottom, r)
    return -z if lower else z


# -- rounded to float32 ----------------------------------------------------------------------------


def _in_float32(function: Callable[[float], float], x: Fraction | int) -> Fraction:
    """function(x) in binary64, rounded once; a float32 is a binary64 exactly."""
    y = function(float(x))
    if abs(y) == inf:
        raise OverflowError(f"a function of {float(x)} is beyond float32")
    return to_float32(Fraction(y))


def exp32(x: Fraction | int) -> Fraction:
    """e^x of a float32."""
    return _in_float32(exp64, x)


def log32(x: Fraction | int) -> Fraction:
    """ln x of a float32 x > 0; OverflowError at 0."""
    return _in_float32(log64, x)


def tanh32(x: Fraction | int) -> Fraction:
    """tanh x of a float32."""
    return _in_float32(tanh64, x)


def sigmoid32(x: Fraction | int) -> Fraction:
    """sigmoid(x) of a float32."""
    return _in_float32(sigmoid64, x)


def silu32(x: Fraction | int) -> Fraction:
    """silu(x) of a float32."""
    return _in_float32(silu64, x)


def slope32(x: Fraction | int) -> Fraction:
    """The derivative of silu at a float32."""
    return _in_float32(slope64, x)


def tanh_error32(e: Fraction | int, y: Fraction | int) -> Fraction:
    """e (1 - y^2) of the error e and the stored output y: three float32 operations."""
    return mul32(e, sub32(1, mul32(y, y)))


def sigmoid_error32(e: Fraction | int, y: Fraction | int) -> Fraction:
    """e (y (1 - y)): three float32 operations."""
    return mul32(e, mul32(y, sub32(1, y)))


def silu_error32(e: Fraction | int, x: Fraction | int) -> Fraction:
    """e times the derivative at x: the product in binary64, then rounded to float32."""
    return to_float32(Fraction(float(e) * slope64(float(x))))
