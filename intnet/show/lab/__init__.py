"""The lab: one self-contained HTML page on which a number goes through a format, by the definition.

    page(version)   the page as text: no server, no network, nothing loaded
    arithmetic()    its JavaScript that computes: rounding, formats, blocks, codecs, random words

The arithmetic is written by hand from `intnet.spec`, in exact rationals of BigInts, one file of it a file
here; `tests/show/test_lab.py` holds it to the definition in a browser. The other half only draws.
"""

from string import Template

import intnet
from intnet.show import web

# in the order of what they use
ARITHMETIC = ("exact", "rounding", "formats", "blocks", "microscaling", "buckets", "words")
SHOWN = ("svg", "choices", "quantize", "element")  # what other pages show too
PICTURES = (*SHOWN, "tensor", "walks", "page")
TITLE = "intnet lab: one number, its grid, its bits"


def page(version: int) -> str:
    """The whole page; version: of the definition, as the page says it."""
    told = f"intnet {intnet.__version__}, definition {version}"
    body = Template(web.text(__name__, "frame.html")).substitute(version=told)
    return web.document(
        TITLE, body, web.text(__name__, "style.css"), arithmetic(), web.script(__name__, *PICTURES)
    )


def arithmetic() -> str:
    """The scripts that compute."""
    return web.script(__name__, *ARITHMETIC)


def shown() -> str:
    """Those that show a choice of formats and what became of an element, for other pages."""
    return web.script(__name__, *SHOWN)
