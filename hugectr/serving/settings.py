# SPDX-License-Identifier: Apache-2.0
"""Arguments of predictions and evaluations, checked."""

from __future__ import annotations

from collections.abc import Sequence

from hugectr import _core
from hugectr.base.arguments import check_int
from hugectr.base.errors import did_you_mean, rejected
from hugectr.spec.layers import DenseLayer
from hugectr.spec.metrics import CATALOGUE

#: What an evaluation says of a loss whose prediction is a probability, and of others.
METRICS = ("AUC", "LogLoss", "AverageLoss")
_OF_OTHERS = {"softmax": "Accuracy", "identity": "MSE"}


def usual_metrics(layers: Sequence[DenseLayer]) -> tuple[str, ...]:
    """The metrics of a model where nobody says: such as its losses have."""
    losses = _core.losses()
    named = (layer.layer_type.name for layer in layers)
    predictions = [losses[name]["prediction"] for name in named if name in losses]
    if "sigmoid" in predictions or not predictions:
        return METRICS
    return (*(name for of, name in _OF_OTHERS.items() if of in predictions), "AverageLoss")


def batch_size_of(where: str, batch_size: int | None, otherwise: int) -> int:
    """Rows of a batch; None: ``otherwise``."""
    return otherwise if batch_size is None else check_int(f"{where}: batch_size", batch_size, 1)


def metric_list(metrics: Sequence[str] | str) -> list[str]:
    """Names of metrics."""
    names = [metrics] if isinstance(metrics, str) else list(metrics)
    for name in names:
        if name not in CATALOGUE:
            allowed = f"one of {sorted(CATALOGUE)}{did_you_mean(str(name), CATALOGUE)}"
            raise rejected("evaluate: metrics", name, allowed)
    return names
