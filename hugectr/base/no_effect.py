# SPDX-License-Identifier: Apache-2.0
"""Arguments that old scripts pass and that mean nothing here: one warning each, and no more."""

from __future__ import annotations

from collections.abc import Mapping

from hugectr.base import log

_said: set[tuple[str, str]] = set()


def warn_no_effect(who: str, name: str, why: str) -> None:
    """Say that an argument is accepted and has no effect; once per process and argument.

    Parameters
    ----------
    who : str
        The call, e.g. ``"CreateSolver"``, or ``"solver"`` of a JSON config.
    name : str
        The argument, as it is written.
    why : str
        What does the same here, or why nothing has to.
    """
    if (who, name) in _said:
        return
    _said.add((who, name))
    log.warning(f"{who}: {name} is accepted and has no effect: {why}")


def warn_given(
    who: str,
    given: Mapping[str, object],
    defaults: Mapping[str, object],
    reasons: Mapping[str, str],
) -> None:
    """Warn of every argument that differs from its default, and so was meant to do something.

    Parameters
    ----------
    who : str
    given, defaults : mapping of str to object
        Values by name; those without a reason are not looked at.
    reasons : mapping of str to str
        Why each has no effect.
    """
    for name, why in reasons.items():
        if name in given and given[name] != defaults[name]:
            warn_no_effect(who, f"{name}={given[name]!r}", why)


def forget_warnings() -> None:
    """Begin anew, as a new process would."""
    _said.clear()
