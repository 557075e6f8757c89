# SPDX-License-Identifier: Apache-2.0
"""Which of two values of a metric is the better one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hugectr.base.arguments import check_choice, check_float, check_str
from hugectr.base.errors import InvalidArgument, did_you_mean

#: Metrics of which more is better, or less; of others (Calibration: 1 is) nobody knows.
_MODES = {
    "AUC": "max",
    "Accuracy": "max",
    "AverageLoss": "min",
    "GAUC": "max",
    "HitRate": "max",
    "LogLoss": "min",
    "MSE": "min",
    "NDCG": "max",
    "SMAPE": "min",
}
#: What users call the evaluation's loss.
_ALIASES = {"loss": "AverageLoss"}


@dataclass(frozen=True)
class Better:
    """How a metric is compared.

    Attributes
    ----------
    metric : str
    mode : {"max", "min"}
        Which is better.
    min_delta : float
        By how much at least, to count.
    """

    metric: str
    mode: str
    min_delta: float = 0.0

    def than(self, value: float, best: float | None) -> bool:
        """Whether a value is better than the best before; what is not finite never is."""
        if not math.isfinite(value):
            return False
        if best is None:
            return True
        gain = value - best if self.mode == "max" else best - value
        return gain > self.min_delta


def _kind(metric: str) -> str:
    """The metric that a task's is one of: ``"AUC_click"`` is an ``"AUC"``."""
    return metric.partition("_")[0]


def better_of(metric: str) -> Better | None:
    """How a metric is compared if nobody says; None: not known."""
    return Better(metric, _MODES[_kind(metric)]) if _kind(metric) in _MODES else None


def checked_better(where: str, metric: str, mode: str, min_delta: float) -> Better:
    """How a metric is compared, from the arguments of a callback.

    Parameters
    ----------
    where : str
        What messages call the callback.
    metric : str
        Name of a metric; ``"loss"`` is ``"AverageLoss"``, the evaluation's.
    mode : {"auto", "max", "min"}
    min_delta : float
        At least 0.

    Raises
    ------
    InvalidArgument
        For arguments of another kind, and for "auto" of a metric that does not say.
    """
    name = check_str(f"{where}: metric", metric)
    name = _ALIASES.get(name, name)
    check_choice(f"{where}: mode", mode, ("auto", "max", "min"))
    delta = check_float(f"{where}: min_delta", min_delta, 0.0)
    if mode == "auto":
        if _kind(name) not in _MODES:
            raise InvalidArgument(
                f'{where}: mode="auto" does not know whether more or less of {name!r} is better: '
                'say mode="max" or mode="min"'
            )
        mode = _MODES[_kind(name)]
    return Better(name, mode, delta)


def check_evaluated(where: str, metric: str, metrics: Sequence[str], evaluates: bool) -> None:
    """Whether a fit will know a metric.

    Raises
    ------
    InvalidArgument
        When there is no evaluation, or it has other metrics; the text says what to do.
    """
    if not evaluates:
        raise InvalidArgument(
            f"{where}: this fit never evaluates: it needs an eval_source, eval_interval > 0 (or "
            '"epoch") and max_eval_batches > 0'
        )
    if _kind(metric) not in metrics:
        near = did_you_mean(metric, metrics)
        raise InvalidArgument(
            f"{where}: metric is {metric!r}; this model evaluates {', '.join(metrics)}{near}. "
            f"CreateSolver(metrics_spec={{hugectr.MetricsType.{_kind(metric)}: 0, ...}}) adds one"
        )
