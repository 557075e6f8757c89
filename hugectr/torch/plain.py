# SPDX-License-Identifier: Apache-2.0
"""Rows to and from tables of plain PyTorch, whose keys are row numbers."""

from __future__ import annotations

import torch

from hugectr.base.arguments import check_int
from hugectr.base.errors import InvalidArgument
from hugectr.torch.collection import Collection
from hugectr.torch.outside_of_torch import check_collection


def import_embedding_bag(
    collection: Collection,
    source: torch.nn.Embedding | torch.nn.EmbeddingBag | torch.Tensor,
    table: str | None = None,
) -> None:
    """Take the rows of a plain table: row i becomes the row of key i.

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
