# SPDX-License-Identifier: Apache-2.0
"""Predictions of a fitted classifier, and how good they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hugectr.base import log
from hugectr.data.schema import EncodedData
from hugectr.estimator.estimator import Estimator
from hugectr.estimator.features import Features, check_columns, weights_of
from hugectr.estimator.labels import are_text, codes_of
from hugectr.estimator.parameters import not_fitted
from hugectr.estimator.weights import Floats
from hugectr.serving.prediction_model import PredictionModel, measured
from hugectr.serving.settings import METRICS


class Predicting(Estimator):
    """Classes, probabilities and scores, in scikit-learn's conventions."""

    classes_: npt.NDArray[Any]

    def decision_function(self, X: Any) -> Floats:
        """Of two classes the log-odds of the positive one, (rows,); of k the logits, (rows, k)."""
        return self._logits("decision_function", X)

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of all classes, (rows, k), in the order of ``classes_`` and of the rows.

        Parameters
        ----------
        X
            As of ``fit``; without label. Files are read piece by piece. Of no rows the result has
            none, (0, k).
        """
        if len(self._classes("predict_proba")) > 2:
            return _softmax(self._logits("predict_proba", X))
        positive = self._outputs("predict_proba", X, "probability")
        return np.stack([1.0 - positive, positive], axis=1)

    def predict_log_proba(self, X: Any) -> Floats:
        """Logarithms of ``predict_proba``, finite where a probability is rounded to 0."""
        self._classes("predict_log_proba")
        logits = self._logits("predict_log_proba", X).astype(np.float64)
        if logits.ndim == 1:  # of two classes 0 and the log-odds
            logits = np.stack([np.zeros_like(logits), logits], axis=1)
        return np.asarray(logits - _log_sum(logits)[:, None], np.float32)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The likeliest class of each row, (rows,)."""
        classes = self._classes("predict")
        logits = self._logits("predict", X)
        chosen = logits.argmax(axis=1) if logits.ndim == 2 else (logits > 0).astype(int)
        return np.asarray(classes[chosen])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of rows whose class is right, as scikit-learn's classifiers say it.

        ``sample_weight`` alone counts here: ``evaluate`` takes the weights of a schema too.

        Raises
        ------
        InvalidArgument
            When no label is one of ``classes_``, such as "1" where they are numbers. One that
            ``fit`` has not met is a row that is wrong.
        """
        where = "CTRClassifier.score"
        values, features = self._labelled("score", X, y)
        classes = set(self.classes_.tolist())
        if classes.isdisjoint(values.tolist()):
            codes_of(where, values, self.classes_)  # names a row: labels of another type, for one
        right = self.predict(features.source) == values
        weight = weights_of(where, sample_weight, len(values))
        return float(np.average(right, weights=weight))

    def evaluate(self, X: Any, y: Any, sample_weight: Any = None) -> dict[str, float]:
        """Metrics, by ``sample_weight`` times the weights of the schema, where it has some.

        Of two classes ``AUC``, ``LogLoss``, ``AverageLoss``, ``Accuracy``, and ``GAUC`` where the
        schema has a group; of more ``Accuracy``, ``LogLoss``. Rows of one class have no AUC: it is
        NaN, with a warning.

        Parameters
        ----------
        X, y, sample_weight
            As of ``fit``.
        """
        where = "CTRClassifier.evaluate"
        values, features = self._labelled("evaluate", X, y)
        label = codes_of(where, values, self.classes_)
        data, model = self._samples(where, features, sample_weight, label), self._model("evaluate")
        if len(self.classes_) > 2:
            logits = model.predict(data, output="logit").reshape(len(label), -1)
            return _scores(logits.astype(np.float64), label.astype(np.int64), data.weight)
        _tell_of_one_class(where, label, data.weight, self.classes_)
        metrics = [*METRICS, "Accuracy", *(["GAUC"] if model.input.group_name else [])]
        return measured(model, data, metrics=metrics)[0]

    def columns_of(self, model: PredictionModel, samples: EncodedData) -> dict[str, Floats]:
        """What ``hugectr predict`` writes of some samples: a column, or one a class.

        Parameters
        ----------
        model : PredictionModel
            This one's.
        samples : EncodedData
        """
        if len(self.classes_) == 2:
            return {"probability": model.predict(samples, output="probability")}
        chances = _softmax(model.predict(samples, output="logit"))
        return {f"probability_{one}": chances[:, k] for k, one in enumerate(self.classes_)}

    def _logits(self, call: str, X: Any) -> Floats:
        count = len(self._classes(call))
        return self._outputs(call, X, "logit", 1 if count == 2 else count)

    def _labelled(self, call: str, X: Any, y: Any) -> tuple[npt.NDArray[Any], Features]:
        as_text = are_text(self._classes(call))
        values, _, features = self._read(call, X, y, as_text=as_text)
        if features.array:
            where = f"CTRClassifier.{call}"
            check_columns(where, features.table.column_names, self.n_features_in_)
        return values, features

    def _classes(self, call: str) -> npt.NDArray[Any]:
        """The classes; an error before ``fit``."""
        if not hasattr(self, "classes_"):
            raise not_fitted(self, call)
        return self.classes_


def _tell_of_one_class(
    where: str, label: Floats, weight: Floats | None, classes: npt.NDArray[Any]
) -> None:
    """Warn where rows have no AUC."""
    counted = label if weight is None else label[weight > 0]
    if len(counted) and counted.min() == counted.max():
        only = classes.tolist()[int(counted[0])]
        log.warning(
            f"{where}: AUC is nan: all {len(counted)} rows are of class {only!r}, and it needs both"
        )


def _softmax(logits: Floats) -> Floats:
    powers = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True), np.float32)


def _log_sum(logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Of each row the logarithm of the sum of the powers, which may be beyond all floats."""
    return np.asarray(np.logaddexp.reduce(logits, axis=1))


def _scores(
    logits: npt.NDArray[np.float64], label: npt.NDArray[np.int64], weight: Floats | None
) -> dict[str, float]:
    """Metrics of several classes."""
    loss = _log_sum(logits) - logits[np.arange(len(label)), label]
    return {
        "Accuracy": float(np.average(logits.argmax(axis=1) == label, weights=weight)),
        "LogLoss": float(np.average(loss, weights=weight)),
    }
