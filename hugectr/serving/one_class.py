# SPDX-License-Identifier: Apache-2.0
"""Why an AUC is nan: the samples of a label are all of one class."""

from __future__ import annotations

import math
from collections.abc import Mapping

from hugectr.base import log
from hugectr.serving.samples import Samples
from hugectr.spec.input import Input


def tell_of_one_class(found: Mapping[str, float], samples: Samples, inputs: Input) -> None:
    """Warn of the labels that have no AUC, where one was asked for and is nan.

    Parameters
    ----------
    found : mapping of str to float
        Metrics of an evaluation.
    samples : Samples
        What was evaluated; those of weight 0 do not count.
    inputs : Input
        How the labels are called.
    """
    if not math.isnan(found.get("AUC", 0.0)):
        return
    label = samples.label if samples.weight is None else samples.label[samples.weight > 0]
    if len(label) == 0:
        return
    names = [
        name if dim == 1 else f"{name}[{i}]"
        for name, dim in zip(inputs.label_names, inputs.label_dims, strict=True)
        for i in range(dim)
    ]
    least, most = label.min(axis=0), label.max(axis=0)
    only = [
        f"{name!r} {one:g}" for name, one, two in zip(names, least, most, strict=True) if one == two
    ]
    if only:
        log.warning(
            f"evaluate: AUC is nan: all {len(label)} rows have {', '.join(only)}, and it needs "
            "rows of both classes"
        )
