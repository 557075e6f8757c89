# SPDX-License-Identifier: Apache-2.0
"""A classifier for scikit-learn's users: own data in, probabilities out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hugectr.base.arguments import check_bool, check_float, check_int
from hugectr.base.errors import InvalidArgument
from hugectr.callbacks.callback import Callback
from hugectr.data.schema import EncodedData, Schema
from hugectr.estimator.fitted import Fitted
from hugectr.estimator.features import (
    Features,
    check_columns,
    features_of,
    labels_of,
    weights_of,
)
from hugectr.estimator.labels import class_weights, classes_of, held_out, positives
from hugectr.estimator.parameters import Parameters, not_fitted, seed_of
from hugectr.estimator.schemas import check_schema, inferred
from hugectr.estimator.training import Training
from hugectr.models.catalogue import check_model
from hugectr.models.sizes import model_sizes, training_sizes

Floats = npt.NDArray[np.float32]
#: Rows of a class below which a held-out share says nothing.
_LEAST_TO_HOLD_OUT = 50


class CTRClassifier(Fitted, Parameters):
    """Two classes from columns of any kind, by a model of the catalogue.

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
    early_stopping : bool
        Hold a share of the data out (if ``fit`` gets no ``eval_set``), evaluate there and stop.
        Data with fewer than 50 rows of a class has no such share, and is trained for a fixed time.
    validation_fraction : float
        The share, of each class, between 0 and 1.
    patience : int
        Evaluations without a gain that end the training.
    metric : {"AUC", "LogLoss"}
        What a gain is measured by.
    class_weight : None, "balanced" or dict
        How much a class counts in the loss; "balanced": both classes the same in sum.
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
    classes_ : ndarray, (2,)
        The second one is the positive class.
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
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        patience: int = 4,
        metric: str = "AUC",
        class_weight: Any = None,
        categorical: Sequence[str] = (),
        dense: Sequence[str] = (),
        ignore: Sequence[str] = (),
        schema: Schema | None = None,
        random_state: Any = None,
        device: str = "auto",
        verbose: int = 0,
    ) -> None:
        # As they are: fit() checks them, which is what clone() relies on.
        self.model = model
        self.vec_size = vec_size
        self.hidden = hidden
        self.dropout = dropout
        self.cross_layers = cross_layers
        self.cross_rank = cross_rank
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.metric = metric
        self.class_weight = class_weight
        self.categorical = categorical
        self.dense = dense
        self.ignore = ignore
        self.schema = schema
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

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
            pandas, polars, Arrow; a dict of columns; an array of (rows, columns); the path of a CSV,
            JSON lines or Parquet file. All of it is in memory.
        y : array_like, (rows,), or str
            Labels of two classes, or the name of their column in X.
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
            When an argument can not be right, or y has not two classes; a ValueError.
        DataError
            When a column can not be read.
        """
        where = "CTRClassifier.fit"
        features = features_of(where, X)
        values, name, features = labels_of(where, y, features)
        classes = classes_of(where, values)
        label = positives(where, values, classes)
        weight = _product(
            weights_of(where, sample_weight, features.rows),
            class_weights(where, self.class_weight, label, classes),
        )
        if weight is not None and not weight.all():
            rows = np.flatnonzero(weight)
            features, label, weight = features.take(rows), label[rows], weight[rows]
            if label.min() == label.max():
                raise InvalidArgument(f"{where}: only one class has rows of weight above 0")
        seed = seed_of(self.random_state)
        rng = np.random.default_rng(seed)
        if self.schema is not None:
            name = check_schema(where, self.schema)
        stays = self._split(where, label, eval_set is not None, rng)
        training = features.take(np.flatnonzero(stays)).with_label(name, label[stays])
        schema = self.schema
        if schema is None or not schema.fitted:
            schema = inferred(training, name, schema, self.categorical, self.dense, self.ignore)
        data = _weighed(schema.encode(training.source), weight, stays)
        evaluated = None
        if eval_set is not None:
            evaluated = _eval_data(where, eval_set, y, classes, name, schema)
        elif not stays.all():
            rest = features.take(np.flatnonzero(~stays)).with_label(name, label[~stays])
            evaluated = _weighed(schema.encode(rest.source), weight, ~stays)
        run = self._training(where, schema, data, evaluated, seed, callbacks)
        self.history_ = self._train(run)
        self.n_iter_ = self.history_.trained_steps
        self.classes_ = classes
        self.n_features_in_ = features.table.num_columns
        self._forget_names()
        if not features.array:
            self.feature_names_in_ = np.array(features.table.column_names, dtype=object)
        return self

    def _split(
        self, where: str, label: Floats, given: bool, rng: np.random.Generator
    ) -> npt.NDArray[np.bool_]:
        """The rows that are trained on."""
        check_bool(f"{where}: early_stopping", self.early_stopping)
        share = check_float(f"{where}: validation_fraction", self.validation_fraction, 0.0, 1.0)
        few = min(label.sum(), len(label) - label.sum()) < _LEAST_TO_HOLD_OUT
        if given or few or not self.early_stopping or not 0 < share < 1:
            return np.ones(len(label), bool)
        return ~held_out(label, share, rng)

    def _training(
        self,
        where: str,
        schema: Schema,
        data: EncodedData,
        evaluated: EncodedData | None,
        seed: int | None,
        callbacks: Sequence[Callback],
    ) -> Training:
        rows = data.samples
        sizes = model_sizes(rows)
        for field in ("vec_size", "hidden", "dropout", "cross_layers", "cross_rank"):
            if getattr(self, field) is not None:
                sizes = replace(sizes, **{field: getattr(self, field)})
        plan = training_sizes(rows, stops=evaluated is not None and self.early_stopping)
        if self.batch_size is not None:
            plan = replace(plan, batch_size=check_int(f"{where}: batch_size", self.batch_size, 1))
        if self.learning_rate is not None:
            rate = check_float(f"{where}: learning_rate", self.learning_rate, 0.0, exclusive=True)
            plan = replace(plan, learning_rate=rate)
        if self.epochs is not None:
            plan = replace(plan, epochs=check_int(f"{where}: epochs", self.epochs, 1))
        patience = check_int(f"{where}: patience", self.patience, 1)
        return Training(
            name=check_model(f"{where}: model", self.model),
            schema=schema,
            data=data,
            held_out=evaluated,
            sizes=vars(sizes),
            plan=plan,
            metric=self.metric,
            patience=patience if self.early_stopping else 0,
            seed=0 if seed is None else 1 + seed,
            device=self.device,
            verbose=check_int(f"{where}: verbose", self.verbose, 0, 2),
            callbacks=callbacks,
        )

    # --- prediction -------------------------------------------------------------------------------

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
        return np.asarray(self.classes_of("predict")[(self.decision_function(X) > 0).astype(int)])

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
        return self._model("evaluate").evaluate(_weighed(data, weight, np.ones(len(label), bool)))

    def _labelled(self, call: str, X: Any, y: Any) -> tuple[npt.NDArray[Any], Features]:
        self.classes_of(call)
        where = f"CTRClassifier.{call}"
        values, _, features = labels_of(where, y, features_of(where, X))
        if features.array:
            check_columns(where, features.table.column_names, self.n_features_in_)
        return values, features

    def classes_of(self, call: str) -> npt.NDArray[Any]:
        """The classes; an error before ``fit``."""
        if not hasattr(self, "classes_"):
            raise not_fitted(self, call)
        return self.classes_

    # --- scikit-learn -----------------------------------------------------------------------------

    _estimator_type = "classifier"

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn (from 1.6 on) asks; imported here, where it is the caller."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(multi_class=False),
            input_tags=InputTags(allow_nan=True, string=True, categorical=True),
            transformer_tags=None,
            regressor_tags=None,
        )

    def __sklearn_is_fitted__(self) -> bool:
        """Whether ``fit`` has been there."""
        return hasattr(self, "classes_")


def _product(one: Floats | None, other: Floats | None) -> Floats | None:
    if one is None or other is None:
        return other if one is None else one
    return one * other


def _weighed(
    data: EncodedData, weight: Floats | None, rows: npt.NDArray[np.bool_]
) -> EncodedData:
    if weight is None:
        return data
    return replace(data, weight=_product(weight[rows], data.weight))


def _eval_data(
    where: str,
    eval_set: Any,
    y: Any,
    classes: npt.NDArray[Any],
    name: str,
    schema: Schema,
) -> EncodedData:
    """What early stopping evaluates on."""
    if isinstance(eval_set, list) and len(eval_set) == 1:
        eval_set = eval_set[0]
    if isinstance(eval_set, tuple) and len(eval_set) == 2:
        features, labels = eval_set
    elif isinstance(y, str):
        features, labels = eval_set, y
    else:
        raise InvalidArgument(
            f"{where}: eval_set: found {type(eval_set).__name__}, allowed: (X, y), or a list of one "
            "such pair"
        )
    values, _, columns = labels_of(f"{where}: eval_set", labels, features_of(where, features))
    label = positives(f"{where}: eval_set", values, classes)
    return schema.encode(columns.with_label(name, label).source)
