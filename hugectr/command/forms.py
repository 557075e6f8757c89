# SPDX-License-Identifier: Apache-2.0
"""Options that only some forms of a command have: given to another form they are refused."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from hugectr.base.errors import InvalidArgument

#: Name of an option -> the forms of the command that take it.
Forms = Mapping[str, tuple[str, ...]]


def keep_given(parser: argparse.ArgumentParser, defaults: Mapping[str, Any]) -> None:
    """Let what was parsed tell what was given: a default counts only where nothing was.

    Parameters
    ----------
    parser : ArgumentParser
        Made with ``argument_default=argparse.SUPPRESS``.
    defaults : mapping
        Of its options, by name.
    """
    parser.set_defaults(defaults_of_options=defaults)


def complete(args: argparse.Namespace) -> None:
    """Note in ``args.given`` which options were given, and add the defaults of the others."""
    args.given = frozenset(vars(args))
    for name, value in getattr(args, "defaults_of_options", {}).items():
        if name not in args.given:
            setattr(args, name, value)


def check_form(command: str, args: argparse.Namespace, form: str, forms: Forms) -> None:
    """Whether all options that were given are of this form of a command.

    Raises
    ------
    InvalidArgument
        Naming the first that is not, and the forms it belongs to.
    """
    for name, allowed in forms.items():
        if name in args.given and form not in allowed:
            option = "-o" if name == "output" else f"--{name.replace('_', '-')}"
            raise InvalidArgument(
                f"{command}: {option} belongs to {' and to '.join(allowed)}; this is {form}"
            )
