# SPDX-License-Identifier: Apache-2.0
"""The directive ``command-help``: what ``hugectr COMMAND --help`` prints, for every command."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from hugectr.command import cli


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parser and those of its commands, each before its own."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                yield from parsers(one)


class CommandHelp(SphinxDirective):
    """See the module."""

    option_spec: ClassVar = {}

    def run(self) -> list[nodes.Node]:
        """A section a command."""
        result: list[nodes.Node] = []
        for parser in parsers(cli._parser()):
            section = nodes.section(ids=[parser.prog.replace(" ", "-")])
            section += nodes.title(text=parser.prog)
            section += nodes.literal_block(text=parser.format_help(), language="text")
            result.append(section)
        return result


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True}
