# SPDX-License-Identifier: Apache-2.0
"""What a model of the catalogue is to predict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Target:
    """The end of a model: its loss, and how many logits a sample has.

    Attributes
    ----------
    loss : str
        Name of a ``Layer_t``.
    outputs : int
        Logits of a sample: as many as the loss takes, such as one a class.
    parameters : mapping
        Of the loss layer.
    """

    loss: str = "BinaryCrossEntropyLoss"
    outputs: int = 1
    parameters: Mapping[str, Any] = field(default_factory=dict)


#: One of two classes, which is what the catalogue predicts unless it is told otherwise.
BINARY = Target()
