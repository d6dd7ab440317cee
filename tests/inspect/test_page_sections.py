"""Sections of the page and what stands behind them: maps, masters, formulas, glossary, a network's pages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet.cli.main import main
from intnet.exact.blocks.block_float import WIDTHS, quantize_blocks
from intnet.inspect import block_maps
from intnet.inspect.masters import with_masters
from intnet.inspect.operands import Operands
from intnet.inspect.page import block_map, glossary
from intnet.methods import METHODS
from intnet.methods.trace import Event, Recorder
from intnet.runs import run_folder
from tests.support.browser import CHROMIUM, Browser
from tests.support.docs_pages import ROOT

RNG = np.random.default_rng(5)


# -- maps ---------------------------------------------------------------------------------------


def rectangles(svg: str) -> list[tuple[int, int, int, str]]:
    """(x, y, width, color) of every run of blocks."""
    found = re.findall(r'class="block" x="(\d+)" y="(\d+)" width="(\d+)" height="\d+" fill="(#\w+)"', svg)
    return [(int(x), int(y), int(width), color) for x, y, width, color in found]


@pytest.mark.parametrize("shape", [(8, 12, 3, 3), (16, 20)])
def test_the_picture_has_each_block_in_the_color_of_its_bits(shape: tuple[int, ...]) -> None:
    """Read back from the drawn rectangles: the bits that quantized the tensor, block by block."""
    blocks = (shape[0] // 4, shape[1] // 4, *shape[2:])
    bits = RNG.choice(WIDTHS, blocks).astype(np.uint8)
    x = RNG.normal(size=shape).astype(np.float32)
    q = quantize_blocks(x, bits, (0, 1)).to_qtensor(x)
    event = Event("layer", "Wb", 0, x, q, q.format, "ties_even", mean_bits=1.0)
    assert np.array_equal(block_maps.bits_of(event), bits)
    assert block_maps.counts(bits) == {width: int((bits == width).sum()) for width in WIDTHS}
    panels = block_maps.of_weights(bits)
    kernel = list(np.ndindex(*shape[2:])) if len(shape) == 4 else [()]
    assert len(panels) == len(kernel)
    seen = {}
    for left, top, width, color in rectangles(block_map._drawn(panels, 3)):
        for k in range(width // block_map.CELL):
            seen[left + block_map.CELL * k, top] = WIDTHS[block_maps.COLORS.index(color)]
    wide = max(block_map.LEAST, block_map.CELL * blocks[1]) + block_map.GAP
    high = block_map.HEAD + block_map.CELL * blocks[0] + block_map.GAP
    for k, place in enumerate(kernel):
        for i, j in np.ndindex(*blocks[:2]):
            left = wide * (k % min(3, len(kernel))) + block_map.CELL * j
            top = high * (k // min(3, len(kernel))) + block_map.HEAD + block_map.CELL * i
            assert seen[left, top] == bits[(i, j, *place)]
    assert len(seen) == bits.size


@pytest.mark.slow
def test_the_map_of_a_run_is_that_of_its_state() -> None:
    """dynasty after an epoch: the bits read from the step's codes are those that the run remembers."""
    run, recorder = run_folder.build("dynasty", {}, "mlp", "digits", 32, 1, 64), Recorder()
    run.train(2)
    remembered = {
        layer.name: np.array(WIDTHS)[np.abs(np.subtract.outer(p.slots["b"], WIDTHS)).argmin(-1)]
        for layer in run.model.all_layers()
        for p in layer.parameters
        if p.symbol == "W"
    }
    run.train(3, observe_last=[recorder])
    for name, expected in remembered.items():
        assert np.array_equal(block_maps.bits_of(recorder.events[f"{name}/Wb"]), expected), name
    assert any(len(np.unique(bits)) > 1 for bits in remembered.values())


# -- masters, formulas --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_parameter_ends_with_its_new_value(method: str) -> None:
    run, recorder = run_folder.build(method, {}, "mlp", "digits", 32, 1, 32), Recorder()
    run.train(1, observe_last=[recorder])
    events, symbols = with_masters(run, recorder.events)
    assert list(events)[: len(recorder)] == list(recorder.events), "what was there stays"
    for layer in run.model.all_layers():
        for parameter in layer.parameters:
            names = [p for p in (parameter.symbol, f"{parameter.symbol}'") if symbols.get(p, None)]
            (path,) = [p for p in names if symbols[p].part == "update" and f"{layer.name}/{p}" in events]
            stored, value = events[f"{layer.name}/{path}"].result, parameter.value
            both = [one if isinstance(one, np.ndarray) else one.fractions() for one in (stored, value)]
            assert np.array_equal(*both), f"{layer.name}/{path}"


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(METHODS))
def test_what_was_not_rounded_names_no_quantizer(method: str) -> None:
    run, recorder = run_folder.build(method, {}, "mlp", "digits", 32, 1, 32), Recorder()
    run.train(1, observe_last=[recorder])
    operands = Operands(recorder.events, run.method.SYMBOLS)
    for name, event in recorder.events.items():
        formula = operands.formula(event)
        if event.format is None:
            assert not re.match(r"(SR|BF|AQ)\(", formula), f"{name}: {formula}"
        else:
            assert formula == run.method.SYMBOLS[event.path].formula
    if method == "adapt":
        assert operands.formula(recorder.events["bn1/x1"]) == "fc1/x1, in float32"


# -- glossary -----------------------------------------------------------------------------------


def test_every_method_has_symbols_and_a_page() -> None:
    assert set(glossary.OF) == set(METHODS)
    for method in METHODS:
        assert (ROOT / f"docs/methods/{method}.md").is_file()


def test_equations_of_the_glossary_stand_on_the_page_of_the_docs() -> None:
    for method, entries in glossary.OF.items():
        text = (ROOT / f"docs/methods/{method}.md").read_text()
        for _, _, equation in entries:
            for number in re.findall(r"\(\d[\d.]*\w?\)", equation):
                assert number in text or number[1:-1] in text, f"{method}: {number}"


def test_links_lead_to_the_docs_where_they_stand_beside(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    (docs / "methods").mkdir(parents=True)
    (docs / "methods" / "adapt.md").write_text("x")
    (tmp_path / "runs" / "a").mkdir(parents=True)
    page = tmp_path / "runs" / "a" / "index.html"
    (found,) = glossary.beside(page, docs).items()
    assert found == ("docs/methods/adapt.md", "../../docs/methods/adapt.md")
    assert (page.parent / found[1]).resolve() == docs / "methods" / "adapt.md"
    assert glossary.beside(Path("/elsewhere/index.html"), docs) == {}
    assert glossary.beside(page, tmp_path / "none") == {}


# -- pages of a network -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of AdaPT, whose widths move within its first steps."""
    folder = tmp_path_factory.mktemp("pages") / "all"
    what = "inspect --method adapt --model mlp --data digits --batch-size 16 --limit 64 --step 8"
    assert main([*what.split(), "--set", "lookback=3-5", "--html", str(folder)]) == 0
    return folder


@pytest.mark.slow
def test_the_network_leads_to_every_layer(pages: Path) -> None:
    index = (pages / "index.html").read_text()
    layers = {"fc1", "bn1", "relu1", "fc2", "bn2", "relu2", "fc3"}
    assert set(re.findall(r'<th scope="row"><a href="([^"]+)"', index)) == {f"{name}.html" for name in layers}
    assert {path.name for path in pages.iterdir()} == {f"{name}.html" for name in layers} | {"index.html"}
    assert "Why the word length moved" in index and "PushDown (3.1)" in index
    for name in layers:
        text = (pages / f"{name}.html").read_text()
        targets = set(re.findall(r'href="([^"#][^"]*)"', text)) - {"data:,"}
        assert {f"{other}.html" for other in layers} | {"index.html"} <= targets
        assert all((pages / one).exists() for one in targets if "docs/" not in one)
        assert "://" not in text.replace("http://www.w3.org/2000/svg", "") and not re.findall(r'src="', text)


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")
@pytest.mark.parametrize(("width", "dark"), [(1300, False), (390, True)])
def test_nothing_is_cut_off(pages: Path, width: int, dark: bool) -> None:
    """No page is wider than the screen, and no table scrolls sideways."""
    script = """[document.documentElement.scrollWidth, ...[...document.querySelectorAll("table.stacked")]
        .map(t => Math.ceil(t.getBoundingClientRect().right))]"""
    with Browser() as browser:
        for name in ("index", "fc2", "bn1", "relu1"):
            browser.open(pages / f"{name}.html", width, 900, dark)
            found: Any = browser.evaluate(script)
            assert max(found) <= width and len(found) >= 2, name
            assert not browser.complaints


def test_a_folder_needs_its_parent_and_no_layer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    what = ["inspect", "--method", "adapt", "--model", "mlp", "--data", "digits"]
    assert main([*what, "--html", str(tmp_path / "none" / "all")]) == 2
    assert "there is no folder" in capsys.readouterr().err
    assert main(what) == 2
    assert "give --layer, or --html and the name of a folder" in capsys.readouterr().err
    (tmp_path / "file").write_text("x")
    assert main([*what, "--html", str(tmp_path / "file")]) == 2
    assert "end the name of a page in .html" in capsys.readouterr().err
