# SPDX-License-Identifier: Apache-2.0
"""Collections of tables as modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

from hugectr.base.errors import InvalidArgument
from hugectr.spec.enums import Optimizer_t, Update_t
from hugectr.spec.optimizer import CreateOptimizer, OptParamsPy
from hugectr.torch import operators
from hugectr.torch.configs import TableConfig, table_configs
from hugectr.torch.engine import Engine
from hugectr.torch.inputs import Jagged, jagged
from hugectr.torch.optimizer import CollectionOptimizer
from hugectr.torch.rows import Rows
from hugectr.torch.vectors import JaggedVectors, PooledVectors


class Collection(torch.nn.Module):
    """Tables that are looked up in and updated together.

    Their rows are no parameters: DDP, FSDP and other optimizers leave them alone.
    ``collection.optimizer(lr)`` updates them.

    Parameters
    ----------
    tables : sequence of TableConfig or objects of the shape of TorchRec's ``EmbeddingBagConfig``
    optimizer : OptParamsPy, optional
        What ``hugectr.CreateOptimizer`` returns; by default SGD. Fixed for the life of the tables,
        because rows carry its states.
    device : torch.device or str
        ``"cpu"`` or a CUDA device.
    dtype : torch.dtype
        Of the vectors that come out: float32, float16 or bfloat16. Rows are float32.
    seed : int
        What new rows are drawn by, with the table's place, the key and the column; 0: random.
    fused : bool
        Rows are updated inside backward, which saves memory and time. There is then no gradient
        accumulation, scaling or clipping, and no going back after an error.

    Notes
    -----
    In training (``module.training``, with gradients enabled) a key that is new gets a row, which
    others see from the step on that trains it. Lookups with ``eval()`` or ``no_grad()`` insert
    nothing and get zeros for keys without a row.
    """

    def __init__(
        self,
        tables: Sequence[Any],
        optimizer: OptParamsPy | None = None,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        seed: int = 0,
        fused: bool = False,
    ) -> None:
        super().__init__()
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            processes = torch.distributed.get_world_size()
            if processes > 1:
                raise InvalidArgument(
                    f"a collection of hugectr.torch lives in one process; this job has {processes}"
                )
        if dtype not in (torch.float32, torch.float16, torch.bfloat16):
            raise InvalidArgument(f"dtype: found {dtype}, allowed: float32, float16, bfloat16")
        self.configs = table_configs(tables)
        self.opt_params = optimizer or CreateOptimizer(Optimizer_t.SGD, Update_t.Local)
        self.fused = fused
        self.dtype = dtype
        self.device = torch.device(device)
        if self.device.type == "cuda" and self.device.index is None:
            self.device = torch.device("cuda", torch.cuda.current_device())
        spec = self.opt_params.to_spec()
        self._engine = Engine([table.to_spec(spec) for table in self.configs], self.device, seed)
        self._number = self._engine.number
        self._features = [name for table in self.configs for name in table.feature_names]
        self._counts = [len(table.feature_names) for table in self.configs]
        self._dims = [table.embedding_dim for table in self.configs]
        self._trainable = [True] * len(self.configs)
        # Neither a parameter nor a buffer: it is nothing but a place in autograd.
        self._anchor = torch.empty(0, device=self.device, requires_grad=True)
        self._optimizer: CollectionOptimizer | None = None

    # --- training -------------------------------------------------------------------------------

    def optimizer(self, lr: float) -> CollectionOptimizer:
        """The optimizer of the rows, of the kind that the collection was made with.

        Parameters
        ----------
        lr : float
            Learning rate of all tables; schedulers of torch change it.

        Returns
        -------
        CollectionOptimizer
            A ``torch.optim.Optimizer`` with a parameter group of all tables.
        """
        names = [table.name for table in self.configs]
        self._optimizer = CollectionOptimizer(self._engine, names, lr, fused=self.fused)
        return self._optimizer

    def freeze(self, *names: str) -> None:
        """Keep the rows of these tables as they are; without names, of all."""
        self._set_trainable(names, False)

    def unfreeze(self, *names: str) -> None:
        """Train these tables again; without names, all."""
        self._set_trainable(names, True)

    def _set_trainable(self, names: Sequence[str], trainable: bool) -> None:
        for name in names or [table.name for table in self.configs]:
            index = self._index(name)
            self._engine.core.set_trainable(index, trainable)
            self._trainable[index] = trainable

    def _index(self, name: str) -> int:
        for index, table in enumerate(self.configs):
            if table.name == name:
                return index
        known = ", ".join(repr(table.name) for table in self.configs)
        raise InvalidArgument(f"no table {name!r} in this collection; it has {known}")

    # --- rows -----------------------------------------------------------------------------------

    def rows(self, name: str | None = None) -> Rows:
        """The rows of a table, to be read, written and counted.

        Parameters
        ----------
        name : str, optional
            Of the table; may be left out where there is one.

        Raises
        ------
        InvalidArgument
            When there is no such table.
        """
        if name is None and len(self.configs) > 1:
            raise InvalidArgument("rows: name a table; this collection has several")
        index = 0 if name is None else self._index(name)
        return Rows(self._engine, index, self.configs[index])

    # --- lookups --------------------------------------------------------------------------------

    def _look_up(self, batch: Jagged, pooled: bool) -> list[torch.Tensor]:
        """Vectors of each table."""
        missing = [name for name in self._features if name not in batch.features]
        if missing:
            raise InvalidArgument(
                f"a batch has no feature {missing[0]!r}; it has {sorted(batch.features)}"
            )
        learns = self.training and torch.is_grad_enabled()
        learns = learns and any(self._trainable)
        _, *vectors = operators.lookup(
            self._anchor if learns else self._anchor.detach(),
            batch.values,
            batch.offsets,
            [batch.features.index(name) for name in self._features],
            self._counts,
            batch.counted() if not pooled else batch.splits,
            self._dims,
            batch.batch,
            pooled,
            learns,
            self.dtype,
            self._number,
        )
        return vectors

    def _keys_of(self, batch: Jagged) -> list[tuple[str, int, int, int]]:
        """Of each feature: its name, its table, where its keys begin in the batch, how many."""
        splits = batch.counted()
        found = []
        for index, table in enumerate(self.configs):
            for name in table.feature_names:
                place = batch.features.index(name)
                found.append((name, index, sum(splits[:place]), splits[place]))
        return found

    def _jagged(self, batch: Jagged) -> dict[str, JaggedVectors]:
        vectors = self._look_up(batch, pooled=False)
        done = [0] * len(vectors)
        result = {}
        for name, table, start, count in self._keys_of(batch):
            place = batch.features.index(name) * batch.batch
            bags = batch.offsets[place : place + batch.batch + 1] - start
            own = vectors[table][done[table] : done[table] + count]
            result[name] = JaggedVectors(own, bags)
            done[table] += count
        return result

    # --- state ----------------------------------------------------------------------------------

    def get_extra_state(self) -> dict[str, Any]:
        """What ``state_dict()`` has of the tables: rows and states of all, on the host."""
        return {
            "hugectr_collection": 1,
            "steps": self._engine.core.steps(),
            "optimizer": dict(self.opt_params.to_spec()),
            "tables": {table.name: self.rows(table.name).state() for table in self.configs},
        }

    def set_extra_state(self, state: Any) -> None:
        """Take the rows of a ``state_dict()`` in place of those that are there."""
        if not isinstance(state, dict) or state.get("hugectr_collection") != 1:
            raise InvalidArgument("state_dict: its tables are not those of a hugectr collection")
        missing = [table.name for table in self.configs if table.name not in state["tables"]]
        if missing:
            raise InvalidArgument(
                f"state_dict: no table {missing[0]!r}; it has {sorted(state['tables'])}"
            )
        same = state["optimizer"] == dict(self.opt_params.to_spec())
        for table in self.configs:
            self.rows(table.name).set_state(state["tables"][table.name], states=same)
        self._engine.core.set_steps(state["steps"] if same else 0)

    def extra_repr(self) -> str:
        """One line a table."""
        return "\n".join(
            f"{table.name}: {', '.join(table.feature_names)} -> {table.embedding_dim}"
            for table in self.configs
        )


class EmbeddingBagCollection(Collection):
    """Tables whose bags are pooled: a vector a feature and sample.

    As TorchRec's of the same name, with tables that grow with their keys.

    Parameters
    ----------
    tables, optimizer, device, dtype, seed, fused
        As in ``Collection``.
    is_weighted : bool
        Batches have a weight a key, which multiplies its vector, and get a gradient to it.

    Examples
    --------
    >>> import torch
    >>> import hugectr.torch as ht
    >>> bags = ht.EmbeddingBagCollection([ht.TableConfig("item", 4), ht.TableConfig("user", 8)])
    >>> keys = torch.tensor([3, 10**12, 7]), torch.tensor([0, 2, 3])
    >>> vectors = bags({"item": keys, "user": torch.tensor([1, 2])})
    >>> vectors["item"].shape, vectors.values().shape
    (torch.Size([2, 4]), torch.Size([2, 12]))
    """

    def __init__(self, tables: Sequence[Any], *args: Any, is_weighted: bool = False, **kwargs: Any):
        super().__init__(tables, *args, **kwargs)
        self.is_weighted = is_weighted

    def forward(self, batch: Any) -> PooledVectors:
        """Vectors (B, d) of each feature.

        Parameters
        ----------
        batch : KeyedJaggedTensor or object with its fields, or mapping feature -> bags
            As ``hugectr.torch.inputs.jagged`` says.

        Raises
        ------
        InvalidArgument
            When a feature is missing, or weights where they are asked for.
        """
        bags = jagged(batch, self._features)
        if self.is_weighted:
            return PooledVectors(self._weighted(bags))
        vectors = self._look_up(bags, pooled=True)
        result = {}
        for table, own in zip(self.configs, vectors, strict=True):
            for i, name in enumerate(table.feature_names):
                result[name] = own[i * bags.batch : (i + 1) * bags.batch]
        return PooledVectors(result)

    def _weighted(self, batch: Jagged) -> dict[str, torch.Tensor]:
        """Rows of all keys, then their weighted sums: so weights get their gradient by autograd."""
        if batch.weights is None:
            raise InvalidArgument("a batch has no weights, and is_weighted asks for one a key")
        weights = batch.weights.to(self.dtype)
        rows = self._jagged(batch)
        result = {}
        for name, table, start, count in self._keys_of(batch):
            if self.configs[table].pooling != "sum":
                raise InvalidArgument(
                    f"table {self.configs[table].name!r}: is_weighted goes with pooling 'sum'"
                )
            result[name] = functional.embedding_bag(
                torch.arange(count, device=batch.values.device),
                rows[name].values(),
                rows[name].offsets().to(torch.int64),
                mode="sum",
                per_sample_weights=weights[start : start + count],
                include_last_offset=True,
            )
        return result


class EmbeddingCollection(Collection):
    """Tables whose rows stay apart: a vector a key, in the bags of the batch."""

    def forward(self, batch: Any) -> dict[str, JaggedVectors]:
        """Vectors (n, d) of the keys of each feature, with their bags.

        Parameters
        ----------
        batch : KeyedJaggedTensor or object with its fields, or mapping feature -> bags
            As ``hugectr.torch.inputs.jagged`` says.
        """
        return self._jagged(jagged(batch, self._features))


class EmbeddingBag(EmbeddingBagCollection):
    """One table, called as ``torch.nn.EmbeddingBag`` is, with 64-bit keys and rows that come.

    Parameters
    ----------
    embedding_dim : int
    mode : str
        ``"sum"`` or ``"mean"``.
    include_last_offset : bool
        Whether offsets have the number of keys at their end.
    max_rows, initial_bound
        As in ``TableConfig``.
    optimizer, device, dtype, seed, fused
        As in ``Collection``.
    """

    def __init__(
        self,
        embedding_dim: int,
        optimizer: OptParamsPy | None = None,
        *,
        mode: str = "mean",
        include_last_offset: bool = False,
        max_rows: int = 0,
        initial_bound: float = 0.0,
        **kwargs: Any,
    ) -> None:
        table = TableConfig("table", embedding_dim, ("keys",), mode, max_rows, initial_bound)
        super().__init__([table], optimizer, **kwargs)
        self.include_last_offset = include_last_offset

    def forward(
        self,
        batch: torch.Tensor,
        offsets: torch.Tensor | None = None,
        per_sample_weights: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Vectors (B, d).

        Parameters
        ----------
        batch : Tensor, (B, L), or (n,) with offsets
            int64 keys.
        offsets : Tensor, (B,), or (B + 1,) with ``include_last_offset``
        per_sample_weights : Tensor of the shape of the keys, optional
            A factor a key; ``mode="sum"`` only.
        """
        keys = batch
        if offsets is None:
            if keys.dim() != 2:
                raise InvalidArgument(
                    f"EmbeddingBag: keys of shape {tuple(keys.shape)} need offsets, or (B, L)"
                )
            offsets = torch.arange(keys.shape[0] + 1, device=keys.device) * keys.shape[1]
        elif not self.include_last_offset:
            offsets = torch.cat([offsets, offsets.new_full((1,), keys.shape[0])])
        parts = [keys.reshape(-1), offsets]
        if per_sample_weights is not None:
            parts.append(per_sample_weights.reshape(-1))
        bags = jagged({"keys": tuple(parts)}, self._features)
        if per_sample_weights is not None:
            return self._weighted(bags)["keys"]
        return self._look_up(bags, pooled=True)[0]
