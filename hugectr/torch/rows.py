# SPDX-License-Identifier: Apache-2.0
"""Rows of a collection's table, in and out."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from hugectr.base.errors import InvalidArgument
from hugectr.torch.configs import TableConfig
from hugectr.torch.engine import Engine


class Rows:
    """The trained rows of a table. Made by ``collection.rows(name)``.

    Who writes or erases rows ends what is under way in the whole collection: gradients that wait
    for a step are forgotten, and a backward of vectors from before is refused.
    """

    def __init__(self, engine: Engine, index: int, config: TableConfig) -> None:
        self._engine = engine
        self._table = engine.core.tables()[index]
        self._config = config

    def __len__(self) -> int:
        return int(self._table.stats()["rows"])

    def read(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys (n,), ascending, and vectors (n, d) float32 of all rows, on the host."""
        rows = self._table.dump()
        return torch.from_numpy(rows["keys"]), torch.from_numpy(rows["vectors"])

    def lookup(self, keys: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Vectors (n, d) float32 of keys (n), zeros for those without a row, and which have one."""
        vectors, there = self._table.lookup(_host(keys, np.int64).reshape(-1))
        return torch.from_numpy(vectors), torch.from_numpy(there)

    def write(self, keys: Any, vectors: Any) -> None:
        """Add or overwrite rows: keys (n), each once, vectors (n, d); states begin anew.

        Raises
        ------
        InvalidArgument
            When shapes do not fit.
        """
        self._load({"keys": keys, "vectors": vectors})

    def erase(self, keys: Any) -> int:
        """Forget the rows of keys (n); returns how many there were."""
        self._engine.end_batches()
        return int(self._table.erase(_host(keys, np.int64).reshape(-1)))

    def state(self) -> dict[str, Any]:
        """All rows with their states, as ``set_state`` takes them."""
        rows = self._table.dump(with_states=True)
        state: dict[str, Any] = {
            "keys": torch.from_numpy(rows["keys"]),
            "vectors": torch.from_numpy(rows["vectors"]),
            "states": [torch.from_numpy(each) for each in rows["states"]],
        }
        if rows["last_step"] is not None:
            state["last_step"] = torch.from_numpy(rows["last_step"])
        return state

    def set_state(self, state: dict[str, Any], *, states: bool = True) -> None:
        """Replace all rows; without ``states`` their optimizer states begin anew."""
        dim = self._config.embedding_dim
        if state["vectors"].shape[1:] != (dim,):
            raise InvalidArgument(
                f"table {self._config.name!r}: vectors have {state['vectors'].shape[1]} numbers, "
                f"its embedding_dim is {dim}"
            )
        self._engine.end_batches()
        self._table.reset()
        self._load(state if states else {name: state[name] for name in ("keys", "vectors")})

    def _load(self, rows: dict[str, Any]) -> None:
        self._engine.end_batches()
        keys = _host(rows["keys"], np.int64).reshape(-1)
        vectors = _host(rows["vectors"], np.float32)
        if vectors.shape != (len(keys), self._config.embedding_dim):
            raise InvalidArgument(
                f"table {self._config.name!r}: vectors have shape {vectors.shape}, must be "
                f"({len(keys)}, {self._config.embedding_dim})"
            )
        last_step = rows.get("last_step")
        self._table.load(
            {
                "keys": keys,
                "slot_ids": None,
                "vectors": vectors,
                "states": [_host(each, np.float32) for each in rows.get("states", ())],
                "last_step": None if last_step is None else _host(last_step, np.int64),
            }
        )


def _host(values: Any, dtype: Any) -> Any:
    """A packed NumPy array of anything, tensors of a GPU included."""
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().numpy()
    return np.ascontiguousarray(values, dtype)
