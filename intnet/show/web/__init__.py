"""Pages in HTML that need nothing else: one frame, one style, JavaScript of small files joined into one text.

document(title, body, style, scripts)      the whole page
text("intnet.show.lab", "style.css")       a file beside a package
script("intnet.show.lab", "exact", ..)     .js files of it, one behind the other
"""

from html import escape
from importlib import resources
from string import Template


def document(title: str, body: str, style: str, *scripts: str, data: str = "") -> str:
    """A page; style: beside `base.css`; scripts: each strict on its own; data: elements ahead of them."""
    made = "\n".join(f'<script>\n"use strict";\n{one}\n</script>' for one in scripts)
    base = text(__name__, "base.css")
    return Template(text(__name__, "document.html")).substitute(
        title=escape(title), style=f"{base}{style}", body=body, scripts=f"{data}\n{made}"
    )


def text(package: str, name: str) -> str:
    """A file of a package."""
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def script(package: str, *names: str) -> str:
    """Its scripts in this order."""
    return "\n".join(text(package, f"{name}.js") for name in names)
