"""docs/, README, CONTRIBUTING: links lead somewhere, tables name what exists, what a page shows happens."""

from __future__ import annotations

import importlib
import inspect
import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest

import intnet
from docs import build, docstrings
from intnet import methods
from intnet.methods.float_master import FloatMaster
from intnet.numbers.formats import FORMATS
from intnet.numbers.rounding import MODES
from tests.support import docs_pages as pages
from tests.support.docs_pages import DOCS, PAGES, ROOT

README, CONTRIBUTING = ROOT / "README.md", ROOT / "CONTRIBUTING.md"
NO_BIT = "a figure, which no bit depends on"
PLACES = ("intnet/", "tests/", "examples/", "bench/", "docs/", "data/", ".ci/")


def ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.slow
@pytest.mark.parametrize("page", [README, CONTRIBUTING, *PAGES], ids=ids)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in pages.links(page.read_text()):
        if re.match(r"https?://", target):
            continue
        file, _, anchor = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        assert path.exists() and path.is_relative_to(ROOT), f"{page.name}: {target} is not there"
        if anchor:
            assert anchor in pages.anchors(path.read_text()), f"{page.name}: {target}: no such heading"


@pytest.mark.slow
@pytest.mark.parametrize("page", [README, CONTRIBUTING, *PAGES], ids=ids)
def test_every_file_and_function_that_a_page_names_exists(page: Path) -> None:
    for span in pages.spans(page.read_text()):
        if not span.startswith(PLACES) or re.search(r"[*<>]|NAME|\.\.\.", span):
            continue
        file, _, wanted = span.partition(": ")
        assert (ROOT / file).exists(), f"{page.name}: {file} is not there"
        if wanted:
            assert wanted in pages.names(ROOT / file), f"{page.name}: {file} has no {wanted}"


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_what_a_page_shows_is_what_happens(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if page.name == "pytorch.md":
        pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'intnet[torch]'")
    monkeypatch.chdir(tmp_path)
    pages.Session(page, tmp_path).run()


def test_no_page_is_left_out_of_the_contents() -> None:
    """Sphinx says so too, when it is there; this needs nothing."""
    listed = re.findall(r"^\S*?([\w/-]+)$", "".join(
        block.text for block in pages.blocks((DOCS / "index.md").read_text()) if block.kind == "{toctree}"
    ), re.MULTILINE)  # fmt: skip
    notebooks = {f"notebooks/{path.stem}" for path in (ROOT / "examples").glob("*.ipynb")}
    assert {*listed} == {pages.name_of(page).removesuffix(".md") for page in PAGES} - {"index"} | notebooks


# -- the reference ---------------------------------------------------------------------------------


def referred() -> set[str]:
    """What the pages of the reference have entries for."""
    text = "".join(path.read_text() for path in (DOCS / "reference").glob("*.md"))
    return set(re.findall(r"^\.\. auto\w+:: (\S+)$", text, re.MULTILINE))


def found(name: str) -> object:
    """What a dotted name stands for."""
    value: object = intnet
    for i, part in enumerate(name.split(".")[1:], 2):
        if not hasattr(value, part):
            importlib.import_module(".".join(name.split(".")[:i]))
        value = getattr(value, part)
    return value


def test_every_public_name_has_an_entry_in_the_reference() -> None:
    """A module has one where something of it has."""
    entries = referred()
    for name in set(intnet.__all__) - {"__version__"}:
        assert any(f"{entry}.".startswith(f"intnet.{name}.") for entry in entries), name


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(referred()))
def test_an_entry_of_the_reference_is_there_and_says_something(name: str) -> None:
    assert len(inspect.getdoc(found(name)) or "") > 10


def test_what_readme_and_the_notebooks_import_has_an_entry() -> None:
    cells = [
        "".join(cell["source"]) + "\n"
        for path in (ROOT / "examples").glob("*.ipynb")
        for cell in json.loads(path.read_text())["cells"]
    ]
    text = "".join(block.text for block in pages.blocks(README.read_text())) + "".join(cells)
    entries = referred()
    taken = re.findall(r"^(?:>>> )?from (intnet\S*) import (.+)$", text, re.MULTILINE)
    assert len(taken) > 10
    for home, names_taken in taken:
        if home.startswith("intnet.spec"):
            continue  # which stands on the pages of the definition
        for name in names_taken.split(", "):
            value = found(f"{home}.{name}")
            inside = f"{home}.{name}." if inspect.ismodule(value) else "-"
            assert any(e.startswith(inside) or found(e) is value for e in entries), f"{home}.{name}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("The sum of *args: |x|.\n\nMore.", r"The sum of \*args\: \|x\|\."),
        ("One.\n\nx: input,\n    of images; y: 2.\nRaises E.", "- **x**: input\\, of images\n\n- **y**"),
        ("One.\n\nAs here:\n    a  b\n     c\n", "As here\\:\n\n::\n\n    a  b\n     c"),
        ("One.\n\nx1   input\nWq   weights", "::\n\n    x1   input\n    Wq   weights"),
        ("See `Run.state` and `a + b`.", r"See \ :py:obj:`Run.state`\  and \ ``a + b``\ \."),
        ("scale: a summary is no entry.", r"scale\: a summary is no entry\."),
    ],
)  # fmt: skip
def test_docstrings_are_shown_as_they_are_meant(text: str, shown: str) -> None:
    assert shown in docstrings.restructured(text)


@pytest.mark.slow
def test_an_equation_becomes_an_element_and_what_is_none_stops_the_build() -> None:
    mathml = pytest.importorskip(
        "docs.mathml", reason="needs what `make docs` installs", exc_type=ImportError
    )
    made = mathml.mathml(r"\frac{a}{2}\tag{6}", displayed=True)
    assert made.startswith('<math display="block"') and "<mfrac>" in made and "6" not in made
    with pytest.raises(mathml.math_core.LatexError):
        mathml.mathml(r"\nosuchthing", displayed=False)


# -- pages of methods --------------------------------------------------------------------------


@pytest.mark.parametrize("name", methods.METHODS)
def test_a_method_s_page_tells_every_option_with_its_default(name: str) -> None:
    told = pages.rows((DOCS / "methods" / f"{name}.md").read_text(), "Options")
    default = asdict(methods.make(name).options)
    shared = methods.make("float32").settings() if issubclass(methods.METHODS[name], FloatMaster) else {}
    own = {key for key, value in default.items() if name == "float32" or shared.get(key, ...) != value}
    assert set(told) == own
    for key, (cell, meaning) in told.items():
        assert getattr(methods.make(name, **{key: cell.strip("`")}).options, key) == default[key], key
        assert len(meaning) > 10


@pytest.mark.parametrize("name", methods.METHODS)
def test_a_method_s_page_tells_every_deviation_and_all_that_is_remembered(name: str) -> None:
    text = (DOCS / "methods" / f"{name}.md").read_text()
    cls = methods.METHODS[name]
    for key in cls.DEVIATIONS:
        assert f"**{key}**" in text, f"{name}.md does not tell of the deviation {key!r}"
    for key in set(cls.STATE) - set(FloatMaster.STATE if name != "float32" else ()):
        assert f"`{key}`" in text, f"{name}.md does not tell that it remembers {key!r}"


@pytest.mark.parametrize("name", methods.METHODS)
def test_every_equation_names_its_definition_and_its_test(name: str) -> None:
    """That what is named exists, the test of a page's names says; a figure that is no bit says so."""
    text = (DOCS / "methods" / f"{name}.md").read_text()
    table = text.partition("\n## Equation, function\n")[2].partition("\n## ")[0].strip().splitlines()
    assert table[0] == "| equation | definition | fast code | test |"
    assert len(table) > 8
    for line in table[2:]:
        equation, definition, code, test = (cell.strip() for cell in line.strip("|").split("|"))
        assert definition.startswith("`intnet/spec/") or definition == NO_BIT, equation
        assert code.startswith("`intnet/") and test.startswith("`tests/"), equation


def test_every_module_of_the_definition_stands_on_one_page() -> None:
    shown = [
        path.split("intnet/spec/")[1]
        for page in sorted((DOCS / "definition").glob("*.md"))
        for path in re.findall(r"^```\{literalinclude\} (\S+)$", page.read_text(), re.MULTILINE)
    ]
    spec = ROOT / "intnet" / "spec"
    modules = {path.relative_to(spec).as_posix() for path in spec.rglob("*.py") if path.stem[:2] != "__"}
    assert sorted(shown) == sorted(modules)


def test_numbers_tells_of_every_rounding_mode_and_format() -> None:
    text = (DOCS / "numbers.md").read_text()
    for mode in MODES:
        assert f"`{mode}`" in text
    for format in FORMATS:
        assert f"\n### {format}\n" in text


# -- the tests' own tools ----------------------------------------------------------------------


def page(folder: Path, text: str) -> pages.Session:
    (folder / "page.md").write_text(text)
    return pages.Session(folder / "page.md", folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```python\n>>> 1 + 1\n3\n```\n", "Expected"),
        ("```python\nassert 1 == 2, 'so it is not'\n```\n", "so it is not"),
        ("```console\n$ intnet list\nnothing\n```\n", "intnet list"),
        ("```diff\n--- README.md\n+++ README.md\n@@\n-no such line\n+new\n```\n", "holds 0 times"),
    ],
)
def test_a_page_that_shows_what_does_not_happen_is_caught(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        page(tmp_path, text).run()


def test_links_names_and_anchors_are_found_as_written() -> None:
    text = "# A `b`: c, d\n[x](y.md#z) `[no](code)`\n```\n[no](block)\n```\n"
    assert pages.links(text) == ["y.md#z"]
    assert pages.anchors(text) == {"a-b-c-d"}
    assert {"Flag", "Flag.hi", "FORMATS", "kind_of"} <= pages.names(ROOT / "intnet" / "numbers/formats.py")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("<script src='https://cdn.example/x.js'></script>", "loads https://cdn.example/x.js"),
        ("<img src='//cdn.example/x.png'>", "loads //cdn.example/x.png"),
        ("<link rel='stylesheet' href='gone.css'>", "gone.css is not there"),
        ("<a href='gone.html'>x</a>", "gone.html is not there"),
        ("<a href='#gone'>x</a>", "#gone: the page has no such anchor"),
        ("<a href='there.html#gone'>x</a>", "there.html#gone: the page has no such anchor"),
        ("<a href='there.html#here'>x</a><a href='https://example.org'>y</a>", ""),
    ],
)
def test_what_the_build_finds_in_its_pages(tmp_path: Path, body: str, said: str) -> None:
    (tmp_path / "index.html").write_text(body)
    (tmp_path / "there.html").write_text("<h1 id='here'>x</h1>")
    assert list(build.faults(tmp_path)) == ([f"index.html: {said}"] if said else [])


def test_the_build_finds_what_a_style_loads_and_that_nothing_was_built(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text("@import 'https://a.example/b.css'; p { background: url(here.png) }")
    assert [fault.partition(": ")[2] for fault in build.faults(tmp_path)] == [
        "no index.html: nothing was built", "loads https://a.example/b.css",
    ]  # fmt: skip
