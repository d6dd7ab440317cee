"""Float paths with the same bits on every machine: fused multiply-add, exp, log, tanh, sqrt, normals.

Everything here is a fixed sequence of IEEE 754 operations (+ - * / sqrt, each rounded to nearest,
ties to even): no libm, no NumPy transcendental, no reordering, no multiply-add that the source
does not name. Scalar rules come first (callable from kernels), then the functions over arrays.
Read next: `intnet/ops/kernels/float_products.py`, the products and convolutions built on `fma32`
(`intnet/machine/instructions.py`).
"""

import math

import numpy as np
from numpy.typing import NDArray

from intnet.errors import FormatError, NumberError, ShapeError
from intnet.machine.instructions import fma32
from intnet.machine.jit import inlined, njit, pjit, prange, rule

__all__ = [
    "check_finite",
    "decay64",
    "exp",
    "exp32",
    "exp64",
    "fma",
    "log",
    "log32",
    "log64",
    "normal",
    "sqrt",
    "tanh",
    "tanh32",
    "tanh64",
]

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

CHUNK = 1024  # terms of a float32 sum that are added up before their sum joins the total

# From here up a float64 rounds to a float32 infinity: the middle of 2**128 and the last float32.
_F32_OVERFLOW = float.fromhex("0x1.ffffffp+127")
_F32_INF = np.float32(np.inf)

_LOG2_E = float.fromhex("0x1.71547652b82fep+0")
# ln 2 in two parts; the high one has 32 significant bits, so k * _LN2_HI is exact for |k| < 2**21.
_LN2_HI = float.fromhex("0x1.62e42feep-1")
_LN2_LO = float.fromhex("0x1.a39ef35793c76p-33")
# Adding, then subtracting 1.5 * 2**52 rounds a float64 of magnitude < 2**51 to an integer.
_ROUND = float.fromhex("0x1.8p+52")
_SQRT2 = float.fromhex("0x1.6a09e667f3bcdp+0")
# Powers of two 2**-540 .. 2**540; two factors reach every float64 exponent.
_POWER_BIAS = 540
_POWERS: F64 = np.array([math.ldexp(1.0, k) for k in range(-_POWER_BIAS, _POWER_BIAS + 1)])


# --- scalar rules -------------------------------------------------------------------------------


@rule
def _to_float32(x: float) -> np.float32:
    """x rounded to float32; overflow is named here because NumPy scalars warn about it."""
    if x >= _F32_OVERFLOW:
        return _F32_INF
    if x <= -_F32_OVERFLOW:
        return -_F32_INF
    return np.float32(x)


@inlined
def _exp_series(r: float) -> float:
    """e**r for |r| <= ln 2 / 2: the Taylor series of degree 13, whose remainder is below 5e-18."""
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    y: float = (p * r) * r + r + 1.0
    return y


@njit
def exp64(x: float) -> float:
    """e**x, relative error < 4e-16 over normal results; inf above 709.78, 0 below -745.13.

    x = k ln 2 + r with |r| <= ln 2 / 2 (Cody and Waite); `_exp_series` of r; then an exact scaling by
    2**k in two steps.

    Defined by `spec/elementary.py: exp64`.
    """
    if math.isnan(x):
        return x
    if x > 709.782712893384:
        return np.inf
    if x < -745.1332191019412:
        return 0.0
    k = (x * _LOG2_E + _ROUND) - _ROUND
    p = _exp_series((x - k * _LN2_HI) - k * _LN2_LO)
    whole = int(k)
    half = whole // 2
    y: float = (p * _POWERS[half + _POWER_BIAS]) * _POWERS[whole - half + _POWER_BIAS]
    return y


@inlined
def decay64(x: float) -> float:
    """e**-|x| with the bits of `exp64`, from 708 on that of 708. No branches: for loops of vectors.

    2**k is made from the last bits of x log2(e) + 1.5 * 2**52, which hold k.

    Defined by `spec/elementary.py: decay64`.
    """
    z = -abs(x)
    z = z if z > -708.0 else -708.0  # also NaN
    shifted = z * _LOG2_E + _ROUND
    k = shifted - _ROUND
    p = _exp_series((z - k * _LN2_HI) - k * _LN2_LO)
    power = np.int64((np.float64(shifted).view(np.int64) + np.int64(1023)) << np.int64(52))
    y: float = p * power.view(np.float64)
    return y


@njit
def log64(x: float) -> float:
    """ln x, relative error < 1e-15; -inf at 0, NaN below 0.

    x = m 2**k with sqrt(1/2) < m <= sqrt 2, s = (m - 1) / (m + 1), and the odd series
    ln m = 2 (s + s**3/3 + s**5/5 + ...), |s| < 0.172, cut after s**23.

    Defined by `spec/elementary.py: log64`.
    """
    if not x > 0.0:
        return -np.inf if x == 0.0 else np.nan
    if x == np.inf:
        return x
    k = 0
    if x < 2.2250738585072014e-308:  # subnormal: make it normal first
        x = x * 18014398509481984.0  # 2**54
        k = -54
    bits = np.float64(x).view(np.int64)
    k += int(bits >> 52) - 1023
    m = np.int64((bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000).view(np.float64)
    if m > _SQRT2:
        m = m * 0.5
        k += 1
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    p = 1.0 / 23.0
    p = p * z + 1.0 / 21.0
    p = p * z + 1.0 / 19.0
    p = p * z + 1.0 / 17.0
    p = p * z + 1.0 / 15.0
    p = p * z + 1.0 / 13.0
    p = p * z + 1.0 / 11.0
    p = p * z + 1.0 / 9.0
    p = p * z + 1.0 / 7.0
    p = p * z + 0.2
    p = p * z + 1.0 / 3.0
    t = s + s
    return k * _LN2_HI + (k * _LN2_LO + (t + t * (z * p)))


@rule
def tanh64(x: float) -> float:
    """tanh x, relative error < 1e-15.

    |x| < 0.5: Lambert's continued fraction x/(1 + x²/(3 + x²/(5 + ...))), cut after 17;
    else 1 - 2/(e**(2|x|) + 1), which is 1 from 20 on.

    Defined by `spec/elementary.py: tanh64`.
    """
    size = abs(x)
    if not size >= 0.5:  # also NaN, and keeps the sign of zero
        z = x * x
        d = 15.0 + z / 17.0
        d = 13.0 + z / d
        d = 11.0 + z / d
        d = 9.0 + z / d
        d = 7.0 + z / d
        d = 5.0 + z / d
        d = 3.0 + z / d
        return x / (1.0 + z / d)
    y = 1.0
    if size < 20.0:
        y = 1.0 - 2.0 / (exp64(size + size) + 1.0)
    return y if x > 0.0 else -y


@rule
def exp32(x: np.float32) -> np.float32:
    """e**x in float32, within 0.50001 units in the last place. Defined by `spec/elementary.py: exp32`."""
    y: np.float32 = _to_float32(exp64(np.float64(x)))
    return y


@rule
def log32(x: np.float32) -> np.float32:
    """ln x in float32, within 0.50001 units in the last place; -inf at 0, NaN below.

    Defined by `spec/elementary.py: log32`.
    """
    y: np.float32 = _to_float32(log64(np.float64(x)))
    return y


@rule
def tanh32(x: np.float32) -> np.float32:
    """tanh x in float32, within 0.50001 units in the last place. Defined by `spec/elementary.py: tanh32`."""
    y: np.float32 = _to_float32(tanh64(np.float64(x)))
    return y


@rule
def _normal64(word: int) -> float:
    """Inverse normal distribution at (word + 0.5) / 2**32 (Wichura 1988, AS 241, PPND16).

    Relative error about 1e-15. Computed on the lower half and mirrored, so that `word` and
    2**32 - 1 - word give exact negatives. The tail branch of AS 241 (probability below 1.4e-11)
    is never needed: the smallest one here is 2**-33.

    Defined by `spec/elementary.py: normal64`.
    """
    lower = word < 2147483648
    p = ((word if lower else 4294967295 - word) + 0.5) * (1.0 / 4294967296.0)  # exact: 33 bits
    q = 0.5 - p
    if q <= 0.425:
        r = 0.180625 - q * q
        a = 2509.0809287301226727 * r + 33430.575583588128105
        a = a * r + 67265.770927008700853
        a = a * r + 45921.953931549871457
        a = a * r + 13731.693765509461125
        a = a * r + 1971.5909503065514427
        a = a * r + 133.14166789178437745
        a = a * r + 3.387132872796366608
        b = 5226.495278852854561 * r + 28729.085735721942674
        b = b * r + 39307.89580009271061
        b = b * r + 21213.794301586595867
        b = b * r + 5394.1960214247511077
        b = b * r + 687.1870074920579083
        b = b * r + 42.313330701600911252
        b = b * r + 1.0
        z = q * a / b
    else:
        r = math.sqrt(-log64(p)) - 1.6
        a = 7.7454501427834140764e-4 * r + 0.0227238449892691845833
        a = a * r + 0.24178072517745061177
        a = a * r + 1.27045825245236838258
        a = a * r + 3.64784832476320460504
        a = a * r + 5.7694972214606914055
        a = a * r + 4.6303378461565452959
        a = a * r + 1.42343711074968357734
        b = 1.05075007164441684324e-9 * r + 5.475938084995344946e-4
        b = b * r + 0.0151986665636164571966
        b = b * r + 0.14810397642748007459
        b = b * r + 0.68976733498510000455
        b = b * r + 1.6763848301838038494
        b = b * r + 2.05319162663775882187
        b = b * r + 1.0
        z = a / b
    return -z if lower else z


# --- functions over arrays ----------------------------------------------------------------------


@njit
def _fma_loop(a: np.float32, b: F32, c: F32, out: F32) -> None:
    for i in range(b.size):
        out[i] = fma32(a, b[i], c[i])


@pjit
def _exp_loop(team: int, x: F32, out: F32) -> None:
    for i in prange(team, x.size):
        out[i] = exp32(x[i])


@pjit
def _log_loop(team: int, x: F32, out: F32) -> None:
    for i in prange(team, x.size):
        out[i] = log32(x[i])


@pjit
def _tanh_loop(team: int, x: F32, out: F32) -> None:
    for i in prange(team, x.size):
        out[i] = tanh32(x[i])


@pjit
def _normal_loop(team: int, words: NDArray[np.uint32], out: F64) -> None:
    for i in prange(team, words.size):
        out[i] = _normal64(np.int64(words[i]))


def _flat_operand(x: F32, name: str) -> F32:
    if x.dtype != np.float32:
        raise FormatError(f"fp32.{name} takes float32, got {x.dtype}; convert with .astype(np.float32)")
    return np.ascontiguousarray(x).reshape(-1)


def fma(a: np.float32, b: F32, c: F32) -> F32:
    """a * b + c of a scalar and two arrays of one shape, each element rounded once (`fma32`).

    Defined by `spec/float32.py: fma32`.
    """
    left, right = _flat_operand(b, "fma"), _flat_operand(c, "fma")
    if b.shape != c.shape:
        raise ShapeError(f"fp32.fma of arrays of shapes {b.shape} and {c.shape}")
    out = np.empty_like(left)
    _fma_loop(a, left, right, out)
    return out.reshape(b.shape)


def exp(x: F32) -> F32:
    """e**x of every element, any shape. Defined by `spec/elementary.py: exp32`."""
    flat = _flat_operand(x, "exp")
    out = np.empty_like(flat)
    _exp_loop(flat, out)
    return out.reshape(x.shape)


def log(x: F32) -> F32:
    """ln x of every element, any shape; -inf at 0, NaN below 0. Defined by `spec/elementary.py: log32`."""
    flat = _flat_operand(x, "log")
    out = np.empty_like(flat)
    _log_loop(flat, out)
    return out.reshape(x.shape)


def tanh(x: F32) -> F32:
    """tanh x of every element, any shape. Defined by `spec/elementary.py: tanh32`."""
    flat = _flat_operand(x, "tanh")
    out = np.empty_like(flat)
    _tanh_loop(flat, out)
    return out.reshape(x.shape)


def sqrt(x: F32) -> F32:
    """Square root of every element, any shape; correctly rounded by IEEE 754; NaN below 0.

    Defined by `spec/float32.py: sqrt32`.
    """
    flat = _flat_operand(x, "sqrt")
    with np.errstate(invalid="ignore"):
        return np.sqrt(flat).reshape(x.shape)


def normal(words: NDArray[np.uint32]) -> F64:
    """Standard normals, one a random word: the inverse distribution at (word + 0.5) / 2**32.

    `words` is uint32 of any shape; the result is float64 of that shape, in about (-6.34, 6.34).

    Defined by `spec/elementary.py: normal64`.
    """
    if words.dtype != np.uint32:
        raise FormatError(f"fp32.normal takes uint32 random words, got {words.dtype}")
    flat = np.ascontiguousarray(words).reshape(-1)
    out = np.empty(flat.shape, np.float64)
    _normal_loop(flat, out)
    return out.reshape(words.shape)


def check_finite(values: np.ndarray, where: str) -> np.ndarray:
    """`values`, or NumberError naming the first NaN or infinity."""
    if not np.all(np.isfinite(values)):
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        raise NumberError(f"{where}: NaN or infinity at index {index}")
    return values
