# SPDX-License-Identifier: Apache-2.0
"""Options of several values: ``--keep A,B``, or ``--keep A --keep B``, which is the same."""

from __future__ import annotations

import argparse
from typing import Any


def names(text: str) -> list[str]:
    """``A,B`` as its parts."""
    return list(filter(None, map(str.strip, text.split(","))))


#: Arguments of ``add_argument``: all that is given counts, not the last of it alone.
LISTED: dict[str, Any] = {"action": "extend", "type": names}


class Once(argparse.Action):
    """Of a value that has several parts and is one: an error where it is given again.

    For parsers that are made with ``argument_default=argparse.SUPPRESS``.
    """

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Keep the value."""
        if hasattr(namespace, self.dest):
            raise argparse.ArgumentError(self, f"given twice; it takes one {self.metavar}")
        setattr(namespace, self.dest, values)
