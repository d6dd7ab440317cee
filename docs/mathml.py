"""Equations as MathML, which browsers typeset by themselves: no script, no font, no network.

`$...$` and `$$...$$` of a page are LaTeX; `math_core` turns them into MathML Core when the page is built. An
equation that it does not know stops the build, with the page.
"""

import re
from functools import cache

import math_core
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import SphinxError
from sphinx.writers.html5 import HTML5Translator

NUMBER = re.compile(r"\\tag\{([^}]*)\}")  # an equation's, as its paper has it


@cache
def converter() -> math_core.LatexToMathML:
    """Made once."""
    return math_core.LatexToMathML()


def mathml(latex: str, displayed: bool) -> str:
    r"""One equation as a `<math>` element; `\tag{6}` is left out. LatexError where it is no LaTeX."""
    return converter().convert_with_local_state(NUMBER.sub("", latex).strip(), displaystyle=displayed)


def converted(node: nodes.Element, displayed: bool) -> str:
    """`mathml` of a node; an error names its page."""
    try:
        return mathml(node.astext(), displayed)
    except math_core.LatexError as error:
        raise SphinxError(f"{node.source}:{node.line}: {node.astext()}: {error}") from error


def inline(translator: HTML5Translator, node: nodes.math) -> None:
    """One in the text."""
    translator.body.append(converted(node, displayed=False))
    raise nodes.SkipNode


def display(translator: HTML5Translator, node: nodes.math_block) -> None:
    r"""One on lines of its own, with the number of its `\tag` at the right."""
    number = NUMBER.search(node.astext())
    shown = f'<span class="eqno">({translator.encode(number[1])})</span>' if number else ""
    translator.body.append(
        translator.starttag(node, "div", CLASS="equation")
        + converted(node, displayed=True)
        + shown
        + "</div>\n"
    )
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """As Sphinx calls it."""
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
