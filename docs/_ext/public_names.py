# SPDX-License-Identifier: Apache-2.0
"""The directive ``public-names MODULE``: the documentation of every name in its ``__all__``.

So a new public name is in the reference without anybody writing it down a second time. A name that
another page has (``except``: modules, separated by spaces) is left out.
"""

from __future__ import annotations

import enum
import importlib
import inspect
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


def is_own(value: type) -> bool:
    """Whether a class is of this package."""
    return value.__module__.partition(".")[0] == "hugectr"


def lines_of(module_name: str, name: str, value: object) -> list[str]:
    """The autodoc directive of one name."""
    target = f"{module_name}.{name}"
    if inspect.isclass(value) and issubclass(value, enum.Enum):
        return [f".. autoclass:: {target}", "   :members:", "   :undoc-members:", ""]
    if inspect.isclass(value) and issubclass(value, BaseException):
        return [f".. autoexception:: {target}", ""]
    if inspect.isclass(value):
        # What comes from another package is in that package's documentation.
        foreign = [base.__name__ for base in value.__mro__ if not is_own(base)]
        inherited = f"   :inherited-members: {', '.join(foreign)}"
        return [f".. autoclass:: {target}", "   :members:", inherited, ""]
    if inspect.isroutine(value):
        return [f".. autofunction:: {target}", ""]
    return []  # a module, which has a page of its own, or a constant


class PublicNames(SphinxDirective):
    """See the module."""

    required_arguments = 1
    option_spec: ClassVar = {"except": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """The nodes of all names, sorted; classes of numbers come last."""
        module = importlib.import_module(self.arguments[0])
        elsewhere = set()
        for other in self.options.get("except", "").split():
            elsewhere |= set(importlib.import_module(other).__all__)
        names = getattr(module, "__all__", None) or [
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
        ]
        lines: list[str] = []
        for is_enum in (False, True):
            for name in sorted(set(names) - elsewhere, key=str.lower):
                value = getattr(module, name)
                if (inspect.isclass(value) and issubclass(value, enum.Enum)) == is_enum:
                    lines += lines_of(module.__name__, name, value)
        node = nodes.section()
        node.document = self.state.document
        rst = StringList(["```{eval-rst}", *lines, "```"], source=f"names of {module.__name__}")
        self.state.nested_parse(rst, 0, node)
        return node.children


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("public-names", PublicNames)
    return {"parallel_read_safe": True}
