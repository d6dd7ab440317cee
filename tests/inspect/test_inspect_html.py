"""`intnet inspect --html`: what is on the page, that it needs nothing else, and how a browser shows it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet.cli import inspect as command
from intnet.exact.blocks.mx_blocks import Along
from intnet.inspect.elements import interesting
from intnet.inspect.explain import explain
from intnet.inspect.flow import Box, draw
from intnet.inspect.operands import Operands
from intnet.inspect.page.embed import Data
from intnet.inspect.page.ways import as_json
from intnet.inspect.text import stations
from intnet.methods.trace import Recorder
from intnet.numbers.microscaling import MXFP4
from intnet.runs import run_folder
from tests.support.browser import CHROMIUM, Browser
from tests.support.command import MLP, here, refused
from tests.support.mx_events import event_of, numbers

SMALL = ("--batch-size", 16, "--limit", 16)
FC2 = (*MLP, "--limit", 64, "--layer", "fc2")


class Page(HTMLParser):
    """A page's start tags and the texts of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text, self.tags, self.open = text, [], []  # type: ignore[var-annotated]
        self.feed(text)
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag

    def values(self, name: str) -> list[str]:
        return [str(attributes[name]) for _, attributes in self.tags if name in attributes]

    def data(self) -> dict[str, Any]:
        found = re.search(r'<script type="application/json" id="data">(.*?)</script>', self.text, re.S)
        assert found is not None
        data: dict[str, Any] = json.loads(found[1])
        return data

    def elements(self) -> dict[str, list[dict[str, Any]]]:
        """Of each path those worth reading."""
        elements: dict[str, list[dict[str, Any]]] = self.data()["elements"]
        return elements

    def inputs(self, name: str) -> set[str]:
        """Keys of the boxes whose arrows end at the path `name`."""
        ends = [a for _, a in self.tags if a.get("data-to") == name]
        return {str(a["data-from"]) for a in ends}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the last example of --help."""
    (example,) = (line for line in command.EXAMPLE.splitlines() if "--html" in line and "  intnet" in line)
    arguments = shlex.split(example)[1:]
    target = tmp_path_factory.mktemp("html") / arguments.pop()
    from intnet.cli.main import main

    assert main([*arguments, str(target), *map(str, SMALL)]) == 0
    return target


@pytest.fixture(scope="module")
def page(file: Path) -> Page:
    return Page(file.read_text())


@pytest.fixture(scope="module")
def recorded() -> tuple[Recorder, Operands]:
    """The step of the page."""
    run, recorder = run_folder.build("wageubn", {}, "resnet8", "digits", 16, 1, 16), Recorder()
    run.train(1, observe_last=[recorder])
    return recorder, Operands(recorder.events, run.method.SYMBOLS)


# -- what is on it ------------------------------------------------------------------------------


@pytest.mark.slow
def test_it_needs_nothing_else(page: Page) -> None:
    assert not re.findall(r"https?:(?!//www\.w3\.org/2000/svg\")", page.text), "the name of SVG is no address"
    assert "@import" not in page.text
    assert not page.values("src") and all(href == "data:," or href[0] == "#" for href in page.values("href"))
    assert re.findall(r"url\((.*?)\)", page.text) == ["#head"] * page.text.count("url(")
    assert "default-src 'none'" in page.text and 'name="viewport"' in page.text


@pytest.mark.slow
def test_every_link_has_its_target_and_every_name_is_one(page: Page) -> None:
    ids = page.values("id")
    assert len(ids) == len(set(ids)) and not any(" " in one for one in ids)
    named = page.values("for") + page.values("aria-labelledby")
    assert {href[1:] for href in page.values("href") if href[0] == "#"} | set(named) <= set(ids)


@pytest.mark.slow
def test_every_path_has_a_box_a_section_a_row_and_elements(
    page: Page, recorded: tuple[Recorder, Operands]
) -> None:
    names = [name for name in recorded[0].events if name.startswith("layer1.0.")]
    layers = {name.split("/")[0] for name in names}
    assert len(names) > 50 and len(layers) == 6
    boxes = [a for _, a in page.tags if a.get("class") in ("box exact", "box rounded") and "data-path" in a]
    assert {box["data-path"]: box["class"] for box in boxes} == {
        name: "box exact" if recorded[0].events[name].format is None else "box rounded" for name in names
    }
    assert all(box["href"] == f"#{box['data-path']}" for box in boxes)
    assert set(names) <= set(page.values("id")) and set(page.elements()) == set(names)
    assert page.text.count('<th scope="row"><a href=') == len(names)


@pytest.mark.slow
def test_edges_of_conv_batch_norm_and_relu(page: Page) -> None:
    conv, bn, relu = "layer1.0.conv1", "layer1.0.bn1", "layer1.0.relu1"
    into = {
        conv: {
            "x0": {"relu1/x4 into forward"}, "Wq": {f"{conv}/W before forward"},
            "x1": {f"{conv}/Wq", f"{conv}/x0"},
            "e3": {f"{bn}/{path} into backward" for path in ("e2", "m1", "x2", "m2", "sigma")},
            "gW": {f"{conv}/e3", f"{conv}/x0"}, "gWq": {f"{conv}/gW"}, "e4": {f"{conv}/Wq", f"{conv}/e3"},
            "Acc": {f"{conv}/Accq before update", f"{conv}/gWq"}, "Accq": {f"{conv}/Acc"},
            "W": {f"{conv}/W before update", f"{conv}/Acc"},
        },
        bn: {
            "gammaq": {f"{bn}/gamma before forward"}, "betaq": {f"{bn}/beta before forward"},
            "mu": {f"{conv}/x1 into forward"}, "sigma": {f"{conv}/x1 into forward"},
            "x2": {f"{conv}/x1 into forward", f"{bn}/mu", f"{bn}/sigma"},
            "x3": {f"{bn}/gammaq", f"{bn}/x2", f"{bn}/betaq"},
            "e1": {f"{relu}/e1 into backward"}, "e2": {f"{bn}/e1", f"{bn}/gammaq"},
            "m1": {f"{bn}/e2"}, "m2": {f"{bn}/e2", f"{bn}/x2"},
            "ggamma": {f"{bn}/e1", f"{bn}/x2"}, "ggammaq": {f"{bn}/ggamma"},
            "gbeta": {f"{bn}/e1"}, "gbetaq": {f"{bn}/gbeta"},
            "Acc_gamma": {f"{bn}/Accq_gamma before update", f"{bn}/ggammaq"},
            "gamma": {f"{bn}/gamma before update", f"{bn}/Acc_gamma"},
        },
        relu: {
            "x4": {f"{bn}/x3 into forward"}, "e0": {"layer1.0.conv2/e4 into backward"},
            "e1": {f"{relu}/e0", f"{bn}/x3 into backward"},
        },
    }  # fmt: skip
    for layer, paths in into.items():
        for path, inputs in paths.items():
            assert page.inputs(f"{layer}/{path}") == inputs, f"{layer}/{path}"
    # the shortcut, joined in the exact sum
    assert page.inputs("layer1.0.relu2/x4") == {"layer1.0.bn2/x3 into forward", "relu1/x4 into forward"}


@pytest.mark.slow
def test_inputs_of_branches_and_edges(recorded: tuple[Recorder, Operands]) -> None:
    recorder, operands = recorded

    def inputs(name: str) -> set[str]:
        return {f"{one.layer}/{one.path}" for one in operands.inputs(recorder.events[name])}

    assert inputs("layer2.0.downsample.0/x0") == inputs("layer2.0.conv1/x0") == {"layer1.0.relu2/x4"}
    assert inputs("layer2.0.relu2/x4") == {"layer2.0.bn2/x3", "layer2.0.downsample.1/x3"}
    assert inputs("layer1.0.relu2/e0") == {"layer2.0.conv1/e4", "layer2.0.downsample.0/e4"}
    assert inputs("relu1/e0") == {"layer1.0.conv1/e4", "layer1.0.relu2/e1"}
    assert inputs("conv1/x0") == inputs("fc/e3") == inputs("fc/x0") == set(), "images, the loss, a pool"
    assert inputs("conv1/e3") == {f"bn1/{path}" for path in ("e2", "m1", "x2", "m2", "sigma")}


@pytest.mark.slow
def test_elements_are_what_their_labels_say(page: Page, recorded: tuple[Recorder, Operands]) -> None:
    recorder, operands = recorded
    for name, elements in page.elements().items():
        event = recorder.events[name]
        for element in elements:
            one = explain(event, tuple(element["index"]), operands)
            assert "stations" not in element, "all of a small batch is on the page"
            is_what = element["is"].split(", ")
            if one.rounding is not None and "rounds up" in is_what:
                assert one.rounding.up and not one.rounding.tie
            assert ("tie" not in is_what) or (one.rounding is not None and one.rounding.tie)
            assert ("zero" not in is_what) or one.stored == 0
            if "greatest magnitude" in is_what and event.format is not None:
                assert abs(one.code or 0) == np.abs(event.result.codes).max()


@pytest.mark.slow
def test_every_fate_of_a_path_is_shown() -> None:
    run, recorder = run_folder.build("wageubn", {"saturate": "3"}, "mlp", "digits", 64, 3, 64), Recorder()
    run.train(1, observe_last=[recorder])
    operands = Operands(recorder.events, run.method.SYMBOLS)
    seen = set()
    for event in recorder.events.values():
        found = interesting(event, operands, (0,) * len(event.result.shape))
        assert found == interesting(event, operands, (0,) * len(event.result.shape))
        assert found[0][0].startswith("asked for")
        seen |= {label for labels, _ in found for label in labels.split(", ")}
        saturated = event.format is not None and event.result.status.saturated
        shown = [one for labels, one in found if "saturated" in labels]
        assert len(shown) == bool(saturated)
    assert seen >= {"asked for", "rounds up", "rounds down", "tie", "saturated", "greatest magnitude", "zero"}


def test_every_fate_in_mx_blocks_is_shown() -> None:
    """Ties of any binade; the greatest is that of the values, whatever its code counts."""
    x = numbers(0)
    x[0, 40, 0] = 40.0  # 5 * 2^3, of which the elements about it are 4 and 6
    event, _ = event_of(x, Along(MXFP4, 1), "ties_even")
    found = {label: one for labels, one in interesting(event, Operands()) for label in labels.split(", ")}
    assert found.keys() >= {"rounds up", "rounds down", "tie", "saturated", "greatest magnitude", "zero"}
    assert found["tie"].index == (0, 40, 0)
    assert abs(found["greatest magnitude"].stored) == max(abs(event.result.fractions().reshape(-1)))


@pytest.mark.slow
def test_no_text_ends_the_script(recorded: tuple[Recorder, Operands]) -> None:
    recorder, operands = recorded
    event = recorder.events["fc/bq"]
    data = Data(0)
    data.step(1, [event], operands, {})
    element = explain(event, (0,), operands)
    text = as_json(data, {"fc/bq": [("</script><!--", element)]})
    (made,) = json.loads(text)["elements"]["fc/bq"]
    assert "<" not in text and made["is"] == "</script><!--"
    assert made["stations"] == [list(row) for row in stations(element)], "nothing is held within 0 bytes"


# -- the command --------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_page_comes_beside_the_output(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "x.html"
    status, out, err = here(capsys, "inspect", *FC2, "--html", target)
    told = f"written: {target}, {target.stat().st_size:,} bytes; it holds all, up to 256 KiB"
    assert (status, err) == (0, "") and out.splitlines()[-1] == f"{told} a tensor (--embed)"
    first = target.read_bytes()
    status, out, err = here(capsys, "inspect", *FC2, "--html", target, "--json")
    assert (status, err, out.count("\n")) == (0, "", 1) and json.loads(out)["paths"]
    assert target.read_bytes() == first, "the same step, the same page"
    assert [path.name for path in tmp_path.iterdir()] == ["x.html"]
    assert "wageubn, mlp on digits, step 1" in first.decode() and "seed 3, intnet" in first.decode()


def test_a_page_says_the_options_that_are_not_defaults(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "x.html"
    status, _, err = here(capsys, "inspect", *FC2, "--set", "saturate=0", "--set", "lr=26", "--html", target)
    assert (status, err) == (0, "") and "seed 3, saturate=0, intnet" in target.read_text()


def test_the_element_of_index_comes_first(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "x.html"
    where = ("--path", "e3", "--index", "4,5", "--html", target)
    status, _, err = here(capsys, "inspect", *FC2, *where)
    assert (status, err) == (0, "")
    page = Page(target.read_text())
    ((name, elements),) = page.elements().items()
    assert name == "fc2/e3" and elements[0]["index"] == [4, 5]
    assert elements[0]["is"].startswith("asked for")
    assert page.inputs("fc2/e3") == {f"bn2/{p} into backward" for p in ("e2", "m1", "x2", "m2", "sigma")}


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [
        ("float32", "mlp"),
        ("wageubn", "lenet5", "--set", "edges=fixed16"),
        ("wageubn", "mlp", "--set", "e2=16"),
    ],
)
def test_every_method_and_model_has_a_page(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, names: tuple[str, ...]
) -> None:
    target = tmp_path / "x.html"
    what = ("--method", names[0], "--model", names[1], "--data", "digits", *names[2:], *SMALL)
    status, out, err = here(capsys, "inspect", *what, "--layer", "*", "--html", target, "--json")
    assert (status, err) == (0, "")
    page = Page(target.read_text())
    paths = [f"{row['layer']}/{row['path']}" for row in json.loads(out)["paths"]]
    assert list(page.elements()) == paths and set(paths) <= set(page.values("data-path"))
    assert set(page.values("data-to")) <= set(paths)


def test_a_file_that_cannot_be_is_refused_first(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "give --html FILE too" in refused(capsys, "inspect", *FC2, "--steps", 2)
    assert "there is no folder" in refused(capsys, "inspect", *FC2, "--html", tmp_path / "none" / "x.html")
    (tmp_path / "x.html").mkdir()
    assert "that is a folder" in refused(capsys, "inspect", *FC2, "--html", tmp_path / "x.html")


# -- the diagram --------------------------------------------------------------------------------


def test_boxes_do_not_overlap_and_lie_inside(file: Path) -> None:
    drawings = re.findall(r'<svg class="flow".*?</svg>', file.read_text(), re.S)
    assert len(drawings) == 6
    for drawing in drawings:
        width, height = map(float, re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawing)[0])
        parts = [part for part in drawing.split("<rect ")[1:] if not part.startswith('class="lane"')]
        boxes = []
        for part in parts:
            x, y, w, h = (
                float(re.findall(rf'\b{n}="([-\d.]+)"', part)[0]) for n in ("x", "y", "width", "height")
            )
            assert x > 0 and x + w < width and y > 0 and y + h < height
            boxes.append((x, y, x + w, y + h))
        for k, a in enumerate(boxes):
            for b in boxes[k + 1 :]:
                assert a[2] + 8 <= b[0] or b[2] + 8 <= a[0] or a[3] + 8 <= b[1] or b[3] + 8 <= a[1]


def test_a_long_arrow_goes_round_what_stands_between() -> None:
    boxes = [Box(key, "", key, (), "exact") for key in "abcd"]
    text = draw("&", boxes, [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")])
    assert 'aria-label="data flow of &amp;' in text and text.count("<path") == 4
    (left,) = {float(x) for x in re.findall(r'<g class="box exact" data-path="c"><rect x="([\d.]+)"', text)}
    (way,) = re.findall(r'data-from="a" data-to="d" d="([^"]+)"', text)
    points = [float(x) for x in re.findall(r" ([\d.]+) [\d.]+ V", way)]
    assert points and all(not left - 4 < x < left + 120 for x in points)


# -- in a browser -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no browser: apt-get install chromium")
    with Browser() as browser:
        yield browser


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "height", "dark"), [(1280, 800, False), (360, 740, False), (360, 740, True)]
)
def test_a_browser_shows_it(browser: Browser, file: Path, width: int, height: int, dark: bool) -> None:
    browser.complaints.clear()
    browser.open(file, width, height, dark)
    assert browser.evaluate("window.innerWidth") == width
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    browser.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert browser.evaluate("document.documentElement.scrollWidth") <= width, "with everything unfolded"
    lanes = "[...document.querySelectorAll('.flow .lane')].map((one) => one.getBBox().width)"
    drawn = "[...document.querySelectorAll('.flow')].map((one) => one.viewBox.baseVal.width - 4)"
    assert set(browser.evaluate(lanes)) == set(browser.evaluate(drawn)), "no style of the page cuts a lane"
    back = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert back == ("rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)")
    assert browser.complaints == []


@pytest.mark.slow
def test_the_browser_complains(browser: Browser, tmp_path: Path) -> None:
    """What the test above relies on."""
    bad = ("<script>console.error('x')</script>", "<script>none()</script>", "<img src='none.png'>")
    for number, text in enumerate(bad):
        path = tmp_path / f"{number}.html"
        path.write_text(f"<!DOCTYPE html><title>x</title>{text}")
        browser.complaints.clear()
        browser.open(path, 360, 740)
        assert len(browser.complaints) == 1, text
