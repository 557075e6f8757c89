# SPDX-License-Identifier: Apache-2.0
"""What the examples on generated arrays share: settings, towers, training and its end.

``--data TRAIN EVAL`` trains on file lists in the Norm format instead, ``--steps N`` longer or
shorter, ``--summary`` prints the layers.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from generated import Arrays, auc

import hugectr
from hugectr import DenseLayer, Layer_t
from hugectr.data import from_arrays

TRAIN, BATCH = 65536, 1024
_parser = argparse.ArgumentParser()
_parser.add_argument("--data", nargs=2, metavar=("TRAIN", "EVAL"), help="Norm file lists")
_parser.add_argument("--steps", type=int, default=0)
_parser.add_argument("--summary", action="store_true")
ARGUMENTS = _parser.parse_args()


class Example(hugectr.Model):
    """A model with the settings of the examples; Adam, batches of 1,024.

    Parameters
    ----------
    arrays : dict
        Of ``generated``: the first 65,536 samples train, the others are evaluated.
    sparse : dict
        The sparse inputs: keys (n, slots), or keys and row offsets.
    lr : float
    """

    def __init__(self, arrays: Arrays, sparse: dict[str, Any], lr: float) -> None:
        samples, self._signal = len(arrays["label"]), arrays["signal"][TRAIN:]
        self._label = arrays["label"][TRAIN:]
        if ARGUMENTS.data:
            sources = ARGUMENTS.data
        else:
            parts = slice(0, TRAIN), slice(TRAIN, samples)
            sources = [_part(arrays, sparse, part) for part in parts]
        batches = (samples - TRAIN) // BATCH
        solver = hugectr.CreateSolver(
            batchsize=BATCH, batchsize_eval=BATCH, max_eval_batches=batches, lr=lr, seed=1
        )
        reader = hugectr.DataReaderParams(
            hugectr.DataReaderType_t.Norm, sources[0], None, sources[1], hugectr.Check_t.Sum
        )
        adam = hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.LazyGlobal)
        super().__init__(solver, reader, adam)

    def layer(self, kind: str, bottoms: list[str], top: str, **parameters: Any) -> str:
        """Add a layer of one top; its name."""
        self.add(DenseLayer(Layer_t[kind], bottoms, [top], **parameters))
        return top

    def table(self, name: str, bottom: str, dim: int, combiner: str = "sum") -> str:
        """Add a table by key; the name of its vectors."""
        kind = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
        self.add(hugectr.SparseEmbedding(kind, 16, dim, combiner, name, bottom))
        return name

    def tower(self, bottom: str, widths: list[int], name: str, last: int = 0) -> str:
        """InnerProduct and ReLU of each width, and an InnerProduct of ``last`` outputs."""
        for i, width in enumerate(widths):
            bottom = self.layer("InnerProduct", [bottom], f"{name}_fc{i}", num_output=width)
            bottom = self.layer("ReLU", [bottom], f"{name}_relu{i}")
        if last:
            bottom = self.layer("InnerProduct", [bottom], f"{name}_out", num_output=last)
        return bottom

    def run(self, logits: str | dict[str, str], steps: int) -> None:
        """Add the losses, train, and print the AUC beside that of the signal itself.

        Parameters
        ----------
        logits : str or dict of str to str
            The logit of ``label``; or of each label, whose AUC are averaged.
        steps : int
        """
        for label, logit in ({"label": logits} if isinstance(logits, str) else logits).items():
            self.layer("BinaryCrossEntropyLoss", [logit, label], f"{label}_loss")
        self.compile()
        if ARGUMENTS.summary:
            self.summary()
        steps = ARGUMENTS.steps or steps
        self.fit(max_iter=steps, display=100, eval_interval=steps + 1, snapshot=0)
        for _ in range(self.solver.max_eval_batches):
            self.eval()
        found = dict(self.get_eval_metrics())["AUC"]
        ceiling = "" if ARGUMENTS.data else f"; the signal reaches {self._ceiling():.4f}"
        print(f"evaluation AUC {found:.4f}{ceiling}")

    def _ceiling(self) -> float:
        labels, signals = (x.reshape(len(x), -1).T for x in (self._label, self._signal))
        return float(np.mean([auc(*task) for task in zip(labels, signals, strict=True)]))


def target_and_history(arrays: Arrays) -> tuple[Any, Any]:
    """Keys and row offsets of two slots: the target, and the history before it."""
    grid = np.concatenate([arrays["target"][:, None], arrays["history"]], 1)
    counts = np.stack([np.ones_like(arrays["length"]), arrays["length"]], 1)
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
