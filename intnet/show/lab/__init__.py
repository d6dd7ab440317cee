"""The lab: one self-contained HTML page on which a number goes through a format, by the definition.

    page(version)   the page as text: no server, no network, nothing loaded
    arithmetic()    its JavaScript that computes: rounding, formats, blocks, codecs, random words

The arithmetic is written by hand from `intnet.spec`, in exact rationals of BigInts, one file of it a file
here; `tests/show/test_lab.py` holds it to the definition in a browser. The other half only draws.
"""

from importlib import resources
from string import Template

import intnet

ARITHMETIC = ("exact", "rounding", "formats", "blocks", "buckets", "words")  # in the order of what they use
PICTURES = ("svg", "quantize", "element", "tensor", "walks", "page")


def page(version: int) -> str:
    """The whole page; version: of the definition, as the page says it."""
    told = f"intnet {intnet.__version__}, definition {version}"
    return Template(_file("frame.html")).substitute(
        arithmetic=arithmetic(), pictures=_scripts(PICTURES), version=told
    )


def arithmetic() -> str:
    """The scripts that compute."""
    return _scripts(ARITHMETIC)


def _scripts(names: tuple[str, ...]) -> str:
    return "\n".join(_file(f"{name}.js") for name in names)


def _file(name: str) -> str:
    return resources.files("intnet.show.lab").joinpath(name).read_text(encoding="utf-8")
