# SPDX-License-Identifier: Apache-2.0
"""A classifier for scikit-learn's users: own data in, probabilities out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from hugectr.base.errors import InvalidArgument, rejected
from hugectr.callbacks.callback import Callback
from hugectr.data.schema import Schema
from hugectr.estimator.estimator import Labelled
from hugectr.estimator.features import weights_of
from hugectr.estimator.labels import Classes, class_weights, classes_of, codes_of
from hugectr.estimator.predicting import Predicting
from hugectr.estimator.training import Task
from hugectr.estimator.weights import product
from hugectr.models.target import BINARY, Target
from hugectr.spec.enums import MetricsType


class CTRClassifier(Predicting):
    """Two or more classes from columns of any kind, by a model of the catalogue.

    What the columns are is found out (``hugectr.data.Schema.infer``), sizes are taken from the
    data, a share of it is held out, and training stops when the model gets no better there; the
    best weights are kept. scikit-learn's pipelines, searches, ``clone`` and ``cross_val_score``
    take it; scikit-learn need not be there.

    Parameters
    ----------
    model : str
        One of ``hugectr.models.NAMES``; ``hugectr.models.description`` says when to use which.
    vec_size, hidden, dropout, cross_layers, cross_rank
        Sizes of the model (``hugectr.models.Sizes``); None: by the number of rows.
    batch_size, learning_rate, epochs
        Of training with Adam; None: by the number of rows. ``epochs`` is the most there are.
    l2, weight_decay : float
        Fields of ``CreateOptimizer``, for the dense network and for the rows of a batch: what
        keeps weights small. Small data with many categories gains most.
    early_stopping : bool
        Hold a share of the data out (if ``fit`` gets no ``eval_set``), evaluate there and stop.
        Data with fewer than 50 rows of a class has no such share, and is trained for a fixed time.
    validation_fraction : float
        The share, of each class, between 0 and 1.
    patience : int
        Evaluations without a gain that end the training.
    metric : {"AUC", "LogLoss"} or None
        What a gain is measured by; None: AUC of two classes, LogLoss of more.
    class_weight : None, "balanced" or dict
        How much a class counts in the loss; "balanced": all classes the same in sum.
    categorical, dense, ignore : sequence of str
        Columns that are this, whatever ``Schema.infer`` would say. Columns of an array of numbers
        are dense; those of an array are called ``x0``, ``x1``, ...
    schema : Schema or None
        What the columns are, with one LabelField; used as it is where it is fitted.
    random_state : int, Generator, RandomState or None
        The same number and data give the same model, to the bit; None: another one each time.
    device : {"auto", "cpu", "cuda"}
    verbose : int
        0 quiet, 1 a line an evaluation, 2 all lines.

    Attributes
    ----------
    classes_ : ndarray, (k,)
        Sorted; of two the second one is the positive class.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Columns of ``fit``; not there where it got an array.
    schema_ : Schema
    history_ : History
        Evaluations, and why the training ended.
    n_iter_ : int
        Steps trained.

    Examples
    --------
    >>> classifier = CTRClassifier(random_state=1).fit(frame, "clicked")  # doctest: +SKIP
    >>> classifier.predict_proba(later)[:, 1]  # doctest: +SKIP
    """

    metric: str | None
    class_weight: Any

    def __init__(
        self,
        model: str = "deepfm",
        *,
        vec_size: int | None = None,
        hidden: Sequence[int] | None = None,
        dropout: float | None = None,
        cross_layers: int | None = None,
        cross_rank: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        epochs: int | None = None,
        l2: float = 0.0,
        weight_decay: float = 0.0,
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        patience: int = 4,
        metric: str | None = None,
        class_weight: Any = None,
        categorical: Sequence[str] = (),
        dense: Sequence[str] = (),
        ignore: Sequence[str] = (),
        schema: Schema | None = None,
        random_state: Any = None,
        device: str = "auto",
        verbose: int = 0,
    ) -> None:
        self._keep(locals())

    # --- training ---------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        eval_set: Any = None,
        *,
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : DataFrame, Arrow data, dict, ndarray or path
            pandas, polars, Arrow; a dict of columns; an array of (rows, columns); the path of a
            CSV, JSON lines or Parquet file. All of it is in memory.
        y : array_like, (rows,), or str
            Labels of two or more classes, or the name of their column in X.
        sample_weight : array_like, (rows,), or None
            How much a row counts, from 0 on; rows of weight 0 are left out.
        eval_set : tuple (X, y), list of one, or None
            What early stopping evaluates on, in place of a share of X. Where y is a name, data with
            that column will do.
        callbacks : sequence of hugectr.callbacks.Callback

        Returns
        -------
        CTRClassifier
            This one.

        Raises
        ------
        InvalidArgument
            When an argument can not be right, or y has no two classes; a ValueError.
        DataError
            When a column can not be read.
        """
        where = "CTRClassifier.fit"
        values, name, features = self._read("fit", X, y)
        classes = classes_of(where, values)
        label = codes_of(where, values, classes)
        weight = product(
            weights_of(where, sample_weight, features.rows),
            class_weights(where, self.class_weight, label, classes),
        )
        rows = Labelled(features, name, label, weight, Classes(classes)).of_weight()
        if rows.label.min() == rows.label.max():
            raise InvalidArgument(f"{where}: only one class has rows of weight above 0")
        self._fit(where, rows, _task(where, len(classes), self.metric), y, eval_set, callbacks)
        self.classes_ = classes
        return self

    # --- files ------------------------------------------------------------------------------------

    DESCRIPTION: ClassVar[str] = "classifier.json"

    def _learnt(self) -> dict[str, Any]:
        return {"classes": self.classes_.tolist()}

    def _take(self, learnt: dict[str, Any]) -> None:
        self.classes_ = np.array(learnt["classes"])
        if self.classes_.ndim != 1 or len(self.classes_) < 2:
            raise ValueError(f"found classes {learnt['classes']!r}, need two or more")

    # --- scikit-learn -----------------------------------------------------------------------------

    _estimator_type = "classifier"

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn (from 1.6 on) asks; imported here, where it is the caller."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(multi_class=True),
            input_tags=InputTags(allow_nan=True, string=True, categorical=True),
            transformer_tags=None,
            regressor_tags=None,
        )

    def __sklearn_is_fitted__(self) -> bool:
        """Whether ``fit`` has been there."""
        return hasattr(self, "classes_")


def _task(where: str, classes: int, metric: Any) -> Task:
    """Binary cross-entropy of two classes, cross-entropy of a logit a class of more."""
    if classes == 2:
        chosen = "AUC" if metric is None else metric
        return Task(BINARY, (MetricsType.AUC, MetricsType.LogLoss), chosen)
    if metric not in (None, "LogLoss"):
        raise rejected(f"{where}: metric", metric, f"'LogLoss' with {classes} classes, or None")
    target = Target("CrossEntropyLoss", classes)
    return Task(target, (MetricsType.AverageLoss,), MetricsType.AverageLoss.name)
