# SPDX-License-Identifier: Apache-2.0
"""What the rows of a table hold before they have trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hugectr.base.arguments import check_float
from hugectr.base.errors import rejected

if TYPE_CHECKING:
    from hugectr._core import EmbeddingSpec


@dataclass(frozen=True)
class Uniform:
    """New rows are uniform in [-up_bound, up_bound).

    Parameters
    ----------
    up_bound : float
        Above 0.
    """

    up_bound: float

    def __post_init__(self) -> None:
        check_float("Uniform: up_bound", self.up_bound, 0.0, exclusive=True)

    def to_spec(self) -> EmbeddingSpec:
        """Its part of a table as the core reads it."""
        return {"initial": "uniform", "initial_bound": float(self.up_bound)}

    def to_json(self) -> dict[str, Any]:
        """As it stands in a graph file."""
        return {"type": "Uniform", "up_bound": float(self.up_bound)}


@dataclass(frozen=True)
class Sinusoidal:
    """New rows say where their key stands, as positions of a Transformer do.

    Even columns c of d hold sin(key / 10000^(c / d)), odd ones cos(key / 10000^((c - 1) / d)).
    Source: "Attention Is All You Need", 3.5.
    """

    def to_spec(self) -> EmbeddingSpec:
        """Its part of a table as the core reads it."""
        return {"initial": "sinusoidal"}

    def to_json(self) -> dict[str, Any]:
        """As it stands in a graph file."""
        return {"type": "Sinusoidal"}


InitialVectors = Uniform | Sinusoidal


def check_initializer(name: str, value: Any) -> InitialVectors | None:
    """An initialiser of a table, or None."""
    if value is not None and not isinstance(value, Uniform | Sinusoidal):
        raise rejected(name, value, "hugectr.Uniform(up_bound), hugectr.Sinusoidal() or None")
    return value
