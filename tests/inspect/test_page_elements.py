"""What the page of `intnet inspect --html` computes, held to the definition: ways of elements, sums."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet.exact.blocks.mx_blocks import Along
from intnet.inspect.elements import interesting
from intnet.inspect.explain import explain
from intnet.inspect.explain_rules import Disagreement
from intnet.inspect.operands import Operands
from intnet.inspect.page import ELEMENTS
from intnet.inspect.page.embed import Data, rows_held
from intnet.inspect.page.ways import as_json
from intnet.inspect.text import stations
from intnet.methods.trace import Event, Recorder
from intnet.numbers.microscaling import MXFP4, MXINT8, MXS, SCALES
from intnet.numbers.qtensor import QTensor
from intnet.runs import run_folder
from intnet.show import lab, web
from intnet.spec.float32 import to_float32
from intnet.spec.rounding import MODES
from intnet.spec.tensor import place_of
from tests.support.browser import CHROMIUM, Browser
from tests.support.mx_events import event_of, numbers

EACH = 8  # elements of a path
PAGES = (  # method, model, options, images of a batch
    *((method, "mlp", ()) for method in ("adapt", "muppet", "float32", "banner")),
    ("wageubn", "resnet8", ()),
    ("dynasty", "resnet8", ()),
    ("saved", "lenet5", ()),
    ("saved", "mlp", (("codec", "levels"),)),
    ("saved", "mlp", (("codec", "levels"), ("levels", "5"))),
    ("saved", "mlp", (("codec", "symmetric"), ("bucket", "tensor"))),
    ("saved", "mlp", (("bits", "2/4"), ("mix_prob", "0.5"))),
    (
        "mx", "mlp",
        (
            ("x", "MXFP8_E4M3"), ("w", "MXINT8/round"), ("e", "MXFP4/ceil/stochastic"),
            ("g", "MXFP6_E3M2/fit/ties_away"),
        ),
    ),
    (
        "mx", "resnet8",
        (
            ("x", "MXFP8_E5M2/ceil"), ("w", "MXFP6_E2M3"), ("e", "MXINT8/fit/stochastic"),
            ("g", "MXFP4/floor/to_zero"),
        ),
    ),
)  # fmt: skip
Made = tuple[Recorder, Operands, Data]
Options = tuple[tuple[str, str], ...]


@lru_cache
def made(method: str, model: str, options: Options = (), limit: int = 1 << 20, paths: str = "*") -> Made:
    """The second step of a run, and what a page holds of it."""
    run, recorder = run_folder.build(method, dict(options), model, "digits", 12, 1, 24), Recorder(paths)
    run.train(2, observe_last=[recorder])
    operands, data = Operands(recorder.events, run.method.SYMBOLS), Data(limit)
    layers = {layer.name: layer for layer in run.model.all_layers()}
    data.step(2, list(recorder.events.values()), operands, layers)
    return recorder, operands, data


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no browser: apt-get install chromium")
    with Browser() as browser:
        yield browser


def opened(browser: Browser, folder: Path, data: Data, scripts: str = "") -> None:
    """A page of the scripts that compute, and the data."""
    text = json.dumps(data.to_dict()).replace("<", "\\u003c")
    held = f'<script type="application/json" id="data">{text}</script>'
    scripts = scripts or web.script("intnet.inspect.page", *ELEMENTS)
    page = folder / "elements.html"
    page.write_text(web.document("x", "", "", lab.arithmetic(), scripts, data=held))
    browser.complaints.clear()
    browser.open(page, 800, 600)
    assert browser.complaints == []


def some(shape: tuple[int, ...], seed: str) -> list[tuple[int, ...]]:
    rng = random.Random(seed)
    return [place_of(rng.randrange(prod(shape)), shape) for _ in range(EACH)]


def ways(browser: Browser, name: str, indices: Sequence[tuple[int, ...]]) -> list[Any]:
    """[stations or what is wrong, whether the code is the stored one] of elements, as the page has them."""
    code = """(name, indices) => indices.map((index) => {
      try { return ((made) => [made.stations, made.agrees])(way.of(held.steps[0].paths[name], index)); }
      catch (error) { return [error.message, false]; }
    })"""
    found: list[Any] = browser.evaluate(f"({code})({json.dumps(name)}, {json.dumps(indices)})")
    return found


def different(browser: Browser, step: Made) -> list[str]:
    """'layer/path[index]' of elements of all paths whose stations are not the definition's."""
    recorder, operands, data = step
    found = []
    for name, event in recorder.events.items():
        assert data.steps[0]["paths"][name]["source"] is not None, f"{name} is told by Python"
        indices = some(event.result.shape, name)
        told = ways(browser, name, indices)
        for index, (shown, agrees) in zip(indices, told, strict=True):
            wanted = [list(row) for row in stations(explain(event, index, operands))]
            if shown != wanted or not agrees:
                found.append(f"{name}{list(index)}")
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("method", "model", "options"), PAGES)
def test_every_paths_elements_are_the_definitions(
    browser: Browser, tmp_path: Path, method: str, model: str, options: Options
) -> None:
    """All stations, letter by letter, as exact arithmetic in Python tells them."""
    step = made(method, model, options)
    opened(browser, tmp_path, step[2])
    assert different(browser, step) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "old", "new"),
    [
        ("adapt", "BigInt(32 - r.bits)", "BigInt(33 - r.bits)"),
        ("mx", "inside - inside % o.size", "inside - inside % 16"),
        ("mx", "word ?? 0n, bits)", "word ?? 0n, bits - 1)"),
    ],
)
def test_a_fault_of_the_scripts_is_seen(
    browser: Browser, tmp_path: Path, method: str, old: str, new: str
) -> None:
    step = made(method, "mlp", (("format", "MXFP4/floor/stochastic"),) if method == "mx" else ())
    scripts = web.script("intnet.inspect.page", *ELEMENTS)
    faulty = scripts.replace(old, new)
    assert faulty != scripts
    opened(browser, tmp_path, step[2], faulty)
    assert different(browser, step)


# -- MX blocks -----------------------------------------------------------------------------------


def held_of(events: Sequence[Event], limit: int = 1 << 20) -> Made:
    recorder = Recorder()
    for event in events:
        recorder(event)
    operands, data = Operands(recorder.events), Data(limit)
    data.step(1, events, operands, {})
    return recorder, operands, data


@pytest.mark.slow
@pytest.mark.parametrize("name", MXS)
def test_every_block_of_mx_is_the_definitions(browser: Browser, tmp_path: Path, name: str) -> None:
    """Each rule with each mode, along each axis, whole and in groups, of which no block has two."""
    places = ((1, 1), (1, 2), (-1, 1), (0, 1), (1, 70))
    events = []
    for k, (rule, mode) in enumerate(product(SCALES, MODES)):
        along = Along(replace(MXS[name], scale=rule), *places[k % len(places)])
        events.append(replace(event_of(numbers(k), along, mode)[0], path=f"x{k}"))
    step = held_of(events)
    opened(browser, tmp_path, step[2])
    assert different(browser, step) == []


@pytest.mark.slow
def test_a_scale_that_is_not_the_blocks_is_told(browser: Browser, tmp_path: Path) -> None:
    """In Python's words, of all elements of the block and of none beside it."""
    event, _ = event_of(numbers(1), Along(MXFP4, 1), "ties_even")
    exponents = np.array(event.result.exponent)
    exponents[1, 40, 2] -= 1
    forged = replace(event, result=QTensor(event.result.codes, exponents, bound=event.result.bound))
    step = held_of([forged])
    opened(browser, tmp_path, step[2])

    def said(*index: int) -> Any:
        return ways(browser, "fc/x0", [index])[0]

    for index in ((1, 40, 2), (1, 63, 2)):
        with pytest.raises(Disagreement) as caught:
            explain(forged, index)
        assert said(*index) == [str(caught.value), False]
    assert all(said(*index)[1] for index in ((1, 31, 2), (1, 64, 2), (1, 40, 1)))


@pytest.mark.slow
def test_only_whole_blocks_are_held(browser: Browser, tmp_path: Path) -> None:
    """Along the first axis a block has up to 32 images: of one that is held in part no element is."""
    cases = ((1, 44, 32), (1, 31, 0), (1, 70, 70), (2, 44, 35), (2, 69, 67))
    for groups, rows, whole in cases:
        event, _ = event_of(numbers(0)[0], Along(MXINT8, 0, groups), "ties_even")
        step = held_of([event], rows // 4 * 4 * 3 * 4 if rows < 70 else 1 << 20)
        path = step[2].steps[0]["paths"]["fc/x0"]
        assert path["held"] == 3 * whole, (groups, rows)
        assert not step[2].holds("fc/x0", 3 * whole)
        opened(browser, tmp_path, step[2])
        last = [(whole - 1, 2)] * (whole > 0)
        for at, (told, agrees) in zip(last, ways(browser, "fc/x0", last), strict=True):
            assert agrees and told == [list(row) for row in stations(explain(event, at))]


# -- sums ----------------------------------------------------------------------------------------


def total(browser: Browser, name: str, index: tuple[int, ...]) -> tuple[Fraction, Fraction]:
    """(the sum of the products that the page shows, its bias)."""
    code = (
        f"((step) => {{ const found = products.of(step.paths[{json.dumps(name)}], {list(index)}, step);"
        " const told = (a) => `${a.n}/${a.d}`;"
        " return [told(products.total(products.values(found))), told(found.bias ?? {n: 0n, d: 1n})]; }"
        ")(held.steps[0])"
    )
    one, bias = map(Fraction, browser.evaluate(code))
    return one, bias


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "model", "paths"),
    [
        ("wageubn", "resnet8", "*"),
        ("muppet", "lenet5", "*"),
        ("wageubn", "efficientnetv2", "features.4.0.block.1.*"),
    ],
)
def test_products_sum_to_the_exact_value(
    browser: Browser, tmp_path: Path, method: str, model: str, paths: str
) -> None:
    """Of convolutions of stride 1 and 2 with padding and groups, and linear layers, in all three sums."""
    recorder, operands, data = made(method, model, paths=paths)
    opened(browser, tmp_path, data)
    seen: set[str] = set()
    for name, event in recorder.events.items():
        path = data.steps[0]["paths"][name]
        factors = [data.steps[0]["factors"][one] for one in (path["sum"] or {"factors": []})["factors"]]
        if not factors or any(one["kind"] != "codes" for one in (path["result"], *factors)):
            continue
        seen.add(event.path)
        for index in some(event.result.shape, name)[:3]:
            value = explain(event, index, operands).value.value
            assert sum(total(browser, name, index)) == value, f"{name} {index}"
    assert {"x1", "e4", "gW"} <= seen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "weights", "inputs", "errors"),
    [("float32", ("W", "W"), ("x0", "x0"), ("e3", "e3")), ("mx", ("Wq", "Wb"), ("x0", "x0b"), ("e3", "e3w"))],
)
def test_products_of_floats(
    browser: Browser,
    tmp_path: Path,
    method: str,
    weights: tuple[str, str],
    inputs: tuple[str, str],
    errors: tuple[str, str],
) -> None:
    """A linear layer, term by term, each sum of the copies that it reads."""
    recorder, _, data = made(method, "mlp")
    opened(browser, tmp_path, data)

    def value(name: str, *index: int) -> Fraction:
        result = recorder.events[f"fc2/{name}"].result
        if isinstance(result, QTensor):
            return int(result.codes[index]) * Fraction(2) ** int(result.exponent[index])
        return Fraction(float(result[index]))

    n, o, c = 5, 7, 11
    (outputs, reads), images = recorder.events[f"fc2/{weights[0]}"].result.shape, 12
    forward = sum((value(weights[0], o, k) * value(inputs[0], n, k) for k in range(reads)), Fraction(0))
    error = sum((value(weights[1], k, c) * value(errors[0], n, k) for k in range(outputs)), Fraction(0))
    gradient = sum((value(errors[1], k, o) * value(inputs[1], k, c) for k in range(images)), Fraction(0))
    assert total(browser, "fc2/x1", (n, o))[0] == forward
    assert total(browser, "fc2/e4", (n, c))[0] == error
    assert total(browser, "fc2/gW", (o, c))[0] == gradient


@pytest.mark.slow
def test_products_of_block_float_are_rounded_once(browser: Browser, tmp_path: Path) -> None:
    recorder, _, data = made("dynasty", "resnet8")
    opened(browser, tmp_path, data)
    for path, index in (("x1", (3, 2, 3, 7)), ("e4", (1, 7, 0, 4)), ("gW", (6, 2, 0, 1))):
        exact, _ = total(browser, f"layer2.0.conv1/{path}", index)
        stored = recorder.events[f"layer2.0.conv1/{path}"].result[index]
        assert to_float32(exact) == Fraction(float(stored))


# -- what is held --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "size", "limit", "rows"),
    [
        ((16, 8), 4, 512, 16), ((16, 8), 4, 511, 12), ((16, 8), 4, 127, 0), ((3,), 8, 24, 3), ((), 8, 0, 1),
        ((5, 0), 1, 0, 5),
    ],
)  # fmt: skip
def test_rows_are_held_in_fours(shape: tuple[int, ...], size: int, limit: int, rows: int) -> None:
    assert rows_held(shape, size, limit) == rows


@pytest.mark.slow
def test_the_page_says_what_it_does_not_hold(browser: Browser, tmp_path: Path) -> None:
    _, _, data = made("wageubn", "mlp", (), 1 << 10)
    opened(browser, tmp_path, data)
    paths = data.steps[0]["paths"]
    partly = [name for name, path in paths.items() if 0 < path["held"] < prod(path["shape"])]
    assert partly and f"of {len(paths)}" in data.told() and "1 KiB a tensor" in data.told()
    for name in partly[:3]:
        shape, held = paths[name]["shape"], paths[name]["held"]
        for flat, known in ((held - 1, True), (held, False)):
            index = [int(i) for i in np.unravel_index(flat, shape)]
            ask = f"way.of(held.steps[0].paths[{json.dumps(name)}], {index})"
            caught = f"try {{ {ask}; return true; }} catch (e) {{ return !(e instanceof NotHeld); }}"
            assert browser.evaluate(f"(() => {{ {caught} }})()") is known, f"{name} {index}"


def test_what_no_script_does_is_told_by_python() -> None:
    """Levels of a bucket's norm: each element worth reading has its whole way."""
    recorder, operands, data = made("saved", "mlp", (("codec", "levels"), ("norm", "l2")))
    event = recorder.events["fc2/x0s"]
    assert data.steps[0]["paths"]["fc2/x0s"]["source"] is None and not data.holds("fc2/x0s", 0)
    found = interesting(event, operands)
    told = json.loads(as_json(data, {"fc2/x0s": found}))["elements"]["fc2/x0s"]
    assert [one["stations"] for one in told] == [
        [list(row) for row in stations(explain(event, one.index, operands))] for _, one in found
    ]


def test_arrays_are_narrow_and_there_once() -> None:
    recorder, _, data = made("wageubn", "mlp")
    x0: dict[str, Any] = data.steps[0]["paths"]["fc2/x0"]
    x1 = data.steps[0]["paths"]["fc2/x1"]
    assert x0["result"]["array"] == x0["source"]["terms"][0]["array"]
    assert data.steps[0]["factors"]["fc2/x0"]["array"] == x0["result"]["array"]
    assert data.arrays[x1["result"]["array"]]["type"] == "i4"
    assert recorder.events["fc2/x0"].result.codes.max() > 127
    assert data.arrays[x0["result"]["array"]]["type"] == "i2"
