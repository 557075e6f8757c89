# SPDX-License-Identifier: Apache-2.0
"""Small models that are trained to see what a machine's kernels take."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hugectr.data.arrays import MemoryDataset, from_arrays
from hugectr.model.model import Model
from hugectr.plan.dense_work import OpWork
from hugectr.plan.fitted_rates import TableTimes
from hugectr.spec.embedding import SparseEmbedding
from hugectr.spec.enums import DataReaderType_t, Embedding_t, Layer_t, Optimizer_t, Update_t
from hugectr.spec.input import DataReaderSparseParam, Input
from hugectr.spec.layers import DenseLayer
from hugectr.spec.optimizer import CreateOptimizer
from hugectr.spec.reader import DataReaderParams
from hugectr.spec.solver import CreateSolver

_BATCHES = 4
#: Ops of a plan, of reading rows, and of an update.
_PHASES = {
    "plan": ("expand_buckets", "hash_get_insert", "lookup_sort"),
    "gather": ("embedding_lookup",),
    "update": ("embedding_update",),
}


@dataclass(frozen=True)
class ProbeSize:
    """What is trained.

    Attributes
    ----------
    batch : int
        Of a device.
    rows : int
        Of a slot; keys are spread evenly over them.
    width : int
        Of the products; 0: one output behind the tables and nothing else.
    tables, slots, d : int
        Slots are those of all tables together.
    """

    batch: int
    rows: int
    width: int
    tables: int = 1
    slots: int = 8
    d: int = 128

    def times(self, by: float) -> ProbeSize:
        """With another batch."""
        return replace(self, batch=max(64, int(self.batch * by)))


class Probe:
    """A model that has been trained some steps: what each op takes, alone on the device.

    Parameters
    ----------
    device : {"cuda", "cpu"}
    devices : int
    size : ProbeSize
    precision : dict
        Of the solver.
    placement : str, optional
        Of all tables.
    steps : int
        That are timed.
    """

    def __init__(
        self, device: str, devices: int, size: ProbeSize, precision: dict[str, Any],
        placement: str | None = None, steps: int = 6,
    ) -> None:  # fmt: skip
        self.size, self.batch = size, size.batch * devices
        self._wire = 2 if precision.get("use_mixed_precision") else 4
        data = _data(size, self.batch * _BATCHES)
        solver = CreateSolver(
            batchsize=self.batch, batchsize_eval=self.batch, lr=0.01, seed=1, device=device,
            vvgpu=[list(range(devices))], i64_input_key=True, **precision,
        )  # fmt: skip
        reader = DataReaderParams(DataReaderType_t.Norm, data, resident_batches=_BATCHES)
        model = Model(solver, reader, CreateOptimizer(Optimizer_t.SGD, Update_t.Local))
        self._add_layers(model, placement)
        self.work = model.plan().work
        model.compile()
        for _ in range(_BATCHES + 2):  # every row is there
            model.train()
        model.stage_seconds()
        for _ in range(steps):
            model.train()
        model.get_current_loss()
        self.stages = {name: s / steps for name, s in model.stage_seconds().items()}
        self._seconds: dict[tuple[str, str], float] = defaultdict(float)
        for one in model.profile(steps, alone=True):
            op = str(one["op"]).removeprefix("several_")
            self._seconds[op, str(one["layer"])] += float(one["ms"]) / 1e3 / steps
        self._distinct = sum(
            len(np.unique(keys[: self.batch * (size.slots // size.tables)]))
            for keys, _ in data.sparse.values()
        )

    def _add_layers(self, model: Model, placement: str | None) -> None:
        size, add = self.size, model.add
        slots = size.slots // size.tables
        names = [f"{i}" for i in range(size.tables)]
        inputs = [DataReaderSparseParam(f"keys{i}", 1, True, slots) for i in names]
        add(Input(1, "label", 1, "dense", inputs))
        kind = Embedding_t.LocalizedSlotSparseEmbeddingHash
        for i in names:
            add(
                SparseEmbedding(
                    kind,
                    0,
                    size.d,
                    "sum",
                    f"table{i}",
                    f"keys{i}",
                    exchange="pooled",
                    placement=placement,
                )
            )
            wide = slots * size.d
            add(DenseLayer(Layer_t.Reshape, [f"table{i}"], [f"flat{i}"], leading_dim=wide))
        last = "flat0"
        if size.tables > 1:
            last = "flat"
            add(DenseLayer(Layer_t.Concat, [f"flat{i}" for i in names], [last]))
        if size.width > 0:
            last = self._add_network(model, last)
        add(DenseLayer(Layer_t.InnerProduct, [last], ["logit"], num_output=1))
        add(DenseLayer(Layer_t.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))

    def _add_network(self, model: Model, last: str) -> str:
        """Large products, one of few columns, a pass, and products of small matrices."""
        size, add = self.size, model.add
        for i in range(3):
            add(DenseLayer(Layer_t.InnerProduct, [last], [f"fc{i}"], num_output=size.width))
            add(DenseLayer(Layer_t.ReLU, [f"fc{i}"], [f"relu{i}"]))
            last = f"relu{i}"
        add(DenseLayer(Layer_t.Add, ["relu1", "relu2"], ["pass"]))
        add(DenseLayer(Layer_t.InnerProduct, ["pass"], ["narrow"], num_output=32))
        add(DenseLayer(Layer_t.Reshape, ["narrow"], ["row"], leading_dim=32, time_step=1))
        add(DenseLayer(Layer_t.Reshape, ["narrow"], ["column"], leading_dim=1, time_step=32))
        add(DenseLayer(Layer_t.MatrixMultiply, ["column", "row"], ["small"]))
        add(DenseLayer(Layer_t.Reshape, ["small"], ["squares"], leading_dim=1024))
        return "squares"

    def seconds(self, op: str, layer: str | None = None) -> float:
        """Of a step in ops of this name, of one layer or of all."""
        found = sum(
            s for (name, of), s in self._seconds.items() if name == op and layer in (None, of)
        )
        return max(found, 1e-7)

    def of(self, op: str, layer: str | None = None) -> list[OpWork]:
        """Work of these ops."""
        return [one for one in self.work if one.op == op and layer in (None, one.layer)]

    def tables(self) -> TableTimes:
        """What its tables took."""
        size = self.size
        took = {
            phase: max(1e-7, sum(self.seconds(op) for op in ops if self._has(op)))
            for phase, ops in _PHASES.items()
        }
        share = self._distinct / (self.batch * size.slots)
        return TableTimes(
            size.tables, size.d, self.batch, size.slots // size.tables, share, self._wire,
            took["plan"], took["gather"], took["update"],
        )  # fmt: skip

    def _has(self, op: str) -> bool:
        return any(name == op for name, _ in self._seconds)


def _data(size: ProbeSize, samples: int) -> MemoryDataset:
    rng = np.random.default_rng(7)
    slots = size.slots // size.tables
    sparse = {}
    for i in range(size.tables):
        keys = rng.integers(0, size.rows, (samples, slots)) + size.rows * np.arange(slots)
        sparse[f"keys{i}"] = (keys.ravel(), np.arange(keys.size + 1, dtype=np.uint64))
    return from_arrays(
        (rng.random((samples, 1)) < 0.5).astype(np.float32),
        rng.random((samples, 1), np.float32),
        sparse,
    )
