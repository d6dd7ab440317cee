"""A number's way through a bucketed codec, station by station, against the oracle's Fractions."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from math import floor, prod
from typing import Any

import numpy as np
import pytest

from intnet.errors import FormatError
from intnet.exact.blocks.buckets import Codec, Mix, Packed, encode
from intnet.inspect.elements import interesting
from intnet.inspect.explain import Disagreement, Explanation, Rounding, explain
from intnet.inspect.explain_buckets import Bucket
from intnet.inspect.measure import measure
from intnet.inspect.operands import Operands
from intnet.inspect.text import stations
from intnet.methods.trace import Event, PathTable, Recorder
from intnet.numbers.rng import Draw
from intnet.runs import run_folder
from intnet.spec.float32 import to_float32
from intnet.spec.rounding import round_fraction
from intnet.spec.words import stream
from intnet.spec.words import words as random_words
from tests.oracle import bucket_steps as oracle

F = Fraction
SHARE = 0.4
SEED, STEP = 5, 3
CODECS = [
    Codec(kind, bits, mix, bucket, norm)
    for kind, norm in (("affine", "max"), ("affine-stochastic", "max"), ("levels", "max"), ("levels", "l2"))
    for bits, mix, bucket in ((1, None, 64), (2, 4, 64), (4, None, 128), (13, 3, 64), (30, None, "tensor"))
]


def tensor() -> np.ndarray:
    """Buckets of 64 that are: normal, constant, after a ReLU, subnormal, far from 0, tied; the last short."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((1, 7, 5, 11)).astype(np.float32)
    flat = x.reshape(-1)
    flat[64:128] = -3.25
    flat[128:192] = np.maximum(flat[128:192], 0)
    flat[192:256] = rng.integers(-2, 3, 64) * np.float32(2.0**-149)
    flat[256:320] = rng.integers(0, 4, 64) + np.float32(2**23)
    flat[320:384] = rng.integers(0, 31, 64) / np.float32(2)
    flat[320:322] = 0, 15
    return x


def packed_event(x: np.ndarray, codec: Codec) -> Event:
    """What method saved emits; the random words are the oracle's."""
    n, count = x.size, codec.buckets(x.size)
    chosen = np.array(random_words(SEED, STEP, "layer/mix", count), np.uint32)
    promoted = None if codec.mix is None else np.array([int(w) < floor(SHARE * 2**32) for w in chosen])
    packed = encode(x, codec, Draw(SEED, STEP, stream("layer/x0")), promoted)
    words = None if codec.kind == "affine" else np.array(random_words(SEED, STEP, "layer/x0", n), np.uint32)
    mix = None if codec.mix is None else Mix(chosen, SHARE)
    rounding = "ties_even" if words is None else "stochastic"
    return Event("layer", "x0s", STEP, x, packed, codec, rounding, words, mix=mix)


def parts(one: Explanation) -> tuple[Rounding, Bucket]:
    assert one.rounding is not None and one.rounding.bucket is not None
    return one.rounding, one.rounding.bucket


def coded(event: Event) -> list[tuple[int, list[Fraction], oracle.Coded]]:
    """(b, values, what the oracle makes of them) of each bucket."""
    codec, values = event.format, [F(float(v)) for v in event.source.reshape(-1)]
    assert isinstance(codec, Codec)
    size, out = codec.bucket if isinstance(codec.bucket, int) else len(values), []
    for k, first in enumerate(range(0, len(values), size)):
        wide = event.mix is not None and int(event.mix.words[k]) < floor(F(SHARE) * 2**32)
        bits = codec.mix if wide and codec.mix else codec.bits
        inside = values[first : first + size]
        words = [] if event.words is None else [int(w) for w in event.words[first : first + size]]
        if codec.kind == "levels":
            image = prod(event.source.shape[1:])
            out.append((bits, inside, oracle.levels(inside, bits, words, codec.norm == "l2", first, image)))
        else:
            out.append((bits, inside, oracle.affine(inside, bits, words or None)))
    return out


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.short)
def test_every_station_of_elements_of_every_bucket(codec: Codec) -> None:
    event, extra = packed_event(tensor(), codec), 2 if codec.kind == "levels" else 0
    found = coded(event)
    stored = [([c + (extra and 2**b) for c in one.codes], b + extra) for b, _, one in found]
    memory, starts = oracle.packed(stored)
    assert memory == int.from_bytes(event.result.words.tobytes(), "little")
    flat = 0
    for k, (bits, inside, want) in enumerate(found):
        for i, a in enumerate(inside):
            if i % 7 == k % 7:
                index = tuple(int(n) for n in np.unravel_index(flat, event.source.shape))
                one = explain(event, index)
                r, bucket = parts(one)
                assert (bucket.number, bucket.of, bucket.bits) == (k, len(found), bits)
                assert (bucket.first, bucket.last, bucket.element) == (
                    flat - i,
                    flat - i + len(inside) - 1,
                    i,
                )
                assert (bucket.least, bucket.greatest) == (min(inside), max(inside))
                assert (bucket.scale, bucket.zero) == (want.scale, want.zero)
                assert (one.code, one.stored, bucket.error) == (
                    want.codes[i],
                    want.values[i],
                    want.values[i] - a,
                )
                assert one.exponent is None and one.value.value == a
                place, width = bucket.place, bits + extra
                assert (place.word, place.bit) == divmod(64 * starts[k] + i * width, 64)
                assert (one.width, int(one.binary, 2), int(one.hex, 16)) == (
                    width,
                    place.stored,
                    place.stored,
                )
                assert place.stored == stored[k][0][i]
                decided(r, want, i, bits, event, flat)
                promotion(event, bucket, k)
            flat += 1


def decided(r: Rounding, want: oracle.Coded, i: int, bits: int, event: Event, flat: int) -> None:
    """u, floor, fraction, word, threshold, the code before and after its limits."""
    codec = event.format
    assert isinstance(codec, Codec)
    if want.scale == 0:
        assert r.scaled is r.remainder is r.word is None and "constant" in r.rule and not r.saturated
        return
    u = want.u[i]
    assert (r.scaled, r.floor, r.grid) == (u, floor(u), None)
    if event.words is None:
        assert r.remainder == u - floor(u) and r.tie == (u - floor(u) == F(1, 2))
        rounded = round_fraction(u, "ties_even")
        assert r.word is r.threshold is None
    else:
        assert r.remainder == to_float32(u - floor(u))
        assert (r.word, r.threshold) == (int(event.words[flat]), floor(r.remainder * 2**32))
        rounded = floor(u) + (r.word < r.threshold)
    assert r.rounded == rounded and r.up == (rounded > floor(u))
    assert (r.low, r.high) == (0, 2**bits if codec.kind == "levels" else 2**bits - 1)
    assert r.kept == abs(want.codes[i]) and r.saturated == (r.kept != rounded)


def promotion(event: Event, bucket: Bucket, k: int) -> None:
    if event.mix is None:
        assert bucket.promotion is None
        return
    p = bucket.promotion
    assert p is not None and (p.word, p.threshold) == (int(event.mix.words[k]), floor(F(SHARE) * 2**32))
    assert p.promoted == (p.word < p.threshold) == (bucket.bits == event.format.mix)  # type: ignore[union-attr]


def is_root(square: Fraction, root: Fraction) -> bool:
    """Whether `root` is the float32 nearest to sqrt(square), by the squares of the two middles around it."""
    bits = int(np.float32(root).view(np.int32))
    below, above = (F(float(np.int32(bits + by).view(np.float32))) for by in (-1, 1))
    return ((below + root) / 2) ** 2 <= square <= ((root + above) / 2) ** 2


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.short)
def test_every_operation_is_rounded_once_and_follows_from_those_before(codec: Codec) -> None:
    event = packed_event(tensor(), codec)
    for index in [(0, 0, 0, 3), (0, 2, 3, 0), (0, 6, 4, 10)]:
        _, bucket = parts(explain(event, index))
        named = {one.name: one for one in bucket.scaling}
        if "z" in named:
            assert named["z"].value == round_fraction(named["-min/s"].value, "ties_even")
        for one in (*bucket.scaling, *bucket.before, *bucket.after):
            if one.exact is None:
                norm = named["sum"].value, one.value
                assert one.name == "scale" and codec.norm == "l2" and is_root(*norm), norm
            elif one.name != "sum":  # of many roundings
                assert one.value == to_float32(one.exact), one
        if bucket.scale:
            unit = bucket.scale if codec.kind != "levels" else bucket.scale / 2**bucket.bits
            assert bucket.bound == (unit / 2 if codec.kind == "affine" else unit)


def test_ties_go_to_even_and_limits_hold() -> None:
    """s = 1, z = 0: halves are ties. Far from 0, u loses bits and codes reach their limits."""
    event = packed_event(tensor(), Codec("affine", 4, None, 64))
    ties = 0
    for flat in range(320, 384):
        one = explain(event, tuple(int(n) for n in np.unravel_index(flat, event.source.shape)))
        a = F(float(event.source.reshape(-1)[flat]))
        assert one.code == round_fraction(a, "ties_even") == one.stored
        ties += one.rounding is not None and one.rounding.tie
    assert ties > 10
    labels = {label for text, _ in interesting(event, Operands()) for label in text.split(", ")}
    assert {"rounds up", "rounds down", "tie", "in a constant bucket", "greatest magnitude", "zero"} <= labels
    assert "saturated" in labels and event.result.clipped > 0


def test_what_the_library_stored_is_checked() -> None:
    event = packed_event(tensor(), Codec("affine-stochastic", 2, 4, 64))
    index, good = (0, 0, 0, 3), event.result

    def with_(**changes: Any) -> Event:
        given = {"codec": good.codec, "shape": good.shape, "words": good.words, "scales": good.scales}
        given |= {"zeros": good.zeros, "promoted": good.widths == 4, "clipped": 0} | changes
        return replace(event, result=Packed(**given))

    explain(with_(), index)
    for what, changes in (
        ("the scale of bucket 0 comes to", {"scales": np.nextafter(good.scales, np.float32(9))}),
        ("the zero point of bucket 0 comes to", {"zeros": good.zeros + np.float32(1)}),
        ("exact arithmetic reaches code", {"words": ~good.words}),
        ("do not give the stored width", {"promoted": good.widths == 2}),
    ):
        with pytest.raises(Disagreement, match=what):
            explain(with_(**changes), index)
    with pytest.raises(FormatError, match="has no random words"):
        explain(replace(event, words=None), index)
    nan = event.source.copy()
    nan[0, 0, 0, 5] = np.nan
    with pytest.raises(FormatError, match="its bucket has NaN or infinity"):
        explain(replace(event, source=nan), index)


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.short)
def test_measures_are_those_of_the_values(codec: Codec) -> None:
    event = packed_event(tensor(), codec)
    row, found = measure(event), coded(event)
    pairs = [(a, back) for _, inside, one in found for a, back in zip(inside, one.values, strict=True)]
    noise = sum((float(a) - float(back)) ** 2 for a, back in pairs)
    signal = sum(float(a) ** 2 for a, _ in pairs)
    assert row.sqnr_db == pytest.approx(10 * np.log10(signal / noise), abs=0.02)
    assert row.inexact == sum(a != back for a, back in pairs)
    assert row.zeros == sum(back == 0 for _, back in pairs)
    codes = [code for _, _, one in found for code in one.codes]
    assert row.range == [min(codes), max(codes)] and row.exponent is None
    assert sum(row.before or ()) == sum(row.after) == row.elements == len(pairs)
    told = row.buckets
    assert told is not None and told.buckets == len(found)
    counts = [2 ** (b + 1) + 1 if codec.kind == "levels" else 2**b for b in codec.widths]
    assert told.distinct_codes == counts and row.nominal_bits == max(codec.widths)
    extra = 2 if codec.kind == "levels" else 0
    whole = [-(-len(inside) // 8) * 8 * (b + extra) for b, inside, _ in found]  # eight codes at a time
    words = sum(-(-bits // 64) for bits in whole)
    flags = -(-len(found) // 8) if codec.mix else 0
    held = 8 * words + len(found) * (4 if extra else 8) + flags
    assert told.packed_bits == round(8 * held / len(pairs), 3)
    scales = [one.scale for _, _, one in found if one.scale]
    assert told.scales == [float(min(scales)), float(max(scales))]
    assert told.constant == sum(one.scale == 0 for _, _, one in found)
    assert told.promoted == (sum(b == codec.mix for b, _, _ in found) if codec.mix else None)


@pytest.mark.slow
@pytest.mark.parametrize("options", [
    {}, {"bits": "2/4", "codec": "affine", "bucket": 64}, {"bits": "2", "codec": "levels", "norm": "l2"},
    {"bits": "3", "storage": "on_backward"},
])  # fmt: skip
def test_elements_of_a_training_step(options: dict[str, Any]) -> None:
    run = run_folder.build("saved", options, "resnet8", "digits", 8, 3, limit=16)
    seen, table = Recorder("*/x?s"), PathTable()
    run.train(2, observe_last=[seen, table])
    operands = Operands(seen.events, run.method.SYMBOLS)
    assert {name.split("/")[1] for name in seen.events} == {"x0s", "x1s"} and len(seen.events) > 12
    for name, event in list(seen.events.items())[::4]:
        for label, one in interesting(event, operands):
            r, bucket = parts(one)
            names = [station for station, _ in stations(one)]
            assert {"bucket", "bits b", "min of bucket", "decision", "packed", "error a~ - a"} <= set(names)
            assert one.formula and one.stored == F(float(event.result.load()[one.index])), label
            assert abs(bucket.error) <= bucket.bound * F(1001, 1000) or r.saturated or not bucket.scale
            json.dumps(one.to_dict())
        row = table.rows[tuple(name.split("/"))]  # type: ignore[index]
        assert row.saturated == event.result.clipped and row.short == event.format.short  # type: ignore[union-attr]


def test_names_of_codecs() -> None:
    told = {
        Codec("affine", 4): ("affine 4 bits, buckets of 512", "affine 4b /512"),
        Codec(bits=2, mix=4): ("affine-stochastic 2/4 bits, buckets of 512", "stoch 2/4b /512"),
        Codec("levels", 2, None, "tensor", "l2"): (
            "levels 2 bits, one bucket, scaled by their norm", "levels-l2 2b /tensor",
        ),
    }  # fmt: skip
    assert {codec: (str(codec), codec.short) for codec in told} == told
