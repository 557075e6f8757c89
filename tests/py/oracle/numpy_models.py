# SPDX-License-Identifier: Apache-2.0
"""DeepFM, DCN and DLRM in float64: forward, backward and update, from given first weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from oracle.autodiff import Array, Var, concat
from oracle.optimizers import STATES, optimizer_step

#: Reads the next parameter of a shape from the flat dense weights, in file order.
Take = Callable[..., Var]
Net = Callable[[Take, list[Var], Var], Var]


def linear(take: Take, x: Var, out: int) -> Var:
    """InnerProduct."""
    return x @ take(x.value.shape[1], out) + take(out)


def deepfm(take: Take, tables: list[Var], dense: Var) -> Var:
    """Tables (b, S, d) and (b, S, 1)."""
    b, slots, d = tables[0].value.shape
    total = tables[0].sum(1).reshape(b, d)
    squares = (tables[0] * tables[0]).sum(1).reshape(b, d)
    second = Var(0.5) * (total * total + Var(-1.0) * squares).sum(1)
    first = tables[1].reshape(b, slots).sum(1)
    deep = linear(take, concat(tables[0].reshape(b, slots * d), dense), 32).relu()
    return linear(take, deep, 1) + second + first


def dcn(take: Take, tables: list[Var], dense: Var) -> Var:
    """One table (b, S, d); two cross layers beside one deep layer."""
    b, slots, d = tables[0].value.shape
    x0 = concat(tables[0].reshape(b, slots * d), dense)
    n = x0.value.shape[1]
    cross = x0
    for _ in range(2):
        w, bias = take(n, 1), take(n)
        cross = x0 * (cross @ w) + cross + bias
    deep = linear(take, x0, 32).relu()
    return linear(take, concat(cross, deep), 1)


def dlrm(take: Take, tables: list[Var], dense: Var) -> Var:
    """One table (b, S, d); the bottom net ends in d."""
    b, slots, d = tables[0].value.shape
    bottom = linear(take, linear(take, dense, 16).relu(), d).relu()
    rows = concat(bottom, tables[0].reshape(b, slots * d)).reshape(b, slots + 1, d)
    pairs = concat(bottom, rows.gram_below_diagonal(), Var(np.zeros((b, 1))))
    return linear(take, linear(take, pairs, 32).relu(), 1)


NETS: dict[str, Net] = {"deepfm": deepfm, "dcn": dcn, "dlrm": dlrm}


@dataclass
class Rows:
    """A table: sorted keys (n,), vectors (n, d), and the optimizer's states."""

    keys: npt.NDArray[np.int64]
    vectors: Array
    states: list[Array]


class Trainer:
    """A net in training.

    Parameters
    ----------
    net : str
        Name in ``NETS``.
    dense : array
        First dense weights, flat, in file order.
    tables : list of (keys, vectors)
        First rows of all keys the data has.
    optimizer : str
    lr : float
    """

    def __init__(
        self,
        net: str,
        dense: npt.NDArray[np.float32],
        tables: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]],
        optimizer: str,
        lr: float,
    ) -> None:
        self.net = NETS[net]
        self.dense = dense.astype(np.float64)
        self.dense_states = [np.zeros_like(self.dense) for _ in range(STATES[optimizer])]
        self.tables = []
        for keys, vectors in tables:
            order = np.argsort(keys)
            rows = vectors[order].astype(np.float64)
            states = [np.zeros_like(rows) for _ in range(STATES[optimizer])]
            self.tables.append(Rows(keys[order], rows, states))
        self.optimizer = optimizer
        self.lr = lr
        self.step = 0

    def _forward(
        self, keys: npt.NDArray[np.int64], dense: Array
    ) -> tuple[Var, list[Var], list[Var], list[npt.NDArray[np.int64]]]:
        taken: list[Var] = []
        place = 0

        def take(*shape: int) -> Var:
            nonlocal place
            size = int(np.prod(shape))
            taken.append(Var(self.dense[place : place + size].reshape(shape)))
            place += size
            return taken[-1]

        index = [np.searchsorted(table.keys, keys) for table in self.tables]
        looked_up = [Var(t.vectors[i]) for t, i in zip(self.tables, index, strict=True)]
        logit = self.net(take, looked_up, Var(dense))
        if place != self.dense.size:
            raise ValueError(f"the net has {place} dense weights, the model {self.dense.size}")
        return logit, taken, looked_up, index

    def predict(self, keys: npt.NDArray[np.int64], dense: npt.ArrayLike) -> Array:
        """Logits, (n,)."""
        return self._forward(keys, np.asarray(dense, np.float64))[0].value[:, 0]

    def train(
        self, label: npt.ArrayLike, dense: npt.ArrayLike, keys: npt.NDArray[np.int64]
    ) -> float:
        """One step; the loss before it. Keys (b, S), one a slot."""
        y = np.asarray(label, np.float64).reshape(-1, 1)
        logit, taken, looked_up, index = self._forward(keys, np.asarray(dense, np.float64))
        x = logit.value
        loss = float((np.maximum(x, 0) - x * y + np.log1p(np.exp(-np.abs(x)))).mean())
        logit.backward((1 / (1 + np.exp(-x)) - y) / len(y))
        self.step += 1
        gradient = np.concatenate([var.grad.reshape(-1) for var in taken])
        self.dense, self.dense_states = optimizer_step(
            self.optimizer, self.dense, gradient, self.dense_states, self.lr, self.step
        )
        for table, var, i in zip(self.tables, looked_up, index, strict=True):
            touched, inverse = np.unique(i.reshape(-1), return_inverse=True)
            g = np.zeros((len(touched), table.vectors.shape[1]))
            np.add.at(g, inverse, var.grad.reshape(-1, g.shape[1]))
            table.vectors[touched], states = optimizer_step(
                self.optimizer,
                table.vectors[touched],
                g,
                [state[touched] for state in table.states],
                self.lr,
                self.step,
            )
            for state, new in zip(table.states, states, strict=True):
                state[touched] = new
        return loss
