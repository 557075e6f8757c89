# SPDX-License-Identifier: Apache-2.0
"""Docstrings are written for ``help()``: ``|w|`` and ``w *= 2`` are formulas there, not markup."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

#: What is code already.
CODE = re.compile(r"(``(?:.|\n)+?``|^ *(?:>>>|\.\.\. ).*$)", re.MULTILINE)
SIGN = re.compile(r"\||\*(?==)")


def escaped(text: str) -> str:
    """The signs of formulas as themselves, but for those in code."""
    parts = CODE.split(text)
    return "".join(p if i % 2 else SIGN.sub(r"\\\g<0>", p) for i, p in enumerate(parts))


def process(_app: Sphinx, *what: Any) -> None:
    """Before a docstring is parsed: its lines are the last argument, and change in place."""
    lines = what[-1]
    lines[:] = escaped("\n".join(lines)).split("\n")


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", process)
    return {"parallel_read_safe": True}
