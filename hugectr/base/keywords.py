# SPDX-License-Identifier: Apache-2.0
"""A mistyped keyword names the one that was meant."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from hugectr.base.errors import did_you_mean

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])


def named_arguments(who: str = "") -> Callable[[F], F]:
    """Decorator: what the method ``who`` says when it is given a keyword that it does not have.

    Parameters
    ----------
    who : str
        Class and method; empty: those of the object it is called on.
    """
    return lambda call: _checked(call, who)


def _checked(call: F, who: str) -> F:
    known = list(inspect.signature(call).parameters)

    @functools.wraps(call)
    def checked(*args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            if name not in known:
                said = who or f"{type(args[0]).__name__}.{call.__name__}"
                if not who and name in inspect.signature(type(args[0])).parameters:
                    made = type(args[0]).__name__
                    raise TypeError(f"{said}: {name!r} is an argument of {made}({name}=...) itself")
                hint = did_you_mean(name, [one for one in known if one != "self"])
                hint = hint or f"; help(hugectr.{said}) lists those there are"
                raise TypeError(f"{said}: there is no argument {name!r}{hint}")
        return call(*args, **kwargs)

    return checked  # type: ignore[return-value]


def named_keywords(who: str) -> Callable[[C], C]:
    """Class decorator: what ``who`` says when it is given a keyword that it does not have."""

    def decorate(cls: C) -> C:
        cls.__init__ = _checked(cls.__init__, who)  # type: ignore[misc]
        return cls

    return decorate
