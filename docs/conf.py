"""How Sphinx builds these pages: sphinx-build -W docs docs/_build, with the group `docs`."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # tables.py

import simgen  # noqa: E402

project = "simgen"
author = "the simgen developers"
release = version = simgen.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_click",
    "tables",
]
exclude_patterns = ["_build"]
default_role = "code"  # docstrings have single backticks around code

myst_heading_anchors = 3  # [text](page.md#heading) is checked
myst_enable_extensions = ["colon_fence", "deflist"]

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"simgen {release}"
html_copy_source = False
html_show_sphinx = False
