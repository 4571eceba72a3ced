"""Configuration of the documentation site (``make docs``)."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_ext")]

project = "Noisy-SGD Audit"
author = "The Noisy-SGD Audit developers"
copyright = "2026, the Noisy-SGD Audit developers"
release = version = installed("noisy-sgd-audit")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "stored_results",
    "catalogue_page",
    "notebook_page",
    "zoo_page",
    "command_help",
    "schema_tables",
    "statements",
    "rooms",
    "cell_figure",
    "parameters",
    "public_names",
    "link_check",
]
exclude_patterns = ["_site", "schemas"]
suppress_warnings = ["ref.python"]  # one name of several classes: no link
nitpicky = True
# Docstrings name internal parts, and types in prose; tests/test_docs.py checks names in pages.
nitpick_ignore_regex = [("py:.*", ".*")]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

default_role = "py:obj"
autosummary_generate = True
autosummary_imported_members = True
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 70
napoleon_use_ivar = True
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_rtype = False
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

html_theme = "pydata_sphinx_theme"
html_title = "Noisy-SGD Audit"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = str(HERE / "_static" / "scorer.js")
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "collapse_navigation": True,
    "logo": {"text": "Noisy-SGD Audit"},
    "header_links_before_dropdown": 5,
    "show_prev_next": True,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "changelog": [], "architecture": []}
templates_path = ["_templates"]

# MathJax comes from a wheel: nothing is loaded from the network when a page is read.
_mathjax = find_spec("sphinx-mathjax-offline")
assert _mathjax is not None
assert _mathjax.origin is not None
mathjax_source = str(Path(_mathjax.origin).parent / "static" / "mathjax" / "tex-svg.js")
mathjax_path = "mathjax/tex-svg.js"
mathjax3_config = {"options": {"enableMenu": False}, "svg": {"fontCache": "global"}}
