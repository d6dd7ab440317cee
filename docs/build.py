"""Builds docs/ into docs/_build/html and reads what came out: `make docs`.

    python docs/build.py

A warning of Sphinx is an error: a link to a page, an anchor or a file that is not there, a page that no
table of contents lists. Then every page is read again: all that it loads (scripts, styles, pictures, fonts)
must lie in the same folder, so that it can be read without a network; every local link must lead somewhere.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

HERE = Path(__file__).resolve().parent
HTML = HERE / "_build" / "html"
LOADS = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "object": "data"}


class Page(HTMLParser):
    """What a page loads, where it links to, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """One tag and its attributes, as HTMLParser calls it."""
        given = {name: value or "" for name, value in attributes}
        self.anchors |= {given[key] for key in ("id", "name") if key in given}
        loaded = given.get(LOADS.get(tag, ""))
        if loaded is not None and given.get("rel") not in ("author", "index", "search", "next", "prev"):
            self.loads.append(loaded)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])


def faults(folder: Path) -> Iterator[str]:
    """One line for all that a reader without a network would miss, and for every link into nothing."""
    pages = {path: Page(path.read_text()) for path in sorted(folder.rglob("*.html"))}
    if folder / "index.html" not in pages:
        yield f"{folder}: no index.html: nothing was built"
    for path, page in pages.items():
        here = path.relative_to(folder)
        yield from (f"{here}: loads {url}" for url in page.loads if _remote(url))
        for url in (url for url in (*page.loads, *page.links) if not _remote(url) and url != "data:,"):
            parts = urlsplit(url)
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                yield f"{here}: {url} is not there"
            elif target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{here}: {url}: the page has no such anchor"
    for path in sorted(folder.rglob("*.css")):
        urls = re.findall(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)", path.read_text())
        yield from (f"{path.relative_to(folder)}: loads {a or b}" for a, b in urls if _remote(a or b))


def _remote(url: str) -> bool:
    parts = urlsplit(url)
    return bool(parts.netloc) or parts.scheme in ("http", "https", "mailto")


def main() -> int:
    """0 where all holds, else 1, with a line for each fault; 2 where what it builds with is missing."""
    missing = [name for name in ("sphinx", "myst_nb", "furo", "math_core") if find_spec(name) is None]
    if missing:
        print(f"{', '.join(missing)}: not here; `make docs`, or pip install -e '.[docs]'", file=sys.stderr)
        return 2
    shutil.rmtree(HTML, ignore_errors=True)  # a page that is gone would stay
    options = ["-b", "html", "-W", "--keep-going", "-E", "-q", "-d", str(HERE / "_build" / "trees")]
    built = subprocess.run([sys.executable, "-m", "sphinx", *options, str(HERE), str(HTML)], check=False)
    found = list(faults(HTML)) if built.returncode == 0 else []
    for line in found:
        print(line, file=sys.stderr)
    if built.returncode == 0 and not found:
        print(f"{len(list(HTML.rglob('*.html')))} pages in {HTML}")
    return int(built.returncode != 0 or bool(found))


if __name__ == "__main__":
    sys.exit(main())
