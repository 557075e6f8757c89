# SPDX-License-Identifier: Apache-2.0
"""The evaluation of a dense network as a list of plain operations, before it has a format.

Layers write it (``layers``), and ``onnx_file`` and ``torch_module`` read it: a layer is described
once for all of them, an operation once a format.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
#: Of a tensor without its first dimension, which is that of the batch.
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """One operation: ``output = op(*inputs, **attributes)``."""

    op: str
    inputs: tuple[str, ...]
    output: str
    attributes: dict[str, Any] = field(default_factory=dict)


#: What there is, with its attributes. All is float32 with the batch as first dimension, but for
#: constants, which have no batch.
OPERATIONS: dict[str, tuple[str, ...]] = {
    "add": (),
    "subtract": (),
    "multiply": (),
    "matmul": (),  # (..., m, k) (..., k, n), or a constant (k, n)
    "permute": ("order",),  # dimensions, that of the batch stays the first
    "concat": ("axis",),
    "slice": ("axis", "begin", "end"),
    "take": ("axis", "indices"),  # axis 0 too, of a program of whole batches
    "reshape": ("sizes",),  # without the batch's dimension, which takes what is over
    "sum": ("axis",),  # which stays, with size 1
    "sum_before": (),  # along axis 1: of all elements before each
    "pad": ("count",),  # zeros behind the last dimension
    "identity": (),
    "relu": (),
    "sigmoid": (),
    "tanh": (),
    "softplus": (),
    "elu": ("alpha",),
    "layer_norm": ("eps",),  # of x by scale and shift, along the last dimension
    "batch_normed": ("eps",),  # columns of the last dimension to mean 0 and deviation 1
    "gru": (),  # of x (t, n) by weights (3 h, n), (3 h, h), bias (3 h), gates r, z, n: (t, h)
    "softmax": (),  # along the last dimension
    "less": (),  # 1 where the first is below the second, else 0
}


class Program:
    """Operations in their order, the constants they use, and the shape of everything.

    Parameters
    ----------
    inputs : dict
        Name -> shape without the batch.
    batch : int
        Rows of evaluation's batch on a device.

    Attributes
    ----------
    inputs, shapes : dict of str to tuple of int
    batch : int
    whole_batches : bool
        Whether it can only be asked for as many rows as evaluation's batch has: something in it
        picks rows by their place.
    rows : dict of str to int
        Of what has several rows a sample: how many, which is the first of its shape.
    constants : dict of str to array
    steps : list of Step
    """

    def __init__(self, inputs: dict[str, Shape], batch: int = 1) -> None:
        self.inputs = dict(inputs)
        self.batch = batch
        self.whole_batches = False
        self.shapes: dict[str, Shape] = dict(inputs)
        self.rows: dict[str, int] = {}
        self.constants: dict[str, Array] = {}
        self.steps: list[Step] = []

    def constant(self, name: str, values: Any) -> str:
        """A constant of float32."""
        assert name not in self.constants
        self.constants[name] = np.ascontiguousarray(values, np.float32)
        return name

    def emit(self, op: str, output: str, shape: Shape, *inputs: str, **attributes: Any) -> str:
        """Another operation; ``shape`` is that of its output without the batch."""
        assert set(attributes) == set(OPERATIONS[op])
        assert output not in self.shapes, output
        self.shapes[output] = shape
        self.steps.append(Step(op, inputs, output, attributes))
        return output
