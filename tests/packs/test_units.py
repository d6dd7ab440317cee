"""Packs of the units: every port judged by the oracle, ids that stay, settings that are possible."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from intnet.errors import ConfigError, IntnetError, PackError
from intnet.exact import dots
from intnet.numbers import rng
from intnet.numbers.accumulators import Once
from intnet.numbers.hexfiles import MOST_BITS
from intnet.numbers.microscaling import BlockScaled, Microscaling
from intnet.numbers.small_floats import E4M3, E5M2, FLOATS, FloatTensor
from intnet.packs import pack, units
from intnet.packs.by_spec.units import EXPECTED, Words
from intnet.packs.ports import Draft
from intnet.packs.units import drafts, training
from intnet.packs.units.signals import Choice, Group, column
from intnet.spec import formats as oracle
from intnet.spec.tensor import power
from intnet.spec.words import lfsr_states
from tests.support.testbench_packs import EVERY, Settings, label, made

ROUNDED = [one for one in EVERY if one[0] not in ("r_exponent", "block_dot", "mx_dot")]


def words_of(draft: Draft) -> Words:
    return {port.name: codes.tolist() for port, codes in draft.ports}


def judge(draft: Draft, bits: int = 32) -> None:
    """Every port by the oracle; bits: of a random word."""
    pack.check(draft)
    words, unit = words_of(draft), draft.about["unit"]
    want = EXPECTED[unit["name"]](unit["parameters"] | {"WORD_BITS": bits}, words)
    judged = [port.name for port, _ in draft.ports if port.direction in ("out", "trail")]
    assert set(judged) <= want.keys()
    for port in judged:
        assert words[port] == want[port], port
    for port in unit["ignored"]:  # left out because it is constant, and the main result never is
        assert len(set(want[port["name"]])) == 1 and port["name"] not in ("q", "n", "y")
    left_out = want.keys() - set(judged) - {port["name"] for port in unit["ignored"]}
    assert left_out <= {"q.exponent", "q.limit"}
    assert all(len(set(want[port])) == 1 for port in left_out)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "level", "settings"), EVERY, ids=label)
def test_every_port_is_what_the_oracle_says(name: str, level: str, settings: Settings) -> None:
    judge(made(name, level, settings), 16 if "lfsr" in settings else 32)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "level", "settings"), ROUNDED, ids=label)
def test_results_follow_from_their_trail(name: str, level: str, settings: Settings) -> None:
    """floor + up = presat, then the limits that the port states: what a diagnosis relies on."""
    draft = made(name, level, settings)
    words, ports = words_of(draft), {port.name: port for port, _ in draft.ports}
    rounding = ports["q"].rounding
    assert [f + u for f, u in zip(words["q.floor"], words["q.up"], strict=True)] == words["q.presat"]
    if ports["q"].encoding == "flag":
        return
    highs = words.get(rounding.get("limit", ""), [rounding["high"]] * len(words["q"]))
    lows = [-top for top in highs] if "limit" in rounding else [rounding["low"]] * len(words["q"])
    mask = (1 << ports["q"].bits) - 1
    for presat, low, high, q in zip(words["q.presat"], lows, highs, words["q"], strict=True):
        if high is None:
            assert (q - presat) & mask == 0
        else:
            assert q == max(low, min(high, presat))
    assert (rounding["words"] is None) == (rounding["mode"] != "stochastic")
    assert rounding["word_bits"] == (16 if "lfsr" in settings else 32)


@pytest.mark.parametrize("name", ["quantize_sq", "quantize_cq", "quantize_flag"])
def test_n_is_that_of_a_tensor(name: str) -> None:
    """Words that share n hold the maximum that n comes from, nothing beyond it: corners; L1 takes any n."""
    draft = made(name, "L2")
    words, exponent = words_of(draft), draft.about["unit"]["parameters"]["EX"]
    tops: dict[int, int] = {}
    for x, n in zip(words["x"], words["n"], strict=True):
        tops[n] = max(tops.get(n, 0), abs(x))
    found = {n: oracle.exponent_of([top * power(exponent)]) for n, top in tops.items() if top}
    assert all(n == m for n, m in found.items())


@pytest.mark.slow
@pytest.mark.parametrize("name", units.UNITS)
def test_small_inputs_are_exhausted(name: str) -> None:
    if name == "quantize_q":
        assert sorted(words_of(made(name, "L1", {"W": 16, "S": 7}))["x"]) == list(range(-(2**15), 2**15))
    if name in ("quantize_sq", "quantize_flag"):
        settings = {"W": 8, "EX": -3, "K": 4} if name == "quantize_sq" else {"W": 8, "EX": 5}
        words = words_of(made(name, "L1", settings))
        pairs = {(x, n) for x in range(-128, 128) for n in range(-128, 128)}
        assert set(zip(words["x"], words["n"], strict=True)) == pairs and len(words["x"]) == len(pairs)
    if name == "mx_dot":
        words = words_of(made(name, "L1", {"A": "E2M1", "B": "E2M1", "LANES": 1, "K": 3}))
        alone = [first and last for first, last in zip(words["first"], words["last"], strict=True)]
        pairs = {(a[0], b[0]) for a, b, one in zip(words["a"], words["b"], alone, strict=True) if one}
        assert pairs == {(a, b) for a in range(16) for b in range(16)}
    if name == "r_exponent":
        words = words_of(made(name, "L1", {"W": 8, "EX": 3}))
        alone = [x for x, a, b in zip(words["x"], words["first"], words["last"], strict=True) if a and b]
        assert set(alone) == set(range(-128, 128))


# -- training ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("level", ["L3", "L4"])
@pytest.mark.parametrize("name", ["quantize_q", "quantize_sq", "quantize_cq"])
def test_results_are_those_that_training_stored(name: str, level: str) -> None:
    stored = []
    for events in training.steps()[: drafts.STEPS[level]]:
        for path in training.PATHS[name]:
            stored += events[path].result.codes.reshape(-1).tolist()
    assert words_of(made(name, level))["q"] == stored


def test_sums_are_those_of_the_layer() -> None:
    words = words_of(made("mac_requant", "L3"))
    events = training.steps()[0]
    x, w = (events[path].result.codes.astype(np.int64) for path in training.PATHS["mac_requant"])
    pixels = x[: training.PIXELS, ::2, ::2].reshape(-1, x.shape[-1])
    assert words["q.acc"] == (pixels @ w.reshape(len(w), -1).T).reshape(-1).tolist()


def test_products_of_blocks_are_those_of_matrices() -> None:
    """`exact.dots` sums the same elements in another way: integers on one grid."""
    words, seen = words_of(made("mx_dot", "L3")), set[int]()
    stops = [i + 1 for i, last in enumerate(words["last"]) if last]
    for k, (start, stop) in enumerate(pairwise([0, *stops])):
        a, b = (column(words[name][start:stop]).astype(np.uint8).reshape(-1) for name in ("a", "b"))
        scales = [np.array([[words[name][stop - 1]]], np.uint8) for name in ("sa", "sb")]
        row, col = Microscaling(E4M3, (1, a.size)), Microscaling(E5M2, (a.size, 1))
        left = BlockScaled(FloatTensor(a.reshape(1, -1), E4M3), scales[0], row)
        right = BlockScaled(FloatTensor(b.reshape(-1, 1), E5M2), scales[1], col)
        total = dots.matmul(left, right, Once(FLOATS["FP32"]))
        assert total.raw().item() == words["y"][k]
        seen.add(words["y"][k])
    assert len(seen) > 100


def test_words_are_those_that_training_drew() -> None:
    about = made("quantize_cq", "L3").about["random"]
    drawn = []
    for stream in about["streams"]:
        size = training.steps()[0][f"{stream}q"].result.size
        drawn += rng.words(about["seed"], training.FIRST - 1, rng.stream(stream), size).tolist()
    assert words_of(made("quantize_cq", "L3"))["word"] == drawn


@pytest.mark.slow
@pytest.mark.parametrize("name", units.UNITS)
def test_a_chain_has_a_digest_a_step(name: str, tmp_path: Path) -> None:
    draft = made(name, "L4")
    folder = pack.write(draft, tmp_path / "chain")
    outs = [port for port, _ in draft.ports if port.direction == "out"]
    after = 0
    for k, link in enumerate(draft.about["chain"]):
        sha = hashlib.sha256()
        for port in outs:
            lines = (folder / port.file).read_bytes().splitlines(keepends=True)
            sha.update(b"".join(lines[link["first"] : link["last"] + 1]))
        assert (link["step"], link["first"]) == (training.FIRST + k, after)
        assert link["sha256"] == sha.hexdigest()
        after = link["last"] + 1
    assert after == outs[0].words and len(draft.about["chain"]) == training.STEPS
    first = words_of(made(name, "L3"))
    for port in outs:
        if port.name in first:
            assert words_of(draft)[port.name][: len(first[port.name])] == first[port.name]


# -- cases ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("name", "level", "settings"), EVERY, ids=label)
def test_cases_cover_all_words_in_order(name: str, level: str, settings: Settings) -> None:
    draft = made(name, level, settings)
    words, cases = words_of(draft), draft.cases
    assert (cases[0].index, cases[0].beat) == (0, 0)
    assert len({case.id for case in cases}) == len(cases)
    assert all(case.level == level and case.flags for case in cases)
    results = next(port.words for port, _ in draft.ports if port.direction == "out")
    for a, b in pairwise(cases):
        assert a.index < b.index < results and a.beat < b.beat < len(next(iter(words.values())))
    if "last" in words:
        ends = np.cumsum(words["last"])
        assert all(case.beat == 0 or ends[case.beat - 1] == case.index for case in cases)
    else:
        assert all(case.beat == case.index for case in cases)


def test_an_id_is_of_the_words_and_not_of_their_place() -> None:
    unit = units.UNITS["quantize_sq"]
    groups = drafts.STIMULI["quantize_sq"]["L1"](unit.defaults)
    taken = training.Taken(groups, unit.defaults)
    ids = [case.id for case in drafts.assemble(unit, "L1", {}, taken).cases]
    fewer = training.Taken(groups[5:][::-1], unit.defaults)
    again = {case.id for case in drafts.assemble(unit, "L1", {}, fewer).cases}
    assert again <= set(ids) and len(again) >= len(ids) - 5
    columns = dict(groups[0].columns) | {"x": groups[0].columns["x"] + 1}
    changed = training.Taken([Group(groups[0].name, "", columns), *groups[1:]], unit.defaults)
    assert drafts.assemble(unit, "L1", {}, changed).cases[0].id != ids[0]
    twice = training.Taken([*groups, groups[0]], unit.defaults)
    assert [case.id for case in drafts.assemble(unit, "L1", {}, twice).cases] == ids


@pytest.mark.slow
def test_ids_on_file_do_not_change() -> None:
    """An id is never reused: their digest is kept here, and changes only with a new version of the packs."""
    packs = [made(name, level) for name in units.UNITS for level in ("L0", "L1", "L2")]
    lines = "".join(f"{p.name} {' '.join(case.id for case in p.cases)}\n" for p in packs)
    assert hashlib.sha256(lines.encode()).hexdigest() == IDS_SHA256


IDS_SHA256 = "11cfa37d2933fc1c009b4e100b45700f4c309c2a74d1fb00785391b73fe19f0b"


# -- settings ------------------------------------------------------------------------------------


def test_a_draft_is_made_again_from_its_generator() -> None:
    draft = made("quantize_cq", "L0", {"W": 10, "EX": -3})
    assert draft.name == "quantize_cq-L0-W10-EXm3"
    generator = dict(draft.generator)
    assert generator.pop("kind") == "unit"
    again = units.draft(generator["unit"], generator["level"], generator["settings"])
    assert words_of(again) == words_of(draft) and again.about == draft.about
    assert units.draft("quantize_cq", "L0", {"EX": "-3", "W": "0xa"}).name == draft.name


WRONG = [
    ("quantize_s", "L1", {}, "did you mean 'quantize_sq'"),
    ("quantize_q", "L7", {}, "unknown level"),
    ("quantize_q", "L1", {"w": 8}, "unknown setting of quantize_q 'w'"),
    ("quantize_q", "L1", {"lfsr": 1}, "unknown setting"),
    ("quantize_q", "L1", {"W": "wide"}, "is not a whole number"),
    ("quantize_q", "L1", {"W": 99}, "give a number from"),
    ("quantize_q", "L1", {"W": 40, "S": 2}, "W - S = 38"),
    ("quantize_sq", "L1", {"NB": 4}, "does not fit NB=4"),
    ("mac_requant", "L1", {"ACC": 16}, "sums of 5 beats"),
    ("mac_requant", "L1", {"MODE": "up"}, "unknown MODE of mac_requant 'up'"),
    ("requantize", "L1", {"TWICE": 1}, "set MODE=ties_away"),
    ("block_dot", "L1", {"BLOCK": 129}, "give a number from"),
    ("mx_dot", "L1", {"A": "E4M4"}, "unknown A of mx_dot 'E4M4'"),
    ("mx_dot", "L1", {"LANES": 8, "K": 4}, "a beat of 8 lanes"),
    ("quantize_sq", "L3", {"EX": 0}, "contradicts this level's data"),
    ("quantize_sq", "L3", {"K": 4}, "contradicts this level's data"),
    ("quantize_q", "L4", {"W": 4}, "too narrow for this level"),
    ("quantize_cq", "L1", {"lfsr": 0}, "give a number from 1"),
]


@pytest.mark.parametrize(("name", "level", "settings", "message"), WRONG)
def test_impossible_settings_are_named(
    name: str, level: str, settings: dict[str, str | int], message: str
) -> None:
    with pytest.raises(IntnetError, match=message) as error:
        units.draft(name, level, settings)
    assert isinstance(error.value, ConfigError | PackError)


@pytest.mark.slow
def test_wide_words_are_those_of_the_lanes() -> None:
    draft = units.draft("mac_requant", "L2", {"LANES": 64, "A": 16, "B": 8, "ACC": 36})
    x = next(port for port, _ in draft.ports if port.name == "x")
    assert x.layout.word_bits == MOST_BITS


def test_more_width_than_training_needs_is_no_contradiction() -> None:
    wide = units.draft("quantize_sq", "L3", {"W": 32})
    assert words_of(wide)["q"] == words_of(made("quantize_sq", "L3"))["q"]


def test_lfsr_words_are_its_states() -> None:
    draft = made("quantize_cq", "L0", {"lfsr": 0xACE1})
    states, words = lfsr_states(0xACE1), words_of(draft)["word"]
    for word in words:
        state = [next(states) for _ in range(16)][-1]
        assert word == (state & 0xFFFF) << 16 | 0xFFFF
    about = draft.about["random"]
    assert (about["kind"], about["mask"], about["seed"]) == ("lfsr", "80200003", "0000ace1")


def test_every_level_and_unit_is_described() -> None:
    assert list(units.LEVELS) == ["L0", "L1", "L2", "L3", "L4"]
    for name, unit in units.UNITS.items():
        assert unit.name == name and unit.summary and "\n" not in unit.summary
        for setting in unit.parameters.values():
            if isinstance(setting, Choice):
                assert setting.default in setting.names
            else:
                assert setting.least <= setting.default <= setting.most


@pytest.mark.slow
def test_settings_at_the_ends_of_their_ranges() -> None:
    """A pack, or what does not go: block_dot's guard bits, shift_by's amounts, mac_requant's zero point."""
    for settings in ({"BLOCK": 16, "GUARD": 4}, {"BLOCK": 1, "GUARD": 4}, {"BLOCK": 16, "GUARD": 5}):
        judge(units.draft("block_dot", "L1", settings))
    judge(units.draft("mac_requant", "L0", {"A": 4, "B": 4, "ZX": 300}))
    with pytest.raises(PackError, match="GUARD = 4: a sum over 32 lanes needs at least 5"):
        units.draft("block_dot", "L1", {"BLOCK": 32, "GUARD": 4})
    with pytest.raises(PackError, match="takes 81 bits ahead of the limit, and a trail has 64"):
        units.draft("shift_by", "L1", {"W": 48, "NB": 8, "OUT": 32})
    assert set(words_of(units.draft("shift_by", "L0", {"NB": 2}))["n"]) == {-1, 0, 1}
