"""How Sphinx builds these pages: sphinx-build -W docs docs/_build, with the group `docs`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx

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

smartquotes_action = "qe"  # no dashes: `--option` in help texts

html_theme = "furo"
html_title = f"simgen {release}"
html_copy_source = False
html_show_sphinx = False

# Addresses of earlier versions, each with what has its text now.
MOVED = {
    "examples": "index.html",
    "example-llm-layer": "files.html#latency-tables",
    "example-two-gpus": "first-simulation.html#a-training-step-on-two-gpus",
    "gallery": "reports.html#two-pages-of-reports",
    "simgen-or": "other-programs.html#simgen-or-another-program",
    "gem5-from-nothing": "gem5.html",
    "docker": "install.html#docker",
    "networks": "workloads.html#networks",
    "deepbench": "other-programs.html#deepbench",
    "dnnmark": "other-programs.html#from-dnnmark",
    "bundles": "files.html",
    "exports": "files.html#export-to-other-tools",
    "clusters": "sweeps.html#sweeps-on-a-cluster",
    "bisect": "conform.html#bisect",
    "rates": "conform.html#rates",
    "troubleshooting": "verdicts.html#when-something-fails",
    "trust": "reference/index.html#what-to-trust",
    "stable": "reference/index.html#what-is-stable",
    "glossary": "reference/index.html#glossary",
    "targets/index": "install.html#targets",
    "targets/gem5-se": "gem5.html#gem5-se",
    "targets/gem5-fs": "gem5.html#gem5-fs",
    "targets/mgpusim": "mgpusim.html",
    "targets/gpgpusim": "gpgpusim.html",
    "targets/host": "cpu-and-gpus.html#host",
    "targets/cuda": "cpu-and-gpus.html#cuda",
    "targets/hip": "cpu-and-gpus.html#hip",
    **{f"simulators/{n}": f"contributing/errors-{n}.html" for n in ("gem5", "gpgpusim", "mgpusim")},
    **{f"adding-a-{n}": f"contributing/adding-a-{n}.html" for n in ("layer", "rule", "target")},
    **{n: f"contributing/{n}.html" for n in ("architecture", "changelog", "design")},
    "contributing": "contributing/index.html",
}


def redirect(app: Sphinx, error: Exception | None) -> None:
    """Pages at old addresses that lead to the new ones."""
    for old, new in MOVED.items():
        path = Path(app.outdir, f"{old}.html")
        if error is None and app.builder.format == "html":
            path.parent.mkdir(parents=True, exist_ok=True)
            there = os.path.relpath(new, Path(old).parent)
            path.write_text(f'<meta http-equiv="refresh" content="0; url={there}">\n')


def without_mail(app: Sphinx, doctree: nodes.document) -> None:
    """`TARGET@LAYERS` in help texts is no address."""
    for each in list(doctree.findall(nodes.reference)):
        if each.get("refuri", "").startswith("mailto:"):
            each.replace_self(nodes.Text(each.astext()))


def setup(app: Sphinx) -> None:
    """What Sphinx calls."""
    app.connect("doctree-read", without_mail)
    app.connect("build-finished", redirect)
