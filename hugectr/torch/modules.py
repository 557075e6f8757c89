# SPDX-License-Identifier: Apache-2.0
"""Collections of tables as modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

from hugectr.base.errors import InvalidArgument
from hugectr.spec.optimizer import OptParamsPy
from hugectr.torch.collection import Collection
from hugectr.torch.configs import TableConfig
from hugectr.torch.inputs import PlannedBatch, jagged
from hugectr.torch.vectors import JaggedVectors, PooledVectors


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
        self._feature_dims = {
            name: table.embedding_dim for table in self.configs for name in table.feature_names
        }

    def forward(self, batch: Any) -> PooledVectors:
        """Vectors (B, d) of each feature.

        Parameters
        ----------
        batch : KeyedJaggedTensor or object with its fields, or mapping feature -> bags
            As ``hugectr.torch.inputs.jagged`` says; or what ``prefetch`` returned.

        Raises
        ------
        InvalidArgument
            When a feature is missing, or weights where they are asked for.
        """
        planned = self._planned(batch)
        if self.is_weighted:
            return PooledVectors(self._weighted(planned))
        (values,) = self._look_up(planned, beside=True)
        return PooledVectors(values, self._feature_dims)

    def _is_pooled(self) -> bool:
        return not self.is_weighted

    def _weighted(self, planned: PlannedBatch) -> dict[str, torch.Tensor]:
        """Rows of all keys, then their weighted sums: so weights get their gradient by autograd."""
        batch = planned.batch
        if batch.weights is None:
            raise InvalidArgument("a batch has no weights, and is_weighted asks for one a key")
        weights = batch.weights.to(self.dtype)
        rows = self._jagged(planned)
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
            As ``hugectr.torch.inputs.jagged`` says; or what ``prefetch`` returned.
        """
        return self._jagged(self._planned(batch))

    def _is_pooled(self) -> bool:
        return False


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
        batch: torch.Tensor | PlannedBatch,
        offsets: torch.Tensor | None = None,
        per_sample_weights: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Vectors (B, d).

        Parameters
        ----------
        batch : Tensor, (B, L), or (n,) with offsets
            int64 keys; or what ``prefetch`` returned.
        offsets : Tensor, (B,), or (B + 1,) with ``include_last_offset``
        per_sample_weights : Tensor of the shape of the keys, optional
            A factor a key; ``mode="sum"`` only.
        """
        if isinstance(batch, PlannedBatch):
            return self._look_up(batch)[0]
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
            return self._weighted(PlannedBatch(bags, pooled=False))["keys"]
        return self._look_up(PlannedBatch(bags, pooled=True))[0]
