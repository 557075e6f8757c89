# SPDX-License-Identifier: Apache-2.0
"""Classes: what labels mean, how much each counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hugectr.base.errors import InvalidArgument, rejected


def classes_of(where: str, labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The two classes, sorted: the second is the positive one.

    Raises
    ------
    InvalidArgument
        When there are not two.
    """
    if labels.dtype.kind == "f" and not (labels == np.floor(labels)).all():
        raise InvalidArgument(
            f"{where}: Unknown label type: continuous. y has numbers such as "
            f"{labels[labels != np.floor(labels)][0]!r}; classes are two values, such as 0 and 1"
        )
    try:
        classes = np.unique(labels)
    except TypeError as error:
        raise InvalidArgument(f"{where}: y has values of several types: {error}") from error
    if len(classes) == 1:
        raise InvalidArgument(
            f"{where}: y has one class, {classes[0]!r}, and the classifier needs rows of two"
        )
    if len(classes) > 2:
        some = ", ".join(repr(one) for one in classes[:5].tolist())
        raise InvalidArgument(
            f"{where}: y has {len(classes)} classes ({some}{', ...' if len(classes) > 5 else ''}). "
            "Only binary classification is supported: CTRClassifier predicts one of two; fit one "
            "classifier a class (sklearn.multiclass.OneVsRestClassifier does)"
        )
    return classes


def positives(
    where: str, labels: npt.NDArray[Any], classes: npt.NDArray[Any]
) -> npt.NDArray[np.float32]:
    """1 for the second class, 0 for the first.

    Raises
    ------
    InvalidArgument
        When there is a label of neither.
    """
    one = labels == classes[1]
    other = ~(one | (labels == classes[0]))
    if other.any():
        row = int(other.argmax())
        allowed = f"one of the classes of fit, {classes.tolist()}"
        raise rejected(f"{where}: y, row {row}", labels[row], allowed)
    return one.astype(np.float32)


def class_weights(
    where: str, class_weight: Any, label: npt.NDArray[np.float32], classes: npt.NDArray[Any]
) -> npt.NDArray[np.float32] | None:
    """How much each row counts by its class; None: all the same.

    Parameters
    ----------
    where : str
        The call, for complaints.
    class_weight : None, "balanced" or dict
        "balanced": n / (2 * rows of the class), as in scikit-learn; a class that a dict lacks
        counts 1.
    label : ndarray of float32
        1 for the second class.
    classes : ndarray
        Both.
    """
    if class_weight is None:
        return None
    share = float(label.mean())
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            allowed = "None, 'balanced', or a dict of class to weight"
            raise rejected(f"{where}: class_weight", class_weight, allowed)
        of_class = [0.5 / (1.0 - share), 0.5 / share]
    elif isinstance(class_weight, Mapping):
        known = classes.tolist()
        unknown = [key for key in class_weight if key not in known]
        if unknown:
            raise rejected(f"{where}: class_weight", unknown[0], f"classes of y, {known}")
        of_class = [float(class_weight.get(one, 1.0)) for one in known]
        if min(of_class) < 0 or not np.isfinite(of_class).all():
            raise rejected(f"{where}: class_weight", class_weight, "finite numbers from 0 on")
    else:
        allowed = "None, 'balanced', or a dict of class to weight"
        raise rejected(f"{where}: class_weight", class_weight, allowed)
    return np.where(label > 0.5, of_class[1], of_class[0]).astype(np.float32)


def held_out(
    label: npt.NDArray[np.float32], share: float, rng: np.random.Generator
) -> npt.NDArray[np.bool_]:
    """Rows that are kept from training: this share of each class, drawn."""
    chosen = np.zeros(len(label), bool)
    for value in (0.0, 1.0):
        rows = np.flatnonzero(label == value)
        chosen[rng.permutation(rows)[: max(1, round(share * len(rows)))]] = True
    return chosen
