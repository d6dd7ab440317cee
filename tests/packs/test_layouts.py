"""Other layouts: every element is where the port says, in the testbenches and recomputations too.

`tests/support/plain_pack.py` reads words by a formula of its own: from an element to its cell.
"""

from __future__ import annotations

import json
import random
from itertools import product
from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet.errors import ConfigError, PackError
from intnet.packs import check, layers, layouts, lines, order, pack, units
from intnet.packs.by_spec import recompute
from intnet.packs.layouts import Choice, laid_out
from intnet.packs.ports import Draft, Port
from intnet.runs import run_folder
from tests.support.devices import good, whole
from tests.support.plain_pack import Plain, position, values_of

CHOICES = [
    Choice("nchw"),
    Choice("nc/4hw4"),
    Choice("nc/12hw12", 12, 32),
    Choice("nhwc", 1, 32),
    Choice("nhwc", 1),
    Choice("nchw", 5),
    Choice("nc/16hw16", 16, 100),
    Choice("nhwc", None, 24),
    Choice("nchw", 100, 1000),
]


def entry_of(port: Port) -> dict[str, object]:
    return json.loads(json.dumps(pack.entry_of(port)))


# -- orders --------------------------------------------------------------------------------------

ORDERS = ["N,H,W,C", "N,C,H,W", "C,W,H,N", "N,C/2,H,W,C%2", "N/3,C/4,N%3,C%4,W,H", "H,N,W/2,W%2,C"]


@pytest.mark.parametrize("text", ORDERS)
def test_every_element_has_its_cell_in_every_small_shape(text: str) -> None:
    for shape in product((1, 2, 3), (1, 2), (1, 3), (1, 2, 3, 4, 5)):
        at = order.cells("N,H,W,C", shape, text).tolist()
        entry = {"axes": "N,H,W,C", "shape": shape, "order": text}
        want = [-1] * len(at)
        for flat, index in enumerate(product(*map(range, shape))):
            want[position(index, entry)] = flat
        assert at == want
        assert prod(order.file_shape("N,H,W,C", shape, text)) == len(at)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("N,C", "does not have the axis H once"),
        ("N,H,W,C,C", "does not have the axis C once"),
        ("N,H,W,C/4", "does not have the axis C once, or both its parts once"),
        ("N,H,W,C%4", "does not have the axis C once"),
        ("N,C/4,H,W,C%8", "does not have the axis C once"),
        ("N,C/4,H,W,C%4,C", "does not have the axis C once"),
        ("N,C/0,H,W,C%0", "'C/0' is none of the axes N,H,W,C, nor a block of one"),
        ("N,H,W,D", "'D' is none of the axes"),
        ("N,H,W,D/4,D%4", "'D/4' is none of the axes"),
        ("N,,H,W,C", "'' is none of the axes"),
    ],
)
def test_what_is_no_order_is_refused(text: str, said: str) -> None:
    with pytest.raises(PackError, match=said):
        order.cells("N,H,W,C", (2, 3, 4, 5), text)


# -- words ---------------------------------------------------------------------------------------


@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(1, 6)),
    text=st.sampled_from(["", *ORDERS]),
    bits=st.integers(1, 64),
    lanes=st.integers(1, 9),
    word=st.integers(0, 130),
    signed=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_there_and_back(
    shape: tuple[int, ...], text: str, bits: int, lanes: int, word: int, signed: bool, seed: int
) -> None:
    port = Port("x", "in", shape, "N,H,W,C", bits, signed, lanes, order=text, word=word)
    low = -(1 << bits - 1) if signed else 0
    source = random.Random(seed)
    codes = [source.choice((low, low + (1 << bits) - 1, source.randrange(1 << bits) + low)) for _ in
             range(prod(shape))]  # fmt: skip
    held = np.array(codes, np.int64 if signed or bits < 64 else np.uint64).reshape(shape)
    text_, guard = lines.encode(port, held)
    written = [int(line, 16) for line in text_.decode().splitlines()]
    assert len(written) == port.words and all(len(line) == port.digits for line in text_.split())
    plain = values_of(written, entry_of(port))
    assert plain == codes
    back, again = lines.decode(port, text_, "x.hex")
    assert back.astype(held.dtype).tolist() == codes and again == guard
    words, lane = lines.places(port, np.arange(len(codes)))
    for flat in (0, len(codes) // 2, len(codes) - 1):
        index = [flat // prod(shape[k + 1 :]) % size for k, size in enumerate(shape)]
        row, at = divmod(position(index, entry_of(port)) if port.order else flat, lanes)
        assert (int(words[flat]), int(lane[flat])) == (row * port.row_words + at * bits // port.word_bits, at)
        first = lines.element_at(port, int(words[flat]))
        assert first is not None and lines.places(port, np.array([first]))[0] <= words[flat]


def test_a_cell_or_a_bit_that_holds_nothing_must_be_0() -> None:
    port = Port("x", "in", (1, 3), "N,C", 4, lanes=2, order="N,C/4,C%4", word=12)
    text, _ = lines.encode(port, np.array([[1, 2, 3]]))
    assert text == b"021\n003\n"
    with pytest.raises(PackError, match=r"x.hex:2: lane 1 of word 1 is not 0, but holds no element"):
        lines.decode(port, b"021\n013\n", "x.hex")
    with pytest.raises(PackError, match=r"x.hex:1: a bit of word 0 above 2 lanes of 4 bits is set"):
        lines.decode(port, b"121\n003\n", "x.hex")
    with pytest.raises(PackError, match=r"x.hex: 4 bytes and 1 lines; 2 words of 3 digits are 8 bytes"):
        lines.decode(port, b"021\n", "x.hex")
    with pytest.raises(PackError, match="codes from 0 to 8 do not fit 4 signed bits"):
        lines.encode(port, np.array([[1, 2, 8]]))


# -- what is asked for ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ({"order": "nwhc"}, "--layout nwhc: give nhwc, nchw or nc/XhwX"),
        ({"order": "nc/16hw8"}, "--layout nc/16hw8: give"),
        ({"order": "nc/0hw0"}, "--layout nc/0hw0: give"),
        ({"order": "nc/9999hw9999"}, "up to 4096"),
        ({"lanes": 0}, "--lanes 0: give a number from 1 to 1024"),
        ({"word": 1025}, "--word 1025: give a number from 1 to 1024"),
    ],
)
def test_what_cannot_be_asked_for(given_: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Choice(**given_)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("axes", "nchw", "blocks"),
    [
        ("N,H,W,C", "N,C,H,W", "N,C/8,H,W,C%8"),
        ("N,C", "", "N,C/8,C%8"),
        ("C", "", ""),
        ("Cout,Cin,kh,kw", "", "Cout,Cin/8,kh,kw,Cin%8"),
        ("Cout,Cin", "", "Cout,Cin/8,Cin%8"),
        ("N/4,H,W,C/4", "N/4,C/4,H,W", "N/4,C/4,H,W"),
        ("Cout/4,Cin/4,kh,kw", "", ""),
        ("tile,N,H,W,C", "tile,N,C,H,W", "tile,N,C/8,H,W,C%8"),
        ("tile,Cout,Cin", "", "tile,Cout,Cin/8,Cin%8"),
        ("element", "", ""),
        ("bucket", "", ""),
    ],
)
def test_the_order_of_each_kind_of_axes(axes: str, nchw: str, blocks: str) -> None:
    port = Port("x", "in", (2,) * (axes.count(",") + 1), axes, 8)
    found = [layouts.order_of(port, Choice(name)) for name in ("nhwc", "nchw", "nc/8hw8")]
    assert found == ["", nchw, blocks]


def test_lanes_that_fill_no_row_are_refused_with_the_most_there_can_be(drafts: dict[str, Draft]) -> None:
    with pytest.raises(
        ConfigError, match=r"--lanes 64: conv2/e3.* has elements of \d+ bits, and a word at mo"
    ):
        laid_out(drafts["wageubn"], Choice(lanes=64))
    with pytest.raises(
        ConfigError, match="--layout nchw is for data with channels: a unit's words are beats"
    ):
        laid_out(units.draft("mac_requant", "L0"), Choice("nchw"))
    with pytest.raises(ConfigError, match="--lanes 3: a beat of x has 4 lanes, and no word holds two beats"):
        laid_out(units.draft("mac_requant", "L0"), Choice(lanes=3))
    with pytest.raises(
        ConfigError, match="--lanes 8: no beat of this unit has so many: give a number up to 4"
    ):
        laid_out(units.draft("mac_requant", "L0"), Choice(lanes=8))


# -- whole packs ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def drafts() -> dict[str, Draft]:
    """A convolution of each kind of port: fixed point with flags, buckets, blocks."""
    made = {}
    for name in ("wageubn", "saved", "dynasty"):
        run = run_folder.build(name, {}, "lenet5", "digits", batch_size=2, limit=64)
        made[name] = layers.draft(run, ["conv2"])
    return made


def test_nothing_asked_for_changes_nothing(drafts: dict[str, Draft]) -> None:
    assert laid_out(drafts["wageubn"], Choice()) is drafts["wageubn"]


@pytest.mark.slow
@pytest.mark.parametrize("choice", CHOICES, ids=str)
@pytest.mark.parametrize("method", ["wageubn", "saved", "dynasty"])
def test_a_laid_out_pack_has_the_same_elements(
    method: str, choice: Choice, drafts: dict[str, Draft], tmp_path: Path
) -> None:
    read = pack.read(pack.write(laid_out(drafts[method], choice), tmp_path / "p"))
    plain = Plain(read.folder)
    for port, codes in drafts[method].ports:
        want = codes.reshape(-1).tolist()
        assert plain.values(port.name) == want == read.codes(port.name).reshape(-1).tolist()
        held = read.ports[port.name]
        assert choice.word in (None, held.word_bits) and choice.lanes in (None, held.lanes)
    assert check.recompute(read).exit_status == 0
    assert check.check_dut(read, good(read, tmp_path / "dut")).exit_status == 0


@pytest.mark.slow
@pytest.mark.parametrize("choice", [CHOICES[0], CHOICES[2]], ids=str)
@pytest.mark.parametrize("method", ["wageubn", "saved", "dynasty"])
def test_the_definition_reads_every_layout(
    method: str, choice: Choice, drafts: dict[str, Draft], tmp_path: Path
) -> None:
    read = pack.read(pack.write(laid_out(drafts[method], choice), tmp_path / "p"))
    result = recompute.recompute(read)
    assert result.exit_status == 0 and not result.unknown


@pytest.mark.slow
@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_faults_are_found_at_their_place_and_named(
    choice: Choice, drafts: dict[str, Draft], tmp_path: Path
) -> None:
    read = pack.read(pack.write(laid_out(drafts["wageubn"], choice), tmp_path / "p"))
    dut = good(read, tmp_path / "dut")
    port = read.ports["conv2/e4"]
    path = dut / Path(port.file).name
    right = path.read_text().splitlines()

    def result(words: list[str]) -> check.PortResult:
        path.write_text("\n".join(words) + "\n")
        return next(one for one in check.check_dut(read, dut).ports if one.port.name == "conv2/e4")

    flat = random.Random(str(choice)).randrange(prod(port.shape))
    index = [flat // prod(port.shape[k + 1 :]) % size for k, size in enumerate(port.shape)]
    cell = position(index, entry_of(port)) if port.order else flat
    row, lane = divmod(cell, port.lanes)
    first = row * port.row_words
    words, at = list(right), first + lane * port.bits // port.word_bits
    words[at] = f"{int(words[at], 16) ^ 1 << lane * port.bits % port.word_bits:0{port.digits}x}"
    found = result(words)
    (one,) = found.mismatches
    assert (one.word, one.lane, list(one.index), one.got ^ one.want) == (at, lane, index, 1)
    assert whole(found)[0] == "bit 0 of one element inverted"
    rows = [right[i : i + port.row_words] for i in range(0, len(right), port.row_words)]
    late = [word for words in [["0" * port.digits] * port.row_words, *rows[:-1]] for word in words]
    if len(rows) > 2:  # of two, either may be anything
        assert "one vector late (latency)" in whole(result(late))
    found = result(right[:at] + right[at + 1 :])
    assert f"{len(right) - 1:,} words where {len(right):,} are expected" in found.problem
    words[at] = "x" * port.digits
    assert f"x or z in word {at:,} " in result(words).problem
    path.write_text("\n".join(word.lstrip("0") or "0" for word in right))
    assert check.check_dut(read, dut).exit_status == 0


@pytest.mark.slow
def test_a_device_that_writes_where_no_element_is_is_refused(
    drafts: dict[str, Draft], tmp_path: Path
) -> None:
    read = pack.read(pack.write(laid_out(drafts["wageubn"], Choice("nc/4hw4", 4)), tmp_path / "p"))
    dut = good(read, tmp_path / "dut")
    path, port = (
        dut / "conv2.e4.hex",
        read.ports["conv2/e4"],
    )  # 6 channels: two blocks of 4, the last half full
    words = path.read_text().splitlines()
    at = port.words // 2 - 1  # the last word of the first image
    words[at] = f"{int(words[at], 16) | 1 << 3 * port.bits:0{port.digits}x}"
    path.write_text("\n".join(words))
    result = check.check_dut(read, dut)
    (bad,) = [one for one in result.ports if one.status != "pass"]
    assert result.exit_status == 2 and not bad.wrong
    assert f"conv2.e4.hex:{at + 1}: lane 3 of word {at} is not 0, but holds no element" in bad.problem


@pytest.mark.slow
@pytest.mark.parametrize("choice", CHOICES[2:5], ids=str)
def test_a_chain_has_digests_of_the_files_as_they_are(choice: Choice, tmp_path: Path) -> None:
    run = run_folder.build("wageubn", {}, "mlp", "digits", batch_size=4)
    made = {"layers": layers.draft(run, ["fc2"], steps=2), "unit": units.draft("mac_requant", "L4")}
    for kind, draft in made.items():
        asked = Choice("nhwc", 1, choice.word) if kind == "unit" else choice
        read = pack.read(pack.write(laid_out(draft, asked), tmp_path / kind))
        assert check.recompute(read).exit_status == 0
        assert recompute.recompute(read).exit_status == 0
        name = "q" if kind == "unit" else "step2/fc2/e4"
        dut = good(read, tmp_path / f"{kind}-dut")
        path = dut / Path(read.ports[name].file).name
        words = path.read_text().splitlines()
        words[-1] = f"{int(words[-1], 16) ^ 1:0{len(words[-1])}x}"
        path.write_text("\n".join(words))
        last = read.manifest["about"]["chain"][-1]["step"]
        assert check.check_dut(read, dut).first_step == last


@pytest.mark.slow
def test_a_layout_that_PACK_json_does_not_have_is_a_difference(
    drafts: dict[str, Draft], tmp_path: Path
) -> None:
    made = laid_out(drafts["wageubn"], Choice("nchw"))
    about = dict(made.about) | {"layout": {"order": "nhwc", "lanes": 1, "word": None}}
    lied = Draft(made.name, made.level, made.generator, made.ports, made.cases, about)
    result = check.recompute(pack.read(pack.write(lied, tmp_path / "p")))
    assert result.exit_status == 1 and any("conv2/x1" in problem for problem in result.problems)
