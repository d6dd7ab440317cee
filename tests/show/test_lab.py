"""The lab's arithmetic against the definition, in a browser; its page as people use it."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from intnet.cli.main import main
from intnet.exact.blocks.mx_blocks import Along
from intnet.inspect import as_spec
from intnet.numbers.microscaling import MXS
from intnet.show import lab
from intnet.spec import block_float, buckets, formats, microscaling, words
from intnet.spec.float32 import to_float32, units, value
from intnet.spec.mx_blocks import InBlock
from intnet.spec.rounding import MODES, OVERFLOWS, decision, overflow
from intnet.spec.tensor import power
from tests.support.browser import CHROMIUM, Browser

ELEMENTS = 100_000  # of each format and codec

# What is asked of the page: `run(format, o, cases)` gives a line of text a tensor.
HARNESS = """
const rational = (text) => exact.ratio(...text.split("/").map(BigInt));
function formatted(name, o, [texts, drawn, mode, bits]) {
  const xs = texts.map(rational), format = FORMATS[name], grid = format.grid(xs, o);
  return xs.map((x, k) => {
    const own = format.at ? format.at(grid, k, o) : grid;
    const way = format.way(x, own, o, mode, BigInt(drawn[k]), bits);
    const limited = way.saturated ? 1 : 0;
    return [own, format.exponent(own, o), way.code, limited, format.bits(way.code, o, x)].join(" ");
  }).join(";");
}
function coded(name, o, [texts, drawn]) {
  const xs = texts.map((text) => float32.of(rational(text)));
  const codec = CODECS[name], state = codec.state(xs, o.b);
  return xs.map((x, k) => {
    const made = codec.way(x, state, o.b, codec.words ? BigInt(drawn[k]) : null);
    const value = exact.fromNumber(made.value);
    return [made.code, `${value.n}/${value.d}`].join(" ");
  }).join(";");
}
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no browser: apt-get install chromium")
    path = written(tmp_path_factory.mktemp("lab"), lab.arithmetic())
    with Browser() as browser:
        browser.open(path, 800, 600)
        yield browser


def written(folder: Path, scripts: str) -> Path:
    """A page that answers `ask`."""
    path = folder / "harness.html"
    path.write_text(f"<!DOCTYPE html><meta charset='utf-8'><script>{scripts}{HARNESS}</script>")
    return path


def ask(browser: Browser, how: str, name: str, asked: list[tuple[dict[str, Any], list[Any]]]) -> list[str]:
    """The page's answers, a line a tensor."""
    text = browser.evaluate(f'{json.dumps(asked)}.map(([o, one]) => {how}("{name}", o, one)).join("\\n")')
    assert browser.complaints == []
    return str(text).split("\n")


def number(rng: random.Random, near: Fraction) -> Fraction:
    """A value: decimal, on a grid, half way between two of its points, beside one of these, or 0."""
    kind = rng.randrange(6)
    k = Fraction(rng.randint(-300, 300))
    if kind == 0:
        return Fraction(rng.randint(-(10**6), 10**6), 10 ** rng.randint(0, 7))
    if kind == 1:
        return k * near
    if kind == 2:
        return (k + Fraction(1, 2)) * near
    if kind == 3:
        return (k + Fraction(1, 2) + Fraction(rng.choice((-1, 1)), 2 ** rng.randint(20, 60))) * near
    if kind == 4:
        return Fraction(rng.randint(-(2**24), 2**24)) * power(rng.randint(-40, 10))
    return Fraction(0)


def plain(x: Fraction) -> str:
    return f"{x.numerator}/{x.denominator}"


def twos(code: int, width: int) -> str:
    return format(code % 2**width, f"0{width}b") if width else ""


def flag_bits(code: int, k: int) -> str:
    flag, sign, size = formats.flag_encode(code, k)
    return f"{flag}{sign}{size:0{k - 1}b}"


def fixed(rng: random.Random) -> tuple[dict[str, Any], formats.Format, Callable[[int], str]]:
    wl, signed = rng.randint(1, 32), rng.random() < 0.8
    o = {
        "wl": wl, "fl": rng.randint(-8, 32), "overflow": rng.choice(OVERFLOWS[:3]),
        "signed": "signed" if signed else "unsigned",
    }  # fmt: skip
    return o, formats.FixedPoint(wl, o["fl"], signed, o["overflow"]), lambda code: twos(code, wl)


def needed(code: int) -> int:
    return (code if code >= 0 else ~code).bit_length() + 1


def one_of(name: str, rng: random.Random) -> tuple[dict[str, Any], formats.Format, Callable[[int], str]]:
    """Choices of the page, the format of the definition, and how its codes are written."""
    k = rng.randint(2, 32)
    if name == "fixed":
        return fixed(rng)
    if name == "q":
        return {"k": k}, formats.Direct(k), lambda code: twos(code, max(k, needed(code)))
    if name == "sq":
        return {"k": k}, formats.Shift(k), lambda code: twos(code, k)
    if name == "cq":
        log_dr = rng.randint(1, 15)
        return (
            {"k": k, "log_dr": log_dr}, formats.Constant(k, 2**log_dr), lambda code: twos(code, log_dr + 1)
        )  # fmt: skip
    if name == "flag":
        k = rng.randint(2, 16)
        return {"k": k}, formats.Flag(k), lambda code: flag_bits(code, k)
    assert name == "scaled"
    return {"wl": k}, formats.Scaled(k), lambda code: twos(code, k)


Asked = tuple[list[tuple[dict[str, Any], list[Any]]], list[str]]  # what the page is asked, what it should say


def sizes(rng: random.Random) -> Iterator[int]:
    """Of tensors with ELEMENTS elements in all."""
    left = ELEMENTS
    while left > 0:
        n = rng.choice((1, 12, 23))
        yield n
        left -= n


@lru_cache
def of_format(name: str) -> Asked:
    rng = random.Random(f"lab {name}")
    asked, wanted = [], []
    for n in sizes(rng):
        o, made, bits_of = one_of(name, rng)
        near = made.step(rng.randint(-6, 6))
        xs = [number(rng, near) for _ in range(n)]
        mode, bits = rng.choice(MODES), rng.randint(1, 32)
        drawn = [rng.choice((0, 2**bits - 1, rng.randrange(2**bits))) for _ in xs]
        asked.append((o, [[plain(x) for x in xs], drawn, mode, bits]))
        grid = made.grid(xs)
        each = [made.code(x, grid, mode, word, bits) for x, word in zip(xs, drawn, strict=True)]
        told = [f"{grid} {made.exponent(grid)} {code} {limited:d} {bits_of(code)}" for code, limited in each]
        wanted.append(";".join(told))
    return asked, wanted


@lru_cache
def of_blocks(name: str) -> Asked:
    """The definition rounds ties to even; of the other modes its rounding is."""
    rng = random.Random(f"lab {name}")
    asked, wanted = [], []
    for n in sizes(rng):
        b, size = rng.randint(0, 16), rng.randint(1, 32)
        xs = [number(rng, power(rng.choice((-140, -20, -3, 2)))) for _ in range(n)]
        mode, bits = rng.choice(("ties_even", *MODES)), rng.randint(1, 32)
        drawn = [rng.randrange(2**bits) for _ in xs]
        asked.append(({"b": b, "size": size}, [[plain(x) for x in xs], drawn, mode, bits]))
        told = []
        for k, (x, word) in enumerate(zip(xs, drawn, strict=True)):
            e = block_float.exponent(xs[k // size * size : (k // size + 1) * size])
            code, limited = block_float.code_at(x, e, b)
            if mode != "ties_even" and e is not None and b:
                free = decision(x / power(e - b + 1), mode, word, bits).rounded
                code = overflow(free, -(2 ** (b - 1)) + 1, 2 ** (b - 1) - 1, "saturate")
                limited = code != free
            unit = 0 if e is None or not b else e - b + 1
            told.append(f"{'' if e is None else e} {unit} {code} {limited:d} {twos(code, b)}")
        wanted.append(";".join(told))
    return asked, wanted


@lru_cache
def of_mx(name: str) -> Asked:
    """Words of elements by one function of the definition, codes by another."""
    rng = random.Random(f"lab {name}")
    asked, wanted = [], []
    for n in sizes(rng):
        chosen, rule, size = rng.choice(list(MXS)), rng.choice(microscaling.SCALES), rng.randint(1, 32)
        element = as_spec.along_of(Along(MXS[chosen], 0)).element
        xs = [number(rng, power(rng.choice((-140, -20, -3, 2)))) for _ in range(n)]
        mode, bits = rng.choice(MODES), rng.randint(1, 32)
        drawn = [rng.choice((0, 2**bits - 1, rng.randrange(2**bits))) for _ in xs]
        o = {"element": chosen, "rule": rule, "size": size}
        asked.append((o, [[plain(x) for x in xs], drawn, mode, bits]))
        rounds, told = InBlock(element), []
        for first in range(0, n, size):
            block, own = xs[first : first + size], drawn[first : first + size]
            made = microscaling.quantize_block(block, element, rule, mode, own, bits)
            k = made.scale - microscaling.GREATEST
            for x, random_word, word in zip(block, own, made.elements, strict=True):
                way = rounds.way(x, k, mode, random_word, bits)
                stored = twos(word, MXS[chosen].bits)
                told.append(f"{k} {rounds.exponent(k)} {way.code} {way.saturated:d} {stored}")
        wanted.append(";".join(told))
    return asked, wanted


@lru_cache
def of_codec(name: str) -> Asked:
    rng = random.Random(f"lab {name}")
    asked, wanted = [], []
    for n in sizes(rng):
        b, near = rng.randint(1, 16), power(rng.choice((-130, -20, -3, 2)))
        xs = [to_float32(number(rng, near)) for _ in range(n)]
        drawn = [rng.choice((0, 2**32 - 1, rng.randrange(2**32))) for _ in xs]
        kind = name.replace("_", "-")
        by_words = drawn if kind in buckets.BY_WORDS else None
        made = buckets.saved_bucket([units(x) for x in xs], kind, b, by_words)
        asked.append(({"b": b}, [[plain(x) for x in xs], drawn]))
        codes = made.buckets[0].codes
        wanted.append(";".join(f"{q} {plain(value(v))}" for q, v in zip(codes, made.values, strict=True)))
    return asked, wanted


FORMATS = {"fixed": of_format, "q": of_format, "sq": of_format, "cq": of_format, "flag": of_format,
           "scaled": of_format, "block": of_blocks, "mx": of_mx}  # fmt: skip
CODECS = ("affine", "affine_stochastic", "levels", "symmetric")


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_formats_are_the_definitions(browser: Browser, name: str) -> None:
    """All modes, all widths: grid, exponent, code, whether it was limited, bits as they are stored."""
    asked, wanted = FORMATS[name](name)
    assert ask(browser, "formatted", name, asked) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("name", CODECS)
def test_codecs_are_the_definitions(browser: Browser, name: str) -> None:
    """Buckets of 1 to 23: codes, and the float32 that each becomes again."""
    asked, wanted = of_codec(name)
    assert ask(browser, "coded", name, asked) == wanted


def test_every_format_of_the_page_is_asked() -> None:
    scripts = lab.arithmetic()
    assert set(re.findall(r"^  (\w+): \{\n    title", scripts, re.M)) | set(
        re.findall(r"^(?:FORMATS|CODECS)\.(\w+) = ", scripts, re.M)
    ) == {*FORMATS, *CODECS}


@pytest.mark.slow
def test_float32_and_words_are_the_definitions(browser: Browser) -> None:
    rng = random.Random("lab float32")
    xs = [number(rng, power(rng.randint(-150, 60))) for _ in range(20_000)]
    xs += [Fraction(2 * k + 1, 2) * power(e) for k in range(50) for e in (-149, -150, -126, 0)]
    wanted = [plain(to_float32(x)) for x in xs]
    code = "((v) => `${v.n}/${v.d}`)(exact.fromNumber(float32.of(rational(x))))"
    assert browser.evaluate(f"{json.dumps([plain(x) for x in xs])}.map((x) => {code})") == wanted
    for counter, key in (
        ((0, 0, 0, 0), (0, 0)),
        ((2**32 - 1,) * 4, (2**32 - 1,) * 2),
        ((5, 0, 3, 9), (7, 1)),
    ):
        made = browser.evaluate(f"words.philox({list(counter)}, {list(key)})")
        assert tuple(made) == words.philox4x32(counter, key)


@pytest.mark.slow
def test_typed_numbers_are_exact(browser: Browser) -> None:
    typed = {
        "0.3": Fraction(3, 10), "-1e-5": Fraction(-1, 10**5), "3/8": Fraction(3, 8), "0x1f": Fraction(31),
        "5 * 2^-7": Fraction(5, 128), "2^70": Fraction(2**70), ".5": Fraction(1, 2), "-0.0": Fraction(0),
        "1.25e2": Fraction(125), "-7/14": Fraction(-1, 2),
    }  # fmt: skip
    code = "((v) => `${v.n}/${v.d}`)(exact.parse(x))"
    assert browser.evaluate(f"{json.dumps(list(typed))}.map((x) => {code})") == [
        plain(x) for x in typed.values()
    ]
    code = "(() => { try { exact.parse(%s); return ''; } catch (e) { return e.message; } })()"
    for bad in ("", "x", "1/0", "1e", "--1", "NaN", "1..2", "Infinity"):
        told = browser.evaluate(code % json.dumps(bad))
        assert "is no number" in told, bad


FAULTS = (  # old text, new text, and what of the page shows it
    ("fraction.n << BigInt(bits)", "fraction.n << 31n", "fixed"),
    ("(floor & 1n) === 1n", "(floor & 1n) === 0n", "q"),
    ('if (how !== "wrap")', "if (true)", "fixed"),
    ("exact.power(2 * n + 1)", "exact.power(2 * n + 2)", "sq"),
    ("[1n - top, top - 1n", "[-top, top - 1n", "flag"),
    ("const limit = spread(b);", "const limit = spread(b) + 1n;", "block"),
    ("top << BigInt(most - lead)", "top << BigInt(most - least)", "mx"),
    ("const part = f32(u - floor);", "const part = u - floor - 2 ** -30;", "levels"),
    ("clamp(decision.rounded, 0,", "clamp(decision.rounded, 1,", "affine"),
)


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new", "name"), FAULTS)
def test_a_fault_is_found(browser: Browser, tmp_path: Path, old: str, new: str, name: str) -> None:
    scripts = lab.arithmetic()
    assert scripts.count(old) >= 1
    browser.open(written(tmp_path, scripts.replace(old, new)), 800, 600)
    try:
        asked, wanted = FORMATS[name](name) if name in FORMATS else of_codec(name)
        assert ask(browser, "formatted" if name in FORMATS else "coded", name, asked) != wanted
    finally:
        browser.open(written(tmp_path, scripts), 800, 600)


# -- the page ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lab") / "lab.html"
    assert main(["lab", str(path)]) == 0
    return path


def told(browser: Browser, row: str, part: str = "way") -> str:
    """What a row of a table says."""
    code = (
        f"[...document.querySelectorAll('#{part} tr')].find((row) => row.cells[0].textContent === {row!r})"
        ".cells[1].textContent"
    )
    return str(browser.evaluate(code))


def choose(browser: Browser, form: str = "choices", **choices: object) -> None:
    """As a person changes fields of a form."""
    for name, chosen in choices.items():
        browser.evaluate(
            f"((field) => {{ field.value = {json.dumps(chosen)};"
            " field.dispatchEvent(new Event('input', {bubbles: true})); }"
            f")(document.getElementById('{form}').elements.{name})"
        )


@pytest.mark.slow
def test_a_link_holds_all_that_stands_there(browser: Browser, file: Path) -> None:
    """A drawn tensor, both walks; one that is given in an open page; names and numbers that there are not."""

    def trouble() -> str:
        return str(browser.evaluate("document.getElementById('trouble').textContent"))

    browser.complaints.clear()
    browser.open(file, 1300, 844)
    choose(browser, shape="normal", n=256)
    choose(browser, "update", w="1", u="0.01", ufl=4)
    choose(browser, "dot", terms=99)
    seen = told(browser, "exact value x"), told(browser, "W at the end, exact", "update-chart")
    link = browser.evaluate("location.hash")
    browser.open(file, 1300, 844, False, link)
    assert (told(browser, "exact value x"), told(browser, "W at the end, exact", "update-chart")) == seen
    assert browser.evaluate("page.values.length") == 256 and seen[1] == "3"
    assert browser.evaluate("document.forms.dot.elements.terms.value") == "99"
    after = "new Promise((done) => { addEventListener('hashchange', () => setTimeout(done)); "
    browser.evaluate(f"{after}location.hash = '#values=7&format=fixed&wl=8&fl=0'; }})")
    assert told(browser, "code") == "7" and not trouble()
    browser.evaluate(f"{after}location.hash = '#format=zzz&mode=bogus'; }})")
    assert trouble() == "the link chooses what is not here: format=zzz, mode=bogus"
    choose(browser, values="1e999")
    assert trouble() == "“1e999” is beyond what a picture holds: up to 1.8e308"
    choose(browser, "update", w="200", ufl=24)
    assert told(browser, "limited", "update-chart") == "W is <32,24>: within ±128"
    assert browser.complaints == []


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), [(1300, False), (390, False), (390, True)])
def test_the_page_answers(browser: Browser, file: Path, width: int, dark: bool) -> None:
    """What a student sees, choice by choice, and what they typed wrong."""
    browser.complaints.clear()
    browser.open(file, width, 844, dark)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert told(browser, "code") == "38" and told(browser, "x / step") == "38 + 2/5"
    choose(browser, format="flag", values="87/64, 3.1", k=8)
    assert told(browser, "x / step") == "43 + 1/2: a tie" and told(browser, "code") == str(44 * 128)
    assert browser.evaluate("document.getElementById('bits').textContent") == "100101100"
    assert told(browser, "bias of stochastic", "draws") == "0"
    choose(browser, mode="to_zero")
    assert told(browser, "code") == str(43 * 128)
    choose(browser, mode="stochastic", word="0x7fffffff")
    assert told(browser, "code") == str(44 * 128)
    choose(browser, word="0x80000000")
    assert told(browser, "code") == str(43 * 128)
    choose(browser, values="1/0")
    assert "is no number" in browser.evaluate("document.getElementById('trouble').textContent")
    choose(browser, values="3, -3", word="", format="levels", b=2)
    assert told(browser, "value ã") == "3"
    link = browser.evaluate("location.hash")
    browser.open(file, width, 844, dark, link)
    assert told(browser, "value ã") == "3" and browser.evaluate("location.hash") == link
    for name in [*FORMATS, *CODECS]:
        choose(browser, format=name, values="0.3, -0.72, 0")
        for index in range(3):
            choose(browser, index=index)
            assert browser.evaluate("document.getElementById('trouble').textContent") == ""
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.complaints == []


@pytest.mark.slow
def test_a_small_update_arrives_by_words_alone(browser: Browser, file: Path) -> None:
    browser.open(file, 1300, 844)
    assert told(browser, "rounded to nearest", "update-chart") == "0.5"
    ends = [float(x) for x in told(browser, "stochastic, three seeds", "update-chart").split(", ")]
    assert len(ends) == 3 and all(0.6 < end < 1.2 for end in ends)


@pytest.mark.slow
def test_a_register_wraps_where_its_sum_outgrows_it(browser: Browser, file: Path) -> None:
    """All operands at their limit: 2^14 a term, 2^15 does not fit 16 bits with their sign."""
    browser.open(file, 1300, 844)
    choose(browser, "dot", operands="all at the limit")
    assert told(browser, "exact sum", "dot-chart") == str(256 * 2**14)
    assert told(browser, "first wrong", "dot-chart") == "at term 2"
    assert told(browser, "register of 16 bits", "dot-chart") == "0"


def test_the_page_loads_nothing() -> None:
    text = lab.page(3)
    assert "default-src 'none'" in text
    assert not re.findall(r"(?:src|href)=\"(?!data:)|https?://(?!www\.w3\.org/2000/svg)", text)
