# SPDX-License-Identifier: Apache-2.0
"""A layer to be written: its names, its settings, its weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hugectr.export.program import Array, Program, Shape


@dataclass(frozen=True)
class Layer:
    """One layer of a network as it runs, and the program that it writes itself into.

    Attributes
    ----------
    type : str
    bottoms, tops : tuple of str
    attributes : mapping
        As the core has them.
    weights : mapping of str to array
        Of the whole network: ``"<first top>.<what>"``.
    program : Program
    """

    type: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    attributes: Mapping[str, Any]
    weights: Mapping[str, Array]
    program: Program

    @property
    def top(self) -> str:
        """The first top, which is the layer's name."""
        return self.tops[0]

    def shape(self, bottom: int = 0) -> Shape:
        """Of a bottom, without the batch."""
        return self.program.shapes[self.bottoms[bottom]]

    def axis(self, number: int, bottom: int = 0) -> int:
        """An axis of a bottom, as programs count: rows that are parts of a sample are axis 1."""
        return number + 1 if self.bottoms[bottom] in self.program.rows else number

    def weight(self, what: str, shape: Shape | None = None) -> str:
        """A weight as a constant of its own name."""
        name = f"{self.top}.{what}"
        values = self.weights[name]
        return self.program.constant(name, values if shape is None else values.reshape(shape))

    def emit(self, op: str, output: str, shape: Shape, *inputs: str, **attributes: Any) -> str:
        """An operation whose result has a name of the layer's own: ``output`` behind its top."""
        name = f"{self.top}/{output}" if output else self.top
        return self.program.emit(op, name, shape, *inputs, **attributes)

    def result(self, op: str, shape: Shape, *inputs: str, **attributes: Any) -> str:
        """The operation that makes the layer's top."""
        return self.emit(op, "", shape, *inputs, **attributes)
