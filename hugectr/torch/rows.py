# SPDX-License-Identifier: Apache-2.0
"""Rows of a collection's table, in and out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch

from hugectr import _core
from hugectr.base.errors import InvalidArgument
from hugectr.base.row_keys import check_row_keys
from hugectr.processes.agreement import jointly, together
from hugectr.torch.as_before import or_as_before
from hugectr.torch.configs import TableConfig
from hugectr.torch.engine import Engine
from hugectr.torch.given_alike import check_given_alike
from hugectr.torch.state_rows import checked_rows, checked_vectors

if TYPE_CHECKING:
    from hugectr._core_collection import CollectionTable, TableParams

T = TypeVar("T")


class Rows:
    """The trained rows of a table. Made by ``collection.rows(name)``.

    Who writes or erases rows ends what is under way in the whole collection: gradients that wait
    for a step are forgotten, and a backward of vectors from before is refused.

    Of several processes all make each call. What is read is of all processes, in the memory of
    each; what is written and erased all give alike, and each does what concerns its own rows.
    """

    def __init__(self, engine: Engine, index: int, config: TableConfig) -> None:
        self._engine = engine
        self._index = index
        self._config = config

    @property
    def _table(self) -> CollectionTable:
        return self._engine.core.tables()[self._index]  # after what a thread does with it

    def __len__(self) -> int:
        return self._sum("the number of rows", lambda: int(self._table.stats()["rows"]))

    def _sum(self, name: str, work: Callable[[], int]) -> int:
        """Over the processes, of rows that each has its own of."""
        every = self._of_all(name, work)
        return every[0] if self._engine.everywhere(self._index) else sum(every)

    def _of_all(self, name: str, work: Callable[[], T]) -> list[T]:
        """Results of all processes."""
        self._engine.release_ended()  # what only batches that are over have brought is gone
        with self._engine.call(f"{name} of {self._config.name!r}"):
            return together(self._engine.group, work)

    def _each(self, name: str, work: Callable[[], T]) -> T:
        """The result of this process, if all have one."""
        self._engine.release_ended()
        with self._engine.call(f"{name} of {self._config.name!r}"):
            return jointly(self._engine.group, work)

    def _alike(self, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Rows that somebody gives, if all processes have been given the same."""
        found = self._each(name, work)
        with self._engine.call(f"{name} of {self._config.name!r}"):
            what = f"{name} of rows of {self._config.name!r}"
            check_given_alike(self._engine.group, what, found)
        return found

    def _dump(self, with_states: bool) -> dict[str, Any]:
        name = "the rows with states" if with_states else "the rows"
        if self._engine.everywhere(self._index):
            return self._each(name, lambda: dict(self._table.dump(with_states=with_states)))
        parts = self._of_all(name, lambda: dict(self._table.dump(with_states=with_states)))
        if len(parts) == 1:
            return parts[0]
        order = np.argsort(np.concatenate([part["keys"] for part in parts]), kind="stable")

        def joined(arrays: list[Any]) -> Any:
            return np.concatenate(arrays)[order]

        stamped = parts[0]["last_step"] is not None
        return {
            "keys": joined([part["keys"] for part in parts]),
            "vectors": joined([part["vectors"] for part in parts]),
            "states": [joined(list(s)) for s in zip(*(p["states"] for p in parts), strict=True)],
            "last_step": joined([part["last_step"] for part in parts]) if stamped else None,
        }

    def read(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys (n,), ascending, and vectors (n, d) float32 of all rows, on the host."""
        rows = self._dump(False)
        return torch.from_numpy(rows["keys"]), torch.from_numpy(rows["vectors"])

    def lookup(self, keys: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Vectors (n, d) float32 of keys (n), zeros for those without a row, and which have one.

        Processes may ask for unlike keys.
        """
        if self._engine.group.size == 1:
            vectors, there = self._table.lookup(_keys("lookup", keys))
        else:
            every = self._of_all("a lookup of rows", lambda: _keys("lookup", keys))
            asked = every[self._engine.group.rank]
            found = self._of_all("a lookup of rows", lambda: self._table.lookup(_joined(every)))
            begin = sum(len(each) for each in every[: self._engine.group.rank])
            own = slice(begin, begin + len(asked))
            owners = self._engine.owners(self._index, asked)
            vectors = np.stack([part[own] for part, _ in found])[owners, np.arange(len(asked))]
            there = np.stack([part[own] for _, part in found])[owners, np.arange(len(asked))]
        return torch.from_numpy(vectors), torch.from_numpy(there)

    def write(self, keys: Any, vectors: Any) -> None:
        """Add or overwrite rows: keys (n), each once, vectors (n, d); states begin anew.

        Raises
        ------
        InvalidArgument
            When shapes do not fit, a key stands twice, vectors are no finite float32, or processes
            are given unlike rows. Nothing is changed then, and what is under way goes on.
        """
        rows = self._alike(
            "a write", lambda: checked_vectors(_keys("write", keys), vectors, self._config)
        )

        def write() -> None:
            self._engine.end_batches()
            # Rows that are there keep what the core is not given.
            some = self._table.stats()["rows"] > 0
            self._load(rows | self._untrained(len(rows["keys"])) if some else rows)

        self._each("a write", write)

    def _untrained(self, count: int) -> dict[str, Any]:
        """States and last steps of so many rows that nothing has trained."""
        kept = self._engine.untrained
        if self._index not in kept:
            kept[self._index] = untrained_row(self._engine.specs[self._index])
        found = kept[self._index]
        last_step = found["last_step"]
        return {
            "states": [np.broadcast_to(each, (count, *each.shape[1:])) for each in found["states"]],
            "last_step": None if last_step is None else np.broadcast_to(last_step, count),
        }

    def erase(self, keys: Any) -> int:
        """Forget the rows of keys (n); returns how many there were."""
        named = self._alike("an erasure", lambda: {"keys": _keys("erase", keys)})["keys"]

        def erase() -> int:
            self._engine.end_batches()
            return int(self._table.erase(named))

        return self._sum("an erasure", erase)

    def state(self) -> dict[str, Any]:
        """All rows with their states, as ``set_state`` takes them."""
        rows = self._dump(True)
        state: dict[str, Any] = {
            "keys": torch.from_numpy(rows["keys"]),
            "vectors": torch.from_numpy(rows["vectors"]),
            "states": [torch.from_numpy(each) for each in rows["states"]],
        }
        if rows["last_step"] is not None:
            state["last_step"] = torch.from_numpy(rows["last_step"])
        return state

    def set_state(self, state: dict[str, Any], *, states: bool = True) -> None:
        """Replace all rows; without ``states`` their optimizer states begin anew.

        Raises
        ------
        InvalidArgument
            When it is not what ``state`` of such a table returns, or not of finite numbers.
        OutOfMemory
            When there is no room for the rows. Of either the table is as it was, unless its rows
            were more than could be copied (``hugectr.torch.as_before``).
        """
        self._set_state(state, states=states, finite=True)

    def move_in(self, state: dict[str, Any]) -> None:
        """Replace all rows by those of the same table elsewhere, whatever their numbers are."""
        self._set_state(state, states=True, finite=False)

    def _set_state(self, state: dict[str, Any], *, states: bool, finite: bool) -> None:
        self._engine.release_ended()

        def check() -> dict[str, Any]:
            parts = self._table.parts()
            return checked_rows(state, self._config, parts, states=states, finite=finite)

        name = f"a replacement of all rows of {self._config.name!r}"
        with self._engine.call(name):
            rows = jointly(self._engine.group, check)
            check_given_alike(self._engine.group, name, rows)
        with self._engine.call(name), or_as_before(self._engine, [self._index]):
            self.replace(rows)

    def replace(self, rows: dict[str, Any]) -> None:
        """Replace all rows by those of ``checked_rows``, in a call of the engine's.

        Who calls gives rows back where that fails.
        """

        def replace() -> None:
            self._engine.end_batches()
            self._table.reset()
            self._load(rows)

        jointly(self._engine.group, replace)

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
        own = self._engine.owners(self._index, keys) == self._engine.group.rank
        self._table.load(
            {
                "keys": keys[own],
                "slot_ids": None,
                "vectors": vectors[own],
                "states": [each[own] for each in rows.get("states", ())],
                "last_step": None if last_step is None else last_step[own],
            }
        )


def untrained_row(spec: TableParams) -> _core.BufferBag:
    """A row as a table begins it, with its states."""
    of_device = {name: value for name, value in spec.items() if not name.startswith("memory_")}
    table = _core.TableCollection([of_device], "cpu", 0, 1).tables()[0]  # type: ignore[list-item]
    vectors = np.zeros((1, spec["embedding_vec_size"]), np.float32)
    table.load(
        {
            "keys": np.zeros(1, np.int64),
            "slot_ids": None,
            "vectors": vectors,
            "states": [],
            "last_step": None,
        }
    )
    return table.dump(with_states=True)


def _joined(arrays: list[Any]) -> Any:
    return np.concatenate(arrays)


def _keys(call: str, keys: Any) -> Any:
    """Keys of rows on the host."""
    on_host = keys.detach().cpu().numpy() if isinstance(keys, torch.Tensor) else keys
    return check_row_keys(f"rows.{call}: keys", on_host)


def _host(values: Any, dtype: Any) -> Any:
    """A packed NumPy array of anything, tensors of a GPU included."""
    if isinstance(values, torch.Tensor):
        if values.is_floating_point():
            values = values.to(torch.float32)  # NumPy has not all of torch's
        values = values.detach().cpu().numpy()
    return np.ascontiguousarray(values, dtype)
