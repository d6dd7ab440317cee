"""ap_fixed: the library against the definition, APyTypes, SystemC's examples, and the tools' own header."""

import os
import shutil
import subprocess
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet import ApFixed, QTensor, quantize
from intnet.errors import ConfigError, ContainerError, FormatError, NumberError
from intnet.exact import ap_fixed, parts
from intnet.numbers.ap_fixed import OVERFLOWS, ROUNDINGS
from intnet.numbers.formats import kind_of
from intnet.spec import ap_fixed as spec
from tests.support.faults import Patch, caught, run_from_source

PAIRS = list(product(ROUNDINGS, OVERFLOWS))


def types(q: str, o: str) -> list[ApFixed]:
    """Of 1 to 5 bits, with every number of saturated bits."""
    found = []
    for (w, i), signed in product(((1, 1), (2, 0), (3, 4), (4, 2), (5, -1)), (True, False)):
        if (o == "AP_WRAP_SM" and not signed) or (o == "AP_SAT_SYM" and signed and w == 1):
            continue
        found += [ApFixed(w, i, q, o, n, signed) for n in range(w + 1 if o.startswith("AP_WRAP") else 1)]
    return found


def sweep(format: ApFixed, codes: np.ndarray, exponent: int) -> None:
    """AssertionError where a code or a count is not the definition's."""
    made = quantize(QTensor(codes, exponent), format)
    defined = spec.ApFixed(format.w, format.i, format.q, format.o, format.n, format.signed)
    told = [spec.code(Fraction(code) * Fraction(2) ** exponent, defined) for code in codes.tolist()]
    assert made.codes.tolist() == [code for code, _ in told], format
    assert made.exponent == format.exponent
    assert made.status is not None and made.status.saturated == sum(over for _, over in told)


@pytest.mark.slow
@pytest.mark.parametrize(("q", "o"), PAIRS)
def test_all_35_pairs_are_as_defined(q: str, o: str) -> None:
    """Three bits after the last one, and three times the range."""
    for format in types(q, o):
        sweep(format, np.arange(-(12 << format.w), (12 << format.w) + 1), format.exponent - 3)


@given(
    st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(PAIRS), st.integers(1, 32), st.data()
)
def test_any_float64_in_any_width_is_as_defined(x: float, pair: Any, w: int, data: Any) -> None:
    q, o = pair
    n = data.draw(st.integers(0, w)) if o.startswith("AP_WRAP") else 0
    format = ApFixed(max(w, 2), data.draw(st.integers(-40, 40)), q, o, n)
    defined = spec.ApFixed(format.w, format.i, q, o, n)
    assert quantize([x], format).codes.tolist() == [spec.code(Fraction(x), defined)[0]]


THEIRS = {
    "AP_RND": "TIES_POS", "AP_RND_ZERO": "TIES_ZERO", "AP_RND_MIN_INF": "TIES_NEG", "AP_RND_INF": "TIES_AWAY",
    "AP_RND_CONV": "TIES_EVEN", "AP_TRN": "TO_NEG", "AP_TRN_ZERO": "TO_ZERO",
}  # fmt: skip


@pytest.mark.parametrize("o", ["SAT", "WRAP"])
@pytest.mark.parametrize("q", ROUNDINGS)
def test_what_apytypes_has_too_is_the_same(q: str, o: str) -> None:
    """Seven roundings, two overflows, with a sign and without: every code of 10 bits into 4 and 3."""
    apy = pytest.importorskip("apytypes", reason="pip install -e '.[test]'")
    codes = np.arange(-512, 512)
    modes = {
        "quantization": getattr(apy.QuantizationMode, THEIRS[q]),
        "overflow": getattr(apy.OverflowMode, o),
    }
    wide = apy.APyFixedArray([code % 1024 for code in codes.tolist()], int_bits=5, frac_bits=5)
    for w, i in ((4, 2), (3, 2)):
        theirs = wide.cast(int_bits=i, frac_bits=w - i, **modes).to_bits()
        ours = quantize(QTensor(codes, -5), ApFixed(w, i, q, f"AP_{o}")).codes
        assert (ours % 2**w).tolist() == [int(bits) for bits in theirs]


def test_examples_that_systemc_s_standard_prints() -> None:
    """IEEE 1666-2011, 7.10.9: four bits to three; saturated bits; sign magnitude and its mirror."""
    line = QTensor(np.arange(-8, 8), 0)

    def of(o: str) -> list[int]:
        return quantize(line, ApFixed(3, 3, o=o)).codes.tolist()

    assert of("AP_WRAP") == [
        *range(4),
        *range(-4, 4),
        *range(-4, 0),
    ]
    assert of("AP_SAT_SYM") == [-3] * 6 + [-2, -1, 0, 1, 2] + [3] * 5
    assert of("AP_SAT_ZERO") == [0] * 4 + [*range(-4, 4)] + [0] * 4
    made = quantize(QTensor(np.arange(-8, 9), 0), ApFixed(3, 3, o="AP_WRAP_SM"))
    assert made.codes.tolist() == [-1, -2, -3, -4, *range(-4, 4), 3, 2, 1, 0, -1]
    assert quantize([4, 5, -5, -6], ApFixed(3, 3, o="AP_WRAP", n=1)).codes.tolist() == [0, 1, -1, -2]
    assert quantize([4, 5, -5, -6], ApFixed(3, 3, o="AP_WRAP", n=2)).codes.tolist() == [2, 3, -3, -4]


# -- the tools' header -----------------------------------------------------------------------------------

PROGRAM = """
#include "ap_fixed.h"
#include <cstdio>
template<class T> void run(int w) {
  for (int k = -512; k < 512; k++) {
    ap_fixed<10, 5> x; x.range(9, 0) = k;
    T y = x;
    long v = 0;
    for (int b = 0; b < w; b++) v |= (long)(bool)y[b] << b;
    printf("%ld ", v);
  }
  printf("\\n");
}
int main() {
"""


def carried(code: int, format: ApFixed) -> bool:
    """Whether rounding changes bit w of the code, counted in the type's steps, two bits after them."""
    w, shift = format.w, 5 + format.exponent
    n = spec.round_fraction(Fraction(code, 1 << shift), spec.ROUNDINGS[format.q])
    return spec.bit(code >> shift, w) != spec.bit(n, w)


@pytest.mark.slow
@pytest.mark.skipif(
    not os.environ.get("AP_FIXED_INCLUDE") or not shutil.which("g++"),
    reason="set AP_FIXED_INCLUDE to the folder of ap_fixed.h",
)
def test_all_pairs_are_those_of_the_tools_header(tmp_path: Path) -> None:
    """Every code of ap_fixed<10,5>; but AP_WRAP_SM with n = 0 where a rounding carries into bit w.

    There the header asks the value as it was before rounding for that bit (docs/how-to/formats.md).
    """
    formats = [format for q, o in PAIRS for format in types(q, o) if format.w in (3, 4)]
    lines = [f"run<{str(format).replace('>', ' >')} >({format.w});\n" for format in formats]
    (tmp_path / "all.cpp").write_text(PROGRAM + "".join(lines) + "}\n")
    build = ["g++", "-O0", "-w", f"-I{os.environ['AP_FIXED_INCLUDE']}", "all.cpp", "-o", "all"]
    subprocess.run(build, cwd=tmp_path, check=True)
    out = subprocess.run([tmp_path / "all"], capture_output=True, text=True, check=True).stdout.splitlines()
    codes = np.arange(-512, 512)
    for format, line in zip(formats, out, strict=True):
        theirs, ours = np.array(line.split(), int), quantize(QTensor(codes, -5), format).codes % 2**format.w
        differ = codes[theirs != ours].tolist()
        if format.o == "AP_WRAP_SM" and format.n == 0:
            assert all(carried(code, format) for code in differ), format
        else:
            assert not differ, format


# -- what is said and refused ------------------------------------------------------------------------------


def test_a_type_is_read_and_written_as_c_writes_it() -> None:
    for text in ("ap_fixed<8,4,AP_RND_CONV,AP_SAT_SYM>", "ap_ufixed<16,-3,AP_TRN,AP_WRAP,2>"):
        assert str(ApFixed.parse(text)) == text
    assert ApFixed.parse("ap_fixed< 8, 4 >") == ApFixed(8, 4, "AP_TRN", "AP_WRAP")
    q = quantize([0.3, -1.5, 9.0], ApFixed(8, 4, "AP_RND", "AP_SAT"))
    assert q.hex().tolist() == ["05", "e8", "7f"] and q.exponent == -4
    assert repr(q).startswith("QTensor(ap_fixed<8,4,AP_RND,AP_SAT> 3, int8 * 2^-4")


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: ApFixed(8, 4, "RND"), FormatError, "no mode 'RND'; use one of AP_RND,"),
        (lambda: ApFixed(8, 4, "AP_RND", "AP_CLIP"), FormatError, "no mode 'AP_CLIP'"),
        (lambda: ApFixed(8, 4, n=9), FormatError, "of 8 bits 0 to 8 are saturated"),
        (lambda: ApFixed(8, 4, o="AP_SAT", n=1), FormatError, "AP_SAT wraps no bits"),
        (lambda: ApFixed(8, 4, o="AP_WRAP_SM", signed=False), FormatError, "mirrors at a sign"),
        (lambda: ApFixed(1, 1, o="AP_SAT_SYM"), FormatError, "no symmetric range"),
        (lambda: ApFixed(33, 1), FormatError, "from 1 to 32"),
        (lambda: ApFixed.parse("fixed<8,4>"), FormatError, "is no type such as"),
        (lambda: quantize([1], ApFixed(8, 4), rounding="ties_even"), ConfigError, "has its rounding in it"),
        (lambda: kind_of(ApFixed(8, 4)), FormatError, "methods and packs take FixedPoint"),
        (lambda: quantize([np.nan], ApFixed(8, 4)), NumberError, r"a NaN at \(0,\)"),
        (lambda: quantize([np.inf], ApFixed(8, 4)), NumberError, "an infinity"),
        (lambda: quantize(QTensor(np.array([2**62]), 0), ApFixed(8, 4)), ContainerError, "at most 62 bits"),
    ],
)
def test_what_cannot_be_is_refused_by_name(make: Callable[[], Any], error: type, said: str) -> None:
    with pytest.raises(error, match=said):
        make()


FAULTS = {
    "ties_away of magnitudes": (parts, "TIES_AWAY: np.True_, TIES_POS", "TIES_AWAY: ~negative, TIES_POS"),
    "ties_neg by magnitude": (parts, "TIES_NEG: negative}", "TIES_NEG: np.True_}"),
    "the far wraps as the near": (ap_fixed, "over = far |", "over ="),
    "the mirror asks the wrong bit": (ap_fixed, "n >> w & 1)", "n >> w + 1 & 1)"),
    "saturated bits without the sign": (ap_fixed, "np.where(negative, top, ones - top)", "ones - top"),
    "one bit saturates two": (ap_fixed, "rest = 1 << (w - format.n)", "rest = 1 << (w - 1)"),
    "zero is the least": (ap_fixed, "return np.zeros_like(n)", "return np.full_like(n, format.lo)"),
}  # fmt: skip


def sweeps() -> None:
    for q, o in PAIRS:
        for format in types(q, o)[2:]:
            sweep(format, np.arange(-40, 41), format.exponent - 2)
    sweep(ApFixed(4, 4, o="AP_SAT"), np.array([3, -3]), 80)


@pytest.mark.slow
def test_without_a_fault_the_sweeps_pass() -> None:
    assert not caught(sweeps)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_seen(fault: str, monkeypatch: Patch) -> None:
    from intnet.exact import quantize as entry

    module, old, new = FAULTS[fault]
    run_from_source(monkeypatch, module, old, new, users=[ap_fixed])
    monkeypatch.setitem(entry._SCALED, ApFixed, ap_fixed.quantize)
    assert caught(sweeps)
