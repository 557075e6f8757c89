# SPDX-License-Identifier: Apache-2.0
"""The site that ``make docs`` builds with Sphinx: pages, and the reference from docstrings."""

import sys
from pathlib import Path

import hugectr

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "hugectr"
copyright = "the hugectr maintainers, Apache-2.0"
version = release = hugectr.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "command_help",
    "diagrams",
    "model_pictures",
    "plain_text",
    "public_names",
    "repository_links",
]
html_theme = "furo"
html_title = f"hugectr {release}"
html_static_path = ["_static"]
html_js_files = [("mermaid.js", {"defer": "defer"})]
exclude_patterns = ["_build", "_ext"]

myst_heading_anchors = 3
# Text of the pages is not to be read as something else: "v3's", "--json".
myst_enable_extensions = []
myst_fence_as_directive = ["mermaid"]
smartquotes = False

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say types, and shapes with them
autodoc_class_signature = "mixed"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
napoleon_preprocess_types = False
python_maximum_signature_line_length = 88
