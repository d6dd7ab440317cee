"""The explorers of `intnet inspect --html` in use: a click, an index, products, what if, steps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet.cli.main import main
from intnet.inspect.explain import explain
from intnet.inspect.operands import Operands
from intnet.inspect.text import stations
from intnet.methods.trace import Recorder
from intnet.runs import run_folder
from tests.support.browser import CHROMIUM, Browser

LAYER = "layer1.0.conv1"
SMALL = ("--model", "resnet8", "--data", "digits", "--batch-size", "8", "--limit", "16", "--layer", LAYER)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no browser: apt-get install chromium")
    with Browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two steps of a convolution under wageubn."""
    target = tmp_path_factory.mktemp("explorer") / "x.html"
    assert main(["inspect", "--method", "wageubn", *SMALL, "--steps", "2", "--html", str(target)]) == 0
    return target


@pytest.fixture(scope="module")
def steps() -> list[tuple[Recorder, Operands]]:
    """The same two."""
    run, made = run_folder.build("wageubn", {}, "resnet8", "digits", 8, 1, 16), []
    for number in (1, 2):
        recorder = Recorder()
        run.train(number, observe_last=[recorder])
        made.append((recorder, Operands(recorder.events, run.method.SYMBOLS)))
    return made


class Seen:
    """The explorer of a path on an opened page."""

    def __init__(self, browser: Browser, path: str) -> None:
        self.browser, self.path = browser, path
        browser.evaluate(f"document.getElementById('{LAYER}/{path}').scrollIntoView()")
        self.does("one.seen || (near.unobserve(one.place), one.build())")

    def does(self, code: str) -> Any:
        """JavaScript about its explorer `one`."""
        find = f"Explorer.all.find((one) => one.name === '{LAYER}/{self.path}')"
        return self.browser.evaluate(f"((one) => {{ return {code}; }})({find})")

    def way(self) -> list[list[str]]:
        """What its table says."""
        cells = "[...one.way.querySelectorAll('tr')].map((tr) => [...tr.cells].map((td) => td.textContent))"
        made: list[list[str]] = self.does(cells)
        return made

    def types(self, text: str) -> None:
        """An index, as typed."""
        self.does(f"(one.typed.value = {json.dumps(text)}, one.typed.dispatchEvent(new Event('change')))")

    def opens(self, which: str) -> str:
        """The text of what is folded below it."""
        find = f"one.more.find((d) => d.firstChild.textContent.startsWith('{which}'))"
        return str(self.does(f"((d) => {{ d.open = true; d.refresh(); return d.textContent; }})({find})"))


def told(step: tuple[Recorder, Operands], path: str, *index: int) -> list[list[str]]:
    event = step[0].events[f"{LAYER}/{path}"]
    return [list(row) for row in stations(explain(event, index, step[1]))]


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), [(1300, False), (390, True)])
def test_any_element_by_a_click_or_an_index(
    browser: Browser, file: Path, steps: list[tuple[Recorder, Operands]], width: int, dark: bool
) -> None:
    browser.complaints.clear()
    browser.open(file, width, 800, dark)
    seen = Seen(browser, "e3")
    seen.types("5, 1, 7, 3")
    assert seen.way() == told(steps[1], "e3", 5, 1, 7, 3)
    seen.types("5,1,8,3")
    assert "0..7, 0..7, 0..7, 0..15" in seen.does("one.trouble.textContent")
    # channel 6 is in the second row of planes, the third: row 2, column 4 of it
    at = "((cell, box) => ({clientX: box.left + (18 + 4.5) * cell, clientY: box.top + (9 + 2.5) * cell}))"
    click = f"{at}(one.canvas.cell, one.canvas.getBoundingClientRect())"
    seen.does(f"one.canvas.dispatchEvent(new MouseEvent('click', {click}))")
    assert seen.does("one.typed.value") == "5,2,4,6" and seen.way() == told(steps[1], "e3", 5, 2, 4, 6)
    seen.does("one.canvas.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowDown'}))")
    assert seen.does("one.typed.value") == "5,3,4,6"
    for path in ("x0", "Wq", "x1", "gW", "gWq", "e4", "Acc", "W"):
        Seen(browser, path)
    browser.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.complaints == []


@pytest.mark.slow
def test_a_sum_opens_into_its_products(
    browser: Browser, file: Path, steps: list[tuple[Recorder, Operands]]
) -> None:
    browser.open(file, 1300, 800)
    events = steps[1][0].events
    x0, w = (events[f"{LAYER}/{path}"].result.codes.astype(int) for path in ("x0", "Wq"))
    terms = x0[2, 2:5, 3:6, :].transpose(2, 0, 1) * w[9]  # of x1[2,3,4,9]
    seen = Seen(browser, "x1")
    seen.types("2,3,4,9")
    text = seen.opens("its products")
    assert f"144 products, {(terms == 0).sum()} of them 0" in text and "the exact value above" in text
    c, u, v = np.unravel_index(np.argmax(np.abs(terms)), terms.shape)
    first = seen.does("one.more[0].querySelector('tbody tr').textContent")
    assert f"Wq[9,{c},{u},{v}] = {w[9, c, u, v]} · 2^-7x0[2,{2 + u},{3 + v},{c}] = " in first
    rows = "one.more[0].querySelectorAll('tbody tr').length"
    assert seen.does(rows) == 12
    seen.does("[...one.more[0].querySelectorAll('button')].at(-1).click()")
    assert seen.does(rows) == 144


@pytest.mark.slow
def test_what_if(browser: Browser, file: Path, steps: list[tuple[Recorder, Operands]]) -> None:
    """At first as it is; 4 bits are those of the same value in <4,3>."""
    browser.open(file, 1300, 800)
    event = steps[1][0].events[f"{LAYER}/Wq"]
    seen = Seen(browser, "Wq")
    seen.types("3,1,0,2")
    seen.opens("what if")

    def code() -> str:
        row = "[...one.more[0].querySelectorAll('tr')].find((tr) => tr.cells[0].textContent === 'code')"
        return str(seen.does(f"{row}.cells[1].textContent"))

    assert code() == str(int(event.result.codes[3, 1, 0, 2]))
    for name, value in (("wl", 4), ("fl", 3)):
        field = f"one.more[0].querySelector('[name={name}]')"
        fill = f"f.value = {value}; f.dispatchEvent(new Event('input', {{bubbles: true}}));"
        seen.does(f"((f) => {{ {fill} }})({field})")
    exact = explain(event, (3, 1, 0, 2), steps[1][1]).value.value
    assert exact is not None and code() == str(round(exact * 8))  # half to even, as Python's
    assert "SQNR" in seen.opens("what if")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["wageubn", "muppet", "banner", "dynasty", "mx"])
def test_what_if_begins_with_the_paths_own_format(browser: Browser, tmp_path: Path, method: str) -> None:
    """Its code is the one that is stored (a codec's buckets and blocks are cut otherwise)."""
    page = tmp_path / "x.html"
    names = ["--model", "resnet8", "--data", "digits", "--batch-size", "8", "--limit", "8"]
    assert main(["inspect", "--method", method, *names, "--layer", "layer1.0.*1", "--html", str(page)]) == 0
    browser.complaints.clear()
    browser.open(page, 1300, 800)
    told = browser.evaluate("""Explorer.all.map((one) => {
      if (!one.seen) (near.unobserve(one.place), one.build());
      for (const details of one.more) (details.open = true, details.refresh());
      const rows = [...one.place.querySelectorAll('.answer tr')];
      const code = rows.find((row) => row.cells[0].textContent === 'code')?.cells[1].textContent;
      const trouble = [...one.place.querySelectorAll('.trouble')].map((p) => p.textContent).join('');
      return [one.name, one.path.rounding?.kind ?? '', trouble, code, one.way.innerText];
    })""")
    assert browser.complaints == [] and [row for row in told if row[2]] == []
    formats = [row for row in told if row[1] == "format" and row[3] is not None]
    for name, _, _, code, shown in formats:
        (line,) = (text.split("\t")[1] for text in shown.split("\n") if text.startswith("code\t"))
        assert line.split(" ")[0].replace(",", "") == code, name
    assert len(told) > 15 and len(formats) > (method in ("wageubn", "muppet")) * 5 - 1


@pytest.mark.slow
def test_what_changes_between_two_steps(
    browser: Browser, file: Path, steps: list[tuple[Recorder, Operands]]
) -> None:
    browser.open(file, 1300, 800)
    seen = Seen(browser, "Wq")
    seen.types("3,1,0,2")
    first, second = (step[0].events[f"{LAYER}/Wq"].result.codes.astype(int) for step in steps)
    text = seen.does("one.changed.textContent")
    at = (3, 1, 0, 2)
    assert f"in step 1: code {first[at]} (" in text and f"2: code {second[at]} (" in text
    count = int((first != second).sum())
    assert f"From step 1 to 2 {count:,} of 2,304 elements changed" in text
    seen.does("(one.range.value = 0, one.range.dispatchEvent(new Event('input')))")
    assert seen.way() == told(steps[0], "Wq", *at)
    assert seen.does("one.changed.textContent").count("From step") == 0


@pytest.mark.slow
def test_an_image_that_a_shorter_batch_has_not(browser: Browser, tmp_path: Path) -> None:
    """The second step of an epoch of 12 images takes 4."""
    short = [*SMALL[: SMALL.index("--limit")], "--limit", "12"]
    assert main(["inspect", "--method", "wageubn", *short, "--layer", LAYER, "--steps", "2", "--html",
                 str(tmp_path / "x.html")]) == 0  # fmt: skip
    browser.open(tmp_path / "x.html", 1300, 800)
    seen = Seen(browser, "e3")
    seen.does("(one.range.value = 0, one.range.dispatchEvent(new Event('input')))")
    seen.types("6,1,2,3")
    assert seen.way() and not seen.does("one.trouble.textContent")
    seen.does("(one.range.value = 1, one.range.dispatchEvent(new Event('input')))")
    said = seen.does("one.trouble.textContent")
    assert said == "step 2 has 4 of these, 0..3: its batch is a shorter one" and not seen.way()
