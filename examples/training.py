# SPDX-License-Identifier: Apache-2.0
"""What the examples on arrays share: settings, towers, training and its end."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from arguments import ARGUMENTS
from generated import Arrays, auc, held_out

import hugectr
from hugectr import DenseLayer, Layer_t
from hugectr.data import from_arrays

BATCH = 1024


class Example(hugectr.Model):
    """A model with the settings of the examples; Adam, batches of 1,024.

    Parameters
    ----------
    arrays : dict
        Of ``generated`` or ``real``: the last fifth, 16,384 samples at most, is evaluated, the
        others train.
    sparse : dict
        The sparse inputs: keys (n, slots), or keys and row offsets.
    lr : float

    Attributes
    ----------
    held : int
        How many samples, the last ones, are evaluated.
    evaluated
        They, as ``predict`` takes them.
    """

    def __init__(self, arrays: Arrays, sparse: dict[str, Any], lr: float) -> None:
        samples = len(arrays["label"])
        self.held = held_out(samples)
        parts = slice(0, samples - self.held), slice(samples - self.held, samples)
        train, self.evaluated = (_part(arrays, sparse, part) for part in parts)
        self._label, self._signal = (
            arrays[name][parts[1]] if name in arrays else None for name in ("label", "signal")
        )
        batches = max(1, self.held // BATCH)
        solver = hugectr.CreateSolver(
            batchsize=BATCH,
            batchsize_eval=BATCH,
            max_eval_batches=batches,
            lr=lr,
            seed=ARGUMENTS.seed,
        )
        norm = hugectr.DataReaderType_t.Norm
        reader = hugectr.DataReaderParams(norm, train, None, self.evaluated, hugectr.Check_t.Sum)
        adam = hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local)
        super().__init__(solver, reader, adam)

    def layer(self, kind: str, bottoms: list[str], top: str, **parameters: Any) -> str:
        """Add a layer of one top; its name."""
        self.add(DenseLayer(Layer_t[kind], bottoms, [top], **parameters))
        return top

    def table(self, name: str, bottom: str, dim: int, combiner: str = "sum") -> str:
        """Add a table by key; the name of its vectors."""
        kind = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
        megabytes = 16 if ARGUMENTS.data is None else 1024
        self.add(hugectr.SparseEmbedding(kind, megabytes, dim, combiner, name, bottom))
        return name

    def tower(self, bottom: str, widths: list[int], name: str, last: int = 0) -> str:
        """InnerProduct and ReLU of each width, and an InnerProduct of ``last`` outputs."""
        for i, width in enumerate(widths):
            bottom = self.layer("InnerProduct", [bottom], f"{name}_fc{i}", num_output=width)
            bottom = self.layer("ReLU", [bottom], f"{name}_relu{i}")
        if last:
            bottom = self.layer("InnerProduct", [bottom], f"{name}_out", num_output=last)
        return bottom

    def learn(
        self,
        logits: str | dict[str, str],
        steps: int,
        loss: str = "BinaryCrossEntropyLoss",
        warmup_steps: int = 1,
        decay_start: int = 0,
    ) -> None:
        """Add the losses and train.

        Parameters
        ----------
        logits : str or dict of str to str
            The logit of ``label``; or of each label.
        steps : int
        loss : str
        warmup_steps : int
            In which the learning rate rises to its full height, linearly.
        decay_start : int
            The step after which the learning rate falls to 0, linearly; 0: it does not.
        """
        for label, logit in ({"label": logits} if isinstance(logits, str) else logits).items():
            self.layer(loss, [logit, label], f"{label}_loss")
        self.compile()
        if ARGUMENTS.summary:
            self.summary()
        decay_steps = steps - decay_start if decay_start else 1
        self.reset_learning_rate_scheduler(
            self.solver.lr, warmup_steps, decay_start, decay_steps, 1.0, 0.0
        )
        steps = ARGUMENTS.steps or steps
        self.fit(max_iter=steps, display=100, eval_interval=steps + 1, snapshot=0)

    def run(self, logits: str | dict[str, str], steps: int, **schedule: int) -> None:
        """Learn (``schedule``: see ``learn``), and print the AUC (of several labels their mean)
        beside that of the signal."""
        self.learn(logits, steps, **schedule)
        for _ in range(self.solver.max_eval_batches):
            self.eval()
        metrics = dict(self.get_eval_metrics())
        names = [name for name in metrics if name.startswith("AUC")]
        found = ", ".join(f"{name.replace('AUC_', '')} {metrics[name]:.4f}" for name in names)
        ceiling = "" if self._signal is None else f"; the signal reaches {self._ceiling():.4f}"
        print(f"evaluation {found}{ceiling}")

    def _ceiling(self) -> float:
        labels, signals = (x.reshape(len(x), -1).T for x in (self._label, self._signal))
        return float(np.mean([auc(*task) for task in zip(labels, signals, strict=True)]))


def slots_of(*grids: npt.NDArray[Any]) -> tuple[Any, Any]:
    """Keys and row offsets of a slot for each grid (n, places), without its -1."""
    grid = np.concatenate(grids, 1)
    counts = np.stack([(one >= 0).sum(1) for one in grids], 1)
    return grid[grid >= 0], np.concatenate([[0], np.cumsum(counts)])


def _part(arrays: Arrays, sparse: dict[str, Any], part: slice) -> Any:
    label = arrays["label"][part]
    dense = arrays["dense"][part] if "dense" in arrays else None
    keys = {name: _rows(value, part, len(arrays["label"])) for name, value in sparse.items()}
    return from_arrays(label=label, dense=dense, sparse=keys)


def _rows(value: Any, part: slice, samples: int) -> Any:
    if not isinstance(value, tuple):
        return value[part]
    keys, offsets = value
    slots = (len(offsets) - 1) // samples
    own = offsets[part.start * slots : part.stop * slots + 1]
    return keys[own[0] : own[-1]], own - own[0]
