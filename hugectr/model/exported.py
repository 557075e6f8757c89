# SPDX-License-Identifier: Apache-2.0
"""Predictions and labels of evaluation batches, as text files."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from hugectr.base.errors import InvalidArgument
from hugectr.base.places import file_place
from hugectr.model.graph import Graph
from hugectr.processes.agreement import from_root, together
from hugectr.processes.group import ProcessGroup
from hugectr.spec.enums import DeviceLayout, Layer_t

Floats = npt.NDArray[np.float32]


def _sigmoid(values: Floats) -> Floats:
    wide = values.astype(np.float64)
    # Of the two forms the one whose exponential does not overflow.
    small = np.exp(-np.abs(wide))
    return np.where(wide >= 0, 1.0 / (1.0 + small), small / (1.0 + small)).astype(np.float32)


def _second_of_two(values: Floats) -> Floats:
    """Probability of class 1 where there is a logit for each of two classes."""
    logits = values.reshape(-1, 2)
    return _sigmoid(logits[:, 1] - logits[:, 0])


#: From a loss's input to what the model predicts; losses that are not here take predictions as they
#: are.
_PREDICTION_OF: dict[Layer_t, Callable[[Floats], Floats]] = {
    Layer_t.BinaryCrossEntropyLoss: _sigmoid,
    Layer_t.CrossEntropyLoss: _second_of_two,
    Layer_t.MultiCrossEntropyLoss: _sigmoid,
}


class LastEvaluationBatch:
    """The batch that ``eval`` evaluated last.

    Parameters
    ----------
    graph : Graph
        Compiled.
    group : ProcessGroup
        The processes of the job; each has the samples of its devices.
    """

    def __init__(self, graph: Graph, group: ProcessGroup) -> None:
        self._graph, self._group = graph, group
        self._samples = graph.session.reader.eval_samples()
        if self._samples == 0:
            raise InvalidArgument("export_predictions: no batch was evaluated: call eval() before")

    def predictions(self) -> Floats:
        """What the model predicts for its samples: a value, or several, a sample, in their order.

        Of the first loss, where there are several.
        """
        loss = next(layer for layer in self._graph.dense_layers if layer.is_loss)
        values = self._rows(loss.bottom_names[0])
        of_loss = _PREDICTION_OF.get(loss.layer_type)
        return values if of_loss is None else of_loss(values)

    def labels(self) -> Floats:
        """Labels of its samples, likewise."""
        loss = next(layer for layer in self._graph.dense_layers if layer.is_loss)
        return self._rows(loss.bottom_names[1])

    def _rows(self, name: str) -> Floats:
        """A tensor of the evaluation, without the rows that fill the batch up."""
        part = self._graph.session.network.check_out_tensor(name, train=False)
        solver = self._graph.solver
        whole = part.reshape(-1)
        if self._group.size > 1:
            by_process = together(self._group, lambda: part.reshape(-1).copy())
            if solver.device_layout is DeviceLayout.NodeFirst:
                of_devices = [
                    one.reshape(len(ids), -1)
                    for one, ids in zip(by_process, solver.vvgpu, strict=True)
                ]
                by_process = [device for row in zip(*of_devices, strict=True) for device in row]
            whole = np.concatenate(by_process)
        width = whole.size // solver.batchsize_eval
        return whole[: self._samples * width]


def append_values(group: ProcessGroup, path: str | os.PathLike[str], values: Floats) -> None:
    """Append numbers to a text file, a line each; process 0 writes."""

    def write() -> None:
        with file_place("export_predictions", path).open("a", encoding="utf-8") as file:
            file.writelines(f"{value:.9g}\n" for value in values.reshape(-1).tolist())

    from_root(group, write)
