# SPDX-License-Identifier: Apache-2.0
"""An embedding collection as tables and layers: what a model is made of.

A table becomes a ``SparseEmbedding`` that reads the inputs of all its look-ups, so that they share
its rows; layers that only change shapes, and cost nothing, cut its vectors into tops.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from hugectr.base.errors import InvalidArgument
from hugectr.spec.embedding import SparseEmbedding
from hugectr.spec.embedding_collection import (
    EmbeddingCollectionConfig,
    EmbeddingTableConfig,
    Lookup,
)
from hugectr.spec.enums import CompressionStrategy, Embedding_t, Layer_t
from hugectr.spec.initializers import Uniform
from hugectr.spec.input import DataReaderSparseParam
from hugectr.spec.layers import DenseLayer
from hugectr.spec.placement import Placement

_EXCHANGES = {CompressionStrategy.Reduction: "pooled", CompressionStrategy.Unique: "unique"}


@dataclass
class CollectionParts:
    """What a collection adds to a model.

    Attributes
    ----------
    embeddings : list of SparseEmbedding
        One a table, called as it is.
    layers : list of DenseLayer
    """

    embeddings: list[SparseEmbedding]
    layers: list[DenseLayer]


class _Table:
    """A table and its look-ups."""

    def __init__(self, config: EmbeddingTableConfig) -> None:
        self.config = config
        self.lookups: list[tuple[Lookup, DataReaderSparseParam]] = []

    @property
    def combiner(self) -> str:
        """That of the look-ups; where slots have one key, all are the same."""
        choices = {lookup.combiner for lookup, param in self.lookups if param.max_nnz > 1}
        if len(choices) > 1:
            raise InvalidArgument(
                f"EmbeddingTableConfig {self.config.name!r}: look-ups of several keys a slot ask "
                f"for combiners {sorted(choices)}, allowed: one for all of them; make it two tables"
            )
        return choices.pop() if choices else "sum"

    def embedding(
        self, exchange: str, devices: int, placement: Placement | None
    ) -> SparseEmbedding:
        config = self.config
        vocabulary = config.max_vocabulary_size
        shares = devices if placement is None or placement.kind == "by_key" else 1
        initializer = config.init_param
        if initializer is None and vocabulary > 0:
            initializer = Uniform(math.sqrt(1.0 / vocabulary))
        return SparseEmbedding(
            Embedding_t.DistributedSlotSparseEmbeddingHash,
            embedding_vec_size=config.ev_size,
            combiner=self.combiner,
            sparse_embedding_name=config.name,
            bottom_name=[lookup.bottom for lookup, _ in self.lookups],
            optimizer=config.opt_params,
            max_vocabulary_size_per_gpu=-(-vocabulary // shares) if vocabulary > 0 else 0,
            exchange=exchange,
            initializer=initializer,
            placement=placement,
            vector_type=config.vector_type,
        )


def collection_parts(
    collection: EmbeddingCollectionConfig,
    sparse_param: Callable[[str], DataReaderSparseParam | None],
    devices: int,
) -> CollectionParts:
    """The tables and layers of a collection.

    Parameters
    ----------
    collection : EmbeddingCollectionConfig
    sparse_param : callable
        Name of a sparse input -> what it is, or None.
    devices : int
        Global number: each may hold its share of ``max_vocabulary_size`` rows, or all of them
        where the table is not split.

    Raises
    ------
    InvalidArgument
        An unknown input, combiners that one table can not have, a shard_matrix of other devices.
    """
    if not collection.tops:
        raise InvalidArgument("EmbeddingCollectionConfig: no embedding_lookup was made")
    if collection.shard_matrix is not None and len(collection.shard_matrix) != devices:
        raise InvalidArgument(
            f"EmbeddingCollectionConfig.shard: shard_matrix has {len(collection.shard_matrix)} "
            f"rows, allowed: one for each of the {devices} devices of vvgpu"
        )
    tables = {config.name: _Table(config) for config in collection.tables}
    late = [name for name in tables if name not in collection.strategies]
    if collection.shard_matrix is not None and late:
        raise InvalidArgument(
            f"EmbeddingCollectionConfig.shard: it does not name {late}, whose embedding_lookup "
            "came behind it: call shard when all look-ups are made"
        )
    # Number of a look-up among those of its table, by top and place there.
    numbers: dict[tuple[int, int], int] = {}
    for t, top in enumerate(collection.tops):
        for i, lookup in enumerate(top.lookups):
            param = sparse_param(lookup.bottom)
            if param is None:
                raise InvalidArgument(
                    f"embedding_lookup {top.name!r}: bottom_name is {lookup.bottom!r}, allowed: a "
                    "sparse input of the model"
                )
            table = tables[lookup.table.name]
            numbers[t, i] = len(table.lookups)
            table.lookups.append((lookup, param))
    compressions = collection.compressions
    embeddings = [
        table.embedding(
            _EXCHANGES[compressions[name]] if name in compressions else "auto",
            devices,
            collection.placement(name),
        )
        for name, table in tables.items()
    ]
    layers: list[DenseLayer] = []
    parts = {name: _cut(table, layers) for name, table in tables.items()}
    for t, top in enumerate(collection.tops):
        pieces = [parts[one.table.name][numbers[t, i]] for i, one in enumerate(top.lookups)]
        if top.flat:
            layers.append(_joined(top.name, pieces))
        else:
            layers.append(
                DenseLayer(
                    Layer_t.Reshape,
                    [pieces[0].name],
                    [top.name],
                    leading_dim=pieces[0].vec_size,
                    time_step=pieces[0].vectors,
                )
            )
    return CollectionParts(embeddings, layers)


@dataclass(frozen=True)
class _Piece:
    """Vectors of one look-up: a tensor (batch, vectors * vec_size)."""

    name: str
    vectors: int
    vec_size: int


def _cut(table: _Table, layers: list[DenseLayer]) -> list[_Piece]:
    """Pieces of a table's vectors, one a look-up, with the layers that make them."""
    name, size = table.config.name, table.config.ev_size
    counts = [_vectors(table, param) for _, param in table.lookups]
    flat = f"{name}_flat"
    layers.append(DenseLayer(Layer_t.Reshape, [name], [flat], leading_dim=sum(counts) * size))
    if len(counts) == 1:
        return [_Piece(flat, counts[0], size)]
    pieces = [_Piece(f"{name}_lookup{i}", count, size) for i, count in enumerate(counts)]
    ranges, at = [], 0
    for piece in pieces:
        ranges.append((at, at + piece.vectors * size))
        at = ranges[-1][1]
    names = [piece.name for piece in pieces]
    layers.append(DenseLayer(Layer_t.Slice, [flat], names, ranges=ranges))
    return pieces


def rename_tensor(table: SparseEmbedding, layers: list[DenseLayer], name: str) -> None:
    """Call a table's tensor otherwise, for the layers of its collection too, which read it."""
    for layer in layers:
        layer.bottom_names = [name if one == table.top_name else one for one in layer.bottom_names]
    table.top_name = name


def _vectors(table: _Table, param: DataReaderSparseParam) -> int:
    """How many vectors of a sample a look-up gives."""
    if table.combiner != "concat":
        return param.slot_num
    return sum(param.nnz_per_slot)


def _joined(name: str, pieces: list[_Piece]) -> DenseLayer:
    """One tensor of the pieces side by side."""
    if len(pieces) > 1:
        return DenseLayer(Layer_t.Concat, [piece.name for piece in pieces], [name])
    width = pieces[0].vectors * pieces[0].vec_size
    return DenseLayer(Layer_t.Reshape, [pieces[0].name], [name], leading_dim=width)
