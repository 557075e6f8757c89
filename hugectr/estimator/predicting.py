# SPDX-License-Identifier: Apache-2.0
"""Predictions of a fitted classifier, and how good they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hugectr.data.schema import EncodedData
from hugectr.estimator.features import (
    Features,
    check_columns,
    features_of,
    labels_of,
    weights_of,
)
from hugectr.estimator.fitted import Fitted
from hugectr.estimator.labels import positives
from hugectr.estimator.parameters import not_fitted

Floats = npt.NDArray[np.float32]


class Predicting(Fitted):
    """Classes, probabilities and scores, in scikit-learn's conventions."""

    def decision_function(self, X: Any) -> Floats:
        """Log-odds of the positive class, (rows,)."""
        return self._outputs("decision_function", X, "logit")

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of both classes, (rows, 2), in the order of ``classes_`` and of the rows.

        Parameters
        ----------
        X
            As of ``fit``; without label. Files are read piece by piece.
        """
        positive = self._outputs("predict_proba", X, "probability")
        return np.stack([1.0 - positive, positive], axis=1)

    def predict_log_proba(self, X: Any) -> Floats:
        """Logarithms of ``predict_proba``."""
        return np.asarray(np.log(self.predict_proba(X)))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The likelier class of each row, (rows,)."""
        return np.asarray(self._classes("predict")[(self.decision_function(X) > 0).astype(int)])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of rows whose class is right, as scikit-learn's classifiers say it."""
        values, features = self._labelled("score", X, y)
        right = self.predict(features.source) == values
        weight = weights_of("CTRClassifier.score", sample_weight, len(values))
        return float(np.average(right, weights=weight))

    def evaluate(self, X: Any, y: Any, sample_weight: Any = None) -> dict[str, float]:
        """Metrics: ``AUC``, ``LogLoss``, ``AverageLoss``, by the data's weights.

        Parameters
        ----------
        X, y, sample_weight
            As of ``fit``.
        """
        where = "CTRClassifier.evaluate"
        values, features = self._labelled("evaluate", X, y)
        label = positives(where, values, self.classes_)
        weight = weights_of(where, sample_weight, len(values))
        data = self._schema().encode(features.with_label(self.label_name_, label).source)
        return self._model("evaluate").evaluate(weighed(data, weight))

    def _labelled(self, call: str, X: Any, y: Any) -> tuple[npt.NDArray[Any], Features]:
        self._classes(call)
        where = f"CTRClassifier.{call}"
        values, _, features = labels_of(where, y, features_of(where, X))
        if features.array:
            check_columns(where, features.table.column_names, self.n_features_in_)
        return values, features

    def _classes(self, call: str) -> npt.NDArray[Any]:
        """The classes; an error before ``fit``."""
        if not hasattr(self, "classes_"):
            raise not_fitted(self, call)
        return self.classes_


def product(one: Floats | None, other: Floats | None) -> Floats | None:
    """Weights of two kinds together."""
    if one is None or other is None:
        return other if one is None else one
    return one * other


def weighed(
    data: EncodedData, weight: Floats | None, rows: npt.NDArray[np.bool_] | None = None
) -> EncodedData:
    """Samples with these weights, of the chosen rows, besides their own."""
    if weight is None:
        return data
    return replace(data, weight=product(weight if rows is None else weight[rows], data.weight))
