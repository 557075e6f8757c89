# SPDX-License-Identifier: Apache-2.0
"""Files that a script in the original's way reads, and the same training in float64.

Nothing here is the product's: samples, first weights and rows are written as bytes in the
original's layouts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from oracle.autodiff import Array, Var, concat
from oracle.optimizers import STATES, optimizer_step

BATCH, STEPS, DENSE, WIDE = 32, 40, 4, 6
#: Of each sparse input: slots, most keys a slot, keys of a slot, combiner of its table.
INPUTS = {"bags": (3, 3, 15, "sum"), "ids": (2, 2, 20, "mean")}
#: Update rules that move rows without a gradient under Global.
MOVES = ("Adam", "MomentumSGD", "Nesterov")

#: Takes the next dense weight of a shape, in the order of the file.
Take = Callable[..., Var]
#: Logits (b, 1), a loss each, of tables (b * slots, d) and dense features.
Net = Callable[[Take, dict[str, Var], Var], list[Var]]


@dataclass(frozen=True)
class Script:
    """What differs between scripts.

    Parameters
    ----------
    net : Net
    weights : int
        How many numbers the dense network has.
    optimizer : str
    update : str
        Local or Global.
    settings : dict
        Of the optimizer.
    task_weights : sequence of float
        One a loss.
    regularizer : (str, float)
        Of the first loss: L1 or L2, and its lambda.
    """

    net: Net
    weights: int
    optimizer: str = "SGD"
    update: str = "Local"
    settings: tuple[tuple[str, float], ...] = ()
    task_weights: Sequence[float] = (1.0,)
    regularizer: tuple[str, float] = ("L1", 0.0)


class Files:
    """A Norm file, a dense model and a sparse model a table, in a folder."""

    def __init__(self, folder: Path, rng: np.random.Generator, script: Script) -> None:
        self.folder, self.samples = folder, BATCH * STEPS
        tasks = len(script.task_weights)
        self.label = (rng.random((self.samples, tasks)) < 0.4).astype("<f4")
        self.dense = rng.standard_normal((self.samples, DENSE)).astype("<f4")
        self.keys = {
            name: [
                [slot * size + rng.integers(0, size, rng.integers(0, most + 1))
                 for slot in range(slots)]
                for _ in range(self.samples)
            ]
            for name, (slots, most, size, _) in INPUTS.items()
        }  # fmt: skip
        self._write_samples()
        self.weights = (rng.standard_normal(script.weights) * 0.3).astype("<f4")
        self.weights.tofile(folder / "first.model")
        self.rows: dict[str, npt.NDArray[np.float32]] = {}
        for name, (slots, _, size, _) in INPUTS.items():
            rows = (rng.standard_normal((slots * size, WIDE)) * 0.3).astype("<f4")
            place = folder / f"{name}.model"
            place.mkdir()
            np.arange(slots * size, dtype="<i8").tofile(place / "key")
            (np.arange(slots * size, dtype="<u8") // size).tofile(place / "slot_id")
            rows.tofile(place / "emb_vector")
            self.rows[name] = rows

    def _write_samples(self) -> None:
        slots = sum(each[0] for each in INPUTS.values())
        head = [1, self.samples, self.label.shape[1], DENSE, slots, 0, 0, 0]
        records = [np.array(head, "<i8").tobytes()]
        for i in range(self.samples):
            parts = [self.label[i].tobytes(), self.dense[i].tobytes()]
            for name in INPUTS:
                for keys in self.keys[name][i]:
                    parts += [np.int32(len(keys)).tobytes(), keys.astype("<u4").tobytes()]
            records.append(b"".join(parts))
        with (self.folder / "samples.data").open("wb") as file:
            for record in records:
                size = np.int32(len(record)).tobytes()
                file.write(size + record + bytes([sum(record) % 256]))
        (self.folder / "list.txt").write_text(f"1\n{self.folder / 'samples.data'}\n")

    def pooling(self, name: str, begin: int) -> Array:
        """What the keys of a batch take of the rows, (b * slots, rows)."""
        slots, _, size, combiner = INPUTS[name]
        taken = np.zeros((BATCH * slots, slots * size))
        for i in range(BATCH):
            for slot, keys in enumerate(self.keys[name][begin + i]):
                share = 1 / len(keys) if combiner == "mean" and len(keys) else 1.0
                np.add.at(taken[i * slots + slot], keys, share)
        return taken


class Float64:
    """The training of a script, of the same files.

    Attributes
    ----------
    weights, states : array, list of arrays
        Of the dense network, flat.
    rows : dict of array
    """

    def __init__(self, files: Files, script: Script) -> None:
        self._files, self._script, self._step = files, script, 0
        self.weights = files.weights.astype(np.float64)
        self.rows = {name: rows.astype(np.float64) for name, rows in files.rows.items()}
        kinds = range(STATES[script.optimizer])
        self.states = [np.zeros_like(self.weights) for _ in kinds]
        self._row_states = {n: [np.zeros_like(r) for _ in kinds] for n, r in self.rows.items()}

    def predictions(self, begin: int) -> Array:
        """Probabilities of a batch, (b, tasks)."""
        logits = self._forward(begin)[0].value
        return np.asarray(1 / (1 + np.exp(-logits)))

    def _forward(self, begin: int) -> tuple[Var, list[Var], dict[str, Var]]:
        taken: list[Var] = []
        place = 0

        def take(*shape: int) -> Var:
            nonlocal place
            size = int(np.prod(shape))
            taken.append(Var(self.weights[place : place + size].reshape(shape)))
            place += size
            return taken[-1]

        rows = {name: Var(value) for name, value in self.rows.items()}
        tables = {name: Var(self._files.pooling(name, begin)) @ row for name, row in rows.items()}
        dense = Var(self._files.dense[begin : begin + BATCH])
        logits = self._script.net(take, tables, dense)
        if place != len(self.weights):
            raise ValueError(f"the net has {place} dense weights, the files {len(self.weights)}")
        return concat(*logits), taken, rows

    def train(self, lr: float) -> float:
        """A step; the loss before it."""
        begin, script = self._step * BATCH, self._script
        self._step += 1
        y = self._files.label[begin : begin + BATCH].astype(np.float64)
        logits, taken, rows = self._forward(begin)
        x, share = logits.value, np.asarray(script.task_weights)
        each = np.maximum(x, 0) - x * y + np.log1p(np.exp(-np.abs(x)))
        logits.backward(share * (1 / (1 + np.exp(-x)) - y) / BATCH)
        gradient = np.concatenate([weight.grad.reshape(-1) for weight in taken])
        kind, part = script.regularizer[0], script.regularizer[1] / BATCH
        gradient += part * (np.sign(self.weights) if kind == "L1" else self.weights)
        penalty = np.abs(self.weights) if kind == "L1" else self.weights**2 / 2
        loss = float((share * each.mean(0)).sum() + part * penalty.sum())
        self.weights, self.states = self._update(self.weights, gradient, self.states, lr)
        for name, row in rows.items():
            self._update_rows(name, row.grad, self._files.pooling(name, begin).any(0), lr)
        return loss

    def _update_rows(self, name: str, gradient: Array, touched: Any, lr: float) -> None:
        if self._script.update == "Global" and self._script.optimizer in MOVES:
            touched = np.ones_like(touched)
        states = self._row_states[name]
        at = [state[touched] for state in states]
        self.rows[name][touched], new = self._update(
            self.rows[name][touched], gradient[touched], at, lr
        )
        for state, value in zip(states, new, strict=True):
            state[touched] = value

    def _update(
        self, w: Array, g: Array, states: list[Array], lr: float
    ) -> tuple[Array, list[Array]]:
        script = self._script
        return optimizer_step(
            script.optimizer, w, g, states, lr, self._step, **dict(script.settings)
        )
