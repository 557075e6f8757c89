# SPDX-License-Identifier: Apache-2.0
"""Mermaid blocks as the web views of repositories show them.

``_static/mermaid.js`` draws them where there is a network; else the text of a diagram is shown.
"""

from __future__ import annotations

from typing import ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class Mermaid(SphinxDirective):
    """A diagram: its text, in an element that a script may draw."""

    has_content = True
    option_spec: ClassVar = {}

    def run(self) -> list[nodes.Node]:
        """One raw node."""
        text = "\n".join(self.content)
        escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return [nodes.raw("", f'<pre class="mermaid">{escaped}</pre>', format="html")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("mermaid", Mermaid)
    return {"parallel_read_safe": True}
