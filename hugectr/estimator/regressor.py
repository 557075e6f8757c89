# SPDX-License-Identifier: Apache-2.0
"""A regressor for scikit-learn's users: own data in, numbers out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from hugectr.base.arguments import check_choice, check_float
from hugectr.base.errors import InvalidArgument
from hugectr.base.keywords import named_keywords
from hugectr.data.schema import EncodedData, Schema
from hugectr.estimator.estimator import Estimator, Labelled
from hugectr.estimator.features import Features, check_columns, weights_of
from hugectr.estimator.parameters import not_fitted
from hugectr.estimator.training import Task
from hugectr.estimator.weights import Floats
from hugectr.models.target import Target
from hugectr.serving.prediction_model import PredictionModel
from hugectr.spec.enums import MetricsType

Doubles = npt.NDArray[np.float64]
#: Rows below which a held-out share says nothing.
_LEAST_TO_HOLD_OUT = 100
LOSSES = ("mse", "huber")
#: Standard deviations of a normal distribution in the median of the distances to its median.
_DEVIATIONS = 1.4826


@dataclass(frozen=True)
class Numbers:
    """Labels that are numbers (``Meaning``), as a loss takes them: around 0, and about as far as 1.

    Attributes
    ----------
    mean, scale : float
        The middle and the spread of the labels: they are mean + scale * number.
    """

    mean: float
    scale: float

    @classmethod
    def of(cls, values: Doubles, weight: Floats | None, robust: bool = False) -> Numbers:
        """Mean and standard deviation of labels.

        ``robust``: the median, and what the median of the distances to it says of the deviation,
        which single wild labels do not move. Where half of the labels are equal it says nothing.
        """
        least = float(values.min())
        if least == values.max():  # whatever the logit is, that is the prediction
            return cls(least, float(np.spacing(max(abs(least), 1.0))) / 16)
        if robust:
            middle = _median(values, weight)
            spread = _DEVIATIONS * _median(np.abs(values - middle), weight)
            if 0 < spread < np.inf:
                return cls(middle, spread)
        mean = float(np.average(values, weights=weight))
        scale = float(np.sqrt(np.average((values - mean) ** 2, weights=weight)))
        if scale == 0:  # all but rows that count nothing
            scale = float(np.spacing(max(abs(mean), 1.0)))
        return cls(mean, scale if np.isfinite(scale) else 1.0)

    def as_text(self) -> bool:
        """Never: they are numbers."""
        return False

    def numbers(self, where: str, values: npt.NDArray[Any]) -> Floats:
        """As the loss takes them."""
        return np.asarray((_numbers(where, values) - self.mean) / self.scale, np.float32)

    def weights(self, where: str, numbers: Floats) -> None:
        """All the same."""

    def held_out(
        self, numbers: Floats, share: float, rng: np.random.Generator
    ) -> npt.NDArray[np.bool_]:
        """This share of the rows, drawn; nothing of fewer than 100."""
        chosen = np.zeros(len(numbers), bool)
        if len(numbers) >= _LEAST_TO_HOLD_OUT:
            chosen[rng.permutation(len(numbers))[: max(1, round(share * len(numbers)))]] = True
        return chosen


@named_keywords("CTRRegressor")
class CTRRegressor(Estimator):
    """A number from columns of any kind, by a model of the catalogue.

    As ``CTRClassifier`` it finds out what the columns are, takes sizes from the data, holds a share
    of it out and stops when the model gets no better there; scikit-learn's tools take it.

    Parameters
    ----------
    model : str
        One of ``hugectr.models.NAMES``; ``hugectr.models.description`` says when to use which.
    loss : {"mse", "huber"}
        What is made small: the mean of the squared errors, or that up to ``huber_delta`` and of the
        errors themselves beyond it, which single wild labels move less.
    huber_delta : float
        In standard deviations of the labels as they are but for wild ones: 1.4826 times the median
        of their distances to the median. Where that is 0, of all of them.
    vec_size, hidden, dropout, cross_layers, cross_rank
        Sizes of the model (``hugectr.models.Sizes``); None: by the number of rows.
    batch_size, learning_rate, epochs
        Of training with Adam; None: by the number of rows. ``epochs`` is the most there are.
    l2, weight_decay : float
        Fields of ``CreateOptimizer``, for the dense network and for the rows of a batch.
    early_stopping : bool
        Hold a share of the data out (if ``fit`` gets no ``eval_set``), evaluate there and stop.
        Data with fewer than 100 rows has no such share, and is trained for a fixed time.
    validation_fraction : float
        The share, between 0 and 1.
    patience : int
        Evaluations without a gain, by the loss, that end the training.
    categorical, dense, ignore : sequence of str
        Columns that are this, whatever ``Schema.infer`` would say: ``fit`` warns of those that it
        leaves out, such as ids.
    sequences : dict of str to (str or None), or sequence of str
        As of CTRClassifier.
    schema : Schema or None
        What the columns are, with one LabelField; used as it is where it is fitted. No other
        argument says then what columns are.
    random_state : int, Generator, RandomState or None
        The same number and data give the same model, to the bit; None: another one each time.
    device : {"auto", "cpu", "cuda"}
    verbose : int
        0 quiet, 1 a line an evaluation, 2 all lines.

    Attributes
    ----------
    label_mean_, label_scale_ : float
        The model's own output (``hugectr.load`` of a saved folder) is (prediction - mean) / scale.
        Mean and standard deviation of the labels; of "huber" their median, and the deviation that
        ``huber_delta`` counts in.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Columns of ``fit``; not there where it got an array.
    schema_ : Schema
    history_ : History
        Evaluations, and why the training ended.
    n_iter_ : int
        Steps trained.
    """

    DESCRIPTION: ClassVar[str] = "regressor.json"
    loss: str
    huber_delta: float

    def __init__(
        self,
        model: str = "deepfm",
        *,
        loss: str = "mse",
        huber_delta: float = 1.0,
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
        categorical: Sequence[str] = (),
        dense: Sequence[str] = (),
        ignore: Sequence[str] = (),
        sequences: Mapping[str, str | None] | Sequence[str] = (),
        schema: Schema | None = None,
        random_state: Any = None,
        device: str = "auto",
        verbose: int = 0,
    ) -> None:
        self._keep(locals())

    def _meaning(self, where: str, values: npt.NDArray[Any], weight: Floats | None) -> Numbers:
        return Numbers.of(_numbers(where, values), weight, robust=self.loss == "huber")

    def _task(self, where: str, rows: Labelled) -> Task:
        check_choice(f"{where}: loss", self.loss, LOSSES)
        target = Target("MSELoss")
        if self.loss == "huber":
            delta = check_float(f"{where}: huber_delta", self.huber_delta, 0.0, exclusive=True)
            target = Target("HuberLoss", parameters={"huber_delta": delta})
        return Task(target, (MetricsType.AverageLoss,), MetricsType.AverageLoss.name)

    def _keep_meaning(self, meaning: Numbers) -> None:
        self.label_mean_, self.label_scale_ = meaning.mean, meaning.scale

    def predict(self, X: Any) -> Doubles:
        """A number for each row, (rows,), in float64: labels may be far from 0 and close together.

        Parameters
        ----------
        X
            As of ``fit``; without label. Files are read piece by piece.
        """
        if not hasattr(self, "label_mean_"):
            raise not_fitted(self, "predict")
        return self._in_units(self._outputs("predict", X, "logit"))

    def columns_of(self, model: PredictionModel, samples: EncodedData) -> dict[str, Doubles]:
        """What ``hugectr predict`` writes of some samples: the column ``prediction``.

        Parameters
        ----------
        model : PredictionModel
            This one's.
        samples : EncodedData
        """
        logits = model.predict(samples, output="logit").reshape(-1)
        return {"prediction": self._in_units(logits)}

    def _in_units(self, logits: Floats) -> Doubles:
        return np.asarray(logits.astype(np.float64) * self.label_scale_ + self.label_mean_)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R2 of the predictions, as scikit-learn's regressors say it.

        ``sample_weight`` alone counts here: ``evaluate`` takes the weights of a schema too.
        """
        where = "CTRRegressor.score"
        label, features = self._labelled("score", X, y)
        weight = weights_of(where, sample_weight, len(label))
        return _scores(self.predict(features.source), label, weight)["R2"]

    def evaluate(self, X: Any, y: Any, sample_weight: Any = None) -> dict[str, float]:
        """``RMSE``, ``MAE`` and ``R2``, by ``sample_weight`` times the weights of the schema.

        Parameters
        ----------
        X, y, sample_weight
            As of ``fit``.
        """
        label, features = self._labelled("evaluate", X, y)
        data = self._samples("CTRRegressor.evaluate", features, sample_weight)
        logits = self._model("evaluate").predict(data, output="logit").reshape(-1)
        return _scores(self._in_units(logits), label, data.weight)

    def _labelled(self, call: str, X: Any, y: Any) -> tuple[Doubles, Features]:
        where = f"CTRRegressor.{call}"
        if not hasattr(self, "label_mean_"):
            raise not_fitted(self, call)
        values, _, features = self._read(call, X, y)
        if features.array:
            check_columns(where, features.table.column_names, self.n_features_in_)
        return _numbers(where, values), features

    def _width(self) -> int:
        return 1

    # --- files ------------------------------------------------------------------------------------

    def _learnt(self) -> dict[str, Any]:
        return {"label": {"mean": self.label_mean_, "scale": self.label_scale_}}

    def _take(self, learnt: dict[str, Any]) -> None:
        mean, scale = float(learnt["label"]["mean"]), float(learnt["label"]["scale"])
        if not (np.isfinite([mean, scale]).all() and scale > 0):
            raise ValueError(f"found label {learnt['label']!r}, need a finite mean and scale > 0")
        self.label_mean_, self.label_scale_ = mean, scale

    # --- scikit-learn -----------------------------------------------------------------------------

    _estimator_type = "regressor"

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn (from 1.6 on) asks; imported here, where it is the caller."""
        from sklearn.utils import InputTags, RegressorTags, Tags, TargetTags

        return Tags(
            estimator_type="regressor",
            target_tags=TargetTags(required=True),
            regressor_tags=RegressorTags(),
            input_tags=InputTags(allow_nan=True, string=True, categorical=True),
            transformer_tags=None,
            classifier_tags=None,
        )


def _median(values: Doubles, weight: Floats | None) -> float:
    """The median of numbers that count by their weights."""
    if weight is None:
        return float(np.median(values))
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weight[order].astype(np.float64))
    return float(values[order][np.searchsorted(below, below[-1] / 2.0)])


def _are_numbers(values: npt.NDArray[Any]) -> bool:
    """Whether NumPy makes float64 of them."""
    try:
        values.astype(np.float64)
    except (TypeError, ValueError):
        return False
    return True


def _scores(predicted: Doubles, label: Doubles, weight: Floats | None) -> dict[str, float]:
    """How far predictions are from labels."""
    error = predicted - label
    square = float(np.average(error**2, weights=weight))
    spread = float(np.average((label - np.average(label, weights=weight)) ** 2, weights=weight))
    return {
        "RMSE": square**0.5,
        "MAE": float(np.average(np.abs(error), weights=weight)),
        "R2": 1.0 - square / spread if spread > 0 else float(square == 0.0),
    }


def _numbers(where: str, values: npt.NDArray[Any]) -> Doubles:
    """Labels as float64."""
    if values.dtype.kind == "c":
        raise InvalidArgument(f"{where}: Complex data not supported: y has {values[0]!r}")
    if values.dtype.kind in "mM":  # NumPy has a number for each, in a unit that nobody said
        raise InvalidArgument(
            f"{where}: y has {values[:1].tolist()[0]!s} ({values.dtype}), and labels of a "
            "regressor are numbers: make it such, as days since a day"
        )
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        row = next((n for n in range(len(values)) if not _are_numbers(values[n : n + 1])), 0)
        raise InvalidArgument(
            f"{where}: y has {values[row : row + 1].tolist()[0]!r} (row {row}), and labels of a "
            "regressor are numbers"
        ) from error
    if len(numbers) and not np.isfinite(numbers).all():
        row = int((~np.isfinite(numbers)).argmax())
        raise InvalidArgument(f"{where}: y contains {numbers[row]} (row {row}); drop such rows")
    return numbers
