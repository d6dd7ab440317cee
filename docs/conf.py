"""How Sphinx builds these pages: `make docs`. Markdown and notebooks by MyST, nothing from a network.

Sphinx and not MkDocs: MkDocs 1 has had no release since August 2024, and what is announced as MkDocs 2 drops
plugins, themes and mkdocs.yml. Here links, anchors and pages that no table of contents lists are checked by
the build itself, whose warnings are errors (`build.py`).

The notebooks are those of examples/, as they were executed there; Sphinx reads below this folder alone, so
they are copied into docs/notebooks/ first, and links to them lead there.
The reference reads docstrings of functions, not of compiled kernels, so nothing is compiled.
"""

import os
import re
import shutil
import sys
from pathlib import Path

from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))  # the reference is of this checkout; docs.* are the extensions below
os.environ["NUMBA_DISABLE_JIT"] = "1"

from intnet.runs import definition  # noqa: E402
from intnet.show import lab  # noqa: E402

project = "intnet"
extensions = ["myst_nb", "sphinx.ext.autodoc", "docs.docstrings", "docs.mathml"]
root_doc = "index"
exclude_patterns = ["_build"]
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # types of NumPy, and of what has no entry, have no page to lead to

myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3  # anchors as GitHub makes them, so that links work there too
myst_links_external_new_tab = False
nb_execution_mode = "off"  # what they print is on file; tests/test_notebooks.py executes them

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
toc_object_entries = False

html_theme = "furo"  # no font and no script from elsewhere; light and dark, wide and narrow
html_title = "intnet"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_extra_path = ["lab.html"]  # as `intnet lab` writes it
html_css_files = ["pages.css"]
html_show_copyright = False
html_copy_source = False
html_show_sourcelink = False
html_use_index = False


def copy_notebooks(folder: Path) -> None:
    """Those of examples/, into an empty `folder`."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for notebook in (HERE.parent / "examples").glob("*.ipynb"):
        shutil.copy(notebook, folder)


def lead_to_notebooks(_: Sphinx, __: str, source: list[str]) -> None:
    """Links to examples/*.ipynb lead to their pages; Sphinx calls this with the text of each page."""
    source[0] = re.sub(r"\]\(((?:\.\./)*)\.\./examples/(\w+\.ipynb)\)", r"](\1notebooks/\2)", source[0])


def setup(app: Sphinx) -> None:
    """As Sphinx calls it, ahead of looking for pages."""
    copy_notebooks(HERE / "notebooks")
    (HERE / "lab.html").write_text(lab.page(definition.VERSION))
    app.connect("source-read", lead_to_notebooks)
