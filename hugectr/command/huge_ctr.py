# SPDX-License-Identifier: Apache-2.0
"""The ``huge_ctr`` command, as v2.3 had it: ``huge_ctr --train config.json``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import hugectr
from hugectr.command import cli

_USAGE = """usage: huge_ctr --train CONFIG.json | --version | --help

  --train CONFIG.json   train what the config describes (the same as: hugectr train CONFIG.json)
  --version             the version
  --help                this text
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status, 2 for arguments that it does not have."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in (["--help"], ["-h"]):
        print(_USAGE, end="")
        return 0
    if given in (["--version"], ["-v"]):
        print(f"hugectr {hugectr.__version__}")
        return 0
    if len(given) == 2 and given[0] == "--train":
        return cli.main(["train", given[1]])
    print(_USAGE, end="", file=sys.stderr)
    return 2
