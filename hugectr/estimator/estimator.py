# SPDX-License-Identifier: Apache-2.0
"""What estimators have in common: own data in, a trained model held."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from hugectr.base import log
from hugectr.base.arguments import check_bool, check_float, check_int, check_names
from hugectr.base.errors import InvalidArgument
from hugectr.base.keywords import named_arguments
from hugectr.callbacks.callback import Callback, callbacks_of
from hugectr.data.schema import EncodedData, Schema
from hugectr.estimator.evaluated import of_eval_set, pair_of
from hugectr.estimator.features import Features, check_columns, features_of, labels_of, weights_of
from hugectr.estimator.fitted import Fitted
from hugectr.estimator.jobs import in_whole_shares
from hugectr.estimator.parameters import Parameters, seed_of
from hugectr.estimator.schemas import check_schema, inferred, tell_unused
from hugectr.estimator.training import Task, Training
from hugectr.estimator.weights import Floats, of_mean_one, product, weighed
from hugectr.models.catalogue import OF_HISTORIES, check_model
from hugectr.models.sizes import model_sizes, training_sizes
from hugectr.spec.optimizer import check_field


class Meaning(Protocol):
    """What labels mean to a loss."""

    def as_text(self) -> bool:
        """Whether labels of a format without types are text, whatever they look like."""

    def numbers(self, where: str, values: npt.NDArray[Any]) -> Floats:
        """Labels as the loss takes them, (rows,); an InvalidArgument where one can not be."""

    def weights(self, where: str, numbers: Floats) -> Floats | None:
        """How much each row counts by its label; None: all the same."""

    def held_out(
        self, numbers: Floats, share: float, rng: np.random.Generator
    ) -> npt.NDArray[np.bool_]:
        """Rows that are kept from training; none where there are too few to say anything."""


@dataclass(frozen=True)
class Labelled:
    """Rows to learn from.

    Attributes
    ----------
    features : Features
        Without the label.
    name : str
        Of the label.
    label : ndarray of float32, (rows,)
        As the loss takes it.
    weight : ndarray of float32, (rows,), or None
    meaning : Meaning
        Of the label.
    """

    features: Features
    name: str
    label: Floats
    weight: Floats | None
    meaning: Meaning

    def of_weight(self) -> Labelled:
        """Without rows that count nothing."""
        if self.weight is None or self.weight.all():
            return self
        rows = np.flatnonzero(self.weight)
        return replace(
            self,
            features=self.features.take(rows),
            label=self.label[rows],
            weight=self.weight[rows],
        )

    def called(self, name: str) -> Labelled:
        """With this name of the label; a column that has it is that label, and no feature."""
        features = self.features
        if name in features.table.column_names:
            features = features.without(name)
        return replace(self, features=features, name=name)

    def encoded(self, schema: Schema, rows: npt.NDArray[np.bool_]) -> EncodedData:
        """The chosen rows as samples."""
        chosen = self.chosen(rows)
        with chosen.rows_as_given():
            return weighed(schema.encode(chosen.source), self.weight, rows)

    def chosen(self, rows: npt.NDArray[np.bool_]) -> Features:
        """The chosen rows, with their label as a column."""
        return self.features.take(np.flatnonzero(rows)).with_label(self.name, self.label[rows])


class Estimator(Fitted, Parameters):
    """A model of the catalogue, trained on columns of any kind."""

    model: str
    vec_size: int | None
    hidden: Sequence[int] | None
    dropout: float | None
    cross_layers: int | None
    cross_rank: int | None
    batch_size: int | None
    learning_rate: float | None
    epochs: int | None
    l2: float
    weight_decay: float
    early_stopping: bool
    validation_fraction: float
    patience: int
    categorical: Sequence[str]
    dense: Sequence[str]
    ignore: Sequence[str]
    sequences: Mapping[str, str | None] | Sequence[str]
    schema: Schema | None
    random_state: Any
    device: str
    verbose: int
    #: Whether ``fit`` warns of columns that it leaves out; the command line prints them.
    _tells_unused = True

    @named_arguments()
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        eval_set: Any = None,
        *,
        callbacks: Callback | Sequence[Callback] = (),
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : DataFrame, Arrow data, dict, ndarray or path
            pandas, polars, Arrow; a dict of columns; an array of (rows, columns); the path of a
            CSV, JSON lines or Parquet file. All of it is in memory.
        y : array_like, (rows,), or str
            Labels, or the name of their column in X: of a classifier two or more classes, of a
            regressor numbers. A named series that is a column of X is that column, and no feature.
        sample_weight : array_like, (rows,), or None
            How much a row counts beside the others, from 0 on: weights are divided by their mean.
            Rows of weight 0 are left out.
        eval_set : tuple (X, y), list of one, or None
            What early stopping evaluates on, in place of a share of X. Where y is a name, data with
            that column will do. AUC needs rows of both classes there.
        callbacks : hugectr.callbacks.Callback, or sequence of them

        Returns
        -------
        self

        Raises
        ------
        InvalidArgument
            When an argument can not be right, or y is no label of this kind; a ValueError.
        DataError
            When a column can not be read.
        """
        where = f"{type(self).__name__}.fit"
        values, name, features = self._read("fit", X, y)
        self._tell_of_namesake(where, y, features)
        weight = weights_of(where, sample_weight, features.rows)
        meaning = self._meaning(where, values, weight)
        label = meaning.numbers(where, values)
        weight = product(weight, meaning.weights(where, label))
        rows = Labelled(features, name, label, weight, meaning).of_weight()
        with self._fitted_whole() as new:
            several = callbacks_of(where, callbacks)
            new._fit(where, rows, self._task(where, rows), y, eval_set, several)
            new._keep_meaning(meaning)
        return self

    @abstractmethod
    def _meaning(self, where: str, values: npt.NDArray[Any], weight: Floats | None) -> Any:
        """What these labels mean (``Meaning``)."""

    @abstractmethod
    def _task(self, where: str, rows: Labelled) -> Task:
        """What is learnt of rows."""

    @abstractmethod
    def _keep_meaning(self, meaning: Any) -> None:
        """Keep what predictions need of it."""

    def _fit(
        self,
        where: str,
        rows: Labelled,
        task: Task,
        y: Any,
        eval_set: Any,
        callbacks: Sequence[Callback],
    ) -> None:
        self._check_one_schema(where)
        seed = seed_of(where, self.random_state)
        rng = np.random.default_rng(seed)
        if self.schema is not None:
            rows = rows.called(check_schema(where, self.schema))
        stays = self._split(where, rows, eval_set is not None, rng)
        schema = self.schema
        if schema is None or not schema.fitted:
            roles = self._roles()
            schema = inferred(rows.chosen(stays), rows.name, schema, roles)
            if self.schema is None and self._tells_unused:
                tell_unused(where, schema, roles["ignore"])
        data = of_mean_one(rows.encoded(schema, stays))
        evaluated = None
        if eval_set is not None:
            named = f"{where}: eval_set"
            with of_eval_set(named):
                evaluated = _eval_data(named, eval_set, y, rows, schema)
        elif not stays.all():
            named = f"{where}: the rows held out"
            evaluated = rows.encoded(schema, ~stays)
        if evaluated is not None and self.early_stopping:
            task.check_evaluated(named, evaluated)
        run = self._training(where, task, schema, data, evaluated, seed, callbacks)
        self.history_ = self._train(run)
        self.n_iter_ = self.history_.trained_steps
        self.n_features_in_ = rows.features.table.num_columns
        self._forget_names()
        if not rows.features.array:
            names = rows.features.table.column_names
            self.feature_names_in_ = np.array(names, dtype=object)

    def _tell_of_namesake(self, where: str, y: Any, features: Features) -> None:
        """Warn where labels may be made of a column that stays: who predicts may not have it."""
        name = getattr(y, "name", None)
        if not isinstance(name, str) or name not in features.table.column_names:
            return
        if self.schema is None and name not in (self._roles()["ignore"] or ()):
            log.warning(
                f"{where}: y is called {name!r} as a column of X that has other values, and that "
                f"is a feature: if y was made of it, say ignore=[{name!r}]"
            )

    def _check_one_schema(self, where: str) -> None:
        """A schema says what columns are; an InvalidArgument where something else says it too."""
        if self.schema is None:
            return
        roles = self._roles()
        said = [
            name for name in roles if roles[name] is not None and roles[name] not in ([], (), {})
        ]
        if said:
            names = " and ".join(said)
            raise InvalidArgument(
                f"{where}: schema and {names}: a schema says what all columns are. Leave {names} "
                "out, or say it in the schema (Schema.infer takes the same arguments)"
            )

    def _roles(self) -> dict[str, Any]:
        """What columns are said to be: arguments of ``Schema.infer``."""
        where = f"{type(self).__name__}.fit"
        names = ("categorical", "dense", "ignore")
        said: dict[str, Any] = {}
        for name in names:
            given = getattr(self, name)
            listed = hasattr(given, "__iter__") and not isinstance(given, str)
            said[name] = check_names(f"{where}: {name}", list(given) if listed else given)
        return {**said, "sequences": self.sequences}

    def _split(
        self, where: str, rows: Labelled, given: bool, rng: np.random.Generator
    ) -> npt.NDArray[np.bool_]:
        """The rows that are trained on."""
        check_bool(f"{where}: early_stopping", self.early_stopping)
        share = check_float(f"{where}: validation_fraction", self.validation_fraction, 0.0, 1.0)
        if given or not self.early_stopping or not 0 < share < 1:
            return np.ones(len(rows.label), bool)
        stays = ~rows.meaning.held_out(rows.label, share, rng)
        kept = rows.label[stays]
        several = rows.label.min() != rows.label.max()
        if not len(kept) or (several and kept.min() == kept.max()):
            raise InvalidArgument(
                f"{where}: validation_fraction: {share:g} of {len(stays)} rows leaves {len(kept)} "
                "to train on, too few: give a smaller one, such as 0.1"
            )
        return stays

    def _training(
        self,
        where: str,
        task: Task,
        schema: Schema,
        data: EncodedData,
        evaluated: EncodedData | None,
        seed: int | None,
        callbacks: Sequence[Callback],
    ) -> Training:
        rows = data.samples
        histories = self.model in OF_HISTORIES
        sizes = model_sizes(rows, histories)
        for field in ("vec_size", "hidden", "dropout", "cross_layers", "cross_rank"):
            if getattr(self, field) is not None:
                sizes = replace(sizes, **{field: getattr(self, field)})
        stops = evaluated is not None and self.early_stopping
        plan = in_whole_shares(training_sizes(rows, stops, histories))
        if self.batch_size is not None:
            plan = replace(plan, batch_size=check_int(f"{where}: batch_size", self.batch_size, 1))
        if self.learning_rate is not None:
            rate = check_float(f"{where}: learning_rate", self.learning_rate, 0.0, exclusive=True)
            plan = replace(plan, learning_rate=rate)
        if self.epochs is not None:
            plan = replace(plan, epochs=check_int(f"{where}: epochs", self.epochs, 1))
        patience = check_int(f"{where}: patience", self.patience, 1)
        penalties = {
            name: check_field(f"{where}: {name}", getattr(self, name), name)
            for name in ("l2", "weight_decay")
        }
        return Training(
            where=where,
            name=check_model(f"{where}: model", self.model),
            task=task,
            schema=schema,
            data=data,
            held_out=evaluated,
            sizes=vars(sizes),
            plan=plan,
            penalties=penalties,
            patience=patience if self.early_stopping else 0,
            seed=0 if seed is None else 1 + seed,
            device=self.device,
            verbose=check_int(f"{where}: verbose", self.verbose, 0, 2),
            callbacks=callbacks,
        )

    def _read(
        self, call: str, X: Any, y: Any, *, as_text: bool = False
    ) -> tuple[npt.NDArray[Any], str, Features]:
        """Labels, what they are called, and the columns without them."""
        where = f"{type(self).__name__}.{call}"
        return labels_of(where, y, features_of(where, X), as_text=as_text)

    def _samples(
        self, where: str, features: Features, sample_weight: Any, label: Floats | None = None
    ) -> EncodedData:
        """Rows to evaluate on, with the schema's weights times these; without labels zeros."""
        weight = weights_of(where, sample_weight, features.rows)
        if label is None:
            label = np.zeros(features.rows, np.float32)
        data = weighed(
            self._schema().encode(features.with_label(self.label_name_, label).source), weight
        )
        if data.weight is not None and not data.weight.any():
            raise InvalidArgument(
                f"{where}: no row has a weight above 0, by sample_weight and the schema's weights "
                "together"
            )
        return data

    def __sklearn_is_fitted__(self) -> bool:
        """Whether ``fit`` has been there."""
        return hasattr(self, "n_features_in_")


def _eval_data(where: str, eval_set: Any, y: Any, rows: Labelled, schema: Schema) -> EncodedData:
    """What early stopping evaluates on."""
    features, labels = pair_of(where, eval_set, y)
    found, as_text = features_of(where, features), rows.meaning.as_text()
    values, _, columns = labels_of(where, labels, found, as_text=as_text)
    if rows.features.array and columns.array:
        check_columns(where, columns.table.column_names, rows.features.table.num_columns)
    numbers = rows.meaning.numbers(where, values)
    return schema.encode(columns.with_label(rows.name, numbers).source)
