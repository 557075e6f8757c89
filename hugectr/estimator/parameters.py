# SPDX-License-Identifier: Apache-2.0
"""scikit-learn's conventions for parameters, without scikit-learn."""

from __future__ import annotations

import inspect
import numbers
import sys
import warnings
from collections.abc import Mapping
from typing import Any, Self

from hugectr.base.errors import InvalidArgument, did_you_mean
from hugectr.estimator.jobs import common_seed


class Parameters:
    """Base of estimators: parameters are the arguments of ``__init__``, kept as they are given.

    What scikit-learn's tools (clone, pipelines, searches) ask of an estimator is here; it is
    imported by nothing but those methods that only it calls.
    """

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def _keep(self, arguments: Mapping[str, Any]) -> None:
        """Keep the arguments of ``__init__`` (its ``locals()``) as they are: fit() checks them."""
        for name in self._names():
            setattr(self, name, arguments[name])

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name.

        Parameters
        ----------
        deep : bool
            Of no effect: no parameter is an estimator.
        """
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Self:
        """Change parameters; the next ``fit`` goes by them.

        Raises
        ------
        InvalidArgument
            When there is no such parameter.
        """
        names = self._names()
        for name in params:
            if name not in names:
                raise InvalidArgument(
                    f"{type(self).__name__}.set_params: Invalid parameter {name!r}"
                    f"{did_you_mean(name, names)}; valid parameters are {names}"
                )
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        shown = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if not _same(value, defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


def _same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and repr(value) == repr(default))


class NotFitted(InvalidArgument, AttributeError):
    """A call before ``fit``; of a property, that it is not there yet, as ``hasattr`` asks."""


def not_fitted(estimator: object, call: str) -> Exception:
    """The error of a call before ``fit``; scikit-learn's own where that is in use."""
    text = (
        f"{type(estimator).__name__}.{call}: This {type(estimator).__name__} instance is not "
        "fitted yet. Call 'fit' first"
    )
    if "sklearn" in sys.modules:
        from sklearn.exceptions import NotFittedError

        unfitted: Exception = NotFittedError(text)
        return unfitted
    return NotFitted(text)


def warn_of_conversion(text: str) -> None:
    """Warn that data was taken for other data; scikit-learn's own warning where that is in use."""
    kind: type[Warning] = UserWarning
    if "sklearn" in sys.modules:
        from sklearn.exceptions import DataConversionWarning

        kind = DataConversionWarning
    warnings.warn(text, kind, stacklevel=4)


def seed_of(where: str, random_state: Any) -> int | None:
    """A seed from an int, a NumPy generator or RandomState; None: another one each time, which all
    processes of a job have.

    Raises
    ------
    InvalidArgument
        When it is none of these.
    """
    if random_state is None:
        return common_seed()
    if isinstance(random_state, numbers.Integral) and int(random_state) >= 0:
        return int(random_state)
    for draw in ("integers", "randint"):
        if hasattr(random_state, draw):
            return int(getattr(random_state, draw)(0, 2**31 - 1))
    raise InvalidArgument(
        f"{where}: random_state: found {random_state!r}, allowed: an integer >= 0, a NumPy "
        "Generator or RandomState, or None"
    )
