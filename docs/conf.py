"""How Sphinx builds these pages: `make docs`. Plain Markdown by MyST; nothing is loaded from a network.

Sphinx and not MkDocs: MkDocs 1 has had no release since August 2024, and what is announced as MkDocs 2 drops
plugins, themes and mkdocs.yml. Here links, anchors and pages that no table of contents lists are checked by
the build itself, whose warnings are errors (`build.py`).
"""

project = "intnet"
extensions = ["myst_parser"]
root_doc = "index"
exclude_patterns = ["_build"]
nitpicky = True

myst_heading_anchors = 3  # anchors as GitHub makes them, so that links work there too
myst_links_external_new_tab = False

html_theme = "alabaster"  # part of Sphinx: no font and no script from elsewhere
html_theme_options = {
    "description": "training in exact integers and fixed point",
    "show_powered_by": False,
    "page_width": "1200px",  # lines of code are up to 110 characters long
    "body_max_width": "none",
}
html_show_copyright = False
html_copy_source = False
html_show_sourcelink = False
html_use_index = False
