"""Test the tester: faults put into the bucketed codecs and the packing, one at a time, are each seen.

A fault is an edit of the source: a module is read, changed in one place, and its loops run uncompiled in
place of the compiled ones. The sweeps pass on the unchanged source run in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest

from intnet.exact.blocks import bucket_loops, buckets, quotient, sign_loops, signs
from intnet.exact.blocks.buckets import TENSOR, Codec
from intnet.numbers import bitpack
from tests.exact.blocks import test_bucket_bounds, test_bucket_codec, test_bucket_quotient
from tests.numbers import test_bitpack
from tests.support.bucket_cases import VALUES, compare
from tests.support.faults import Patch, caught, pairs, run_from_source

pytestmark = pytest.mark.slow


def from_sources(patch: Patch, changed: ModuleType | None = None, old: str = "", new: str = "") -> None:
    """All modules uncompiled, one of them changed; the loops take the packing as it then is."""
    for module in (bitpack, quotient, sign_loops, signs, bucket_loops, buckets):
        own = (old, new) if module is changed else ("", "")
        run_from_source(patch, module, *own, users=(test_bucket_codec,))


# -- sweeps ------------------------------------------------------------------------------------------


def symmetric() -> None:
    """Codes in bytes and in words; of the 300 values some are the percentile's outliers."""
    for bits in (1, 3, 11):
        compare(VALUES["normal"](np.random.default_rng(bits), 300), Codec("symmetric", bits, bucket=TENSOR))


def of(
    kind: str, *names: str, bits: tuple[int, ...] = (1, 3, 8, 11), norm: str = "max"
) -> Callable[[], None]:
    """Three buckets, the last one short, of every kind of values named."""

    def sweep() -> None:
        for name in names:
            for b in bits:
                x = VALUES[name](np.random.default_rng(b), 141)
                compare(x, Codec(kind, b, bucket=64, norm=norm))

    return sweep


def tasks() -> None:
    """More elements than a task takes, in buckets and as one."""
    x = VALUES["normal"](np.random.default_rng(1), 4200)
    x[4150] = 9
    for kind in ("affine-stochastic", "levels"):
        compare(x, Codec(kind, 3, bucket=512))
        compare(x, Codec(kind, 3, bucket=TENSOR, norm="l2"))


def mixed() -> None:
    x = VALUES["normal"](np.random.default_rng(1), 700)
    for kind in ("affine", "levels"):
        compare(x, Codec(kind, 2, 9, 64), np.arange(11) % 3 == 0)
    test_bucket_codec.test_buckets_begin_with_a_word_by_hand()


def lengths() -> None:
    for bits in (1, 2, 3, 4, 7, 8, 9, 13, 32):
        test_bitpack.test_every_length_to_130(bits, True)


def quotients() -> None:
    for exponent in (-149, 0, 103):
        test_bucket_quotient.next_to_the_middle(exponent, 100, test_bucket_quotient.quotients)


def filled() -> None:
    with pytest.MonkeyPatch.context() as patch:
        test_bucket_codec.test_bits_behind_the_last_code_are_0(patch)


SWEEPS: dict[str, Callable[[], None]] = {
    "nearest": of("affine", "normal", "after_relu", "outlier"),
    "ties": of("affine", "halves", "signed_zeros", bits=(2, 6, 9)),
    "constant": of("affine", "constant", "zeros_of_both_signs", bits=(2, 9)),
    "far": of("affine", "far_from_zero", "subnormal"),
    "stochastic": of("affine-stochastic", "normal", "far_from_zero", "subnormal"),
    "levels": of("levels", "normal", "signed_zeros", "after_relu"),
    "least": of("levels", "subnormal", bits=(3,)),
    "l2": of("levels", "normal", norm="l2"),
    "chunks": test_bucket_codec.test_squares_are_summed_in_chunks_of_1024,
    "tasks": tasks,
    "mixed": mixed,
    "promotions": test_bucket_codec.test_promotions,
    "border": test_bucket_bounds.test_a_fraction_rounded_up_to_1_always_goes_up,
    "no bias": lambda: test_bucket_bounds.test_affine_has_no_bias(3, 0, 0xFFFFFF),
    "quotients": quotients,
    "symmetric": symmetric,
    "signs": lambda: test_bucket_codec.test_signs(143),
    "filled": filled,
    "lengths": lengths,
}


# -- faults ------------------------------------------------------------------------------------------

PACKING, LOOPS, CODEC, QUOTIENTS = bitpack, bucket_loops, buckets, quotient
INNER = "np.int32(np.rint(divided(x[i] * k, t, inverse) + z))"
NEAREST, CLIP = "            r = np.rint(u)", "q = min(max(r, _ZERO), top)"
QUOTIENT = "divided(x[i] * k, t, inverse)"
STEP = "np.float32((np.int64(1) << np.int64(bits)) - 1)\n    if s == _ZERO"
PACKED, DRAWN = "piece, kind, grade, scales[k], z, inside", "drawn = words[start - first :]"

FAULTS: dict[str, tuple[ModuleType, str, str, list[str]]] = {
    # steps, zero points and scales
    "s from 2^b": (LOOPS, STEP, STEP.replace(") - 1)", "))"), ["nearest", "stochastic"]),
    "s of one bit more": (
        LOOPS, "    return s, np.rint", "    s = np.nextafter(s, _ONE)\n    return s, np.rint", ["nearest"]),
    "z not rounded": (LOOPS, "np.rint(-low / s) + _ZERO", "-low / s + _ZERO", ["nearest", "far"]),
    "z cut off": (LOOPS, "np.rint(-low / s)", "np.trunc(-low / s)", ["nearest"]),
    "z one more": (LOOPS, "np.rint(-low / s) + _ZERO", "np.rint(-low / s) + _ONE", ["nearest"]),
    "-0 kept": (LOOPS, "return _ZERO, low + _ZERO", "return _ZERO, low", ["constant"]),
    "range from 0": (LOOPS, "s = (high - low) /", "s = high /", ["nearest", "far"]),
    "least of two positive ones only": (
        LOOPS, "key = np.int32(bits[i] ^ np.int32(np.int32(bits[i] >> np.int32(31)) & _SIGN))",
        "key = np.int32(bits[i])", ["nearest"]),
    "scale is the maximum": (LOOPS, "max(-least, greatest)", "max(greatest, -greatest)", ["levels"]),
    "another least scale": (LOOPS, "np.float32(1e-8)  #", "np.float32(1e-7)  #", ["least"]),
    "squares rounded": (LOOPS, "fma32(x[i], x[i], part)", "part + x[i] * x[i]", ["l2"]),
    "squares in other chunks": (LOOPS, "from intnet.numbers.fp32 import CHUNK", "CHUNK = 512", ["chunks"]),
    "scale of the bucket before": (
        LOOPS, PACKED, PACKED.replace("scales[k]", "scales[max(k - 1, 0)]"), ["nearest", "levels"]),
    "scale of the bucket before, again": (
        LOOPS, "scales[k], z, small, wide, piece)", "scales[max(k - 1, 0)], z, small, wide, piece)",
        ["nearest", "levels"]),
    "one task's range": (
        CODEC, "bucket_loops.measure(piece,", "bucket_loops.measure(piece[: bitpack.PART],", ["tasks"]),
    # codes
    "ties up": (LOOPS, INNER, INNER.replace(
        f"np.rint({QUOTIENT} + z)", f"np.floor({QUOTIENT} + z + np.float32(0.5))"), ["ties"]),
    "cut off": (LOOPS, INNER, INNER.replace("np.rint", "np.trunc"), ["nearest"]),
    "cut off where some are clipped": (LOOPS, NEAREST, NEAREST.replace("np.rint", "np.trunc"), ["ties"]),
    "clipped, unseen": (LOOPS, " and np.rint(greatest / s + z) <= top", "", ["ties"]),
    "no Newton step": (
        QUOTIENTS, "    return fma32(fma32(-t, q, x), inverse, q)", "    return q", ["quotients", "far"]),
    "a Newton step rounded twice": (
        QUOTIENTS, "return fma32(fma32(-t, q, x), inverse, q)", "return q + (x - t * q) * inverse",
        ["quotients"]),
    "a scale that is not brought near 1": (
        QUOTIENTS, "max(np.int32(254) - field, np.int32(1))", "np.int32(127)", ["quotients"]),
    "wide ties up": (
        LOOPS, "r = np.int64(np.rint(u))", "r = np.int64(np.floor(u + np.float32(0.5)))", ["ties"]),
    "times 1/s": (LOOPS, INNER, INNER.replace(QUOTIENT, "x[i] * (_ONE / s)"), ["far"]),
    "(a - min)/s": (LOOPS, INNER, INNER.replace(f"{QUOTIENT} + z", "(x[i] + s * z) / s"), ["far"]),
    "no clip above": (LOOPS, CLIP, "q = max(r, _ZERO)", ["ties"]),
    "no clip below": (LOOPS, CLIP, "q = min(r, top)", ["stochastic"]),
    "clipped not counted": (
        LOOPS, "clipped = np.int64(_affine_codes(", "np.int64(_affine_codes(", ["stochastic"]),
    "word <= F": (LOOPS, "_MOST)) > word", "_MOST)) >= word", ["border"]),
    "1 is no fraction": (LOOPS, " or fraction >= _ONE", "", ["border"]),
    "24 bits of a word": (
        LOOPS, "_MOST)) > word", "_MOST)) > word >> np.uint32(8)", ["stochastic", "no bias"]),
    "the other way": (LOOPS, "_MOST)) > word", "_MOST)) > ~word", ["stochastic", "levels"]),
    "the next word": (LOOPS, DRAWN, DRAWN.replace("- first", "- first + 1"), ["stochastic", "levels"]),
    "words anew in each bucket": (LOOPS, DRAWN, "drawn = words", ["stochastic"]),
    "words of another task": (LOOPS, "draw_part(words, first", "draw_part(words, 4 * first", ["tasks"]),
    "step and stream swapped": (
        CODEC, "draw = draw or Draw", "draw = draw and Draw(draw.seed, draw.stream, draw.step) or Draw",
        ["stochastic", "levels"]),
    "one level less": (
        LOOPS, "_BELOW_ONE) * factor", "_BELOW_ONE) * (factor - _ONE)", ["levels"]),
    "the end of the codes is not the last": (
        LOOPS, "np.int64(min(max(r, -end), end)), half - 1)", "np.int64(min(max(r, -end), end)), half)",
        ["symmetric"]),
    "symmetric ones cut off": (LOOPS, "np.rint(x[i] / s)", "np.trunc(x[i] / s)", ["symmetric"]),
    "the end counts as inside": (LOOPS, "r >= end)", "r > end)", ["symmetric"]),
    "another percentile": (CODEC, "PERCENTILE = 99.999", "PERCENTILE = 99.0", ["symmetric"]),
    "widths of the loops cut off": (LOOPS, "while (2 * grade) >> width", "while grade >> width", ["levels"]),
    "levels without a sign": (LOOPS, "levels - m if x[i] < _ZERO else levels + m", "levels + m", ["levels"]),
    # values
    "s*q - s*z": (
        LOOPS, "s * (np.float32(codes[i]) - z)", "s * np.float32(codes[i]) - s * z", ["nearest", "far"]),
    "values without a sign": (LOOPS, "-size if m < 0 else size", "size", ["levels"]),
    "scale before 1/L": (
        LOOPS, "(np.float32(abs(m)) / factor) * scale", "np.float32(abs(m)) / (factor * scale)", ["levels"]),
    "constant is 0": (LOOPS, "out[:] = z", "out[:] = _ZERO", ["constant"]),
    # buckets and packing
    "short bucket left out": (
        LOOPS, "range(first, last, min(bucket, PART)):\n        k, piece = start // bucket, x[",
        "range(first, last - min(bucket, PART) + 1, min(bucket, PART)):\n"
        "        k, piece = start // bucket, x[", ["nearest"]),
    "codes behind the last one": (LOOPS, "small[n : (n + 7) // 8 * 8] = 0", "pass", ["nearest"]),
    "words not emptied": (CODEC, "words[-4:] = 0", "words[-1:] = 0", ["filled"]),
    "signs not emptied": (signs, "self.words[-1:] = 0", "pass", ["filled"]),
    "other buckets promoted": (
        CODEC, "np.where(promoted,", "np.where(promoted == 0,", ["mixed"]),
    "flags backwards": (CODEC, 'packbits(promoted, bitorder="little")', "packbits(promoted)", ["mixed"]),
    "last bucket as long": (CODEC, "taken[-1] = bitpack", "_ = bitpack", ["nearest"]),
    "promoted the other way": (
        CODEC, "return words < np.uint64", "return words >= np.uint64", ["promotions"]),
    "promoted one word more": (
        CODEC, "return words < np.uint64", "return words <= np.uint64", ["promotions"]),
    "0 is positive": (sign_loops, "+ k] > ZERO", "+ k] >= ZERO", ["signs"]),
    "a bit further": (sign_loops, "words[i] >> np.uint16(k)", "words[i] >> np.uint16(k + 1)", ["signs"]),
    "halves swapped": (
        PACKING, "(x & _HALF) | ((x >> _32) << (b * _4))", "((x & _HALF) << (b * _4)) | (x >> _32)",
        ["lengths", "nearest"]),
    "a code across words loses its top": (
        PACKING, "word = code >> (width - filled) if filled > _0 else _0", "word = _0", ["lengths", "far"]),
    "a last word left out": (PACKING, "    if filled > _0:\n", "    if filled > _8:\n", ["lengths"]),
    "a code across words is half read": (
        PACKING, "code |= words[at] << (width - used)", "pass", ["lengths", "far"]),
    "its neighbour's bits": (PACKING, "codes[i] = code & mask", "codes[i] = code", ["lengths"]),
    "no sign": (PACKING, "1 << (bits - 1) if signed else 0, out)", "0, out)", ["lengths"]),
}  # fmt: skip


@pytest.mark.parametrize("name", SWEEPS)
def test_without_a_fault_every_sweep_passes(name: str, monkeypatch: Patch) -> None:
    from_sources(monkeypatch)
    assert not caught(SWEEPS[name])


@pairs(FAULTS)
def test_a_fault_is_caught(fault: str, sweep: str, monkeypatch: Patch) -> None:
    module, old, new, _ = FAULTS[fault]
    from_sources(monkeypatch, module, old, new)
    assert caught(SWEEPS[sweep])
