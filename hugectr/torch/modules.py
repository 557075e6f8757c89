# SPDX-License-Identifier: Apache-2.0
"""Collections of tables as modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch.nn import functional

from hugectr.base.errors import InvalidArgument
from hugectr.spec.optimizer import OptParamsPy
from hugectr.torch.collection import Collection
from hugectr.torch.configs import TableConfig
from hugectr.torch.inputs import Jagged, PlannedBatch, is_jagged
from hugectr.torch.keys import check_integers, check_offsets, no_tensor, signed
from hugectr.torch.vectors import JaggedVectors, PooledVectors


class EmbeddingBagCollection(Collection):
    """Tables whose bags are pooled: a vector a feature and sample.

    As TorchRec's of the same name, with tables that grow with their keys.

    Parameters
    ----------
    tables, optimizer, device, dtype, seed, fused
        As in ``Collection``.
    is_weighted : bool
        Batches have a weight a key, which multiplies its vector, and get a gradient to it. Tables
        then have pooling ``"sum"``. Without it a batch with weights is an error.

    Raises
    ------
    InvalidArgument
        When ``is_weighted`` comes with a table of pooling ``"mean"``.

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
        self.is_weighted = self._takes_weights = is_weighted
        if is_weighted:
            self._check_pooling()
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
            When a feature is missing, or weights where they are asked for, and when weights are
            there where they are not.
        """
        planned = self._planned(batch)
        if self.is_weighted:
            return PooledVectors(self._weighted(planned))
        (values,) = self._look_up(planned, beside=True)
        return PooledVectors(values, self._feature_dims)

    def _is_pooled(self, bags: Jagged) -> bool:
        return not self.is_weighted

    def _formed(self, batch: Any) -> Jagged:
        bags = super()._formed(batch)
        if self.is_weighted and bags.weights is None:
            raise InvalidArgument("a batch has no weights, and is_weighted asks for one a key")
        return bags

    def _check_pooling(self) -> None:
        for table in self.configs:
            if table.pooling != "sum":
                raise InvalidArgument(
                    f"table {table.name!r}: weights (is_weighted, per_sample_weights) go with "
                    f"pooling 'sum', found {table.pooling!r}"
                )

    def _weighted(self, planned: PlannedBatch) -> dict[str, torch.Tensor]:
        """Rows of all keys, then their weighted sums: so weights get their gradient by autograd."""
        batch = planned.batch
        assert batch.weights is not None  # see _formed()
        rows = self._jagged(planned)
        # Not narrow(): a compiler then can not know that there are as many as there are rows.
        weights = batch.weights.to(self.dtype).split(batch.counted())
        result = {}
        for name, _, _, count in self._keys_of(batch):
            result[name] = functional.embedding_bag(
                torch.arange(count, device=batch.values.device),
                rows[name].values(),
                rows[name].offsets().to(torch.int64),
                mode="sum",
                per_sample_weights=weights[batch.features.index(name)],
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

    def _is_pooled(self, bags: Jagged) -> bool:
        return False


@dataclass(frozen=True)
class _Call:
    """What an ``EmbeddingBag`` was called with."""

    keys: Any
    offsets: Any
    weights: Any


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
        _check_as_of_torch(optimizer, kwargs)
        table = TableConfig("table", embedding_dim, ("keys",), mode, max_rows, initial_bound)
        super().__init__([table], optimizer, **kwargs)
        self._takes_weights = True
        self.embedding_dim, self.mode = embedding_dim, mode
        self.include_last_offset = include_last_offset

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> Self:
        """Refused: rows are imported into a table that is there."""
        raise InvalidArgument(
            "EmbeddingBag has no from_pretrained: make one, EmbeddingBag(weight.shape[1], ...), "
            "and hugectr.torch.import_embedding_bag(bag, weight) takes the rows; bag.freeze() "
            "keeps them as they are"
        )

    def __getattr__(self, name: str) -> Any:
        """What a module has; of what ``nn.EmbeddingBag`` has beside it, what there is instead."""
        instead = _ATTRIBUTES_OF_TORCH.get(name)
        if instead is not None:
            raise AttributeError(f"EmbeddingBag has no {name!r}: {instead}")
        return super().__getattr__(name)

    def forward(
        self, input: Any, offsets: Any = None, per_sample_weights: Any = None
    ) -> torch.Tensor:
        """Vectors (B, d).

        Parameters
        ----------
        input : Tensor, (B, L), or (n,) with offsets, or nested with a list of keys a sample
            int64 keys; or a tuple of all arguments, (keys, offsets) or (keys, offsets, weights); or
            a mapping or an object as ``EmbeddingBagCollection`` takes it, whose one feature is
            ``"keys"``; or what ``prefetch`` returned.
        offsets : Tensor, (B,), or (B + 1,) with ``include_last_offset``
        per_sample_weights : Tensor of the shape of the keys, optional
            A factor a key; ``mode="sum"`` only, and not of nested keys.

        Raises
        ------
        InvalidArgument
            When these do not go together.
        """
        planned = self._planned(_called(input, offsets, per_sample_weights))
        if planned.batch.weights is not None:
            return self._weighted(planned)["keys"]
        return self._look_up(planned)[0]

    def prefetch(
        self, input: Any, offsets: Any = None, per_sample_weights: Any = None
    ) -> PlannedBatch:
        """Look keys up ahead of the forward that uses them; see ``Collection.prefetch``.

        Parameters
        ----------
        input, offsets, per_sample_weights
            As forward takes them.

        Returns
        -------
        PlannedBatch
            To be given to forward, alone.
        """
        return super().prefetch(_called(input, offsets, per_sample_weights))

    def _is_pooled(self, bags: Jagged) -> bool:
        return bags.weights is None

    def _formed(self, batch: Any) -> Jagged:
        if isinstance(batch, _Call):
            batch = {"keys": self._bags_of(batch)}
        bags = Collection._formed(self, batch)  # weights are there, or not
        if bags.weights is not None:
            self._check_pooling()
        return bags

    def _bags_of(self, call: _Call) -> Any:
        """Bags as collections take them, of what they are to ``nn.EmbeddingBag``."""
        keys, offsets, weights = call.keys, call.offsets, call.weights
        for what, found in (("input", keys), ("offsets", offsets), ("per_sample_weights", weights)):
            if not isinstance(found, torch.Tensor) and (found is not None or what == "input"):
                raise InvalidArgument(f"EmbeddingBag: {what} is a tensor, {no_tensor(found)}")
        check_integers("keys", keys)
        if keys.is_nested:
            if offsets is not None or weights is not None:
                raise InvalidArgument(
                    "EmbeddingBag: nested keys have their own offsets, and no per_sample_weights; "
                    "give keys, offsets and weights"
                )
            return keys
        if weights is not None and (weights.is_nested or weights.shape != keys.shape):
            shape = "nested" if weights.is_nested else tuple(weights.shape)
            raise InvalidArgument(
                "EmbeddingBag: per_sample_weights must have the same shape as the input, "
                f"{tuple(keys.shape)}, found {shape}"
            )
        if keys.dim() != (2 if offsets is None else 1):
            raise InvalidArgument(
                f"EmbeddingBag: keys have shape {tuple(keys.shape)}; they are (n,) with offsets, "
                "or (B, L) without"
            )
        if offsets is None:
            offsets = torch.arange(keys.shape[0] + 1, device=keys.device) * keys.shape[1]
        elif not self.include_last_offset:
            check_offsets("keys", offsets, "(B,)")
            offsets = signed(offsets)
            offsets = torch.cat([offsets, offsets.new_full((1,), keys.shape[0])])
        if weights is None:
            return keys.reshape(-1), offsets
        return keys.reshape(-1), offsets, weights.reshape(-1)


#: Arguments of ``nn.EmbeddingBag`` that there are not here, and what there is instead.
_OF_TORCH = {
    "num_embeddings": "rows come with their keys, and max_rows= limits them",
    "padding_idx": "leave the key out of its bags",
    "max_norm": "CreateOptimizer(weight_decay=, l2=) keep rows small",
    "norm_type": "CreateOptimizer(weight_decay=, l2=) keep rows small",
    "scale_grad_by_freq": "mode='mean', or weights of a key's own",
    "sparse": "gradients are always those of the rows of a batch",
    "_weight": "hugectr.torch.import_embedding_bag takes one",
}

#: Attributes of ``nn.EmbeddingBag`` that there are not here, and what there is instead.
_ATTRIBUTES_OF_TORCH = {
    "weight": "rows are no parameter: rows() reads and writes them, optimizer(lr) trains them, "
    "hugectr.torch.import_embedding_bag and export_embedding_bag take a weight and make one",
    "num_embeddings": "rows come with their keys, and len(bag.rows()) counts them",
}

#: What a table of a collection can be made with, and an ``EmbeddingBag`` can not.
_OF_CONFIGS = ("memory", "placement", "vector_type")


def _check_as_of_torch(optimizer: Any, more: Mapping[str, Any]) -> None:
    """Complains about what ``nn.EmbeddingBag`` is made with, and this one is not."""
    if isinstance(optimizer, int):
        raise InvalidArgument(
            f"EmbeddingBag: found {optimizer!r} for its optimizer: it is made without "
            "num_embeddings, EmbeddingBag(embedding_dim, hugectr.CreateOptimizer(...)); "
            + _OF_TORCH["num_embeddings"]
        )
    for name, instead in _OF_TORCH.items():
        if name in more:
            raise InvalidArgument(f"EmbeddingBag has no {name}=: {instead}")
    for name in _OF_CONFIGS:
        if name in more:
            raise InvalidArgument(
                f"EmbeddingBag has no {name}=: hugectr.torch.TableConfig has it, of "
                "EmbeddingBagCollection([TableConfig(name, embedding_dim, ...)], optimizer)"
            )


def _called(keys: Any, offsets: Any, weights: Any) -> Any:
    """What a collection is asked with, of the arguments of an ``EmbeddingBag``."""
    if isinstance(keys, tuple) and len(keys) in (2, 3) and offsets is None and weights is None:
        return _Call(*keys, *[None] * (3 - len(keys)))
    if isinstance(keys, torch.Tensor):  # which torch.compile of 2.4 does not ask for attributes
        return _Call(keys, offsets, weights)
    keyed = isinstance(keys, (PlannedBatch, Mapping)) or callable(getattr(keys, "keys", None))
    if not (keyed or is_jagged(keys)):
        return _Call(keys, offsets, weights)
    if offsets is not None or weights is not None:
        raise InvalidArgument(
            f"EmbeddingBag: {type(keys).__name__} has its own offsets and weights; give it alone"
        )
    return keys
