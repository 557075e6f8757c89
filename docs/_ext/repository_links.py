# SPDX-License-Identifier: Apache-2.0
"""Links of the pages to files of the repository that are no pages: shown as the file's name.

On the web view of a repository they lead there; the site has no such place.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
#: Files that have a page of the site although they lie outside its folder.
PAGES = {
    "CONTRIBUTING.md": "/contributing.md",
    "CHANGELOG.md": "/changelog.md",
    "examples/README.md": "/examples.md",
}
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((\.\./[^)#\s]*)(#[^)\s]*)?\)")


def replace_links(_app: Sphinx, name: str, source: list[str]) -> None:
    """Rewrites a page before it is parsed; a link to nowhere stays, and is a warning."""

    def rewritten(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(name), target))
        if path in PAGES:
            return f"[{text}]({PAGES[path]}{anchor})"
        if path.startswith("docs/") or not (ROOT / path).exists():
            return match[0]
        return text if text.strip("`") == path else f"{text} (`{path}`)"

    source[0] = LINK.sub(rewritten, source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", replace_links)
    return {"parallel_read_safe": True}
