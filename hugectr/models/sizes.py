# SPDX-License-Identifier: Apache-2.0
"""Sizes of models, and of their training, where nobody says: rules, with their reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from hugectr.base.arguments import check_float, check_int, check_ints
from hugectr.base.errors import InvalidArgument, did_you_mean


@dataclass(frozen=True)
class Sizes:
    """Sizes of a model.

    Parameters
    ----------
    vec_size : int
        Numbers of a vector, 1 to 1023 (one place is for the weight).
    hidden : tuple of int
        Widths of the deep network's layers.
    dropout : float
        Behind each of these layers, in [0, 1).
    cross_layers, cross_rank : int
        Of ``dcn``: layers, and the rank of their weights.
    """

    vec_size: int = 8
    hidden: tuple[int, ...] = (128, 64)
    dropout: float = 0.0
    cross_layers: int = 2
    cross_rank: int = 16

    @classmethod
    def checked(cls, where: str, given: Mapping[str, Any]) -> Sizes:
        """Sizes of these values and defaults.

        Raises
        ------
        InvalidArgument
            When a name is unknown or a value out of bounds.
        """
        known = [one.name for one in fields(cls)]
        for name in given:
            if name not in known:
                raise InvalidArgument(
                    f"{where}there is no size {name!r}{did_you_mean(name, known)}; there are "
                    f"{', '.join(known)}"
                )
        sizes = replace(cls(), **given)
        check_int(where + "vec_size", sizes.vec_size, 1, 1023)
        hidden = tuple(check_ints(where + "hidden", sizes.hidden, 1))
        if not hidden:
            raise InvalidArgument(f"{where}hidden is empty: give a width a layer, such as (64, 32)")
        check_float(where + "dropout", sizes.dropout, 0.0, 0.999)
        check_int(where + "cross_layers", sizes.cross_layers, 1)
        check_int(where + "cross_rank", sizes.cross_rank, 1)
        return replace(sizes, hidden=hidden)


@dataclass(frozen=True)
class TrainingSizes:
    """How long and in what steps a model is trained.

    Attributes
    ----------
    batch_size : int
    learning_rate : float
        Of Adam.
    epochs : int
        Most passes over the data.
    evaluations : int
        Evaluations an epoch.
    """

    batch_size: int
    learning_rate: float
    epochs: int
    evaluations: int


#: Batches of an epoch that a batch size aims at, and its bounds. Fewer steps leave weights far from
#: where they end; in batches below 64 a step costs more than its samples, and beyond 8,192 Adam
#: needs another learning rate.
_STEPS, _LEAST_BATCH, _MOST_BATCH = 128, 64, 8192
#: Rows below which an evaluation an epoch is enough. Above, the best model often lies within the
#: first two epochs (embeddings of rare categories begin to be learnt by heart in the second).
_ROWS_OF_ONE_EVALUATION = 50_000
#: Adam's usual rate; twice of it is as good and ends sooner where an epoch has steps enough.
_FEW_ROWS, _RATE_OF_FEW, _RATE = 50_000, 0.001, 0.002
#: Of models of histories: what they learn is in the products of two vectors that both begin near
#: 0. With short vectors and Adam's usual rate nothing gets better for so long that training is
#: stopped (AUC on 1,000, 4,000 and 20,000 planted rows .72, .75, .76; without these .5 to .6).
_LEAST_VECTOR_OF_HISTORIES, _RATE_OF_HISTORIES = 16, 0.004
#: Steps that small data need at least to be learnt: their epochs are short.
_MOST_STEPS, _MOST_EPOCHS, _LEAST_EPOCHS = 20_000, 100, 10


def training_sizes(rows: int, stops: bool = True, histories: bool = False) -> TrainingSizes:
    """Sizes of a training on so many rows.

    Parameters
    ----------
    rows : int
        Of training data.
    stops : bool
        Whether an evaluation ends it when it gets no better. Else it is short, since too long hurts
        more than too short: three epochs, or as many as 400 steps need.
    histories : bool
        Whether the model looks at the steps of sequences.
    """
    batch = _LEAST_BATCH
    while batch < _MOST_BATCH and rows > 2 * batch * _STEPS:
        batch *= 2
    per_epoch = -(-rows // batch)
    rate = _RATE_OF_FEW if rows < _FEW_ROWS else _RATE
    if histories:
        rate = _RATE_OF_HISTORIES
    if not stops:
        epochs = max(3, -(-400 // per_epoch))
        return TrainingSizes(batch, max(0.003, rate) if rows < 1000 else rate, epochs, 1)
    epochs = max(_LEAST_EPOCHS, min(_MOST_EPOCHS, _MOST_STEPS // per_epoch))
    evaluations = 1 if rows < _ROWS_OF_ONE_EVALUATION else 2
    return TrainingSizes(batch, rate, epochs, evaluations)


def model_sizes(rows: int, histories: bool = False) -> Sizes:
    """Sizes of a model for so many rows.

    Parameters
    ----------
    rows : int
        Of training data.
    histories : bool
        As of ``training_sizes``.

    Notes
    -----
    What a model can hold must be in the data: on few rows wide layers and long vectors learn them
    by heart before they generalise, which early stopping sees but does not mend. Dropout helps
    where rows are few, and is time lost where they are many.
    """
    if histories:
        sizes = model_sizes(rows)
        return replace(sizes, vec_size=max(sizes.vec_size, _LEAST_VECTOR_OF_HISTORIES))
    if rows < 20_000:
        return Sizes(vec_size=4, hidden=(64, 32), dropout=0.2)
    if rows < 1_000_000:
        return Sizes(vec_size=8, hidden=(128, 64), dropout=0.1)
    return Sizes(vec_size=16, hidden=(256, 128), cross_layers=3, cross_rank=32)
