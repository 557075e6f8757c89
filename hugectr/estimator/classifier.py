# SPDX-License-Identifier: Apache-2.0
"""A classifier for scikit-learn's users: own data in, probabilities out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from hugectr.base.errors import InvalidArgument, did_you_mean, rejected
from hugectr.base.keywords import named_keywords
from hugectr.data.schema import Schema
from hugectr.estimator.estimator import Labelled
from hugectr.estimator.labels import Classes, classes_of
from hugectr.estimator.predicting import Predicting
from hugectr.estimator.training import Task
from hugectr.estimator.weights import Floats
from hugectr.models.target import BINARY, Target
from hugectr.spec.enums import MetricsType

#: What early stopping may go by, the first one unless somebody says, and the metric of the core:
#: of two classes, and of more. AUC and the loss are evaluated in any case.
TWO = {
    "AUC": MetricsType.AUC,
    "LogLoss": MetricsType.LogLoss,
    "Accuracy": MetricsType.Accuracy,
    "GAUC": MetricsType.GAUC,
}
SEVERAL = {"LogLoss": MetricsType.AverageLoss, "Accuracy": MetricsType.Accuracy}


@named_keywords("CTRClassifier")
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
    metric : {"AUC", "LogLoss", "Accuracy", "GAUC"} or None
        What a gain is measured by; None: AUC of two classes, LogLoss of more, which have no AUC.
        GAUC, the AUC within a group, needs ``group``.
    class_weight : None, "balanced" or dict
        How much a class counts in the loss; "balanced": all classes the same in sum.
    categorical, dense, ignore : sequence of str
        Columns that are this, whatever ``Schema.infer`` would say: ``fit`` warns of those that it
        leaves out, such as ids. Columns of an array of numbers
        are dense; those of an array are called ``x0``, ``x1``, ...
    sequences : dict of str to (str or None), or sequence of str
        Columns of lists in an order, oldest first, and the column that each is the history of, such
        as ``{"seen": "item"}``: both are in one table. What ``din`` and ``bst`` are for.
    group : str or None
        The column that says which rows belong together, such as the user. It is no feature unless
        it is named in ``categorical`` too.
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
    group: str | None

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
        sequences: Mapping[str, str | None] | Sequence[str] = (),
        group: str | None = None,
        schema: Schema | None = None,
        random_state: Any = None,
        device: str = "auto",
        verbose: int = 0,
    ) -> None:
        self._keep(locals())

    # --- training ---------------------------------------------------------------------------------

    def _meaning(self, where: str, values: npt.NDArray[Any], weight: Floats | None) -> Classes:
        return Classes(classes_of(where, values), self.class_weight)

    def _task(self, where: str, rows: Labelled) -> Task:
        """Binary cross-entropy of two classes, cross-entropy of a logit a class of more."""
        if not len(rows.label):
            raise InvalidArgument(
                f"{where}: no row has a weight above 0, by sample_weight and class_weight together"
            )
        if rows.label.min() == rows.label.max():
            raise InvalidArgument(f"{where}: only one class has rows of weight above 0")
        assert isinstance(rows.meaning, Classes)
        classes = len(rows.meaning.values)
        known = TWO if classes == 2 else SEVERAL
        chosen = _metric(where, self.metric, [*known], classes)
        if chosen == "GAUC" and self.group is None and self.schema is None:
            raise rejected(
                f"{where}: metric", self.metric, 'with group="COLUMN", the AUC within which it is'
            )
        always = [*known.values()][: 2 if classes == 2 else 1]
        metrics = tuple(dict.fromkeys([*always, known[chosen]]))
        target = BINARY if classes == 2 else Target("CrossEntropyLoss", classes)
        return Task(target, metrics, known[chosen].name)

    def _keep_meaning(self, meaning: Classes) -> None:
        self.classes_ = meaning.values

    def _roles(self) -> dict[str, Any]:
        return {**super()._roles(), "group": self.group}

    def _width(self) -> int:
        return 1 if len(self.classes_) == 2 else len(self.classes_)

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


def _metric(where: str, metric: Any, known: list[str], classes: int) -> str:
    """The metric that a user means, however it is spelt; the first one when nobody says."""
    if metric is None:
        return known[0]
    spelt = {name.lower().replace("_", ""): name for name in known}
    found = spelt.get(str(metric).lower().replace("_", ""))
    if found is None:
        near = did_you_mean(str(metric), known)
        raise rejected(f"{where}: metric", metric, f"one of {known} with {classes} classes{near}")
    return found
