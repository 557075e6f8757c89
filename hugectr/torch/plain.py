# SPDX-License-Identifier: Apache-2.0
"""Rows to and from tables of plain PyTorch, whose keys are row numbers."""

from __future__ import annotations

import torch

from hugectr.base import log
from hugectr.base.arguments import check_int
from hugectr.base.errors import InvalidArgument
from hugectr.torch.collection import Collection
from hugectr.torch.modules import EmbeddingCollection
from hugectr.torch.outside_of_torch import check_collection

#: What a plain table may do beside what its weight says, and what there is instead.
_BESIDE_WEIGHT = {
    "padding_idx": "it is a key as any, which trains and counts: leave it out of the bags",
    "max_norm": "rows keep their norms: CreateOptimizer(weight_decay=, l2=) keep them small",
    "scale_grad_by_freq": "gradients are sums: use mode='mean', or weights of a key's own",
}


def import_embedding_bag(
    collection: Collection,
    source: torch.nn.Embedding | torch.nn.EmbeddingBag | torch.Tensor,
    table: str | None = None,
) -> None:
    """Take the rows of a plain table: row i becomes the row of key i.

    A warning says what else a module does (``padding_idx``, ``max_norm``, ``scale_grad_by_freq``,
    another ``mode``), for which there is no place in a table; its ``weight`` comes without one.

    Parameters
    ----------
    collection : EmbeddingBag, EmbeddingBagCollection or EmbeddingCollection
    source : nn.EmbeddingBag, nn.Embedding, or their ``weight``, (rows, d)
    table : str, optional
        Name of the table to write to; may be left out where there is one.

    Raises
    ------
    InvalidArgument
        When the vectors have another length, are not finite, or are spread over processes.
    """
    check_collection("import_embedding_bag", collection)
    if not isinstance(getattr(source, "weight", source), torch.Tensor):
        raise InvalidArgument(
            "import_embedding_bag takes an nn.Embedding, an nn.EmbeddingBag or its weight, found "
            f"{type(source).__name__}: of a state_dict give the tensor, state['bag.weight']"
        )
    weight = source if isinstance(source, torch.Tensor) else source.weight
    if hasattr(weight, "full_tensor") or hasattr(weight, "local_shards"):
        raise InvalidArgument(
            f"import_embedding_bag: found a {type(weight).__name__}, of which each process has a "
            "part: gather it first (of a DTensor weight.full_tensor())"
        )
    count = weight.shape[0] if weight.dim() else 0
    collection.rows(table).write(torch.arange(count, device="cpu"), weight.detach())
    if weight is not source and collection._engine.group.rank == 0:
        _warn_of_module(source, collection, table)


def _warn_of_module(
    source: torch.nn.Embedding | torch.nn.EmbeddingBag, collection: Collection, table: str | None
) -> None:
    """Says what a plain table does that its rows do not in the collection."""
    name = type(source).__name__
    lost = [
        f"{setting}={value}: {instead}"
        for setting, instead in _BESIDE_WEIGHT.items()
        if (value := getattr(source, setting, None)) is not None and value is not False
    ]
    own = collection.configs[0 if table is None else collection._index(table)]
    mode = getattr(source, "mode", own.pooling)
    if mode != own.pooling and not isinstance(collection, EmbeddingCollection):
        lost.append(f"mode={mode!r}: table {own.name!r} pools by {own.pooling!r}")
    if lost:
        log.warning(
            f"import_embedding_bag: table {own.name!r} has the rows of the {name}, and not its "
            + "; ".join(lost)
        )


def export_embedding_bag(
    collection: Collection, num_embeddings: int, table: str | None = None
) -> torch.Tensor:
    """The weight of a plain table: row i has the vector of key i, zeros where there is none.

    Parameters
    ----------
    collection : EmbeddingBag, EmbeddingBagCollection or EmbeddingCollection
    num_embeddings : int
        Rows of the result.
    table : str, optional
        Name of the table to read; may be left out where there is one.

    Returns
    -------
    Tensor, (num_embeddings, d)
        float32, on the host.

    Raises
    ------
    InvalidArgument
        When the table has a key that is no row number of the result.
    """
    check_collection("export_embedding_bag", collection)
    check_int("export_embedding_bag: num_embeddings", num_embeddings, 0)
    keys, vectors = collection.rows(table).read()
    outside = keys[(keys < 0) | (keys >= num_embeddings)]
    if len(outside):
        raise InvalidArgument(
            f"export_embedding_bag: the table has key {int(outside[0])}, a plain one of "
            f"{num_embeddings} rows has no place for it"
        )
    weight = torch.zeros(num_embeddings, vectors.shape[1], dtype=vectors.dtype, device="cpu")
    weight[keys] = vectors
    return weight
