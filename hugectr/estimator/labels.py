# SPDX-License-Identifier: Apache-2.0
"""Classes: what labels mean, how much each counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hugectr.base.errors import InvalidArgument, rejected

#: So many different labels may be classes, however few rows there are.
_SURELY_CLASSES = 100


def classes_of(where: str, labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The classes, sorted; of two the second is the positive one.

    Raises
    ------
    InvalidArgument
        When there are not two or more, or about as many as rows.
    """
    if labels.dtype.kind == "f" and not (labels == np.floor(labels)).all():
        found = labels[labels != np.floor(labels)].tolist()[0]
        raise InvalidArgument(
            f"{where}: Unknown label type: continuous. y has numbers such as {found!r}; classes "
            "are values such as 0, 1, 2, and numbers are for CTRRegressor (hugectr train --task "
            "regression)"
        )
    odd = _no_class(labels)
    if odd is not None:
        raise InvalidArgument(
            f"{where}: y has a {type(odd).__name__}, {odd!r:.80}; classes are text, whole numbers "
            "or booleans: cast the labels"
        )
    try:
        classes = np.unique(labels)
    except TypeError as error:
        raise InvalidArgument(f"{where}: y has values of several types: {error}") from error
    if len(classes) == 1:
        found = classes.tolist()[0]
        raise InvalidArgument(
            f"{where}: y has one class, {found!r}, and the classifier needs rows of two"
        )
    if len(classes) > max(_SURELY_CLASSES, len(labels) // 2):
        raise InvalidArgument(
            f"{where}: y has {len(classes)} classes in {len(labels)} rows: are these numbers to "
            "predict? CTRRegressor does that (hugectr train --task regression)"
        )
    return classes


def _no_class(labels: npt.NDArray[Any]) -> Any:
    """The first label that a saved description could not hold, or None."""
    if labels.dtype.kind in "biufUT":
        return None
    kinds = (str, int, float, bool, np.generic) if labels.dtype.kind == "O" else ()
    return next((one for one in labels.tolist() if not isinstance(one, kinds)), None)


def are_text(classes: npt.NDArray[Any]) -> bool:
    """Whether classes are text."""
    return all(isinstance(one, str) for one in classes.tolist())


def codes_of(
    where: str, labels: npt.NDArray[Any], classes: npt.NDArray[Any]
) -> npt.NDArray[np.float32]:
    """The number of each row's class: of two 1 for the second, 0 for the first.

    Raises
    ------
    InvalidArgument
        When a label is none of the classes.
    """
    numbers = {value: number for number, value in enumerate(classes.tolist())}
    codes = np.array([numbers.get(value, -1) for value in labels.tolist()], np.float32)
    if len(codes) and codes.min() < 0:
        row = int((codes < 0).argmax())
        allowed = f"one of the classes of fit, {classes.tolist()}"
        raise rejected(f"{where}: y, row {row}", labels.tolist()[row], allowed)
    return codes


def class_weights(
    where: str, class_weight: Any, label: npt.NDArray[np.float32], classes: npt.NDArray[Any]
) -> npt.NDArray[np.float32] | None:
    """How much each row counts by its class; None: all the same.

    Parameters
    ----------
    where : str
        The call, for complaints.
    class_weight : None, "balanced" or dict
        "balanced": n / (classes * rows of the class), as in scikit-learn; a class that a dict
        lacks counts 1.
    label : ndarray of float32
        Numbers of classes.
    classes : ndarray
        All of them.
    """
    if class_weight is None:
        return None
    allowed = "None, 'balanced', or a dict of class to weight"
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise rejected(f"{where}: class_weight", class_weight, allowed)
        rows = np.bincount(label.astype(np.int64), minlength=len(classes))
        of_class = (len(label) / (len(classes) * rows)).tolist()
    elif isinstance(class_weight, Mapping):
        known = classes.tolist()
        unknown = [key for key in class_weight if key not in known]
        if unknown:
            raise rejected(f"{where}: class_weight", unknown[0], f"classes of y, {known}")
        of_class = [_weight(where, one, class_weight.get(one, 1.0)) for one in known]
    else:
        raise rejected(f"{where}: class_weight", class_weight, allowed)
    return np.asarray(of_class, np.float32)[label.astype(np.int64)]


def _weight(where: str, of: Any, given: Any) -> float:
    """The weight that somebody gives a class."""
    try:
        weight = float(given)
    except (TypeError, ValueError):
        weight = np.nan
    if not (np.isfinite(weight) and weight >= 0):
        allowed = "a finite number from 0 on"
        raise rejected(f"{where}: class_weight of the class {of!r}", given, allowed)
    return weight


#: Rows of a class below which a held-out share says nothing.
_LEAST_TO_HOLD_OUT = 50


@dataclass(frozen=True)
class Classes:
    """Labels that are classes (``Meaning``).

    Attributes
    ----------
    values : ndarray
        The classes, sorted.
    class_weight : None, "balanced" or dict
        As of ``class_weights``.
    """

    values: npt.NDArray[Any]
    class_weight: Any = None

    def as_text(self) -> bool:
        """Whether the classes are text."""
        return are_text(self.values)

    def numbers(self, where: str, values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Numbers of classes."""
        return codes_of(where, values, self.values)

    def weights(
        self, where: str, numbers: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.float32] | None:
        """By its class."""
        return class_weights(where, self.class_weight, numbers, self.values)

    def held_out(
        self, numbers: npt.NDArray[np.float32], share: float, rng: np.random.Generator
    ) -> npt.NDArray[np.bool_]:
        """This share of each class, drawn; nothing where a class has fewer than 50 rows."""
        chosen = np.zeros(len(numbers), bool)
        rows_of = [np.flatnonzero(numbers == one) for one in range(len(self.values))]
        if min(map(len, rows_of)) < _LEAST_TO_HOLD_OUT:
            return chosen
        for rows in rows_of:
            chosen[rng.permutation(rows)[: max(1, round(share * len(rows)))]] = True
        return chosen
