# SPDX-License-Identifier: Apache-2.0
"""Methods of a class that are those of its parts."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

Part = TypeVar("Part")
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def handed_on(
    part: str, method: Callable[Concatenate[Part, Arguments], Result]
) -> Callable[Concatenate[Any, Arguments], Result]:
    """A method that calls one of a part, with the same arguments and the same documentation.

    Parameters
    ----------
    part : str
        Attribute that holds the part.
    method : function
        Of the part's class.
    """

    def call(self: Any, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return method(getattr(self, part), *args, **kwargs)

    functools.update_wrapper(call, method)
    attributes = vars(call)
    attributes["__signature__"] = inspect.signature(method)
    # It wraps the part's method, not one of this class: no turn has been taken yet.
    del attributes["__wrapped__"]
    return call
