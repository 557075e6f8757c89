# SPDX-License-Identifier: Apache-2.0
"""Which metrics an evaluation computes and when they end a training."""

from collections.abc import Mapping
from typing import Any

from hugectr._core import metrics
from hugectr.base.arguments import check_enum, check_float
from hugectr.base.catalogue import described
from hugectr.base.errors import rejected
from hugectr.spec.enums import MetricsType

#: What the core says of each metric.
CATALOGUE = metrics()
SUPPORTED = tuple(MetricsType[name] for name in CATALOGUE)
if MetricsType.__doc__:  # none under python -OO
    MetricsType.__doc__ += "\n" + described("MetricsType", CATALOGUE)


def check_metrics_spec(name: str, value: Any) -> dict[MetricsType, float]:
    """Check a ``metrics_spec``: metric -> threshold.

    Parameters
    ----------
    name : str
        What messages call it.
    value : mapping of MetricsType to float
        Only AUC's threshold ends a training; the others are reported. Empty: none is computed.

    Raises
    ------
    InvalidArgument
        For a metric that is not computed, or a threshold that is no number.
    """
    if not isinstance(value, Mapping):
        raise rejected(name, value, "a dict such as {hugectr.MetricsType.AUC: 1.0}")
    spec: dict[MetricsType, float] = {}
    for metric, threshold in value.items():
        check_enum(f"{name} key", metric, MetricsType)
        if metric not in SUPPORTED:
            allowed = ", ".join(repr(supported) for supported in SUPPORTED)
            raise rejected(f"{name} key", metric, allowed)
        spec[metric] = check_float(f"{name}[{metric!r}]", threshold)
    return spec


def parse_metric(name: str, text: Any) -> tuple[MetricsType, float]:
    """Read the JSON form, ``"AUC:0.8025"`` or ``"AverageLoss"``."""
    allowed = '"AUC:<threshold>"' + "".join(f', "{metric.name}"' for metric in SUPPORTED)
    if not isinstance(text, str):
        raise rejected(name, text, allowed)
    word, _, number = text.partition(":")
    by_name = {metric.name: metric for metric in SUPPORTED}
    if word not in by_name:
        raise rejected(name, text, allowed)
    try:
        threshold = float(number) if number else 1.0
    except ValueError:
        raise rejected(name, text, allowed) from None
    return by_name[word], threshold


def values_of_parts(name: str, values: Mapping[str, float]) -> list[float]:
    """What a metric is of each task, or AverageLoss of each loss; empty where there is one."""
    return [value for part, value in values.items() if part.startswith(f"{name}_")]


def target_reached(
    metrics_spec: Mapping[MetricsType, float], values: Mapping[str, float]
) -> float | None:
    """AUC when it is above its threshold, else None."""
    threshold = metrics_spec.get(MetricsType.AUC)
    auc = values.get(MetricsType.AUC.name)
    return auc if threshold is not None and auc is not None and auc > threshold else None


def metric_names(metrics_spec: Mapping[MetricsType, float]) -> list[str]:
    """Names the core knows the metrics by."""
    return [metric.name for metric in metrics_spec]
